//! The timeline for those who do not see it: the highest moment of each phase, as a table.

use highwater_core::report::Timeline;
use highwater_core::trace::Category;

use super::island::{write, write_size};
use crate::chart::Span;
use crate::chart::bands::bands;
use crate::language::tr;
use crate::text;

/// One row per phase.
pub(super) fn table(data: &Timeline) -> String {
    let mut text = String::new();
    let caption = tr("The highest moment of each phase");
    write(&mut text, &["<table class=\"table\"><caption class=\"hidden-text\">", &caption]);
    text.push_str("</caption><thead><tr>");
    for (head, is_number) in [
        (tr("iteration"), false),
        (tr("phase"), false),
        (tr("allocated"), true),
        (tr("reserved"), true),
    ] {
        column(&mut text, &head, is_number);
    }
    for category in Category::ALL {
        column(&mut text, &text::category(category), true);
    }
    text.push_str("</tr></thead><tbody>");
    for band in bands(data, Span::of(data, None)) {
        let begin = data.event.partition_point(|&event| event < band.event);
        let next = data.phases.iter().map(|mark| mark.event).find(|&event| event > band.event);
        let end = next.map_or(data.event.len(), |n| data.event.partition_point(|&event| event < n));
        let Some(highest) = (begin..end).max_by_key(|&at| data.allocated.get(at)) else { continue };
        let (iteration, phase) = (band.iteration.to_string(), text::phase(band.phase));
        write(&mut text, &["<tr><th scope=\"row\">", &iteration, "</th><td>", &phase, "</td>"]);
        for sizes in [&data.allocated, &data.reserved] {
            cell(&mut text, sizes.get(highest).copied().unwrap_or_default());
        }
        let categories = data.categories.get(highest).copied().unwrap_or_default();
        for category in Category::ALL {
            cell(&mut text, categories.get(category));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table>");
    text
}

/// The head of a column.
pub(super) fn column(text: &mut String, name: &str, is_number: bool) {
    let class = if is_number { "number" } else { "" };
    write(text, &["<th scope=\"col\" class=\"", class, "\">", name, "</th>"]);
}

/// A cell with a size.
pub(super) fn cell(text: &mut String, bytes: highwater_core::Bytes) {
    text.push_str("<td class=\"number\">");
    write_size(text, bytes);
    text.push_str("</td>");
}
