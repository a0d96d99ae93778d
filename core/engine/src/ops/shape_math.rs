//! Arithmetic on shapes that several families share.

use super::{Inference, OpError};
use crate::tensor::{DType, Dims, TensorType};

/// Shape rule of operators that keep the type of their first input.
pub(super) fn like_first(inference: &mut Inference<'_>) -> Result<(), OpError> {
    let x = inference.input(0)?.clone();
    inference.set(0, x);
    Ok(())
}

/// Dimensions of two tensors after numpy's broadcasting.
pub(super) fn broadcast(a: &[u64], b: &[u64]) -> Result<Dims, OpError> {
    if a == b {
        return Ok(a.into());
    }
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let lead = long.len().saturating_sub(short.len());
    let mut dims = Dims::from_slice(long);
    for (d, &s) in dims.iter_mut().skip(lead).zip(short) {
        match (*d, s) {
            (l, s) if l == s => {}
            (1, s) => *d = s,
            (_, 1) => {}
            _ => {
                return Err(OpError::new(say!(
                    "{a} and {b} do not broadcast",
                    a = format!("{a:?}"),
                    b = format!("{b:?}")
                )));
            }
        }
    }
    Ok(dims)
}

/// Position of an axis that may count from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, OpError> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let from_front = if axis < 0 { axis.saturating_add(signed) } else { axis };
    match usize::try_from(from_front) {
        Ok(position) if position < rank => Ok(position),
        _ => Err(OpError::new(say!("axis {axis} is outside of rank {rank}", axis, rank))),
    }
}

/// Positions of axes, for each dimension whether it is among them.
pub(super) fn axis_mask(axes: &[i64], rank: usize) -> Result<Vec<bool>, OpError> {
    let mut mask = vec![false; rank];
    for &a in axes {
        if let Some(chosen) = mask.get_mut(axis(a, rank)?) {
            *chosen = true;
        }
    }
    Ok(mask)
}

/// The dimension at this position; 1 beyond the last, as broadcasting would have it.
pub(super) fn dim(dims: &[u64], position: usize) -> u64 {
    dims.get(position).copied().unwrap_or(1)
}

/// The dimensions before this position.
pub(super) fn before(dims: &[u64], position: usize) -> &[u64] {
    dims.get(..position).unwrap_or(dims)
}

/// The dimensions from this position on.
pub(super) fn from(dims: &[u64], position: usize) -> &[u64] {
    dims.get(position..).unwrap_or(&[])
}

/// The dimensions with one replaced.
pub(super) fn with(dims: &[u64], position: usize, size: u64) -> Dims {
    let mut dims = Dims::from_slice(dims);
    if let Some(d) = dims.get_mut(position) {
        *d = size;
    }
    dims
}

/// A size from a signed number of the file.
pub(super) fn size(n: i64) -> Result<u64, OpError> {
    u64::try_from(n).map_err(|_negative| OpError::new(say!("{n} is not a size", n)))
}

/// Sizes from signed numbers of the file.
pub(super) fn sizes(list: &[i64]) -> Result<Dims, OpError> {
    list.iter().map(|&n| size(n)).collect()
}

/// A size as a signed number.
pub(super) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The rank as a signed number.
pub(super) fn signed_len(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// `n` divided by `by` without remainder.
pub(super) fn exact_div(n: u64, by: u64) -> Option<u64> {
    (n.checked_rem(by)? == 0).then_some(n.checked_div(by)?)
}

/// An attribute with one number per spatial dimension, or `default` for each.
pub(super) fn spatial(
    inference: &Inference<'_>,
    name: &str,
    n: usize,
    default: u64,
) -> Result<Dims, OpError> {
    match inference.node.ints(name) {
        None => Ok(Dims::from_elem(default, n)),
        Some(list) if list.len() == n => sizes(list),
        Some(list) => Err(OpError::new(say!(
            "`{name}` has {given} numbers where {n} are needed",
            name,
            given = list.len(),
            n
        ))),
    }
}

/// Sliding windows over the spatial dimensions of convolutions and pools.
pub(super) struct Windows {
    pub(super) kernel: Dims,
    pub(super) strides: Dims,
    pub(super) dilations: Dims,
    /// Padding in front and behind; may be negative.
    pub(super) pads: Vec<(i64, i64)>,
    pub(super) auto: AutoPad,
    /// Whether a window that is only partly filled counts.
    pub(super) ceil: bool,
}

/// How padding follows from the sizes, where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// It does not: the padding is stated.
    No,
    /// No padding.
    Valid,
    /// Output size is input size over stride, rounded up.
    Same,
}

impl Windows {
    /// The attributes that convolutions and pools share, for `kernel` windows.
    pub(super) fn parse(inference: &Inference<'_>, kernel: Dims) -> Result<Self, OpError> {
        let n = kernel.len();
        let node = inference.node;
        let pads = match node.ints("pads") {
            None => vec![(0, 0); n],
            Some(list) if list.len() == n.saturating_mul(2) => {
                list.iter().copied().zip(list.iter().skip(n).copied()).collect()
            }
            Some(list) => {
                return Err(OpError::new(say!(
                    "`pads` is {list} for {n} dimensions",
                    list = format!("{list:?}"),
                    n
                )));
            }
        };
        Ok(Self {
            strides: spatial(inference, "strides", n, 1)?,
            dilations: spatial(inference, "dilations", n, 1)?,
            pads,
            auto: match node.string("auto_pad") {
                Some("SAME_UPPER" | "SAME_LOWER") => AutoPad::Same,
                Some("VALID") => AutoPad::Valid,
                _ => AutoPad::No,
            },
            ceil: node.int("ceil_mode").unwrap_or(0) != 0,
            kernel,
        })
    }

    /// COUNT: windows along each of these spatial dimensions.
    pub(super) fn slide(&self, spatial: &[u64]) -> Result<Dims, OpError> {
        if spatial.len() != self.kernel.len() {
            let (n, k) = (spatial.len(), self.kernel.len());
            return Err(OpError::new(say!("a {k}-d kernel slides over {n} dimensions", k, n)));
        }
        let sizes = spatial.iter().zip(&self.kernel).zip(&self.strides);
        let rest = self.dilations.iter().zip(&self.pads);
        sizes
            .zip(rest)
            .map(|(((&size, &kernel), &stride), (&dilation, &pads))| {
                let reach = dilation.saturating_mul(kernel.saturating_sub(1)).saturating_add(1);
                self.slide_one(size, reach, stride, pads).ok_or_else(|| {
                    OpError::new(say!(
                        "a window of {reach} with stride {stride} does not fit in {size}",
                        reach,
                        stride,
                        size
                    ))
                })
            })
            .collect()
    }

    fn slide_one(&self, size: u64, reach: u64, stride: u64, pads: (i64, i64)) -> Option<u64> {
        if stride == 0 || reach == 0 {
            return None;
        }
        let (front, back) = match self.auto {
            AutoPad::Same => return Some(size.div_ceil(stride)),
            AutoPad::Valid => (0, 0),
            AutoPad::No => pads,
        };
        let padded = size.checked_add_signed(front)?.checked_add_signed(back)?;
        let span = padded.checked_sub(reach)?;
        if !self.ceil {
            return span.checked_div(stride)?.checked_add(1);
        }
        // The last window must begin inside the input or its front padding.
        let last = span.div_ceil(stride);
        let inside = size.checked_add_signed(front)?;
        let begins_inside = last.saturating_mul(stride) < inside;
        if begins_inside { last.checked_add(1) } else { Some(last) }
    }
}

/// Element type from ONNX's number for it.
pub(super) fn dtype(code: i64) -> Result<DType, OpError> {
    DType::from_onnx(code)
        .ok_or_else(|| OpError::new(say!("element type {code} has no size", code)))
}

/// Element type stated by an attribute, where it is.
pub(super) fn dtype_attribute(
    inference: &Inference<'_>,
    name: &str,
) -> Result<Option<DType>, OpError> {
    inference.node.int(name).map(dtype).transpose()
}

/// Refuses a vector that has no element for each channel.
pub(super) fn per_channel(
    vector: Option<&TensorType>,
    name: &str,
    channels: u64,
) -> Result<(), OpError> {
    match vector.filter(|vector| vector.dims.as_slice() != [channels]) {
        None => Ok(()),
        Some(vector) => Err(OpError::new(say!(
            "{channels} channels where the {name} is {vector}",
            channels,
            name,
            vector
        ))),
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn broadcasts() {
        let check = |a: &[u64], b: &[u64], expected: Option<&[u64]>| {
            assert_eq!(broadcast(a, b).ok().as_deref(), expected, "{a:?} {b:?}");
            assert_eq!(broadcast(b, a).ok().as_deref(), expected, "{b:?} {a:?}");
        };
        check(&[], &[], Some(&[]));
        check(&[2, 3], &[], Some(&[2, 3]));
        check(&[2, 1, 4], &[3, 1], Some(&[2, 3, 4]));
        check(&[2, 3], &[2], None);
        check(&[0, 3], &[1, 3], Some(&[0, 3]));
    }

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(axis(-1, 4), Ok(3));
        assert_eq!(axis(0, 4), Ok(0));
        assert!(axis(4, 4).is_err());
        assert!(axis(-5, 4).is_err());
        assert!(axis(i64::MIN, 4).is_err());
        assert!(axis(0, 0).is_err());
    }

    #[test]
    fn windows_slide() {
        let slide = |size, kernel, stride, dilation, pads, ceil| {
            let windows = Windows {
                kernel: smallvec![kernel],
                strides: smallvec![stride],
                dilations: smallvec![dilation],
                pads: vec![pads],
                auto: AutoPad::No,
                ceil,
            };
            windows.slide(&[size]).ok().map(|sizes| sizes[0])
        };
        assert_eq!(slide(224, 7, 2, 1, (3, 3), false), Some(112));
        assert_eq!(slide(112, 3, 2, 1, (1, 1), false), Some(56));
        assert_eq!(slide(109, 3, 2, 1, (0, 0), true), Some(54));
        assert_eq!(slide(110, 3, 2, 1, (0, 0), true), Some(55));
        // torch.nn.MaxPool1d(1, stride=2, ceil_mode=True) over 4 gives 2: no window past the end.
        assert_eq!(slide(4, 1, 2, 1, (0, 0), true), Some(2));
        assert_eq!(slide(14, 3, 1, 2, (2, 2), false), Some(14));
        assert_eq!(slide(2, 3, 1, 1, (0, 0), false), None);
        assert_eq!(slide(2, 1, 0, 1, (0, 0), false), None);
        assert_eq!(slide(5, 3, 1, 1, (-1, -1), false), Some(1));
    }
}
