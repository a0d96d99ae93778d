//! The worker: keeps the open model and estimates, so that the page never waits.
//!
//! An estimate is answered at once. What follows from it, the verdict on every device and the
//! largest batch on each, is worked off in slices of a few milliseconds between messages, and
//! dropped when a newer request comes.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use gloo::timers::callback::Timeout;
use highwater_core::Config;
use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use crate::estimator::{self, Match, Model};
use crate::explained::Sought;
use crate::load::Opening;
use crate::protocol::{self, Estimate, Fault, Found, FromWorker, LargestBatch, Read, ToWorker};
use crate::text;

/// Milliseconds of work between two looks at the messages.
const SLICE: f64 = 12.0;

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
    /// The allocation of a message that is looked for in every estimate.
    sought: Option<Sought>,
    /// Whether it was not found with the estimate's own batch.
    try_batches: bool,
}

/// What the page wants opened, apart from the input itself.
struct Request {
    generation: u64,
    name: String,
    config: Config,
    edited: bool,
    text: Option<String>,
}

#[wasm_bindgen]
extern "C" {
    /// `public/worker.js` has the readers of all other formats, which arrive behind the program.
    #[wasm_bindgen(js_name = readElsewhere, catch)]
    async fn read_elsewhere_js(input: &JsValue, name: &str) -> Result<JsValue, JsValue>;
}

/// Has an input read that is not ONNX.
async fn read_elsewhere(input: &JsValue, name: &str) -> Read {
    let read = read_elsewhere_js(input, name).await.ok();
    let bytes = read.and_then(|read| read.dyn_into::<Uint8Array>().ok());
    let read = bytes.and_then(|bytes| postcard::from_bytes::<Read>(&bytes.to_vec()).ok());
    read.unwrap_or_else(|| {
        let reason = "the readers of formats other than ONNX did not arrive, or stopped; is the page \
                      still reachable";
        Err(Fault { reason: reason.to_owned(), place: None })
    })
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
    Locate,
    LocateBatch,
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
                let mut input = Opening::of(beside.clone());
                let text = input.text();
                let request = Request { generation, name, config, edited, text };
                let read = input.read_by(|source| estimator::open_onnx(source, &request.name));
                if let Ok(Some(opened)) = read {
                    self.take(
                        request,
                        Ok(Found { model: Some(opened), written: None, message: None }),
                    );
                    return;
                }
                spawn_local(async move {
                    let mut found = read_elsewhere(&beside, &request.name).await;
                    // What is no model and no text may still be a log, with the colours of a terminal.
                    if let (Err(fault), Err(error)) = (&mut found, read) {
                        *fault = Fault::of(&error);
                    }
                    DESK.with_borrow_mut(|desk| desk.take(request, found));
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
            ToWorker::Close => *self = Self { sought: self.sought.take(), ..Self::default() },
        }
    }

    /// Answers a request to open something.
    fn take(&mut self, request: Request, read: Read) {
        let Request { generation, name, config, edited, text } = request;
        let (model, message) = match read {
            Ok(Found { model, written: None, message }) => (Ok(model), message),
            Ok(Found { written: Some(bytes), message, .. }) => {
                let opened = estimator::open_written(&bytes);
                (opened.map(Some).map_err(|error| Fault::of(&error)), message)
            }
            Err(fault) => (Err(fault), None),
        };
        let answer = match model {
            Ok(None) => None,
            Ok(Some(opened)) => Some(self.open(Model::new(&name, opened), config, edited)),
            Err(fault) => Some(Err(fault)),
        };
        let alone = answer.is_none();
        if let Some(answer) = answer {
            post(&match answer {
                Ok((dims, estimate)) => {
                    self.follow(generation, &estimate.report.config);
                    let spec = self.model.as_ref().and_then(|model| Some(model.spec()?.to_owned()));
                    FromWorker::Opened { generation, dims, text, spec, estimate }
                }
                Err(Fault { reason, place }) => {
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

    /// Estimates, and only then lets go of the model before.
    ///
    /// Settings that the input suggests replace those on the page, unless they were suggested
    /// before the text changed and the user has moved on.
    fn open(
        &mut self,
        model: Model,
        mut config: Config,
        edited: bool,
    ) -> Result<(Vec<estimator::OpenDim>, Estimate), Fault> {
        let dims = estimator::open_dims(&model);
        let known = self.model.as_ref().is_some_and(|old| old.defaults() == model.defaults());
        if *model.defaults() != Config::default() && !(edited && known) {
            config = estimator::suggested(model.defaults(), config);
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
        if !batchless.knows_the_card() {
            // The search does not depend on which device's kernels the report assumed.
            batchless.device.clear();
        }
        if self.largest_for.as_ref() != Some(&batchless) {
            self.largest.clear();
            self.largest_for = Some(batchless);
        }
        let ids: Vec<_> = estimator::devices().into_iter().map(|device| device.id).collect();
        let mut tasks = VecDeque::new();
        if self.sought.is_some() {
            tasks.push_back(Task::Locate);
        }
        tasks.push_back(Task::LargestBatch(config.device.clone()));
        tasks.extend(ids.iter().cloned().map(Task::Verdict));
        if self.sought.is_some() {
            tasks.push_back(Task::LocateBatch);
        }
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
            Task::Locate => self.locate(),
            Task::LocateBatch => {
                if self.try_batches {
                    self.locate();
                }
            }
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

    /// Looks for the message's allocation: first where the estimate itself fails or would, then with
    /// other batches, which are many estimates more.
    fn locate(&mut self) {
        let (Some(model), Some(sought)) = (&self.model, &self.sought) else { return };
        let Sweep { generation, config, .. } = &self.sweep;
        let message = sought.message();
        let again = std::mem::take(&mut self.try_batches);
        let located = if again {
            model.locate(config, &message)
        } else {
            model.locate_here(config, &message)
        };
        if let Ok(located) = located {
            let found = located.places.first().is_some_and(|place| place.fits == Match::Fails);
            self.try_batches = !again && !found && message.allocated.is_some();
            let finding = text::finding(&located, self.try_batches);
            post(&FromWorker::Located { generation: *generation, finding });
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
