//! The page before anything is opened: its purpose, the field, and one example that is already answered.

use leptos::prelude::*;

use super::keep::Keep;
use super::open_field::{OpenField, Opens};
use crate::model::examples::{SETUPS, Setup};
use crate::model::input::KINDS;
use crate::model::lessons::LESSONS;
use crate::model::state::Arriving;
use crate::page::teach::Lessons;
use crate::words::language::tr;

/// The question, the field, and what can be opened.
#[component]
pub(crate) fn Hero(
    /// What is being opened.
    #[prop(into)]
    opening: Signal<Option<Arriving>>,
    /// What the field opens.
    opens: Opens,
    /// What was opened before.
    keep: Keep,
    /// What the user can ask of lessons.
    lessons: Lessons,
) -> impl IntoView {
    view! {
        <section class="hero">
            <h1 class="hero-title">{tr("Will it fit on your GPU?")}</h1>
            <p class="hero-what">
                {tr("Estimate how much GPU memory training a PyTorch model takes, before you run it.")}
            </p>
            <OpenField loaded=Signal::derive(|| None) opening opens keep large=true />
            <div class="setups">
                <p class="setups-title" id="setups-title">{tr("Popular runs")}</p>
                <ul class="setup-list" aria-labelledby="setups-title">
                    {SETUPS.map(|setup| setup_chip(setup, opens)).collect_view()}
                </ul>
            </div>
            <p class="hero-promise">{tr("Nothing is uploaded or installed: your file stays on this computer.")}</p>
            <div class="hero-more">
                <details class="hero-details" id="formats">
                    <summary>{tr("What can I open?")}</summary>
                    {formats()}
                </details>
                <details class="hero-details" id="lessons">
                    <summary>{tr("Learn how memory behaves")}</summary>
                    <ul class="lesson-list">
                        {LESSONS
                            .iter()
                            .enumerate()
                            .map(|(at, lesson)| {
                                view! {
                                    <li>
                                        <button
                                            type="button"
                                            class="menu-item"
                                            on:click=move |_| lessons.begin.run(at)
                                        >
                                            {tr(lesson.title)}
                                        </button>
                                    </li>
                                }
                            })
                            .collect_view()}
                    </ul>
                </details>
            </div>
        </section>
    }
}

fn setup_chip(setup: Setup, opens: Opens) -> impl IntoView {
    view! {
        <li>
            <button type="button" class="setup" on:click=move |_| opens.setup.run(setup)>
                <strong>{setup.title}</strong>
                " "
                <span>{setup.about}</span>
            </button>
        </li>
    }
}

fn formats() -> impl IntoView {
    let row = |(name, how): (&'static str, &'static str)| {
        view! {
            <dt>{tr(name)}</dt>
            <dd>
                <code>{how}</code>
            </dd>
        }
    };
    view! { <dl class="hero-formats">{KINDS.map(row).collect_view()}</dl> }
}
