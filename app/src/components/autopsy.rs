//! What sets the peak, in a few sentences.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::autopsy::{Autopsy, Why};
use highwater_core::trace::Category;
use leptos::prelude::*;

use super::parts::Code;
use super::readout::class;
use crate::words::autopsy as words;
use crate::words::format::{exact, percent};
use crate::words::language::tr;

/// Which tensors set the peak, why they are alive, and what would be the peak without them.
#[component]
pub(crate) fn AutopsyView(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    view! {
        <section class="panel autopsy" aria-labelledby="autopsy-title">
            {move || report.get().map(|report| inside(&report))}
        </section>
    }
}

fn inside(report: &Report) -> impl IntoView + use<> {
    let autopsy = Autopsy::of(report);
    let groups: Vec<_> = autopsy
        .groups
        .iter()
        .map(|group| {
            view! {
                <li>
                    <span class=["swatch ", class(category(group.why))].concat() aria-hidden="true"></span>
                    <span class="byte-size" title=exact(group.bytes)>{group.bytes.short()}</span>
                    <span class="autopsy-share">{percent(group.bytes, autopsy.total)}</span>
                    <span class="autopsy-what">
                        {words::what(group)} ": "
                        <span class="autopsy-why">{tr(group.why.about())}</span>
                    </span>
                </li>
            }
        })
        .collect();
    let scores = autopsy.scores.as_ref().map(|_| {
        view! {
            <p class="autopsy-scores">{words::scores(&autopsy)}</p>
            <Code
                id="autopsy-code".to_owned()
                summary=tr("How to compute it in chunks (not simulated)")
                code=words::CHUNKED_LOSS.to_owned()
            />
        }
    });
    view! {
        <h2 class="panel-title" id="autopsy-title">{tr("What sets the peak")}</h2>
        <p>{words::peak(&report.peak)}</p>
        <ul class="autopsy-groups">{groups}</ul>
        {scores}
        <p>{words::next(&autopsy, report)}</p>
    }
}

/// The category whose colour a group has.
const fn category(why: Why) -> Category {
    match why {
        Why::Parameter => Category::Parameter,
        Why::Buffer => Category::Buffer,
        Why::Input => Category::Input,
        Why::OptimizerState => Category::OptimizerState,
        Why::Cache => Category::Cache,
        Why::Communication => Category::Communication,
        Why::Gradient => Category::Gradient,
        Why::Saved | Why::Named => Category::Activation,
        Why::InForward | Why::InBackward | Why::InStep => Category::Temporary,
        Why::Workspace => Category::Workspace,
    }
}
