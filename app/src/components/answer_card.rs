//! The answer at the top of the page: a sentence, the most important settings, a card for each usual GPU, and the
//! parts of the needed memory.

use std::fmt::Display;

use highwater_core::{Bytes, Report};
use leptos::either::Either;
use leptos::prelude::*;

use super::gpu_strip::GpuStrip;
use super::headline::HeadlineView;
use super::parts::size;
use super::settings::Settings;
use crate::model::derived::Derived;
use crate::model::protocol::OpenDim;
use crate::model::section::Section;
use crate::model::state::State;
use crate::page::focus::focus_later;
use crate::page::preferences;
use crate::words;
use crate::words::format;
use crate::words::language::{fill, tr};

/// The card that answers.
#[component]
pub(crate) fn AnswerCard(
    /// The page's state.
    state: State,
    /// What follows from it.
    derived: Derived,
    /// Whether the page has a heading above it.
    #[prop(optional)]
    minor: bool,
) -> impl IntoView {
    let dims = open_dims(state);
    let on_config = Callback::new(move |config| state.config.set(config));
    let choose = Callback::new(move |id: String| {
        state.config.update(|config| config.choose_device(&id));
    });
    let on_mine = Callback::new(move |id: String| {
        preferences::choose_my_gpu(state.my_gpu, id.clone());
        choose.run(id);
    });
    let on_batch = Callback::new(move |(id, batch): (String, u64)| {
        choose.run(id);
        state.choose_batch(batch);
    });
    let show_basis = Callback::new(move |()| {
        state.open_sample();
        state.section.set(Section::Assumptions);
    });
    let served = Memo::new(move |_| {
        let is_written = state.loaded.with(|l| l.as_ref().is_some_and(|l| l.is_written));
        is_written && !state.config.with(|config| config.workload.trains())
    });
    let is_current = move || derived.current.get().is_some();
    let sure = move || {
        let report = derived.report.get().filter(|_| is_current())?;
        Some(words::certainty(report.certainty.as_ref()?))
    };
    view! {
        <section class="answer" aria-label=tr("Answer") aria-busy=move || derived.busy.get().to_string()>
            <HeadlineView
                headline=Memo::new(move |_| words::newest_headline(derived))
                stale=derived.stale
                current=derived.current
                outdated=derived.outdated
                report=derived.report
                minor
                on_basis=show_basis
                times=derived.times
            />
            <p class="print-settings">
                {move || derived.report.get().map(|report| words::settings_line(&report))}
            </p>
            <Settings
                dims
                devices=state.devices
                config=state.config
                report=derived.report
                problem=state.config_problem
                on_config
            />
            <GpuStrip
                devices=state.devices
                current=derived.current
                chosen=Signal::derive(move || state.config.with(|config| config.device.clone()))
                mine=state.my_gpu
                outdated=derived.outdated.into()
                on_choose=choose
                on_mine
                on_batch
            />
            <div class="need">
                {move || derived.report.get().map(|report| need(&report, is_current()))}
                <button
                    type="button"
                    class="link-button need-basis"
                    id="to-servers"
                    hidden=move || !served.get()
                    on:click=move |_| {
                        state.section.set(Section::Servers);
                        focus_later("#tab-servers");
                    }
                >
                    {tr("How many requests a server answers at once")}
                </button>
                <button
                    type="button"
                    class="link-button need-basis"
                    id="basis"
                    title=sure
                    on:click=move |_| show_basis.run(())
                >
                    {move || derived.report.get().map(|report| basis(&report, is_current()))}
                </button>
            </div>
        </section>
    }
}

/// How sure the answer is, as the name of what shows why.
fn basis(report: &Report, is_current: bool) -> String {
    match report.verdict.chance {
        Some(chance) => {
            let chance = if is_current { words::chance(chance) } else { "…".to_owned() };
            fill("How sure? {chance} that it fits", &[("chance", &chance)])
        }
        None => tr("Assumptions"),
    }
}

/// What the need on the chosen device consists of; the parts add up to it.
fn need(report: &Report, is_current: bool) -> impl IntoView + use<> {
    let device = &report.verdict;
    let allocated = report.peak.allocated;
    let cached = device.need.saturating_sub(device.context).saturating_sub(allocated);
    let free = device.usable().saturating_sub(device.need);
    let parts = [
        ("held-allocated", tr("allocated"), allocated),
        ("held-unallocated", tr("reserved beyond that"), Bytes(cached.0)),
        ("held-context", tr("CUDA context"), device.context),
        ("held-free", tr("free"), Bytes(free.0)),
    ];
    let of = if is_current { format::of(device.need, device.usable()) } else { "…".to_owned() };
    let texts: [(&str, &dyn Display); 2] =
        [("gpu", &words::short_name(&device.name)), ("need", &of)];
    let lead = fill("{gpu}: {need}", &texts);
    let part = |(class, name, bytes): (&'static str, String, Bytes)| {
        view! {
            <div class="need-part">
                <dt>
                    <span class=["swatch ", class].concat() aria-hidden="true"></span>
                    {name}
                </dt>
                <dd>{if is_current { Either::Left(size(bytes)) } else { Either::Right("…") }}</dd>
            </div>
        }
    };
    view! {
        <p class="need-lead">{lead}</p>
        <dl class="need-parts">{parts.into_iter().map(part).collect_view()}</dl>
    }
}

/// Dimensions that the model leaves open.
pub(crate) fn open_dims(state: State) -> Signal<Vec<OpenDim>> {
    Signal::derive(move || {
        state.loaded.with(|l| l.as_ref().map(|l| l.dims.clone()).unwrap_or_default())
    })
}
