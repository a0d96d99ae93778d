//! What follows from the state: computed once, when something it needs has changed.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::estimate::LargestBatch;
use highwater_core::report::Verdict;
use leptos::prelude::*;

use crate::protocol::Finding;
use crate::state::{SourceText, State};
use crate::text::{self, Count, Headline};

/// All memos of the page.
#[derive(Clone, Copy)]
pub(crate) struct Derived {
    /// The newest report.
    pub(crate) report: Signal<Option<Arc<Report>>>,
    /// Whether the newest report is of a run that was recorded: there is no model then.
    pub(crate) recorded: Memo<bool>,
    /// Whether the page shows an older answer than the user asks for.
    pub(crate) stale: Memo<bool>,
    /// Number of the request that the newest report answers.
    pub(crate) generation: Memo<u64>,
    /// The sentence at the top.
    pub(crate) headline: Memo<Option<Headline>>,
    /// Where a message's allocation is in the newest report.
    pub(crate) found: Memo<Option<Finding>>,
    /// Milliseconds that the newest estimate took.
    pub(crate) millis: Memo<f64>,
    /// The moment that is looked at: what is pinned, else under the cursor, else the peak; and the
    /// request whose answer it is a moment of.
    pub(crate) moment: Memo<Option<(u64, usize)>>,
}

impl Derived {
    /// Everything that follows from `state`.
    pub(crate) fn of(state: State) -> Self {
        let answer = Memo::new(move |_| state.answer.get());
        let report =
            Signal::derive(move || answer.with(|answer| Some(answer.as_ref()?.report.clone())));
        let recorded = Memo::new(move |_| {
            answer.with(|answer| answer.as_ref().is_some_and(|a| a.report.recorded.is_some()))
        });
        let generation =
            Memo::new(move |_| answer.with(|answer| answer.as_ref().map_or(0, |a| a.generation)));
        let stale = Memo::new(move |_| {
            answer.with(|answer| {
                // Of other settings, or of the text as it was before it was wrong.
                let wrong = |text: &SourceText| text.problem.is_some();
                answer.as_ref().is_some_and(|a| {
                    state.config.with(|config| *config != a.report.config)
                        || state.source.with(|text| text.as_ref().is_some_and(wrong))
                })
            })
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
        let headline = Memo::new(move |_| {
            answer.with(|answer| {
                Some(text::headline(&answer.as_ref()?.report, count.get(), largest.get()))
            })
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
        Self { report, recorded, stale, generation, headline, found, millis, moment }
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
        }
    })
}

fn largest(state: State, device: &str) -> Option<LargestBatch> {
    state.devices.with(|rows| {
        let row = rows.iter().find(|row| row.device.with_value(|known| known.id == device))?;
        row.largest.with(|known| known.and_then(|(_, batch)| batch))
    })
}
