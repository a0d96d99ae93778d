//! The usual GPUs and the user's own: whether the run fits, and the largest batch.

use highwater_core::device::USUAL;
use highwater_core::estimate::LargestBatch;
use highwater_core::report::{DeviceVerdict, Verdict};
use leptos::either::Either;
use leptos::html;
use leptos::prelude::*;
use web_sys::Element;

use super::gpu_table::verdict_class;
use crate::model::protocol::Device;
use crate::model::state::{DeviceRow, Searched};
use crate::words;
use crate::words::format::{self, length, share};
use crate::words::keep;
use crate::words::language::tr;

/// One card for each GPU; a click makes the whole answer about it.
#[component]
pub(crate) fn GpuStrip(
    /// One row per device.
    #[prop(into)]
    devices: Signal<Vec<DeviceRow>>,
    /// The request whose verdicts count.
    #[prop(into)]
    current: Signal<Option<u64>>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// The user's own GPU.
    #[prop(into)]
    mine: Signal<Option<String>>,
    /// Whether the newest input has no answer.
    outdated: Signal<bool>,
    /// Another device is wanted.
    on_choose: Callback<String>,
    /// The user says which GPU they have.
    on_mine: Callback<String>,
    /// Another device is wanted, and another batch.
    on_batch: Callback<(String, u64)>,
) -> impl IntoView {
    let row = move |id: &str| {
        devices.with(|rows| {
            rows.iter().find(|row| row.device.with_value(|device| device.id == id)).copied()
        })
    };
    let usual = move |id: &'static str| {
        row(id).map(|row| view! { <Card row current chosen on_choose on_batch /> })
    };
    let own = move || {
        // A GPU that was chosen in the table or by a link has its card, too.
        let other = Some(chosen.get()).filter(|id| !USUAL.contains(&id.as_str()));
        let id = other.or_else(|| mine.get());
        let row = id.as_deref().and_then(row);
        view! { <MyCard row devices current chosen on_choose on_mine on_batch /> }
    };
    let strip = NodeRef::<html::Ul>::new();
    Effect::new(move |_| {
        chosen.track();
        devices.with(Vec::len);
        // Once its cards are drawn; it may be gone by then.
        request_animation_frame(move || {
            if let Some(strip) = strip.try_get_untracked().flatten() {
                reveal_chosen(&strip);
            }
        });
    });
    view! {
        <ul
            class="gpu-strip"
            class:gpu-strip-outdated=outdated
            aria-label=tr("GPUs")
            node_ref=strip
        >
            {move || USUAL.map(usual).collect_view()}
            {own}
        </ul>
    }
}

/// Scrolls a strip that is wider than the window sideways, so that the chosen card is in its middle.
fn reveal_chosen(strip: &Element) {
    let Ok(Some(card)) = strip.query_selector(".gpu-card-chosen") else { return };
    let (strip_box, card) = (strip.get_bounding_client_rect(), card.get_bounding_client_rect());
    if card.left() < strip_box.left() || card.right() > strip_box.right() {
        let middle = |of: &web_sys::DomRect| f64::midpoint(of.left(), of.right());
        strip.scroll_by_with_x_and_y(middle(&card) - middle(&strip_box), 0.0);
    }
}

/// A usual GPU.
#[component]
fn Card(
    /// The device, and what is known about it.
    row: DeviceRow,
    /// The request whose verdicts count.
    current: Signal<Option<u64>>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// It is wanted.
    on_choose: Callback<String>,
    /// It is wanted, and another batch.
    on_batch: Callback<(String, u64)>,
) -> impl IntoView {
    let Device { id, name, nameplate, .. } = row.device.get_value();
    let (own, wanted) = (id.clone(), id.clone());
    let is_chosen = Memo::new(move |_| chosen.with(|chosen| *chosen == own));
    view! {
        <li class=["gpu-card gpu-card-", &id].concat() class:gpu-card-chosen=is_chosen>
            <button
                type="button"
                class="gpu-card-button"
                id=["card-", &id].concat()
                aria-pressed=move || is_chosen.get().to_string()
                on:click=move |_| on_choose.run(wanted.clone())
            >
                <span class="gpu-card-head">
                    <span class="gpu-card-name">{words::short_name(&name).to_owned()}</span>
                    <span class="gpu-card-box">{nameplate}</span>
                </span>
                <Verdicts row current />
            </button>
            <Largest row current on_batch />
        </li>
    }
}

/// The user's own GPU, or a place to name it.
#[component]
fn MyCard(
    /// The device, and what is known about it.
    row: Option<DeviceRow>,
    /// All devices.
    devices: Signal<Vec<DeviceRow>>,
    /// The request whose verdicts count.
    current: Signal<Option<u64>>,
    /// Id of the device in the settings.
    chosen: Signal<String>,
    /// It is wanted.
    on_choose: Callback<String>,
    /// The user says which GPU they have.
    on_mine: Callback<String>,
    /// It is wanted, and another batch.
    on_batch: Callback<(String, u64)>,
) -> impl IntoView {
    let id = row.map(|row| row.device.with_value(|device| device.id.clone()));
    let own = id.clone();
    let is_chosen = Memo::new(move |_| own.is_some() && own == Some(chosen.get()));
    let known = id.clone();
    let options = move || {
        devices.with(|rows| {
            let options = rows.iter().map(|row| {
                let (id, name) =
                    row.device.with_value(|device| (device.id.clone(), device.name.clone()));
                let selected = known.as_ref() == Some(&id);
                view! {
                    <option value=id prop:selected=selected>
                        {name}
                    </option>
                }
            });
            options.collect_view()
        })
    };
    let body = row.map(|row| {
        let wanted = id.clone().unwrap_or_default();
        view! {
            <button
                type="button"
                class="gpu-card-button"
                id="card-mine"
                aria-pressed=move || is_chosen.get().to_string()
                on:click=move |_| on_choose.run(wanted.clone())
            >
                <span class="hidden-text">{row.device.with_value(|device| device.name.clone())}</span>
                <Verdicts row current />
            </button>
            <Largest row current on_batch />
        }
    });
    let is_named = row.is_some();
    view! {
        <li class="gpu-card gpu-card-mine" class:gpu-card-chosen=is_chosen>
            <span class="gpu-card-head">
                <select
                    class="gpu-card-select"
                    id="my-gpu"
                    aria-label=tr("My GPU")
                    on:change:target=move |event| on_mine.run(event.target().value())
                >
                    <option value="" disabled prop:selected=!is_named>
                        {tr("My GPU…")}
                    </option>
                    {options}
                </select>
                <span class="gpu-card-box">{is_named.then(|| tr("my GPU"))}</span>
            </span>
            {body}
            {(!is_named)
                .then(|| view! { <p class="gpu-card-invite">{tr("Choose your GPU. This browser remembers it.")}</p> })}
        </li>
    }
}

/// A bar of need against usable memory, and the verdict.
#[component]
fn Verdicts(
    /// The device, and what is known about it.
    row: DeviceRow,
    /// The request whose verdicts count.
    current: Signal<Option<u64>>,
) -> impl IntoView {
    let used = Memo::new(move |_| {
        row.judged(current.get(), |known| share(known.need, known.usable()).min(100.0))
    });
    let verdict = Memo::new(move |_| row.known_verdict(current.get()));
    let class = move || verdict.get().map_or("", verdict_class);
    let need = move || match row.judged(current.get(), need) {
        Some(need) => Either::Left(need),
        None => Either::Right("…"),
    };
    view! {
        <span class="gpu-card-bar" aria-hidden="true">
            <span
                class=move || ["gpu-bar-need ", class()].concat()
                style:width=move || length(used.get().unwrap_or_default()) + "%"
            ></span>
        </span>
        <span class="gpu-card-line">
            <span class=move || ["gpu-card-verdict ", class()].concat()>
                {move || verdict.get().map(signed)}
            </span>
            <span class="gpu-card-need">{need}</span>
        </span>
    }
}

/// The largest batch that likely fits, which a click sets; how much farther one might go is its title.
#[component]
fn Largest(
    /// The device, and what is known about it.
    row: DeviceRow,
    /// The request whose largest batches count.
    current: Signal<Option<u64>>,
    /// The device is wanted, and a batch.
    on_batch: Callback<(String, u64)>,
) -> impl IntoView {
    let id = row.device.with_value(|device| device.id.clone());
    let known = move || row.reach(current.get()).found();
    let is_open = move || row.known_verdict(current.get()) == Some(Verdict::NotKnown);
    let proposed = move || known().and_then(LargestBatch::proposed).filter(|_| !is_open());
    let choose = move |_| {
        if let Some(batch) = proposed() {
            on_batch.run((id.clone(), batch));
        }
    };
    view! {
        <button
            type="button"
            class="gpu-card-batch"
            title=move || known().map(words::how_far)
            disabled=move || proposed().is_none()
            on:click=choose
        >
            {move || batch(row.reach(current.get()), is_open())}
        </button>
    }
}

/// A verdict with its sign.
fn signed(verdict: Verdict) -> impl IntoView {
    view! {
        <span aria-hidden="true">{format::verdict_symbol(verdict)}</span>
        " "
        {format::verdict_short(verdict)}
    }
}

/// `12.1 of 14.6 GiB`, with `≥` where the need is a lower bound.
fn need(known: &DeviceVerdict) -> impl IntoView + use<> {
    let exact = [format::exact(known.need), format::exact(known.usable())].join(" / ");
    let bound = if known.verdict == Verdict::NotKnown { "≥\u{a0}" } else { "" };
    let text = [bound, &format::of(known.need, known.usable())].concat();
    view! { <span title=exact>{text}</span> }
}

/// The largest batch.
fn batch(known: Searched, is_open: bool) -> impl IntoView + use<> {
    let text = match known {
        Searched::Pending => "…".to_owned(),
        Searched::Done(None) => String::new(),
        Searched::Done(Some(largest)) => {
            let verdict = if is_open { Verdict::NotKnown } else { Verdict::Fits };
            keep::largest_batch(largest, verdict)
        }
    };
    let unsearched = (known == Searched::Pending).then(|| tr("largest batch not searched"));
    view! { <span data-unsearched=unsearched>{text}</span> }
}
