//! What the model is, before any training.

use std::sync::Arc;

use highwater_core::Report;
use leptos::prelude::*;

use super::drawn::terms;
use super::markup::Markup;
use crate::words::language::tr;
use crate::words::{self, format};

/// Parameters, operators, who wrote the file, and how long the estimate took.
#[component]
pub(crate) fn ModelFacts(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// Milliseconds that the estimate took.
    #[prop(into)]
    millis: Signal<f64>,
) -> impl IntoView {
    let drawn = move |report: &Arc<Report>| drawn(report, millis.get());
    terms(
        "facts",
        Signal::derive(move || report.with(|r| r.as_ref().map(drawn)).unwrap_or_default()),
    )
}

fn drawn(report: &Report, millis: f64) -> String {
    let model = &report.model;
    let mut markup = Markup::default();
    let fact = |markup: &mut Markup, name: &str, title: &str, said: &str| {
        markup.around("<dt>", name, "</dt><dd");
        if !title.is_empty() {
            markup.around(" title=\"", title, "\"");
        }
        markup.around(">", said, "</dd>");
    };
    let fidelity = model.recognised.fidelity;
    fact(&mut markup, &tr("read as"), "", &model.recognised.format);
    let about = tr(&words::sentence(fidelity.about()));
    fact(&mut markup, &tr("which is"), &about, &tr(fidelity.label()));
    if let Some(run) = &report.recorded {
        let events = format::grouped(report.timeline.events as u64);
        fact(&mut markup, &tr("events"), "", &events);
        if let Some(conf) = &run.alloc_conf {
            fact(&mut markup, &tr("allocator"), "", &words::recorded::settings(conf));
        }
        if !run.is_prediction() {
            return markup.done();
        }
    }
    // Some rules of traces know sizes only.
    if model.parameters > 0 || report.recorded.is_none() {
        let count = format::short_count(model.parameters);
        fact(&mut markup, &tr("parameters"), &format::grouped(model.parameters), &count);
    }
    markup.around("<dt>", &tr("their size"), "</dt><dd>").size(model.parameter_bytes).raw("</dd>");
    if report.recorded.is_some() {
        return markup.done();
    }
    fact(&mut markup, &tr("operators"), "", &format::grouped(model.operators as u64));
    if !model.producer.is_empty() {
        fact(&mut markup, &tr("written by"), "", &model.producer);
    }
    fact(&mut markup, &tr("estimated in"), "", &format!("{millis:.0}\u{a0}ms"));
    markup.done()
}
