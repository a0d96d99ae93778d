//! The whole page: connects state, engine and components.

use std::collections::BTreeMap;

use gloo::events::EventListener;
use highwater_core::device::USUAL;
use highwater_core::formats::catalogue::MARK;
use highwater_core::serving::Serving;
use highwater_draw::scene::{Limit, Part, View};
use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::File;

use super::answer_card::{AnswerCard, open_dims};
use super::at_cursor::{AtCursorProps, at_cursor_view};
use super::autopsy::AutopsyView;
use super::canvas::forget_colours;
use super::comparison::{ComparisonProps, comparison};
use super::diagnostics::Diagnostics;
use super::empty_page::Hero;
use super::figures::Figures;
use super::gpu_table::GpuTable;
use super::header::Header;
use super::incoming::{accept_drops, accept_pastes};
use super::keep::Keep;
use super::later::later;
use super::lesson_panel::LessonPanel;
use super::message::MessageView;
use super::model_facts::ModelFacts;
use super::notice::NoticeView;
use super::open_field::Opens;
use super::others::{OthersViewProps, others_view};
use super::readings::Readings;
use super::recorded::RecordedView;
use super::scaled::{ScaledViewProps, scaled_view};
use super::serving::{ServingViewProps, serving_view};
use super::source_editor::SourceEditor;
use super::tabs::{SectionPanel, Sections, Tabs};
use super::timeline::Timeline;
use super::times::{TimesViewProps, times_view};
use super::tray::{TrayViewProps, tray_view};
use super::trend::{TrendViewProps, trend_view};
use super::what_helps::{self, WhatHelpsProps, what_helps_view};
use crate::model::computed::Computed;
use crate::model::derived::Derived;
use crate::model::examples::{EXAMPLES, Example, Setup};
use crate::model::export::SNAPSHOT;
use crate::model::input::Input;
use crate::model::language::Language;
use crate::model::lessons::LESSONS;
use crate::model::lessons::Teaching;
use crate::model::protocol::Others;
use crate::model::section::Section;
use crate::model::state::{Answer, Arriving, Kept, Notice, SourceText, State, Timed, is_name};
use crate::model::theme::Theme;
use crate::model::visit::Waiting;
use crate::page::embed;
use crate::page::engine::Engine;
use crate::page::files;
use crate::page::focus;
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
        state.my_gpu.track();
        engine.with_value(Engine::tell_my_gpu);
    });
    Effect::new(move |_| {
        state.theme.track();
        forget_colours();
    });
    Effect::new(move |_| {
        let (config, reading) = (state.config.get(), state.reading.get());
        engine.with_value(|engine| engine.estimate(config, reading));
    });
    let actions = Actions::of(state, engine);
    let dragging = accept_drops(actions.open_files, actions.open_text, state.notice);
    accept_pastes(actions.open_file, actions.open_text);
    link::attach(state, actions.openers);
    let printing = follow_printing(state.theme);
    state.my_gpu.set(preferences::my_gpu());
    embed::attach(state, Derived::of(state, actions.times), actions.open);
    let wanted = embed::parameter("lesson");
    if let Some(lesson) = LESSONS.iter().position(|lesson| Some(lesson.id) == wanted.as_deref()) {
        actions.lessons.begin.run(lesson);
    } else if !embed::is_asked_for() && !link::is_given() {
        open_sample(engine);
    }
    preferences::speak(state.language, preferences::language());
    move || {
        state.language.track();
        view! { <Page state actions dragging printing /> }
    }
}

/// Everything that the user can request, except settings.
#[derive(Clone, Copy)]
struct Actions {
    /// Open what an address names.
    openers: link::Openers,
    /// Open a file of theirs.
    open_file: Callback<File>,
    /// Open several: the last is shown next to the one before.
    open_files: Callback<Vec<File>>,
    /// Open an example.
    open_example: Callback<Example>,
    /// Open a text from outside: its name and the text.
    open_text: Callback<(String, String)>,
    names: RwSignal<String>,
    ask_names: Callback<()>,
    /// Open a text as it stands in the editor.
    edit_text: Callback<(String, String)>,
    /// Put a text into the editor, and open it.
    write: Callback<(String, String)>,
    /// Take the message away.
    forget_message: Callback<()>,
    /// Take the model off the page.
    close: Callback<()>,
    /// Cancel opening.
    leave_off: Callback<()>,
    /// Look at a moment of the newest answer.
    look: Callback<usize>,
    /// Save the newest run as a memory snapshot.
    play: Callback<()>,
    /// Search for the smallest change that makes the newest answer fit, or cancel the search.
    search: Callback<bool>,
    /// Show how the newest answer grows along a dimension.
    trend: Callback<String>,
    /// What other estimators say.
    others: RwSignal<Option<Computed<Others>>>,
    /// Ask them about the newest answer.
    ask_others: Callback<()>,
    /// How long a step takes.
    times: RwSignal<Option<Timed>>,
    /// Ask how long a step of the newest answer takes; with all tables, or without.
    ask_times: Callback<bool>,
    /// How the training ends on other numbers of GPUs.
    scaled: RwSignal<Option<Computed<Vec<Vec<u8>>>>>,
    /// Ask for it.
    ask_scale: Callback<()>,
    /// Jobs that share a GPU.
    shared: RwSignal<Option<Vec<u8>>>,
    /// Change, or show, them.
    ask_shared: Callback<Vec<u8>>,
    /// How a server is started.
    serving: RwSignal<Serving>,
    /// What a server has on each GPU.
    capacity: RwSignal<Option<Computed<Vec<u8>>>>,
    /// The number of the newest question about it.
    capacity_asked: RwSignal<u64>,
    /// Ask for it, with these settings.
    ask_capacity: Callback<Vec<u8>>,
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
            state.write(&name, Some(text.clone()), None);
            state.opened.update(|opened| *opened += 1);
            edit_text.run((name, text));
        });
        let close = Callback::new(move |()| {
            engine.with_value(Engine::close);
            open_sample(engine);
        });
        let open = Callback::new(move |input| {
            engine.with_value(|engine| engine.open(input, BTreeMap::new()));
        });
        let openers =
            link::Openers { example: open_example, text: write, input: open, nothing: close };
        let open_file = Callback::new(move |file: File| {
            if file.name().ends_with(link::ENDING) {
                link::open_file(state, openers, file);
            } else {
                open.run(Input::File(file));
            }
        });
        Self {
            open_file,
            open_files: Callback::new(move |files: Vec<File>| {
                open_one_by_one(state, open_file, files);
            }),
            open_example,
            open_text,
            names: engine.with_value(|engine| engine.names),
            ask_names: Callback::new(move |()| engine.with_value(Engine::ask_names)),
            edit_text,
            write,
            openers,
            forget_message: Callback::new(move |()| engine.with_value(Engine::forget_message)),
            close,
            leave_off: Callback::new(move |()| engine.with_value(Engine::leave_off)),
            look: Callback::new(move |event| engine.with_value(|engine| engine.look(event))),
            play: Callback::new(move |()| engine.with_value(Engine::play)),
            search: Callback::new(move |go| {
                engine.with_value(|engine| if go { engine.search() } else { engine.stop_search() });
            }),
            trend: Callback::new(move |dim| engine.with_value(|engine| engine.trend(dim))),
            others: engine.with_value(|engine| engine.others),
            ask_others: Callback::new(move |()| engine.with_value(Engine::ask_others)),
            times: engine.with_value(|engine| engine.times),
            ask_times: Callback::new(move |all| engine.with_value(|engine| engine.ask_times(all))),
            scaled: engine.with_value(|engine| engine.scaled),
            ask_scale: Callback::new(move |()| engine.with_value(Engine::ask_scale)),
            shared: engine.with_value(|engine| engine.shared),
            ask_shared: Callback::new(move |ask| {
                engine.with_value(|engine| engine.ask_shared(ask));
            }),
            serving: engine.with_value(|engine| engine.serving),
            capacity: engine.with_value(|engine| engine.capacity),
            capacity_asked: engine.with_value(|engine| engine.capacity_asked),
            ask_capacity: Callback::new(move |settings| {
                engine.with_value(|engine| engine.ask_capacity(settings));
            }),
            speak: Callback::new(move |language| {
                preferences::choose_language(state.language, language);
            }),
            lessons: Lessons::of(state, engine),
            open,
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
    /// Whether the page is being printed.
    printing: ReadSignal<bool>,
) -> impl IntoView {
    let derived = Derived::of(state, actions.times);
    Effect::new(move |_| {
        derived.generation.track();
        let is_all = state.section.with_untracked(|section| *section == Section::Time);
        if !is_all && !derived.recorded.get_untracked() {
            actions.ask_times.run(false);
        }
    });
    let is_named = StoredValue::new(false);
    Effect::new(move |_| {
        let is_asking = state.lesson.get().is_some_and(Teaching::is_asking);
        let name = state.loaded.with(|loaded| Some(loaded.as_ref()?.name.clone()));
        let name = name.filter(|_| !state.is_sample());
        let is_current = derived.current.get().is_some();
        let report = derived.report.get().filter(|_| !is_asking && is_current);
        // The document has the title of the empty page.
        if !is_named.get_value() && name.is_none() {
            return;
        }
        is_named.set_value(true);
        let title = words::tab_title(name.as_deref(), report.as_deref());
        if let Some(document) = web_sys::window().and_then(|window| window.document()) {
            document.set_title(&title);
        }
    });
    let keep = keep(state, derived, actions.play);
    let is_open = Memo::new(move |_| state.answer.with(Option::is_some) && !state.is_sample());
    let loaded_name = Signal::derive(move || state.loaded.with(|l| Some(l.as_ref()?.name.clone())));
    let begin =
        Callback::new(move |()| actions.write.run((words::notice::new_spec(), STARTER.to_owned())));
    let opens = Opens {
        file: actions.open_file,
        example: actions.open_example,
        text: actions.open_text,
        setup: Callback::new(move |setup: Setup| {
            let waiting = Waiting {
                name: setup.title.to_owned(),
                config: Some(setup.config()),
                view: View::default(),
                event: None,
            };
            state.waiting.set(Some(waiting));
            actions.open_text.run((setup.title.to_owned(), [MARK, setup.id].concat()));
        }),
        names: actions.names,
        ask_names: actions.ask_names,
        write: begin,
        cancel: actions.leave_off,
        close: actions.close,
    };
    // A report that the sections follow counts as long as its request does.
    let sections = Sections {
        chosen: state.section,
        recorded: derived.recorded.into(),
        is_written: Signal::derive(move || {
            state.loaded.with(|l| l.as_ref().is_some_and(|l| l.is_written))
        }),
        printing: printing.into(),
    };
    view! {
        <a class="skip" href="#main">{tr("Skip to the answer")}</a>
        <Header
            loaded=loaded_name
            opening=state.opening
            is_open=is_open.into()
            theme=state.theme
            language=state.language
            opens
            on_theme=Callback::new(move |()| preferences::choose_other_theme(state.theme))
            on_language=actions.speak
            lessons=actions.lessons
            keep
        />
        <main
            id="main"
            tabindex="-1"
            class:main-empty=move || !is_open.get()
            class:main-asking=move || state.lesson.get().is_some_and(Teaching::is_asking)
            class:main-hiding=move || state.lesson.get().is_some_and(Teaching::hides_sizes)
        >
            <NoticeView notice=state.notice on_dismiss=Callback::new(move |()| state.notice.set(None)) />
            <Explanation state derived on_dismiss=actions.forget_message on_search=actions.search />
            <Show
                when=move || is_open.get()
                fallback=move || view! { <EmptyPage state derived actions opens keep /> }
            >
                <LessonPanel teaching=state.lesson report=derived.report lessons=actions.lessons />
                <AnswerCard state derived />
                <Workbench state derived actions sections />
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
    /// What makes the run fit is to be searched, or not any more.
    on_search: Callback<bool>,
) -> impl IntoView {
    // The page's own example is not the model of the run that failed.
    let is_theirs = move || !state.is_sample();
    let found = Signal::derive(move || is_theirs().then(|| derived.found.get()).flatten());
    let report = Signal::derive(move || is_theirs().then(|| derived.report.get()).flatten());
    view! {
        <MessageView
            message=state.message
            found
            report
            config=state.config
            on_config=Callback::new(move |config| state.config.set(config))
            on_event=Callback::new(move |event| show_event(state, event))
            on_batch=Callback::new(move |batch| state.choose_batch(batch))
            on_search=Callback::new(move |()| {
                state.section.set(Section::Suggestions);
                focus::focus_later("#helps-title");
                on_search.run(true);
            })
            on_dismiss
        />
    }
}

/// Whether the page is being printed. Paper is white: the picture is painted anew for it, and again
/// afterwards.
fn follow_printing(theme: RwSignal<Theme>) -> ReadSignal<bool> {
    let (printing, set_printing) = signal(false);
    let Some(window) = web_sys::window() else { return printing };
    let before = StoredValue::new(None::<Theme>);
    let begin = EventListener::new(&window, "beforeprint", move |_| {
        before.set_value(Some(theme.get_untracked()));
        theme.set(Theme::Light);
        set_printing.set(true);
    });
    begin.forget();
    let end = EventListener::new(&window, "afterprint", move |_| {
        set_printing.set(false);
        if let Some(theme_before) = before.get_value() {
            theme.set(theme_before);
        }
    });
    end.forget();
    printing
}

/// The sections of the answer; next to them, the text of a model that is being written.
#[component]
fn Workbench(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// What the user can ask for.
    actions: Actions,
    /// The sections.
    sections: Sections,
) -> impl IntoView {
    let spec = Signal::derive(move || state.loaded.with(|l| l.as_ref()?.spec.clone()));
    let is_spec = Signal::derive(move || {
        let format = |answer: &Answer| answer.report.model.recognised.format == "layer spec";
        state.answer.with(|answer| answer.as_ref().is_some_and(format))
    });
    let suggestions =
        Memo::new(move |_| what_helps::worthwhile(state.levers, derived.current.get()));
    let can_write = Memo::new(move |_| {
        let has_text = |source: &SourceText| !is_name(&source.text);
        state.source.with(|source| source.as_ref().is_some_and(has_text)) && !state.is_writing.get()
    });
    view! {
        <div
            class="workbench"
            class:workbench-writing=move || state.is_writing.get()
            class:workbench-recorded=move || derived.recorded.get()
        >
            <Show when=move || state.is_writing.get()>
                <div class="workbench-side">
                    <SourceEditor
                        source=state.source
                        spec
                        is_spec
                        on_text=actions.edit_text
                        on_close=Callback::new(move |()| state.is_writing.set(false))
                    />
                </div>
            </Show>
            <div class="workbench-results">
                <div class="workbench-bar">
                    <Tabs sections suggestions=suggestions.into() />
                    <Show when=move || can_write.get()>
                        <button
                            type="button"
                            class="button"
                            id="edit"
                            on:click=move |_| state.is_writing.set(true)
                        >
                            {tr("Edit the model")}
                        </button>
                    </Show>
                </div>
                <TimelineSection state derived actions sections />
                <Variations state derived actions sections />
                <Details state derived actions sections />
            </div>
        </div>
    }
}

/// Memory over time, and the model behind it.
#[component]
fn TimelineSection(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// What the user can ask for.
    actions: Actions,
    /// The sections.
    sections: Sections,
) -> impl IntoView {
    Effect::new(move |_| {
        if let Some((_, event)) = derived.moment.get() {
            actions.look.run(event);
        }
    });
    let follow = move |section| sections.follow(section, derived.report);
    let is_current = Signal::derive(move || derived.current.get().is_some());
    let at_cursor = move || AtCursorProps {
        report: follow(Section::Allocator),
        snapshot: sections.follow(Section::Allocator, Signal::derive(move || state.snapshot.get())),
        theme: state.theme.into(),
        on_jump: Callback::new(move |event| state.pin.set(Some(event))),
    };
    view! {
        <SectionPanel sections section=Section::Timeline current=is_current>
            <Chart state derived />
            <Readings report=follow(Section::Timeline) reading=state.reading />
            <ModelFacts report=follow(Section::Timeline) millis=derived.millis />
        </SectionPanel>
        <SectionPanel sections section=Section::Peak current=is_current>
            <AutopsyView report=follow(Section::Peak) />
        </SectionPanel>
        <SectionPanel sections section=Section::Allocator current=is_current>
            <Figures report=follow(Section::Allocator) />
            {later(sections.is_shown(Section::Allocator), at_cursor_view, at_cursor)}
            <RecordedView report=follow(Section::Allocator) what_ifs=state.what_ifs />
        </SectionPanel>
    }
}

/// The timeline with its legend.
#[component]
fn Chart(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
) -> impl IntoView {
    let limits: Signal<Vec<Limit>> = Memo::new(move |_| limits(state, derived)).into();
    view! {
        <Timeline
            report=derived.report
            compared=Signal::derive(move || state.kept.with(|kept| Some(kept.as_ref()?.report.clone())))
            view=state.view
            limits
            cursor=state.cursor
            pin=state.pin
            theme=state.theme
            on_view=Callback::new(move |view| state.view.set(view))
            on_cursor=Callback::new(move |event| state.cursor.set(event))
            on_pin=Callback::new(move |event| state.pin.set(event))
            // Whoever moves along the picture reads what a lesson asks for.
            inert=Signal::derive(move || state.lesson.get().is_some_and(Teaching::is_asking))
            times=derived.times
            generation=derived.generation
        />
    }
}

/// What the usual GPUs and the chosen one leave to the allocator.
fn limits(state: State, derived: Derived) -> Vec<Limit> {
    let chosen = derived.report.with(|report| report.as_ref().map(|report| report.verdict.clone()));
    let Some(chosen) = chosen else { return Vec::new() };
    // The picture is that of the report, whether that counts or not.
    let generation = Some(derived.generation.get());
    let mut limits = vec![Limit::of(&chosen, true)];
    state.devices.with(|rows| {
        for row in rows {
            row.judged(generation, |known| {
                if USUAL.contains(&known.id.as_str()) && known.id != chosen.id {
                    limits.push(Limit::of(known, false));
                }
            });
        }
    });
    for limit in &mut limits {
        limit.name = words::short_name(&limit.name).to_owned();
    }
    limits
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
    /// The sections.
    sections: Sections,
) -> impl IntoView {
    let follow = move |section| sections.follow(section, derived.report);
    let growth = move || TrendViewProps {
        newest: state.trend,
        current: derived.current.into(),
        report: follow(Section::Growth),
        dims: open_dims(state),
        devices: state.devices,
        theme: state.theme.into(),
        on_dim: actions.trend,
        on_size: Callback::new(move |(dim, size)| {
            state.config.update(|config| {
                config.dims.insert(dim, size);
            });
        }),
    };
    let suggested = move || WhatHelpsProps {
        levers: state.levers,
        report: follow(Section::Suggestions),
        current: derived.current.into(),
        search: state.search,
        config: state.config,
        applied: state.applied,
        on_config: Callback::new(move |config| state.config.set(config)),
        on_search: actions.search,
    };
    view! {
        <SectionPanel sections section=Section::Suggestions current=true>
            {later(sections.is_shown(Section::Suggestions), what_helps_view, suggested)}
        </SectionPanel>
        <SectionPanel sections section=Section::Growth current=of_now(state.trend, derived)>
            {later(sections.is_shown(Section::Growth), trend_view, growth)}
        </SectionPanel>
    }
}

/// Every GPU, what others say, two answers next to each other, and what was assumed.
#[component]
fn Details(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// What the user can ask for.
    actions: Actions,
    /// The sections.
    sections: Sections,
) -> impl IntoView {
    let follow = move |section| sections.follow(section, derived.report);
    let is_current = Signal::derive(move || derived.current.get().is_some());
    let compared = move || ComparisonProps {
        report: follow(Section::Compare),
        name: Signal::derive(move || {
            state.loaded.with(|l| l.as_ref().map(|l| l.name.clone()).unwrap_or_default())
        }),
        kept: state.kept,
        on_config: Callback::new(move |config| state.config.set(config)),
    };
    let scaled = move || ScaledViewProps {
        pieces: actions.scaled,
        report: follow(Section::Scale),
        shown: sections.is_shown(Section::Scale),
        on_ask: actions.ask_scale,
        on_config: Callback::new(move |config| state.config.set(config)),
    };
    let tray = move || TrayViewProps {
        shared: actions.shared,
        report: follow(Section::Shared),
        shown: sections.is_shown(Section::Shared),
        on_ask: actions.ask_shared,
    };
    let served = move || ServingViewProps {
        settings: actions.serving,
        capacity: actions.capacity,
        asked: actions.capacity_asked,
        device: Memo::new(move |_| state.config.with(|config| config.device.clone())).into(),
        report: follow(Section::Servers),
        shown: sections.is_shown(Section::Servers),
        on_ask: actions.ask_capacity,
        on_device: Callback::new(move |id: String| {
            state.config.update(|config| config.choose_device(&id));
        }),
    };
    let timed = move || TimesViewProps {
        times: derived.times,
        report: follow(Section::Time),
        devices: state.devices,
        current: derived.current.into(),
        shown: sections.is_shown(Section::Time),
        on_ask: Callback::new(move |()| actions.ask_times.run(true)),
    };
    let others = move || OthersViewProps {
        others: actions.others,
        report: follow(Section::Others),
        devices: state.devices,
        current: derived.current.into(),
        shown: sections.is_shown(Section::Others),
        on_ask: actions.ask_others,
    };
    view! {
        <SectionPanel sections section=Section::Gpus current=true>
            <GpuTable
                report=follow(Section::Gpus)
                devices=state.devices
                current=derived.current
                chosen=Signal::derive(move || state.config.with(|c| c.device.clone()))
                mine=state.my_gpu
                theme=state.theme.into()
                on_choose=Callback::new(move |id: String| {
                    state.config.update(|config| config.choose_device(&id));
                })
            />
        </SectionPanel>
        <SectionPanel sections section=Section::Scale current=of_now(actions.scaled, derived)>
            {later(sections.is_shown(Section::Scale), scaled_view, scaled)}
        </SectionPanel>
        <SectionPanel sections section=Section::Shared current=true>
            {later(sections.is_shown(Section::Shared), tray_view, tray)}
        </SectionPanel>
        <SectionPanel sections section=Section::Servers current=true>
            {later(sections.is_shown(Section::Servers), serving_view, served)}
        </SectionPanel>
        <SectionPanel sections section=Section::Time current=of_now(derived.times, derived)>
            {later(sections.is_shown(Section::Time), times_view, timed)}
        </SectionPanel>
        <SectionPanel sections section=Section::Others current=of_now(actions.others, derived)>
            {later(sections.is_shown(Section::Others), others_view, others)}
        </SectionPanel>
        <SectionPanel sections section=Section::Compare current=is_current>
            {later(sections.is_shown(Section::Compare), comparison, compared)}
        </SectionPanel>
        <SectionPanel sections section=Section::Assumptions current=is_current>
            <Diagnostics report=follow(Section::Assumptions) />
        </SectionPanel>
    }
}

/// Whether what a section shows belongs to the settings as they are: it says itself if nothing is known yet.
fn of_now<T: Send + Sync + 'static>(
    known: RwSignal<Option<Computed<T>>>,
    derived: Derived,
) -> Signal<bool> {
    Signal::derive(move || {
        let current = derived.current.get();
        known.with(|known| {
            known.as_ref().map_or_else(|| current.is_some(), |known| known.at(current).is_some())
        })
    })
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

/// The question and the field; below them an example that is already answered.
#[component]
fn EmptyPage(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// What the user can ask for.
    actions: Actions,
    /// What the field opens.
    opens: Opens,
    /// What outlives the visit.
    keep: Keep,
) -> impl IntoView {
    let open = move |_| {
        state.open_sample();
        state.section.set(Section::Timeline);
    };
    view! {
        <Hero opening=state.opening opens keep lessons=actions.lessons />
        <Show when=move || state.is_writing.get()>
            <div class="source-alone">
                <SourceEditor
                    source=state.source
                    spec=Signal::derive(|| None::<String>)
                    is_spec=Signal::derive(|| true)
                    on_text=actions.edit_text
                    on_close=Callback::new(move |()| {
                        state.is_writing.set(false);
                        state.source.set(None);
                    })
                />
            </div>
        </Show>
        <Show when=move || state.answer.with(Option::is_some) && !state.is_writing.get()>
            <section class="sample" aria-labelledby="sample-title">
                <div class="sample-head">
                    <h2 class="sample-title" id="sample-title">
                        {move || {
                            let name = state.loaded.with(|l| l.as_ref().map(|l| l.name.clone()));
                            let name = name.as_deref().map_or("", words::model_name);
                            fill("For example: {name}", &[("name", &name)])
                        }}
                    </h2>
                    <button type="button" class="button" id="open-sample" on:click=open>
                        {tr("See the whole answer")}
                    </button>
                </div>
                <AnswerCard state derived minor=true />
                <div class="section section-timeline"><Chart state derived /></div>
            </section>
        </Show>
    }
}

/// Opens the first of several files; once it is answered, it is kept and the next is opened, so that both
/// are compared. More than two cannot be.
fn open_one_by_one(state: State, open: Callback<File>, files: Vec<File>) {
    let names: Vec<String> = files.iter().map(File::name).collect();
    let mut files = files.into_iter().filter(|file| !is_data_of_another(&file.name(), &names));
    let (Some(first), next) = (files.next(), files.next()) else { return };
    let names: Vec<String> = files.map(|file| file.name()).collect();
    let wanted = first.name();
    open.run(first);
    let Some(next) = next else { return };
    let last = next.name();
    let waiting = StoredValue::new_local(Some(next));
    let left = StoredValue::new_local(Some(names).filter(|names| !names.is_empty()));
    Effect::new(move |_| {
        let Some(answer) = state.answer.get() else { return };
        let name = state.loaded.with_untracked(|loaded| Some(loaded.as_ref()?.name.clone()));
        if name.as_ref() == Some(&wanted)
            && let Some(next) = waiting.try_update_value(Option::take).flatten()
        {
            state.kept.set(Some(Kept { name: wanted.clone(), report: answer.report }));
            open.run(next);
        } else if name.as_ref() == Some(&last)
            && waiting.with_value(Option::is_none)
            && let Some(left) = left.try_update_value(Option::take).flatten()
        {
            // What is opened takes the notices before it away.
            state.notice.set(Some(words::notice::not_opened(&left.join(", "))));
        }
    });
}

/// Whether a file has the weights of a model among `all`, as exporters write `model.onnx.data` and `model.data` next to
/// `model.onnx`: no weights are read, so it is part of that model.
fn is_data_of_another(name: &str, all: &[String]) -> bool {
    let is_of = |model: &String| {
        let rest = model.strip_suffix(".onnx").and_then(|stem| name.strip_prefix(stem));
        let rest = rest.map(|rest| rest.strip_prefix(".onnx").unwrap_or(rest));
        let ends = [".data", "_data", ".bin", ".weight"];
        rest.is_some_and(|rest| ends.iter().any(|end| rest.starts_with(end)))
    };
    all.iter().any(is_of)
}

/// Moves the timeline's cursor to an event, whichever iteration it is in.
fn show_event(state: State, event: usize) {
    state.section.set(Section::Timeline);
    state.view.update(|view| view.part = Part::All);
    state.pin.set(Some(event));
    let document = web_sys::window().and_then(|window| window.document());
    if let Some(plot) = document.and_then(|document| document.query_selector(".timeline").ok()?) {
        plot.scroll_into_view();
    }
}

/// Fetches an example from where the page came from, and opens it.
fn example_opener(state: State, engine: StoredValue<Engine, LocalStorage>) -> Callback<Example> {
    Callback::new(move |example: Example| {
        state.opening.set(Some(Arriving::new(example.file.to_owned())));
        let is_first = engine.with_value(Engine::is_starting);
        spawn_local(async move {
            match files::example(example, is_first).await {
                Ok((input, known)) => engine.with_value(|engine| {
                    engine.open_example(input, example.dims(), known);
                }),
                Err(detail) => {
                    state.opening.set(None);
                    let title = fill("Could not open {file}", &[("file", &example.file)]);
                    state.notice.set(Some(Notice { title, detail, is_error: true }));
                }
            }
        });
    })
}

/// Opens the example that shows what an answer looks like.
fn open_sample(engine: StoredValue<Engine, LocalStorage>) {
    let example = EXAMPLES[0];
    let is_first = engine.with_value(Engine::is_starting);
    spawn_local(async move {
        // Without it the page has no example, and all else works.
        if let Ok((input, known)) = files::example(example, is_first).await {
            engine.with_value(|engine| engine.open_sample(input, example.dims(), known));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_next_to_their_model_are_part_of_it() {
        let all = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let of_model = all(&["model.onnx", "other.pt2"]);
        for (name, is_part) in [
            ("model.onnx.data", true),
            ("model.onnx_data", true),
            ("model.onnx_data_1", true),
            ("model.data", true),
            ("model.bin", true),
            ("model.weights", true),
            ("model.onnx", false),
            ("model.yaml", false),
            ("model_2.onnx", false),
            ("other.pt2.data", false),
            ("another.onnx.data", false),
        ] {
            assert_eq!(is_data_of_another(name, &of_model), is_part, "{name}");
        }
        assert!(!is_data_of_another("model.onnx.data", &all(&["model.onnx.data"])));
    }
}
