//! A panel that is drawn as a whole from [`Markup`](super::markup::Markup).
//!
//! What was unfolded stays unfolded and what had the focus keeps it, by their ids. Buttons and their
//! like say with `data-act` what they do; the one with `data-copy` copies the code before it. The page's
//! policy forbids `style` in markup: `data-left` and `data-width` are lengths in per cent.

use leptos::{ev, html, prelude::*};
use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlElement, HtmlInputElement};

use super::turns::in_turn;
use crate::page::focus::{focus, focus_text};
use crate::words::language::tr;

/// What the user did in a panel.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    /// What the element says that it does.
    pub(crate) name: String,
    /// What it is set to, or the key that was pressed.
    pub(crate) value: String,
    /// How far from its left side, as a share of its width.
    pub(crate) across: f64,
    /// The element.
    pub(crate) element: Element,
}

/// A panel.
#[component]
pub(crate) fn Drawn(
    /// Its classes.
    #[prop(into)]
    class: Signal<&'static str>,
    /// Id of its title.
    #[prop(optional)]
    labelledby: Option<&'static str>,
    /// Its title, where that is not seen.
    #[prop(optional)]
    label: Option<String>,
    /// Its own id, where links lead to it.
    #[prop(optional)]
    id: Option<&'static str>,
    /// What it is to those who do not see it, where it is more than a part of the page.
    #[prop(optional)]
    role: Option<&'static str>,
    /// What is in it.
    markup: Signal<String>,
    /// Whether it is drawn before all others when it changes.
    #[prop(optional)]
    at_once: bool,
    /// The user did something in it.
    #[prop(optional)]
    on_act: Option<Callback<Act>>,
    /// It was drawn anew.
    #[prop(optional)]
    on_drawn: Option<Callback<Element>>,
) -> impl IntoView {
    let place = NodeRef::<html::Section>::new();
    let draw = move |place: &Element, text: &str| {
        redraw(place, text);
        if let Some(on_drawn) = on_drawn {
            on_drawn.run(place.clone());
        }
    };
    let act = move |act| {
        if let Some(on_act) = on_act {
            on_act.run(act);
        }
    };
    // What is the same is not drawn again: what was selected or copied there stays.
    Effect::new(move |drawn: Option<String>| {
        let Some(place) = place.get() else { return String::new() };
        let text = markup.get();
        match drawn {
            Some(drawn) if drawn == text => {}
            Some(_) if !at_once => {
                let (here, text) = (place.clone(), text.clone());
                in_turn(&place, Box::new(move || draw(&here, &text)));
            }
            _ => draw(&place, &text),
        }
        text
    });
    let on_click = move |event: ev::MouseEvent| {
        let Some(acted) = acted(&event) else { return };
        match acted.get_attribute("data-act").as_deref() {
            Some("copy") => copy(&acted),
            Some(name) if !acted.has_attribute("max") && acted.tag_name() != "SELECT" => {
                let frame = acted.get_bounding_client_rect();
                let across = (f64::from(event.client_x()) - frame.left()) / frame.width().max(1.0);
                act(Act { name: name.to_owned(), value: String::new(), across, element: acted });
            }
            _ => {}
        }
    };
    let on_change = move |event: ev::Event| {
        let Some(acted) = acted(&event) else { return };
        let value = acted.unchecked_ref::<HtmlInputElement>().value();
        let name = acted.get_attribute("data-act").unwrap_or_default();
        act(Act { name, value, across: 0.0, element: acted });
    };
    // A slider is heard while it moves.
    let on_input = move |event: ev::Event| {
        if acted(&event).is_some_and(|acted| acted.has_attribute("aria-valuetext")) {
            on_change(event);
        }
    };
    let on_key = move |event: ev::KeyboardEvent| {
        let key = event.key();
        let is_ours = matches!(
            key.as_str(),
            "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown" | "Home" | "End"
        );
        let slider = acted(&event).filter(|acted| is_ours && acted.has_attribute("aria-valuenow"));
        if let Some(slider) = slider {
            event.prevent_default();
            let name = slider.get_attribute("data-act").unwrap_or_default();
            act(Act { name, value: key, across: 0.0, element: slider });
        }
    };
    view! {
        <section
            id=id
            tabindex=id.map(|_| "-1")
            class=class
            role=role
            aria-label=label
            aria-labelledby=labelledby
            node_ref=place
            on:click=on_click
            on:change=on_change
            on:input=on_input
            on:keydown=on_key
        ></section>
    }
}

/// Terms and what is said of them, with nothing in it that somebody does.
pub(super) fn terms(class: &'static str, markup: Signal<String>) -> impl IntoView {
    view! { <dl class=class inner_html=move || markup.get()></dl> }
}

/// The element around what an event is about that says what it does.
fn acted(event: &ev::Event) -> Option<Element> {
    let target: Element = event.target()?.dyn_into().ok()?;
    target.closest("[data-act]").ok().flatten()
}

fn copy(button: &Element) {
    let code = button.previous_element_sibling().and_then(|code| code.text_content());
    if let (Some(window), Some(code)) = (web_sys::window(), code) {
        // A browser that refuses leaves the code to be selected.
        drop(window.navigator().clipboard().write_text(&code));
        button.set_text_content(Some(&tr("Copied")));
    }
}

/// Draws a panel anew. Where what had the focus is gone, what has `data-next` gets it, else the
/// panel's title.
pub(super) fn redraw(place: &Element, markup: &str) {
    let document = web_sys::window().and_then(|window| window.document());
    let focused = document.and_then(|document| document.active_element());
    let focused = focused.filter(|focused| place.contains(Some(focused)));
    // A summary is known by what it unfolds.
    let name = |element: Element| match element.parent_element() {
        Some(details) if element.tag_name() == "SUMMARY" => (details.id(), true),
        _ => (element.id(), false),
    };
    let focused = focused.map(name);
    let mut open = Vec::new();
    while let Ok(Some(details)) = place.query_selector("details[open]") {
        open.push(details.id());
        // Fails for names only that are no attribute names.
        drop(details.remove_attribute("open"));
    }
    place.set_inner_html(markup);
    for (attribute, property) in [("data-left", "left"), ("data-width", "width")] {
        let Ok(stretched) = place.query_selector_all(&["[", attribute, "]"].concat()) else {
            continue;
        };
        for element in (0..stretched.length()).filter_map(|at| stretched.item(at)) {
            let element: &HtmlElement = element.unchecked_ref();
            let length = element.get_attribute(attribute).unwrap_or_default() + "%";
            // Fails only for styles that cannot be changed, and these can.
            drop(element.style().set_property(property, &length));
        }
    }
    let by_id = |id: &str| {
        let quoted = ["[id=\"", &id.replace('"', "\\\""), "\"]"].concat();
        place.query_selector(&quoted).ok().flatten()
    };
    for details in open.iter().filter_map(|id| by_id(id)) {
        drop(details.set_attribute("open", ""));
    }
    if let Some((id, is_summary)) = focused {
        let found = by_id(&id).filter(|_| !id.is_empty());
        let found = if is_summary {
            found.and_then(|details| details.first_element_child())
        } else {
            found
        };
        let next = || place.query_selector("[data-next]").ok().flatten();
        if let Some(element) = found.or_else(next) {
            focus(element.unchecked_ref());
        } else if let Ok(Some(title)) = place.query_selector("h2") {
            focus_text(title.unchecked_ref());
        }
    }
}
