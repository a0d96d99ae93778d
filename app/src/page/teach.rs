//! Runs lessons: opens their models, applies the settings of their steps, and shows what the steps are about.

use gloo::timers::callback::Timeout;
use highwater_core::Config;
use highwater_core::formats::catalogue::MARK;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::HtmlElement;

use super::engine::Engine;
use super::focus::focus_later;
use crate::model::input::Input;
use crate::model::lessons::{Step, Teaching};
use crate::model::state::State;

/// Pixels between the lesson and what it points at.
const APART: i32 = 24;

/// What the user can ask of lessons.
#[derive(Clone, Copy)]
pub(crate) struct Lessons {
    /// Begin one: its position in the table.
    pub(crate) begin: Callback<usize>,
    /// Go to another step.
    pub(crate) go: Callback<usize>,
    /// Show the answer.
    pub(crate) reveal: Callback<()>,
    /// End it; the model stays.
    pub(crate) end: Callback<()>,
}

impl Lessons {
    /// Lessons on this page.
    pub(crate) fn of(state: State, engine: StoredValue<Engine, LocalStorage>) -> Self {
        let open = move |at: Teaching| {
            let config = config(at.step(), Config::default());
            let input = Input::text(name(at), at.model());
            engine.with_value(|engine| engine.open_with(input, config));
        };
        let go = Callback::new(move |step: usize| {
            let Some(before) = state.lesson.get_untracked() else { return };
            let at = Teaching { step, revealed: false, ..before };
            state.lesson.set(Some(at));
            state.show_iteration(at.iteration());
            if at.model() == before.model() {
                let dims = state.config.with_untracked(|config| config.dims.clone());
                let config = config(at.step(), Config { dims, ..Config::default() });
                engine.with_value(|engine| engine.bring(config));
            } else {
                open(at);
            }
            show(state, at.step());
            focus_later("#lesson-title");
        });
        Self {
            begin: Callback::new(move |lesson: usize| {
                let at = Teaching { lesson, step: 0, revealed: false };
                state.lesson.set(Some(at));
                open(at);
            }),
            go,
            reveal: Callback::new(move |()| {
                state.lesson.update(|at| {
                    if let Some(at) = at {
                        at.revealed = true;
                        state.show_iteration(at.iteration());
                        show(state, at.step());
                    }
                });
                focus_later("#lesson-title");
            }),
            end: Callback::new(move |()| {
                state.lesson.set(None);
                point("");
                focus_later("#main");
            }),
        }
    }
}

/// What the model of a lesson is called: its text begins with it, or is it.
fn name(at: Teaching) -> &'static str {
    let first = at.model().lines().next().unwrap_or_default();
    let name = first.strip_prefix("name: ").or_else(|| first.strip_prefix(MARK));
    name.unwrap_or(first)
}

/// The settings of a step over others.
fn config(step: &Step, mut config: Config) -> Config {
    for (name, value) in step.settings {
        match (name.strip_prefix("dim:"), value.parse()) {
            (Some(dim), Ok(size)) => {
                config.dims.insert(dim.to_owned(), size);
            }
            _ => {
                // A test holds that every lesson's settings are known.
                config.set(name, value).ok();
            }
        }
    }
    config
}

/// Shows what a step is about: its section first, then the part of it.
fn show(state: State, step: &Step) {
    if let Some(section) = step.section() {
        state.section.set(section);
    }
    let about = step.about;
    // The section is there with the next task.
    Timeout::new(0, move || point(about)).forget();
}

/// Brings a part of the page into view, and marks it.
fn point(selector: &str) {
    let Some(document) = web_sys::window().and_then(|window| window.document()) else { return };
    if let Ok(Some(before)) = document.query_selector(".pointed-at") {
        drop(before.class_list().remove_1("pointed-at"));
    }
    if selector.is_empty() {
        return;
    }
    if let Ok(Some(part)) = document.query_selector(selector) {
        drop(part.class_list().add_1("pointed-at"));
        // The lesson stays at the top of the window: what it points at comes to stand below it.
        let lesson = document.query_selector(".lesson").ok().flatten();
        let high = lesson.map_or(0, |lesson| lesson.client_height()) + APART;
        if let Some(part) = part.dyn_ref::<HtmlElement>() {
            drop(part.style().set_property("scroll-margin-top", &format!("{high}px")));
        }
        part.scroll_into_view_with_scroll_into_view_options(&at_the_top());
    }
}

fn at_the_top() -> web_sys::ScrollIntoViewOptions {
    let options = web_sys::ScrollIntoViewOptions::new();
    options.set_block(web_sys::ScrollLogicalPosition::Start);
    options
}
