//! The page's colours for drawings, and the picture that is saved as a PNG.

use highwater_core::export::Answer;
use highwater_draw::palette::Palette;
use highwater_draw::pen::Pen;
use highwater_draw::picture::{self, Words};
use plotters_canvas::CanvasBackend;
use wasm_bindgen::JsCast as _;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

/// Pixels of a PNG for one of the picture's.
const DENSITY: u32 = 2;

/// The colours of the style sheet, as they are now.
pub(crate) fn palette() -> Option<Palette> {
    let window = web_sys::window()?;
    let style = window.get_computed_style(&window.document()?.document_element()?).ok()??;
    let value = |name: &str| style.get_property_value(&format!("--{name}")).unwrap_or_default();
    Some(Palette::read(value))
}

/// Draws the picture of an answer on a canvas; nothing where it cannot.
pub(crate) fn painted(
    canvas: &HtmlCanvasElement,
    answer: &Answer,
    words: &Words,
    palette: &Palette,
) -> Option<()> {
    let (width, height) = picture::SIZE;
    canvas.set_width(width * DENSITY);
    canvas.set_height(height * DENSITY);
    let brush: CanvasRenderingContext2d = canvas.get_context("2d").ok()??.unchecked_into();
    brush.scale(DENSITY.into(), DENSITY.into()).ok()?;
    let mut backend = CanvasBackend::with_canvas_object(canvas.clone())?;
    picture::draw(&mut Pen::new(&mut backend, palette, 1.0), answer, words).ok()
}
