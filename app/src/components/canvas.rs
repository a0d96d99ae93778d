//! What every canvas needs: its size in device pixels, and the colours of the theme.

use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, HtmlElement, ResizeObserver};

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
    let pen: CanvasRenderingContext2d = canvas.get_context("2d").ok()??.dyn_into().ok()?;
    pen.scale(density(), density()).ok()?;
    Some(pen)
}

/// A colour of the style sheet, as it is on an element: `--ink` is `ink`.
pub(super) fn colour(element: &HtmlElement, name: &str) -> String {
    let style = web_sys::window().and_then(|window| window.get_computed_style(element).ok()?);
    let value = style.and_then(|style| style.get_property_value(&format!("--{name}")).ok());
    value.unwrap_or_default()
}

/// Width and height of an element in CSS pixels, kept up to date.
pub(super) fn observed_size(element: NodeRef<html::Div>) -> ReadSignal<(f64, f64)> {
    let (size, set_size) = signal((0.0, 0.0));
    Effect::new(move |_| {
        let Some(element) = element.get() else { return };
        let watched = element.clone();
        let on_resize = Closure::<dyn FnMut()>::new(move || {
            let shape = watched.get_bounding_client_rect();
            set_size.set((shape.width(), shape.height()));
        });
        if let Ok(observer) = ResizeObserver::new(on_resize.as_ref().unchecked_ref()) {
            observer.observe(&element);
            let kept = StoredValue::new_local((observer, on_resize));
            on_cleanup(move || {
                kept.with_value(|(observer, _)| observer.disconnect());
            });
        }
    });
    size
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
