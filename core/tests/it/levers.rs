//! What would help, and the least that makes a run fit.

use std::fmt::Write as _;
use std::num::NonZeroU64;

use expect_test::{Expect, expect, expect_file};
use highwater_core::config::{DataParallel, Switch, Workload, ZeroGrad};
use highwater_core::estimate::{LargestBatch, Stages};
use highwater_core::formats::catalogue;
use highwater_core::levers::{
    Cost, Facts, LEVERS, Lever, Pulled, Scale, Scaled, Search, Searched, WAYS,
};
use highwater_core::report::Verdict;
use highwater_core::step::optimizer;
use highwater_core::{Bytes, Config, Model, Optimizer};

use crate::fixtures;

fn zoo(name: &str) -> Model {
    let bytes = fixtures::unpack(&format!("zoo/train/{name}.onnx.gz")).unwrap();
    highwater_core::open(&mut bytes.as_slice(), name).unwrap()
}

fn on(model: &Model, device: &str, batch: u64) -> Config {
    let dims = model.open_dims().into_iter();
    let dims = dims.map(|dim| (dim.name, if dim.batch { batch } else { dim.default }));
    Config { dims: dims.collect(), device: device.to_owned(), ..Config::default() }
}

/// `-  1.20 GiB  lever (cost): backward of layer4.0, fits`.
fn line(before: Bytes, pulled: &Pulled) -> String {
    let Pulled { id, cost, outcome, .. } = pulled;
    let (sign, change) = if outcome.verdict.need <= before {
        ('-', before - outcome.verdict.need)
    } else {
        ('+', outcome.verdict.need - before)
    };
    let (phase, verdict) = (outcome.phase.name(), outcome.verdict.verdict);
    format!("{sign}{change:>12}  {id} ({}): peak in {phase}, {verdict:?}\n", cost.name())
}

fn search(model: &Model, config: &Config, facts: Facts) -> (Searched, usize) {
    let (mut search, mut stages) = (Search::new(config, facts), Stages::default());
    loop {
        match search.step(model, &mut stages).unwrap() {
            Searched::On => assert!(search.tried() <= Search::MOST),
            found => return (found, search.tried()),
        }
    }
}

fn check(name: &str, device: &str, batch: u64, expected: &Expect) {
    let model = zoo(name);
    let config = on(&model, device, batch);
    let simulation = model.simulate(&config, &mut Stages::default()).unwrap();
    let before = simulation.verdict();
    let facts = Facts::of(&model, &simulation, &config);
    let mut text = format!("needs {}: {:?}\n", before.need, before.verdict);
    for lever in LEVERS {
        if let Some(pulled) = model.pull(lever, &config, &facts, &mut Stages::default()).unwrap() {
            text.push_str(&line(before.need, &pulled));
        }
    }
    let (plan, tried) = search(&model, &config, facts);
    let (plan, said) = match plan {
        Searched::Found(plan) if plan.steps.is_empty() => (plan, "nothing has to change"),
        Searched::Found(plan) => (plan, "the least that fits"),
        Searched::Nothing(plan) => (plan, "nothing fits, this is nearest"),
        Searched::On => unreachable!(),
    };
    writeln!(text, "{said}, of {tried}:").unwrap();
    let mut need = before.need;
    for step in &plan.steps {
        text.push_str(&line(need, step));
        need = step.outcome.verdict.need;
    }
    expected.assert_eq(&text);
}

#[test]
fn what_helps_a_network_of_convolutions() {
    check(
        "resnet50",
        "a100-40gb",
        64,
        &expect![[r#"
            needs 7.05 GiB: Fits
            -0 B  step-function (nothing): peak in backward, Fits
            -18.00 MiB  fused (nothing): peak in backward, Fits
            +28.00 MiB  in-place (nothing): peak in backward, Fits
            -974.00 MiB  expandable-segments (nothing): peak in backward, Fits
            -16.00 MiB  for-loop (little): peak in backward, Fits
            -394.00 MiB  compile (little): peak in backward, Fits
            -482.00 MiB  channels-last (little): peak in backward, Fits
            -3.09 GiB  amp-bf16 (little): peak in backward, Fits
            -3.20 GiB  accumulate (training): peak in backward, Fits
            -1.69 GiB  checkpoint-half (little): peak in backward, Fits
            -2.89 GiB  checkpoint (time): peak in backward, Fits
            -24.00 MiB  adamw-8bit (training): peak in backward, Fits
            -18.00 MiB  lion (training): peak in backward, Fits
            -4.00 MiB  adafactor (training): peak in backward, Fits
            -34.00 MiB  sgd-momentum (training): peak in backward, Fits
            -3.25 GiB  bf16 (training): peak in backward, Fits
            -5.35 GiB  freeze (training): peak in forward, Fits
            nothing has to change, of 0:
        "#]],
    );
}

#[test]
fn the_least_that_makes_a_language_model_fit_on_a_small_card() {
    check(
        "gpt2",
        "t4",
        16,
        &expect![[r#"
            needs 16.50 GiB: DoesNotFit
            -0 B  step-function (nothing): peak in backward, DoesNotFit
            -0 B  fused (nothing): peak in backward, DoesNotFit
            -0 B  in-place (nothing): peak in backward, DoesNotFit
            +892.00 MiB  expandable-segments (nothing): peak in backward, DoesNotFit
            -0 B  for-loop (little): peak in backward, DoesNotFit
            -5.58 GiB  fused-head (little): peak in backward, Fits
            -3.40 GiB  compile (little): peak in backward, LikelyFits
            -970.00 MiB  amp-fp16 (little): peak in backward, LikelyDoesNotFit
            -7.14 GiB  accumulate (little): peak in backward, Fits
            -3.89 GiB  checkpoint-half (little): peak in backward, Fits
            -7.31 GiB  checkpoint (time): peak in backward, Fits
            +18.00 MiB  adamw-8bit (training): peak in backward, DoesNotFit
            -0 B  lion (training): peak in backward, DoesNotFit
            -1.54 GiB  adafactor (training): peak in backward, LikelyDoesNotFit
            -0 B  sgd-momentum (training): peak in backward, DoesNotFit
            -2.81 GiB  lora (training): peak in backward, LikelyFits
            -3.11 GiB  qlora (training): peak in backward, LikelyFits
            the least that fits, of 6:
            -5.58 GiB  fused-head (little): peak in backward, Fits
        "#]],
    );
    check(
        "gpt2",
        "rtx-3060",
        16,
        &expect![[r#"
            needs 16.50 GiB: DoesNotFit
            -0 B  step-function (nothing): peak in backward, DoesNotFit
            -0 B  fused (nothing): peak in backward, DoesNotFit
            -0 B  in-place (nothing): peak in backward, DoesNotFit
            +892.00 MiB  expandable-segments (nothing): peak in backward, DoesNotFit
            -0 B  for-loop (little): peak in backward, DoesNotFit
            -5.58 GiB  fused-head (little): peak in backward, LikelyFits
            -3.40 GiB  compile (little): peak in backward, DoesNotFit
            -970.00 MiB  amp-bf16 (little): peak in backward, DoesNotFit
            -7.14 GiB  accumulate (little): peak in backward, Fits
            -3.89 GiB  checkpoint-half (little): peak in backward, LikelyDoesNotFit
            -7.31 GiB  checkpoint (time): peak in backward, Fits
            +18.00 MiB  adamw-8bit (training): peak in backward, DoesNotFit
            -0 B  lion (training): peak in backward, DoesNotFit
            -1.54 GiB  adafactor (training): peak in backward, DoesNotFit
            -0 B  sgd-momentum (training): peak in backward, DoesNotFit
            -4.99 GiB  bf16 (training): peak in backward, LikelyFits
            -2.81 GiB  lora (training): peak in backward, DoesNotFit
            -3.11 GiB  qlora (training): peak in backward, DoesNotFit
            the least that fits, of 6:
            -5.58 GiB  fused-head (little): peak in backward, LikelyFits
        "#]],
    );
}

#[test]
fn levers_have_names_of_their_own() {
    for (index, lever) in LEVERS.iter().enumerate() {
        assert!(LEVERS[..index].iter().all(|other| other.id != lever.id), "{}", lever.id);
        assert!(LEVERS[..index].iter().all(|other| other.cost <= lever.cost), "{}", lever.id);
    }
}

#[test]
fn a_model_that_is_far_too_large_needs_more_than_one_lever() {
    check(
        "llama_1b",
        "t4",
        1,
        &expect![[r#"
            needs 25.45 GiB: DoesNotFit
            -1002.00 MiB  step-function (nothing): peak in optimizer, DoesNotFit
            -3.64 GiB  fused (nothing): peak in backward, DoesNotFit
            -0 B  in-place (nothing): peak in optimizer, DoesNotFit
            -1.94 GiB  expandable-segments (nothing): peak in optimizer, DoesNotFit
            -2.02 GiB  liger (nothing): peak in optimizer, DoesNotFit
            -3.64 GiB  for-loop (little): peak in backward, DoesNotFit
            -2.09 GiB  fused-head (little): peak in optimizer, DoesNotFit
            -1018.00 MiB  compile (little): peak in optimizer, DoesNotFit
            -1.01 GiB  amp-fp16 (little): peak in optimizer, DoesNotFit
            -32.00 MiB  checkpoint-half (little): peak in optimizer, DoesNotFit
            -1.02 GiB  checkpoint (time): peak in optimizer, DoesNotFit
            -10.70 GiB  adamw-8bit (training): peak in backward, FitsAfterFlush
            -5.58 GiB  lion (training): peak in optimizer, DoesNotFit
            -12.74 GiB  adafactor (training): peak in backward, Fits
            -8.35 GiB  sgd-momentum (training): peak in backward, DoesNotFit
            -18.52 GiB  lora (training): peak in backward, Fits
            -21.62 GiB  qlora (training): peak in backward, Fits
            the least that fits, of 479:
            -12.74 GiB  adafactor (training): peak in backward, Fits
        "#]],
    );
    check(
        "llama_1b",
        "rtx-4090",
        4,
        &expect![[r#"
            needs 25.44 GiB: LikelyDoesNotFit
            -0 B  step-function (nothing): peak in optimizer, LikelyDoesNotFit
            +12.00 MiB  fused (nothing): peak in backward, LikelyDoesNotFit
            -0 B  in-place (nothing): peak in optimizer, LikelyDoesNotFit
            -76.00 MiB  expandable-segments (nothing): peak in optimizer, LikelyDoesNotFit
            -1.01 GiB  liger (nothing): peak in optimizer, LikelyDoesNotFit
            -202.00 MiB  for-loop (little): peak in backward, LikelyDoesNotFit
            -1.39 GiB  fused-head (little): peak in optimizer, LikelyDoesNotFit
            -0 B  compile (little): peak in optimizer, LikelyDoesNotFit
            +2.53 GiB  amp-bf16 (little): peak in backward, DoesNotFit
            +1.59 GiB  accumulate (little): peak in optimizer, DoesNotFit
            +10.00 MiB  checkpoint-half (little): peak in optimizer, LikelyDoesNotFit
            -1002.00 MiB  checkpoint (time): peak in optimizer, LikelyDoesNotFit
            -7.10 GiB  adamw-8bit (training): peak in backward, Fits
            -4.07 GiB  lion (training): peak in optimizer, LikelyFits
            -9.15 GiB  adafactor (training): peak in backward, Fits
            -4.54 GiB  sgd-momentum (training): peak in backward, LikelyFits
            -9.85 GiB  bf16 (training): peak in backward, Fits
            -11.94 GiB  lora (training): peak in backward, Fits
            -15.03 GiB  qlora (training): peak in backward, Fits
            the least that fits, of 12:
            -1.01 GiB  liger (nothing): peak in optimizer, LikelyDoesNotFit
            -896.00 MiB  fused (nothing): peak in forward, FitsAfterFlush
        "#]],
    );
}

#[test]
fn no_plan_has_a_step_that_it_does_without() {
    for (name, device, batch) in [
        ("gpt2", "rtx-3060", 24),
        ("gpt2", "rtx-2080-ti", 32),
        ("resnet50", "t4", 300),
        ("vgg16", "rtx-2080-ti", 512),
    ] {
        let model = zoo(name);
        let config = on(&model, device, batch);
        let simulation = model.simulate(&config, &mut Stages::default()).unwrap();
        let facts = Facts::of(&model, &simulation, &config);
        assert!(!simulation.verdict().verdict.survives(), "{name} fits on {device}");
        let (found, _) = search(&model, &config, facts.clone());
        let (Searched::Found(plan) | Searched::Nothing(plan)) = &found else { unreachable!() };
        // Halving the batch again and again is one step.
        let times = |step: &Pulled| match step.id.as_str() {
            "accumulate" => step.config.accumulate.trailing_zeros(),
            _ => 1,
        };
        let pulls = |step| (0..times(step)).map(|_| step.id.as_str());
        let ids: Vec<_> = plan.steps.iter().flat_map(pulls).collect();
        let Searched::Found(_) = found else { continue };
        let last = plan.steps.last().unwrap();
        assert!(last.outcome.verdict.verdict.survives(), "{name} on {device}: {ids:?}");
        for without in 0..ids.len() {
            let kept = ids.iter().enumerate().filter(|(at, _)| *at != without);
            let changed = kept.map(|(_, id)| *id).try_fold(config.clone(), |config, id| {
                Lever::named(id).unwrap().pull(&config, &facts)
            });
            let Some(changed) = changed else { continue };
            let outcome = model.outcome(&changed, &mut Stages::default()).unwrap();
            let verdict = outcome.verdict.verdict;
            let is_less =
                verdict == Verdict::FitsAfterFlush && verdict > last.outcome.verdict.verdict;
            assert!(!verdict.survives() || is_less, "{name}: {} is useless", ids[without]);
        }
    }
}

#[test]
fn an_odd_batch_is_halved_as_chunk_does() {
    let model = zoo("resnet18");
    let config = on(&model, "t4", 17);
    let facts =
        Facts::of(&model, &model.simulate(&config, &mut Stages::default()).unwrap(), &config);
    let halve = Lever::named("accumulate").unwrap();
    let mut text = String::new();
    let mut config = config;
    while let Some(changed) = halve.pull(&config, &facts) {
        write!(text, "{}·{} ", changed.dims["batch"], changed.accumulate).unwrap();
        config = changed;
    }
    expect!["9·2 5·4 3·8 2·16 1·32 "].assert_eq(&text);
}

/// Statistics over a batch are others over its parts; those of layers, groups and weights are not.
#[test]
fn a_batch_in_parts_is_the_same_training_only_without_batch_norm() {
    let spec = |layer: &str| {
        let text = format!("input: [N, 4, 8, 8]\nlayers:\n  - conv2d: [8, 3]\n  - {layer}\n");
        highwater_core::open(&mut text.as_bytes(), "net.yaml").unwrap()
    };
    for (model, cost) in [
        (zoo("resnet18"), Cost::Training),
        (zoo("vgg16"), Cost::Little),
        (zoo("gpt2"), Cost::Little),
        (spec("batchnorm2d"), Cost::Training),
        (spec("groupnorm: 2"), Cost::Little),
    ] {
        let name = model.name().to_owned();
        let config = on(&model, "t4", 8);
        let mut stages = Stages::default();
        let facts = Facts::of(&model, &model.simulate(&config, &mut stages).unwrap(), &config);
        let halve = Lever::named("accumulate").unwrap();
        let pulled = model.pull(halve, &config, &facts, &mut stages).unwrap().unwrap();
        assert_eq!(pulled.cost, cost, "{name}");
        assert_eq!(pulled.code.contains("BatchNorm"), cost == Cost::Training, "{name}");
        // Twice is one step, and of the same kind.
        let again = model.pull(halve, &pulled.config, &facts, &mut stages).unwrap().unwrap();
        assert_eq!((again.cost, again.config.accumulate.get()), (cost, 4), "{name}");
    }
}

#[test]
fn one_kernel_is_offered_wherever_the_optimizer_has_it() {
    let model = zoo("resnet18");
    let usual = on(&model, "t4", 2);
    let facts = Facts::of(&model, &model.simulate(&usual, &mut Stages::default()).unwrap(), &usual);
    let lever = Lever::named("fused").unwrap();
    for &optimizer in Optimizer::ALL {
        let config = Config { optimizer, ..usual.clone() };
        let changed = lever.pull(&config, &facts);
        assert_eq!(changed.is_some(), optimizer::is_fusible(optimizer), "{optimizer}");
        let Some(changed) = changed else { continue };
        model.simulate(&changed, &mut Stages::default()).unwrap();
        assert!(lever.code(&changed, &facts).contains(", fused=True)"), "{optimizer}");
    }
    let adagrad = Config { optimizer: Optimizer::Adagrad, ..usual };
    let code = lever.code(&lever.pull(&adagrad, &facts).unwrap(), &facts);
    assert_eq!(code, "optimizer = torch.optim.Adagrad(model.parameters(), lr=lr, fused=True)\n");
}

/// What each lever says to write; `python -m py_compile` takes all of it.
#[test]
fn the_code_of_every_lever() {
    let model = zoo("gpt2");
    let config = Config {
        zero_grad: ZeroGrad::BeforeBackward,
        optimizer: Optimizer::AdamAmsgrad,
        clip_grad_norm: Switch::On,
        weight_decay: true,
        ema: true,
        ..on(&model, "t4", 6)
    };
    let facts =
        Facts::of(&model, &model.simulate(&config, &mut Stages::default()).unwrap(), &config);
    let mut text = String::new();
    let mut told = Vec::new();
    for lever in LEVERS {
        for device in ["t4", "a100-40gb"] {
            let config = Config { device: device.to_owned(), ..config.clone() };
            let facts = match device {
                "t4" => facts.clone(),
                _ => Facts::of(
                    &model,
                    &model.simulate(&config, &mut Stages::default()).unwrap(),
                    &config,
                ),
            };
            if let Some(changed) = lever.pull(&config, &facts)
                && !told.contains(&lever.id)
            {
                told.push(lever.id);
                write!(text, "### {}\n{}", lever.title, lever.code(&changed, &facts)).unwrap();
            }
        }
    }
    expect_file!["levers.py.txt"].assert_eq(&text);
}

/// Where nothing is trained, no suggestion speaks of training; weights in 16 bits are half as large.
#[test]
fn without_training_no_lever_trains() {
    let model = zoo("gpt2");
    let config = Config { workload: Workload::Inference, ..on(&model, "t4", 1) };
    let mut stages = Stages::default();
    let facts = Facts::of(&model, &model.simulate(&config, &mut stages).unwrap(), &config);
    let pulled: Vec<&Lever> =
        LEVERS.iter().filter(|lever| lever.pull(&config, &facts).is_some()).collect();
    assert!(pulled.iter().all(|lever| !lever.title.contains("rain")), "{pulled:?}");
    let half = Lever::named("half").unwrap();
    let before = model.outcome(&config, &mut stages).unwrap().allocated;
    let pulled = model.pull(half, &config, &facts, &mut stages).unwrap().unwrap();
    assert!(pulled.outcome.allocated.0 * 10 < before.0 * 7, "{before}");
    assert!(half.pull(&on(&model, "t4", 1), &facts).is_none());
}

fn scaled(model: &Model, config: &Config, counts: &[u64]) -> Vec<Scaled> {
    let mut stages = Stages::default();
    let simulation = model.simulate(config, &mut stages).unwrap();
    let scale = Scale::new(config, Facts::of(model, &simulation, config));
    let counts = counts.iter().map(|&gpus| NonZeroU64::new(gpus).unwrap());
    let asked = counts.flat_map(|gpus| WAYS.iter().map(move |way| (gpus, way)));
    asked.filter_map(|(gpus, way)| scale.on(gpus, way, model, &mut stages).unwrap()).collect()
}

/// A model of a file has no plan for dividing its layers, and one GPU has nothing to share.
#[test]
fn ways_to_share_a_training() {
    let model = zoo("gpt2");
    let mut text = String::new();
    for cell in scaled(&model, &on(&model, "t4", 16), &[1, 2, 8]) {
        let Scaled { gpus, way, outcome, largest, .. } = &cell;
        let (verdict, largest) = (&outcome.verdict, largest.and_then(LargestBatch::proposed));
        let (need, verdict) = (verdict.need, verdict.verdict);
        writeln!(text, "{gpus} {way}: {need}, {verdict:?}, to {largest:?}").unwrap();
    }
    expect![[r#"
        1 ddp: 16.50 GiB, DoesNotFit, to Some(13)
        2 ddp: 17.51 GiB, DoesNotFit, to Some(11)
        2 zero-1: 17.51 GiB, DoesNotFit, to Some(11)
        2 fsdp: 17.38 GiB, DoesNotFit, to Some(12)
        2 fsdp-checkpoint: 10.07 GiB, Fits, to Some(27)
        2 fsdp-offload: 8.20 GiB, Fits, to Some(27)
        8 ddp: 17.51 GiB, DoesNotFit, to Some(11)
        8 zero-1: 17.51 GiB, DoesNotFit, to Some(11)
        8 fsdp: 17.08 GiB, DoesNotFit, to Some(12)
        8 fsdp-checkpoint: 8.24 GiB, Fits, to Some(27)
        8 fsdp-offload: 8.08 GiB, Fits, to Some(28)
    "#]]
    .assert_eq(&text);
}

/// A batch is read by each GPU, so that what was a way on one number of GPUs is one on all; shards get smaller.
#[test]
fn more_gpus_never_need_more_of_each() {
    let entry = catalogue::find("llama-3.2-1b").unwrap();
    let model = highwater_core::open(&mut entry.configuration().as_bytes(), "config.json").unwrap();
    let cells = scaled(&model, &on(&model, "rtx-4090", 1), &[2, 4]);
    for way in WAYS {
        let needs: Vec<Bytes> = cells
            .iter()
            .filter(|cell| cell.way == way.id)
            .map(|cell| cell.outcome.verdict.need)
            .collect();
        assert_eq!(needs.len(), 2, "{}", way.id);
        assert!(needs.is_sorted_by(|few, many| few >= many), "{}: {needs:?}", way.id);
    }
}

#[test]
fn the_code_of_ways_to_share() {
    let model = zoo("gpt2");
    let codes = scaled(&model, &on(&model, "t4", 1), &[16]).into_iter().map(|cell| cell.code);
    expect![[r##"
        # torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST train.py
        import os

        import torch

        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl")

        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(model, device_ids=[rank])

        ----
        # torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST train.py
        import os

        import torch

        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl")

        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(model, device_ids=[rank])

        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr)

        ----
        # torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST train.py
        import os

        import torch

        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl")

        from torch.distributed.fsdp import fully_shard

        for block in blocks:  # such as model.model.layers
            fully_shard(block)
        fully_shard(model)  # in place of DDP, and before the optimizer is made

        ----
        # torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST train.py
        import os

        import torch

        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl")

        from torch.distributed.fsdp import fully_shard

        for block in blocks:  # such as model.model.layers
            fully_shard(block)
        fully_shard(model)  # in place of DDP, and before the optimizer is made

        from torch.utils.checkpoint import checkpoint

        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        # transformers: model.gradient_checkpointing_enable()

        ----
        # torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST train.py
        import os

        import torch

        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl")

        from torch.utils.checkpoint import checkpoint

        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        # transformers: model.gradient_checkpointing_enable()

        from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

        for block in blocks:  # such as model.model.layers
            fully_shard(block, offload_policy=CPUOffloadPolicy())
        fully_shard(model, offload_policy=CPUOffloadPolicy())  # in place of DDP, and before the optimizer is made
    "##]].assert_eq(&codes.collect::<Vec<_>>().join("\n----\n"));
}

#[test]
fn what_helps_one_of_several_ranks() {
    let model = zoo("gpt2");
    let gpus = NonZeroU64::new(4).unwrap();
    let data_parallel = DataParallel::Ddp;
    let config = Config { gpus, data_parallel, ..on(&model, "t4", 8) };
    let simulation = model.simulate(&config, &mut Stages::default()).unwrap();
    let facts = Facts::of(&model, &simulation, &config);
    let before = simulation.verdict().need;
    let mut text = String::new();
    for id in ["bucket-view", "zero-1", "fsdp"] {
        let lever = Lever::named(id).unwrap();
        let pulled = model.pull(lever, &config, &facts, &mut Stages::default()).unwrap().unwrap();
        text.push_str(&line(before, &pulled));
        let alone = Config { gpus: NonZeroU64::MIN, ..config.clone() };
        assert!(lever.pull(&alone, &facts).is_none(), "{id}");
    }
    expect![[r#"
        -0 B  bucket-view (nothing): peak in backward, Fits
        -786.00 MiB  zero-1 (little): peak in backward, Fits
        -1.08 GiB  fsdp (little): peak in backward, Fits
    "#]]
    .assert_eq(&text);
}
