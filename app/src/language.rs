//! The languages of the page. English is in the program; any other is a catalogue of its sentences.
//!
//! A text is asked for by what it says in English: [`tr`]. `public/languages/` has a catalogue per
//! language, fetched from where the page came from when somebody chooses it; what it lacks stays
//! English. A test compares the catalogues with the program's texts.

use std::cell::RefCell;
use std::fmt::Display;

use js_sys::{JSON, Object, Reflect};
use wasm_bindgen::JsCast as _;
use wasm_bindgen_futures::JsFuture;
use web_sys::Response;

use crate::kept::{keep, kept};

const KEY: &str = "highwater-language";

thread_local! {
    /// The sentences of the chosen language by the English ones; none for English itself.
    static CATALOGUE: RefCell<Option<Object>> = const { RefCell::new(None) };
}

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// English.
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// All of them, in the order in which they are offered.
    pub(crate) const ALL: [Self; 2] = [Self::English, Self::Chinese];

    /// The tag of BCP 47, which is also the name of its catalogue.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-Hans",
        }
    }

    /// What its speakers call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "简体中文",
        }
    }

    /// The user's earlier choice, else the first of the browser's that there is.
    pub(crate) fn stored_or_preferred() -> Self {
        let stored = kept(KEY);
        let preferred = || web_sys::window().and_then(|window| window.navigator().language());
        let tag = stored.or_else(preferred).unwrap_or_default();
        if tag.starts_with("zh") { Self::Chinese } else { Self::English }
    }

    /// Remembers the user's choice.
    pub(crate) fn store(self) {
        keep(KEY, self.tag());
    }

    /// Makes it the language of everything that is composed from now on; says whether it could.
    pub(crate) async fn speak(self) -> bool {
        let catalogue = match self {
            Self::English => None,
            Self::Chinese => match fetched(self.tag()).await {
                Some(catalogue) => Some(catalogue),
                None => return false,
            },
        };
        CATALOGUE.set(catalogue);
        let document = web_sys::window().and_then(|window| window.document());
        if let Some(document) = &document {
            document.set_title(&tr("Highwater: will this training run fit?"));
        }
        if let Some(root) = document.and_then(|document| document.document_element()) {
            // Fails only for names that are no attribute names.
            drop(root.set_attribute("lang", self.tag()));
        }
        true
    }
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

/// A text of the page with its parts put in: `fill("Peaks at {size}.", &[("size", &size)])`.
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
    text
}

#[cfg(test)]
mod asked;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names in braces.
    fn names(text: &str) -> BTreeSet<&str> {
        text.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0)).collect()
    }

    #[test]
    fn a_catalogue_has_what_the_page_says_and_nothing_else() {
        let asked = asked::all();
        for language in Language::ALL.into_iter().filter(|&known| known != Language::English) {
            let path = format!(
                "{}/../public/languages/{}.json",
                env!("CARGO_MANIFEST_DIR"),
                language.tag()
            );
            let file = std::fs::read_to_string(path).expect("there is a catalogue");
            let texts = asked::literals(&file);
            let known: BTreeSet<String> =
                texts.chunks(2).filter_map(|pair| pair.first().cloned()).collect();
            let missing: Vec<_> = asked.difference(&known).collect();
            assert!(missing.is_empty(), "missing: {missing:#?}");
            let idle: Vec<_> = known.difference(&asked).collect();
            assert!(idle.is_empty(), "nobody asks for: {idle:#?}");
            for pair in texts.chunks(2) {
                let [english, translated] = pair else { panic!("a text without another") };
                assert!(names(translated).is_subset(&names(english)), "{english}: {translated}");
            }
        }
    }

    #[test]
    fn parts_are_put_where_the_text_has_them() {
        assert_eq!(
            fill("Fits on {n} of {all} GPUs.", &[("all", &33), ("n", &31)]),
            "Fits on 31 of 33 GPUs."
        );
        assert_eq!(fill("Nothing to fill.", &[]), "Nothing to fill.");
        assert_eq!(fill("{unknown}{open", &[]), "open");
    }
}
