//! The charts: their geometry in numbers, and drawing on any backend of plotters.
//!
//! One function draws each chart, generic over [`DrawingBackend`]: on a canvas for the page, as SVG for files and
//! tests. Charts consist of whole pixels. On a dense screen the caller sizes the canvas in device pixels and
//! passes the density to the [`Pen`](pen::Pen). Only saved pictures contain labels. Nothing here measures text.
//!
//! | module | what |
//! |---|---|
//! | [`span`], [`columns`], [`pyramid`], [`stack`], [`bands`], [`compared`], [`ticks`], [`peaks`] | geometry of a timeline |
//! | [`scene`], [`keys`] | which part of a run is shown, and how keys change that |
//! | [`palette`], [`pen`] | colours, and shapes of whole pixels |
//! | [`timeline`], [`segments`], [`trend`], [`ladder`] | charts |
//! | [`labels`] | names inside the areas of the timeline, and of limits |
//! | [`blocks`] | single tensors in the stack |
//! | [`scatter`] | estimates of many runs, compared with measurements |
//! | [`picture`] | the timeline as a picture of its own, with all its labels |

pub mod bands;
pub mod blocks;
pub mod columns;
pub mod compared;
mod hatch;
pub mod keys;
pub mod labels;
pub mod ladder;
pub mod palette;
pub mod peaks;
pub mod pen;
pub mod picture;
pub mod pyramid;
#[cfg(test)]
mod samples;
pub mod scatter;
pub mod scene;
pub mod segments;
pub mod span;
pub mod stack;
pub mod ticks;
pub mod timeline;
pub mod trend;

use highwater_core::Bytes;

pub use plotters::prelude::DrawingBackend;

/// Bytes for drawing: exact to 2⁵³, which is more than any device has.
#[expect(clippy::cast_precision_loss, reason = "only pixels come of it")]
pub const fn float(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
