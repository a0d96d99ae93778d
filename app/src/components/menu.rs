//! A button with something below it: a list to choose from, or a few words.

use leptos::prelude::*;
use leptos::{ev, html};
use wasm_bindgen::JsCast as _;

use super::drawn::{Act, Drawn};
use super::markup::Markup;
use crate::page::focus::focus;

/// Two links of a chain: share.
pub(super) const LINK: &str = "M6.5 9.5l3-3M7 4.5l1.7-1.7a3.2 3.2 0 0 1 4.5 4.5L11.5 9M9 11.5l-1.7 1.7a3.2 3.2 0 0 1-4.5-4.5L4.5 7";
/// An arrow into a tray: save.
pub(super) const SAVE: &str = "M8 2.3v8M4.8 7.3 8 10.5l3.2-3.2M2.5 10v3.5h11V10";

/// Opens below its button; closes when Escape is pressed or the focus leaves.
#[component]
pub(crate) fn Menu(
    /// The element, so that a choice can close it.
    menu: NodeRef<html::Details>,
    /// What it is, for those who cannot see its button.
    label: String,
    /// The picture on its button, as an SVG path; may be empty.
    #[prop(optional)]
    picture: &'static str,
    /// The word beside it; may be empty.
    #[prop(optional)]
    word: String,
    /// Whether its button has a frame, and its list begins below the button's left side.
    #[prop(optional)]
    framed: bool,
    /// It was opened or closed.
    #[prop(optional)]
    on_toggle: Option<Callback<bool>>,
    /// What is below the button.
    children: Children,
) -> impl IntoView {
    let on_key = move |event: ev::KeyboardEvent| {
        if event.key() == "Escape" {
            close(menu);
            if let Some(button) = element(menu).and_then(|menu| menu.first_element_child()) {
                focus(button.unchecked_ref());
            }
        }
    };
    let on_focus_out = move |event: ev::FocusEvent| {
        let next = event.related_target().and_then(|to| to.dyn_into::<web_sys::Node>().ok());
        if element(menu).is_some_and(|menu| next.is_some() && !menu.contains(next.as_ref())) {
            close(menu);
        }
    };
    let on_toggle = move |_: ev::Event| {
        if let (Some(told), Some(menu)) = (on_toggle, element(menu)) {
            told.run(menu.open());
        }
    };
    let mut face = Markup::default();
    if !picture.is_empty() {
        face.raw("<svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\"><path d=\"");
        face.raw(picture).raw("\"/></svg>");
    }
    face.around("<span class=\"menu-word\">", &word, "</span>");
    let face = face.done();
    // What is seen on a button must be in its name.
    let name = if word.is_empty() { label.clone() } else { word };
    let (class, button, list) = if framed {
        ("menu", "button", "menu-list")
    } else {
        ("menu menu-quiet", "quiet-button", "menu-list menu-right")
    };
    view! {
        <details
            class=class
            node_ref=menu
            on:keydown=on_key
            on:focusout=on_focus_out
            on:toggle=on_toggle
        >
            <summary class=button aria-label=name title=label inner_html=face></summary>
            <div class=list>{children()}</div>
        </details>
    }
}

/// A list of things to choose from, each with a few words about it; a choice closes the menu.
#[component]
pub(crate) fn Choices(
    /// The menu.
    menu: NodeRef<html::Details>,
    /// What they are.
    label: String,
    /// Name of each and what is said of it, which may be nothing.
    entries: Vec<(String, String)>,
    /// One was chosen: its position.
    on_choose: Callback<usize>,
) -> impl IntoView {
    let on_act = Callback::new(move |act: Act| {
        if let Ok(at) = act.name.parse() {
            close(menu);
            on_choose.run(at);
        }
    });
    let mut list = Markup::default();
    list.raw("<ul>");
    for (at, (title, about)) in entries.into_iter().enumerate() {
        list.raw("<li><button type=\"button\" class=\"menu-item\" data-act=\"");
        list.around("", &at.to_string(), "\"><span class=\"menu-item-title\">");
        list.around("", &title, "</span>");
        if !about.is_empty() {
            list.around("<span class=\"menu-item-about\">", &about, "</span>");
        }
        list.raw("</button></li>");
    }
    list.raw("</ul>");
    view! { <Drawn class="" label markup=Signal::stored(list.done()) on_act /> }
}

/// Closes a menu.
pub(crate) fn close(menu: NodeRef<html::Details>) {
    if let Some(menu) = element(menu) {
        menu.set_open(false);
    }
}

/// The element of a menu. Its events may come when the page has been drawn anew, in another language,
/// and the menu is gone.
fn element(menu: NodeRef<html::Details>) -> Option<web_sys::HtmlDetailsElement> {
    menu.try_get_untracked().flatten()
}
