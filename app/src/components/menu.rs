//! A button that opens a list or a short text below it.

use leptos::prelude::*;
use leptos::{ev, html};
use wasm_bindgen::JsCast as _;

use super::icons::icon;
use crate::page::focus::focus;

/// Opens below its button; closes when Escape is pressed or the focus leaves.
#[component]
pub(crate) fn Menu(
    /// The element, so that a choice can close it.
    menu: NodeRef<html::Details>,
    /// What it is, for those who cannot see its button.
    label: String,
    /// The picture on its button, as an SVG path.
    #[prop(optional)]
    picture: Option<&'static str>,
    /// The word next to it; may be empty.
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
    // What is seen on a button must be in its name.
    let name = if word.is_empty() { label.clone() } else { word.clone() };
    let face = picture.map(icon);
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
            <summary class=button aria-label=name title=label>
                {face}
                <span class="menu-word">{word}</span>
            </summary>
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
    let entries = entries.into_iter().enumerate().map(|(at, (title, about))| {
        let choose = move |_| {
            close(menu);
            on_choose.run(at);
        };
        let about = (!about.is_empty()).then(|| {
            view! { <span class="menu-item-about">{about}</span> }
        });
        view! {
            <li>
                <button type="button" class="menu-item" on:click=choose>
                    <span class="menu-item-title">{title}</span>
                    {about}
                </button>
            </li>
        }
    });
    view! {
        <section aria-label=label>
            <ul>{entries.collect_view()}</ul>
        </section>
    }
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
