//! The pictures: what they show, worked out in numbers, and drawn on any backend of plotters.
//!
//! A picture is drawn by one function, generic over [`DrawingBackend`]: on the page on a canvas, in
//! files and tests as SVG. It is made of whole pixels of its surface; whoever draws on a dense
//! screen sizes the canvas in device pixels and tells the [`Pen`](pen::Pen) how dense it is. Labels
//! are part of saved pictures only: nothing here measures text.
//!
//! | module | what |
//! |---|---|
//! | [`span`], [`columns`], [`pyramid`], [`stack`], [`bands`], [`compared`], [`ticks`], [`peaks`] | geometry of a timeline |
//! | [`scene`], [`keys`] | which part of a run is shown, and how keys change that |
//! | [`palette`], [`pen`] | colours, and shapes of whole pixels |
//! | [`timeline`], [`segments`], [`trend`], [`ladder`] | charts |
//! | [`labels`] | names inside the areas of the timeline, and of limits |
//! | [`blocks`] | single tensors in the stack |
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
