//! The lesson that is given: what it says, what it asks, and whether one was near.

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::drawn::Act;
use super::icons::CloseIcon;
use crate::language::{fill, tr};
use crate::lessons::{Ask, LESSONS, parts};
use crate::markup::Markup;
use crate::teach::{Lessons, Teaching};
use crate::text;

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
    move || {
        teaching.get().map(|at| {
            let (lesson, step) = (at.lesson(), at.step());
            let count: [(&str, &dyn Display); 2] =
                [("n", &(at.step + 1)), ("all", &lesson.steps.len())];
            let said = move |english: &'static str| {
                move || report.with(|report| report.as_ref().map(|report| filled(english, report)))
            };
            let is_last = at.step + 1 == lesson.steps.len();
            let next = move |_| {
                if is_last { lessons.end.run(()) } else { lessons.go.run(at.step + 1) }
            };
            view! {
                <section class="panel lesson" aria-labelledby="lesson-title">
                    <div class="lesson-head">
                        <p class="lesson-count">{fill("Step {n} of {all}", &count)}</p>
                        // The answer, whose heading is the page's, is hidden while one guesses.
                        <h2
                            class="panel-title"
                            id="lesson-title"
                            prop:ariaLevel=at.is_asking().then_some("1")
                        >
                            {tr(lesson.title)}
                        </h2>
                        <button
                            type="button"
                            class="quiet-button"
                            aria-label=tr("End the lesson")
                            on:click=move |_| lessons.end.run(())
                        >
                            <CloseIcon />
                        </button>
                    </div>
                    <div aria-live="polite">
                        <p class="lesson-text">{said(step.text)}</p>
                        {step.ask.as_ref().map(|ask| view! { <Guess ask at report lessons /> })}
                        {(at.revealed && !step.reveal.is_empty())
                            .then(|| view! { <p class="lesson-text">{said(step.reveal)}</p> })}
                    </div>
                    <div class="lesson-steps">
                        <button
                            type="button"
                            class="button"
                            disabled=at.step == 0
                            on:click=move |_| lessons.go.run(at.step.saturating_sub(1))
                        >
                            {tr("Back")}
                        </button>
                        <button
                            type="button"
                            class=if at.is_asking() { "button" } else { "button button-accent" }
                            on:click=next
                        >
                            {tr(if is_last { "Done" } else { "Next" })}
                        </button>
                    </div>
                </section>
            }
        })
    }
}

/// A slider to guess with, and how near the guess was.
#[component]
fn Guess(
    /// What is asked.
    ask: &'static Ask,
    /// Where the lesson stands.
    at: Teaching,
    /// The report that has the answer.
    report: Signal<Option<Arc<Report>>>,
    /// What the user can ask of the lesson.
    lessons: Lessons,
) -> impl IntoView {
    let stop = RwSignal::new(STOPS / 2);
    let guess = move || Bytes(ask.most.0 / STOPS * stop.get());
    let verdict = move || {
        let answer = report.with(|report| report.as_ref().map(|report| (ask.of)(report)))?;
        Some(text::guessed(guess(), answer))
    };
    view! {
        <div class="lesson-ask">
            <label for="lesson-guess">{tr(ask.question)}</label>
            <input
                id="lesson-guess"
                class="slider"
                type="range"
                min="0"
                max=STOPS.to_string()
                disabled=at.revealed
                aria-valuetext=move || guess().to_string()
                prop:value=move || stop.get().to_string()
                on:input:target=move |event| {
                    if let Ok(at) = event.target().value().parse() {
                        stop.set(at);
                    }
                }
            />
            <output class="lesson-guess" for="lesson-guess">
                {move || guess().to_string()}
            </output>
            {if at.revealed {
                view! { <p class="lesson-verdict">{verdict}</p> }.into_any()
            } else {
                view! {
                    <button
                        type="button"
                        class="button button-accent"
                        on:click=move |_| lessons.reveal.run(())
                    >
                        {tr("That is my guess: show me")}
                    </button>
                }
                    .into_any()
            }}
        </div>
    }
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
