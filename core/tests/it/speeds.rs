//! How fast tokens are written, against what others published.
//!
//! `tests/fixtures/inference/speeds.txt` is the table, reviewed like code; `UPDATE_EXPECT=1 cargo test` rewrites it.
//! No constant was fitted to these figures.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "printed alone"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::config::{Precision, Workload};
use highwater_core::estimate::{Stages, Timings};
use highwater_core::formats::catalogue;
use highwater_core::time::{Picoseconds, Timing};
use highwater_core::{Config, device, open_named};

use crate::fixtures;

/// COUNT: figures that must be judged.
const LEAST: usize = 40;

/// Picoseconds of a second.
const SECOND: f64 = 1e12;

/// A published figure: cells by the names of their columns.
type Figure<'a> = BTreeMap<&'a str, &'a str>;

/// Its time, ours, and the interval of ours, in seconds.
struct Judged {
    theirs: f64,
    ours: f64,
    least: f64,
    most: f64,
}

impl Judged {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    fn is_within(&self) -> bool {
        (self.least..=self.most).contains(&self.theirs)
    }
}

#[test]
fn tokens_are_written_about_as_fast_as_published() {
    let text = String::from_utf8(fixtures::read("inference/speeds.csv")).expect("text");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let figures: Vec<Figure<'_>> =
        lines.map(|line| head.iter().copied().zip(line.split(',')).collect()).collect();
    let judged: Vec<Judged> = figures.iter().map(judge).collect();
    let mut page = "Time of tokens by CUDA graphs, ours / published; `in` where the published one is in our interval.\n\
                    `cargo test -p highwater-core --test it speeds` makes this table.\n\n"
        .to_owned();
    writeln!(page, "{:<40} rows  median  within 30 %  in the interval", "").unwrap();
    let pairs = || figures.iter().zip(&judged);
    line(&mut page, "all", pairs().map(|(_, judged)| judged).collect());
    for column in ["metric", "framework", "device", "batch"] {
        let mut keys: Vec<&str> = figures.iter().map(|figure| figure[column]).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let of = pairs().filter(|(figure, _)| figure[column] == key);
            line(&mut page, &format!("{column} {key}"), of.map(|(_, judged)| judged).collect());
        }
    }
    page.push('\n');
    for (figure, judged) in pairs() {
        let of = |name: &str| figure[name];
        writeln!(
            page,
            "{:<24} {:<12} {:<12} {:>2} × {:>4} + {:<4} {:<20} {:>8} {:.2}{}",
            of("framework"),
            of("model"),
            of("device"),
            of("batch"),
            of("prompt"),
            of("new_tokens"),
            of("metric"),
            of("value"),
            judged.ratio(),
            if judged.is_within() { " in" } else { "" }
        )
        .unwrap();
    }
    expect_file!["../../../tests/fixtures/inference/speeds.txt"].assert_eq(&page);
    assert!(judged.len() >= LEAST);
}

fn line(page: &mut String, name: &str, of: Vec<&Judged>) {
    let mut ratios: Vec<f64> = of.iter().map(|judged| judged.ratio()).collect();
    ratios.sort_by(f64::total_cmp);
    let near = ratios.iter().filter(|ratio| (0.7..=1.0 / 0.7).contains(*ratio)).count();
    let within = of.iter().filter(|judged| judged.is_within()).count();
    let (count, median) = (ratios.len(), ratios[ratios.len() / 2]);
    writeln!(page, "{name:<40} {count:>4} {median:>7.2} {near:>12} {within:>16}").unwrap();
}

fn judge(figure: &Figure<'_>) -> Judged {
    let count = |name: &str| figure[name].parse::<u64>().unwrap();
    let (batch, prompt, new) = (count("batch"), count("prompt"), count("new_tokens"));
    let value: f64 = figure["value"].parse().unwrap();
    let timing = timing(figure, batch, prompt, new);
    let written = timing.generation(true).unwrap();
    let (time, theirs) = match figure["metric"] {
        "first_token_s" => (written.first, value),
        "prompt_tokens_per_s" => (written.first, prompt as f64 / value),
        "later_tokens_per_s" => (written.each, batch as f64 / value),
        "tokens_per_s" => (written.all, (batch * new) as f64 / value),
        other => panic!("{other}"),
    };
    let (least, most) = timing.time.around(time);
    let seconds = |Picoseconds(time)| time as f64 / SECOND;
    Judged { theirs, ours: seconds(time), least: seconds(least), most: seconds(most) }
}

fn timing(figure: &Figure<'_>, batch: u64, prompt: u64, new: u64) -> Timing {
    let model = open_named(&catalogue::find(figure["model"]).unwrap()).unwrap();
    let device = device::find(figure["device"]).unwrap();
    let dims = [("batch".to_owned(), batch), ("seq".to_owned(), prompt)];
    let config = Config {
        workload: Workload::Generation,
        new_tokens: new.try_into().unwrap(),
        precision: Precision::Fp16,
        device: device.id.to_owned(),
        dims: dims.into(),
        ..Config::default()
    };
    let form = Some(figure["form"]).filter(|form| !form.is_empty());
    Timings::new(&model, &config, &mut Stages::default()).on_form(device, form).unwrap()
}
