//! What the model is, before any training.

use std::sync::Arc;

use highwater_core::Report;
use leptos::prelude::*;

use super::byte_size::ByteSize;
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
                    <dt>"read as"</dt>
                    <dd>{model.recognised.format.clone()}</dd>
                    <dt>"which is"</dt>
                    <dd title=text::sentence(
                        model.recognised.fidelity.about(),
                    )>{model.recognised.fidelity.label()}</dd>
                    <dt>"parameters"</dt>
                    <dd title=format::grouped(
                        model.parameters,
                    )>{format::short_count(model.parameters)}</dd>
                    <dt>"their size"</dt>
                    <dd>
                        <ByteSize bytes=model.parameter_bytes />
                    </dd>
                    <dt>"operators"</dt>
                    <dd>{format::grouped(model.operators as u64)}</dd>
                    {has_producer
                        .then(|| {
                            view! {
                                <dt>"written by"</dt>
                                <dd>{producer}</dd>
                            }
                        })}
                    <dt>"estimated in"</dt>
                    <dd>{format!("{:.0}\u{a0}ms", millis.get())}</dd>
                </dl>
            }
        })
    }
}
