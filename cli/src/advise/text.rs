//! The advice for people: the verdict, its reason, suggestions, and what to do.

use std::fmt::Write as _;

use anstyle::Style;
use highwater_core::levers::Pulled;
use highwater_core::report::Report;
use highwater_core::wording::answer::{lead, peak_or_end};
use highwater_core::wording::place::place;
use highwater_core::{Bytes, wording};

use super::{Advice, Remedy};
use crate::autopsy;
use crate::style::FAINT;
use crate::table::{Align, Cell, Table};
use crate::text::{section, verdict_words};

pub(super) fn render(advice: &Advice) -> String {
    let Advice { report, autopsy, .. } = advice;
    let peak = format!("  {}\n", wording::autopsy::peak(&report.peak));
    [
        headline(advice),
        section("What sets the peak", &(peak + &autopsy::render(report, autopsy))),
        section("What would help", &suggestions(advice)),
        plan(report, &advice.remedy),
    ]
    .join("\n")
}

fn headline(advice: &Advice) -> String {
    let report = &advice.report;
    let (_, style) = verdict_words(report.verdict.verdict);
    let (lead, end) = (lead(report, &report.verdict), peak_or_end(report, &report.verdict));
    format!("{style}{lead}{style:#}\n{end}\n")
}

/// `-3.20 GiB`.
fn change(before: Bytes, after: Bytes) -> String {
    if after <= before { format!("-{}", before - after) } else { format!("+{}", after - before) }
}

fn outcome(pulled: &Pulled) -> (Cell, Cell) {
    let after = &pulled.outcome.verdict;
    let (word, style) = verdict_words(after.verdict);
    (after.need.to_string().into(), Cell::styled(word, style))
}

fn suggestions(advice: &Advice) -> String {
    let before = advice.report.verdict.need;
    let saves = |pulled: &&Pulled| pulled.outcome.verdict.need < before;
    let mut table = Table::new([
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Left,
        Align::Left,
        Align::Left,
    ]);
    let heads = ["change", "need", "verdict", "", "", "peak then"];
    table.row(heads.map(|head| Cell::styled(head, FAINT)));
    for pulled in advice.pulled.iter().filter(saves) {
        let (need, verdict) = outcome(pulled);
        let then = &pulled.outcome;
        let time = advice.slower.get(&pulled.id).map(|&percent| wording::levers::time(percent));
        let cost = time.map_or_else(|| pulled.cost.about().to_owned(), |time| time.to_string());
        table.row([
            change(before, then.verdict.need).into(),
            need,
            verdict,
            pulled.title.clone().into(),
            Cell::styled(cost, FAINT),
            Cell::styled(place(then.phase, &then.module, &then.operator).to_string(), FAINT),
        ]);
    }
    let mut text = table.render("  ");
    let useless = advice.pulled.iter().filter(|pulled| !saves(pulled));
    let useless: Vec<_> = useless.map(|pulled| pulled.title.as_str()).collect();
    if !useless.is_empty() {
        // Writing to a string does not fail.
        writeln!(text, "  No saving here from: {}", useless.join("; ")).ok();
    }
    text
}

/// The plan, with its code, below its heading.
pub(crate) fn plan(report: &Report, remedy: &Remedy) -> String {
    section(&plan_title(report, remedy), &steps(report, remedy))
}

fn plan_title(report: &Report, remedy: &Remedy) -> String {
    let Remedy { plan, fits, .. } = remedy;
    let title = if !fits && report.is_open() {
        wording::levers::unknown(&report.verdict.name)
    } else {
        wording::levers::plan(plan.steps.len(), *fits, &report.verdict)
    };
    title.to_string()
}

fn steps(report: &Report, remedy: &Remedy) -> String {
    let mut text = String::new();
    let mut before = report.verdict.need;
    for (number, pulled) in (1..).zip(&remedy.plan.steps) {
        let after = &pulled.outcome.verdict;
        let (word, style): (_, Style) = verdict_words(after.verdict);
        writeln!(
            text,
            "  {number}. {} ({}): {}, needs {}, {style}{word}{style:#}",
            pulled.title,
            pulled.cost.about(),
            change(before, after.need),
            after.need
        )
        .ok();
        for line in pulled.code.lines() {
            writeln!(text, "{}", format!("       {line}").trim_end()).ok();
        }
        before = after.need;
    }
    text
}
