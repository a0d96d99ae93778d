//! The state that all parts of the timeline share.

use std::sync::Arc;

use highwater_draw::scene::{Ground, Part, Scene, View};
use highwater_draw::span::Span;
use leptos::prelude::*;

use crate::model::theme::Theme;
use crate::model::times::Clock;
use crate::words::format::length;

/// What the parts of the timeline read and ask for.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// What the report needs, whichever part of it is shown.
    pub(super) ground: ReadSignal<Option<Arc<Ground>>>,
    /// What is shown, and how.
    pub(super) view: Signal<View>,
    /// The event under the cursor.
    pub(super) cursor: Signal<Option<usize>>,
    /// The event that is pinned.
    pub(super) pin: Signal<Option<usize>>,
    /// The theme, whose colours are painted.
    pub(super) theme: Signal<Theme>,
    /// Something else is to be shown.
    pub(super) on_view: Callback<View>,
    /// The cursor moved.
    pub(super) on_cursor: Callback<Option<usize>>,
    /// Another moment is to be pinned, or none.
    pub(super) on_pin: Callback<Option<usize>>,
    /// What the axis is, where it is time: the events of all others are its ticks.
    pub(super) clock: Signal<Option<Arc<Clock>>>,
}

impl Shown {
    /// The same for a picture that counts in ticks of the clock, where there is one.
    pub(super) fn in_ticks(self) -> Self {
        let Self { clock, .. } = self;
        let tick = move |event| clock.with(|clock| clock.as_ref().map_or(event, |c| c.tick(event)));
        let event = move |tick| {
            clock.with_untracked(|clock| clock.as_ref().map_or(tick, |clock| clock.event(tick)))
        };
        let part = |part: Part, map: &dyn Fn(usize) -> usize| match part {
            Part::Events(begin, end) => Part::Events(map(begin), map(end)),
            other => other,
        };
        Self {
            cursor: Signal::derive(move || self.cursor.get().map(tick)),
            pin: Signal::derive(move || self.pin.get().map(tick)),
            view: Signal::derive(move || {
                let view = self.view.get();
                View { part: part(view.part, &tick), ..view }
            }),
            on_view: Callback::new(move |view: View| {
                self.on_view.run(View { part: part(view.part, &event), ..view });
            }),
            on_cursor: Callback::new(move |at: Option<usize>| self.on_cursor.run(at.map(event))),
            on_pin: Callback::new(move |at: Option<usize>| self.on_pin.run(at.map(event))),
            ..self
        }
    }

    /// What is drawn.
    pub(super) fn scene(self) -> Option<Scene> {
        Some(Scene::of(self.ground.get()?, self.view.get()))
    }

    /// The part of the run that is drawn.
    pub(super) fn part(self) -> Option<Part> {
        Some(self.view.get().part.resolved(self.ground.get()?.data()))
    }

    /// Shows other events.
    pub(super) fn show(self, span: Span) {
        if let Some(scene) = untrack(move || self.scene()).filter(|scene| scene.span != span) {
            self.on_view.run(View { part: scene.part(span), ..self.view.get_untracked() });
        }
    }
}

/// A share of the width or the height, as style sheets take it.
pub(super) fn percent(share: f64) -> String {
    length(100.0 * share) + "%"
}
