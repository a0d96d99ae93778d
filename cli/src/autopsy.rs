//! What sets the peak, for people.

use highwater_core::autopsy::Autopsy;
use highwater_core::report::Report;
use highwater_core::wording::autopsy::{next, scores, what};

use crate::style::FAINT;
use crate::table::{Align, Cell, Table};

/// The largest groups of tensors and why they are alive, then what stands out.
pub(crate) fn render(report: &Report, autopsy: &Autopsy) -> String {
    let mut table = Table::new([Align::Right, Align::Right, Align::Left, Align::Left]);
    for group in &autopsy.groups {
        let percent = format!("{} %", group.bytes.parts_of(autopsy.total, 100));
        table.row([
            group.bytes.to_string().into(),
            percent.into(),
            what(group).to_string().into(),
            Cell::styled(group.why.about(), FAINT),
        ]);
    }
    let sentences = scores(autopsy).into_iter().chain([next(autopsy, report)]);
    let mut text = table.render("  ");
    for sentence in sentences {
        text.extend(["  ", &sentence.to_string(), "\n"]);
    }
    text
}
