//! Gathering and scattering by index: the indices are saved, the gradient is the whole input.

use crate::eager::{Runtime, Tensor};
use crate::tensor::DType;

/// `aten::index`, `gather`, `index_select` of a tensor by another.
pub fn gather(rt: &Runtime, x: &Tensor, indices: &Tensor, output: &[u64]) -> Tensor {
    rt.enter_operator("aten::index");
    let y = rt.empty(x.dtype(), output);
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    rt.differentiable("IndexBackward0", y, &[x], &[indices], move |pass| {
        vec![pass.grad().map(|_| pass.rt.empty(dtype, &sizes))]
    })
}

/// `aten::scatter`, `index_put`: a copy of the input, written to.
pub fn scatter(rt: &Runtime, x: &Tensor, indices: &Tensor, source: &Tensor) -> Tensor {
    rt.enter_operator("aten::scatter");
    let y = rt.empty_like(x);
    let source_sizes = source.sizes().to_vec();
    rt.differentiable("ScatterBackward0", y, &[x, source], &[indices], move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        let for_x = pass.needs(0).then(|| pass.rt.empty_like(grad));
        let for_source = pass.needs(1).then(|| pass.rt.empty(grad.dtype(), &source_sizes));
        vec![for_x, for_source]
    })
}

/// `aten::topk`, `sort`, `max(dim)`: values and indices; the indices are saved.
pub fn values_and_indices(
    rt: &Runtime,
    name: &'static str,
    x: &Tensor,
    output: &[u64],
) -> (Tensor, Tensor) {
    rt.enter_operator(name);
    let values = rt.empty(x.dtype(), output);
    let indices = rt.empty(DType::Int64, output);
    let (sizes, dtype) = (x.sizes().to_vec(), x.dtype());
    let values =
        rt.differentiable("ValueSelectingBackward0", values, &[x], &[&indices], move |pass| {
            vec![pass.grad().map(|_| pass.rt.empty(dtype, &sizes))]
        });
    (values, indices)
}
