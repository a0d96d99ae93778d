//! Steps of jobs that share a GPU, against those that Gavel's authors measured.
//!
//! `tests/fixtures/sharing/slowdown.txt` is the table, reviewed like code; `UPDATE_EXPECT=1 cargo test` rewrites it.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "printed alone"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::config::PyTorch;
use highwater_core::device::{self, Device};
use highwater_core::estimate::{Stages, Timings};
use highwater_core::formats::catalogue;
use highwater_core::sharing::slowdown::{Load, Mode, slowed};
use highwater_core::time::{Gpu, Picoseconds, Run};
use highwater_core::{Config, Model, Optimizer};

use crate::{fixtures, runs};

/// Their names, our models, and how they are trained.
const JOBS: [(&str, &str, Optimizer); 4] = [
    ("ResNet-18", "resnet18-cifar.yaml", Optimizer::SgdMomentum),
    ("ResNet-50", "", Optimizer::SgdMomentum),
    ("Transformer", "multi30k-transformer.yaml", Optimizer::Adam),
    ("LM", "wikitext2-lstm.yaml", Optimizer::Sgd),
];

/// A job alone.
struct Alone {
    runs: Vec<Run>,
    /// What we predict.
    step: Picoseconds,
    /// SIZE: MiB that its process is expected to need.
    need: u64,
}

/// A pair that was measured: names and batches, rates alone, rates together.
struct Pair {
    jobs: [(String, u64); 2],
    alone: [f64; 2],
    together: [f64; 2],
}

impl Pair {
    fn ran(&self) -> bool {
        self.together.iter().all(|rate| *rate > 0.0)
    }
}

fn pairs() -> Vec<Pair> {
    let stated = |name: &str| JOBS.iter().any(|(job, ..)| *job == name);
    let rows = runs::table("sharing/gavel.csv").into_iter();
    let rows = rows.filter(|row| stated(&row["first"]) && stated(&row["second"]));
    rows.map(|row| {
        let both = |of: &str| ["first", "second"].map(|one| row[&format!("{one}{of}")].clone());
        let [first, second] = both("");
        let [batch, other] = both("_batch").map(|batch| batch.parse().unwrap());
        let rates = |of: &str| both(of).map(|rate| rate.parse().unwrap());
        Pair {
            jobs: [(first, batch), (second, other)],
            alone: rates("_alone"),
            together: rates("_together"),
        }
    })
    .collect()
}

fn device() -> &'static Device {
    device::find("v100-16gb").unwrap()
}

fn alone((name, batch): &(String, u64)) -> Alone {
    let (_, file, optimizer) = JOBS.iter().find(|(job, ..)| job == name).unwrap();
    let model = if file.is_empty() {
        highwater_core::open_named(&catalogue::find("resnet50").unwrap()).unwrap()
    } else {
        let text = fixtures::read(&format!("sharing/{file}"));
        highwater_core::open(&mut text.as_slice(), file).unwrap()
    };
    let config = configuration(&model, *batch, *optimizer);
    let gpu = Gpu::of(device()).unwrap();
    let mut stages = Stages::default();
    let mut timings = Timings::new(&model, &config, &mut stages);
    let step = timings.on(device()).unwrap().time.step();
    let runs = Run::of_step(&timings.launches(device()).unwrap(), gpu);
    let need = model.verdict(&config, device().id, &mut Stages::default()).unwrap().need;
    Alone { runs, step, need: need.0.div_euclid(1 << 20) }
}

fn configuration(model: &Model, batch: u64, optimizer: Optimizer) -> Config {
    let mut config = Config { optimizer, pytorch: PyTorch::new(1, 12), ..model.defaults().clone() };
    config.choose_device(device().id);
    for dim in model.open_dims() {
        config.dims.insert(dim.name, if dim.batch { batch } else { dim.default });
    }
    config
}

/// Least, likely and most of the slowdowns of a pair with these times alone.
fn predicted(jobs: [&Alone; 2], alone: [Picoseconds; 2], mode: Mode) -> [[f64; 3]; 2] {
    let [first, second] = jobs;
    let [one, other] = alone;
    let loads = [Load::new(&first.runs, one), Load::new(&second.runs, other)];
    let both = slowed(&loads, mode);
    let times: Vec<_> =
        both.iter().map(|job| job.slowdowns().map(|times| times as f64 / 1000.0)).collect();
    times.try_into().unwrap()
}

/// What was off, of many slowdowns.
#[derive(Default)]
struct Errors {
    all: Vec<f64>,
    signed: f64,
    inside: usize,
    below: usize,
}

impl Errors {
    fn add(&mut self, [least, likely, most]: [f64; 3], truth: f64) {
        let off = likely / truth - 1.0;
        self.all.push(off.abs());
        self.signed += off;
        self.inside += usize::from(least <= truth && truth <= most);
        self.below += usize::from(truth < least);
    }

    fn line(&mut self, name: &str) -> String {
        self.all.sort_by(f64::total_cmp);
        let at = |tenths: usize| {
            let last = self.all.len() - 1;
            self.all[last * tenths / 10] * 100.0
        };
        let all = self.all.len();
        format!(
            "{name:<46} {all:>5} {:>7.1} {:>7.1} {:>7.1} {:>+7.1} {:>7} {:>7} {:>7}\n",
            at(5),
            at(9),
            at(10),
            self.signed / all as f64 * 100.0,
            self.inside,
            self.below,
            all - self.inside - self.below
        )
    }

    fn median(&self) -> f64 {
        self.all[self.all.len() / 2]
    }
}

/// The sum of the letters of a job's name.
fn letters(name: &str, batch: u64) -> u32 {
    format!("{name} {batch}").bytes().map(u32::from).sum()
}

const HEAD: &str = "Pairs of jobs on one V100 16 GB that share it by MPS, as Gavel's authors measured them: how much longer a
step takes than alone. Ours are replays of both jobs' kernels. `times known`: steps alone take as long as
measured; `predicted`: as long as we predict. Errors are of the likely slowdown, in percent. Inside: the
measured slowdown is in our range, whose width was chosen on the pairs with an even sum of letters.

";

#[test]
fn steps_of_pairs_are_as_much_slower_as_measured() {
    let pairs = pairs();
    let mut jobs: BTreeMap<(String, u64), Alone> = BTreeMap::new();
    for job in pairs.iter().flat_map(|pair| &pair.jobs) {
        jobs.entry(job.clone()).or_insert_with(|| alone(job));
    }
    let mut errors: BTreeMap<&str, Errors> = BTreeMap::new();
    let mut lines = String::new();
    for pair in pairs.iter().filter(|pair| pair.ran()) {
        let both = [&jobs[&pair.jobs[0]], &jobs[&pair.jobs[1]]];
        let measured = pair.alone.map(|rate| Picoseconds((1e12 / rate) as u64));
        let known = predicted(both, measured, Mode::Mps);
        let sliced = predicted(both, measured, Mode::TimeSlices);
        let ours = predicted(both, both.map(|job| job.step), Mode::Mps);
        for at in 0..2 {
            let truth = pair.alone[at] / pair.together[at];
            let (name, batch) = &pair.jobs[at];
            let (other, other_batch) = &pair.jobs[1 - at];
            let is_crowded =
                pair.jobs.iter().any(|(name, batch)| name == "Transformer" && *batch == 256);
            let groups = [
                ("times known, others", "predicted, others"),
                ("times known, with Transformer 256", "predicted, with Transformer 256"),
            ];
            let (with_times, without) = groups[usize::from(is_crowded)];
            errors.entry(with_times).or_default().add(known[at], truth);
            errors.entry(without).or_default().add(ours[at], truth);
            if !is_crowded {
                let half = ["predicted, range chosen on", "predicted, range not chosen on"];
                let letters: u32 =
                    pair.jobs.iter().map(|(name, batch)| letters(name, *batch)).sum();
                let half = half[usize::from(letters % 2 == 1)];
                errors.entry(half).or_default().add(ours[at], truth);
                errors
                    .entry("as time slices, times known, others")
                    .or_default()
                    .add(sliced[at], truth);
                errors.entry("no slowdown, others").or_default().add([1.0; 3], truth);
                errors.entry("twice as long, others").or_default().add([2.0; 3], truth);
            }
            let shown =
                |[least, likely, most]: [f64; 3]| format!("{likely:6.2} ({least:.2} to {most:.2})");
            let line = format!(
                "{:<16} {:<16} {truth:6.2} {:<24} {}",
                format!("{name} {batch}"),
                format!("{other} {other_batch}"),
                shown(known[at]),
                shown(ours[at])
            );
            writeln!(lines, "{}", line.trim_end()).unwrap();
        }
    }
    let mut page = HEAD.to_owned();
    writeln!(
        page,
        "{:<46} {:>5} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "", "jobs", "median", "90 %", "worst", "mean", "inside", "below", "above"
    )
    .unwrap();
    for (name, errors) in &mut errors {
        page += &errors.line(name);
    }
    page += "\nTransformer 256 took 0.59 s a step there and 0.17 s with half the batch: its memory was all but used up.\n";
    page += &memory(&pairs, &jobs);
    page += "\nEach job and the one next to it: measured, times known, predicted\n";
    page += &lines;
    expect_file!["../../../tests/fixtures/sharing/slowdown.txt"].assert_eq(&page);
    assert!(errors["times known, others"].median() < 0.15);
}

/// Whether the sum of needs fits, against pairs that did not run.
fn memory(pairs: &[Pair], jobs: &BTreeMap<(String, u64), Alone>) -> String {
    let capacity = device().capacity.0.div_euclid(1 << 20);
    let mut counts: BTreeMap<(bool, bool), u32> = BTreeMap::new();
    let mut wrong = String::new();
    for pair in pairs {
        let both = [&jobs[&pair.jobs[0]], &jobs[&pair.jobs[1]]];
        let need: u64 = both.iter().map(|job| job.need).sum();
        let fits = need <= capacity;
        *counts.entry((pair.ran(), fits)).or_default() += 1;
        if pair.ran() != fits {
            let names = pair.jobs.each_ref().map(|(name, batch)| format!("{name} {batch}"));
            let ran = if pair.ran() { "ran" } else { "failed" };
            writeln!(wrong, "  {:<34} {ran:<6} {need:>6} MiB of {capacity}", names.join(" and "))
                .unwrap();
        }
    }
    let of = |ran, fits| counts.get(&(ran, fits)).copied().unwrap_or_default();
    format!(
        "\nMemory, by the sum of both likely needs: of {} pairs that ran, {} fit; of {} that failed, {} do not fit.\n\
         Pairs that we judge otherwise:\n{wrong}",
        of(true, true) + of(true, false),
        of(true, true),
        of(false, true) + of(false, false),
        of(false, false)
    )
}
