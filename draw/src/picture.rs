//! The timeline as a picture of its own: title, axis, stack, phases and legend.

use highwater_core::Bytes;
use highwater_core::export::Answer;
use highwater_core::report::{Report, Timeline};
use highwater_core::trace::Phase;
use plotters::prelude::{Color as _, DrawingBackend, SVGBackend};
use serde::{Deserialize, Serialize};

use crate::bands::bands;
use crate::columns::columns;
use crate::labels::{Label, Mark, Room, labels};
use crate::palette::{Ink, Palette};
use crate::pen::{Area, Drawn, HPos, Pen, Text, whole};
use crate::pyramid::Pyramid;
use crate::span::Span;
use crate::stack::Stack;
use crate::ticks::ticks;
use crate::timeline::{Curves, height_of};

/// Pixels of the picture: width and height.
pub const SIZE: (u32, u32) = (1200, 640);

/// Where the stack is.
const PLOT: Area = Area { left: 88, top: 104, width: 1080, height: 400 };
/// COUNT: letters of the title that fit on a line.
const LINE: usize = 112;
/// COUNT: lines across the picture, at most.
const TICKS: u64 = 6;
/// Entries of the legend beside each other, and the room for each.
const ABREAST: i32 = 5;
const ENTRY: i32 = PLOT.width / ABREAST;

/// What is said around the picture, and how it is stacked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Words {
    /// The sentence above it.
    pub title: String,
    /// Names of the layers in the order of the stack, then of the reserved bytes, then of the other run
    /// where there is one.
    pub legend: Vec<String>,
    /// Names of the phases, in their order.
    pub phases: Vec<String>,
    /// Iteration shown; `None` for all.
    pub iteration: Option<usize>,
    /// What the layers are.
    pub stack: Stack,
    /// Another run on the same axes.
    pub compared: Option<Timeline>,
}

/// The picture as an SVG.
pub fn svg(answer: &Answer, words: &Words, palette: &Palette) -> String {
    let mut text = String::new();
    let mut backend = SVGBackend::with_string(&mut text, SIZE);
    // Writing to a string does not fail; a picture that did is cut off where it failed.
    let drawn = draw(&mut Pen::svg(&mut backend, palette), answer, words);
    drop((drawn, backend));
    text
}

/// Draws the picture on a surface of [`SIZE`].
///
/// # Errors
/// The backend cannot draw.
pub fn draw<B: DrawingBackend>(pen: &mut Pen<'_, B>, answer: &Answer, words: &Words) -> Drawn<B> {
    let report = &answer.report;
    let data = &report.timeline;
    let span = Span::of(data, words.iteration);
    let other = words.compared.as_ref().and_then(|other| other.allocated.iter().copied().max());
    let highest = data.reserved.iter().copied().max().max(other).unwrap_or_default();
    let top = Bytes(highest.max(report.peak.allocated).0 / 100 * 112).max(Bytes(1));
    let whole = Area { width: 1200, height: 640, ..Area::default() };
    pen.bars([whole], pen.colour(Ink::Ground))?;
    let mut y = 30;
    for line in lines(&words.title) {
        let style = Text { size: 18, bold: true, ..Text::LABEL };
        pen.text(line.trim_end(), (24, y), HPos::Left, style)?;
        y += 24;
    }
    pen.text(&about(answer), (24, y + 1), HPos::Left, Text { strength: 0.7, ..Text::LABEL })?;
    axis_and_stack(pen, report, words, span, top)?;
    peak(pen, report, span, top)?;
    phases(pen, data, span, &words.phases)?;
    legend(pen, words)
}

/// The settings, and what the device has.
fn about(answer: &Answer) -> String {
    let config = &answer.report.config;
    let mut about = answer.name.clone();
    if answer.report.recorded.is_none() {
        for (name, size) in &config.dims {
            about = format!("{about}, {name} = {size}");
        }
        about = format!("{about}, {}, {}", config.optimizer.label(), config.precision.label());
        for (name, value) in config.unusual() {
            about = format!("{about}, {name} {value}");
        }
    }
    let device = &answer.report.verdict;
    format!("{about}; {}: {}", device.name, device.capacity - device.context)
}

fn axis_and_stack<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    report: &Report,
    words: &Words,
    span: Span,
    top: Bytes,
) -> Drawn<B> {
    let data = &report.timeline;
    let ticks = ticks(top, TICKS);
    for (n, &at) in ticks.at.iter().enumerate() {
        let unit = if n + 1 == ticks.at.len() { ticks.unit.name() } else { "" };
        let label = format!("{} {unit}", ticks.label(n));
        let place = (PLOT.left - 8, height_of(PLOT, at, top));
        pen.text(label.trim(), place, HPos::Right, Text::LABEL)?;
    }
    let width = usize::try_from(PLOT.width).unwrap_or(0);
    let columns = columns(data, &Pyramid::of(&data.allocated), span, width);
    let curves = Curves {
        data,
        columns: &columns,
        stack: words.stack,
        top,
        ticks: &ticks.at,
        compared: words.compared.as_ref(),
        limit: None,
    };
    curves.draw(pen, PLOT)?;
    let em = f64::from(Text::LABEL.size);
    let taken = Mark::of(report, span, top, PLOT).map(|mark| mark.taken(em));
    let mut room = Room { area: PLOT, em, taken: taken.into_iter().collect() };
    for Label { text, at, on } in labels(&curves, &words.legend, &mut room) {
        let style = Text { on: Some(on), ..Text::LABEL };
        pen.text(&text, at, HPos::Center, style)?;
    }
    pen.bars([PLOT.across(PLOT.bottom(), 1)], pen.colour(Ink::Text).mix(0.5))
}

fn peak<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    report: &Report,
    span: Span,
    top: Bytes,
) -> Drawn<B> {
    let Some(mark) = Mark::of(report, span, top, PLOT) else { return Ok(()) };
    pen.dot(mark.at, 5, pen.colour(Ink::Ground))?;
    pen.dot(mark.at, 4, pen.colour(Ink::Text))?;
    let (aside, side) = if mark.is_left { (-10, HPos::Right) } else { (10, HPos::Left) };
    let (x, y) = mark.at;
    pen.text(&mark.text(), (x + aside, y - 12), side, Text { bold: true, ..Text::LABEL })
}

fn phases<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    data: &Timeline,
    span: Span,
    names: &[String],
) -> Drawn<B> {
    let place = |left: f64, width: f64| {
        let begin = PLOT.left + pixels(left);
        let width = pixels(left + width) + PLOT.left - begin;
        Area { left: begin, top: PLOT.bottom() + 6, width: (width - 1).max(1), height: 22 }
    };
    let bands = bands(data, span);
    let areas: Vec<Area> = bands.iter().map(|band| place(band.left, band.width)).collect();
    pen.bars(areas.iter().copied(), pen.colour(Ink::Grid))?;
    for (band, area) in bands.iter().zip(areas) {
        let name = names.get(order(band.phase)).map_or("", String::as_str);
        if letters(name) * 8 <= area.width {
            let middle = (area.left + area.width / 2, area.top + area.height / 2);
            pen.text(name, middle, HPos::Center, Text::LABEL)?;
        }
    }
    Ok(())
}

/// Position of a phase in their order.
const fn order(phase: Phase) -> usize {
    match phase {
        Phase::Setup => 0,
        Phase::ZeroGrad => 1,
        Phase::Forward => 2,
        Phase::Backward => 3,
        Phase::Optimizer => 4,
    }
}

fn legend<B: DrawingBackend>(pen: &mut Pen<'_, B>, words: &Words) -> Drawn<B> {
    let lines = 1 + usize::from(words.compared.is_some());
    let layers = words.legend.len().saturating_sub(lines);
    for ((n, name), place) in words.legend.iter().enumerate().zip(0..) {
        let left = PLOT.left + place % ABREAST * ENTRY;
        let y = PLOT.bottom() + 55 + place / ABREAST * 28;
        let (ink, thick) = match n.checked_sub(layers) {
            None => (Ink::of_layer(words.stack, n, layers), 12),
            Some(0) => (Ink::Text, 2),
            Some(_) => (Ink::Accent, 2),
        };
        let sign = Area { left, top: y - thick / 2, width: 12, height: thick };
        pen.bars([sign], pen.colour(ink))?;
        // A long name ends where the next begins.
        let room = usize::try_from(ENTRY / 8).unwrap_or(0);
        let mut shown: String = name.chars().take(room).collect();
        if shown.chars().count() == room {
            shown.push('…');
        }
        pen.text(&shown, (left + 20, y), HPos::Left, Text::LABEL)?;
    }
    Ok(())
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

/// COUNT: letters of a text.
fn letters(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 8)
}

/// Pixels of the plot's width.
fn pixels(share: f64) -> i32 {
    whole(share.clamp(0.0, 1.0) * f64::from(PLOT.width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::Config;

    #[test]
    fn a_small_model_has_its_picture() {
        let mut spec = "input: [N, 64]\nlayers: [{linear: 256}, relu, {linear: 10}]\n".as_bytes();
        let model = highwater_core::open(&mut spec, "mlp.yaml").expect("it is a spec");
        let report = model.estimate(&Config::default()).expect("it is estimated");
        let owners = report.timeline.owners.iter().map(|owner| owner.module.clone());
        let rest = ["all others", "reserved", "kept"].map(str::to_owned);
        let words = Words {
            title: "Peaks <here>".to_owned(),
            legend: owners.chain(rest).collect(),
            phases: ["set-up", "zero", "forward", "backward", "step"].map(str::to_owned).into(),
            iteration: Some(1),
            stack: Stack::Module,
            compared: Some(report.timeline.clone()),
        };
        let name = "mlp.yaml".to_owned();
        let answer = Answer { name, batch: None, report, devices: Vec::new() };
        let picture = svg(&answer, &words, &Palette::light());
        expect_test::expect_file!["../tests/mlp.svg"].assert_eq(&picture);
    }

    #[test]
    fn long_titles_take_two_lines() {
        let lines = lines(&"many words ".repeat(20));
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() <= LINE);
    }
}
