//! The allocator's segments at one moment: blocks in the order of their addresses, and the holes.

use std::sync::Arc;

use highwater_core::report::{Fragmentation, Snapshot};
use leptos::prelude::*;
use leptos::{ev, html};

use super::by_hand::size_of_node;
use super::canvas::paint;
use super::parts::{FoldedTable, cell, column};
use crate::model::theme::Theme;
use crate::words::format::length;
use crate::words::language::tr;
use crate::words::{self, Vocabulary};
use highwater_draw::segments::{self, Map, Piece, Pool, Totals, block, map};

/// COUNT: rows of the table at most.
const MOST: usize = 1000;

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
    /// What categories are called.
    vocabulary: Signal<Vocabulary>,
    /// The theme.
    theme: Signal<Theme>,
) -> impl IntoView {
    let frame = NodeRef::<html::Div>::new();
    let size = size_of_node(frame);
    let maps = Memo::new(move |_| {
        let width = size.get().0;
        let snapshot = snapshot.get().filter(|_| width >= 1.0);
        snapshot.map(|snapshot| POOLS.map(|pool| map(&snapshot.segments, pool, width)))
    });
    // The block under the pointer or the cursor.
    let at = RwSignal::new(None::<Place>);
    let choose = Callback::new(move |place: Option<Place>| {
        if at.get_untracked() == place {
            return;
        }
        at.set(place);
        let tensor = snapshot.with_untracked(|snapshot| {
            let (segment, at) = place?;
            block(snapshot.as_ref()?, segment, at)?.tensor
        });
        marked.set(tensor);
    });
    let meant = Memo::new(move |_| {
        let snapshot = snapshot.get()?;
        let (segment, at) = at.get().or_else(|| place_of(&snapshot, marked.get()?))?;
        vocabulary.get().block(&snapshot, segment, at)
    });
    let spoken = RwSignal::new(String::new());
    let on_key = move |event: ev::KeyboardEvent| {
        let name = event.key();
        let moves = |maps: &Option<[Map; 2]>| moved(maps.as_ref()?, at.get_untracked(), &name);
        let place = maps.with_untracked(moves);
        if place.is_some() || name == "Escape" {
            event.prevent_default();
            choose.run(place);
            spoken.set(meant.get_untracked().unwrap_or_default());
        }
    };
    let said =
        move || meant.get().unwrap_or_else(|| tr("Each block is a stretch; hatched is free."));
    let open = RwSignal::new(false);
    view! {
        <section class="panel segments" aria-labelledby="segments-title">
            <div class="panel-head">
                <h2 class="panel-title" id="segments-title">{tr("Segments")}</h2>
            </div>
            <p class="segments-totals">
                {move || snapshot.get().map(|s| words::segments(&Totals::of(s.segments.iter())))}
            </p>
            <p class="segments-unused">
                {move || snapshot.get().map(|s| words::recorded::unused(&Fragmentation::of(&s.segments)))}
            </p>
            <div
                class="segment-map"
                tabindex="0"
                role="slider"
                aria-valuemin="0"
                aria-valuemax=move || snapshot.with(|s| s.as_ref().map_or(0, |s| s.segments.len())).to_string()
                aria-valuenow=move || at.get().map_or(0, |(segment, _)| segment + 1).to_string()
                aria-valuetext=move || meant.get().unwrap_or_else(|| tr("no block"))
                aria-label=tr("Map of the segments. Arrow keys go from block to block, Escape leaves.")
                node_ref=frame
                on:keydown=on_key
                on:pointerleave=move |_| choose.run(None)
            >
                <PoolMap pool=0 snapshot maps at marked theme on_choose=choose />
                <PoolMap pool=1 snapshot maps at marked theme on_choose=choose />
                <p class="hidden-text" aria-live="polite">
                    {spoken}
                </p>
            </div>
            <p class="segments-words">{said}</p>
            <FoldedTable
                id="segments-table"
                summary=tr("The segments as a table")
                label=tr("Table of the segments")
                open
            >
                // Made only where somebody looks at it.
                {move || snapshot.get().filter(|_| open.get()).map(|s| segment_table(&s))}
            </FoldedTable>
        </section>
    }
}

/// The segments of one pool.
#[component]
fn PoolMap(
    /// Its position among the pools.
    pool: usize,
    /// The moment.
    snapshot: Signal<Option<Arc<Snapshot>>>,
    /// All pools, laid out.
    maps: Memo<Option<[Map; 2]>>,
    /// The block under the pointer or the cursor.
    at: RwSignal<Option<Place>>,
    /// The tensor that is marked.
    marked: RwSignal<Option<usize>>,
    /// The theme.
    theme: Signal<Theme>,
    /// Another block is under the pointer.
    on_choose: Callback<Option<Place>>,
) -> impl IntoView {
    let of_map = move |of: fn(&Map) -> f64| {
        maps.with(|maps| maps.as_ref().and_then(|maps| maps.get(pool)).map_or(0.0, of))
    };
    let canvas = NodeRef::<html::Canvas>::new();
    Effect::new(move |_| {
        theme.track();
        let (at, marked) = (at.get(), marked.get());
        let (Some(canvas), Some(snapshot)) = (canvas.get(), snapshot.get()) else { return };
        let tensor = |piece: &Piece| block(&snapshot, piece.segment, piece.block)?.tensor;
        let category = |piece: &Piece| Some(snapshot.live.get(tensor(piece)?)?.category);
        let is_meant = |piece: &Piece| match at {
            Some(place) => place == (piece.segment, piece.block),
            None => marked.is_some() && tensor(piece) == marked,
        };
        maps.with(|maps| {
            let map = maps.as_ref().and_then(|maps| maps.get(pool));
            // A browser without a canvas still has the table.
            let _painted = map.and_then(|map| {
                paint(&canvas, (map.width, map.height), |pen, _| {
                    segments::draw(pen, map, category, is_meant)
                })
            });
        });
    });
    let title = move || {
        let (snapshot, which) = (snapshot.get()?, *POOLS.get(pool)?);
        let own = snapshot.segments.iter().filter(|segment| segment.pool == which);
        let line = maps.with(|maps| Some(maps.as_ref()?.get(pool)?.line))?;
        Some(words::pool(which, &Totals::of(own), line))
    };
    let point = move |event: ev::PointerEvent| {
        let (x, y) = (f64::from(event.offset_x()), f64::from(event.offset_y()));
        on_choose.run(maps.with_untracked(|maps| {
            let piece = maps.as_ref()?.get(pool)?.at(x, y)?;
            Some((piece.segment, piece.block))
        }));
    };
    view! {
        <p class="segment-pool">{title}</p>
        <canvas
            data-pool=pool.to_string()
            aria-hidden="true"
            style:height=move || length(of_map(|map| map.height)) + "px"
            node_ref=canvas
            on:pointermove=point
            on:pointerdown=point
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
fn moved(maps: &[Map; 2], from: Option<Place>, key: &str) -> Option<Place> {
    let mut order: Vec<Place> =
        maps.iter().flat_map(|map| &map.pieces).map(|p| (p.segment, p.block)).collect();
    order.dedup();
    let here = from.and_then(|from| order.iter().position(|&place| place == from));
    let last = order.len().checked_sub(1)?;
    let line = |down: bool| {
        let (segment, block) = from?;
        maps.iter().find_map(|map| map.neighbour(segment, block, down)).or(from)
    };
    let to = match (key, here) {
        ("Home", _) | ("ArrowRight" | "ArrowDown", None) => 0,
        ("End", _) | ("ArrowLeft" | "ArrowUp", None) => last,
        ("ArrowRight", Some(here)) => (here + 1).min(last),
        ("ArrowLeft", Some(here)) => here.saturating_sub(1),
        ("ArrowDown", Some(_)) => return line(true),
        ("ArrowUp", Some(_)) => return line(false),
        _ => return None,
    };
    order.get(to).copied()
}

/// The same for those who do not see it.
fn segment_table(snapshot: &Snapshot) -> impl IntoView + use<> {
    let rows = snapshot.segments.iter().enumerate().take(MOST).map(|(at, segment)| {
        let totals = Totals::of(std::iter::once(segment));
        view! {
            <tr>
                <th scope="row">{(at + 1).to_string()}</th>
                <td>{words::pool_name(segment.pool)}</td>
                {cell(totals.reserved)}
                {cell(totals.used)}
                <td class="number">{totals.holes.to_string()}</td>
                {cell(totals.largest)}
            </tr>
        }
    });
    view! {
        <table class="table">
            <thead>
                <tr>
                    {column(tr("segment"), false)}
                    {column(tr("pool"), false)}
                    {column(tr("size"), true)}
                    {column(tr("in use"), true)}
                    {column(tr("holes"), true)}
                    {column(tr("largest hole"), true)}
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
}
