//! Where the time goes: each stage, the whole estimate, the search for the largest batch.
//!
//! `cargo xtask bench`. Wall time, the best of several rounds; shares and ratios are of one run on one machine, and
//! travel better than times. The last table compares with `bench.txt`, which `cargo xtask bench save` writes: its first
//! row is work that never changes, so its ratio is that of the machines.
#![expect(clippy::disallowed_types, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "prints its result")]

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use highwater_core::allocator::{Settings, replay_series};
use highwater_core::config::Checkpoint;
use highwater_core::device;
use highwater_core::diagnostic::Diagnostics;
use highwater_core::estimate::{Made, Stages};
use highwater_core::source::{Counted, ReadStats};
use highwater_core::step::loss::Loss;
use highwater_core::{Config, Source, formats, infer, recover, step};

use crate::Result;

/// A model and sizes for its dimensions.
const MODELS: [(&str, &[(&str, u64)]); 4] = [
    ("resnet50", &[("batch", 32)]),
    ("vit_b_16", &[("batch", 32)]),
    ("gpt2", &[("batch", 8), ("seq", 512)]),
    ("swin_t", &[("batch", 32)]),
];

/// Milliseconds by what was measured, in order.
#[derive(Default)]
struct Times(Vec<(String, f64)>);

impl Times {
    fn note(&mut self, what: String, time: Duration) {
        self.0.push((what, time.as_secs_f64() * 1e3));
    }

    /// Prints how many times as long each took as in the last run that was saved.
    fn compare(&self, saved: &str) {
        let saved: BTreeMap<&str, f64> = saved
            .lines()
            .filter_map(|line| line.rsplit_once(char::is_whitespace))
            .filter_map(|(what, time)| Some((what.trim_end(), time.parse().ok()?)))
            .collect();
        println!("\nmilliseconds, and how many times what `bench.txt` has");
        for (what, time) in &self.0 {
            let times = saved.get(what.as_str()).map(|before| format!("x{:.2}", time / before));
            println!("{what:<44} {time:>10.2} {:>7}", times.unwrap_or_default());
        }
    }

    fn lines(&self) -> String {
        let lines = self.0.iter().map(|(what, time)| format!("{what:<44} {time:>10.2}"));
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }
}

/// Sorting, which no change of ours makes faster.
fn machine() -> Duration {
    let numbers = || (0..1_000_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    best(|| {
        let mut numbers: Vec<u64> = numbers().collect();
        numbers.sort_unstable();
        drop(black_box(numbers));
    })
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let is_asked = |word: &str| arguments.contains(&word);
    let mut times = Times::default();
    times.note("this machine".to_owned(), machine());
    // `curve` prints that table alone.
    if !is_asked("curve") {
        stages(&mut times)?;
        all_devices(&mut times)?;
        searched_chains(&mut times)?;
        large_file()?;
    }
    curve(&mut times)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tools/bench.txt");
    times.compare(&std::fs::read_to_string(&path).unwrap_or_default());
    if is_asked("save") {
        std::fs::write(path, times.lines())?;
    }
    Ok(())
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

fn stages(times: &mut Times) -> Result<()> {
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
        stages_of(name, dims, times)?;
    }
    Ok(())
}

fn stages_of(name: &str, dims: &[(&str, u64)], times: &mut Times) -> Result<()> {
    let bytes = fixture(name)?;
    let config = config(dims);
    let device = device::lookup(&config.device).ok_or("no such device")?;
    let graph = Arc::new(formats::open(&mut bytes.as_slice(), name)?.graph);
    let sink = Diagnostics::default();
    let typed = Arc::new(infer::infer(&graph, &config.dims, &sink)?);
    let program = recover::recover(&graph, &typed, &config, &sink);
    let loss = Loss::choose(config.loss, &program.graph, &program.typed, &sink)?;
    let run = || {
        step::record(
            &program,
            &loss,
            &config,
            device.hardware(config.pytorch, config.cudnn),
            &(),
            &sink,
        )
    };
    let (trace, _) = run()?;
    let model = highwater_core::open(&mut bytes.as_slice(), name)?;

    let stages = [
        best(|| drop(black_box(formats::open(&mut black_box(bytes.as_slice()), name)))),
        best(|| drop(black_box(infer::infer(black_box(&graph), &config.dims, &sink)))),
        best(|| drop(black_box(recover::recover(black_box(&graph), &typed, &config, &sink)))),
        best(|| drop(black_box(run()))),
        best(|| drop(black_box(replay_series(black_box(&trace), &Settings::default(), None)))),
    ];
    let estimate = best(|| drop(black_box(model.estimate(black_box(&config)))));
    for (stage, time) in STAGES.into_iter().zip(stages.into_iter().chain([estimate])) {
        times.note(format!("{name}, {stage}"), time);
    }

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

/// What a node of a large graph takes, and how many times that of a graph a tenth its size.
fn curve(times: &mut Times) -> Result<()> {
    println!("\nmicroseconds for each node, and how many times that of a graph a tenth its size");
    print!("{:<28} {:>7} {:>8}", "model", "nodes", "events");
    println!("{}", STAGES.map(|stage| format!(" {stage:>13}")).concat());
    for checkpoint in [Checkpoint::None, Checkpoint::Blocks] {
        let config = Config { checkpoint, ..config(&[("batch", 2)]) };
        for (name, input, block) in CHAINS {
            curve_of(&format!("{name}, checkpoint {checkpoint}"), &config, input, block, times)?;
        }
    }
    Ok(())
}

/// Columns of the curve; the last is the whole answer.
const STAGES: [&str; 6] = ["decode", "infer", "recover", "step", "replay", "estimate"];

fn curve_of(
    name: &str,
    config: &Config,
    input: &[u64],
    block: Block,
    ledger: &mut Times,
) -> Result<()> {
    let device = device::lookup(&config.device).ok_or("no such device")?;
    let mut before = [0.; STAGES.len()];
    for blocks in [20, 200, 2000] {
        let bytes = chain(blocks, input, block);
        let sink = Diagnostics::default();
        let mut clock = Instant::now();
        let mut times = [Duration::ZERO; STAGES.len()];
        let mut slots = times.iter_mut();
        let mut lap = || {
            slots.next().into_iter().for_each(|slot| *slot = clock.elapsed());
            clock = Instant::now();
        };
        let model = highwater_core::open(&mut bytes.as_slice(), name)?;
        lap();
        let typed = Arc::new(infer::infer(model.graph(), &config.dims, &sink)?);
        lap();
        let program = recover::recover(model.graph(), &typed, config, &sink);
        lap();
        let loss = Loss::choose(config.loss, &program.graph, &program.typed, &sink)?;
        let (trace, _) = step::record(
            &program,
            &loss,
            config,
            device.hardware(config.pytorch, config.cudnn),
            &(),
            &sink,
        )?;
        lap();
        drop(black_box(replay_series(&trace, &Settings::default(), None)));
        lap();
        drop(black_box(model.estimate(config)?));
        lap();
        let nodes = model.graph().nodes.len();
        let [.., estimate] = times;
        ledger.note(format!("{name}, {nodes} nodes"), estimate);
        print!("{name:<28} {nodes:>7} {:>8}", trace.events.len());
        for (time, before) in times.iter().zip(&mut before) {
            let each = time.as_secs_f64() * 1e6 / f64::from(u32::try_from(nodes)?);
            let growth =
                if *before > 0. { format!("x{:.1}", each / *before) } else { String::new() };
            print!(" {each:>7.1} {growth:>5}");
            *before = each;
        }
        println!();
    }
    Ok(())
}

/// A block's number and what it reads → its nodes, its weights with their sizes, and what it makes.
type Block = fn(usize, &str) -> (Vec<Vec<u8>>, State, String);

/// Weights: names and sizes.
type State = Vec<(String, Vec<u64>)>;

/// Chains of blocks, as TorchScript's exporter writes them: the name, sizes of the input, the block.
const CHAINS: [(&str, &[u64], Block); 2] =
    [("residual", &[8, 4, 4], residual_block), ("attention", &[4, 8], attention_block)];

/// A model of so many blocks in a row.
fn chain(blocks: usize, input: &[u64], block: Block) -> Vec<u8> {
    let (mut graph, mut last) = (Vec::new(), "x".to_owned());
    for index in 0..blocks {
        let (nodes, weights, made) = block(index, &last);
        graph.extend(nodes.iter().flat_map(|node| field(1, node)));
        for (name, dims) in weights {
            let zeros = vec![0; 4 * usize::try_from(dims.iter().product::<u64>()).unwrap_or(0)];
            let dims: Vec<u8> = dims.into_iter().flat_map(|dim| number(1, dim)).collect();
            graph
                .extend(field(5, &[dims, number(2, 1), text(8, &name), field(9, &zeros)].concat()));
        }
        last = made;
    }
    graph.extend(field(11, &value("x", input)));
    graph.extend(field(12, &text(1, &last)));
    [number(1, 10), field(8, &number(2, 20)), field(7, &graph)].concat()
}

/// `NodeProto` of a module's operator, and what it makes.
fn node(module: &str, op: &str, inputs: &[&str], attributes: &[Vec<u8>]) -> (Vec<u8>, String) {
    let output = format!("/{module}/{op}_output_0");
    let mut node: Vec<u8> = inputs.iter().flat_map(|input| text(1, input)).collect();
    node.extend([text(2, &output), text(3, &format!("/{module}/{op}")), text(4, op)].concat());
    node.extend(attributes.iter().flat_map(|attribute| field(5, attribute)));
    (node, output)
}

/// `AttributeProto` of integers.
fn ints(name: &str, values: &[u64]) -> Vec<u8> {
    let values = values.iter().flat_map(|&value| number(8, value));
    [text(1, name), values.collect(), number(20, 7)].concat()
}

/// `relu(conv(relu(norm(conv(x)))) + x)`, one normalisation folded into its convolution.
fn residual_block(index: usize, x: &str) -> (Vec<Vec<u8>>, State, String) {
    let module = format!("layer/layer.{index}");
    let [first, bias] = [1, 2].map(|n| format!("onnx::Conv_{}", 2 * index + n));
    let second = format!("layer.{index}.conv2.weight");
    let pads = [ints("pads", &[1, 1, 1, 1]), ints("kernel_shape", &[3, 3])];
    let (conv1, a) = node(&format!("{module}/conv1"), "Conv", &[x, &first, &bias], &pads);
    let (relu1, b) = node(&format!("{module}/relu1"), "Relu", &[&a], &[]);
    let (conv2, c) = node(&format!("{module}/conv2"), "Conv", &[&b, &second], &pads);
    let (norm, weights, d) = batch_norm(index, &module, &c);
    let (add, e) = node(&module, "Add", &[&d, x], &[]);
    let (relu2, made) = node(&format!("{module}/relu2"), "Relu", &[&e], &[]);
    let mut state = vec![(first, vec![8, 8, 3, 3]), (bias, vec![8]), (second, vec![8, 8, 3, 3])];
    state.extend(weights);
    (vec![conv1, relu1, conv2, norm, add, relu2], state, made)
}

fn batch_norm(index: usize, module: &str, x: &str) -> (Vec<u8>, State, String) {
    let state = ["weight", "bias", "running_mean", "running_var"];
    let state = state.map(|leaf| format!("layer.{index}.bn2.{leaf}"));
    let mut inputs = vec![x];
    inputs.extend(state.iter().map(String::as_str));
    let (norm, made) = node(&format!("{module}/bn2"), "BatchNormalization", &inputs, &[]);
    (norm, state.map(|name| (name, vec![8])).to_vec(), made)
}

/// A block that attends with one head and has a layer of two products, weights folded as for inference.
fn attention_block(index: usize, x: &str) -> (Vec<Vec<u8>>, State, String) {
    let module = format!("layer/layer.{index}");
    let (mut nodes, mut state) = (Vec::new(), Vec::new());
    let mut put = |inner: &str, op: &str, inputs: &[&str], attributes: &[Vec<u8>]| {
        let (node, made) = node(&format!("{module}/{inner}"), op, inputs, attributes);
        nodes.push(node);
        made
    };
    let mut weigh = |name: String, dims: &[u64]| {
        state.push((name.clone(), dims.to_vec()));
        name
    };
    let [w, b] = ["weight", "bias"].map(|leaf| weigh(format!("layer.{index}.ln.{leaf}"), &[8]));
    let normed = put("ln", "LayerNormalization", &[x, &w, &b], &[]);
    let folded = |at: usize| format!("onnx::MatMul_{}", 8 * index + at);
    let [q, k, v] = [("q", 0), ("k", 1), ("v", 2)].map(|(name, at)| {
        let (weight, bias) = (folded(at), format!("layer.{index}.{name}.bias"));
        let (weight, bias) = (weigh(weight, &[8, 8]), weigh(bias, &[8]));
        let product = put(name, "MatMul", &[&normed, &weight], &[]);
        put(name, "Add", &[&bias, &product], &[])
    });
    let turned = put("attn", "Transpose", &[&k], &[ints("perm", &[0, 2, 1])]);
    let scores = put("attn/scores", "MatMul", &[&q, &turned], &[]);
    let weights = put("attn", "Softmax", &[&scores], &[]);
    let mixed = put("attn", "MatMul", &[&weights, &v], &[]);
    let sum = put("attn", "Add", &[x, &mixed], &[]);
    let (up, down) = (weigh(folded(3), &[8, 16]), weigh(folded(4), &[16, 8]));
    let wide = put("up", "MatMul", &[&sum, &up], &[]);
    let cut = put("act", "Relu", &[&wide], &[]);
    let narrow = put("down", "MatMul", &[&cut, &down], &[]);
    let made = put("mlp", "Add", &[&sum, &narrow], &[]);
    (nodes, state, made)
}

/// How all devices end, and their largest batches: one after the other, with what each stage had to be computed.
fn all_devices(times: &mut Times) -> Result<()> {
    println!(
        "\nmilliseconds for {} devices, and how often a stage was computed",
        device::all().len()
    );
    println!(
        "{:<10} {:>8} {:>9} {:>9} {:>6} {:>8} {:>9} {:>6}",
        "model", "one", "verdicts", "searches", "runs", "replays", "forecasts", "failed"
    );
    for (name, dims) in MODELS {
        let config = config(dims);
        let model = highwater_core::open(&mut fixture(name)?.as_slice(), name)?;
        let one = best(|| {
            drop(black_box(model.verdict(&config, &config.device, &mut Stages::default())));
        });
        let verdicts = best(|| {
            let mut stages = Stages::default();
            for device in device::all() {
                drop(black_box(model.verdict(&config, device.id, &mut stages)));
            }
        });
        let mut made = Made::default();
        let searches = best(|| {
            let mut stages = Stages::default();
            let line = model.batch_line(&config, &mut stages);
            for device in device::all() {
                drop(black_box(model.largest_batch(&config, device.id, &line, &mut stages)));
            }
            made = stages.made();
        });
        for (what, time) in [("one device", one), ("verdicts", verdicts), ("searches", searches)] {
            times.note(format!("{name}, {what}"), time);
        }
        println!(
            "{name:<10} {:>8} {:>9} {:>9} {:>6} {:>8} {:>9} {:>6}",
            milliseconds(one),
            milliseconds(verdicts),
            milliseconds(searches),
            made.runs,
            made.replays,
            made.forecasts,
            made.failed_forecasts
        );
    }
    Ok(())
}

/// The largest batches of all devices for chains of more and more layers, and the forecasts that failed: a search
/// without one simulates each batch that it tries.
fn searched_chains(times: &mut Times) -> Result<()> {
    println!("\nsearches on all devices: milliseconds, searches, forecasts made and failed");
    for count in [1000, 2000, 4000] {
        let layers = "  - linear: 4\n  - gelu\n".repeat(count / 2);
        let spec = format!("input: [N, 4]\nlayers:\n{layers}");
        let model = highwater_core::open(&mut spec.as_bytes(), "chain.yaml")?;
        let config = Config::default();
        let mut stages = Stages::default();
        let (start, mut found) = (Instant::now(), 0_usize);
        let line = model.batch_line(&config, &mut stages);
        for device in device::all() {
            let largest = model.largest_batch(&config, device.id, &line, &mut stages)?;
            found += usize::from(largest.is_some());
        }
        let (time, made) = (start.elapsed(), stages.made());
        times.note(format!("chain, {count} layers, searches"), time);
        println!(
            "{count:>5} {:>9} {found:>6} {:>9} {:>6}",
            milliseconds(time),
            made.forecasts,
            made.failed_forecasts
        );
    }
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
        small.extend(field(11, &value("x0", &[side])));
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

/// `ValueInfoProto` of a float tensor `[batch, …]`.
fn value(name: &str, sizes: &[u64]) -> Vec<u8> {
    let sizes = sizes.iter().flat_map(|&size| field(1, &number(1, size)));
    let shape: Vec<u8> = field(1, &text(2, "batch")).into_iter().chain(sizes).collect();
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
