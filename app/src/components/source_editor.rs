//! The editor of a model's text: every keystroke gives an answer, or a reason with its line and column.

use gloo::timers::callback::Timeout;
use leptos::html;
use leptos::prelude::*;

use super::icons::{CROSS, icon};
use crate::model::state::{SourceProblem, SourceText};
use crate::page::files;
use crate::words;
use crate::words::language::tr;

/// Milliseconds without a keystroke before the text is estimated.
const PAUSE: u32 = 180;

/// An editor with line numbers, and what is wrong below it.
#[component]
pub(crate) fn SourceEditor(
    /// The text.
    source: RwSignal<Option<SourceText>>,
    /// The same model as a layer spec.
    #[prop(into)]
    spec: Signal<Option<String>>,
    /// Whether the text is one already.
    #[prop(into)]
    is_spec: Signal<bool>,
    /// The text has changed: its name, and what it is now.
    on_text: Callback<(String, String)>,
    /// The editor is not wanted any more; the text stays.
    on_close: Callback<()>,
) -> impl IntoView {
    let area = NodeRef::<html::Textarea>::new();
    let gutter = NodeRef::<html::Pre>::new();
    let waiting = StoredValue::new_local(None::<Timeout>);
    let name = move || source.with(|s| s.as_ref().map(|s| s.name.clone()).unwrap_or_default());
    let content = move || source.with(|s| s.as_ref().map(|s| s.text.clone()).unwrap_or_default());
    let problem = move || source.with(|s| s.as_ref()?.problem.clone());
    let lines = Memo::new(move |_| content().split('\n').count());
    // The field keeps its own text while the user types; only a replacement is written into it.
    let revision = Memo::new(move |_| source.with(|s| s.as_ref().map_or(0, |s| s.revision)));
    Effect::new(move |_| {
        let _replaced = revision.get();
        if let Some(area) = area.get() {
            area.set_value(
                &source.with_untracked(|s| s.as_ref().map(|s| s.text.clone()).unwrap_or_default()),
            );
        }
    });
    let replace = move |text: String| {
        source.update(|source| {
            if let Some(source) = source {
                source.text = text;
            }
        });
        waiting.set_value(Some(Timeout::new(PAUSE, move || {
            if let Some(now) = source.get_untracked() {
                on_text.run((now.name, now.text));
            }
        })));
    };
    let follow = move || {
        if let (Some(area), Some(gutter)) = (area.get(), gutter.get()) {
            gutter.set_scroll_top(area.scroll_top());
        }
    };
    let other_spec = move || spec.get().filter(|spec| !is_spec.get() && *spec != content());
    view! {
        <section class="source" aria-label="Source">
            <SourceHead
                name=Signal::derive(name)
                spec
                other_spec=Signal::derive(other_spec)
                on_replace=Callback::new(move |spec: String| {
                    source.update(|source| {
                        if let Some(source) = source {
                            source.revision += 1;
                        }
                    });
                    replace(spec);
                })
                on_close
            />
            <div class="source-field" class:source-wrong=move || problem().is_some()>
                <pre class="source-gutter" aria-hidden="true" node_ref=gutter>
                    {move || numbers(lines.get())}
                </pre>
                <textarea
                    node_ref=area
                    class="source-text"
                    aria-label=tr("Model as text")
                    aria-describedby="source-problem"
                    aria-invalid=move || problem().is_some().to_string()
                    spellcheck="false"
                    autocapitalize="off"
                    autocomplete="off"
                    wrap="off"
                    rows="16"
                    on:input:target=move |event| replace(event.target().value())
                    on:scroll=move |_| follow()
                ></textarea>
            </div>
            <div id="source-problem" class="problem-place" role="status">
                {move || problem().map(|problem| problem_view(&problem, area))}
            </div>
        </section>
    }
}

/// What the text is, and what can be done with it.
#[component]
fn SourceHead(
    /// Name of the text.
    name: Signal<String>,
    /// The model as a layer spec.
    spec: Signal<Option<String>>,
    /// The same, where the text is another.
    other_spec: Signal<Option<String>>,
    /// The text is to be replaced.
    on_replace: Callback<String>,
    /// The editor is not wanted any more.
    on_close: Callback<()>,
) -> impl IntoView {
    let save = move || {
        if let Some(spec) = spec.get_untracked() {
            let _saved = files::save("model.yaml", &spec);
        }
    };
    view! {
        <div class="source-head">
            <h2 class="label source-name">{name}</h2>
            <Show when=move || other_spec.with(Option::is_some)>
                <button
                    type="button"
                    class="link-button"
                    title=tr("Replace this text by the layer spec that it was understood as")
                    on:click=move |_| {
                        if let Some(spec) = other_spec.get_untracked() {
                            on_replace.run(spec);
                        }
                    }
                >
                    {tr("Edit as spec")}
                </button>
            </Show>
            <Show when=move || spec.with(Option::is_some)>
                <button type="button" class="link-button" on:click=move |_| save()>
                    {tr("Save spec")}
                </button>
            </Show>
            <button
                type="button"
                class="quiet-button"
                aria-label=tr("Close the editor")
                on:click=move |_| on_close.run(())
            >
                {icon(CROSS)}
            </button>
        </div>
    }
}

/// Why there is no answer, with a way to the place.
fn problem_view(problem: &SourceProblem, area: NodeRef<html::Textarea>) -> impl IntoView + use<> {
    let go = problem.place.map(|(line, column)| {
        view! {
            <button
                type="button"
                class="link-button"
                on:click=move |_| {
                    let _found = select(area, line, column);
                }
            >
                {tr("Go there")}
            </button>
        }
    });
    view! {
        <p class="problem">{words::stated(&problem.reason)} " " {go}</p>
    }
}

/// Selects what stands from a place to the end of its word.
fn select(area: NodeRef<html::Textarea>, line: usize, column: usize) -> Option<()> {
    let area = area.get()?;
    let text = area.value();
    let before: usize = text
        .split('\n')
        .take(line.saturating_sub(1))
        .map(|line| line.encode_utf16().count() + 1)
        .sum();
    let start = before + column.saturating_sub(1);
    let rest = text.encode_utf16().skip(start);
    let is_word = |unit: &u16| {
        char::from_u32(u32::from(*unit))
            .is_none_or(|c| c.is_ascii_alphanumeric() || !c.is_ascii() || matches!(c, '_' | '.'))
    };
    let end = start + rest.take_while(is_word).count().max(1);
    area.focus().ok()?;
    area.set_selection_range(u32::try_from(start).ok()?, u32::try_from(end).ok()?).ok()
}

fn numbers(lines: usize) -> String {
    (1..=lines).fold(String::new(), |numbers, line| numbers + &line.to_string() + "\n")
}
