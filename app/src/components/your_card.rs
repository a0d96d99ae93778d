//! What is known of the very card that a run has: figures that a message states, or that one types.

use std::sync::Arc;

use highwater_core::config::MachineField;
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;

use super::choice_field::{Bound, Form};
use super::text_field::TextField;
use crate::language::{fill, tr};
use crate::text;

/// The settings that are typed here; the device and the version have fields of their own.
const FIELDS: [MachineField; 5] = [
    MachineField::Capacity,
    MachineField::Context,
    MachineField::OtherProcesses,
    MachineField::Allowed,
    MachineField::AllocConf,
];

/// The figures of the card, folded away until somebody asks or a message sets one.
#[component]
pub(crate) fn YourCard(
    /// The settings.
    form: Form,
    /// The report, for the figures that hold where none is typed.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let given = Memo::new(move |_| form.config.with(given));
    let reset = move || {
        form.change(|config| {
            for field in FIELDS {
                field.copy(&Config::default(), config);
            }
        });
    };
    view! {
        <details class="training-details your-card">
            <summary>
                {move || match given.get() {
                    0 => tr("Your card"),
                    count => fill("Your card ({n} set)", &[("n", &count)]),
                }}
            </summary>
            <div class="training-details-fields">
                {FIELDS.map(|field| view! { <Figure field form report /> }).collect_view()}
            </div>
            <Show when=move || { given.get() > 0 }>
                <button type="button" class="link-button" on:click=move |_| reset()>
                    {tr("Back to the figures of the table")}
                </button>
            </Show>
        </details>
    }
}

/// COUNT: figures that are not the table's.
fn given(config: &Config) -> usize {
    let usual = Config::default();
    FIELDS.iter().filter(|field| !field.same(config, &usual)).count()
}

/// One of them.
#[component]
fn Figure(
    /// Which.
    field: MachineField,
    /// The settings.
    form: Form,
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let problem = RwSignal::new(None);
    let value = Memo::new(move |_| form.config.with(|config| field.text(config)));
    let of = Bound {
        value: value.into(),
        on_value: Callback::new(move |typed: String| {
            let mut config = form.config.get_untracked();
            let read = field.read(&typed, &mut config);
            problem.set(read.as_ref().err().map(|error| text::sentence(&error.to_string())));
            if read.is_ok() {
                form.on_config.run(config);
            }
        }),
    };
    let usual = Signal::derive(move || {
        let verdict = |report: &Arc<Report>| match field {
            MachineField::Capacity => report.verdict.capacity.to_string(),
            MachineField::Context => report.verdict.context.to_string(),
            MachineField::OtherProcesses => Bytes::ZERO.to_string(),
            MachineField::AllocConf => "max_split_size_mb:512".to_owned(),
            _ => tr("none"),
        };
        report.with(|report| report.as_ref().map(verdict).unwrap_or_default())
    });
    view! {
        <TextField
            id=field.name()
            label=field.label()
            placeholder=usual
            hint=field.about()
            of
            problem
        />
    }
}
