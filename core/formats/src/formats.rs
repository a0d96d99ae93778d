//! A file of any kind → [`Opened`], or a refusal that states what the file is and what to do.
//!
//! - The content decides, never the extension: people rename files.
//! - A file without a graph becomes a [`spec::Spec`] first, and the spec becomes the graph.
//! - Other formats are recognised by their published signatures and named, each with the way to a model that can
//!   be read.

use serde::{Deserialize, Serialize};

use crate::basis::Reason;
use crate::config::{Config, Library};
use crate::error::{Error, ErrorKind};
use crate::graph::Graph;
use crate::sentence::Sentence;
use crate::source::Source;

mod builder;
pub mod catalogue;
mod hf_config;
mod keras;
pub mod onnx;
pub mod onnx_text;
mod printed;
pub mod pt2;
pub mod safetensors;
pub mod spec;
mod states;
mod summary;

use spec::Spec;

/// How people get an ONNX file out of PyTorch, in both exporters' words.
const EXPORT_HINT: Sentence = Sentence::of(
    "export the model as ONNX from PyTorch: \
    `torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=True, optimize=False)`, or with \
    TorchScript `torch.onnx.export(model, args, \"model.onnx\", dynamo=False, \
    training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)`",
);

/// What to do with a text that is none of those that are read.
const TEXT_HINT: Sentence = Sentence::of(
    "readable as text: `print(model)`, torchinfo's `summary`, a Hugging Face \
    `config.json`, Keras JSON and layer specs; or export the model as ONNX: `torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=True, optimize=False)`",
);

/// Bytes from the start of a file that tell its kind.
const HEAD: usize = 512;

/// How much of a model a format states.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Every operator and every size.
    #[default]
    ExactGraph,
    /// Operators and sizes; part of what PyTorch ran is recovered or assumed.
    Graph,
    /// The sizes of a known architecture, whose operators are filled in.
    Template,
    /// The modules, in an order that is taken to be that of the forward.
    ApproximateOrder,
    /// Parameters and their sizes, and no operators.
    StatesOnly,
    /// No model: what a real run did.
    Recorded,
    /// No model: what a run on a CPU did, as it is on a GPU.
    SeenOnCpu,
}

impl Fidelity {
    /// The name in JSON: `exact-graph`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExactGraph => "exact-graph",
            Self::Graph => "graph",
            Self::Template => "template",
            Self::ApproximateOrder => "approximate-order",
            Self::StatesOnly => "states-only",
            Self::Recorded => "recorded",
            Self::SeenOnCpu => "seen-on-cpu",
        }
    }

    /// What people call it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ExactGraph => "exact graph",
            Self::Graph => "graph",
            Self::Template => "template",
            Self::ApproximateOrder => "approximate order",
            Self::StatesOnly => "states only",
            Self::Recorded => "recorded",
            Self::SeenOnCpu => "recorded on a CPU",
        }
    }

    /// What all operators of such an input rest on, where it does not state them.
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::ApproximateOrder => Some(Reason::OrderOfPrint),
            Self::ExactGraph
            | Self::Graph
            | Self::Template
            | Self::StatesOnly
            | Self::Recorded
            | Self::SeenOnCpu => None,
        }
    }

    /// What it means for the answer: no full stop.
    pub const fn about(self) -> &'static str {
        match self {
            Self::ExactGraph => "every operator and every size is known",
            Self::Graph => {
                "operators and sizes are known; the rest of what PyTorch ran is recovered or assumed"
            }
            Self::Template => "sizes are known; the operators are those of the known architecture",
            Self::ApproximateOrder => "modules are known, and assumed to run in the order listed",
            Self::StatesOnly => "only parameters are known; activations are missing",
            Self::Recorded => "recorded from the allocator of a real run; nothing is estimated",
            Self::SeenOnCpu => "recorded on a CPU; what the same run does on a GPU follows from it",
        }
    }
}

/// What an input was recognised as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recognised {
    /// Name of the format: `ONNX`.
    pub format: String,
    /// How much of a model it states.
    pub fidelity: Fidelity,
}

impl Recognised {
    fn new(format: &str, fidelity: Fidelity) -> Self {
        Self { format: format.to_owned(), fidelity }
    }
}

/// A model as it was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opened {
    /// The program.
    pub graph: Graph,
    /// What the input is.
    pub recognised: Recognised,
    /// How the model is trained where the user says nothing: what the input states, and PyTorch's
    /// defaults.
    pub defaults: Config,
    /// The tree of layers as text, where the input is one or was translated to one.
    pub spec: Option<String>,
    /// The configuration of which the graph was written, where the input is one.
    pub configuration: Option<String>,
}

impl Opened {
    /// A graph that no layers were translated to, trained as PyTorch does by default.
    fn new(graph: Graph, format: &str, fidelity: Fidelity) -> Self {
        Self::of(graph, Recognised::new(format, fidelity))
    }

    /// The graph of an ONNX file.
    pub fn onnx(graph: Graph) -> Self {
        Self::new(graph, "ONNX", Fidelity::ExactGraph)
    }

    fn of(graph: Graph, recognised: Recognised) -> Self {
        Self { graph, recognised, defaults: Config::default(), spec: None, configuration: None }
    }
}

/// Reads the model in `source`; `name` is what its owner calls it, for messages only.
///
/// Weights are not read: what this costs depends on the structure, not on the size.
///
/// # Errors
/// When the content is not a model that can be read here, is damaged, or contradicts itself.
pub fn open(source: &mut dyn Source, name: &str) -> Result<Opened, Error> {
    let head = Head::of(source, name)?;
    if head.refusal.is_none() {
        return onnx::read(source).map(Opened::onnx);
    }
    let beginning = String::from_utf8_lossy(&head.bytes);
    if onnx_text::begins(beginning.trim_start_matches('\u{feff}')) && !head.bytes.starts_with(b"PK")
    {
        let bytes = onnx_text::to_binary(source)?;
        let graph = onnx::read(&mut bytes.as_slice())?;
        return Ok(Opened::new(graph, "ONNX text", Fidelity::ExactGraph));
    }
    open_translated(source, name, &head.bytes, &head.refusal.unwrap_or(UNKNOWN))
}

/// Reads what states layers, calls or sizes.
fn open_translated(
    source: &mut dyn Source,
    name: &str,
    head: &[u8],
    refusal: &Refusal,
) -> Result<Opened, Error> {
    if let Some(opened) = without_layers(source, head)? {
        return Ok(opened);
    }
    if head.starts_with(b"PK")
        && let Some(text) = pt2::archive::text(source, "config.json")?
        && keras::is_keras(&text)
    {
        return from_keras(&text);
    }
    if text(head).is_some()
        && let Some(text) = whole_text(source)?
    {
        if let Some(opened) = catalogue::read(&text) {
            return opened;
        }
        if hf_config::is_config(&text) {
            let (graph, defaults) = hf_config::read(&text, Library::default())?;
            let recognised = Recognised::new("Hugging Face configuration", Fidelity::Template);
            let configuration = Some(text);
            return Ok(Opened { graph, recognised, defaults, spec: None, configuration });
        }
        if spec::is_spec(&text) {
            let spec = spec::read(&text)?;
            return from_spec(spec, Recognised::new("layer spec", Fidelity::ExactGraph));
        }
        if keras::is_keras(&text) {
            return from_keras(&text);
        }
        if summary::is_summary(&text) {
            let (spec, fidelity) = summary::read(&text)?;
            return from_spec(spec, Recognised::new("torchinfo or torchsummary table", fidelity));
        }
        if printed::is_printed(&text) {
            return from_print(&text);
        }
    }
    Err(Error::new(
        ErrorKind::WrongFormat,
        say!(
            "{name} is {what}; {advice}",
            name = called(name),
            what = refusal.what,
            advice = refusal.advice
        ),
    ))
}

/// Formats but ONNX that become a graph by themselves, recognised by their first bytes.
fn without_layers(source: &mut dyn Source, head: &[u8]) -> Result<Option<Opened>, Error> {
    if head.starts_with(b"PK") {
        let graph = pt2::read(source)?;
        return Ok(graph.map(|graph| Opened::new(graph, "torch.export", Fidelity::ExactGraph)));
    }
    if safetensors::begins(head, source.len()) {
        let (graph, defaults, fidelity) = safetensors::read(source)?;
        let recognised = Recognised::new("safetensors", fidelity);
        return Ok(Some(Opened { defaults, ..Opened::of(graph, recognised) }));
    }
    let beginning = String::from_utf8_lossy(head);
    let beginning = beginning.trim_start_matches('\u{feff}');
    if safetensors::is_index(beginning) {
        let graph = safetensors::read_index(source)?;
        return Ok(Some(Opened::new(graph, "safetensors index", Fidelity::StatesOnly)));
    }
    Ok(None)
}

/// The graph of a configuration with the code of a library.
///
/// # Errors
/// When the configuration cannot be read; it could when it was opened.
pub fn with_library(configuration: &str, library: Library) -> Result<Graph, Error> {
    hf_config::read(configuration, library).map(|(graph, _)| graph)
}

/// The first bytes, of which there must be some.
#[derive(Debug)]
struct Head {
    bytes: Vec<u8>,
    /// Why it is no binary ONNX; `None` where it may be.
    refusal: Option<Refusal>,
}

impl Head {
    fn of(source: &mut dyn Source, name: &str) -> Result<Self, Error> {
        let size = usize::try_from(source.len()).map_or(HEAD, |size| size.min(HEAD));
        let mut bytes = vec![0; size];
        source.read_at(0, &mut bytes)?;
        if bytes.is_empty() {
            return Err(Error::new(ErrorKind::Empty, say!("{name} is empty", name = called(name))));
        }
        let refusal = foreign(&bytes, source.len());
        Ok(Self { bytes, refusal })
    }
}

/// What every format that is translated to layers ends in.
fn from_spec(spec: Spec, recognised: Recognised) -> Result<Opened, Error> {
    let graph = spec.lower()?;
    let text = spec.to_string();
    Ok(Opened { graph, recognised, defaults: spec.train, spec: Some(text), configuration: None })
}

/// A printed model: of a known family by its configuration, and of any other by its layers.
fn from_print(text: &str) -> Result<Opened, Error> {
    let root = printed::parse(text)?;
    if let Some((graph, defaults)) = hf_config::named::program(&printed::named(&root))? {
        let recognised = Recognised::new("printed model", Fidelity::Template);
        return Ok(Opened { defaults, ..Opened::of(graph, recognised) });
    }
    let (spec, fidelity) = printed::read(&root)?;
    let mut opened = from_spec(spec, Recognised::new("printed model", fidelity))?;
    if fidelity == Fidelity::StatesOnly {
        opened.graph = states::only(&opened.graph)?;
    }
    Ok(opened)
}

fn from_keras(text: &str) -> Result<Opened, Error> {
    from_spec(keras::read(text)?, Recognised::new("Keras model", Fidelity::ExactGraph))
}

/// A text of a size that people write.
fn whole_text(source: &mut dyn Source) -> Result<Option<String>, Error> {
    let size = source.len();
    let Some(size) = usize::try_from(size).ok().filter(|_| size <= spec::TEXT_MAX) else {
        return Ok(None);
    };
    let mut bytes = vec![0; size];
    source.read_at(0, &mut bytes)?;
    Ok(String::from_utf8(bytes).ok())
}

/// What a file is instead of a model, and what to do about it.
#[derive(Clone, Debug)]
struct Refusal {
    what: Sentence,
    advice: Sentence,
}

/// What to do with an archive.
const UNPACK: Sentence = Sentence::of("unpack it and open the .onnx file inside");

/// What nothing is recognised in.
const UNKNOWN: Refusal =
    Refusal { what: Sentence::of("no model that is known here"), advice: EXPORT_HINT };

#[expect(clippy::unnecessary_wraps, reason = "every caller answers with an option")]
const fn refusal(what: Sentence, advice: Sentence) -> Option<Refusal> {
    Some(Refusal { what, advice })
}

fn called(name: &str) -> Sentence {
    if name.is_empty() { say!("the file") } else { Sentence::name(name) }
}

/// Recognises what is certainly not ONNX; everything else goes to the ONNX reader.
fn foreign(head: &[u8], file_size: u64) -> Option<Refusal> {
    const NOT_A_MODEL: Sentence = Sentence::of("open an ONNX model (.onnx)");
    if head.starts_with(b"PK") {
        return zip(head);
    }
    if let [0x80, 2..=5, ..] = head {
        return refusal(say!("a pickle (a PyTorch checkpoint of the old kind)"), EXPORT_HINT);
    }
    let signatures: [(&[u8], Sentence, Sentence); 14] = [
        (b"\x89PNG\r\n", say!("a PNG picture"), NOT_A_MODEL),
        (b"\xFF\xD8\xFF", say!("a JPEG picture"), NOT_A_MODEL),
        (b"GIF8", say!("a GIF picture"), NOT_A_MODEL),
        (b"%PDF", say!("a PDF document"), NOT_A_MODEL),
        (b"\x1F\x8B", say!("a gzip archive"), UNPACK),
        (b"BZh", say!("a bzip2 archive"), UNPACK),
        (b"\xFD7zXZ\0", say!("an xz archive"), UNPACK),
        (b"7z\xBC\xAF\x27\x1C", say!("a 7-Zip archive"), UNPACK),
        (b"\x28\xB5\x2F\xFD", say!("a Zstandard archive"), UNPACK),
        (
            b"\x89HDF\r\n\x1A\n",
            say!("an HDF5 file, such as Keras saves"),
            say!("convert the model to ONNX with tf2onnx"),
        ),
        (
            b"GGUF",
            say!("a GGUF file, weights for inference without a graph"),
            say!(
                "open it where servers are asked about, for what serving it takes; to train the model, name it or open \
                 its `config.json`"
            ),
        ),
        (b"\x93NUMPY", say!("a NumPy array"), NOT_A_MODEL),
        (b"\x7FELF", say!("a program"), NOT_A_MODEL),
        (b"MZ", say!("a program"), NOT_A_MODEL),
    ];
    for (signature, what, advice) in signatures {
        if head.starts_with(signature) {
            return refusal(what, advice);
        }
    }
    if let Some(found) = marked_inside(head) {
        return Some(found);
    }
    if safetensors::begins(head, file_size) {
        return refusal(say!("a safetensors file"), EXPORT_HINT);
    }
    text(head)
}

/// Formats that are recognised by bytes which are not the first.
fn marked_inside(head: &[u8]) -> Option<Refusal> {
    match (head.get(4..8), head.get(257..262)) {
        (Some(b"TFL3"), _) => {
            refusal(say!("a TensorFlow Lite model"), say!("convert it to ONNX with tf2onnx"))
        }
        (Some(b"ORTM"), _) => refusal(
            say!("a model in ONNX Runtime's own format"),
            say!("open the .onnx it was made of"),
        ),
        (Some(b"ET12"), _) => refusal(
            say!("an ExecuTorch program (.pte), which is compiled for inference"),
            say!(
                "open what it was made of: `torch.export.save(torch.export.export(model.train(), args), \"model.pt2\")`"
            ),
        ),
        (_, Some(b"ustar")) => refusal(say!("a tar archive"), UNPACK),
        _ if is_core_ml(head) => {
            refusal(say!("a Core ML model, which runs on Apple's devices"), EXPORT_HINT)
        }
        _ => None,
    }
}

/// Whether a file is Core ML's: a protobuf like ONNX, whose second field is a description (a message of features), where
/// ONNX has the producer's name.
fn is_core_ml(head: &[u8]) -> bool {
    let Some(([0x08, 1..=63, 0x12], rest)) = head.split_first_chunk() else { return false };
    let size_ends = rest.iter().position(|byte| byte & 0x80 == 0);
    let first = size_ends.and_then(|end| rest.get(end.saturating_add(1)..end.saturating_add(2)));
    first == Some(&[0x0A])
}

/// A zip archive, by the name of its first entry.
///
/// `torch.save` and `torch.jit.save` write `NAME/data.pkl` first, `torch.export.save` weights or
/// `NAME/archive_format`: such an archive gets here if its end is missing.
fn zip(head: &[u8]) -> Option<Refusal> {
    let name_size = match head.get(26..28) {
        Some(&[low, high]) => usize::from(u16::from_le_bytes([low, high])),
        _ => 0,
    };
    let rest = head.get(30..).unwrap_or_default();
    let name = String::from_utf8_lossy(rest.get(..name_size).unwrap_or(rest));
    let is_part = |folder: &str| name.contains(folder);
    if is_part("/data/weights/") || is_part("/models/") || name.ends_with("archive_format") {
        return refusal(
            say!("a torch.export archive without its end"),
            say!("copy or download it again, or save it anew with `torch.export.save`"),
        );
    }
    if ["data.pkl", "/version", ".format_version"].iter().any(|entry| name.ends_with(entry)) {
        return refusal(say!("a PyTorch file (.pt), which holds Python objects"), EXPORT_HINT);
    }
    if name.ends_with(".npy") {
        return refusal(say!("a NumPy archive (.npz)"), say!("open an ONNX model (.onnx)"));
    }
    refusal(say!("a zip archive"), say!("unpack it and open the .onnx file inside"))
}

/// Text of any kind: no control characters but white space, and valid UTF-8.
fn text(head: &[u8]) -> Option<Refusal> {
    let valid = match str::from_utf8(head) {
        Ok(_) => head,
        // The cut after HEAD bytes may fall inside a character.
        Err(error) if head.len() == HEAD && error.valid_up_to() + 4 > HEAD => {
            head.get(..error.valid_up_to())?
        }
        Err(_) => return None,
    };
    let is_text =
        |&byte: &u8| byte >= b' ' && byte != 0x7F || matches!(byte, b'\t' | b'\n' | b'\r');
    if !valid.iter().all(is_text) {
        return None;
    }
    let body = valid.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(valid).trim_ascii_start();
    match body.first() {
        Some(b'{' | b'[') => refusal(say!("JSON, but not a known model"), EXPORT_HINT),
        Some(b'<') => refusal(
            say!("a web page or XML"),
            say!("if it should be a model, the download went wrong; fetch the file itself"),
        ),
        _ if body.starts_with(b"version https://git-lfs") => refusal(
            say!("a Git LFS pointer, not the model itself"),
            say!("fetch it with `git lfs pull`"),
        ),
        _ => refusal(say!("not a model"), TEXT_HINT),
    }
}
