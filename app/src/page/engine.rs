//! The page's end of the connection to the worker.
//!
//! The engine has one request under way at a time and keeps only the newest of those that wait. So dragging a
//! slider sends at most one request per frame and never builds a queue. The engine restarts a worker that stops,
//! reopens the model, and reports why.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use gloo::render::request_animation_frame;
use gloo::timers::callback::Timeout;
use highwater_core::Config;
use highwater_core::config::{SETTINGS, Setting};
use highwater_core::report::{DeviceVerdict, Snapshot};
use highwater_core::serving::Serving;
use highwater_core::wording::Sentence;
use js_sys::Object;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{
    ErrorEvent, FocusOptions, HtmlElement, MessageEvent, Url, Worker, WorkerOptions, WorkerType,
};

use crate::model::computed::Computed;
use crate::model::explained::Explained;
use crate::model::input::Input;
use crate::model::known::Known;
use crate::model::protocol::{self, Device, Estimate, FromWorker, OpenDim, Others, ToWorker};
use crate::model::state::{
    Answer, Arriving, ConfigProblem, DeviceRow, Effected, Ended, Loaded, Message, SearchState,
    SourceProblem, State, Timed, is_name,
};
use crate::model::times::Times;
use crate::words;
use highwater_core::levers::Pulled;

use super::line::{By, Line, Opening, Request, Wanted};
use super::{embed, link};

/// COUNT: milliseconds without an input, from the start on, after which other files are fetched.
const QUIET: u32 = 300;
/// COUNT: milliseconds that a worker may be busy with something else when an input is opened; then another opens it.
const PATIENCE: u32 = 1500;

/// Something else is on the page: whoever reads or listens begins with its answer. A page inside
/// another one leaves the focus where it is.
fn begin_at_the_top() {
    let Some(window) = web_sys::window().filter(|_| !embed::is_asked_for()) else { return };
    window.scroll_to_with_x_and_y(0.0, 0.0);
    let main = window.document().and_then(|document| document.get_element_by_id("main"));
    if let Some(main) = main {
        // Fails only for elements that cannot have it.
        let unmoved = FocusOptions::new();
        unmoved.set_prevent_scroll(true);
        drop(main.unchecked_into::<HtmlElement>().focus_with_options(&unmoved));
    }
}

#[wasm_bindgen]
extern "C" {
    type ImportMeta;

    #[wasm_bindgen(method, getter)]
    fn url(this: &ImportMeta) -> String;

    #[wasm_bindgen(thread_local_v2, js_namespace = import, js_name = meta)]
    static META: ImportMeta;

    /// Fetches the files of a part, for the worker.
    #[wasm_bindgen(js_name = fetchAhead)]
    fn fetch_ahead(part: &str);
}

/// Sends requests, receives answers, writes them to the state.
#[derive(Clone)]
pub(crate) struct Engine {
    state: State,
    line: Rc<RefCell<Line>>,
    /// The models that need no file, a line for each, once they were asked for.
    pub(crate) names: RwSignal<String>,
    /// What other estimators say of the newest run for which they were asked; without rows where they did not arrive.
    pub(crate) others: RwSignal<Option<Computed<Others>>>,
    /// How long a step takes.
    pub(crate) times: RwSignal<Option<Timed>>,
    /// How the training ends on other numbers of GPUs, in packed pieces.
    pub(crate) scaled: RwSignal<Option<Computed<Vec<Vec<u8>>>>>,
    /// Jobs that share a GPU, packed; empty where what keeps them did not arrive.
    pub(crate) shared: RwSignal<Option<Vec<u8>>>,
    /// How a server is started; a context of 0 is the model's.
    pub(crate) serving: RwSignal<Serving>,
    /// What a server has on each GPU, packed, for the question of that number.
    pub(crate) capacity: RwSignal<Option<Computed<Vec<u8>>>>,
    /// COUNT: questions about servers, of which the newest counts.
    pub(crate) capacity_asked: RwSignal<u64>,
}

impl Engine {
    /// Starts the worker.
    pub(crate) fn start(state: State) -> Self {
        state.devices.set(Device::all().map(DeviceRow::new).collect());
        let engine = Self {
            state,
            line: Rc::default(),
            names: RwSignal::new(String::new()),
            others: RwSignal::new(None),
            times: RwSignal::new(None),
            scaled: RwSignal::new(None),
            shared: RwSignal::new(None),
            serving: RwSignal::new(Serving::default()),
            capacity: RwSignal::new(None),
            capacity_asked: RwSignal::new(0),
        };
        engine.start_worker();
        engine
    }

    /// Opens an input; what is on the page stays until that has worked.
    ///
    /// Sizes chosen for one model mean nothing to the next: it gets `dims`, and defaults for the
    /// rest.
    pub(crate) fn open(&self, input: Input, dims: BTreeMap<String, u64>) {
        self.open_example(input, dims, None);
    }

    /// Opens an input with these settings, which are not the user's choice.
    pub(crate) fn open_with(&self, input: Input, config: Config) {
        self.state.opening.set(Some(Arriving::new(input.name())));
        let opening = self.opening(input, config.dims.clone(), By::File);
        self.queue(Opening { wanted: Some(config), ..opening });
    }

    /// What is to be opened, with the settings that the user has chosen and those that wait for it. What the model before
    /// brought does not go on to this one.
    fn opening(&self, input: Input, dims: BTreeMap<String, u64>, by: By) -> Opening {
        let own = self.own();
        let mut config = Config { dims, ..own.clone() };
        // A message that was shown before its model, as far as its settings are still set.
        let set = self.state.config.get_untracked();
        self.state.message.with_untracked(|message| {
            let Some(message) = message.as_ref().filter(|message| !message.has_model) else {
                return;
            };
            let explained = &message.explained;
            let applied = explained.settings.iter().filter(|one| explained.is_applied(one, &set));
            applied.for_each(|setting| explained.apply(setting, &mut config));
        });
        let name = input.name();
        let wanted = self.state.waiting.with_untracked(|waiting| {
            waiting.as_ref().filter(|waiting| waiting.name == name)?.config.clone()
        });
        Opening { input, config, wanted, own: Some(own), by }
    }

    /// What the user has chosen, here and before: where the settings are not as what is open brought them.
    fn own(&self) -> Config {
        let line = self.line.borrow();
        let mut own = line.own.clone();
        self.state.config.with_untracked(|config| {
            let is_chosen = |setting: &&Setting| !setting.is_same(config, &line.brought);
            SETTINGS.iter().filter(is_chosen).for_each(|setting| setting.copy(config, &mut own));
            // Figures of a GPU that what is open brought go with that GPU.
            if own.device != config.device {
                let device = std::mem::replace(&mut own.device, config.device.clone());
                own.choose_device(&device);
            }
        });
        own
    }

    /// The settings are set by what is open, not by the user.
    pub(crate) fn bring(&self, config: Config) {
        self.line.borrow_mut().brought = config.clone();
        self.state.config.set(config);
    }

    /// Opens an example. Before the worker is there, the answer that travelled with it is shown.
    pub(crate) fn open_example(
        &self,
        input: Input,
        dims: BTreeMap<String, u64>,
        known: Option<Known>,
    ) {
        self.state.opening.set(Some(Arriving::new(input.name())));
        self.open_known(self.opening(input, dims, By::File), known);
    }

    /// Opens an example that shows what an answer looks like, unless something else is on its way.
    pub(crate) fn open_sample(
        &self,
        input: Input,
        dims: BTreeMap<String, u64>,
        known: Option<Known>,
    ) {
        let is_wanted = self.state.loaded.with_untracked(Option::is_none)
            && self.state.opening.with_untracked(Option::is_none);
        if is_wanted {
            self.open_known(self.opening(input, dims, By::Page), known);
        }
    }

    /// Whether the worker has not begun yet.
    pub(crate) fn is_starting(&self) -> bool {
        !self.line.borrow().ready
    }

    /// Shows an answer that is known, if it is for the settings that are wanted and the worker could not answer yet; the
    /// worker catches up. Otherwise it is asked.
    fn open_known(&self, opening: Opening, known: Option<Known>) {
        let is_for = |known: &Known| {
            opening.wanted.is_none() && known.estimate.report.config == opening.config
        };
        let Some(known) = known.filter(|known| self.is_starting() && is_for(known)) else {
            return self.queue(opening);
        };
        let mut line = self.line.borrow_mut();
        line.open_next = None;
        line.generation += 1;
        let generation = line.generation;
        line.lacks = Some(Box::new((opening.clone(), known.estimate.largest.clone())));
        line.under_way = Some(Request::Open(Box::new(opening)));
        drop(line);
        self.opened(generation, (known.dims, None, None, false), known.estimate);
        for verdict in known.verdicts {
            self.judged(generation, verdict);
        }
    }

    /// Opens a text from outside.
    pub(crate) fn open_text(&self, name: &str, text: &str) {
        self.state.opening.set(Some(Arriving::new(name.to_owned())));
        self.queue(self.opening(Input::text(name, text), BTreeMap::new(), By::Text));
    }

    /// Opens a text as it is now in the editor. Where it is wrong the editor shows why, and the model
    /// before stays on the page.
    pub(crate) fn edit_text(&self, name: &str, text: &str) {
        let config = self.state.config.get_untracked();
        let input = Input::text(name, text);
        self.queue(Opening { input, config, wanted: None, own: None, by: By::Typing });
    }

    /// Takes a message off the page; settings of it that were applied stay.
    pub(crate) fn forget_message(&self) {
        self.state.message.set(None);
        self.state.found.set(None);
        let message = ToWorker::Seek { sought: None, at_once: false };
        self.line.borrow_mut().send(message);
    }

    fn queue(&self, opening: Opening) {
        let is_asked_for = matches!(opening.by, By::File | By::Text);
        if is_asked_for && self.is_starting() {
            // They arrive with what the worker begins with, not after it.
            fetch_ahead("reader");
        }
        self.line.borrow_mut().open_next = Some(opening);
        self.revive();
        self.pump();
        if is_asked_for && self.line.borrow().ready {
            let engine = self.clone();
            let generation = self.line.borrow().generation;
            Timeout::new(PATIENCE, move || engine.hurry(generation)).forget();
        }
    }

    /// Has another worker open what waits for one that is busy with something else, such as a larger file. It was asked
    /// for when `generation` was the newest request.
    fn hurry(&self, generation: u64) {
        let mut line = self.line.borrow_mut();
        if !line.ready || line.generation != generation {
            return;
        }
        if line.open_next.is_none() {
            // It was sent: has the worker seen it?
            match &line.under_way {
                Some(Request::Open(opening)) if !line.has_begun => {
                    line.open_next = Some(Opening::clone(opening));
                }
                _ => return,
            }
        }
        line.stop_worker();
        line.is_bare = true;
        drop(line);
        self.start_worker();
    }

    /// Whether the input being read is the one that the page shows as opening: another may wait.
    fn is_opening_newest(&self) -> bool {
        self.line.borrow().open_next.is_none()
    }

    /// Cancels opening. The worker is busy with a file and receives no message, so a new worker
    /// replaces it and reopens the previous model.
    pub(crate) fn leave_off(&self) {
        let mut line = self.line.borrow_mut();
        line.stop_worker();
        line.open_next = line.good.clone().map(|(input, good)| Opening::again(input, good));
        drop(line);
        self.state.opening.set(None);
        self.start_worker();
    }

    /// Asks for an estimate with the next frame.
    pub(crate) fn estimate(&self, config: Config, reading: usize) {
        let wanted = Wanted { config, reading };
        let mut line = self.line.borrow_mut();
        let asked = line.good.as_ref().is_some_and(|(_, good)| *good != wanted);
        line.estimate_next = Some(wanted);
        let engine = self.clone();
        line.frame = Some(request_animation_frame(move |_| engine.pump()));
        drop(line);
        if asked {
            self.revive();
        }
    }

    /// Looks at one moment of the newest answer; of those that wait, only the newest is kept.
    pub(crate) fn look(&self, event: usize) {
        let mut line = self.line.borrow_mut();
        if line.looking.is_some() {
            line.look_next = Some(event);
        } else if let Some(generation) = self.answered() {
            line.looking = Some(event);
            line.send(ToWorker::Look { generation, event });
        }
    }

    /// Saves the newest run as a memory snapshot, once the worker has handed it out.
    pub(crate) fn play(&self) {
        if let Some(generation) = self.answered() {
            self.line.borrow_mut().send(ToWorker::Play { generation });
        }
    }

    /// Searches for the least that makes the newest answer fit on its device.
    pub(crate) fn search(&self) {
        if let Some(generation) = self.answered() {
            self.state.search.set(Some(SearchState { tried: 0, outcome: None }));
            self.line.borrow_mut().send(ToWorker::Search { generation });
        }
    }

    /// Leaves off searching.
    pub(crate) fn stop_search(&self) {
        self.state.search.set(None);
        self.line.borrow_mut().send(ToWorker::StopSearch);
    }

    /// Shows how the newest answer grows along a dimension.
    pub(crate) fn trend(&self, dim: String) {
        if let Some(generation) = self.answered() {
            self.line.borrow_mut().send(ToWorker::Trend { generation, dim });
        }
    }

    /// Asks other estimators about the newest run.
    pub(crate) fn ask_others(&self) {
        if let Some(generation) = self.answered() {
            self.line.borrow_mut().send(ToWorker::Others { generation });
        }
    }

    /// Asks how long a step of the newest run takes; `all` with all tables.
    pub(crate) fn ask_times(&self, all: bool) {
        if let Some(generation) = self.answered() {
            self.line.borrow_mut().send(ToWorker::Times { generation, all });
        }
    }

    /// Asks how the training ends on other numbers of GPUs.
    pub(crate) fn ask_scale(&self) {
        if let Some(generation) = self.answered() {
            self.line.borrow_mut().send(ToWorker::Scale { generation });
        }
    }

    /// Changes, or shows, the jobs that share a GPU.
    pub(crate) fn ask_shared(&self, ask: Vec<u8>) {
        self.line.borrow_mut().send(ToWorker::Share { ask });
    }

    /// Asks what a server has on each GPU.
    pub(crate) fn ask_capacity(&self, settings: Vec<u8>) {
        let device = self.state.config.with_untracked(|config| config.device.clone());
        self.capacity_asked.update(|asked| *asked = asked.saturating_add(1));
        let number = self.capacity_asked.get_untracked();
        self.line.borrow_mut().send(ToWorker::Serve { number, settings, device });
    }

    /// Tells which GPU is the user's: it has a card, so it is looked at with the usual ones.
    pub(crate) fn tell_my_gpu(&self) {
        let device = self.state.my_gpu.get_untracked();
        self.line.borrow_mut().send(ToWorker::Mine { device });
    }

    /// Number of the request that the newest answer is for.
    fn answered(&self) -> Option<u64> {
        self.state.answer.with_untracked(|answer| answer.as_ref().map(|answer| answer.generation))
    }

    /// Back to the empty page.
    pub(crate) fn close(&self) {
        let mut line = self.line.borrow_mut();
        line.good = None;
        line.good_text = None;
        line.open_next = None;
        line.estimate_next = None;
        line.lacks = None;
        line.generation += 1;
        line.send(ToWorker::Close);
        drop(line);
        self.state.forget(Ended::Page);
        self.times.set(None);
        begin_at_the_top();
    }

    /// Sends the next request if the worker is free.
    fn pump(&self) {
        let mut line = self.line.borrow_mut();
        if !line.ready || line.under_way.is_some() {
            return;
        }
        let lacks = line.lacks.take();
        if lacks.is_none() {
            line.send_held();
        }
        if let Some(opening) = line.open_next.take() {
            // Settings chosen before belong to what was open then, or are in the opening already;
            // those chosen since a crash are for what comes back.
            if opening.by != By::Restart {
                line.estimate_next = None;
            }
            line.generation += 1;
            let message = ToWorker::Open {
                generation: line.generation,
                name: opening.input.name(),
                config: opening.config.clone(),
                wanted: opening.wanted.clone().map(Box::new),
                edited: opening.by == By::Typing,
                known: Vec::new(),
            };
            line.post(&message, &opening.input.to_value());
            line.send_held();
            line.has_begun = false;
            line.under_way = Some(Request::Open(Box::new(opening)));
        } else if let Some(lacks) = lacks {
            let (Opening { input, config, .. }, known) = *lacks;
            let message = ToWorker::Open {
                generation: line.generation,
                name: input.name(),
                config,
                wanted: None,
                edited: false,
                known,
            };
            line.post(&message, &input.to_value());
            line.send_held();
            line.under_way = Some(Request::CatchUp);
        } else if let Some(wanted) = line.estimate_next.take() {
            if line.good.as_ref().is_none_or(|(_, good)| *good == wanted) {
                drop(line);
                // The message about a reset setting stays until another answer comes.
                self.state.config_problem.update(|problem| {
                    *problem = problem.take().filter(|problem| problem.taken_back);
                });
                return;
            }
            line.generation += 1;
            let Wanted { config, reading } = wanted.clone();
            let generation = line.generation;
            line.post(&ToWorker::Estimate { generation, config, reading }, &JsValue::NULL);
            line.under_way = Some(Request::Estimate(Box::new(wanted)));
        }
    }

    /// A piece of the answer for several GPUs; those behind it are of an older question.
    fn scaled_to(&self, generation: u64, number: usize, piece: Vec<u8>) {
        if self.answered() != Some(generation) {
            return;
        }
        self.scaled.update(|known| {
            match known.as_mut().and_then(|known| known.at_mut(Some(generation))) {
                Some(pieces) => {
                    pieces.truncate(number);
                    pieces.push(piece);
                }
                None => *known = Some(Computed::new(generation, vec![piece])),
            }
        });
    }

    /// The worker is ready.
    fn begun(&self) {
        self.line.borrow_mut().ready = true;
        self.tell_my_gpu();
        self.seek(false);
        let engine = self.clone();
        let fetch = move || {
            if engine.state.opening.with_untracked(Option::is_none) {
                engine.fetch_the_rest();
            }
        };
        Timeout::new(QUIET, fetch).forget();
    }

    fn receive(&self, message: FromWorker) {
        match message {
            FromWorker::Ready => self.begun(),
            FromWorker::Names { names } => {
                // They could not be had: the next one who types asks again.
                self.line.borrow_mut().has_names = !names.is_empty();
                self.names.set(names);
            }
            FromWorker::Opened { generation, estimate, .. } if self.is_catching_up() => {
                self.caught_up(generation, estimate.millis);
            }
            FromWorker::Opened { generation, dims, text, spec, is_written, estimate, fault } => {
                self.opened(generation, (dims, text, spec, is_written), estimate);
                let taken_back = |fault| ConfigProblem { fault, taken_back: true };
                self.state.config_problem.set(fault.map(taken_back));
            }
            FromWorker::Refused { reason, place, text, .. } => {
                self.refused(SourceProblem { reason, place }, text);
            }
            FromWorker::Explained { generation, explained, alone } => {
                self.explained(generation, *explained, alone);
            }
            FromWorker::Located { generation, finding } => {
                self.state.found.set(Some(Computed::new(generation, finding)));
            }
            FromWorker::Estimated { generation, estimate } => {
                let request = self.line.borrow_mut().answered(generation);
                if let Some(Request::Estimate(wanted)) = request {
                    self.answer(generation, estimate, *wanted);
                }
            }
            FromWorker::Failed { generation, fault } => {
                self.line.borrow_mut().answered(generation);
                let problem = ConfigProblem { fault, taken_back: false };
                self.state.config_problem.set(Some(problem));
            }
            FromWorker::Verdict { generation, verdict } => self.judged(generation, verdict),
            FromWorker::LargestBatch { generation, device, batch } => {
                if let Some(row) = self.row(generation, &device) {
                    row.largest.set(Some(Computed::new(generation, batch)));
                }
            }
            FromWorker::Seen { generation, snapshot } => self.seen(generation, snapshot),
            FromWorker::Played { generation, packed } => {
                if self.answered() == Some(generation) {
                    link::save_run(self.state, packed);
                }
            }
            FromWorker::WhatIfs { generation, outcomes } => {
                if self.answered() == Some(generation) {
                    self.state.what_ifs.set(outcomes);
                }
            }
            FromWorker::Pulled { generation, lever, pulled } => {
                self.pulled(generation, lever, pulled);
            }
            FromWorker::Trend { generation, trend } => {
                if self.answered() == Some(generation) {
                    self.state.trend.set(Some(Computed::new(generation, trend)));
                }
            }
            FromWorker::Others { generation, others } => {
                if self.answered() == Some(generation) {
                    self.others.set(Some(Computed::new(generation, others)));
                }
            }
            FromWorker::Times { generation, answer } => self.timed(generation, answer),
            FromWorker::Scaled { generation, number, piece } => {
                self.scaled_to(generation, number, piece);
            }
            FromWorker::Shared { answer } => self.shared.set(Some(answer)),
            FromWorker::Served { number, answer } => {
                self.capacity.set(Some(Computed::new(number, answer)));
            }
            FromWorker::LeverTime { generation, lever, percent } => {
                self.lever_timed(generation, lever, percent);
            }
            FromWorker::Searched { generation, tried, outcome } => {
                let is_wanted = self.state.search.with_untracked(Option::is_some);
                if is_wanted && self.answered() == Some(generation) {
                    self.state.search.set(Some(SearchState { tried, outcome }));
                }
            }
        }
        self.pump();
    }

    fn opened(
        &self,
        generation: u64,
        (dims, text, spec, is_written): (Vec<OpenDim>, Option<String>, Option<String>, bool),
        estimate: Estimate,
    ) {
        let Some(Request::Open(opening)) = self.line.borrow_mut().answered(generation) else {
            return;
        };
        let config = estimate.report.config.clone();
        let reading = estimate.report.recorded.as_ref().map_or(0, |run| run.shown);
        let wanted = Wanted { config: config.clone(), reading };
        let name = opening.input.name();
        let own_file = match &opening.input {
            Input::File(file) => {
                link::keep_file(file);
                true
            }
            Input::Bytes { .. } => false,
        };
        let mut line = self.line.borrow_mut();
        line.is_bare = false;
        if let Some(own) = opening.own {
            line.own = own;
            line.brought = config.clone();
        } else {
            // What the edited text changed is its own; all else is as it was.
            let changed = |setting: &&Setting| !setting.is_same(&config, &opening.config);
            let changed = SETTINGS.iter().filter(changed);
            changed.for_each(|setting| setting.copy(&config, &mut line.brought));
        }
        line.good = Some((opening.input, wanted.clone()));
        line.good_text.clone_from(&text);
        drop(line);
        let state = self.state;
        state.opening.set(None);
        state.reading.set(reading);
        if opening.by == By::Typing {
            state.notice.set(None);
            state.source.update(|source| {
                if let Some(source) = source {
                    source.problem = None;
                }
            });
            state.config.set(config);
        } else if opening.by != By::Restart {
            // An example that nobody asked for says nothing about what was refused before it.
            let notice = state.notice.get_untracked().filter(|_| opening.by == By::Page);
            state.forget(Ended::Model);
            self.join_message(opening.by);
            if opening.wanted.is_some() {
                // They are set; the view is what waits.
                state.waiting.update(|waiting| {
                    if let Some(waiting) = waiting {
                        waiting.config = None;
                    }
                });
            }
            self.times.set(None);
            self.scaled.set(None);
            self.capacity.set(None);
            state.notice.set(notice);
            if opening.by == By::Text && !text.as_deref().is_some_and(is_name) {
                state.write(&name, text, None);
            } else {
                state.is_writing.set(false);
                state.edit(&name, text, None);
            }
            state.config.set(config);
            if let Some(at) = state.lesson.get_untracked() {
                state.show_iteration(at.iteration());
                state.section.set(at.step().section().unwrap_or_default());
            }
        }
        let is_new = matches!(opening.by, By::File | By::Text);
        let is_sample = opening.by == By::Page
            || (opening.by == By::Restart && untrack(move || state.is_sample()));
        state.loaded.set(Some(Loaded { name, own_file, is_sample, dims, spec, is_written }));
        self.answer(generation, estimate, wanted);
        if is_new {
            state.opened.update(|opened| *opened += 1);
            begin_at_the_top();
        }
    }

    /// Whether the worker opens what is answered on the page already.
    fn is_catching_up(&self) -> bool {
        matches!(self.line.borrow().under_way, Some(Request::CatchUp))
    }

    /// The worker has what is on the page.
    fn caught_up(&self, generation: u64, millis: Option<f64>) {
        self.line.borrow_mut().under_way = None;
        self.state.answer.update(|answer| {
            if let Some(answer) = answer.as_mut().filter(|known| known.generation == generation) {
                answer.millis = millis;
            }
        });
    }

    /// How the run ends on a device.
    fn judged(&self, generation: u64, verdict: DeviceVerdict) {
        if let Some(row) = self.row(generation, &verdict.id) {
            row.verdict.set(Some(Computed::new(generation, verdict)));
        }
    }

    fn pulled(&self, generation: u64, lever: usize, pulled: Option<Pulled>) {
        let before = self.state.answer.with_untracked(|answer| {
            let answer = answer.as_ref().filter(|answer| answer.generation == generation);
            answer.map(|answer| answer.report.verdict.need)
        });
        let Some(before) = before else { return };
        let effected = |pulled| Arc::new(Effected { before, slower: None, pulled });
        self.state.levers.update(|levers| {
            if let Some(known) = levers.get_mut(lever) {
                *known = Some(Computed::new(generation, pulled.map(effected)));
            }
        });
    }

    fn timed(&self, generation: u64, answer: Option<Result<Times, Sentence>>) {
        if self.answered() == Some(generation) {
            let answer = answer.unwrap_or_else(|| Err(words::notice::no_times())).map(Arc::new);
            self.times.set(Some(Computed::new(generation, answer)));
        }
    }

    fn lever_timed(&self, generation: u64, lever: usize, percent: i64) {
        self.state.levers.update(|levers| {
            let known = levers.get_mut(lever).and_then(Option::as_mut);
            let known = known.and_then(|known| known.at_mut(Some(generation))?.as_mut());
            if let Some(known) = known {
                Arc::make_mut(known).slower = Some(percent);
            }
        });
    }

    fn seen(&self, generation: u64, snapshot: Snapshot) {
        let mut line = self.line.borrow_mut();
        line.looking = None;
        let next = line.look_next.take();
        drop(line);
        if self.answered() == Some(generation) {
            self.state.snapshot.set(Some(Arc::new(snapshot)));
        }
        if let Some(event) = next {
            self.look(event);
        }
    }

    fn answer(&self, generation: u64, estimate: Estimate, wanted: Wanted) {
        if let Some((_, good)) = &mut self.line.borrow_mut().good {
            *good = wanted;
        }
        let state = self.state;
        // What is pinned stays where the run has the same events, as with another batch.
        let events = state.answer.with_untracked(|old| Some(old.as_ref()?.report.timeline.events));
        if events != Some(estimate.report.timeline.events) {
            state.pin.set(None);
        }
        state.forget(Ended::Answer);
        let mut line = self.line.borrow_mut();
        line.looking = None;
        line.look_next = None;
        drop(line);
        let report = Arc::new(estimate.report);
        state.answer.set(Some(Answer { generation, report, millis: estimate.millis }));
        // Those that a change of the batch leaves as they are.
        for (device, batch) in estimate.largest {
            if let Some(row) = self.row(generation, &device) {
                row.largest.set(Some(Computed::new(generation, batch)));
            }
        }
        let engine = self.clone();
        Timeout::new(0, move || engine.fetch_the_rest()).forget();
    }

    /// Fetches what the first answer does not need: on a slow line it would arrive before that, or before the worker.
    fn fetch_the_rest(&self) {
        let mut line = self.line.borrow_mut();
        if line.ready && !std::mem::replace(&mut line.has_rest, true) {
            line.send(ToWorker::FetchReaders);
            link::keep_offline();
        }
    }

    /// Asks for the models that need no file, unless they are there.
    pub(crate) fn ask_names(&self) {
        let mut line = self.line.borrow_mut();
        if !std::mem::replace(&mut line.has_names, true) {
            line.send(ToWorker::Names);
        }
    }

    fn refused(&self, problem: SourceProblem, text: Option<String>) {
        let mut line = self.line.borrow_mut();
        let Some(Request::Open(opening)) = line.under_way.take() else { return };
        let kept = line.good.as_ref().map(|(input, _)| input.name());
        line.bring_back(opening.by);
        drop(line);
        let (state, name) = (self.state, opening.input.name());
        state.opening.set(None);
        match opening.by {
            By::Typing => {
                state.source.update(|source| {
                    if let Some(source) = source {
                        source.problem = Some(problem);
                    }
                });
                return;
            }
            By::Text if text.as_deref().is_some_and(|text| !is_name(text)) => {
                state.notice.set(None);
                state.write(&name, text, Some(problem));
                return;
            }
            // Nobody asked for it.
            By::Page => return,
            By::Text | By::File | By::Restart => {}
        }
        state.notice.set(Some(words::notice::refused(&name, &problem.reason, kept.as_deref())));
        if problem.place.is_some() {
            // It was nearly understood, so that the user can mend it here.
            state.write(&name, text, Some(problem));
        }
    }

    /// A message that was shown before its model has one now; that of another model goes with it.
    fn join_message(&self, by: By) {
        if by == By::Page {
            // The page's own example is nobody's model.
            return;
        }
        let is_of_another = self
            .state
            .message
            .with_untracked(|message| message.as_ref().is_some_and(|message| message.has_model));
        if is_of_another {
            self.forget_message();
        } else {
            self.state.message.update(|message| {
                if let Some(message) = message {
                    message.has_model = true;
                }
            });
        }
    }

    /// Shows a message, and applies what follows from it. What is open stays open: a message in the
    /// editor gives way to the text of the model.
    fn explained(&self, generation: u64, explained: Explained, alone: bool) {
        let state = self.state;
        if alone {
            let mut line = self.line.borrow_mut();
            let Some(Request::Open(opening)) = line.answered(generation) else { return };
            let kept = line.good.as_ref().map(|(input, _)| input.name());
            let text = line.good_text.clone();
            line.bring_back(opening.by);
            drop(line);
            state.opening.set(None);
            state.notice.set(None);
            if opening.by == By::Typing {
                state.edit(&kept.unwrap_or_default(), text, None);
            }
        }
        let before = state.config.get_untracked();
        let mut config = before.clone();
        let mut line = self.line.borrow_mut();
        for setting in explained.settings.iter().filter(|one| explained.is_for_a_known_card(one)) {
            explained.apply(setting, &mut config);
            explained.apply(setting, &mut line.brought);
        }
        drop(line);
        let has_model = !explained.is_waiting
            && state.loaded.with_untracked(|l| l.as_ref().is_some_and(|l| !l.is_sample));
        let explained = Arc::new(explained);
        state.found.set(None);
        let same = config == before;
        state.message.set(Some(Message { explained, before, has_model }));
        self.seek(same);
        state.config.set(config);
    }

    /// Has the worker look for the message's allocation.
    fn seek(&self, at_once: bool) {
        let sought = |message: &Message| message.explained.sought.clone();
        let sought = self.state.message.with_untracked(|message| message.as_ref().map(sought));
        if let Some(sought) = sought {
            self.line.borrow_mut().send(ToWorker::Seek { sought, at_once });
        }
    }

    /// The row of a device, if news about it still count.
    fn row(&self, generation: u64, id: &str) -> Option<DeviceRow> {
        if self.answered() != Some(generation) {
            return None;
        }
        self.state.devices.with_untracked(|rows| {
            rows.iter().find(|row| row.device.with_value(|device| device.id == id)).copied()
        })
    }

    /// The worker died: start another, and give it back what was good.
    fn died(&self) {
        let mut line = self.line.borrow_mut();
        let worker = line.worker.take();
        let was_ready = std::mem::take(&mut line.ready);
        let under_way = line.under_way.take();
        let good = line.good.clone();
        line.deaths += 1;
        line.has_names = false;
        let deaths = line.deaths;
        drop(line);
        if let Some(worker) = worker {
            worker.terminate();
        }
        self.state.opening.set(None);
        let at_fault = match &under_way {
            Some(Request::Open(opening)) => Some(opening.input.name()),
            _ => None,
        };
        let hopeless =
            matches!(&under_way, Some(Request::Open(opening)) if opening.by == By::Restart);
        if !was_ready || hopeless {
            let has_known = self.line.borrow().lacks.is_some();
            if has_known {
                // The example's answer did not need the worker.
                self.line.borrow_mut().open_next = None;
            } else {
                self.close();
            }
            self.state.notice.set(Some(words::notice::stopped_for_good()));
            if was_ready {
                self.start_worker();
            }
            return;
        }
        let kept = good.as_ref().map(|(input, _)| input.name());
        self.state.notice.set(Some(words::notice::restarted(at_fault.as_deref(), kept.as_deref())));
        if let Some((input, good)) = good {
            // Back to settings that are known to work; what the user chooses from now on counts.
            self.state.config.set(good.config.clone());
            self.line.borrow_mut().open_next = Some(Opening::again(input, good));
        }
        // What kills one worker after the other is not started again until the user asks for more.
        if deaths < 2 {
            self.start_worker();
        }
    }

    /// The user wants something: another try for a worker that was given up.
    fn revive(&self) {
        let mut line = self.line.borrow_mut();
        line.deaths = 0;
        let is_gone = line.worker.is_none();
        drop(line);
        if is_gone {
            self.start_worker();
        }
    }

    fn start_worker(&self) {
        let main = META.with(ImportMeta::url);
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        options.set_name("highwater");
        let started = Url::new_with_base("worker.js", &main)
            .and_then(|url| Worker::new_with_options(&url.href(), &options));
        let Ok(worker) = started else {
            self.state.notice.set(Some(words::notice::stopped_for_good()));
            return;
        };
        let engine = self.clone();
        let on_message = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            // A number is the share of a file that was read.
            if let Some(percent) = event.data().as_f64() {
                if percent < 0.0 {
                    engine.line.borrow_mut().has_begun = true;
                    return;
                }
                if !engine.is_opening_newest() {
                    return;
                }
                engine.state.opening.update(|opening| {
                    if let Some(arriving) = opening {
                        arriving.percent = Some(percent);
                    }
                });
            } else if let Some((message, _)) = protocol::unpack(event.data()) {
                engine.receive(message);
            }
        });
        worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        on_message.forget();
        let engine = self.clone();
        let on_error = Closure::<dyn FnMut(ErrorEvent)>::new(move |_| engine.died());
        worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        on_error.forget();
        // The worker runs this very program: it gets the compiled module, and need not fetch it.
        let greeting = Object::new();
        let greeted = js_sys::Reflect::set(&greeting, &"main".into(), &main.into())
            .and_then(|_| {
                js_sys::Reflect::set(&greeting, &"module".into(), &wasm_bindgen::module())
            })
            .and_then(|_| worker.post_message(&greeting));
        if greeted.is_ok() {
            self.line.borrow_mut().worker = Some(worker);
        } else {
            self.state.notice.set(Some(words::notice::stopped_for_good()));
        }
    }
}
