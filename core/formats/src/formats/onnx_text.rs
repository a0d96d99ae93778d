//! ONNX in its textual syntax → the same bytes as a binary file has
//! (<https://github.com/onnx/onnx/blob/main/docs/Syntax.md>).
//!
//! The text becomes an ONNX file in memory, which the ONNX reader reads, so both share one path. Two things go
//! beyond the grammar: comments (`#` to the end of the line), as `onnx.parser` takes them, and weights without
//! contents: a name among the initializers that has a type and no data, and that no node makes, is a weight.

use crate::error::{Error, ErrorKind};
use crate::source::Source;

mod wire;

mod lexer;

mod parser;

/// SIZE: bytes of a text at most.
const TEXT_MAX: u64 = 64 << 20;

/// Whether a text begins as a model does: `<ir_version: 8, …>`, or `name (float[N] x) => (…)`.
pub fn begins(head: &str) -> bool {
    const KEYS: [&str; 8] = [
        "ir_version",
        "opset_import",
        "producer_name",
        "producer_version",
        "domain",
        "model_version",
        "doc_string",
        "metadata_props",
    ];
    let uncommented = |line: &&str| !line.trim_start().starts_with('#') && !line.trim().is_empty();
    let head: Vec<&str> = head.lines().filter(uncommented).collect();
    let head = head.join("\n");
    let head = head.trim_start();
    if let Some(inside) = head.strip_prefix('<') {
        let inside = inside.trim_start();
        return KEYS.iter().any(|key| {
            inside.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'))
        });
    }
    let name = head.split('(').next().unwrap_or("").trim().trim_matches('"');
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
    !name.is_empty() && name.chars().all(is_name) && head.contains("=>")
}

/// The bytes of the binary file that says the same.
///
/// # Errors
/// When the text is too long or no UTF-8, or is not of the grammar.
pub(super) fn to_binary(source: &mut dyn Source) -> Result<Vec<u8>, Error> {
    let size = source.len();
    if size > TEXT_MAX {
        let message =
            say!("the ONNX text has {size} bytes, more than {text_max}", size, text_max = TEXT_MAX);
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    source.read_at(0, &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::Corrupt, say!("the ONNX text is no UTF-8 from byte {at} on", at))
    })?;
    parser::model(text.strip_prefix('\u{feff}').unwrap_or(&text))
}

#[cfg(test)]
mod tests;
