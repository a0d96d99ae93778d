//! Files in and out: the page's own examples, and files that the user saves.

use js_sys::Array;
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, HtmlAnchorElement, Response, Url};

use crate::model::input::Input;
use crate::words::language::fill;

/// Fetches an example from where the page itself came from.
pub(crate) async fn example(path: &str, name: &str) -> Result<Input, String> {
    let failed = || {
        fill(
            "The example {name} could not be loaded. Is the page still reachable?",
            &[("name", &name)],
        )
    };
    let window = web_sys::window().ok_or_else(failed)?;
    let response: Response = JsFuture::from(window.fetch_with_str(path))
        .await
        .and_then(wasm_bindgen::JsCast::dyn_into)
        .map_err(|_reason| failed())?;
    if !response.ok() {
        return Err(failed());
    }
    let bytes = response.array_buffer().map_err(|_reason| failed())?;
    let bytes = JsFuture::from(bytes).await.map_err(|_reason| failed())?;
    Ok(Input::Bytes { name: name.to_owned(), bytes: bytes.unchecked_into() })
}

/// Hands a text to the user as a file.
pub(crate) fn save(name: &str, text: &str) -> Option<()> {
    let document = web_sys::window()?.document()?;
    let blob = Blob::new_with_str_sequence(&Array::of1(&JsValue::from_str(text))).ok()?;
    let address = Url::create_object_url_with_blob(&blob).ok()?;
    let link: HtmlAnchorElement = document.create_element("a").ok()?.dyn_into().ok()?;
    link.set_href(&address);
    link.set_download(name);
    link.click();
    Url::revoke_object_url(&address).ok()
}
