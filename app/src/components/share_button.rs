//! The link to the current state: copies it, and lists its contents.

use leptos::html;
use leptos::prelude::*;

use super::icons::LINK;
use super::menu::Menu;
use super::parts::Code;
use crate::model::state::Shared;
use crate::words::keep;
use crate::words::language::tr;

/// Copies the link as soon as it is opened, and offers a file where the link is too long.
#[component]
pub(crate) fn ShareButton(
    /// The link, once it is made.
    #[prop(into)]
    shared: Signal<Option<Shared>>,
    /// The link is wanted.
    on_share: Callback<()>,
    /// A file is wanted instead.
    on_file: Callback<()>,
) -> impl IntoView {
    let element = NodeRef::<html::Details>::new();
    let wanted = Callback::new(move |open| {
        if open {
            on_share.run(());
        }
    });
    view! {
        <Menu
            menu=element
            label=tr("Share")
            picture=LINK
            word=tr("Share")
            on_toggle=wanted
        >
            <div class="share">
                <p class="share-title" role="status">
                    {move || shared.with(|shared| shared.as_ref().map(keep::shared))}
                </p>
                <input
                    type="text"
                    class="share-link"
                    readonly
                    aria-label=tr("Link")
                    prop:value=move || {
                        shared.with(|s| s.as_ref().map(|s| s.link.clone()).unwrap_or_default())
                    }
                    on:focus:target=move |event| event.target().select()
                />
                <p class="hint">
                    {move || shared.with(|shared| shared.as_ref().map(keep::in_the_link))}
                </p>
                <p class="hint">
                    {tr("It contains no weights. The part after # never leaves your browser.")}
                </p>
                {move || shared.with(|shared| keep::frame(shared.as_ref()?)).map(|code| {
                    view! { <Code id="embed-code".to_owned() summary=tr("Embed this answer in a page") code /> }
                })}
                <button type="button" class="show-all" on:click=move |_| on_file.run(())>
                    {tr("Save it as a file instead, to drop here later")}
                </button>
            </div>
        </Menu>
    }
}
