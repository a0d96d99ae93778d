//! The timeline as a complete picture: title, settings, GPUs, axis, stack, phases and legend.

use highwater_core::Bytes;
use highwater_core::device::{USUAL, Verdict};
use highwater_core::export::{Answer, DeviceAnswer};
use highwater_core::order::InOrder as _;
use highwater_core::report::{Report, Timeline};
use highwater_core::trace::Phase;
use plotters::prelude::{Color as _, DrawingBackend, SVGBackend};
use serde::{Deserialize, Serialize};

use crate::bands::bands;
use crate::blocks;
use crate::columns::columns;
use crate::float;
use crate::hatch::stripes;
use crate::labels::{Face, Label, Mark, Room, kept_label, labels, limit_labels, width};
use crate::palette::{Ink, Palette};
use crate::pen::{Area, Drawn, HPos, Pen, Point, Text, whole};
use crate::pyramid::Pyramid;
use crate::scene::{Limit, Part, top};
use crate::span::Span;
use crate::stack::Stack;
use crate::ticks::ticks;
use crate::timeline::{Curves, height_of};

/// Pixels of the picture: width and height.
pub const SIZE: (u32, u32) = (1200, 720);

/// The picture, and its margin.
const WHOLE: Area = Area { left: 0, top: 0, width: 1200, height: 720 };
const MARGIN: i32 = 32;
/// Where the stack begins and ends from the left, and where it ends.
const LEFT: i32 = 88;
const BOTTOM: i32 = 596;
/// COUNT: letters of the title that fit on a line.
const LINE: usize = 92;
/// COUNT: lines across the picture, at most.
const TICKS: u64 = 6;
/// Entries of the legend in a row, and the room for each.
const ABREAST: i32 = 5;
const ENTRY: i32 = (WHOLE.width - MARGIN - LEFT) / ABREAST;
/// Pixels of a GPU's box from above, and between two.
const CARD: i32 = 98;
const GAP: i32 = 12;
/// The name of the site.
const SITE: &str = "Highwater";

/// What stands around the picture, and how it is stacked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Words {
    /// The sentence above it.
    pub title: String,
    /// How some GPUs cope: at most six.
    pub gpus: Vec<Gpu>,
    /// Names of the layers in the order of the stack, then of the reserved bytes, then of those that no
    /// tensor has, then of the other run where there is one.
    pub legend: Vec<String>,
    /// Lines across the picture, each with its name.
    pub limits: Vec<(Limit, String)>,
    /// Names of the phases, in their order.
    pub phases: Vec<String>,
    /// What is shown of the run.
    pub part: Part,
    /// What the layers are.
    pub stack: Stack,
    /// Another run on the same axes.
    pub compared: Option<Timeline>,
}

/// How a run ends on one GPU, in words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Gpu {
    /// Its name.
    pub name: String,
    /// What the process needs there.
    pub need: Bytes,
    /// What it may use.
    pub usable: Bytes,
    /// Whether it is sure that the run survives or fails there.
    pub verdict: Verdict,
    /// The verdict with its sign: `✓ fits`.
    pub word: String,
    /// The needed and the usable memory: `12.1 of 14.6 GiB`.
    pub amounts: String,
    /// The largest batch: `largest batch 154`; empty where that is not known.
    pub batch: String,
    /// Whether the run is estimated for it.
    pub is_chosen: bool,
}

/// The GPUs of an answer that its picture shows, in the order of the page's cards: the usual ones, and behind
/// them the chosen one, or else the user's own.
pub fn shown_gpus<'a>(
    answer: &'a Answer,
    mine: Option<&'a str>,
) -> impl Iterator<Item = &'a DeviceAnswer> {
    let chosen = Some(answer.report.verdict.id.as_str());
    let is_other = |id: &&str| !USUAL.contains(id);
    let last = chosen.filter(is_other).or_else(|| mine.filter(is_other));
    let known = |id| answer.devices.iter().find(move |device| device.verdict.id == id);
    USUAL.into_iter().chain(last).filter_map(known)
}

/// The limits of these GPUs, each with the text that `say` returns for it.
pub fn limits(answer: &Answer, say: impl Fn(&Limit) -> String) -> Vec<(Limit, String)> {
    let chosen = &answer.report.verdict;
    let others =
        shown_gpus(answer, None).map(|device| &device.verdict).filter(|it| it.id != chosen.id);
    let limits = others.map(|device| Limit::of(device, false));
    let all = limits.chain([Limit::of(chosen, true)]);
    all.map(|limit| (limit.clone(), say(&limit))).collect()
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
    let span = Span::of_part(data, words.part);
    let other = words.compared.as_ref().and_then(|other| other.allocated.iter().copied().max());
    let limits: Vec<Limit> = words.limits.iter().map(|(limit, _)| limit.clone()).collect();
    let top = top(report, other, &limits);
    pen.bars([WHOLE], pen.colour(Ink::Ground))?;
    let corner = (WHOLE.right() - MARGIN, MARGIN + 4);
    pen.text(
        SITE,
        corner,
        HPos::Right,
        Text { size: 16, bold: true, ink: Ink::Accent, ..Text::LABEL },
    )?;
    let mut y = MARGIN + 4;
    for line in lines(&words.title) {
        let style = Text { size: 20, bold: true, ..Text::LABEL };
        pen.text(line.trim_end(), (MARGIN, y), HPos::Left, style)?;
        y += 26;
    }
    pen.text(&about(answer), (MARGIN, y), HPos::Left, Text { ink: Ink::Soft, ..Text::LABEL })?;
    y += 20;
    if !words.gpus.is_empty() {
        gpus(pen, &words.gpus, y)?;
        y += CARD + GAP;
    }
    let y = y + GAP;
    let plot = Area { left: LEFT, top: y, width: WHOLE.width - MARGIN - LEFT, height: BOTTOM - y };
    axis_and_stack(pen, report, words, (span, top), plot)?;
    peak(pen, report, (span, top), plot)?;
    phases(pen, data, span, &words.phases, plot)?;
    legend(pen, words, plot)
}

/// A box for each GPU: its name, a bar of the need in what is usable, the verdict, the largest batch.
fn gpus<B: DrawingBackend>(pen: &mut Pen<'_, B>, gpus: &[Gpu], top: i32) -> Drawn<B> {
    let count = i32::try_from(gpus.len()).unwrap_or(1).max(1);
    let wide = (WHOLE.width - 2 * MARGIN - (count - 1) * GAP) / count;
    for (gpu, place) in gpus.iter().zip(0..) {
        let left = MARGIN + place * (wide + GAP);
        let card = Area { left, top, width: wide, height: CARD };
        let (edge, thick) = if gpu.is_chosen { (Ink::Accent, 2) } else { (Ink::Grid, 1) };
        pen.bars(card.frame(thick), pen.colour(edge))?;
        let ink = Ink::of_verdict(gpu.verdict);
        let (inner, right) = (left + 10, card.right() - 10);
        let room = right - inner;
        let name = Text { bold: true, ..Text::LABEL };
        pen.text(&fitting(&gpu.name, room), (inner, top + 16), HPos::Left, name)?;
        let bar = Area { left: inner, top: top + 28, width: room, height: 7 };
        pen.bars([bar], pen.colour(Ink::Sunken))?;
        let share = (float(gpu.need) / float(gpu.usable).max(1.0)).min(1.0);
        let filled = Area { width: whole(share * f64::from(room)), ..bar };
        pen.bars([filled], pen.colour(ink))?;
        let small = Text { size: 12, ..Text::LABEL };
        let verdict = Text { ink, bold: true, ..small };
        pen.text(&fitting(&gpu.word, room), (inner, top + 47), HPos::Left, verdict)?;
        let soft = Text { ink: Ink::Soft, ..small };
        pen.text(&gpu.amounts, (inner, top + 65), HPos::Left, small)?;
        pen.text(&gpu.batch, (inner, top + 83), HPos::Left, soft)?;
    }
    Ok(())
}

/// A text that ends where its room does.
fn fitting(text: &str, room: i32) -> String {
    if width(text, 13.0) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for letter in text.chars() {
        let longer = [short.as_str(), letter.encode_utf8(&mut [0; 4]), "\u{2026}"].concat();
        if width(&longer, 13.0) > room {
            break;
        }
        short.push(letter);
    }
    short.push('\u{2026}');
    short
}

/// The settings, and the device.
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
    format!("{about}, {}", answer.report.verdict.name)
}

fn axis_and_stack<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    report: &Report,
    words: &Words,
    (span, top): (Span, Bytes),
    plot: Area,
) -> Drawn<B> {
    let data = &report.timeline;
    let ticks = ticks(top, TICKS);
    for (n, &at) in ticks.at.iter().enumerate() {
        let unit = if n + 1 == ticks.at.len() { ticks.unit.name() } else { "" };
        let label = format!("{} {unit}", ticks.label(n));
        let place = (plot.left - 8, height_of(plot, at, top));
        pen.text(label.trim(), place, HPos::Right, Text::LABEL)?;
    }
    let width = usize::try_from(plot.width).unwrap_or(0);
    let columns = columns(data, &Pyramid::of(&data.allocated), span, width);
    let limits: Vec<Limit> = words.limits.iter().map(|(limit, _)| limit.clone()).collect();
    let curves = Curves {
        data,
        columns: &columns,
        stack: words.stack,
        top,
        ticks: &ticks.at,
        compared: words.compared.as_ref(),
        limits: &limits,
        tensors: blocks::shown(report, span, words.stack),
    };
    curves.draw(pen, plot)?;
    let em = f64::from(Text::LABEL.size);
    let taken = Mark::of(report, span, top, plot).map(|mark| mark.taken(em));
    let mut room = Room { area: plot, em, taken: taken.into_iter().collect() };
    let say = |limit: &Limit| {
        let found = words.limits.iter().find(|(known, _)| known == limit);
        found.map_or_else(String::new, |(_, text)| text.clone())
    };
    let mut sorted = limits.clone();
    sorted.order_by_key(|limit| limit.bytes);
    let mut placed = limit_labels(&sorted, top, &say, &mut room);
    let kept = words.legend.last().filter(|_| words.compared.is_some());
    placed.extend(kept.and_then(|name| kept_label(&curves, name, &mut room)));
    placed.extend(labels(&curves, &words.legend, &mut room));
    for Label { text, at, face } in placed {
        let style = match face {
            Face::On(ink) => Text { on: Some(ink), ..Text::LABEL },
            Face::Chosen => Text { ink: Ink::Fails, ..Text::LABEL },
            Face::Other => Text { ink: Ink::Soft, ..Text::LABEL },
            Face::Kept => Text { ink: Ink::Accent, ..Text::LABEL },
        };
        // The names of lines may lie on the stack.
        if !matches!(face, Face::On(_)) {
            behind(pen, &text, at, em)?;
        }
        pen.text(&text, at, HPos::Center, style)?;
    }
    pen.bars([plot.across(plot.bottom(), 1)], pen.colour(Ink::Text).mix(0.5))
}

fn peak<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    report: &Report,
    (span, top): (Span, Bytes),
    plot: Area,
) -> Drawn<B> {
    let Some(mark) = Mark::of(report, span, top, plot) else { return Ok(()) };
    pen.dot(mark.at, 5, pen.colour(Ink::Ground))?;
    pen.dot(mark.at, 4, pen.colour(Ink::Text))?;
    let (aside, side) = if mark.is_left { (-10, HPos::Right) } else { (10, HPos::Left) };
    let (x, y) = mark.at;
    let text = mark.text();
    // The line of the reserved bytes is often as high.
    let em = f64::from(Text::LABEL.size);
    let half = width(&text, em) / 2;
    let middle = if mark.is_left { x + aside - half } else { x + aside + half };
    behind(pen, &text, (middle, y - 12), em)?;
    pen.text(&text, (x + aside, y - 12), side, Text { bold: true, ..Text::LABEL })
}

/// Sets a text off from what it lies on, around its middle.
fn behind<B: DrawingBackend>(pen: &mut Pen<'_, B>, text: &str, at: Point, em: f64) -> Drawn<B> {
    let wide = width(text, em) + 4;
    let area = Area { left: at.0 - wide / 2, top: at.1 - 9, width: wide, height: 18 };
    pen.bars([area], pen.colour(Ink::Ground).mix(0.85))
}

fn phases<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    data: &Timeline,
    span: Span,
    names: &[String],
    plot: Area,
) -> Drawn<B> {
    let place = |left: f64, width: f64| {
        let begin = plot.left + pixels(left, plot);
        let width = pixels(left + width, plot) + plot.left - begin;
        Area { left: begin, top: plot.bottom() + 6, width: (width - 1).max(1), height: 22 }
    };
    let bands = bands(data, span);
    let areas: Vec<Area> = bands.iter().map(|band| place(band.left, band.width)).collect();
    pen.bars(areas.iter().copied(), pen.colour(Ink::Grid))?;
    for (band, area) in bands.iter().zip(areas) {
        let mut named = Phase::ALL.iter().zip(names);
        let name = named.find(|(phase, _)| **phase == band.phase).map_or("", |(_, name)| name);
        if letters(name) * 8 <= area.width {
            let middle = (area.left + area.width / 2, area.top + area.height / 2);
            pen.text(name, middle, HPos::Center, Text::LABEL)?;
        }
    }
    Ok(())
}

fn legend<B: DrawingBackend>(pen: &mut Pen<'_, B>, words: &Words, plot: Area) -> Drawn<B> {
    let lines = 2 + usize::from(words.compared.is_some());
    let layers = words.legend.len().saturating_sub(lines);
    for ((n, name), place) in words.legend.iter().enumerate().zip(0..) {
        let left = plot.left + place % ABREAST * ENTRY;
        let y = plot.bottom() + 52 + place / ABREAST * 24;
        let sign = |thick| Area { left, top: y - thick / 2, width: 12, height: thick };
        match n.checked_sub(layers) {
            None => {
                pen.bars([sign(12)], pen.colour(Ink::of_layer(words.stack, n, layers)))?;
            }
            Some(0) => pen.bars([sign(2)], pen.colour(Ink::Text))?,
            Some(1) => {
                let area = sign(12);
                let stripes = stripes(left, &[area.top; 12], &[area.bottom(); 12], 4, 1);
                pen.fill(stripes, pen.colour(Ink::Edge))?;
                pen.bars(area.frame(1), pen.colour(Ink::Edge))?;
            }
            Some(_) => pen.bars([sign(2)], pen.colour(Ink::Accent))?,
        }
        pen.text(&fitting(name, ENTRY - 24), (left + 20, y), HPos::Left, Text::LABEL)?;
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
fn pixels(share: f64, plot: Area) -> i32 {
    whole(share.clamp(0.0, 1.0) * f64::from(plot.width))
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
        let rest = ["all others", "reserved", "cached", "kept"].map(str::to_owned);
        let words = Words {
            title: "Peaks <here>".to_owned(),
            legend: owners.chain(rest).collect(),
            phases: ["set-up", "zero", "forward", "backward", "step"].map(str::to_owned).into(),
            part: Part::Iteration(1),
            gpus: vec![Gpu {
                name: "A GPU with a name that is far too long for its box in the row".repeat(3),
                need: Bytes::mib(300),
                usable: Bytes::mib(400),
                verdict: Verdict::Fits,
                word: "fits".to_owned(),
                amounts: "300 of 400 MiB".to_owned(),
                batch: "largest batch 7".to_owned(),
                is_chosen: true,
            }],
            limits: vec![(Limit::of(&report.verdict, true), "usable".to_owned())],
            stack: Stack::Module,
            compared: Some(report.timeline.clone()),
        };
        let name = "mlp.yaml".to_owned();
        let (ranks, devices) = (Vec::new(), Vec::new());
        let require = highwater_core::export::Requirement::default();
        let answer = Answer { name, batch: None, report, ranks, recipe: None, devices, require };
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
