//! What a part of the program draws, from when that part has arrived.

use std::future::Future;

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use wasm_split_helpers::SplitLoaderError;

use crate::model::protocol::Fault;
use crate::words::stated;

/// Draws something.
pub(super) type Draw<T> = fn(T) -> AnyView;

/// What a part draws of `given`; the reason where it does not arrive, until it is shown again.
pub(super) fn later<T: 'static, F: Future<Output = Result<Draw<T>, SplitLoaderError>> + 'static>(
    shown: Signal<bool>,
    fetch: fn() -> F,
    given: impl Fn() -> T + Send + 'static,
) -> impl IntoView {
    let arrived = RwSignal::new(None::<Result<Draw<T>, String>>);
    Effect::new(move |_| {
        if shown.get() && !matches!(arrived.get_untracked(), Some(Ok(_))) {
            spawn_local(async move {
                let draw = fetch().await.map_err(|error| stated(&Fault::from(error).reason));
                arrived.set(Some(draw));
            });
        }
    });
    move || {
        arrived.get().map(|arrived| match arrived {
            Ok(draw) => draw(given()),
            Err(reason) => view! { <p>{reason}</p> }.into_any(),
        })
    }
}
