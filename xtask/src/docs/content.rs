//! What a page of the documentation contains, before it has a frame.

use std::collections::BTreeMap;

/// COUNT: letters of code that stay on one line, at most: they fit on the narrowest screen.
const CODE_UNBROKEN: usize = 28;

/// A page without its frame.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Its HTML.
    pub(super) body: String,
    /// Its headings with the text below each; the first one is the title.
    pub(super) sections: Vec<Section>,
    /// COUNT: how many tables it has.
    tables: usize,
    /// How often each id was asked for.
    ids: BTreeMap<String, usize>,
}

/// A heading and the text below it.
#[derive(Debug)]
pub(super) struct Section {
    /// 1 for the title, up to 6.
    pub(super) level: u8,
    pub(super) heading: String,
    /// Its id within the page.
    pub(super) id: String,
    /// The text, without marks, for search.
    pub(super) text: String,
}

impl Content {
    /// The title of the page.
    pub(super) fn title(&self) -> &str {
        self.sections.first().map_or("", |section| &section.heading)
    }

    /// Whether a link may lead to this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.sections.iter().any(|section| section.id == id)
    }

    /// The id of a heading, as GitHub makes it: the second one of the same name gets a number.
    pub(super) fn id(&mut self, heading: &str) -> String {
        let id = slug(heading);
        let count = self.ids.entry(id.clone()).or_default();
        *count += 1;
        if *count == 1 { id } else { format!("{id}-{}", *count - 1) }
    }

    /// Begins a section; what is read from now on belongs to it.
    pub(super) fn begin(&mut self, level: u8, heading: &str, id: String) {
        let text = String::new();
        self.sections.push(Section { level, heading: heading.to_owned(), id, text });
    }

    /// Begins a section, and writes its heading.
    pub(super) fn heading(&mut self, level: u8, heading: &str) {
        let id = self.id(heading);
        self.html(&format!("<h{level} id=\"{id}\">{}</h{level}>\n", escaped(heading)));
        self.begin(level, heading, id);
    }

    /// Adds HTML.
    pub(super) fn html(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// Adds a paragraph, whose text is escaped; backquotes enclose code.
    pub(super) fn paragraph(&mut self, text: &str) {
        let html = format!("<p>{}</p>\n", with_code(text));
        self.html(&html);
        self.read(text);
    }

    /// Adds text that search finds.
    pub(super) fn read(&mut self, text: &str) {
        if let Some(section) = self.sections.last_mut() {
            for word in text.split_whitespace() {
                if !section.text.is_empty() {
                    section.text.push(' ');
                }
                section.text.push_str(word);
            }
        }
    }

    /// What is around a table, which a keyboard can scroll; each has a name of its own.
    pub(super) fn before_table(&mut self) -> String {
        self.tables += 1;
        let heading = self.sections.last().map_or("", |section| &section.heading);
        format!(
            "<div class=\"docs-scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table {}: {}\">\n<table>\n",
            self.tables,
            escaped(heading)
        )
    }

    /// Adds a table. Columns of numbers are aligned at their ends.
    pub(super) fn table(&mut self, head: &[String], rows: &[Vec<String>]) {
        let is_number: Vec<bool> = (0..head.len())
            .map(|at| {
                let mut cells = rows.iter().filter_map(|row| row.get(at));
                cells.all(|cell| is_number(cell))
            })
            .collect();
        let before = self.before_table().replace("<table>", "<table class=\"docs-dense\">");
        let row = |cells: &[String], tag: &str, scope: &str| {
            let cells = cells.iter().zip(&is_number).map(|(cell, is_number)| {
                let class = if *is_number { " class=\"number\"" } else { "" };
                format!("<{tag}{scope}{class}>{}</{tag}>", escaped(cell))
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let head = row(head, "th", " scope=\"col\"");
        let rows: String = rows.iter().map(|cells| row(cells, "td", "")).collect();
        self.html(&format!(
            "{before}<thead>\n{head}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
        ));
    }
}

/// Whether a cell is for comparing with those above and below it.
fn is_number(cell: &str) -> bool {
    let rest = cell.trim_start_matches(['+', '-', '\u{2212}']);
    matches!(cell, "" | "-" | "=" | "oom" | "fits" | "not\u{a0}modelled")
        || (rest.starts_with(|c: char| c.is_ascii_digit())
            && rest.chars().all(|c| c.is_ascii_digit() || " .,%*=GMKiB\u{2013}".contains(c)))
}

/// A heading's id as GitHub makes it.
pub(super) fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().flat_map(char::to_lowercase);
    let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A text as HTML, also between quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::new();
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            _ => html.push(letter),
        }
    }
    html
}

/// Code within a line, as HTML. Lines break only in code that is long.
pub(super) fn code(text: &str) -> String {
    let class = if text.chars().count() > CODE_UNBROKEN { " class=\"docs-long\"" } else { "" };
    format!("<code{class}>{}</code>", escaped(text))
}

/// A text as HTML; backquotes enclose code.
pub(super) fn with_code(text: &str) -> String {
    let parts = text
        .split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 1 { code(part) } else { escaped(part) });
    parts.collect()
}

/// A text that begins with a capital.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Content, capitalised, code, slug, with_code};

    #[test]
    fn ids_are_those_of_github() {
        let cases = [
            ("Inside another page", "inside-another-page"),
            ("cuDNN 8", "cudnn-8"),
            ("What `levers` do, and don't", "what-levers-do-and-dont"),
            ("a_b - c: d/e", "a_b---c-de"),
        ];
        for (heading, expected) in cases {
            assert_eq!(slug(heading), expected, "{heading}");
        }
        let mut content = Content::default();
        assert_eq!(["Rules", "Rules"].map(|heading| content.id(heading)), ["rules", "rules-1"]);
    }

    #[test]
    fn tables_have_a_head_and_scroll_by_keys() {
        let mut content = Content::default();
        content.heading(2, "A & B");
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        content.table(&row(["model", "MiB"]), &[row(["<a>", "1.5"]), row(["b", "-"])]);
        let expected = "<h2 id=\"a--b\">A &amp; B</h2>\n\
            <div class=\"docs-scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table 1: A &amp; B\">\n<table class=\"docs-dense\">\n\
            <thead>\n<tr><th scope=\"col\">model</th><th scope=\"col\" class=\"number\">MiB</th></tr>\n</thead>\n\
            <tbody>\n<tr><td>&lt;a&gt;</td><td class=\"number\">1.5</td></tr>\n\
            <tr><td>b</td><td class=\"number\">-</td></tr>\n</tbody>\n</table>\n</div>\n";
        assert_eq!(content.body, expected);
    }

    #[test]
    fn texts_become_html() {
        assert_eq!(with_code("`<` is *less*"), "<code>&lt;</code> is *less*");
        let long = "a-".repeat(20);
        assert_eq!(code(&long), format!("<code class=\"docs-long\">{long}</code>"));
        assert_eq!(capitalised("layer specs"), "Layer specs");
    }
}
