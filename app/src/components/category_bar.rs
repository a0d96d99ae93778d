//! What the memory at the peak is for.

use highwater_core::sorted;
use std::sync::Arc;

use highwater_core::trace::Category;
use highwater_core::{Bytes, Report};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use super::readout::class;
use crate::format::{percent, share};
use crate::text;

/// One bar for the whole, and a row per category, largest first.
#[component]
pub(crate) fn CategoryBar(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    let parts = move || {
        report.with(|report| {
            let at_peak = report.as_ref().map(|report| report.at_peak).unwrap_or_default();
            (Category::ALL.map(|category| (category, at_peak.get(category))), at_peak.total())
        })
    };
    view! {
        <div class="category-bar">
            <h3 class="label">"By category"</h3>
            <div class="category-bar-whole" aria-hidden="true">
                {move || {
                    let (parts, total) = parts();
                    parts
                        .into_iter()
                        .filter(|(_, bytes)| *bytes > Bytes::ZERO)
                        .map(|(category, bytes)| {
                            view! {
                                <span
                                    class=class(category)
                                    style:width=format!("{}%", share(bytes, total))
                                ></span>
                            }
                        })
                        .collect_view()
                }}
            </div>
            <ul class="category-bar-rows">
                {move || {
                    let (mut parts, total) = parts();
                    sorted::by_key(&mut parts, |&(_, bytes)| std::cmp::Reverse(bytes));
                    parts
                        .into_iter()
                        .filter(|(_, bytes)| *bytes > Bytes::ZERO)
                        .map(|(category, bytes)| {
                            view! {
                                <li title=text::category_meaning(category)>
                                    <span
                                        class=format!("swatch {}", class(category))
                                        aria-hidden="true"
                                    ></span>
                                    <span class="category-bar-name">{text::category(category)}</span>
                                    <span class="category-bar-share">{percent(bytes, total)}</span>
                                    <ByteSize bytes />
                                </li>
                            }
                        })
                        .collect_view()
                }}
            </ul>
        </div>
    }
}
