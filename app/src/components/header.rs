//! The bar at the top: what this is, what is open, and how to open something else.

use leptos::html;
use leptos::prelude::*;
use web_sys::File;

use super::export_menu::ExportMenu;
use super::icons::{self, CROSS, OPEN, icon};
use super::menu::{Choices, Menu, close};
use super::recent_list::RecentList;
use super::share_button::ShareButton;
use crate::model::examples::{EXAMPLES, Example};
use crate::model::language::Language;
use crate::model::lessons::LESSONS;
use crate::model::state::{Arriving, Shared};
use crate::model::theme::Theme;
use crate::model::visit::Recent;
use crate::page::teach::Lessons;
use crate::words::language::{fill, tr};

/// What outlives the visit, and what the user can ask of it.
#[derive(Clone, Copy)]
pub(crate) struct Keep {
    /// The link, once it is made.
    pub(crate) shared: Signal<Option<Shared>>,
    /// What was opened before.
    pub(crate) recent: Signal<Vec<Recent>>,
    /// The link is wanted.
    pub(crate) on_share: Callback<()>,
    /// A file is wanted instead of a link.
    pub(crate) on_share_file: Callback<()>,
    /// The answer is to be saved in this form.
    pub(crate) on_save: Callback<&'static str>,
    /// Something is to be opened again: its address.
    pub(crate) on_open: Callback<String>,
    /// Something is to be forgotten: its place; all, where that is negative.
    pub(crate) on_forget: Callback<i32>,
    /// Whether what is on the page was recorded.
    pub(crate) recorded: Signal<bool>,
}

/// Name, open, examples, the open file, theme.
#[component]
pub(crate) fn Header(
    /// Name of the model on the page.
    loaded: Signal<Option<String>>,
    /// Name of what is being opened.
    #[prop(into)]
    opening: Signal<Option<Arriving>>,
    /// The theme.
    #[prop(into)]
    theme: Signal<Theme>,
    /// The language.
    #[prop(into)]
    language: Signal<Language>,
    /// A file was chosen.
    on_file: Callback<File>,
    /// An example was chosen.
    on_example: Callback<Example>,
    /// The model is to be taken off the page.
    on_close: Callback<()>,
    /// What is being opened is not wanted any more.
    on_leave_off: Callback<()>,
    /// The other theme is wanted.
    on_theme: Callback<()>,
    /// Another language is wanted.
    on_language: Callback<Language>,
    /// What the user can ask of lessons.
    lessons: Lessons,
    /// What can be kept of what is on the page.
    keep: Keep,
) -> impl IntoView {
    view! {
        <header class="header">
            <p class="header-name">{icons::mark()} "Highwater"</p>
            // The empty page offers both itself.
            <Show when=move || loaded.with(Option::is_some)>
                <OpenButton on_file />
                <Examples on_example keep />
                <LessonMenu lessons />
            </Show>
            <section class="header-file" role="status">
                {move || match (opening.get(), loaded.get()) {
                    (Some(arriving), _) => arriving_chip(&arriving, on_leave_off).into_any(),
                    (None, Some(name)) => loaded_chip(name, on_close).into_any(),
                    (None, None) => ().into_any(),
                }}
            </section>
            <Show when=move || loaded.with(Option::is_some)>
                <ShareButton shared=keep.shared on_share=keep.on_share on_file=keep.on_share_file />
                <ExportMenu on_save=keep.on_save recorded=keep.recorded />
            </Show>
            <select
                class="header-language"
                aria-label=tr("Language")
                on:change:target=move |event| {
                    let tag = event.target().value();
                    if let Some(wanted) = Language::ALL.into_iter().find(|known| known.tag() == tag) {
                        on_language.run(wanted);
                    }
                }
            >
                {Language::ALL
                    .map(|known| {
                        let spoken = move || language.get() == known;
                        view! {
                            <option lang=known.tag() value=known.tag() selected=spoken>
                                {known.name()}
                            </option>
                        }
                    })
                    .collect_view()}
            </select>
            <PresentButton />
            <button
                type="button"
                class="quiet-button header-theme"
                aria-label=move || {
                    tr(match theme.get() {
                        Theme::Light => "Switch to the dark theme",
                        Theme::Dark => "Switch to the light theme",
                    })
                }
                on:click=move |_| on_theme.run(())
            >
                {icons::theme()}
            </button>
        </header>
    }
}

/// What is on its way in, and how far it is.
fn arriving_chip(arriving: &Arriving, on_leave_off: Callback<()>) -> impl IntoView + use<> {
    let percent = arriving.percent.map(|percent| {
        view! {
            <span class="chip-percent" aria-hidden="true">{format!("{percent:.0}\u{a0}%")}</span>
            <button
                type="button"
                class="chip-close"
                id="leave-off"
                aria-label=tr("Cancel opening")
                on:click=move |_| on_leave_off.run(())
            >
                {icon(CROSS)}
            </button>
        }
    });
    view! {
        <span class="chip chip-busy">
            <span class="chip-text">{fill("Opening {file}…", &[("file", &arriving.name)])}</span>
            {percent}
        </span>
    }
}

/// What is open.
fn loaded_chip(name: String, on_close: Callback<()>) -> impl IntoView {
    let title = name.clone();
    view! {
        <span class="chip" title=title>
            <span class="chip-text">{name}</span>
            <button
                type="button"
                class="chip-close"
                id="close"
                aria-label=tr("Close this model")
                on:click=move |_| on_close.run(())
            >
                {icon(CROSS)}
            </button>
        </span>
    }
}

/// A menu with the lessons.
#[component]
fn LessonMenu(
    /// What the user can ask of them.
    lessons: Lessons,
) -> impl IntoView {
    let menu = NodeRef::<html::Details>::new();
    let entries = LESSONS.iter().map(|lesson| (tr(lesson.title), String::new())).collect();
    view! {
        <Menu menu label=tr("Lessons") word=tr("Learn")>
            <Choices menu label=tr("Lessons") entries on_choose=lessons.begin />
        </Menu>
    }
}

/// Makes everything larger, for a room that looks at a projector.
#[component]
fn PresentButton() -> impl IntoView {
    let large = RwSignal::new(crate::page::embed::parameter("present").is_some());
    Effect::new(move |_| {
        let document = web_sys::window().and_then(|window| window.document());
        if let Some(root) = document.and_then(|document| document.document_element()) {
            // Fails only for names that are no attribute names.
            drop(root.toggle_attribute_with_force("data-present", large.get()));
        }
    });
    view! {
        <button
            type="button"
            class="quiet-button header-present"
            aria-label=tr("Large type, for a projector")
            title=tr("Large type, for a projector")
            aria-pressed=move || large.get().to_string()
            on:click=move |_| large.update(|large| *large = !*large)
        >
            <span aria-hidden="true">"Aa"</span>
        </button>
    }
}

/// A button that opens the system's file dialog.
#[component]
pub(crate) fn OpenButton(
    /// A file was chosen.
    on_file: Callback<File>,
    /// Whether it is what the page is about at the moment.
    #[prop(optional)]
    main: bool,
) -> impl IntoView {
    let input = NodeRef::<html::Input>::new();
    let class = if main { "button button-accent" } else { "button" };
    view! {
        <button
            type="button"
            class=class
            on:click=move |_| {
                if let Some(input) = input.get() {
                    input.click();
                }
            }
        >
            {icon(OPEN)}
            {tr("Open a file")}
        </button>
        <input
            node_ref=input
            type="file"
            class="hidden"
            tabindex="-1"
            aria-hidden="true"
            on:change:target=move |event| {
                let input = event.target();
                if let Some(file) = input.files().and_then(|files| files.get(0)) {
                    on_file.run(file);
                }
                // The same file chosen again is a change, too.
                input.set_value("");
            }
        />
    }
}

/// A menu with the examples, and what was opened before.
#[component]
fn Examples(
    /// An example was chosen.
    on_example: Callback<Example>,
    /// What was opened before.
    keep: Keep,
) -> impl IntoView {
    let menu = NodeRef::<html::Details>::new();
    let entries = EXAMPLES.iter().map(|example| (example.title.to_owned(), tr(example.about)));
    let entries = entries.collect();
    let on_choose = Callback::new(move |at: usize| {
        if let Some(example) = EXAMPLES.get(at) {
            on_example.run(*example);
        }
    });
    let on_open = Callback::new(move |fragment| {
        close(menu);
        keep.on_open.run(fragment);
    });
    view! {
        <Menu menu label=tr("Examples") word=tr("Examples") framed=true>
            <Choices menu label=tr("Examples") entries on_choose />
            <RecentList recent=keep.recent on_open on_forget=keep.on_forget />
        </Menu>
    }
}
