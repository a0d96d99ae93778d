//! The tensors alive at one moment: each by itself, by module, by category.

use highwater_core::order::InOrder as _;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::{LiveTensor, Report, Snapshot};
use highwater_core::trace::Category;
use leptos::either::Either;
use leptos::html;
use leptos::prelude::*;

use super::capped::{ShowAll, shown};
use super::parts::size;
use super::readout::{class, what, when};
use crate::words::Vocabulary;
use crate::words::format::{grouped, length, percent, share};
use crate::words::language::{fill, tr};
use highwater_draw::stack::Stack;

/// COUNT: rows shown at first.
const FIRST: usize = 10;

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Tensor,
    Module,
    Category,
}

impl By {
    const ALL: [Self; 3] = [Self::Tensor, Self::Module, Self::Category];

    fn name(self, vocabulary: Vocabulary) -> String {
        match self {
            Self::Tensor => tr("by tensor"),
            Self::Module => vocabulary.stacked(Stack::Module),
            Self::Category => vocabulary.stacked(Stack::Category),
        }
    }
}

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

    fn event(&self) -> usize {
        match self {
            Self::Peak(report) => report.peak.event,
            Self::Seen(snapshot) => snapshot.event,
        }
    }

    fn words(&self, report: &Report) -> String {
        let when = when(&report.timeline, self.event());
        match self {
            Self::Peak(_) => when,
            Self::Seen(snapshot) => when + &what(&snapshot.operator, &snapshot.module),
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
    /// What categories are called.
    vocabulary: Signal<Vocabulary>,
    /// Another event is to be looked at.
    on_jump: Callback<usize>,
) -> impl IntoView {
    let by = RwSignal::new(By::Tensor);
    let query = RwSignal::new(String::new());
    let open = RwSignal::new(false);
    let moment = move || {
        let seen = snapshot.get().map(Moment::Seen);
        seen.or_else(|| report.get().map(Moment::Peak))
    };
    // A long list is not drawn anew for every moment that the cursor passes.
    let event = Memo::new(move |_| moment().map(|moment| moment.event()));
    Effect::new(move |_| {
        event.track();
        open.set(false);
    });
    let title = move || {
        let peak = report.with(|report| report.as_ref().map(|report| report.peak.event));
        if event.get() == peak { tr("Alive at the peak") } else { tr("Alive at this moment") }
    };
    let inside = move |moment: Moment| {
        let (live, vocabulary) = (moment.live(), vocabulary.get());
        let found = query.with(|query| found(live, query));
        let most = shown(open.get(), FIRST);
        let (all, rows) = if by.get() == By::Tensor {
            let rows = found
                .iter()
                .take(most)
                .filter_map(|&at| Some(tensor_row(live.get(at)?, at, marked, vocabulary, on_jump)));
            (found.len(), Either::Left(rows.collect_view()))
        } else {
            let named = (by.get() == By::Category).then_some(vocabulary);
            let groups = groups(live, &found, named);
            let largest = groups.first().map_or(Bytes::ZERO, |group| group.bytes);
            let total = groups.iter().map(|group| group.bytes).sum();
            let all = groups.len();
            let rows = groups.into_iter().take(most);
            (all, Either::Right(rows.map(|group| group_row(group, largest, total)).collect_view()))
        };
        view! {
            <div
                id="alive-list"
                role="tabpanel"
                tabindex="0"
                aria-labelledby="alive-title"
            >
                <ul class="alive-rows">{rows}</ul>
                {(all == 0)
                    .then(|| view! { <p class="hint">{tr("Nothing alive has such a name.")}</p> })}
            </div>
            <ShowAll all first=FIRST open />
        }
    };
    let note = move || {
        moment().map(|moment| {
            let found = query.with(|query| found(moment.live(), query));
            summary(moment.live(), &found)
        })
    };
    view! {
        <section
            class="panel alive"
            aria-labelledby="alive-title"
            on:pointerleave=move |_| marked.set(None)
        >
            <div class="panel-head">
                <h2 class="panel-title" id="alive-title">{title}</h2>
                <p class="panel-note">{note}</p>
            </div>
            <p class="alive-when">{move || Some(moment()?.words(&*report.get()?))}</p>
            <div class="alive-tools">
                <Tabs by vocabulary />
                <input
                    type="search"
                    class="alive-search"
                    aria-label=tr("Find by name")
                    placeholder=tr("Find by name")
                    on:input:target=move |event| {
                        query.set(event.target().value().trim().to_ascii_lowercase());
                    }
                />
            </div>
            {move || moment().map(inside)}
        </section>
    }
}

/// How the list is put together.
#[component]
fn Tabs(
    /// How it is.
    by: RwSignal<By>,
    /// What categories are called.
    vocabulary: Signal<Vocabulary>,
) -> impl IntoView {
    let tabs = By::ALL.map(|own| {
        let tab = NodeRef::<html::Button>::new();
        let is_chosen = move || by.get() == own;
        // The focus goes along with the keys.
        Effect::new(move |before: Option<bool>| {
            let now = is_chosen();
            let moved = now && before == Some(false) && has_focus_near(tab);
            if let Some(tab) = tab.get_untracked().filter(|_| moved) {
                drop(tab.focus());
            }
            now
        });
        view! {
            <button
                type="button"
                role="tab"
                aria-controls="alive-list"
                aria-selected=move || is_chosen().to_string()
                tabindex=move || if is_chosen() { "0" } else { "-1" }
                node_ref=tab
                on:click=move |_| by.set(own)
            >
                {move || own.name(vocabulary.get())}
            </button>
        }
    });
    let on_key = move |event: leptos::ev::KeyboardEvent| {
        let step = match &*event.key() {
            "ArrowLeft" => 2,
            "ArrowRight" => 1,
            _ => return,
        };
        event.prevent_default();
        let now = By::ALL.iter().position(|&known| known == by.get_untracked()).unwrap_or(0);
        by.set(By::ALL[(now + step) % By::ALL.len()]);
    };
    view! {
        <div
            class="choice"
            role="tablist"
            aria-label=tr("How the list is put together")
            on:keydown=on_key
        >
            {tabs.collect_view()}
        </div>
    }
}

/// Whether a sibling of a tab has the focus.
fn has_focus_near(tab: NodeRef<html::Button>) -> bool {
    let focused = web_sys::window()
        .and_then(|window| window.document())
        .and_then(|document| document.active_element());
    let list = tab.get_untracked().and_then(|tab| tab.parent_element());
    list.zip(focused).is_some_and(|(list, focused)| list.contains(Some(&focused)))
}

/// `1,234 tensors, 3.20 GiB`.
fn summary(live: &[LiveTensor], found: &[usize]) -> String {
    let bytes: Bytes = found.iter().filter_map(|&at| Some(live.get(at)?.bytes)).sum();
    fill(
        "{count} tensors, {size} requested",
        &[("count", &grouped(found.len() as u64)), ("size", &bytes.short())],
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

/// Sums by category, where there are names for them, else by module.
fn groups(live: &[LiveTensor], found: &[usize], by: Option<Vocabulary>) -> Vec<Group> {
    let tensors = || found.iter().filter_map(|&at| live.get(at));
    let mut groups = Vec::new();
    if let Some(vocabulary) = by {
        for category in Category::ALL {
            let own = tensors().filter(|tensor| tensor.category == category);
            groups.push(Group {
                name: vocabulary.category(category),
                meaning: vocabulary.meaning(category),
                class: class(category),
                bytes: own.map(|tensor| tensor.bytes).sum(),
            });
        }
        groups.retain(|group| group.bytes > Bytes::ZERO);
    } else {
        let mut sums: BTreeMap<&str, Bytes> = BTreeMap::new();
        for tensor in tensors() {
            *sums.entry(&tensor.module).or_default() += tensor.bytes;
        }
        for (module, bytes) in sums {
            let outside = module.is_empty();
            let name = if outside { tr("outside of any module") } else { module.to_owned() };
            groups.push(Group { meaning: name.clone(), name, class: "", bytes });
        }
    }
    groups.order_by_key(|group| Reverse(group.bytes));
    groups
}

fn group_row(group: Group, largest: Bytes, total: Bytes) -> impl IntoView {
    view! {
        <li class="alive-group">
            {size(group.bytes)}
            <span class="alive-name" title=group.meaning>{group.name}</span>
            <span class="alive-share">{percent(group.bytes, total)}</span>
            <svg
                class=["alive-bar ", group.class, "-bar"].concat()
                viewBox="0 0 100 1"
                preserveAspectRatio="none"
                aria-hidden="true"
            >
                <rect height="1" width=length(share(group.bytes, largest))></rect>
            </svg>
        </li>
    }
}

fn tensor_row(
    tensor: &LiveTensor,
    at: usize,
    marked: RwSignal<Option<usize>>,
    vocabulary: Vocabulary,
    on_jump: Callback<usize>,
) -> impl IntoView + use<> {
    let name = vocabulary.tensor(tensor);
    let kind = tensor.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut about = vec![tensor.operator.as_str(), tensor.module.as_str(), kind.as_str()];
    about.retain(|part| !part.is_empty() && *part != name);
    let about = match tensor.operator.split_once('\n') {
        None => {
            let about = about.join(" · ");
            let text = about.clone();
            Either::Left(view! { <span class="alive-about" title=about>{text}</span> })
        }
        // Of a recorded run: who called, innermost first.
        Some((innermost, callers)) => Either::Right(view! {
            <details class="alive-about">
                <summary>{innermost.to_owned()}</summary>
                <pre>{callers.to_owned()}</pre>
            </details>
        }),
    };
    let number = |event: usize| grouped(event as u64);
    let jump = |event: usize, words: String| {
        let parts: [(&str, &dyn Display); 2] = [("words", &words), ("name", &name)];
        let label = fill("{words}: go there ({name})", &parts);
        view! {
            <button
                type="button"
                aria-label=label.clone()
                title=label
                on:click=move |_| on_jump.run(event)
            >
                {words}
            </button>
        }
    };
    let born = if tensor.born == usize::MAX {
        Either::Left(view! { <span>{tr("allocated before")}</span> })
    } else {
        let words = fill("allocated at {event}", &[("event", &number(tensor.born))]);
        Either::Right(jump(tensor.born, words))
    };
    let dies = match tensor.dies {
        None => Either::Left(view! { <span>{tr("stays")}</span> }),
        Some(event) => {
            let words = fill("freed at {event}", &[("event", &number(event))]);
            Either::Right(jump(event, words))
        }
    };
    let title = name.clone();
    view! {
        <li
            class="alive-row"
            class:alive-marked=move || marked.get() == Some(at)
            on:pointerenter=move |_| marked.set(Some(at))
            on:focusin=move |_| marked.set(Some(at))
        >
            {size(tensor.bytes)}
            <span class="alive-name" title=title>
                <span class=["swatch ", class(tensor.category)].concat() aria-hidden="true"></span>
                <span class="hidden-text">{vocabulary.category(tensor.category)} " "</span>
                {name}
            </span>
            {about}
            <span class="alive-life">{born} {dies}</span>
        </li>
    }
}
