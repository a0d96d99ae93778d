//! Paints one pool of the segment map. Holes are left empty: the style sheet hatches them.

use highwater_core::report::Snapshot;
use highwater_core::trace::Category;
use web_sys::HtmlCanvasElement;

use super::canvas::{colour, pen};
use super::readout::class;
use crate::chart::segments::{LINE, Map, Piece, block};

/// CSS pixels: narrower blocks would be invisible.
const NARROWEST: f64 = 0.75;

/// Paints the blocks of a pool, and outlines the one that is meant.
pub(super) fn paint(
    canvas: &HtmlCanvasElement,
    map: &Map,
    snapshot: &Snapshot,
    at: Option<(usize, usize)>,
    marked: Option<usize>,
) -> Option<()> {
    let css = (map.width, map.height);
    let pen = pen(canvas, css)?;
    // Everything but the segments is ground, and hides the hatching.
    pen.set_fill_style_str(&colour(canvas, "ground"));
    pen.fill_rect(0.0, 0.0, css.0, css.1);
    for frame in &map.frames {
        pen.clear_rect(frame.x, frame.y, frame.width, LINE);
    }
    let owner = |piece: &Piece| block(snapshot, piece.segment, piece.block)?.tensor;
    let owned: Vec<_> = map
        .pieces
        .iter()
        .filter_map(|piece| Some((piece, snapshot.live.get(owner(piece)?)?.category)))
        .collect();
    for category in Category::ALL {
        pen.set_fill_style_str(&colour(canvas, class(category)));
        for (piece, _) in owned.iter().filter(|(_, own)| *own == category) {
            // A hairline parts neighbours where there is room for one.
            let part = if piece.width > 4.0 { 0.5 } else { 0.0 };
            pen.fill_rect(piece.x, piece.y, (piece.width - part).max(NARROWEST), LINE);
        }
    }
    pen.set_stroke_style_str(&colour(canvas, "grid"));
    pen.set_line_width(1.0);
    for frame in &map.frames {
        pen.stroke_rect(frame.x + 0.5, frame.y + 0.5, (frame.width - 1.0).max(0.5), LINE - 1.0);
    }
    pen.set_stroke_style_str(&colour(canvas, "ink"));
    pen.set_line_width(2.0);
    let is_meant = |piece: &&Piece| match at {
        Some(place) => place == (piece.segment, piece.block),
        None => marked.is_some() && owner(piece) == marked,
    };
    for piece in map.pieces.iter().filter(is_meant) {
        pen.stroke_rect(piece.x - 1.0, piece.y + 1.0, piece.width.max(1.0) + 2.0, LINE - 2.0);
    }
    Some(())
}
