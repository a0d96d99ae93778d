//! The page as a whole: wires state, engine and components together.

use std::collections::BTreeMap;

use gloo::events::{EventListener, EventListenerOptions};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DragEvent, File};

use super::at_peak::AtPeak;
use super::diagnostics::Diagnostics;
use super::drop_zone::DropZone;
use super::figures::Figures;
use super::gpu_table::GpuTable;
use super::header::Header;
use super::headline::HeadlineView;
use super::model_facts::ModelFacts;
use super::notice::NoticeView;
use super::settings::Settings;
use super::timeline::Timeline;
use crate::derived::Derived;
use crate::engine::Engine;
use crate::examples::Example;
use crate::load::{self, Input};
use crate::state::{Notice, State};
use crate::text;
use crate::theme::Theme;

/// The page.
#[component]
pub(crate) fn App() -> impl IntoView {
    let state = State::new();
    let derived = Derived::of(state);
    let engine = StoredValue::new_local(Engine::start(state));
    Effect::new(move |_| state.theme.get().apply());
    Theme::on_preference(move |theme| state.theme.set(theme));
    Effect::new(move |_| {
        let config = state.config.get();
        engine.with_value(|engine| engine.estimate(config));
    });

    let open_file = Callback::new(move |file: File| {
        engine.with_value(|engine| engine.open(Input::File(file), BTreeMap::new()));
    });
    let open_example = example_opener(state, engine);
    let close = Callback::new(move |()| engine.with_value(Engine::close));
    let dragging = accept_drops(open_file, state.notice);
    let loaded_name = Signal::derive(move || state.loaded.with(|l| Some(l.as_ref()?.name.clone())));
    let is_loaded = Memo::new(move |_| state.answer.with(Option::is_some));

    view! {
        <a class="skip" href="#main">"Skip to the answer"</a>
        <Header
            loaded=loaded_name
            opening=state.opening
            theme=state.theme
            on_file=open_file
            on_example=open_example
            on_close=close
            on_theme=Callback::new(move |()| {
                state.theme.update(|theme| *theme = theme.other());
                state.theme.get_untracked().store();
            })
        />
        <main id="main" tabindex="-1" class:main-empty=move || !is_loaded.get()>
            <NoticeView notice=state.notice on_dismiss=Callback::new(move |()| state.notice.set(None)) />
            <Show
                when=move || is_loaded.get()
                fallback=move || {
                    view! {
                        <DropZone
                            opening=state.opening
                            on_file=open_file
                            on_example=open_example
                        />
                    }
                }
            >
                <HeadlineView headline=derived.headline stale=derived.stale report=derived.report />
                <div class="workbench">
                    <div class="workbench-side">
                    <Settings
                        dims=Signal::derive(move || {
                            state.loaded.with(|l| l.as_ref().map(|l| l.dims.clone()).unwrap_or_default())
                        })
                        devices=state.devices
                        config=state.config
                        problem=state.config_problem
                        on_config=Callback::new(move |config| state.config.set(config))
                    />
                    <ModelFacts report=derived.report millis=derived.millis />
                    </div>
                    <div class="workbench-results">
                        <Figures report=derived.report />
                        <Timeline
                            report=derived.report
                            iteration=state.iteration
                            cursor=state.cursor
                            theme=state.theme
                            on_iteration=Callback::new(move |shown| {
                                state.cursor.set(None);
                                state.iteration.set(shown);
                            })
                            on_cursor=Callback::new(move |at| state.cursor.set(at))
                        />
                        <AtPeak report=derived.report />
                        <GpuTable
                            devices=state.devices
                            generation=derived.generation
                            chosen=Signal::derive(move || state.config.with(|c| c.device.clone()))
                            on_choose=Callback::new(move |id| {
                                state.config.update(|config| config.device = id);
                            })
                        />
                        <Diagnostics report=derived.report />
                    </div>
                </div>
            </Show>
        </main>
        <div class="drop-veil" class:drop-veil-shown=move || dragging.get() aria-hidden="true">
            <p>"Drop to open"</p>
        </div>
    }
}

/// Fetches an example from where the page came from, and opens it.
fn example_opener(state: State, engine: StoredValue<Engine, LocalStorage>) -> Callback<Example> {
    Callback::new(move |example: Example| {
        state.opening.set(Some(example.file.to_owned()));
        spawn_local(async move {
            match load::example(example.path, example.file).await {
                Ok(input) => engine.with_value(|engine| engine.open(input, example.dims())),
                Err(detail) => {
                    state.opening.set(None);
                    let title = format!("Could not open {}", example.file);
                    state.notice.set(Some(Notice { title, detail, is_error: true }));
                }
            }
        });
    })
}

/// Takes files dropped anywhere on the page; says whether one hovers over it.
fn accept_drops(on_file: Callback<File>, notice: RwSignal<Option<Notice>>) -> ReadSignal<bool> {
    let (dragging, set_dragging) = signal(false);
    let Some(window) = web_sys::window() else { return dragging };
    let options = EventListenerOptions::enable_prevent_default();
    let listen = |name: &'static str, handle: Box<dyn FnMut(&web_sys::Event)>| {
        EventListener::new_with_options(&window, name, options, handle).forget();
    };
    listen(
        "dragover",
        Box::new(move |event| {
            event.prevent_default();
            set_dragging.set(true);
        }),
    );
    listen(
        "dragleave",
        Box::new(move |event| {
            // Leaving the window has no element that is entered instead.
            let event: &DragEvent = event.unchecked_ref();
            if event.related_target().is_none() {
                set_dragging.set(false);
            }
        }),
    );
    listen(
        "drop",
        Box::new(move |event| {
            event.prevent_default();
            set_dragging.set(false);
            let event: &DragEvent = event.unchecked_ref();
            let file = event.data_transfer().and_then(|data| data.files()?.get(0));
            match file {
                Some(file) => on_file.run(file),
                None => notice.set(Some(text::not_a_file())),
            }
        }),
    );
    dragging
}
