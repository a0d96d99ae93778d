//! The allocator's segments at one moment: blocks in the order of their addresses, and the holes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::report::{Fragmentation, Snapshot};
use highwater_draw::segments::{self, Map, Piece, Pool, Totals, block, map};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{
    Event, HtmlCanvasElement, HtmlDetailsElement, HtmlElement, KeyboardEvent, PointerEvent,
};

use super::canvas::paint;
use super::island::{find, number_of, on, panel, set, size_of, style, watch};
use super::markup::Markup;
use super::phase_table::{cell, column};
use super::turns::in_turn;
use crate::model::theme::Theme;
use crate::words::language::tr;
use crate::words::{self, Vocabulary};

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
    let live = move |root: HtmlElement| {
        let _lives = live(&root, snapshot, marked, vocabulary, theme);
    };
    panel("panel segments", "segments-title", inside(), Box::new(live))
}

/// What is on the page before there is a moment.
fn inside() -> String {
    let (title, summary) = (tr("Segments"), tr("The segments as a table"));
    let label = tr("Map of the segments. Arrow keys go from block to block, Escape leaves.");
    let table = tr("Table of the segments");
    let mut markup = Markup::default();
    markup
        .raw("<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"segments-title\">")
        .text(&title)
        .raw(
            "</h2></div><p class=\"segments-totals\"></p><p class=\"segments-unused\"></p><div class=\"segment-map\" tabindex=\"0\" \
         role=\"slider\" aria-valuemin=\"0\" aria-label=\"",
        )
        .text(&label)
        .raw(
            "\"><p class=\"segment-pool\" data-pool-title=\"0\"></p>\
         <canvas data-pool=\"0\" aria-hidden=\"true\"></canvas>\
         <p class=\"segment-pool\" data-pool-title=\"1\"></p>\
         <canvas data-pool=\"1\" aria-hidden=\"true\"></canvas>\
         <p class=\"hidden-text\" aria-live=\"polite\"></p></div><p class=\"segments-words\"></p>\
         <details class=\"timeline-table\"><summary>",
        )
        .text(&summary)
        .raw(
            "</summary><div class=\"scroll-sideways\" tabindex=\"0\" role=\"region\" aria-label=\"",
        )
        .text(&table)
        .raw("\"></div></details>");
    markup.done()
}

/// The map on the page.
struct Drawn {
    root: HtmlElement,
    frame: HtmlElement,
    snapshot: Signal<Option<Arc<Snapshot>>>,
    marked: RwSignal<Option<usize>>,
    vocabulary: Signal<Vocabulary>,
    maps: RefCell<[Map; 2]>,
    /// The block under the pointer or the cursor.
    at: Cell<Option<Place>>,
    /// Counts moves of it, so that the picture follows.
    turn: RwSignal<usize>,
}

fn live(
    root: &HtmlElement,
    snapshot: Signal<Option<Arc<Snapshot>>>,
    marked: RwSignal<Option<usize>>,
    vocabulary: Signal<Vocabulary>,
    theme: Signal<Theme>,
) -> Option<()> {
    let frame = find(root, ".segment-map")?;
    let size = size_of(&frame);
    let drawn = Rc::new(Drawn {
        root: root.clone(),
        frame: frame.clone(),
        snapshot,
        marked,
        vocabulary,
        maps: RefCell::default(),
        at: Cell::new(None),
        turn: RwSignal::new(0),
    });
    let here = drawn.clone();
    watch(Box::new(move || {
        let width = size.get().0;
        if let Some(snapshot) = snapshot.get().filter(|_| width >= 1.0) {
            let (drawn, frame) = (here.clone(), here.frame.clone());
            let draw = move || {
                *drawn.maps.borrow_mut() = POOLS.map(|pool| map(&snapshot.segments, pool, width));
                let _drawn = drawn.draw_words(&snapshot);
                drawn.turn.try_update(|turn| *turn += 1);
            };
            in_turn(&frame, Box::new(draw));
        }
    }));
    let here = drawn.clone();
    watch(Box::new(move || {
        here.turn.track();
        marked.track();
        theme.track();
        if let Some(snapshot) = snapshot.get_untracked() {
            let _drawn = here.draw(&snapshot);
        }
    }));
    for name in ["keydown", "pointermove", "pointerdown", "pointerleave"] {
        let here = drawn.clone();
        on(&frame, name, Box::new(move |event| here.take(event)));
    }
    let details: HtmlDetailsElement = find(root, "details")?.unchecked_into();
    let table = find(&details, ".scroll-sideways")?;
    let (opened, is_open) = signal(0);
    on(&details, "toggle", Box::new(move |_| is_open.update(|turn| *turn += 1)));
    watch(Box::new(move || {
        opened.track();
        // Made only where somebody looks at it.
        if let Some(snapshot) = details.open().then(|| snapshot.get()).flatten() {
            table.set_inner_html(&segment_table(&snapshot));
        }
    }));
    Some(())
}

impl Drawn {
    /// What changes with the moment only.
    fn draw_words(&self, snapshot: &Snapshot) -> Option<()> {
        let totals = words::segments(&Totals::of(snapshot.segments.iter()));
        find(&self.root, ".segments-totals")?.set_text_content(Some(&totals));
        let unused = words::recorded::unused(&Fragmentation::of(&snapshot.segments));
        find(&self.root, ".segments-unused")?.set_text_content(Some(&unused));
        set(&self.frame, "aria-valuemax", &snapshot.segments.len().to_string());
        for (at, (&pool, map)) in POOLS.iter().zip(&*self.maps.borrow()).enumerate() {
            let own = snapshot.segments.iter().filter(|segment| segment.pool == pool);
            let words = words::pool(pool, &Totals::of(own), map.line);
            let title = find(&self.frame, &format!("[data-pool-title=\"{at}\"]"))?;
            title.set_text_content(Some(&words));
            let canvas = self.canvas(at)?;
            style(&canvas, "height", map.height, "px");
        }
        Some(())
    }

    fn canvas(&self, pool: usize) -> Option<HtmlCanvasElement> {
        Some(find(&self.frame, &format!("[data-pool=\"{pool}\"]"))?.unchecked_into())
    }

    /// What changes with the block that is meant as well.
    fn draw(&self, snapshot: &Snapshot) -> Option<()> {
        let (at, marked) = (self.at.get(), self.marked.get_untracked());
        for (pool, map) in self.maps.borrow().iter().enumerate() {
            // A browser without a canvas still has the table.
            let category =
                |piece: &Piece| Some(snapshot.live.get(tensor_of(snapshot, piece)?)?.category);
            let is_meant = |piece: &Piece| match at {
                Some(place) => place == (piece.segment, piece.block),
                None => marked.is_some() && tensor_of(snapshot, piece) == marked,
            };
            let _painted = paint(&self.canvas(pool)?, (map.width, map.height), |pen, _| {
                segments::draw(pen, map, category, is_meant)
            });
        }
        let words = self.words(snapshot);
        let none = words.is_none();
        let words = words.unwrap_or_else(|| tr("Each block is a stretch; hatched is free."));
        find(&self.root, ".segments-words")?.set_text_content(Some(&words));
        let spoken = if none { tr("no block") } else { words };
        set(&self.frame, "aria-valuetext", &spoken);
        let segment = at.map_or(0, |(segment, _)| segment + 1);
        set(&self.frame, "aria-valuenow", &segment.to_string());
        Some(())
    }

    /// The block that is meant, in words.
    fn words(&self, snapshot: &Snapshot) -> Option<String> {
        let marked = || place_of(snapshot, self.marked.get_untracked()?);
        let (segment, at) = self.at.get().or_else(marked)?;
        self.vocabulary.get_untracked().block(snapshot, segment, at)
    }

    fn choose(&self, place: Option<Place>) {
        let snapshot = self.snapshot.get_untracked();
        self.at.set(place);
        self.marked.set(
            snapshot
                .zip(place)
                .and_then(|(snapshot, (segment, at))| block(&snapshot, segment, at)?.tensor),
        );
        self.turn.update(|turn| *turn += 1);
    }

    fn take(&self, event: &Event) {
        if let Some(key) = event.dyn_ref::<KeyboardEvent>() {
            let name = key.key();
            let place = moved(&self.maps.borrow(), self.at.get(), &name);
            if place.is_none() && name != "Escape" {
                return;
            }
            event.prevent_default();
            self.choose(place);
            let words = self.snapshot.get_untracked().and_then(|snapshot| self.words(&snapshot));
            if let Some(spoken) = find(&self.frame, "[aria-live]") {
                spoken.set_text_content(Some(&words.unwrap_or_default()));
            }
            return;
        }
        let pointer: &PointerEvent = event.unchecked_ref();
        let (x, y) = (f64::from(pointer.offset_x()), f64::from(pointer.offset_y()));
        let pool = number_of(event, "data-pool").filter(|_| event.type_() != "pointerleave");
        let place = pool.and_then(|pool| {
            let maps = self.maps.borrow();
            let piece = maps.get(pool)?.at(x, y)?;
            Some((piece.segment, piece.block))
        });
        if place != self.at.get() {
            self.choose(place);
        }
    }
}

/// The tensor in a piece.
fn tensor_of(snapshot: &Snapshot, piece: &Piece) -> Option<usize> {
    block(snapshot, piece.segment, piece.block)?.tensor
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
        maps.iter().find_map(|map| map.beside(segment, block, down)).or(from)
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
fn segment_table(snapshot: &Snapshot) -> String {
    let mut markup = Markup::default();
    markup.raw("<table class=\"table\"><thead><tr>");
    for (name, is_number) in [
        (tr("segment"), false),
        (tr("pool"), false),
        (tr("size"), true),
        (tr("in use"), true),
        (tr("holes"), true),
        (tr("largest hole"), true),
    ] {
        column(&mut markup, &name, is_number);
    }
    markup.raw("</tr></thead><tbody>");
    for (at, segment) in snapshot.segments.iter().enumerate().take(MOST) {
        let totals = Totals::of(std::iter::once(segment));
        let (number, pool) = ((at + 1).to_string(), words::pool_name(segment.pool));
        markup
            .raw("<tr><th scope=\"row\">")
            .text(&number)
            .raw("</th><td>")
            .text(&pool)
            .raw("</td>");
        cell(&mut markup, totals.reserved);
        cell(&mut markup, totals.used);
        markup.raw("<td class=\"number\">").text(&totals.holes.to_string()).raw("</td>");
        cell(&mut markup, totals.largest);
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table>");
    markup.done()
}
