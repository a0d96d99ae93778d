//! The allocator's segments at one moment: blocks in the order of their addresses, and the holes.

use std::sync::Arc;

use highwater_core::report::{Segment, Snapshot};
use leptos::prelude::*;
use leptos::{ev, html};
use web_sys::HtmlDetailsElement;

use super::byte_size::ByteSize;
use super::canvas::observed_size;
use super::capped::{ShowAll, shown};
use super::segment_canvas;
use crate::chart::segments::{Map, Pool, Totals, block, map};
use crate::language::tr;
use crate::text;
use crate::theme::Theme;

/// COUNT: rows of the table shown at first.
const FIRST: usize = 20;

/// A block: the place of its segment, and its place there.
type Place = (usize, usize);

/// The pools, the larger one first.
const POOLS: [Pool; 2] = [Pool::Large, Pool::Small];

/// The map of all segments.
#[component]
pub(crate) fn SegmentMap(
    /// The moment.
    snapshot: Signal<Option<Arc<Snapshot>>>,
    /// The tensor that is marked, by its place in the moment.
    marked: RwSignal<Option<usize>>,
    /// The theme.
    theme: Signal<Theme>,
) -> impl IntoView {
    let frame = NodeRef::<html::Div>::new();
    let size = observed_size(frame);
    let maps = Memo::new(move |_| {
        let width = size.get().0;
        let snapshot = snapshot.get().filter(|_| width >= 1.0)?;
        Some(Arc::new(POOLS.map(|pool| map(&snapshot.segments, pool, width))))
    });
    let at = RwSignal::new(None::<Place>);
    let (spoken, set_spoken) = signal(String::new());
    let choose = move |place: Option<Place>| {
        at.set(place);
        marked.set(snapshot.with_untracked(|snapshot| {
            let (segment, at) = place?;
            block(snapshot.as_ref()?, segment, at)?.tensor
        }));
    };
    let words = move || {
        let snapshot = snapshot.get()?;
        let marked_place = || place_of(&snapshot, marked.get()?);
        let (segment, at) = at.get().or_else(marked_place)?;
        text::block(&snapshot, segment, at)
    };
    let on_key = move |event: ev::KeyboardEvent| {
        let Some(maps) = maps.get_untracked() else { return };
        let Some(place) = moved(&maps, at.get_untracked(), &event.key()) else { return };
        event.prevent_default();
        choose(place);
        set_spoken.set(untrack(words).unwrap_or_default());
    };
    view! {
        <section class="panel segments" aria-labelledby="segments-title">
            <div class="panel-head">
                <h2 class="panel-title" id="segments-title">
                    {tr("Segments")}
                </h2>
            </div>
            <p class="segments-totals">
                {move || snapshot.get().map(|s| text::segments(&Totals::of(s.segments.iter())))}
            </p>
            <div
                class="segment-map"
                node_ref=frame
                tabindex="0"
                role="slider"
                aria-label=tr("Map of the segments. Arrow keys go from block to block, Escape leaves.")
                aria-valuenow=move || at.get().map_or(0, |(segment, _)| segment + 1).to_string()
                aria-valuemin="0"
                aria-valuemax=move || {
                    snapshot.with(|s| s.as_ref().map_or(0, |s| s.segments.len()).to_string())
                }
                aria-valuetext=move || words().unwrap_or_else(|| tr("no block"))
                on:keydown=on_key
            >
                {[0, 1].map(|pool| view! { <PoolMap pool maps snapshot at marked theme choose=Callback::new(choose) /> })}
                <p class="hidden-text" aria-live="polite">
                    {spoken}
                </p>
            </div>
            <p class="segments-words">{move || words().unwrap_or_else(|| tr("Each block is a stretch; hatched is free."))}</p>
            <SegmentTable snapshot />
        </section>
    }
}

/// One pool of it.
#[component]
fn PoolMap(
    /// Which of [`POOLS`].
    pool: usize,
    /// Where the blocks of each lie.
    maps: Memo<Option<Arc<[Map; 2]>>>,
    /// The moment.
    snapshot: Signal<Option<Arc<Snapshot>>>,
    /// The block under the pointer or the cursor.
    at: RwSignal<Option<Place>>,
    /// The tensor that is marked.
    marked: RwSignal<Option<usize>>,
    /// The theme.
    theme: Signal<Theme>,
    /// Another block is meant.
    choose: Callback<Option<Place>>,
) -> impl IntoView {
    let canvas = NodeRef::<html::Canvas>::new();
    let height = move || maps.get().map_or(0.0, |maps| maps[pool].height);
    Effect::new(move |_| {
        let (Some(maps), Some(snapshot)) = (maps.get(), snapshot.get()) else { return };
        theme.track();
        let (at, marked) = (at.get(), marked.get());
        if let Some(canvas) = canvas.get() {
            // A browser without a canvas still has the table.
            let _painted = segment_canvas::paint(&canvas, &maps[pool], &snapshot, at, marked);
        }
    });
    let on_move = move |event: ev::PointerEvent| {
        let (x, y) = (f64::from(event.offset_x()), f64::from(event.offset_y()));
        let maps = maps.get_untracked();
        let piece = maps.and_then(|maps| maps[pool].at(x, y).map(|p| (p.segment, p.block)));
        if piece != at.get_untracked() {
            choose.run(piece);
        }
    };
    let title = move || {
        let of = |snapshot: Arc<Snapshot>| {
            let own = snapshot.segments.iter().filter(|segment| segment.pool == POOLS[pool]);
            let line = maps.get()?[pool].line;
            Some(text::pool(POOLS[pool], &Totals::of(own), line))
        };
        snapshot.get().and_then(of)
    };
    view! {
        <p class="segment-pool">{title}</p>
        <canvas
            node_ref=canvas
            aria-hidden="true"
            style:height=move || format!("{}px", height())
            on:pointermove=on_move
            on:pointerdown=on_move
            on:pointerleave=move |_| choose.run(None)
        ></canvas>
    }
}

/// The block of a tensor.
fn place_of(snapshot: &Snapshot, tensor: usize) -> Option<Place> {
    snapshot.segments.iter().enumerate().find_map(|(at, segment)| {
        let block = segment.blocks.iter().position(|block| block.tensor == Some(tensor))?;
        Some((at, block))
    })
}

/// Where a key moves the cursor; nothing for keys that mean nothing here.
fn moved(maps: &[Map; 2], from: Option<Place>, key: &str) -> Option<Option<Place>> {
    let mut order: Vec<Place> =
        maps.iter().flat_map(|map| &map.pieces).map(|p| (p.segment, p.block)).collect();
    order.dedup();
    let here = from.and_then(|from| order.iter().position(|&place| place == from));
    let last = order.len().checked_sub(1)?;
    let line = |down: bool| {
        let (segment, block) = from?;
        maps.iter().find_map(|map| map.beside(segment, block, down)).or(from)
    };
    let to = match (key, here) {
        ("Escape", _) => return Some(None),
        ("Home", _) | ("ArrowRight" | "ArrowDown", None) => 0,
        ("End", _) | ("ArrowLeft" | "ArrowUp", None) => last,
        ("ArrowRight", Some(here)) => (here + 1).min(last),
        ("ArrowLeft", Some(here)) => here.saturating_sub(1),
        ("ArrowDown", Some(_)) => return Some(line(true)),
        ("ArrowUp", Some(_)) => return Some(line(false)),
        _ => return None,
    };
    Some(order.get(to).copied())
}

/// The same for those who do not see it; made only where somebody opens it.
#[component]
fn SegmentTable(
    /// The moment.
    snapshot: Signal<Option<Arc<Snapshot>>>,
) -> impl IntoView {
    let is_open = RwSignal::new(false);
    let open = RwSignal::new(false);
    let all = Signal::derive(move || snapshot.with(|s| s.as_ref().map_or(0, |s| s.segments.len())));
    let rows = move || {
        let snapshot = snapshot.get()?;
        let rows = snapshot.segments.iter().enumerate().take(shown(open.get(), FIRST));
        Some(rows.map(|(at, segment)| segment_row(at, segment)).collect_view())
    };
    view! {
        <details
            class="timeline-table"
            on:toggle=move |event| is_open.set(event_target::<HtmlDetailsElement>(&event).open())
        >
            <summary>{tr("The segments as a table")}</summary>
            <Show when=move || is_open.get()>
                <div class="scroll-sideways" tabindex="0" role="region" aria-label=tr("Table of the segments")>
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">{tr("segment")}</th>
                                <th scope="col">{tr("pool")}</th>
                                <th scope="col" class="number">{tr("size")}</th>
                                <th scope="col" class="number">{tr("in use")}</th>
                                <th scope="col" class="number">{tr("holes")}</th>
                                <th scope="col" class="number">{tr("largest hole")}</th>
                            </tr>
                        </thead>
                        <tbody>{rows}</tbody>
                    </table>
                </div>
                <ShowAll all first=FIRST open />
            </Show>
        </details>
    }
}

fn segment_row(at: usize, segment: &Segment) -> impl IntoView + use<> {
    let totals = Totals::of(std::iter::once(segment));
    let number = |bytes| view! { <td class="number"><ByteSize bytes /></td> };
    view! {
        <tr>
            <th scope="row">{at + 1}</th>
            <td>{text::pool_name(segment.pool)}</td>
            {number(totals.reserved)}
            {number(totals.used)}
            <td class="number">{totals.holes}</td>
            {number(totals.largest)}
        </tr>
    }
}
