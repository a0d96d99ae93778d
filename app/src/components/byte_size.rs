//! A size in memory, the same everywhere: rounded for the eye, exact on hover.

use highwater_core::Bytes;
use leptos::prelude::*;

use crate::format;

/// A size; hovering tells the exact number of bytes.
#[component]
pub(crate) fn ByteSize(
    /// The size.
    bytes: Bytes,
) -> impl IntoView {
    view! {
        <data class="byte-size" value=bytes.0.to_string() title=format::exact(bytes)>
            {bytes.to_string()}
        </data>
    }
}
