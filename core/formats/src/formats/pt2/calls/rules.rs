//! Rules that several operators share: which node a call becomes, and with which attributes.

use crate::order::IntoOrdered as _;
use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::Call;
use crate::calls::TORCH;
use crate::formats::pt2::program;
use crate::graph::{Attribute, Dim, Elements, Literal, ValueId};
use crate::tensor::DType;

impl Call<'_, '_> {
    /// The argument itself.
    pub(super) fn same(&mut self) -> Option<()> {
        let (x, output) = (self.x()?, self.outputs.first().copied().flatten()?);
        self.lower.alias(output, x);
        Some(())
    }

    /// The argument without its history; the argument itself, where it has none.
    pub(super) fn stop(&mut self) -> Option<()> {
        let x = self.x()?;
        if !self.lower.is_trained(x) {
            return self.same();
        }
        self.lower.stopped += 1;
        self.put(TORCH, "Detach", vec![x], [])
    }

    /// `copy_`: from here on the tensor that the overwritten part is of has what was written.
    pub(super) fn assign(&mut self) -> Option<()> {
        let (part, src) = (self.first_name()?, self.tensor("src")?);
        if !self.in_place {
            return None;
        }
        let whole = self.lower.whole_of(part);
        let x = self.lower.id(whole)?;
        if let Some(output) = self.outputs.first().copied().flatten() {
            self.lower.alias(output, src);
        }
        self.outputs = vec![Some(whole)];
        let is_whole = Attribute::Int(i64::from(whole == part));
        self.put(TORCH, "Assign", vec![x, src], [("whole", is_whole)])?;
        self.outputs = vec![None];
        Some(())
    }

    pub(super) fn unary(&mut self, domain: &str, op: &str) -> Option<()> {
        let x = match self.x() {
            Some(x) => x,
            None => self.operand("a")?,
        };
        self.put(domain, op, vec![x], [])
    }

    /// `self` and `other`, in Python `a` and `b`.
    pub(super) fn binary(&mut self, op: &str) -> Option<()> {
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

    pub(super) fn reversed(&mut self, op: &str) -> Option<()> {
        let mut operands = self.operands()?;
        operands.reverse();
        self.put("", op, operands, [])
    }

    pub(super) fn operands(&mut self) -> Option<Vec<ValueId>> {
        let inputs = program::list(self.node, "inputs");
        let name = |at: usize| inputs.get(at).map(|input| program::text(input, "name"));
        let (a, b) = (name(0)?, name(1)?);
        if a == "a" {
            return Some(vec![self.sizes(a)?, self.sizes(b)?]);
        }
        Some(vec![self.operand(a)?, self.operand(b)?])
    }

    pub(super) fn is_floating(&self, id: ValueId) -> bool {
        let Some(value) = self.lower.graph.value(id) else { return false };
        let literal = value.initializer.as_ref().map(|literal| literal.dtype);
        let declared = value.declared.as_ref().and_then(|declared| declared.dtype);
        literal.or(declared).is_some_and(DType::is_floating)
    }

    /// `ne`: what it makes and keeps is what `eq` does.
    pub(super) fn differs(&mut self) -> Option<()> {
        let operands = self.operands()?;
        let equal = self.helper("Equal", operands, BTreeMap::new());
        self.put("", "Not", vec![equal], [])
    }

    pub(super) fn clip(&mut self) -> Option<()> {
        let x = self.x()?;
        // Bounds that are tensors have gradients of their own.
        if ["min", "max"].iter().any(|name| self.tensor(name).is_some()) {
            return None;
        }
        let low = ["min", "min_val"].iter().find_map(|name| self.operand(name));
        let high = ["max", "max_val"].iter().find_map(|name| self.operand(name));
        self.put_optional("", "Clip", vec![Some(x), low, high], [])
    }

    pub(super) fn product(&mut self, other: &str) -> Option<()> {
        let operands = vec![self.x()?, self.tensor(other)?];
        self.put("", "MatMul", operands, [])
    }

    /// A size as a list of one.
    pub(super) fn size(&mut self) -> Option<()> {
        let dim = self.int("dim")?;
        let rank = i64::try_from(self.rank()?).ok()?;
        let dim = if dim < 0 { dim.saturating_add(rank) } else { dim };
        let bounds = [("start", Attribute::Int(dim)), ("end", Attribute::Int(dim.checked_add(1)?))];
        let x = vec![self.x()?];
        self.put("", "Shape", x, bounds)
    }

    pub(super) fn convolution(&mut self) -> Option<()> {
        let rank = self.declared_rank("weight")?;
        // Without a batch it runs on a batch of one (`batchify`, `native/Convolution.cpp`).
        let is_alone = self.rank()?.checked_add(1)? == rank;
        let alone = || ("axes", Attribute::Ints(vec![0]));
        let named = |(name, value): (&str, Attribute)| (name.to_owned(), value);
        let mut x = self.x()?;
        if is_alone {
            x = self.helper("Unsqueeze", vec![x], BTreeMap::from([named(alone())]));
        }
        let operands = vec![Some(x), self.tensor("weight"), self.tensor("bias")];
        let spatial = rank.checked_sub(2)?;
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
        if is_alone {
            let operands = operands.into_iter().flatten().collect();
            let made = self.helper(op, operands, BTreeMap::from(attributes.map(named)));
            return self.put("", "Squeeze", vec![made], [alone()]);
        }
        self.put_optional("", op, operands, attributes)
    }

    /// `query, key, value, attn_mask, dropout_p, is_causal`.
    pub(super) fn attention(&mut self) -> Option<()> {
        let mut operands = vec![self.x()?, self.tensor("key")?, self.tensor("value")?];
        let mut masked = false;
        if let Some(mask) = self.tensor("attn_mask") {
            // That function passes what it is given.
            let is_given = self.origin.function.starts_with("multi_head_attention_forward");
            masked = !is_given && !self.lower.is_trained(mask);
            if masked {
                self.lower.masked = self.lower.masked.saturating_add(1);
            } else {
                operands.push(mask);
            }
        }
        let drops = self.float("dropout_p").is_some_and(|p| p > 0.0);
        let causal = flag(self.flag("is_causal") == Some(true));
        let attributes = [
            ("drops", flag(drops)),
            ("masked", flag(masked)),
            ("causal", causal),
            ("as_given", flag(true)),
        ];
        self.put(TORCH, "Attention", operands, attributes)
    }

    /// In training, whatever the program was exported for.
    pub(super) fn batch_norm(&mut self, is_native: bool) -> Option<()> {
        if self.flag("training") == Some(false) {
            self.lower.evaluated = self.lower.evaluated.saturating_add(1);
        }
        let names = ["weight", "bias", "running_mean", "running_var"];
        let mut operands = vec![self.x()];
        operands.extend(names.map(|name| self.tensor(name)));
        // Results besides the first are the statistics, which nobody reads.
        self.outputs.truncate(1);
        let updates = self.origin.aten.contains("with_update");
        let attributes = [
            ("training_mode", flag(true)),
            ("native", flag(is_native)),
            ("updates", flag(updates)),
        ];
        self.put_optional("", "BatchNormalization", operands, attributes)
    }

    /// All layers in one call: input, first states, weights.
    pub(super) fn recurrent(&mut self, cell: &str) -> Option<()> {
        let (x, states, weights) =
            (self.tensor("input")?, self.tensors("hx"), self.tensors("params"));
        let layers = self.int("num_layers")?;
        let directions = if self.flag("bidirectional") == Some(true) { 2 } else { 1 };
        let each = if self.flag("has_biases") == Some(false) { 2 } else { 4 };
        let drops = self.float("dropout")? > 0.0 && self.flag("train") == Some(true);
        let count = i64::try_from(weights.len()).ok()?;
        // Projections add a weight for each.
        (count == layers.checked_mul(directions)?.checked_mul(each)?).then_some(())?;
        let of_state = self.lower.graph.value(*weights.get(1)?)?.initializer.as_ref()?;
        let hidden = i64::try_from(*of_state.dims.get(1)?).ok()?;
        let attributes = [
            ("cell", Attribute::String(cell.to_owned())),
            ("hidden", Attribute::Int(hidden)),
            ("layers", Attribute::Int(layers)),
            ("directions", Attribute::Int(directions)),
            ("states", Attribute::Int(i64::try_from(states.len()).ok()?)),
            ("batch_first", flag(self.flag("batch_first") == Some(true))),
            ("drops", flag(drops)),
        ];
        self.put(TORCH, "Recurrent", [vec![x], states, weights].concat(), attributes)
    }

    /// One step: input, state, for an LSTM the cell, weights, biases.
    pub(super) fn cell(&mut self, op: &str) -> Option<()> {
        let states = self.tensors("hx");
        let mut operands = vec![self.tensor("input"), states.first().copied()];
        operands.push(states.get(1).copied());
        let names = ["w_ih", "w_hh", "b_ih", "b_hh"];
        operands.extend(names.map(|name| self.tensor(name)));
        let relu = flag(self.origin.aten.contains("relu"));
        self.put_optional(TORCH, op, operands, [("relu", relu)])
    }

    pub(super) fn layer_norm(&mut self, op: &str) -> Option<()> {
        let operands = vec![self.x(), self.tensor("weight"), self.tensor("bias")];
        let last = if op == "RMSNormalization" { 2 } else { 3 };
        let operands = operands.into_iter().take(last).collect();
        let width = i64::try_from(self.ints("normalized_shape")?.len()).ok()?;
        self.outputs.truncate(1);
        self.put_optional("", op, operands, [("axis", Attribute::Int(width.checked_neg()?))])
    }

    pub(super) fn dropout(&mut self) -> Option<()> {
        if self.flag("train") == Some(false) {
            self.lower.evaluated = self.lower.evaluated.saturating_add(1);
        }
        // Nothing is left: a product with a zero.
        let p = self.float("p").filter(|p| *p < 1.0 || self.flag("train") == Some(false))?;
        let x = vec![self.x()?];
        let ratio = Attribute::Float(p);
        self.outputs.truncate(1);
        self.put("", "Dropout", x, [("ratio", ratio)])
    }

    pub(super) fn pool(&mut self, op: &str) -> Option<()> {
        let spatial = self.ints("kernel_size")?;
        // `aten.avg_pool1d`: the digit behind the name; without a batch there is a dimension less.
        let digit = self.origin.aten.chars().find(char::is_ascii_digit)?;
        let rank = usize::try_from(digit.to_digit(10)?).ok()?;
        let is_batch = self.rank()? == rank.checked_add(2)?;
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
            ("adaptive", flag(false)),
        ];
        let x = self.x()?;
        if is_batch {
            return self.put("", op, vec![x], attributes);
        }
        if self.outputs.len() > 1 {
            return None;
        }
        let first = || ("axes".to_owned(), Attribute::Ints(vec![0]));
        let one = self.helper("Unsqueeze", vec![x], BTreeMap::from([first()]));
        let named = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        let pooled = self.helper(op, vec![one], named.into_map());
        self.put("", "Squeeze", vec![pooled], [("axes", Attribute::Ints(vec![0]))])
    }

    /// To one element a mean; to others windows that give as many.
    pub(super) fn adaptive_pool(&mut self) -> Option<()> {
        let x = vec![self.x()?];
        let target = self.ints("output_size")?;
        if target.iter().all(|&n| n == 1) {
            return self.put("", "GlobalAveragePool", x, []);
        }
        let dims = self.x_declared()?.dims?;
        // Only with a batch.
        if dims.len() != target.len().checked_add(2)? {
            return None;
        }
        let mut strides = Vec::new();
        let mut kernel = Vec::new();
        for (dim, &wanted) in dims.iter().skip(2).zip(&target) {
            let Dim::Known(size) = dim else { return None };
            let size = i64::try_from(*size).ok()?;
            // More than there is: windows that overlap.
            let stride = size.checked_div_euclid(wanted).filter(|&stride| stride > 0)?;
            strides.push(stride);
            kernel.push(size.checked_sub(wanted.checked_sub(1)?.checked_mul(stride)?)?);
        }
        let attributes = [
            ("strides", Attribute::Ints(strides)),
            ("kernel_shape", Attribute::Ints(kernel)),
            ("adaptive", flag(true)),
        ];
        self.put("", "AveragePool", x, attributes)
    }

    pub(super) fn resize(&mut self) -> Option<()> {
        let x = self.x()?;
        let rank = i64::try_from(self.rank()?).ok()?;
        let axes: Vec<i64> = (2..rank).collect();
        // Kernels that channels last is not for, or only of four channels on.
        let kind = if self.origin.aten.contains("_aa") {
            "contiguous"
        } else if self.origin.aten.contains("nearest") {
            "nearest"
        } else {
            ""
        };
        let kernel = ("kernel", Attribute::String(kind.to_owned()));
        if let Some(sizes) = self.sizes("output_size") {
            let operands = vec![Some(x), None, None, Some(sizes)];
            let attributes = [("axes", Attribute::Ints(axes)), kernel];
            return self.put_optional("", "Resize", operands, attributes);
        }
        let ("as_floats", list) = self.argument("scale_factors")? else { return None };
        let scales: Option<Vec<f64>> = list.as_array()?.iter().map(Json::as_f64).collect();
        let scales = scales?;
        let dims = vec![u64::try_from(scales.len()).ok()?];
        let elements = Some(Elements::Floats(scales));
        let scales = self.lower.constant(Literal { dtype: DType::Float32, dims, elements });
        let operands = vec![Some(x), None, Some(scales)];
        self.put_optional("", "Resize", operands, [("axes", Attribute::Ints(axes)), kernel])
    }

    /// Pairs from the last dimension on, where ONNX wants all fronts and then all backs.
    pub(super) fn pad(&mut self) -> Option<()> {
        let x = self.x()?;
        let pairs = self.ints("pad")?;
        let rank = i64::try_from(self.rank()?).ok()?;
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
        if mode == "circular" && pairs.iter().any(|&n| n < 0) {
            return None;
        }
        let mode = if mode == "circular" { "wrap".to_owned() } else { mode };
        let operands = vec![Some(x), Some(pads), None, Some(axes)];
        self.put_optional("", "Pad", operands, [("mode", Attribute::String(mode))])
    }

    /// Where nothing is overwritten.
    pub(super) fn is_fresh(&mut self) -> Option<&mut Self> {
        (!self.in_place).then_some(self)
    }

    /// Where the second operand is not multiplied by `alpha`.
    pub(super) fn unscaled(&mut self) -> Option<&mut Self> {
        let is_one = self.float("alpha").is_none_or(|alpha| alpha.total_cmp(&1.0).is_eq());
        is_one.then_some(self)
    }

    /// COUNT: dimensions of a named argument.
    pub(super) fn declared_rank(&self, name: &str) -> Option<usize> {
        let (_, argument) = self.argument(name)?;
        Some(self.declared(program::text(argument, "name"))?.dims?.len())
    }

    pub(super) fn softmax(&mut self, op: &str) -> Option<()> {
        let axis = Attribute::Int(self.int("dim")?);
        let x = self.x()?;
        let wanted = self.int("dtype").and_then(program::dtype);
        let is = self.x_declared().and_then(|declared| declared.dtype);
        // The call casts, and what it casts lives as long as it runs.
        if wanted.is_some_and(|wanted| is != Some(wanted)) {
            return None;
        }
        self.put("", op, vec![x], [("axis", axis)])
    }

    pub(super) fn reduce(&mut self, op: &str) -> Option<()> {
        let x = vec![self.x()?];
        // What is counted is counted in 64 bits.
        if op == "ReduceSum" && !x.iter().all(|&x| self.is_floating(x)) {
            return None;
        }
        let axes = self.ints("dim").unwrap_or_default();
        let keep = flag(self.flag("keepdim") == Some(true));
        self.put("", op, x, [("axes", Attribute::Ints(axes)), ("keepdims", keep)])
    }

    pub(super) fn position(&mut self, op: &str) -> Option<()> {
        let x = vec![self.x()?];
        let axis = Attribute::Int(self.int("dim")?);
        let keep = flag(self.flag("keepdim") == Some(true));
        self.put("", op, x, [("axis", axis), ("keepdims", keep)])
    }

    pub(super) fn reshape(&mut self, name: &str) -> Option<()> {
        let target = self.sizes(name)?;
        self.reshape_to(target)
    }

    pub(super) fn reshape_to(&mut self, target: ValueId) -> Option<()> {
        let operands = vec![self.x()?, target];
        self.put("", "Reshape", operands, [("allowzero", flag(true))])
    }

    /// To the sizes that the program states, of which at most one may be open.
    pub(super) fn regrouped(&mut self) -> Option<()> {
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
        let rank = self.rank()?;
        let start = position(self.int("start_dim").unwrap_or(0), rank)?;
        let end = position(self.int("end_dim").unwrap_or(-1), rank)?;
        let parts = vec![
            self.shape_of(0, start)?,
            self.lower.integers(&[-1]),
            self.shape_of(end.checked_add(1)?, rank)?,
        ];
        let target = self.join(parts);
        self.reshape_to(target)
    }

    pub(super) fn unflatten(&mut self) -> Option<()> {
        let rank = self.rank()?;
        let dim = position(self.int("dim")?, rank)?;
        let parts = vec![
            self.shape_of(0, dim)?,
            self.sizes("sizes")?,
            self.shape_of(dim.checked_add(1)?, rank)?,
        ];
        let target = self.join(parts);
        self.reshape_to(target)
    }

    /// Where a size is -1, the dimension stays.
    pub(super) fn expand(&mut self) -> Option<()> {
        let x = self.x()?;
        let one_if_kept = |n: i64| if n == -1 { 1 } else { n };
        let target = if let Some(list) = self.ints("size") {
            let list: Vec<i64> = list.into_iter().map(one_if_kept).collect();
            self.lower.integers(&list)
        } else {
            let ("as_sym_ints", list) = self.argument("size")? else { return None };
            let parts: Option<Vec<ValueId>> = list
                .as_array()?
                .iter()
                .map(|part| match part.get("as_int").and_then(Json::as_i64) {
                    Some(n) => Some(self.lower.integers(&[one_if_kept(n)])),
                    None => self.lower.id(part.get("as_name")?.as_str()?),
                })
                .collect();
            self.join(parts?)
        };
        self.put("", "Expand", vec![x, target], [])
    }

    pub(super) fn transpose(&mut self, order: Vec<i64>) -> Option<()> {
        let x = vec![self.x()?];
        self.put("", "Transpose", x, [("perm", Attribute::Ints(order))])
    }

    pub(super) fn swap(&mut self, a: i64, b: i64) -> Option<()> {
        let rank = self.rank()?;
        let (a, b) = (position(a, rank)?, position(b, rank)?);
        let mut order: Vec<i64> = (0..i64::try_from(rank).ok()?).collect();
        order.swap(a, b);
        self.transpose(order)
    }

    pub(super) fn squeeze(&mut self) -> Option<()> {
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

    pub(super) fn slice(&mut self) -> Option<()> {
        let x = self.x()?;
        let axis = self.int("dim").unwrap_or(0);
        // Indexing with `:` makes no view, except in a trace (`applySlice`, TensorIndexing.h).
        let is_left_out = |name: &str| matches!(self.argument(name), None | Some(("as_none", _)));
        let is = |name: &str, whole: i64| is_left_out(name) || self.int(name) == Some(whole);
        if program::list(self.node, "inputs").len() == 1 {
            return None;
        }
        if is("start", 0) && is("end", i64::MAX) && is("step", 1) {
            return self.same();
        }
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
    pub(super) fn split(&mut self) -> Option<()> {
        let x = vec![self.x()?];
        let rank = self.rank()?;
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

    pub(super) fn concat(&mut self) -> Option<()> {
        let pieces = self.tensors("tensors");
        let axis = Attribute::Int(self.int("dim").unwrap_or(0));
        self.put("", "Concat", pieces, [("axis", axis)])
    }

    pub(super) fn stack(&mut self) -> Option<()> {
        let axis = self.int("dim").unwrap_or(0);
        let pieces = self.tensors("tensors").into_iter().map(|piece| {
            let axes = BTreeMap::from([("axes".to_owned(), Attribute::Ints(vec![axis]))]);
            self.helper("Unsqueeze", vec![piece], axes)
        });
        let pieces = pieces.collect();
        self.put("", "Concat", pieces, [("axis", Attribute::Int(axis))])
    }

    /// To the type that the result has, also where `x` has it: elsewhere it may have not.
    pub(super) fn cast(&mut self) -> Option<()> {
        let to = self.made()?.dtype?;
        // 4 is that of the input.
        let format = self.argument("memory_format").filter(|(kind, _)| *kind != "as_none");
        let is_told = format.is_some_and(|(_, code)| code.as_i64() != Some(4));
        if is_told && self.origin.aten == "aten.to.dtype" {
            return None;
        }
        let x = vec![self.x()?];
        self.put("", "Cast", x, [("to", Attribute::Int(onnx(to)))])
    }

    /// `x[i]` and `x[:, i]`; several indices at once take what is indexed first.
    pub(super) fn index(&mut self) -> Option<()> {
        let inputs = program::list(self.node, "inputs");
        let indices = inputs.get(1)?.get("arg").map(program::tensors)?;
        let given: Vec<usize> =
            (0..indices.len()).filter(|&at| indices.get(at).copied().flatten().is_some()).collect();
        // What has no gradient may be known beforehand.
        if self.x_declared()?.dtype?.is_floating() {
            return None;
        }
        let &[axis] = given.as_slice() else { return None };
        let name = indices.get(axis).copied().flatten()?;
        // A mask of booleans picks what only a run shows.
        if self.declared(name)?.dtype == Some(DType::Bool) {
            return None;
        }
        let operands = vec![self.x()?, self.lower.id(name)?];
        self.put("", "Gather", operands, [("axis", Attribute::Int(i64::try_from(axis).ok()?))])
    }

    pub(super) fn arange(&mut self) -> Option<()> {
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
    pub(super) fn filled(&mut self, name: &str) -> Option<()> {
        let dtype = Attribute::Int(onnx(self.made()?.dtype?));
        let sizes = match self.argument(name) {
            Some(_) => self.sizes(name)?,
            None => self.lower.integers(&[]),
        };
        self.put(TORCH, "Empty", vec![sizes], [("dtype", dtype)])
    }

    /// New memory of an argument's sizes.
    pub(super) fn random_like(&mut self) -> Option<()> {
        let dtype = Attribute::Int(onnx(self.made()?.dtype?));
        let x = vec![self.x()?];
        self.put("", "RandomUniformLike", x, [("dtype", dtype)])
    }
}

pub(super) fn flag(set: bool) -> Attribute {
    Attribute::Int(i64::from(set))
}

/// An axis counted from the front.
fn position(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    (0..rank).contains(&axis).then(|| usize::try_from(axis).ok())?
}

/// ONNX's number of a type (`TensorProto.DataType`).
pub(super) const fn onnx(dtype: DType) -> i64 {
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
