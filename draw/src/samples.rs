//! Timelines for tests, and surfaces to draw them on.

use highwater_core::Bytes;
use highwater_core::report::{ByCategory, Timeline};
use highwater_core::trace::{Phase, PhaseMark};
use plotters::prelude::SVGBackend;
use plotters_backend::DrawingErrorKind;

use crate::palette::Palette;
use crate::pen::{Area, Pen};

/// A timeline with one sample per size, and marks at `(event, iteration, phase)`.
pub(crate) fn timeline(sizes: &[u64], marks: &[(usize, usize, Phase)]) -> Timeline {
    Timeline {
        event: (0..sizes.len()).collect(),
        categories: sizes
            .iter()
            .map(|&n| ByCategory { activation: Bytes(n), ..ByCategory::default() })
            .collect(),
        allocated: sizes.iter().copied().map(Bytes).collect(),
        reserved: sizes.iter().map(|_| Bytes(10)).collect(),
        operator: vec![0; sizes.len()],
        module: vec![0; sizes.len()],
        labels: vec![String::new()],
        owners: Vec::new(),
        depths: Vec::new(),
        phases: marks
            .iter()
            .map(|&(event, iteration, phase)| PhaseMark { event, iteration, phase })
            .collect(),
        events: sizes.len(),
    }
}

/// What is drawn on a light surface, as an SVG.
pub(crate) fn drawn(
    size: (u32, u32),
    draw: impl FnOnce(
        &mut Pen<'_, SVGBackend<'_>>,
        Area,
    ) -> Result<(), DrawingErrorKind<std::io::Error>>,
) -> String {
    let mut text = String::new();
    let mut backend = SVGBackend::with_string(&mut text, size);
    let (width, height) = (size.0.cast_signed(), size.1.cast_signed());
    let area = Area { width, height, ..Area::default() };
    draw(&mut Pen::svg(&mut backend, &Palette::light()), area).expect("a string takes everything");
    drop(backend);
    text
}
