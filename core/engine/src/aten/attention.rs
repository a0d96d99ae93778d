//! `scaled_dot_product_attention`.
//!
//! One of three kernels runs: flash (half precision alone), memory-efficient, or plain products with a
//! softmax between them. Sources: `native/transformers/attention.cpp`, `native/transformers/cuda/sdp_utils.cpp`,
//! `attention.cu` and `attention_backward.cu` there.

use super::{dropout, elementwise, matmul, softmax, view};
use crate::bytes::Bytes;
use crate::eager::{Gradients, Pass, Runtime, Tensor, kernels, launch};
use crate::tensor::DType;

/// COUNT: elements that a row of the bias is padded to a multiple of, and its gradient's likewise
/// (`transformers/attention.cpp`, `transformers/cuda/attention_backward.cu`).
const BIAS_ALIGNMENT: u64 = 8;
const BIAS_GRADIENT_ALIGNMENT: u64 = 16;
/// COUNT: elements that flash attention's heads are padded to a multiple of.
const HEAD_ALIGNMENT: u64 = 8;

/// What computes attention (`transformers/cuda/sdp_utils.cpp`, PyTorch 2.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Flash,
    MemoryEfficient,
    /// Products and a softmax, spelled out.
    Math,
}

impl Kernel {
    /// The first of flash, memory-efficient and math that takes the operands. Where cuDNN's kernel
    /// comes first (Hopper), what is kept is the same as of flash. Flash takes no mask, and no causal order of
    /// other queries than keys (`check_flash_causal_non_square_seqlens`): neither is `plain`.
    fn choose(rt: &Runtime, [q, k, v]: [&Tensor; 3], is_plain: bool) -> Self {
        let is_half = q.dtype().size() == Bytes(2);
        if [q, k, v].iter().any(|operand| operand.rank() != 4) {
            return Self::Math;
        }
        let (width, of_values) = (q.size(3), v.size(3));
        // `check_last_dim_stride_equals_1`, which flash does not need of heads of one element.
        let is_dense = [q, k, v].iter().all(|operand| operand.strides().last() == Some(&1));
        if !(is_dense || is_half && width == 1) {
            return Self::Math;
        }
        let flash = is_half
            && is_plain
            && width == of_values
            && width <= 256
            && rt.ask(|hardware| hardware.capability >= (8, 0));
        // `minimum_gemm_alignment`: of tensor cores, 16 bytes.
        let least = if is_half { (7, 0) } else { (8, 0) };
        let has_tensor_cores = rt.ask(move |hardware| hardware.capability >= least);
        let alignment = match (has_tensor_cores, is_half) {
            (false, _) => 1,
            (true, false) => 4,
            (true, true) => 8,
        };
        let is_aligned = width.is_multiple_of(alignment) && of_values.is_multiple_of(alignment);
        if flash {
            Self::Flash
        } else if is_aligned {
            Self::MemoryEfficient
        } else {
            Self::Math
        }
    }
}

/// Attention over `q, k, v [B, H, S, D]`, or of any rank, with the kernel that PyTorch chooses.
pub fn attention(
    rt: &Runtime,
    operands: [&Tensor; 3],
    bias: Option<&Tensor>,
    [drops, causal]: [bool; 2],
) -> Tensor {
    const NAME: &str = "aten::scaled_dot_product_attention";
    if operands.iter().all(|operand| operand.rank() == 3) {
        // Seen as one of a batch.
        let [q, k, v] = &operands.map(|operand| {
            let front = |of: &[u64], first: u64| [&[first], of].concat();
            let stride = operand.sizes().first().zip(operand.strides().first());
            let stride = stride.map_or(1, |(size, stride)| size.saturating_mul(*stride));
            let (sizes, strides) = (operand.sizes(), operand.strides());
            view::restrided(rt, operand, front(sizes, 1), front(strides, stride))
        });
        let y = attention(rt, [q, k, v], bias, [drops, causal]);
        let behind = |of: &[u64]| of.get(1..).unwrap_or_default().to_vec();
        return view::restrided(rt, &y, behind(y.sizes()), behind(y.strides()));
    }
    let bias = bias.map(|bias| {
        let [bias] = rt.for_operator(NAME, [bias]);
        bias
    });
    let [q, k, v] = &rt.for_operator(NAME, operands);
    let bias = bias.map(|mask| as_bias(rt, mask, q.dtype()));
    // No kernel runs under autocast any more.
    let is_plain = bias.is_none() && !(causal && q.sizes().get(2) != k.sizes().get(2));
    rt.autocast(None, || match Kernel::choose(rt, [q, k, v], is_plain) {
        Kernel::Flash => padded_flash_attention(rt, [q, k, v], [drops, causal]),
        Kernel::MemoryEfficient => {
            let padded = bias.as_ref().map(|bias| padded_bias(rt, bias, [q, k]));
            efficient_attention(rt, [q, k, v], padded.as_ref(), [drops, causal])
        }
        Kernel::Math => math_attention(rt, [q, k, v], bias.as_ref(), drops),
    })
}

/// The bias is read in rows of whole vectors, and seen as large as the scores (`pad_bias`).
fn padded_bias(rt: &Runtime, bias: &Tensor, [q, k]: [&Tensor; 2]) -> Tensor {
    let rows = view::contiguous(rt, bias);
    let last = bias.rank().saturating_sub(1);
    let columns = bias.size(last);
    let rows = if columns.is_multiple_of(BIAS_ALIGNMENT) {
        rows
    } else {
        view::slice(rt, &padded_to(rt, &rows, BIAS_ALIGNMENT), last, columns, 1)
    };
    view::expand(rt, &rows, &[q.size(0), q.size(1), q.size(2), k.size(2)])
}

/// A copy whose last dimension is a multiple of `alignment`.
fn padded_to(rt: &Runtime, x: &Tensor, alignment: u64) -> Tensor {
    let mut padded = x.sizes().to_vec();
    if let Some(last) = padded.last_mut() {
        *last = last.next_multiple_of(alignment);
    }
    view::resample(rt, "aten::constant_pad_nd", x, &padded)
}

/// Heads are padded to a multiple of eight elements, and the result is cut (`pad_last_dim`).
fn padded_flash_attention(
    rt: &Runtime,
    operands: [&Tensor; 3],
    [drops, causal]: [bool; 2],
) -> Tensor {
    let width = operands[0].size(3);
    if width.is_multiple_of(HEAD_ALIGNMENT) {
        return flash_attention(rt, operands, [drops, causal]);
    }
    let [q, k, v] = operands.map(|operand| padded_to(rt, operand, HEAD_ALIGNMENT));
    view::slice(rt, &flash_attention(rt, [&q, &k, &v], [drops, causal]), 3, width, 1)
}

/// `_scaled_dot_product_attention_math`: in single precision whatever the operands are in. It gives the
/// scores as well, in the type of the operands, and nobody takes them.
fn math_attention(
    rt: &Runtime,
    operands: [&Tensor; 3],
    bias: Option<&Tensor>,
    drops: bool,
) -> Tensor {
    rt.enter_operator("aten::_scaled_dot_product_attention_math");
    let dtype = operands[0].dtype();
    let raised = if rt.pytorch.raises_attention() { DType::Float32 } else { dtype };
    let [q, k, v] = operands.map(|operand| kernels::cast(rt, operand, raised));
    let query = elementwise::scale(rt, "aten::mul", &q);
    let last = k.rank().saturating_sub(1);
    let key =
        elementwise::scale(rt, "aten::mul", &view::transpose(rt, &k, last.saturating_sub(1), last));
    let mut scores = matmul::matmul(rt, &query, &key);
    drop(key);
    if let Some(bias) = bias {
        scores = elementwise::add_in_place(rt, &scores, bias);
    }
    let mut weights = if rt.pytorch.raises_attention() {
        softmax::safe_softmax(rt, &scores)
    } else {
        softmax::softmax(rt, &scores)
    };
    drop(scores);
    if drops {
        weights = dropout::dropout(rt, &weights);
    }
    let returned = rt.no_grad(|| kernels::cast(rt, &weights, dtype));
    let y = matmul::matmul(rt, &weights, &v);
    let result = kernels::cast(rt, &y, dtype);
    drop((y, query, q, k, v, weights, returned));
    result
}

/// transformers' `eager_attention_forward`: the matrices of scores are kept.
pub fn eager_attention(
    rt: &Runtime,
    [q, k, v]: [&Tensor; 3],
    bias: Option<&Tensor>,
    drops: bool,
) -> Tensor {
    let [k, v] = [k, v].map(|shared| repeat_heads(rt, shared, q));
    let last = k.rank().saturating_sub(1);
    let key = view::transpose(rt, &k, last.saturating_sub(1), last);
    let product = matmul::matmul(rt, q, &key);
    let mut scores = elementwise::scale(rt, "aten::mul", &product);
    drop(product);
    if let Some(bias) = bias {
        scores = elementwise::add(rt, &scores, bias);
    }
    let single = softmax::softmax_in_single(rt, &scores);
    drop(scores);
    let mut weights = kernels::cast(rt, &single, q.dtype());
    drop(single);
    if drops {
        weights = dropout::dropout(rt, &weights);
    }
    matmul::matmul(rt, &weights, &v)
}

/// `repeat_kv`: heads that several queries share are copied.
fn repeat_heads(rt: &Runtime, shared: &Tensor, q: &Tensor) -> Tensor {
    let &[n, heads, length, width] = shared.sizes() else { return shared.clone() };
    if q.rank() != 4 || heads >= q.size(1) || heads == 0 {
        return shared.clone();
    }
    let times = q.size(1).div_euclid(heads);
    let apart = view::reshape(rt, shared, &[n, heads, 1, length, width]);
    let expanded = view::expand(rt, &apart, &[n, heads, times, length, width]);
    view::reshape(rt, &expanded, &[n, heads.saturating_mul(times), length, width])
}

/// A mask of booleans becomes numbers to add: zero where it is true, the least number elsewhere.
fn as_bias(rt: &Runtime, mask: Tensor, dtype: DType) -> Tensor {
    if mask.dtype() != DType::Bool {
        return mask;
    }
    let least = rt.empty(dtype, &[]);
    let zero = rt.empty(dtype, &[]);
    let bias = rt.empty(dtype, mask.sizes());
    rt.trace_call("aten::where", &[&mask], &[], &[&bias]);
    drop(zero);
    drop(least);
    bias
}

/// Flash attention over `q, k, v [B, H, S, D]`.
///
/// Saved: q, k, v, the logarithm of the row sums, the output, and the random state: a seed of two
/// words and an offset, also where nothing is dropped.
pub fn flash_attention(
    rt: &Runtime,
    [q, k, v]: [&Tensor; 3],
    [drops, causal]: [bool; 2],
) -> Tensor {
    rt.enter_operator("aten::_flash_attention_forward");
    let y = like_by_row(rt, q);
    let work = Work::of(q, k, drops);
    let lse = rt.empty(DType::Float32, &[work.batch, work.heads, work.rows]);
    let splits = if drops { 1 } else { work.splits_of_keys(rt) };
    let partial = (splits > 1).then(|| work.partial_results(rt, splits));
    // The kernel's own state is replaced where something is dropped.
    let state = drops.then(|| rt.empty(DType::Int64, &[2]));
    let (seed, offset) = if drops {
        let offset = rt.empty(DType::Int64, &[]);
        (rt.empty(DType::Int64, &[2]), offset)
    } else {
        let seed = rt.empty(DType::Int64, &[2]);
        (seed, rt.empty(DType::Int64, &[]))
    };
    if rt.is_launching() {
        let writes: Vec<&Tensor> = [&y, &lse, &seed, &offset]
            .into_iter()
            .chain(&state)
            .chain(partial.iter().flatten())
            .collect();
        rt.launch(&writes, fused([q, k], [causal, false]), q.dtype());
    }
    drop((state, partial));
    let saved = [q, k, v, &lse, &y, &seed, &offset];
    let name = "ScaledDotProductFlashAttentionBackward0";
    rt.differentiable(name, y.clone(), &[q, k, v], &saved, move |pass| flash_backward(pass, causal))
}

/// What flash attention's kernel sees of its operands (`transformers/cuda/flash_attn/flash_api.cpp`: `mha_fwd`).
#[derive(Clone, Copy, Debug)]
struct Work {
    batch: u64,
    heads: u64,
    rows: u64,
    keys: u64,
    width: u64,
}

impl Work {
    /// A single query of several heads that share keys is seen as several queries of one head
    /// (`seqlenq_ngroups_swapped`).
    fn of(q: &Tensor, k: &Tensor, drops: bool) -> Self {
        let (batch, heads, rows, width) = (q.size(0), q.size(1), q.size(2), q.size(3));
        let shared = k.size(1).max(1);
        let swaps = rows == 1 && heads > shared && !drops;
        let (heads, rows) = if swaps { (shared, heads.div_euclid(shared)) } else { (heads, rows) };
        Self { batch, heads, rows, keys: k.size(2), width }
    }

    /// COUNT: parts that the keys are split into, so that few queries still fill the device (`set_params_splitkv`,
    /// `num_splits_heuristic`).
    fn splits_of_keys(self, rt: &Runtime) -> u64 {
        let columns = match self.width {
            ..=64 => 256,
            65..=128 => 128,
            _ => 64,
        };
        let key_blocks = self.keys.div_ceil(columns);
        let blocks = self.batch.saturating_mul(self.heads).saturating_mul(self.rows.div_ceil(64));
        rt.ask(move |hardware| splits(blocks, key_blocks, hardware.multiprocessors))
    }

    /// What each part of the keys gives, in single precision: logarithms of row sums, and outputs.
    fn partial_results(self, rt: &Runtime, splits: u64) -> [Tensor; 2] {
        let Self { batch, heads, rows, width, .. } = self;
        let width = width.next_multiple_of(if width <= 128 { 32 } else { 64 });
        [
            rt.empty(DType::Float32, &[splits, batch, heads, rows]),
            rt.empty(DType::Float32, &[splits, batch, heads, rows, width]),
        ]
    }
}

/// COUNT: parts that so many blocks of keys are split into.
fn splits(blocks: u64, key_blocks: u64, multiprocessors: u64) -> u64 {
    const MOST: u64 = 128;
    let slots = multiprocessors.saturating_mul(2).max(1);
    // Nearly enough to fill it as they are.
    if blocks.saturating_mul(5) >= slots.saturating_mul(4) {
        return 1;
    }
    let differs = |&splits: &u64| {
        splits == 1 || key_blocks.div_ceil(splits) != key_blocks.div_ceil(splits.saturating_sub(1))
    };
    // How full the device is on average, as a fraction: work, and the room of all its waves.
    let fullness = |splits: u64| {
        let work = blocks.saturating_mul(splits);
        (u128::from(work), u128::from(work.div_ceil(slots).saturating_mul(slots).max(1)))
    };
    let all = || (1..=MOST.min(slots).min(key_blocks)).filter(differs);
    let at_least = |a: (u128, u128), b: (u128, u128), percent: u128| {
        a.0.saturating_mul(b.1).saturating_mul(100)
            >= b.0.saturating_mul(a.1).saturating_mul(percent)
    };
    let best =
        all().map(fullness).fold((0, 1), |best, n| if at_least(n, best, 100) { n } else { best });
    all().find(|&splits| at_least(fullness(splits), best, 85)).unwrap_or(1)
}

/// A tensor like this one, made as `[B, S, H, D]` and seen as `[B, H, S, D]`; strides that leave no
/// gaps are kept.
fn like_by_row(rt: &Runtime, like: &Tensor) -> Tensor {
    rt.no_grad(|| {
        let rows = view::transpose(rt, like, 1, 2);
        view::transpose(rt, &rt.empty_like(&rows), 1, 2)
    })
}

fn flash_backward(pass: &Pass<'_>, causal: bool) -> Gradients {
    let (Some(grad), Some(q), Some(k), Some(v)) =
        (pass.grad(), pass.saved(0), pass.saved(1), pass.saved(2))
    else {
        return Vec::new();
    };
    let rt = pass.rt;
    rt.enter_operator("aten::_flash_attention_backward");
    let (batch, heads, rows, width) = (q.size(0), q.size(1), q.size(2), q.size(3));
    let in_rows = |t: &Tensor| view::contiguous(rt, &view::transpose(rt, t, 1, 2));
    let (grad_copy, out_copy) = (in_rows(grad), pass.saved(4).map(in_rows));
    let gradients = [like_by_row(rt, q), like_by_row(rt, k), like_by_row(rt, v)];
    let padded = rows.next_multiple_of(128);
    let width = width.next_multiple_of(if width > 64 { 64 } else { 32 });
    let sums = rt.empty(DType::Float32, &[batch, heads, padded]);
    let accumulator = rt.empty(DType::Float32, &[batch, padded, heads, width]);
    // Shared heads: the kernel fills one gradient per query head, which are then summed.
    let repeated: Vec<Tensor> = if k.size(1) < heads {
        (0..2).map(|_| rt.empty(k.dtype(), &[batch, k.size(2), heads, q.size(3)])).collect()
    } else {
        Vec::new()
    };
    if rt.is_launching() {
        let writes: Vec<&Tensor> =
            gradients.iter().chain([&sums, &accumulator]).chain(&repeated).collect();
        rt.launch(&writes, fused([q, k], [causal, true]), q.dtype());
    }
    drop(repeated);
    drop(accumulator);
    drop(sums);
    drop((out_copy, grad_copy));
    gradients.map(Some).into()
}

/// The kernel for all heads.
fn fused([q, k]: [&Tensor; 2], [causal, backward]: [bool; 2]) -> launch::Kernel {
    launch::Kernel::Attention {
        batch: q.size(0),
        heads: q.size(1),
        key_heads: k.size(1),
        queries: q.size(2),
        keys: k.size(2),
        width: q.size(3),
        causal,
        backward,
    }
}

/// Memory-efficient attention over `q, k, v [B, H, S, D]`.
///
/// Saved: the bias, q, k, v, the output, the logarithm of the row sums (rows rounded up to 32), and
/// where nothing is dropped two placeholders for the random state.
pub fn efficient_attention(
    rt: &Runtime,
    [q, k, v]: [&Tensor; 3],
    bias: Option<&Tensor>,
    [drops, causal]: [bool; 2],
) -> Tensor {
    rt.enter_operator("aten::_efficient_attention_forward");
    let seed = (!drops).then(|| rt.empty(DType::Int64, &[]));
    let offset = (!drops).then(|| rt.empty(DType::Int64, &[]));
    let (batch, heads, rows, width) = (q.size(0), q.size(1), q.size(2), v.size(3));
    let out = rt.empty(q.dtype(), &[batch, rows, heads, width]);
    let trained = rt.requires_grad(&[q, k, v]);
    let lse_rows = if trained { rows.next_multiple_of(32) } else { 0 };
    let lse = rt.empty(DType::Float32, &[batch, heads, lse_rows]);
    let y = out.view_of(
        vec![batch, heads, rows, width],
        vec![rows * heads * width, width, heads * width, 1],
    );
    if rt.is_launching() {
        let writes: Vec<&Tensor> = [&out, &lse].into_iter().chain(&seed).chain(&offset).collect();
        rt.launch(&writes, fused([q, k], [causal, false]), q.dtype());
    }
    drop(out);
    let mut saved: Vec<&Tensor> = bias.into_iter().collect();
    saved.extend([q, k, v, &lse, &y]);
    saved.extend(offset.as_ref());
    saved.extend(seed.as_ref());
    let y = y.clone();
    let mut inputs = vec![q, k, v];
    inputs.extend(bias);
    let name = "ScaledDotProductEfficientAttentionBackward0";
    let behind_bias = usize::from(bias.is_some());
    rt.differentiable(name, y, &inputs, &saved, move |pass| backward(pass, behind_bias, causal))
}

/// The queries are the saved tensor at `at`, keys and values follow.
fn backward(pass: &Pass<'_>, at: usize, causal: bool) -> Gradients {
    let (Some(grad), Some(q), Some(k), Some(v)) =
        (pass.grad(), pass.saved(at), pass.saved(at + 1), pass.saved(at + 2))
    else {
        return Vec::new();
    };
    let rt = pass.rt;
    rt.enter_operator("aten::_efficient_attention_backward");
    let (batch, heads, rows, width) = (q.size(0), q.size(1), q.size(2), q.size(3));
    // The kernel works on [B, S, H, D].
    let by_row = view::transpose(rt, grad, 1, 2);
    let grad_copy = (!by_row.is_contiguous()).then(|| rt.empty(grad.dtype(), by_row.sizes()));
    drop(by_row);
    let gradient_of = |t: &Tensor| {
        let (b, h, s, d) = (t.size(0), t.size(1), t.size(2), t.size(3));
        rt.empty(t.dtype(), &[b, s, h, d])
            .alias_sole(vec![b, h, s, d], vec![s * h * d, d, h * d, 1])
    };
    let (for_q, for_k, for_v) = (gradient_of(q), gradient_of(k), gradient_of(v));
    let for_bias = pass.needs(3).then(|| {
        let columns = k.size(2);
        let row = columns.next_multiple_of(BIAS_GRADIENT_ALIGNMENT);
        let strides = vec![heads * rows * row, rows * row, row, 1];
        rt.empty(q.dtype(), &[batch, heads, rows, row])
            .alias_sole(vec![batch, heads, rows, columns], strides)
    });
    // Shared heads: the kernel fills one gradient per query head, which are then summed.
    let per_head = [batch, k.size(2), heads, width];
    let repeated: Vec<Tensor> = if k.size(1) < heads {
        (0..2).map(|_| rt.empty(k.dtype(), &per_head)).collect()
    } else {
        Vec::new()
    };
    // `kKernelComputesDelta`: in half precision, where the output stays in registers.
    let is_half = q.dtype().size() == Bytes(2);
    let in_kernel = is_half && (width <= 64 || rt.ask(|hardware| hardware.capability != (7, 0)));
    let products = (!in_kernel).then(|| {
        let product = rt.empty(DType::Float32, &[batch, rows, heads, width]);
        (rt.empty(DType::Float32, &[batch, rows, heads]), product)
    });
    let delta = rt.empty(DType::Float32, &[batch, heads, rows]);
    if rt.is_launching() {
        let writes: Vec<&Tensor> =
            [&for_q, &for_k, &for_v].into_iter().chain(&for_bias).chain(&repeated).collect();
        rt.launch(&writes, fused([q, k], [causal, true]), q.dtype());
    }
    drop(products);
    let (dtype, columns) = (q.dtype(), k.size(2));
    let scratch = rt.scratch_by(&[batch, heads, rows, columns], move |hardware, sizes| {
        let &[batch, heads, rows, columns] = sizes else { return None };
        let of_head = Tiles::of(hardware.capability, dtype, width).workspace(rows, columns, width);
        Some(of_head.times(batch).times(heads))
    });
    drop(delta);
    drop(scratch);
    drop(repeated);
    drop(grad_copy);
    vec![Some(for_q), Some(for_k), Some(for_v), for_bias]
}

/// How a backward kernel divides its work.
struct Tiles {
    /// Rows and columns of a tile of the query's gradient.
    rows: u64,
    columns: u64,
    /// Whether gradients of keys and values are summed in memory too.
    sums_keys: bool,
}

impl Tiles {
    /// The kernel that takes heads of this width (`kernels/generate_kernels.py`): the largest whose
    /// tiles fit into a block's shared memory, of which A100, H100 and their like have more.
    fn of(capability: (u32, u32), dtype: DType, width: u64) -> Self {
        let has_much = matches!(capability, (8, 0 | 7) | (9 | 10, _));
        let is_half = dtype.size() == Bytes(2);
        let (rows, columns, sums_keys) = match width {
            ..=64 => (64, 64, false),
            _ if !is_half => (if has_much { 128 } else { 64 }, 64, false),
            129.. => (128, 64, true),
            _ if has_much => (128, 128, false),
            97.. if capability >= (8, 0) => (64, 64, true),
            _ => (128, 64, false),
        };
        Self { rows, columns, sums_keys }
    }

    /// SIZE: the accumulators of a head: tiles with a counter each, then keys and values.
    fn workspace(&self, rows: u64, keys: u64, width: u64) -> Bytes {
        let count = rows.div_ceil(self.rows).saturating_mul(width.div_ceil(self.columns));
        let tile = Bytes(4).times(self.rows).times(self.columns) + Bytes(16);
        let keys = Bytes(4).times(keys.next_multiple_of(64)).times(width.next_multiple_of(128));
        let tiles = tile.times(count);
        if self.sums_keys { tiles + keys.times(2) } else { tiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Cudnn, PyTorch};
    use crate::eager::Hardware;

    /// As `can_use_flash_attention` and `can_use_efficient_attention` of PyTorch 2.15 answer on an A100, of
    /// heads that lie in rows (`r`) or are turned (`t`).
    #[test]
    fn fused_kernels_want_rows_without_gaps() {
        use Kernel::{Flash, Math, MemoryEfficient};
        const SINGLE: DType = DType::Float32;
        const HALF: DType = DType::Float16;
        let hardware = Hardware {
            capability: (8, 0),
            multiprocessors: 108,
            threads_per_multiprocessor: 2048,
            cublas_workspace: Bytes::mib(8),
            cudnn: Cudnn::V9,
        };
        let rt = Runtime::new(hardware, PyTorch::LATEST);
        for (dtype, rows, width, lie, expected) in [
            (SINGLE, 49, 32, "rrr", MemoryEfficient),
            (SINGLE, 49, 32, "ttt", Math),
            (SINGLE, 49, 32, "trr", Math),
            (SINGLE, 49, 32, "rrt", Math),
            (SINGLE, 1, 32, "ttt", MemoryEfficient),
            (SINGLE, 49, 4, "ttt", Math),
            (HALF, 49, 32, "rrr", Flash),
            (HALF, 49, 32, "ttt", Math),
            (HALF, 49, 32, "rrt", Math),
            (HALF, 1, 32, "ttt", Flash),
            (HALF, 49, 1, "ttt", Flash),
        ] {
            let operand = |lies: char| match lies {
                't' => view::transpose(&rt, &rt.empty(dtype, &[2, 2, width, rows]), 2, 3),
                _ => rt.empty(dtype, &[2, 2, rows, width]),
            };
            let operands: Vec<Tensor> = lie.chars().map(operand).collect();
            let [q, k, v] = operands.as_slice() else { panic!("{lie}") };
            let found = Kernel::choose(&rt, [q, k, v], true);
            assert_eq!(found, expected, "{dtype} {rows} {width} {lie}");
        }
    }

    /// What `_efficient_attention_backward` of PyTorch 2.15 takes for six heads.
    #[test]
    fn workspaces_are_those_of_pytorch() {
        const SINGLE: DType = DType::Float32;
        const HALF: DType = DType::Float16;
        for (capability, dtype, width, rows, keys, expected) in [
            ((8, 0), SINGLE, 16, 50, 50, 98_400),
            ((8, 0), SINGLE, 64, 448, 1500, 688_800),
            ((8, 0), SINGLE, 80, 200, 200, 786_816),
            ((8, 0), SINGLE, 160, 50, 50, 590_112),
            ((8, 0), HALF, 64, 70, 70, 196_800),
            ((8, 0), HALF, 128, 448, 1500, 1_573_248),
            ((8, 0), HALF, 160, 448, 1500, 21_234_816),
            ((8, 0), HALF, 256, 70, 70, 2_359_680),
            ((9, 0), SINGLE, 128, 200, 200, 786_816),
            ((9, 0), HALF, 80, 50, 50, 393_312),
            ((8, 6), SINGLE, 160, 200, 200, 1_180_800),
            ((8, 6), HALF, 80, 200, 200, 786_816),
            ((8, 9), HALF, 128, 200, 200, 2_360_064),
            ((8, 9), HALF, 160, 50, 50, 1_376_544),
            ((7, 5), SINGLE, 80, 50, 50, 196_800),
            ((7, 5), HALF, 128, 200, 200, 786_816),
        ] {
            let bytes = Tiles::of(capability, dtype, width).workspace(rows, keys, width).times(6);
            assert_eq!(bytes, Bytes(expected), "{capability:?} {dtype} {width} {rows} {keys}");
        }
    }
}
