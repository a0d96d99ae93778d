//! The empty page: what to drop, and three examples for those who have nothing at hand.

use leptos::prelude::*;
use web_sys::File;

use super::header::{Keep, OpenButton};
use super::recent_list::RecentList;
use crate::model::examples::{EXAMPLES, Example, Silhouette, outline};
use crate::model::lessons::LESSONS;
use crate::model::state::Arriving;
use crate::page::teach::Lessons;
use crate::words::language::tr;

/// Invites to drop a model, and says what happens to it: nothing leaves the page.
#[component]
pub(crate) fn DropZone(
    /// What is being opened.
    #[prop(into)]
    opening: Signal<Option<Arriving>>,
    /// A file was chosen.
    on_file: Callback<File>,
    /// An example was chosen.
    on_example: Callback<Example>,
    /// A model is to be written here.
    on_write: Callback<()>,
    /// What the user can ask of lessons.
    lessons: Lessons,
    /// What was opened before.
    keep: Keep,
) -> impl IntoView {
    view! {
        <section class="drop-zone" aria-busy=move || opening.with(Option::is_some).to_string()>
            <div class="drop-zone-frame">
                <h1 class="drop-zone-question">{tr("Will this training run fit, and what sets the high‑water mark?")}</h1>
                <p class="drop-zone-what">
                    {tr("Drop a model here, or paste its text. You see the GPU memory of its training, moment by moment, and the GPUs it fits on.")}
                </p>
                <div class="drop-zone-open">
                    <OpenButton on_file main=true />
                    <button type="button" class="button" on:click=move |_| on_write.run(())>
                        {tr("Write a model")}
                    </button>
                </div>
                <div class="drop-zone-notes">{notes()}</div>
            </div>
            <RecentList recent=keep.recent on_open=keep.on_open on_forget=keep.on_forget />
            <section class="drop-zone-examples" aria-label=tr("Examples")>
                <h2 class="label">{tr("No model at hand? Open an example")}</h2>
                <ul>{EXAMPLES.map(|example| choice(example, on_example)).collect_view()}</ul>
                <h2 class="label">{tr("Or learn how memory behaves")}</h2>
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
            </section>
        </section>
    }
}

/// What can be dropped, and what happens to it.
fn notes() -> impl IntoView {
    view! {
        <p class="drop-zone-kinds">
            <strong>"ONNX"</strong>
            {tr(" from ")}
            <code class="drop-zone-how">"torch.onnx.export(model, args, \"model.onnx\")"</code>
            ", "
            <strong>"torch.export"</strong>
            {tr(" (.pt2), a Hugging Face ")}
            <strong>"config.json"</strong>
            {tr(", what ")}
            <strong>"print(model)"</strong>
            {tr(" says, Keras, or a ")}
            <strong>{tr("layer spec")}</strong>
            {tr(" of your own; or the ")}
            <strong>{tr("out-of-memory message")}</strong>
            {tr(" that you got, and what ")}
            <strong>"nvidia-smi"</strong>
            {tr(" prints; or the ")}
            <strong>{tr("memory snapshot")}</strong>
            {tr(" of a real run, or a ")}
            <strong>{tr("profiler trace")}</strong>
            {tr(" from a CPU")}
        </p>
        <p class="drop-zone-promise">
            {tr("Nothing leaves this page: the file is read and estimated right here, and its weights are not even read.")}
        </p>
    }
}

/// An example with its timeline in miniature.
fn choice(example: Example, on_example: Callback<Example>) -> impl IntoView {
    let Silhouette { all, kept } = example.silhouette;
    view! {
        <li>
            <button type="button" class="example" on:click=move |_| on_example.run(example)>
                <svg
                    class="silhouette"
                    viewBox=["0 0 ", &all.len().to_string(), " 36"].concat()
                    preserveAspectRatio="none"
                    aria-hidden="true"
                >
                    <path class="silhouette-all" d=outline(all)></path>
                    <path class="silhouette-kept" d=outline(kept)></path>
                </svg>
                <span class="example-title">{example.title}</span>
                <span class="example-about">{tr(example.about)}</span>
            </button>
        </li>
    }
}
