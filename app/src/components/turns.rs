//! Panels draw one after the other. Between two of them the browser can paint and handle events.
//!
//! A panel that changes again before its turn is drawn once, with its newest data.

use std::cell::{Cell, RefCell};

use gloo::timers::callback::Timeout;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;

/// Milliseconds of drawing after which the browser gets its turn.
const LONG: f64 = 8.0;

/// Who waits, and what it does then.
type Turn = (usize, Box<dyn FnOnce()>);

thread_local! {
    static WAITING: RefCell<Vec<Turn>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

/// A signal that follows another when its turn comes, after the next frame, as long as what it is for is
/// shown.
pub(super) fn in_turn_while<T: Clone + Send + Sync + 'static>(
    now: Signal<T>,
    shown: Signal<bool>,
) -> Signal<T> {
    let (later, set_later) = signal(now.get_untracked());
    let who = NEXT.replace(NEXT.get() + 1);
    Effect::new(move |is_later: Option<bool>| {
        if !shown.get() {
            return true;
        }
        let value = now.get();
        if is_later.is_some() {
            // What has left the page meanwhile has no signal any more.
            wait(who, Box::new(move || drop(set_later.try_set(value))));
        }
        true
    });
    later.into()
}

fn wait(who: usize, act: Box<dyn FnOnce()>) {
    let is_first = WAITING.with_borrow_mut(|waiting| {
        let is_first = waiting.is_empty();
        match waiting.iter_mut().find(|(known, _)| *known == who) {
            Some((_, known)) => *known = act,
            None => waiting.push((who, act)),
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
    Timeout::new(0, some).forget();
}

fn some() {
    let began = now();
    while let Some((_, act)) = next() {
        act();
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
