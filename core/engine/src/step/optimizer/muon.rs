//! Muon (`torch/optim/_muon.py`): the momentum of a matrix is made orthogonal before it is applied.

use super::adam::ADAMW;
use super::rule::{Rule, TORCH, ZEROS};
use crate::aten::matmul::addmm_workspace;
use crate::config::Implementation;
use crate::eager::kernels::reduce;
use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// COUNT: steps of the Newton-Schulz iteration (`ns_steps`).
const STEPS: usize = 5;

/// `Muon(matrices, lr)`. Weight decay is in place.
pub(super) const MUON: Rule = Rule {
    class: "Muon",
    takes: is_matrix,
    state: &[ZEROS],
    usual: Implementation::ForLoop,
    for_loop: |frame| {
        let Some(parameter) = frame.parameters.first().cloned() else { return };
        frame.assign("update", "aten::lerp");
        let orthogonal = orthogonalise(frame.rt, &parameter);
        frame.bind("update", vec![orthogonal]);
    },
    assumed: "Muon updates matrices only: parameters of two dimensions, embeddings among them, are assumed to \
              be its own, and all others to be AdamW's",
    ..TORCH
};

/// `AdamW(others, lr)`.
pub(super) const COMPANION: Rule = Rule { takes: |parameter| !is_matrix(parameter), ..ADAMW };

fn is_matrix(parameter: &Tensor) -> bool {
    parameter.rank() == 2
}

/// `_zeropower_via_newtonschulz`, in bfloat16, a tall matrix lying on its side.
fn orthogonalise(rt: &Runtime, update: &Tensor) -> Tensor {
    let (rows, columns) = (update.size(0), update.size(1));
    let (short, long) = (rows.min(columns), rows.max(columns));
    rt.enter_operator("aten::to");
    let mut orthogonal = rt.empty(DType::BFloat16, &[rows, columns]);
    rt.enter_operator("aten::linalg_vector_norm");
    let norm = reduce(rt, &orthogonal, &[true, true], DType::BFloat16);
    rt.enter_operator("aten::clamp");
    let bound = rt.empty(DType::BFloat16, &[]);
    drop(norm);
    drop(bound);
    let mut gram = None;
    let mut gram_update = None;
    for step in 0..STEPS {
        rt.enter_operator("aten::matmul");
        let product = rt.empty(DType::BFloat16, &[short, short]);
        rt.cublas();
        rt.launch_products(&product, long);
        gram.replace(product);
        rt.enter_operator("aten::addmm");
        let product = rt.empty(DType::BFloat16, &[short, short]);
        addmm_workspace(rt, short, short);
        rt.launch_products(&product, short);
        gram_update.replace(product);
        rt.enter_operator("aten::addmm");
        let product = rt.empty(DType::BFloat16, &[short, long]);
        // cuBLASLt adds only what is contiguous, and a transpose is not.
        if step == 0 && rows > columns && columns > 1 {
            rt.cublas();
        } else {
            addmm_workspace(rt, long, short);
        }
        rt.launch_products(&product, short);
        orthogonal = product;
    }
    drop(gram);
    drop(gram_update);
    orthogonal
}
