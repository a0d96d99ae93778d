//! The layer spec: a small language for models written by hand, and the tree of layers into which every format
//! without a graph is translated.
//!
//! text → `tree` → [`Spec`] → [`Graph`](crate::graph::Graph)
//!
//! - [`Spec`] is the meaning of the language. Other formats (Keras, a printed model) make one and call
//!   [`Spec::lower`]; later stages do not know its origin.
//! - [`kinds`] is the one table of layers. The parser, its messages, the JSON Schema ([`schema`]) and
//!   the table in `docs/spec.md` ([`reference`]) are derived from it.
//! - A layer becomes the nodes that PyTorch runs for the `nn.Module` that it names, under that module's path. The
//!   graph is a complete program and needs no recovery.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::error::{Error, Place};
use crate::graph::Dim;
use crate::tensor::DType;

pub mod tree;

pub(crate) mod toml;

pub mod kinds;

mod lower;

mod draft;
mod parse;

mod reference;
mod schema;
mod write;

pub(super) use draft::{Draft, Flow};
pub use kinds::{LayerKind, Value};
pub use reference::reference;
pub use schema::schema;

/// SIZE: bytes of a text that is read as a spec, at most.
pub const TEXT_MAX: u64 = 1 << 20;

/// COUNT: layers that a spec may expand to.
pub const LAYERS_MAX: usize = 100_000;

/// COUNT: layers inside each other, at most; a text nests twice as deep.
pub const DEPTH_MAX: usize = tree::DEPTH_MAX;

/// A model as a tree of layers, and how it is trained.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Name of the model; may be empty.
    pub name: String,
    /// What the model is given, in order.
    pub inputs: Vec<Input>,
    /// Sizes of named dimensions. One without a size here is open, and no parameter may depend on it.
    pub dims: BTreeMap<String, u64>,
    /// Layers, each reading what the one before it made.
    pub layers: Vec<Layer>,
    /// Names of the layers whose results are returned; where there are none, the last one's is.
    pub outputs: Vec<String>,
    /// How the model is trained, where the spec says it.
    pub train: Config,
    /// What the translation to this tree had to assume.
    pub diagnostics: Vec<Diagnostic>,
}

/// A tensor that the model is given.
#[derive(Clone, Debug)]
pub struct Input {
    /// Name, under which layers can read it.
    pub name: String,
    /// Dimensions, the batch first.
    pub dims: Vec<Dim>,
    /// Element type; `None` for `int64` where an embedding reads it and `float32` elsewhere.
    pub dtype: Option<DType>,
    /// Where the text says it.
    pub place: Place,
}

/// One layer, or several in an arrangement.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Name of the module among its siblings, and of its result for layers that read it later.
    /// Without one, the module's name is its number, as in `nn.Sequential`.
    pub name: Option<String>,
    /// Name of an earlier layer or of an input that is read instead of the layer before.
    pub from: Option<String>,
    /// What it is.
    pub body: Body,
    /// Where the text says it; the default where there is no text.
    pub place: Place,
}

/// What a layer is.
#[derive(Clone, Debug)]
pub enum Body {
    /// A module of the table.
    Module(Module),
    /// Layers in a row: `nn.Sequential`.
    Sequential(Vec<Layer>),
    /// The same layers several times, each with parameters of its own.
    Repeat {
        /// COUNT: times.
        count: u64,
        /// The layers.
        block: Vec<Layer>,
    },
    /// `body(x) + shortcut(x)`; an empty shortcut is `x` itself.
    Residual {
        /// The layers.
        body: Vec<Layer>,
        /// The layers of the other way.
        shortcut: Vec<Layer>,
        /// Whether the sum overwrites the body's result (`out += identity`).
        inplace: bool,
    },
    /// Several ways from one input, joined.
    Branch {
        /// The ways; an empty one hands the input on.
        arms: Vec<Vec<Layer>>,
        /// How they meet.
        join: Join,
        /// Dimension along which they are concatenated.
        dim: i64,
    },
    /// The result before, joined with earlier ones by name: the skips of a U-Net.
    Join {
        /// How they meet.
        join: Join,
        /// Names of earlier layers or of inputs.
        with: Vec<String>,
        /// Dimension along which they are concatenated.
        dim: i64,
    },
}

/// How results meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `torch.cat`.
    Concat,
    /// `a + b`.
    Add,
    /// `a * b`.
    Mul,
}

impl Join {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Concat, Self::Add, Self::Mul];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concat => "concat",
            Self::Add => "add",
            Self::Mul => "mul",
        }
    }
}

/// A module of the table and its arguments.
#[derive(Clone, Debug)]
pub struct Module {
    kind: &'static LayerKind,
    arguments: BTreeMap<&'static str, Value>,
}

impl Module {
    /// A module without arguments, by its name here or in PyTorch: `conv2d`, `Conv2d`, `nn.Conv2d`.
    ///
    /// # Errors
    /// When there is no such layer; the message names the nearest.
    pub fn new(name: &str) -> Result<Self, Error> {
        let kind = kinds::find(name)
            .ok_or_else(|| tree::fault(Place::default(), kinds::unknown_layer(name)))?;
        Ok(Self { kind, arguments: BTreeMap::new() })
    }

    /// The same with an argument, by its name here or in PyTorch.
    ///
    /// # Errors
    /// When the layer has no such argument, or it takes something else.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Result<Self, Error> {
        let fault = |message| tree::fault(Place::default(), message);
        let argument = self.kind.argument(name).map_err(fault)?;
        let value = argument.accept(value.into()).map_err(fault)?;
        self.arguments.insert(argument.name, value);
        Ok(self)
    }

    /// Its row of the table.
    pub const fn kind(&self) -> &'static LayerKind {
        self.kind
    }

    /// An argument that was given.
    pub fn argument(&self, name: &str) -> Option<&Value> {
        self.arguments.get(name)
    }
}

impl Layer {
    /// A layer without a name, that reads the one before it.
    pub const fn new(body: Body) -> Self {
        Self { name: None, from: None, body, place: Place { line: 0, column: 0 } }
    }

    /// The same under a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same, reading an earlier layer.
    #[must_use]
    pub fn from(mut self, name: impl Into<String>) -> Self {
        self.from = Some(name.into());
        self
    }
}

impl From<Module> for Layer {
    fn from(module: Module) -> Self {
        Self::new(Body::Module(module))
    }
}

/// Whether a text is meant as a spec: it has a key `layers` or `highwater` at its outermost level.
///
/// Read line by line, so that an error names its line.
pub(super) fn is_spec(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
    let is_key = |line: &str| {
        ["layers", "highwater"].iter().any(|key| {
            let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']));
            rest.is_some_and(|rest| rest.trim_start().starts_with([':', '=']))
        })
    };
    if text.starts_with('{') {
        // The outermost mapping of JSON: its keys lie one brace deep.
        let mut depth = 0_i32;
        let mut pieces = text.split_inclusive(['{', '}', '[', ']', ',']);
        return pieces.any(|piece| {
            let key = piece.trim_start().trim_start_matches(['"', '\'']);
            // A list of layers, and not Keras's number or transformers' mapping.
            let found = depth == 1 && is_key(key) && (key.ends_with('[') || key.starts_with('h'));
            depth = depth.saturating_add(match piece.chars().last() {
                Some('{' | '[') => 1,
                Some('}' | ']') => -1,
                _ => 0,
            });
            found
        });
    }
    text.lines()
        .any(|line| is_key(line.trim_start_matches(['"', '\''])) || line.trim_end() == "[[layers]]")
}

/// Reads a spec from YAML, JSON or TOML.
///
/// # Errors
/// With the place in the text and what to write instead.
pub fn read(text: &str) -> Result<Spec, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = if toml::is_toml(text) { toml::parse(text)? } else { tree::parse(text)? };
    parse::spec(&tree)
}
