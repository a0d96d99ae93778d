//! Recurrent layers: `nn.RNN`, `nn.LSTM`, `nn.GRU`, whose batch lies first here.

use super::super::{Args, Lowering, Size, Tensor};
use super::{sequence, signed};
use crate::error::Error;
use crate::graph::{Attribute, ValueId};

/// The module of a cell with so many gates.
pub(in super::super::super) fn recurrent(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
    gates: u64,
) -> Result<Tensor, Error> {
    let [_, width] = sequence(l, a, x)?;
    let width = l.need(Some(width), &say!("the width of what comes in"))?;
    let (hidden, layers) =
        (a.number("hidden_size").unwrap_or(1), a.number("num_layers").unwrap_or(1));
    let ways: &[&str] = if a.flag("bidirectional") { &["", "_reverse"] } else { &[""] };
    let directions = if a.flag("bidirectional") { 2 } else { 1 };
    let all = hidden.saturating_mul(directions);
    let rows = gates.saturating_mul(hidden);
    let mut inputs: Vec<Option<ValueId>> = vec![Some(x.id)];
    for layer in 0..layers.min(LAYERS_MAX) {
        let columns = if layer == 0 { width } else { all };
        for way in ways {
            let mut add = |name: &str, dims: &[u64]| {
                let id = l.parameter(&format!("{name}_l{layer}{way}"), dims)?;
                inputs.push(Some(id));
                Ok::<_, Error>(())
            };
            add("weight_ih", &[rows, columns])?;
            add("weight_hh", &[rows, hidden])?;
            if a.flag("bias") {
                add("bias_ih", &[rows])?;
                add("bias_hh", &[rows])?;
            }
        }
    }
    if layers > LAYERS_MAX {
        return Err(l.fault(say!("`num_layers` is {layers_max} at most", layers_max = LAYERS_MAX)));
    }
    let attributes = [
        ("cell", Attribute::String(a.kind().to_owned())),
        ("hidden", Attribute::Int(signed(hidden))),
        ("layers", Attribute::Int(signed(layers))),
        ("directions", Attribute::Int(signed(directions))),
    ];
    let [id] = l.run("torch.Recurrent", inputs, attributes);
    let mut shape = x.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = Size::known(all);
    }
    let y = Tensor { id, shape };
    if !a.flag("last") {
        return Ok(y);
    }
    let index = l.builder.int(-1);
    let mut shape = y.shape.clone();
    shape.remove(1);
    Ok(l.made("Gather", &[y.id, index], Some(("axis", Attribute::Int(1))), shape))
}

/// COUNT: layers of one module.
const LAYERS_MAX: u64 = 64;
