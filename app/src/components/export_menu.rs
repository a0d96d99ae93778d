//! The forms in which the answer can be saved.

use leptos::html;
use leptos::prelude::*;

use super::menu::{self, Menu, close};
use crate::export::FORMS;
use crate::language::tr;

/// A menu of forms.
#[component]
pub(crate) fn ExportMenu(
    /// A form was chosen, by its name.
    on_save: Callback<&'static str>,
) -> impl IntoView {
    let element = NodeRef::<html::Details>::new();
    let entries = FORMS.map(|form| {
        view! {
            <li>
                <button
                    type="button"
                    class="menu-item"
                    on:click=move |_| {
                        close(element);
                        on_save.run(form.id);
                    }
                >
                    <span class="menu-item-title">{tr(form.title)}</span>
                    <span class="menu-item-about">{tr(form.about)}</span>
                </button>
            </li>
        }
    });
    view! {
        <Menu menu=element label=tr("Save the answer") picture=menu::SAVE>
            <ul>{entries.collect_view()}</ul>
        </Menu>
    }
}
