//! Pointwise operators (`TensorIterator` kernels): one output, no scratch.

use crate::eager::kernels::{self, pointwise as output};
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::tensor::DType;

/// What a gradient formula reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// `self`: the input stays alive.
    Input,
    /// `result`: the output stays alive.
    Output,
    /// Neither.
    Nothing,
}

/// A unary operator of one kernel forward and one kernel backward; input and output have one shape.
#[derive(Clone, Copy, Debug)]
pub struct Unary {
    name: &'static str,
    node: &'static str,
    reads: Reads,
    temporaries: usize,
    saved_leads: bool,
    in_place: Reads,
}

impl Unary {
    /// `name` is `aten::…`; its gradient reads the input.
    pub const fn saves_input(name: &'static str) -> Self {
        Self::new(name, Reads::Input)
    }

    /// Its gradient reads the output.
    pub const fn saves_output(name: &'static str) -> Self {
        Self::new(name, Reads::Output)
    }

    /// Its gradient reads neither.
    pub const fn saves_nothing(name: &'static str) -> Self {
        Self::new(name, Reads::Nothing)
    }

    const fn new(name: &'static str, reads: Reads) -> Self {
        Self { name, node: name, reads, temporaries: 0, saved_leads: false, in_place: reads }
    }

    /// Autograd's node, where it is not called as the operator is.
    #[must_use]
    pub const fn node(self, node: &'static str) -> Self {
        Self { node, ..self }
    }

    /// COUNT: full-size temporaries that the gradient makes besides its result.
    #[must_use]
    pub const fn temporaries(self, temporaries: usize) -> Self {
        Self { temporaries, ..self }
    }

    /// The gradient's kernel is given what was saved before the gradient, so that strides follow the
    /// former: `threshold_backward` and `leaky_relu_backward`.
    #[must_use]
    pub const fn saved_leads(self) -> Self {
        Self { saved_leads: true, ..self }
    }

    /// In place its gradient reads the result instead: `derivatives.yaml` has a formula of its own for
    /// `leaky_relu_`, `elu_` and what calls it.
    #[must_use]
    pub const fn reads_result_in_place(self) -> Self {
        Self { in_place: Reads::Output, ..self }
    }

    /// What the formula makes dies when its result is there.
    fn gradients(self, pass: &Pass<'_>) -> Gradients {
        let Some(grad) = pass.grad() else { return vec![None] };
        let temporaries: Vec<_> =
            (0..self.temporaries).map(|_| self.of_gradient(pass, grad)).collect();
        let result = self.of_gradient(pass, grad);
        drop(temporaries);
        vec![Some(result)]
    }

    /// A tensor of the gradient formula, whose strides follow the first operand with an opinion.
    fn of_gradient(self, pass: &Pass<'_>, grad: &Tensor) -> Tensor {
        let saved = pass.saved(0).unwrap_or(grad);
        let operands = if self.saved_leads { [saved, grad] } else { [grad, saved] };
        output(pass.rt, grad.dtype(), &operands)
    }
}

/// Runs a unary operator.
pub fn unary(rt: &Runtime, op: Unary, x: &Tensor) -> Tensor {
    let [x] = &rt.for_operator(op.name, [x]);
    rt.enter_operator(op.name);
    let y = output(rt, x.dtype(), &[x]);
    if !x.dtype().is_floating() {
        return y;
    }
    let saved: &[&Tensor] = match op.reads {
        Reads::Input => &[x],
        Reads::Output => &[&y.clone()],
        Reads::Nothing => &[],
    };
    rt.differentiable(op.node, y, &[x], saved, move |pass| op.gradients(pass))
}

/// Runs a unary operator in place: `relu_` and its like.
///
/// Where the gradient reads the input, autograd clones it before it is overwritten; the clone is
/// what is saved, and nothing is won.
pub fn unary_in_place(rt: &Runtime, op: Unary, x: &Tensor) -> Tensor {
    rt.enter_operator(op.name);
    let clone = (op.in_place == Reads::Input && rt.requires_grad(&[x])).then(|| rt.empty_like(x));
    if let Some(clone) = &clone {
        rt.launch_elementwise(&[x], &[clone]);
    }
    rt.launch_in_place(&[], x);
    let y = rt.overwritten(x);
    let result = y.clone();
    let saved: Vec<&Tensor> = match op.in_place {
        Reads::Input => clone.iter().collect(),
        Reads::Output => vec![&result],
        Reads::Nothing => Vec::new(),
    };
    rt.differentiable(op.node, y, &[x], &saved, move |pass| op.gradients(pass))
}

/// Type of the result of arithmetic on two tensors: the wider of their types, where one without
/// dimensions counts only if it alone is a float.
pub fn promote(a: &Tensor, b: &Tensor) -> DType {
    promoted((a.dtype(), a.rank()), (b.dtype(), b.rank()))
}

/// The same of types and ranks.
pub fn promoted((x, x_rank): (DType, usize), (y, y_rank): (DType, usize)) -> DType {
    if x.is_floating() == y.is_floating() {
        match (x_rank, y_rank) {
            (0, 1..) => return y,
            (1.., 0) => return x,
            _ => {}
        }
    }
    kernels::promote(x, y)
}

/// `aten::add` and `aten::sub`: nothing is saved; both operands get the gradient itself.
pub fn add(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::add");
    let y = output(rt, promote(a, b), &[a, b]);
    rt.differentiable("AddBackward0", y, &[a, b], &[], |pass| {
        vec![pass.grad().cloned(), pass.grad().cloned()]
    })
}

/// `aten::sub`: the second operand's gradient is negated, a new tensor.
pub fn sub(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::sub");
    let y = output(rt, promote(a, b), &[a, b]);
    rt.differentiable("SubBackward0", y, &[a, b], &[], |pass| {
        let negated = pass.grad().filter(|_| pass.needs(1)).map(|grad| pass.rt.empty_like(grad));
        if let (Some(grad), Some(negated)) = (pass.grad(), &negated) {
            pass.rt.launch_elementwise(&[grad], &[negated]);
        }
        vec![pass.grad().cloned(), negated]
    })
}

/// `a += b`: no memory of its own.
pub fn add_in_place(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::add_");
    rt.launch_in_place(&[b], a);
    rt.differentiable("AddBackward0", rt.overwritten(a), &[a, b], &[], |pass| {
        vec![pass.grad().cloned(), pass.grad().cloned()]
    })
}

/// `aten::mul`: each operand is saved if the other needs a gradient.
pub fn mul(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::mul");
    let y = output(rt, promote(a, b), &[a, b]);
    // `other` before `self`, in saving and in computing.
    let saved: Vec<&Tensor> =
        [(b, a), (a, b)].iter().filter(|(_, for_)| for_.requires_grad()).map(|(t, _)| *t).collect();
    rt.differentiable("MulBackward0", y, &[a, b], &saved, |pass| {
        let Some(grad) = pass.grad() else { return vec![None, None] };
        let mut operands = pass.saved.iter();
        let with_b = pass.needs(0).then(|| operands.next()).flatten().cloned();
        let with_a = pass.needs(1).then(|| operands.next()).flatten().cloned();
        let for_b = with_a.map(|a| output(pass.rt, grad.dtype(), &[grad, &a]));
        let for_a = with_b.map(|b| output(pass.rt, grad.dtype(), &[grad, &b]));
        vec![for_a, for_b]
    })
}

/// `aten::div`: the divisor is always saved, the dividend if the divisor needs a gradient.
pub fn div(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::div");
    let y = output(rt, promote(a, b), &[a, b]);
    let saved: &[&Tensor] = if b.requires_grad() { &[b, a] } else { &[b] };
    rt.differentiable("DivBackward0", y, &[a, b], saved, div_gradients)
}

/// `a /= b`: a copy of what is overwritten is saved where the divisor needs a gradient.
pub fn div_in_place(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::div_");
    let clone = rt.requires_grad(&[b]).then(|| rt.empty_like(a));
    rt.launch_in_place(&[b], a);
    let saved: Vec<&Tensor> = [Some(b), clone.as_ref()].into_iter().flatten().collect();
    rt.differentiable("DivBackward0", rt.overwritten(a), &[a, b], &saved, div_gradients)
}

fn div_gradients(pass: &Pass<'_>) -> Gradients {
    let Some(grad) = pass.grad() else { return vec![None, None] };
    let fresh = || pass.rt.empty_like(grad);
    let for_b = pass.needs(1).then(|| {
        // -grad * ((self / other) / other)
        let (quotient, twice, negated) = (fresh(), fresh(), fresh());
        let result = fresh();
        drop((negated, twice, quotient));
        result
    });
    let for_a = pass.needs(0).then(fresh);
    if let (Some(for_a), Some(divisor)) = (&for_a, pass.saved(0)) {
        pass.rt.launch_elementwise(&[grad, divisor], &[for_a]);
    }
    vec![for_a, for_b]
}

/// Arithmetic with a Python number: nothing is saved, the gradient is scaled.
pub fn scale(rt: &Runtime, name: &'static str, x: &Tensor) -> Tensor {
    let node = if name == "aten::div" { "DivBackward0" } else { "MulBackward0" };
    unary(rt, Unary::saves_nothing(name).node(node), x)
}

/// The same in place.
pub fn scale_in_place(rt: &Runtime, name: &'static str, x: &Tensor) -> Tensor {
    let node = if name == "aten::div_" { "DivBackward0" } else { "MulBackward0" };
    unary_in_place(rt, Unary::saves_nothing(name).node(node), x)
}

/// Adding a Python number: the gradient passes through.
pub fn shift(rt: &Runtime, name: &'static str, x: &Tensor) -> Tensor {
    rt.enter_operator(name);
    let y = rt.empty_like(x);
    rt.launch_elementwise(&[x], &[&y]);
    rt.differentiable("AddBackward0", y, &[x], &[], |pass| vec![pass.grad().cloned()])
}

/// `number - x` (`aten::rsub`): the gradient is negated.
pub fn negate(rt: &Runtime, name: &'static str, x: &Tensor) -> Tensor {
    unary(rt, Unary::saves_nothing(name).node("NegBackward0"), x)
}

/// `aten::pow` with a number as exponent: `grad * (exponent * self.pow(exponent - 1))`.
pub fn pow_scalar(rt: &Runtime, x: &Tensor) -> Tensor {
    let [x] = &rt.for_operator("aten::pow", [x]);
    rt.enter_operator("aten::pow");
    let y = rt.empty_like(x);
    rt.launch_elementwise(&[x], &[&y]);
    rt.differentiable("PowBackward0", y, &[x], &[x], |pass| {
        let Some(grad) = pass.grad() else { return vec![None] };
        let power = pass.rt.empty_like(grad);
        let scaled = pass.rt.empty_like(grad);
        let result = pass.rt.empty_like(grad);
        if let Some(x) = pass.saved(0) {
            pass.rt.launch_elementwise(&[x], &[&power]);
            pass.rt.launch_elementwise(&[&power], &[&scaled]);
        }
        pass.rt.launch_elementwise(&[grad, &scaled], &[&result]);
        drop(scaled);
        drop(power);
        vec![Some(result)]
    })
}

/// Comparisons and logic: booleans without a gradient.
pub fn compare(rt: &Runtime, name: &'static str, operands: &[&Tensor]) -> Tensor {
    rt.enter_operator(name);
    output(rt, DType::Bool, operands)
}

/// Integer arithmetic and other pointwise operators that stop gradients.
pub fn opaque(rt: &Runtime, name: &'static str, dtype: DType, operands: &[&Tensor]) -> Tensor {
    rt.enter_operator(name);
    output(rt, dtype, operands)
}

/// `aten::where`: the condition is saved.
pub fn select(rt: &Runtime, condition: &Tensor, a: Option<&Tensor>, b: Option<&Tensor>) -> Tensor {
    rt.enter_operator("aten::where");
    let branches: Vec<&Tensor> = [a, b].into_iter().flatten().collect();
    let dtype = match branches.as_slice() {
        [a, b] => promote(a, b),
        [only] => only.dtype(),
        _ => DType::Float32,
    };
    let mut operands = vec![condition];
    operands.extend(&branches);
    // A number is a tensor while the kernel runs; one in front is `masked_fill`'s, and is none.
    let number = (a.is_some() && b.is_none()).then(|| rt.empty(dtype, &[]));
    let y = output(rt, dtype, &operands);
    drop(number);
    let arity = branches.len();
    rt.differentiable("WhereBackward0", y, &branches, &[condition], move |pass| {
        let masked = |grad: &Tensor| {
            // The zero for the other branch is a tensor while the kernel runs.
            let zero = pass.rt.empty(grad.dtype(), &[]);
            let operands: Vec<&Tensor> = pass.saved(0).into_iter().chain([grad]).collect();
            let result = output(pass.rt, grad.dtype(), &operands);
            drop(zero);
            result
        };
        (0..arity).map(|i| pass.grad().filter(|_| pass.needs(i)).map(masked)).collect()
    })
}

/// `aten::masked_fill` with a number, and `masked_fill_`: a contiguous clone is written to, and the mask
/// is saved; the gradient is filled in turn.
pub fn masked_fill(rt: &Runtime, x: &Tensor, mask: &Tensor, in_place: bool) -> Tensor {
    rt.enter_operator("aten::masked_fill");
    let y = if in_place { rt.overwritten(x) } else { rt.empty(x.dtype(), x.sizes()) };
    rt.launch_in_place(&[mask], &y);
    rt.differentiable("MaskedFillBackward0", y, &[x], &[mask], |pass| {
        pass.rt.enter_operator("aten::masked_fill");
        let filled = pass.grad().map(|grad| pass.rt.empty(grad.dtype(), grad.sizes()));
        if let (Some(filled), Some(mask)) = (&filled, pass.saved(0)) {
            pass.rt.launch_in_place(&[mask], filled);
        }
        vec![filled]
    })
}

/// `aten::clamp` between two tensors without dimensions. All three are saved; the gradient is halved
/// at a bound and zero outside (`clamp_backward`, PyTorch 2.15).
pub fn clamp_between(rt: &Runtime, x: &Tensor, [low, high]: [&Tensor; 2]) -> Tensor {
    rt.enter_operator("aten::clamp");
    let y = output(rt, x.dtype(), &[x]);
    rt.differentiable("ClampBackward0", y, &[x], &[x, low, high], |pass| {
        let (Some(grad), Some(x)) = (pass.grad(), pass.saved(0)) else { return vec![None] };
        let flags = || output(pass.rt, DType::Bool, &[x]);
        let is_interval = pass.rt.empty(DType::Bool, &[]);
        let (at_low, at_high) = (flags(), flags());
        let at_bound = flags();
        let halved = flags();
        drop((at_bound, at_high, at_low));
        let (below, above) = (flags(), flags());
        let outside = flags();
        drop((above, below));
        let half = pass.rt.empty_like(grad);
        let result = pass.rt.empty_like(grad);
        drop((half, outside, halved, is_interval));
        vec![Some(result)]
    })
}
