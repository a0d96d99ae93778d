//! Low-rank adapters (`LoRA`) on linear layers, as `peft` adds them.
//!
//! A chosen layer's result becomes `layer(x) + B(A(x)) · scaling`; `A` and `B` are trained, and nothing
//! else is. Adapters stay in single precision in a model that was converted to a half
//! (`autocast_adapter_dtype`), so that their input is cast up and the sum is cast back.
//! Source: `peft/tuners/lora/layer.py`, `Linear.forward`, without dropout.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::config::{Config, pattern};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{Literal, Node, ValueId};
use crate::recover::{DOMAIN, Program, add_value};
use crate::tensor::{DType, TensorType};

/// COUNT: no layer is as wide, and so no adapter of any use.
const RANK_MAX: u64 = 1 << 20;

/// COUNT: names of layers that a message lists.
const LISTED: usize = 12;

/// Puts adapters beside the layers that the configuration names.
///
/// # Errors
/// When a pattern names none that there is; or the rank is absurd.
pub fn adapt(program: &mut Program<'_>, config: &Config, sink: &Diagnostics) -> Result<(), Error> {
    if config.lora.is_empty() {
        return Ok(());
    }
    if config.lora_rank.get() > RANK_MAX {
        let message = format!("adapters of rank {} are larger than any layer", config.lora_rank);
        return Err(Error::new(ErrorKind::BadConfig, message).about("lora-rank"));
    }
    let mut adapted = 0_usize;
    let (mut found, mut others) = (vec![false; config.lora.len()], BTreeSet::new());
    let mut nodes = Vec::with_capacity(program.nodes.len());
    for node in std::mem::take(&mut program.nodes) {
        let layer = layer(program, &node).filter(|layer| {
            let is_wanted = layer.is_wanted(config, &mut found);
            if !is_wanted {
                others.insert(layer.last().to_owned());
            }
            is_wanted
        });
        let adapter = layer.and_then(|layer| {
            let mut node = node.clone().into_owned();
            let adapter = layer.adapter(program, &mut node, config.lora_rank.get())?;
            Some([Cow::Owned(node), Cow::Owned(adapter)])
        });
        match adapter {
            Some(pair) => {
                adapted += 1;
                nodes.extend(pair);
            }
            None => nodes.push(node),
        }
    }
    program.nodes = nodes;
    if let Some((pattern, _)) = config.lora.iter().zip(found).find(|(_, is_found)| !is_found) {
        let others: Vec<String> = others.into_iter().take(LISTED).collect();
        let message = format!(
            "the pattern `{pattern}` matches no linear layer; write a layer's path, or `*` for any \
             text. Other linear layers here: {}",
            if others.is_empty() { "none".to_owned() } else { others.join(", ") }
        );
        return Err(Error::new(ErrorKind::BadConfig, message).about("lora"));
    }
    let message = format!(
        "{adapted} linear layers get adapters of rank {}, without dropout; all other parameters \
         are frozen",
        config.lora_rank
    );
    sink.push(Diagnostic::new(Severity::Info, "lora", message));
    Ok(())
}

/// Whether a parameter is an adapter's.
pub fn is_adapter(name: &str) -> bool {
    name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight")
}

/// A linear layer to adapt.
struct Layer {
    name: String,
    weight: ValueId,
    x: ValueId,
    y: ValueId,
    inner: u64,
    outer: u64,
}

fn layer(program: &Program<'_>, node: &Node) -> Option<Layer> {
    let linear = (node.op == "Linear" && node.domain == DOMAIN)
        || (node.op == "Gemm" && node.int("transA").unwrap_or(0) == 0);
    let (x, weight, y) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let is_state = program.graph.value(weight)?.initializer.is_some();
    if !linear || !is_state {
        return None;
    }
    let name = program.graph.value_name(weight);
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let last = |value: ValueId| program.typed.ty(value)?.dims.last().copied();
    Some(Layer { name: name.to_owned(), weight, x, y, inner: last(x)?, outer: last(y)? })
}

impl Layer {
    /// The last part of its name.
    fn last(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// Whether a pattern names it; notes which.
    fn is_wanted(&self, config: &Config, found: &mut [bool]) -> bool {
        let mut is_wanted = false;
        for (pattern, found) in config.lora.iter().zip(found) {
            // `q_proj` names all layers called so, as `target_modules` does.
            let matches =
                pattern::matches(pattern, &self.name) || pattern::matches(pattern, self.last());
            *found |= matches;
            is_wanted |= matches;
        }
        is_wanted
    }

    /// The adapter's node, to run behind the layer's own, whose output it replaces.
    fn adapter(&self, program: &mut Program<'_>, node: &mut Node, rank: u64) -> Option<Node> {
        let ty = program.typed.ty(self.y)?.clone();
        let before = value(program, format!("{}.base_layer", self.name), ty, false);
        for output in node.outputs.iter_mut().filter(|output| **output == Some(self.y)) {
            *output = Some(before);
        }
        let matrix = |which, dims| (format!("{}.lora_{which}.weight", self.name), dims);
        let (a, a_dims) = matrix("A", [rank, self.inner]);
        let (b, b_dims) = matrix("B", [self.outer, rank]);
        let a = value(program, a, TensorType::new(DType::Float32, a_dims), true);
        let b = value(program, b, TensorType::new(DType::Float32, b_dims), true);
        self.place(program, [a, b]);
        Some(Node {
            name: format!("{}.lora", self.name),
            op: "Lora".to_owned(),
            domain: DOMAIN.to_owned(),
            inputs: vec![Some(before), Some(self.x), Some(a), Some(b)],
            outputs: vec![Some(self.y)],
            module: node.module.clone(),
            ..Node::default()
        })
    }

    /// Adapters are modules behind the one that has the layer's own parameters.
    fn place(&self, program: &mut Program<'_>, adapter: [ValueId; 2]) {
        let graph = &program.graph;
        let own = |id: &ValueId| {
            let rest = graph.value_name(*id).strip_prefix(&self.name);
            *id == self.weight || rest == Some(".bias")
        };
        for order in [&mut program.placement, &mut program.to_device] {
            let behind = order.iter().rposition(own).map_or(order.len(), |at| at + 1);
            order.splice(behind..behind, adapter);
        }
    }
}

fn value(program: &mut Program<'_>, name: String, ty: TensorType, state: bool) -> ValueId {
    let initializer =
        state.then(|| Literal { dtype: ty.dtype, dims: ty.dims.to_vec(), elements: None });
    add_value(&mut program.graph, &mut program.typed, name, ty, initializer)
}
