//! Pictures of the scores.

use highwater_core::estimators::ALL;
use highwater_draw::palette::{Ink, Palette};
use highwater_draw::scatter::{self, Chart, Dot, Series};

use super::board::{self, By, Point};

/// Estimators with a colour of their own, and it.
const CHOSEN: [(&str, Ink); 5] = [
    ("highwater", Ink::Accent),
    ("xmem", Ink::Module(6)),
    ("dnnmem", Ink::Module(2)),
    ("fake-tensor", Ink::Module(0)),
    ("horus", Ink::Module(3)),
];

/// The pictures, by their names.
pub(crate) fn all(points: &[Point<'_>]) -> Vec<(&'static str, String)> {
    let dots = |at: usize| -> Vec<Dot> {
        let means = ALL[at].about().means;
        let of_it =
            board::of(points, means).filter(|point| point.by == By::Us(at) && point.run.survived);
        let dot = |point: &Point<'_>| {
            let (measured, _) = point.need?;
            Some(Dot { batch: point.run.batch, measured, estimate: point.estimated.bytes })
        };
        of_it.filter_map(dot).collect()
    };
    let series = ALL.iter().enumerate().map(|(at, estimator)| {
        let about = estimator.about();
        let ink = CHOSEN.iter().find(|(id, _)| *id == about.id).map(|(_, ink)| *ink);
        Series { name: about.name.to_owned(), ink, dots: dots(at) }
    });
    let series: Vec<Series> = series.collect();
    let charts = [
        ("predicted", Chart::Predicted),
        ("error-by-need", Chart::ErrorByNeed),
        ("error-by-batch", Chart::ErrorByBatch),
    ];
    let palette = Palette::light();
    charts.map(|(name, chart)| (name, scatter::svg(chart, &series, &palette))).into()
}
