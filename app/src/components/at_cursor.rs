//! One moment of the run: the tensors alive, and their addresses. A selection in one list is selected in the
//! other.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a part may not arrive, which the attribute adds to the result"
)]

use std::sync::Arc;

use highwater_core::Report;
use highwater_core::report::Snapshot;
use leptos::prelude::*;
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use super::alive::AlivePanel;
use super::later::Draw;
use super::segment_map::SegmentMap;
use crate::model::theme::Theme;
use crate::words::Vocabulary;

/// What draws what is alive, and where.
///
/// # Errors
/// It did not arrive.
#[wasm_split(sections, fallible)]
pub(super) fn at_cursor_view() -> Result<Draw<AtCursorProps>, SplitLoaderError> {
    Ok(|props| AtCursor(props).into_any())
}

/// The two panels below the timeline.
#[component]
pub(crate) fn AtCursor(
    /// The report, for its peak until a moment has been looked at.
    report: Signal<Option<Arc<Report>>>,
    /// The moment.
    snapshot: Signal<Option<Arc<Snapshot>>>,
    /// The theme.
    theme: Signal<Theme>,
    /// Another event is to be looked at.
    on_jump: Callback<usize>,
) -> impl IntoView {
    let marked = RwSignal::new(None);
    let vocabulary =
        Signal::derive(move || report.get().as_deref().map(Vocabulary::of).unwrap_or_default());
    Effect::new(move |_| {
        snapshot.track();
        marked.set(None);
    });
    view! {
        <div class="at-cursor">
            <AlivePanel report snapshot marked vocabulary on_jump />
            <SegmentMap snapshot marked vocabulary theme />
        </div>
    }
}
