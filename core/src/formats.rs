//! A file of any kind → [`Graph`], or a refusal that says what the file is and what to do.
//!
//! - The content decides, never the extension: people rename files.
//! - Wrong formats are recognised by their published signatures and named, each with the way to a
//!   model that can be read here.

use crate::error::{Error, ErrorKind};
use crate::graph::Graph;
use crate::source::Source;

pub mod onnx;

pub mod onnx_text;

pub mod pt2;

pub mod safetensors;

/// How people get an ONNX file out of PyTorch, in both exporters' words.
const EXPORT_HINT: &str = "export the model as ONNX from PyTorch: \
    `torch.onnx.export(model.train(), args, \"model.onnx\", dynamo=True, optimize=False)`, or with \
    TorchScript `torch.onnx.export(model, args, \"model.onnx\", dynamo=False, \
    training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)`";

/// Bytes from the start of a file that tell its kind.
const HEAD: usize = 512;

/// Reads the model in `source`; `name` is what its owner calls it, for messages only.
///
/// Weights are not read: what this costs depends on the structure, not on the size.
///
/// # Errors
/// When the content is not a model that can be read here, is damaged, or contradicts itself.
pub fn open(source: &mut dyn Source, name: &str) -> Result<Graph, Error> {
    let file_size = source.len();
    let mut head = vec![0; usize::try_from(file_size).map_or(HEAD, |size| size.min(HEAD))];
    source.read_at(0, &mut head)?;
    if head.is_empty() {
        return Err(Error::new(ErrorKind::Empty, format!("{} is empty", called(name))));
    }
    if head.starts_with(b"PK")
        && let Some(graph) = pt2::read(source)?
    {
        return Ok(graph);
    }
    if safetensors::begins(&head, file_size) {
        return safetensors::read(source);
    }
    let beginning = String::from_utf8_lossy(&head);
    if safetensors::is_index(&beginning) {
        return safetensors::read_index(source);
    }
    if onnx_text::begins(beginning.trim_start_matches('\u{feff}')) {
        return onnx_text::read(source);
    }
    match foreign(&head) {
        Some(refusal) => Err(Error::new(
            ErrorKind::WrongFormat,
            format!("{} is {}; {}", called(name), refusal.what, refusal.advice),
        )),
        None => onnx::read(source),
    }
}

/// What a file is instead of a model, and what to do about it.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    what: &'static str,
    advice: &'static str,
}

#[expect(clippy::unnecessary_wraps, reason = "every caller answers with an option")]
const fn refusal(what: &'static str, advice: &'static str) -> Option<Refusal> {
    Some(Refusal { what, advice })
}

fn called(name: &str) -> &str {
    if name.is_empty() { "the file" } else { name }
}

/// Recognises what is certainly not ONNX; everything else goes to the ONNX reader.
fn foreign(head: &[u8]) -> Option<Refusal> {
    const UNPACK: &str = "unpack it and open the .onnx file inside";
    const NOT_A_MODEL: &str = "open an ONNX model (.onnx)";
    if head.starts_with(b"PK") {
        return zip(head);
    }
    if let [0x80, 2..=5, ..] = head {
        return refusal("a pickle (a PyTorch checkpoint of the old kind)", EXPORT_HINT);
    }
    let signatures: [(&[u8], &'static str, &'static str); 14] = [
        (b"\x89PNG\r\n", "a PNG picture", NOT_A_MODEL),
        (b"\xFF\xD8\xFF", "a JPEG picture", NOT_A_MODEL),
        (b"GIF8", "a GIF picture", NOT_A_MODEL),
        (b"%PDF", "a PDF document", NOT_A_MODEL),
        (b"\x1F\x8B", "a gzip archive", UNPACK),
        (b"BZh", "a bzip2 archive", UNPACK),
        (b"\xFD7zXZ\0", "an xz archive", UNPACK),
        (b"7z\xBC\xAF\x27\x1C", "a 7-Zip archive", UNPACK),
        (b"\x28\xB5\x2F\xFD", "a Zstandard archive", UNPACK),
        (
            b"\x89HDF\r\n\x1A\n",
            "an HDF5 file, such as Keras saves",
            "convert the model to ONNX with tf2onnx",
        ),
        (b"GGUF", "a GGUF file, weights for inference without a graph", EXPORT_HINT),
        (b"\x93NUMPY", "a NumPy array", NOT_A_MODEL),
        (b"\x7FELF", "a program", NOT_A_MODEL),
        (b"MZ", "a program", NOT_A_MODEL),
    ];
    for (signature, what, advice) in signatures {
        if head.starts_with(signature) {
            return refusal(what, advice);
        }
    }
    match (head.get(4..8), head.get(257..262)) {
        (Some(b"TFL3"), _) => {
            return refusal("a TensorFlow Lite model", "convert it to ONNX with tf2onnx");
        }
        (Some(b"ORTM"), _) => {
            return refusal(
                "a model in ONNX Runtime's own format",
                "open the .onnx it was made of",
            );
        }
        (_, Some(b"ustar")) => return refusal("a tar archive", UNPACK),
        _ => {}
    }
    text(head)
}

/// A zip archive, by the name of its first entry.
///
/// `torch.save` and `torch.jit.save` write `NAME/data.pkl`, `torch.export.save` writes
/// `NAME/archive_format` first.
fn zip(head: &[u8]) -> Option<Refusal> {
    let name_size = match head.get(26..28) {
        Some(&[low, high]) => usize::from(u16::from_le_bytes([low, high])),
        _ => 0,
    };
    let rest = head.get(30..).unwrap_or_default();
    let name = String::from_utf8_lossy(rest.get(..name_size).unwrap_or(rest));
    if ["data.pkl", "archive_format", "/version", ".format_version"]
        .iter()
        .any(|entry| name.ends_with(entry))
    {
        return refusal("a PyTorch file (.pt), which holds Python objects", EXPORT_HINT);
    }
    if name.ends_with(".npy") {
        return refusal("a NumPy archive (.npz)", "open an ONNX model (.onnx)");
    }
    refusal("a zip archive", "unpack it and open the .onnx file inside")
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
        Some(b'{' | b'[') => refusal("JSON, not a model that can be read here", EXPORT_HINT),
        Some(b'<') => refusal(
            "a web page or XML",
            "if it should be a model, the download went wrong; fetch the file itself",
        ),
        _ if body.starts_with(b"version https://git-lfs") => {
            refusal("a Git LFS pointer, not the model itself", "fetch it with `git lfs pull`")
        }
        _ => refusal("a text file", EXPORT_HINT),
    }
}
