//! The lesson that is given: what it says, what it asks, and whether one was near.

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::drawn::{Act, Drawn};
use super::island::set;
use super::markup::Markup;
use crate::model::lessons::Teaching;
use crate::model::lessons::{Ask, LESSONS, parts};
use crate::page::teach::Lessons;
use crate::words;
use crate::words::language::{fill, tr};

/// COUNT: stops of the slider that guesses.
const STOPS: u64 = 200;

/// One step of a lesson, above the results.
#[component]
pub(crate) fn LessonPanel(
    /// Where the lesson stands; `None` where none is given.
    #[prop(into)]
    teaching: Signal<Option<Teaching>>,
    /// The report that it speaks of.
    report: Signal<Option<Arc<Report>>>,
    /// What the user can ask of it.
    lessons: Lessons,
) -> impl IntoView {
    let stop = RwSignal::new(STOPS / 2);
    let step = Memo::new(move |_| teaching.get().map(|at| (at.lesson, at.step)));
    Effect::new(move |_| {
        step.track();
        stop.set(STOPS / 2);
    });
    let on_act = Callback::new(move |act: Act| {
        let Some(at) = teaching.get_untracked() else { return };
        match act.name.as_str() {
            "lesson-guess" => {
                let Some(ask) = &at.step().ask else { return };
                stop.set(act.value.parse().unwrap_or_default());
                let guess = guess(ask, stop.get_untracked()).to_string();
                set(&act.element, "aria-valuetext", &guess);
                if let Some(output) = act.element.next_element_sibling() {
                    output.set_text_content(Some(&guess));
                }
            }
            "lesson-reveal" => lessons.reveal.run(()),
            "lesson-back" => lessons.go.run(at.step.saturating_sub(1)),
            "lesson-next" if at.step + 1 < at.lesson().steps.len() => lessons.go.run(at.step + 1),
            _ => lessons.end.run(()),
        }
    });
    let markup = Signal::derive(move || {
        let report = report.get();
        let drawn = |at| drawn(at, stop.get_untracked(), report.as_deref());
        teaching.get().map(drawn).unwrap_or_default()
    });
    view! {
        <Show when=move || step.get().is_some()>
            <Drawn class="panel lesson" labelledby="lesson-title" markup at_once=true on_act />
        </Show>
    }
}

fn drawn(at: Teaching, stop: u64, report: Option<&Report>) -> String {
    let (lesson, step) = (at.lesson(), at.step());
    let said = |english| report.map(|report| filled(english, report)).unwrap_or_default();
    let mut markup = Markup::default();
    let count: [(&str, &dyn Display); 2] = [("n", &(at.step + 1)), ("all", &lesson.steps.len())];
    markup.raw("<div class=\"lesson-head\"><p class=\"lesson-count\">");
    markup.around("", &fill("Step {n} of {all}", &count), "</p>");
    markup.raw("<h2 class=\"panel-title\" id=\"lesson-title\"");
    // The answer, whose heading is the page's, is hidden while one guesses.
    markup.raw(if at.is_asking() { " aria-level=\"1\"" } else { "" });
    markup.around(">", &tr(lesson.title), "</h2>");
    markup.cross("quiet-button", "lesson-end", &tr("End the lesson"));
    markup.raw("</div><div aria-live=\"polite\">");
    markup.around("<p class=\"lesson-text\">", &said(step.text), "</p>");
    if let Some(ask) = &step.ask {
        question(&mut markup, ask, at.revealed, stop, report);
    }
    if at.revealed && !step.reveal.is_empty() {
        markup.around("<p class=\"lesson-text\">", &said(step.reveal), "</p>");
    }
    markup.raw("</div><div class=\"lesson-steps\">");
    if at.step > 0 {
        markup.button("button", "lesson-back", &tr("Back"));
    }
    let next = if at.is_asking() { "button" } else { "button button-accent" };
    let is_last = at.step + 1 == lesson.steps.len();
    markup.button(next, "lesson-next", &tr(if is_last { "Done" } else { "Next" }));
    markup.raw("</div>");
    markup.done()
}

/// A slider to guess with, or how near the guess was.
fn question(markup: &mut Markup, ask: &Ask, revealed: bool, stop: u64, report: Option<&Report>) {
    let guess = guess(ask, stop);
    let says = guess.to_string();
    markup.raw("<div class=\"lesson-ask\"><label for=\"lesson-guess\">");
    markup.around("", &tr(ask.question), "</label>");
    markup.raw("<input id=\"lesson-guess\" data-act=\"lesson-guess\" class=\"slider\" type=\"range\" min=\"0\"");
    markup.around(" max=\"", &STOPS.to_string(), "\"").around(" value=\"", &stop.to_string(), "\"");
    markup.around(" aria-valuetext=\"", &says, if revealed { "\" disabled>" } else { "\">" });
    markup.around("<output class=\"lesson-guess\" for=\"lesson-guess\">", &says, "</output>");
    if revealed {
        let verdict = report.map(|report| words::notice::guessed(guess, (ask.of)(report)));
        markup.around("<p class=\"lesson-verdict\">", &verdict.unwrap_or_default(), "</p>");
    } else {
        let show = tr("That is my guess: show me");
        markup.button("button button-accent", "lesson-reveal", &show);
    }
    markup.raw("</div>");
}

/// What a stop of the slider guesses.
fn guess(ask: &Ask, stop: u64) -> Bytes {
    Bytes(ask.most.0 / STOPS * stop)
}

/// The list of lessons, each a button that does `lesson-0` and so on.
pub(super) fn list(markup: &mut Markup) {
    markup.raw("<ul class=\"lesson-list\">");
    for (index, lesson) in LESSONS.iter().enumerate() {
        markup.raw("<li><button type=\"button\" class=\"menu-item\" data-act=\"lesson-");
        markup.around("", &index.to_string(), "\">").around(
            "",
            &tr(lesson.title),
            "</button></li>",
        );
    }
    markup.raw("</ul>");
}

/// Which lesson was chosen in the list.
pub(super) fn chosen(act: &Act) -> Option<usize> {
    act.name.strip_prefix("lesson-")?.parse().ok()
}

/// A sentence of a lesson with the numbers of a report.
fn filled(english: &'static str, report: &Report) -> String {
    let parts = parts(report);
    let parts = parts.each_ref().map(|(name, size)| (*name, size as &dyn Display));
    fill(english, &parts)
}
