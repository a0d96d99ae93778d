//! Strides: when a view is possible, and which order an output takes.
//!
//! Sources: `ATen/TensorUtils.cpp` (`computeStride`), `ATen/native/TensorFactories.cpp`
//! (`empty_like`), `ATen/TensorIterator.cpp` (`reorder_dimensions`), `c10/core/MemoryFormat.h`,
//! PyTorch 2.15.
//!
//! A tensor does not store its memory format. PyTorch derives it from strides in two ways, which differ where
//! dimensions have size one: the format that the strides suggest ([`suggested_format`]), and whether a kernel for
//! a format can read them ([`is_contiguous_in`]).

use crate::order::InOrder as _;
use smallvec::{SmallVec, smallvec};

use super::Tensor;
use crate::config::MemoryFormat;
use crate::tensor::Dims;

/// Strides of a contiguous tensor.
pub fn contiguous_strides(sizes: &[u64]) -> Dims {
    let mut strides = smallvec![1; sizes.len()];
    let mut step = 1u64;
    for (stride, &size) in strides.iter_mut().zip(sizes).rev() {
        *stride = step;
        step = step.saturating_mul(size.max(1));
    }
    strides
}

/// Whether elements lie in row-major order without gaps.
pub fn is_contiguous(sizes: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1u64;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size == 0 {
            return true;
        }
        if size != 1 {
            if stride != expected {
                return false;
            }
            expected = expected.saturating_mul(size);
        }
    }
    true
}

/// Dense strides of a format; channels last exists for images and volumes.
pub fn format_strides(sizes: &[u64], format: MemoryFormat) -> Dims {
    if format == MemoryFormat::Contiguous || !matches!(sizes.len(), 4 | 5) {
        return contiguous_strides(sizes);
    }
    let order: SmallVec<[usize; 6]> = std::iter::once(0).chain(2..sizes.len()).chain([1]).collect();
    strides_in_order(sizes, &order)
}

/// Dimensions from the innermost outwards, as channels last has them.
fn channels_last_order(rank: usize) -> impl Iterator<Item = usize> {
    std::iter::once(1).chain((2..rank).rev()).chain([0])
}

/// The format that strides look most like (`suggest_memory_format`): they need not be without gaps,
/// so that a slice of a tensor in channels last is in channels last.
pub fn suggested_format(sizes: &[u64], strides: &[u64]) -> MemoryFormat {
    if !matches!(sizes.len(), 4 | 5) {
        return MemoryFormat::Contiguous;
    }
    let (mut least, mut innermost) = (0, 0);
    for dim in channels_last_order(sizes.len()) {
        let (Some(&size), Some(&stride)) = (sizes.get(dim), strides.get(dim)) else {
            return MemoryFormat::Contiguous;
        };
        if dim == 1 {
            innermost = stride;
        }
        // `[N, 1, 1, 1]` could be either, and is taken to be contiguous.
        let ambiguous = dim == 0 && least == innermost;
        if innermost == 0 || size == 0 || stride < least || ambiguous {
            return MemoryFormat::Contiguous;
        }
        least = stride.saturating_mul(size);
    }
    MemoryFormat::ChannelsLast
}

/// Whether elements lie without gaps in a format's order.
pub fn is_contiguous_in(sizes: &[u64], strides: &[u64], format: MemoryFormat) -> bool {
    if format == MemoryFormat::Contiguous {
        return is_contiguous(sizes, strides);
    }
    let mut expected = 1u64;
    matches!(sizes.len(), 4 | 5)
        && channels_last_order(sizes.len()).all(|dim| match (sizes.get(dim), strides.get(dim)) {
            (Some(1), Some(_)) => true,
            (Some(&size), Some(&stride)) => {
                let fits = stride == expected;
                expected = expected.saturating_mul(size);
                fits
            }
            _ => false,
        })
}

/// Whether the tensor is some permutation of a contiguous one.
pub fn is_dense(sizes: &[u64], strides: &[u64]) -> bool {
    if sizes.contains(&0) || is_contiguous(sizes, strides) {
        return true;
    }
    let mut dims: SmallVec<[_; 6]> =
        strides.iter().zip(sizes).filter(|&(_, &size)| size != 1).collect();
    dims.sort_unstable();
    let mut expected = 1u64;
    dims.into_iter().all(|(&stride, &size)| {
        let fits = stride == expected;
        expected = expected.saturating_mul(size);
        fits
    })
}

/// Dense strides for `sizes` whose order of dimensions, outermost first, is `order`.
pub fn strides_in_order(sizes: &[u64], order: &[usize]) -> Dims {
    let mut strides = smallvec![1; sizes.len()];
    let mut step = 1u64;
    for &dim in order.iter().rev() {
        if let (Some(stride), Some(&size)) = (strides.get_mut(dim), sizes.get(dim)) {
            *stride = step;
            step = step.saturating_mul(size.max(1));
        }
    }
    strides
}

/// Dimensions from the outermost (largest stride) to the innermost; ties keep their order.
pub fn dimension_order(strides: &[u64]) -> SmallVec<[usize; 6]> {
    let mut order: SmallVec<[usize; 6]> = (0..strides.len()).collect();
    order.order_by_key(|&dim| std::cmp::Reverse(strides.get(dim).copied().unwrap_or(0)));
    order
}

/// Strides of `empty_like(tensor)`: its own where dense, else a dense tensor in the same order.
pub fn like_strides(tensor: &Tensor) -> Dims {
    if tensor.is_dense() {
        return tensor.strides().into();
    }
    if tensor.strides().contains(&0) && tensor.numel() > 0 {
        // Expanded dimensions have no order of their own.
        let expanded = tensor.sizes().iter().zip(tensor.strides()).any(|(&n, &s)| n > 1 && s == 0);
        if expanded {
            return elementwise_strides(tensor.sizes(), &[tensor]);
        }
    }
    strides_in_order(tensor.sizes(), &dimension_order(tensor.strides()))
}

/// Strides of an elementwise result: the order of the operands' own dimensions.
///
/// `TensorIterator` sorts dimensions by the strides of the operands, the first with an opinion
/// winning; broadcast dimensions (stride 0) have none.
pub fn elementwise_strides(sizes: &[u64], operands: &[&Tensor]) -> Dims {
    // `FastSetupType`: where tensors could be in either format they are contiguous.
    for format in [MemoryFormat::Contiguous, MemoryFormat::ChannelsLast] {
        if operands.iter().all(|t| t.sizes() == sizes && t.is_contiguous_in(format)) {
            return format_strides(sizes, format);
        }
    }
    let same = |t: &&&Tensor| t.sizes() == sizes && t.is_dense();
    if let Some(first) = operands.first()
        && operands.iter().all(|t| same(&t) && t.strides() == first.strides())
    {
        return first.strides().into();
    }
    let broadcast: Vec<Dims> = operands.iter().map(|t| broadcast_strides(t, sizes)).collect();
    // Insertion sort, as TensorIterator does it: innermost first, ambiguous pairs left alone.
    let mut innermost_first: SmallVec<[usize; 6]> = (0..sizes.len()).rev().collect();
    for i in 1..innermost_first.len() {
        let mut moving = i;
        for j in (0..i).rev() {
            let (Some(&a), Some(&b)) = (innermost_first.get(j), innermost_first.get(moving)) else {
                break;
            };
            match should_swap(&broadcast, sizes, a, b) {
                Some(true) => {
                    innermost_first.swap(j, moving);
                    moving = j;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    innermost_first.reverse();
    strides_in_order(sizes, &innermost_first)
}

/// Whether dimension `a`, now further inside, belongs outside `b`; `None` where nothing tells.
fn should_swap(operands: &[Dims], sizes: &[u64], a: usize, b: usize) -> Option<bool> {
    for strides in operands {
        let (&outer, &inner) = (strides.get(a)?, strides.get(b)?);
        if outer == 0 || inner == 0 {
            continue;
        }
        if outer != inner {
            return Some(outer > inner);
        }
        let (&size_a, &size_b) = (sizes.get(a)?, sizes.get(b)?);
        if size_a > size_b {
            return Some(true);
        }
    }
    None
}

/// Strides of `tensor` seen with broadcast `sizes`: zero where it is stretched.
fn broadcast_strides(tensor: &Tensor, sizes: &[u64]) -> Dims {
    let missing = sizes.len().saturating_sub(tensor.sizes().len());
    let own = tensor.sizes().iter().zip(tensor.strides());
    let own = own
        .zip(sizes.iter().skip(missing))
        .map(|((&size, &stride), &wanted)| if size == 1 && wanted != 1 { 0 } else { stride });
    std::iter::repeat_n(0, missing).chain(own).collect()
}

/// Strides under which `tensor` can be seen as `sizes` without a copy.
pub fn view_strides(tensor: &Tensor, sizes: &[u64]) -> Option<Dims> {
    if tensor.numel() == 0 {
        return Some(contiguous_strides(sizes));
    }
    if tensor.rank() == 0 {
        return Some(smallvec![1; sizes.len()]);
    }
    let old: SmallVec<[(u64, u64); 6]> =
        tensor.sizes().iter().copied().zip(tensor.strides().iter().copied()).collect();
    let mut new_strides = smallvec![1; sizes.len()];
    let mut next = sizes.len();
    let mut chunk_stride = old.last().map_or(1, |&(_, stride)| stride);
    let (mut chunk_size, mut view_size) = (1u64, 1u64);
    for (dim, &(size, _)) in old.iter().enumerate().rev() {
        chunk_size = chunk_size.saturating_mul(size);
        let outer = dim.checked_sub(1).and_then(|d| old.get(d));
        let ends = outer.is_none_or(|&(outer_size, outer_stride)| {
            outer_size != 1 && outer_stride != chunk_size.saturating_mul(chunk_stride)
        });
        if !ends {
            continue;
        }
        while next > 0 {
            let size = *sizes.get(next - 1)?;
            if view_size >= chunk_size && size != 1 {
                break;
            }
            next -= 1;
            *new_strides.get_mut(next)? = view_size.saturating_mul(chunk_stride);
            view_size = view_size.saturating_mul(size);
        }
        if view_size != chunk_size {
            return None;
        }
        if let Some(&(_, outer_stride)) = outer {
            chunk_stride = outer_stride;
            (chunk_size, view_size) = (1, 1);
        }
    }
    (next == 0).then_some(new_strides)
}

/// Broadcast dimensions of two operands, outermost first.
pub fn broadcast_sizes(a: &[u64], b: &[u64]) -> Dims {
    let rank = a.len().max(b.len());
    let at = |sizes: &[u64], dim: usize| {
        (dim + sizes.len()).checked_sub(rank).and_then(|d| sizes.get(d)).copied().unwrap_or(1)
    };
    (0..rank)
        .map(|dim| match (at(a, dim), at(b, dim)) {
            (1, size) | (size, 1) => size,
            (x, y) => x.max(y),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{format_strides, is_contiguous_in, suggested_format};
    use crate::config::MemoryFormat::{ChannelsLast, Contiguous};

    /// Answers of `suggest_memory_format` and of `is_contiguous` for both formats, PyTorch 2.15.
    #[test]
    fn formats_are_read_off_strides() {
        let cases: [(&[u64], &[u64], _, bool, bool); 9] = [
            (&[8, 64, 7, 7], &[3136, 49, 7, 1], Contiguous, true, false),
            (&[8, 64, 7, 7], &[3136, 1, 448, 64], ChannelsLast, false, true),
            // One position: either format, and only strides tell which was meant.
            (&[8, 64, 1, 1], &[64, 1, 1, 1], Contiguous, true, true),
            (&[8, 64, 1, 1], &[64, 1, 64, 64], ChannelsLast, true, true),
            // One channel, as depthwise weights have it.
            (&[64, 1, 3, 3], &[9, 9, 3, 1], Contiguous, true, true),
            (&[64, 1, 3, 3], &[9, 1, 3, 1], ChannelsLast, true, true),
            (&[8, 1, 1, 1], &[1, 1, 1, 1], Contiguous, true, true),
            // Some channels of more.
            (&[8, 32, 7, 7], &[6272, 1, 896, 128], ChannelsLast, false, false),
            (&[8, 64], &[64, 1], Contiguous, true, false),
        ];
        for (sizes, strides, suggested, contiguous, channels_last) in cases {
            let seen = (
                suggested_format(sizes, strides),
                is_contiguous_in(sizes, strides, Contiguous),
                is_contiguous_in(sizes, strides, ChannelsLast),
            );
            assert_eq!(seen, (suggested, contiguous, channels_last), "{sizes:?} @ {strides:?}");
        }
        assert_eq!(&*format_strides(&[8, 64, 7, 7], ChannelsLast), &[3136, 1, 448, 64]);
        assert_eq!(&*format_strides(&[8, 64, 7], ChannelsLast), &[448, 7, 1]);
    }
}
