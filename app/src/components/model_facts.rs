//! Facts about the model, without training.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::report::RecordedRun;
use leptos::prelude::*;

use super::parts::size;
use crate::words::language::tr;
use crate::words::{self, format};

/// Parameters, operators, who wrote the file, and how long the estimate took.
#[component]
pub(crate) fn ModelFacts(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// Milliseconds that the estimate took.
    #[prop(into)]
    millis: Signal<Option<f64>>,
) -> impl IntoView {
    view! {
        <dl class="facts">
            {move || report.get().map(|report| facts(&report, millis.get()))}
        </dl>
    }
}

/// A name, what is said, and what it means.
type Fact = (String, AnyView, Option<String>);

fn facts(report: &Report, millis: Option<f64>) -> impl IntoView + use<> {
    let model = &report.model;
    let fidelity = model.recognised.fidelity;
    let about = tr(&words::sentence(fidelity.about()));
    let mut facts: Vec<Fact> = vec![
        fact(tr("format"), model.recognised.format.clone()),
        (tr("accuracy"), tr(fidelity.label()).into_any(), Some(about)),
    ];
    let run = report.recorded.as_ref();
    if let Some(run) = run {
        facts.push(fact(tr("events"), format::grouped(report.timeline.events as u64)));
        let conf = run.alloc_conf.as_ref();
        facts.extend(conf.map(|conf| fact(tr("allocator"), words::recorded::settings(conf))));
    }
    if run.is_none_or(RecordedRun::is_prediction) {
        // Some rules of traces know sizes only.
        if model.parameters > 0 || run.is_none() {
            let count = format::short_count(model.parameters).into_any();
            facts.push((tr("parameters"), count, Some(format::grouped(model.parameters))));
        }
        facts.push((tr("parameter size"), size(model.parameter_bytes).into_any(), None));
    }
    if run.is_none() {
        facts.push(fact(tr("operators"), format::grouped(model.operators as u64)));
        if !model.producer.is_empty() {
            facts.push(fact(tr("written by"), model.producer.clone()));
        }
        let took = millis.map(|millis| format!("{millis:.0}\u{a0}ms"));
        facts.extend(took.map(|took| fact(tr("estimated in"), took)));
    }
    let fact = |(name, says, title): Fact| {
        view! {
            <div>
                <dt>{name}</dt>
                <dd title=title>{says}</dd>
            </div>
        }
    };
    facts.into_iter().map(fact).collect_view()
}

fn fact(name: String, says: String) -> Fact {
    (name, says.into_any(), None)
}
