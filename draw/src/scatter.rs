//! Estimates of many runs, compared with what was measured, on logarithmic axes.
//!
//! A few estimators have a colour and a name at the right edge; the others are grey. Places are in octaves: doublings
//! of a byte, of a sample, or of a ratio.

use highwater_core::order::InOrder as _;
use std::collections::{BTreeMap, BTreeSet};

use highwater_core::Bytes;
use plotters::prelude::{Color as _, DrawingBackend, SVGBackend};

use crate::float;
use crate::palette::{Ink, Palette};
use crate::pen::{Area, Drawn, HPos, Pen, Point, Text, whole};

/// Pixels of the picture.
const SIZE: (u32, u32) = (960, 600);
const WHOLE: Area = Area { left: 0, top: 0, width: 960, height: 600 };
/// Where the dots are.
const PLOT: Area = Area { left: 84, top: 96, width: 690, height: 436 };
const MARGIN: i32 = 24;
/// Pixels between two names at the right edge, at least.
const LINE: i32 = 19;
/// Octaves of a ratio that are shown, up and down.
const OCTAVES: f64 = 2.0;
/// The ratios of the band around equality.
const BAND: [f64; 2] = [0.8, 1.2];
/// COUNT: runs from which a median is drawn.
const FEWEST: usize = 3;
/// Pixels of the squares of which each has one dot at most.
const GRID: i32 = 5;

/// What the picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chart {
    /// The estimate over the measured need.
    Predicted,
    /// Their ratio over the measured need.
    ErrorByNeed,
    /// Their ratio over the batch.
    ErrorByBatch,
}

/// A run and an estimate of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// COUNT: samples.
    pub batch: u64,
    /// SIZE: what was measured.
    pub measured: Bytes,
    /// SIZE: what was estimated.
    pub estimate: Bytes,
}

/// The estimates of one estimator.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its colour; grey without one.
    pub ink: Option<Ink>,
    /// Its estimates.
    pub dots: Vec<Dot>,
}

impl Dot {
    fn ratio(self) -> f64 {
        octaves(self.estimate) - octaves(self.measured)
    }
}

/// The octave of a size.
fn octaves(bytes: Bytes) -> f64 {
    float(bytes).max(1.0).log2()
}

/// A chart as an SVG.
pub fn svg(chart: Chart, series: &[Series], palette: &Palette) -> String {
    let mut text = String::new();
    let mut backend = SVGBackend::with_string(&mut text, SIZE);
    // Writing to a string does not fail; a picture that did is cut off where it failed.
    let drawn = draw(&mut Pen::svg(&mut backend, palette), chart, series);
    drop((drawn, backend));
    text
}

/// Draws a chart.
///
/// # Errors
/// The backend cannot draw.
pub fn draw<B: DrawingBackend>(pen: &mut Pen<'_, B>, chart: Chart, series: &[Series]) -> Drawn<B> {
    let axes = Axes::of(chart, series);
    pen.bars([WHOLE], pen.colour(Ink::Ground))?;
    let (title, subtitle) = chart.titles();
    let heading = Text { size: 20, bold: true, ..Text::LABEL };
    pen.text(title, (MARGIN, 30), HPos::Left, heading)?;
    let soft = Text { ink: Ink::Soft, ..Text::LABEL };
    pen.text(subtitle, (MARGIN, 56), HPos::Left, soft)?;
    axes.draw(pen)?;
    let (chosen, others): (Vec<&Series>, Vec<&Series>) = series
        .iter()
        .filter(|series| !series.dots.is_empty())
        .partition(|series| series.ink.is_some());
    let grey = axes.places(others.iter().flat_map(|series| &series.dots));
    let squares =
        grey.into_iter().map(|(x, y)| Area { left: x - 1, top: y - 1, width: 2, height: 2 });
    let colour = pen.colour(Ink::Edge).mix(0.3);
    pen.bars(squares, colour)?;
    // The first of the series is drawn last, on top.
    for series in chosen.iter().rev() {
        let colour = pen.colour(series.ink.unwrap_or(Ink::Soft));
        for place in axes.places(&series.dots) {
            pen.dot(place, 2, colour.mix(0.4))?;
        }
    }
    let mut names = Vec::new();
    for series in chosen.iter().rev() {
        let ink = series.ink.unwrap_or(Ink::Soft);
        let line = axes.trend(&series.dots);
        let Some(&(_, end)) = line.last() else { continue };
        names.push((end, series.name.clone(), ink));
        let (colour, ground) = (pen.colour(ink), pen.colour(Ink::Ground));
        pen.line(line.clone(), 5, ground)?;
        pen.line(line, 2, colour)?;
    }
    if !others.is_empty() {
        let name = if others.len() == 1 {
            others[0].name.clone()
        } else {
            format!("{} other estimators", others.len())
        };
        names.push((PLOT.bottom() - 8, name, Ink::Edge));
    }
    for (at, name, ink) in spread(names) {
        let style = Text { ink, bold: ink != Ink::Edge, ..Text::LABEL };
        pen.text(&name, (PLOT.right() + 12, at), HPos::Left, style)?;
    }
    Ok(())
}

impl Chart {
    const fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Predicted => (
                "Estimated and measured memory",
                "A dot is a run. On the black line both are equal; the band is within 20 %. Lines are medians.",
            ),
            Self::ErrorByNeed => (
                "Error by size of the run",
                "A dot is a run. The band is within 20 %. Lines are medians; at an edge they lie beyond it.",
            ),
            Self::ErrorByBatch => (
                "Error by batch",
                "A dot is a run. The band is within 20 %. Lines are medians; at an edge they lie beyond it.",
            ),
        }
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Predicted => ("measured", "estimated"),
            Self::ErrorByNeed => ("measured", "estimated \u{f7} measured"),
            Self::ErrorByBatch => ("batch", "estimated \u{f7} measured"),
        }
    }
}

/// Octaves that the picture shows, from and to.
#[derive(Clone, Copy, Debug)]
struct Axes {
    chart: Chart,
    x: [f64; 2],
    y: [f64; 2],
}

impl Axes {
    fn of(chart: Chart, series: &[Series]) -> Self {
        let mut x = [f64::INFINITY, f64::NEG_INFINITY];
        for dot in series.iter().flat_map(|series| &series.dots) {
            let at = Self::x(chart, *dot);
            x = [x[0].min(at), x[1].max(at)];
        }
        if x[0] > x[1] {
            x = [0.0, 1.0];
        }
        let x = [x[0] - 0.3, x[1] + 0.3];
        // Formulas that count no activations are far below: they stand at the edge.
        let y =
            if chart == Chart::Predicted { [x[0] - 1.5, x[1] + 0.5] } else { [-OCTAVES, OCTAVES] };
        Self { chart, x, y }
    }

    /// Where a run is on the axis, in octaves.
    fn x(chart: Chart, dot: Dot) -> f64 {
        match chart {
            Chart::Predicted | Chart::ErrorByNeed => octaves(dot.measured),
            Chart::ErrorByBatch => octaves(Bytes(dot.batch)),
        }
    }

    fn place(&self, x: f64, y: f64) -> Point {
        let share = |at: f64, [from, to]: [f64; 2]| ((at - from) / (to - from)).clamp(0.0, 1.0);
        let (right, up) = (share(x, self.x), share(y, self.y));
        let width = whole(right * f64::from(PLOT.width));
        (PLOT.left + width, PLOT.bottom() - whole(up * f64::from(PLOT.height)))
    }

    /// How high a dot is, in octaves.
    fn y(&self, dot: Dot) -> f64 {
        if self.chart == Chart::Predicted { octaves(dot.estimate) } else { dot.ratio() }
    }

    /// Places of the dots within the picture; of those that would cover each other, one.
    fn places<'a>(&self, dots: impl IntoIterator<Item = &'a Dot>) -> Vec<Point> {
        let mut taken = BTreeSet::new();
        let [low, high] = self.y;
        let within = dots.into_iter().filter(|dot| (low..=high).contains(&self.y(**dot)));
        let places = within.map(|dot| self.place(Self::x(self.chart, *dot), self.y(*dot)));
        places.filter(|(x, y)| taken.insert((x / GRID, y / GRID))).collect()
    }

    /// Medians of the runs in each octave.
    fn trend(&self, dots: &[Dot]) -> Vec<Point> {
        let mut by_octave: BTreeMap<i32, Vec<Dot>> = BTreeMap::new();
        for dot in dots {
            by_octave.entry(whole(Self::x(self.chart, *dot))).or_default().push(*dot);
        }
        let groups = by_octave.into_values().filter(|group| group.len() >= FEWEST);
        let groups = groups.filter_map(|group| {
            let x = median(group.iter().map(|dot| Self::x(self.chart, *dot)))?;
            Some(self.place(x, median(group.iter().map(|dot| self.y(*dot)))?))
        });
        groups.collect()
    }

    fn draw<B: DrawingBackend>(&self, pen: &mut Pen<'_, B>) -> Drawn<B> {
        let soft = Text { ink: Ink::Soft, ..Text::LABEL };
        self.equality(pen)?;
        for octave in whole(self.x[0].ceil())..=whole(self.x[1].floor()) {
            let (x, _) = self.place(f64::from(octave), 0.0);
            pen.bars([Area { left: x, width: 1, ..PLOT }], pen.colour(Ink::Grid))?;
            let label = Self::label(octave, self.chart != Chart::ErrorByBatch);
            pen.text(&label, (x, PLOT.bottom() + 18), HPos::Center, soft)?;
        }
        let is_size = self.chart == Chart::Predicted;
        for octave in whole(self.y[0].ceil())..=whole(self.y[1].floor()) {
            let (_, y) = self.place(0.0, f64::from(octave));
            pen.bars([PLOT.across(y, 1)], pen.colour(Ink::Grid))?;
            let label = if is_size { Self::label(octave, true) } else { ratio(octave) };
            pen.text(&label, (PLOT.left - 10, y), HPos::Right, soft)?;
        }
        let (below, aside) = self.chart.names();
        let strong = Text { bold: true, ..Text::LABEL };
        pen.text(below, (PLOT.right(), PLOT.bottom() + 42), HPos::Right, strong)?;
        pen.text(aside, (PLOT.left, PLOT.top - 14), HPos::Left, strong)
    }

    /// The band around equality, and the line of it.
    fn equality<B: DrawingBackend>(&self, pen: &mut Pen<'_, B>) -> Drawn<B> {
        let is_size = self.chart == Chart::Predicted;
        let along = |ratio: f64| -> [Point; 2] {
            self.x.map(|x| self.place(x, if is_size { x + ratio } else { ratio }))
        };
        let [low, high] = BAND.map(|ratio| along(ratio.log2()));
        pen.fill(vec![low[0], low[1], high[1], high[0]], pen.colour(Ink::Sunken))?;
        let colour = pen.colour(Ink::Text);
        pen.line(along(0.0).into(), 1, colour)
    }

    fn label(octave: i32, is_size: bool) -> String {
        let power = |octave: i32| 1_u64 << octave.clamp(0, 62);
        match octave {
            _ if !is_size => power(octave).to_string(),
            30.. => format!("{} GiB", power(octave - 30)),
            20.. => format!("{} MiB", power(octave - 20)),
            _ => format!("{} KiB", power(octave - 10)),
        }
    }
}

/// A power of two as a factor.
fn ratio(octave: i32) -> String {
    let power = 1_u64 << octave.unsigned_abs().min(62);
    match octave {
        0 => "equal".to_owned(),
        1.. => format!("{power} \u{d7}"),
        _ => format!("1/{power}"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.order_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Names moved so that they do not touch, within the picture.
fn spread(mut names: Vec<(i32, String, Ink)>) -> Vec<(i32, String, Ink)> {
    names.order_by_key(|(at, ..)| *at);
    let mut least = PLOT.top + LINE / 2;
    for (at, ..) in &mut names {
        *at = (*at).max(least);
        least = *at + LINE;
    }
    let mut most = PLOT.bottom() - 6;
    for (at, ..) in names.iter_mut().rev() {
        *at = (*at).min(most);
        most = *at - LINE;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(batch: u64, measured: u64, estimate: u64) -> Dot {
        Dot { batch, measured: Bytes::mib(measured), estimate: Bytes::mib(estimate) }
    }

    #[test]
    fn names_do_not_touch() {
        let name = |at: i32| (at, String::new(), Ink::Text);
        let places = |ats: &[i32]| -> Vec<i32> {
            spread(ats.iter().map(|at| name(*at)).collect()).iter().map(|(at, ..)| *at).collect()
        };
        assert_eq!(places(&[300, 305, 200]), [200, 300, 319]);
        let bottom = PLOT.bottom() - 6;
        assert_eq!(places(&[900, 900]), [bottom - LINE, bottom]);
        assert_eq!(places(&[-5]), [PLOT.top + LINE / 2]);
    }

    #[test]
    fn medians_are_of_octaves_with_enough_runs() {
        let dots = [dot(8, 1000, 1000), dot(9, 1000, 2000), dot(10, 1000, 4000), dot(64, 1000, 1)];
        let series = [Series { name: "a".to_owned(), ink: Some(Ink::Accent), dots: dots.into() }];
        let axes = Axes::of(Chart::ErrorByBatch, &series);
        assert_eq!(axes.trend(&dots), [axes.place(9_f64.log2(), 1.0)]);
        assert_eq!(axes.places(&[dots[0], dots[0]]).len(), 1);
        assert_eq!(axes.places(&[dots[3]]), [], "it lies below the picture");
    }

    #[test]
    fn what_is_equal_is_on_the_line() {
        let axes = Axes::of(Chart::ErrorByNeed, &[]);
        let (_, y) = axes.place(0.0, dot(1, 5, 5).ratio());
        assert_eq!(y, PLOT.top + PLOT.height / 2);
        assert_eq!([ratio(-2), ratio(0), ratio(1)], ["1/4", "equal", "2 \u{d7}"]);
        assert_eq!(Axes::label(33, true), "8 GiB");
    }

    /// Everything that has no dots is left out, and nothing fails on an empty picture.
    #[test]
    fn an_empty_picture_has_axes() {
        let svg = svg(Chart::Predicted, &[], &Palette::light());
        assert!(svg.contains("Estimated and measured memory") && svg.ends_with("</svg>\n"));
    }
}
