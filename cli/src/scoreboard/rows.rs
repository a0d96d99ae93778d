//! Kinds of rows: most name a model, others describe one.

use std::fmt::Write as _;

use highwater_core::Bytes;
use serde::Deserialize;

use super::runs::Cells;

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rows {
    /// A row names its model.
    #[default]
    Models,
    /// A row is a multilayer perceptron, as `GPUMemNet`'s data describes it.
    Perceptrons,
}

impl Rows {
    /// Columns that each such table needs.
    pub(crate) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Models => &["model", "batch"],
            Self::Perceptrons => &[
                "inputs",
                "linear_widths",
                "activation",
                "batch_norm",
                "dropout",
                "batch",
                "device_mib",
            ],
        }
    }

    /// The name of the row's model.
    pub(crate) fn model(self, cells: &Cells<'_>) -> Result<String, String> {
        match self {
            Self::Models => cells.need("model").map(str::to_owned),
            Self::Perceptrons => {
                let (inputs, widths) = (cells.need("inputs")?, cells.need("linear_widths")?);
                Ok(format!("{inputs} {widths}"))
            }
        }
    }

    /// The layer spec of the row's model, where the row describes it.
    pub(crate) fn spec(self, cells: &Cells<'_>) -> Result<Option<String>, String> {
        match self {
            Self::Models => Ok(None),
            Self::Perceptrons => perceptron(cells).map(Some),
        }
    }

    /// The measured need of the process, where its column has another name.
    pub(crate) fn process(self, cells: &Cells<'_>) -> Result<Option<Bytes>, String> {
        match self {
            Self::Models => Ok(None),
            Self::Perceptrons => Ok(cells.count("device_mib")?.map(Bytes::mib)),
        }
    }
}

/// Linear layers; after each but the last a batch norm, an activation and a dropout, where there are any.
fn perceptron(cells: &Cells<'_>) -> Result<String, String> {
    let mut text = format!("input: [N, {}]\nlayers:\n", cells.need("inputs")?);
    let widths: Vec<&str> = cells.need("linear_widths")?.split_whitespace().collect();
    let activation = cells.need("activation")?.to_lowercase();
    let has = |name| cells.get(name) == Some("yes");
    for (place, width) in widths.iter().enumerate() {
        writeln!(text, "  - linear: {width}").ok();
        if place + 1 == widths.len() {
            break;
        }
        if has("batch_norm") {
            text += "  - batchnorm1d\n";
        }
        if activation != "identity" {
            writeln!(text, "  - {activation}").ok();
        }
        if has("dropout") {
            text += "  - dropout\n";
        }
    }
    Ok(text)
}
