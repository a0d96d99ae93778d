//! Elements that are changed by hand: controls that keep text while it is typed, and marks that follow the
//! pointer.

use gloo::events::{EventListener, EventListenerOptions};
use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{Element, Event, EventTarget, HtmlElement, ResizeObserver};

use crate::words::format::length;

/// Runs now, and again when a signal that it has read has changed.
pub(super) fn watch(run: Box<dyn Fn()>) {
    Effect::new(move |_| run());
}

/// Listens as long as the panel lives.
pub(super) fn on(target: &EventTarget, name: &'static str, run: Box<dyn Fn(&Event)>) {
    let options = EventListenerOptions::enable_prevent_default();
    let listener = EventListener::new_with_options(target, name, options, run);
    let kept = StoredValue::new_local(Some(listener));
    on_cleanup(move || kept.update_value(|listener| *listener = None));
}

/// The first element inside another that a selector names.
pub(super) fn find(root: &Element, selector: &str) -> Option<HtmlElement> {
    root.query_selector(selector).ok()?.map(JsCast::unchecked_into)
}

/// Sets an attribute.
pub(super) fn set(element: &Element, name: &str, value: &str) {
    // Fails only for names that are no attribute names.
    drop(element.set_attribute(name, value));
}

/// Sets a length of an element's style, in per cent or pixels.
pub(super) fn style(element: &HtmlElement, property: &str, value: f64, unit: &str) {
    // Fails only for styles that cannot be changed, and these can.
    drop(element.style().set_property(property, &(length(value) + unit)));
}

/// Places an element between two shares of the width.
pub(super) fn stretch(element: &HtmlElement, left: f64, width: f64) {
    style(element, "left", 100.0 * left, "%");
    style(element, "width", 100.0 * width, "%");
}

/// Width and height of an element in CSS pixels, kept up to date.
pub(super) fn size_of(element: &HtmlElement) -> ReadSignal<(f64, f64)> {
    let (size, set_size) = signal((0.0, 0.0));
    let watched = element.clone();
    let on_resize = Closure::<dyn FnMut()>::new(move || {
        let shape = watched.get_bounding_client_rect();
        set_size.set((shape.width(), shape.height()));
    });
    if let Ok(observer) = ResizeObserver::new(on_resize.as_ref().unchecked_ref()) {
        observer.observe(element);
        let kept = StoredValue::new_local((observer, on_resize));
        on_cleanup(move || kept.with_value(|(observer, _)| observer.disconnect()));
    }
    size
}

/// The same of an element that is not there yet.
pub(super) fn size_of_node(node: NodeRef<html::Div>) -> RwSignal<(f64, f64)> {
    let size = RwSignal::new((0.0, 0.0));
    Effect::new(move |_| {
        let Some(element) = node.get() else { return };
        let measured = size_of(&element);
        Effect::new(move |_| size.set(measured.get()));
    });
    size
}
