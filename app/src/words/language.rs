//! The languages of the page. English is in the program; any other language is a catalogue of its sentences.
//!
//! [`tr`] looks a text up by its English text. `public/languages/` has a catalogue per language, fetched from the
//! page's origin when somebody chooses it; missing texts stay English. A test compares the catalogues with the
//! program's texts.

use std::cell::RefCell;
use std::fmt::Display;

use highwater_core::config::Setting;
use highwater_core::wording::Sentence;
use js_sys::{JSON, Object, Reflect};
use wasm_bindgen::JsCast as _;
use wasm_bindgen_futures::JsFuture;
use web_sys::Response;

use crate::model::language::Language;
use crate::model::times::Phrase;

thread_local! {
    /// The sentences of the chosen language by the English ones; none for English itself.
    static CATALOGUE: RefCell<Option<Object>> = const { RefCell::new(None) };
}

/// Sets the language of all later texts; returns whether it could.
pub(crate) async fn fetch(language: Language) -> bool {
    let catalogue = match language {
        Language::English => None,
        Language::Chinese => match fetched(language.tag()).await {
            Some(catalogue) => Some(catalogue),
            None => return false,
        },
    };
    CATALOGUE.set(catalogue);
    true
}

async fn fetched(tag: &str) -> Option<Object> {
    let path = format!("languages/{tag}.json");
    let response = JsFuture::from(web_sys::window()?.fetch_with_str(&path)).await.ok()?;
    let response: Response = response.dyn_into().ok().filter(Response::ok)?;
    let text = JsFuture::from(response.text().ok()?).await.ok()?.as_string()?;
    JSON::parse(&text).ok()?.dyn_into().ok()
}

/// A text of the page in the language of the page.
///
/// A text that is composed has its parts in braces, for [`fill`]: languages put them elsewhere.
pub(crate) fn tr(english: &str) -> String {
    let translated = CATALOGUE.with_borrow(|catalogue| {
        let catalogue = catalogue.as_ref()?;
        Reflect::get(catalogue, &english.into()).ok()?.as_string()
    });
    translated.unwrap_or_else(|| english.to_owned())
}

/// A sentence of the core in the language of the page.
pub(crate) fn spoken(sentence: &Sentence) -> String {
    glued(&without_flags(&sentence.text(&tr)))
}

/// A text that has the page's names of settings for the flags of the command line, which stand in backquotes.
fn without_flags(text: &str) -> String {
    let worded = |(at, part): (usize, &str)| {
        let Some(flags) = part.strip_prefix("--").filter(|_| at % 2 == 1) else {
            return if at % 2 == 1 { ["`", part, "`"].concat() } else { part.to_owned() };
        };
        let flags = flags.split(" --").map(|flag| {
            let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
            let value = value.trim_end_matches("=…");
            let name =
                Setting::named(name).map_or_else(|| name.to_owned(), |known| tr(known.label));
            let value = if name == "dim" { return value.to_owned() } else { value };
            if value.is_empty() { name } else { [&name, ": ", value].concat() }
        });
        ["“", &flags.collect::<Vec<_>>().join(", "), "”"].concat()
    };
    // A sentence about the shell keeps them.
    if !text.contains("`--") || text.contains("command line") {
        return text.to_owned();
    }
    text.split('`').enumerate().map(worded).collect()
}

/// A text of another program in the language of the page.
pub(crate) fn phrase(phrase: &Phrase) -> String {
    let parts = phrase.1.iter().map(|(name, part)| (name.as_str(), part as &dyn Display));
    fill(&phrase.0, &parts.collect::<Vec<_>>())
}

/// A text of the page with its parts put in: `fill("peak {size}", &[("size", &size)])`.
pub(crate) fn fill(english: &str, parts: &[(&str, &dyn Display)]) -> String {
    let template = tr(english);
    let mut text = String::new();
    let mut rest = template.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        text.push_str(before);
        let Some((name, behind)) = behind.split_once('}') else {
            rest = behind;
            break;
        };
        if let Some((_, part)) = parts.iter().find(|(known, _)| *known == name) {
            text.push_str(&part.to_string());
        }
        rest = behind;
    }
    text.push_str(rest);
    glued(&text)
}

/// A text in which no line breaks between a number and its unit.
fn glued(text: &str) -> String {
    const UNITS: [&str; 5] = ["%", "KiB", "MiB", "GiB", "TiB"];
    let mut glued = String::with_capacity(text.len() + 8);
    for (at, word) in text.split(' ').enumerate() {
        let is_unit = UNITS.iter().any(|unit| word.starts_with(unit));
        if at > 0 {
            let after_number = glued.ends_with(|last: char| last.is_ascii_digit());
            glued.push(if is_unit && after_number { '\u{a0}' } else { ' ' });
        }
        glued.push_str(word);
    }
    glued
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_where_the_text_has_them() {
        assert_eq!(fill("{n} GPUs of {all}", &[("all", &33), ("n", &31)]), "31 GPUs of 33");
        assert_eq!(fill("Nothing to fill.", &[]), "Nothing to fill.");
        assert_eq!(fill("{unknown}{open", &[]), "open");
    }

    #[test]
    fn flags_are_settings_by_their_names() {
        for (text, shown) in [
            ("set `--capacity` for `x`", "set “total memory” for `x`"),
            (
                "(`--data-parallel fsdp --reshard off`)",
                "(“data parallelism: fsdp, reshard after forward: off”)",
            ),
            ("set it (`--dim L=…`). With it", "set it (“L”). With it"),
            ("on the command line give `--model`", "on the command line give `--model`"),
            ("a - b -- `c --d`", "a - b -- `c --d`"),
        ] {
            assert_eq!(without_flags(text), shown);
        }
    }

    #[test]
    fn a_number_and_its_unit_stay_on_one_line() {
        assert_eq!(
            glued("12.1 of 14.6 GiB, 85 % of it."),
            "12.1 of 14.6\u{a0}GiB, 85\u{a0}% of it."
        );
        assert_eq!(glued("a MiB has 1024 KiB  "), "a MiB has 1024\u{a0}KiB  ");
    }
}
