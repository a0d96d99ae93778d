//! The timeline for those who do not see it: the highest moment of each phase, as a table.

use std::sync::Arc;

use highwater_core::report::{Report, Timeline};
use highwater_core::trace::Category;
use leptos::prelude::*;

use super::byte_size::ByteSize;
use crate::chart::Span;
use crate::chart::bands::{Band, bands};
use crate::language::tr;
use crate::text;

/// One row per phase.
#[component]
pub(crate) fn PhaseTable(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
) -> impl IntoView {
    view! {
        <div class="scroll-sideways" tabindex="0" role="region" aria-label=tr("Table of the timeline")>
            <table class="table">
                <caption class="hidden-text">{tr("The highest moment of each phase")}</caption>
                <thead>
                    <tr>
                        <th scope="col">{tr("iteration")}</th>
                        <th scope="col">{tr("phase")}</th>
                        <th scope="col" class="number">{tr("allocated")}</th>
                        <th scope="col" class="number">{tr("reserved")}</th>
                        {Category::ALL
                            .map(|category| {
                                view! {
                                    <th scope="col" class="number">
                                        {text::category(category)}
                                    </th>
                                }
                            })
                            .collect_view()}
                    </tr>
                </thead>
                <tbody>
                    {move || {
                        report
                            .get()
                            .map(|report| {
                                let data = &report.timeline;
                                bands(data, Span::of(data, None))
                                    .iter()
                                    .filter_map(|band| row(data, band))
                                    .collect_view()
                            })
                    }}
                </tbody>
            </table>
        </div>
    }
}

fn row(data: &Timeline, band: &Band) -> Option<impl IntoView + use<>> {
    let begin = data.event.partition_point(|&event| event < band.event);
    let next = data.phases.iter().map(|mark| mark.event).find(|&event| event > band.event);
    let end = next.map_or(data.event.len(), |n| data.event.partition_point(|&event| event < n));
    let highest = (begin..end).max_by_key(|&at| data.allocated.get(at))?;
    let categories = *data.categories.get(highest)?;
    let (allocated, reserved) = (*data.allocated.get(highest)?, *data.reserved.get(highest)?);
    Some(view! {
        <tr>
            <th scope="row">{band.iteration}</th>
            <td>{text::phase(band.phase)}</td>
            <td class="number">
                <ByteSize bytes=allocated />
            </td>
            <td class="number">
                <ByteSize bytes=reserved />
            </td>
            {Category::ALL
                .map(|category| {
                    view! {
                        <td class="number">
                            <ByteSize bytes=categories.get(category) />
                        </td>
                    }
                })
                .collect_view()}
        </tr>
    })
}
