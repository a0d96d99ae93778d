//! The bar at the top: the field that opens inputs, and the actions on an answer.

use leptos::html;
use leptos::prelude::*;

use super::export_menu::ExportMenu;
use super::icons;
use super::keep::Keep;
use super::menu::{Choices, Menu};
use super::open_field::{OpenField, Opens};
use super::share_button::ShareButton;
use crate::model::language::Language;
use crate::model::lessons::LESSONS;
use crate::model::state::Arriving;
use crate::model::theme::Theme;
use crate::page::teach::Lessons;
use crate::words::language::tr;

/// Name, the field that opens, what one does with the answer, language, theme.
#[component]
pub(crate) fn Header(
    /// Name of the model on the page.
    loaded: Signal<Option<String>>,
    /// Name of what is being opened.
    #[prop(into)]
    opening: Signal<Option<Arriving>>,
    /// Whether the user has opened something; else the page below has the field.
    is_open: Signal<bool>,
    /// The theme.
    #[prop(into)]
    theme: Signal<Theme>,
    /// The language.
    #[prop(into)]
    language: Signal<Language>,
    /// What the field opens.
    opens: Opens,
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
            <div class="header-open">
                <Show when=move || is_open.get()>
                    <OpenField loaded opening opens keep />
                </Show>
            </div>
            <Show when=move || is_open.get()>
                <ShareButton shared=keep.shared on_share=keep.on_share on_file=keep.on_share_file />
                <ExportMenu on_save=keep.on_save recorded=keep.recorded />
            </Show>
            <LessonMenu lessons />
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

/// A menu with the lessons, and the documentation.
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
            <a class="menu-item" href="docs/index.html">{tr("Documentation")}</a>
        </Menu>
    }
}

/// Makes everything larger, for an audience at a projector.
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
