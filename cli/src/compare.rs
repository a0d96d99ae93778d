//! `highwater estimate … --compare FILE`: compares the estimate with a recording of the same training, phase by
//! phase.

use std::path::Path;

use highwater_core::profiled::{self, History, Traced};
use highwater_core::recorded::{self, Origin, Recorded};
use highwater_core::report::By;
use highwater_core::report::difference::{Difference, by_phase};
use highwater_core::{Bytes, Config, Error, Report};

use crate::file::FileSource;
use crate::style::FAINT;
use crate::table::{Align, Cell, Table};

/// The memory snapshot or the profiler trace in a file, as an estimate.
pub(crate) fn open(path: &Path, config: &Config) -> Result<Report, Error> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut source = FileSource::open(path)?;
    if profiled::is_trace(&mut source)? {
        let profile = profiled::open(&mut source)?;
        return Ok(Traced::of(&History::of(&profile)?, config, 0)?.report(&name));
    }
    let snapshot = recorded::open(&mut source)?;
    Recorded::of(&snapshot, None)?.report(&name, config)
}

/// Estimate and recording, phase by phase.
pub(crate) fn render(estimate: &Report, recorded: &Report) -> String {
    let mut table =
        Table::new([Align::Left, Align::Right, Align::Right, Align::Right, Align::Left]);
    let name = &recorded.model.name;
    table.row(["", "estimate", name, "", ""].map(|head| Cell::styled(head, FAINT)));
    let peak = |name: &str, before, after| Difference { name: name.to_owned(), before, after };
    let (peaks, others) = (&estimate.peak, &recorded.peak);
    let counts = [estimate, recorded].map(|report| report.iterations.len());
    let note = match counts {
        [ours, theirs] if ours != theirs => format!("in {ours} iterations and in {theirs}"),
        _ => String::new(),
    };
    let by_origin = recorded.recorded.as_ref().is_some_and(|run| run.by_origin);
    let mut rows = vec![
        (peak("allocated", peaks.allocated, others.allocated), note),
        (peak("reserved", peaks.reserved, others.reserved), String::new()),
    ];
    let readings = recorded.recorded.iter().flat_map(|run| &run.readings);
    for reading in readings.filter(|reading| reading.by == By::Xmem) {
        let note = || "by xMem's rules".to_owned();
        rows.push((peak("allocated", peaks.allocated, reading.allocated), note()));
        rows.push((peak("reserved", peaks.reserved, reading.reserved), note()));
    }
    for phase in by_phase(estimate, recorded) {
        let mostly = phase.mostly.map(|(category, [before, after])| {
            let name = if by_origin {
                Origin::behind(category).name().to_owned()
            } else {
                category.name().replace('_', " ")
            };
            format!("{name} {before} and {after}")
        });
        let name = match phase.iteration {
            0 => phase.phase.heading().to_owned(),
            iteration => format!("{iteration} {}", phase.phase.heading()),
        };
        rows.push((peak(&name, phase.before, phase.after), mostly.unwrap_or_default()));
    }
    for (row, note) in rows {
        table.row([
            row.name.clone().into(),
            row.before.to_string().into(),
            row.after.to_string().into(),
            gap(&row).into(),
            Cell::styled(note, FAINT),
        ]);
    }
    table.render("  ")
}

/// `+1.2 %`: how far the estimate is above the recording.
fn gap(row: &Difference) -> String {
    let Bytes(truth) = row.after;
    let tenths = u128::from(row.size().0) * 1000 / u128::from(truth.max(1));
    let sign = match row.before.cmp(&row.after) {
        std::cmp::Ordering::Less => '\u{2212}',
        std::cmp::Ordering::Equal => return "=".to_owned(),
        std::cmp::Ordering::Greater => '+',
    };
    format!("{sign}{}.{} %", tenths / 10, tenths % 10)
}
