//! What sets the peak, of models that peak for different reasons.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use highwater_core::autopsy::Autopsy;
use highwater_core::config::{Checkpoint, Precision};
use highwater_core::{Config, Model, Optimizer};

use crate::fixtures;

fn zoo(name: &str) -> Model {
    let bytes = fixtures::unpack(&format!("zoo/train/{name}.onnx.gz")).unwrap();
    highwater_core::open(&mut bytes.as_slice(), name).unwrap()
}

fn check(name: &str, batch: u64, config: Config, expected: &Expect) {
    let model = zoo(name);
    let dims = model.open_dims().into_iter();
    let dims = dims.map(|dim| (dim.name, if dim.batch { batch } else { dim.default }));
    let report = model.estimate(&Config { dims: dims.collect(), ..config }).unwrap();
    let autopsy = Autopsy::of(&report);
    let peak = &report.peak;
    let mut text = format!(
        "{} in {} of {} ({}), iteration {}\n",
        peak.allocated,
        peak.phase.name(),
        peak.module,
        peak.operator,
        peak.iteration
    );
    for group in &autopsy.groups {
        let like = &group.example;
        let kind = like.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
        writeln!(
            text,
            "{:>10}  {} {:?}, like {} {kind} of {}",
            group.bytes.to_string(),
            group.count,
            group.why,
            like.operator,
            like.module
        )
        .unwrap();
    }
    writeln!(text, "{:>10}  others", autopsy.others.to_string()).unwrap();
    if let Some(scores) = &autopsy.scores {
        let (count, classes) = (scores.count, scores.classes);
        writeln!(text, "scores of {classes} classes: {count}, {}, {}", scores.bytes, scores.tensor)
            .unwrap();
    }
    if let Some(next) = &autopsy.next {
        let (phase, module) = (next.phase.name(), &next.module);
        writeln!(
            text,
            "next: {} in {phase} of {module} ({}), iteration {}",
            next.allocated, next.operator, next.iteration
        )
        .unwrap();
    }
    let told = autopsy.groups.iter().map(|group| group.bytes).sum::<highwater_core::Bytes>();
    assert_eq!(told + autopsy.others, report.at_peak.total());
    expected.assert_eq(&text);
}

#[test]
fn activations_of_convolutions() {
    check(
        "resnet50",
        32,
        Config::default(),
        &expect![[r#"
            2.90 GiB in backward of layer4.0.downsample.0 (aten::convolution_backward), iteration 2
            882.00 MiB  9 Saved, like aten::convolution float32[32, 64, 112, 112] of conv1
            686.00 MiB  28 Saved, like aten::max_pool2d_with_indices float32[32, 64, 56, 56] of maxpool
            539.00 MiB  11 Saved, like aten::convolution float32[32, 128, 56, 56] of layer2.0.conv1
            208.25 MiB  17 Saved, like aten::convolution float32[32, 128, 28, 28] of layer2.0.conv2
            194.98 MiB  322 OptimizerState, like aten::zeros_like float32[512, 512, 3, 3] of optimizer
            441.84 MiB  others
            next: 2.14 GiB in backward of layer2.0.downsample.0 (aten::convolution_backward), iteration 2
        "#]],
    );
}

#[test]
fn scores_of_a_vocabulary() {
    check(
        "gpt2",
        8,
        Config::default(),
        &expect![[r#"
            8.51 GiB in backward of loss (LogSoftmaxBackward0), iteration 2
              2.81 GiB  60 Saved, like aten::addmm float32[4096, 3072] of m.transformer.h.0.mlp.c_fc
              1.53 GiB  2 InBackward, like NllLossBackward0 float32[4096, 50257] of loss
            949.40 MiB  296 OptimizerState, like aten::zeros_like float32[50257, 768] of optimizer
            785.27 MiB  1 Named, like aten::mm float32[4096, 50257] of m.lm_head
            785.27 MiB  1 Saved, like aten::_log_softmax float32[4096, 50257] of loss
              1.69 GiB  others
            scores of 50257 classes: 4, 3.07 GiB, float32[4096, 50257]
            next: 7.75 GiB in forward of loss (aten::nll_loss_nd), iteration 2
        "#]],
    );
    let config = Config {
        precision: Precision::AmpBf16,
        checkpoint: Checkpoint::Blocks,
        ..Config::default()
    };
    check(
        "gpt2",
        8,
        config,
        &expect![[r#"
            4.32 GiB in backward of loss (LogSoftmaxBackward0), iteration 2
              1.53 GiB  2 InBackward, like NllLossBackward0 float32[4096, 50257] of loss
            949.40 MiB  296 OptimizerState, like aten::zeros_like float32[50257, 768] of optimizer
            785.27 MiB  1 Saved, like aten::_log_softmax float32[4096, 50257] of loss
            474.70 MiB  148 Parameter, like  float32[50257, 768] of m.transformer.wte
            392.63 MiB  1 Named, like aten::mm bfloat16[4096, 50257] of m.lm_head
            238.69 MiB  others
            scores of 50257 classes: 4, 2.68 GiB, float32[4096, 50257]
            next: 4.10 GiB in forward of loss (aten::nll_loss_nd), iteration 3
        "#]],
    );
}

#[test]
fn a_transformer_without_a_vocabulary_at_its_end() {
    check(
        "bert_base",
        8,
        Config::default(),
        &expect![[r#"
            5.52 GiB in backward of loss (LogSoftmaxBackward0), iteration 2
              1.18 GiB  101 Saved, like aten::add float32[8, 512, 768] of m.bert.embeddings
              1.13 GiB  24 Saved, like aten::addmm float32[4096, 3072] of m.bert.encoder.layer.0.intermediate.dense
            953.81 MiB  2 InBackward, like NllLossBackward0 float32[4096, 30522] of loss
            835.53 MiB  404 OptimizerState, like aten::zeros_like float32[30522, 768] of optimizer
            476.91 MiB  1 Named, like aten::addmm float32[4096, 30522] of m.cls.predictions.decoder
            972.78 MiB  others
            scores of 30522 classes: 4, 1.86 GiB, float32[4096, 30522]
            next: 5.05 GiB in forward of loss (aten::nll_loss_nd), iteration 2
        "#]],
    );
}

#[test]
fn the_optimizers_step() {
    let config = Config { optimizer: Optimizer::Adam, ..Config::default() };
    check(
        "alexnet",
        4,
        config,
        &expect![[r#"
            1.14 GiB in optimizer of optimizer (aten::_foreach_sqrt), iteration 1
            466.16 MiB  32 OptimizerState, like aten::zeros_like float32[4096, 9216] of optimizer
            233.08 MiB  16 Parameter, like  float32[4096, 9216] of classifier.1
            233.08 MiB  16 Gradient, like aten::mm float32[4096, 9216] of classifier.1
            233.08 MiB  16 InStep, like aten::_foreach_sqrt float32[4096, 9216] of optimizer
              2.31 MiB  others
        "#]],
    );
}
