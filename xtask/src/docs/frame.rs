//! What is around each page of the documentation: the bar, the list of pages, and the contents.

use super::content::{Content, escaped};
use super::set::{INDEX, relative};

/// COUNT: headings from which on a page has contents.
const CONTENTS_MIN: usize = 3;
/// COUNT: letters of a description, at most.
const DESCRIPTION_MAX: usize = 160;

/// What the pages may load: their own origin, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'";

/// A list of pages: a title, and names with addresses.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) links: Vec<(String, String)>,
}

/// Names of files at the root of the page.
#[derive(Debug)]
pub(super) struct Assets {
    pub(super) style: String,
    pub(super) script: String,
    /// The texts that search looks through.
    pub(super) index: String,
}

/// A whole page.
pub(super) fn page(address: &str, content: &Content, groups: &[Group], assets: &Assets) -> String {
    let to = |target: &str| relative(address, target);
    let title = escaped(content.title());
    let first = content.sections.first().map_or("", |section| &section.text);
    let description = escaped(&shortened(first));
    let (style, script, index) = (to(&assets.style), to(&assets.script), to(&assets.index));
    let (icon, home) = (to("icon.svg"), to(INDEX));
    let estimator = relative(address, "index.html");
    let estimator = estimator.trim_end_matches("index.html");
    let (contents, pages) = (contents(content), list(address, groups));
    let body = &content.body;
    format!(
        "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\" />
<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\" />
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />
<meta name=\"color-scheme\" content=\"light dark\" />
<meta name=\"description\" content=\"{description}\" />
<title>{title} · Highwater</title>
<link rel=\"icon\" href=\"{icon}\" type=\"image/svg+xml\" />
<link rel=\"stylesheet\" href=\"{style}\" />
<script src=\"{script}\" data-index=\"{index}\"></script>
</head>
<body class=\"docs\">
<a class=\"skip\" href=\"#main\">Skip to the text</a>
<header class=\"docs-bar\">
<a class=\"docs-name\" href=\"{home}\"><img src=\"{icon}\" alt=\"\" width=\"24\" height=\"24\" />Highwater <span>docs</span></a>
<div role=\"search\" class=\"docs-search\" hidden>
<input id=\"search\" type=\"search\" placeholder=\"Search\" aria-label=\"Search the documentation\" autocomplete=\"off\" spellcheck=\"false\" aria-controls=\"found\" />
<div id=\"found\" class=\"docs-found\"><p role=\"status\"></p><ol></ol></div>
</div>
<a class=\"docs-to-pages\" href=\"#pages\">All pages</a>
<a class=\"docs-button\" href=\"{estimator}\">Open the estimator</a>
</header>
<div class=\"docs-columns\">
<main id=\"main\" tabindex=\"-1\">
{contents}<article>
{body}</article>
</main>
<nav id=\"pages\" class=\"docs-pages\" aria-label=\"All pages\">
{pages}</nav>
</div>
</body>
</html>
"
    )
}

/// The headings of a page, as links; a page with few has none.
fn contents(content: &Content) -> String {
    let sections = content.sections.iter().filter(|section| section.level == 2);
    let links = sections.map(|section| {
        let (id, heading) = (escaped(&section.id), escaped(&section.heading));
        format!("<li><a href=\"#{id}\">{heading}</a></li>\n")
    });
    let links: Vec<String> = links.collect();
    if links.len() < CONTENTS_MIN {
        return String::new();
    }
    let links = links.concat();
    format!(
        "<nav class=\"docs-contents\" aria-label=\"On this page\">\n<details open>\n<summary>On this page</summary>\n\
         <ul>\n{links}</ul>\n</details>\n</nav>\n"
    )
}

/// The list of all pages, in groups.
fn list(address: &str, groups: &[Group]) -> String {
    let groups = groups.iter().map(|Group { title, links: of_group }| {
        format!("<h2>{}</h2>\n{}", escaped(title), links(address, of_group))
    });
    groups.collect()
}

/// A list of links on a page. That of the page itself is marked.
pub(super) fn links(address: &str, links: &[(String, String)]) -> String {
    let items = links.iter().map(|(name, target)| {
        let current = if target == address { " aria-current=\"page\"" } else { "" };
        let (href, name) = (relative(address, target), escaped(name));
        format!("<li><a href=\"{href}\"{current}>{name}</a></li>\n")
    });
    format!("<ul>\n{}</ul>\n", items.collect::<String>())
}

/// The beginning of a text, cut between words.
fn shortened(text: &str) -> String {
    let mut short = String::new();
    for word in text.split_whitespace() {
        if short.chars().count() + word.chars().count() >= DESCRIPTION_MAX {
            return short + "…";
        }
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::{Assets, Content, Group, page, shortened};

    #[test]
    fn a_page_has_its_frame() {
        let mut content = Content::default();
        content.heading(1, "A < B");
        content.paragraph("text");
        for heading in ["One", "Two", "Three"] {
            content.heading(2, heading);
        }
        let links = ["a", "b"].map(|name| (name.to_owned(), format!("docs/lessons/{name}.html")));
        let groups = [Group { title: "Lessons".to_owned(), links: links.to_vec() }];
        let name = str::to_owned;
        let assets = Assets { style: name("s.css"), script: name("s.js"), index: name("s.json") };
        let page = page("docs/lessons/a.html", &content, &groups, &assets);
        for part in [
            "<title>A &lt; B · Highwater</title>",
            "<meta name=\"description\" content=\"text\" />",
            "href=\"../../s.css\"",
            "<script src=\"../../s.js\" data-index=\"../../s.json\"></script>",
            "<a class=\"docs-button\" href=\"../../\">",
            "<li><a href=\"#two\">Two</a></li>",
            "<li><a href=\"a.html\" aria-current=\"page\">a</a></li>",
            "<li><a href=\"b.html\">b</a></li>",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }

    #[test]
    fn descriptions_end_between_words() {
        assert_eq!(shortened("a  b"), "a b");
        let long = shortened(&"word ".repeat(99));
        assert!(long.ends_with("word…") && long.chars().count() <= 160, "{long}");
    }
}
