//! Everything that can change on the page. Events write here, and nowhere else.

use std::sync::Arc;

use highwater_core::estimate::Located;
use highwater_core::report::DeviceVerdict;
use highwater_core::{Config, Report};
use leptos::prelude::*;

use crate::estimator::{Device, OpenDim};
use crate::explained::Explained;
use crate::protocol::LargestBatch;
use crate::theme::Theme;

/// All signals of the page.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// The model on the page; `None` shows the empty page.
    pub(crate) loaded: RwSignal<Option<Loaded>>,
    /// The text that the model is written in, or is being written.
    pub(crate) source: RwSignal<Option<SourceText>>,
    /// Name of what is being opened right now.
    pub(crate) opening: RwSignal<Option<String>>,
    /// What the user wants estimated.
    pub(crate) config: RwSignal<Config>,
    /// The newest answer; it stays until the next one is here.
    pub(crate) answer: RwSignal<Option<Answer>>,
    /// One row per device, in the order of the catalogue.
    pub(crate) devices: RwSignal<Vec<DeviceRow>>,
    /// Why the newest configuration has no answer.
    pub(crate) config_problem: RwSignal<Option<String>>,
    /// A message about memory that the user has shown.
    pub(crate) message: RwSignal<Option<Message>>,
    /// Where its allocation is, and in which answer.
    pub(crate) found: RwSignal<Option<(u64, Arc<Located>, bool)>>,
    /// Something the user must know about.
    pub(crate) notice: RwSignal<Option<Notice>>,
    /// Place of the cursor on the timeline, as a position in its samples.
    pub(crate) cursor: RwSignal<Option<usize>>,
    /// Iteration that the timeline shows; `None` for all.
    pub(crate) iteration: RwSignal<Option<usize>>,
    /// The theme.
    pub(crate) theme: RwSignal<Theme>,
}

impl State {
    /// The empty page.
    pub(crate) fn new() -> Self {
        Self {
            loaded: RwSignal::new(None),
            source: RwSignal::new(None),
            opening: RwSignal::new(None),
            config: RwSignal::new(Config::default()),
            answer: RwSignal::new(None),
            devices: RwSignal::new(Vec::new()),
            config_problem: RwSignal::new(None),
            message: RwSignal::new(None),
            found: RwSignal::new(None),
            notice: RwSignal::new(None),
            cursor: RwSignal::new(None),
            iteration: RwSignal::new(None),
            theme: RwSignal::new(Theme::stored_or_preferred()),
        }
    }
}

impl State {
    /// Shows a text in the editor, or no editor.
    pub(crate) fn edit(&self, name: &str, text: Option<String>, problem: Option<SourceProblem>) {
        let revision = self.source.with_untracked(|old| old.as_ref().map_or(0, |old| old.revision));
        let name = name.to_owned();
        self.source.set(text.map(|text| SourceText {
            name,
            text,
            revision: revision.saturating_add(1),
            problem,
        }));
    }
}

/// The model on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Name of the file.
    pub(crate) name: String,
    /// Dimensions that it leaves open, the batch first.
    pub(crate) dims: Vec<OpenDim>,
    /// The same model as a layer spec, where it can be written as one.
    pub(crate) spec: Option<String>,
}

/// A text in the editor, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceText {
    /// Name for people.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
    /// COUNT: times it was replaced other than by typing.
    pub(crate) revision: u64,
    /// Why the text as it stands has no answer.
    pub(crate) problem: Option<SourceProblem>,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceProblem {
    /// Why, as a sentence without its full stop.
    pub(crate) reason: String,
    /// Line and column, counted from 1.
    pub(crate) place: Option<(usize, usize)>,
}

/// A message about memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// What it says.
    pub(crate) explained: Arc<Explained>,
    /// The settings before its own were applied.
    pub(crate) before: Config,
}

/// A report, and which request it answers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Number of the request.
    pub(crate) generation: u64,
    /// The report.
    pub(crate) report: Arc<Report>,
    /// Milliseconds that it took.
    pub(crate) millis: f64,
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.generation == other.generation && Arc::ptr_eq(&self.report, &other.report)
    }
}

/// One device and what is known about it so far.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRow {
    /// Which device.
    pub(crate) device: StoredValue<Device>,
    /// The newest verdict, and the request it belongs to.
    pub(crate) verdict: RwSignal<Option<(u64, DeviceVerdict)>>,
    /// The newest largest batch, and the request it belongs to.
    pub(crate) largest: RwSignal<Option<(u64, LargestBatch)>>,
}

impl DeviceRow {
    /// A device of which nothing is known yet.
    pub(crate) fn new(device: Device) -> Self {
        Self {
            device: StoredValue::new(device),
            verdict: RwSignal::new(None),
            largest: RwSignal::new(None),
        }
    }
}

/// A message above everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// What happened.
    pub(crate) title: String,
    /// Why, and what to do.
    pub(crate) detail: String,
    /// Whether something failed.
    pub(crate) is_error: bool,
}
