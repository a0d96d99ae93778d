//! The page as a whole: wires state, engine and components together.

use std::collections::BTreeMap;

use gloo::events::{EventListener, EventListenerOptions};
use gloo::render::{AnimationFrame, request_animation_frame};
use gloo::timers::callback::Timeout;
use highwater_draw::scene::Part;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use wasm_bindgen_futures::spawn_local;
use web_sys::{ClipboardEvent, DataTransfer, DragEvent, Element, File};

use super::at_cursor::AtCursor;
use super::autopsy::AutopsyView;
use super::canvas::forget_colours;
use super::comparison::Comparison;
use super::diagnostics::Diagnostics;
use super::drop_zone::DropZone;
use super::figures::Figures;
use super::gpu_table::GpuTable;
use super::header::{Header, Keep};
use super::headline::HeadlineView;
use super::lesson_panel::LessonPanel;
use super::message::MessageView;
use super::model_facts::ModelFacts;
use super::notice::NoticeView;
use super::readings::Readings;
use super::recorded::RecordedView;
use super::settings::Settings;
use super::source_editor::SourceEditor;
use super::timeline::Timeline;
use super::trend::TrendView;
use super::turns::in_turn;
use super::what_helps::WhatHelps;
use crate::model::derived::Derived;
use crate::model::examples::Example;
use crate::model::export::SNAPSHOT;
use crate::model::input::Input;
use crate::model::language::Language;
use crate::model::lessons::LESSONS;
use crate::model::lessons::Teaching;
use crate::model::protocol::OpenDim;
use crate::model::state::{Answer, Arriving, Notice, State};
use crate::model::theme::Theme;
use crate::page::embed;
use crate::page::engine::Engine;
use crate::page::files;
use crate::page::link;
use crate::page::preferences;
use crate::page::teach::Lessons;
use crate::words;
use crate::words::language::{fill, tr};

/// What the editor begins with.
const STARTER: &str = "input: [N, 784]
layers:
  - linear: 256
  - relu
  - linear: 10
";

/// The page: what lives as long as it does, and its view in the language that is chosen.
#[component]
pub(crate) fn App() -> impl IntoView {
    let state = State::new(preferences::theme());
    let engine = StoredValue::new_local(Engine::start(state));
    preferences::follow_theme(state.theme);
    Effect::new(move |_| {
        state.theme.track();
        forget_colours();
    });
    Effect::new(move |_| {
        let (config, reading) = (state.config.get(), state.reading.get());
        engine.with_value(|engine| engine.estimate(config, reading));
    });
    let actions = Actions::of(state, engine);
    let dragging = accept_drops(actions.open_file, actions.open_text, state.notice);
    accept_pastes(actions.open_file, actions.open_text);
    link::attach(state, actions.openers);
    theme_for_print(state.theme);
    embed::attach(state, Derived::of(state), actions.open);
    let wanted = embed::parameter("lesson");
    if let Some(lesson) = LESSONS.iter().position(|lesson| Some(lesson.id) == wanted.as_deref()) {
        actions.lessons.begin.run(lesson);
    }
    preferences::speak(state.language, preferences::language());
    move || {
        state.language.track();
        view! { <Page state actions dragging /> }
    }
}

/// Everything that the user can ask for besides a setting.
#[derive(Clone, Copy)]
struct Actions {
    /// Open what an address names.
    openers: link::Openers,
    /// Open a file of theirs.
    open_file: Callback<File>,
    /// Open an example.
    open_example: Callback<Example>,
    /// Open a text from outside: its name and the text.
    open_text: Callback<(String, String)>,
    /// Open a text as it stands in the editor.
    edit_text: Callback<(String, String)>,
    /// Put a text into the editor, and open it.
    write: Callback<(String, String)>,
    /// Take the message away.
    forget_message: Callback<()>,
    /// Take the model off the page.
    close: Callback<()>,
    /// Leave off opening.
    leave_off: Callback<()>,
    /// Look at a moment of the newest answer.
    look: Callback<usize>,
    /// Save the newest run as a memory snapshot.
    play: Callback<()>,
    /// Search for the smallest change that makes the newest answer fit, or cancel the search.
    search: Callback<bool>,
    /// Show how the newest answer grows along a dimension.
    trend: Callback<String>,
    /// Speak another language.
    speak: Callback<Language>,
    /// Give lessons.
    lessons: Lessons,
    /// Open an input that is here already.
    open: Callback<Input>,
}

impl Actions {
    fn of(state: State, engine: StoredValue<Engine, LocalStorage>) -> Self {
        let open_text = Callback::new(move |(name, text): (String, String)| {
            engine.with_value(|engine| engine.open_text(&name, &text));
        });
        let edit_text = Callback::new(move |(name, text): (String, String)| {
            engine.with_value(|engine| engine.edit_text(&name, &text));
        });
        let open_example = example_opener(state, engine);
        // A text that came from outside replaces what is in the editor.
        let write = Callback::new(move |(name, text): (String, String)| {
            state.notice.set(None);
            state.edit(&name, Some(text.clone()), None);
            edit_text.run((name, text));
        });
        let openers = link::Openers { example: open_example, text: write };
        Self {
            open_file: Callback::new(move |file: File| {
                if file.name().ends_with(link::ENDING) {
                    link::open_file(state, openers, file);
                } else {
                    engine.with_value(|engine| engine.open(Input::File(file), BTreeMap::new()));
                }
            }),
            open_example,
            open_text,
            edit_text,
            write,
            openers,
            forget_message: Callback::new(move |()| engine.with_value(Engine::forget_message)),
            close: Callback::new(move |()| engine.with_value(Engine::close)),
            leave_off: Callback::new(move |()| engine.with_value(Engine::leave_off)),
            look: Callback::new(move |event| engine.with_value(|engine| engine.look(event))),
            play: Callback::new(move |()| engine.with_value(Engine::play)),
            search: Callback::new(move |go| {
                engine.with_value(|engine| if go { engine.search() } else { engine.stop_search() });
            }),
            trend: Callback::new(move |dim| engine.with_value(|engine| engine.trend(dim))),
            speak: Callback::new(move |language| {
                preferences::choose_language(state.language, language);
            }),
            lessons: Lessons::of(state, engine),
            open: Callback::new(move |input| {
                engine.with_value(|engine| engine.open(input, BTreeMap::new()));
            }),
        }
    }
}

/// Everything that is seen.
#[component]
fn Page(
    /// The page's state.
    state: State,
    /// What the user can ask for.
    actions: Actions,
    /// Whether a file hovers over the page.
    dragging: ReadSignal<bool>,
) -> impl IntoView {
    let derived = Derived::of(state);
    let keep = keep(state, derived, actions.play);
    let is_loaded = Memo::new(move |_| state.answer.with(Option::is_some));
    let loaded_name = Signal::derive(move || state.loaded.with(|l| Some(l.as_ref()?.name.clone())));
    let spec = Signal::derive(move || state.loaded.with(|l| l.as_ref()?.spec.clone()));
    let is_spec = Signal::derive(move || {
        let format = |answer: &Answer| answer.report.model.recognised.format == "layer spec";
        state.answer.with(|answer| answer.as_ref().is_some_and(format))
    });
    view! {
        <a class="skip" href="#main">{tr("Skip to the answer")}</a>
        <Header
            loaded=loaded_name
            opening=state.opening
            theme=state.theme
            language=state.language
            on_file=actions.open_file
            on_example=actions.open_example
            on_close=actions.close
            on_leave_off=actions.leave_off
            on_theme=Callback::new(move |()| preferences::choose_other_theme(state.theme))
            on_language=actions.speak
            lessons=actions.lessons
            keep
        />
        <main
            id="main"
            tabindex="-1"
            class:main-empty=move || !is_loaded.get()
            class:main-asking=move || state.lesson.get().is_some_and(Teaching::is_asking)
        >
            <NoticeView notice=state.notice on_dismiss=Callback::new(move |()| state.notice.set(None)) />
            <Explanation state derived on_dismiss=actions.forget_message />
            <Show
                when=move || is_loaded.get()
                fallback=move || view! { <EmptyPage state spec is_spec actions keep /> }
            >
                <HeadlineView headline=Memo::new(move |_| words::newest_headline(derived)) stale=derived.stale report=derived.report />
                <Workbench state derived actions spec is_spec />
                <p class="print-link">{move || link::printed(&state.address.get())}</p>
            </Show>
        </main>
        <DropVeil dragging />
    }
}

/// What outlives the visit.
fn keep(state: State, derived: Derived, play: Callback<()>) -> Keep {
    Keep {
        shared: state.shared.into(),
        recent: state.recent.into(),
        on_share: Callback::new(move |()| link::share(state)),
        on_share_file: Callback::new(move |()| link::save_state(state)),
        on_save: Callback::new(move |form| {
            if form == SNAPSHOT {
                return play.run(());
            }
            let title = untrack(|| words::newest_headline(derived)).map(|headline| headline.lead);
            link::save_answer(state, form, title.unwrap_or_default());
        }),
        on_open: Callback::new(|fragment: String| link::visit(&fragment)),
        on_forget: Callback::new(move |place| link::forget_recent(state, place)),
        recorded: derived.recorded.into(),
    }
}

/// The message that was pasted, and what follows from it.
#[component]
fn Explanation(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// The message goes away.
    on_dismiss: Callback<()>,
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
            on_dismiss
        />
    }
}

/// Paper is white: the picture is painted anew for it, and again afterwards.
fn theme_for_print(theme: RwSignal<Theme>) {
    let Some(window) = web_sys::window() else { return };
    let before = StoredValue::new(None::<Theme>);
    let begin = EventListener::new(&window, "beforeprint", move |_| {
        before.set_value(Some(theme.get_untracked()));
        theme.set(Theme::Light);
    });
    begin.forget();
    let end = EventListener::new(&window, "afterprint", move |_| {
        if let Some(theme_before) = before.get_value() {
            theme.set(theme_before);
        }
    });
    end.forget();
}

/// Settings on one side, what follows from them on the other.
#[component]
fn Workbench(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// What the user can ask for.
    actions: Actions,
    /// The model as a layer spec.
    spec: Signal<Option<String>>,
    /// Whether the text in the editor is one.
    is_spec: Signal<bool>,
) -> impl IntoView {
    Effect::new(move |_| {
        if let Some((_, event)) = derived.moment.get() {
            actions.look.run(event);
        }
    });
    let rest = frames(2);
    let is_writing = Memo::new(move |_| state.source.with(Option::is_some));
    let dims = Signal::derive(move || {
        state.loaded.with(|l| l.as_ref().map(|l| l.dims.clone()).unwrap_or_default())
    });
    view! {
        <div
            class="workbench"
            class:workbench-writing=move || is_writing.get()
            class:workbench-recorded=move || derived.recorded.get()
        >
            <div class="workbench-side">
                <Show when=move || is_writing.get()>
                    <SourceEditor source=state.source spec is_spec on_text=actions.edit_text />
                </Show>
                <Settings
                    dims
                    devices=state.devices
                    config=state.config
                    report=derived.report
                    problem=state.config_problem
                    on_config=Callback::new(move |config| state.config.set(config))
                />
                <ModelFacts report=derived.report millis=derived.millis />
            </div>
            <div class="workbench-results">
                <LessonPanel teaching=state.lesson report=derived.report lessons=actions.lessons />
                <Figures report=derived.report />
                <Timeline
                    report=derived.report
                    compared=Signal::derive(move || state.kept.with(|kept| Some(kept.as_ref()?.report.clone())))
                    view=state.view
                    cursor=state.cursor
                    pin=state.pin
                    theme=state.theme
                    on_view=Callback::new(move |view| state.view.set(view))
                    on_cursor=Callback::new(move |event| state.cursor.set(event))
                    on_pin=Callback::new(move |event| state.pin.set(event))
                />
                <Show when=move || { rest.get() >= 1 }>
                    <AutopsyView report=in_turn(derived.report) />
                    <Readings report=in_turn(derived.report) reading=state.reading />
                    <RecordedView report=in_turn(derived.report) what_ifs=state.what_ifs />
                    <Comparison
                        report=in_turn(derived.report)
                        name=Signal::derive(move || {
                            state.loaded.with(|l| l.as_ref().map(|l| l.name.clone()).unwrap_or_default())
                        })
                        kept=state.kept
                        on_config=Callback::new(move |config| state.config.set(config))
                    />
                <AtCursor
                    report=in_turn(derived.report)
                    snapshot=in_turn(Signal::derive(move || state.snapshot.get()))
                    theme=state.theme
                    on_jump=Callback::new(move |event| state.pin.set(Some(event)))
                />
                <Variations state derived actions dims />
                </Show>
                <Show when=move || { rest.get() >= 2 }>
                <GpuTable
                    report=in_turn(derived.report)
                    devices=state.devices
                    generation=derived.generation
                    chosen=Signal::derive(move || state.config.with(|c| c.device.clone()))
                    theme=state.theme.into()
                    on_choose=Callback::new(move |id: String| {
                        state.config.update(|config| config.choose_device(&id));
                    })
                />
                <Diagnostics report=in_turn(derived.report) />
                </Show>
            </div>
        </div>
    }
}

/// Counts the frames that have been shown, up to a number: what can wait for the answer above it
/// does.
fn frames(most: u32) -> ReadSignal<u32> {
    let (shown, set_shown) = signal(0);
    let waiting = StoredValue::new_local(None::<Timeout>);
    let kept = StoredValue::new_local(None::<AnimationFrame>);
    Effect::new(move |_| {
        if shown.get() == most {
            return;
        }
        // A timer that is set in a frame runs when that frame is on the screen.
        let frame = request_animation_frame(move |_| {
            let count = Timeout::new(0, move || set_shown.update(|shown| *shown += 1));
            waiting.set_value(Some(count));
        });
        kept.set_value(Some(frame));
    });
    shown
}

/// What other settings and other sizes lead to.
#[component]
fn Variations(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// What the user can ask for.
    actions: Actions,
    /// Dimensions that the model leaves open.
    dims: Signal<Vec<OpenDim>>,
) -> impl IntoView {
    view! {
        <WhatHelps
            levers=state.levers
            report=in_turn(derived.report)
            generation=derived.generation
            search=state.search
            config=state.config
            applied=state.applied
            on_config=Callback::new(move |config| state.config.set(config))
            on_search=actions.search
        />
        <TrendView
            curve=state.trend
            report=in_turn(derived.report)
            dims
            devices=state.devices
            theme=state.theme.into()
            on_dim=actions.trend
            on_size=Callback::new(move |(dim, size)| {
                state.config.update(|config| {
                    config.dims.insert(dim, size);
                });
            })
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
            <p>{tr("Drop to open")}</p>
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
    /// What the user can ask for.
    actions: Actions,
    /// What outlives the visit.
    keep: Keep,
) -> impl IntoView {
    let begin =
        Callback::new(move |()| actions.write.run((words::notice::new_spec(), STARTER.to_owned())));
    view! {
        <Show when=move || state.source.with(Option::is_some)>
            <div class="source-alone">
                <SourceEditor source=state.source spec is_spec on_text=actions.edit_text />
            </div>
        </Show>
        <DropZone
            opening=state.opening
            on_file=actions.open_file
            on_example=actions.open_example
            on_write=begin
            lessons=actions.lessons
            keep
        />
    }
}

/// Moves the timeline's cursor to an event, whichever iteration it is in.
fn show_event(state: State, event: usize) {
    state.view.update(|view| view.part = Part::All);
    state.pin.set(Some(event));
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
        state.opening.set(Some(Arriving::new(example.file.to_owned())));
        spawn_local(async move {
            match files::example(example.path, example.file).await {
                Ok(input) => engine.with_value(|engine| engine.open(input, example.dims())),
                Err(detail) => {
                    state.opening.set(None);
                    let title = fill("Could not open {file}", &[("file", &example.file)]);
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
            on_text.run((words::notice::pasted(), pasted));
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
                (None, Some(dropped)) => on_text.run((words::notice::dropped(), dropped)),
                (None, None) => notice.set(Some(words::notice::not_a_file())),
            }
        }),
    );
    dragging
}
