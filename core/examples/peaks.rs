//! Peaks of models against the oracle's own records, with what was alive: for work on the rules.
//!
//! `cargo run --release -p highwater-core --example peaks -- RESULTS.jsonl FOLDER [MODEL…]`, where
//! FOLDER has `MODEL.onnx` files. Models named are told in detail. `tests/accuracy.txt` is the
//! committed table of the same errors.
#![expect(clippy::disallowed_methods, reason = "an example reads files")]
#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]
#![expect(clippy::cast_precision_loss, reason = "percentages for the eye")]

use std::error::Error;
use std::fs;

use highwater_core::{Config, Model, Optimizer, Report};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [results, folder, chosen @ ..] = arguments.as_slice() else {
        return Err("give RESULTS.jsonl, a folder of models, and names of models or none".into());
    };
    let (mut allocated, mut reserved) = (Vec::new(), Vec::new());
    for line in fs::read_to_string(results)?.lines() {
        let row: Value = serde_json::from_str(line)?;
        let name = row["model"].as_str().ok_or("a row without a model")?;
        if !chosen.is_empty() && !chosen.iter().any(|model| model == name) {
            continue;
        }
        let bytes = fs::read(format!("{folder}/{name}.onnx"))?;
        let report = highwater_core::open(&mut bytes.as_slice(), name)
            .and_then(|model| model.estimate(&configuration(&model, &row)));
        match report {
            Ok(report) => {
                allocated.push(off(report.peak.allocated.0, &row["allocated"]));
                reserved.push(off(report.peak.reserved.0, &row["reserved"]));
                print_row(&report, &row);
                if !chosen.is_empty() {
                    print_details(&report, &row);
                }
            }
            Err(error) => println!("{name}: {error}"),
        }
    }
    print_summary("allocated", allocated);
    print_summary("reserved", reserved);
    Ok(())
}

/// What the oracle was told, in our words.
fn configuration(model: &Model, row: &Value) -> Config {
    let size = |key: &str| row[key].as_u64();
    let dims = model.open_dims().into_iter().map(|dim| {
        let chosen = if dim.batch { size("batch") } else { size("seq") };
        (dim.name, chosen.unwrap_or(dim.default))
    });
    let optimizer = match row["optimizer"].as_str() {
        Some("sgd") => Optimizer::SgdMomentum,
        Some("sgd0") => Optimizer::Sgd,
        Some("adam") => Optimizer::Adam,
        _ => Optimizer::AdamW,
    };
    Config { dims: dims.collect(), optimizer, device: "a100-80gb".to_owned() }
}

/// Percent by which a prediction is off.
fn off(predicted: u64, truth: &Value) -> f64 {
    (predicted as f64 / truth.as_u64().unwrap_or(0) as f64 - 1.0) * 100.0
}

fn print_row(report: &Report, row: &Value) {
    let peak = &report.peak;
    let first = report.iterations.first().map_or(0, |peaks| peaks.requested.0);
    println!(
        "{:22} b{:<3} {:6} alloc {:>12} {:>+7.2}%  reserved {:>12} {:>+7.2}%  it1 {:+.2}% \
         params {}{} {} {}",
        report.model.name,
        row["batch"],
        row["optimizer"].as_str().unwrap_or(""),
        peak.allocated.0,
        off(peak.allocated.0, &row["allocated"]),
        peak.reserved.0,
        off(peak.reserved.0, &row["reserved"]),
        off(first, &row["it1_requested"]),
        i128::from(report.model.parameters) - i128::from(row["params"].as_u64().unwrap_or(0)),
        if report.lower_bound { " LOWER" } else { "" },
        peak.phase.name(),
        peak.operator
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
        "{} rows, {name}: exact {}, within 3 % {}, median {:.2} %, worst {:.2} %",
        sizes.len(),
        within(0.0),
        within(3.0),
        sizes.get(sizes.len() / 2).unwrap_or(&0.0),
        sizes.last().unwrap_or(&0.0)
    );
}
