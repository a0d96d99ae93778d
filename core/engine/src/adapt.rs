//! Adapters: low-rank ones (`LoRA`) in linear layers, as `peft` puts them in, modules that are trained as a whole
//! besides them, and quantised weights below them, as bitsandbytes has them (`QLoRA`).
//!
//! A chosen layer's result becomes `layer(x) + B(A(dropout(x))) · scaling`; `A` and `B` are trained, and nothing else
//! is. Adapters stay in single precision in a model that was converted to a half (`autocast_adapter_dtype`), so that
//! their input is cast up and the sum is cast back. rsLoRA only scales differently.
//! Sources: `peft/tuners/lora/layer.py`; `replace_with_bnb_linear` of transformers. The rules are in
//! [`crate::ops`], the weights' way to the device in [`crate::step`].

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{ALL_LINEAR, Config, Quantize, pattern};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{Attribute, Literal, Node, ValueId};
use crate::recover::{DOMAIN, Program, add_value};
use crate::sentence::Sentence;
use crate::tensor::{DType, TensorType};

/// COUNT: no layer is as wide, and so no adapter of any use.
const RANK_MAX: u64 = 1 << 20;

/// COUNT: names of layers that a message lists.
const LISTED: usize = 12;

/// Names of an adapter's parameters: two matrices, and the vector of `DoRA`.
const LEAVES: [&str; 3] = [".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector.weight"];

/// What the path of a module's trained copy has behind the module's own.
const COPY: &str = ".modules_to_save.default";

/// Puts adapters into the layers that the configuration names, and what goes with them.
///
/// # Errors
/// When a pattern names none that there is, when weights are quantised without adapters, or the rank is absurd.
pub fn adapt(program: &mut Program, config: &Config, sink: &Diagnostics) -> Result<(), Error> {
    let refuse =
        |setting, message: Sentence| Err(Error::new(ErrorKind::BadConfig, message).about(setting));
    if config.lora.is_empty() {
        if config.quantize == Quantize::None {
            return Ok(());
        }
        let message = say!(
            "quantised weights are not trained: choose linear layers for LoRA adapters, such as `all-linear`"
        );
        return refuse("quantize", message);
    }
    if config.lora_rank.get() > RANK_MAX {
        let message = say!(
            "adapters of rank {lora_rank} are larger than any layer",
            lora_rank = config.lora_rank
        );
        return refuse("lora-rank", message);
    }
    let mut nodes = std::mem::take(&mut program.nodes);
    let layers = nodes.iter().enumerate();
    let layers: Vec<(usize, Layer)> =
        layers.filter_map(|(at, node)| Some((at, layer(program, node)?))).collect();
    let head = layers.last().map(|(_, layer)| layer.weight);
    let (mut found, mut others) = (vec![false; config.lora.len()], BTreeSet::new());
    let (mut adapted, mut quantized) = (0_usize, 0_usize);
    let mut made: BTreeMap<ValueId, Vec<ValueId>> = BTreeMap::new();
    for (at, layer) in &layers {
        let is_head = Some(layer.weight) == head;
        let Some(node) = nodes.get_mut(*at) else { continue };
        if config.quantize != Quantize::None && !is_head {
            layer.quantize(program, Arc::make_mut(node), config);
            quantized += 1;
        }
        if !layer.is_wanted(config, is_head, &mut found) {
            others.insert(layer.last().to_owned());
            continue;
        }
        let new = made.entry(layer.weight).or_insert_with(|| layer.parameters(program, config));
        adapt_node(Arc::make_mut(node), new, config);
        adapted += 1;
    }
    program.nodes = nodes;
    if let Some((pattern, _)) = config.lora.iter().zip(found).find(|(_, is_found)| !is_found) {
        let others: Vec<String> = others.into_iter().take(LISTED).collect();
        return refuse("lora", unmatched(pattern, &others));
    }
    save_modules(program, config)?;
    if config.input_require_grads {
        require_grads(program)?;
    }
    sink.push(Diagnostic::new(Severity::Info, "lora", summary(config, adapted, quantized)));
    Ok(())
}

fn unmatched(pattern: &str, others: &[String]) -> Sentence {
    let others = if others.is_empty() { say!("none") } else { Sentence::name(&others.join(", ")) };
    say!(
        "the pattern `{pattern}` matches no linear layer; write a layer's path, or `*` for any \
         text. Other linear layers here: {others}",
        pattern,
        others
    )
}

/// COUNT, COUNT: what became of the linear layers.
fn summary(config: &Config, adapted: usize, quantized: usize) -> Sentence {
    let rank = config.lora_rank;
    match config.quantize {
        Quantize::None => say!(
            "{adapted} linear layers get adapters of rank {rank}; all other parameters are frozen",
            adapted,
            rank
        ),
        kind => say!(
            "{adapted} linear layers get adapters of rank {rank}; the weights of {quantized} are in {type}; all other \
             parameters are frozen",
            adapted,
            rank,
            quantized,
            type = Sentence::of(kind.label())
        ),
    }
}

/// Whether a parameter is a low-rank adapter's.
pub fn is_lora(name: &str) -> bool {
    LEAVES.iter().any(|leaf| name.ends_with(leaf))
}

/// Whether a parameter came with adapters, and is trained.
pub fn is_adapter(name: &str) -> bool {
    is_lora(name) || name.contains(COPY)
}

/// Weights that are quantised on their way to the device.
pub fn quantized_weights(program: &Program) -> BTreeSet<ValueId> {
    let quantized = program.nodes.iter().filter(|node| node.attributes.contains_key("bits"));
    quantized.filter_map(|node| node.input(1)).into_set()
}

/// A linear layer.
struct Layer {
    name: String,
    weight: ValueId,
    inner: u64,
    outer: u64,
}

fn layer(program: &Program, node: &Node) -> Option<Layer> {
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
    Some(Layer { name: name.to_owned(), weight, inner: last(x)?, outer: last(y)? })
}

/// Whether a pattern names a module: `q_proj` names all that are called so, and `to_out.0` all whose paths end so, as
/// `target_modules` does.
fn names(pattern: &str, module: &str) -> bool {
    let ends = module.match_indices('.').filter_map(|(at, _)| module.get(at.saturating_add(1)..));
    std::iter::once(module).chain(ends).any(|end| pattern::matches(pattern, end))
}

impl Layer {
    /// The last part of its name.
    fn last(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// Whether a pattern names it; notes which.
    fn is_wanted(&self, config: &Config, is_head: bool, found: &mut [bool]) -> bool {
        let mut is_wanted = false;
        for (pattern, found) in config.lora.iter().zip(found) {
            let matches = if pattern == ALL_LINEAR { !is_head } else { names(pattern, &self.name) };
            *found |= matches;
            is_wanted |= matches;
        }
        is_wanted
    }

    /// A layer of bitsandbytes takes the place of the node's. A bias is in the type of computation from its first
    /// use on; here it is from the start.
    fn quantize(&self, program: &mut Program, node: &mut Node, config: &Config) {
        let is_whole = config.quantize == Quantize::Int8;
        let compute = config.computes_in();
        let graph = Arc::make_mut(&mut program.graph);
        if let Some(literal) =
            graph.values.get_mut(self.weight.0).and_then(|value| value.initializer.as_mut())
        {
            literal.dims = vec![self.outer, self.inner];
        }
        let types = &mut Arc::make_mut(&mut program.typed).types;
        if let Some(Some(ty)) = types.get_mut(self.weight.0) {
            let dtype = config.converts_to().unwrap_or(compute);
            *ty = TensorType::new(dtype, [self.outer, self.inner]);
        }
        let bias = node.input(2).and_then(|bias| types.get_mut(bias.0));
        if let Some(Some(ty)) = bias.filter(|_| !is_whole) {
            ty.dtype = compute;
        }
        rename(node, "Quantized");
        mark(node, "bits", if is_whole { 8 } else { 4 });
        mark(node, "compute", compute.to_onnx());
        if config.double_quantize {
            mark(node, "double", 1);
        }
    }

    /// An adapter, in its place among the module's parameters.
    fn parameters(&self, program: &mut Program, config: &Config) -> Vec<ValueId> {
        let own = program.typed.ty(self.weight).map(|ty| ty.dtype);
        let dtype = match config.quantize {
            _ if config.gathers_as().is_some() => config.computes_in(),
            Quantize::Nf4 | Quantize::Fp4 => config.computes_in(),
            Quantize::None if config.lora_model_type => own.unwrap_or(DType::Float32),
            _ => DType::Float32,
        };
        let rank = config.lora_rank.get();
        let dims = [&[rank, self.inner][..], &[self.outer, rank], &[self.outer]];
        let leaves = LEAVES.iter().zip(dims).take(if config.dora { 3 } else { 2 });
        let new = leaves.map(|(leaf, dims)| {
            state(program, format!("{}{leaf}", self.name), TensorType::new(dtype, dims))
        });
        let new: Vec<ValueId> = new.collect();
        let name = self.name.clone();
        let weight = self.weight;
        let own = move |program: &Program, id: ValueId| {
            let rest = program.graph.value_name(id).strip_prefix(&name);
            id == weight || rest == Some(".bias")
        };
        place(program, &new, config, &own);
        new
    }
}

/// A layer's node gets an adapter.
fn adapt_node(node: &mut Node, adapter: &[ValueId], config: &Config) {
    node.inputs.resize(3, None);
    node.inputs.extend(adapter.iter().copied().map(Some));
    node.attributes.insert("base".to_owned(), Attribute::String(node.op.clone()));
    rename(node, "Adapted");
    if config.lora_dropout {
        mark(node, "dropout", 1);
    }
}

fn rename(node: &mut Node, op: &str) {
    op.clone_into(&mut node.op);
    DOMAIN.clone_into(&mut node.domain);
}

fn mark(node: &mut Node, name: &str, value: i64) {
    node.attributes.insert(name.to_owned(), Attribute::Int(value));
}

/// A new parameter.
fn state(program: &mut Program, name: String, ty: TensorType) -> ValueId {
    let literal = Literal { dtype: ty.dtype, dims: ty.dims.to_vec(), elements: None };
    add_value(&mut program.graph, &mut program.typed, name, ty, Some(literal))
}

/// Puts parameters behind those of their module; a quantised model is on the device before they are made.
fn place(
    program: &mut Program,
    new: &[ValueId],
    config: &Config,
    own: &dyn Fn(&Program, ValueId) -> bool,
) {
    let behind = |order: &[ValueId]| {
        order.iter().rposition(|&id| own(program, id)).map_or(order.len(), |at| at + 1)
    };
    let at = behind(&program.placement);
    let is_late = config.quantize != Quantize::None;
    let on_device = if is_late { program.to_device.len() } else { behind(&program.to_device) };
    program.placement.splice(at..at, new.iter().copied());
    program.to_device.splice(on_device..on_device, new.iter().copied());
}

/// Chosen modules are there twice: their own parameters, frozen, and a copy that runs and is trained.
fn save_modules(program: &mut Program, config: &Config) -> Result<(), Error> {
    for pattern in &config.modules_to_save {
        let own: Vec<ValueId> = program.placement.clone();
        let mut copies = 0_usize;
        for id in own {
            let name = program.graph.value_name(id);
            let Some((module, leaf)) = name.rsplit_once('.') else { continue };
            if is_adapter(name) || !names(pattern, module) {
                continue;
            }
            let name = format!("{module}{COPY}.{leaf}");
            let Some(ty) = program.typed.ty(id).filter(|ty| ty.dtype.is_floating()).cloned() else {
                continue;
            };
            let copy = state(program, name, ty);
            for node in &mut program.nodes {
                if node.inputs.contains(&Some(id)) {
                    let inputs = Arc::make_mut(node).inputs.iter_mut();
                    inputs
                        .filter(|input| **input == Some(id))
                        .for_each(|input| *input = Some(copy));
                }
            }
            let idle = &mut Arc::make_mut(&mut program.graph).idle;
            idle.push(id);
            idle.sort_unstable();
            place(program, &[copy], config, &|_, other| other == id);
            copies += 1;
        }
        if copies == 0 {
            let message =
                say!("the pattern `{pattern}` matches no module with parameters", pattern);
            return Err(Error::new(ErrorKind::BadConfig, message).about("modules-to-save"));
        }
    }
    Ok(())
}

/// The result of the input embeddings, the first table that is looked up, requires a gradient.
fn require_grads(program: &mut Program) -> Result<(), Error> {
    let is_table = |node: &Arc<Node>| {
        let table = node.input(0).filter(|_| node.op == "Gather");
        table.and_then(|table| program.graph.value(table)).is_some_and(|v| v.initializer.is_some())
    };
    let Some(at) = program.nodes.iter().position(is_table) else {
        let message = say!("there are no input embeddings whose result could require a gradient");
        return Err(Error::new(ErrorKind::BadConfig, message).about("input-require-grads"));
    };
    let Some(node) = program.nodes.get_mut(at) else { return Ok(()) };
    let module = node.module.clone();
    let Some(y) = node.output(0) else { return Ok(()) };
    let Some(ty) = program.typed.ty(y).cloned() else { return Ok(()) };
    let before =
        add_value(&mut program.graph, &mut program.typed, "embeddings".to_owned(), ty, None);
    let outputs = program.nodes.get_mut(at).map(|node| &mut Arc::make_mut(node).outputs);
    outputs.into_iter().flatten().filter(|it| **it == Some(y)).for_each(|it| *it = Some(before));
    let required = Node {
        name: "embeddings".to_owned(),
        op: "RequireGrad".to_owned(),
        domain: DOMAIN.to_owned(),
        inputs: vec![Some(before)],
        outputs: vec![Some(y)],
        module,
        ..Node::default()
    };
    program.nodes.insert(at + 1, Arc::new(required));
    Ok(())
}
