//! Runtime rules that several families share.

use super::{Call, OpError};
use crate::aten::{elementwise, view};
use crate::eager::Tensor;

/// A new tensor without a gradient, whatever the inputs are: `arange`, `full`, `nonzero`.
#[expect(clippy::unnecessary_wraps, reason = "it is a runtime rule like the others")]
pub(super) fn fresh(call: &mut Call<'_>) -> Result<(), OpError> {
    call.rt.enter_operator("aten::empty");
    for position in 0..call.node.outputs.len() {
        if let Ok(ty) = call.output_type(position) {
            call.set(position, call.rt.empty(ty.dtype, &ty.dims));
        }
    }
    Ok(())
}

/// A pointwise kernel that stops gradients: comparisons, logic, integer arithmetic.
pub(super) fn without_gradient(call: &mut Call<'_>, name: &'static str) -> Result<(), OpError> {
    let tensors = call.tensors_and_lists()?;
    let ty = call.output_type(0)?;
    let operands: Vec<&Tensor> = tensors.iter().collect();
    call.set(0, elementwise::opaque(call.rt, name, ty.dtype, &operands));
    Ok(())
}

/// A kernel that fills a tensor of other sizes, and one that fills the gradient.
pub(super) fn resampled(call: &mut Call<'_>, name: &'static str) -> Result<(), OpError> {
    let [x] = call.rt.for_operator(name, [&call.need(0)?]);
    let dims = &call.output_type(0)?.dims;
    let y = view::resample(call.rt, name, &x, dims);
    let kernel = call.node.string("kernel").or_else(|| {
        call.node.string("mode").filter(|_| matches!(call.node.op.as_str(), "Resize" | "Upsample"))
    });
    let is_dense = match kernel {
        Some("contiguous") => true,
        Some("nearest") => x.rank() == 4 && x.size(1) < 4,
        _ => false,
    };
    if is_dense && !x.is_contiguous() {
        let whole = call.rt.empty(x.dtype(), dims);
        drop((call.rt.no_grad(|| view::contiguous(call.rt, &x)), whole));
    }
    call.set(0, y);
    Ok(())
}
