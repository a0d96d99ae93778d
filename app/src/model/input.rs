//! What the user asked to open.

use js_sys::{ArrayBuffer, Uint8Array};
use wasm_bindgen::JsValue;
use web_sys::File;

/// What the user asked to open.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A file of theirs; read in slices, never as a whole.
    File(File),
    /// An example or a text, small and already here.
    Bytes {
        /// Its name.
        name: String,
        /// The whole file.
        bytes: ArrayBuffer,
    },
}

impl Input {
    /// A text that was written or pasted.
    pub(crate) fn text(name: &str, text: &str) -> Self {
        let bytes = Uint8Array::from(text.as_bytes()).buffer();
        Self::Bytes { name: name.to_owned(), bytes }
    }

    /// Name for people.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(file) => file.name(),
            Self::Bytes { name, .. } => name.clone(),
        }
    }

    /// What travels to the worker: the handle of a file, or a copy of an example's bytes, because
    /// the original is needed again if the worker has to be restarted.
    pub(crate) fn to_value(&self) -> JsValue {
        match self {
            Self::File(file) => file.into(),
            Self::Bytes { bytes, .. } => bytes.slice(0).into(),
        }
    }
}

/// Each kind of input: its name, and the code or command that makes it.
pub(crate) const KINDS: [(&str, &str); 8] = [
    ("ONNX", "torch.onnx.export(model, args, \"model.onnx\")"),
    ("torch.export (.pt2)", "torch.export.save(torch.export.export(model, args), \"model.pt2\")"),
    ("Hugging Face config.json", "model.config.save_pretrained(\".\")"),
    ("A printed model", "print(model)"),
    ("Keras", "model.to_json()"),
    ("Memory snapshot of a run", "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"),
    ("Profiler trace from a CPU", "profiler.export_chrome_trace(\"trace.json\")"),
    ("An out-of-memory message", "nvidia-smi"),
];
