//! Features for classical models, and optimizers inside a graph.
//!
//! <https://onnx.ai/onnx/operators/onnx_aionnxml_Binarizer.html>, `onnx_aionnxml_ArrayFeatureExtractor.html`,
//! `onnx_aionnxml_TreeEnsemble.html`, `onnx__TfIdfVectorizer.html`, `onnx__MelWeightMatrix.html`,
//! `onnx_aionnxpreviewtraining_Adam.html`.

use super::formula::spelled;
use super::run::fresh;
use super::shape_math::{before, dim, dtype_attribute, like_first, size};
use super::{Call, Inference, MANY, OpError, Operator, Rule, Shaped, op};
use crate::aten::elementwise;
use crate::eager::kernels;
use crate::tensor::DType;

pub(super) const TABLE: &[Operator] = &[
    optimizer("Adagrad", |i| updated(i, 3)),
    optimizer("Adam", |i| updated(i, 4)),
    Shaped { domain: ML, ..op("ArrayFeatureExtractor", 2..=2, extracted) }.runs(spelled),
    Shaped { domain: ML, ..op("Binarizer", 1..=1, like_first) }.runs(spelled),
    op("MelWeightMatrix", 5..=5, mel_weights).runs(fresh).numbers_from(0),
    optimizer("Momentum", |i| updated(i, 3)),
    Shaped { domain: ML, ..op("Scaler", 1..=1, scaled) }.runs(scaler_rule),
    op("TfIdfVectorizer", 1..=1, counted).runs(fresh).unproven(),
    Shaped { domain: ML, ..op("TreeEnsemble", 1..=1, scored) }.runs(fresh).unproven(),
    // A list of dictionaries: the same numbers on the host.
    Shaped { domain: ML, ..op("ZipMap", 1..=1, like_first) }.runs(|c| {
        let x = c.need(0)?;
        c.set(0, x);
        Ok(())
    }),
];

const ML: &str = "ai.onnx.ml";

const fn optimizer(name: &'static str, infer: Rule) -> Operator {
    let row = Shaped { domain: "ai.onnx.preview.training", ..op(name, 2..=MANY, infer) };
    row.runs(fresh).unproven()
}

/// A rate and a count, then parameters, gradients and states, `kinds` of them: parameters and states anew.
fn updated(inference: &mut Inference<'_>, kinds: usize) -> Result<(), OpError> {
    let given = inference.n_inputs().saturating_sub(2);
    let each = given.checked_div(kinds).unwrap_or(0);
    for position in 0..inference.n_outputs() {
        let gradients = if position < each { 0 } else { each };
        let ty = inference.input(position.saturating_add(gradients).saturating_add(2))?;
        inference.set(position, ty.clone());
    }
    Ok(())
}

/// `X […, features]` and the indices of some features to `[…, some]`.
fn extracted(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let (x, chosen) = (inference.input(0)?, inference.input(1)?);
    // A list of features is one row.
    let mut dims = if x.rank() < 2 { vec![1] } else { before(&x.dims, x.rank() - 1).to_vec() };
    dims.push(chosen.numel());
    inference.set_dims(0, x.dtype, dims);
    Ok(())
}

/// `[dft_length / 2 + 1, num_mel_bins]`.
fn mel_weights(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let stated = |at| size(inference.needed_ints(at)?.first().copied().unwrap_or(0));
    let (bands, length) = (stated(0)?, stated(1)?);
    let dtype = dtype_attribute(inference, "output_datatype")?.unwrap_or(DType::Float32);
    inference.set_dims(0, dtype, [(length >> 1).saturating_add(1), bands]);
    Ok(())
}

fn scaled(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let dims = inference.input(0)?.dims.clone();
    inference.set_dims(0, DType::Float32, dims);
    Ok(())
}

/// `(x - offset) * scale`.
fn scaler_rule(call: &mut Call<'_>) -> Result<(), OpError> {
    let x = call.need(0)?;
    let x =
        if x.dtype() == DType::Float32 { x } else { kernels::cast(call.rt, &x, DType::Float32) };
    let shifted = elementwise::shift(call.rt, "aten::sub", &x);
    call.set(0, elementwise::scale(call.rt, "aten::mul", &shifted));
    Ok(())
}

/// A number for each of the n-grams that are counted.
fn counted(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let last = inference.node.ints("ngram_indexes").and_then(|list| list.iter().max());
    let last = last.ok_or_else(|| OpError::new(say!("`ngram_indexes` is missing")))?;
    let mut dims = before(&x.dims, x.rank().saturating_sub(1)).to_vec();
    dims.push(size(last.saturating_add(1))?);
    inference.set_dims(0, DType::Float32, dims);
    Ok(())
}

/// `X [N, features]` to `[N, n_targets]`.
fn scored(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?;
    let targets = size(inference.node.int("n_targets").unwrap_or(1))?;
    inference.set_dims(0, x.dtype, [dim(&x.dims, 0), targets]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::check;

    #[test]
    fn shapes() {
        for (call, expected) in [
            ("TfIdfVectorizer int64[2,6] ngram_indexes=[0,1,4,2]", "float32[2,5]"),
            ("TfIdfVectorizer int64[12] ngram_indexes=[0,1]", "float32[2]"),
            ("TfIdfVectorizer int64[12]", "error: `ngram_indexes` is missing"),
            (
                "MelWeightMatrix int64[]:8 int64[]:16 int64[]:8192 float32[] float32[]",
                "float32[9,8]",
            ),
        ] {
            check(call, expected);
        }
    }
}
