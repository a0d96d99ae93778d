//! Binding the open dimensions of a graph to numbers.
//!
//! The batch is the dimension with this name, else the first dimension of the first input, even where the file
//! fixes it to a number (exporters write the batch size of their example), but not where its name is that of a length
//! or of a side.

use std::collections::BTreeMap;

use crate::config::Sizes;
use crate::diagnostic::{ASSUMED_DIMENSION, Diagnostic, Diagnostics, Severity};
use crate::error::{Error, ErrorKind};
use crate::graph::{DeclaredType, Dim, Elements, Graph, Node, ValueId};
use crate::sentence::Sentence;
use crate::tensor::{DType, TensorType};

/// SIZE: elements along one dimension at most.
const DIM_MAX: u64 = 1 << 31;

/// Name of the batch where the file has none.
const BATCH: &str = "batch";
/// What a user may call the length of texts, whatever the file calls it.
pub const SEQUENCE: &str = "seq";

/// A dimension that the user may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDim {
    /// Name in the file, or one made up: `batch`, or `input:1` for the second axis of `input`.
    pub name: String,
    /// Size it has if nobody chooses.
    pub default: u64,
    /// Whether it counts the examples of a batch.
    pub batch: bool,
    /// Names of the inputs that have it, in the file's order; none for a size of the configuration.
    pub inputs: Vec<String>,
}

impl OpenDim {
    /// Whether it is the length of an input: no batch, no side of pictures, and no size that no input has.
    pub fn is_length(&self) -> bool {
        !self.batch && !self.inputs.is_empty() && Meaning::of(&self.name) != Meaning::Side
    }
}

/// The dimensions that the user may choose, in the order in which the inputs show them.
pub fn open_dims(graph: &Graph) -> Vec<OpenDim> {
    let batch = Batch::find(graph);
    let mut open: Vec<OpenDim> = Vec::new();
    each_dim(graph, |input, rank, axis, dim| {
        let fixed =
            matches!((&batch, dim), (Batch::Fixed(old), Dim::Known(d)) if old == d && axis == 0);
        let name = if fixed { Some(BATCH.to_owned()) } else { batch.name(input, axis, dim) };
        let Some(name) = name else { return };
        if let Some(known) = open.iter_mut().find(|known| known.name == name) {
            if !known.inputs.iter().any(|known| known == input) {
                known.inputs.push(input.to_owned());
            }
            return;
        }
        let is_batch = fixed || matches!(&batch, Batch::Named(batch) if *batch == name);
        let default = match (&batch, dim) {
            (Batch::Fixed(old), _) if fixed => *old,
            _ => match Meaning::of(&name) {
                Meaning::Other if !is_batch => default_by_place(rank, axis),
                meaning => meaning.default(),
            },
        };
        let default = graph.dims.get(&name).copied().unwrap_or(default);
        open.push(OpenDim { name, default, batch: is_batch, inputs: vec![input.to_owned()] });
    });
    for id in counts(graph) {
        let name = graph.value_name(id).to_owned();
        if open.iter().all(|known| known.name != name) {
            let default =
                graph.dims.get(&name).copied().unwrap_or_else(|| Meaning::of(&name).default());
            open.push(OpenDim { inputs: vec![name.clone()], name, default, batch: false });
        }
    }
    for (&name, &size) in &graph.options {
        if open.iter().all(|known| known.name != name) {
            let default = size.unwrap_or_else(|| Meaning::of(name).default());
            let name = name.to_owned();
            open.push(OpenDim { name, default, batch: false, inputs: Vec::new() });
        }
    }
    open
}

/// Inputs of one integer on which it depends how often a loop runs, in order.
pub fn counts(graph: &Graph) -> Vec<ValueId> {
    let mut found = graph.counts.clone();
    if graph.nodes.iter().all(|node| node.bodies().next().is_none()) {
        return found;
    }
    let mut nodes: Vec<&Node> = graph.nodes.iter().map(AsRef::as_ref).collect();
    let mut at = 0;
    while let Some(node) = nodes.get(at) {
        nodes.extend(node.bodies().flat_map(|body| &body.nodes).collect::<Vec<_>>());
        at += 1;
    }
    let is_loop = |node: &&&Node| node.op == "Loop" && node.domain.is_empty();
    let mut asked: Vec<ValueId> =
        nodes.iter().filter(is_loop).filter_map(|node| node.input(0)).collect();
    if asked.is_empty() {
        return found;
    }
    let mut makers = vec![None; graph.values.len()];
    for node in &nodes {
        for output in node.outputs.iter().flatten() {
            makers.get_mut(output.0).into_iter().for_each(|slot| *slot = Some(*node));
        }
    }
    while let Some(id) = asked.pop() {
        // Each is followed once.
        let maker = makers.get_mut(id.0).and_then(Option::take);
        asked.extend(maker.into_iter().flat_map(|node| node.inputs.iter().flatten().copied()));
        if graph.inputs.contains(&id) && is_one_integer(graph, id) && !found.contains(&id) {
            found.push(id);
        }
    }
    found.sort_unstable();
    found
}

fn is_one_integer(graph: &Graph, id: ValueId) -> bool {
    let declared = graph.value(id).and_then(|value| value.declared.as_ref());
    declared.is_some_and(|declared| {
        let is_integer = matches!(declared.dtype, Some(DType::Int64 | DType::Int32));
        is_integer && matches!(declared.dims.as_deref(), None | Some([] | [Dim::Known(1)]))
    })
}

/// Visits every dimension of every input: name of the input, its rank, the axis, the dimension.
fn each_dim(graph: &Graph, mut visit: impl FnMut(&str, usize, usize, &Dim)) {
    for &id in &graph.inputs {
        let Some(value) = graph.value(id) else { continue };
        let dims = value.declared.as_ref().and_then(|declared| declared.dims.as_ref());
        for (axis, dim) in dims.into_iter().flatten().enumerate() {
            visit(&value.name, dims.map_or(0, Vec::len), axis, dim);
        }
    }
}

/// Where the batch size stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Batch {
    /// In the open dimension of this name.
    Named(String),
    /// In the first dimension of the inputs that have this number there.
    Fixed(u64),
    /// Nowhere: no input has a dimension, or the first is a length or a side.
    Nowhere,
}

impl Batch {
    fn find(graph: &Graph) -> Self {
        let mut exact = None;
        let mut similar = None;
        let mut first = None;
        each_dim(graph, |_, _, axis, dim| {
            if let Dim::Named(name) = dim {
                let lower = name.to_ascii_lowercase();
                let is_batch = ["batch", "batch_size", "batchsize", "n", "b", "bs", "bsz"];
                if exact.is_none() && is_batch.contains(&lower.as_str()) {
                    exact = Some(name.clone());
                }
                if similar.is_none() && Meaning::of(name) == Meaning::Batch {
                    similar = Some(name.clone());
                }
            }
            if first.is_none() && axis == 0 {
                first = Some(match dim {
                    Dim::Known(n) => Self::Fixed(*n),
                    Dim::Named(name) => match Meaning::of(name) {
                        Meaning::Batch | Meaning::Other => Self::Named(name.clone()),
                        Meaning::Sequence | Meaning::Side | Meaning::Channels => Self::Nowhere,
                    },
                    Dim::Unknown => Self::Named(BATCH.to_owned()),
                });
            }
        });
        exact.or(similar).map(Self::Named).or(first).unwrap_or(Self::Nowhere)
    }

    /// Name of an open dimension; unnamed ones in front belong to the batch.
    fn name(&self, input: &str, axis: usize, dim: &Dim) -> Option<String> {
        match (dim, self) {
            (Dim::Known(_), _) => None,
            (Dim::Named(name), _) => Some(name.clone()),
            (Dim::Unknown, Self::Named(batch)) if axis == 0 => Some(batch.clone()),
            (Dim::Unknown, _) => Some(format!("{input}:{axis}")),
        }
    }
}

/// What a dimension's name says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Batch,
    Sequence,
    Side,
    Channels,
    Other,
}

impl Meaning {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|&part| name.contains(part));
        let is = |names: &[&str]| names.contains(&name.as_str());
        if has(&["batch"]) || is(&["n", "b", "bs", "bsz"]) {
            Self::Batch
        } else if has(&["seq", "len", "token", "time", "frame", "context"])
            || is(&["s", "t", "l", Sizes::TARGET])
        {
            Self::Sequence
        } else if has(&["height", "width", "image", "img"]) || is(&["h", "w"]) {
            Self::Side
        } else if has(&["channel"]) || is(&["c"]) {
            Self::Channels
        } else {
            Self::Other
        }
    }

    const fn default(self) -> u64 {
        match self {
            Self::Batch | Self::Other => 1,
            Self::Sequence => 512,
            Self::Side => 224,
            Self::Channels => 3,
        }
    }
}

/// Default of a dimension whose name says nothing: images have four dimensions, texts two or three.
const fn default_by_place(rank: usize, axis: usize) -> u64 {
    match (rank, axis) {
        (4 | 5, 2..) => Meaning::Side.default(),
        (4 | 5, 1) => Meaning::Channels.default(),
        (2 | 3, 1) => Meaning::Sequence.default(),
        _ => 1,
    }
}

/// What sequences so long go beyond.
fn beyond(graph: &Graph, tokens: u64) -> impl Iterator<Item = Diagnostic> {
    let positions = graph.positions.filter(|&most| tokens > most).map(|most| {
        let message = say!(
            "{tokens} tokens are more than the {most} positions of the model: PyTorch refuses them where positions \
             are learned, and the model never saw them where they are computed",
            tokens,
            most
        );
        Diagnostic::new(Severity::Warning, "beyond-positions", message)
    });
    positions.into_iter().chain(beyond_window(graph, tokens))
}

/// That a text is longer than the window of attention.
pub fn beyond_window(graph: &Graph, tokens: u64) -> Option<Diagnostic> {
    let window = graph.window.filter(|&window| tokens > window)?;
    let message = say!(
        "{tokens} tokens are more than the attention's window of {window}: transformers makes a mask for it, which \
         is not estimated, so more may be needed",
        tokens,
        window
    );
    Some(Diagnostic::new(Severity::Warning, "beyond-window", message))
}

/// Numbers for all open dimensions of a graph.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    /// Every name and its number.
    pub(super) dims: BTreeMap<String, u64>,
    /// The names of assumed ones.
    assumed: Vec<String>,
    /// The file's fixed batch size and the one it becomes, where they differ.
    pub(super) rebatch: Option<(u64, u64)>,
    batch: Batch,
    /// Inputs that say how often a loop runs.
    counts: Vec<ValueId>,
}

impl Binding {
    /// Binds the user's numbers, and defaults for the rest.
    pub(super) fn new(
        graph: &Graph,
        given: &BTreeMap<String, u64>,
        sink: &Diagnostics,
    ) -> Result<Self, Error> {
        let open = open_dims(graph);
        let chosen = own_sizes(&open, given)?;
        let batch = Batch::find(graph);
        let mut dims = chosen.clone();
        let mut assumed = Vec::new();
        for dim in &open {
            // What no input has is as the configuration states it.
            if chosen.contains_key(&dim.name) || dim.inputs.is_empty() {
                continue;
            }
            // A size that the file states is no assumption.
            let stated = graph.dims.get(&dim.name).copied();
            let size = stated.unwrap_or_else(|| default_beside(dim, graph, &open, &chosen));
            dims.insert(dim.name.clone(), size);
            let is_assumed = stated.is_none() || graph.assumed_dims.contains(&dim.name);
            if is_assumed && !(dim.batch && matches!(batch, Batch::Fixed(_))) {
                let is_second = !dim.batch && Meaning::of(&dim.name) == Meaning::Batch;
                let follows = if is_second {
                    say!(", and follows the batch where only that is set")
                } else {
                    Sentence::default()
                };
                let message = say!(
                    "dimension `{name}` of {inputs} is assumed to be {size}{follows}; set it to what you train with",
                    name = dim.name,
                    inputs = dim.inputs.join(", "),
                    size,
                    follows
                );
                let assumes = Diagnostic::new(Severity::Info, ASSUMED_DIMENSION, message);
                sink.push(assumes.at(dim.name.as_str()));
                assumed.push(dim.name.clone());
            }
        }
        sink.extend(dims.get(SEQUENCE).into_iter().flat_map(|&tokens| beyond(graph, tokens)));
        let rebatch = match (&batch, chosen.get(BATCH)) {
            (Batch::Fixed(old), Some(new)) if old != new => Some((*old, *new)),
            _ => None,
        };
        Ok(Self { dims, assumed, rebatch, batch, counts: counts(graph) })
    }

    /// The number that an input says, where it decides how often a loop runs.
    pub(super) fn count(&self, graph: &Graph, id: ValueId) -> Option<Elements> {
        let size = self.counts.contains(&id).then(|| self.dims.get(graph.value_name(id)))??;
        Some(Elements::Ints(vec![i64::try_from(*size).unwrap_or(i64::MAX)]))
    }

    /// Type of a graph input, a fixed batch becoming `batch`; `None` without an element type.
    pub(super) fn input_type(
        &self,
        graph: &Graph,
        id: ValueId,
        batch: u64,
    ) -> Result<Option<TensorType>, Error> {
        let name = graph.value_name(id);
        let declared = graph.value(id).and_then(|value| value.declared.as_ref());
        let dims = declared.and_then(|declared| declared.dims.as_deref());
        // Exporters leave out the shape of a number.
        let dims = dims.or_else(|| self.counts.contains(&id).then_some(&[]));
        let (Some(declared), Some(dims)) = (declared, dims) else {
            let message = say!("the input `{name}` has no shape; export the model with one", name);
            return Err(Error::new(ErrorKind::InvalidGraph, message));
        };
        let sizes = dims.iter().enumerate().map(|(axis, dim)| {
            if let Dim::Known(n) = dim {
                return self.rescaled(*n, axis, batch);
            }
            let open = self.batch.name(name, axis, dim);
            open.and_then(|open| self.dims.get(&open).copied()).unwrap_or(1)
        });
        let sizes: Vec<u64> = sizes.collect();
        Ok(declared.dtype.map(|dtype| TensorType::new(dtype, sizes)))
    }

    /// A type stated inside the file, if every dimension of it is a number by now.
    pub(super) fn declared_type(&self, declared: &DeclaredType, batch: u64) -> Option<TensorType> {
        let dims = declared.dims.as_ref()?.iter().enumerate().map(|(axis, dim)| match dim {
            Dim::Known(n) => Some(self.rescaled(*n, axis, batch)),
            Dim::Named(name) => self.dims.get(name).copied(),
            Dim::Unknown => None,
        });
        Some(TensorType::new(declared.dtype?, dims.collect::<Option<Vec<_>>>()?))
    }

    fn rescaled(&self, n: u64, axis: usize, batch: u64) -> u64 {
        match self.rebatch {
            Some((old, _)) if axis == 0 && n == old => batch,
            _ => n,
        }
    }

    /// The assumed sizes as the beginning of a message about what may follow from them.
    pub(super) fn assumed(&self) -> Sentence {
        let size = |name: &String| self.dims.get(name).copied().unwrap_or(1);
        let all: Vec<_> =
            self.assumed.iter().map(|name| format!("{name}={}", size(name))).collect();
        let [first, ..] = self.assumed.as_slice() else { return Sentence::default() };
        let all = all.join(", ");
        say!("assumed: {all}; if that is wrong, set it (`--dim {first}=…`). With it, ", all, first)
    }

    /// The numbers as a clause for messages: ` with batch = 2, seq = 64`.
    pub(super) fn given(&self) -> Sentence {
        let all: Vec<String> =
            self.dims.iter().map(|(name, size)| format!("{name} = {size}")).collect();
        if all.is_empty() { Sentence::default() } else { say!(" with {all}", all = all.join(", ")) }
    }
}

/// The size of another dimension of the same kind, if the user chose one: a decoder's length
/// follows the encoder's, and of two names of batches the second the first, as does a name that says nothing
/// and stands in front wherever it stands: `torch.export` calls the batch of each input otherwise.
fn default_beside(
    dim: &OpenDim,
    graph: &Graph,
    open: &[OpenDim],
    chosen: &BTreeMap<String, u64>,
) -> u64 {
    let kind = Meaning::of(&dim.name);
    if kind == Meaning::Other && leads(graph, &dim.name) {
        let batch = open.iter().find(|other| other.batch);
        return batch.and_then(|batch| chosen.get(&batch.name)).copied().unwrap_or(dim.default);
    }
    if !matches!(kind, Meaning::Batch | Meaning::Sequence | Meaning::Side) {
        return dim.default;
    }
    let alike = open.iter().filter(|other| Meaning::of(&other.name) == kind);
    let mut sizes = alike.filter_map(|other| chosen.get(&other.name));
    sizes.next().copied().unwrap_or(dim.default)
}

/// Whether a dimension is the first of each input that has it.
fn leads(graph: &Graph, name: &str) -> bool {
    let mut leads = true;
    each_dim(graph, |_, _, axis, dim| {
        leads &= axis == 0 || !matches!(dim, Dim::Named(other) if other == name);
    });
    leads
}

/// Whether a length is that of what a decoder reads.
fn is_of_decoder(dim: &OpenDim) -> bool {
    let is_decoders = |input: &String| input.contains("decoder") || input == "labels";
    Meaning::of(&dim.name) == Meaning::Sequence && dim.inputs.iter().any(is_decoders)
}

/// Sizes by the names that the model has for its dimensions: what the user calls `batch` may be its `N`.
///
/// # Errors
/// When the model has no such dimension, two sizes of one are given, or a size is absurd.
pub fn own_sizes(
    open: &[OpenDim],
    given: &BTreeMap<String, u64>,
) -> Result<BTreeMap<String, u64>, Error> {
    let mut chosen = BTreeMap::new();
    for (name, &size) in given {
        let exact = open.iter().find(|dim| dim.name == *name);
        let is_meant = |dim: &&OpenDim| match name.as_str() {
            BATCH => dim.batch,
            SEQUENCE => Meaning::of(&dim.name) == Meaning::Sequence,
            Sizes::TARGET => is_of_decoder(dim),
            _ => false,
        };
        let alias = || {
            let alike = || open.iter().filter(is_meant);
            alike().find(|dim| !given.contains_key(&dim.name)).or_else(|| alike().next())
        };
        let dim = exact.or_else(alias).ok_or_else(|| unknown_name(name, open))?;
        if size == 0 || size > DIM_MAX {
            let message = say!(
                "dimension `{name}` is {size}; choose 1 to {dim_max}",
                name,
                size,
                dim_max = DIM_MAX
            );
            return Err(Error::new(ErrorKind::BadConfig, message));
        }
        let other = given.get(&dim.name).filter(|_| dim.name != *name);
        if let Some(other) = other {
            let message = say!(
                "two sizes of `{dim}` are given: {other}, and {size} as `{name}`; leave one out",
                dim = dim.name.as_str(),
                other,
                size,
                name
            );
            return Err(Error::new(ErrorKind::BadConfig, message));
        }
        chosen.insert(dim.name.clone(), size);
    }
    Ok(chosen)
}

fn unknown_name(name: &str, open: &[OpenDim]) -> Error {
    let names: Vec<String> = open.iter().map(|dim| format!("`{}`", dim.name)).collect();
    let message = if names.is_empty() {
        say!("the model has no dimension `{name}`: all of its inputs are scalars", name)
    } else {
        say!("the model has no dimension `{name}`; it has {names}", name, names = names.join(", "))
    };
    Error::new(ErrorKind::BadConfig, message)
}
