//! The empty page: what to drop, and three examples for those who have nothing at hand.

use leptos::prelude::*;
use web_sys::File;

use super::drawn::{Act, Drawn};
use super::header::{Keep, OpenButton};
use super::lesson_panel;
use super::markup::Markup;
use super::recent_list::RecentList;
use crate::model::examples::{EXAMPLES, Example, Silhouette, outline};
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
    let on_act = Callback::new(move |act: Act| {
        if let Some(lesson) = lesson_panel::chosen(&act) {
            lessons.begin.run(lesson);
        } else if let Some(example) = act.name.parse().ok().and_then(|at: usize| EXAMPLES.get(at)) {
            on_example.run(*example);
        }
    });
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
                <div class="drop-zone-notes" inner_html=notes()></div>
            </div>
            <RecentList recent=keep.recent on_open=keep.on_open on_forget=keep.on_forget />
            <Drawn class="drop-zone-examples" label=tr("Examples") markup=Signal::stored(choices()) on_act />
        </section>
    }
}

/// What can be dropped, and what happens to it.
fn notes() -> String {
    let mut notes = Markup::default();
    notes.raw("<p class=\"drop-zone-kinds\"><strong>ONNX</strong>").text(&tr(" from "));
    notes.raw(
        "<code class=\"drop-zone-how\">torch.onnx.export(model, args, \"model.onnx\")</code>, ",
    );
    notes.raw("<strong>torch.export</strong>").text(&tr(" (.pt2), a Hugging Face "));
    notes.raw("<strong>config.json</strong>").text(&tr(", what "));
    notes.raw("<strong>print(model)</strong>").text(&tr(" says, Keras, or a "));
    notes.around("<strong>", &tr("layer spec"), "</strong>").text(&tr(" of your own; or the "));
    notes.around("<strong>", &tr("out-of-memory message"), "</strong>");
    notes.text(&tr(" that you got, and what ")).raw("<strong>nvidia-smi</strong>");
    notes.text(&tr(" prints; or the ")).around("<strong>", &tr("memory snapshot"), "</strong>");
    notes.text(&tr(" of a real run, or a ")).around("<strong>", &tr("profiler trace"), "</strong>");
    notes.around("", &tr(" from a CPU"), "</p><p class=\"drop-zone-promise\">");
    let promise = tr(
        "Nothing leaves this page: the file is read and estimated right here, and its weights are not even read.",
    );
    notes.around("", &promise, "</p>");
    notes.done()
}

/// Examples, each with its timeline in miniature, and lessons.
fn choices() -> String {
    let mut choices = Markup::default();
    choices.around("<h2 class=\"label\">", &tr("Nothing at hand? Open an example"), "</h2><ul>");
    for (index, example) in EXAMPLES.iter().enumerate() {
        let Silhouette { all, kept } = example.silhouette;
        choices.around(
            "<li><button type=\"button\" class=\"example\" data-act=\"",
            &index.to_string(),
            "\">",
        );
        let box_of = ["0 0 ", &all.len().to_string(), " 36"].concat();
        choices.around(
            "<svg class=\"silhouette\" viewBox=\"",
            &box_of,
            "\" preserveAspectRatio=\"none\"",
        );
        choices.around(
            " aria-hidden=\"true\"><path class=\"silhouette-all\" d=\"",
            &outline(all),
            "\"/>",
        );
        choices.around("<path class=\"silhouette-kept\" d=\"", &outline(kept), "\"/></svg>");
        choices.around("<span class=\"example-title\">", example.title, "</span>");
        choices.around(
            "<span class=\"example-about\">",
            &tr(example.about),
            "</span></button></li>",
        );
    }
    choices.around("</ul><h2 class=\"label\">", &tr("Or learn how memory behaves"), "</h2>");
    lesson_panel::list(&mut choices);
    choices.done()
}
