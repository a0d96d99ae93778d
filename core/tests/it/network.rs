//! What ranks send each other, and how long a step of several GPUs takes.
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "printed alone")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;
use highwater_core::eager::Launches;
use highwater_core::eager::exchange::Exchange;
use highwater_core::estimate::{Stages, Timings};
use highwater_core::formats::catalogue;
use highwater_core::time::{Gpu, Network, StepTime};
use highwater_core::trace::Phase;
use highwater_core::{Config, Model, device};

/// 783,104 parameters, whose rows eight ranks divide evenly.
const PERCEPTRON: &str = "input: [N, 1200]\nlayers: [linear: 600, relu, linear: 104]\n";
const PARAMETERS: u64 = 1200 * 600 + 600 + 600 * 104 + 104;
/// `SmolLM2` 135M: its blocks, and embeddings with the last norm.
const BLOCKS: u64 = 106_202_880;
const ROOT: u64 = 28_312_128;

fn perceptron() -> Model {
    highwater_core::open(&mut PERCEPTRON.as_bytes(), "mlp.yaml").unwrap()
}

fn named(name: &str) -> Model {
    highwater_core::open_named(&catalogue::find(name).unwrap()).unwrap()
}

fn config(model: &Model, device: &str, settings: &str) -> Config {
    let mut config = model.defaults().clone();
    config.choose_device(device);
    for setting in settings.split_whitespace() {
        let (name, value) = setting.split_once('=').unwrap();
        match config.set(name, value) {
            Ok(()) => {}
            Err(_) => drop(config.dims.insert(name.to_owned(), value.parse().unwrap())),
        }
    }
    config
}

fn launches(model: &Model, settings: &str) -> Launches {
    model.launches(&config(model, "a100-80gb", settings)).unwrap()
}

/// The bytes that a rank sends in each kind of exchange.
#[track_caller]
fn check(model: &Model, settings: &str, expected: &[(Exchange, u64)]) {
    let launches = launches(model, settings);
    let found = launches.traffic();
    let found: Vec<_> = found.iter().map(|(exchange, one)| (*exchange, one.sent.0)).collect();
    assert_eq!(found, expected, "{settings}");
    assert_eq!(launches.sent().0, expected.iter().map(|(_, sent)| sent).sum::<u64>());
}

#[test]
fn one_gpu_sends_nothing() {
    check(&perceptron(), "N=32", &[]);
}

/// Rings send twice `n - 1` of `n` parts of the gradients.
#[test]
fn ddp_reduces_all_gradients() {
    let all = |ranks: u64, batches: u64| {
        [(Exchange::AllReduce, batches * 2 * (ranks - 1) * 4 * PARAMETERS / ranks)]
    };
    check(&perceptron(), "N=32 gpus=8 data-parallel=ddp", &all(8, 1));
    check(&perceptron(), "N=32 gpus=2 data-parallel=ddp", &all(2, 1));
    check(&perceptron(), "N=32 gpus=2 data-parallel=ddp bucket-view=true", &all(2, 1));
    check(&perceptron(), "N=32 gpus=2 data-parallel=ddp accumulate=3", &all(2, 3));
    check(&perceptron(), "N=32 gpus=2 data-parallel=ddp accumulate=3 no-sync=true", &all(2, 1));
}

#[test]
fn zero_sends_what_was_updated() {
    let each = 7 * 4 * PARAMETERS / 8;
    check(
        &perceptron(),
        "N=32 gpus=8 data-parallel=zero-1",
        &[(Exchange::AllReduce, 2 * each), (Exchange::Broadcast, each)],
    );
}

/// Gathered for the forward, for the backward unless they stay, and reduced once.
#[test]
fn fsdp_gathers_twice_and_reduces_once() {
    let each = 7 * 4 * PARAMETERS / 8;
    let of = |gathers| [(Exchange::AllGather, gathers * each), (Exchange::ReduceScatter, each)];
    check(&perceptron(), "N=32 gpus=8 data-parallel=fsdp reshard=on", &of(2));
    check(&perceptron(), "N=32 gpus=8 data-parallel=fsdp reshard=off", &of(1));
    // What is in no block is not freed behind the forward.
    check(&perceptron(), "N=32 gpus=8 data-parallel=fsdp1", &of(1));
    let norms = 2 * 7 * 4 * 4 / 8;
    let [gathers, reduces] = of(2);
    check(
        &perceptron(),
        "N=32 gpus=8 data-parallel=fsdp reshard=on clip-grad-norm=true",
        &[(Exchange::AllReduce, norms), gathers, reduces],
    );
    // The root is not freed between, and gradients are reduced in the type of the parameters that are stored.
    let half = 7 * (2 * 2 * BLOCKS + 2 * ROOT) / 8;
    let single = 7 * 4 * (BLOCKS + ROOT) / 8;
    check(
        &named("smollm2-135m"),
        "batch=1 seq=64 precision=fp32 gpus=8 data-parallel=fsdp param-type=bf16",
        &[(Exchange::AllGather, half), (Exchange::ReduceScatter, single)],
    );
}

/// Copies of the sharded model reduce their shards.
#[test]
fn hybrid_sharding_reduces_shards() {
    let each = 3 * 4 * PARAMETERS / 4;
    check(
        &perceptron(),
        "N=32 mesh=replicate=2,dp=4 data-parallel=fsdp reshard=on",
        &[
            (Exchange::AllReduce, 4 * PARAMETERS / 4),
            (Exchange::AllGather, 2 * each),
            (Exchange::ReduceScatter, each),
        ],
    );
}

/// Each layer of a Llama adds its two results in the forward, and the gradients of its five inputs in the backward.
#[test]
fn tensor_parallel_adds_activations() {
    let (batch, length, hidden, layers, words, ranks) = (1, 64, 576, 30, 49_152, 3);
    let activation = 2 * (ranks - 1) * 4 * batch * length * hidden / ranks;
    let logits = (ranks - 1) * 4 * batch * length * words / ranks;
    check(
        &named("smollm2-135m"),
        "batch=1 seq=64 precision=fp32 mesh=tp=3",
        // The embedding's rows are divided too, and so is what the head reads.
        &[(Exchange::AllReduce, activation * (7 * layers + 2)), (Exchange::AllGather, logits)],
    );
}

/// What is not hidden is no more than all of it, the step grows by it, and slower links hide less.
#[test]
fn a_step_waits_for_what_computation_does_not_hide() {
    let model = named("smollm2-135m");
    let time = |device, settings: &str| {
        let config =
            config(&model, device, &["batch=4 seq=512 precision=bf16 ", settings].concat());
        let device = device::find(device).unwrap();
        Timings::new(&model, &config, &mut Stages::default()).on(device).unwrap()
    };
    let alone = time("a100-80gb", "");
    assert_eq!(alone.time.network, Network::default());
    for ways in ["ddp", "zero-1", "fsdp"] {
        let near = time("a100-80gb", &format!("gpus=8 data-parallel={ways}"));
        let far = time("a100-80gb", &format!("gpus=32 data-parallel={ways}"));
        let slow = time("l4", &format!("gpus=8 data-parallel={ways}"));
        for timing in [&near, &far, &slow] {
            let network = &timing.time.network;
            assert!(network.exposed <= network.time, "{ways}: {network:?}");
            assert!(timing.time.step() > network.exposed, "{ways}");
        }
        assert!(near.time.network.time < far.time.network.time, "{ways}");
        assert!(near.time.network.time < slow.time.network.time, "{ways}");
        assert!(near.time.network.exposed < near.time.network.time, "{ways}: nothing is hidden");
    }
}

/// A model as Megatron-LM divides it, with the sizes of a GPT: `GPT-NeoX` without its parallel residual.
fn divided(hidden: u64, layers: u64, heads: u64, length: u64) -> Model {
    let text = format!(
        r#"{{"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_size": {hidden},
        "num_hidden_layers": {layers}, "num_attention_heads": {heads}, "intermediate_size": {inner},
        "max_position_embeddings": {length}, "vocab_size": 50304, "use_parallel_residual": false,
        "rotary_pct": 0.25, "hidden_act": "gelu", "hidden_dropout": 0.1, "attention_dropout": 0.1}}"#,
        inner = 4 * hidden
    );
    highwater_core::open(&mut text.as_bytes(), "config.json").unwrap()
}

/// Forward and backward of a row, without an optimizer.
fn step(row: &BTreeMap<&str, &str>) -> StepTime {
    let batch: u64 = row["batch"].parse().unwrap();
    let (model, way, batch) = match (row["model"], row["way"]) {
        ("gpt2_large", "dp4") => (named("gpt2-large"), "data-parallel=ddp gpus=4", batch / 4),
        ("gpt2_large", _) => (divided(1280, 36, 20, 1024), "mesh=tp=4", batch),
        _ => (divided(3072, 24, 24, 2048), "mesh=tp=4", batch),
    };
    let usual = "attention=eager precision=fp32 pytorch=2.8";
    let settings = format!("{usual} {way} batch={batch} seq={}", row["seq"]);
    let config = config(&model, row["device"], &settings);
    let mut launches = model.launches(&config).unwrap();
    launches.list.retain(|one| matches!(one.phase, Phase::Forward | Phase::Backward));
    StepTime::of(&launches, Gpu::of(device::find(row["device"]).unwrap()).unwrap())
}

/// Steps of Megatron-LM on four GPUs (sitar-lab/NeuSight), to which nothing was fitted.
#[test]
fn steps_of_four_gpus_are_as_near_to_measured_ones_as_the_table_states() {
    let table = include_str!("../../../tests/fixtures/ranks/steps.csv");
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut page = "Forward and backward on four GPUs in fp32, in milliseconds: measured, ours, NeuSight's; ours of \
                    the network.\n\n"
        .to_owned();
    let mut errors: [Vec<f64>; 2] = Default::default();
    for line in lines {
        let row: BTreeMap<&str, &str> = names.iter().copied().zip(line.split(',')).collect();
        let time = step(&row);
        let ms = |time: highwater_core::time::Picoseconds| time.0 as f64 / 1e9;
        let number = |name: &str| row[name].parse::<f64>().unwrap();
        let (measured, theirs, ours) = (number("ms"), number("neusight_ms"), ms(time.step()));
        let off = [ours, theirs].map(|time| (time / measured - 1.0) * 100.0);
        writeln!(
            page,
            "{:<10} {:>4} x {:<2} {} {:<9} {measured:>7.1}  {ours:>7.1} {:>+6.1} %  {theirs:>7.1} {:>+6.1} %  network \
             {:>5.1}, not hidden {:>5.1}",
            row["model"], row["seq"], row["batch"], row["way"], row["device"], off[0], off[1],
            ms(time.network.time), ms(time.network.exposed),
        )
        .unwrap();
        errors.iter_mut().zip(off).for_each(|(all, off)| all.push(off.abs()));
    }
    for (name, errors) in ["ours", "NeuSight"].into_iter().zip(&mut errors) {
        errors.sort_by(f64::total_cmp);
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
        write!(page, "\n{name}: median {median:.1} %, mean {mean:.1} %, worst {worst:.1} %")
            .unwrap();
    }
    page.push('\n');
    expect_file!["../../../tests/fixtures/ranks/steps.txt"].assert_eq(&page);
}
