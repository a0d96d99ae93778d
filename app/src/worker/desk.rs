//! What the worker does: it keeps the open model and estimates, so that the page never waits.
//!
//! An estimate is answered at once. Then the worker computes the verdict on every device, the largest batches, the
//! suggestions and the growth curve. It does this in slices of a few milliseconds between messages, and stops when
//! a newer request comes.
#![expect(
    clippy::unnecessary_wraps,
    reason = "this part of the program may not arrive, which the attribute adds to the result"
)]

use highwater_core::order::IntoOrdered as _;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gloo::timers::callback::Timeout;
use highwater_core::config::Setting;
use highwater_core::device;
use highwater_core::estimate::{BatchLine, LargestBatch, Stages};
use highwater_core::export::Played;
use highwater_core::formats::Opened;
use highwater_core::levers::Plan;
use highwater_core::recorded::WhatIf;
use highwater_core::{Config, Error, Report, say};
use highwater_draw::trend::TrendPoint;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use wasm_split_helpers::{SplitLoaderError, wasm_split};
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use super::abilities::Arrived;
use super::estimator::{self, Facts, LEVERS, Match, Model, Search, Searched, Simulation};
use super::load::{Found, Opening, Read};
use super::parts::ranks::Ranks;
use super::parts::times::Clockwork;
use super::parts::tray::Tray;
use super::recording::Recording;
use super::{files, parts};
use crate::model::explained::Sought;
use crate::model::protocol::{
    self, Estimate, Fault, Finding, FromWorker, Largest, OpenDim, Others, SearchOutcome, ToWorker,
    Trend,
};
use crate::model::times::Times;

/// Milliseconds of work between two looks at the messages.
const SLICE: f64 = 12.0;
/// COUNT: sizes of which the trend is made.
const TREND: u64 = 16;
/// COUNT: GPUs that the page shows first: the usual ones, the chosen one and the user's.
const FIRST_ROW: usize = device::USUAL.len() + 2;
/// Milliseconds after which a trend is shown as far as it is known.
const TREND_WAIT: f64 = 400.0;

thread_local! {
    static DESK: RefCell<Desk> = RefCell::new(Desk::default());
}

/// Everything that the worker remembers.
#[derive(Default)]
struct Desk {
    model: Option<Model>,
    /// The recorded run that is open instead of a model.
    recording: Option<Box<dyn Recording>>,
    /// What it reserves under other settings of the allocator, as far as they were tried.
    what_ifs: Vec<WhatIf>,
    /// The newest run that was estimated, to look at its moments.
    newest: Option<Simulation>,
    sweep: Sweep,
    /// Largest batches already found, and for which configuration (its batch does not matter).
    largest: BTreeMap<String, Option<LargestBatch>>,
    /// From which they are searched; the same while only the batch changes.
    batch_line: Option<BatchLine>,
    /// What was computed of the model that is open.
    stages: Stages,
    largest_for: Option<Config>,
    /// The dimension along which the user wants the trend; the batch where the model has no such.
    axis: Option<String>,
    /// The allocation of a message that is looked for in every estimate.
    sought: Option<Sought>,
    /// Whether it was not found with the estimate's own batch.
    try_batches: bool,
    /// How times are computed, and which are wanted.
    timer: Timer,
    /// What several GPUs add to the step of one.
    ranks: Fetched<Ranks>,
    /// What has arrived for the open model.
    arrived: Arrived,
    /// Jobs that share a GPU, once they were asked for.
    tray: Option<Box<dyn Tray>>,
    /// The user's own GPU.
    mine: Option<String>,
}

/// How times are computed, and which are wanted.
#[derive(Default)]
struct Timer {
    /// What computes them, once it has arrived.
    clockwork: Option<Clockwork>,
    /// Whether all tables are wanted.
    all: bool,
    /// Events of the newest run whose moments are wanted.
    events: Vec<usize>,
    /// PICOSECONDS: of a sample of the newest run.
    sample: Option<u64>,
}

/// What the page wants opened, apart from the input itself.
struct Request {
    generation: u64,
    name: String,
    config: Config,
    /// The settings that it is to have, whatever it suggests itself.
    wanted: Option<Config>,
    edited: bool,
    /// The largest batches, if they are known with the verdicts.
    known: Largest,
    text: Option<String>,
}

#[wasm_bindgen]
extern "C" {
    /// The kind of an input that is a recorded run: `recorded` for a memory snapshot, `profiled` for a profiler's
    /// trace.
    #[wasm_bindgen(js_name = recordedKind, catch)]
    async fn recorded_kind(input: &JsValue) -> Result<JsValue, JsValue>;
}

/// Has an input read by the part of the program that reads its kind.
async fn read(input: JsValue, name: &str, config: &Config) -> Read {
    let kind = recorded_kind(&input).await.ok().and_then(|kind| kind.as_string());
    let (input, name) = (Opening::of(input), name.to_owned());
    match kind.as_deref() {
        Some("recorded") => parts::recorded::read(input, name, config.clone()).await,
        Some(_) => parts::profiled::read(input, name, config.clone()).await,
        None => parts::readers::read(input, name).await,
    }
}

/// Tells what a server has on each GPU, once what answers has arrived.
async fn serve(number: u64, settings: Vec<u8>, device: String) {
    let server = parts::readers::server().await;
    DESK.with_borrow(|desk| {
        let Some(model) = &desk.model else { return };
        let answer = server.map(|serve| serve(model, &settings, &device));
        post(&FromWorker::Served { number, answer: answer.unwrap_or_default() });
    });
}

/// Does what a message asks for, once what ranks add has arrived or failed to.
async fn with_ranks(message: ToWorker, attached: JsValue) {
    let ranks = parts::ranks::ranks().await;
    DESK.with_borrow_mut(|desk| {
        desk.ranks = ranks.map_or(Fetched::Failed, Fetched::There);
        if let Fetched::There(ranks) = desk.ranks {
            desk.arrived.around = Some(ranks.around);
            desk.model = desk.model.take().map(|model| desk.arrived.given_to(model));
        }
        desk.receive(message, attached);
        if matches!(desk.ranks, Fetched::Failed) {
            // The next request tries again.
            desk.ranks = Fetched::Not;
        }
    });
}

/// A part of the program.
#[derive(Clone, Copy, Default)]
enum Fetched<T> {
    /// It was not asked for, or may be asked for again.
    #[default]
    Not,
    /// It did not arrive.
    Failed,
    /// It is here.
    There(T),
}

/// Devices still to be looked at for one request.
#[derive(Default)]
struct Sweep {
    generation: u64,
    config: Config,
    facts: Facts,
    search: Option<Search>,
    trend: Trend,
    /// When the trend was begun, or last shown.
    trend_shown: f64,
    tasks: VecDeque<Task>,
    scheduled: Option<Timeout>,
}

/// One piece of work that is never interrupted.
enum Task {
    Locate,
    LocateBatch,
    Verdict(String),
    LargestBatch(String),
    /// Pull a lever: a position in [`LEVERS`].
    Lever(usize),
    /// Spread the sizes of the trend, once the largest batch is known.
    Trend,
    /// Simulate one of them.
    TrendPoint(u64),
    /// The trend is complete.
    TrendEnd,
    /// Go on with the search.
    Search,
    /// Compute times.
    Times,
    /// How much longer a sample takes with a lever's configuration.
    LeverTime(usize, Box<Config>),
    /// Replay a recorded run under other settings of the allocator, by their number.
    WhatIf(usize),
    /// A piece of how the training ends on other numbers of GPUs, by its number.
    Scale(usize),
    /// What one job does alone that shares a GPU.
    Tray,
}

/// Listens, then reports it: messages sent before would be lost.
///
/// # Errors
/// What the worker does did not arrive.
#[wasm_split(desk, fallible)]
pub(crate) fn begin() -> Result<(), SplitLoaderError> {
    files::serve();
    let listener = Closure::<dyn FnMut(MessageEvent)>::new(|event: MessageEvent| {
        if let Some((message, attached)) = protocol::unpack(event.data()) {
            DESK.with_borrow_mut(|desk| desk.receive(message, attached));
        }
    });
    scope().set_onmessage(Some(listener.as_ref().unchecked_ref()));
    listener.forget();
    post(&FromWorker::Ready);
    Ok(())
}

fn scope() -> DedicatedWorkerGlobalScope {
    js_sys::global().unchecked_into()
}

fn post(message: &FromWorker) {
    if let Some((data, transfer)) = protocol::pack(message, &JsValue::NULL) {
        // Fails only for values that cannot be cloned, and bytes always can.
        let _sent = scope().post_message_with_transfer(&data, &transfer);
    }
}

/// Milliseconds since some moment; tests have no clock.
fn now() -> f64 {
    if cfg!(target_arch = "wasm32") {
        scope().performance().map_or(0.0, |performance| performance.now())
    } else {
        0.0
    }
}

impl Desk {
    fn receive(&mut self, message: ToWorker, attached: JsValue) {
        match message {
            ToWorker::Open { generation, name, config, wanted, edited, known } => {
                // Fails only for values that cannot be cloned, and numbers always can.
                drop(scope().post_message(&JsValue::from_f64(protocol::BEGUN)));
                let wanted = wanted.map(|wanted| *wanted);
                let text = None;
                let request = Request { generation, name, config, wanted, edited, known, text };
                self.read(request, attached);
            }
            ToWorker::Estimate { generation, config, reading } => {
                self.answer(generation, config, reading, attached);
            }
            ToWorker::Look { generation, event } => {
                let seen = match &self.newest {
                    _ if self.sweep.generation != generation => None,
                    Some(newest) => Some(newest.snapshot(event)),
                    None => self.recording.as_ref().map(|recording| recording.look(event)),
                };
                if let Some(snapshot) = seen {
                    post(&FromWorker::Seen { generation, snapshot });
                }
            }
            ToWorker::Play { generation } => {
                if let Some(newest) = &self.newest
                    && self.sweep.generation == generation
                {
                    let packed = postcard::to_stdvec(&Played::of(newest)).unwrap_or_default();
                    post(&FromWorker::Played { generation, packed });
                }
            }
            ToWorker::Search { generation } => {
                if self.sweep.generation == generation {
                    let Sweep { config, facts, .. } = &self.sweep;
                    self.sweep.search = Some(Search::new(config, facts.clone()));
                    self.sweep.tasks.push_front(Task::Search);
                    self.sweep.scheduled.get_or_insert_with(|| Timeout::new(0, slice));
                }
            }
            ToWorker::StopSearch => self.sweep.search = None,
            ToWorker::Trend { generation, dim } => {
                self.axis = Some(dim);
                if self.sweep.generation == generation {
                    let tasks = &mut self.sweep.tasks;
                    tasks.retain(|task| !matches!(task, Task::TrendPoint(_) | Task::TrendEnd));
                    tasks.push_front(Task::Trend);
                    self.sweep.scheduled.get_or_insert_with(|| Timeout::new(0, slice));
                }
            }
            ToWorker::Others { generation } => spawn_local(async move {
                let ask = parts::others::estimators().await.ok();
                DESK.with_borrow_mut(|desk| {
                    let newest = desk.newest.as_ref();
                    let newest = newest.filter(|_| desk.sweep.generation == generation);
                    let run = desk.model.as_ref().zip(newest);
                    let others =
                        ask.zip(run).map_or_else(Others::default, |(ask, (model, run))| {
                            ask(model, run, &mut desk.stages)
                        });
                    post(&FromWorker::Others { generation, others });
                });
            }),
            ToWorker::Times { generation, all } => self.ask_times(generation, all),
            ToWorker::Scale { generation } => self.ask_scale(generation),
            ToWorker::Share { ask } => self.ask_tray(ask),
            ToWorker::Serve { number, settings, device } => {
                spawn_local(serve(number, settings, device));
            }
            ToWorker::Mine { device } => self.mine = device,
            ToWorker::Seek { sought, at_once } => {
                self.sought = sought;
                self.sweep.tasks.retain(|task| !matches!(task, Task::Locate | Task::LocateBatch));
                if at_once && self.sought.is_some() && self.model.is_some() {
                    self.sweep.tasks.push_front(Task::LocateBatch);
                    self.sweep.tasks.push_front(Task::Locate);
                    if self.sweep.scheduled.is_none() {
                        self.sweep.scheduled = Some(Timeout::new(0, slice));
                    }
                }
            }
            // Fetched again when it is needed, if that fails.
            ToWorker::FetchReaders => spawn_local(async { drop(parts::readers::fetch().await) }),
            ToWorker::Names => spawn_local(async {
                let names = parts::readers::names().await.unwrap_or_default();
                post(&FromWorker::Names { names });
            }),
            ToWorker::Close => {
                let (ranks, mut tray) = (self.ranks, self.tray.take());
                if let Some(tray) = &mut tray {
                    tray.keep();
                }
                let (sought, mine) = (self.sought.take(), self.mine.take());
                *self = Self { sought, ranks, tray, mine, ..Self::default() };
            }
        }
    }

    /// Has an input read that the page sent.
    fn read(&mut self, mut request: Request, attached: JsValue) {
        if self.lacks_ranks(request.wanted.as_ref().unwrap_or(&request.config)) {
            let Request { generation, name, config, wanted, edited, known, .. } = request;
            let wanted = wanted.map(Box::new);
            let message = ToWorker::Open { generation, name, config, wanted, edited, known };
            return spawn_local(with_ranks(message, attached));
        }
        let mut input = Opening::of(attached.clone());
        request.text = input.text();
        if let Some(graph) = input.graph() {
            let model = Some(Opened::onnx(graph));
            return self.take(request, Ok(Found { model, ..Found::default() }));
        }
        spawn_local(async move {
            let read = read(attached, &request.name, &request.config).await;
            let states_ranks = |found: &Found| {
                found.model.as_ref().is_some_and(|model| model.defaults.is_parallel())
            };
            if read.as_ref().is_ok_and(states_ranks) {
                let ranks = parts::ranks::ranks().await.ok();
                DESK.with_borrow_mut(|desk| {
                    desk.ranks = ranks.map_or(Fetched::Not, Fetched::There);
                });
            }
            DESK.with_borrow_mut(|desk| desk.take(request, read));
        });
    }

    /// Estimates what is open with other settings.
    fn answer(&mut self, generation: u64, config: Config, reading: usize, attached: JsValue) {
        if self.recording.is_some() {
            return self.answer_recorded(generation, &config, reading);
        }
        if self.lacks_ranks(&config) {
            let message = ToWorker::Estimate { generation, config, reading };
            return spawn_local(with_ranks(message, attached));
        }
        let Some(model) = &self.model else { return };
        match estimate(model, &config, &mut self.stages).map_err(|error| Fault::of(&error)) {
            Ok((mut estimate, simulation)) => {
                self.follow(generation, &estimate.report, simulation);
                estimate.largest = self.largest.clone().into_iter().collect();
                post(&FromWorker::Estimated { generation, estimate });
            }
            Err(fault) => post(&FromWorker::Failed { generation, fault }),
        }
    }

    /// Whether a run of several ranks is asked for, and what they add is neither here nor known not to come.
    fn lacks_ranks(&self, config: &Config) -> bool {
        config.is_parallel() && matches!(self.ranks, Fetched::Not)
    }

    /// Puts other numbers of GPUs on the list, once what answers for them has arrived.
    fn ask_scale(&mut self, generation: u64) {
        if self.sweep.generation != generation || self.model.is_none() {
            return;
        }
        match self.ranks {
            Fetched::Not => spawn_local(with_ranks(ToWorker::Scale { generation }, JsValue::NULL)),
            Fetched::Failed => {
                post(&FromWorker::Scaled { generation, number: 0, piece: Vec::new() });
            }
            Fetched::There(_) => {
                // Who asks again wants no second row of them.
                self.sweep.tasks.retain(|task| !matches!(task, Task::Scale(_)));
                self.after_verdicts(Task::Scale(0));
            }
        }
    }

    /// Does what is wanted of the jobs that share a GPU, once what keeps them has arrived.
    fn ask_tray(&mut self, ask: Vec<u8>) {
        let Some(tray) = &mut self.tray else {
            return spawn_local(async move {
                let tray = parts::tray::tray().await.ok();
                DESK.with_borrow_mut(|desk| {
                    desk.tray = tray;
                    match desk.tray {
                        Some(_) => desk.ask_tray(ask),
                        None => post(&FromWorker::Shared { answer: Vec::new() }),
                    }
                });
            });
        };
        tray.ask(self.model.as_ref().map(|model| (model, &self.sweep.config)), &ask);
        post(&FromWorker::Shared { answer: tray.answer() });
        self.sweep.tasks.retain(|task| !matches!(task, Task::Tray));
        self.after_verdicts(Task::Tray);
    }

    /// Does something as soon as verdicts are known.
    fn after_verdicts(&mut self, task: Task) {
        let tasks = &mut self.sweep.tasks;
        let after = tasks.iter().position(|task| !matches!(task, Task::Locate | Task::Verdict(_)));
        tasks.insert(after.unwrap_or(tasks.len()), task);
        self.sweep.scheduled.get_or_insert_with(|| Timeout::new(0, slice));
    }

    /// Puts the times of the newest run on the list, once what computes them has arrived.
    fn ask_times(&mut self, generation: u64, all: bool) {
        self.timer.all = all;
        if self.sweep.generation != generation || self.model.is_none() {
            return;
        }
        if self.timer.clockwork.is_some() {
            self.after_verdicts(Task::Times);
            return;
        }
        spawn_local(async move {
            let clockwork = parts::times::clockwork().await.ok();
            DESK.with_borrow_mut(|desk| {
                let (generation, all) = (desk.sweep.generation, desk.timer.all);
                desk.timer.clockwork = clockwork;
                if clockwork.is_some() {
                    desk.ask_times(generation, all);
                } else {
                    post(&FromWorker::Times { generation, answer: None });
                }
            });
        });
    }

    /// Answers a request to open something, of which this reached the worker.
    fn take(&mut self, request: Request, read: Read) {
        let Request { generation, name, config, wanted, edited, known, text } = request;
        let (model, message, called) = match read {
            Ok(Found { recording: Some(recording), .. }) => {
                let estimate = Estimate::new(recording.report(), None);
                (self.model, self.newest, self.recording) = (None, None, Some(recording));
                self.follow_recorded(generation, &estimate.report);
                let (dims, text, spec) = (Vec::new(), None, None);
                let (is_written, fault) = (false, None);
                post(&FromWorker::Opened {
                    generation,
                    dims,
                    text,
                    spec,
                    is_written,
                    estimate,
                    fault,
                });
                return;
            }
            Ok(Found { model, arrived, message, name, .. }) => {
                (Ok(model.map(|model| (model, arrived))), message, name)
            }
            Err(fault) => (Err(fault), None, None),
        };
        let answer = match model {
            Ok(None) => None,
            Ok(Some((opened, arrived))) => {
                let around = match self.ranks {
                    Fetched::There(ranks) => Some(ranks.around),
                    Fetched::Not | Fetched::Failed => None,
                };
                let arrived = Arrived { around, ..arrived };
                let model = Model::new(&called.unwrap_or(name), opened, Arc::new(arrived));
                let answer = self.open(model, config, wanted, edited);
                if answer.is_ok() {
                    self.arrived = arrived;
                }
                Some(answer)
            }
            Err(fault) => Some(Err(fault)),
        };
        let alone = answer.is_none();
        if let Some(answer) = answer {
            post(&match answer {
                Ok((dims, estimate, simulation, fault)) => {
                    self.timer.sample = None;
                    self.follow(generation, &estimate.report, simulation);
                    if !known.is_empty() {
                        let is_known =
                            |task: &Task| matches!(task, Task::Verdict(_) | Task::LargestBatch(_));
                        self.sweep.tasks.retain(|task| !is_known(task));
                        self.largest.extend(known);
                    }
                    let model = self.model.as_ref();
                    let spec = model.and_then(|model| Some(model.spec()?.to_owned()));
                    let is_written = model.is_some_and(|model| model.configuration().is_some());
                    FromWorker::Opened { generation, dims, text, spec, is_written, estimate, fault }
                }
                Err(Fault { reason, place, .. }) => {
                    FromWorker::Refused { generation, reason, place, text }
                }
            });
        }
        if let Some(explained) = message
            && (alone || !edited)
        {
            post(&FromWorker::Explained { generation, explained: Box::new(explained), alone });
        }
    }

    /// Estimates, and only then drops the previous model.
    ///
    /// Settings that the input suggests replace those on the page, unless they were suggested
    /// before the text changed and the user has moved on. A setting that means nothing to this model,
    /// such as names of another one's layers, is taken back.
    fn open(
        &mut self,
        model: Model,
        mut config: Config,
        wanted: Option<Config>,
        edited: bool,
    ) -> Result<(Vec<OpenDim>, Estimate, Simulation, Option<Fault>), Fault> {
        let mut dims = estimator::open_dims(&model);
        let known = self.model.as_ref().is_some_and(|old| old.defaults() == model.defaults());
        if *model.defaults() != Config::default() && !(edited && known) {
            config = estimator::suggested(model.defaults(), config);
        }
        config = wanted.unwrap_or(config);
        config.dims.retain(|name, _| dims.iter().any(|dim| dim.name == *name));
        let mut stages = Stages::default();
        let stated = model.defaults().dims.clone();
        let usual = model.usual_dims(&config, device::USUAL[0], &mut stages);
        for (name, size) in stated.into_iter().chain(usual) {
            dims.iter_mut().filter(|dim| dim.name == name).for_each(|dim| dim.default = size);
            config.dims.entry(name).or_insert(size);
        }
        let mut taken_back: Option<Fault> = None;
        let (estimate, simulation) = loop {
            match estimate(&model, &config, &mut stages) {
                Ok(answer) => break answer,
                Err(error) => {
                    let fault = Fault::of(&error);
                    if !error.setting().is_some_and(|setting| take_back(&mut config, setting)) {
                        return Err(fault);
                    }
                    taken_back = Some(match taken_back {
                        None => fault,
                        Some(Fault { reason, .. }) => {
                            let reason =
                                say!("{first}; {then}", first = reason, then = fault.reason);
                            Fault { reason, ..fault }
                        }
                    });
                }
            }
        };
        if let Some(tray) = self.tray.as_mut().filter(|_| !edited) {
            tray.keep();
        }
        self.model = Some(model);
        self.recording = None;
        self.largest.clear();
        self.stages = stages;
        (self.batch_line, self.largest_for) = (None, None);
        Ok((dims, estimate, simulation, taken_back))
    }

    /// Keeps a run to be looked at, begins to work off what follows from it, and drops older work.
    fn follow(&mut self, generation: u64, report: &Report, simulation: Simulation) {
        let Some(model) = &self.model else { return };
        let config = &report.config;
        self.timer.events.clone_from(&report.timeline.event);
        let dims = estimator::open_dims(model);
        let mut batchless = config.clone();
        for dim in dims.iter().filter(|dim| dim.batch) {
            batchless.dims.remove(&dim.name);
        }
        if !batchless.knows_the_card() {
            // The search does not depend on which device's kernels the report assumed.
            batchless.device.clear();
        }
        if self.largest_for.as_ref() != Some(&batchless) {
            self.largest.clear();
            (self.batch_line, self.largest_for) = (None, Some(batchless));
        }
        let ids = estimator::ids_by_interest(&config.device, self.mine.as_deref());
        let mut tasks = VecDeque::new();
        if self.sought.is_some() {
            tasks.push_back(Task::Locate);
        }
        tasks.extend(ids.iter().cloned().map(Task::Verdict));
        // Those of the first row of GPUs before what most people see later.
        tasks.extend(ids.iter().take(FIRST_ROW).cloned().map(Task::LargestBatch));
        tasks.extend((0..LEVERS.len()).map(Task::Lever));
        tasks.push_back(Task::Trend);
        if self.sought.is_some() {
            tasks.push_back(Task::LocateBatch);
        }
        tasks.extend(ids.into_iter().skip(FIRST_ROW).map(Task::LargestBatch));
        self.sweep = Sweep {
            generation,
            config: config.clone(),
            facts: Facts::of(model, &simulation, config),
            search: None,
            trend: Trend::default(),
            trend_shown: 0.0,
            tasks,
            scheduled: Some(Timeout::new(0, slice)),
        };
        self.newest = Some(simulation);
    }

    /// Answers with the recorded run on the device of a configuration.
    fn answer_recorded(&mut self, generation: u64, config: &Config, reading: usize) {
        let begun = now();
        let Some(recording) = &mut self.recording else { return };
        match recording.change(config, reading) {
            Ok(()) => {
                let estimate = Estimate::new(recording.report(), Some(now() - begun));
                self.follow_recorded(generation, &estimate.report);
                post(&FromWorker::Estimated { generation, estimate });
            }
            Err(error) => {
                let fault = Fault { reason: error.sentence(), place: None, setting: None };
                post(&FromWorker::Failed { generation, fault });
            }
        }
    }

    /// Begins to work off what follows from a recorded run.
    fn follow_recorded(&mut self, generation: u64, report: &Report) {
        let ids = device::all().iter().map(|device| device.id.to_owned());
        self.what_ifs.clear();
        self.sweep = Sweep {
            generation,
            config: report.config.clone(),
            tasks: ids.map(Task::Verdict).chain([Task::WhatIf(0)]).collect(),
            scheduled: Some(Timeout::new(0, slice)),
            ..Sweep::default()
        };
    }

    fn perform_recorded(&mut self, task: Task) {
        let Some(recording) = &self.recording else { return };
        let Sweep { generation, config, .. } = &self.sweep;
        let generation = *generation;
        match task {
            Task::Verdict(device) => {
                let config = Config { device, ..config.clone() };
                if let Ok(verdict) = recording.judge(&config) {
                    post(&FromWorker::Verdict { generation, verdict });
                }
            }
            Task::WhatIf(number) => {
                let outcomes = &mut self.what_ifs;
                match recording.what_if(&config.alloc_conf, number) {
                    Some(outcome) => {
                        outcomes.push(outcome);
                        self.sweep.tasks.push_front(Task::WhatIf(number + 1));
                    }
                    None => post(&FromWorker::WhatIfs { generation, outcomes: outcomes.clone() }),
                }
            }
            _ => {}
        }
    }

    /// Works for a few milliseconds, then lets the worker handle messages.
    fn slice(&mut self) {
        let begun = now();
        while let Some(task) = self.sweep.tasks.pop_front() {
            self.perform(task);
            if now() - begun > SLICE {
                break;
            }
        }
        let more = !self.sweep.tasks.is_empty();
        // The timer that brought us here has fired: forgetting it costs nothing, dropping it
        // would cancel a timer that no longer exists.
        if let Some(fired) = self.sweep.scheduled.take() {
            fired.forget();
        }
        self.sweep.scheduled = more.then(|| Timeout::new(0, slice));
    }

    fn perform(&mut self, task: Task) {
        if self.recording.is_some() {
            self.perform_recorded(task);
            return;
        }
        let Some(model) = &self.model else { return };
        let Sweep { generation, config, facts, .. } = &self.sweep;
        let generation = *generation;
        match task {
            Task::Locate => self.locate(),
            Task::LocateBatch => {
                if self.try_batches {
                    self.locate();
                }
            }
            Task::Verdict(id) => {
                if let Ok(verdict) = model.verdict(config, &id, &mut self.stages) {
                    post(&FromWorker::Verdict { generation, verdict });
                }
            }
            Task::LargestBatch(device) => {
                let batch = *self.largest.entry(device.clone()).or_insert_with(|| {
                    // What cannot be estimated has no largest batch, and the estimate has the reason.
                    let stages = &mut self.stages;
                    let line =
                        self.batch_line.get_or_insert_with(|| model.batch_line(config, stages));
                    model.largest_batch(config, &device, line, &mut self.stages).ok().flatten()
                });
                post(&FromWorker::LargestBatch { generation, device, batch });
            }
            Task::Lever(index) => {
                let Some(lever) = LEVERS.get(index) else { return };
                // A lever that leads to what is too large to simulate is none.
                let pulled = model.pull(lever, config, facts, &mut self.stages).ok().flatten();
                if let Some(pulled) = &pulled {
                    let config = Box::new(pulled.config.clone());
                    self.sweep.tasks.push_back(Task::LeverTime(index, config));
                }
                post(&FromWorker::Pulled { generation, lever: index, pulled });
            }
            Task::Times => {
                let Timer { clockwork: Some(clockwork), all, events, sample } = &mut self.timer
                else {
                    return;
                };
                let answer = (clockwork.step)(model, &mut self.stages, config, events, *all);
                *sample = answer.as_ref().ok().map(Times::sample);
                let answer = Some(answer.map_err(|error| error.sentence()));
                post(&FromWorker::Times { generation, answer });
            }
            Task::LeverTime(lever, config) => {
                let Timer { clockwork, sample, .. } = &self.timer;
                let timed = clockwork.as_ref().zip(*sample);
                let percent = timed.and_then(|(clockwork, sample)| {
                    (clockwork.change)(model, &mut self.stages, &config, sample)
                });
                if let Some(percent) = percent {
                    post(&FromWorker::LeverTime { generation, lever, percent });
                }
            }
            Task::WhatIf(_) => {}
            Task::Tray => {
                let Some(tray) = &mut self.tray else { return };
                if tray.step() {
                    post(&FromWorker::Shared { answer: tray.answer() });
                    self.sweep.tasks.push_back(Task::Tray);
                }
            }
            Task::Scale(number) => {
                let Fetched::There(ranks) = self.ranks else { return };
                if let Some(piece) = (ranks.spread)(model, &mut self.stages, config, facts, number)
                {
                    post(&FromWorker::Scaled { generation, number, piece });
                    self.sweep.tasks.push_back(Task::Scale(number + 1));
                }
            }
            Task::Trend => self.spread_trend(),
            Task::TrendPoint(size) => self.trend_point(size),
            Task::TrendEnd => self.show_trend(),
            Task::Search => {
                let Some(search) = &mut self.sweep.search else { return };
                let outcome = match search.step(model, &mut self.stages) {
                    Ok(Searched::On) => None,
                    Ok(Searched::Found(plan)) => Some(SearchOutcome::Found(plan)),
                    Ok(Searched::Nothing(plan)) => Some(SearchOutcome::Nothing(plan)),
                    Err(_) => Some(SearchOutcome::Nothing(Plan::default())),
                };
                if outcome.is_none() {
                    self.sweep.tasks.push_front(Task::Search);
                }
                post(&FromWorker::Searched { generation, tried: search.tried(), outcome });
            }
        }
    }

    /// Looks for the message's allocation: first where the estimate itself fails or would, then with
    /// other batches, which are many estimates more.
    fn locate(&mut self) {
        let (Some(model), Some(sought)) = (&self.model, &self.sought) else { return };
        let Sweep { generation, config, .. } = &self.sweep;
        let message = sought.message();
        let again = std::mem::take(&mut self.try_batches);
        let located = if again {
            model.locate(config, &message, &mut self.stages)
        } else {
            model.locate_here(config, &message, &mut self.stages)
        };
        if let Ok(located) = located {
            let found = located.places.first().is_some_and(|place| place.fits == Match::Fails);
            self.try_batches = !again && !found && message.allocated.is_some();
            let finding = Finding::of(located, self.try_batches);
            post(&FromWorker::Located { generation: *generation, finding });
        }
    }
}

impl Desk {
    /// Chooses the sizes of the trend: to beyond the largest batch, or to twice the size of what else is
    /// open.
    fn spread_trend(&mut self) {
        let Some(model) = &self.model else { return };
        let dims = estimator::open_dims(model);
        let wanted = dims.iter().find(|dim| self.axis.as_ref() == Some(&dim.name));
        let Some(dim) = wanted.or_else(|| dims.first()) else { return };
        let size = self.sweep.config.dims.get(&dim.name).copied().unwrap_or(dim.default);
        let largest = match self.largest.get(&self.sweep.config.device) {
            Some(Some(largest)) if dim.batch => largest.with_flush.unwrap_or_default(),
            _ => 0,
        };
        let reach = if dim.batch {
            size.max(largest).saturating_mul(5).div_euclid(4)
        } else {
            size.saturating_mul(2)
        };
        let reach = reach.max(TREND);
        let sizes = (1..=TREND).map(|n| reach.saturating_mul(n).div_euclid(TREND));
        // What is on the page is a point of the curve, too.
        let sizes = sizes.chain([size]).into_set();
        self.sweep.trend = Trend { dim: dim.name.clone(), points: Vec::new() };
        self.sweep.trend_shown = now();
        self.sweep.tasks.push_front(Task::TrendEnd);
        for size in sizes.into_iter().rev() {
            self.sweep.tasks.push_front(Task::TrendPoint(size));
        }
    }

    /// Simulates one size; one that the model does not take is left out.
    fn trend_point(&mut self, size: u64) {
        let Some(model) = &self.model else { return };
        let Sweep { config, trend, .. } = &mut self.sweep;
        let mut config = config.clone();
        config.dims.insert(trend.dim.clone(), size);
        if let Ok(outcome) = model.outcome(&config, &mut self.stages) {
            trend.points.push(TrendPoint {
                size,
                allocated: outcome.allocated,
                reserved: outcome.reserved,
                need: outcome.verdict.need,
            });
        }
        let is_any = !self.sweep.trend.points.is_empty();
        if is_any && now() - self.sweep.trend_shown > TREND_WAIT {
            self.show_trend();
        }
    }

    fn show_trend(&mut self) {
        let Sweep { generation, trend, .. } = &self.sweep;
        post(&FromWorker::Trend { generation: *generation, trend: trend.clone() });
        self.sweep.trend_shown = now();
    }
}

fn slice() {
    DESK.with_borrow_mut(Desk::slice);
}

/// Puts a setting back to what is usual; false where it is that already.
fn take_back(config: &mut Config, setting: &str) -> bool {
    let changed = Setting::named(setting).filter(|setting| setting.is_changed(config));
    if let Some(setting) = changed {
        setting.copy(&Config::default(), config);
    }
    changed.is_some()
}

/// Runs a configuration once: its answer, and the run itself.
fn estimate(
    model: &Model,
    config: &Config,
    stages: &mut Stages,
) -> Result<(Estimate, Simulation), Error> {
    let begun = now();
    let simulation = model.simulate(config, stages)?;
    let report = simulation.report();
    Ok((Estimate::new(report, Some(now() - begun)), simulation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::examples::EXAMPLES;
    use crate::model::known::Known;

    /// The answers that travel with the examples are those of the worker; `UPDATE_EXPECT=1` writes them.
    #[test]
    fn examples_have_the_answers_of_the_worker() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../public/");
        for example in EXAMPLES {
            let graph = std::fs::read(format!("{root}{}", example.path)).expect("a graph");
            let graph = Opening::Bytes(graph).graph().expect("it was packed");
            let arrived = Arc::new(Arrived::default());
            let model = Model::new(example.file, Opened::onnx(graph), arrived);
            let mut desk = Desk::default();
            let config = Config { dims: example.dims(), ..Config::default() };
            let opened = desk.open(model, config.clone(), None, false).expect("it is estimated");
            let (dims, mut estimate, _, fault) = opened;
            assert_eq!((&estimate.report.config, fault), (&config, None), "{}", example.file);
            estimate.millis = None;
            let (model, stages) = (desk.model.as_ref().expect("it is open"), &mut desk.stages);
            let all: Vec<&str> = device::all().iter().map(|device| device.id).collect();
            let judge = |id: &&str| model.verdict(&config, id, stages).expect("a verdict");
            let verdicts = all.iter().map(judge).collect();
            let line = model.batch_line(&config, stages);
            for id in all {
                let largest = model.largest_batch(&config, id, &line, stages).expect("a batch");
                estimate.largest.push((id.to_owned(), largest));
            }
            let known = Known { dims, estimate, verdicts };
            let said = format!("{known:?}");
            let packed = known.packed();
            let again = Known::unpacked(&packed).expect("it unpacks");
            assert_eq!(format!("{again:?}"), said, "{}", example.answer);
            let path = format!("{root}{}", example.answer);
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                std::fs::write(&path, &packed).expect("it is written");
            }
            let is_same = std::fs::read(&path).is_ok_and(|known| known == packed);
            assert!(is_same, "{}: write it again with UPDATE_EXPECT=1", example.answer);
        }
    }
}
