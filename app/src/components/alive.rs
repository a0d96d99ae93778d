//! What is alive at one moment: tensor by tensor, by module, by category.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_core::report::{LiveTensor, Snapshot};
use highwater_core::trace::Category;
use highwater_core::{Bytes, Report, sorted};
use leptos::prelude::*;
use leptos::{ev, html};

use super::byte_size::ByteSize;
use super::capped::{ShowAll, shown};
use super::readout::{class, moment, what, when};
use crate::format::{grouped, percent, share};
use crate::language::{fill, tr};
use crate::text;

/// COUNT: rows shown at first.
const FIRST: usize = 10;

/// A moment, as far as it is known.
#[derive(Clone)]
enum Moment {
    /// The peak, which the report tells.
    Peak(Arc<Report>),
    /// Any.
    Seen(Arc<Snapshot>),
}

impl Moment {
    fn live(&self) -> &[LiveTensor] {
        match self {
            Self::Peak(report) => &report.live_at_peak,
            Self::Seen(snapshot) => &snapshot.live,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Peak(report) => when(&report.timeline, report.peak.event),
            Self::Seen(snapshot) => {
                let when = moment(snapshot.phase, snapshot.iteration);
                when + &what(&snapshot.operator, &snapshot.module)
            }
        }
    }
}

/// How the list is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Tensor,
    Module,
    Category,
}

impl By {
    const ALL: [Self; 3] = [Self::Tensor, Self::Module, Self::Category];

    fn name(self) -> String {
        match self {
            Self::Tensor => tr("by tensor"),
            Self::Module => tr("by module"),
            Self::Category => tr("by category"),
        }
    }
}

/// The list, its tabs and its search.
#[component]
pub(crate) fn AlivePanel(
    /// The report, for its peak until a moment has been looked at.
    report: Signal<Option<Arc<Report>>>,
    /// The moment.
    snapshot: Signal<Option<Arc<Snapshot>>>,
    /// The tensor that is marked, by its place in the moment.
    marked: RwSignal<Option<usize>>,
    /// Another event is to be looked at.
    on_jump: Callback<usize>,
) -> impl IntoView {
    let by = RwSignal::new(By::Tensor);
    let query = RwSignal::new(String::new());
    let open = RwSignal::new(false);
    let moment = Signal::derive(move || {
        snapshot.get().map(Moment::Seen).or_else(|| report.get().map(Moment::Peak))
    });
    // A long list is not drawn anew for every moment that the cursor passes.
    Effect::new(move |_| {
        snapshot.track();
        open.set(false);
    });
    let at_peak = move || {
        let event = snapshot.with(|snapshot| snapshot.as_ref().map(|snapshot| snapshot.event));
        report.with(|report| {
            report.as_ref().is_some_and(|report| event.is_none_or(|at| at == report.peak.event))
        })
    };
    let found = Memo::new(move |_| {
        let query = query.with(|query| query.trim().to_ascii_lowercase());
        moment.get().map_or_else(Vec::new, |moment| found(moment.live(), &query))
    });
    let groups = Memo::new(move |_| {
        let by = by.get();
        moment.get().map_or_else(Vec::new, |moment| groups(moment.live(), &found.get(), by))
    });
    let all = Signal::derive(move || match by.get() {
        By::Tensor => found.with(Vec::len),
        _ => groups.with(Vec::len),
    });
    view! {
        <section class="panel alive" aria-labelledby="alive-title">
            <div class="panel-head">
                <h2 class="panel-title" id="alive-title">
                    {move || {
                        if at_peak() { tr("Alive at the peak") } else { tr("Alive at the cursor") }
                    }}
                </h2>
                <p class="panel-note">{move || moment.get().map(|moment| summary(&moment, &found.get()))}</p>
            </div>
            <p class="alive-when">{move || moment.get().map(|moment| moment.words())}</p>
            <div class="alive-tools">
                <Tabs by />
                <input
                    type="search"
                    class="alive-search"
                    aria-label=tr("Find by name")
                    placeholder=tr("Find by name")
                    on:input:target=move |event| query.set(event.target().value())
                />
            </div>
            <div id="alive-list" role="tabpanel" tabindex="0" aria-labelledby="alive-title">
                {move || {
                    let count = shown(open.get(), FIRST);
                    let moment = moment.get()?;
                    Some(
                        if by.get() == By::Tensor {
                            let rows = found.get();
                            let row = |&at: &usize| Some(row(moment.live().get(at)?, at, marked, on_jump));
                            let rows = rows.iter().take(count).filter_map(row).collect_view();
                            view! { <ul class="alive-rows">{rows}</ul> }.into_any()
                        } else {
                            let groups = groups.get();
                            let most = groups.first().map_or(Bytes::ZERO, |group| group.bytes);
                            let total = groups.iter().map(|group| group.bytes).sum();
                            let row = |group: &Group| group_row(group, most, total);
                            let rows = groups.iter().take(count).map(row).collect_view();
                            view! { <ul class="alive-rows">{rows}</ul> }.into_any()
                        },
                    )
                }}
                <Show when=move || all.get() == 0>
                    <p class="hint">{tr("Nothing alive has such a name.")}</p>
                </Show>
            </div>
            <ShowAll all first=FIRST open />
        </section>
    }
}

/// How the list is put together, to choose.
#[component]
fn Tabs(
    /// What is chosen.
    by: RwSignal<By>,
) -> impl IntoView {
    let row = NodeRef::<html::Div>::new();
    let on_key = move |event: ev::KeyboardEvent| {
        let step = match event.key().as_str() {
            "ArrowLeft" => 2,
            "ArrowRight" => 1,
            _ => return,
        };
        event.prevent_default();
        let at = By::ALL.iter().position(|&known| known == by.get_untracked()).unwrap_or(0);
        let at = (at + step) % By::ALL.len();
        by.set(By::ALL[at]);
        // The focus goes along.
        let tabs = row.get_untracked().map(|row| row.children());
        let tab = u32::try_from(at).ok().zip(tabs).and_then(|(at, tabs)| tabs.item(at));
        if let Some(tab) = tab {
            let tab: web_sys::HtmlElement = wasm_bindgen::JsCast::unchecked_into(tab);
            drop(tab.focus());
        }
    };
    let tab = |this: By| {
        view! {
            <button
                type="button"
                role="tab"
                aria-controls="alive-list"
                aria-selected=move || (by.get() == this).to_string()
                tabindex=move || if by.get() == this { "0" } else { "-1" }
                on:click=move |_| by.set(this)
            >
                {this.name()}
            </button>
        }
    };
    view! {
        <div
            class="choice"
            role="tablist"
            aria-label=tr("How the list is put together")
            node_ref=row
            on:keydown=on_key
        >
            {By::ALL.map(tab).collect_view()}
        </div>
    }
}

/// `1,234 tensors, 3.20 GiB`.
fn summary(moment: &Moment, found: &[usize]) -> String {
    let bytes: Bytes = found.iter().filter_map(|&at| Some(moment.live().get(at)?.bytes)).sum();
    fill(
        "{count} tensors, {size} requested",
        &[("count", &grouped(found.len() as u64)), ("size", &bytes)],
    )
}

/// Places of the tensors that have a text in one of their names.
fn found(live: &[LiveTensor], query: &str) -> Vec<usize> {
    let has = |name: &String| name.to_ascii_lowercase().contains(query);
    let is_found = |tensor: &LiveTensor| {
        query.is_empty() || has(&tensor.name) || has(&tensor.module) || has(&tensor.operator)
    };
    let places = live.iter().enumerate().filter(|(_, tensor)| is_found(tensor));
    places.map(|(place, _)| place).collect()
}

/// Several tensors in one row.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    name: String,
    meaning: String,
    class: &'static str,
    bytes: Bytes,
}

fn groups(live: &[LiveTensor], found: &[usize], by: By) -> Vec<Group> {
    let mut sums: BTreeMap<(&str, Option<Category>), Bytes> = BTreeMap::new();
    for tensor in found.iter().filter_map(|&at| live.get(at)) {
        let key = match by {
            By::Category => ("", Some(tensor.category)),
            By::Module | By::Tensor => (tensor.module.as_str(), None),
        };
        *sums.entry(key).or_default() += tensor.bytes;
    }
    let group = |((module, category), bytes): ((&str, Option<Category>), Bytes)| Group {
        name: match (category, module) {
            (Some(category), _) => text::category(category),
            (None, "") => tr("outside of any module"),
            (None, module) => module.to_owned(),
        },
        meaning: category.map_or_else(String::new, text::category_meaning),
        class: category.map_or("", class),
        bytes,
    };
    let mut groups: Vec<_> = sums.into_iter().map(group).collect();
    sorted::by_key(&mut groups, |group| std::cmp::Reverse(group.bytes));
    groups
}

fn group_row(group: &Group, most: Bytes, total: Bytes) -> impl IntoView + use<> {
    let width = share(group.bytes, most);
    let title = if group.meaning.is_empty() { group.name.clone() } else { group.meaning.clone() };
    view! {
        <li class="alive-group">
            <ByteSize bytes=group.bytes />
            <span class="alive-name" title=title>
                {group.name.clone()}
            </span>
            <span class="alive-share">{percent(group.bytes, total)}</span>
            <span class="alive-bar" aria-hidden="true">
                <span class=group.class style:width=format!("{width}%")></span>
            </span>
        </li>
    }
}

fn row(
    tensor: &LiveTensor,
    at: usize,
    marked: RwSignal<Option<usize>>,
    on_jump: Callback<usize>,
) -> impl IntoView + use<> {
    let name = text::tensor(tensor);
    let kind = tensor.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut about = vec![tensor.operator.clone(), tensor.module.clone(), kind];
    about.retain(|part| !part.is_empty() && *part != name);
    let about = about.join(" · ");
    let (title, about_title) = (name.clone(), about.clone());
    let jump = move |event: usize, label: String, title: String| {
        view! {
            <button type="button" aria-label=title.clone() title=title on:click=move |_| on_jump.run(event)>
                {label}
            </button>
        }
    };
    let number = |event: usize| grouped(event as u64);
    let born = number(tensor.born);
    let born = jump(
        tensor.born,
        fill("born {event}", &[("event", &born)]),
        fill("Go to event {event}, where {name} is born", &[("event", &born), ("name", &name)]),
    );
    let dies = tensor.dies.map(|event| {
        let dies = number(event);
        jump(
            event,
            fill("dies {event}", &[("event", &dies)]),
            fill("Go to event {event}, where {name} dies", &[("event", &dies), ("name", &name)]),
        )
    });
    let stays = tensor.dies.is_none().then(|| view! { <span>{tr("stays")}</span> });
    view! {
        <li
            class="alive-row"
            class:alive-marked=move || marked.get() == Some(at)
            on:pointerenter=move |_| marked.set(Some(at))
            on:pointerleave=move |_| marked.set(None)
            on:focusin=move |_| marked.set(Some(at))
        >
            <ByteSize bytes=tensor.bytes />
            <span class="alive-name" title=title>
                <span class=format!("swatch {}", class(tensor.category)) aria-hidden="true"></span>
                <span class="hidden-text">{text::category(tensor.category)} " "</span>
                {name}
            </span>
            <span class="alive-about" title=about_title>
                {about}
            </span>
            <span class="alive-life">{born} {dies} {stays}</span>
        </li>
    }
}
