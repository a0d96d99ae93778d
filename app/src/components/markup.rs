//! Markup as text, for panels that are drawn as a whole: [`Drawn`](crate::components) or an island puts it on the page.
//!
//! Views whose every element has a type of its own are heavy, and the page has to be light. What the
//! program has written goes in by [`Markup::raw`], which takes nothing else; names and numbers go in by
//! [`Markup::text`], which escapes them.

/// Markup under construction.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Tags and attributes.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text, or the value of an attribute in double quotes.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                letter => self.0.push(letter),
            }
        }
        self
    }

    /// A text between tags: `around("<p>", text, "</p>")`.
    pub(crate) fn around(
        &mut self,
        open: &'static str,
        text: &str,
        close: &'static str,
    ) -> &mut Self {
        self.raw(open).text(text).raw(close)
    }

    /// All of it.
    pub(crate) fn done(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Markup;

    #[test]
    fn what_is_not_the_programs_is_escaped() {
        let mut markup = Markup::default();
        markup.around("<p title=\"x\">", "a<b & \"c\">", "</p>");
        assert_eq!(markup.done(), "<p title=\"x\">a&lt;b &amp; &quot;c&quot;&gt;</p>");
    }
}
