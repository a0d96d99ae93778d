//! Steps of every optimizer, event by event, beside those that PyTorch made.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use highwater_core::config::{Config, Implementation, Optimizer};
use highwater_core::eager::{Hardware, Runtime, Tensor};
use highwater_core::step::{Parameter, average, clip, optimizer};
use highwater_core::tensor::{DType, TensorType};
use highwater_core::trace::{Category, Event, Phase};
use highwater_core::{Bytes, ErrorKind, aten};

use crate::fixtures;

/// Parameters of the recorded cases.
const SHAPES: [&[u64]; 4] = [&[48, 80], &[1000], &[6, 5, 3, 3], &[80, 24]];

/// Events by phase: the constructor, the first step, the second.
type Phases = [String; 3];

#[test]
fn every_step_is_that_of_pytorch() {
    let recorded = String::from_utf8(fixtures::read("optimizers/events.txt")).unwrap();
    let mut wrong = String::new();
    for (case, expected) in cases(&recorded) {
        let ours = events(case);
        for phase in 0..3 {
            let (expected, ours) = (&expected[phase], &ours[phase]);
            if expected != ours {
                writeln!(wrong, "{case}, {phase}\n  true {expected}\n  ours {ours}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_optimizer_and_implementation_runs_or_is_refused() {
    let recorded = String::from_utf8(fixtures::read("optimizers/events.txt")).unwrap();
    let recorded = cases(&recorded);
    for &optimizer in Optimizer::ALL {
        for &optimizer_impl in Implementation::ALL {
            let config = Config { optimizer, optimizer_impl, ..Config::default() };
            let state = optimizer::State::new(&config);
            let is_recorded =
                recorded.contains_key(format!("{optimizer} {optimizer_impl}").as_str());
            let is_eight_bit =
                optimizer.name().ends_with("8bit") && optimizer_impl == Implementation::ForLoop;
            if is_recorded || is_eight_bit || optimizer_impl == Implementation::Auto {
                state.unwrap();
            } else {
                assert_eq!(state.unwrap_err().kind(), ErrorKind::BadConfig, "{optimizer}");
            }
        }
    }
}

fn cases(recorded: &str) -> BTreeMap<&str, Phases> {
    let mut cases: BTreeMap<&str, Phases> = BTreeMap::new();
    let mut case = "";
    for line in recorded.lines() {
        match line.trim().split_once(": ") {
            None => {
                case = line;
                cases.entry(case).or_default();
            }
            Some((phase, events)) => {
                let phase: usize = phase.parse().unwrap();
                events.clone_into(&mut cases.get_mut(case).unwrap()[phase]);
            }
        }
    }
    cases
}

fn events(case: &str) -> Phases {
    let mut words = case.split(' ');
    let mut config = Config {
        optimizer: words.next().unwrap().parse().unwrap(),
        optimizer_impl: words.next().unwrap().parse().unwrap(),
        ..Config::default()
    };
    let mut dtype = DType::Float32;
    for word in words {
        match word {
            "weight-decay" => config.weight_decay = true,
            "clip-grad-norm" => config.clip_grad_norm = true,
            "ema" => config.ema = true,
            "bf16" => dtype = DType::BFloat16,
            _ => panic!("{case}"),
        }
    }
    run(&config, dtype)
}

/// The loop around an optimizer, without a model.
fn run(config: &Config, dtype: DType) -> Phases {
    let rt = Runtime::new(Hardware {
        capability: (8, 0),
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
        cublas_workspace: Bytes(8_519_680),
    });
    let parameters: Vec<Parameter> =
        SHAPES.iter().map(|sizes| with_grad(&rt, dtype, sizes)).collect();
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
    let trace = rt.into_trace();
    let mut made = BTreeMap::new();
    std::array::from_fn(|phase| {
        let range = marks[phase]..marks[phase + 1];
        let words = trace.events[range].iter().map(|event| match event {
            Event::Alloc(id) => {
                made.insert(*id, made.len());
                format!("+{}", trace.storages[id.0].requested.0)
            }
            Event::Free(id) => format!("-{}", made[id]),
        });
        words.collect::<Vec<_>>().join(" ")
    })
}

/// A parameter that a backward has left a gradient.
fn with_grad(rt: &Runtime, dtype: DType, sizes: &[u64]) -> Parameter {
    let tensor = rt.place(&TensorType::new(dtype, sizes), Category::Parameter, "");
    let (tensor, leaf) = rt.parameter(&tensor, "");
    rt.backward(&aten::loss::sum_of(rt, &tensor));
    Parameter { tensor, leaf }
}
