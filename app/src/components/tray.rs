//! Jobs that share a GPU: the models that were opened, and the cards that they are on.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::Report;
use highwater_core::sharing::Together;
use highwater_core::time::Picoseconds;
use leptos::ev::DragEvent;
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::later::Draw;
use super::parts::{Code, column, prose, size};
use crate::model::shared::{Ask, Card, Job, Shared, Told};
use crate::words::format::{length, share};
use crate::words::language::{fill, tr};
use crate::words::{chance, model_name, stated};

/// What is dragged: the number of a job.
const DRAGGED: &str = "application/x-highwater-job";

/// COUNT: colours that tell jobs apart.
const COLOURS: usize = 6;

/// What draws the tray.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn tray_view() -> Result<Draw<TrayViewProps>, SplitLoaderError> {
    Ok(|props| TrayView(props).into_any())
}

/// Jobs, the cards that they are on, and what sharing costs each.
#[component]
pub(crate) fn TrayView(
    /// The newest answer, packed.
    shared: RwSignal<Option<Vec<u8>>>,
    /// The newest report, whose model and settings are a job.
    report: Signal<Option<Arc<Report>>>,
    /// Whether the panel is seen.
    shown: Signal<bool>,
    /// Something is wanted.
    on_ask: Callback<Vec<u8>>,
) -> impl IntoView {
    let ask = Callback::new(move |ask: Ask| {
        on_ask.run(postcard::to_stdvec(&ask).unwrap_or_default());
    });
    Effect::new(move |_| {
        if shown.get() && report.with(Option::is_some) {
            ask.run(Ask::Show);
        }
    });
    let known = Memo::new(move |_| {
        shared.with(|packed| packed.as_deref().map(postcard::from_bytes::<Shared>).transpose().ok())
    });
    let body = move || match known.get() {
        None => {
            let text = tr(
                "What answers for shared GPUs did not arrive. Is the page still reachable? Choose another tab, then this \
                 one.",
            );
            view! { <p>{text}</p> }.into_any()
        }
        Some(None) => view! { <p>{tr("Asking…")}</p> }.into_any(),
        Some(Some(shared)) => told(&shared, ask).into_any(),
    };
    view! {
        <section class="panel tray" aria-labelledby="tray-title">
            <h2 class="panel-title" id="tray-title" tabindex="-1">{tr("Several jobs on one GPU")}</h2>
            {body}
        </section>
    }
}

fn told(shared: &Shared, ask: Callback<Ask>) -> impl IntoView + use<> {
    let fullest = shared.cards.iter().max_by_key(|card| card.tenants.len());
    let fullest = fullest.filter(|card| !card.tenants.is_empty());
    let lead = fullest.map_or_else(|| tr("Asking…"), |card| lead(card, shared));
    let details = fullest.and_then(|card| Some(details(card, card.told.as_ref()?, &shared.jobs)));
    let full = shared.is_full.then(|| {
        view! { <p class="problem" role="alert">{tr("There is no place for another job: remove one first.")}</p> }
    });
    let jobs = shared.jobs.iter().enumerate();
    let jobs = jobs.map(|(at, one)| job(at, one, &shared.cards, ask)).collect_view();
    let cards = shared.cards.iter().map(|one| card(one, &shared.jobs, ask)).collect_view();
    view! {
        <p class="times-lead" role="status">{prose(&lead)}</p>
        <p class="panel-note">
            {tr("Each model that you open joins these jobs. Drag a job onto a card, or choose its card.")}
        </p>
        {full}
        <ul class="tray-jobs" aria-label=tr("Jobs")>{jobs}</ul>
        <ul class="tray-cards" aria-label=tr("Cards")>{cards}</ul>
        {details}
    }
}

/// What fits together, and what it costs.
fn lead(card: &Card, shared: &Shared) -> String {
    let Some(told) = &card.told else {
        let waiting = shared.jobs.iter().find_map(|job| job.problem.as_ref());
        return waiting.map_or_else(|| tr("Asking…"), stated);
    };
    if card.tenants.len() == 1 {
        let is_well = matches!(told.verdict, Together::Fit | Together::LikelyFit);
        let parts: [(&str, &dyn Display); 1] = [("card", &card.name)];
        return if is_well {
            fill("One job is on {card}, and fits. Open another model to put it next to it.", &parts)
        } else {
            fill("One job is on {card}, and does not fit. Choose a larger card for it.", &parts)
        };
    }
    let sentence = stated(&told.sentence);
    let cost = |(mode, steps): &(String, Vec<[u64; 3]>)| {
        let least = steps.iter().map(|[_, likely, _]| *likely).min()?;
        let most = steps.iter().map(|[_, likely, _]| *likely).max()?;
        let (least, most) = (tenths(least), tenths(most));
        let parts: [(&str, &dyn Display); 3] =
            [("mode", &tr(mode)), ("least", &least), ("most", &most)];
        Some(if least == most {
            fill("With {mode}, steps take {least} times as long.", &parts)
        } else {
            fill("With {mode}, steps take {least} to {most} times as long.", &parts)
        })
    };
    let fails =
        matches!(told.verdict, Together::DoNotFit | Together::NotAlone | Together::UnlessPeaksMeet);
    let steps = told.slowed.iter().filter(|_| !fails);
    let costs: Vec<_> = steps.filter_map(cost).collect();
    [sentence, costs.join(" ")].join(" ")
}

/// Thousandths as `1.4`.
fn tenths(thousandths: u64) -> String {
    let tenths = thousandths.saturating_add(50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn colour(at: usize) -> String {
    format!("tray-colour tray-colour-{}", at % COLOURS)
}

/// A job, which can be dragged, and the card that it is on.
fn job(at: usize, job: &Job, cards: &[Card], ask: Callback<Ask>) -> impl IntoView + use<> {
    let id = job.id;
    let name = model_name(&job.name).to_owned();
    let begin = move |event: DragEvent| {
        if let Some(data) = event.data_transfer() {
            // A browser that refuses leaves the choice of a card.
            drop(data.set_data(DRAGGED, &id.to_string()));
            data.set_effect_allowed("move");
        }
    };
    let options = cards.iter().map(|card| {
        let selected = card.id == job.card;
        view! { <option value=card.id.clone() selected=selected>{card.name.clone()}</option> }
    });
    let options = options.collect_view();
    let problem = job.problem.as_ref().map(|reason| {
        view! { <p class="problem">{stated(reason)}</p> }
    });
    let open = job.is_open.then(|| view! { <span class="tray-open">{tr("open")}</span> });
    let parts: [(&str, &dyn Display); 1] = [("name", &name)];
    let (on, more, less) = (
        fill("Card of {name}", &parts),
        fill("One more of {name}", &parts),
        fill("Remove {name}", &parts),
    );
    view! {
        <li class="tray-job" draggable="true" on:dragstart=begin>
            <span class=colour(at) aria-hidden="true"></span>
            <span class="tray-name">
                {name.clone()} " " <span class="tray-sizes">{job.sizes.clone()}</span> " " {open}
            </span>
            <select
                aria-label=on
                on:change:target=move |event| ask.run(Ask::Move(id, event.target().value()))
            >
                {options}
            </select>
            <button type="button" class="button" on:click=move |_| ask.run(Ask::Again(id))>
                <span aria-hidden="true">"+1"</span>
                <span class="hidden-text">{more}</span>
            </button>
            <button type="button" class="button" on:click=move |_| ask.run(Ask::Remove(id))>
                <span aria-hidden="true">"×"</span>
                <span class="hidden-text">{less}</span>
            </button>
            {problem}
        </li>
    }
}

/// A card as a bar, with its jobs in it; a job can be dropped onto it.
fn card(card: &Card, jobs: &[Job], ask: Callback<Ask>) -> impl IntoView + use<> {
    let over = RwSignal::new(false);
    let is_job = |event: &DragEvent| {
        event.data_transfer().is_some_and(|data| {
            data.types().iter().any(|kind| kind.as_string().as_deref() == Some(DRAGGED))
        })
    };
    let hover = move |event: DragEvent| {
        if is_job(&event) {
            event.prevent_default();
            event.stop_propagation();
            over.set(true);
        }
    };
    let id = card.id.clone();
    let take = move |event: DragEvent| {
        over.set(false);
        let text = event.data_transfer().and_then(|data| data.get_data(DRAGGED).ok());
        if let Some(job) = text.and_then(|text| text.parse().ok()) {
            event.prevent_default();
            event.stop_propagation();
            ask.run(Ask::Move(job, id.clone()));
        }
    };
    let sum = card.tenants.iter().map(|tenant| tenant.need).sum();
    let whole = card.usable.max(sum);
    let segments = card.tenants.iter().map(|tenant| {
        let at = jobs.iter().position(|job| job.id == tenant.job).unwrap_or_default();
        let width = length(share(tenant.need, whole)) + "%";
        view! { <span class=colour(at) style:width=width></span> }
    });
    let segments = segments.collect_view();
    let end = length(share(card.usable, whole)) + "%";
    let says = match (&card.told, card.tenants.is_empty()) {
        (_, true) => String::new(),
        (Some(told), _) => {
            let chance = told
                .chance
                .map(|percent| fill(", chance {chance}", &[("chance", &chance(percent))]));
            tr(told.verdict.label()) + &chance.unwrap_or_default()
        }
        (None, _) => tr("Asking…"),
    };
    let class = card.told.as_ref().map_or("", |told| match told.verdict {
        Together::Fit => "verdict-fits",
        Together::LikelyFit => "verdict-tight",
        Together::WithLimits => "verdict-flush",
        Together::NotKnown => "verdict-not-known",
        _ => "verdict-fails",
    });
    let used = (!card.tenants.is_empty()).then(|| view! { {size(sum)} " / " });
    view! {
        <li
            class="tray-card"
            class:tray-card-over=over
            on:dragover=hover
            on:dragleave=move |_| over.set(false)
            on:drop=take
        >
            <span class="tray-card-name">{card.name.clone()}</span>
            <span class="tray-bar" aria-hidden="true">
                {segments} {(sum > card.usable).then(|| view! { <span class="tray-end" style:left=end></span> })}
            </span>
            <span class="number">{used} {size(card.usable)}</span>
            <span class=class>{says}</span>
        </li>
    }
}

/// How long steps take by each way of sharing, slices, and the code of limits.
fn details(card: &Card, told: &Told, jobs: &[Job]) -> impl IntoView + use<> {
    let name = |job: u64| {
        let found = jobs.iter().find(|known| known.id == job);
        found.map_or_else(String::new, |job| model_name(&job.name).to_owned())
    };
    let rows = card.tenants.iter().enumerate().map(|(at, tenant)| {
        let cells = told.slowed.iter().map(|(_, steps)| {
            let text = steps.get(at).map(|steps| {
                let [least, likely, most] = steps.map(tenths);
                let parts: [(&str, &dyn Display); 3] =
                    [("likely", &likely), ("least", &least), ("most", &most)];
                fill("{likely} × ({least} to {most})", &parts)
            });
            view! { <td class="number">{text}</td> }
        });
        let slice = told.slices.get(at).map(|(profile, step)| {
            let step = step.map(|step| Picoseconds(step).to_string()).unwrap_or_default();
            let parts: [(&str, &dyn Display); 2] = [("step", &step), ("slice", profile)];
            fill("{step} on {slice}", &parts)
        });
        let slice = slice.unwrap_or_else(|| "–".to_owned());
        let alone =
            tenant.step.map_or_else(|| "–".to_owned(), |step| Picoseconds(step).to_string());
        view! {
            <tr>
                <th scope="row">{name(tenant.job)}</th>
                <td class="number">{size(tenant.need)}</td>
                <td class="number">{alone}</td>
                {cells.collect_view()}
                <td class="number">{slice}</td>
            </tr>
        }
    });
    let rows = rows.collect_view();
    let modes = told.slowed.iter().map(|(mode, _)| column(tr(mode), true)).collect_view();
    let title = fill("What sharing {card} costs each", &[("card", &card.name)]);
    let code = (!told.limits.is_empty() && card.tenants.len() > 1).then(|| {
        view! {
            <Code
                id="tray-code".to_owned()
                summary=tr("Limits, so that none takes what another needs")
                code=told.limits.clone()
            />
        }
    });
    view! {
        <h3 class="times-title">{title.clone()}</h3>
        <div class="scroll-sideways" tabindex="0" role="region" aria-label=title>
            <table class="table">
                <thead>
                    <tr>
                        {column(tr("job"), false)} {column(tr("needs"), true)}
                        {column(tr("a step alone"), true)} {modes} {column(tr("MIG"), true)}
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
        <p class="panel-note">
            {tr(
                "How many times as long a step takes, and for nine of ten measured pairs between which limits. Data \
                 loaders share the processor, too, which is not counted.",
            )}
        </p>
        {code}
    }
}
