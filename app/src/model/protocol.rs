//! Messages between the page and its worker.
//!
//! A message is postcard bytes in a transferred `ArrayBuffer`: nothing is copied, and no text is parsed. The input
//! of [`ToWorker::Open`] travels with it. It is the browser's `File` itself, of which the worker reads only the
//! slices it needs, or the bytes of an example.

use highwater_core::device::{self, Class};
use highwater_core::estimate::{Candidate, LargestBatch, Located, Match};
use highwater_core::estimators::Means;
use highwater_core::levers::{Plan, Pulled};
use highwater_core::recorded::WhatIf;
use highwater_core::report::{DeviceVerdict, Snapshot};
use highwater_core::trace::Phase;
use highwater_core::wording::Sentence;
use highwater_core::{Bytes, Config, Error, Report, say};
use highwater_draw::trend::TrendPoint;
use js_sys::{Array, ArrayBuffer, Uint8Array};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_split_helpers::SplitLoaderError;

use crate::model::explained::{Explained, Sought};
use crate::model::times::Times;

/// What the worker sends when it begins to open something; a share of what was read is no less than 0.
pub(crate) const BEGUN: f64 = -1.0;

/// Why an input or its settings were refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// Why, as a sentence without its full stop.
    pub(crate) reason: Sentence,
    /// Line and column, counted from 1.
    pub(crate) place: Option<(usize, usize)>,
    /// The setting that is to blame, where it is one.
    pub(crate) setting: Option<String>,
}

impl Fault {
    /// The text of an error.
    pub(crate) fn of(error: &Error) -> Self {
        let place = error.place().map(|place| (place.line, place.column));
        let setting = error.setting().map(str::to_owned);
        Self { reason: error.sentence(), place, setting }
    }
}

impl From<SplitLoaderError> for Fault {
    fn from(_error: SplitLoaderError) -> Self {
        let reason = say!("a part of the page did not arrive; is the page still reachable");
        Self { reason, place: None, setting: None }
    }
}

/// From the page to the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// Open the input that travels with this message and estimate it. What was open before
    /// stays open if that fails.
    Open {
        /// Number of the request.
        generation: u64,
        /// Name of the file.
        name: String,
        /// Optimizer and device; dimensions named here are kept where the model has them.
        config: Config,
        /// The settings that it is to have, whatever it suggests itself.
        wanted: Option<Box<Config>>,
        /// The text that is open already, as it is now after a keystroke.
        edited: bool,
        /// The largest batch on every device, if the page knows that, and the verdicts: they are not computed again.
        known: Largest,
    },
    /// Estimate the open model.
    Estimate {
        /// Number of the request; it supersedes all work for older ones.
        generation: u64,
        /// The configuration.
        config: Config,
        /// Which reading of a recorded run.
        reading: usize,
    },
    /// Show one moment of the newest estimate.
    Look {
        /// Number of the request whose answer is looked at.
        generation: u64,
        /// Index of the event in its trace.
        event: usize,
    },
    /// Pack the newest run, to be saved as a memory snapshot.
    Play {
        /// Number of the request whose answer it belongs to.
        generation: u64,
    },
    /// Find the least that makes the newest estimate fit on its device.
    Search {
        /// Number of the request whose answer it begins at.
        generation: u64,
    },
    /// Leave off searching.
    StopSearch,
    /// Show how the newest estimate grows along a dimension, now and from now on.
    Trend {
        /// Number of the request whose answer it varies.
        generation: u64,
        /// The dimension.
        dim: String,
    },
    /// Ask other estimators about the newest run.
    Others {
        /// Number of the request whose run it is.
        generation: u64,
    },
    /// Tell how long a step of the newest run takes.
    Times {
        /// Number of the request whose run it is.
        generation: u64,
        /// Whether with all tables.
        all: bool,
    },
    /// Change, or show, the jobs that share a GPU.
    Share {
        /// What is wanted, packed.
        ask: Vec<u8>,
    },
    /// Tell how the newest run's training ends on other numbers of GPUs.
    Scale {
        /// Number of the request whose training it is.
        generation: u64,
    },
    /// Tell what a server has on each GPU.
    Serve {
        /// Number of the question.
        number: u64,
        /// How it is started, packed: only the parts of the program that draw and answer know it.
        settings: Vec<u8>,
        /// Id of the GPU for which it is also started otherwise.
        device: String,
    },
    /// Look for a message's allocation in every step that is estimated, or for none any more.
    Seek {
        /// The allocation.
        sought: Option<Sought>,
        /// Whether to begin with the last estimate, because no other follows.
        at_once: bool,
    },
    /// Which GPU is the user's, of those that are looked at first.
    Mine {
        /// Its id.
        device: Option<String>,
    },
    /// Fetch what reads files, so that they are there when they are needed.
    FetchReaders,
    /// Tell the names of the models that need no file.
    Names,
    /// Forget the open model.
    Close,
}

/// From the worker to the page.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// The worker listens from now on.
    Ready,
    /// The models that need no file: a line `id|name|names on the Hub|parameters` for each.
    Names {
        /// The lines; none where they did not arrive.
        names: String,
    },
    /// The model is open.
    Opened {
        /// Number of the request.
        generation: u64,
        /// Dimensions that the file leaves open.
        dims: Vec<OpenDim>,
        /// The text of the input, if it has one.
        text: Option<String>,
        /// The model as a layer spec, where its format is one or was translated to one.
        spec: Option<String>,
        /// Whether its configuration was read, which servers need.
        is_written: bool,
        /// Its first estimate.
        estimate: Estimate,
        /// Why a setting of the page means nothing to this model, and was taken back.
        fault: Option<Fault>,
    },
    /// The input cannot be opened or estimated; nothing else changed.
    Refused {
        /// Number of the request.
        generation: u64,
        /// Why, as a sentence without its full stop.
        reason: Sentence,
        /// Line and column, counted from 1, where the input is text and the fault has a place.
        place: Option<(usize, usize)>,
        /// The text of the input, if it has one.
        text: Option<String>,
    },
    /// The input has a message about memory.
    Explained {
        /// Number of the request.
        generation: u64,
        /// Its text.
        explained: Box<Explained>,
        /// Whether there is no model in it, so that the request is answered.
        alone: bool,
    },
    /// Where a message's allocation is in the estimated step.
    Located {
        /// Number of the request that it belongs to.
        generation: u64,
        /// The place.
        finding: Finding,
    },
    /// The estimate that was asked for.
    Estimated {
        /// Number of the request.
        generation: u64,
        /// The answer.
        estimate: Estimate,
    },
    /// There is no estimate for this configuration.
    Failed {
        /// Number of the request.
        generation: u64,
        /// Why.
        fault: Fault,
    },
    /// How the run ends on one device.
    Verdict {
        /// Number of the request that it belongs to.
        generation: u64,
        /// The verdict.
        verdict: DeviceVerdict,
    },
    /// How far the batch can go on one device.
    LargestBatch {
        /// Number of the request that it belongs to.
        generation: u64,
        /// Id of the device.
        device: String,
        /// How far it can go; nothing where the model has no open batch, or the search failed.
        batch: Option<LargestBatch>,
    },
    /// The moment that was asked for.
    Seen {
        /// Number of the request that it belongs to.
        generation: u64,
        /// What is alive then, and where.
        snapshot: Snapshot,
    },
    /// The run that was asked for.
    Played {
        /// Number of the request that it belongs to.
        generation: u64,
        /// What a snapshot is written from, packed.
        packed: Vec<u8>,
    },
    /// What other settings of the allocator make of a recorded run.
    WhatIfs {
        /// Number of the request that they belong to.
        generation: u64,
        /// All that is known, the settings of the run first.
        outcomes: Vec<WhatIf>,
    },
    /// What one lever makes of the run.
    Pulled {
        /// Number of the request that it belongs to.
        generation: u64,
        /// Its position in the table.
        lever: usize,
        /// The lever and its outcome; `None` where it does not apply.
        pulled: Option<Pulled>,
    },
    /// What the run needs at other sizes.
    Trend {
        /// Number of the request that it belongs to.
        generation: u64,
        /// All that is known of it.
        trend: Trend,
    },
    /// What other estimators say.
    Others {
        /// Number of the request whose run it is.
        generation: u64,
        /// Without rows where they cannot be asked.
        others: Others,
    },
    /// One piece of how the training ends on other numbers of GPUs.
    Scaled {
        /// Number of the request whose training it is.
        generation: u64,
        /// Its place among the pieces.
        number: usize,
        /// The piece, packed: only the parts of the program that draw and answer know it. Nothing where what answers did
        /// not arrive.
        piece: Vec<u8>,
    },
    /// Jobs that share a GPU.
    Shared {
        /// The tray, packed; nothing where what keeps it did not arrive.
        answer: Vec<u8>,
    },
    /// What a server has on each GPU, or why there is no answer.
    Served {
        /// Number of the question.
        number: u64,
        /// The answer, packed; nothing where what answers did not arrive.
        answer: Vec<u8>,
    },
    /// How long a step takes.
    Times {
        /// Number of the request whose run it is.
        generation: u64,
        /// Why there are none, otherwise; `None` where what computes them did not arrive.
        answer: Option<Result<Times, Sentence>>,
    },
    /// How much longer a sample takes with a lever.
    LeverTime {
        /// Number of the request that it belongs to.
        generation: u64,
        /// The lever's position in the table.
        lever: usize,
        /// Per cent.
        percent: i64,
    },
    /// How far the search for what makes it fit has come.
    Searched {
        /// Number of the request that it belongs to.
        generation: u64,
        /// COUNT: sets of levers tried.
        tried: usize,
        /// The outcome; `None` while it goes on.
        outcome: Option<SearchOutcome>,
    },
}

/// A dimension that the file leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenDim {
    /// Its name in the file.
    pub(crate) name: String,
    /// Its default size.
    pub(crate) default: u64,
    /// Whether it counts samples.
    pub(crate) batch: bool,
    /// Inputs of the model that have it.
    pub(crate) inputs: Vec<String>,
}

/// A device that verdicts can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Stable id.
    pub(crate) id: String,
    /// Name for people.
    pub(crate) name: String,
    /// Memory as the vendor sells it.
    pub(crate) nameplate: String,
    /// Whom it is made for.
    pub(crate) class: Class,
}

impl Device {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        device::all().iter().map(|known| Self {
            id: known.id.to_owned(),
            name: known.name.to_owned(),
            nameplate: known.nameplate.to_owned(),
            class: known.class(),
        })
    }
}

/// What a run needs along one dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trend {
    /// The dimension.
    pub(crate) dim: String,
    /// Sizes, the smallest first.
    pub(crate) points: Vec<TrendPoint>,
}

/// What other estimators say of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Others {
    /// One for each estimator, ours first.
    pub(crate) rows: Vec<Said>,
    /// SIZE: what we say is allocated, to compare figures for tensors with.
    pub(crate) allocated: Bytes,
    /// What was measured of the same training: the process's memory, the card, and the source.
    pub(crate) measured: Vec<(Bytes, String, String)>,
}

/// What one estimator says. Its texts have no full stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// Its stable name.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// Who published it, where and when.
    pub(crate) source: String,
    /// What it must be given.
    pub(crate) needs: String,
    /// What its figure is to be compared with.
    pub(crate) means: Means,
    /// What it counts.
    pub(crate) counts: String,
    /// What it leaves out.
    pub(crate) leaves_out: String,
    /// Its estimate, or why it has none.
    pub(crate) answer: Result<highwater_core::estimators::Estimate, String>,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SearchOutcome {
    /// This is the least.
    Found(Plan),
    /// Nothing that was tried is enough; this comes nearest.
    Nothing(Plan),
}

/// Where a message's allocation is in the step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// The likeliest place.
    pub(crate) place: Option<Spot>,
    /// Another batch that fits the message, and where it fails then.
    pub(crate) batch: Option<(u64, Spot)>,
    /// The most that the step allocates.
    pub(crate) peak: Bytes,
    /// Whether other batches are tried next.
    pub(crate) is_searching: bool,
}

/// One allocation of the step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spot {
    /// Phase.
    pub(crate) phase: Phase,
    /// Operator that runs.
    pub(crate) operator: String,
    /// Module that runs; may be empty.
    pub(crate) module: String,
    /// Iterations, from 1; 0 is the loading of the model.
    pub(crate) iterations: Vec<usize>,
    /// A name of what is allocated; none for workspaces.
    pub(crate) tensor: Option<String>,
    /// SIZE: what it asks for.
    pub(crate) requested: Bytes,
    /// SUM: allocated just before.
    pub(crate) allocated: Bytes,
    /// Its event on the timeline.
    pub(crate) event: usize,
    /// Whether the simulated run fails there; else it may even fit.
    pub(crate) is_certain: bool,
    /// Why it is taken to be the place, in English.
    pub(crate) why: String,
}

impl Finding {
    /// What the page needs of what was located.
    pub(crate) fn of(located: Located, is_searching: bool) -> Self {
        Self {
            place: located.places.into_iter().next().map(Spot::of),
            batch: located.batch.map(|(batch, place)| (batch, Spot::of(place))),
            peak: located.peak,
            is_searching,
        }
    }
}

impl Spot {
    fn of(place: Candidate) -> Self {
        let name = Some(place.name).filter(|name| !name.is_empty());
        Self {
            phase: place.phase,
            operator: place.operator,
            module: place.module,
            iterations: place.iterations,
            tensor: name.or_else(|| Some(place.tensor?.to_string())),
            requested: place.requested,
            allocated: place.allocated,
            event: place.event,
            is_certain: place.fits == Match::Fails,
            why: place.fits.about().to_owned(),
        }
    }
}

/// How far the batch can go, by device; nothing where the search failed.
pub(crate) type Largest = Vec<(String, Option<LargestBatch>)>;

/// A report and how long it took.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Estimate {
    /// The report.
    pub(crate) report: Report,
    /// Milliseconds in the worker; nothing where it travelled with an example.
    pub(crate) millis: Option<f64>,
    /// Largest batches that are known already, each with its device: those of the same settings but for the batch.
    pub(crate) largest: Largest,
}

impl Estimate {
    /// A report of which nothing else is known yet.
    pub(crate) const fn new(report: Report, millis: Option<f64>) -> Self {
        Self { report, millis, largest: Vec::new() }
    }
}

/// Packs a message and what travels with it.
pub(crate) fn pack<T: Serialize>(message: &T, attached: &JsValue) -> Option<(Array, Array)> {
    let bytes = postcard::to_stdvec(message).ok()?;
    let bytes = Uint8Array::from(bytes.as_slice()).buffer();
    let transfer = Array::of1(&bytes);
    if attached.is_instance_of::<ArrayBuffer>() {
        transfer.push(attached);
    }
    Some((Array::of2(&bytes, attached), transfer))
}

/// The message in what arrived, and what travelled with it.
pub(crate) fn unpack<T: DeserializeOwned>(data: JsValue) -> Option<(T, JsValue)> {
    let parts = data.dyn_into::<Array>().ok()?;
    let bytes = Uint8Array::new(&parts.get(0)).to_vec();
    Some((postcard::from_bytes(&bytes).ok()?, parts.get(1)))
}
