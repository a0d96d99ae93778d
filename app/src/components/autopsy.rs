//! What sets the peak, in a few sentences.

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::autopsy::{Autopsy, Group, Why};
use highwater_core::trace::Category;
use leptos::prelude::*;

use super::byte_size::ByteSize;
use super::code_block::CodeBlock;
use super::readout::class;
use crate::format::percent;
use crate::language::tr;
use crate::text::autopsy as text;

/// Which tensors set the peak, why they are alive, and what would be the peak without them.
#[component]
pub(crate) fn AutopsyView(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    view! {
        <section class="panel autopsy" aria-labelledby="autopsy-title">
            <h2 class="panel-title" id="autopsy-title">
                {tr("What sets the peak")}
            </h2>
            {move || report.get().map(|report| body(&report))}
        </section>
    }
}

fn body(report: &Report) -> AnyView {
    let autopsy = Autopsy::of(report);
    let rows = autopsy.groups.iter().map(|group| row(group, &autopsy)).collect_view();
    let scores = autopsy.scores.as_ref().map(|scores| {
        view! {
            <p class="autopsy-scores">{text::scores(scores, &autopsy)}</p>
            <details>
                <summary>{tr("How to compute it in chunks (not simulated)")}</summary>
                <CodeBlock code=text::CHUNKED_LOSS.to_owned() />
            </details>
        }
    });
    view! {
        <p>{text::peak(&report.peak)}</p>
        <ul class="autopsy-groups">{rows}</ul>
        {scores}
        <p>{text::next(autopsy.next.as_ref(), report)}</p>
    }
    .into_any()
}

fn row(group: &Group, autopsy: &Autopsy) -> impl IntoView + use<> {
    view! {
        <li>
            <span class=format!("swatch {}", class(category(group.why))) aria-hidden="true"></span>
            <ByteSize bytes=group.bytes />
            <span class="autopsy-share">{percent(group.bytes, autopsy.total)}</span>
            <span class="autopsy-what">
                {text::what(group)} ": " <span class="autopsy-why">{text::why(group.why)}</span>
            </span>
        </li>
    }
}

/// The category whose colour a group has.
const fn category(why: Why) -> Category {
    match why {
        Why::Parameter => Category::Parameter,
        Why::Buffer => Category::Buffer,
        Why::Input => Category::Input,
        Why::OptimizerState => Category::OptimizerState,
        Why::Gradient => Category::Gradient,
        Why::Saved | Why::Named => Category::Activation,
        Why::InForward | Why::InBackward | Why::InStep => Category::Temporary,
        Why::Workspace => Category::Workspace,
    }
}
