//! What the model is, before any training.

use std::sync::Arc;

use highwater_core::Report;
use leptos::prelude::*;

use super::byte_size::ByteSize;
use crate::language::tr;
use crate::{format, text};

/// Parameters, operators, who wrote the file, and how long the estimate took.
#[component]
pub(crate) fn ModelFacts(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// Milliseconds that the estimate took.
    #[prop(into)]
    millis: Signal<f64>,
) -> impl IntoView {
    move || {
        report.get().map(|report| {
            let model = &report.model;
            let producer = model.producer.clone();
            let has_producer = !producer.is_empty();
            view! {
                <dl class="facts">
                    <dt>{tr("read as")}</dt>
                    <dd>{model.recognised.format.clone()}</dd>
                    <dt>{tr("which is")}</dt>
                    <dd title=tr(&text::sentence(
                        model.recognised.fidelity.about(),
                    ))>{tr(model.recognised.fidelity.label())}</dd>
                    <dt>{tr("parameters")}</dt>
                    <dd title=format::grouped(
                        model.parameters,
                    )>{format::short_count(model.parameters)}</dd>
                    <dt>{tr("their size")}</dt>
                    <dd>
                        <ByteSize bytes=model.parameter_bytes />
                    </dd>
                    <dt>{tr("operators")}</dt>
                    <dd>{format::grouped(model.operators as u64)}</dd>
                    {has_producer
                        .then(|| {
                            view! {
                                <dt>{tr("written by")}</dt>
                                <dd>{producer}</dd>
                            }
                        })}
                    <dt>{tr("estimated in")}</dt>
                    <dd>{format!("{:.0}\u{a0}ms", millis.get())}</dd>
                </dl>
            }
        })
    }
}
