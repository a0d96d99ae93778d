//! Files in and out: the page's own examples, and files that the user saves.

use js_sys::{Array, ArrayBuffer, Promise, Uint8Array};
use wasm_bindgen::{JsCast as _, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, HtmlAnchorElement, Response, Url};

use crate::model::examples::Example;
use crate::model::input::Input;
use crate::model::known::Known;
use crate::words::language::fill;

/// Fetches an example from where the page itself came from; with its answer, if that is wanted and there.
pub(crate) async fn example(
    example: Example,
    is_answer_wanted: bool,
) -> Result<(Input, Option<Known>), String> {
    // Both are on their way before either is here.
    let answer = if is_answer_wanted { request(example.answer) } else { None };
    let bytes = received(request(example.path)).await.ok_or_else(|| {
        fill(
            "The example {name} could not be loaded. Is the page still reachable?",
            &[("name", &example.file)],
        )
    })?;
    let known = received(answer).await.map(|bytes| Uint8Array::new(&bytes).to_vec());
    let known = known.and_then(|bytes| Known::unpacked(&bytes));
    Ok((Input::Bytes { name: example.file.to_owned(), bytes }, known))
}

/// Requests a file next to the page.
fn request(path: &str) -> Option<Promise> {
    Some(web_sys::window()?.fetch_with_str(path))
}

/// The bytes of a file that was requested.
async fn received(response: Option<Promise>) -> Option<ArrayBuffer> {
    let response: Response = JsFuture::from(response?).await.ok()?.dyn_into().ok()?;
    let bytes = response.array_buffer().ok().filter(|_| response.ok())?;
    Some(JsFuture::from(bytes).await.ok()?.unchecked_into())
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
