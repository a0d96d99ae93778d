//! Paints the plotting area of the timeline: shapes only, no text.
//!
//! Labels are elements of the page. A column is one device pixel, so that a spike of one event is
//! as sharp on a dense screen as it can be.

use highwater_core::Bytes;
use highwater_core::trace::Category;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

use super::canvas::{brush, colour, density, pixels, resize};
use crate::chart::beside::beside;
use crate::chart::float;
use crate::chart::scene::Scene;
use crate::chart::stack::{Stack, layers};

/// Paints a scene at this many CSS pixels.
pub(super) fn paint(canvas: &HtmlCanvasElement, css: (f64, f64), scene: &Scene) -> Option<()> {
    let (width, height) = resize(canvas, css);
    let (width, ground) = (f64::from(width), &scene.ground);
    let area = Area {
        pen: brush(canvas)?,
        height: f64::from(height),
        top: float(ground.top).max(1.0),
        line: f64::from(pixels(density())),
    };
    let read = |name: &str| colour(canvas, name);
    for &tick in &ground.ticks.at {
        area.across(width, tick, &read("grid"));
    }
    let columns = ground.columns(scene.span, usize::try_from(pixels(width)).unwrap_or(1));
    area.stacks(scene, &columns, &read);
    let data = ground.data();
    let reserved = columns.iter().map(|&at| data.reserved.get(at).copied().map_or(0.0, float));
    area.outline(&reserved.collect::<Vec<_>>(), &read("ink"), 1.5);
    if let Some(other) = &ground.beside {
        let sizes = beside(data, &columns, &other.timeline);
        let sizes: Vec<f64> = sizes.into_iter().map(float).collect();
        area.outline(&sizes, &read("ground"), 4.0);
        area.outline(&sizes, &read("accent"), 2.0);
    }
    if let Some(limit) = ground.limit_shown() {
        area.across(width, limit, &read("verdict-fails"));
    }
    Some(())
}

/// The plotting area: columns from the left, bytes from below.
struct Area {
    pen: CanvasRenderingContext2d,
    /// Device pixels.
    height: f64,
    /// Bytes at the upper edge.
    top: f64,
    /// Device pixels of a hairline.
    line: f64,
}

impl Area {
    /// The layers of memory, each on those before it.
    fn stacks(&self, scene: &Scene, columns: &[usize], read: &dyn Fn(&str) -> String) {
        let data = scene.ground.data();
        let classes = match scene.stack {
            Stack::Category => Category::ALL.map(super::readout::class),
            Stack::Module => super::readout::MODULES,
        };
        let ground = read("ground");
        let stacks: Vec<_> = columns.iter().map(|&at| layers(data, scene.stack, at)).collect();
        let mut lower = vec![0.0; columns.len()];
        for layer in 0..stacks.first().map_or(0, Vec::len) {
            let height = |stack: &Vec<Bytes>| stack.get(layer).copied().map_or(0.0, float);
            let upper: Vec<f64> =
                stacks.iter().zip(&lower).map(|(stack, below)| below + height(stack)).collect();
            if upper != lower {
                // What is left over is the last layer, however many there are.
                let is_last = scene.stack == Stack::Module && layer == data.owners.len();
                let class = if is_last { classes.last() } else { classes.get(layer) };
                self.fill(&lower, &upper, &read(class.copied().unwrap_or_default()));
                for (from, to, level) in levels(&upper) {
                    self.stroke([(from, level), (to, level)], &ground, 1.0);
                }
            }
            lower = upper;
        }
    }

    /// The area between two edges, in steps: memory does not slope.
    fn fill(&self, lower: &[f64], upper: &[f64], colour: &str) {
        self.path(steps(upper).into_iter().chain(steps(lower).into_iter().rev()), 0.0);
        self.pen.set_fill_style_str(colour);
        self.pen.fill();
    }

    fn outline(&self, values: &[f64], colour: &str, lines: f64) {
        self.stroke(steps(values), colour, lines);
    }

    fn across(&self, width: f64, at: Bytes, colour: &str) {
        self.stroke([(0.0, float(at)), (width, float(at))], colour, 1.0);
    }

    fn stroke(&self, corners: impl IntoIterator<Item = (f64, f64)>, colour: &str, lines: f64) {
        let width = lines * self.line;
        // A line of one pixel fills a row of them only if it runs through their middles.
        self.path(corners, width % 2.0 / 2.0);
        self.pen.set_stroke_style_str(colour);
        self.pen.set_line_width(width);
        self.pen.stroke();
    }

    fn path(&self, corners: impl IntoIterator<Item = (f64, f64)>, below: f64) {
        self.pen.begin_path();
        for (column, bytes) in corners {
            let y = (self.height * (1.0 - bytes / self.top)).round();
            self.pen.line_to(column, y + below);
        }
    }
}

/// Corners of a staircase with one stair per column; level stretches have two.
fn steps(values: &[f64]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    let mut x = 0.0;
    for (i, &value) in values.iter().enumerate() {
        let level = i > 0 && corners.last().is_some_and(|last| last.1.total_cmp(&value).is_eq());
        if level {
            if let Some(last) = corners.last_mut() {
                last.0 = x + 1.0;
            }
        } else {
            corners.push((x, value));
            corners.push((x + 1.0, value));
        }
        x += 1.0;
    }
    corners
}

/// Level stretches of a few columns: where a line may part two layers. A line along every corner
/// would wipe out peaks that are one column wide.
fn levels(values: &[f64]) -> Vec<(f64, f64, f64)> {
    let corners = steps(values);
    let stretch = |pair: &[(f64, f64)]| match *pair {
        [(from, level), (to, _)] if to - from >= 4.0 && level > 0.0 => Some((from, to, level)),
        _ => None,
    };
    corners.chunks_exact(2).filter_map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_stretches_have_two_corners() {
        assert_eq!(steps(&[1.0, 1.0, 2.0]), [(0.0, 1.0), (2.0, 1.0), (2.0, 2.0), (3.0, 2.0)]);
        assert!(steps(&[]).is_empty());
        let long = [1.0, 1.0, 1.0, 1.0, 9.0, 2.0, 2.0];
        assert_eq!(levels(&long), [(0.0, 4.0, 1.0)]);
    }
}
