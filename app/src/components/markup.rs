//! Markup as text, for panels that are drawn as a whole: [`Drawn`](crate::components) or an island puts it on the page.
//!
//! Views whose every element has a type of its own are heavy, and the page has to be light. What the
//! program has written goes in by [`Markup::raw`], which takes nothing else; names and numbers go in by
//! [`Markup::text`], which escapes them.

use highwater_core::Bytes;

use crate::words::format;

/// A picture of a cross.
pub(crate) const CLOSE: &str = "<svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
    <path d=\"M4 4l8 8M12 4l-8 8\"/></svg>";

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

    /// Text with `code` in it.
    pub(crate) fn prose(&mut self, text: &str) -> &mut Self {
        for (at, part) in text.split('`').enumerate() {
            if at % 2 == 1 {
                self.around("<code>", part, "</code>");
            } else {
                self.text(part);
            }
        }
        self
    }

    /// A size as it is shown everywhere: short, with the exact one behind it.
    pub(crate) fn size(&mut self, bytes: Bytes) -> &mut Self {
        self.around("<data class=\"byte-size\" value=\"", &bytes.0.to_string(), "\" title=\"");
        self.around("", &format::exact(bytes), "\">").around("", &bytes.to_string(), "</data>")
    }

    /// A button: what it does, and what it says.
    pub(crate) fn button(&mut self, class: &'static str, act: &str, label: &str) -> &mut Self {
        self.raw("<button type=\"button\" class=\"").raw(class).raw("\" id=\"").text(act);
        self.raw("\" data-act=\"").text(act).around("\">", label, "</button>")
    }

    /// Begins a button whose name is not what is in it.
    pub(crate) fn labelled(&mut self, class: &'static str, act: &str, name: &str) -> &mut Self {
        self.raw("<button type=\"button\" class=\"").raw(class).raw("\" id=\"").text(act);
        self.raw("\" data-act=\"").text(act).around("\" aria-label=\"", name, "\">")
    }

    /// A button with a cross: it closes, dismisses, forgets.
    pub(crate) fn cross(&mut self, class: &'static str, act: &str, name: &str) -> &mut Self {
        self.labelled(class, act, name).raw(CLOSE).raw("</button>")
    }

    /// Something to unfold, whose name tells it from others of the panel.
    pub(crate) fn unfold(&mut self, id: &str, summary: &str) -> &mut Self {
        self.raw("<details id=\"").text(id).around("\"><summary>", summary, "</summary>")
    }

    /// Lines of code, and a button that copies them.
    pub(crate) fn code(&mut self, code: &str, copy: &str) -> &mut Self {
        self.raw("<div class=\"code-block\"><pre tabindex=\"0\"><code>").text(code);
        self.raw("</code></pre><button type=\"button\" class=\"button\" data-act=\"copy\">");
        self.text(copy).raw("</button></div>")
    }

    /// All of it.
    pub(crate) fn done(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::Bytes;

    use super::Markup;

    #[test]
    fn a_size_has_the_exact_one_behind_it() {
        let mut markup = Markup::default();
        markup.size(Bytes::mib(98));
        assert_eq!(
            markup.done(),
            "<data class=\"byte-size\" value=\"102760448\" title=\"102,760,448 bytes\">98.00 MiB</data>"
        );
    }

    #[test]
    fn what_is_not_the_programs_is_escaped() {
        let mut markup = Markup::default();
        markup.around("<p title=\"x\">", "a<b & \"c\">", "</p>");
        markup.button("button", "go:\"1\"", "Go <on>");
        assert_eq!(
            markup.done(),
            "<p title=\"x\">a&lt;b &amp; &quot;c&quot;&gt;</p><button type=\"button\" class=\"button\" \
             id=\"go:&quot;1&quot;\" data-act=\"go:&quot;1&quot;\">Go &lt;on&gt;</button>"
        );
    }
}
