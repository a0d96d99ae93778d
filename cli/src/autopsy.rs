//! What sets the peak, for people.

use std::fmt::Write as _;

use highwater_core::autopsy::{Autopsy, Group, NextPeak, Scores, Why};
use highwater_core::bytes;
use highwater_core::report::Report;

use crate::table::{Align, Cell, Table};
use crate::text::{FAINT, place};

/// The largest groups of tensors and why they are alive, then what stands out.
pub(crate) fn render(report: &Report, autopsy: &Autopsy) -> String {
    let mut table = Table::new([Align::Right, Align::Right, Align::Left, Align::Left]);
    for group in &autopsy.groups {
        let percent = format!("{} %", group.bytes.parts_of(autopsy.total, 100));
        table.row([
            group.bytes.to_string().into(),
            percent.into(),
            what(group).into(),
            Cell::styled(group.why.about(), FAINT),
        ]);
    }
    let mut text = table.render("  ");
    if let Some(scores) = &autopsy.scores {
        text += &vocabulary(scores, autopsy);
    }
    text + &next(autopsy.next.as_ref(), report)
}

/// `12 tensors like float32[16, 1024, 50257] of aten::mul in h.0`.
fn what(group: &Group) -> String {
    let Group { why, count, example, .. } = group;
    match why {
        Why::Parameter => format!("{count} parameters"),
        Why::Buffer => format!("{count} buffers"),
        Why::Input => "the batch".to_owned(),
        Why::OptimizerState => format!("{count} tensors of optimizer state"),
        Why::Gradient => format!("{count} gradients"),
        Why::InStep => format!("{count} temporaries"),
        Why::Workspace => format!("scratch of {}", example.operator),
        Why::Saved | Why::Named | Why::InForward | Why::InBackward => {
            let mut text =
                if *count > 1 { format!("{count} tensors like ") } else { String::new() };
            if let Some(ty) = &example.tensor {
                // Writing to a string does not fail.
                write!(text, "{ty} of ").ok();
            }
            text += &example.operator;
            if !example.module.is_empty() {
                text += " in ";
                text += &example.module;
            }
            text
        }
    }
}

fn vocabulary(scores: &Scores, autopsy: &Autopsy) -> String {
    format!(
        "  The scores of {} classes set it: logits and what cross-entropy makes of them are {} tensors as\n  \
         large as {}, {} or {} %. Computed in chunks, with the last layer inside, only one\n  \
         chunk of them exists at a time.\n",
        bytes::grouped(scores.classes),
        scores.count,
        scores.tensor,
        scores.bytes,
        scores.bytes.parts_of(autopsy.total, 100)
    )
}

fn next(next: Option<&NextPeak>, report: &Report) -> String {
    let Some(NextPeak { allocated, iteration, phase, operator, module }) = next else {
        return "  No other peak stands beside it.\n".to_owned();
    };
    format!(
        "  If it went, the next highest would be {allocated} in {}, iteration {iteration}: {} lower.\n",
        place(*phase, module, operator),
        report.peak.allocated - *allocated
    )
}
