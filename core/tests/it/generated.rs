//! Times of generation against those that others published.
//!
//! `tests/fixtures/inference/times.txt` is the table; `UPDATE_EXPECT=1 cargo test` rewrites it. Nothing is fitted to
//! it.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "printed alone"
)]

use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;

use expect_test::expect_file;
use highwater_core::config::Config;
use highwater_core::estimate::{Stages, Timings};
use highwater_core::formats::catalogue;
use highwater_core::time::{Generation, Launched, Paced};
use highwater_core::{device, open_named};

use crate::runs::{Cells, table};

/// COUNT: rows that must be judged.
const LEAST: usize = 20;

/// Ours, the least and the most, in the unit of a row.
type Ours = [f64; 3];

#[test]
fn times_of_tokens_are_as_near_to_published_ones_as_the_table_says() {
    let rows = table("inference/times.csv");
    let all = all(&rows);
    let mut text = "Times of generation, ours next to published ones (times.csv), with ratios of times: above 1, ours \
                    is slower.\n`cargo test -p highwater-core --test it generated` makes this table.\n\n"
        .to_owned();
    writeln!(text, "{:<52} {:>5} {:>6} {:>7} {:>10}", "", "rows", "median", "error", "inside")
        .unwrap();
    let judged: Vec<(&Cells, Ours)> = rows.iter().zip(all).collect();
    group(&mut text, "all", &judged, &|_| true);
    for column in ["launched", "metric", "device", "framework"] {
        text.push('\n');
        let mut keys: Vec<&str> = rows.iter().map(|row| row[column].as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            group(&mut text, &format!("{column} {key}"), &judged, &|row| row[column] == key);
        }
    }
    let is_server = |row: &Cells| row["launched"] == "graph";
    text.push('\n');
    group(&mut text, "CUDA graphs, batch 1, tokens", &judged, &|row| {
        is_server(row) && row["batch"] == "1" && row["metric"] != "first_token_ms"
    });
    group(&mut text, "CUDA graphs, larger batches", &judged, &|row| {
        is_server(row) && row["batch"] != "1"
    });
    text.push('\n');
    for (row, ours) in &judged {
        let of = |name: &str| row[name].as_str();
        writeln!(
            text,
            "{:<18} {:<14} {:<10} {:>4} {:>5} {:>5} {:<15} {:>9} {:>9.2} {:>6.2} {}",
            of("framework"),
            of("model"),
            of("device"),
            of("batch"),
            of("prompt"),
            of("new_tokens"),
            of("metric"),
            of("value"),
            ours[0],
            ratio(row, ours),
            if is_inside(row, ours) { "" } else { "outside" },
        )
        .unwrap();
    }
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    let text = text.join("\n") + "\n";
    expect_file!["../../../tests/fixtures/inference/times.txt"].assert_eq(&text);
    assert!(judged.len() >= LEAST);
}

fn is_rate(row: &Cells) -> bool {
    row["metric"] == "tokens_per_s"
}

fn value(row: &Cells) -> f64 {
    row["value"].parse().unwrap()
}

/// Our time over the published one.
fn ratio(row: &Cells, [ours, ..]: &Ours) -> f64 {
    if is_rate(row) { value(row) / ours } else { ours / value(row) }
}

fn is_inside(row: &Cells, [_, least, most]: &Ours) -> bool {
    (*least..=*most).contains(&value(row))
}

/// How many, the median of ratios, the median of absolute errors, and the share inside the interval.
fn group(text: &mut String, name: &str, rows: &[(&Cells, Ours)], wanted: &dyn Fn(&Cells) -> bool) {
    let rows: Vec<_> = rows.iter().filter(|(row, _)| wanted(row)).collect();
    let median = |mut values: Vec<f64>| -> f64 {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        }
    };
    let ratios: Vec<f64> = rows.iter().map(|(row, ours)| ratio(row, ours)).collect();
    let errors = ratios.iter().map(|ratio| 100.0 * (ratio - 1.0).abs()).collect();
    let inside = rows.iter().filter(|(row, ours)| is_inside(row, ours)).count();
    let percent = 100.0 * inside as f64 / rows.len() as f64;
    writeln!(
        text,
        "{name:<52} {:>5} {:>6.2} {:>5.0} % {percent:>8.0} %",
        rows.len(),
        median(ratios),
        median(errors)
    )
    .unwrap();
}

/// Ours for all rows; threads share them.
fn all(rows: &[Cells]) -> Vec<Ours> {
    let queue = Mutex::new(0..rows.len());
    let found = Mutex::new(vec![[0.0; 3]; rows.len()]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(at) = { queue.lock().unwrap().next() } {
                    let ours = ours(&rows[at]);
                    found.lock().unwrap()[at] = ours;
                }
            });
        }
    });
    found.into_inner().unwrap()
}

fn ours(row: &Cells) -> Ours {
    let of = generation(row);
    let milliseconds =
        |Paced { time, least, most }: Paced| [time, least, most].map(|time| time.0 as f64 / 1e9);
    match row["metric"].as_str() {
        "tokens_per_s" => of.tokens_per_second().map(|rate| rate as f64 / 100.0),
        "first_token_ms" => milliseconds(of.first_token()),
        "ms_per_token" => milliseconds(of.per_token().unwrap()),
        "total_ms" => milliseconds(of.total()),
        other => panic!("no metric {other}"),
    }
}

fn generation(row: &Cells) -> Generation {
    let model = open_named(&catalogue::find(&row["model"]).unwrap()).unwrap();
    let mut config: Config = model.defaults().clone();
    for (name, value) in [
        ("workload", "generation"),
        ("precision", &row["precision"]),
        ("new-tokens", &row["new_tokens"]),
    ] {
        config.set(name, value).unwrap();
    }
    for (name, column) in [("batch", "batch"), ("seq", "prompt")] {
        config.dims.insert(name.to_owned(), row[column].parse().unwrap());
    }
    let launched = if row["launched"] == "graph" { Launched::InGraph } else { Launched::ByPython };
    let mut stages = Stages::default();
    let device = device::find(&row["device"]).unwrap();
    Timings::new(&model, &config, &mut stages).generation(device, None, launched).unwrap()
}

/// Each token has its kernels, and takes no less time than the one before, whose cache is shorter.
#[test]
fn passes_grow_with_the_cache() {
    let model = open_named(&catalogue::find("qwen2.5-0.5b").unwrap()).unwrap();
    let mut config = model.defaults().clone();
    for (name, value) in [("workload", "generation"), ("precision", "bf16"), ("new-tokens", "9")] {
        config.set(name, value).unwrap();
    }
    config.dims.extend([("batch".to_owned(), 64), ("seq".to_owned(), 512)]);
    let launches = model.launches(&config).unwrap();
    let numbers: Vec<u64> = launches.passes.iter().map(|pass| pass.number).collect();
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
    let kernels: Vec<usize> = (0..8).map(|at| launches.of_pass(at).len()).collect();
    assert!(kernels.iter().all(|count| *count == kernels[0] && *count > 100), "{kernels:?}");
    let mut stages = Stages::default();
    let device = device::find("a100-80gb").unwrap();
    let mut timings = Timings::new(&model, &config, &mut stages);
    let graph = timings.generation(device, None, Launched::InGraph).unwrap();
    let python = timings.generation(device, None, Launched::ByPython).unwrap();
    let [first, last] = graph.ends().unwrap();
    assert!(first.time <= last.time && graph.total().time < python.total().time);
    assert!(timings.on(device).is_err());
    assert_eq!(graph.passes.len(), 8);
}
