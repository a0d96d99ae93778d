//! What would help, and the least that makes a run fit.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use highwater_core::levers::{Facts, LEVERS, Pulled, Search, Searched};
use highwater_core::{Bytes, Config, Model};

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

fn check(name: &str, device: &str, batch: u64, expected: &Expect) {
    let model = zoo(name);
    let config = on(&model, device, batch);
    let simulation = model.simulate(&config).unwrap();
    let before = simulation.verdict();
    let facts = Facts::of(&model, &simulation, &config);
    let mut text = format!("needs {}: {:?}\n", before.need, before.verdict);
    for lever in LEVERS {
        if let Some(pulled) = model.pull(lever, &config, &facts).unwrap() {
            text.push_str(&line(before.need, &pulled));
        }
    }
    if !before.verdict.survives() {
        let mut search = Search::new(&config, facts);
        let found = loop {
            match search.step(&model).unwrap() {
                Searched::On => {}
                found => break found,
            }
        };
        writeln!(text, "the least that fits, of {}:", search.tried()).unwrap();
        let Searched::Found(plan) = found else { panic!("{found:?}") };
        let mut need = before.need;
        for step in &plan.steps {
            text.push_str(&line(need, step));
            need = step.outcome.verdict.need;
        }
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
        -16.00 MiB  for-loop (little): peak in backward, Fits
        -3.09 GiB  amp-bf16 (little): peak in backward, Fits
        -3.20 GiB  accumulate (little): peak in backward, Fits
        -1.69 GiB  checkpoint-half (little): peak in backward, Fits
        -2.89 GiB  checkpoint (time): peak in backward, Fits
        -24.00 MiB  adamw-8bit (training): peak in backward, Fits
        -3.25 GiB  bf16 (training): peak in backward, Fits
        -34.00 MiB  sgd-momentum (training): peak in backward, Fits
        -5.35 GiB  freeze (training): peak in forward, Fits
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
        -0 B  for-loop (little): peak in backward, DoesNotFit
        -970.00 MiB  amp-fp16 (little): peak in backward, DoesNotFit
        -7.14 GiB  accumulate (little): peak in backward, Fits
        -3.89 GiB  checkpoint-half (little): peak in backward, Fits
        -7.31 GiB  checkpoint (time): peak in backward, Fits
        +18.00 MiB  adamw-8bit (training): peak in backward, DoesNotFit
        -0 B  sgd-momentum (training): peak in backward, DoesNotFit
        -2.81 GiB  lora (training): peak in backward, Fits
        the least that fits, of 6:
        -7.14 GiB  accumulate (little): peak in backward, Fits
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
        -0 B  for-loop (little): peak in backward, DoesNotFit
        -970.00 MiB  amp-bf16 (little): peak in backward, DoesNotFit
        -7.14 GiB  accumulate (little): peak in backward, Fits
        -3.89 GiB  checkpoint-half (little): peak in backward, DoesNotFit
        -7.31 GiB  checkpoint (time): peak in backward, Fits
        +18.00 MiB  adamw-8bit (training): peak in backward, DoesNotFit
        -4.99 GiB  bf16 (training): peak in backward, Tight
        -0 B  sgd-momentum (training): peak in backward, DoesNotFit
        -2.81 GiB  lora (training): peak in backward, DoesNotFit
        the least that fits, of 6:
        -7.14 GiB  accumulate (little): peak in backward, Fits
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
