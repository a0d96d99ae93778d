//! The page inside another one: `?embed=1`, for slides and notebooks.
//!
//! The surrounding page posts messages and gets answers; nothing else is shared. A message is an object with a key
//! `highwater`:
//!
//! | message | what happens |
//! |---|---|
//! | `{highwater: "ping"}` | `{highwater: "ready"}` is posted back |
//! | `{highwater: "open", name, text}` | a text is opened |
//! | `{highwater: "open", name, bytes}` | a file's bytes (`ArrayBuffer`) are opened |
//! | `{highwater: "set", settings: {batch: "64", optimizer: "sgd"}}` | settings of the command line's names, and open dimensions by theirs |
//!
//! After each answer to an input that was opened in this way, the page posts `{highwater: "answer", …}` with the
//! peaks in bytes and the sentence. It posts nothing about inputs that a person drops into the frame.

use gloo::events::EventListener;
use highwater_core::Config;
use js_sys::{ArrayBuffer, JSON, Object, Reflect};
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{MessageEvent, Window};

use crate::model::derived::Derived;
use crate::model::input::Input;
use crate::model::state::State;
use crate::words;

/// Whether the address asks for the page without what is around the answer.
pub(crate) fn is_asked_for() -> bool {
    parameter("embed").is_some()
}

/// A parameter of the address, in front of its `#`.
pub(crate) fn parameter(name: &str) -> Option<String> {
    let search = web_sys::window()?.location().search().ok()?;
    let pairs = search.strip_prefix('?')?.split('&');
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

/// Listens to the surrounding page, and posts the answers to it.
pub(crate) fn attach(state: State, derived: Derived, open: Callback<Input>) {
    let Some(window) = web_sys::window().filter(|_| is_asked_for()) else { return };
    let Some(around) = window.parent().ok().flatten().filter(|parent| *parent != window) else {
        return;
    };
    if let Some(root) = window.document().and_then(|document| document.document_element()) {
        drop(root.set_attribute("data-embed", ""));
    }
    // The name of the input that came from there.
    let theirs = StoredValue::new(None::<String>);
    let (listener, answered) = (around.clone(), around.clone());
    EventListener::new(&window, "message", move |event| {
        let event: &MessageEvent = event.unchecked_ref();
        // Another window's `Window` is no instance of this one's.
        let from: Option<Window> = event.source().map(JsCast::unchecked_into);
        let is_theirs = from.as_ref() == Some(&listener);
        if is_theirs && let Some(input) = receive(&event.data(), state, &listener) {
            theirs.set_value(Some(input.name()));
            open.run(input);
        }
    })
    .forget();
    Effect::new(move |_| {
        let Some(report) = derived.report.get() else { return };
        let name = state.loaded.with(|loaded| loaded.as_ref().map(|loaded| loaded.name.clone()));
        if name.is_none() || theirs.get_value() != name {
            return;
        }
        // The page keeps numbers and units on one line; programs read plain spaces.
        let headline = words::newest_headline(derived);
        let headline = headline.map(|headline| headline.lead.replace('\u{a0}', " "));
        let peak = &report.peak;
        post(
            &answered,
            "answer",
            &[
                ("name", name.into()),
                ("sentence", headline.into()),
                ("peak_allocated", number(peak.allocated.0)),
                ("peak_reserved", number(peak.reserved.0)),
                ("process_peak", number(peak.process.0)),
                ("device", report.verdict.id.as_str().into()),
                ("verdict", report.verdict.verdict.name().into()),
            ],
        );
    });
    post(&around, "ready", &[]);
}

/// Bytes as scripts have them: exact to 2⁵³.
fn number(bytes: u64) -> JsValue {
    highwater_draw::float(highwater_core::Bytes(bytes)).into()
}

/// Obeys a message; what is to be opened is the caller's to open.
fn receive(data: &JsValue, state: State, around: &Window) -> Option<Input> {
    let get =
        |key: &str| Reflect::get(data, &key.into()).ok().filter(|value| !value.is_undefined());
    match get("highwater")?.as_string()?.as_str() {
        "ping" => post(around, "ready", &[]),
        "open" => {
            let name = get("name")?.as_string()?;
            if let Some(text) = get("text").and_then(|text| text.as_string()) {
                return Some(Input::text(&name, &text));
            }
            let bytes = get("bytes")?.dyn_into::<ArrayBuffer>().ok()?;
            return Some(Input::Bytes { name, bytes });
        }
        "set" => {
            let settings: Object = get("settings")?.dyn_into().ok()?;
            let mut config = state.config.get_untracked();
            for pair in Object::entries(&settings) {
                let pair: js_sys::Array = pair.into();
                let value = pair.get(1);
                let value = value.as_string().or_else(|| JSON::stringify(&value).ok()?.as_string());
                if let (Some(name), Some(value)) = (pair.get(0).as_string(), value) {
                    set(&mut config, &name, &value);
                }
            }
            state.config.set(config);
        }
        _ => {}
    }
    None
}

fn set(config: &mut Config, name: &str, value: &str) {
    if config.set(name, value).is_err()
        && let Ok(size) = value.parse()
        && config.dims.contains_key(name)
    {
        config.dims.insert(name.to_owned(), size);
    }
}

fn post(around: &Window, what: &str, parts: &[(&str, JsValue)]) {
    let message = Object::new();
    // Fails only for what is no object.
    let put = |key: &str, value: &JsValue| drop(Reflect::set(&message, &key.into(), value));
    put("highwater", &what.into());
    for (key, value) in parts {
        put(key, value);
    }
    // What is posted is about what came from there, whoever that is.
    drop(around.post_message(&message, "*"));
}
