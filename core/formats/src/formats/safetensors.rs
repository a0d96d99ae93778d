//! Safetensors → [`Graph`]: tensors with names, types and sizes, and no program
//! (<https://huggingface.co/docs/safetensors/index#format>).
//!
//! | file | contents |
//! |---|---|
//! | `model.safetensors` | eight bytes with the size of the header, then the header: every tensor |
//! | `model.safetensors.index.json` | names of the tensors of all shards, and the bytes of all together |
//!
//! Names and sizes identify a known family of transformers, and then the program is that family's. For all other
//! files the estimate covers only the training state of these tensors (`states`). Activations are unknown, and a
//! diagnostic reports this as an error: the answer is a lower bound. Which tensors are trained is recognised by
//! type and name.

use crate::order::{InOrder as _, IntoOrdered as _};
use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::hf_config::named::Clues;
use super::states::{self, State};
use super::{Fidelity, hf_config};
use crate::config::Config;
use crate::diagnostic::{Diagnostic, QUANTIZED_WEIGHTS, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::Graph;
use crate::sentence::Sentence;
use crate::source::Source;
use crate::tensor::{DType, numel};

/// SIZE: bytes of a header at most, as in the reference implementation.
const HEADER_MAX: u64 = 100_000_000;
/// COUNT: tensors at most.
const TENSORS_MAX: usize = 1 << 20;

/// Last parts of the names of floating-point state that is not trained.
const BUFFERS: [&str; 11] = [
    "running_mean",
    "running_var",
    "inv_freq",
    "original_inv_freq",
    "cos_cached",
    "sin_cached",
    "freqs_cis",
    "masked_bias",
    "relative_coords_table",
    "logit_scale_buffer",
    "final_logits_bias",
];

/// A tensor of the file.
#[derive(Debug)]
struct Tensor<'j> {
    name: &'j str,
    dtype: DType,
    dims: Vec<u64>,
    /// Whether it is a quantized weight, or comes with one.
    is_frozen: bool,
}

impl Tensor<'_> {
    /// Whether it is a parameter: floating-point, and no statistic, table or mask.
    fn is_trained(&self) -> bool {
        // GPT-2's old files have its causal masks: `h.0.attn.bias`, `[1, 1, L, L]`.
        let is_mask = self.name.rsplit('.').next() == Some("bias") && self.dims.len() == 4;
        self.dtype.is_floating() && !self.is_frozen && !is_buffer_name(self.name) && !is_mask
    }
}

/// Whether a file begins as one with a header does.
pub fn begins(head: &[u8], file_size: u64) -> bool {
    head.first_chunk().is_some_and(|size| u64::from_le_bytes(*size) < file_size)
        && head.get(8) == Some(&b'{')
}

/// Reads the header of one file: the program, how it is trained where nobody says, and how much of it
/// the file states.
///
/// # Errors
/// When the header is too long, is not the JSON that it should be, or contradicts itself.
pub fn read(source: &mut dyn Source) -> Result<(Graph, Config, Fidelity), Error> {
    let mut size = [0; 8];
    source.read_at(0, &mut size)?;
    let size = u64::from_le_bytes(size);
    let behind = source.len().saturating_sub(8);
    if size > HEADER_MAX {
        let message = say!(
            "the safetensors header has {size} bytes, more than {header_max}",
            size,
            header_max = HEADER_MAX
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let mut header = vec![0; usize::try_from(size.min(behind)).unwrap_or(0)];
    source.read_at(8, &mut header)?;
    let header = object(&say!("the safetensors header"), &header)?;
    let mut tensors = Vec::new();
    let mut end_of_data = 0;
    for (name, entry) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let (begin, end, tensor) = tensor(name, entry)?;
        let bytes = tensor.dtype.size().times(numel(&tensor.dims)).0;
        if end.checked_sub(begin) != Some(bytes) {
            return Err(invalid(
                name,
                &say!("lies in {begin}..{end} and has {bytes} bytes", begin, end, bytes),
            ));
        }
        end_of_data = end.max(end_of_data);
        tensors.push((begin, end, tensor));
    }
    tensors.order_by_key(|(begin, _, tensor)| (*begin, tensor.name));
    for pair in tensors.windows(2) {
        if let [(_, end, before), (begin, _, tensor)] = pair
            && begin < end
        {
            let what = say!("begins at {begin}, inside of `{other}`", begin, other = before.name);
            return Err(invalid(tensor.name, &what));
        }
    }
    let mut tensors: Vec<Tensor<'_>> = tensors.into_iter().map(|(.., tensor)| tensor).collect();
    let quantized = freeze_quantized(&mut tensors);
    let is_small = tensors.len() <= TENSORS_MAX;
    let family = if is_small { hf_config::named::program(&named(&tensors))? } else { None };
    let (mut graph, config, fidelity) = match family {
        Some((graph, config)) => (graph, config, Fidelity::Template),
        None => (states(tensors)?, Config::default(), Fidelity::StatesOnly),
    };
    "safetensors".clone_into(&mut graph.producer);
    if let Some(first) = quantized {
        let message = say!(
            "the weights are quantized (`{first}` is in integers or eight bits): they are counted as they are, with their \
             scales, and do not train; open the model before it is quantized for an answer about training",
            first
        );
        graph.diagnostics.push(Diagnostic::new(Severity::Error, QUANTIZED_WEIGHTS, message));
    }
    if behind.saturating_sub(size) < end_of_data {
        let message = say!(
            "the file ends before its tensors do; its header is whole, and nothing else is \
                       read"
        );
        graph.diagnostics.push(Diagnostic::new(Severity::Warning, "cut-off", message));
    }
    Ok((graph, config, fidelity))
}

/// Last parts of the names of what quantized weights come with: of MLX, GPTQ and AWQ, bitsandbytes, compressed-tensors,
/// 8-bit floats.
const OF_QUANTIZED: [&str; 12] = [
    "absmax",
    "biases",
    "input_scale",
    "nested_absmax",
    "nested_quant_map",
    "quant_map",
    "scale",
    "scales",
    "weight_global_scale",
    "weight_scale",
    "weight_scale_inv",
    "weight_zero_point",
];

/// Marks what belongs to quantized weights as not trained; the first of these weights.
fn freeze_quantized<'j>(tensors: &mut [Tensor<'j>]) -> Option<&'j str> {
    const WEIGHTS: [&str; 3] = ["weight", "qweight", "weight_packed"];
    let is_narrow = |tensor: &Tensor<'_>| {
        let is_scalar = tensor.dims.iter().all(|&size| size == 1);
        !is_scalar && (!tensor.dtype.is_floating() || tensor.dtype == DType::Float8)
    };
    let owner = |name: &'j str| name.rsplit_once('.').unwrap_or(("", name));
    let weights: BTreeMap<&str, &str> = tensors
        .iter()
        .filter(|tensor| is_narrow(tensor) && WEIGHTS.contains(&owner(tensor.name).1))
        .map(|tensor| (owner(tensor.name).0, tensor.name))
        .into_map();
    let mut first = None;
    for tensor in tensors {
        let (module, leaf) = owner(tensor.name);
        // bitsandbytes puts its own behind the weight's name.
        let module = module.strip_suffix(".weight").unwrap_or(module);
        let of = OF_QUANTIZED.contains(&leaf) || is_narrow(tensor) && WEIGHTS.contains(&leaf);
        if let Some(weight) = weights.get(module).filter(|_| of) {
            tensor.is_frozen = true;
            first = first.or(Some(*weight));
        }
    }
    first
}

/// What is trained, by name.
fn named(tensors: &[Tensor<'_>]) -> Clues {
    let trained = tensors.iter().filter(|tensor| tensor.is_trained());
    let named = |tensor: &Tensor<'_>| (tensor.name.to_owned(), tensor.dims.clone());
    let parameters = trained.clone().map(named).into_map();
    let all = |dtype| trained.clone().all(|tensor| tensor.dtype == dtype);
    let dtype = match () {
        () if all(DType::BFloat16) => Some("bfloat16"),
        () if all(DType::Float16) => Some("float16"),
        () => None,
    };
    Clues { parameters, dtype, ..Clues::default() }
}

/// Whether a text is the index of a model in several files.
pub fn is_index(head: &str) -> bool {
    head.trim_start().starts_with('{') && head.contains("\"weight_map\"")
}

/// Reads the index of a model in several files.
///
/// # Errors
/// When it is too long, is not the JSON that it should be, or does not say how large all tensors are.
pub fn read_index(source: &mut dyn Source) -> Result<Graph, Error> {
    let size = source.len();
    if size > HEADER_MAX {
        let message = say!(
            "the index has {size} bytes, more than {header_max}",
            size,
            header_max = HEADER_MAX
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    source.read_at(0, &mut bytes)?;
    let index = object(&say!("the index of safetensors files"), &bytes)?;
    let Some(names) = index.get("weight_map").and_then(Json::as_object) else {
        return Err(missing("weight_map"));
    };
    let metadata = |key: &str| index.get("metadata")?.get(key)?.as_f64();
    // Some writers give a whole number a point.
    let whole = |x: f64| format!("{x:.0}").parse::<u64>().ok();
    let total =
        metadata("total_size").and_then(whole).ok_or_else(|| missing("metadata.total_size"))?;
    let numbers = metadata("total_parameters").and_then(whole);
    let dtype = match numbers.and_then(|numbers| total.checked_div(numbers)) {
        Some(4) => DType::Float32,
        Some(1) => DType::Float8,
        _ => DType::BFloat16,
    };
    let trained: Vec<&str> =
        names.keys().map(String::as_str).filter(|name| !is_buffer_name(name)).collect();
    let count = u64::try_from(trained.len()).unwrap_or(u64::MAX).max(1);
    let elements = numbers.unwrap_or_else(|| total.checked_div(dtype.size().0).unwrap_or(0));
    let each = elements.checked_div(count).unwrap_or(0);
    let rest = elements.checked_rem(count).unwrap_or(0);
    let tensors = trained.iter().zip(0..).map(|(name, at): (_, u64)| Tensor {
        name,
        dtype,
        dims: vec![if at == 0 { each.saturating_add(rest) } else { each }],
        is_frozen: false,
    });
    let mut graph = states(tensors.collect())?;
    "safetensors index".clone_into(&mut graph.producer);
    let files = names.values().filter_map(Json::as_str).into_set();
    let message = say!(
        "the index names {n} tensors in {files} files and their bytes together, no sizes: {total} bytes are \
         divided among them evenly, as {dtype}; a single file with all tensors has the size of each",
        n = trained.len(),
        files = files.len(),
        total,
        dtype
    );
    graph.diagnostics.push(Diagnostic::new(Severity::Warning, "sizes-unknown", message));
    Ok(graph)
}

/// A program of nothing but state.
fn states(tensors: Vec<Tensor<'_>>) -> Result<Graph, Error> {
    if tensors.len() > TENSORS_MAX {
        let message = say!(
            "the file has {n} tensors, more than {tensors_max}",
            n = tensors.len(),
            tensors_max = TENSORS_MAX
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let state = |tensor: Tensor<'_>| State {
        is_trained: tensor.is_trained(),
        name: tensor.name.to_owned(),
        dtype: tensor.dtype,
        dims: tensor.dims,
    };
    let states: Vec<State> = tensors.into_iter().map(state).collect();
    let parameters = states.iter().filter(|state| state.is_trained).count();
    let buffers = states.len().saturating_sub(parameters);
    let mut graph = states::program(states)?;
    let message = say!(
        "the file has tensors and no program: counted are {parameters} parameters, their gradients and \
         the optimizer's state, and {buffers} buffers; activations are not, so a training run takes \
         more, most often much more. For all of it open the model's graph: \
         `torch.export.save(torch.export.export(model.train(), args), \"model.pt2\")`, or ONNX",
        parameters,
        buffers
    );
    graph.diagnostics.push(Diagnostic::new(Severity::Error, "states-only", message));
    Ok(graph)
}

fn is_buffer_name(name: &str) -> bool {
    let leaf = name.rsplit('.').next().unwrap_or(name);
    BUFFERS.contains(&leaf) || matches!(leaf, "num_batches_tracked" | "position_ids")
}

/// Where a tensor lies, and what it is.
fn tensor<'j>(name: &'j str, entry: &Json) -> Result<(u64, u64, Tensor<'j>), Error> {
    let text = entry.get("dtype").and_then(Json::as_str);
    let text = text.ok_or_else(|| invalid(name, &say!("has no `dtype`")))?;
    let dtype = dtype(text)
        .ok_or_else(|| invalid(name, &say!("is of type `{text}`, which is not supported", text)))?;
    let list = |key: &str| -> Option<Vec<u64>> {
        entry.get(key)?.as_array()?.iter().map(Json::as_u64).collect()
    };
    let dims =
        list("shape").ok_or_else(|| invalid(name, &say!("has no `shape` of whole numbers")))?;
    match list("data_offsets").as_deref() {
        Some(&[begin, end]) => Ok((begin, end, Tensor { name, dtype, dims, is_frozen: false })),
        _ => Err(invalid(name, &say!("has no `data_offsets` of two numbers"))),
    }
}

/// Names of `safetensors::Dtype`.
fn dtype(text: &str) -> Option<DType> {
    Some(match text {
        "F64" => DType::Float64,
        "F32" => DType::Float32,
        "F16" => DType::Float16,
        "BF16" => DType::BFloat16,
        "F8_E4M3" | "F8_E5M2" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => DType::Float8,
        "I64" => DType::Int64,
        "I32" => DType::Int32,
        "I16" => DType::Int16,
        "I8" => DType::Int8,
        "U64" => DType::UInt64,
        "U32" => DType::UInt32,
        "U16" => DType::UInt16,
        "U8" => DType::UInt8,
        "BOOL" => DType::Bool,
        "C64" => DType::Complex64,
        _ => return None,
    })
}

fn object(what: &Sentence, bytes: &[u8]) -> Result<Map<String, Json>, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let message = say!("{what} is not the JSON that it should be: {error}", what, error);
        Error::new(ErrorKind::Corrupt, message)
    })
}

fn invalid(name: &str, what: &Sentence) -> Error {
    Error::new(ErrorKind::InvalidGraph, say!("the tensor `{name}` {what}", name, what))
}

fn missing(key: &str) -> Error {
    let message = say!(
        "`{key}` is missing in the index of safetensors files; open one of the files, or all tensors \
         in one",
        key
    );
    Error::new(ErrorKind::InvalidGraph, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this header, and the answer: members, or the error.
    #[track_caller]
    fn check(header: &str, expected: &str) {
        let mut file = u64::try_from(header.len()).unwrap().to_le_bytes().to_vec();
        file.extend(header.bytes());
        let found = match read(&mut file.as_slice()) {
            Ok((graph, ..)) => {
                let members = graph.members.iter().map(|(name, kind)| format!("{name}:{kind:?}"));
                members.collect::<Vec<_>>().join(" ")
            }
            Err(error) => format!("error: {error}"),
        };
        assert!(found.starts_with(expected), "{found}");
    }

    #[test]
    fn headers_are_parameters_and_buffers() {
        for (header, expected) in [
            (
                r#"{"__metadata__":{"format":"pt"},
                "b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},
                "bn.running_mean":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                "ids":{"dtype":"I64","shape":[],"data_offsets":[28,36]}}"#,
                "b:Parameter bn.running_mean:Buffer ids:Buffer",
            ),
            ("{}", "error: the file has no floating-point tensor"),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#,
                "error: the tensor `a` lies in 0..4 and has 8 bytes",
            ),
            (
                r#"{"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,4]}}"#,
                "error: the tensor `a` is of type `Q4`",
            ),
            (
                r#"{"a":{"dtype":"F32","data_offsets":[0,4]}}"#,
                "error: the tensor `a` has no `shape`",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                "error: the tensor `b` begins at 4, inside of `a`",
            ),
            (
                r#"{"l.weight":{"dtype":"U32","shape":[2],"data_offsets":[0,8]},
                "l.scales":{"dtype":"F16","shape":[2],"data_offsets":[8,12]},
                "l.biases":{"dtype":"F16","shape":[2],"data_offsets":[12,16]},
                "n.weight":{"dtype":"F16","shape":[2],"data_offsets":[16,20]}}"#,
                "n.weight:Parameter l.weight:Buffer l.scales:Buffer l.biases:Buffer",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[9,1]}}"#,
                "error: the tensor `a` lies in 9..1",
            ),
            ("{\"a\":", "error: the safetensors header is not the JSON"),
        ] {
            check(header, expected);
        }
    }

    #[test]
    fn an_index_tells_bytes_and_names() {
        let index = r#"{"metadata":{"total_size":24,"total_parameters":6},
            "weight_map":{"a":"1","b":"2","x.num_batches_tracked":"2"}}"#;
        let graph = read_index(&mut index.as_bytes()).unwrap();
        let dims = graph.values.iter().filter_map(|value| value.initializer.as_ref());
        let dims: Vec<_> = dims.map(|literal| (literal.dtype, literal.dims.clone())).collect();
        assert_eq!(dims, [(DType::Float32, vec![3]), (DType::Float32, vec![3])]);
        let error = read_index(&mut r#"{"weight_map":{"a":"1"}}"#.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("`metadata.total_size` is missing"), "{error}");
    }
}
