//! The timeline as a drawing of its own: title, axis, stack, phases and legend, in whole pixels.
//!
//! Paths and texts with presentation attributes and nothing else: what saves it as a PNG follows
//! them one by one.

use std::fmt::Write as _;

use highwater_core::Bytes;
use highwater_core::report::{Report, Timeline};
use highwater_core::trace::Category;

use super::Span;
use super::bands::bands;
use super::beside::beside;
use super::columns::columns;
use super::pyramid::Pyramid;
use super::stack::{Stack, layers};
use super::ticks::ticks;

const WIDTH: usize = 1200;
const HEIGHT: usize = 640;
const LEFT: usize = 88;
const PLOT_WIDTH: usize = 1080;
const TOP: usize = 104;
const PLOT_HEIGHT: usize = 400;
const BOTTOM: usize = TOP + PLOT_HEIGHT;
/// COUNT: letters of the title that fit on a line.
const LINE: usize = 112;
/// COUNT: lines across the picture, at most.
const TICKS: u64 = 6;
/// Entries of the legend beside each other, and the room for each.
const ABREAST: usize = 5;
const ENTRY: usize = PLOT_WIDTH / ABREAST;

/// What is drawn besides the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// The sentence above.
    pub(crate) title: &'a str,
    /// The settings, below it.
    pub(crate) about: &'a str,
    /// Names of the layers in the order of the stack, then of the reserved bytes, then of the run
    /// beside.
    pub(crate) legend: &'a [String],
    /// Names of the phases, in their order.
    pub(crate) phases: &'a [String],
    /// Iteration shown; `None` for all.
    pub(crate) iteration: Option<usize>,
    /// What the layers are.
    pub(crate) stack: Stack,
    /// Another run on the same axes.
    pub(crate) beside: Option<&'a Timeline>,
    /// Ground, ink, grid, accent, then the categories in the order of the stack, then modules.
    pub(crate) colours: &'a [String],
}

/// Position among the colours: of the accent.
const ACCENT: usize = 3;
/// Position among the colours: of the first category.
const CATEGORIES: usize = 4;
/// COUNT: colours of modules; the last is for all others.
const MODULES: usize = 8;

/// Position of a layer's colour.
fn layer_colour(stack: Stack, layer: usize, layers: usize) -> usize {
    let first = CATEGORIES + Category::ALL.len();
    match stack {
        Stack::Category => CATEGORIES + layer,
        Stack::Module if layer + 1 == layers => first + MODULES - 1,
        Stack::Module => first + layer.min(MODULES - 2),
    }
}

/// The drawing.
pub(crate) fn svg(report: &Report, around: Around<'_>) -> String {
    let mut pen = Pen::new(around.colours);
    let data = &report.timeline;
    let span = Span::of(data, around.iteration);
    let other = around.beside.and_then(|other| other.allocated.iter().copied().max());
    let highest = data.reserved.iter().copied().max().max(other).unwrap_or_default();
    let top = Bytes(highest.max(report.peak.allocated).0 / 100 * 112).max(Bytes(1));
    pen.path(&format!("M0 0H{WIDTH}V{HEIGHT}H0z"), pen.colour(0), "");
    let mut y = 36;
    for line in lines(around.title) {
        pen.text((24, y), 18, "font-weight=\"600\"", line.trim_end());
        y += 24;
    }
    pen.text((24, y), 13, "opacity=\"0.7\"", around.about);
    axis(&mut pen, top);
    stacked(&mut pen, data, around, span, top);
    peak(&mut pen, report, span, top);
    phases(&mut pen, data, span, around.phases);
    legend(&mut pen, around);
    pen.end()
}

/// Draws one shape behind the other.
struct Pen<'a> {
    colours: &'a [String],
    text: String,
}

impl<'a> Pen<'a> {
    fn new(colours: &'a [String]) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"system-ui, sans-serif\">\n"
        );
        Self { colours, text }
    }

    fn colour(&self, n: usize) -> &'a str {
        self.colours.get(n).map_or("gray", String::as_str)
    }

    fn path(&mut self, d: &str, fill: &str, more: &str) {
        let fill = escaped(fill);
        // Writing to a string does not fail.
        writeln!(self.text, "<path d=\"{d}\" fill=\"{fill}\" {more}/>").ok();
    }

    fn line(&mut self, d: &str, colour: usize, width: &str, more: &str) {
        let stroke = escaped(self.colour(colour));
        self.path(d, "none", &format!("stroke=\"{stroke}\" stroke-width=\"{width}\" {more}"));
    }

    fn text(&mut self, (x, y): (usize, usize), size: usize, more: &str, said: &str) {
        let (ink, said) = (escaped(self.colour(1)), escaped(said));
        writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y}\" fill=\"{ink}\" font-size=\"{size}\" {more}>{said}</text>"
        )
        .ok();
    }

    fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

fn axis(pen: &mut Pen<'_>, top: Bytes) {
    let ticks = ticks(top, TICKS);
    for (n, &at) in ticks.at.iter().enumerate() {
        let y = height_of(at, top);
        pen.line(&format!("M{LEFT} {y}h{PLOT_WIDTH}"), 2, "1", "");
        let unit = if n + 1 == ticks.at.len() { ticks.unit.name() } else { "" };
        let label = format!("{} {unit}", ticks.label(n));
        pen.text((LEFT - 8, y + 4), 13, "text-anchor=\"end\"", label.trim());
    }
}

fn stacked(pen: &mut Pen<'_>, data: &Timeline, around: Around<'_>, span: Span, top: Bytes) {
    let columns = columns(data, &Pyramid::of(&data.allocated), span, PLOT_WIDTH);
    let stacks: Vec<_> = columns.iter().map(|&at| layers(data, around.stack, at)).collect();
    let count = stacks.first().map_or(0, Vec::len);
    let mut below: Vec<Bytes> = vec![Bytes::ZERO; columns.len()];
    for layer in 0..count {
        let height = |stack: &Vec<Bytes>| stack.get(layer).copied().unwrap_or_default();
        let above: Vec<Bytes> =
            stacks.iter().zip(&below).map(|(stack, &below)| below + height(stack)).collect();
        if above != below {
            let mut edge = stairs(&above, top, false);
            edge.push('L');
            edge.push_str(stairs(&below, top, true).trim_start_matches('M'));
            edge.push('z');
            pen.path(&edge, pen.colour(layer_colour(around.stack, layer, count)), "");
        }
        below = above;
    }
    if let Some(other) = around.beside {
        let line = stairs(&beside(data, &columns, other), top, false);
        pen.line(&line, 0, "4", "");
        pen.line(&line, ACCENT, "2", "");
    }
    let reserved: Vec<Bytes> =
        columns.iter().map(|&at| data.reserved.get(at).copied().unwrap_or_default()).collect();
    pen.line(&stairs(&reserved, top, false), 1, "1.5", "");
    pen.line(&format!("M{LEFT} {BOTTOM}h{PLOT_WIDTH}"), 1, "1", "opacity=\"0.5\"");
}

/// A staircase with a stair per column, from the left or from the right.
fn stairs(heights: &[Bytes], top: Bytes, backwards: bool) -> String {
    let end = LEFT + heights.len();
    let mut path = String::new();
    let mut last = None;
    let mut stair = |(x, corner, bytes): (usize, usize, Bytes)| {
        let y = height_of(bytes, top);
        match last {
            None => write!(path, "M{x} {y}").ok(),
            Some(known) if known == y => None,
            Some(_) => write!(path, "H{corner}V{y}").ok(),
        };
        last = Some(y);
    };
    if backwards {
        let stairs = heights.iter().enumerate().rev();
        stairs.for_each(|(n, &bytes)| stair((end, LEFT + n + 1, bytes)));
        write!(path, "H{LEFT}").ok();
    } else {
        let stairs = heights.iter().enumerate();
        stairs.for_each(|(n, &bytes)| stair((LEFT, LEFT + n, bytes)));
        write!(path, "H{end}").ok();
    }
    path
}

fn peak(pen: &mut Pen<'_>, report: &Report, span: Span, top: Bytes) {
    if !span.contains(report.peak.event) {
        return;
    }
    let x = LEFT + scaled((report.peak.event - span.begin) as u64, span.len() as u64, PLOT_WIDTH);
    let y = height_of(report.peak.requested, top);
    pen.path(
        &format!("M{} {y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4),
        pen.colour(1),
        &format!("stroke=\"{}\" stroke-width=\"2\"", escaped(pen.colour(0))),
    );
    let (x, anchor) = if x > LEFT + PLOT_WIDTH / 2 { (x - 10, "end") } else { (x + 10, "start") };
    let label = report.peak.allocated.to_string();
    pen.text((x, y - 8), 13, &format!("font-weight=\"600\" text-anchor=\"{anchor}\""), &label);
}

fn phases(pen: &mut Pen<'_>, data: &Timeline, span: Span, names: &[String]) {
    for band in bands(data, span) {
        let begin = LEFT + pixels(band.left);
        let width = pixels(band.left + band.width) + LEFT - begin;
        let grid = pen.colour(2);
        let (top, wide) = (BOTTOM + 6, width.max(2) - 1);
        pen.path(&format!("M{begin} {top}h{wide}v22h-{wide}z"), grid, "");
        let name = names.get(order(band.phase)).map_or("", String::as_str);
        if name.chars().count() * 8 < width {
            let at = (begin + width / 2, BOTTOM + 21);
            pen.text(at, 13, "text-anchor=\"middle\"", name);
        }
    }
}

/// Position of a phase in their order.
const fn order(phase: highwater_core::trace::Phase) -> usize {
    use highwater_core::trace::Phase;
    match phase {
        Phase::Setup => 0,
        Phase::ZeroGrad => 1,
        Phase::Forward => 2,
        Phase::Backward => 3,
        Phase::Optimizer => 4,
    }
}

fn legend(pen: &mut Pen<'_>, around: Around<'_>) {
    let lines = 1 + usize::from(around.beside.is_some());
    let layers = around.legend.len().saturating_sub(lines);
    for (n, name) in around.legend.iter().enumerate() {
        let (x, y) = (LEFT + n % ABREAST * ENTRY, BOTTOM + 60 + n / ABREAST * 28);
        if n < layers {
            let colour = pen.colour(layer_colour(around.stack, n, layers));
            pen.path(&format!("M{x} {}h12v12h-12z", y - 11), colour, "");
        } else {
            let colour = if n == layers { 1 } else { ACCENT };
            pen.line(&format!("M{x} {}h12", y - 5), colour, "2", "");
        }
        // A long name ends where the next begins.
        let mut name: String = name.chars().take(ENTRY / 8).collect();
        if name.chars().count() == ENTRY / 8 {
            name.push('…');
        }
        pen.text((x + 20, y), 13, "", &name);
    }
}

/// A title in lines that fit; two at most.
fn lines(title: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in title.split_inclusive(' ') {
        let full = lines.last().is_some_and(|line| line.chars().count() + word.len() > LINE);
        if full && lines.len() < 2 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines
}

fn height_of(bytes: Bytes, top: Bytes) -> usize {
    BOTTOM - scaled(bytes.min(top).0, top.0.max(1), PLOT_HEIGHT)
}

/// `part / whole` of a length.
fn scaled(part: u64, whole: u64, length: usize) -> usize {
    let product = u128::from(part) * length as u128 / u128::from(whole.max(1));
    usize::try_from(product).unwrap_or(length)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a number of pixels"
)]
fn pixels(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * PLOT_WIDTH as f64) as usize
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staircase_closes_from_either_side() {
        let heights = [Bytes(0), Bytes(5), Bytes(5), Bytes(10)];
        assert_eq!(stairs(&heights, Bytes(10), false), "M88 504H89V304H91V104H92");
        assert_eq!(stairs(&heights, Bytes(10), true), "M92 104H91V304H89V504H88");
        assert_eq!(stairs(&[], Bytes(10), false), "H88");
    }

    #[test]
    fn long_titles_take_two_lines() {
        let lines = lines(&"many words ".repeat(20));
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() <= LINE);
    }
}
