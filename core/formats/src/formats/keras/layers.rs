//! Layers of Keras, by class: the operators that PyTorch runs for each.

use super::super::spec::tree::{Content, Tree, fault};
use super::super::spec::{Draft, Flow, Layer, Module, Value};
use super::{Node, Order, get, word};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Error;
use crate::sentence::Sentence;

/// What runs nothing while a step is taken on tensors that are ready.
const LEFT_OUT: [&str; 11] = [
    "Masking",
    "Rescaling",
    "Normalization",
    "RandomFlip",
    "RandomRotation",
    "RandomZoom",
    "RandomCrop",
    "RandomContrast",
    "RandomTranslation",
    "Resizing",
    "ActivityRegularization",
];

/// Layers that do the same to every row, so that steps make no difference.
const BY_ROW: [&str; 5] = ["Dense", "Dropout", "Activation", "LayerNormalization", "Embedding"];

/// Names of activations that are called otherwise here.
const ACTIVATIONS: [(&str, &str); 4] = [
    ("swish", "silu"),
    ("hard_sigmoid", "hardsigmoid"),
    ("hard_silu", "hardswish"),
    ("hard_swish", "hardswish"),
];

/// Layers in a row.
pub(super) struct Row<'s> {
    pub(super) draft: Draft<'s>,
    order: Order,
    /// What the cross-attention that is added reads.
    pub(super) context: Option<String>,
    /// COUNT: models around what is added.
    pub(super) depth: usize,
    pub(super) layers: Vec<Layer>,
    pub(super) notes: Vec<Diagnostic>,
}

/// Arguments of a layer, with the place for messages.
pub(super) struct Given<'n, 't>(pub(super) &'n Node<'t>);

impl Given<'_, '_> {
    pub(super) fn tree(&self, key: &str) -> Option<&Tree> {
        get(self.0.config, key).filter(|tree| tree.content != Content::Null)
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.tree(key)?.content {
            Content::Int(n) => u64::try_from(n).ok(),
            _ => None,
        }
    }

    fn needed(&self, key: &str) -> Result<u64, Error> {
        self.number(key).filter(|&n| n > 0).ok_or_else(|| {
            fault(
                self.0.place,
                say!("`{key}` of `{class}` is a number from 1", key, class = self.0.class),
            )
        })
    }

    /// One number for each of so many dimensions.
    fn numbers(&self, key: &str, count: usize) -> Option<Vec<u64>> {
        match &self.tree(key)?.content {
            Content::Int(n) => Some(vec![u64::try_from(*n).ok()?; count]),
            Content::List(items) => {
                let numbers = items.iter().map(|item| match item.content {
                    Content::Int(n) => u64::try_from(n).ok(),
                    _ => None,
                });
                numbers.collect::<Option<Vec<u64>>>().filter(|list| list.len() == count)
            }
            _ => None,
        }
    }

    fn flag(&self, key: &str, usual: bool) -> bool {
        match self.tree(key).map(|tree| &tree.content) {
            Some(Content::Flag(flag)) => *flag,
            _ => usual,
        }
    }

    fn share(&self, key: &str, usual: f64) -> f64 {
        match self.tree(key).map(|tree| &tree.content) {
            Some(Content::Number(x)) => *x,
            Some(Content::Int(0)) => 0.0,
            _ => usual,
        }
    }

    /// The layer that it wraps.
    fn inner(&self) -> Result<Node<'_>, Error> {
        let tree = self.tree("layer").ok_or_else(|| self.fault(&say!("it wraps no `layer`")))?;
        let class = word(tree, "class_name").unwrap_or_default();
        let config = get(tree, "config").unwrap_or(tree);
        let name = self.0.name.clone();
        Ok(Node { name, class, config, calls: Vec::new(), causal: false, place: self.0.place })
    }

    pub(super) fn fault(&self, message: &Sentence) -> Error {
        let message = say!(
            "`{name}` ({class}): {message}",
            name = self.0.name,
            class = self.0.class,
            message
        );
        fault(self.0.place, message)
    }
}

/// Layers that one layer of Keras becomes.
pub(super) struct Part {
    pub(super) layers: Vec<Layer>,
    pub(super) x: Flow,
}

impl<'s> Row<'s> {
    pub(super) const fn new(draft: Draft<'s>, order: Order) -> Self {
        Self { draft, order, context: None, depth: 0, layers: Vec::new(), notes: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        given: &Given<'_, '_>,
        part: &mut Part,
        kind: &str,
        arguments: &[(&str, Value)],
    ) -> Result<(), Error> {
        let with = |module: Module, (name, value): &(&str, Value)| module.with(name, value.clone());
        let module = arguments.iter().try_fold(Module::new(kind)?, with);
        let module = module.map_err(|error| given.fault(&error.sentence()))?;
        part.x = self.draft.module(&module, &part.x, given.0.place)?;
        part.layers.push(Layer { place: given.0.place, ..module.into() });
        Ok(())
    }

    pub(super) fn joined_along(&self, given: &Given<'_, '_>, x: &Flow) -> i64 {
        let axis = match given.tree("axis").map(|tree| &tree.content) {
            Some(Content::Int(n)) => *n,
            _ => -1,
        };
        let rank = i64::try_from(x.rank()).unwrap_or(2);
        let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
        match axis {
            axis if !self.moved(x) || axis == 0 => axis,
            axis if axis.saturating_add(1) == rank => 1,
            axis => axis.saturating_add(1),
        }
    }

    /// Whether channels lie second here and last in Keras.
    fn moved(&self, x: &Flow) -> bool {
        self.order.channels_last && (x.rank() >= 4 || x.rank() == 3 && self.order.signals)
    }

    pub(super) fn activation(
        &mut self,
        given: &Given<'_, '_>,
        part: &mut Part,
        name: &str,
    ) -> Result<(), Error> {
        let known = ACTIVATIONS.iter().find(|(keras, _)| *keras == name);
        let kind = known.map_or(name, |(_, kind)| kind);
        let dim = if self.moved(&part.x) { 1 } else { -1 };
        match kind {
            "linear" => Ok(()),
            "softmax" | "log_softmax" => self.add(given, part, kind, &[("dim", Value::Int(dim))]),
            "relu" | "relu6" | "gelu" | "elu" | "selu" | "celu" | "silu" | "mish" | "sigmoid"
            | "tanh" | "softplus" | "hardsigmoid" | "hardswish" | "leaky_relu" => {
                self.add(given, part, kind, &[])
            }
            _ => Err(given.fault(&say!("the activation `{name}` is not supported", name))),
        }
    }

    #[expect(clippy::too_many_lines, reason = "a table of classes")]
    pub(super) fn module(&mut self, given: &Given<'_, '_>, part: &mut Part) -> Result<(), Error> {
        let class = given.0.class.as_str();
        let flag = |key, usual| Value::Flag(given.flag(key, usual));
        let spatial = match class.chars().rev().nth(1) {
            Some('1') => 1_usize,
            Some('3') => 3,
            _ => 2,
        };
        match class.trim_end_matches("1D").trim_end_matches("2D").trim_end_matches("3D") {
            "Dense" => {
                let units = [
                    ("out_features", given.needed("units")?.into()),
                    ("bias", flag("use_bias", true)),
                ];
                self.of_rows(given, part, "linear", &units)
            }
            "Conv" | "Convolution" => {
                let out = given.needed("filters")?;
                self.conv(given, part, spatial, out, given.number("groups").unwrap_or(1), true)
            }
            "DepthwiseConv" => {
                let channels = part.x.size(1).unwrap_or(1);
                let out = channels.saturating_mul(given.number("depth_multiplier").unwrap_or(1));
                self.conv(given, part, spatial, out, channels, true)
            }
            "SeparableConv" => {
                let channels = part.x.size(1).unwrap_or(1);
                let between =
                    channels.saturating_mul(given.number("depth_multiplier").unwrap_or(1));
                self.conv(given, part, spatial, between, channels, false)?;
                let arguments = [
                    ("out_channels", given.needed("filters")?.into()),
                    ("kernel_size", Value::Int(1)),
                    ("bias", flag("use_bias", true)),
                ];
                self.add(given, part, &format!("conv{spatial}d"), &arguments)
            }
            _ if class.ends_with("Transpose") => self.conv_transpose(given, part),
            "BatchNormalization" | "SyncBatchNormalization" => {
                let kind = match part.x.rank() {
                    2 | 3 => "batchnorm1d",
                    5 => "batchnorm3d",
                    _ => "batchnorm2d",
                };
                if !given.flag("scale", true) || !given.flag("center", true) {
                    let message = say!(
                        "`{name}` has no scale or no shift in Keras; PyTorch's has both",
                        name = given.0.name
                    );
                    self.notes.push(Diagnostic::new(Severity::Info, "keras-batchnorm", message));
                }
                self.add(given, part, kind, &[])
            }
            "LayerNormalization" => {
                self.of_rows(given, part, "layernorm", &[("bias", flag("center", true))])
            }
            "GroupNormalization" => {
                let groups = [("num_groups", given.needed("groups")?.into())];
                self.add(given, part, "groupnorm", &groups)
            }
            "MaxPooling" | "MaxPool" => self.pool(given, part, spatial, "maxpool"),
            "AveragePooling" | "AvgPool" => self.pool(given, part, spatial, "avgpool"),
            "GlobalAveragePooling" | "GlobalMaxPooling" | "GlobalAvgPool" | "GlobalMaxPool" => {
                let kind = if class.contains("Max") { "global_maxpool" } else { "global_avgpool" };
                if part.x.rank() == 3 && !self.moved(&part.x) && kind == "global_avgpool" {
                    return self.add(given, part, "mean", &[("dim", Value::Int(1))]);
                }
                self.add(given, part, kind, &[])?;
                if given.flag("keepdims", false) {
                    return Ok(());
                }
                self.add(given, part, "flatten", &[])
            }
            "Flatten" => self.add(given, part, "flatten", &[]),
            "Reshape" => self.reshape(given, part),
            "Dropout" | "SpatialDropout" | "AlphaDropout" | "GaussianDropout" => {
                let rate = Value::Number(given.share("rate", 0.5));
                // Noise of one number for each sample is stochastic depth.
                let whole = given.tree("noise_shape").is_some_and(|noise| {
                    let rest = super::list(noise).iter().skip(1);
                    rest.clone().count() > 0
                        && rest.into_iter().all(|n| n.content == Content::Int(1))
                });
                let kind = if whole { "drop_path" } else { "dropout" };
                self.add(given, part, kind, &[("p", rate)])
            }
            "Activation" => match given.tree("activation").map(|tree| &tree.content) {
                Some(Content::Text(name)) => self.activation(given, part, name),
                _ => Err(given.fault(&say!("its activation is no word"))),
            },
            "ReLU" => {
                let six =
                    given.share("max_value", 0.0) > 0.0 || given.number("max_value") == Some(6);
                self.add(given, part, if six { "relu6" } else { "relu" }, &[])
            }
            "LeakyReLU" => self.add(given, part, "leaky_relu", &[]),
            "ELU" => self.add(given, part, "elu", &[]),
            "PReLU" => {
                let message = say!(
                    "`{name}`: PyTorch's PReLU has one slope where Keras has one for each place",
                    name = given.0.name
                );
                self.notes.push(Diagnostic::new(Severity::Warning, "keras-prelu", message));
                self.add(given, part, "prelu", &[])
            }
            "Softmax" => self.activation(given, part, "softmax"),
            "Embedding" => {
                let sizes = [
                    ("num_embeddings", given.needed("input_dim")?.into()),
                    ("embedding_dim", given.needed("output_dim")?.into()),
                ];
                self.add(given, part, "embedding", &sizes)?;
                if self.moved(&part.x) {
                    let dims = Value::Ints(vec![0, 2, 1]);
                    return self.add(given, part, "permute", &[("dims", dims)]);
                }
                Ok(())
            }
            "MultiHeadAttention" => {
                let heads = [
                    ("num_heads", given.needed("num_heads")?.into()),
                    ("head_dim", given.needed("key_dim")?.into()),
                    ("bias", flag("use_bias", true)),
                    ("dropout", Value::Number(given.share("dropout", 0.0))),
                ];
                let (kind, own) = if let Some(context) = self.context.take() {
                    ("cross_attention", vec![("context", Value::Word(context))])
                } else {
                    let causal = ("causal", Value::Flag(given.0.causal));
                    ("attention", vec![("fused_qkv", Value::Flag(false)), causal])
                };
                let heads: Vec<_> = heads.into_iter().chain(own).collect();
                self.add(given, part, kind, &heads)
            }
            "ZeroPadding" => {
                let padding = zero_padding(given, spatial).ok_or_else(|| {
                    given.fault(&say!("its padding is not a number, or two for each side"))
                })?;
                self.add(given, part, "zero_pad", &[("padding", Value::Ints(padding))])
            }
            "UpSampling" => {
                let size = given.numbers("size", spatial).unwrap_or_else(|| vec![2; spatial]);
                let first = size.first().copied().unwrap_or(2);
                if spatial != 2 || size.iter().any(|&n| n != first) {
                    return Err(
                        given.fault(&say!("only pictures are made larger here, by one number"))
                    );
                }
                let mode = word(given.0.config, "interpolation").unwrap_or_default();
                let mode = if mode == "bilinear" { "bilinear" } else { "nearest" };
                let arguments = [("scale_factor", first.into()), ("mode", Value::from(mode))];
                self.add(given, part, "upsample", &arguments)
            }
            "Lambda" => Err(given.fault(&say!(
                "it holds code, which is never run here; put a layer in its place, or export ONNX"
            ))),
            "LSTM" | "GRU" | "SimpleRNN" => self.recurrent(given, part, given.0, false),
            "Bidirectional" => {
                let inner = given.inner()?;
                if word(given.0.config, "merge_mode").is_some_and(|mode| mode != "concat") {
                    return Err(
                        given.fault(&say!("only directions that are concatenated are read here"))
                    );
                }
                self.recurrent(given, part, &inner, true)
            }
            "TimeDistributed" => {
                let inner = given.inner()?;
                if !BY_ROW.contains(&inner.class.as_str()) {
                    let message = say!("`{class}` by steps is not read here", class = inner.class);
                    return Err(given.fault(&message));
                }
                self.module(&Given(&inner), part)?;
                self.own_activation(&Given(&inner), part)
            }
            _ if LEFT_OUT.contains(&class) => {
                let message = say!(
                    "`{name}` ({class}) prepares data, which in PyTorch happens before the step; it is left out",
                    name = given.0.name,
                    class
                );
                self.notes.push(Diagnostic::new(Severity::Info, "keras-left-out", message));
                Ok(())
            }
            _ => {
                Err(given
                    .fault(&say!("this class is not supported; export the model as ONNX instead")))
            }
        }
    }

    /// What Keras calls behind a layer that has an `activation` of its own.
    pub(super) fn own_activation(
        &mut self,
        given: &Given<'_, '_>,
        part: &mut Part,
    ) -> Result<(), Error> {
        let inside =
            ["Activation", "MultiHeadAttention", "LSTM", "GRU", "SimpleRNN", "Bidirectional"];
        match given.tree("activation").map(|tree| &tree.content) {
            Some(Content::Text(name)) if !inside.contains(&given.0.class.as_str()) => {
                self.activation(given, part, name)
            }
            _ => Ok(()),
        }
    }

    /// `nn.LSTM` and its kin. Keras adds one bias where PyTorch adds two; only its GRU has both.
    fn recurrent(
        &mut self,
        given: &Given<'_, '_>,
        part: &mut Part,
        cell: &Node<'_>,
        both: bool,
    ) -> Result<(), Error> {
        let own = Given(cell);
        let kind = match cell.class.as_str() {
            "LSTM" => "lstm",
            "GRU" => "gru",
            "SimpleRNN" => "rnn",
            class => {
                return Err(given.fault(&say!("`{class}` is no recurrent layer known here", class)));
            }
        };
        let usual = word(cell.config, "activation").is_none_or(|name| name == "tanh");
        let is_plain = kind == "rnn" || own.share("recurrent_dropout", 0.0) > 0.0;
        if !usual && !is_plain {
            return Err(own.fault(&say!("only cells with `tanh` are one call of cuDNN")));
        }
        let bias = own.flag("use_bias", true);
        if bias && (kind != "gru" || !own.flag("reset_after", true)) {
            let message = say!(
                "`{name}`: PyTorch's `nn.{class}` adds two biases where Keras adds one",
                name = given.0.name,
                class = kind.to_ascii_uppercase()
            );
            self.notes.push(Diagnostic::new(Severity::Info, "keras-bias", message));
        }
        let all = own.flag("return_sequences", false);
        let moved = self.moved(&part.x);
        let turned = [("dims", Value::Ints(vec![0, 2, 1]))];
        if moved {
            self.add(given, part, "permute", &turned)?;
        }
        let arguments = [
            ("hidden_size", own.needed("units")?.into()),
            ("bias", Value::Flag(bias)),
            ("bidirectional", Value::Flag(both)),
            ("last", Value::Flag(!all)),
        ];
        self.add(given, part, kind, &arguments)?;
        if moved && all {
            return self.add(given, part, "permute", &turned);
        }
        Ok(())
    }

    /// Layers over the last dimension, which is that of channels.
    fn of_rows(
        &mut self,
        given: &Given<'_, '_>,
        part: &mut Part,
        kind: &str,
        arguments: &[(&str, Value)],
    ) -> Result<(), Error> {
        if !self.moved(&part.x) {
            return self.add(given, part, kind, arguments);
        }
        let rank = i64::try_from(part.x.rank()).unwrap_or(4);
        let last = std::iter::once(0).chain(2..rank).chain([1]).collect();
        let second =
            [0, rank.saturating_sub(1)].into_iter().chain(1..rank.saturating_sub(1)).collect();
        self.add(given, part, "permute", &[("dims", Value::Ints(last))])?;
        self.add(given, part, kind, arguments)?;
        self.add(given, part, "permute", &[("dims", Value::Ints(second))])
    }

    #[expect(clippy::too_many_arguments, reason = "what three kinds of convolution share")]
    fn conv(
        &mut self,
        given: &Given<'_, '_>,
        part: &mut Part,
        spatial: usize,
        out: u64,
        groups: u64,
        whole: bool,
    ) -> Result<(), Error> {
        let window = Window::of(given, part, spatial, "kernel_size", "strides")?;
        let arguments = [
            ("out_channels", out.into()),
            ("kernel_size", ints(&window.kernel)),
            ("stride", ints(&window.stride)),
            ("padding", ints(&window.padding)),
            ("dilation", ints(&window.dilation)),
            ("groups", groups.into()),
            ("bias", Value::Flag(whole && given.flag("use_bias", true))),
        ];
        self.add(given, part, &format!("conv{spatial}d"), &arguments)
    }

    fn conv_transpose(&mut self, given: &Given<'_, '_>, part: &mut Part) -> Result<(), Error> {
        let spatial = part.x.rank().saturating_sub(2);
        let kernel = given.numbers("kernel_size", spatial);
        let kernel = kernel.ok_or_else(|| given.fault(&say!("it has no `kernel_size`")))?;
        let stride = given.numbers("strides", spatial).unwrap_or_else(|| vec![1; spatial]);
        let is_same = word(given.0.config, "padding").as_deref() == Some("same");
        let sides: Vec<(u64, u64)> = kernel
            .iter()
            .zip(&stride)
            .map(|(&k, &s)| {
                // `same` makes `stride` times as many.
                let over = if is_same { k.saturating_sub(s) } else { 0 };
                let padding = over.div_ceil(2);
                let short = if is_same { s.saturating_sub(k) } else { 0 };
                (padding, padding.saturating_mul(2).saturating_sub(over).saturating_add(short))
            })
            .collect();
        let arguments = [
            ("out_channels", given.needed("filters")?.into()),
            ("kernel_size", ints(&kernel)),
            ("stride", ints(&stride)),
            ("padding", ints(&sides.iter().map(|side| side.0).collect::<Vec<_>>())),
            ("output_padding", ints(&sides.iter().map(|side| side.1).collect::<Vec<_>>())),
            ("bias", Value::Flag(given.flag("use_bias", true))),
        ];
        self.add(given, part, &format!("conv_transpose{spatial}d"), &arguments)
    }

    fn pool(
        &mut self,
        given: &Given<'_, '_>,
        part: &mut Part,
        spatial: usize,
        kind: &str,
    ) -> Result<(), Error> {
        let window = Window::of(given, part, spatial, "pool_size", "strides")?;
        let arguments = [
            ("kernel_size", ints(&window.kernel)),
            ("stride", ints(&window.stride)),
            ("padding", ints(&window.padding)),
        ];
        self.add(given, part, &format!("{kind}{spatial}d"), &arguments)
    }

    fn reshape(&mut self, given: &Given<'_, '_>, part: &mut Part) -> Result<(), Error> {
        let Some(Content::List(items)) = given.tree("target_shape").map(|tree| &tree.content)
        else {
            return Err(given.fault(&say!("it has no `target_shape`")));
        };
        let sizes = items.iter().map(|item| match item.content {
            Content::Int(n) => Some(n),
            _ => None,
        });
        let mut sizes: Vec<i64> = sizes
            .collect::<Option<_>>()
            .ok_or_else(|| given.fault(&say!("its `target_shape` is a list of numbers")))?;
        let moves = self.order.channels_last
            && (sizes.len() >= 3 || sizes.len() == 2 && self.order.signals);
        if moves && let Some(channels) = sizes.pop() {
            sizes.insert(0, channels);
        }
        sizes.insert(0, 0);
        self.add(given, part, "reshape", &[("shape", Value::Ints(sizes))])
    }
}

fn ints(list: &[u64]) -> Value {
    Value::Ints(list.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect())
}

/// A number, one for each dimension, or two: in front, then behind.
fn zero_padding(given: &Given<'_, '_>, spatial: usize) -> Option<Vec<i64>> {
    if let Some(sides) = given.numbers("padding", spatial)
        && spatial > 1
    {
        return sides.iter().map(|&n| i64::try_from(n).ok()).collect();
    }
    if let Some(n) = given.number("padding") {
        return i64::try_from(n).ok().map(|n| vec![n; spatial]);
    }
    let Content::List(items) = &given.tree("padding")?.content else { return None };
    let number = |tree: &Tree| match tree.content {
        Content::Int(n) => Some(n),
        _ => None,
    };
    if spatial == 1 {
        return items.iter().map(number).collect();
    }
    let pairs = items.iter().map(|item| match &item.content {
        Content::List(pair) => match pair.as_slice() {
            [front, behind] => number(front).zip(number(behind)),
            _ => None,
        },
        _ => None,
    });
    let pairs: Vec<(i64, i64)> = pairs.collect::<Option<_>>()?;
    Some(pairs.iter().map(|pair| pair.0).chain(pairs.iter().map(|pair| pair.1)).collect())
}

/// A window, with the padding that PyTorch needs for Keras's sizes.
struct Window {
    kernel: Vec<u64>,
    stride: Vec<u64>,
    padding: Vec<u64>,
    dilation: Vec<u64>,
}

impl Window {
    fn of(
        given: &Given<'_, '_>,
        part: &Part,
        spatial: usize,
        kernel: &str,
        stride: &str,
    ) -> Result<Self, Error> {
        let is_pool = kernel == "pool_size";
        let kernel = match given.numbers(kernel, spatial) {
            Some(kernel) => kernel,
            None if is_pool => vec![2; spatial],
            None => {
                return Err(
                    given.fault(&say!("`{kernel}` is a number, or one for each dimension", kernel))
                );
            }
        };
        let usual = if is_pool { kernel.clone() } else { vec![1; spatial] };
        let stride = given.numbers(stride, spatial).unwrap_or(usual);
        let dilation = given.numbers("dilation_rate", spatial).unwrap_or_else(|| vec![1; spatial]);
        let padding = match word(given.0.config, "padding").as_deref() {
            Some("same") => (0..spatial)
                .map(|axis| {
                    let at = |list: &[u64]| list.get(axis).copied().unwrap_or(1).max(1);
                    let (k, s, d) = (at(&kernel), at(&stride), at(&dilation));
                    let reach = k.saturating_sub(1).saturating_mul(d).saturating_add(1);
                    let n = part.x.size(axis.saturating_add(2)).unwrap_or(reach);
                    let steps = n.div_ceil(s).saturating_sub(1).saturating_mul(s);
                    steps.saturating_add(reach).saturating_sub(n).div_ceil(2)
                })
                .collect(),
            Some("causal") => {
                return Err(given.fault(&say!("`causal` padding is not read here")));
            }
            _ => vec![0; spatial],
        };
        Ok(Self { kernel, stride, padding, dilation })
    }
}
