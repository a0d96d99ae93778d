//! Servers: how many tokens of cache and how many requests each GPU has. Of the part of the program with the sections
//! that few look at.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::config::Choice;
use highwater_core::serving::{
    Answer, Change, Engine, Fit, Format, KvType, Row, Serving, Share, Weights,
};
use highwater_core::{Bytes, Report};
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::dimension_field::DimensionField;
use super::later::Draw;
use super::parts::{Code, cell, column, prose, size};
use crate::model::computed::Computed;
use crate::model::protocol::OpenDim;
use crate::model::serving::{Capacity, Served};
use crate::words::format::{grouped, length, share};
use crate::words::language::{fill, spoken, tr};
use crate::words::stated;

/// COUNT: GPUs that may share each layer.
const GROUPS: [u64; 4] = [1, 2, 4, 8];

/// What draws the answer for servers.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn serving_view() -> Result<Draw<ServingViewProps>, SplitLoaderError> {
    Ok(|props| ServingView(props).into_any())
}

/// What a server keeps on each GPU, and how it is started.
#[component]
pub(crate) fn ServingView(
    /// How it is started; a context of 0 is the model's.
    settings: RwSignal<Serving>,
    /// The newest answer, packed.
    capacity: RwSignal<Option<Computed<Vec<u8>>>>,
    /// The number of the newest question.
    asked: RwSignal<u64>,
    /// Id of the device in the settings.
    device: Signal<String>,
    /// The newest report, with which the model changes.
    report: Signal<Option<Arc<Report>>>,
    /// Whether the panel is seen.
    shown: Signal<bool>,
    /// The answer is wanted.
    on_ask: Callback<Vec<u8>>,
    /// Another device is wanted.
    on_device: Callback<String>,
) -> impl IntoView {
    Effect::new(move |_| {
        device.track();
        let is_open = report.with(Option::is_some);
        let settings = settings.get();
        if shown.get() && is_open {
            on_ask.run(postcard::to_stdvec(&settings).unwrap_or_default());
        }
    });
    // An answer stays while the settings have none.
    let newest = RwSignal::new(None::<Arc<Capacity>>);
    let problem = RwSignal::new(None);
    Effect::new(move |_| {
        let answer = capacity.with(|packed| {
            packed.as_ref().map(|packed| postcard::from_bytes::<Served>(packed.last()))
        });
        problem.set(match &answer {
            Some(Ok(Err(reason))) => Some(stated(reason)),
            Some(Err(_)) => Some(tr(
                "What answers for servers did not arrive. Is the page still reachable? Choose another tab, then this one.",
            )),
            _ => None,
        });
        match answer {
            None => newest.set(None),
            Some(Ok(Ok(answer))) => newest.set(Some(Arc::new(answer))),
            Some(_) => {}
        }
    });
    let is_waiting = move || {
        let of_now = |known: &Computed<Vec<u8>>| known.at(Some(asked.get())).is_some();
        capacity.with(|known| known.as_ref().is_some_and(|known| !of_now(known)))
    };
    let body = move || {
        newest.get().map(|capacity| answered(&capacity, &device.get(), settings, on_device))
    };
    view! {
        <section class="panel serving" aria-labelledby="serving-title">
            <h2 class="panel-title" id="serving-title">{tr("How many requests a server answers at once")}</h2>
            <p class="panel-note">
                {tr("A server loads the weights, sets memory for its work aside, and keeps keys and values in the rest.")}
            </p>
            <Form settings newest />
            <p class="problem" role="alert">
                {problem}
            </p>
            <div aria-live="polite" class:waiting=is_waiting aria-busy=move || is_waiting().to_string()>
                {body}
            </div>
        </section>
    }
}

/// How the server is started.
#[component]
fn Form(
    /// The settings.
    settings: RwSignal<Serving>,
    /// The newest answer, for what the model decides.
    newest: RwSignal<Option<Arc<Capacity>>>,
) -> impl IntoView {
    let shown = move |settings: &Serving| {
        let stated = newest.with(|newest| newest.as_ref().map(|newest| newest.settings.context));
        if settings.context == 0 { stated.unwrap_or(1) } else { settings.context }
    };
    let context = Signal::derive(move || settings.with(|settings| shown(settings)));
    let dim = OpenDim {
        name: tr("context"),
        default: 16_384,
        batch: false,
        inputs: vec![tr("prompt and answer of a request")],
    };
    let on_context =
        Callback::new(move |context| settings.update(|settings| settings.context = context));
    let as_published = move || {
        newest.with(|newest| {
            newest.as_ref().map(|newest| newest.published.clone()).unwrap_or_default()
        })
    };
    view! {
        <form class="serving-form" aria-label=tr("Server") on:submit=|event| event.prevent_default()>
            <DimensionField dim label=tr("context") value=context on_value=on_context />
            {choice("serving-engine", tr("server"), &[Engine::Vllm, Engine::Sglang], settings,
                |settings| settings.engine, |settings, engine| settings.engine = engine)}
            <div class="field">
                <label for="serving-weights">{tr("weights")}</label>
                <select
                    id="serving-weights"
                    on:change:target=move |event| {
                        let format = event.target().value().parse::<Format>().ok();
                        settings.update(|settings| settings.weights = format.map(Weights::of));
                    }
                >
                    <option value="" prop:selected=move || settings.with(|s| s.weights.is_none())>
                        {move || fill("as published: {format}", &[("format", &as_published())])}
                    </option>
                    {Format::ALL.iter().map(|&format| {
                        let chosen = move || settings.with(|settings| {
                            settings.weights.as_ref().is_some_and(|known| known.format == format)
                        });
                        view! { <option value=format.name() prop:selected=chosen>{format.name()}</option> }
                    }).collect_view()}
                </select>
            </div>
            {choice("serving-cache", tr("cache"), KvType::ALL, settings,
                |settings| settings.kv_type, |settings, kv_type| settings.kv_type = kv_type)}
            {typed("serving-share", tr("share of the GPU"), "0.9", settings,
                |settings| settings.utilization.map(Share::text),
                |settings, text| {
                    let share = Share::parse(text);
                    let is_read = text.is_empty() || share.is_some();
                    settings.utilization = share;
                    is_read
                })}
            {typed("serving-requests", tr("requests in a batch"), "auto", settings,
                |settings| settings.max_num_seqs.map(|count| count.to_string()),
                |settings, text| count(text, &mut settings.max_num_seqs))}
            {typed("serving-batch", tr("tokens in a batch"), "auto", settings,
                |settings| settings.max_num_batched_tokens.map(|count| count.to_string()),
                |settings, text| count(text, &mut settings.max_num_batched_tokens))}
            <div class="field">
                <label for="serving-tp">{tr("GPUs for each layer")}</label>
                <select
                    id="serving-tp"
                    on:change:target=move |event| {
                        let tp = event.target().value().parse().unwrap_or(1);
                        settings.update(|settings| settings.tp = tp);
                    }
                >
                    {GROUPS.map(|tp| {
                        let chosen = move || settings.with(|settings| settings.tp == tp);
                        view! { <option value=tp prop:selected=chosen>{tp}</option> }
                    }).collect_view()}
                </select>
            </div>
        </form>
    }
}

/// Reads a count; an empty text is the server's default. Whether it could be read.
fn count(text: &str, into: &mut Option<u64>) -> bool {
    let count = text.parse().ok().filter(|&count: &u64| count > 0);
    *into = count;
    text.is_empty() || count.is_some()
}

/// A setting with names.
fn choice<T: Choice>(
    id: &'static str,
    label: String,
    all: &'static [T],
    settings: RwSignal<Serving>,
    get: fn(&Serving) -> T,
    set: fn(&mut Serving, T),
) -> impl IntoView {
    let option = |&one: &T| {
        let named = T::TABLE.iter().find(|named| named.name == one.name());
        let label = named.map_or_else(String::new, |named| tr(named.label));
        let chosen = move || settings.with(get) == one;
        view! { <option value=one.name() prop:selected=chosen>{label}</option> }
    };
    view! {
        <div class="field">
            <label for=id>{label}</label>
            <select
                id=id
                on:change:target=move |event| {
                    if let Ok(one) = event.target().value().parse::<T>() {
                        settings.update(|settings| set(settings, one));
                    }
                }
            >
                {all.iter().map(option).collect_view()}
            </select>
        </div>
    }
}

/// A setting that is typed; empty where the server's default holds.
fn typed(
    id: &'static str,
    label: String,
    usual: &'static str,
    settings: RwSignal<Serving>,
    get: fn(&Serving) -> Option<String>,
    set: fn(&mut Serving, &str) -> bool,
) -> impl IntoView {
    let wrong = RwSignal::new(false);
    view! {
        <div class="field">
            <label for=id>{label}</label>
            <input
                type="text"
                inputmode="decimal"
                autocomplete="off"
                id=id
                placeholder=tr(usual)
                aria-invalid=move || wrong.get().to_string()
                prop:value=move || settings.with(get).unwrap_or_default()
                on:change:target=move |event| {
                    let text = event.target().value();
                    let mut changed = settings.get_untracked();
                    let is_read = set(&mut changed, text.trim());
                    wrong.set(!is_read);
                    if is_read {
                        settings.set(changed);
                    }
                }
            />
            <p class="hint hint-wrong" role="alert">
                {move || wrong.get().then(|| tr("This is not read. The last value still counts."))}
            </p>
        </div>
    }
}

/// The answer for the chosen GPU and for all of them.
fn answered(
    capacity: &Capacity,
    device: &str,
    settings: RwSignal<Serving>,
    on_device: Callback<String>,
) -> impl IntoView + use<> {
    let Capacity { answer, changes, command, .. } = capacity;
    let row = answer.rows.iter().find(|row| row.device == device);
    let one = row.map(|row| {
        let notes = row.notes.iter().filter(|_| row.fit != Fit::Unsupported);
        let notes = notes.chain(&answer.assumptions).map(stated);
        let notes = notes.map(|note| view! { <p class="panel-note">{prose(&note)}</p> });
        view! {
            <p class="times-lead">{spoken(&answer.sentence(row))}</p>
            {(row.fit != Fit::Unsupported).then(|| division(row, answer))}
            {notes.collect_view()}
        }
    });
    view! {
        {one}
        <Code
            id="serving-command".to_owned()
            summary=tr("The command that starts it")
            code=command.clone()
        />
        {(!changes.is_empty()).then(|| changed(changes, settings))}
        {all(answer, device, on_device)}
    }
}

/// What the memory of a GPU is divided into.
fn division(row: &Row, answer: &Answer) -> impl IntoView + use<> {
    let parts = [
        ("serving-weights", tr("weights"), row.weights),
        ("serving-work", tr("work"), row.activations),
        ("serving-outside", tr("outside PyTorch"), row.non_torch.likely),
        ("serving-graphs", tr("CUDA graphs"), row.graphs.likely),
        ("serving-cache", tr("KV cache"), row.cache),
    ];
    let taken = parts.iter().map(|(.., bytes)| *bytes).fold(Bytes::ZERO, |sum, part| sum + part);
    let left = row.total.saturating_sub(taken);
    let total = row.total;
    let bar = parts.iter().map(|(class, _, bytes)| {
        let width = length(share(*bytes, total).min(100.0)) + "%";
        view! { <span class=["serving-part ", class].concat() style:width=width></span> }
    });
    let bar = bar.collect_view();
    let left = ("serving-left", tr("not used by the server"), left);
    let listed = parts.into_iter().chain([left]).filter(|(.., bytes)| bytes.0 > 0);
    let listed = listed.map(|(class, name, bytes)| {
        view! {
            <div class="need-part">
                <dt>
                    <span class=["swatch ", class].concat() aria-hidden="true"></span>
                    {name}
                </dt>
                <dd>{size(bytes)}</dd>
            </div>
        }
    });
    let [least, most] = row.tokens_range.map(grouped);
    let (per, lo, hi) = (answer.bytes_per_token.short(), &least, &most);
    let range: [(&str, &dyn Display); 3] = [("size", &per), ("least", lo), ("most", hi)];
    view! {
        <div class="serving-bar" aria-hidden="true">{bar}</div>
        <dl class="need-parts">{listed.collect_view()}</dl>
        <p class="panel-note">
            {fill(
                "A token takes {size} of cache. What lies outside PyTorch is known as a range, so the cache has {least} \
                 to {most} tokens.",
                &range,
            )}
        </p>
    }
}

/// Other ways to start the server, with what each gives.
fn changed(changes: &[Change], settings: RwSignal<Serving>) -> impl IntoView + use<> {
    let rows = changes.iter().map(|change| {
        let wanted = change.settings.clone();
        let row = &change.row;
        view! {
            <tr>
                <th scope="row">
                    <code>{change.flag.clone()}</code>
                </th>
                <td class="number">{tokens(row)}</td>
                <td class="number">{requests(row)}</td>
                <td>
                    <button
                        type="button"
                        class="link-button"
                        on:click=move |_| settings.set(wanted.clone())
                    >
                        {tr("Apply")}
                    </button>
                </td>
            </tr>
        }
    });
    let rows = rows.collect_view();
    view! {
        <h3 class="times-title">{tr("What other settings give on this GPU")}</h3>
        <div class="scroll-sideways" tabindex="0" role="region" aria-label=tr("What other settings give on this GPU")>
            <table class="table serving-changes">
                <thead>
                    <tr>
                        {column(tr("setting"), false)} {column(tr("tokens of cache"), true)}
                        {column(tr("requests at once"), true)}
                        <th scope="col">
                            <span class="hidden-text">{tr("Apply")}</span>
                        </th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}

/// Every GPU.
fn all(answer: &Answer, device: &str, on_device: Callback<String>) -> impl IntoView + use<> {
    let rows = answer.rows.iter().map(|row| {
        let id = row.device.clone();
        let is_chosen = row.device == device;
        view! {
            <tr class:times-chosen=is_chosen>
                <th scope="row">
                    <button
                        type="button"
                        class="link-button"
                        aria-pressed=is_chosen.to_string()
                        on:click=move |_| on_device.run(id.clone())
                    >
                        {row.name.clone()}
                    </button>
                </th>
                {cell(row.weights)}
                {cell(row.activations)}
                {cell(row.cache)}
                <td class="number">{tokens(row)}</td>
                <td class="number">{requests(row)}</td>
            </tr>
        }
    });
    let rows = rows.collect_view();
    let fits = answer.rows.iter().filter(|row| row.fit == Fit::Serves).count();
    let context = grouped(answer.context);
    let parts: [(&str, &dyn Display); 3] =
        [("n", &fits), ("all", &answer.rows.len()), ("context", &context)];
    view! {
        <h3 class="times-title">
            {fill("Requests of {context} tokens fit on {n} of {all} GPUs", &parts)}
        </h3>
        <div class="scroll-sideways" tabindex="0" role="region" aria-label=tr("All GPUs")>
            <table class="table serving-table">
                <thead>
                    <tr>
                        {column(tr("GPU"), false)} {column(tr("weights"), true)} {column(tr("work"), true)}
                        {column(tr("KV cache"), true)} {column(tr("tokens of cache"), true)}
                        {column(tr("requests at once"), true)}
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}

/// COUNT: tokens of the cache, where there is one.
fn tokens(row: &Row) -> String {
    match row.fit {
        Fit::Serves | Fit::CacheTooSmall => grouped(row.tokens),
        Fit::NoCache | Fit::Unsupported => "–".to_owned(),
    }
}

/// COUNT: requests at once, or why there are none.
fn requests(row: &Row) -> String {
    match row.fit {
        Fit::Serves => grouped(row.requests),
        Fit::CacheTooSmall => tr("cache too small"),
        Fit::NoCache => tr("does not fit"),
        Fit::Unsupported => tr("no kernels"),
    }
}
