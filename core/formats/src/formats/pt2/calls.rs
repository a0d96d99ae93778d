//! ATen calls → nodes: one row per operator (`aten/src/ATen/native/native_functions.yaml`).
//!
//! A row is for all overloads and for the variant that overwrites its input (`relu_`). It reads its arguments by
//! their names in `native_functions.yaml`; a missing argument has its default. A call without a row, or with
//! arguments that its row does not know, keeps its own name, so that inference reports it as unknown.

mod call;
mod rules;

use rules::flag;

use crate::calls::{TORCH, unary};
use crate::graph::Attribute;
use crate::tensor::DType;

pub(super) use call::Call;

/// Says what a call is; `None` where its arguments are of a form that is not known.
type Row = fn(&mut Call<'_, '_>) -> Option<()>;

/// All other rows, by name without overload and without the underscore of the variant in place.
const ROWS: &[(&str, Row)] = &[
    // What has no memory, or is Python's.
    ("aten._assert_async", |_| Some(())),
    ("aten._assert_scalar", |_| Some(())),
    ("aten._assert_tensor_metadata", |_| Some(())),
    ("aten.sym_constrain_range", |_| Some(())),
    ("aten.sym_constrain_range_for_size", |_| Some(())),
    ("aten.alias", |c| c.same()),
    ("aten.detach", |c| c.stop()),
    ("aten.lift_fresh", |c| c.same()),
    ("aten.lift_fresh_copy", |c| c.same()),
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
    ("aten.relu6", |c| c.clip()),
    ("aten.clamp", |c| c.clip()),
    ("aten.hardtanh", |c| c.clip()),
    // Two tensors, or a tensor and a number.
    ("aten.__and__", |c| c.binary("And")),
    ("aten.__or__", |c| c.binary("Or")),
    ("aten.add", |c| c.unscaled()?.binary("Add")),
    ("aten.bitwise_and", |c| c.binary("And")),
    ("aten.bitwise_or", |c| c.binary("Or")),
    ("aten.div", |c| c.string("rounding_mode").is_none().then(|| c.is_fresh()?.binary("Div"))?),
    ("aten.eq", |c| c.binary("Equal")),
    ("aten.floor_divide", |c| c.binary("Div")),
    ("aten.ge", |c| c.binary("GreaterOrEqual")),
    ("aten.gt", |c| c.binary("Greater")),
    ("aten.le", |c| c.binary("LessOrEqual")),
    ("aten.logical_and", |c| c.binary("And")),
    ("aten.logical_or", |c| c.binary("Or")),
    ("aten.logical_xor", |c| c.binary("Xor")),
    ("aten.lt", |c| c.binary("Less")),
    ("aten.mul", |c| c.is_fresh()?.binary("Mul")),
    ("aten.ne", |c| c.differs()),
    ("aten.pow", |c| c.tensor("exponent").is_none().then(|| c.binary("Pow"))?),
    ("aten.rsub", |c| c.tensor("other").is_none().then(|| c.unscaled()?.reversed("Sub"))?),
    ("aten.sub", |c| c.is_fresh()?.unscaled()?.binary("Sub")),
    ("aten.true_divide", |c| c.is_fresh()?.binary("Div")),
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
        // A bias is added by the kernel; what is as large as the product is not.
        let scaled = |name| c.float(name).is_some_and(|n| n.total_cmp(&1.0).is_ne());
        if c.in_place || c.rank() != Some(1) || scaled("alpha") || scaled("beta") {
            return None;
        }
        let operands = vec![c.tensor("mat1")?, c.tensor("mat2")?, c.x()?];
        c.put("", "Gemm", operands, [])
    }),
    ("aten.bmm", |c| c.product("mat2")),
    ("aten.einsum", |c| {
        let equation = Attribute::String(c.string("equation")?);
        let operands = c.tensors("tensors");
        c.put("", "Einsum", operands, [("equation", equation)])
    }),
    ("aten.linear", |c| {
        // A single row is a vector, and the product another.
        c.declared_rank("weight").filter(|&rank| rank > 1)?;
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
    ("aten.batch_norm", |c| c.batch_norm(false)),
    ("aten._batch_norm_with_update", |c| c.batch_norm(false)),
    ("aten._batch_norm_with_update_functional", |c| c.batch_norm(false)),
    ("aten._native_batch_norm_legit", |c| c.batch_norm(true)),
    ("aten._native_batch_norm_legit_functional", |c| c.batch_norm(true)),
    ("aten.native_batch_norm", |c| c.batch_norm(true)),
    ("aten.group_norm", |c| {
        let operands = vec![c.x(), c.tensor("weight"), c.tensor("bias")];
        let groups = Attribute::Int(c.int("num_groups")?);
        c.put_optional("", "GroupNormalization", operands, [("num_groups", groups)])
    }),
    ("aten.layer_norm", |c| c.layer_norm("LayerNormalization")),
    ("aten.native_layer_norm", |c| c.layer_norm("LayerNormalization")),
    ("aten.rms_norm", |c| c.layer_norm("RMSNormalization")),
    ("aten.dropout", |c| c.dropout()),
    ("aten.native_dropout", |c| c.dropout()),
    // Recurrent layers, and single steps of them.
    ("aten.gru", |c| c.recurrent("gru")),
    ("aten.lstm", |c| c.recurrent("lstm")),
    ("aten.rnn_relu", |c| c.recurrent("rnn")),
    ("aten.rnn_tanh", |c| c.recurrent("rnn")),
    ("aten.gru_cell", |c| c.cell("GruCell")),
    ("aten.lstm_cell", |c| c.cell("LstmCell")),
    ("aten.rnn_relu_cell", |c| c.cell("RnnCell")),
    ("aten.rnn_tanh_cell", |c| c.cell("RnnCell")),
    // Pooling and resampling.
    ("aten.adaptive_avg_pool1d", |c| c.adaptive_pool()),
    ("aten.adaptive_avg_pool2d", |c| c.adaptive_pool()),
    ("aten.avg_pool1d", |c| c.pool("AveragePool")),
    ("aten.avg_pool2d", |c| c.pool("AveragePool")),
    ("aten.avg_pool3d", |c| c.pool("AveragePool")),
    ("aten.max_pool1d", |c| c.pool("MaxPool")),
    ("aten.max_pool2d", |c| c.pool("MaxPool")),
    ("aten.max_pool1d_with_indices", |c| c.pool("MaxPool")),
    ("aten.max_pool2d_with_indices", |c| c.pool("MaxPool")),
    ("aten.max_pool3d_with_indices", |c| c.pool("MaxPool")),
    ("aten.max_pool3d", |c| c.pool("MaxPool")),
    ("aten.pixel_shuffle", |c| {
        let factor = Attribute::Int(c.int("upscale_factor")?);
        let x = vec![c.x()?];
        c.put("", "DepthToSpace", x, [("blocksize", factor)])
    }),
    ("aten._upsample_bicubic2d_aa", |c| c.resize()),
    ("aten._upsample_bilinear2d_aa", |c| c.resize()),
    ("aten._upsample_nearest_exact1d", |c| c.resize()),
    ("aten._upsample_nearest_exact2d", |c| c.resize()),
    ("aten._upsample_nearest_exact3d", |c| c.resize()),
    ("aten.upsample_bicubic2d", |c| c.resize()),
    ("aten.upsample_bilinear2d", |c| c.resize()),
    ("aten.upsample_linear1d", |c| c.resize()),
    ("aten.upsample_nearest1d", |c| c.resize()),
    ("aten.upsample_nearest2d", |c| c.resize()),
    ("aten.upsample_nearest3d", |c| c.resize()),
    ("aten.upsample_trilinear3d", |c| c.resize()),
    ("aten.constant_pad_nd", |c| c.pad()),
    ("aten.pad", |c| c.pad()),
    // Reductions.
    ("aten._log_softmax", |c| c.softmax("LogSoftmax")),
    ("aten._softmax", |c| c.softmax("Softmax")),
    ("aten.argmax", |c| c.position("ArgMax")),
    ("aten.argmin", |c| c.position("ArgMin")),
    ("aten.log_softmax", |c| c.softmax("LogSoftmax")),
    ("aten.mean", |c| c.reduce("ReduceMean")),
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
    ("aten.clone", |c| {
        // Without a format it is a copy, whatever `x` is.
        c.argument("memory_format")?;
        c.unary(TORCH, "Contiguous")
    }),
    ("aten.expand", |c| c.expand()),
    ("aten.flatten", |c| c.regrouped()),
    ("aten.permute", |c| {
        let rank = i64::try_from(c.rank()?).ok()?;
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
    ("aten.t", |c| c.swap(0, i64::from(c.rank()? > 1))),
    ("aten.transpose", |c| c.swap(c.int("dim0")?, c.int("dim1")?)),
    ("aten.unflatten", |c| c.unflatten()),
    ("aten.unsqueeze", |c| {
        let axes = Attribute::Ints(vec![c.int("dim")?]);
        let x = vec![c.x()?];
        c.put("", "Unsqueeze", x, [("axes", axes)])
    }),
    ("aten.view", |c| c.reshape("size")),
    // Copies.
    ("aten._to_copy", |c| c.cast()),
    ("aten.copy", |c| c.assign()),
    ("aten.cat", |c| c.concat()),
    ("aten.concat", |c| c.concat()),
    ("aten.stack", |c| c.stack()),
    ("aten.to", |c| c.cast()),
    ("aten.type_as", |c| c.cast()),
    // By index.
    ("aten.embedding", |c| {
        // A single index is no `select`.
        c.declared_rank("indices").filter(|&rank| rank > 0)?;
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
        let is_smoothed = c.float("label_smoothing").is_some_and(|part| part > 0.0);
        let is_soft = c.is_floating(c.tensor("target")?);
        if (is_smoothed || is_soft) && (reduction != "mean" || c.tensor("weight").is_some()) {
            return None;
        }
        let kind = ["hard", "smoothed", "soft"];
        let kind = kind.get(usize::from(is_smoothed).max(usize::from(is_soft) * 2))?;
        let text = |text: &str| Attribute::String(text.to_owned());
        let attributes = [("reduction", text(reduction)), ("labels", text(kind))];
        c.put("", "SoftmaxCrossEntropyLoss", operands, attributes)
    }),
];

/// What makes one view of its argument.
const VIEWS: [&str; 10] = [
    "aten.diagonal",
    "aten.narrow",
    "aten.permute",
    "aten.select",
    "aten.slice",
    "aten.squeeze",
    "aten.t",
    "aten.transpose",
    "aten.unsqueeze",
    "aten.view",
];

/// Operators that overwrite their input here where PyTorch does.
const IN_PLACE: [&str; 28] = [
    "Add",
    "Ceil",
    "Celu",
    "Clip",
    "Deg2rad",
    "Dropout",
    "Elu",
    "Exp",
    "Exp2",
    "Expm1",
    "Floor",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Rsqrt",
    "Selu",
    "Sigmoid",
    "Sign",
    "Silu",
    "Sqrt",
    "Tan",
    "Tanh",
    "Trilu",
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
    let lowered = match unary(name) {
        Some((domain, op)) => call.unary(domain, op),
        None => row.and_then(|(_, row)| row(&mut call)),
    };
    if lowered.is_none() {
        call.verbatim(&target);
    }
    if VIEWS.contains(&name) && !call.in_place {
        call.note_view();
    }
    call.rename_overwritten();
}

#[cfg(test)]
mod tests {
    use highwater_engine::aten::formula;

    use super::ROWS;
    use crate::calls::{UNARY, WITH_FORMULA};

    #[test]
    fn rows_are_unique_and_have_plain_names() {
        let names: Vec<&str> = UNARY
            .iter()
            .map(|(name, ..)| *name)
            .chain(ROWS.iter().map(|(name, _)| *name))
            .collect();
        for (at, name) in names.iter().enumerate() {
            let plain =
                name.rsplit('.').next().is_some_and(|n| !n.ends_with('_') || n.ends_with("__"));
            assert!(plain, "{name}");
            assert!(!names[at + 1..].contains(name), "{name} twice");
        }
    }

    #[test]
    fn calls_with_a_formula_as_well_are_listed() {
        let has_formula = |name: &&str| {
            let plain = name.trim_start_matches("aten.");
            let of = |row: &formula::Row| row.name.split('.').next() == Some(plain);
            formula::rows().any(of)
        };
        let names = ROWS.iter().map(|(name, _)| *name).filter(has_formula);
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        assert_eq!(names, WITH_FORMULA);
    }
}
