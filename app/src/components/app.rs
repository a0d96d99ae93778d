//! The page as a whole: wires state, engine and components together.

use std::collections::BTreeMap;

use gloo::events::{EventListener, EventListenerOptions};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use wasm_bindgen_futures::spawn_local;
use web_sys::{ClipboardEvent, DataTransfer, DragEvent, Element, File};

use super::at_peak::AtPeak;
use super::diagnostics::Diagnostics;
use super::drop_zone::DropZone;
use super::figures::Figures;
use super::gpu_table::GpuTable;
use super::header::Header;
use super::headline::HeadlineView;
use super::message::MessageView;
use super::model_facts::ModelFacts;
use super::notice::NoticeView;
use super::settings::Settings;
use super::source_editor::SourceEditor;
use super::timeline::Timeline;
use crate::derived::Derived;
use crate::engine::Engine;
use crate::examples::Example;
use crate::load::{self, Input};
use crate::state::{Answer, Notice, State};
use crate::text;
use crate::theme::Theme;

/// What the editor begins with.
const STARTER: &str = "input: [N, 784]
layers:
  - linear: 256
  - relu
  - linear: 10
";

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
    let open_text = Callback::new(move |(name, text): (String, String)| {
        engine.with_value(|engine| engine.open_text(&name, &text));
    });
    let edit_text = Callback::new(move |(name, text): (String, String)| {
        engine.with_value(|engine| engine.edit_text(&name, &text));
    });
    let dragging = accept_drops(open_file, open_text, state.notice);
    accept_pastes(open_file, open_text);
    let spec = Signal::derive(move || state.loaded.with(|l| l.as_ref()?.spec.clone()));
    let is_spec = Signal::derive(move || {
        let format = |answer: &Answer| answer.report.model.recognised.format == "layer spec";
        state.answer.with(|answer| answer.as_ref().is_some_and(format))
    });
    let is_writing = Memo::new(move |_| state.source.with(Option::is_some));
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
            <Explanation state derived engine />
            <Show
                when=move || is_loaded.get()
                fallback=move || {
                    view! { <EmptyPage state spec is_spec open_file open_example edit_text /> }
                }
            >
                <HeadlineView headline=derived.headline stale=derived.stale report=derived.report />
                <div class="workbench" class:workbench-writing=move || is_writing.get()>
                    <div class="workbench-side">
                    <Show when=move || is_writing.get()>
                        <SourceEditor source=state.source spec is_spec on_text=edit_text />
                    </Show>
                    <Settings
                        dims=Signal::derive(move || {
                            state.loaded.with(|l| l.as_ref().map(|l| l.dims.clone()).unwrap_or_default())
                        })
                        devices=state.devices
                        config=state.config
                        report=derived.report
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
                            on_choose=Callback::new(move |id: String| {
                                state.config.update(|config| config.choose_device(&id));
                            })
                        />
                        <Diagnostics report=derived.report />
                    </div>
                </div>
            </Show>
        </main>
        <DropVeil dragging />
    }
}

/// The message that was pasted, and what follows from it.
#[component]
fn Explanation(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// The line to the worker.
    engine: StoredValue<Engine, LocalStorage>,
) -> impl IntoView {
    view! {
        <MessageView
            message=state.message
            found=derived.found
            report=derived.report
            config=state.config
            on_config=Callback::new(move |config| state.config.set(config))
            on_event=Callback::new(move |event| show_event(state, event))
            on_batch=Callback::new(move |batch| choose_batch(state, batch))
            on_dismiss=Callback::new(move |()| engine.with_value(Engine::forget_message))
        />
    }
}

/// Covers the page while a file hovers over it.
#[component]
fn DropVeil(
    /// Whether one does.
    dragging: ReadSignal<bool>,
) -> impl IntoView {
    view! {
        <div class="drop-veil" class:drop-veil-shown=move || dragging.get() aria-hidden="true">
            <p>"Drop to open"</p>
        </div>
    }
}

/// What to drop or write, and a text that is no model yet.
#[component]
fn EmptyPage(
    /// The page's state.
    state: State,
    /// The model as a layer spec.
    spec: Signal<Option<String>>,
    /// Whether the text in the editor is one.
    is_spec: Signal<bool>,
    /// A file was chosen.
    open_file: Callback<File>,
    /// An example was chosen.
    open_example: Callback<Example>,
    /// The text in the editor has changed.
    edit_text: Callback<(String, String)>,
) -> impl IntoView {
    let begin = Callback::new(move |()| {
        state.notice.set(None);
        state.edit(text::NEW_SPEC, Some(STARTER.to_owned()), None);
        edit_text.run((text::NEW_SPEC.to_owned(), STARTER.to_owned()));
    });
    view! {
        <Show when=move || state.source.with(Option::is_some)>
            <div class="source-alone">
                <SourceEditor source=state.source spec is_spec on_text=edit_text />
            </div>
        </Show>
        <DropZone
            opening=state.opening
            on_file=open_file
            on_example=open_example
            on_write=begin
        />
    }
}

/// Moves the timeline's cursor to an event, whichever iteration it is in.
fn show_event(state: State, event: usize) {
    let at = state.answer.with_untracked(|answer| {
        let events = &answer.as_ref()?.report.timeline.event;
        events.partition_point(|&sample| sample <= event).checked_sub(1)
    });
    state.iteration.set(None);
    state.cursor.set(at);
    let document = web_sys::window().and_then(|window| window.document());
    if let Some(plot) = document.and_then(|document| document.query_selector(".timeline").ok()?) {
        plot.scroll_into_view();
    }
}

/// Another size for the first dimension, which is the batch.
fn choose_batch(state: State, batch: u64) {
    let dim =
        state.loaded.with_untracked(|loaded| Some(loaded.as_ref()?.dims.first()?.name.clone()));
    if let Some(dim) = dim {
        state.config.update(|config| {
            config.dims.insert(dim, batch);
        });
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

/// Takes files and texts pasted anywhere on the page, but into its fields.
fn accept_pastes(on_file: Callback<File>, on_text: Callback<(String, String)>) {
    let Some(window) = web_sys::window() else { return };
    let options = EventListenerOptions::enable_prevent_default();
    let listener = EventListener::new_with_options(&window, "paste", options, move |event| {
        let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
        if target.is_some_and(|target| matches!(&*target.tag_name(), "INPUT" | "TEXTAREA")) {
            return;
        }
        let event: &ClipboardEvent = event.unchecked_ref();
        let Some(data) = event.clipboard_data() else { return };
        if let Some(file) = data.files().and_then(|files| files.get(0)) {
            event.prevent_default();
            on_file.run(file);
        } else if let Some(pasted) = said(&data) {
            event.prevent_default();
            on_text.run((text::PASTED.to_owned(), pasted));
        }
    });
    listener.forget();
}

/// The text that was dropped or pasted.
fn said(data: &DataTransfer) -> Option<String> {
    data.get_data("text/plain").ok().filter(|text| !text.trim().is_empty())
}

/// Takes files and texts dropped anywhere on the page; says whether one hovers over it.
fn accept_drops(
    on_file: Callback<File>,
    on_text: Callback<(String, String)>,
    notice: RwSignal<Option<Notice>>,
) -> ReadSignal<bool> {
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
            let data = event.data_transfer();
            let file = data.as_ref().and_then(|data| data.files()?.get(0));
            match (file, data.and_then(|data| said(&data))) {
                (Some(file), _) => on_file.run(file),
                (None, Some(dropped)) => on_text.run((text::DROPPED.to_owned(), dropped)),
                (None, None) => notice.set(Some(text::not_a_file())),
            }
        }),
    );
    dragging
}
