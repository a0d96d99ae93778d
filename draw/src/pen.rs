//! Shapes of whole pixels, many of one colour at a time.
//!
//! Backends pay for each shape: a canvas parses a style, an SVG has an element. So bars of one
//! colour are one polygon. A staircase is a polygon as well: a stroke runs through the corners of
//! pixels, and a canvas would blur it.

use plotters::prelude::{DrawingBackend, FontStyle, IntoFont as _, ShapeStyle, TextStyle};
use plotters::style::text_anchor::{Pos, VPos};
use plotters::style::{BLACK, Color as _, FontDesc, FontFamily, RGBAColor, WHITE};
use plotters_backend::DrawingErrorKind;

pub use plotters::style::text_anchor::HPos;

use crate::palette::{Ink, Palette};

/// A point of a surface: pixels from the left and from above.
pub type Point = (i32, i32);

/// Whether a backend drew.
pub type Drawn<B> = Result<(), DrawingErrorKind<<B as DrawingBackend>::ErrorType>>;

/// The font of the page's style sheet, as far as saved pictures have it.
const FONT: &str = "system-ui, sans-serif";

/// A rectangle of a surface, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// From the left.
    pub left: i32,
    /// From above.
    pub top: i32,
    /// To the right.
    pub width: i32,
    /// Downwards.
    pub height: i32,
}

impl Area {
    /// Its right edge.
    pub const fn right(&self) -> i32 {
        self.left + self.width
    }

    /// Its lower edge.
    pub const fn bottom(&self) -> i32 {
        self.top + self.height
    }

    /// A bar as wide as the area, so thick, from `top` downwards.
    #[must_use]
    pub const fn across(&self, top: i32, thick: i32) -> Self {
        Self { top, height: thick, ..*self }
    }

    /// The four sides of a frame inside it, so thick.
    pub fn frame(&self, thick: i32) -> [Self; 4] {
        let (wide, high) = (self.width.min(thick), self.height.min(thick));
        [
            self.across(self.top, high),
            self.across(self.bottom() - high, high),
            Self { width: wide, ..*self },
            Self { left: self.right() - wide, width: wide, ..*self },
        ]
    }
}

/// What draws on a backend.
#[derive(Debug)]
pub struct Pen<'a, B> {
    backend: &'a mut B,
    palette: &'a Palette,
    density: f64,
    em: f64,
}

impl<'a, B: DrawingBackend> Pen<'a, B> {
    /// On a surface that has `density` pixels for one pixel of the picture.
    pub fn new(backend: &'a mut B, palette: &'a Palette, density: f64) -> Self {
        Self { backend, palette, density, em: 1.0 }
    }

    /// On plotters' SVG backend, which writes texts smaller than asked for, by this factor.
    pub fn svg(backend: &'a mut B, palette: &'a Palette) -> Self {
        Self { backend, palette, density: 1.0, em: 1.24 }
    }

    /// The value of a colour.
    pub fn colour(&self, ink: Ink) -> RGBAColor {
        self.palette.get(ink).to_rgba()
    }

    /// Where on the surface something is that lies so far from an edge of the picture.
    pub fn place(&self, at: f64) -> i32 {
        whole(at * self.density)
    }

    /// Pixels of the surface for a length in pixels of the picture; at least one.
    pub fn pixels(&self, length: f64) -> i32 {
        whole(length * self.density).max(i32::from(length > 0.0))
    }

    /// The area within corners.
    pub(crate) fn fill(&mut self, corners: Vec<Point>, colour: RGBAColor) -> Drawn<B> {
        if corners.is_empty() {
            return Ok(());
        }
        self.backend.fill_polygon(corners, &colour)
    }

    /// Bars, which may overlap, as one shape.
    pub(crate) fn bars(
        &mut self,
        bars: impl IntoIterator<Item = Area>,
        colour: RGBAColor,
    ) -> Drawn<B> {
        let bars: Vec<Area> = bars.into_iter().filter(|b| b.width > 0 && b.height > 0).collect();
        match bars[..] {
            [] => Ok(()),
            [bar] => {
                let corner = (bar.right(), bar.bottom());
                self.backend.draw_rect((bar.left, bar.top), corner, &colour, true)
            }
            _ => self.fill(comb(&bars), colour),
        }
    }

    /// A line along a staircase, of which `corners` are the corners.
    pub(crate) fn stairs(&mut self, corners: &[Point], thick: i32, colour: RGBAColor) -> Drawn<B> {
        self.fill(band(corners, thick), colour)
    }

    /// A line that may slope.
    pub(crate) fn line(&mut self, points: Vec<Point>, thick: i32, colour: RGBAColor) -> Drawn<B> {
        let style = ShapeStyle::from(colour).stroke_width(thick.unsigned_abs());
        self.backend.draw_path(points, &style)
    }

    /// A disc.
    pub(crate) fn dot(&mut self, centre: Point, radius: i32, colour: RGBAColor) -> Drawn<B> {
        self.backend.draw_circle(centre, radius.unsigned_abs(), &colour, true)
    }

    /// A text whose middle is as high as `at`, and which begins, ends or has its middle there.
    pub(crate) fn text(&mut self, text: &str, at: Point, side: HPos, style: Text) -> Drawn<B> {
        let weight = if style.bold { FontStyle::Bold } else { FontStyle::Normal };
        let size = f64::from(style.size) * self.em;
        let font: FontDesc<'_> = (FontFamily::Name(FONT), size, weight).into_font();
        let colour = match style.on {
            Some(ink) if self.palette.is_dark(ink) => WHITE.to_rgba(),
            Some(_) => BLACK.to_rgba(),
            None => self.colour(style.ink),
        };
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(side, VPos::Center));
        self.backend.draw_text(text, &style, at)
    }
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// Pixels of an em.
    pub size: i32,
    /// Whether it is bold.
    pub bold: bool,
    /// Its colour.
    pub ink: Ink,
    /// The colour of an area that it lies on: it is black or white there instead.
    pub on: Option<Ink>,
}

impl Text {
    /// A label.
    pub const LABEL: Self = Self { size: 13, bold: false, ink: Ink::Text, on: None };
}

/// A number of pixels.
#[expect(clippy::cast_possible_truncation, reason = "at most a few thousand pixels")]
pub fn whole(pixels: f64) -> i32 {
    pixels.round() as i32
}

/// Corners of a staircase with one stair per pixel from `left`; level stretches have two.
pub fn steps(left: i32, heights: &[i32]) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::new();
    for (x, &y) in (left..).zip(heights) {
        match corners.last_mut() {
            Some(last) if last.1 == y => last.0 = x + 1,
            _ => corners.extend([(x, y), (x + 1, y)]),
        }
    }
    corners
}

/// One polygon of many bars: a way from bar to bar that encloses nothing, because it comes back as it
/// went.
fn comb(bars: &[Area]) -> Vec<Point> {
    let mut corners = Vec::with_capacity(8 * bars.len());
    for bar in bars {
        let (left, right, top, bottom) = (bar.left, bar.right(), bar.top, bar.bottom());
        corners.extend([(0, bottom), (left, bottom), (left, top)]);
        corners.extend([(right, top), (right, bottom), (0, bottom)]);
    }
    corners.dedup();
    corners
}

/// The band along a staircase, so thick: more of it right of and below the corners.
fn band(corners: &[Point], thick: i32) -> Vec<Point> {
    let (before, after) = (thick / 2, thick - thick / 2);
    // How far to one side of a stair, which is level or upright, the band reaches.
    let aside = |stair: &[Point], is_left: bool| -> Point {
        let (along, up) = (stair[1].0 - stair[0].0, stair[0].1 - stair[1].1);
        match (along > 0, (up > 0) == is_left) {
            (true, _) => (0, if is_left { -before } else { after }),
            (false, true) => (-before, 0),
            (false, false) => (after, 0),
        }
    };
    let side = |is_left: bool| -> Vec<Point> {
        let beside = |n: usize| {
            let stair = |at: usize| Some(aside(corners.get(at..at + 2)?, is_left));
            let both = [n.checked_sub(1).and_then(stair), stair(n)];
            let moved = |at: Point, by: Point| (at.0 + by.0, at.1 + by.1);
            both.into_iter().flatten().fold(corners[n], moved)
        };
        (0..corners.len()).map(beside).collect()
    };
    let mut around = side(true);
    around.extend(side(false).into_iter().rev());
    around
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_stretches_have_two_corners() {
        assert_eq!(steps(5, &[1, 1, 2]), [(5, 1), (7, 1), (7, 2), (8, 2)]);
        assert!(steps(0, &[]).is_empty());
    }

    /// Pixels inside a polygon, row by row, as backends fill it: where the outline winds at all.
    fn filled(corners: &[Point], size: Point) -> Vec<String> {
        let winds = |x: i32, y: i32| -> i32 {
            let edges = corners.iter().zip(corners.iter().cycle().skip(1));
            let mut winding = 0;
            for (&(from, above), &(to, below)) in edges {
                // Upright edges only: the others wind around no middle of a pixel.
                if from == to && from > x && (above.min(below)..above.max(below)).contains(&y) {
                    winding += (below - above).signum();
                }
            }
            winding
        };
        let row = |y| (0..size.0).map(|x| if winds(x, y) == 0 { '.' } else { '#' }).collect();
        (0..size.1).map(row).collect()
    }

    #[test]
    fn bars_are_one_polygon() {
        let bar = |left, top, width, height| Area { left, top, width, height };
        let bars = [bar(1, 1, 2, 2), bar(4, 0, 1, 3), bar(4, 1, 3, 1), bar(0, 3, 1, 1)];
        assert_eq!(filled(&comb(&bars), (8, 4)), ["....#...", ".##.###.", ".##.#...", "#......."]);
        let frame = bar(1, 0, 4, 3).frame(1);
        assert_eq!(filled(&comb(&frame), (6, 3)), [".####.", ".#..#.", ".####."]);
    }

    #[test]
    fn a_line_along_stairs_is_as_thick_everywhere() {
        let stairs = steps(1, &[4, 4, 1, 3, 3]);
        let thin = ["........", "...##...", "...##...", "...###..", ".###....", "........"];
        assert_eq!(filled(&band(&stairs, 1), (8, 6)), thin);
        let thick = ["..###...", "..###...", "..####..", ".#####..", ".###....", "........"];
        assert_eq!(filled(&band(&stairs, 2), (8, 6)), thick);
        assert!(band(&[], 2).is_empty());
    }
}
