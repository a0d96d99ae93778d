//! ONNX file → [`Graph`] (<https://onnx.ai/onnx/repo-docs/IR.html>,
//! messages in <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>).
//!
//! 1. `slim` walks the file at the level of wire types and copies its structure, without the
//!    weights, into a few hundred kilobytes. Only windows of the file are ever in memory.
//! 2. `onnx-ir`'s generated messages decode the slim copy. Nothing else of that crate is used, and
//!    no other module names it.
//!    Tensors in other files are left there, but for small ones (`external`): shapes are made of them.
//! 3. `decode` makes a [`Graph`] of the messages: functions inlined, constants lifted out of nodes,
//!    nodes in topological order, contradictions refused.

use onnx_ir::{Message as _, ModelProto};

use crate::error::{Error, ErrorKind};
use crate::graph::Graph;
use crate::source::Source;

mod wire;

mod slim;

mod external;
mod literal;
mod provenance;

mod inline;

mod decode;

/// Reads an ONNX model without its weights.
///
/// # Errors
/// When the file is no ONNX model, is truncated or damaged, holds no graph, is too large, or its
/// graph contradicts itself.
pub fn read(source: &mut dyn Source) -> Result<Graph, Error> {
    let slim = slim::slim(source)?;
    let mut model = ModelProto::parse_from_bytes(&slim).map_err(|error| {
        Error::new(
            ErrorKind::Corrupt,
            say!("the ONNX file is damaged: {error}", error = error.to_string()),
        )
    })?;
    drop(slim);
    external::read_small(&mut model, source);
    decode::graph(&model)
}
