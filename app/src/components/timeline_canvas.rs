//! Paints the plotting area of the timeline: shapes only, no text.
//!
//! plotters measures text through the page's layout and knows nothing of dense screens, so labels
//! are elements of the page, and the canvas is sized in device pixels here.

use highwater_core::Bytes;
use highwater_core::trace::Category;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, Color as _, DrawingArea, IntoDrawingArea as _, PathElement, Polygon,
    RGBColor, ShapeStyle,
};
use plotters_canvas::CanvasBackend;
use web_sys::HtmlCanvasElement;

use super::canvas::{colour, density, pixels, resize};
use crate::chart::scene::Scene;
use crate::chart::stack::{Stack, layers};
use crate::format::float;

type Area<'a> = DrawingArea<CanvasBackend, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Paints a scene at this many CSS pixels.
pub(super) fn paint(canvas: &HtmlCanvasElement, css: (f64, f64), scene: &Scene) -> Option<()> {
    let (width, _) = resize(canvas, css);
    let colours = Colours::of(canvas, scene.stack);
    let root = CanvasBackend::with_canvas_object(canvas.clone())?.into_drawing_area();
    draw(&root, width, &colours, pixels(density()).max(1), scene)
}

fn draw(
    root: &DrawingArea<CanvasBackend, Shift>,
    pixels: u32,
    colours: &Colours,
    line: u32,
    scene: &Scene,
) -> Option<()> {
    let (width, ground) = (f64::from(pixels), &scene.ground);
    let top = float(ground.top).max(1.0);
    let chart = ChartBuilder::on(root).build_cartesian_2d(0.0..width, 0.0..top).ok()?;
    let area = chart.plotting_area();
    for &tick in &ground.ticks.at {
        across(area, width, tick, colours.grid.stroke_width(line))?;
    }
    let columns = ground.columns(scene.span, usize::try_from(pixels).unwrap_or(1));
    let stacks: Vec<_> = columns.iter().map(|&at| layers(ground.data(), scene.stack, at)).collect();
    let mut lower = vec![0.0; columns.len()];
    for layer in 0..stacks.first().map_or(0, Vec::len) {
        let height = |stack: &Vec<Bytes>| stack.get(layer).copied().map_or(0.0, float);
        let upper: Vec<f64> =
            stacks.iter().zip(&lower).map(|(stack, below)| below + height(stack)).collect();
        if upper != lower {
            // What is left over is the last layer, however many there are.
            let is_last = scene.stack == Stack::Module && layer == ground.data().owners.len();
            let colour = if is_last { colours.layers.last() } else { colours.layers.get(layer) };
            fill(area, &lower, &upper, *colour?)?;
            for (from, to, level) in levels(&upper) {
                let edge = vec![(from, level), (to, level)];
                let style = colours.ground.stroke_width(line);
                area.draw(&PathElement::new(edge, style)).ok()?;
            }
        }
        lower = upper;
    }
    let reserved: Vec<f64> = columns
        .iter()
        .map(|&at| ground.data().reserved.get(at).copied().map_or(0.0, float))
        .collect();
    outline(area, &reserved, colours.ink.stroke_width(line + line / 2))?;
    if let Some(limit) = ground.limit_shown() {
        across(area, width, limit, colours.alarm.stroke_width(line))?;
    }
    root.present().ok()
}

/// The area between two edges, in steps: memory does not slope.
fn fill(area: &Area<'_>, lower: &[f64], upper: &[f64], colour: RGBColor) -> Option<()> {
    let mut edge = steps(upper);
    let mut back = steps(lower);
    back.reverse();
    edge.append(&mut back);
    area.draw(&Polygon::new(edge, colour.filled())).ok()
}

fn outline(area: &Area<'_>, values: &[f64], style: ShapeStyle) -> Option<()> {
    area.draw(&PathElement::new(steps(values), style)).ok()
}

fn across(area: &Area<'_>, width: f64, at: Bytes, style: ShapeStyle) -> Option<()> {
    area.draw(&PathElement::new(vec![(0.0, float(at)), (width, float(at))], style)).ok()
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

/// The colours of the theme, read from the style sheet: they live there and nowhere else.
struct Colours {
    layers: Vec<RGBColor>,
    ground: RGBColor,
    grid: RGBColor,
    ink: RGBColor,
    alarm: RGBColor,
}

impl Colours {
    fn of(canvas: &HtmlCanvasElement, stack: Stack) -> Self {
        let read = |name: &str| parse(&colour(canvas, name)).unwrap_or(RGBColor(128, 128, 128));
        let classes = match stack {
            Stack::Category => Category::ALL.map(super::readout::class),
            Stack::Module => super::readout::MODULES,
        };
        Self {
            layers: classes.map(read).to_vec(),
            ground: read("ground"),
            grid: read("grid"),
            ink: read("ink"),
            alarm: read("verdict-fails"),
        }
    }
}

/// `rgb(1, 2, 3)`, as a browser writes a computed colour, or `#010203`.
fn parse(colour: &str) -> Option<RGBColor> {
    let colour = colour.trim();
    if let Some(hex) = colour.strip_prefix('#') {
        let n = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 6)?;
        let [_, r, g, b] = n.to_be_bytes();
        return Some(RGBColor(r, g, b));
    }
    let inner = colour.strip_prefix("rgb(")?.strip_suffix(')')?;
    let mut parts = inner.split([',', ' ']).filter(|part| !part.is_empty()).map(str::parse);
    Some(RGBColor(parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_as_browsers_write_them() {
        assert_eq!(parse(" #0a1420"), Some(RGBColor(10, 20, 32)));
        assert_eq!(parse("rgb(10, 20, 32)"), Some(RGBColor(10, 20, 32)));
        assert_eq!(parse("rgb(10 20 32)"), Some(RGBColor(10, 20, 32)));
        assert_eq!(parse("red"), None);
        assert_eq!(parse("#fff"), None);
    }

    #[test]
    fn level_stretches_have_two_corners() {
        assert_eq!(steps(&[1.0, 1.0, 2.0]), [(0.0, 1.0), (2.0, 1.0), (2.0, 2.0), (3.0, 2.0)]);
        assert!(steps(&[]).is_empty());
        let long = [1.0, 1.0, 1.0, 1.0, 9.0, 2.0, 2.0];
        assert_eq!(levels(&long), [(0.0, 4.0, 1.0)]);
    }
}
