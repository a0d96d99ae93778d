//! The texts that search looks through: every section of every page.
//!
//! It is a list of pages, `[title, address, [[heading, id, text], …]]`, and no index of words: the script reads all of
//! it in milliseconds, finds parts of words too, and has the text for excerpts.

use std::collections::BTreeMap;

use super::content::Content;
use crate::process::{Result, While as _};

/// Writes the texts of all pages, whose addresses are shortened to those below `docs/`.
pub(super) fn json(contents: &BTreeMap<String, Content>) -> Result<String> {
    let pages: Vec<_> = contents
        .iter()
        .map(|(address, content)| {
            let sections: Vec<_> = content
                .sections
                .iter()
                .map(|it| {
                    let text = it.text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let id = if it.level == 1 { "" } else { &it.id };
                    (&it.heading, id, text)
                })
                .collect();
            (content.title(), address.strip_prefix("docs/").unwrap_or(address), sections)
        })
        .collect();
    serde_json::to_string(&pages).during("writing the texts for search")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::content::Content;
    use super::json;

    #[test]
    fn sections_are_listed_with_their_texts() {
        let mut content = Content::default();
        content.heading(1, "T");
        content.paragraph("a  \"b\"");
        content.heading(2, "S");
        let contents = BTreeMap::from([("docs/t.html".to_owned(), content)]);
        let expected = r#"[["T","t.html",[["T","","a \"b\""],["S","s",""]]]]"#;
        assert_eq!(json(&contents).expect("texts"), expected);
    }
}
