//! Actions of the keys on the timeline.

use crate::peaks::{next, peaks};
use crate::scene::{Scene, sample_at};
use crate::span::Span;

/// A key that was pressed.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Its name, as browsers call it.
    pub name: &'a str,
    /// With shift.
    pub shift: bool,
    /// With alt.
    pub alt: bool,
}

/// What it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The cursor goes to an event.
    Look(usize),
    /// The cursor and the pin go away.
    Leave,
    /// The moment under the cursor is pinned.
    Pin,
    /// Other events are shown.
    Show(Span),
}

/// What a key does when the cursor is at an event; nothing for keys that mean nothing here.
pub fn act(scene: &Scene, here: usize, key: Key<'_>) -> Option<Act> {
    let (data, all, span) = (scene.ground.data(), scene.ground.all(), scene.span);
    let name = match (key.alt, key.name) {
        (true, "ArrowLeft") => "a",
        (true, "ArrowRight") => "d",
        (true, _) => return None,
        (false, name) => name,
    };
    let about = if span.contains(here) { span.share(here) } else { 0.5 };
    Some(match name {
        "+" | "=" => Act::Show(span.zoomed(about, 0.5, all)),
        "-" | "_" => Act::Show(span.zoomed(about, 2.0, all)),
        "0" => Act::Show(all),
        "a" | "A" => Act::Show(span.panned(-0.25, all)),
        "d" | "D" => Act::Show(span.panned(0.25, all)),
        "p" | "P" => Act::Look(scene.ground.report.peak.event),
        "[" | "]" => Act::Look(next(&data.event, &peaks(&data.allocated), here, name == "]")?),
        "Enter" => Act::Pin,
        "Escape" => Act::Leave,
        _ => {
            let sample_before = |event| data.event.partition_point(|&sampled| sampled < event);
            let first = sample_before(span.begin);
            let last = sample_before(span.end).checked_sub(1)?.max(first);
            let most = data.event.len().checked_sub(1)?;
            let shown = last - first;
            let stride = if key.shift { shown / 50 } else { 1 }.max(1);
            let at = sample_at(data, here)?;
            let target = match name {
                "ArrowLeft" | "ArrowDown" => at.saturating_sub(stride),
                "ArrowRight" | "ArrowUp" => at + stride,
                "PageDown" => at.saturating_sub((shown / 10).max(1)),
                "PageUp" => at + (shown / 10).max(1),
                "Home" => first,
                "End" => last,
                _ => return None,
            };
            Act::Look(*data.event.get(target.min(most))?)
        }
    })
}
