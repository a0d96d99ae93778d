//! The forms in which an answer can be saved.

use leptos::html;
use leptos::prelude::*;

use super::icons::SAVE;
use super::menu::{Choices, Menu};
use crate::model::export::FORMS;
use crate::words::language::tr;

/// A menu of forms.
#[component]
pub(crate) fn ExportMenu(
    /// A form was chosen, by its name.
    on_save: Callback<&'static str>,
    /// Whether the run was recorded.
    recorded: Signal<bool>,
) -> impl IntoView {
    let menu = NodeRef::<html::Details>::new();
    let offered = move || FORMS.iter().filter(move |form| !recorded.get() || form.takes_recorded());
    let on_choose = Callback::new(move |at: usize| {
        if let Some(form) = untrack(offered).nth(at) {
            on_save.run(form.id);
        }
    });
    view! {
        <Menu menu label=tr("Save the answer") picture=SAVE>
            {move || {
                let entries = offered().map(|form| (tr(form.title), tr(form.about))).collect();
                view! { <Choices menu label=tr("Save the answer") entries on_choose /> }
            }}
        </Menu>
    }
}
