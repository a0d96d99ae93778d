//! Panels draw one after the other, not all at once: between two of them the browser can show what
//! is done and hear what the user does.
//!
//! What waits for its turn and changes again is drawn once, as it is then.

use std::cell::RefCell;

use gloo::timers::callback::Timeout;
use wasm_bindgen::prelude::*;
use web_sys::Element;

/// Milliseconds of drawing after which the browser gets its turn.
const LONG: f64 = 8.0;

/// A place on the page, and what draws it.
type Turn = (Element, Box<dyn FnOnce()>);

thread_local! {
    static WAITING: RefCell<Vec<Turn>> = const { RefCell::new(Vec::new()) };
}

/// Draws a place when its turn comes, after the next frame.
pub(super) fn in_turn(place: &Element, draw: Box<dyn FnOnce()>) {
    let is_first = WAITING.with_borrow_mut(|waiting| {
        let is_first = waiting.is_empty();
        match waiting.iter_mut().find(|(known, _)| known == place) {
            Some((_, known)) => *known = draw,
            None => waiting.push((place.clone(), draw)),
        }
        is_first
    });
    if is_first {
        // A timer that is set in a frame runs when that frame is on the screen.
        let pause = Closure::once_into_js(pause);
        let window = web_sys::window();
        drop(window.map(|window| window.request_animation_frame(pause.unchecked_ref())));
    }
}

fn pause() {
    Timeout::new(0, draw_some).forget();
}

fn draw_some() {
    let began = now();
    while let Some((place, draw)) = next() {
        // What has left the page meanwhile took with it what it would be drawn from.
        if place.is_connected() {
            draw();
        }
        if now() - began > LONG {
            break;
        }
    }
    if WAITING.with_borrow(|waiting| !waiting.is_empty()) {
        pause();
    }
}

fn next() -> Option<Turn> {
    WAITING.with_borrow_mut(|waiting| (!waiting.is_empty()).then(|| waiting.remove(0)))
}

/// Milliseconds since the page began.
fn now() -> f64 {
    let performance = web_sys::window().and_then(|window| window.performance());
    performance.map_or(0.0, |performance| performance.now())
}
