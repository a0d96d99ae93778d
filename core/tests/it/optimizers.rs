//! Steps of every optimizer, event by event, beside those that PyTorch made.

use std::collections::BTreeSet;

use highwater_core::config::{Config, Implementation, Optimizer, PyTorch};
use highwater_core::eager::{Runtime, Tensor};
use highwater_core::step::{Parameter, average, clip, optimizer};
use highwater_core::tensor::{DType, TensorType};
use highwater_core::trace::{Category, Phase};
use highwater_core::{ErrorKind, aten};

use crate::{fixtures, recording};

/// Parameters of the recorded cases.
const SHAPES: &[&[u64]] = &[&[48, 80], &[1000], &[6, 5, 3, 3], &[80, 24]];

/// Parameters that reductions, products and chunks treat in ways of their own.
const LARGE: &[&[u64]] =
    &[&[70_000], &[3000, 768], &[512, 2048], &[256, 128, 3, 3], &[1, 64], &[64, 1], &[1], &[]];

#[test]
fn every_step_is_that_of_pytorch() {
    recording::check("optimizers/events.txt", events);
}

#[test]
fn every_optimizer_and_implementation_runs_or_is_refused() {
    let recorded = String::from_utf8(fixtures::read("optimizers/events.txt")).unwrap();
    let recorded: BTreeSet<&str> = recorded.lines().collect();
    for &optimizer in Optimizer::ALL {
        for &optimizer_impl in Implementation::ALL {
            let config = Config { optimizer, optimizer_impl, ..Config::default() };
            let state = optimizer::State::new(&config);
            let is_recorded = recorded.contains(format!("{optimizer} {optimizer_impl}").as_str());
            let is_eight_bit =
                optimizer.name().ends_with("8bit") && optimizer_impl == Implementation::ForLoop;
            if is_recorded || is_eight_bit || optimizer_impl == Implementation::Auto {
                state.unwrap();
            } else {
                assert_eq!(state.unwrap_err().kind(), ErrorKind::BadConfig, "{optimizer}");
            }
        }
    }
    let config = Config { optimizer: Optimizer::Rprop, weight_decay: true, ..Config::default() };
    assert_eq!(optimizer::State::new(&config).unwrap_err().kind(), ErrorKind::BadConfig);
}

/// After `bitsandbytes/optim/optimizer.py`: its kernels do not run on a device that computes nothing.
#[test]
fn eight_bit_moments_have_scales_by_block_and_maps_once() {
    let config = Config { optimizer: Optimizer::Adam8bit, ..Config::default() };
    let sizes: &[&[u64]] = &[&[64], &[70_000], &[64, 64]];
    let expected = "+256 +256 \
                    +1024 +1024 +70000 +70000 +1096 +1096 \
                    +4096 +4096 +64 +64";
    assert_eq!(run(&config, DType::BFloat16, sizes), ["", expected, ""]);
}

fn events(case: &str) -> Vec<String> {
    let mut words = case.split(' ');
    let mut config = Config {
        optimizer: words.next().unwrap().parse().unwrap(),
        optimizer_impl: words.next().unwrap().parse().unwrap(),
        ..Config::default()
    };
    let (mut dtype, mut shapes) = (DType::Float32, SHAPES);
    for word in words {
        match word {
            "weight-decay" => config.weight_decay = true,
            "clip-grad-norm" => config.clip_grad_norm = true,
            "ema" => config.ema = true,
            "bf16" => dtype = DType::BFloat16,
            "large" => shapes = LARGE,
            _ => panic!("{case}"),
        }
    }
    run(&config, dtype, shapes)
}

/// The loop around an optimizer, without a model.
fn run(config: &Config, dtype: DType, shapes: &[&[u64]]) -> Vec<String> {
    let rt = Runtime::new(recording::A100, PyTorch::V2_15);
    let parameters: Vec<Parameter> =
        shapes.iter().map(|sizes| with_grad(&rt, dtype, sizes)).collect();
    let tensors: Vec<Tensor> =
        parameters.iter().map(|parameter| parameter.tensor.clone()).collect();
    let mut marks = vec![rt.events()];
    let mut optimizer = optimizer::State::new(config).unwrap();
    optimizer.construct(&rt, &parameters);
    let mut average = config.ema.then(|| average::Model::of(&rt, &tensors));
    for _ in 0..2 {
        marks.push(rt.events());
        rt.enter_phase(marks.len() - 1, Phase::Optimizer);
        if config.clip_grad_norm {
            clip::grad_norm(&rt, &parameters);
        }
        optimizer.step(&rt, &parameters);
        if let Some(average) = &mut average {
            average.update(&rt);
        }
    }
    marks.push(rt.events());
    recording::phases(&rt.into_trace(), &marks)
}

/// A parameter that a backward has left a gradient.
fn with_grad(rt: &Runtime, dtype: DType, sizes: &[u64]) -> Parameter {
    let tensor = rt.place(&TensorType::new(dtype, sizes), Category::Parameter, "");
    let (tensor, leaf) = rt.parameter(&tensor, "");
    rt.backward(&aten::loss::sum_of(rt, &tensor), &|_| ());
    Parameter { tensor, leaf }
}
