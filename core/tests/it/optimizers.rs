//! Steps of every optimizer, event by event, beside those that PyTorch made.

use std::collections::BTreeSet;

use highwater_core::config::{Config, Implementation, Optimizer, Precision, PyTorch, Switch};
use highwater_core::eager::{Runtime, Tensor};
use highwater_core::step::masters::Masters;
use highwater_core::step::scaler::Scaler;
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
                optimizer.name().ends_with("bit") && optimizer_impl == Implementation::ForLoop;
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

/// What is said of an optimizer, and the class that profilers name, are those of its rule.
#[test]
fn facts_of_an_optimizer_are_those_of_its_rule() {
    for &optimizer in Optimizer::ALL {
        let copies = optimizer::copies(optimizer);
        let about = ["", "one copy", "two copies", "three copies"][copies];
        assert!(optimizer.about().contains(about), "{optimizer}: {copies}");
        let fused =
            Config { optimizer, optimizer_impl: Implementation::Fused, ..Config::default() };
        assert_eq!(
            optimizer::State::new(&fused).is_ok(),
            optimizer::is_fusible(optimizer),
            "{optimizer}"
        );
        let constructor = optimizer::constructor(optimizer, "").unwrap_or_default();
        let class = constructor.split('(').next().and_then(|path| path.rsplit('.').next());
        let kept = u64::try_from(copies).unwrap();
        let is_nesterov = optimizer == Optimizer::SgdNesterov;
        let found = optimizer::of_class(class.unwrap(), kept, is_nesterov);
        // Centred or with momentum: as much state either way.
        let is_told = !matches!(optimizer, Optimizer::Muon | Optimizer::RmsPropCentered);
        assert!(!is_told || found == Some(optimizer), "{optimizer}: {found:?}");
    }
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
    let (mut dtype, mut shapes, mut steps) = (DType::Float32, SHAPES, 2);
    for word in words {
        match word {
            "weight-decay" => config.weight_decay = true,
            "clip-grad-norm" => config.clip_grad_norm = Switch::On,
            "ema" => config.ema = true,
            "masters" => config.precision = Precision::Bf16Master,
            "scaler" => config.precision = Precision::AmpFp16,
            "bf16" => dtype = DType::BFloat16,
            "fp16" => dtype = DType::Float16,
            "large" => shapes = LARGE,
            "late" => steps = 3,
            _ => panic!("{case}"),
        }
    }
    run_steps(&config, dtype, shapes, steps)
}

fn run(config: &Config, dtype: DType, shapes: &[&[u64]]) -> Vec<String> {
    run_steps(config, dtype, shapes, 2)
}

/// The loop around an optimizer, without a model.
fn run_steps(config: &Config, dtype: DType, shapes: &[&[u64]], steps: usize) -> Vec<String> {
    let rt = Runtime::new(recording::A100, PyTorch::LATEST);
    let parameters: Vec<Parameter> =
        shapes.iter().map(|sizes| with_grad(&rt, dtype, sizes)).collect();
    let tensors: Vec<Tensor> =
        parameters.iter().map(|parameter| parameter.tensor.clone()).collect();
    let loss = rt.empty(DType::Float32, &[]);
    let mut marks = vec![rt.events()];
    let masters = config.precision.has_masters().then(|| Masters::of(&rt, &parameters));
    let updated = masters.as_ref().map_or(&parameters, |masters| &masters.parameters);
    let mut optimizer = optimizer::State::new(config).unwrap();
    optimizer.construct(&rt, updated);
    let mut average = config.ema.then(|| average::Model::of(&rt, &tensors));
    let mut scaler = config.precision.scales_gradients().then(Scaler::default);
    for _ in 0..steps {
        marks.push(rt.events());
        rt.enter_phase(marks.len() - 1, Phase::Optimizer);
        if let Some(masters) = &masters {
            masters.parameters.iter().for_each(|master| master.leaf.clear());
            masters.take_gradients(&rt, &parameters);
        }
        if let Some(scaler) = &mut scaler {
            drop(scaler.scale(&rt, &loss));
        }
        if config.clips() {
            if let Some(scaler) = &mut scaler {
                scaler.unscale(&rt);
            }
            clip::grad_norm(&rt, updated);
        }
        if let Some(scaler) = &mut scaler {
            scaler.step(&rt, optimizer.is_fused(), || optimizer.step(&rt, updated));
            scaler.update();
        } else {
            optimizer.step(&rt, updated);
        }
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
    rt.backward(&aten::loss::sum_of(rt, &tensor), &());
    Parameter { tensor, leaf }
}
