//! `torch.autocast`: operators that choose the precision of their operands.
//!
//! The lists are those of `aten/src/ATen/autocast_mode.h`, PyTorch 2.15. An operator on none of them
//! runs in the type of its operands. Parameters that are cast are cast once per region: the copy
//! is kept until the region ends, and every node that saved it keeps it beyond.

use std::cell::{Cell, RefCell};

use super::{Runtime, Tensor, kernels};
use crate::tensor::DType;

/// Operators of the list `lower_precision_fp`: their operands are cast down.
const LOWER: &[&str] = &[
    "aten::_cudnn_rnn",
    "aten::addbmm",
    "aten::addmm",
    "aten::addmv",
    "aten::addr",
    "aten::baddbmm",
    "aten::bmm",
    "aten::convolution",
    "aten::einsum",
    "aten::gru_cell",
    "aten::linalg_vecdot",
    "aten::linear",
    "aten::lstm_cell",
    "aten::matmul",
    "aten::mm",
    "aten::mv",
    "aten::prelu",
    "aten::rnn_relu_cell",
    "aten::rnn_tanh_cell",
    "aten::scaled_dot_product_attention",
];

/// Operators of the list `fp32`: their operands are cast up.
const SINGLE: &[&str] = &[
    "aten::acos",
    "aten::asin",
    "aten::binary_cross_entropy_with_logits",
    "aten::cdist",
    "aten::cosh",
    "aten::cosine_embedding_loss",
    "aten::cosine_similarity",
    "aten::deform_conv2d",
    "aten::dist",
    "aten::erfinv",
    "aten::exp",
    "aten::expm1",
    "aten::group_norm",
    "aten::hinge_embedding_loss",
    "aten::huber_loss",
    "aten::kl_div",
    "aten::l1_loss",
    "aten::layer_norm",
    "aten::log",
    "aten::log10",
    "aten::log1p",
    "aten::log2",
    "aten::logsumexp",
    "aten::margin_ranking_loss",
    "aten::mse_loss",
    "aten::multi_margin_loss",
    "aten::multilabel_margin_loss",
    "aten::nll_loss",
    "aten::norm",
    "aten::pdist",
    "aten::poisson_nll_loss",
    "aten::pow",
    "aten::reciprocal",
    "aten::renorm",
    "aten::rms_norm",
    "aten::roi_align",
    "aten::rsqrt",
    "aten::sinh",
    "aten::smooth_l1_loss",
    "aten::soft_margin_loss",
    "aten::softplus",
    "aten::tan",
    "aten::triplet_margin_loss",
    "aten::upsample",
];

/// Operators of the list `promote`: their operands are cast to the widest of their types.
const WIDEST: &[&str] = &[
    "aten::addcdiv",
    "aten::addcmul",
    "aten::atan2",
    "aten::bilinear",
    "aten::cross",
    "aten::dot",
    "aten::grid_sampler",
    "aten::index_put",
    "aten::scatter_add",
    "aten::tensordot",
    "aten::vdot",
];

/// The region that runs, if any, and the casts of parameters that it keeps.
#[derive(Debug, Default)]
pub(super) struct State {
    dtype: Cell<Option<DType>>,
    /// By the storage of what was cast, in the order of casting.
    cached: RefCell<Vec<(usize, Tensor)>>,
}

impl Runtime {
    /// Runs `body` as under `torch.autocast("cuda", dtype)`; just runs it without a type.
    pub fn autocast<T>(&self, dtype: Option<DType>, body: impl FnOnce() -> T) -> T {
        let before = self.autocast.dtype.replace(dtype);
        let result = body();
        self.autocast.dtype.set(before);
        if before.is_none() {
            let cached = self.autocast.cached.take();
            cached.into_iter().for_each(drop);
        }
        result
    }

    /// Runs `body` as below an operator that autocast is done with; what it has cast stays.
    pub fn autocast_off<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.autocast.dtype.take();
        let result = body();
        self.autocast.dtype.set(before);
        result
    }

    /// Runs `body`, which sees no cast from before and leaves none behind.
    pub(crate) fn with_own_casts<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.autocast.cached.take();
        let result = body();
        self.autocast.cached.replace(before);
        result
    }

    /// The type that the region casts down to; `None` outside of one.
    pub fn autocast_type(&self) -> Option<DType> {
        self.autocast.dtype.get()
    }

    /// Operands as the operator `name` wants them; the last is cast first, as C++ compilers
    /// evaluate arguments.
    pub fn for_operator<const N: usize>(&self, name: &str, operands: [&Tensor; N]) -> [Tensor; N] {
        let mut cast = operands.map(Clone::clone);
        let Some(low) = self.autocast.dtype.get() else { return cast };
        let wanted = if LOWER.contains(&name) {
            low
        } else if SINGLE.contains(&name) {
            DType::Float32
        } else {
            return cast;
        };
        for operand in cast.iter_mut().rev() {
            *operand = self.cached_cast(operand, wanted);
        }
        cast
    }

    /// The type to which the region casts operands of these types for the operator `name`.
    pub fn autocast_wants(
        &self,
        name: &str,
        types: impl IntoIterator<Item = DType>,
    ) -> Option<DType> {
        let low = self.autocast.dtype.get()?;
        if LOWER.contains(&name) {
            return Some(low);
        }
        if WIDEST.contains(&name) {
            let single = |dtype: DType| dtype == DType::Float32;
            return Some(if types.into_iter().any(single) { DType::Float32 } else { low });
        }
        SINGLE.contains(&name).then_some(DType::Float32)
    }

    /// `cached_cast`: floats but doubles are eligible; parameters are cast once.
    pub fn cached_cast(&self, x: &Tensor, dtype: DType) -> Tensor {
        let eligible = x.dtype().is_floating() && x.dtype() != DType::Float64;
        if !eligible || x.dtype() == dtype {
            return x.clone();
        }
        let cacheable = x.is_leaf() && dtype != DType::Float32;
        let key = x.storage_id().index();
        if cacheable
            && let Some((_, cast)) = self.autocast.cached.borrow().iter().find(|(k, _)| *k == key)
        {
            return cast.clone();
        }
        let cast = kernels::cast(self, x, dtype);
        if cacheable {
            self.autocast.cached.borrow_mut().push((key, cast.clone()));
        }
        cast
    }
}
