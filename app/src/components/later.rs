//! What a part of the program draws, from when that part has arrived.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;
use wasm_split_helpers::SplitLoaderError;

use crate::model::protocol::Fault;
use crate::words::stated;

/// Draws something.
pub(super) type Draw<T> = fn(T) -> AnyView;

/// Draws what it was made for.
type Drawn = Arc<dyn Fn() -> AnyView + Send + Sync>;

/// A part that is on its way.
type Coming = Pin<Box<dyn Future<Output = Result<Drawn, SplitLoaderError>>>>;

/// What a part draws of `given`; the reason where it does not arrive, until it is shown again.
pub(super) fn later<T: 'static, F: Future<Output = Result<Draw<T>, SplitLoaderError>> + 'static>(
    shown: Signal<bool>,
    fetch: fn() -> F,
    given: impl Fn() -> T + Send + Sync + 'static,
) -> AnyView {
    let given = Arc::new(given);
    let ask = move || -> Coming {
        let given = Arc::clone(&given);
        Box::pin(async move {
            let draw = fetch().await?;
            Ok(Arc::new(move || draw(given())) as Drawn)
        })
    };
    drawn(shown, Box::new(ask))
}

/// The same, of which there is one for all parts.
fn drawn(shown: Signal<bool>, ask: Box<dyn Fn() -> Coming>) -> AnyView {
    let arrived = RwSignal::new(None::<Result<Drawn, String>>);
    Effect::new(move |_| {
        if shown.get() && !matches!(arrived.get_untracked(), Some(Ok(_))) {
            let coming = ask();
            spawn_local(async move {
                let draw = coming.await.map_err(|error| stated(&Fault::from(error).reason));
                arrived.set(Some(draw));
            });
        }
    });
    let view = move || {
        arrived.get().map(|arrived| match arrived {
            Ok(draw) => draw(),
            Err(reason) => view! { <p>{reason}</p> }.into_any(),
        })
    };
    view.into_any()
}
