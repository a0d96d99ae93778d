//! The map of all segments: lines of text, with bytes for letters.
//!
//! Holes are not painted; the surface below them is hatched.

use highwater_core::Bytes;
use highwater_core::report::{Segment, SegmentBlock, Snapshot};

pub use highwater_core::allocator::Pool;
use highwater_core::trace::Category;
use plotters::prelude::DrawingBackend;

use crate::float;
use crate::palette::Ink;
use crate::pen::{Area, Drawn, Pen};

/// CSS pixels: height of a line.
pub const LINE: f64 = 14.0;
/// CSS pixels: from one line to the next.
const PITCH: f64 = 18.0;
/// CSS pixels: between two segments.
const GAP: f64 = 3.0;
/// CSS pixels: the narrowest segment.
const NARROWEST: f64 = 4.0;

/// The segments of one pool, laid out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// Every piece, in the order of segments and addresses.
    pub pieces: Vec<Piece>,
    /// Frames of the segments: the same without a block.
    pub frames: Vec<Piece>,
    /// CSS pixels.
    pub width: f64,
    /// CSS pixels.
    pub height: f64,
    /// SIZE: of a whole line.
    pub line: Bytes,
}

/// A stretch of one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// CSS pixels.
    pub x: f64,
    /// CSS pixels.
    pub y: f64,
    /// CSS pixels.
    pub width: f64,
    /// Whose: a position in the snapshot's segments.
    pub segment: usize,
    /// Position in the segment's blocks.
    pub block: usize,
}

impl Piece {
    fn holds(&self, x: f64, y: f64) -> bool {
        // The gap below a line belongs to it: a pointer between two lines is not nowhere.
        (self.x..=self.x + self.width).contains(&x) && (self.y..self.y + PITCH).contains(&y)
    }
}

/// Lays the segments of a pool out in lines of this many CSS pixels.
pub fn map(segments: &[Segment], pool: Pool, width: f64) -> Map {
    let own = || segments.iter().enumerate().filter(move |(_, segment)| segment.pool == pool);
    let line = line(own().map(|(_, segment)| segment.size).sum(), width);
    let scale = width / float(line);
    let mut map = Map { width, line, ..Map::default() };
    let (mut x, mut y): (f64, f64) = (0.0, 0.0);
    for (segment, known) in own() {
        let long = (float(known.size) * scale).max(NARROWEST);
        // What fits on a line is not broken; a sliver of tolerance lets a whole line fit on one.
        if x > 0.0 && x + long > width + 0.5 {
            (x, y) = (0.0, y + PITCH);
        }
        let stretch = long / float(known.size).max(1.0);
        let from = map.frames.len();
        lay(&mut map.frames, (x, y), width, (0.0, long), |x, y, width| Piece {
            x,
            y,
            width,
            segment,
            block: 0,
        });
        let mut passed = 0.0;
        for (block, size) in known.blocks.iter().map(|block| block.size).enumerate() {
            let end = passed + float(size) * stretch;
            lay(&mut map.pieces, (x, y), width, (passed, end), |x, y, width| Piece {
                x,
                y,
                width,
                segment,
                block,
            });
            passed = end;
        }
        let lines = map.frames.len().saturating_sub(from);
        if let Some(last) = map.frames.last() {
            (x, y) = (last.x + last.width + GAP, last.y);
        }
        // A line that a long segment has filled has no room for another.
        if lines > 1 && x + NARROWEST > width {
            (x, y) = (0.0, y + PITCH);
        }
        map.height = map.height.max(map.frames.last().map_or(0.0, |last| last.y + LINE));
    }
    map
}

/// Breaks a stretch of a strip that begins at `start` into lines.
fn lay(
    pieces: &mut Vec<Piece>,
    start: (f64, f64),
    width: f64,
    (mut from, to): (f64, f64),
    piece: impl Fn(f64, f64, f64) -> Piece,
) {
    loop {
        let along = start.0 + from;
        // A hair's breadth before the end of a line is its end.
        let row = ((along + 1e-6) / width).floor();
        let x = (along - row * width).max(0.0);
        let taken = (to - from).min(width - x);
        pieces.push(piece(x, start.1 + row * PITCH, taken.max(0.0)));
        from += taken;
        if to - from < 1e-3 {
            return;
        }
    }
}

/// SIZE: of a line, a power of two, so that the whole is some ten to twenty lines.
fn line(total: Bytes, width: f64) -> Bytes {
    let lines = if width < 480.0 { 24 } else { 14 };
    Bytes((total.0 / lines).max(1 << 20).checked_next_power_of_two().unwrap_or(u64::MAX))
}

impl Map {
    /// The piece at a point.
    pub fn at(&self, x: f64, y: f64) -> Option<&Piece> {
        self.pieces.iter().rev().find(|piece| piece.holds(x, y))
    }

    /// The block on the line above or below one, nearest to its middle.
    pub fn neighbour(&self, segment: usize, block: usize, down: bool) -> Option<(usize, usize)> {
        let mut own =
            self.pieces.iter().filter(|piece| (piece.segment, piece.block) == (segment, block));
        let from = if down { own.next_back() } else { own.next() }?;
        let y = if down { from.y + PITCH } else { from.y - PITCH };
        let middle = from.x + from.width / 2.0;
        let far = |piece: &Piece| (piece.x - middle).max(middle - piece.x - piece.width).max(0.0);
        let on_line = self.pieces.iter().filter(|piece| (piece.y - y).abs() < 1.0);
        let nearest = on_line.min_by(|a, b| far(a).total_cmp(&far(b)))?;
        Some((nearest.segment, nearest.block))
    }
}

/// CSS pixels: blocks from this width on are parted from the next one.
const PARTED: f64 = 4.0;

/// Draws a map: blocks by the category of what is in them, and outlines around those that are meant.
///
/// # Errors
/// The backend cannot draw.
pub fn draw<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    map: &Map,
    category: impl Fn(&Piece) -> Option<Category>,
    is_meant: impl Fn(&Piece) -> bool,
) -> Drawn<B> {
    let area = |pen: &Pen<'_, B>, piece: &Piece| {
        let (left, right) = (pen.place(piece.x), pen.place(piece.x + piece.width));
        let (top, height) = (pen.place(piece.y), pen.pixels(LINE));
        // Narrower blocks would be invisible.
        Area { left, top, width: (right - left).max(1), height }
    };
    let frames: Vec<Area> = map.frames.iter().map(|frame| area(pen, frame)).collect();
    let size = (pen.place(map.width), pen.place(map.height));
    pen.bars(between(&frames, size), pen.colour(Ink::Ground))?;
    let parting = pen.pixels(0.5);
    let mut layers = Category::ALL.map(|category| (category, Vec::new()));
    for piece in &map.pieces {
        let own = category(piece);
        if let Some((_, bars)) = layers.iter_mut().find(|(known, _)| Some(*known) == own) {
            let Area { width, .. } = area(pen, piece);
            // A hairline parts neighbours where there is room for one.
            let width = if piece.width > PARTED { width - parting } else { width };
            bars.push(Area { width, ..area(pen, piece) });
        }
    }
    for (category, bars) in layers {
        pen.bars(bars, pen.colour(Ink::Category(category)))?;
    }
    let hairline = pen.pixels(1.0);
    let sides = frames.iter().flat_map(|frame| frame.frame(hairline));
    pen.bars(sides, pen.colour(Ink::Grid))?;
    let thick = pen.pixels(2.0);
    let around = |piece: &Piece| {
        let area = area(pen, piece);
        let wide = Area { left: area.left - thick, width: area.width + 2 * thick, ..area };
        wide.frame(thick)
    };
    let outlines: Vec<Area> =
        map.pieces.iter().filter(|piece| is_meant(piece)).flat_map(around).collect();
    pen.bars(outlines, pen.colour(Ink::Text))
}

/// What of a surface lies between frames, which stand in lines.
fn between(frames: &[Area], (width, height): (i32, i32)) -> Vec<Area> {
    let mut rest = Vec::new();
    let mut below = 0;
    for line in frames.chunk_by(|a, b| a.top == b.top) {
        let (top, high) = (line[0].top, line[0].height);
        rest.push(Area { left: 0, top: below, width, height: top - below });
        let mut left = 0;
        for frame in line {
            rest.push(Area { left, top, width: frame.left - left, height: high });
            left = frame.right();
        }
        rest.push(Area { left, top, width: width - left, height: high });
        below = top + high;
    }
    rest.push(Area { left: 0, top: below, width, height: height - below });
    rest
}

/// What the segments hold in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// COUNT: segments.
    pub segments: usize,
    /// SIZE: of them.
    pub reserved: Bytes,
    /// SIZE: of the blocks in use.
    pub used: Bytes,
    /// COUNT: holes.
    pub holes: usize,
    /// SIZE: of the largest hole.
    pub largest: Bytes,
}

impl Totals {
    /// Over these segments.
    pub fn of<'a>(segments: impl Iterator<Item = &'a Segment>) -> Self {
        let mut totals = Self::default();
        for segment in segments {
            totals.segments += 1;
            totals.reserved += segment.size;
            for block in &segment.blocks {
                if block.tensor.is_some() {
                    totals.used += block.size;
                } else {
                    totals.holes += 1;
                    totals.largest = totals.largest.max(block.size);
                }
            }
        }
        totals
    }
}

/// A block of a snapshot.
pub fn block(snapshot: &Snapshot, segment: usize, block: usize) -> Option<&SegmentBlock> {
    snapshot.segments.get(segment)?.blocks.get(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(pool: Pool, blocks: &[(u64, bool)]) -> Segment {
        let block = |&(size, used): &(u64, bool)| SegmentBlock {
            size: Bytes::mib(size),
            tensor: used.then_some(0),
        };
        let blocks: Vec<_> = blocks.iter().map(block).collect();
        Segment { pool, size: blocks.iter().map(|block| block.size).sum(), blocks }
    }

    fn picture(map: &Map) -> Vec<String> {
        let piece = |piece: &Piece| {
            let Piece { x, y, width, segment, block } = piece;
            format!("{segment}.{block} {x:.0}+{width:.0} in {:.0}", y / PITCH)
        };
        map.pieces.iter().map(piece).collect()
    }

    #[test]
    fn segments_wrap_like_words_and_long_ones_break() {
        let segments = [
            segment(Pool::Large, &[(12, true), (8, false)]),
            segment(Pool::Small, &[(2, true)]),
            segment(Pool::Large, &[(20, true)]),
            segment(Pool::Large, &[(40, true), (40, false)]),
        ];
        let map = map(&segments, Pool::Large, 640.0);
        assert_eq!(map.line, Bytes::mib(16));
        assert_eq!(
            picture(&map),
            [
                "0.0 0+480 in 0",
                "0.1 480+160 in 0",
                "0.1 0+160 in 1",
                "2.0 0+640 in 2",
                "2.0 0+160 in 3",
                "3.0 0+640 in 4",
                "3.0 0+640 in 5",
                "3.0 0+320 in 6",
                "3.1 320+320 in 6",
                "3.1 0+640 in 7",
                "3.1 0+640 in 8",
            ]
        );
        assert!((map.height - (8.0 * PITCH + LINE)).abs() < 1e-9);
        assert_eq!(map.at(500.0, 3.0).map(|piece| (piece.segment, piece.block)), Some((0, 1)));
        assert_eq!(map.at(500.0, PITCH + 3.0), None);
        assert_eq!(map.neighbour(0, 0, true), Some((0, 1)));
        assert_eq!(map.neighbour(2, 0, false), Some((0, 1)));
        assert_eq!(map.neighbour(0, 0, false), None);
    }

    #[test]
    fn small_segments_share_a_line_and_stay_visible() {
        let segments = vec![segment(Pool::Small, &[(1, true), (1, false)]); 300];
        let map = map(&segments, Pool::Small, 600.0);
        assert!(map.height < 40.0 * PITCH);
        assert!(map.frames.iter().all(|frame| frame.width >= NARROWEST - 1e-9));
        assert!(map.pieces.iter().all(|piece| piece.x + piece.width <= 600.5));
    }

    #[test]
    fn blocks_are_bars_and_holes_are_left_out() {
        let pool = Pool::Large;
        let segments = vec![segment(pool, &[(1, true), (1, false)]), segment(pool, &[(1, true)])];
        let map = map(&segments, pool, 60.0);
        let category = |piece: &Piece| {
            segments[piece.segment].blocks[piece.block].tensor?;
            Some(Category::Gradient)
        };
        let svg = crate::samples::drawn((60, 50), |pen, _| {
            draw(pen, &map, category, |piece| (piece.segment, piece.block) == (1, 0))
        });
        expect_test::expect![[r##"
            <svg width="60" height="50" viewBox="0 0 60 50" xmlns="http://www.w3.org/2000/svg">
            <polygon opacity="1" fill="#FFFFFF" points="0,18 0,14 60,14 60,18 0,18 0,36 0,32 60,32 60,36 0,36 "/>
            <polygon opacity="1" fill="#9CC4E2" points="0,14 0,0 59,0 59,14 0,14 0,50 0,36 59,36 59,50 0,50 "/>
            <polygon opacity="1" fill="#E4E6EA" points="0,1 0,0 60,0 60,1 0,1 0,14 0,13 60,13 60,14 0,14 0,0 1,0 1,14 0,14 59,14 59,0 60,0 60,14 0,14 0,19 0,18 60,18 60,19 0,19 0,32 0,31 60,31 60,32 0,32 0,18 1,18 1,32 0,32 59,32 59,18 60,18 60,32 0,32 0,37 0,36 60,36 60,37 0,37 0,50 0,49 60,49 60,50 0,50 0,36 1,36 1,50 0,50 59,50 59,36 60,36 60,50 0,50 "/>
            <polygon opacity="1" fill="#16191D" points="0,38 -2,38 -2,36 62,36 62,38 0,38 0,50 -2,50 -2,48 62,48 62,50 0,50 -2,50 -2,36 0,36 0,50 60,50 60,36 62,36 62,50 0,50 "/>
            </svg>
        "##]].assert_eq(&svg);
    }

    #[test]
    fn totals_count_what_is_free() {
        let segments = [
            segment(Pool::Large, &[(12, true), (8, false)]),
            segment(Pool::Small, &[(1, false), (1, true)]),
        ];
        let totals = Totals::of(segments.iter());
        assert_eq!((totals.segments, totals.holes), (2, 2));
        assert_eq!((totals.reserved, totals.used), (Bytes::mib(22), Bytes::mib(13)));
        assert_eq!(totals.largest, Bytes::mib(8));
        assert_eq!(Totals::of([].iter()), Totals::default());
    }
}
