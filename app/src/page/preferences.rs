//! Theme, language and GPU: the user's earlier choice, else the system's.

use gloo::events::EventListener;
use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{MediaQueryList, Storage};

use crate::model::language::Language;
use crate::model::theme::Theme;
use crate::words::language::{fetch, tr};

const THEME: &str = "highwater-theme";
const LANGUAGE: &str = "highwater-language";
const GPU: &str = "highwater-gpu";

/// The user's own GPU, if they have ever chosen one.
pub(crate) fn my_gpu() -> Option<String> {
    stored(GPU)
}

/// Remembers the user's own GPU.
pub(crate) fn choose_my_gpu(mine: RwSignal<Option<String>>, id: String) {
    store(GPU, &id);
    mine.set(Some(id));
}

/// The theme to begin with.
pub(crate) fn theme() -> Theme {
    stored_theme().unwrap_or_else(|| {
        if prefers_dark().is_some_and(|query| query.matches()) { Theme::Dark } else { Theme::Light }
    })
}

fn stored_theme() -> Option<Theme> {
    [Theme::Light, Theme::Dark]
        .into_iter()
        .find(|theme| stored(THEME).as_deref() == Some(theme.name()))
}

/// Keeps the page in its theme, and the theme in the system's while the user has not chosen one.
pub(crate) fn follow_theme(theme: RwSignal<Theme>) {
    Effect::new(move |_| on_root("data-theme", theme.get().name()));
    let Some(query) = prefers_dark() else { return };
    EventListener::new(&query, "change", move |_| {
        if stored_theme().is_none() {
            theme.set(self::theme());
        }
    })
    .forget();
}

/// Changes to the other theme, and remembers it.
pub(crate) fn choose_other_theme(theme: RwSignal<Theme>) {
    theme.update(|theme| *theme = theme.other());
    store(THEME, theme.get_untracked().name());
}

/// The language to begin with: the first of the browser's that there is, where none was chosen.
pub(crate) fn language() -> Language {
    let preferred = || web_sys::window().and_then(|window| window.navigator().language());
    let tag = stored(LANGUAGE).or_else(preferred).unwrap_or_default();
    if tag.starts_with("zh") { Language::Chinese } else { Language::English }
}

/// Changes to a language, and remembers it.
pub(crate) fn choose_language(current: RwSignal<Language>, wanted: Language) {
    store(LANGUAGE, wanted.tag());
    speak(current, wanted);
}

/// Changes the language of the page as soon as its catalogue is here.
pub(crate) fn speak(current: RwSignal<Language>, wanted: Language) {
    spawn_local(async move {
        if wanted == current.get_untracked() || !fetch(wanted).await {
            return;
        }
        if let Some(document) = web_sys::window().and_then(|window| window.document()) {
            document.set_title(&tr("Highwater: will it fit on your GPU?"));
        }
        on_root("lang", wanted.tag());
        current.set(wanted);
    });
}

fn on_root(attribute: &str, value: &str) {
    let document = web_sys::window().and_then(|window| window.document());
    if let Some(root) = document.and_then(|document| document.document_element()) {
        // Fails only for names that are no attribute names.
        drop(root.set_attribute(attribute, value));
    }
}

fn prefers_dark() -> Option<MediaQueryList> {
    web_sys::window()?.match_media("(prefers-color-scheme: dark)").ok()?
}

fn stored(name: &str) -> Option<String> {
    storage()?.get_item(name).ok()?
}

/// A browser that refuses storage just forgets it.
fn store(name: &str, text: &str) {
    if let Some(storage) = storage() {
        drop(storage.set_item(name, text));
    }
}

fn storage() -> Option<Storage> {
    web_sys::window()?.local_storage().ok()?
}
