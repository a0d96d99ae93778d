//! Values that follow from the state, each computed once after a change.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::estimate::LargestBatch;
use highwater_core::report::Verdict;
use leptos::prelude::*;

use crate::model::protocol::Finding;
use crate::model::state::{Answer, ConfigProblem, DeviceRow, SourceText, State, Timed};

/// How many devices the run survives on, of how many that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Devices in the catalogue.
    pub(crate) all: usize,
    /// Devices with a verdict so far.
    pub(crate) known: usize,
    /// Devices that the run survives on.
    pub(crate) survive: usize,
    /// Devices that it does not fit on.
    pub(crate) fail: usize,
}

/// All memos of the page.
#[derive(Clone, Copy)]
pub(crate) struct Derived {
    /// The newest report.
    pub(crate) report: Signal<Option<Arc<Report>>>,
    /// Whether the newest report is of a run that was recorded: there is no model then.
    pub(crate) recorded: Memo<bool>,
    /// Whether the page shows an older answer than the user asks for.
    pub(crate) stale: Memo<bool>,
    /// Whether the newest input or settings have no answer, so that the page shows an older one.
    pub(crate) outdated: Memo<bool>,
    /// Whether an answer to what is set now is on its way, or its verdict on a GPU.
    pub(crate) busy: Memo<bool>,
    /// Number of the request that the newest report answers.
    pub(crate) generation: Memo<u64>,
    /// How many devices the run survives on.
    pub(crate) count: Memo<Count>,
    /// The largest batch on the chosen device.
    pub(crate) largest: Memo<Option<LargestBatch>>,
    /// Where a message's allocation is in the newest report.
    pub(crate) found: Memo<Option<Finding>>,
    /// Milliseconds that the newest estimate took.
    pub(crate) millis: Memo<f64>,
    /// The moment that is looked at: what is pinned, else under the cursor, else the peak; and the
    /// request whose answer it is a moment of.
    pub(crate) moment: Memo<Option<(u64, usize)>>,
    /// How long a step takes; the one before stays until the next is there.
    pub(crate) times: RwSignal<Option<Timed>>,
}

impl Derived {
    /// Everything that follows from `state`.
    pub(crate) fn of(state: State, times: RwSignal<Option<Timed>>) -> Self {
        let answer = Memo::new(move |_| state.answer.get());
        let report =
            Signal::derive(move || answer.with(|answer| Some(answer.as_ref()?.report.clone())));
        let recorded = Memo::new(move |_| {
            answer.with(|answer| answer.as_ref().is_some_and(|a| a.report.recorded.is_some()))
        });
        let generation =
            Memo::new(move |_| answer.with(|answer| answer.as_ref().map_or(0, |a| a.generation)));
        let outdated = Memo::new(move |_| {
            let wrong = |text: &SourceText| text.problem.is_some();
            let refused = |problem: &ConfigProblem| !problem.taken_back;
            state.source.with(|text| text.as_ref().is_some_and(wrong))
                || state.config_problem.with(|problem| problem.as_ref().is_some_and(refused))
        });
        let stale = Memo::new(move |_| {
            let is_other = answer.with(|answer| {
                let is_other = |a: &Answer| {
                    state.config.with(|config| !config.is_answered_by(&a.report.config))
                };
                answer.as_ref().is_some_and(is_other)
            });
            is_other || outdated.get()
        });
        let busy = Memo::new(move |_| {
            let unjudged = |row: &DeviceRow| row.is_stale(generation.get());
            !outdated.get() && (stale.get() || state.devices.with(|rows| rows.iter().any(unjudged)))
        });
        let found = Memo::new(move |_| {
            let (of, finding) = state.found.get()?;
            (of == generation.get()).then_some(finding)
        });
        let count = Memo::new(move |_| count(state));
        let largest = Memo::new(move |_| {
            let chosen = answer.with(|answer| Some(answer.as_ref()?.report.verdict.id.clone()))?;
            largest(state, &chosen)
        });
        let millis =
            Memo::new(move |_| answer.with(|answer| answer.as_ref().map_or(0.0, |a| a.millis)));
        let moment = Memo::new(move |_| {
            let chosen = state.pin.get().or_else(|| state.cursor.get());
            answer.with(|answer| {
                let answer = answer.as_ref()?;
                Some((answer.generation, chosen.unwrap_or(answer.report.peak.event)))
            })
        });
        Self {
            report,
            recorded,
            stale,
            outdated,
            busy,
            generation,
            count,
            largest,
            found,
            millis,
            moment,
            times,
        }
    }
}

fn count(state: State) -> Count {
    state.devices.with(|rows| {
        let verdicts: Vec<Verdict> = rows
            .iter()
            .filter_map(|row| row.verdict.with(|known| Some(known.as_ref()?.1.verdict)))
            .collect();
        Count {
            all: rows.len(),
            known: verdicts.len(),
            survive: verdicts.iter().filter(|verdict| verdict.survives()).count(),
            fail: verdicts.iter().filter(|verdict| verdict.fails()).count(),
        }
    })
}

fn largest(state: State, device: &str) -> Option<LargestBatch> {
    state.devices.with(|rows| {
        let row = rows.iter().find(|row| row.device.with_value(|known| known.id == device))?;
        row.largest.with(|known| known.and_then(|(_, batch)| batch))
    })
}
