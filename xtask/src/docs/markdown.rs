//! Markdown as a page of the documentation.
//!
//! `pulldown-cmark` reads it. Headings get ids, links lead to pages, and tables can be scrolled. Tables are written
//! here, because its own have styles in their elements, which the content security policy of the pages forbids.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::content::{Content, code, escaped};
use super::set::{Reference, Set, Target, copied_to, relative};
use crate::process::{Failure, Result};

/// A page, and what has to be there for it.
#[derive(Debug)]
pub(super) struct Converted {
    /// The page.
    pub(super) content: Content,
    /// Its links to pages.
    pub(super) references: Vec<Reference>,
    /// Files of the checkout that it shows or links to.
    pub(super) copied: BTreeSet<String>,
}

/// Converts the text of a file, which `set` publishes.
///
/// # Errors
/// A link leads to no file, or the text contains HTML or has not one title.
pub(super) fn convert(source: &str, text: &str, set: &Set) -> Result<Converted> {
    let mut writer = Writer {
        source,
        text,
        set,
        address: set.pages.get(source).map_or("", String::as_str),
        events: Vec::new(),
        content: Content::default(),
        references: Vec::new(),
        copied: BTreeSet::new(),
        heading: None,
        links: Vec::new(),
        image: None,
        alignments: Vec::new(),
        column: 0,
        cell: 0,
        is_head: false,
    };
    for (event, span) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        writer.event(event, &span)?;
    }
    let Writer { mut content, events, references, copied, .. } = writer;
    let mut levels = content.sections.iter().map(|section| section.level);
    if levels.next() != Some(1) || levels.any(|level| level == 1) {
        return Err(Failure::new(format!("{source} does not begin with its only title, `# …`")));
    }
    html::push_html(&mut content.body, events.into_iter());
    Ok(Converted { content, references, copied })
}

/// The ids of the headings of a text.
pub(super) fn ids(text: &str) -> BTreeSet<String> {
    let mut content = Content::default();
    let mut heading: Option<String> = None;
    let mut ids = BTreeSet::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                ids.extend(heading.take().map(|heading| content.id(&heading)));
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    ids
}

struct Writer<'a> {
    source: &'a str,
    text: &'a str,
    set: &'a Set,
    /// The address of the page.
    address: &'a str,
    /// What is written.
    events: Vec<Event<'a>>,
    content: Content,
    references: Vec<Reference>,
    copied: BTreeSet<String>,
    /// In a heading: its level, how many events came before it, and its words.
    heading: Option<(HeadingLevel, usize, String)>,
    /// Around the present place: links, and for those to pages which reference it is.
    links: Vec<(bool, Option<usize>)>,
    /// In a picture: its address and its words.
    image: Option<(String, String)>,
    /// How the columns of the table are aligned.
    alignments: Vec<Alignment>,
    /// COUNT: columns before this one.
    column: usize,
    /// Which event began the cell.
    cell: usize,
    /// Whether this is the head of a table.
    is_head: bool,
}

impl<'a> Writer<'a> {
    fn html(&mut self, html: impl Into<CowStr<'a>>) {
        self.events.push(Event::Html(html.into()));
    }

    fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text.get(..span.start).map_or(0, |before| before.matches('\n').count())
    }

    fn event(&mut self, event: Event<'a>, span: &Range<usize>) -> Result<()> {
        match event {
            Event::Text(_) | Event::Code(_) | Event::SoftBreak | Event::HardBreak => {
                self.words(event);
            }
            Event::Html(html) | Event::InlineHtml(html) => self.refuse(&html, span)?,
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            Event::Start(tag) => self.start(tag, span)?,
            Event::End(tag) => self.end(tag),
            other => self.events.push(other),
        }
        Ok(())
    }

    /// Comments mark what a command writes. There is no other HTML: it could break the policy of the page.
    fn refuse(&self, html: &str, span: &Range<usize>) -> Result<()> {
        if html.trim().is_empty() || html.trim_start().starts_with("<!--") {
            return Ok(());
        }
        let (source, line) = (self.source, self.line(span));
        Err(Failure::new(format!("{source}:{line}: HTML is not published: {}", html.trim())))
    }

    fn words(&mut self, event: Event<'a>) {
        let words = match &event {
            Event::Text(text) | Event::Code(text) => text.as_ref(),
            _ => " ",
        };
        if let Some((_, alt)) = &mut self.image {
            alt.push_str(words);
            return;
        }
        for (_, reference) in &self.links {
            if let Some(it) = reference.and_then(|at| self.references.get_mut(at)) {
                it.label.push_str(words);
            }
        }
        if let Some((_, _, heading)) = &mut self.heading {
            heading.push_str(words);
        } else if let Some(section) = self.content.sections.last_mut() {
            // Words that markup splits are found as one.
            section.text.push_str(words);
        }
        self.events.push(match event {
            Event::Code(text) => Event::Html(code(&text).into()),
            other => other,
        });
    }

    fn start(&mut self, tag: Tag<'a>, span: &Range<usize>) -> Result<()> {
        match tag {
            Tag::Heading { level, .. } => {
                self.heading = Some((level, self.events.len(), String::new()));
            }
            Tag::Link { dest_url, .. } => self.link(&dest_url, span)?,
            Tag::Image { dest_url, .. } => {
                let line = self.line(span);
                let Target::File(file) = self.set.target(self.source, line, &dest_url)? else {
                    let source = self.source;
                    let outside = format!("{source}:{line}: {dest_url} is no picture in docs");
                    return Err(Failure::new(outside));
                };
                self.image = Some((relative(self.address, &copied_to(&file)), String::new()));
                self.copied.insert(file);
            }
            Tag::CodeBlock(_) => {
                // What is wider than the page is scrolled, also by keys.
                self.html("<pre tabindex=\"0\"><code>");
            }
            Tag::Table(alignments) => {
                self.alignments = alignments;
                let before = self.content.before_table();
                self.html(before);
            }
            Tag::TableHead => {
                (self.column, self.is_head) = (0, true);
                self.html("<thead>\n<tr>");
            }
            Tag::TableRow => {
                self.column = 0;
                self.html("<tr>");
            }
            Tag::TableCell => {
                let is_number = self.alignments.get(self.column) == Some(&Alignment::Right);
                let tag = if self.is_head { "th scope=\"col\"" } else { "td" };
                let class = if is_number { " class=\"number\"" } else { "" };
                self.cell = self.events.len();
                self.html(format!("<{tag}{class}>"));
            }
            other => self.events.push(Event::Start(other)),
        }
        Ok(())
    }

    fn link(&mut self, link: &str, span: &Range<usize>) -> Result<()> {
        let line = self.line(span);
        let open = |address: &str| format!("<a href=\"{}\">", escaped(address));
        match self.set.target(self.source, line, link)? {
            Target::Page(address, anchor) => {
                let mut href = relative(self.address, &address);
                if !anchor.is_empty() {
                    // Within the page the fragment alone.
                    let page = if address == self.address { "" } else { &*href };
                    href = format!("{page}#{anchor}");
                }
                self.html(open(&href));
                let heading = self.content.sections.last().map(|section| section.heading.clone());
                self.links.push((true, Some(self.references.len())));
                self.references.push(Reference {
                    source: self.source.to_owned(),
                    line,
                    address,
                    anchor,
                    label: String::new(),
                    section: heading.unwrap_or_default(),
                });
            }
            Target::File(file) => {
                self.html(open(&relative(self.address, &copied_to(&file))));
                self.links.push((true, None));
                self.copied.insert(file);
            }
            Target::Web(address) => {
                self.html(open(&address));
                self.links.push((true, None));
            }
            Target::Nowhere => self.links.push((false, None)),
        }
        Ok(())
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                let Some((level, at, heading)) = self.heading.take() else { return };
                let id = self.content.id(&heading);
                let open = format!("<{level} id=\"{id}\">");
                self.events.insert(at, Event::Html(open.into()));
                self.html(format!("</{level}>\n"));
                self.content.begin(level as u8, &heading, id);
            }
            TagEnd::Link => {
                if self.links.pop().is_some_and(|(is_open, _)| is_open) {
                    self.html("</a>");
                }
            }
            TagEnd::Image => {
                if let Some((address, alt)) = self.image.take() {
                    let (address, alt) = (escaped(&address), escaped(&alt));
                    self.html(format!("<img src=\"{address}\" alt=\"{alt}\" />"));
                }
            }
            TagEnd::CodeBlock => self.html("</code></pre>\n"),
            TagEnd::Table => self.html("</tbody>\n</table>\n</div>\n"),
            TagEnd::TableHead => {
                self.is_head = false;
                self.html("</tr>\n</thead>\n<tbody>\n");
            }
            TagEnd::TableRow => self.html("</tr>\n"),
            TagEnd::TableCell => {
                self.column += 1;
                // A heading without words would be read aloud as one.
                let is_empty = self.cell + 1 == self.events.len();
                if let Some(cell) = self.events.get_mut(self.cell).filter(|_| is_empty) {
                    *cell = Event::Html("<td>".into());
                }
                self.html(if self.is_head && !is_empty { "</th>" } else { "</td>" });
            }
            other => self.events.push(Event::End(other)),
        }
        let ends_words = !matches!(tag, TagEnd::Link | TagEnd::Emphasis | TagEnd::Strong);
        if let Some(section) = self.content.sections.last_mut().filter(|_| ends_words) {
            section.text.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::set::tests::set;
    use super::{convert, ids};

    /// The body of a page after its title.
    fn body(markdown: &str) -> String {
        let text = format!("# Title\n\n{markdown}");
        let converted = convert("docs/accuracy.md", &text, &set(None)).expect("it is converted");
        let body = converted.content.body;
        body.strip_prefix("<h1 id=\"title\">Title</h1>\n").expect("the title").to_owned()
    }

    #[test]
    fn markdown_becomes_html() {
        let cases = [
            ("## A `b` c\n", "<h2 id=\"a-b-c\">A <code>b</code> c</h2>\n"),
            ("## A\n\n## A\n", "<h2 id=\"a\">A</h2>\n<h2 id=\"a-1\">A</h2>\n"),
            ("[a](inputs.md#models)\n", "<p><a href=\"inputs.html#models\">a</a></p>\n"),
            ("[a](#title)\n", "<p><a href=\"#title\">a</a></p>\n"),
            ("[`d`](../core/src/device.rs)\n", "<p><code>d</code></p>\n"),
            ("[t](../tests/accuracy.txt)\n", "<p><a href=\"results/accuracy.html\">t</a></p>\n"),
            ("    a < b\n", "<pre tabindex=\"0\"><code>a &lt; b\n</code></pre>\n"),
            ("```sh\nls\n```\n", "<pre tabindex=\"0\"><code>ls\n</code></pre>\n"),
            ("<!-- end -->\n", ""),
            (
                "![So \"it\" is](pictures/page-light.png)\n",
                "<p><img src=\"pictures/page-light.png\" alt=\"So &quot;it&quot; is\" /></p>\n",
            ),
            (
                "| a | n | |\n|---|---:|---|\n| `x` | 1 | |\n",
                "<div class=\"docs-scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table 1: Title\">\n<table>\n\
                 <thead>\n<tr><th scope=\"col\">a</th><th scope=\"col\" class=\"number\">n</th><td></td></tr>\n</thead>\n\
                 <tbody>\n<tr><td><code>x</code></td><td class=\"number\">1</td><td></td></tr>\n</tbody>\n</table>\n</div>\n",
            ),
        ];
        for (markdown, expected) in cases {
            assert_eq!(body(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn what_cannot_be_published_is_refused() {
        let cases = [
            ("# T\n\nx\n[a](no.md)\n", "docs/accuracy.md:4: there is no file docs/no.md"),
            ("# T\n\n<b>x</b>\n", "docs/accuracy.md:3: HTML is not published: <b>"),
            ("text\n", "docs/accuracy.md does not begin with its only title, `# …`"),
            ("# T\n\n# U\n", "docs/accuracy.md does not begin with its only title, `# …`"),
            (
                "# T\n![a](https://a.org/b.png)\n",
                "docs/accuracy.md:2: https://a.org/b.png is no picture in docs",
            ),
        ];
        for (text, expected) in cases {
            let failure = convert("docs/accuracy.md", text, &set(None)).expect_err(text);
            assert_eq!(failure.to_string(), expected);
        }
    }

    #[test]
    fn sections_have_their_text_and_links_their_words() {
        let text = "# T\n\nOne *two*.\n\n## S\n\nthree\n`four` see [the *inputs*](inputs.md)\n";
        let converted = convert("docs/accuracy.md", text, &set(None)).expect("it is converted");
        let sections: Vec<_> = converted.content.sections.iter().collect();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&sections[0].text), "One two.");
        assert_eq!(words(&sections[1].text), "three four see the inputs");
        let reference = &converted.references[0];
        assert_eq!(
            (reference.line, &*reference.section, &*reference.label),
            (8, "S", "the inputs")
        );
    }

    #[test]
    fn ids_of_a_text_are_those_of_its_page() {
        let found: Vec<_> = ids("# A `b`\n## A b\ntext\n").into_iter().collect();
        assert_eq!(found, ["a-b", "a-b-1"]);
    }
}
