//! Shared by all canvases: the size in device pixels, and the colours of the theme.

use std::cell::RefCell;

use highwater_draw::palette::Palette;
use highwater_draw::pen::{Area, Drawn, Pen};
use plotters_canvas::CanvasBackend;
use web_sys::HtmlCanvasElement;

use crate::page::picture::palette;

thread_local! {
    static COLOURS: RefCell<Option<Palette>> = const { RefCell::new(None) };
}

/// Device pixels per CSS pixel.
pub(super) fn density() -> f64 {
    web_sys::window().map_or(1.0, |window| window.device_pixel_ratio().clamp(1.0, 3.0))
}

/// Empties a canvas of these CSS pixels, and draws on all of it.
///
/// Asking for colours costs the browser a look at everything that has changed: they are kept until
/// [`forget_colours`].
pub(super) fn paint(
    canvas: &HtmlCanvasElement,
    css: (f64, f64),
    draw: impl FnOnce(&mut Pen<'_, CanvasBackend>, Area) -> Drawn<CanvasBackend>,
) -> Option<()> {
    let size = (pixels(css.0 * density()), pixels(css.1 * density()));
    canvas.set_width(size.0);
    canvas.set_height(size.1);
    let mut backend = CanvasBackend::with_canvas_object(canvas.clone())?;
    let area = Area {
        width: i32::try_from(size.0).ok()?,
        height: i32::try_from(size.1).ok()?,
        ..Area::default()
    };
    let palette = colours()?;
    draw(&mut Pen::new(&mut backend, &palette, density()), area).ok()
}

/// The colours of the theme.
pub(super) fn colours() -> Option<Palette> {
    let palette = COLOURS.with_borrow(Clone::clone).or_else(palette)?;
    COLOURS.set(Some(palette.clone()));
    Some(palette)
}

/// The colours are others from now on.
pub(crate) fn forget_colours() {
    COLOURS.set(None);
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
