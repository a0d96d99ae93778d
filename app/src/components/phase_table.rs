//! The timeline as a table: the highest moment of each phase, for people who do not see the picture.

use highwater_core::Report;
use leptos::prelude::*;

use super::parts::{cell, column};
use crate::words::language::tr;
use crate::words::{self, Vocabulary};
use highwater_draw::bands::bands;
use highwater_draw::span::Span;

/// One row per phase.
pub(super) fn table(report: &Report) -> impl IntoView + use<> {
    let (data, vocabulary) = (&report.timeline, Vocabulary::of(report));
    let rows = bands(data, Span::of(data, None)).into_iter().filter_map(|band| {
        let begin = data.event.partition_point(|&event| event < band.event);
        let next = data.phases.iter().map(|mark| mark.event).find(|&event| event > band.event);
        let end = next.map_or(data.event.len(), |n| data.event.partition_point(|&event| event < n));
        let highest = (begin..end).max_by_key(|&at| data.allocated.get(at))?;
        let sizes = [&data.allocated, &data.reserved]
            .map(|sizes| cell(sizes.get(highest).copied().unwrap_or_default()));
        let categories = data.categories.get(highest).copied().unwrap_or_default();
        let categories = vocabulary.categories().map(|category| cell(categories.get(category)));
        Some(view! {
            <tr>
                <th scope="row">{band.iteration.to_string()}</th>
                <td>{words::phase(band.phase)}</td>
                {sizes.collect_view()}
                {categories.collect_view()}
            </tr>
        })
    });
    let categories = vocabulary.categories().map(|it| column(vocabulary.category(it), true));
    view! {
        <table class="table">
            <caption class="hidden-text">{tr("The highest moment of each phase")}</caption>
            <thead>
                <tr>
                    {column(tr("iteration"), false)}
                    {column(tr("phase"), false)}
                    {column(tr("allocated"), true)}
                    {column(tr("reserved"), true)}
                    {categories.collect_view()}
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
}
