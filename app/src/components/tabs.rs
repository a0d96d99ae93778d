//! The sections of an answer as tabs: one is shown, and only that one follows the answer.

use leptos::ev::KeyboardEvent;
use leptos::prelude::*;

use super::turns::in_turn_while;
use crate::model::section::Section;
use crate::page::focus::focus_now;
use crate::words::language::tr;

/// Which section is shown, and which there are.
#[derive(Clone, Copy)]
pub(crate) struct Sections {
    /// The one that is shown.
    pub(crate) chosen: RwSignal<Section>,
    /// Whether the answer is of a recorded run, which has fewer.
    pub(crate) recorded: Signal<bool>,
    /// Whether the model was written of a configuration.
    pub(crate) is_written: Signal<bool>,
    /// Whether the page is being printed, with several sections below each other.
    pub(crate) printing: Signal<bool>,
}

impl Sections {
    /// The sections that there are, in the order of the tabs.
    fn all(self) -> Vec<Section> {
        let (recorded, is_written) = (self.recorded.get(), self.is_written.get());
        let has = |section: &Section| {
            (!recorded || section.has_recorded()) && (is_written || !section.needs_configuration())
        };
        Section::ALL.into_iter().filter(has).collect()
    }

    /// Whether a section is seen.
    pub(crate) fn is_shown(self, section: Section) -> Signal<bool> {
        let shown = move || {
            if self.printing.get() { section.is_printed() } else { self.chosen.get() == section }
        };
        Memo::new(move |_| shown()).into()
    }

    /// A signal that follows another one while a section is seen.
    pub(crate) fn follow<T: Clone + Send + Sync + 'static>(
        self,
        section: Section,
        now: Signal<T>,
    ) -> Signal<T> {
        in_turn_while(now, self.is_shown(section))
    }
}

/// The tabs; arrow keys move between them.
#[component]
pub(crate) fn Tabs(
    /// The sections.
    sections: Sections,
    /// COUNT: suggestions that save enough to be shown; nothing until all are known.
    suggestions: Signal<Option<usize>>,
) -> impl IntoView {
    let on_key = move |event: KeyboardEvent| {
        let all = untrack(move || sections.all());
        let here = all.iter().position(|section| *section == sections.chosen.get_untracked());
        let here = here.unwrap_or(0);
        let next = match event.key().as_str() {
            "ArrowRight" => (here + 1) % all.len(),
            "ArrowLeft" => (here + all.len() - 1) % all.len(),
            "Home" => 0,
            "End" => all.len() - 1,
            _ => return,
        };
        event.prevent_default();
        if let Some(&section) = all.get(next) {
            sections.chosen.set(section);
            focus_now(&["tab-", section.id()].concat());
        }
    };
    let tab = move |section: Section| {
        let is_chosen = move || sections.chosen.get() == section;
        let count = move || {
            let count = (section == Section::Suggestions).then(|| suggestions.get());
            count.map(|count| {
                let text = count.map_or_else(|| "…".to_owned(), |count| count.to_string());
                let is_none = count == Some(0);
                view! { <span class="tab-count" class:tab-count-none=is_none>{text}</span> }
            })
        };
        view! {
            <button
                type="button"
                role="tab"
                class="tab"
                id=["tab-", section.id()].concat()
                aria-controls=["section-", section.id()].concat()
                aria-selected=move || is_chosen().to_string()
                tabindex=move || if is_chosen() { "0" } else { "-1" }
                on:click=move |_| sections.chosen.set(section)
            >
                {tr(section.name())}
                {count}
            </button>
        }
    };
    view! {
        <div class="tabs" role="tablist" aria-label=tr("Sections of the answer") on:keydown=on_key>
            {move || sections.all().into_iter().map(tab).collect_view()}
        </div>
    }
}

/// What one tab shows; it is made when it is seen for the first time.
#[component]
pub(crate) fn SectionPanel(
    /// The sections.
    sections: Sections,
    /// The one that this is.
    section: Section,
    /// Whether what it shows is of the settings as they are; else its place shows that it is on its way.
    #[prop(into)]
    current: Signal<bool>,
    /// What it shows.
    children: ChildrenFn,
) -> impl IntoView {
    let shown = sections.is_shown(section);
    let made = Memo::new(move |made: Option<&bool>| made == Some(&true) || shown.get());
    view! {
        <div
            role="tabpanel"
            class=["section section-", section.id()].concat()
            class:waiting=move || !current.get()
            aria-busy=move || (!current.get()).to_string()
            id=["section-", section.id()].concat()
            aria-labelledby=["tab-", section.id()].concat()
            hidden=move || !shown.get()
        >
            <Show when=move || made.get()>{children()}</Show>
        </div>
    }
}
