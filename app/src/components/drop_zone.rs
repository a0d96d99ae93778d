//! The empty page: what to drop, and three examples for those who have nothing at hand.

use leptos::prelude::*;
use web_sys::File;

use super::header::{Keep, OpenButton};
use super::lesson_panel::LessonList;
use super::recent_list::RecentList;
use crate::examples::{EXAMPLES, Example, Silhouette, outline};
use crate::language::tr;
use crate::teach::Lessons;

/// Invites to drop a model, and says what happens to it: nothing leaves the page.
#[component]
pub(crate) fn DropZone(
    /// Name of what is being opened.
    #[prop(into)]
    opening: Signal<Option<String>>,
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
                    {tr(" prints")}
                </p>
                <p class="drop-zone-promise">
                    {tr("Nothing leaves this page: the file is read and estimated right here, and its weights are not even read.")}
                </p>
            </div>
            <RecentList recent=keep.recent on_open=keep.on_open on_forget=keep.on_forget />
            <div class="drop-zone-examples">
                <h2 class="label">{tr("Nothing at hand? Open an example")}</h2>
                <ul>
                    {EXAMPLES
                        .map(|example| {
                            view! {
                                <li>
                                    <button
                                        type="button"
                                        class="example"
                                        on:click=move |_| on_example.run(example)
                                    >
                                        <SilhouetteView silhouette=example.silhouette />
                                        <span class="example-title">{example.title}</span>
                                        <span class="example-about">{tr(example.about)}</span>
                                    </button>
                                </li>
                            }
                        })
                        .collect_view()}
                </ul>
                <h2 class="label">{tr("Or learn how memory behaves")}</h2>
                <LessonList on_begin=lessons.begin />
            </div>
        </section>
    }
}

/// A timeline in miniature.
#[component]
fn SilhouetteView(
    /// Its heights.
    silhouette: Silhouette,
) -> impl IntoView {
    let view_box = format!("0 0 {} 36", silhouette.all.len());
    view! {
        <svg class="silhouette" viewBox=view_box preserveAspectRatio="none" aria-hidden="true">
            <path class="silhouette-all" d=outline(silhouette.all) />
            <path class="silhouette-kept" d=outline(silhouette.kept) />
        </svg>
    }
}
