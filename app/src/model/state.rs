//! The page's state. Only events write to it.

use std::sync::Arc;

use highwater_core::estimate::LargestBatch;
use highwater_core::formats::catalogue::MARK;
use highwater_core::recorded::WhatIf;
use highwater_core::report::{DeviceVerdict, Snapshot, Verdict};
use highwater_core::wording::Sentence;
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;

use crate::model::computed::Computed;
use crate::model::explained::Explained;
use crate::model::language::Language;
use crate::model::lessons::Teaching;
use crate::model::protocol::{Device, Fault, Finding, OpenDim, SearchOutcome, Trend};
use crate::model::section::Section;
use crate::model::theme::Theme;
use crate::model::times::Times;
use crate::model::visit::{Recent, Waiting};
use highwater_core::levers::{LEVERS, Pulled};
use highwater_draw::scene::{Part, View};

/// All signals of the page.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// The model on the page; `None` shows the empty page.
    pub(crate) loaded: RwSignal<Option<Loaded>>,
    /// COUNT: models that the user has opened.
    pub(crate) opened: RwSignal<usize>,
    /// The text that the model is written in, or is being written.
    pub(crate) source: RwSignal<Option<SourceText>>,
    /// Whether the editor shows that text.
    pub(crate) is_writing: RwSignal<bool>,
    /// What is being opened right now.
    pub(crate) opening: RwSignal<Option<Arriving>>,
    /// What the user wants estimated.
    pub(crate) config: RwSignal<Config>,
    /// Which reading of a recorded run the user wants: a position.
    pub(crate) reading: RwSignal<usize>,
    /// The newest answer; it stays until the next one is here.
    pub(crate) answer: RwSignal<Option<Answer>>,
    /// One row per device, in the order of the catalogue.
    pub(crate) devices: RwSignal<Vec<DeviceRow>>,
    /// Why the newest configuration has no answer.
    pub(crate) config_problem: RwSignal<Option<ConfigProblem>>,
    /// A message about memory that the user has shown.
    pub(crate) message: RwSignal<Option<Message>>,
    /// Where its allocation is.
    pub(crate) found: RwSignal<Option<Computed<Finding>>>,
    /// The answer that others are compared with.
    pub(crate) kept: RwSignal<Option<Kept>>,
    /// Something the user must know about.
    pub(crate) notice: RwSignal<Option<Notice>>,
    /// Event under the cursor on the timeline.
    pub(crate) cursor: RwSignal<Option<usize>>,
    /// Event that is looked at until another is pinned.
    pub(crate) pin: RwSignal<Option<usize>>,
    /// The newest moment that was looked at.
    pub(crate) snapshot: RwSignal<Option<Arc<Snapshot>>>,
    /// A recorded run under other settings of the allocator.
    pub(crate) what_ifs: RwSignal<Vec<WhatIf>>,
    /// The outcome of each suggestion, in the order of the table, as far as it is known.
    pub(crate) levers: RwSignal<Vec<Lever>>,
    /// Changes that were applied here, the newest last.
    pub(crate) applied: RwSignal<Vec<Applied>>,
    /// What other sizes need.
    pub(crate) trend: RwSignal<Option<Computed<Trend>>>,
    /// The search for what makes the newest answer fit; `None` where nobody asked.
    pub(crate) search: RwSignal<Option<SearchState>>,
    /// What the timeline shows, and how.
    pub(crate) view: RwSignal<View>,
    /// The section of the answer that is shown.
    pub(crate) section: RwSignal<Section>,
    /// The user's own GPU, where they have chosen one.
    pub(crate) my_gpu: RwSignal<Option<String>>,
    /// The lesson that is given.
    pub(crate) lesson: RwSignal<Option<Teaching>>,
    /// What the address asks for that is not on the page yet.
    pub(crate) waiting: RwSignal<Option<Waiting>>,
    /// The state as an address, behind its `#`.
    pub(crate) address: RwSignal<String>,
    /// The link that was asked for last.
    pub(crate) shared: RwSignal<Option<Shared>>,
    /// Recent inputs, the newest first.
    pub(crate) recent: RwSignal<Vec<Recent>>,
    /// The theme.
    pub(crate) theme: RwSignal<Theme>,
    /// The language that the page speaks.
    pub(crate) language: RwSignal<Language>,
}

impl State {
    /// The empty page.
    pub(crate) fn new(theme: Theme) -> Self {
        Self {
            loaded: RwSignal::new(None),
            opened: RwSignal::new(0),
            source: RwSignal::new(None),
            is_writing: RwSignal::new(false),
            opening: RwSignal::new(None),
            config: RwSignal::new(Config::default()),
            reading: RwSignal::new(0),
            answer: RwSignal::new(None),
            devices: RwSignal::new(Vec::new()),
            config_problem: RwSignal::new(None),
            message: RwSignal::new(None),
            found: RwSignal::new(None),
            kept: RwSignal::new(None),
            notice: RwSignal::new(None),
            cursor: RwSignal::new(None),
            pin: RwSignal::new(None),
            snapshot: RwSignal::new(None),
            what_ifs: RwSignal::new(Vec::new()),
            levers: RwSignal::new(vec![None; LEVERS.len()]),
            applied: RwSignal::new(Vec::new()),
            trend: RwSignal::new(None),
            search: RwSignal::new(None),
            view: RwSignal::new(View::default()),
            section: RwSignal::new(Section::default()),
            my_gpu: RwSignal::new(None),
            lesson: RwSignal::new(None),
            waiting: RwSignal::new(None),
            address: RwSignal::new(String::new()),
            shared: RwSignal::new(None),
            recent: RwSignal::new(Vec::new()),
            theme: RwSignal::new(theme),
            language: RwSignal::new(Language::English),
        }
    }
}

impl State {
    /// Shows one iteration on the timeline, or all of them.
    pub(crate) fn show_iteration(&self, iteration: Option<usize>) {
        let part = iteration.map_or(Part::All, Part::Iteration);
        self.view.update(|view| view.part = part);
    }

    /// Another size for the first dimension, which is the batch.
    pub(crate) fn choose_batch(&self, batch: u64) {
        let dim =
            self.loaded.with_untracked(|loaded| Some(loaded.as_ref()?.dims.first()?.name.clone()));
        if let Some(dim) = dim {
            self.config.update(|config| {
                config.dims.insert(dim, batch);
            });
        }
    }

    /// Forgets what ends with a part of the visit. A field that is added has to be given its time here.
    pub(crate) fn forget(&self, ended: Ended) {
        let Self {
            // What ends with an answer, with a model, with all that is open.
            cursor,
            search,
            config_problem,
            notice,
            view,
            pin,
            what_ifs,
            levers,
            applied,
            trend,
            devices,
            opening,
            loaded,
            source,
            answer,
            snapshot,
            is_writing,
            section,
            // What replaces itself, and what lasts as long as the visit.
            opened: _,
            config: _,
            reading: _,
            message: _,
            found: _,
            kept: _,
            my_gpu: _,
            lesson: _,
            waiting: _,
            address: _,
            shared: _,
            recent: _,
            theme: _,
            language: _,
        } = self;
        cursor.set(None);
        search.set(None);
        config_problem.set(None);
        if ended == Ended::Answer {
            return;
        }
        notice.set(None);
        view.update(|view| view.part = Part::default());
        pin.set(None);
        what_ifs.set(Vec::new());
        levers.set(vec![None; LEVERS.len()]);
        applied.set(Vec::new());
        trend.set(None);
        section.set(Section::default());
        for row in devices.get_untracked() {
            row.verdict.set(None);
            row.largest.set(None);
        }
        if ended == Ended::Model {
            return;
        }
        opening.set(None);
        loaded.set(None);
        source.set(None);
        is_writing.set(false);
        answer.set(None);
        snapshot.set(None);
    }

    /// Whether the model on the page is only an example of an answer; nobody has opened it.
    pub(crate) fn is_sample(&self) -> bool {
        self.loaded.with(|loaded| loaded.as_ref().is_some_and(|loaded| loaded.is_sample))
    }

    /// The user wants to see all of the example's answer: it is opened.
    pub(crate) fn open_sample(&self) {
        self.loaded.update(|loaded| {
            if let Some(loaded) = loaded {
                loaded.is_sample = false;
            }
        });
    }

    /// Shows a text in the editor.
    pub(crate) fn write(&self, name: &str, text: Option<String>, problem: Option<SourceProblem>) {
        self.is_writing.set(text.is_some());
        self.edit(name, text, problem);
    }

    /// Takes over the text of the model, if it has one.
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

/// What has ended; each ends with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The newest answer: another is here.
    Answer,
    /// The model: another is open.
    Model,
    /// All that is open: the page is empty.
    Page,
}

/// How far the search for what makes a run fit has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchState {
    /// COUNT: sets of levers tried.
    pub(crate) tried: usize,
    /// How it ended; `None` while it goes on.
    pub(crate) outcome: Option<SearchOutcome>,
}

/// An input on its way in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arriving {
    /// Its name.
    pub(crate) name: String,
    /// How much of it was read, once that takes its time.
    pub(crate) percent: Option<f64>,
}

impl Arriving {
    /// Of which nothing was read yet.
    pub(crate) const fn new(name: String) -> Self {
        Self { name, percent: None }
    }
}

/// The model on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Name of the file.
    pub(crate) name: String,
    /// Whether it is a file of the user's, which no address has.
    pub(crate) own_file: bool,
    /// Whether the page itself opened it, as an example of an answer.
    pub(crate) is_sample: bool,
    /// Dimensions that it leaves open, the batch first.
    pub(crate) dims: Vec<OpenDim>,
    /// The same model as a layer spec, where it can be written as one.
    pub(crate) spec: Option<String>,
    /// Whether it was written of a configuration, which servers need.
    pub(crate) is_written: bool,
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

/// Whether a text only names a model, so that there is nothing to edit.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(MARK)
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceProblem {
    /// Why, as a sentence without its full stop.
    pub(crate) reason: Sentence,
    /// Line and column, counted from 1.
    pub(crate) place: Option<(usize, usize)>,
}

/// A message about memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its explanation.
    pub(crate) explained: Arc<Explained>,
    /// The settings before its own were applied.
    pub(crate) before: Config,
    /// Whether it is about the model that is open: it goes with that.
    pub(crate) has_model: bool,
}

/// A report, and which request it answers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Number of the request.
    pub(crate) generation: u64,
    /// The report.
    pub(crate) report: Arc<Report>,
    /// Milliseconds that it took, as far as the worker has told.
    pub(crate) millis: Option<f64>,
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.generation == other.generation && Arc::ptr_eq(&self.report, &other.report)
    }
}

/// Why settings have no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigProblem {
    /// Why, and which setting is to blame.
    pub(crate) fault: Fault,
    /// Whether the setting was taken back, so that the answer is for what is set now.
    pub(crate) taken_back: bool,
}

/// One device and what is known about it so far.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRow {
    /// Which device.
    pub(crate) device: StoredValue<Device>,
    /// The newest verdict.
    pub(crate) verdict: RwSignal<Option<Computed<DeviceVerdict>>>,
    /// How far the batch can go; nothing where there is no batch, or the search failed.
    pub(crate) largest: RwSignal<Option<Computed<Option<LargestBatch>>>>,
}

/// What a suggestion leads to, once that is known; nothing where it does not apply.
pub(crate) type Lever = Option<Computed<Option<Arc<Effected>>>>;

impl DeviceRow {
    /// A device of which nothing is known yet.
    pub(crate) fn new(device: Device) -> Self {
        Self {
            device: StoredValue::new(device),
            verdict: RwSignal::new(None),
            largest: RwSignal::new(None),
        }
    }

    /// What is read of the verdict on the settings that count, once it is there.
    pub(crate) fn judged<T>(
        &self,
        current: Option<u64>,
        read: impl FnOnce(&DeviceVerdict) -> T,
    ) -> Option<T> {
        self.verdict.with(|known| Some(read(known.as_ref()?.at(current)?)))
    }

    /// How the run ends there with the settings that count.
    pub(crate) fn known_verdict(&self, current: Option<u64>) -> Option<Verdict> {
        self.judged(current, |known| known.verdict)
    }

    /// How far the batch can go with the settings that count.
    pub(crate) fn reach(&self, current: Option<u64>) -> Searched {
        let done = self.largest.with(|known| known.as_ref()?.at(current).copied());
        done.map_or(Searched::Pending, Searched::Done)
    }
}

/// The search for the largest batch on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Searched {
    /// It is not done.
    Pending,
    /// What it found; nothing where there is no batch.
    Done(Option<LargestBatch>),
}

impl Searched {
    /// What it found so far.
    pub(crate) fn found(self) -> Option<LargestBatch> {
        match self {
            Self::Pending => None,
            Self::Done(found) => found,
        }
    }
}

/// An answer that was kept, to compare others with.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Name of its model.
    pub(crate) name: String,
    /// The answer.
    pub(crate) report: Arc<Report>,
}

/// The link to what is on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    /// The whole address.
    pub(crate) link: String,
    /// Whether it is in the clipboard.
    pub(crate) copied: bool,
    /// Name of the input, where its text or bytes are not in the link.
    pub(crate) without: Option<String>,
}

/// A lever that was pulled, and what it was pulled on.
#[derive(Clone, Debug)]
pub(crate) struct Effected {
    /// What the device had to hold before.
    pub(crate) before: Bytes,
    /// How much longer a sample takes, in per cent, once that is known.
    pub(crate) slower: Option<i64>,
    /// The lever and its outcome.
    pub(crate) pulled: Pulled,
}

/// How long a step takes, or why that is not known.
pub(crate) type Timed = Computed<Result<Arc<Times>, Sentence>>;

/// A change of the settings that can be taken back.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// What it was.
    pub(crate) title: String,
    /// The settings before.
    pub(crate) before: Config,
    /// The settings after.
    pub(crate) after: Config,
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
