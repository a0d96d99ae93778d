//! Matrix products: `mm`, `bmm`, `addmm`, `linear`, `matmul`, and their library workspaces.
//!
//! A product with a fused bias goes to cuBLASLt, any other to cuBLAS.
//! Sources: `native/cuda/Blas.cpp`, `native/Linear.cpp`, `native/LinearAlgebra.cpp`.

use super::elementwise::{self, add_in_place};
use super::view::{self, rows_and_width};
use crate::eager::layout::broadcast_sizes;
use crate::eager::{Gradients, Pass, Runtime, Tensor};
use crate::tensor::{Dims, numel};

/// How a weight lies in memory relative to the product `x @ w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightLayout {
    /// `[out, in]`: `nn.Linear`; the product reads its transpose.
    OutIn,
    /// `[in, out]`: `Conv1D` of GPT-2, `torch.addmm`.
    InOut,
}

/// `F.linear` (`weight [out, in]`) or `addmm` (`[in, out]`): `x […, in]`, `bias [out]` to `[…, out]`.
///
/// A two-dimensional or contiguous input with a bias is one `addmm`; anything else is a `matmul`,
/// to which the bias is added in place.
pub fn linear(
    rt: &Runtime,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    layout: WeightLayout,
) -> Tensor {
    let name = if layout == WeightLayout::OutIn { "aten::linear" } else { "aten::addmm" };
    let (x, weight, bias) = cast_operands(rt, name, x, weight, bias);
    let (x, weight, bias) = (&x, &weight, bias.as_ref());
    let out_dim = usize::from(layout != WeightLayout::OutIn);
    let width = weight.size(out_dim);
    let mut sizes = x.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = width;
    }
    if let Some(bias) = bias
        && (x.rank() == 2 || x.is_contiguous())
    {
        let rows = flatten(rt, x);
        let y = addmm(rt, &rows, weight, bias, width);
        return unflatten(rt, y, &sizes);
    }
    let rows = flatten(rt, x);
    let y = mm(rt, &rows, weight, width);
    let y = unflatten(rt, y, &sizes);
    match bias {
        Some(bias) => add_in_place(rt, &y, bias),
        None => y,
    }
}

/// Under autocast, `linear(x, weight, bias)` casts from its last argument on, and
/// `addmm(bias, x, weight)` from its own.
fn cast_operands(
    rt: &Runtime,
    name: &str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> (Tensor, Tensor, Option<Tensor>) {
    let cast_bias = || bias.map(|bias| rt.for_operator(name, [bias]).into_iter().next());
    let bias_first = (name == "aten::linear").then(cast_bias);
    let [x, weight] = rt.for_operator(name, [x, weight]);
    let bias = bias_first.unwrap_or_else(cast_bias).flatten();
    (x, weight, bias)
}

fn flatten(rt: &Runtime, x: &Tensor) -> Tensor {
    if x.rank() == 2 {
        return x.clone();
    }
    let (rows, width) = rows_and_width(x.sizes());
    view::reshape(rt, x, &[rows, width])
}

fn unflatten(rt: &Runtime, y: Tensor, sizes: &[u64]) -> Tensor {
    if y.sizes() == sizes { y } else { view::reshape(rt, &y, sizes) }
}

fn addmm(rt: &Runtime, x: &Tensor, weight: &Tensor, bias: &Tensor, width: u64) -> Tensor {
    rt.enter_operator("aten::addmm");
    let y = rt.empty(x.dtype(), &[x.size(0), width]);
    addmm_workspace(rt, width, x.size(1));
    rt.launch_products(&y, x.size(1));
    let saved = Operands::saved(x, weight);
    let weight_sizes = weight.sizes().to_vec();
    rt.differentiable("AddmmBackward0", y, &[x, weight, bias], &saved.tensors(), move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        pass.rt.enter_operator("aten::mm");
        // mat1, mat2, then the bias, which the engine sums.
        let for_x = pass.needs(0).then(|| for_operand(pass.rt, grad, &weight_sizes));
        let for_weight = pass.needs(1).then(|| weight_gradient(pass.rt, grad, &weight_sizes));
        vec![for_x, for_weight, Some(grad.clone())]
    })
}

/// Workspace of an `addmm` whose product is `columns` wide and sums over `inner`: cuBLASLt's, but for
/// vectors.
pub fn addmm_workspace(rt: &Runtime, columns: u64, inner: u64) {
    if columns > 1 && inner > 1 {
        rt.cublas_lt();
    } else {
        rt.cublas();
    }
}

fn mm(rt: &Runtime, x: &Tensor, weight: &Tensor, width: u64) -> Tensor {
    rt.enter_operator("aten::mm");
    let y = product(rt, x, &[x.size(0), width], x.size(1));
    let saved = Operands::saved(x, weight);
    let weight_sizes = weight.sizes().to_vec();
    let by_column = !weight.is_contiguous() && weight.strides() == [1, weight.size(0)];
    rt.differentiable("MmBackward0", y, &[x, weight], &saved.tensors(), move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        pass.rt.enter_operator("aten::mm");
        // `mat2` sorts before `self`.
        // The gradient of what lies by columns lies by columns (`mm_mat2_grad`).
        let for_weight = pass.needs(1).then(|| match weight_sizes.as_slice() {
            &[rows, columns] if by_column => product(pass.rt, grad, &[columns, rows], grad.size(0))
                .view_of(vec![rows, columns], vec![1, rows]),
            _ => weight_gradient(pass.rt, grad, &weight_sizes),
        });
        let for_x = pass.needs(0).then(|| for_operand(pass.rt, grad, &weight_sizes));
        vec![for_x, for_weight]
    })
}

/// The dimension of a two-dimensional weight that is not the gradient's width.
fn x_width(weight: &[u64], grad: &Tensor) -> u64 {
    match weight {
        [a, b] if *a == grad.size(1) => *b,
        [a, _] => *a,
        _ => 1,
    }
}

/// The gradient of what a weight is multiplied with.
fn for_operand(rt: &Runtime, grad: &Tensor, weight: &[u64]) -> Tensor {
    product(rt, grad, &[grad.size(0), x_width(weight, grad)], grad.size(1))
}

/// The weight's gradient reaches the weight through a transposing view.
fn weight_gradient(rt: &Runtime, grad: &Tensor, sizes: &[u64]) -> Tensor {
    let result = product(rt, grad, sizes, grad.size(0));
    result.view_of(result.sizes(), result.strides())
}

/// The output of a cuBLAS product that sums over `inner`, and its workspace.
fn product(rt: &Runtime, like: &Tensor, sizes: &[u64], inner: u64) -> Tensor {
    let y = rt.empty(like.dtype(), sizes);
    rt.cublas();
    rt.launch_products(&y, inner);
    y
}

/// What a product saves: each operand if the other needs a gradient, the second one first.
struct Operands<'a>(Vec<&'a Tensor>);

impl<'a> Operands<'a> {
    fn saved(a: &'a Tensor, b: &'a Tensor) -> Self {
        let pairs = [(b, a), (a, b)];
        Self(pairs.into_iter().filter(|(_, other)| other.requires_grad()).map(|(t, _)| t).collect())
    }

    fn tensors(&self) -> Vec<&'a Tensor> {
        self.0.clone()
    }
}

/// `torch.matmul` of two activations: `a […, M, K]`, `b […, K, N]` to `[…, M, N]`, leading dimensions broadcast.
pub fn matmul(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    let [a, b] = &rt.for_operator("aten::matmul", [a, b]);
    match (a.rank(), b.rank()) {
        (1 | 2, 3..) => folded_right(rt, a, b),
        (1, 2) => {
            let row = view::reshape(rt, a, &[1, a.numel()]);
            let y = mm(rt, &row, b, b.size(1));
            view::reshape(rt, &y, &[b.size(1)])
        }
        (0 | 1, _) | (_, 0 | 1) => vector_product(rt, a, b),
        (2, 2) => mm(rt, a, b, b.size(1)),
        (_, 2) => {
            let rows = flatten(rt, a);
            let mut sizes = a.sizes().to_vec();
            if let Some(last) = sizes.last_mut() {
                *last = b.size(1);
            }
            let y = mm(rt, &rows, b, b.size(1));
            unflatten(rt, y, &sizes)
        }
        _ => batched(rt, a, b),
    }
}

/// A vector or a matrix times several matrices: these are turned and seen as one, a copy, where the
/// first factor is trained or where that is no copy; else the first is repeated (`should_fold`,
/// `native/LinearAlgebra.cpp`).
fn folded_right(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    let last = b.rank().saturating_sub(1);
    let turned = view::transpose(rt, b, last.saturating_sub(1), last);
    let (rows, width) = rows_and_width(turned.sizes());
    let merges = |at: usize| {
        let next = at.saturating_add(1);
        let strides = turned.strides();
        let span = strides.get(next).map(|stride| stride.saturating_mul(turned.size(next)));
        strides.get(at).copied() == span
    };
    let is_seen = a.rank() == 1 && (0..last.saturating_sub(1)).all(merges);
    let mut sizes: Dims = turned.sizes().iter().take(last).copied().collect();
    if !rt.requires_grad(&[a]) && !is_seen {
        if a.rank() == 2 {
            return batched(rt, a, b);
        }
        let y = batched(rt, &view::reshape(rt, a, &[1, a.numel()]), b);
        return view::reshape(rt, &y, &sizes);
    }
    let folded = view::reshape(rt, &turned, &[rows, width]);
    if a.rank() == 1 {
        return unflatten(rt, vector_product(rt, &folded, a), &sizes);
    }
    let a = view::transpose(rt, a, 0, 1);
    let y = mm(rt, &folded, &a, a.size(1));
    sizes.push(a.size(1));
    view::transpose(rt, &unflatten(rt, y, &sizes), last.saturating_sub(1), last)
}

fn vector_product(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::mv");
    let rows = if a.rank() > 1 { a.sizes() } else { b.sizes() };
    let kept: Vec<u64> = rows.iter().take(rows.len().saturating_sub(1)).copied().collect();
    let inner = a.sizes().last().copied().unwrap_or(1);
    let y = product(rt, a, &kept, inner);
    if a.rank() > 1 && b.rank() == 1 {
        // Each is saved for the other; a matrix gets an outer product, the vector a product.
        let (for_other, for_self) =
            (a.requires_grad().then_some(b), b.requires_grad().then_some(a));
        let saved: Vec<&Tensor> = for_other.into_iter().chain(for_self).collect();
        let sizes = [a, b].map(|t| t.sizes().to_vec());
        let dtype = a.dtype();
        return rt.differentiable("MvBackward0", y, &[a, b], &saved, move |pass| {
            let [a, b] = &sizes;
            let for_a = pass.needs(0).then(|| pass.rt.empty(dtype, a));
            let for_b = pass.needs(1).then(|| {
                let result = pass.rt.empty(dtype, b);
                pass.rt.cublas();
                pass.rt.launch_products(&result, a.first().copied().unwrap_or(1));
                result
            });
            vec![for_a, for_b]
        });
    }
    // Of two vectors, `dot`.
    let saved = Operands::saved(a, b);
    let (dtype, sizes) = (a.dtype(), [a, b].map(|t| t.sizes().to_vec()));
    rt.differentiable("DotBackward0", y, &[a, b], &saved.tensors(), move |pass| {
        let each = sizes.iter().enumerate();
        each.map(|(at, sizes)| pass.needs(at).then(|| pass.rt.empty(dtype, sizes))).collect()
    })
}

/// Batches are broadcast, merged to one dimension (a copy where strides do not merge), multiplied.
fn batched(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    let split = |t: &Tensor| {
        let at = t.rank().saturating_sub(2);
        (t.sizes().iter().take(at).copied().collect::<Vec<_>>(), t.size(at), t.size(at + 1))
    };
    let ((a_batch, rows, inner), (b_batch, _, columns)) = (split(a), split(b));
    let batch = broadcast_sizes(&a_batch, &b_batch);
    let count = numel(&batch);
    let merge = |t: &Tensor, m: u64, n: u64| {
        let sizes: Dims = batch.iter().copied().chain([m, n]).collect();
        let wide = if t.sizes() == &*sizes { t.clone() } else { view::expand(rt, t, &sizes) };
        view::reshape(rt, &wide, &[count, m, n])
    };
    let (a, b) = (merge(a, rows, inner), merge(b, inner, columns));
    let y = bmm(rt, &a, &b);
    drop((a, b));
    let sizes: Dims = batch.into_iter().chain([rows, columns]).collect();
    unflatten(rt, y, &sizes)
}

/// `aten::bmm`: `a [B, M, K]`, `b [B, K, N]` to `[B, M, N]`.
pub fn bmm(rt: &Runtime, a: &Tensor, b: &Tensor) -> Tensor {
    rt.enter_operator("aten::bmm");
    let y = product(rt, a, &[a.size(0), a.size(1), b.size(2)], a.size(2));
    let saved = Operands::saved(a, b);
    let (a_sizes, b_sizes) = (a.sizes().to_vec(), b.sizes().to_vec());
    rt.differentiable("BmmBackward0", y, &[a, b], &saved.tensors(), move |pass| {
        bmm_gradients(pass, &a_sizes, &b_sizes)
    })
}

/// `aten::baddbmm`: `bias + alpha * a [B, M, K] @ b [B, K, N]` in one kernel; `scales` where `alpha` is not one.
pub fn baddbmm(
    rt: &Runtime,
    [bias, a, b]: [&Tensor; 3],
    [scales, scales_bias]: [bool; 2],
) -> Tensor {
    let [bias, a, b] = &rt.for_operator("aten::baddbmm", [bias, a, b]);
    rt.enter_operator("aten::baddbmm");
    let y = product(rt, a, &[a.size(0), a.size(1), b.size(2)], a.size(2));
    let saved = Operands::saved(a, b);
    let (a_sizes, b_sizes) = (a.sizes().to_vec(), b.sizes().to_vec());
    let inputs = [bias, a, b];
    rt.differentiable("BaddbmmBackward0", y, &inputs, &saved.tensors(), move |pass| {
        let Some(grad) = pass.grad() else { return Vec::new() };
        // batch1, batch2, then the bias, which the engine sums.
        let times = |unscaled: Tensor, scales: bool| {
            if scales { elementwise::scale(pass.rt, "aten::mul", &unscaled) } else { unscaled }
        };
        let gradient = |sizes: &[u64]| {
            pass.rt.enter_operator("aten::bmm");
            // Summed over the dimension that this operand has not.
            let inner = if sizes == a_sizes { grad.size(2) } else { grad.size(1) };
            times(product(pass.rt, grad, sizes, inner), scales)
        };
        let for_a = pass.needs(1).then(|| gradient(&a_sizes));
        let for_b = pass.needs(2).then(|| gradient(&b_sizes));
        let for_bias = pass.needs(0).then(|| times(grad.clone(), scales_bias));
        vec![for_bias, for_a, for_b]
    })
}

fn bmm_gradients(pass: &Pass<'_>, a_sizes: &[u64], b_sizes: &[u64]) -> Gradients {
    let Some(grad) = pass.grad() else { return Vec::new() };
    pass.rt.enter_operator("aten::bmm");
    let for_b = pass.needs(1).then(|| product(pass.rt, grad, b_sizes, grad.size(1)));
    let for_a = pass.needs(0).then(|| product(pass.rt, grad, a_sizes, grad.size(2)));
    vec![for_a, for_b]
}

/// One operand of a contraction: its subscripts, one letter per dimension.
#[derive(Clone, Copy, Debug)]
pub struct Subscripted<'a> {
    /// The operand.
    pub tensor: &'a Tensor,
    /// One letter per dimension.
    pub letters: &'a [u8],
}

/// `aten::einsum` of two operands (`sumproduct_pair`).
///
/// Both are permuted to batches of matrices (a copy where strides do not merge), multiplied, and the
/// product is permuted to the order of `output`. Where nothing is summed they are multiplied element by element.
pub fn contract(rt: &Runtime, a: Subscripted<'_>, b: Subscripted<'_>, output: &[u8]) -> Tensor {
    // A list is cast from its start.
    let [right, left] = rt.for_operator("aten::einsum", [b.tensor, a.tensor]);
    let (a, b) = (Subscripted { tensor: &left, ..a }, Subscripted { tensor: &right, ..b });
    rt.enter_operator("aten::einsum");
    let in_both = |c: &&u8| a.letters.contains(c) && b.letters.contains(c);
    let batch: Vec<u8> =
        a.letters.iter().filter(in_both).filter(|c| output.contains(c)).copied().collect();
    let summed: Vec<u8> =
        a.letters.iter().filter(in_both).filter(|c| !output.contains(c)).copied().collect();
    if a.letters.iter().chain(b.letters).all(|c| output.contains(c)) {
        return elementwise::mul(rt, &spread(rt, a, output), &spread(rt, b, output));
    }
    let own = |of: &Subscripted<'_>| -> Vec<u8> {
        let shared = |c: &&u8| !batch.contains(c) && !summed.contains(c);
        of.letters.iter().filter(shared).copied().collect()
    };
    let (rows, columns) = (own(&a), own(&b));
    let left = arranged(rt, a, [&batch, &rows, &summed]);
    let right = arranged(rt, b, [&batch, &summed, &columns]);
    let product = bmm(rt, &left, &right);
    drop((left, right));
    let letters: Vec<u8> = [batch, rows, columns].concat();
    let size_of = |c: &u8| {
        let find = |of: &Subscripted<'_>| {
            of.letters.iter().position(|l| l == c).map(|dim| of.tensor.size(dim))
        };
        find(&a).or_else(|| find(&b)).unwrap_or(1)
    };
    let sizes: Dims = letters.iter().map(size_of).collect();
    let whole = unflatten(rt, product, &sizes);
    let order: Vec<usize> =
        output.iter().filter_map(|c| letters.iter().position(|l| l == c)).collect();
    view::permute(rt, &whole, &order)
}

/// An operand with a dimension for each letter of `output`.
fn spread(rt: &Runtime, operand: Subscripted<'_>, output: &[u8]) -> Tensor {
    let position = |c: &u8| operand.letters.iter().position(|l| l == c);
    let order: Vec<usize> = output.iter().filter_map(position).collect();
    let sizes: Dims =
        output.iter().map(|c| position(c).map_or(1, |dim| operand.tensor.size(dim))).collect();
    view::reshape(rt, &view::permute(rt, operand.tensor, &order), &sizes)
}

/// An operand as `[batch, m, n]`, each a group of its dimensions.
fn arranged(rt: &Runtime, operand: Subscripted<'_>, groups: [&[u8]; 3]) -> Tensor {
    let position = |c: &u8| operand.letters.iter().position(|l| l == c);
    let order: Vec<usize> =
        groups.iter().flat_map(|group| group.iter().filter_map(position)).collect();
    let permuted = view::permute(rt, operand.tensor, &order);
    let size = |group: &[u8]| {
        numel(
            &group.iter().filter_map(position).map(|d| operand.tensor.size(d)).collect::<Vec<_>>(),
        )
    };
    let [batch, m, n] = groups;
    view::reshape(rt, &permuted, &[size(batch), size(m), size(n)])
}
