//! The page: drop a model, see its memory.

use leptos::mount::mount_to_body;
use leptos::prelude::*;

/// Mounts the page.
fn main() {
    mount_to_body(App);
}

/// The whole page.
#[component]
fn App() -> impl IntoView {
    view! {
        <main>
            <h1>"Highwater"</h1>
            <p>"Will this training run fit, and what sets the high-water mark?"</p>
        </main>
    }
}
