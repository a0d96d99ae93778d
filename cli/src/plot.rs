//! `highwater estimate … --plot`: the timeline in characters. Each category has its own, so that it can be read without
//! colours; where there are colours, edges are drawn in eighths of a character.

use std::fmt::Write as _;
use std::sync::Arc;

use anstyle::{RgbColor, Style};
use highwater_core::Bytes;
use highwater_core::report::Report;
use highwater_core::trace::Category;
use highwater_draw::bands::{Band, bands};
use highwater_draw::palette::{Ink, Palette};
use highwater_draw::scene::{Ground, Limit, Scene, View};
use highwater_draw::timeline::{Curves, Layer};

use crate::screen;
use crate::style::FAINT;

/// COUNT: rows of the picture above its axis.
const ROWS: u64 = 18;
/// COUNT: columns where there is no terminal, and at most.
const USUAL: usize = 80;
const WIDEST: usize = 200;
/// COUNT: columns of the axis on the left.
const AXIS: usize = 11;
/// COUNT: columns of the narrowest picture.
const NARROWEST: usize = 20;
/// COUNT: parts of a character's height.
const EIGHTHS: u64 = 8;
const BLOCKS: [char; 8] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇'];
/// Reserved bytes that no tensor has.
const CACHED: char = '·';

/// The timeline, as wide as the terminal.
pub(crate) fn for_screen(report: &Report) -> String {
    let width = screen::width().unwrap_or(USUAL).min(WIDEST);
    Plot::of(report, width, screen::has_colours()).draw()
}

/// The timeline for a file.
pub(crate) fn for_file(report: &Report) -> String {
    anstream::adapter::strip_str(&Plot::of(report, USUAL, false).draw()).to_string()
}

/// The character of a category where there are no colours.
const fn fill(category: Category) -> char {
    match category {
        Category::Parameter => '█',
        Category::Buffer => 'b',
        Category::OptimizerState => '▓',
        Category::Cache => 'k',
        Category::Input => 'i',
        Category::Gradient => '▒',
        Category::Communication => '~',
        Category::Activation => '░',
        Category::Temporary => '+',
        Category::Workspace => 'w',
    }
}

/// A character, and how it looks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dot {
    letter: char,
    style: Style,
}

const BLANK: Dot = Dot { letter: ' ', style: Style::new() };

/// What is drawn.
struct Plot<'a> {
    report: &'a Report,
    ground: Arc<Ground>,
    scene: Scene,
    /// COUNT: columns of the picture, without the axis.
    width: usize,
    /// Layers from the bottom, with their sizes in each column.
    layers: Vec<Layer>,
    reserved: Vec<Bytes>,
    palette: Palette,
    has_colours: bool,
}

impl<'a> Plot<'a> {
    fn of(report: &'a Report, width: usize, has_colours: bool) -> Self {
        let limits = match report.recorded {
            None => vec![Limit::of(&report.verdict, true)],
            Some(_) => Vec::new(),
        };
        let ground = Arc::new(Ground::of(Arc::new(report.clone()), None, limits));
        let scene = Scene::of(Arc::clone(&ground), View::default());
        let width = width.saturating_sub(AXIS).max(NARROWEST);
        let columns = ground.columns(scene.span, width);
        let reserved = ground.data().reserved.as_slice();
        let reserved = columns.iter().map(|&at| reserved.get(at).copied().unwrap_or_default());
        let (reserved, layers) = (reserved.collect(), Curves::of(&scene, &columns).layers());
        let palette = Palette::light();
        Self { report, ground, scene, width, layers, reserved, palette, has_colours }
    }

    fn draw(&self) -> String {
        let mut rows: Vec<Vec<Dot>> = (0..ROWS)
            .map(|row| (0..self.width).map(|column| self.dot(row, column)).collect())
            .collect();
        let above = self.limit(&mut rows);
        self.peak(&mut rows);
        let mut text = above;
        for (row, dots) in rows.iter().enumerate().rev() {
            text += &self.axis(row);
            text += &styled(dots);
            text.push('\n');
        }
        text + &self.phases() + "\n" + &self.legend()
    }

    /// SIZE: at the lower edge of a part of a row.
    fn size(&self, row: u64, eighth: u64) -> Bytes {
        let parts = u128::from(self.ground.top.0) * u128::from(row * EIGHTHS + eighth);
        Bytes(u64::try_from(parts / u128::from(ROWS * EIGHTHS)).unwrap_or(u64::MAX))
    }

    /// The row in which a size is.
    fn row(&self, size: Bytes) -> usize {
        let row = u128::from(size.0) * u128::from(ROWS) / u128::from(self.ground.top.0.max(1));
        usize::try_from(row.min(u128::from(ROWS - 1))).unwrap_or_default()
    }

    /// The layer at a size of a column; `None` above all of them.
    fn layer(&self, column: usize, size: Bytes) -> Option<Ink> {
        let mut below = Bytes::ZERO;
        self.layers.iter().find_map(|layer| {
            below += layer.sizes.get(column).copied().unwrap_or_default();
            (size < below).then_some(layer.ink)
        })
    }

    fn dot(&self, row: u64, column: usize) -> Dot {
        let middle = self.size(row, EIGHTHS / 2);
        let reserved = self.reserved.get(column).copied().unwrap_or_default();
        let free = if middle < reserved { Dot { letter: CACHED, style: FAINT } } else { BLANK };
        if !self.has_colours {
            let layer = self.layer(column, middle);
            return layer.map_or(free, |ink| Dot { letter: letter(ink), style: Style::new() });
        }
        let parts: Vec<_> =
            (0..EIGHTHS).map(|eighth| self.layer(column, self.size(row, eighth))).collect();
        let Some(lowest) = parts.first().copied().flatten() else { return free };
        let count = parts.iter().take_while(|part| **part == Some(lowest)).count();
        let style = Style::new().fg_color(Some(self.colour(lowest).into()));
        let Some(&letter) = BLOCKS.get(count) else { return Dot { letter: '█', style } };
        // Of several layers in one character the highest counts, next to the lowest.
        let above = parts.iter().rev().find_map(|part| *part).filter(|ink| *ink != lowest);
        let style = style.bg_color(above.map(|ink| self.colour(ink).into()));
        Dot { letter, style }
    }

    fn colour(&self, ink: Ink) -> RgbColor {
        let colour = self.palette.get(ink);
        RgbColor(colour.0, colour.1, colour.2)
    }

    /// Draws what the GPU leaves to PyTorch; the line of text above the picture where that is far above.
    fn limit(&self, rows: &mut [Vec<Dot>]) -> String {
        let Some(limit) = self.ground.limits.first() else { return String::new() };
        let what = format!("{} leaves {} to PyTorch", limit.name, limit.bytes.short());
        if limit.bytes > self.ground.top {
            return format!("{}{FAINT}▲ {what}{FAINT:#}\n", " ".repeat(AXIS));
        }
        if let Some(dots) = rows.get_mut(self.row(limit.bytes)) {
            dots.fill(Dot { letter: '─', style: Style::new() });
            let text = format!(" {what} ");
            let begin = self.width.saturating_sub(text.chars().count() + 2);
            put(dots, begin, &text, Style::new());
        }
        String::new()
    }

    /// Marks the peak above its column.
    fn peak(&self, rows: &mut [Vec<Dot>]) {
        let peak = &self.report.peak;
        let data = self.ground.data();
        let span = self.scene.span;
        let mut reached = data.event.iter().zip(&data.allocated);
        let event = if span.contains(peak.event) {
            Some(peak.event)
        } else {
            reached
                .find(|(event, bytes)| span.contains(**event) && **bytes == peak.allocated)
                .map(|(event, _)| *event)
        };
        let Some(event) = event else { return };
        let column = place(span.middle(event), self.width).min(self.width - 1);
        let Some(dots) = rows.get_mut(self.row(peak.requested) + 1) else { return };
        let size = peak.allocated.short();
        let (text, begin) = if column * 5 > self.width * 3 {
            let text = format!("{size} ▼");
            let length = text.chars().count();
            (text, (column + 1).saturating_sub(length))
        } else {
            (format!("▼ {size}"), column)
        };
        put(dots, begin, &text, Style::new().bold());
    }

    /// The axis in front of a row.
    fn axis(&self, row: usize) -> String {
        let ticks = &self.ground.ticks;
        let tick = ticks.at.iter().position(|&size| self.row(size) == row && size.0 > 0);
        let label = tick.map(|at| format!("{} {}", ticks.label(at), ticks.unit.name()));
        let (label, edge) = label.map_or((String::new(), '│'), |label| (label, '┤'));
        format!("{label:>width$} {edge}", width = AXIS - 2)
    }

    /// The axis below the picture, the phases, and the iterations.
    fn phases(&self) -> String {
        let bands = bands(self.ground.data(), self.scene.span);
        let mut line = vec!['─'; self.width];
        let mut names = vec![BLANK; self.width];
        let mut iterations = vec![BLANK; self.width];
        for band in &bands {
            let (begin, end) = self.columns(band);
            if let Some(dot) = line.get_mut(begin).filter(|_| begin > 0) {
                *dot = '┬';
            }
            label(&mut names, begin, end, &[band.phase.heading(), band.phase.short()]);
        }
        for same in bands.chunk_by(|one, next| one.iteration == next.iteration) {
            let (Some(first), Some(last)) = (same.first(), same.last()) else { continue };
            let whole = format!("iteration {}", first.iteration);
            let number = first.iteration.to_string();
            if first.iteration > 0 {
                label(
                    &mut iterations,
                    self.columns(first).0,
                    self.columns(last).1,
                    &[&whole, &number],
                );
            }
        }
        let line: String = line.into_iter().collect();
        let before = " ".repeat(AXIS);
        let [names, iterations] = [names, iterations].map(|dots| styled(&dots));
        let zero = format!("{:>width$} └", 0, width = AXIS - 2);
        format!("{zero}{line}\n{before}{names}\n{before}{iterations}\n")
    }

    /// The columns of a phase: the first, and the one behind the last.
    fn columns(&self, band: &Band) -> (usize, usize) {
        (place(band.left, self.width), place(band.left + band.width, self.width))
    }

    /// What the characters stand for, with the sizes at the peak; as wide as the picture.
    fn legend(&self) -> String {
        let at_peak = &self.report.at_peak;
        let is_drawn = |category: Category| {
            let ink = Ink::Category(category);
            let layer = self.layers.iter().find(|layer| layer.ink == ink);
            layer.is_some_and(|layer| layer.sizes.iter().any(|size| *size > Bytes::ZERO))
        };
        let mut entries: Vec<(Dot, String)> = Vec::new();
        for category in Category::ALL.into_iter().filter(|category| is_drawn(*category)) {
            let ink = Ink::Category(category);
            let colour = self.has_colours.then(|| self.colour(ink).into());
            let letter = if self.has_colours { '█' } else { letter(ink) };
            let name = format!("{} {}", category.label(), at_peak.get(category).short());
            entries.push((Dot { letter, style: Style::new().fg_color(colour) }, name));
        }
        let cached = self.report.peak.reserved - self.report.peak.allocated;
        let cached = format!("reserved, not allocated {}", cached.short());
        entries.push((Dot { letter: CACHED, style: FAINT }, cached));
        let wide = entries.iter().map(|(_, name)| name.chars().count() + 4).max().unwrap_or(1);
        let abreast = ((self.width + AXIS - 2) / wide).max(1);
        let mut text = format!("  At the peak of {}:\n", self.report.peak.allocated.short());
        for row in entries.chunks(abreast) {
            text.push(' ');
            for (dot, name) in row {
                let pad = " ".repeat(wide.saturating_sub(name.chars().count() + 4));
                let style = dot.style;
                // Writing to a string does not fail.
                write!(text, " {style}{}{style:#} {name}{pad} ", dot.letter).ok();
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

fn letter(ink: Ink) -> char {
    match ink {
        Ink::Category(category) => fill(category),
        _ => '#',
    }
}

/// The column at a share of the width.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "columns of a terminal"
)]
fn place(share: f64, width: usize) -> usize {
    (share.clamp(0.0, 1.0) * width as f64).round() as usize
}

/// Writes a text into a row.
fn put(dots: &mut [Dot], begin: usize, text: &str, style: Style) {
    for (dot, letter) in dots.iter_mut().skip(begin).zip(text.chars()) {
        *dot = Dot { letter, style };
    }
}

/// Writes the first of some texts that is short enough into the middle of a place; else none.
fn label(dots: &mut [Dot], begin: usize, end: usize, texts: &[&str]) {
    let room = end.saturating_sub(begin);
    let fits = |text: &&&str| !text.is_empty() && text.chars().count() <= room;
    if let Some(text) = texts.iter().find(fits) {
        let before = (room - text.chars().count()) / 2;
        put(dots, begin + before, text, Style::new());
    }
}

/// A row of characters, with a style for each run of equal ones.
fn styled(dots: &[Dot]) -> String {
    let end = dots.iter().rposition(|dot| *dot != BLANK).map_or(0, |last| last + 1);
    let runs = dots.iter().take(end).copied().collect::<Vec<_>>();
    let runs = runs.chunk_by(|one, next| one.style == next.style);
    let text = runs.map(|run| {
        let style = run.first().map_or(Style::new(), |dot| dot.style);
        let letters: String = run.iter().map(|dot| dot.letter).collect();
        format!("{style}{letters}{style:#}")
    });
    text.collect()
}
