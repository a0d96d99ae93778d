//! The timeline for those who do not see it: the highest moment of each phase, as a table.

use highwater_core::report::Timeline;
use highwater_draw::bands::bands;
use highwater_draw::span::Span;

use super::markup::Markup;
use crate::words::language::tr;
use crate::words::{self, Vocabulary};

/// One row per phase.
pub(super) fn table(data: &Timeline, vocabulary: Vocabulary) -> String {
    let mut markup = Markup::default();
    let caption = tr("The highest moment of each phase");
    markup.raw("<table class=\"table\"><caption class=\"hidden-text\">").text(&caption);
    markup.raw("</caption><thead><tr>");
    for (head, is_number) in [
        (tr("iteration"), false),
        (tr("phase"), false),
        (tr("allocated"), true),
        (tr("reserved"), true),
    ] {
        column(&mut markup, &head, is_number);
    }
    for category in vocabulary.categories() {
        column(&mut markup, &vocabulary.category(category), true);
    }
    markup.raw("</tr></thead><tbody>");
    for band in bands(data, Span::of(data, None)) {
        let begin = data.event.partition_point(|&event| event < band.event);
        let next = data.phases.iter().map(|mark| mark.event).find(|&event| event > band.event);
        let end = next.map_or(data.event.len(), |n| data.event.partition_point(|&event| event < n));
        let Some(highest) = (begin..end).max_by_key(|&at| data.allocated.get(at)) else { continue };
        let (iteration, phase) = (band.iteration.to_string(), words::phase(band.phase));
        markup
            .raw("<tr><th scope=\"row\">")
            .text(&iteration)
            .raw("</th><td>")
            .text(&phase)
            .raw("</td>");
        for sizes in [&data.allocated, &data.reserved] {
            cell(&mut markup, sizes.get(highest).copied().unwrap_or_default());
        }
        let categories = data.categories.get(highest).copied().unwrap_or_default();
        for category in vocabulary.categories() {
            cell(&mut markup, categories.get(category));
        }
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table>");
    markup.done()
}

/// The head of a column.
pub(super) fn column(markup: &mut Markup, name: &str, is_number: bool) {
    let class = if is_number { "number" } else { "" };
    markup.raw("<th scope=\"col\" class=\"").text(class).raw("\">").text(name).raw("</th>");
}

/// A cell with a size.
pub(super) fn cell(markup: &mut Markup, bytes: highwater_core::Bytes) {
    markup.raw("<td class=\"number\">");
    markup.size(bytes);
    markup.raw("</td>");
}
