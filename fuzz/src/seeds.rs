//! Inputs to begin with, from `tests/fixtures`, made small: an execution should take microseconds.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::read::GzDecoder;
use highwater_core::recorded::{self, MemorySnapshot};
use serde_json::{Value, json};

/// The folder of fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

/// A fixture, unpacked where its name ends in `.gz`.
///
/// # Panics
/// When there is no such fixture.
pub fn read(name: &str) -> Vec<u8> {
    let bytes = fs::read(fixtures().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    if !bytes.starts_with(b"\x1f\x8b") {
        return bytes;
    }
    let mut plain = Vec::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut plain)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    plain
}

/// The fixtures of a folder whose names end so, of at most this size, in the order of their names.
pub fn folder(folder: &str, ending: &str, most: usize) -> Vec<Vec<u8>> {
    let files = fs::read_dir(fixtures().join(folder)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(ending));
    names.sort();
    let contents = names.iter().map(|name| read(&format!("{folder}/{name}")));
    contents.filter(|bytes| bytes.len() <= most).collect()
}

/// ONNX: the node cases, and small models.
pub(crate) fn onnx() -> Vec<Vec<u8>> {
    let mut seeds = folder("robustness", ".onnx", 20_000);
    seeds.extend(folder("models/train", ".onnx", 10_000));
    seeds.extend(folder("models/eval", ".onnx", 25_000));
    let pack = read("onnx-cases.gz");
    let mut rest = pack.as_slice();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let case: Value = serde_json::from_slice(&rest[..end]).unwrap_or_default();
        let size = case["size"].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let (model, behind) = rest[end + 1..].split_at(size);
        if size < 4000 {
            seeds.push(model.to_vec());
        }
        rest = behind;
    }
    seeds
}

/// ONNX text: one of each construct, and a model.
pub(crate) fn onnx_text() -> Vec<Vec<u8>> {
    let small = r#"<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
mlp (float[N,784] x, float16[N,C,"H w"] z) => (float[N,10] y)
<float[784,256] w1, float[256] b1, float[2] c = {1, 2.5}, int64[1] s = {-1}>
{ h = Gemm <alpha: float = 1.0, transB = 0> (x, w1, b1)
  [node] r = local.f <a = [1, 2], b = "t", c = ["u", "v"]> (h)
  k = Constant <value = float[2,2] {1, 2, 3, 4}> ()
  i = If (r) <then_branch = g () => (float[N] t) { t = Relu(r) }, else_branch = e () => (float[N] u) { u = Neg(r) }>
  y = Relu (i) }
<domain: "local", opset_import: ["" : 17]>
f <a, b: int = 1> (p) => (q) { q = Add(p, p) }
"#;
    let mut seeds = vec![small.as_bytes().to_vec()];
    seeds.extend(folder("models/text", ".onnxtxt", 20_000));
    seeds
}

/// Layer specs.
pub(crate) fn spec() -> Vec<Vec<u8>> {
    let mut seeds = folder("spec", ".yaml", 3000);
    seeds.extend(folder("robustness", ".yaml", 3000));
    seeds
}

/// Configurations, of one layer.
pub(crate) fn configurations() -> Vec<Vec<u8>> {
    let mut seeds = folder("hf_config", ".json", 3000);
    seeds.extend(folder("robustness", ".json", 3000));
    seeds.iter().map(|seed| shallow(seed)).collect()
}

fn shallow(seed: &[u8]) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(seed).unwrap_or_default();
    few_layers(&mut value);
    serde_json::to_vec(&value).unwrap_or_default()
}

/// One layer instead of more.
pub(crate) fn few_layers(value: &mut Value) {
    let Value::Object(fields) = value else { return };
    for (key, value) in fields {
        let is_depth = key.contains("layer") && !key.contains("norm");
        match value {
            Value::Number(number) if is_depth && number.as_u64().is_some_and(|n| n > 1) => {
                *value = json!(1);
            }
            Value::Array(items) if key == "depths" => items.fill(json!(1)),
            value => few_layers(value),
        }
    }
}

/// Printed models, of two layers of a kind at most.
pub(crate) fn printed() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for seed in folder("printed", ".txt", 4000) {
        let text = String::from_utf8_lossy(&seed).into_owned();
        let lines = text.lines().map(|line| match (line.find("(0-"), line.find(" x ")) {
            (Some(start), Some(end)) if start < end => {
                format!("{}(0-1): 2{}", &line[..start], &line[end..])
            }
            _ => line.to_owned(),
        });
        seeds.push(lines.collect::<Vec<_>>().join("\n").into_bytes());
    }
    seeds
}

/// Tables of torchinfo and torchsummary.
pub(crate) fn summaries() -> Vec<Vec<u8>> {
    folder("summary", ".txt", 12_000)
}

/// Keras models.
pub(crate) fn keras() -> Vec<Vec<u8>> {
    folder("keras", ".json", 10_000)
}

/// The JSON of `torch.export` archives: their first calls, with the last of them as the output.
pub(crate) fn exported() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for name in ["resnet18", "mobilenet_v2", "gpt2", "bert_base", "t5_small", "vit_b_16", "swin_t"]
    {
        let archive = read(&format!("zoo/pt2/{name}.pt2.gz"));
        let Some(program) = program(&archive) else { continue };
        for (from, count) in [(0, 6), (0, 20), (20, 8), (60, 15)] {
            seeds.extend(first_calls(&program, from, count));
        }
    }
    seeds
}

/// The program of an archive whose files are stored as they are.
fn program(archive: &[u8]) -> Option<Value> {
    let zip = rawzip::ZipArchive::from_slice(archive).ok()?;
    let mut entries = zip.entries();
    while let Some(file) = entries.next_entry().ok()? {
        let path = String::from_utf8_lossy(file.file_path().as_ref()).into_owned();
        if path.ends_with("/models/model.json") {
            let entry = zip.get_entry(file.wayfinder()).ok()?;
            let mut plain = Vec::new();
            if file.compression_method() == rawzip::CompressionMethod::STORE {
                plain.extend(entry.data());
            } else {
                flate2::read::DeflateDecoder::new(entry.data()).read_to_end(&mut plain).ok()?;
            }
            return serde_json::from_slice(&plain).ok();
        }
    }
    None
}

fn first_calls(program: &Value, from: usize, count: usize) -> Option<Vec<u8>> {
    let mut program = program.clone();
    let graph = program.pointer_mut("/graph_module/graph")?;
    let nodes = graph.pointer_mut("/nodes")?.as_array_mut()?;
    nodes.drain(..from.min(nodes.len()));
    nodes.truncate(count);
    for node in nodes.iter_mut() {
        if let Some(metadata) = node["metadata"].as_object_mut() {
            // Half of a file, and nothing of it is read.
            metadata.retain(|name, _| name != "stack_trace");
        }
    }
    let last =
        nodes.iter().rev().find_map(|node| node.pointer("/outputs/0/as_tensor/name").cloned())?;
    let text = serde_json::to_string(&nodes).ok()?;
    let is_used = |name: &str| text.contains(&format!("\"{name}\""));
    let values = graph.pointer_mut("/tensor_values")?.as_object_mut()?;
    values.retain(|name, _| is_used(name));
    let names: Vec<String> = values.keys().cloned().collect();
    let signature = program.pointer_mut("/graph_module/signature")?;
    let is_named = |spec: &Value| {
        let text = spec.to_string();
        names.iter().any(|name| text.contains(&format!("\"{name}\"")))
    };
    signature.pointer_mut("/input_specs")?.as_array_mut()?.retain(is_named);
    let output = json!([{ "user_output": { "arg": { "as_tensor": { "name": last } } } }]);
    *signature.pointer_mut("/output_specs")? = output;
    for key in ["/graph_module/graph/inputs", "/graph_module/module_call_graph"] {
        if let Some(unread) = program.pointer_mut(key) {
            *unread = json!([]);
        }
    }
    serde_json::to_vec(&program).ok()
}

/// A zip archive with one stored file.
pub(crate) fn zip(name: &str, content: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(content);
    let size = u32::try_from(content.len()).unwrap_or(0).to_le_bytes();
    let name_size = u16::try_from(name.len()).unwrap_or(0).to_le_bytes();
    let about: Vec<u8> =
        [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &crc.sum().to_le_bytes(), &size, &size, &name_size]
            .concat();
    let local = [b"PK\x03\x04", about.as_slice(), &[0, 0], name.as_bytes(), content].concat();
    let central = [b"PK\x01\x02\x14\x00", about.as_slice(), &[0; 16], name.as_bytes()].concat();
    let position = |length: usize| u32::try_from(length).unwrap_or(0).to_le_bytes();
    let sizes = [position(central.len()), position(local.len())].concat();
    let end: &[u8] = b"PK\x05\x06\0\0\0\0\x01\0\x01\0";
    [local.as_slice(), &central, end, &sizes, &[0, 0]].concat()
}

/// Archives: of `torch.export` and of Keras.
pub(crate) fn archives() -> Vec<Vec<u8>> {
    let mut seeds = folder("keras", ".keras", 25_000);
    let programs = exported();
    seeds.extend(programs.iter().step_by(4).map(|program| zip("m/models/model.json", program)));
    seeds
}

/// Headers of safetensors files, of two layers at most, and an index.
pub(crate) fn headers() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for seed in folder("safetensors", ".json.gz", usize::MAX) {
        let mut value: Value = serde_json::from_slice(&seed).unwrap_or_default();
        if let Value::Object(tensors) = &mut value {
            let is_early = |name: &str| {
                let parts = name.split('.').filter_map(|part| part.parse::<u64>().ok());
                parts.max().is_none_or(|layer| layer < 2)
            };
            tensors.retain(|name, _| is_early(name));
        }
        seeds.push(serde_json::to_vec(&value).unwrap_or_default());
    }
    let small = json!({
        "__metadata__": { "format": "pt" },
        "a.weight": { "dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24] },
        "a.num_batches_tracked": { "dtype": "I64", "shape": [], "data_offsets": [24, 32] },
    });
    let index = json!({ "metadata": { "total_size": 100 }, "weight_map": { "a": "f", "b": "g" } });
    seeds.extend([small, index].iter().map(|value| value.to_string().into_bytes()));
    seeds
}

/// Memory snapshots as `PyTorch` writes them, and short ones.
pub(crate) fn pickles() -> Vec<Vec<u8>> {
    let short = events()
        .into_iter()
        .filter_map(|seed| serde_json::from_slice(&seed).ok().map(|value| pickle(&value)));
    std::iter::once(read("snapshots/streams.pickle.gz")).chain(short).collect()
}

/// Memory snapshots as JSON: the first entries of recorded ones.
pub(crate) fn events() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for name in ["streams", "resnet18", "resnet18_expandable", "resnet18_ring"] {
        let bytes = read(&format!("snapshots/{name}.pickle.gz"));
        let Ok(snapshot) = recorded::open(&mut bytes.as_slice()) else { continue };
        for entries in [0, 12, 60, 300] {
            seeds.push(as_json(&snapshot, entries).to_string().into_bytes());
        }
    }
    seeds
}

fn as_json(snapshot: &MemorySnapshot, entries: usize) -> Value {
    let frames = json!([{ "filename": "train.py", "line": 7, "name": "forward" }]);
    let action = |entry: &recorded::Entry| match entry.action {
        recorded::Action::Alloc => "alloc",
        recorded::Action::FreeRequested => "free_requested",
        recorded::Action::FreeCompleted => "free_completed",
        recorded::Action::SegmentAlloc => "segment_alloc",
        recorded::Action::SegmentFree => "segment_free",
        recorded::Action::SegmentMap => "segment_map",
        recorded::Action::SegmentUnmap => "segment_unmap",
        recorded::Action::OutOfMemory => "oom",
        recorded::Action::Other => "snapshot",
    };
    let entry = |entry: &recorded::Entry| {
        json!({
            "action": action(entry), "addr": entry.address, "size": entry.size.0,
            "stream": entry.stream, "frames": if entry.stack % 3 == 1 { frames.clone() } else { json!([]) },
        })
    };
    let traces: Vec<Value> = snapshot
        .traces
        .iter()
        .map(|trace| snapshot.entries[trace.clone()].iter().take(entries).map(entry).collect())
        .collect();
    let segments = snapshot.segments.iter().take(6).map(|segment| {
        let mut address = segment.address;
        let blocks = snapshot.blocks[segment.blocks.clone()].iter().take(8).map(|block| {
            let at = address;
            address += block.size.0;
            let state = if block.allocated { "active_allocated" } else { "inactive" };
            json!({
                "address": at, "size": block.size.0, "requested_size": block.requested.0,
                "state": state, "frames": frames,
            })
        });
        let blocks: Vec<Value> = blocks.collect();
        json!({
            "device": segment.device, "address": segment.address, "total_size": segment.size.0,
            "stream": segment.stream, "segment_type": if segment.small { "small" } else { "large" },
            "is_expandable": segment.expandable, "blocks": blocks,
        })
    });
    let settings =
        json!({ "PYTORCH_CUDA_ALLOC_CONF": snapshot.alloc_conf.clone().unwrap_or_default() });
    json!({
        "segments": segments.collect::<Vec<_>>(), "device_traces": traces,
        "allocator_settings": settings,
    })
}

/// JSON as a pickle of protocol 4.
pub(crate) fn pickle(value: &Value) -> Vec<u8> {
    let mut bytes = vec![0x80, 4];
    put(value, &mut bytes);
    bytes.push(b'.');
    bytes
}

fn put(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Null => bytes.push(b'N'),
        Value::Bool(flag) => bytes.push(if *flag { 0x88 } else { 0x89 }),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => {
                bytes.extend([0x8a, 8]);
                bytes.extend(whole.to_le_bytes());
            }
            // One byte more, so that the highest bit is not its sign.
            (None, Some(whole)) => {
                bytes.extend([0x8a, 9]);
                bytes.extend(whole.to_le_bytes());
                bytes.push(0);
            }
            (None, None) => {
                bytes.push(b'G');
                bytes.extend(number.as_f64().unwrap_or(0.).to_be_bytes());
            }
        },
        Value::String(text) => {
            bytes.push(b'X');
            bytes.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        Value::Array(items) => {
            bytes.extend(b"](");
            for item in items {
                put(item, bytes);
            }
            bytes.push(b'e');
        }
        Value::Object(fields) => {
            bytes.extend(b"}(");
            for (key, value) in fields {
                put(&json!(key), bytes);
                put(value, bytes);
            }
            bytes.push(b'u');
        }
    }
}

/// Profiler traces: of two models, whole and their first events.
pub(crate) fn traces() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for name in ["mlp_512_sgd", "mlp_64_adamw"] {
        let whole = read(&format!("profiles/{name}.json.gz"));
        let mut value: Value = serde_json::from_slice(&whole).unwrap_or_default();
        for count in [100, 200] {
            let mut first = value.clone();
            if let Some(events) = first["traceEvents"].as_array_mut() {
                events.truncate(count);
            }
            seeds.push(first.to_string().into_bytes());
        }
        if let Some(events) = value["traceEvents"].as_array_mut() {
            events.truncate(400);
        }
        seeds.push(value.to_string().into_bytes());
    }
    seeds
}

/// Messages of `PyTorch` and outputs of `nvidia-smi`.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let all = read("messages/messages.txt");
    let all = String::from_utf8_lossy(&all).into_owned();
    all.split("\n== ").map(|message| message.as_bytes().to_vec()).collect()
}

/// Settings, a line each.
pub(crate) fn settings() -> Vec<Vec<u8>> {
    use highwater_core::config::{Kind, SETTINGS};
    let mut lines = Vec::new();
    for setting in SETTINGS {
        lines.push(format!("{} {}", setting.name, setting.example));
        if let Kind::Choice(named) | Kind::Suggestion(named) = setting.kind {
            lines.extend(named.iter().map(|named| format!("{} {}", setting.name, named.name)));
        }
    }
    lines.push("dim batch=8".to_owned());
    let conf = "alloc-conf expandable_segments:True,max_split_size_mb:128,\
                roundup_power2_divisions:[256:1,512:2,>:4],garbage_collection_threshold:0.8";
    lines.push(conf.to_owned());
    let chunks = lines.chunks(5).map(|lines| lines.join("\n").into_bytes());
    chunks.chain(lines.iter().map(|line| line.clone().into_bytes())).collect()
}

/// Recipes: the texts of the fixture, one by one.
pub(crate) fn recipes() -> Vec<Vec<u8>> {
    let all = String::from_utf8_lossy(&read("recipes/recipes.txt")).into_owned();
    let texts = all.split("\n== ").filter_map(|text| Some(text.split_once('\n')?.1));
    texts.map(|text| text.as_bytes().to_vec()).collect()
}
