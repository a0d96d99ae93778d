//! Perceptrons that were measured: lines of `tests/fixtures/measured/mlp.csv`.

use std::error::Error;
use std::fmt::Write as _;

/// The layer spec of a perceptron, and its batch.
pub(crate) fn perceptron(line: &str) -> Result<(String, u64), Box<dyn Error>> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[inputs, widths, activation, norm, dropout, batch, ..] = cells.as_slice() else {
        return Err(format!("`{line}` is no perceptron").into());
    };
    let mut spec = format!("input: [N, {inputs}]\nlayers:\n");
    let widths: Vec<&str> = widths.split(' ').collect();
    for (at, width) in widths.iter().enumerate() {
        writeln!(spec, "  - linear: {width}")?;
        if at + 1 == widths.len() {
            break;
        }
        let between = [
            (norm == "yes").then_some("batchnorm1d"),
            Some(activation).filter(|name| *name != "Identity"),
            (dropout == "yes").then_some("dropout"),
        ];
        for layer in between.into_iter().flatten() {
            writeln!(spec, "  - {}", layer.to_ascii_lowercase())?;
        }
    }
    Ok((spec, batch.parse()?))
}
