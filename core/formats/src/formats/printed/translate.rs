//! [`Printed`] → layers, in the order in which they run.

use crate::order::InOrder as _;
use std::collections::BTreeMap;

use super::blocks;
use super::text::Printed;
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind, Place};
use crate::formats::spec::kinds::{self, LayerKind, Takes};
use crate::formats::spec::{Body, Draft, Flow, Join, Layer, Module, Spec, Value};
use crate::sentence::Sentence;

/// Arguments that follow from a class.
type Flags = &'static [(&'static str, bool)];

/// Classes that are a layer of the table under another name, by how their names end: class, layer,
/// and arguments that follow from the class.
const CLASSES: &[(&str, &str, Flags)] = &[
    ("NonDynamicallyQuantizableLinear", "linear", &[]),
    ("Conv1D", "linear", &[]),
    ("SyncBatchNorm", "batchnorm2d", &[]),
    ("BatchNormAct2d", "batchnorm2d", &[]),
    ("FrozenBatchNorm2d", "batchnorm2d", &[]),
    ("LayerNormAct2d", "layernorm", &[]),
    ("LayerNorm2d", "layernorm", &[]),
    ("LayerNorm", "layernorm", &[]),
    ("RMSNorm", "rmsnorm", &[("composite", true)]),
    ("NewGELUActivation", "gelu_new", &[]),
    ("FastGELUActivation", "gelu_new", &[]),
    ("GELUTanh", "gelu", &[]),
    ("GELUActivation", "gelu", &[]),
    ("SiLUActivation", "silu", &[]),
    ("Dropout1d", "dropout", &[]),
    ("Dropout2d", "dropout", &[]),
    ("Dropout3d", "dropout", &[]),
    ("AlphaDropout", "dropout", &[]),
    ("DropPath", "drop_path", &[]),
    ("UpsamplingNearest2d", "upsample", &[]),
    ("UpsamplingBilinear2d", "upsample", &[]),
    ("AdaptiveAvgPool1d", "global_avgpool", &[]),
    ("AdaptiveAvgPool3d", "global_avgpool", &[]),
    ("AdaptiveMaxPool1d", "global_maxpool", &[]),
    ("AdaptiveMaxPool2d", "global_maxpool", &[]),
    ("AdaptiveMaxPool3d", "global_maxpool", &[]),
    ("ScaledWordEmbedding", "embedding", &[]),
    ("LearnedPositionalEmbedding", "embedding", &[]),
];

/// Modules that run nothing, by how their names end.
const SILENT: [&str; 6] =
    ["Loss", "RotaryEmbedding", "Identity", "ParameterList", "ParameterDict", "Metric"];

/// Single cells, which the forward calls step by step: how often is not in a print.
const RECURRENT: [&str; 3] = ["LSTMCell", "GRUCell", "RNNCell"];

/// Whether a module of this class runs nothing.
pub(in crate::formats) fn is_silent(class: &str) -> bool {
    SILENT.iter().any(|end| class.ends_with(end))
}

/// The layer of the table that a module is.
pub(in crate::formats) fn kind_of(module: &Printed) -> Option<&'static LayerKind> {
    let class = module.class.as_str();
    // PyTorch's own `RMSNorm` is one operator, and models' own are not.
    let own = ["LayerNorm", "RMSNorm"].contains(&class);
    let named = CLASSES.iter().find(|(end, ..)| class.ends_with(end) && !own);
    if let Some((_, kind, _)) = named {
        return kinds::find(kind);
    }
    // Only classes of PyTorch's are meant, and no short names of specs.
    kinds::find(class).filter(|kind| {
        kind.class.strip_prefix("nn.") == Some(class)
            || class == "StochasticDepth"
            || class == "LayerScale"
    })
}

/// Names of what comes in, as layers print it, and where it stands among the arguments.
const WIDTHS: [(&str, usize); 7] = [
    ("input_size", 0),
    ("in_channels", 0),
    ("in_features", 0),
    ("num_features", 0),
    ("nx", 1),
    ("num_channels", 1),
    ("normalized_shape", 0),
];

/// SIZE: what a layer says that it reads.
pub(super) fn width_in(module: &Printed, kind: &LayerKind) -> Option<u64> {
    let names: &[&str] = match kind.name {
        "linear" => &["in_features", "nx"],
        "groupnorm" => &["num_channels"],
        "layernorm" | "rmsnorm" => &["normalized_shape"],
        "embedding" => return Some(1),
        "lstm" | "gru" | "rnn" => &["input_size"],
        name if name.starts_with("conv") => &["in_channels"],
        name if name.starts_with("batchnorm") || name.starts_with("instancenorm") => {
            &["num_features"]
        }
        _ => return None,
    };
    let found = names.iter().find_map(|name| {
        let (_, position) = WIDTHS.iter().find(|(known, _)| known == name)?;
        module.argument(name, Some(*position))
    });
    match found? {
        Value::Int(n) => u64::try_from(*n).ok(),
        Value::Ints(list) => u64::try_from(*list.last()?).ok(),
        _ => None,
    }
    .filter(|&n| n > 0)
}

/// Where an argument of the table stands in a print.
fn position(kind: &LayerKind, argument: &str) -> Option<usize> {
    match (kind.name, argument) {
        (name, "out_channels") => name.starts_with("conv").then_some(1),
        ("linear", "out_features")
        | ("lstm" | "gru" | "rnn", "hidden_size")
        | ("embedding", "embedding_dim") => Some(1),
        ("embedding", "num_embeddings") | ("groupnorm", "num_groups") | ("drop_path", "p") => {
            Some(0)
        }
        _ => None,
    }
}

/// How far off an input is at which a layer does not fit, or is left out; a pool that is put in is as far
/// off as it is wide.
const FAR: u64 = 1000;

/// What a translation came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) layers: Vec<Layer>,
    /// Classes whose `forward` is not known, each with its first line.
    pub(super) unknown: Vec<String>,
    /// How much had to be put in where sizes do not fit; 0 where they do.
    pub(super) guesses: u64,
    pub(super) notes: Vec<Diagnostic>,
}

/// A translation on its way.
#[derive(Debug)]
pub(super) struct Translator<'s> {
    draft: Draft<'s>,
    input: Flow,
    unknown: BTreeMap<String, usize>,
    notes: BTreeMap<&'static str, (Severity, Sentence, usize)>,
    guesses: u64,
    /// Paths of embeddings of words, with rows and width.
    embeddings: Vec<(String, u64, u64)>,
    path: Vec<String>,
}

impl<'s> Translator<'s> {
    pub(super) fn new(spec: &'s Spec) -> Result<Self, Error> {
        let (draft, inputs) = Draft::new(spec)?;
        let input = inputs.into_iter().next();
        let input =
            input.ok_or_else(|| Error::new(ErrorKind::NoGraph, say!("there is no input")))?;
        let (unknown, notes) = (BTreeMap::new(), BTreeMap::new());
        let (embeddings, path) = (Vec::new(), Vec::new());
        Ok(Self { draft, input, unknown, notes, guesses: 0, embeddings, path })
    }

    pub(super) fn translate(mut self, root: &Printed) -> Result<Outcome, Error> {
        let mut row = Row::new(&mut self);
        if root.children.is_empty() {
            row.module(root)?;
        } else {
            row.inside(root)?;
        }
        let layers = row.layers;
        let notes = self.notes.into_iter().map(|(code, (severity, message, count))| {
            let message = match count {
                1 => message,
                2 => say!("{message}; and once more", message),
                n => {
                    say!("{message}; and {times} times more", message, times = n.saturating_sub(1))
                }
            };
            Diagnostic::new(severity, code, message)
        });
        let mut unknown: Vec<(String, usize)> = self.unknown.into_iter().collect();
        unknown.order_by_key(|(_, line)| *line);
        let unknown = unknown.into_iter().map(|(class, line)| format!("`{class}` (line {line})"));
        let (unknown, notes) = (unknown.collect(), notes.collect());
        Ok(Outcome { layers, unknown, guesses: self.guesses, notes })
    }
}

/// Adds one of several ways.
type Way<'w, 's> = &'w dyn Fn(&mut Row<'_, 's>) -> Result<(), Error>;

/// Layers in a row, and what flows behind the last of them.
#[derive(Debug)]
pub(super) struct Row<'t, 's> {
    translator: &'t mut Translator<'s>,
    layers: Vec<Layer>,
    pub(super) x: Flow,
}

impl<'t, 's> Row<'t, 's> {
    fn new(translator: &'t mut Translator<'s>) -> Self {
        let x = translator.input.clone();
        Self { translator, layers: Vec::new(), x }
    }

    /// Other layers that begin with what flows here: they, and what comes out.
    fn aside(
        &mut self,
        add: impl FnOnce(&mut Row<'_, 's>) -> Result<(), Error>,
    ) -> Result<(Vec<Layer>, Flow), Error> {
        let mut row = Row { translator: self.translator, layers: Vec::new(), x: self.x.clone() };
        add(&mut row)?;
        Ok((row.layers, row.x))
    }

    /// The model must be told of this.
    pub(super) fn note(&mut self, severity: Severity, code: &'static str, message: Sentence) {
        let known = self.translator.notes.entry(code).or_insert((severity, message, 0));
        known.2 = known.2.saturating_add(1);
    }

    /// Sizes do not fit, and something is put in that is so far off what was printed.
    const fn guess(&mut self, far: u64) {
        self.translator.guesses = self.translator.guesses.saturating_add(far);
    }

    /// A module that is printed.
    pub(super) fn module(&mut self, module: &Printed) -> Result<(), Error> {
        if module.count > 1 {
            return self.repeat(module);
        }
        self.translator.path.push(module.name.clone());
        let result = self.single(module);
        self.translator.path.pop();
        result
    }

    fn single(&mut self, module: &Printed) -> Result<(), Error> {
        if !module.children.is_empty() || blocks::find(module).is_some() {
            let (layers, x) = self.aside(|row| row.inside(module))?;
            self.push(module, Body::Sequential(layers));
            self.x = x;
            return Ok(());
        }
        self.leaf(module)
    }

    fn push(&mut self, module: &Printed, body: Body) {
        let index = self.layers.len().to_string();
        let is_known =
            self.layers.iter().any(|layer| layer.name.as_deref() == Some(module.name.as_str()));
        let layer = Layer { place: module.place, ..Layer::new(body) };
        let named = module.name != index && !module.name.is_empty() && !is_known;
        self.layers.push(if named { layer.named(module.name.clone()) } else { layer });
    }

    /// The modules inside of one.
    fn inside(&mut self, module: &Printed) -> Result<(), Error> {
        if let Some(block) = blocks::find(module) {
            return (block.forward)(self, module);
        }
        if !blocks::runs_in_order(&module.class) {
            self.unsure(module);
        }
        self.all(&module.children)
    }

    /// What this class does is not known, or not all of it.
    pub(super) fn unsure(&mut self, module: &Printed) {
        let line = module.place.line;
        self.translator.unknown.entry(module.class.clone()).or_insert(line);
    }

    /// Layers inside of a module that is printed.
    pub(super) fn named(
        &mut self,
        module: &Printed,
        add: impl FnOnce(&mut Row<'_, 's>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (layers, x) = self.aside(add)?;
        self.push(module, Body::Sequential(layers));
        self.x = x;
        Ok(())
    }

    /// Modules in the order in which they stand.
    pub(super) fn all(&mut self, modules: &[Printed]) -> Result<(), Error> {
        modules.iter().try_for_each(|module| self.module(module))
    }

    /// Those of these names that there are, in this order.
    pub(super) fn each(&mut self, module: &Printed, names: &[&str]) -> Result<(), Error> {
        names.iter().filter_map(|name| module.child(name)).try_for_each(|it| self.module(it))
    }

    fn repeat(&mut self, module: &Printed) -> Result<(), Error> {
        let one = Printed { count: 1, name: "0".to_owned(), ..module.clone() };
        let before = self.x.sizes();
        let (block, x) = self.aside(|row| row.single_inside(&one))?;
        if x.sizes() == before {
            self.x = x;
            let body = Body::Repeat { count: module.count, block };
            self.layers.push(Layer { place: module.place, ..Layer::new(body) });
            return Ok(());
        }
        (0..module.count)
            .try_for_each(|index| self.module(&Printed { name: index.to_string(), ..one.clone() }))
    }

    /// What a module is, without a module around.
    fn single_inside(&mut self, module: &Printed) -> Result<(), Error> {
        if module.children.is_empty() && blocks::find(module).is_none() {
            return self.leaf(module);
        }
        self.inside(module)
    }

    /// `body(x) + x`.
    pub(super) fn residual(
        &mut self,
        inplace: bool,
        body: impl FnOnce(&mut Row<'_, 's>) -> Result<(), Error>,
        shortcut: impl FnOnce(&mut Row<'_, 's>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (body, y) = self.aside(body)?;
        let (shortcut, other) = self.aside(shortcut)?;
        self.x = self.translator.draft.join(Join::Add, &[y, other], 1, Place::default())?;
        self.layers.push(Layer::new(Body::Residual { body, shortcut, inplace }));
        Ok(())
    }

    /// The same where sizes are kept, and the body alone elsewhere.
    pub(super) fn residual_if_alike(
        &mut self,
        inplace: bool,
        body: impl FnOnce(&mut Row<'_, 's>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut body, y) = self.aside(body)?;
        if y.sizes() == self.x.sizes() {
            let operands = [y, self.x.clone()];
            self.x = self.translator.draft.join(Join::Add, &operands, 1, Place::default())?;
            let shortcut = Vec::new();
            self.layers.push(Layer::new(Body::Residual { body, shortcut, inplace }));
        } else {
            self.x = y;
            self.layers.append(&mut body);
        }
        Ok(())
    }

    /// Several ways, joined.
    pub(super) fn branch(
        &mut self,
        join: Join,
        dim: i64,
        ways: &[Way<'_, 's>],
    ) -> Result<(), Error> {
        let (mut arms, mut flows) = (Vec::new(), Vec::new());
        for way in ways {
            let (arm, y) = self.aside(way)?;
            arms.push(arm);
            flows.push(y);
        }
        self.x = self.translator.draft.join(join, &flows, dim, Place::default())?;
        self.layers.push(Layer::new(Body::Branch { arms, join, dim }));
        Ok(())
    }

    /// A call that is not printed, by the name of a layer.
    pub(super) fn call(&mut self, kind: &str, arguments: &[(&str, Value)]) -> Result<(), Error> {
        let module = built(kind, arguments)?;
        self.x = self.translator.draft.module(&module, &self.x, Place::default())?;
        self.layers.push(module.into());
        Ok(())
    }

    /// A module that stands for a printed one.
    pub(super) fn as_kind(
        &mut self,
        module: &Printed,
        kind: &str,
        arguments: &[(&str, Value)],
    ) -> Result<(), Error> {
        let built = built(kind, arguments)?;
        self.x = self.translator.draft.module(&built, &self.x, module.place)?;
        self.push(module, Body::Module(built));
        Ok(())
    }

    /// A linear layer that uses the table of words, if there is one of its size.
    pub(super) fn tied_head(&mut self, module: &Printed) -> Result<(), Error> {
        let (kind, before) = (kind_of(module), self.layers.len());
        let width = kind.and_then(|kind| width_in(module, kind));
        self.module(module)?;
        let rows = self.x.width();
        let table = self.translator.embeddings.iter();
        let mut table = table.filter(|(_, n, m)| (Some(*n), Some(*m)) == (rows, width));
        let Some((path, ..)) = table.next() else { return Ok(()) };
        let path = path.clone();
        if let Some(Layer { body: Body::Module(head), .. }) = self.layers.get_mut(before) {
            *head = head.clone().with("tie", path.clone())?;
            let message = say!(
                "the weights of `{name}` (line {line}) and `{path}` are assumed to be one tensor, which a print does not show",
                name = module.name,
                line = module.place.line,
                path
            );
            self.note(Severity::Warning, "assumed-tied-weights", message);
        }
        Ok(())
    }

    /// A layer of the table.
    fn leaf(&mut self, module: &Printed) -> Result<(), Error> {
        let Some(kind) = kind_of(module) else { return self.unknown_leaf(module) };
        if kind.name == "embedding" && self.x.rank() > 2 {
            return self.later_embedding(module, kind);
        }
        let place = module.place;
        let mut built = Module::new(kind.name)?;
        for argument in kind.arguments {
            let alias = match argument.name {
                "out_features" => "nf",
                "p" => "drop_prob",
                _ => "",
            };
            let value = module.argument(argument.name, position(kind, argument.name));
            let Some(value) = value.or_else(|| module.argument(alias, None)) else { continue };
            let whole = matches!(argument.takes, Takes::Count | Takes::Counts);
            let value = match value {
                Value::Number(x) if whole && x.fract() == 0.0 => {
                    Value::Int(format!("{x:.0}").parse().unwrap_or(1))
                }
                value => value.clone(),
            };
            // `mode=row`, `track_running_stats`: what a layer here does not take, it does without.
            match built.clone().with(argument.name, value) {
                Ok(with) => built = with,
                Err(error) => {
                    let message = say!("`{name}`: {error}", name = module.name, error);
                    return Err(Error::new(ErrorKind::BadSpec, message).at(place));
                }
            }
        }
        let own = CLASSES.iter().find(|(end, ..)| module.class.ends_with(end));
        if let Some((_, found, flags)) = own.filter(|_| module.class != "RMSNorm")
            && kinds::find(found).is_some_and(|found| found.name == kind.name)
        {
            for (name, flag) in *flags {
                built = built.with(name, *flag)?;
            }
        }
        let around = self.adapt(module, kind)?;
        if kind.name == "embedding" && self.x.rank() == 2 {
            let size = |name, position| match module.argument(name, Some(position)) {
                Some(Value::Int(n)) => u64::try_from(*n).unwrap_or(0),
                _ => 0,
            };
            let (rows, width) = (size("num_embeddings", 0), size("embedding_dim", 1));
            self.translator.embeddings.push((self.translator.path.join("."), rows, width));
        }
        let without_parameters = width_in(module, kind).is_none();
        self.x = match self.translator.draft.module(&built, &self.x, place) {
            Err(error) if without_parameters && error.kind() != ErrorKind::TooLarge => {
                let message = say!(
                    "`{name}` is left out, because it does not fit: {error}",
                    name = module.name,
                    error
                );
                self.note(Severity::Warning, "left-out", message);
                self.guess(FAR);
                return Ok(());
            }
            result => result?,
        };
        self.push(module, Body::Module(built));
        if around {
            self.call("permute", &[("dims", Value::Ints(vec![0, 3, 1, 2]))])?;
        }
        Ok(())
    }

    /// A table beside the words': of positions, or of types.
    fn later_embedding(&mut self, module: &Printed, kind: &'static LayerKind) -> Result<(), Error> {
        let number = |name| match module.argument(name, position(kind, name)) {
            Some(Value::Int(n)) => u64::try_from(*n).ok(),
            _ => None,
        };
        let (rows, width) = (number("num_embeddings"), number("embedding_dim"));
        let fits = self.x.rank() == 3 && width.is_some() && width == self.x.width();
        match rows {
            Some(rows) if fits && self.x.size(1).is_some_and(|length| rows >= length) => {
                let arguments = [("length", Value::from(rows)), ("lookup", Value::Flag(true))];
                self.as_kind(module, "positional_embedding", &arguments)
            }
            Some(rows) if fits => {
                self.as_kind(module, "type_embedding", &[("types", Value::from(rows))])
            }
            _ => {
                let message = say!(
                    "`{name}` reads numbers of rows, and {shown} comes in",
                    name = module.name,
                    shown = self.x.shown()
                );
                Err(Error::new(ErrorKind::BadSpec, message).at(module.place))
            }
        }
    }

    fn unknown_leaf(&mut self, module: &Printed) -> Result<(), Error> {
        let class = module.class.as_str();
        if class.starts_with("Parameter") {
            let line = module.place.line;
            let message =
                say!("what `{class}` (line {line}) holds is missing, and its use", class, line);
            self.note(Severity::Error, "parameters-missing", message);
        }
        if is_silent(class) || blocks::runs_in_order(class) {
            return Ok(());
        }
        let line = module.place.line;
        if RECURRENT.contains(&class) {
            let message = say!(
                "`{class}` (line {line}) is recurrent, and the memory of that is not modelled: its \
                 parameters and activations are missing",
                class,
                line
            );
            self.note(Severity::Error, "recurrent", message);
            let width = match module.argument("hidden_size", Some(1)) {
                Some(Value::Int(n)) => u64::try_from(*n).unwrap_or(1),
                _ => return Ok(()),
            };
            let ways = if module.argument("bidirectional", None) == Some(&Value::Flag(true)) {
                2
            } else {
                1
            };
            let size = Value::from(width.saturating_mul(ways));
            return self.as_kind(module, "stand_in", &[("size", size)]);
        }
        let message = say!(
            "`{class}` (line {line}) is no layer that is known here: what it computes, and parameters \
             of it, are missing",
            class,
            line
        );
        self.note(Severity::Error, "unknown-layer", message);
        self.translator.unknown.entry(module.class.clone()).or_insert(line);
        Ok(())
    }

    /// Brings what flows to what a layer says that it reads. Whether channels were put last for it.
    fn adapt(&mut self, module: &Printed, kind: &'static LayerKind) -> Result<bool, Error> {
        let Some(want) = width_in(module, kind) else { return Ok(false) };
        let (rank, last) = (self.x.rank(), self.x.width());
        let is_of_rows = ["linear", "layernorm", "rmsnorm"].contains(&kind.name);
        if kind.name == "embedding" {
            return Ok(false);
        }
        if !is_of_rows {
            if rank == 2 && kind.name.ends_with("2d") {
                self.picture_of(want)?;
            }
            if self.x.size(1) == Some(want) {
                return Ok(false);
            }
            self.stand_in(module, want, 1)?;
            return Ok(false);
        }
        if rank == 4 && kind.name != "linear" && self.x.size(1) == Some(want) {
            self.call("permute", &[("dims", Value::Ints(vec![0, 2, 3, 1]))])?;
            return Ok(true);
        }
        if last == Some(want) || kind.name == "linear" && rank > 2 && self.flatten(module, want)? {
            return Ok(false);
        }
        self.stand_in(module, want, -1)?;
        Ok(false)
    }

    /// Makes rows of a picture for a linear layer, if one of the usual ways gives what it reads.
    fn flatten(&mut self, module: &Printed, want: u64) -> Result<bool, Error> {
        let rank = self.x.rank();
        let size = |axis| self.x.size(axis);
        let whole = (1..rank).try_fold(1_u64, |all, axis| size(axis)?.checked_mul(all));
        let channels = size(1).filter(|&n| n > 0);
        let square = size(2).filter(|_| rank == 4 && size(2) == size(3));
        let window = channels.zip(square).and_then(|(channels, side)| {
            let places = want.checked_div_euclid(channels)?;
            let left = places.isqrt();
            let window = side.checked_div_euclid(left)?;
            let fits = left.checked_mul(left)?.checked_mul(channels)? == want && window > 1;
            (fits && side.checked_div_euclid(window)? == left).then_some(window)
        });
        let (what, pool) = if whole == Some(want) {
            ("flatten", None)
        } else if channels == Some(want) && rank > 3 {
            ("global_avgpool, flatten", Some(("global_avgpool", None)))
        } else if let Some(window) = window {
            ("maxpool2d, flatten", Some(("maxpool2d", Some(window))))
        } else {
            // Channels that do not divide it come from a model that has them last.
            if rank > 3 && channels.is_some_and(|channels| want.is_multiple_of(channels)) {
                self.call("flatten", &[])?;
            }
            return Ok(false);
        };
        let (name, line) = (&module.name, module.place.line);
        let message = say!(
            "`{what}` is put in before `{name}` (line {line}), whose input it fits",
            what,
            name,
            line
        );
        self.note(Severity::Info, "inserted", message);
        match pool {
            Some((kind, Some(window))) => {
                self.guess(window.saturating_sub(1));
                self.call(kind, &[("kernel_size", Value::from(window))])?;
            }
            Some((kind, None)) => self.call(kind, &[])?,
            None => {}
        }
        self.call("flatten", &[])?;
        Ok(true)
    }

    /// A picture of what a linear layer made: `x.view(-1, C, s, s)`.
    fn picture_of(&mut self, channels: u64) -> Result<(), Error> {
        let Some(width) = self.x.width() else { return Ok(()) };
        let side = width.checked_div_euclid(channels).unwrap_or(0).isqrt();
        if side == 0 || side.saturating_mul(side).checked_mul(channels) != Some(width) {
            return self.call("reshape", &[("shape", Value::Ints(vec![0, -1, 1, 1]))]);
        }
        let signed = |n| i64::try_from(n).unwrap_or(1);
        let shape = vec![0, signed(channels), signed(side), signed(side)];
        self.call("reshape", &[("shape", Value::Ints(shape))])
    }

    /// Two layers do not fit: what is between them is not known.
    fn stand_in(&mut self, module: &Printed, want: u64, dim: i64) -> Result<(), Error> {
        let before = self.layers.last().and_then(|layer| layer.name.clone());
        let before = before.map_or_else(Sentence::default, |name| say!(" from `{name}`", name));
        let message = say!(
            "`{name}` (line {line}) reads {want}, and {shown} comes in{before}: what lies between is unknown",
            name = module.name,
            line = module.place.line,
            want,
            shown = self.x.shown(),
            before
        );
        self.note(Severity::Warning, "sizes-do-not-fit", message);
        self.guess(FAR);
        self.call("stand_in", &[("size", Value::from(want)), ("dim", Value::Int(dim))])
    }
}

fn built(kind: &str, arguments: &[(&str, Value)]) -> Result<Module, Error> {
    let module = Module::new(kind)?;
    arguments.iter().try_fold(module, |module, (name, value)| module.with(name, value.clone()))
}
