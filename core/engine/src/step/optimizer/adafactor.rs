//! Adafactor (`torch/optim/_adafactor.py`): the second moment of a matrix is a row and a column.
//!
//! By default PyTorch loops over single parameters. The lists of `foreach` contain all matrices, or all vectors.

use super::frame::{Frame, List, release};
use super::rule::{Rule, Slot, TORCH};
use crate::config::Implementation;
use crate::eager::kernels::reduce;
use crate::eager::layout::contiguous_strides;
use crate::eager::{Runtime, Tensor};

/// `Adafactor(lr)`. Weight decay is in place.
pub(super) const ADAFACTOR: Rule = Rule {
    class: "Adafactor",
    state: &[Slot::By(row_and_column)],
    usual: Implementation::ForLoop,
    foreach: Some(all),
    for_loop: one,
    ..TORCH
};

/// Sizes of a factored second moment: `row_var` and `col_var`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Factors {
    /// The last dimension is one.
    rows: Vec<u64>,
    /// The last but one is.
    columns: Vec<u64>,
}

impl Factors {
    /// `None` for vectors and numbers.
    fn of(tensor: &Tensor) -> Option<Self> {
        let last = tensor.rank().checked_sub(1).filter(|&last| last > 0)?;
        let without = |gone: usize| {
            let sizes = tensor.sizes().iter().enumerate();
            sizes.map(|(dim, &size)| if dim == gone { 1 } else { size }).collect()
        };
        Some(Self { rows: without(last), columns: without(last - 1) })
    }
}

/// `row_var` and `col_var`, or the variance of a vector.
fn row_and_column(frame: &mut Frame<'_>) {
    let Some(parameter) = frame.parameters.first().cloned() else { return };
    let Some(factors) = Factors::of(&parameter) else { return frame.keep("aten::zeros_like") };
    for sizes in [factors.rows, factors.columns] {
        frame.keep_typed("aten::new_zeros", parameter.dtype(), &sizes);
    }
}

fn one(frame: &mut Frame<'_>) {
    let rt = frame.rt;
    let Some(parameter) = frame.parameters.first().cloned() else { return };
    frame.mention(&["row_mean", "col_mean", "grad_squared", "update"]);
    drop(norm(rt, &parameter));
    if let Some(factors) = Factors::of(&parameter) {
        frame.bind("row_mean", vec![norm_along(rt, &parameter, 1)]);
        frame.bind("col_mean", vec![norm_along(rt, &parameter, 2)]);
        let estimate = product(rt, &parameter);
        drop(mean_of_rows(rt, &parameter, &factors));
        frame.bind("update", vec![estimate]);
    } else {
        frame.assign("grad_squared", "aten::mul");
        frame.assign("update", "aten::clone");
    }
    drop(norm(rt, &parameter));
}

fn all(frame: &mut Frame<'_>) {
    let rt = frame.rt;
    let parameters = std::mem::take(&mut frame.parameters);
    let starts_with_matrix = parameters.first().and_then(Factors::of).is_some();
    for are_matrices in [starts_with_matrix, !starts_with_matrix] {
        let group = parameters.iter().filter(|p| Factors::of(p).is_some() == are_matrices);
        frame.parameters = group.cloned().collect();
        let group = frame.parameters.clone();
        for parameter in &group {
            drop(norm(rt, parameter));
        }
        if are_matrices {
            release(group.iter().map(|parameter| norm_along(rt, parameter, 1)).collect());
            release(group.iter().map(|parameter| norm_along(rt, parameter, 2)).collect());
            let updates: List = group.iter().map(|parameter| product(rt, parameter)).collect();
            let factors = group.iter().filter_map(|p| Some((p, Factors::of(p)?)));
            release(factors.map(|(p, factors)| mean_of_rows(rt, p, &factors)).collect());
            frame.bind("updates", updates);
        } else {
            frame.expression("aten::_foreach_mul");
            frame.assign("updates", "aten::clone");
        }
        for parameter in &group {
            drop(norm(rt, parameter));
        }
    }
    frame.parameters = parameters;
}

/// `tensor.norm(2)`, which is read back to the host.
fn norm(rt: &Runtime, x: &Tensor) -> Tensor {
    rt.enter_operator("aten::linalg_vector_norm");
    reduce(rt, x, &vec![true; x.rank()], x.dtype())
}

/// `torch.linalg.vector_norm(grad, dim=-from_last, keepdim=True)`.
fn norm_along(rt: &Runtime, x: &Tensor, from_last: usize) -> Tensor {
    rt.enter_operator("aten::linalg_vector_norm");
    reduce(rt, x, &only(x, from_last), x.dtype())
}

/// `row_var @ col_var`.
fn product(rt: &Runtime, like: &Tensor) -> Tensor {
    rt.enter_operator("aten::matmul");
    let y = rt.empty(like.dtype(), like.sizes());
    rt.cublas();
    y
}

/// `row_var.mean(dim=-2, keepdim=True)`.
fn mean_of_rows(rt: &Runtime, parameter: &Tensor, factors: &Factors) -> Tensor {
    rt.enter_operator("aten::mean");
    let row_var = parameter.alias(factors.rows.clone(), contiguous_strides(&factors.rows));
    reduce(rt, &row_var, &only(&row_var, 2), row_var.dtype())
}

fn only(x: &Tensor, from_last: usize) -> Vec<bool> {
    (0..x.rank()).map(|dim| dim + from_last == x.rank()).collect()
}
