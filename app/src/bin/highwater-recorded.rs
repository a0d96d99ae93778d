//! Reads memory snapshots that `PyTorch` recorded, and answers what is asked of the one read last. A
//! program of its own: most visits never drop one.

use std::cell::RefCell;

use highwater_app::{Ask, Fault, Found, Opening, Read};
use highwater_core::recorded::{self, Calls, Recorded};
use highwater_core::{Config, Error};
use serde::Serialize;
use wasm_bindgen::prelude::*;

thread_local! {
    static HISTORY: RefCell<Option<History>> = const { RefCell::new(None) };
}

/// What was read last.
struct History {
    recorded: Recorded<'static>,
    calls: Calls,
}

fn main() {}

/// Reads an input (a `File` or an `ArrayBuffer`, in a worker) into a packed [`Read`]; what was read
/// before stays if that fails.
#[wasm_bindgen]
pub fn read(input: JsValue, name: &str) -> Vec<u8> {
    let read: Read = opened(&mut Opening::of(input), name).map_err(|error| Fault::of(&error));
    packed(&read)
}

fn opened(input: &mut Opening, name: &str) -> Result<Found, Error> {
    let snapshot = input.read_by(|source| recorded::open(source))?;
    let recorded = Recorded::owning(snapshot, None)?;
    let report = recorded.report(name, &Config::default())?;
    let calls = recorded.calls();
    HISTORY.set(Some(History { recorded, calls }));
    Ok(Found { recorded: Some(Box::new(report)), ..Found::default() })
}

/// Answers a packed [`Ask`]; with nothing, where there is no answer.
#[wasm_bindgen]
pub fn answer(ask: &[u8]) -> Vec<u8> {
    HISTORY.with_borrow(|history| {
        let asked = history.as_ref().zip(postcard::from_bytes(ask).ok());
        let Some((History { recorded, calls }, ask)) = asked else { return Vec::new() };
        match ask {
            Ask::Look(event) => packed(&recorded.look(event)),
            Ask::Judge(config, device) => {
                let verdict = calls.verdict(recorded.reserved_peak.0, &config, &device);
                verdict.map_or_else(|_| Vec::new(), |verdict| packed(&verdict))
            }
            Ask::WhatIf(asked, number) => {
                let tried = calls.tried(&asked);
                let outcome = tried.get(number).and_then(|conf| calls.what_if(conf));
                outcome.map_or_else(Vec::new, |outcome| packed(&outcome))
            }
        }
    })
}

fn packed<T: Serialize>(answer: &T) -> Vec<u8> {
    postcard::to_stdvec(answer).unwrap_or_default()
}
