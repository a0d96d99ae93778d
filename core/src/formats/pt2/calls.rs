//! ATen calls → nodes: one row per operator (`aten/src/ATen/native/native_functions.yaml`).
//!
//! A row is for all overloads and for the variant that overwrites its input (`relu_`). It reads its
//! arguments by their names in `native_functions.yaml`; what is left out has its default. A call
//! without a row, or with arguments that its row does not know, is passed on under its own name,
//! for inference to say that it is not known.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::lower::Lower;
use super::program;
use crate::graph::{Attribute, DeclaredType, Dim, Elements, Literal, Node, Origin, ValueId};
use crate::tensor::DType;

/// Domain of operators that PyTorch has and ONNX has not.
const TORCH: &str = "torch";

/// Says what a call is; `None` where its arguments are of a form that is not known.
type Row = fn(&mut Call<'_, '_>) -> Option<()>;

/// All rows, by name without overload and without the underscore of the variant in place.
const ROWS: &[(&str, Row)] = &[
    // What has no memory, or is Python's.
    ("aten._assert_async", |_| Some(())),
    ("aten._assert_scalar", |_| Some(())),
    ("aten._assert_tensor_metadata", |_| Some(())),
    ("aten.sym_constrain_range", |_| Some(())),
    ("aten.sym_constrain_range_for_size", |_| Some(())),
    ("aten.alias", |c| c.same()),
    ("aten.detach", |c| c.same()),
    ("aten.lift_fresh", |c| c.same()),
    ("aten.lift_fresh_copy", |c| c.same()),
    ("aten.resolve_conj", |c| c.same()),
    ("aten.resolve_neg", |c| c.same()),
    ("aten.sym_size", |c| c.size()),
    ("aten.sym_numel", |c| c.unary("", "Size")),
    ("_operator.add", |c| c.binary("Add")),
    ("_operator.floordiv", |c| c.binary("Div")),
    ("_operator.mod", |c| c.binary("Mod")),
    ("_operator.mul", |c| c.binary("Mul")),
    ("_operator.neg", |c| c.unary("", "Neg")),
    ("_operator.sub", |c| c.binary("Sub")),
    ("torch.sym_max", |c| c.binary("Max")),
    ("torch.sym_min", |c| c.binary("Min")),
    // One tensor, element by element.
    ("aten.abs", |c| c.unary("", "Abs")),
    ("aten.bitwise_not", |c| c.unary("", "Not")),
    ("aten.ceil", |c| c.unary("", "Ceil")),
    ("aten.cos", |c| c.unary("", "Cos")),
    ("aten.elu", |c| c.unary("", "Elu")),
    ("aten.erf", |c| c.unary("", "Erf")),
    ("aten.exp", |c| c.unary("", "Exp")),
    ("aten.floor", |c| c.unary("", "Floor")),
    ("aten.gelu", |c| c.unary(TORCH, "Gelu")),
    ("aten.hardsigmoid", |c| c.unary("", "HardSigmoid")),
    ("aten.hardswish", |c| c.unary("", "HardSwish")),
    ("aten.isinf", |c| c.unary("", "IsInf")),
    ("aten.isnan", |c| c.unary("", "IsNaN")),
    ("aten.leaky_relu", |c| c.unary("", "LeakyRelu")),
    ("aten.log", |c| c.unary("", "Log")),
    ("aten.logical_not", |c| c.unary("", "Not")),
    ("aten.mish", |c| c.unary("", "Mish")),
    ("aten.neg", |c| c.unary("", "Neg")),
    ("aten.reciprocal", |c| c.unary("", "Reciprocal")),
    ("aten.relu", |c| c.unary("", "Relu")),
    ("aten.relu6", |c| c.clip()),
    ("aten.round", |c| c.unary("", "Round")),
    ("aten.rsqrt", |c| c.unary(TORCH, "Rsqrt")),
    ("aten.selu", |c| c.unary("", "Selu")),
    ("aten.sigmoid", |c| c.unary("", "Sigmoid")),
    ("aten.sign", |c| c.unary("", "Sign")),
    ("aten.silu", |c| c.unary(TORCH, "Silu")),
    ("aten.sin", |c| c.unary("", "Sin")),
    ("aten.softplus", |c| c.unary("", "Softplus")),
    ("aten.sqrt", |c| c.unary("", "Sqrt")),
    ("aten.tanh", |c| c.unary("", "Tanh")),
    ("aten.clamp", |c| c.clip()),
    ("aten.clamp_min", |c| c.clip()),
    ("aten.hardtanh", |c| c.clip()),
    // Two tensors, or a tensor and a number.
    ("aten.__and__", |c| c.binary("And")),
    ("aten.__or__", |c| c.binary("Or")),
    ("aten.add", |c| c.binary("Add")),
    ("aten.bitwise_and", |c| c.binary("And")),
    ("aten.bitwise_or", |c| c.binary("Or")),
    ("aten.div", |c| c.binary("Div")),
    ("aten.eq", |c| c.binary("Equal")),
    ("aten.floor_divide", |c| c.binary("Div")),
    ("aten.ge", |c| c.binary("GreaterOrEqual")),
    ("aten.gt", |c| c.binary("Greater")),
    ("aten.le", |c| c.binary("LessOrEqual")),
    ("aten.logical_and", |c| c.binary("And")),
    ("aten.logical_or", |c| c.binary("Or")),
    ("aten.logical_xor", |c| c.binary("Xor")),
    ("aten.lt", |c| c.binary("Less")),
    ("aten.max", |c| c.extremum("Max", "ReduceMax")),
    ("aten.maximum", |c| c.binary("Max")),
    ("aten.min", |c| c.extremum("Min", "ReduceMin")),
    ("aten.minimum", |c| c.binary("Min")),
    ("aten.mul", |c| c.binary("Mul")),
    ("aten.ne", |c| c.differs()),
    ("aten.pow", |c| c.binary("Pow")),
    ("aten.remainder", |c| c.binary("Mod")),
    ("aten.rsub", |c| c.reversed("Sub")),
    ("aten.sub", |c| c.binary("Sub")),
    ("aten.true_divide", |c| c.binary("Div")),
    ("aten.masked_fill", |c| c.masked_fill()),
    ("aten.where", |c| {
        let operands = vec![c.tensor("condition")?, c.operand("self")?, c.operand("other")?];
        c.put("", "Where", operands, [])
    }),
    ("aten.prelu", |c| {
        let operands = vec![c.x()?, c.tensor("weight")?];
        c.put("", "PRelu", operands, [])
    }),
    // Products.
    ("aten.addmm", |c| {
        let operands = vec![c.tensor("mat1")?, c.tensor("mat2")?, c.x()?];
        c.put("", "Gemm", operands, [])
    }),
    ("aten.baddbmm", |c| {
        let operands = vec![c.x()?, c.tensor("batch1")?, c.tensor("batch2")?];
        let scales = c.float("alpha").is_some_and(|alpha| alpha.total_cmp(&1.0).is_ne());
        c.put(TORCH, "Baddbmm", operands, [("scales", flag(scales))])
    }),
    ("aten.bmm", |c| c.product("mat2")),
    ("aten.einsum", |c| {
        let equation = Attribute::String(c.string("equation")?);
        let operands = c.tensors("tensors");
        c.put("", "Einsum", operands, [("equation", equation)])
    }),
    ("aten.linear", |c| {
        let mut operands = vec![c.x()?, c.tensor("weight")?];
        operands.extend(c.tensor("bias"));
        c.put(TORCH, "Linear", operands, [("transposed", flag(true))])
    }),
    ("aten.matmul", |c| c.product("other")),
    ("aten.mm", |c| c.product("mat2")),
    ("aten.conv1d", |c| c.convolution()),
    ("aten.conv2d", |c| c.convolution()),
    ("aten.conv3d", |c| c.convolution()),
    ("aten.conv_transpose1d", |c| c.convolution()),
    ("aten.conv_transpose2d", |c| c.convolution()),
    ("aten.conv_transpose3d", |c| c.convolution()),
    ("aten.convolution", |c| c.convolution()),
    ("aten.scaled_dot_product_attention", |c| c.attention()),
    // Normalisation and dropout.
    ("aten.batch_norm", |c| c.batch_norm()),
    ("aten._native_batch_norm_legit", |c| c.batch_norm()),
    ("aten._native_batch_norm_legit_functional", |c| c.batch_norm()),
    ("aten.native_batch_norm", |c| c.batch_norm()),
    ("aten.group_norm", |c| {
        let operands = vec![c.x(), c.tensor("weight"), c.tensor("bias")];
        let groups = Attribute::Int(c.int("num_groups")?);
        c.put_optional("", "GroupNormalization", operands, [("num_groups", groups)])
    }),
    ("aten.layer_norm", |c| c.layer_norm("LayerNormalization")),
    ("aten.native_layer_norm", |c| c.layer_norm("LayerNormalization")),
    ("aten.rms_norm", |c| c.layer_norm("RMSNormalization")),
    ("aten.dropout", |c| c.dropout()),
    ("aten.feature_dropout", |c| c.dropout()),
    ("aten.native_dropout", |c| c.dropout()),
    // Pooling and resampling.
    ("aten.adaptive_avg_pool1d", |c| c.adaptive_pool("AveragePool")),
    ("aten.adaptive_avg_pool2d", |c| c.adaptive_pool("AveragePool")),
    ("aten.adaptive_avg_pool3d", |c| c.adaptive_pool("AveragePool")),
    ("aten.adaptive_max_pool2d", |c| c.adaptive_pool("MaxPool")),
    ("aten.avg_pool1d", |c| c.pool("AveragePool")),
    ("aten.avg_pool2d", |c| c.pool("AveragePool")),
    ("aten.avg_pool3d", |c| c.pool("AveragePool")),
    ("aten.max_pool1d", |c| c.pool("MaxPool")),
    ("aten.max_pool2d", |c| c.pool("MaxPool")),
    ("aten.max_pool2d_with_indices", |c| c.pool("MaxPool")),
    ("aten.max_pool3d", |c| c.pool("MaxPool")),
    ("aten.pixel_shuffle", |c| {
        let factor = Attribute::Int(c.int("upscale_factor")?);
        let x = vec![c.x()?];
        c.put("", "DepthToSpace", x, [("blocksize", factor)])
    }),
    ("aten.upsample_bicubic2d", |c| c.resize()),
    ("aten.upsample_bilinear2d", |c| c.resize()),
    ("aten.upsample_nearest1d", |c| c.resize()),
    ("aten.upsample_nearest2d", |c| c.resize()),
    ("aten.upsample_nearest3d", |c| c.resize()),
    ("aten.upsample_trilinear3d", |c| c.resize()),
    ("aten.constant_pad_nd", |c| c.pad()),
    ("aten.pad", |c| c.pad()),
    // Reductions.
    ("aten._log_softmax", |c| c.softmax("LogSoftmax")),
    ("aten._softmax", |c| c.softmax("Softmax")),
    ("aten.amax", |c| c.reduce("ReduceMax")),
    ("aten.amin", |c| c.reduce("ReduceMin")),
    ("aten.argmax", |c| c.position("ArgMax")),
    ("aten.argmin", |c| c.position("ArgMin")),
    ("aten.cumsum", |c| {
        let operands = vec![c.x()?, c.number_of("dim", DType::Int64)?];
        c.put("", "CumSum", operands, [])
    }),
    ("aten.linalg_vector_norm", |c| c.reduce("ReduceL2")),
    ("aten.log_softmax", |c| c.softmax("LogSoftmax")),
    ("aten.logsumexp", |c| c.reduce("ReduceLogSumExp")),
    ("aten.mean", |c| c.reduce("ReduceMean")),
    ("aten.norm", |c| c.reduce("ReduceL2")),
    ("aten.prod", |c| c.reduce("ReduceProd")),
    ("aten.softmax", |c| c.softmax("Softmax")),
    ("aten.sum", |c| c.reduce("ReduceSum")),
    ("aten.topk", |c| {
        let operands = vec![c.x()?, c.sizes("k")?];
        let axis = Attribute::Int(c.int("dim").unwrap_or(-1));
        c.put("", "TopK", operands, [("axis", axis)])
    }),
    // The same elements seen otherwise, or some of them.
    ("aten._reshape_alias", |c| c.reshape("size")),
    ("aten._unsafe_view", |c| c.reshape("size")),
    ("aten.chunk", |c| c.split()),
    ("aten.clone", |c| c.unary(TORCH, "Contiguous")),
    ("aten.contiguous", |c| c.unary(TORCH, "Contiguous")),
    ("aten.expand", |c| c.expand()),
    ("aten.flatten", |c| c.regrouped()),
    ("aten.permute", |c| {
        let rank = i64::try_from(c.rank("self")?).ok()?;
        let order = c.ints("dims")?;
        c.transpose(order.iter().map(|&n| if n < 0 { n.saturating_add(rank) } else { n }).collect())
    }),
    ("aten.reshape", |c| c.reshape("shape")),
    ("aten.select", |c| {
        let index = c.number_of("index", DType::Int64)?;
        let operands = vec![c.x()?, index];
        let axis = Attribute::Int(c.int("dim")?);
        c.put("", "Gather", operands, [("axis", axis)])
    }),
    ("aten.slice", |c| c.slice()),
    ("aten.split", |c| c.split()),
    ("aten.split_with_sizes", |c| c.split()),
    ("aten.squeeze", |c| c.squeeze()),
    ("aten.swapaxes", |c| c.swap(c.int("axis0")?, c.int("axis1")?)),
    ("aten.t", |c| c.swap(0, if c.rank("self")? < 2 { 0 } else { 1 })),
    ("aten.transpose", |c| c.swap(c.int("dim0")?, c.int("dim1")?)),
    ("aten.unbind", |c| c.unbind()),
    ("aten.unflatten", |c| c.unflatten()),
    ("aten.unsqueeze", |c| {
        let axes = Attribute::Ints(vec![c.int("dim")?]);
        let x = vec![c.x()?];
        c.put("", "Unsqueeze", x, [("axes", axes)])
    }),
    ("aten.view", |c| c.reshape("size")),
    // Copies.
    ("aten._to_copy", |c| c.cast()),
    ("aten.cat", |c| c.concat()),
    ("aten.concat", |c| c.concat()),
    ("aten.flip", |c| c.unary(TORCH, "Flip")),
    ("aten.repeat", |c| {
        let operands = vec![c.x()?, c.sizes("repeats")?];
        c.put("", "Tile", operands, [])
    }),
    ("aten.roll", |c| c.unary(TORCH, "Roll")),
    ("aten.stack", |c| c.stack()),
    ("aten.to", |c| c.cast()),
    ("aten.tril", |c| c.unary("", "Trilu")),
    ("aten.triu", |c| c.unary("", "Trilu")),
    ("aten.type_as", |c| c.cast()),
    // By index.
    ("aten.embedding", |c| {
        let operands = vec![c.tensor("weight")?, c.tensor("indices")?];
        c.put("", "Gather", operands, [("axis", Attribute::Int(0))])
    }),
    ("aten.gather", |c| {
        let operands = vec![c.x()?, c.tensor("index")?];
        let axis = Attribute::Int(c.int("dim")?);
        c.put("", "GatherElements", operands, [("axis", axis)])
    }),
    ("aten.index", |c| c.index()),
    ("aten.index_select", |c| {
        let operands = vec![c.x()?, c.tensor("index")?];
        let axis = Attribute::Int(c.int("dim")?);
        c.put("", "Gather", operands, [("axis", axis)])
    }),
    // New tensors.
    ("aten.arange", |c| c.arange()),
    ("aten.bernoulli", |c| c.random_like()),
    ("aten.empty", |c| c.filled("size")),
    ("aten.empty_like", |c| c.random_like()),
    ("aten.full", |c| c.filled("size")),
    ("aten.full_like", |c| c.random_like()),
    ("aten.new_empty", |c| c.filled("size")),
    ("aten.new_full", |c| c.filled("size")),
    ("aten.new_ones", |c| c.filled("size")),
    ("aten.new_zeros", |c| c.filled("size")),
    ("aten.ones", |c| c.filled("size")),
    ("aten.ones_like", |c| c.random_like()),
    ("aten.rand", |c| c.filled("size")),
    ("aten.rand_like", |c| c.random_like()),
    ("aten.randn", |c| c.filled("size")),
    ("aten.randn_like", |c| c.random_like()),
    ("aten.scalar_tensor", |c| c.filled("size")),
    ("aten.zeros", |c| c.filled("size")),
    ("aten.zeros_like", |c| c.random_like()),
    // Losses inside the model.
    ("aten.cross_entropy_loss", |c| {
        let operands = vec![c.x()?, c.tensor("target")?];
        let reduction = match c.int("reduction") {
            Some(0) => "none",
            Some(2) => "sum",
            _ => "mean",
        };
        let reduction = Attribute::String(reduction.to_owned());
        c.put("", "SoftmaxCrossEntropyLoss", operands, [("reduction", reduction)])
    }),
];

/// Operators that overwrite their input here where PyTorch does.
const IN_PLACE: [&str; 10] = [
    "Add",
    "Clip",
    "Dropout",
    "Elu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Relu",
    "Sigmoid",
    "Silu",
];

/// Adds the nodes that a call stands for.
pub(super) fn lower(mut call: Call<'_, '_>) {
    let target = call.origin.aten.clone();
    // `aten.relu_.default`, `aten.__and__.Tensor`, `_operator.mul`.
    let is_aten = target.starts_with("aten.");
    let name = if is_aten { target.rsplit_once('.').map_or("", |(name, _)| name) } else { &target };
    let plain = name.strip_suffix('_').filter(|plain| !plain.ends_with('_'));
    call.in_place = is_aten && plain.is_some();
    let name = plain.unwrap_or(name);
    if call.in_place && call.overwrites_nothing() == Some(true) {
        return;
    }
    let row = ROWS.iter().find(|(known, _)| *known == name);
    if row.is_none_or(|(_, row)| row(&mut call).is_none()) {
        call.unknown(&target);
    }
    call.rename_overwritten();
}

/// One call of the program.
pub(super) struct Call<'l, 'j> {
    lower: &'l mut Lower<'j>,
    node: &'j Json,
    outputs: Vec<Option<&'j str>>,
    module: String,
    origin: Origin,
    in_place: bool,
}

impl<'l, 'j> Call<'l, 'j> {
    /// A call and the names of what it makes.
    pub(super) fn new(
        lower: &'l mut Lower<'j>,
        node: &'j Json,
        outputs: Vec<Option<&'j str>>,
        (module, origin): (String, Origin),
    ) -> Self {
        Self { lower, node, outputs, module, origin, in_place: false }
    }

    fn argument(&self, name: &str) -> Option<(&'j str, &'j Json)> {
        let inputs = program::list(self.node, "inputs").iter();
        let mut named = inputs.filter(|input| program::text(input, "name") == name);
        program::single(named.next()?.get("arg")?)
    }

    fn first(&self) -> Option<&'j Json> {
        program::list(self.node, "inputs").first()?.get("arg")
    }

    /// Name of the first argument, which is a tensor.
    fn first_name(&self) -> Option<&'j str> {
        program::tensors(self.first()?).into_iter().next().flatten()
    }

    /// The first argument, which is a tensor.
    fn x(&self) -> Option<ValueId> {
        self.lower.id(self.first_name()?)
    }

    fn tensor(&self, name: &str) -> Option<ValueId> {
        self.tensors(name).first().copied()
    }

    fn tensors(&self, name: &str) -> Vec<ValueId> {
        let inputs = program::list(self.node, "inputs").iter();
        let mut named = inputs.filter(|input| program::text(input, "name") == name);
        let argument = named.next().and_then(|input| input.get("arg"));
        let names = argument.map(program::tensors).unwrap_or_default();
        names.into_iter().flatten().filter_map(|name| self.lower.id(name)).collect()
    }

    fn int(&self, name: &str) -> Option<i64> {
        match self.argument(name)? {
            ("as_int" | "as_scalar_type", n) => n.as_i64(),
            ("as_bool", flag) => flag.as_bool().map(i64::from),
            ("as_sym_int", n) => n.get("as_int")?.as_i64(),
            _ => None,
        }
    }

    fn ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.argument(name)? {
            ("as_int", n) => Some(vec![n.as_i64()?]),
            ("as_ints", list) => list.as_array()?.iter().map(Json::as_i64).collect(),
            ("as_sym_ints", list) => {
                list.as_array()?.iter().map(|n| n.get("as_int")?.as_i64()).collect()
            }
            _ => None,
        }
    }

    fn float(&self, name: &str) -> Option<f64> {
        match self.argument(name)? {
            ("as_float" | "as_int", x) => x.as_f64(),
            _ => None,
        }
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.argument(name)?.1.as_bool()
    }

    fn string(&self, name: &str) -> Option<String> {
        self.argument(name)?.1.as_str().map(str::to_owned)
    }

    fn declared(&self, name: &str) -> Option<DeclaredType> {
        self.lower.declared(name)
    }

    fn x_declared(&self) -> Option<DeclaredType> {
        self.declared(self.first_name()?)
    }

    /// Type of what the call makes.
    fn made(&self) -> Option<DeclaredType> {
        self.declared(self.outputs.first().copied().flatten()?)
    }

    /// COUNT: dimensions of the first argument.
    fn rank(&self, _self: &str) -> Option<usize> {
        Some(self.x_declared()?.dims?.len())
    }

    /// A number of Python's beside tensors: it takes the type of what it is computed with.
    fn scalar(&mut self, value: &Json, dtype: DType) -> Option<ValueId> {
        let elements = if dtype.is_floating() {
            // Infinities are written as texts.
            let infinite =
                || value.as_str().map(|s| if s.starts_with('-') { f64::MIN } else { f64::MAX });
            Elements::Floats(vec![value.as_f64().or_else(infinite)?])
        } else {
            Elements::Ints(vec![value.as_i64().or_else(|| value.as_bool().map(i64::from))?])
        };
        Some(self.lower.constant(Literal { dtype, dims: Vec::new(), elements: Some(elements) }))
    }

    fn number_of(&mut self, name: &str, dtype: DType) -> Option<ValueId> {
        match self.argument(name)? {
            ("as_int" | "as_float" | "as_bool", value) => self.scalar(value, dtype),
            ("as_sym_int", value) if value.get("as_int").is_some() => {
                self.scalar(value.get("as_int")?, dtype)
            }
            ("as_sym_int", value) => self.lower.id(value.get("as_name")?.as_str()?),
            _ => None,
        }
    }

    /// A tensor, or a number in the type of what is made.
    fn operand(&mut self, name: &str) -> Option<ValueId> {
        if let Some(tensor) = self.tensor(name) {
            return Some(tensor);
        }
        let first = self.x_declared().and_then(|declared| declared.dtype);
        let made = self.made().and_then(|declared| declared.dtype);
        let is_fraction = matches!(self.argument(name)?.0, "as_float");
        let dtype = match first.or(made) {
            Some(dtype) if dtype.is_floating() || !is_fraction => dtype,
            _ if is_fraction => DType::Float32,
            _ => DType::Int64,
        };
        self.number_of(name, dtype)
    }

    /// A list of integers, which may be known only once dimensions are.
    fn sizes(&mut self, name: &str) -> Option<ValueId> {
        if let Some(list) = self.ints(name) {
            return Some(self.lower.integers(&list));
        }
        let parts: Vec<&'j Json> = match self.argument(name)? {
            ("as_sym_ints", list) => list.as_array()?.iter().collect(),
            ("as_sym_int", one) => vec![one],
            _ => return None,
        };
        let parts: Option<Vec<ValueId>> = parts
            .into_iter()
            .map(|part| match part.get("as_int").and_then(Json::as_i64) {
                Some(n) => Some(self.lower.integers(&[n])),
                None => self.lower.id(part.get("as_name")?.as_str()?),
            })
            .collect();
        self.join(parts?)
    }

    /// One list of several.
    fn join(&mut self, parts: Vec<ValueId>) -> Option<ValueId> {
        match parts.as_slice() {
            [] => Some(self.lower.integers(&[])),
            [one] => Some(*one),
            _ => {
                let axis = BTreeMap::from([("axis".to_owned(), Attribute::Int(0))]);
                Some(self.helper("Concat", parts, axis))
            }
        }
    }

    /// Dimensions `from..to` of the first argument, as a list.
    fn shape_of(&mut self, from: usize, to: usize) -> Option<ValueId> {
        let attribute = |n: usize| Some(Attribute::Int(i64::try_from(n).ok()?));
        let bounds = BTreeMap::from([
            ("start".to_owned(), attribute(from)?),
            ("end".to_owned(), attribute(to)?),
        ]);
        let x = self.x()?;
        Some(self.helper("Shape", vec![x], bounds))
    }

    /// A node that the program does not have: shape arithmetic.
    fn helper(
        &mut self,
        op: &str,
        inputs: Vec<ValueId>,
        attributes: BTreeMap<String, Attribute>,
    ) -> ValueId {
        let output = self.lower.intermediate();
        self.lower.push(Node {
            op: op.to_owned(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes,
            module: self.module.clone(),
            ..Node::default()
        });
        output
    }

    fn put<const N: usize>(
        &mut self,
        domain: &str,
        op: &str,
        inputs: Vec<ValueId>,
        attributes: [(&str, Attribute); N],
    ) -> Option<()> {
        self.put_optional(domain, op, inputs.into_iter().map(Some).collect(), attributes)
    }

    /// The node that makes what the call makes.
    fn put_optional<const N: usize>(
        &mut self,
        domain: &str,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: [(&str, Attribute); N],
    ) -> Option<()> {
        let mut attributes: BTreeMap<String, Attribute> =
            attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if self.in_place && IN_PLACE.contains(&op) {
            attributes.insert("in_place".to_owned(), Attribute::Int(1));
        }
        let outputs = self.outputs.clone();
        let outputs: Vec<Option<ValueId>> = outputs
            .into_iter()
            .map(|name| name.map(|name| self.lower.define(name, name)))
            .collect();
        self.lower.push(Node {
            name: self.outputs.iter().flatten().next().copied().unwrap_or_default().to_owned(),
            op: op.to_owned(),
            domain: domain.to_owned(),
            inputs,
            outputs,
            attributes,
            module: self.module.clone(),
            origin: Some(self.origin.clone()),
        });
        Some(())
    }

    /// A call that nobody wrote a row for.
    fn unknown(&mut self, target: &str) {
        let mut inputs = Vec::new();
        for input in program::list(self.node, "inputs") {
            let names = input.get("arg").map(program::tensors).unwrap_or_default();
            inputs.extend(names.into_iter().flatten().filter_map(|name| self.lower.id(name)));
        }
        let (domain, op) = target.split_once('.').unwrap_or(("", target));
        let put = self.put(domain, op, inputs, []);
        debug_assert!(put.is_some(), "it always is");
    }

    /// Whether the call overwrites what no gradient flows through, which takes nothing.
    fn overwrites_nothing(&mut self) -> Option<bool> {
        let (x, output) = (self.x()?, self.outputs.first().copied().flatten()?);
        let mut others = program::list(self.node, "inputs").iter().skip(1);
        let has_gradient = others.any(|input| {
            let names = input.get("arg").map(program::tensors).unwrap_or_default();
            let mut ids = names.into_iter().flatten().filter_map(|name| self.lower.id(name));
            ids.any(|id| self.lower.is_trained(id))
        });
        if has_gradient || !self.lower.is_plain(x) {
            return Some(false);
        }
        self.lower.alias(output, x);
        Some(true)
    }

    /// From here on the overwritten tensor is what was written.
    fn rename_overwritten(&mut self) {
        let names = (self.first_name(), self.outputs.first().copied().flatten());
        if let (true, (Some(x), Some(output))) = (self.in_place, names)
            && let Some(id) = self.lower.id(output)
        {
            self.lower.alias(x, id);
        }
    }

    /// The argument itself.
    fn same(&mut self) -> Option<()> {
        let (x, output) = (self.x()?, self.outputs.first().copied().flatten()?);
        self.lower.alias(output, x);
        Some(())
    }

    fn unary(&mut self, domain: &str, op: &str) -> Option<()> {
        let x = match self.x() {
            Some(x) => x,
            None => self.operand("a")?,
        };
        self.put(domain, op, vec![x], [])
    }

    /// `self` and `other`, in Python `a` and `b`.
    fn binary(&mut self, op: &str) -> Option<()> {
        let mut operands = self.operands()?;
        // The first decides the type here: what is made must not be of fewer kinds of numbers.
        let floats = |c: &Self, id: ValueId| c.is_floating(id);
        if matches!(op, "Add" | "Mul")
            && let [a, b] = operands.as_slice()
            && !floats(self, *a)
            && floats(self, *b)
        {
            operands.reverse();
        }
        self.put("", op, operands, [])
    }

    fn reversed(&mut self, op: &str) -> Option<()> {
        let mut operands = self.operands()?;
        operands.reverse();
        self.put("", op, operands, [])
    }

    fn operands(&mut self) -> Option<Vec<ValueId>> {
        let inputs = program::list(self.node, "inputs");
        let name = |at: usize| inputs.get(at).map(|input| program::text(input, "name"));
        let (a, b) = (name(0)?, name(1)?);
        if a == "a" {
            return Some(vec![self.sizes(a)?, self.sizes(b)?]);
        }
        Some(vec![self.operand(a)?, self.operand(b)?])
    }

    fn is_floating(&self, id: ValueId) -> bool {
        let Some(value) = self.lower.graph.value(id) else { return false };
        let literal = value.initializer.as_ref().map(|literal| literal.dtype);
        let declared = value.declared.as_ref().and_then(|declared| declared.dtype);
        literal.or(declared).is_some_and(DType::is_floating)
    }

    /// `ne`: what it makes and keeps is what `eq` does.
    fn differs(&mut self) -> Option<()> {
        let operands = self.operands()?;
        let equal = self.helper("Equal", operands, BTreeMap::new());
        self.put("", "Not", vec![equal], [])
    }

    fn clip(&mut self) -> Option<()> {
        let x = self.x()?;
        let low = ["min", "min_val"].iter().find_map(|name| self.operand(name));
        let high = ["max", "max_val"].iter().find_map(|name| self.operand(name));
        self.put_optional("", "Clip", vec![Some(x), low, high], [])
    }

    fn masked_fill(&mut self) -> Option<()> {
        let operands = vec![self.tensor("mask")?, self.operand("value")?, self.x()?];
        self.put("", "Where", operands, [])
    }

    fn product(&mut self, other: &str) -> Option<()> {
        let operands = vec![self.x()?, self.tensor(other)?];
        self.put("", "MatMul", operands, [])
    }

    /// A size as a list of one.
    fn size(&mut self) -> Option<()> {
        let dim = self.int("dim")?;
        let rank = i64::try_from(self.rank("self")?).ok()?;
        let dim = if dim < 0 { dim.saturating_add(rank) } else { dim };
        let bounds = [("start", Attribute::Int(dim)), ("end", Attribute::Int(dim.checked_add(1)?))];
        let x = vec![self.x()?];
        self.put("", "Shape", x, bounds)
    }

    fn convolution(&mut self) -> Option<()> {
        let x = self.x()?;
        let operands = vec![Some(x), self.tensor("weight"), self.tensor("bias")];
        let spatial = self.x_declared()?.dims?.len().checked_sub(2)?;
        // One number stands for all dimensions.
        let all = |list: Vec<i64>| match list.as_slice() {
            [one] => vec![*one; spatial],
            _ => list,
        };
        let list =
            |c: &Self, name: &str, default: i64| all(c.ints(name).unwrap_or_else(|| vec![default]));
        let transposed =
            self.origin.aten.contains("transpose") || self.flag("transposed") == Some(true);
        let mut attributes = [
            ("strides", Attribute::Ints(list(self, "stride", 1))),
            ("dilations", Attribute::Ints(list(self, "dilation", 1))),
            ("group", Attribute::Int(self.int("groups").unwrap_or(1))),
            ("output_padding", Attribute::Ints(list(self, "output_padding", 0))),
            ("pads", Attribute::Int(0)),
        ];
        if let Some(last) = attributes.last_mut() {
            *last = match self.string("padding").as_deref() {
                Some("same") => ("auto_pad", Attribute::String("SAME_UPPER".to_owned())),
                Some(_) => ("auto_pad", Attribute::String("VALID".to_owned())),
                None => {
                    let pads = list(self, "padding", 0);
                    ("pads", Attribute::Ints([pads.clone(), pads].concat()))
                }
            };
        }
        let op = if transposed { "ConvTranspose" } else { "Conv" };
        self.put_optional("", op, operands, attributes)
    }

    /// `query, key, value, attn_mask, dropout_p, is_causal`.
    fn attention(&mut self) -> Option<()> {
        let mut operands = vec![self.x()?, self.tensor("key")?, self.tensor("value")?];
        if let Some(mask) = self.tensor("attn_mask") {
            if self.lower.is_trained(mask) {
                operands.push(mask);
            } else {
                self.lower.masked = self.lower.masked.saturating_add(1);
            }
        }
        let drops = self.float("dropout_p").is_some_and(|p| p > 0.0);
        self.put(TORCH, "Attention", operands, [("drops", flag(drops))])
    }

    /// In training, whatever the program was exported for.
    fn batch_norm(&mut self) -> Option<()> {
        if self.flag("training") == Some(false) {
            self.lower.evaluated = self.lower.evaluated.saturating_add(1);
        }
        let names = ["weight", "bias", "running_mean", "running_var"];
        let mut operands = vec![self.x()];
        operands.extend(names.map(|name| self.tensor(name)));
        // Results besides the first are the statistics, which nobody reads.
        self.outputs.truncate(1);
        self.put_optional("", "BatchNormalization", operands, [("training_mode", flag(true))])
    }

    fn layer_norm(&mut self, op: &str) -> Option<()> {
        let operands = vec![self.x(), self.tensor("weight"), self.tensor("bias")];
        let last = if op == "RMSNormalization" { 2 } else { 3 };
        let operands = operands.into_iter().take(last).collect();
        let width = i64::try_from(self.ints("normalized_shape")?.len()).ok()?;
        self.outputs.truncate(1);
        self.put_optional("", op, operands, [("axis", Attribute::Int(width.checked_neg()?))])
    }

    fn dropout(&mut self) -> Option<()> {
        if self.flag("train") == Some(false) {
            self.lower.evaluated = self.lower.evaluated.saturating_add(1);
        }
        let x = vec![self.x()?];
        let ratio = Attribute::Float(self.float("p").unwrap_or(0.5));
        self.outputs.truncate(1);
        self.put("", "Dropout", x, [("ratio", ratio)])
    }

    fn pool(&mut self, op: &str) -> Option<()> {
        let spatial = self.ints("kernel_size")?;
        let rank = self.rank("self")?.checked_sub(2)?;
        let all = |list: Vec<i64>| match list.as_slice() {
            [one] => vec![*one; rank],
            _ => list,
        };
        let list = |c: &Self, name: &str| c.ints(name).filter(|list| !list.is_empty()).map(all);
        let kernel = all(spatial);
        let pads = list(self, "padding").unwrap_or_else(|| vec![0; rank]);
        let attributes = [
            ("strides", Attribute::Ints(list(self, "stride").unwrap_or_else(|| kernel.clone()))),
            ("dilations", Attribute::Ints(list(self, "dilation").unwrap_or_else(|| vec![1; rank]))),
            ("kernel_shape", Attribute::Ints(kernel)),
            ("pads", Attribute::Ints([pads.clone(), pads].concat())),
            ("ceil_mode", flag(self.flag("ceil_mode") == Some(true))),
        ];
        let x = vec![self.x()?];
        self.put("", op, x, attributes)
    }

    /// To one element a mean; to others windows that give as many.
    fn adaptive_pool(&mut self, op: &str) -> Option<()> {
        let x = vec![self.x()?];
        let target = self.ints("output_size")?;
        if target.iter().all(|&n| n == 1) && op == "AveragePool" {
            return self.put("", "GlobalAveragePool", x, []);
        }
        let dims = self.x_declared()?.dims?;
        let mut strides = Vec::new();
        let mut kernel = Vec::new();
        for (dim, &wanted) in dims.iter().skip(2).zip(&target) {
            let Dim::Known(size) = dim else { return None };
            let size = i64::try_from(*size).ok()?;
            let stride = size.checked_div_euclid(wanted)?;
            strides.push(stride.max(1));
            kernel.push(size.checked_sub(wanted.checked_sub(1)?.checked_mul(stride)?)?);
        }
        let attributes = [
            ("strides", Attribute::Ints(strides)),
            ("kernel_shape", Attribute::Ints(kernel)),
            ("adaptive", flag(true)),
        ];
        self.put("", op, x, attributes)
    }

    fn resize(&mut self) -> Option<()> {
        let x = self.x()?;
        let rank = i64::try_from(self.rank("self")?).ok()?;
        let axes: Vec<i64> = (2..rank).collect();
        if let Some(sizes) = self.sizes("output_size") {
            let operands = vec![Some(x), None, None, Some(sizes)];
            return self.put_optional("", "Resize", operands, [("axes", Attribute::Ints(axes))]);
        }
        let ("as_floats", list) = self.argument("scale_factors")? else { return None };
        let scales: Option<Vec<f64>> = list.as_array()?.iter().map(Json::as_f64).collect();
        let scales = scales?;
        let dims = vec![u64::try_from(scales.len()).ok()?];
        let elements = Some(Elements::Floats(scales));
        let scales = self.lower.constant(Literal { dtype: DType::Float32, dims, elements });
        let operands = vec![Some(x), None, Some(scales)];
        self.put_optional("", "Resize", operands, [("axes", Attribute::Ints(axes))])
    }

    /// Pairs from the last dimension on, where ONNX wants all fronts and then all backs.
    fn pad(&mut self) -> Option<()> {
        let x = self.x()?;
        let pairs = self.ints("pad")?;
        let rank = i64::try_from(self.rank("self")?).ok()?;
        let (mut fronts, mut backs, mut axes) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, pair) in (0..rank).rev().zip(pairs.chunks(2)) {
            let &[front, back] = pair else { return None };
            fronts.push(front);
            backs.push(back);
            axes.push(axis);
        }
        let pads = self.lower.integers(&[fronts, backs].concat());
        let axes = self.lower.integers(&axes);
        let mode = self.string("mode").unwrap_or_else(|| "constant".to_owned());
        let operands = vec![Some(x), Some(pads), None, Some(axes)];
        self.put_optional("", "Pad", operands, [("mode", Attribute::String(mode))])
    }

    fn softmax(&mut self, op: &str) -> Option<()> {
        let axis = Attribute::Int(self.int("dim")?);
        let x = self.x()?;
        let wanted = self.int("dtype").and_then(program::dtype);
        let is = self.x_declared().and_then(|declared| declared.dtype);
        let x = match wanted.filter(|wanted| is != Some(*wanted)) {
            Some(dtype) => {
                let to = BTreeMap::from([("to".to_owned(), Attribute::Int(onnx(dtype)))]);
                self.helper("Cast", vec![x], to)
            }
            None => x,
        };
        self.put("", op, vec![x], [("axis", axis)])
    }

    fn reduce(&mut self, op: &str) -> Option<()> {
        let x = vec![self.x()?];
        let axes = self.ints("dim").unwrap_or_default();
        let keep = flag(self.flag("keepdim") == Some(true));
        self.put("", op, x, [("axes", Attribute::Ints(axes)), ("keepdims", keep)])
    }

    /// Of two tensors, or of all elements; along a dimension there are two results.
    fn extremum(&mut self, of_two: &str, of_all: &str) -> Option<()> {
        if self.argument("other").is_some() {
            return self.binary(of_two);
        }
        if self.argument("dim").is_some() { None } else { self.reduce(of_all) }
    }

    fn position(&mut self, op: &str) -> Option<()> {
        let x = vec![self.x()?];
        let axis = Attribute::Int(self.int("dim")?);
        let keep = flag(self.flag("keepdim") == Some(true));
        self.put("", op, x, [("axis", axis), ("keepdims", keep)])
    }

    fn reshape(&mut self, name: &str) -> Option<()> {
        let target = self.sizes(name)?;
        self.reshape_to(target)
    }

    fn reshape_to(&mut self, target: ValueId) -> Option<()> {
        let operands = vec![self.x()?, target];
        self.put("", "Reshape", operands, [("allowzero", flag(true))])
    }

    /// To the sizes that the program states, of which at most one may be open.
    fn regrouped(&mut self) -> Option<()> {
        let dims = self.made()?.dims?;
        let is_open = |dim: &Dim| !matches!(dim, Dim::Known(_));
        if dims.iter().filter(|dim| is_open(dim)).count() < 2 {
            let sizes: Option<Vec<i64>> = dims
                .iter()
                .map(|dim| match dim {
                    Dim::Known(n) => i64::try_from(*n).ok(),
                    Dim::Named(_) | Dim::Unknown => Some(-1),
                })
                .collect();
            let target = self.lower.integers(&sizes?);
            return self.reshape_to(target);
        }
        let rank = self.rank("self")?;
        let start = position(self.int("start_dim").unwrap_or(0), rank)?;
        let end = position(self.int("end_dim").unwrap_or(-1), rank)?;
        let parts = vec![
            self.shape_of(0, start)?,
            self.lower.integers(&[-1]),
            self.shape_of(end.checked_add(1)?, rank)?,
        ];
        let target = self.join(parts)?;
        self.reshape_to(target)
    }

    fn unflatten(&mut self) -> Option<()> {
        let rank = self.rank("self")?;
        let dim = position(self.int("dim")?, rank)?;
        let parts = vec![
            self.shape_of(0, dim)?,
            self.sizes("sizes")?,
            self.shape_of(dim.checked_add(1)?, rank)?,
        ];
        let target = self.join(parts)?;
        self.reshape_to(target)
    }

    /// Where a size is -1, the dimension stays.
    fn expand(&mut self) -> Option<()> {
        let x = self.x()?;
        let target = match self.ints("size") {
            Some(list) => {
                let list: Vec<i64> = list.iter().map(|&n| if n == -1 { 1 } else { n }).collect();
                self.lower.integers(&list)
            }
            None => {
                let ("as_sym_ints", list) = self.argument("size")? else { return None };
                let parts: Option<Vec<ValueId>> = list
                    .as_array()?
                    .iter()
                    .map(|part| match part.get("as_int").and_then(Json::as_i64) {
                        Some(n) => Some(self.lower.integers(&[if n == -1 { 1 } else { n }])),
                        None => self.lower.id(part.get("as_name")?.as_str()?),
                    })
                    .collect();
                self.join(parts?)?
            }
        };
        self.put("", "Expand", vec![x, target], [])
    }

    fn transpose(&mut self, order: Vec<i64>) -> Option<()> {
        let x = vec![self.x()?];
        self.put("", "Transpose", x, [("perm", Attribute::Ints(order))])
    }

    fn swap(&mut self, a: i64, b: i64) -> Option<()> {
        let rank = self.rank("self")?;
        let (a, b) = (position(a, rank)?, position(b, rank)?);
        let mut order: Vec<i64> = (0..i64::try_from(rank).ok()?).collect();
        order.swap(a, b);
        self.transpose(order)
    }

    fn squeeze(&mut self) -> Option<()> {
        let x = self.x()?;
        let Some(axes) = self.ints("dim") else { return self.regrouped() };
        let dims = self.x_declared()?.dims?;
        // PyTorch leaves a dimension that is not one.
        let is_one = |&axis: &i64| {
            position(axis, dims.len()).and_then(|at| dims.get(at)) == Some(&Dim::Known(1))
        };
        let axes: Vec<i64> = axes.into_iter().filter(is_one).collect();
        if axes.is_empty() {
            return self.same();
        }
        self.put("", "Squeeze", vec![x], [("axes", Attribute::Ints(axes))])
    }

    fn slice(&mut self) -> Option<()> {
        let x = self.x()?;
        let axis = self.int("dim").unwrap_or(0);
        let bound = |c: &mut Self, name: &str, default: i64| match c.argument(name) {
            None | Some(("as_none", _)) => Some(c.lower.integers(&[default])),
            Some(_) => c.sizes(name),
        };
        let start = bound(self, "start", 0)?;
        let end = bound(self, "end", i64::MAX)?;
        let (axes, step) = (self.lower.integers(&[axis]), bound(self, "step", 1)?);
        self.put("", "Slice", vec![x, start, end, axes, step], [])
    }

    /// Pieces of stated lengths, or as even as they go.
    fn split(&mut self) -> Option<()> {
        let x = vec![self.x()?];
        let rank = self.rank("self")?;
        let axis = position(self.int("dim").unwrap_or(0), rank)?;
        let length = |name: Option<&str>| match self.declared(name?)?.dims?.get(axis)? {
            Dim::Known(n) => i64::try_from(*n).ok(),
            Dim::Named(_) | Dim::Unknown => None,
        };
        let lengths: Option<Vec<i64>> = self.outputs.iter().map(|name| length(*name)).collect();
        let axis = Attribute::Int(i64::try_from(axis).ok()?);
        match lengths {
            Some(lengths) => {
                let split = Attribute::Ints(lengths);
                self.put("", "Split", x, [("axis", axis), ("split", split)])
            }
            None => self.put("", "Split", x, [("axis", axis)]),
        }
    }

    /// Views of one place each.
    fn unbind(&mut self) -> Option<()> {
        let x = self.x()?;
        let axis = self.int("dim").unwrap_or(0);
        for (index, name) in self.outputs.clone().into_iter().enumerate() {
            let index = Json::from(u64::try_from(index).ok()?);
            let index = self.scalar(&index, DType::Int64)?;
            self.outputs = vec![name];
            self.put("", "Gather", vec![x, index], [("axis", Attribute::Int(axis))])?;
        }
        Some(())
    }

    fn concat(&mut self) -> Option<()> {
        let pieces = self.tensors("tensors");
        let axis = Attribute::Int(self.int("dim").unwrap_or(0));
        self.put("", "Concat", pieces, [("axis", axis)])
    }

    fn stack(&mut self) -> Option<()> {
        let axis = self.int("dim").unwrap_or(0);
        let pieces = self.tensors("tensors").into_iter().map(|piece| {
            let axes = BTreeMap::from([("axes".to_owned(), Attribute::Ints(vec![axis]))]);
            self.helper("Unsqueeze", vec![piece], axes)
        });
        let pieces = pieces.collect();
        self.put("", "Concat", pieces, [("axis", Attribute::Int(axis))])
    }

    /// To the type that the result has, also where `x` has it: elsewhere it may have not.
    fn cast(&mut self) -> Option<()> {
        let to = self.made()?.dtype?;
        let x = vec![self.x()?];
        self.put("", "Cast", x, [("to", Attribute::Int(onnx(to)))])
    }

    /// `x[i]` and `x[:, i]`; several indices at once take what is indexed first.
    fn index(&mut self) -> Option<()> {
        let inputs = program::list(self.node, "inputs");
        let indices = inputs.get(1)?.get("arg").map(program::tensors)?;
        let given: Vec<usize> =
            (0..indices.len()).filter(|&at| indices.get(at).copied().flatten().is_some()).collect();
        let &[axis] = given.as_slice() else { return None };
        let name = indices.get(axis).copied().flatten()?;
        // A mask of booleans picks what only a run shows.
        if self.declared(name)?.dtype == Some(DType::Bool) {
            return None;
        }
        let operands = vec![self.x()?, self.lower.id(name)?];
        self.put("", "Gather", operands, [("axis", Attribute::Int(i64::try_from(axis).ok()?))])
    }

    fn arange(&mut self) -> Option<()> {
        let dtype = self.made()?.dtype?;
        let one = |c: &mut Self, n: i64| c.scalar(&Json::from(n), dtype);
        let start = match self.argument("start") {
            Some(_) => self.number_of("start", dtype)?,
            None => one(self, 0)?,
        };
        let end = self.number_of("end", dtype)?;
        let step = match self.argument("step") {
            Some(_) => self.number_of("step", dtype)?,
            None => one(self, 1)?,
        };
        self.put("", "Range", vec![start, end, step], [])
    }

    /// New memory of stated sizes, whatever it is filled with.
    fn filled(&mut self, name: &str) -> Option<()> {
        let dtype = Attribute::Int(onnx(self.made()?.dtype?));
        let sizes = match self.argument(name) {
            Some(_) => self.sizes(name)?,
            None => self.lower.integers(&[]),
        };
        self.put(TORCH, "Empty", vec![sizes], [("dtype", dtype)])
    }

    /// New memory of an argument's sizes.
    fn random_like(&mut self) -> Option<()> {
        let dtype = Attribute::Int(onnx(self.made()?.dtype?));
        let x = vec![self.x()?];
        self.put("", "RandomUniformLike", x, [("dtype", dtype)])
    }
}

fn flag(set: bool) -> Attribute {
    Attribute::Int(i64::from(set))
}

/// An axis counted from the front.
fn position(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    (0..rank).contains(&axis).then(|| usize::try_from(axis).ok())?
}

/// ONNX's number of a type (`TensorProto.DataType`).
const fn onnx(dtype: DType) -> i64 {
    match dtype {
        DType::Float32 => 1,
        DType::UInt8 => 2,
        DType::Int8 => 3,
        DType::UInt16 => 4,
        DType::Int16 => 5,
        DType::Int32 => 6,
        DType::Int64 => 7,
        DType::Bool => 9,
        DType::Float16 => 10,
        DType::Float64 => 11,
        DType::UInt32 => 12,
        DType::UInt64 => 13,
        DType::Complex64 => 14,
        DType::Complex128 => 15,
        DType::BFloat16 => 16,
        DType::Float8 => 17,
    }
}

#[cfg(test)]
mod tests {
    use super::ROWS;

    #[test]
    fn rows_are_unique_and_have_plain_names() {
        for (at, (name, _)) in ROWS.iter().enumerate() {
            let plain =
                name.rsplit('.').next().is_some_and(|n| !n.ends_with('_') || n.ends_with("__"));
            assert!(plain, "{name}");
            assert!(ROWS.iter().skip(at + 1).all(|(other, _)| other != name), "{name} twice");
        }
    }
}
