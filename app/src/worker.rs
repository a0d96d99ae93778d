//! The worker: keeps the open model and estimates, so that the page never waits.
//!
//! An estimate is answered at once. What follows from it, the verdict on every device and the
//! largest batch on each, is worked off in slices of a few milliseconds between messages, and
//! dropped when a newer request comes.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use gloo::timers::callback::Timeout;
use highwater_core::{Config, Error, Source as _};
use js_sys::{ArrayBuffer, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{DedicatedWorkerGlobalScope, File, MessageEvent};

use crate::estimator::{self, Model};
use crate::load::FileSource;
use crate::protocol::{self, Estimate, FromWorker, LargestBatch, ToWorker};

/// Milliseconds of work between two looks at the messages.
const SLICE: f64 = 12.0;
/// SIZE: of texts that the page shows in its editor.
const TEXT_MAX: usize = 256 << 10;

thread_local! {
    static DESK: RefCell<Desk> = RefCell::new(Desk::default());
}

/// Everything that the worker remembers.
#[derive(Default)]
struct Desk {
    model: Option<Model>,
    sweep: Sweep,
    /// Largest batches already found, and for which configuration (its batch does not matter).
    largest: BTreeMap<String, LargestBatch>,
    largest_for: Option<Config>,
}

/// What the page sent to be opened.
enum Opening {
    File(FileSource),
    Bytes(Vec<u8>),
}

impl Opening {
    fn of(input: JsValue) -> Self {
        match input.dyn_into::<File>() {
            Ok(file) => Self::File(FileSource::new(file)),
            Err(bytes) => {
                Self::Bytes(Uint8Array::new(bytes.unchecked_ref::<ArrayBuffer>()).to_vec())
            }
        }
    }

    /// Its contents, if they are a text that a person could edit.
    fn text(&mut self) -> Option<String> {
        let bytes = match self {
            Self::File(file) => {
                let size = usize::try_from(file.len()).ok().filter(|&size| size <= TEXT_MAX)?;
                let mut bytes = vec![0; size];
                file.read_at(0, &mut bytes).ok()?;
                bytes
            }
            Self::Bytes(bytes) if bytes.len() <= TEXT_MAX => bytes.clone(),
            Self::Bytes(_) => return None,
        };
        let text = String::from_utf8(bytes).ok()?;
        let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
        text.chars().all(is_shown).then_some(text)
    }
}

/// Why an input was refused.
struct Fault {
    reason: String,
    place: Option<(usize, usize)>,
}

impl Fault {
    fn of(error: &Error) -> Self {
        let place = error.place().map(|place| (place.line, place.column));
        Self { reason: error.to_string(), place }
    }
}

/// Devices still to be looked at for one request.
#[derive(Default)]
struct Sweep {
    generation: u64,
    config: Config,
    tasks: VecDeque<Task>,
    scheduled: Option<Timeout>,
}

/// One piece of work that is never interrupted.
enum Task {
    Verdict(String),
    LargestBatch(String),
}

/// Listens, then says so: messages sent before would be lost.
pub(crate) fn start() {
    let listener = Closure::<dyn FnMut(MessageEvent)>::new(|event: MessageEvent| {
        if let Some((message, beside)) = protocol::unpack(event.data()) {
            DESK.with_borrow_mut(|desk| desk.receive(message, beside));
        }
    });
    scope().set_onmessage(Some(listener.as_ref().unchecked_ref()));
    listener.forget();
    post(&FromWorker::Ready { devices: estimator::devices() });
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

/// Milliseconds since some moment.
fn now() -> f64 {
    scope().performance().map_or(0.0, |performance| performance.now())
}

impl Desk {
    fn receive(&mut self, message: ToWorker, beside: JsValue) {
        match message {
            ToWorker::Open { generation, name, config, edited } => {
                let mut input = Opening::of(beside);
                let text = input.text();
                post(&match self.open(&name, &mut input, config, edited) {
                    Ok((dims, estimate)) => {
                        self.follow(generation, &estimate.report.config);
                        let spec =
                            self.model.as_ref().and_then(|model| Some(model.spec()?.to_string()));
                        FromWorker::Opened { generation, dims, text, spec, estimate }
                    }
                    Err(Fault { reason, place }) => {
                        FromWorker::Refused { generation, reason, place, text }
                    }
                });
            }
            ToWorker::Estimate { generation, config } => {
                let estimated = self.model.as_ref().map(|model| estimate(model, &config));
                match estimated {
                    Some(Ok(estimate)) => {
                        self.follow(generation, &estimate.report.config);
                        post(&FromWorker::Estimated { generation, estimate });
                    }
                    Some(Err(reason)) => post(&FromWorker::Failed { generation, reason }),
                    None => {}
                }
            }
            ToWorker::Close => *self = Self::default(),
        }
    }

    /// Opens and estimates, and only then lets go of the model before.
    ///
    /// Settings that the input suggests replace those on the page, unless they were suggested
    /// before the text changed and the user has moved on.
    fn open(
        &mut self,
        name: &str,
        input: &mut Opening,
        mut config: Config,
        edited: bool,
    ) -> Result<(Vec<estimator::OpenDim>, Estimate), Fault> {
        let model = match input {
            Opening::File(file) => estimator::open(file, name),
            Opening::Bytes(bytes) => estimator::open(&mut bytes.as_slice(), name),
        }
        .map_err(|error| Fault::of(&error))?;
        let dims = estimator::open_dims(&model);
        let known = self.model.as_ref().is_some_and(|old| old.defaults() == model.defaults());
        if *model.defaults() != Config::default() && !(edited && known) {
            let Config { dims, device, .. } = config;
            config = Config { dims, device, ..model.defaults().clone() };
        }
        config.dims.retain(|name, _| dims.iter().any(|dim| dim.name == *name));
        let estimate = estimate(&model, &config).map_err(|reason| Fault { reason, place: None })?;
        self.model = Some(model);
        self.largest.clear();
        self.largest_for = None;
        Ok((dims, estimate))
    }

    /// Begins to look at every device for this request, and drops older work.
    fn follow(&mut self, generation: u64, config: &Config) {
        let Some(model) = &self.model else { return };
        let mut batchless = config.clone();
        for dim in estimator::open_dims(model).iter().filter(|dim| dim.batch) {
            batchless.dims.remove(&dim.name);
        }
        // The search does not depend on which device's kernels the report assumed.
        batchless.device.clear();
        if self.largest_for.as_ref() != Some(&batchless) {
            self.largest.clear();
            self.largest_for = Some(batchless);
        }
        let ids: Vec<_> = estimator::devices().into_iter().map(|device| device.id).collect();
        let mut tasks = VecDeque::from([Task::LargestBatch(config.device.clone())]);
        tasks.extend(ids.iter().cloned().map(Task::Verdict));
        tasks.extend(ids.into_iter().filter(|id| *id != config.device).map(Task::LargestBatch));
        let scheduled = Some(Timeout::new(0, slice));
        self.sweep = Sweep { generation, config: config.clone(), tasks, scheduled };
    }

    /// Works for a few milliseconds, then makes room for messages.
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
        let Some(model) = &self.model else { return };
        let Sweep { generation, config, .. } = &self.sweep;
        let generation = *generation;
        match task {
            Task::Verdict(id) => {
                if let Ok(verdict) = model.verdict(config, &id) {
                    post(&FromWorker::Verdict { generation, verdict });
                }
            }
            Task::LargestBatch(device) => {
                let batch = *self.largest.entry(device.clone()).or_insert_with(|| {
                    if !estimator::open_dims(model).iter().any(|dim| dim.batch) {
                        return LargestBatch::Unknown;
                    }
                    match model.largest_batch(config, &device) {
                        Ok(Some(batch)) => LargestBatch::UpTo(batch),
                        Ok(None) => LargestBatch::None,
                        Err(_) => LargestBatch::Unknown,
                    }
                });
                post(&FromWorker::LargestBatch { generation, device, batch });
            }
        }
    }
}

fn slice() {
    DESK.with_borrow_mut(Desk::slice);
}

fn estimate(model: &Model, config: &Config) -> Result<Estimate, String> {
    let begun = now();
    let report = model.estimate(config).map_err(|error| error.to_string())?;
    Ok(Estimate { report, millis: now() - begun })
}
