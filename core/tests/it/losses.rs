//! Losses and their backward, event by event, beside those that PyTorch made.

use highwater_core::aten::{elementwise, loss};
use highwater_core::config::{LossChoice, Precision, PyTorch};
use highwater_core::eager::{Runtime, Tensor, kernels};
use highwater_core::tensor::{DType, TensorType};
use highwater_core::trace::Category;

use crate::recording;

#[test]
fn every_loss_is_that_of_pytorch() {
    recording::check("losses/events.txt", events);
}

fn events(case: &str) -> Vec<String> {
    let words: Vec<&str> = case.split(' ').collect();
    let choice: LossChoice = words[0].parse().unwrap();
    let sizes: Vec<u64> = words[1].split('x').map(|size| size.parse().unwrap()).collect();
    let precision: Precision = words[2].parse().unwrap();

    let rt = Runtime::new(recording::A100, PyTorch::LATEST);
    let dtype = precision.converts_to().unwrap_or(DType::Float32);
    let place =
        |dtype, sizes: &[u64]| rt.place(&TensorType::new(dtype, sizes), Category::Input, "");
    let (parameter, _leaf) = rt.parameter(&place(dtype, &sizes), "");
    let target = match choice {
        LossChoice::CrossEntropy | LossChoice::LabelSmoothing => {
            let without_classes = [&sizes[..1], &sizes[2..]].concat();
            place(DType::Int64, &without_classes)
        }
        LossChoice::CausalLm | LossChoice::MaskedLm => place(DType::Int64, &sizes[..2]),
        _ => place(dtype, &sizes),
    };
    let mut logits = elementwise::scale(&rt, "aten::mul", &parameter);
    if let Some(low) = precision.autocast() {
        logits = kernels::cast(&rt, &logits, low);
    }
    let mut marks = vec![rt.events()];
    let value = rt.autocast(precision.autocast(), || compute(&rt, choice, &logits, &target));
    marks.push(rt.events());
    rt.backward(&value, &());
    marks.push(rt.events());
    recording::phases(&rt.into_trace(), &marks)
}

fn compute(rt: &Runtime, choice: LossChoice, logits: &Tensor, target: &Tensor) -> Tensor {
    let compute = match choice {
        LossChoice::CrossEntropy => loss::cross_entropy,
        LossChoice::LabelSmoothing => loss::smoothed_cross_entropy,
        LossChoice::SoftTargets => loss::soft_cross_entropy,
        LossChoice::CausalLm => loss::causal_language_model,
        LossChoice::MaskedLm => loss::token_loss,
        LossChoice::Mse => loss::mse_loss,
        LossChoice::BceWithLogits => loss::binary_cross_entropy_with_logits,
        LossChoice::Sum => return loss::sum_of(rt, logits),
        LossChoice::Auto | LossChoice::Own => panic!("no loss of its own"),
    };
    compute(rt, logits, target)
}
