//! Peaks of recorded runs beside ours.
#![expect(clippy::cast_precision_loss, reason = "percentages for the eye")]

use std::fs;

use highwater_core::Report;
use serde_json::Value;

use super::run;
use crate::Result;

/// A line per run; models that are named are told in detail.
pub(crate) fn compare(results: &str, folder: &str, chosen: &[&str]) -> Result<()> {
    let (mut allocated, mut reserved) = (Vec::new(), Vec::new());
    for line in fs::read_to_string(results)?.lines() {
        let row: Value = serde_json::from_str(line)?;
        let name = row["model"].as_str().ok_or("a row without a model")?;
        if !chosen.is_empty() && !chosen.contains(&name) {
            continue;
        }
        match estimate(folder, name, &row) {
            Ok(report) => {
                allocated.push(off(report.peak.allocated.0, &row["allocated"]));
                reserved.push(off(report.peak.reserved.0, &row["reserved"]));
                print_row(&report, &row);
                if !chosen.is_empty() {
                    print_details(&report, &row);
                }
            }
            Err(error) => println!("{name}: {error} ({})", row["variant"]),
        }
    }
    print_summary("allocated", allocated);
    print_summary("reserved", reserved);
    Ok(())
}

fn estimate(folder: &str, name: &str, row: &Value) -> Result<Report> {
    let path = format!("{folder}/{name}.onnx");
    let spec = format!("{folder}/{name}.yaml");
    let model = run::open(&path)
        .or_else(|_| run::open(&format!("{path}.gz")))
        .or_else(|_| run::open(&spec))?;
    Ok(model.estimate(&run::configuration(&model, row)?)?)
}

/// Percent by which a prediction is off.
fn off(predicted: u64, truth: &Value) -> f64 {
    (predicted as f64 / truth.as_u64().unwrap_or(0) as f64 - 1.0) * 100.0
}

fn print_row(report: &Report, row: &Value) {
    let peak = &report.peak;
    let first = report.iterations.first().map_or(0, |peaks| peaks.requested.0);
    let optimizer = row["optimizer"].as_str().unwrap_or("");
    println!(
        "{:22} b{:<3} {optimizer:8} alloc {:>12} {:>+7.2}%  reserved {:>12} {:>+7.2}%  it1 {:+.2}% \
         params {:+}{} {} {} {}",
        report.model.name.rsplit('/').next().unwrap_or_default(),
        row["batch"],
        peak.allocated.0,
        off(peak.allocated.0, &row["allocated"]),
        peak.reserved.0,
        off(peak.reserved.0, &row["reserved"]),
        off(first, &row["it1_requested"]),
        i128::from(report.model.parameters) - i128::from(row["params"].as_u64().unwrap_or(0)),
        if report.lower_bound { " LOWER" } else { "" },
        peak.phase.name(),
        peak.operator,
        row["variant"][0].as_str().unwrap_or(""),
    );
}

fn print_details(report: &Report, row: &Value) {
    for diagnostic in &report.diagnostics {
        println!("   {diagnostic}");
    }
    println!("   {:?}", report.at_peak);
    println!("   truth {}", row["summary"]["2"]);
}

fn print_summary(name: &str, errors: Vec<f64>) {
    let mut sizes: Vec<f64> = errors.into_iter().map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    let within = |bound: f64| sizes.iter().filter(|&&size| size <= bound).count();
    println!(
        "{} rows, {name}: exact {}, within 1 % {}, within 3 % {}, median {:.2} %, worst {:.2} %",
        sizes.len(),
        within(0.0),
        within(1.0),
        within(3.0),
        sizes.get(sizes.len() / 2).unwrap_or(&0.0),
        sizes.last().unwrap_or(&0.0)
    );
}
