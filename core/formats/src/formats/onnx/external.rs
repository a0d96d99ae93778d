//! Tensors in files next to the model (<https://onnx.ai/onnx/repo-docs/ExternalData.html>): the contents of small ones.
//!
//! Exporters of large models put weights there; some put every tensor there, also the few numbers of a shape.

use onnx_ir::{ModelProto, TensorProto};

use super::slim::PAYLOAD_KEPT;
use crate::source::Source;
use crate::tensor::numel;

/// COUNT: tensors that are read at most.
const READS_MAX: usize = 1 << 14;

/// Reads the elements of small tensors from the files next to the model, as far as there are such files.
pub(super) fn read_small(model: &mut ModelProto, source: &mut dyn Source) {
    let Some(graph) = model.graph.as_mut() else { return };
    let external = graph.initializer.iter_mut().filter(|tensor| !tensor.external_data.is_empty());
    for tensor in external.take(READS_MAX) {
        if let Some((name, offset, size)) = place(tensor) {
            let mut bytes = vec![0; size];
            if source.read_next_to(&name, offset, &mut bytes) {
                tensor.raw_data = bytes.into();
            }
        }
    }
}

/// The file, where in it, and how many bytes; `None` of a tensor that is not small.
fn place(tensor: &TensorProto) -> Option<(String, u64, usize)> {
    let stated = |key: &str| {
        tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    };
    let dims: Option<Vec<u64>> = tensor.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect();
    let needed = numel(&dims?).saturating_mul(super::literal::dtype(tensor.data_type)?.size().0);
    let size = stated("length").map_or(Some(needed), |length| length.parse().ok())?;
    let offset = stated("offset").map_or(Some(0), |offset| offset.parse().ok())?;
    let is_small = size == needed && (1..=PAYLOAD_KEPT).contains(&size);
    Some((stated("location")?.to_owned(), offset, usize::try_from(size).ok().filter(|_| is_small)?))
}
