//! What every canvas needs: its size in device pixels, and the colours of the theme.

use std::cell::RefCell;

use wasm_bindgen::prelude::*;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, HtmlElement};

thread_local! {
    static COLOURS: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
}

/// Device pixels per CSS pixel.
pub(super) fn density() -> f64 {
    web_sys::window().map_or(1.0, |window| window.device_pixel_ratio().clamp(1.0, 3.0))
}

/// Sizes a canvas for these CSS pixels, which empties it.
pub(super) fn resize(canvas: &HtmlCanvasElement, css: (f64, f64)) -> (u32, u32) {
    let size = (pixels(css.0 * density()), pixels(css.1 * density()));
    canvas.set_width(size.0);
    canvas.set_height(size.1);
    size
}

/// Something to draw on an emptied canvas with, in CSS pixels.
pub(super) fn pen(canvas: &HtmlCanvasElement, css: (f64, f64)) -> Option<CanvasRenderingContext2d> {
    resize(canvas, css);
    let pen = brush(canvas)?;
    pen.scale(density(), density()).ok()?;
    Some(pen)
}

/// Something to draw on a canvas with, in its own pixels.
pub(super) fn brush(canvas: &HtmlCanvasElement) -> Option<CanvasRenderingContext2d> {
    canvas.get_context("2d").ok()??.dyn_into().ok()
}

/// A colour of the style sheet, as it is on an element: `--ink` is `ink`.
///
/// Asking costs the browser a look at everything that has changed: an answer is kept until
/// [`forget_colours`].
pub(super) fn colour(element: &HtmlElement, name: &str) -> String {
    let known = |(known, colour): &(String, String)| (known == name).then(|| colour.clone());
    if let Some(colour) = COLOURS.with_borrow(|all| all.iter().find_map(known)) {
        return colour;
    }
    let colour = computed(element, name);
    COLOURS.with_borrow_mut(|all| all.push((name.to_owned(), colour.clone())));
    colour
}

/// The colours are others from now on.
pub(crate) fn forget_colours() {
    COLOURS.with_borrow_mut(Vec::clear);
}

fn computed(element: &HtmlElement, name: &str) -> String {
    let style = web_sys::window().and_then(|window| window.get_computed_style(element).ok()?);
    let value = style.and_then(|style| style.get_property_value(&format!("--{name}")).ok());
    value.unwrap_or_default()
}

/// A number of pixels as a canvas takes it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of pixels, at most a few thousand"
)]
pub(super) fn pixels(size: f64) -> u32 {
    size.round().clamp(1.0, 16_384.0) as u32
}

/// The same as a count.
pub(super) fn whole(size: f64) -> usize {
    usize::try_from(pixels(size)).unwrap_or(1)
}
