//! Values that follow from the state, each computed once after a change.

use std::sync::Arc;

use gloo::timers::callback::Timeout;
use highwater_core::device::USUAL;
use highwater_core::report::Verdict;
use highwater_core::wording::Reach;
use highwater_core::{Config, Report};
use leptos::prelude::*;

use crate::model::protocol::Finding;
use crate::model::state::{Answer, ConfigProblem, DeviceRow, Searched, SourceText, State, Timed};

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
    /// Whether anything of the answer to what is set now is on its way.
    pub(crate) busy: Memo<bool>,
    /// Number of the request that the newest report answers.
    pub(crate) generation: Memo<u64>,
    /// The request whose numbers count: the one that the newest report answers, unless something else is set now. While
    /// a size is dragged the report of the size before counts, which it names.
    pub(crate) current: Memo<Option<u64>>,
    /// How many devices the run survives on.
    pub(crate) count: Memo<Count>,
    /// The largest batch on the chosen device.
    pub(crate) reach: Memo<Reach>,
    /// Where a message's allocation is in the newest report.
    pub(crate) found: Memo<Option<Finding>>,
    /// Milliseconds that the newest estimate took.
    pub(crate) millis: Memo<Option<f64>>,
    /// The moment that is looked at: what is pinned, else under the cursor, else the peak; and the
    /// request whose answer it is a moment of.
    pub(crate) moment: Memo<Option<(u64, usize)>>,
    /// How long a step takes.
    pub(crate) times: RwSignal<Option<Timed>>,
}

/// Milliseconds that the answer for other sizes may take before the one on the page is hidden: while somebody drags, an
/// answer follows the other.
const PATIENCE: u32 = 100;

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
        let is_late = lateness(stale, generation);
        let current = Memo::new(move |_| {
            let differs_in_sizes = || {
                let is_late = is_late.get();
                answer.with(|answer| {
                    let report = &answer.as_ref()?.report;
                    let Config { dims, new_tokens, .. } = report.config.clone();
                    let of_sizes = state.config.with(|config| {
                        let config = Config { dims, new_tokens, ..config.clone() };
                        config.is_answered_by(&report.config)
                    });
                    (of_sizes && !is_late).then_some(())
                })
            };
            let counts = outdated.get() || !stale.get() || differs_in_sizes().is_some();
            (counts && answer.with(Option::is_some)).then(|| generation.get())
        });
        let reach = Memo::new(move |_| {
            let chosen = answer.with(|answer| Some(answer.as_ref()?.report.verdict.id.clone()));
            chosen.map_or(Reach::NotAsked, |chosen| reach(state, &chosen, current.get()))
        });
        let busy = Memo::new(move |_| {
            let current = current.get();
            let is_carded = |id: &str| {
                let is_chosen = state.config.with(|config| config.device == id);
                let is_mine = state.my_gpu.with(|mine| mine.as_deref() == Some(id));
                is_chosen || is_mine || USUAL.contains(&id)
            };
            let waits = |row: &DeviceRow| {
                let is_carded = row.device.with_value(|device| is_carded(&device.id));
                let is_searching =
                    is_carded && has_batch(state) && row.reach(current) == Searched::Pending;
                row.known_verdict(current).is_none() || is_searching
            };
            let is_timing = || {
                let known = times.with(|times| Some(times.as_ref()?.at(current).is_some()));
                !recorded.get() && known != Some(true)
            };
            let is_late = || state.devices.with(|rows| rows.iter().any(waits)) || is_timing();
            !outdated.get() && (stale.get() || is_late())
        });
        let found = Memo::new(move |_| {
            state.found.with(|found| found.as_ref()?.at(current.get()).cloned())
        });
        let count = Memo::new(move |_| count(state, current.get()));
        let millis =
            Memo::new(move |_| answer.with(|answer| answer.as_ref().and_then(|a| a.millis)));
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
            current,
            count,
            reach,
            found,
            millis,
            moment,
            times,
        }
    }
}

/// Whether the answer on the page has been older than the settings for longer than people wait without noticing.
fn lateness(stale: Memo<bool>, generation: Memo<u64>) -> ReadSignal<bool> {
    let (is_late, set_late) = signal(false);
    let waiting = StoredValue::new_local(None::<Timeout>);
    Effect::new(move |_| {
        // Each answer is news, although another one is wanted by then.
        generation.track();
        if !stale.get() {
            set_late.set(false);
        }
        let wait = || {
            Timeout::new(PATIENCE, move || {
                // The page may have gone meanwhile.
                let _gone = set_late.try_set(true);
            })
        };
        waiting.set_value(stale.get().then(wait));
    });
    is_late
}

/// Whether the model has a batch to be searched.
fn has_batch(state: State) -> bool {
    state.loaded.with(|l| l.as_ref().is_some_and(|l| l.dims.iter().any(|dim| dim.batch)))
}

fn count(state: State, current: Option<u64>) -> Count {
    state.devices.with(|rows| {
        let verdicts: Vec<Verdict> =
            rows.iter().filter_map(|row| row.known_verdict(current)).collect();
        Count {
            all: rows.len(),
            known: verdicts.len(),
            survive: verdicts.iter().filter(|verdict| verdict.survives()).count(),
            fail: verdicts.iter().filter(|verdict| verdict.fails()).count(),
        }
    })
}

/// How far the batch can go on a device.
fn reach(state: State, device: &str, current: Option<u64>) -> Reach {
    let known = state.devices.with(|rows| {
        let row = rows.iter().find(|row| row.device.with_value(|known| known.id == device))?;
        Some(row.reach(current))
    });
    match known {
        Some(Searched::Done(found)) => found.map_or(Reach::NotAsked, Reach::Found),
        None | Some(Searched::Pending) if has_batch(state) => Reach::OnItsWay,
        _ => Reach::NotAsked,
    }
}
