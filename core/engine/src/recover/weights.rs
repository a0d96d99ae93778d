//! Weights that constant folding changed: matrices laid out for the product, copies of shared ones.
//!
//! `nn.Linear` keeps `[out, in]` and multiplies by the transpose. For more than two dimensions exporters write
//! `MatMul`, and folding stores the transpose under a generated name (`onnx::MatMul_1554`, `val_51`). A weight
//! that an embedding shares with the model's last product becomes two tensors that way. Tensors that scale or
//! shift channels (a layer scale, the affine part of a decomposed normalisation) are stored in the shape in which
//! they are read (`gamma.reshape(1, -1, 1, 1)`), also under a generated name.

use std::collections::BTreeMap;

use super::patterns::torch;
use super::{View, is_within};
use crate::config::Config;
use crate::diagnostic::Severity;
use crate::graph::{Attribute, Member, Node, NodeId, ValueId};
use crate::tensor::numel;

/// Gives names of the module's state to what folding took from it for scaling and shifting channels.
///
/// Taken for trained is what has one dimension other than 1 and meets a value that follows from
/// trained tensors: of a file without a signature that is likely, since other constants of this form,
/// such as frequencies, meet positions. Where a signature lists the module's parameters, one of them
/// has to be missing from the file.
pub(super) fn name_folded(view: &mut View<'_>, _: &Config) {
    let folded: Vec<(Vec<ValueId>, NodeId)> =
        view.nodes().filter_map(|(at, node)| Some((folded_operand(view, node)?, at))).collect();
    let mut count = 0_usize;
    let parameters = if folded.is_empty() { BTreeMap::new() } else { parameters_of_modules(view) };
    for (computed, at) in folded {
        let (Some(node), Some(&value)) = (view.node(at), computed.last()) else { continue };
        let is_missing = |name: &&String| !view.is_initializer_named(name);
        let own = || parameters.get(&node.module)?.iter().find(is_missing).cloned();
        // `F.linear` with a bias that was computed: of a module inside.
        let is_bias = node.origin.as_ref().is_some_and(|o| o.aten.starts_with("aten.linear."));
        let inside = || {
            let modules = parameters
                .iter()
                .filter(|(module, _)| **module != node.module && is_within(module, &node.module));
            let mut names = modules.flat_map(|(_, names)| names);
            names.find(|name| name.rsplit('.').next() == Some("bias") && is_missing(name)).cloned()
        };
        let name = match view.graph().members.is_empty() {
            true => Some(leaf_of(node)),
            false if is_bias => inside().or_else(own),
            false => own(),
        };
        if let Some(name) = name {
            view.take_for_state(value, &name);
            for value in computed {
                view.forget_elements(value);
            }
            count = count.saturating_add(1);
        }
    }
    if count > 0 {
        let message = say!(
            "{count} tensors that scale or shift channels, which the exporter stored anew without \
             their names, are assumed to be trained",
            count
        );
        view.say(Severity::Info, "recovered-parameters", message);
    }
}

/// The parameters that a signature lists, by the module that owns them, in its order.
fn parameters_of_modules(view: &View<'_>) -> BTreeMap<String, Vec<String>> {
    let mut owned: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, _) in view.graph().members.iter().filter(|(_, kind)| *kind == Member::Parameter) {
        let (owner, _) = name.rsplit_once('.').unwrap_or(("", name));
        owned.entry(owner.to_owned()).or_default().push(name.clone());
    }
    owned
}

/// The operand that folding made, where the other one follows from trained tensors: last, behind what functions
/// of one tensor make of it.
fn folded_operand(view: &View<'_>, node: &Node) -> Option<Vec<ValueId>> {
    if !matches!(node.op.as_str(), "Mul" | "Add") || !node.domain.is_empty() {
        return None;
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    let is_vector = |value: ValueId| {
        let ty = view.typed.ty(value);
        is_unnamed(view, value)
            && ty.is_some_and(|ty| {
                ty.dtype.is_floating() && ty.dims.iter().filter(|&&size| size != 1).count() == 1
            })
    };
    let operands = [(a, b), (b, a)].map(|(value, other)| (functions_of(view, value), other));
    let is_folded = |computed: &[ValueId]| computed.last().is_some_and(|&value| is_vector(value));
    let (folded, other) = operands.into_iter().find(|(computed, _)| is_folded(computed))?;
    (!view.is_initializer(other) && view.depends_on_floats(other)).then_some(folded)
}

/// A value, and what functions of one tensor made it of: the scale of cosine attention is
/// `clamp(logit_scale, max=…).exp()`.
fn functions_of(view: &View<'_>, value: ValueId) -> Vec<ValueId> {
    let mut computed = vec![value];
    while let Some(node) = computed.last().and_then(|&value| view.producer(value))
        && matches!(node.op.as_str(), "Clip" | "Exp")
        && let Some(input) = node.input(0)
    {
        computed.push(input);
    }
    computed
}

/// What a parameter that such a node reads may be called.
fn leaf_of(node: &Node) -> String {
    let leaf = if node.op == "Add" { "bias" } else { "weight" };
    if node.module.is_empty() { leaf.to_owned() } else { format!("{}.{leaf}", node.module) }
}

/// Whether constant folding of either exporter may have made this tensor.
pub(super) fn is_unnamed(view: &View<'_>, value: ValueId) -> bool {
    if view.graph().members.is_empty() {
        return is_folded(view, value);
    }
    view.is_initializer(value) && view.member(view.graph().value_name(value)).is_none()
}

/// Whether constant folding of the TorchScript exporter made this tensor: it is named after the
/// operator that reads it.
pub(super) fn is_folded(view: &View<'_>, value: ValueId) -> bool {
    let name = view.graph().value_name(value);
    let number = name.strip_prefix("onnx::").and_then(|name| name.rsplit_once('_'));
    let number = number.map_or(name, |(_, number)| number);
    view.is_initializer(value) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lets the head read the token embedding again, where its weight is a copy of it.
///
/// The dynamo exporter keeps what is shared. Of a TorchScript file nothing but the sizes tells, so
/// what is usual for the family decides, and is said.
pub(super) fn tie_heads(view: &mut View<'_>, _: &Config) {
    if !view.graph().members.is_empty() {
        return;
    }
    let Some((at, table)) = head(view) else { return };
    let Some(node) = view.node(at) else { return };
    let (shares, severity) = shares_by_default(view, node, table);
    let taken = if shares { say!("the same tensor") } else { say!("two tensors") };
    let more_or_less = if shares { say!("more") } else { say!("fewer") };
    let message = say!(
        "the weight of `{module}` and `{table}` are assumed to be {taken}, as is usual for such a model; the \
         exporter stores a transposed copy either way. If that is wrong, {numel} parameters {more_or_less} \
         are trained: export with `do_constant_folding=False`, which keeps the difference",
        module = node.module,
        table = view.graph().value_name(table),
        taken,
        numel = view.dims(table).map_or(0, numel),
        more_or_less
    );
    if shares {
        let linear = linear(node, node.input(0), table);
        view.replace(at, linear);
    }
    view.say(severity, "assumed-tied-weights", message);
}

/// The last product, where its weight has the transposed shape of an embedding table.
fn head(view: &View<'_>) -> Option<(NodeId, ValueId)> {
    let is_product = |node: &Node| {
        node.op == "MatMul" && node.input(1).is_some_and(|weight| is_made_up(view, weight))
    };
    let (at, head) = view.nodes().filter(|(_, node)| is_product(node)).last()?;
    let &[width, words] = view.dims(head.input(1)?)? else { return None };
    let is_table = |node: &Node| {
        let table = node.input(0).filter(|&table| view.is_initializer(table))?;
        (node.op == "Gather" && view.dims(table)? == [words, width]).then_some(table)
    };
    Some((at, view.nodes().find_map(|(_, node)| is_table(node))?))
}

/// Whether models of this kind share the table with the head.
///
/// - GPT-NeoX Japanese (`gpt_neox_japanese.embed_in`) does.
/// - GPT-NeoX (`embed_in`), GPT-J, `CodeGen` and Phi (a causal head with a bias) do not.
/// - Models built as Llama (`model.embed_tokens` and `layers.0.input_layernorm`: also Mistral, Qwen,
///   Gemma) do where the table is a large part of them: of the published ones, those where it is at
///   least one in eleven parameters (Llama 3.2 1B and 3B, Qwen 2.5 to 3B, Qwen 3 to 4B, Gemma), not
///   the others (Llama 7B and 8B, Mistral 7B, Qwen from 7B).
/// - All others do: `tie_word_embeddings` is on in transformers' `PretrainedConfig`.
///
/// A warning where models of one form differ in it, or nothing is known of them.
fn shares_by_default(view: &View<'_>, head: &Node, table: ValueId) -> (bool, Severity) {
    const LEAST_PART: u64 = 11;
    /// Tables of families all of which share: GPT-2 and Neo, BERT and those built as it, T5 and BART,
    /// OPT, Whisper.
    const SHARED: [&str; 5] =
        ["wte", "word_embeddings", "shared", "decoder.embed_tokens", "encoder.embed_tokens"];
    let name = view.graph().value_name(table);
    let is_causal = head.module.rsplit('.').next() == Some("lm_head");
    let has_bias = view.is_initializer_named(&format!("{}.bias", head.module));
    if name.contains("gpt_neox_japanese.") {
        return (true, Severity::Info);
    }
    if name.contains("embed_in") || is_causal && has_bias {
        return (false, Severity::Info);
    }
    let like_llama = name.replace("embed_tokens", "layers.0.input_layernorm");
    if like_llama != name && view.is_initializer_named(&like_llama) {
        let carried = view.graph().values.iter().filter_map(|value| value.initializer.as_ref());
        let floats = carried.filter(|literal| literal.dtype.is_floating());
        let all = floats.fold(0_u64, |sum, literal| sum.saturating_add(numel(&literal.dims)));
        let words = view.dims(table).map_or(0, numel);
        let shares = words.saturating_mul(LEAST_PART) >= all.saturating_sub(words);
        return (shares, Severity::Warning);
    }
    let is_known = SHARED.iter().any(|table| name.ends_with(&format!("{table}.weight")));
    // Of those who write such a model by hand, some share the table and some do not.
    let by_hand = name.strip_suffix("wte.weight").is_some_and(|path| {
        let has = |known: &&str| view.is_initializer_named(&format!("{path}{known}"));
        !["h.0.attn.c_attn.weight", "h.0.attn.attention.out_proj.bias"].iter().any(has)
    });
    let is_known = is_known && !by_hand;
    (true, if is_known { Severity::Info } else { Severity::Warning })
}

/// Makes `linear` of products with folded transposes, and turns their weights back.
pub(super) fn turn_back(view: &mut View<'_>, _: &Config) {
    let products: Vec<NodeId> =
        view.nodes().filter(|(_, node)| reads_transpose(view, node)).map(|(at, _)| at).collect();
    for at in products {
        let Some(node) = view.node(at) else { continue };
        let Some(weight) = node.input(1) else { continue };
        let linear = linear(node, node.input(0), weight);
        let module = linear.module.clone();
        if let Some(&[inner, outer]) = view.dims(weight)
            && is_made_up(view, weight)
        {
            view.reshape_state(weight, &[outer, inner]);
            let packed = format!("{module}.in_proj_weight");
            let is_packed = view.member(&packed).is_some();
            let name = if is_packed { packed } else { format!("{module}.weight") };
            if !module.is_empty() {
                view.rename_free(weight, &name);
            }
        }
        view.replace(at, linear);
    }
}

fn reads_transpose(view: &View<'_>, node: &Node) -> bool {
    let Some(weight) = node.input(1) else { return false };
    let multiplies = |at: &NodeId| {
        let is_weight = |reader: &Node| {
            reader.op == "MatMul" && reader.domain.is_empty() && reader.input(1) == Some(weight)
        };
        view.node(*at).is_some_and(is_weight)
    };
    node.op == "MatMul"
        && node.domain.is_empty()
        && is_made_up(view, weight)
        && view.dims(weight).is_some_and(|dims| dims.len() == 2)
        && view.readers(weight).iter().all(multiplies)
}

/// Whether the exporter made this tensor of the module's state, and named it itself.
pub(super) fn is_made_up(view: &View<'_>, value: ValueId) -> bool {
    let name = view.graph().value_name(value);
    let number = ["onnx::MatMul_", "val_"].iter().find_map(|start| name.strip_prefix(start));
    view.is_initializer(value) && number.unwrap_or(name).bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn linear(like: &Node, x: Option<ValueId>, weight: ValueId) -> Node {
    let mut linear = torch("Linear", like, vec![x, Some(weight)]);
    linear.attributes.insert("transposed".to_owned(), Attribute::Int(1));
    linear
}
