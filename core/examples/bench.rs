//! Where the time goes: each stage, the whole estimate, the search for the largest batch.
//!
//! `cargo run --release -p highwater-core --example bench`. Wall time, the best of several rounds;
//! shares and ratios are of one run on one machine, and travel better than times.
#![expect(clippy::disallowed_types, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "prints its result")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use highwater_core::allocator::{Settings, replay_series};
use highwater_core::config::PyTorch;
use highwater_core::device::{self, Device};
use highwater_core::diagnostic::Diagnostics;
use highwater_core::eager::Hardware;
use highwater_core::source::{Counted, ReadStats};
use highwater_core::step::loss::Loss;
use highwater_core::{Config, Source, formats, infer, recover, step};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A model and sizes for its dimensions.
const MODELS: [(&str, &[(&str, u64)]); 4] = [
    ("resnet50", &[("batch", 32)]),
    ("vit_b_16", &[("batch", 32)]),
    ("gpt2", &[("batch", 8), ("seq", 512)]),
    ("swin_t", &[("batch", 32)]),
];

fn main() -> Result<()> {
    stages()?;
    largest_batches()?;
    large_file()
}

/// Time of one call, in the fastest of several rounds that take a second together at most.
fn best(mut call: impl FnMut()) -> Duration {
    let begin = Instant::now();
    let mut fastest = Duration::MAX;
    for round in 0..50 {
        let start = Instant::now();
        call();
        fastest = fastest.min(start.elapsed());
        if round >= 4 && begin.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    fastest
}

fn stages() -> Result<()> {
    println!("milliseconds, and share of their sum; `estimate` is everything after decode");
    println!(
        "{:<10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>9} {:>7} {:>9} {:>11}",
        "model",
        "decode",
        "infer",
        "recover",
        "step",
        "replay",
        "estimate",
        "/decode",
        "events",
        "M events/s"
    );
    for (name, dims) in MODELS {
        stages_of(name, dims)?;
    }
    Ok(())
}

fn stages_of(name: &str, dims: &[(&str, u64)]) -> Result<()> {
    let bytes = fixture(name)?;
    let config = config(dims);
    let device = device::lookup(&config.device).ok_or("no such device")?;
    let graph = formats::open(&mut bytes.as_slice(), name)?.graph;
    let sink = Diagnostics::default();
    let typed = infer::infer(&graph, &config.dims, &sink)?;
    let program = recover::recover(&graph, &typed, &config, &sink);
    let loss = Loss::choose(config.loss, &program.graph, &program.typed, &sink)?;
    let run = || step::record(&program, &loss, &config, hardware(device), &(), &sink);
    let trace = run()?;
    let model = highwater_core::open(&mut bytes.as_slice(), name)?;

    let stages = [
        best(|| drop(black_box(formats::open(&mut black_box(bytes.as_slice()), name)))),
        best(|| drop(black_box(infer::infer(black_box(&graph), &config.dims, &sink)))),
        best(|| drop(black_box(recover::recover(black_box(&graph), &typed, &config, &sink)))),
        best(|| drop(black_box(run()))),
        best(|| drop(black_box(replay_series(black_box(&trace), &Settings::default(), None)))),
    ];
    let estimate = best(|| drop(black_box(model.estimate(black_box(&config)))));

    let sum: Duration = stages.iter().sum();
    let [decode, .., replay] = stages;
    let stage =
        |time: Duration| format!("{} {:>3.0} %", milliseconds(time), 100. * ratio(time, sum));
    let columns: Vec<String> = stages.iter().map(|&time| format!("{:>12}", stage(time))).collect();
    println!(
        "{name:<10} {} {:>9} {:>7.1} {:>9} {:>11.1}",
        columns.join(" "),
        milliseconds(estimate),
        ratio(estimate, decode),
        trace.events.len(),
        f64::from(u32::try_from(trace.events.len())?) / replay.as_secs_f64() / 1e6
    );
    Ok(())
}

/// The largest batch of one model on every device, one after the other.
fn largest_batches() -> Result<()> {
    let (name, dims) = MODELS[0];
    let config = config(dims);
    let model = highwater_core::open(&mut fixture(name)?.as_slice(), name)?;
    let estimate = best(|| drop(black_box(model.verdict(&config, &config.device))));
    let table = best(|| {
        for device in device::all() {
            drop(black_box(model.largest_batch(&config, device.id)));
        }
    });
    println!(
        "\nlargest batch of {name} on {} devices: {} ms, {:.1} verdicts' time for each device",
        device::all().len(),
        milliseconds(table),
        ratio(table, estimate) / f64::from(u32::try_from(device::all().len())?)
    );
    Ok(())
}

/// A model whose weights take two GiB: what of the file is read, and how long that takes.
fn large_file() -> Result<()> {
    let mut file = Sparse::new(64, 32 << 20);
    let mut stats = ReadStats::default();
    let time = best(|| {
        let mut counted = Counted::new(&mut file);
        drop(black_box(formats::open(&mut counted, "large")));
        stats = counted.stats();
    });
    formats::open(&mut file, "large")?;
    println!(
        "\nfile of {} bytes: {} read in {} reads (1 in {}), {} ms",
        stats.file_bytes,
        stats.bytes_read,
        stats.reads,
        stats.file_bytes / stats.bytes_read.max(1),
        milliseconds(time)
    );
    Ok(())
}

fn config(dims: &[(&str, u64)]) -> Config {
    let dims: BTreeMap<_, _> = dims.iter().map(|&(name, size)| (name.to_owned(), size)).collect();
    Config { dims, ..Config::default() }
}

const fn hardware(device: &Device) -> Hardware {
    Hardware {
        capability: device.compute_capability,
        multiprocessors: device.multiprocessors,
        threads_per_multiprocessor: device.threads_per_multiprocessor,
        cublas_workspace: device.cublas_workspace(PyTorch::V2_15),
    }
}

fn fixture(name: &str) -> Result<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/zoo/train");
    let mut bytes = Vec::new();
    let file = File::open(folder.join(format!("{name}.onnx.gz")))?;
    GzDecoder::new(file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// An ONNX file made of pieces, between which weights of zeros lie that take no memory.
struct Sparse {
    /// Where each piece begins, and its bytes.
    pieces: Vec<(u64, Vec<u8>)>,
    len: u64,
}

impl Sparse {
    /// A chain of matrix products; each weight takes `bytes`.
    fn new(layers: u64, bytes: u64) -> Self {
        let side = 1024;
        // `GraphProto`: nodes, initializers, an input, an output. Field numbers are those of
        // <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>.
        let mut small = Vec::new();
        let mut heads = Vec::new();
        for layer in 0..layers {
            let names = [format!("x{layer}"), format!("w{layer}"), format!("x{}", layer + 1)];
            let node =
                [text(1, &names[0]), text(1, &names[1]), text(2, &names[2]), text(4, "MatMul")];
            small.extend(field(1, &node.concat()));
            let dims = [number(1, side), number(1, bytes / 4 / side)];
            let tensor = [dims.concat(), number(2, 1), text(8, &names[1])].concat();
            let raw = [tag(9, 2), varint(bytes)].concat();
            let size = (tensor.len() + raw.len()) as u64 + bytes;
            heads.push([tag(5, 2), varint(size), tensor, raw].concat());
        }
        small.extend(field(11, &value("x0", side)));
        small.extend(field(12, &text(1, &format!("x{layers}"))));
        let rest: u64 = heads.iter().map(|head| head.len() as u64 + bytes).sum();
        let opset = field(8, &number(2, 20));
        let graph = [tag(7, 2), varint(small.len() as u64 + rest)].concat();
        let start = [number(1, 10), opset, graph, small].concat();
        let mut len = start.len() as u64;
        let mut pieces = vec![(0, start)];
        for head in heads {
            let begin = len;
            len += head.len() as u64 + bytes;
            pieces.push((begin, head));
        }
        Self { pieces, len }
    }
}

impl Source for Sparse {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
    ) -> std::result::Result<(), highwater_core::Error> {
        buffer.fill(0);
        let end = offset + buffer.len() as u64;
        for (begin, piece) in &self.pieces {
            let from = offset.max(*begin);
            let until = end.min(begin + piece.len() as u64);
            if from < until {
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                buffer[index(from - offset)..index(until - offset)]
                    .copy_from_slice(&piece[index(from - begin)..index(until - begin)]);
            }
        }
        Ok(())
    }
}

/// `ValueInfoProto` of a float tensor `[batch, side]`.
fn value(name: &str, side: u64) -> Vec<u8> {
    let shape = [field(1, &text(2, "batch")), field(1, &number(1, side))].concat();
    let tensor = [number(1, 1), field(2, &shape)].concat();
    [text(1, name), field(2, &field(1, &tensor))].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

fn tag(number: u64, wire: u64) -> Vec<u8> {
    varint(number << 3 | wire)
}

fn number(number: u64, value: u64) -> Vec<u8> {
    [tag(number, 0), varint(value)].concat()
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&tag(number, 2), &varint(bytes.len() as u64), bytes].concat()
}

fn text(number: u64, text: &str) -> Vec<u8> {
    field(number, text.as_bytes())
}
