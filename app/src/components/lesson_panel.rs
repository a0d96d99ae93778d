//! The current lesson: its text, its question, and how near the guess was.

use std::fmt::Display;
use std::sync::Arc;

use highwater_core::{Bytes, Report};
use leptos::either::Either;
use leptos::prelude::*;

use super::icons::{CROSS, icon};
use crate::model::lessons::{Ask, Teaching, parts};
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
    view! {
        <Show when=move || step.get().is_some()>
            <section class="panel lesson" aria-labelledby="lesson-title">
                {move || teaching.get().map(|at| inside(at, stop, report, lessons))}
            </section>
        </Show>
    }
}

fn inside(
    at: Teaching,
    stop: RwSignal<u64>,
    report: Signal<Option<Arc<Report>>>,
    lessons: Lessons,
) -> impl IntoView {
    let (lesson, step) = (at.lesson(), at.step());
    let said = move |english| report.get().map(|report| filled(english, &report));
    let count: [(&str, &dyn Display); 2] = [("n", &(at.step + 1)), ("all", &lesson.steps.len())];
    let is_last = at.step + 1 == lesson.steps.len();
    let next = move |_| if is_last { lessons.end.run(()) } else { lessons.go.run(at.step + 1) };
    let title = tr(lesson.title);
    view! {
        <div class="lesson-head">
            <p class="lesson-count">{fill("Step {n} of {all}", &count)}</p>
            // The answer, whose heading is the page's, is hidden while one guesses.
            {if at.is_asking() {
                view! { <h1 class="panel-title" id="lesson-title" tabindex="-1">{title}</h1> }.into_any()
            } else {
                view! { <h2 class="panel-title" id="lesson-title" tabindex="-1">{title}</h2> }.into_any()
            }}
            <button
                type="button"
                class="quiet-button"
                id="lesson-end"
                aria-label=tr("End the lesson")
                on:click=move |_| lessons.end.run(())
            >
                {icon(CROSS)}
            </button>
        </div>
        <div class="lesson-body" class:lesson-told=at.revealed aria-live="polite">
            <p class="lesson-text">{move || said(step.text)}</p>
            {step.ask.as_ref().map(|ask| question(ask, at.revealed, stop, report, lessons))}
            {(at.revealed && !step.reveal.is_empty())
                .then(|| view! { <p class="lesson-text">{move || said(step.reveal)}</p> })}
        </div>
        <div class="lesson-steps">
            {(at.step > 0)
                .then(|| {
                    view! {
                        <button
                            type="button"
                            class="button"
                            id="lesson-back"
                            on:click=move |_| lessons.go.run(at.step.saturating_sub(1))
                        >
                            {tr("Back")}
                        </button>
                    }
                })}
            <button
                type="button"
                class=if at.is_asking() { "button" } else { "button button-accent" }
                id="lesson-next"
                on:click=next
            >
                {tr(if is_last { "Done" } else { "Next" })}
            </button>
        </div>
    }
}

/// A slider to guess with, or how near the guess was.
fn question(
    ask: &'static Ask,
    revealed: bool,
    stop: RwSignal<u64>,
    report: Signal<Option<Arc<Report>>>,
    lessons: Lessons,
) -> impl IntoView {
    let guess = move || guess(ask, stop.get());
    let below = if revealed {
        let verdict =
            move || report.get().map(|report| words::notice::guessed(guess(), ask.of.of(&report)));
        Either::Left(view! { <p class="lesson-verdict">{verdict}</p> })
    } else {
        Either::Right(view! {
            <button
                type="button"
                class="button button-accent"
                id="lesson-reveal"
                on:click=move |_| lessons.reveal.run(())
            >
                {tr("That is my guess: show me")}
            </button>
        })
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
                prop:value=move || stop.get().to_string()
                aria-valuetext=move || guess().short()
                disabled=revealed
                on:input:target=move |event| {
                    stop.set(event.target().value().parse().unwrap_or_default());
                }
            />
            <output class="lesson-guess" for="lesson-guess">
                {move || guess().short()}
            </output>
            {below}
        </div>
    }
}

/// What a stop of the slider guesses.
fn guess(ask: &Ask, stop: u64) -> Bytes {
    Bytes(ask.most().0 / STOPS * stop)
}

/// A sentence of a lesson with the numbers of a report.
fn filled(english: &'static str, report: &Report) -> String {
    let parts = parts(report);
    let parts = parts.map(|(name, size)| (name, size.short()));
    let parts = parts.each_ref().map(|(name, size)| (*name, size as &dyn Display));
    fill(english, &parts)
}
