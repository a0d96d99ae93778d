//! Schedulers that know the memory of jobs more or less well, on published traces: the tables and pictures of
//! `docs/cluster.md`.
//!
//! `cargo run --release -p highwater-core --example tools -- cluster [openb_pod_list_default.csv]`
//!
//! The argument is a table of Alibaba's cluster-trace-gpu-v2023. Its authors state no licence, so it is not here;
//! without it, what comes from it is left as it is. With a number behind it, jobs are joined with other runs, and that
//! table is printed instead. Run it in the root of the repository.
#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]
#![expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    clippy::float_arithmetic,
    clippy::indexing_slicing,
    reason = "tables and pictures alone"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use highwater_core::config::{PyTorch, Transformers};
use highwater_core::device::{self, Device};
use highwater_core::estimate::{Stages, Timings};
use highwater_core::formats::catalogue;
use highwater_core::sharing::policy::{self, Policy};
use highwater_core::sharing::queue::{self, Card, Job, On, Outcome};
use highwater_core::sharing::slowdown::{Load, Mode, slowed};
use highwater_core::time::{Gpu, Run, Share};
use highwater_core::{Bytes, Config, Model, Optimizer};

use crate::Result;

type Cells = BTreeMap<String, String>;

const PAGE: &str = "docs/cluster.md";
const PICTURES: &str = "docs/pictures";
const FIXTURES: &str = "tests/fixtures";
const DEVICE: &str = "a100-40gb";
/// CARMA's traces, and their tables.
const TRACES: [(&str, &str); 4] =
    [("mix", "carma-mix"), ("heavy", "carma-heavy"), ("t1", "carma-t1"), ("t2", "carma-t2")];
/// COUNT: jobs of a GPU.
const MOST: usize = 4;
const MIB: u64 = 1 << 20;
const HOUR: u64 = 3_600_000;
/// SECONDS: what of Alibaba's trace is used begins there; before, few jobs are listed.
const BEGIN: u64 = 10_000_000;

/// What a scheduler is told: a name, and the figure of each job.
struct Told {
    name: &'static str,
    policy: Policy,
    figures: Vec<Option<Bytes>>,
}

/// A job, whoever schedules it.
struct Queued {
    submitted: u64,
    duration: u64,
    real: Bytes,
    active: Share,
}

/// One scheduler's result.
struct Row {
    name: &'static str,
    cards: usize,
    failures: u32,
    wait: f64,
    turnaround: f64,
    busy: f64,
    end: f64,
    never: usize,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    if let [path, seed] = arguments {
        println!("{}", table(&alibaba(&fs::read_to_string(path)?, seed.parse()?)?));
        return Ok(());
    }
    let mut blocks = BTreeMap::new();
    for (trace, block) in TRACES {
        let rows = carma(trace)?;
        blocks.insert(block, table(&rows));
        if trace == "mix" || trace == "heavy" {
            picture(block, &rows)?;
        }
    }
    if let Some(path) = arguments.first() {
        let rows = alibaba(&fs::read_to_string(path)?, 0)?;
        blocks.insert("alibaba", table(&rows));
        let chosen: Vec<Row> = rows.into_iter().filter(|row| row.cards == CLUSTERS[0]).collect();
        picture("alibaba", &chosen)?;
    }
    let mut page = fs::read_to_string(PAGE)?;
    for (name, text) in blocks {
        let begin = format!("<!-- cluster: {name} -->");
        let (before, rest) =
            page.split_once(&begin).ok_or_else(|| format!("no place for {name}"))?;
        let (_, after) = rest.split_once("<!-- end -->").ok_or("no end")?;
        page = format!("{before}{begin}\n\n{text}\n<!-- end -->{after}");
    }
    fs::write(PAGE, page)?;
    println!("{PAGE} and its pictures are written");
    Ok(())
}

fn read(text: &str) -> Result<Vec<Cells>> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().map(|row| Ok(row?)).collect()
}

fn fixture(name: &str) -> Result<Vec<Cells>> {
    read(&fs::read_to_string(format!("{FIXTURES}/{name}"))?)
}

fn gpu() -> Result<&'static Device> {
    Ok(device::find(DEVICE)?)
}

fn sharing(id: &str) -> Policy {
    let policy = policy::find(id).copied().unwrap_or(policy::POLICIES[0]);
    Policy { most: MOST, ..policy }
}

/// A figure of the scoreboard: of a class or a range, the upper end.
fn figure(cell: &str) -> Option<Bytes> {
    let figure = cell.split([' ', '/']).next()?;
    figure.rsplit('-').next()?.parse().ok().map(Bytes)
}

/// Runs the queue of each scheduler.
fn simulate(
    told: &[Told],
    cards: usize,
    jobs: &[Queued],
    slowdown: &mut queue::Slowdown<'_>,
) -> Result<Vec<Row>> {
    let hosts = vec![Card { kind: 0, memory: gpu()?.capacity }; cards];
    let mut rows = Vec::new();
    for told in told {
        let jobs = jobs.iter().zip(&told.figures).map(|(job, figure)| {
            let Queued { submitted, duration, real, active } = *job;
            // Whoever believes that a job needs more than the GPU has gives it all of it.
            let believed = figure.map(|figure| figure.min(hosts[0].memory));
            let on = On { duration, believed, real, active };
            Job { submitted, on: vec![Some(on)] }
        });
        let jobs: Vec<Job> = jobs.collect();
        let outcome = queue::run(&hosts, &jobs, told.policy, slowdown);
        rows.push(row(told.name, cards, &jobs, &outcome));
    }
    Ok(rows)
}

fn row(name: &'static str, cards: usize, jobs: &[Job], outcome: &Outcome) -> Row {
    let hours = |time: u64| time as f64 / HOUR as f64;
    let ran = jobs.iter().zip(&outcome.ended);
    let ran: Vec<_> = ran.filter_map(|(job, ended)| Some((job.submitted, ended.ran?))).collect();
    let count = ran.len().max(1) as f64;
    let mean = |of: &dyn Fn(u64, (u64, u64)) -> u64| {
        ran.iter().map(|(submitted, ran)| hours(of(*submitted, *ran))).sum::<f64>() / count
    };
    Row {
        name,
        cards,
        failures: outcome.ended.iter().map(|ended| ended.failures).sum(),
        wait: mean(&|submitted, (began, _)| began - submitted),
        turnaround: mean(&|submitted, (_, ended)| ended - submitted),
        busy: hours(outcome.busy),
        end: ran.iter().map(|(_, (_, ended))| hours(*ended)).fold(0.0, f64::max),
        never: outcome.ended.iter().filter(|ended| ended.ran.is_none()).count(),
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = "| the scheduler counts with | GPUs | out of memory | mean wait, h | mean time to end, h | GPU hours | \
                    all end after, h |\n\
                    |---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        let never =
            if row.never > 0 { format!(" ({} never ran)", row.never) } else { String::new() };
        writeln!(
            text,
            "| {} | {} | {}{never} | {:.2} | {:.2} | {:.0} | {:.1} |",
            row.name, row.cards, row.failures, row.wait, row.turnaround, row.busy, row.end
        )
        .ok();
    }
    text
}

/// Bars: the mean time from submission to end, and failures.
fn picture(name: &str, rows: &[Row]) -> Result<()> {
    let (left, width, step) = (250.0, 360.0, 26.0);
    let height = step * rows.len() as f64 + 56.0;
    let longest = rows.iter().map(|row| row.turnaround).fold(0.001, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 780 {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"780\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n\
         <text x=\"{left}\" y=\"22\" fill=\"#444444\">hours from submission to end, on average; of these waiting \
         (light)</text>\n"
    );
    for (at, row) in rows.iter().enumerate() {
        let y = 36.0 + step * at as f64;
        let bar = |from: f64, to: f64, ink: &str| {
            format!(
                "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"18\" fill=\"{ink}\"/>\n",
                left + from / longest * width,
                (to - from).max(0.0) / longest * width
            )
        };
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#222222\">{}</text>",
            left - 8.0,
            y + 14.0,
            row.name
        )
        .ok();
        svg += &bar(0.0, row.wait, "#a9c7e8");
        svg += &bar(row.wait, row.turnaround, "#2f6db3");
        let failures = if row.failures > 0 {
            format!(", {} out of memory", row.failures)
        } else {
            String::new()
        };
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#222222\">{:.2}{failures}</text>",
            left + row.turnaround / longest * width + 6.0,
            y + 14.0,
            row.turnaround
        )
        .ok();
    }
    svg += "</svg>\n";
    fs::write(format!("{PICTURES}/cluster-{name}.svg"), svg)?;
    Ok(())
}

// CARMA's traces.

/// A workload of CARMA: what is known about it.
struct Workload {
    measured: Bytes,
    duration: u64,
    active: Share,
    load: Option<Load>,
    /// Ours, ours at the upper end, Horus, `FakeTensor`, `GPUMemNet`.
    figures: [Option<Bytes>; 5],
}

fn carma(trace: &str) -> Result<Vec<Row>> {
    let scores = fixture("../scoreboard.csv")?;
    let mut known = BTreeMap::new();
    for cells in fixture("sharing/carma-workloads.csv")? {
        known.insert(cells["workload"].clone(), workload(&cells, &scores)?);
    }
    let jobs: Vec<Cells> = fixture("sharing/carma-traces.csv")?
        .into_iter()
        .filter(|job| job["trace"] == trace)
        .collect();
    let of = |at: usize| &known[&jobs[at]["workload"]];
    let figures = |which: usize| (0..jobs.len()).map(|at| of(at).figures[which]).collect();
    let measured = || (0..jobs.len()).map(|at| Some(of(at).measured)).collect();
    let (best, capped) = (sharing("best-fit"), sharing("by-utilisation"));
    let told = [
        Told { name: "nothing: each job alone", policy: sharing("exclusive"), figures: figures(1) },
        Told { name: "Horus", policy: best, figures: figures(2) },
        Told { name: "FakeTensor", policy: best, figures: figures(3) },
        Told { name: "GPUMemNet", policy: best, figures: figures(4) },
        Told { name: "Highwater, likely", policy: best, figures: figures(0) },
        Told { name: "Highwater, upper end", policy: best, figures: figures(1) },
        Told { name: "measured need", policy: best, figures: measured() },
        Told { name: "Highwater, upper end and use", policy: capped, figures: figures(1) },
        Told { name: "measured need and use", policy: capped, figures: measured() },
    ];
    let queue: Result<Vec<_>> = (0..jobs.len())
        .map(|at| {
            let submitted: u64 = jobs[at]["submitted"].parse()?;
            let Workload { measured: real, duration, active, .. } = *of(at);
            Ok(Queued { submitted: submitted * 1000, duration, real, active })
        })
        .collect();
    let mut replayed: BTreeMap<Vec<String>, Vec<u64>> = BTreeMap::new();
    let mut slowdown = |_: usize, together: &[usize]| {
        // Replays of the same workloads are the same in any order.
        let mut order: Vec<usize> = (0..together.len()).collect();
        order.sort_by_key(|at| &jobs[together[*at]]["workload"]);
        let names: Vec<String> =
            order.iter().map(|at| jobs[together[*at]]["workload"].clone()).collect();
        let times = replayed.entry(names.clone()).or_insert_with(|| {
            let loads: Option<Vec<Load>> =
                names.iter().map(|name| known[name].load.clone()).collect();
            match loads {
                Some(loads) => {
                    slowed(&loads, Mode::Mps).iter().map(|job| job.slowdowns()[1]).collect()
                }
                None => vec![1000 * names.len() as u64; names.len()],
            }
        });
        let mut result = vec![1000; together.len()];
        for (at, slower) in order.into_iter().zip(times.iter()) {
            result[at] = *slower;
        }
        result
    };
    simulate(&told, 4, &queue?, &mut slowdown)
}

fn workload(cells: &Cells, scores: &[Cells]) -> Result<Workload> {
    let mib = |name: &str| -> Option<Bytes> {
        // 40000 stands for: no estimate.
        let figure: f64 = cells[name].parse().ok().filter(|figure| *figure < 40_000.0)?;
        format!("{figure:.0}").parse::<u64>().ok().map(|mib| Bytes(mib * MIB))
    };
    let measured = Bytes(cells["measured"].parse::<u64>()? * MIB);
    let scored = scores.iter().find(|score| {
        score["source"] == "carma"
            && score["model"] == cells["scored"]
            && score["batch"] == cells["batch"]
    });
    let mut ours = scored.map(|score| [figure(&score["highwater"]), figure(&score["high"])]);
    let mut duration = HOUR;
    let mut load = None;
    let mut active = Share(Share::ALL);
    if !cells["model"].is_empty() {
        let (model, config) = configured(cells)?;
        let gpu = Gpu::of(gpu()?)?;
        let mut stages = Stages::default();
        if ours.is_none() {
            let verdict = model.verdict(&config, DEVICE, &mut stages)?;
            ours = Some([Some(verdict.need), verdict.interval.map(|interval| interval.high)]);
        }
        let mut timings = Timings::new(&model, &config, &mut stages);
        let time = timings.on(self::gpu()?)?.time;
        let step = time.step();
        active = time.utilisation().sm_active;
        load = Some(Load::new(&Run::of_step(&*timings.launches(self::gpu()?)?, gpu), step));
        if let Ok(steps) = cells["steps"].parse::<u64>() {
            duration = (step.0 / 1_000_000 * steps) / 1000;
        }
    }
    let [likely, upper] = ours.unwrap_or_default();
    let figures = [likely, upper, mib("horus"), mib("faketensor"), mib("gpumemnet")];
    Ok(Workload { measured, duration, active, load, figures })
}

fn configured(cells: &Cells) -> Result<(Model, Config)> {
    let entry = catalogue::find(&cells["model"]).ok_or("no such model")?;
    let model = highwater_core::open_named(&entry)?;
    let mut config = Config {
        optimizer: Optimizer::Adam,
        pytorch: PyTorch::new(2, 8),
        transformers: Transformers::LATEST,
        ..model.defaults().clone()
    };
    config.set("precision", "fp32")?;
    config.choose_device(DEVICE);
    let (batch, size): (u64, u64) = (cells["batch"].parse()?, cells["size"].parse()?);
    for dim in model.open_dims() {
        let is_size = dim.name == "height" || dim.name == "width" || dim.is_length();
        let of_dim = if dim.batch {
            batch
        } else if is_size {
            size
        } else {
            dim.default
        };
        config.dims.insert(dim.name, of_dim);
    }
    Ok((model, config))
}

// Alibaba's trace.

/// COUNT: GPUs of the clusters.
const CLUSTERS: [usize; 2] = [4, 6];

/// A measured run.
struct Measured {
    need: Bytes,
    /// By the column of the scoreboard.
    figures: BTreeMap<&'static str, Option<Bytes>>,
}

/// Columns of the scoreboard, and names.
const COLUMNS: [(&str, &str); 7] = [
    ("horus", "Horus"),
    ("fake-tensor", "FakeTensor"),
    ("dnnmem", "DNNMem"),
    ("gpumemnet-mlp", "GPUMemNet, perceptron"),
    ("gpumemnet-transformer", "GPUMemNet, transformer"),
    ("highwater", "Highwater, likely"),
    ("high", "Highwater, upper end"),
];

fn measured() -> Result<Vec<Measured>> {
    let scores = fixture("../scoreboard.csv")?;
    let mut runs = Vec::new();
    for source in ["carma", "timm", "gpumemnet"] {
        let truths = fixture(&format!("measured/{source}.csv"))?;
        for score in scores.iter().filter(|score| score["source"] == source) {
            // The first line is the head.
            let at: usize = score["line"].parse()?;
            let Some(truth) = truths.get(at.saturating_sub(2)) else { continue };
            assert_eq!(truth["model"], score["model"], "rows of {source}");
            let Ok(need) = truth["process"].parse() else { continue };
            let mut figures =
                BTreeMap::from(COLUMNS.map(|(column, _)| (column, figure(&score[column]))));
            let context = figure(&score["context"]).unwrap_or_default();
            // What users do who know the weakness of an estimator.
            let with_context = figures["fake-tensor"].map(|tensors| tensors + context);
            let with_margin = figures["dnnmem"].map(|process| Bytes(process.0 / 10 * 11));
            figures.extend([("with-context", with_context), ("with-margin", with_margin)]);
            runs.push(Measured { need: Bytes(need), figures });
        }
    }
    Ok(runs)
}

/// A number that looks random, always the same for the same job.
const fn scattered(n: u64) -> u64 {
    let mixed = n.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
}

fn alibaba(text: &str, seed: u64) -> Result<Vec<Row>> {
    let runs = measured()?;
    let capacity = gpu()?.capacity;
    let milli = |bytes: Bytes| bytes.parts_of(capacity, 1000);
    let mut queue = Vec::new();
    let mut joined: Vec<(&Measured, u64)> = Vec::new();
    for pod in read(text)? {
        // Times end in `.0`, and those that did not happen are empty.
        let number = |name: &str| pod[name].split('.').next()?.parse::<u64>().ok();
        let times = ["creation_time", "scheduled_time", "deletion_time", "gpu_milli"].map(number);
        let [Some(created), Some(scheduled), Some(deleted), Some(asked)] = times else { continue };
        if pod["num_gpu"] != "1" || !(1..1000).contains(&asked) || created < BEGIN {
            continue;
        }
        let mut near: Vec<&Measured> =
            runs.iter().filter(|run| milli(run.need).abs_diff(asked) <= 50).collect();
        if near.is_empty() {
            near = runs.iter().collect();
            near.sort_by_key(|run| milli(run.need).abs_diff(asked));
            near.truncate(20);
        }
        let chosen = usize::try_from(scattered(queue.len() as u64 + (seed << 32)))? % near.len();
        joined.push((near[chosen], asked));
        let duration = deleted.saturating_sub(scheduled).max(1) * 1000;
        queue.push(Queued {
            submitted: (created - BEGIN) * 1000,
            duration,
            real: near[chosen].need,
            active: Share(u32::try_from(asked * 10)?),
        });
    }
    println!(
        "{} jobs, {:.0} GPU hours alone",
        queue.len(),
        queue.iter().map(|job| job.duration as f64).sum::<f64>() / HOUR as f64
    );
    let best = sharing("best-fit");
    let figures = |column: &str| joined.iter().map(|(run, _)| run.figures[column]).collect();
    let requests = joined.iter().map(|(_, asked)| Some(Bytes(capacity.0 / 1000 * asked)));
    let mut told = vec![
        Told {
            name: "nothing: each job alone",
            policy: sharing("exclusive"),
            figures: figures("high"),
        },
        Told { name: "the users' requests", policy: best, figures: requests.collect() },
    ];
    for (column, name) in COLUMNS {
        told.push(Told { name, policy: best, figures: figures(column) });
    }
    let amended =
        [("with-context", "FakeTensor and the context"), ("with-margin", "DNNMem and 10 %")];
    for (column, name) in amended {
        told.push(Told { name, policy: best, figures: figures(column) });
    }
    let needs = joined.iter().map(|(run, _)| Some(run.need)).collect();
    told.push(Told { name: "measured need", policy: best, figures: needs });
    // What a job asks of the device is what it keeps busy.
    let mut slowdown = |_: usize, together: &[usize]| {
        let all: u64 = together.iter().map(|at| joined[*at].1).sum();
        vec![all.max(1000); together.len()]
    };
    let mut rows = Vec::new();
    for cards in CLUSTERS {
        rows.extend(simulate(&told, cards, &queue, &mut slowdown)?);
    }
    Ok(rows)
}
