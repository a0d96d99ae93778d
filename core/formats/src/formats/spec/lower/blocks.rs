//! Layers that are several modules: attention, multi-layer perceptrons, transformer blocks.
//!
//! PyTorch has no single class for these. `tests/fixtures/spec/reference.py` has the code of each, written as in
//! most published models.

use super::layers::{
    composite_rms_norm, drop_out, drop_sample, full, norm_of_rows, permuted, pointwise, sequence,
    signed,
};
use super::{Args, Lowering, Size, Tensor};
use crate::error::Error;
use crate::graph::{Attribute, ValueId};

/// A norm that is no one operator.
const COMPOSITE: &str = "";

/// Arguments of attention.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an argument of its own")]
struct Attention {
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    width: u64,
    length: Size,
    causal: bool,
    bias: bool,
    out_bias: bool,
    fused: bool,
    rotary: bool,
    eager: bool,
    sequence_first: bool,
    qk_norm: Option<&'static str>,
    dropout: f64,
    out_dropout: f64,
}

impl Attention {
    fn of(l: &mut Lowering<'_>, a: &Args<'_>, x: &Tensor) -> Result<Self, Error> {
        let [length, width] = sequence(l, a, x)?;
        let width = l.need(Some(width), &say!("the width of what comes in"))?;
        let heads = a.number("num_heads").unwrap_or(1);
        let kv_heads = a.number("kv_heads").unwrap_or(heads);
        let head_dim = match a.number("head_dim") {
            Some(head_dim) => head_dim,
            None if width.is_multiple_of(heads) => width.div_euclid(heads.max(1)),
            None => {
                return Err(l.fault(say!(
                    "{heads} heads do not divide a width of {width}",
                    heads,
                    width
                )));
            }
        };
        if !heads.is_multiple_of(kv_heads) {
            let message = say!(
                "{kv_heads} heads of keys do not divide {heads} heads of queries",
                kv_heads,
                heads
            );
            return Err(l.fault(message));
        }
        let eager = a.word("implementation").as_deref() == Some("eager");
        if eager && kv_heads != heads {
            let message = say!("`implementation: eager` has as many heads of keys as of queries");
            return Err(l.fault(message));
        }
        let rotary = a.flag("rotary");
        if rotary && !head_dim.is_multiple_of(2) {
            return Err(l.fault(say!(
                "rotary positions need an even `head_dim`, not {head_dim}",
                head_dim
            )));
        }
        let all = heads.checked_mul(head_dim).filter(|&all| all <= 1 << 31);
        if all.is_none() {
            return Err(l.fault(say!("{heads} heads of {head_dim} are too wide", heads, head_dim)));
        }
        let qk_norm = match a.word("qk_norm").as_deref() {
            Some("layernorm") => Some("LayerNormalization"),
            Some("rmsnorm") => Some("RMSNormalization"),
            Some("composite_rmsnorm") => Some(COMPOSITE),
            _ => None,
        };
        Ok(Self {
            heads,
            kv_heads,
            head_dim,
            width,
            length,
            causal: a.flag("causal"),
            bias: a.flag("bias"),
            out_bias: a.given_flag("out_bias").unwrap_or_else(|| a.flag("bias")),
            fused: a.flag("fused_qkv"),
            rotary,
            eager,
            sequence_first: a.flag("sequence_first"),
            qk_norm,
            dropout: a.share("dropout"),
            out_dropout: a.share("out_dropout"),
        })
    }

    const fn query_width(&self) -> u64 {
        self.heads.saturating_mul(self.head_dim)
    }

    const fn key_width(&self) -> u64 {
        self.kv_heads.saturating_mul(self.head_dim)
    }

    /// Keys and values read `context`, which is `x` itself in self-attention.
    fn lower(&self, l: &mut Lowering<'_>, x: &Tensor, context: &Tensor) -> Result<Tensor, Error> {
        if self.sequence_first {
            return self.multihead(l, x);
        }
        let [q, k, v] = self.projections(l, x, context)?;
        let (mut q, mut k) = (self.by_head(l, &q, self.heads), self.by_head(l, &k, self.kv_heads));
        let v = self.by_head(l, &v, self.kv_heads);
        if let Some(op) = self.qk_norm {
            let before = [q.id, k.id];
            let bias = op == "LayerNormalization";
            let norm = |l: &mut Lowering<'_>, x: &Tensor| match op {
                COMPOSITE => composite_rms_norm(l, x),
                op => norm_of_rows(l, x, op, bias),
            };
            q = l.within("q_norm", |l| norm(l, &q))?;
            k = l.within("k_norm", |l| norm(l, &k))?;
            // `q, k = self.q_norm(q), self.k_norm(k)`.
            for id in before {
                l.builder.hold(id, k.id);
            }
        }
        let turned = |l: &mut Lowering<'_>, x: &Tensor| permuted(l, x, &[0, 2, 1, 3]);
        let (mut q, mut k, v) = (turned(l, &q), turned(l, &k), turned(l, &v));
        if self.rotary {
            let tables = self.rotary_tables(l)?;
            let before = [q.id, k.id];
            (q, k) = (self.rotated(l, &q, &tables), self.rotated(l, &k, &tables));
            // `q, k = rotate(q, cos, sin), rotate(k, cos, sin)`.
            for id in before {
                l.builder.hold(id, k.id);
            }
        }
        let mut names = vec![q.id, k.id, v.id];
        let y = if self.eager {
            let (scores, y) = self.spelled_out(l, &q, &k, &v)?;
            names.push(scores);
            y
        } else {
            let drops = ("drops", Attribute::Int(i64::from(self.dropout > 0.0)));
            l.made("torch.Attention", &[q.id, k.id, v.id], Some(drops), q.shape.clone())
        };
        let rows = permuted(l, &y, &[0, 2, 1, 3]);
        let target = l.builder.ints(&[0, 0, signed(self.query_width())]);
        let mut shape = x.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = Size::known(self.query_width());
        }
        let rows = l.made("Reshape", &[rows.id, target], None, shape);
        let name = if self.fused { "proj" } else { "o_proj" };
        let mut y = l.within(name, |l| full(l, &rows, self.width, self.out_bias))?;
        if self.out_dropout > 0.0 {
            y = l.within("proj_drop", |l| Ok(drop_out(l, &y, self.out_dropout, Vec::new())))?;
        }
        // These have names, which go when the module returns.
        for id in names {
            l.builder.hold(id, y.id);
        }
        Ok(y)
    }

    /// `multi_head_attention_forward` (`torch/nn/functional.py`) of a sequence with itself, around
    /// which `nn.MultiheadAttention` exchanges batch and sequence; the batch is not copied back.
    fn multihead(&self, l: &mut Lowering<'_>, x: &Tensor) -> Result<Tensor, Error> {
        let x = permuted(l, x, &[1, 0, 2]);
        let all = self.width.saturating_mul(3);
        let packed = l.within("in_proj", |l| full(l, &x, all, self.bias))?;
        let mut shape: Vec<Size> = packed.shape.iter().take(2).copied().collect();
        shape.extend([Size::known(3), Size::known(self.width)]);
        let target = l.builder.ints(&[0, 0, 3, signed(self.width)]);
        let parts = l.made("Reshape", &[packed.id, target], None, shape);
        // A dimension is put in front, exchanged with the three, and taken out again: one order.
        let parts = permuted(l, &parts, &[2, 0, 1, 3]);
        let parts = l.made("torch.Contiguous", &[parts.id], None, parts.shape);
        let mut heads = Vec::new();
        for part in 0..3 {
            let index = l.builder.int(part);
            let axis = Some(("axis", Attribute::Int(0)));
            let one = l.made("Gather", &[parts.id, index], axis, x.shape.clone());
            let one = self.by_head(l, &one, self.heads);
            heads.push(permuted(l, &one, &[1, 2, 0, 3]));
        }
        let names: Vec<ValueId> = heads.iter().map(|head| head.id).collect();
        let drops = ("drops", Attribute::Int(i64::from(self.dropout > 0.0)));
        let shape = heads.first().map_or_else(Vec::new, |head| head.shape.clone());
        let y = l.made("torch.Attention", &names, Some(drops), shape);
        let y = permuted(l, &y, &[2, 0, 1, 3]);
        let y = l.made("torch.Contiguous", &[y.id], None, y.shape);
        let target = l.builder.ints(&[0, 0, signed(self.width)]);
        let y = l.made("Reshape", &[y.id, target], None, x.shape);
        let y = l.within("out_proj", |l| full(l, &y, self.width, self.out_bias))?;
        for id in names {
            l.builder.hold(id, y.id);
        }
        Ok(permuted(l, &y, &[1, 0, 2]))
    }

    /// Queries, keys and values as rows.
    fn projections(
        &self,
        l: &mut Lowering<'_>,
        x: &Tensor,
        context: &Tensor,
    ) -> Result<[Tensor; 3], Error> {
        let (q, kv) = (self.query_width(), self.key_width());
        if !self.fused {
            let mut part =
                |name: &str, from, out| l.within(name, |l| full(l, from, out, self.bias));
            let q = part("q_proj", x, q)?;
            return Ok([q, part("k_proj", context, kv)?, part("v_proj", context, kv)?]);
        }
        let all = q.saturating_add(kv.saturating_mul(2));
        let packed = l.within("qkv", |l| full(l, x, all, self.bias))?;
        let lengths = l.builder.ints(&[signed(q), signed(kv), signed(kv)]);
        let axis = Some(("axis", Attribute::Int(-1)));
        let parts: [ValueId; 3] = l.run("Split", vec![Some(packed.id), Some(lengths)], axis);
        let [q_id, k_id, v_id] = parts;
        let part = |id, width| {
            let mut shape = x.shape.clone();
            if let Some(last) = shape.last_mut() {
                *last = Size::known(width);
            }
            Tensor { id, shape }
        };
        Ok([part(q_id, q), part(k_id, kv), part(v_id, kv)])
    }

    /// `x.view(N, L, heads, head_dim)`.
    fn by_head(&self, l: &mut Lowering<'_>, x: &Tensor, heads: u64) -> Tensor {
        let target = l.builder.ints(&[0, 0, signed(heads), signed(self.head_dim)]);
        let mut shape: Vec<Size> = x.shape.iter().take(2).copied().collect();
        shape.extend([Size::known(heads), Size::known(self.head_dim)]);
        l.made("Reshape", &[x.id, target], None, shape)
    }

    /// Cosines and sines, which all attentions of a model share.
    fn rotary_tables(&self, l: &mut Lowering<'_>) -> Result<[ValueId; 2], Error> {
        let length = l.need(Some(self.length), &say!("the length of the sequence"))?;
        let module = format!("rotary_{}_{length}", self.head_dim);
        let name = |leaf: &str| format!("{module}.{leaf}");
        if let (Some(&cos), Some(&sin)) = (l.state.get(&name("cos")), l.state.get(&name("sin"))) {
            return Ok([cos, sin]);
        }
        let path = std::mem::replace(&mut l.path, vec![module]);
        let dims = [length, self.head_dim];
        let tables = l.buffer("cos", &dims).and_then(|cos| Ok([cos, l.buffer("sin", &dims)?]));
        l.path = path;
        tables
    }

    /// `x * cos + rotate_half(x) * sin`.
    fn rotated(&self, l: &mut Lowering<'_>, x: &Tensor, &[cos, sin]: &[ValueId; 2]) -> Tensor {
        let half = signed(self.head_dim.div_euclid(2));
        let mut half_shape = x.shape.clone();
        if let Some(last) = half_shape.last_mut() {
            *last = Size::known(self.head_dim.div_euclid(2));
        }
        let straight = l.made("Mul", &[x.id, cos], None, x.shape.clone());
        let (axis, zero) = (l.builder.ints(&[3]), l.builder.ints(&[0]));
        let (middle, end) = (l.builder.ints(&[half]), l.builder.ints(&[half.saturating_mul(2)]));
        let front = l.made("Slice", &[x.id, zero, middle, axis], None, half_shape.clone());
        let back = l.made("Slice", &[x.id, middle, end, axis], None, half_shape.clone());
        let negated = l.made("Neg", &[back.id], None, half_shape);
        // Both halves have names in `rotate_half`.
        let axis = Some(("axis", Attribute::Int(-1)));
        let turned = l.made("Concat", &[negated.id, front.id], axis, x.shape.clone());
        let crossed = l.made("Mul", &[turned.id, sin], None, x.shape.clone());
        l.made("Add", &[straight.id, crossed.id], None, x.shape.clone())
    }

    /// `softmax(q @ k.T * scale + mask) @ v`: the scores, and the result.
    fn spelled_out(
        &self,
        l: &mut Lowering<'_>,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
    ) -> Result<(ValueId, Tensor), Error> {
        let mut shape = q.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = self.length;
        }
        let turned = permuted(l, k, &[0, 1, 3, 2]);
        let scores = l.made("MatMul", &[q.id, turned.id], None, shape.clone());
        let scale = l.builder.float(0.125);
        let mut scores = l.made("Mul", &[scores.id, scale], None, shape.clone());
        if self.causal {
            let length = l.need(Some(self.length), &say!("the length of the sequence"))?;
            let mask = l.buffer("mask", &[length, length])?;
            scores = l.made("Add", &[scores.id, mask], None, shape.clone());
        }
        let axis = Some(("axis", Attribute::Int(-1)));
        let mut weights = l.made("Softmax", &[scores.id], axis, shape);
        let softmax = weights.id;
        if self.dropout > 0.0 {
            let dropout =
                |l: &mut Lowering<'_>| Ok(drop_out(l, &weights, self.dropout, Vec::new()));
            weights = l.within("attn_drop", dropout)?;
        }
        l.builder.hold(softmax, weights.id);
        Ok((scores.id, l.made("MatMul", &[weights.id, v.id], None, q.shape.clone())))
    }
}

pub(in super::super) fn attention(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    Attention::of(l, a, x)?.lower(l, x, x)
}

/// Queries from what comes in, keys and values from another sequence.
pub(in super::super) fn cross_attention(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let context = l.read(&a.word("context").unwrap_or_default())?;
    let [length, _] = sequence(l, a, &context)?;
    let attention = Attention { fused: false, length, ..Attention::of(l, a, x)? };
    attention.lower(l, x, &context)
}

/// A multi-layer perceptron over the last dimension.
#[derive(Clone, Debug)]
struct Perceptron {
    width: u64,
    hidden: u64,
    op: &'static str,
    bias: bool,
    gated: bool,
    act_dropout: f64,
    dropout: f64,
}

impl Perceptron {
    fn of(l: &mut Lowering<'_>, a: &Args<'_>, x: &Tensor, gated: bool) -> Result<Self, Error> {
        let width = l.need(x.width(), &say!("the width of what comes in"))?;
        let usual = if gated { "silu" } else { "gelu" };
        Ok(Self {
            width,
            hidden: a.number("hidden").unwrap_or_else(|| width.saturating_mul(4)),
            op: operator(a.word("act").as_deref().unwrap_or(usual)),
            bias: a.flag("bias"),
            gated,
            act_dropout: a.share("act_dropout"),
            dropout: a.share("dropout"),
        })
    }

    fn lower(&self, l: &mut Lowering<'_>, x: &Tensor) -> Result<Tensor, Error> {
        let names = if self.gated { ["gate_proj", "down_proj"] } else { ["fc1", "fc2"] };
        let [first, last] = names;
        let h = l.within(first, |l| full(l, x, self.hidden, self.bias))?;
        let mut h = l.within("act", |l| Ok(pointwise(l, &h, self.op, Vec::new())))?;
        if self.gated {
            let up = l.within("up_proj", |l| full(l, x, self.hidden, self.bias))?;
            h = l.made("Mul", &[h.id, up.id], None, up.shape);
        }
        if self.act_dropout > 0.0 {
            h = l.within("act_drop", |l| Ok(drop_out(l, &h, self.act_dropout, Vec::new())))?;
        }
        let y = l.within(last, |l| full(l, &h, self.width, self.bias))?;
        if self.dropout > 0.0 {
            return l.within("drop", |l| Ok(drop_out(l, &y, self.dropout, Vec::new())));
        }
        Ok(y)
    }
}

/// The operator of an activation's word.
fn operator(word: &str) -> &'static str {
    match word {
        "relu" => "Relu",
        "relu6" => "Clip",
        "silu" => "Silu",
        "tanh" => "Tanh",
        "sigmoid" => "Sigmoid",
        "leakyrelu" => "LeakyRelu",
        "elu" => "Elu",
        "hardswish" => "HardSwish",
        "mish" => "Mish",
        _ => "Gelu",
    }
}

pub(in super::super) fn mlp(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    Perceptron::of(l, a, x, false)?.lower(l, x)
}

pub(in super::super) fn gated_mlp(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    Perceptron::of(l, a, x, true)?.lower(l, x)
}

/// `x + attn(norm1(x))`, `x + mlp(norm2(x))`; or with norms behind the sums.
pub(in super::super) fn transformer_block(
    l: &mut Lowering<'_>,
    a: &Args<'_>,
    x: &Tensor,
) -> Result<Tensor, Error> {
    let dropout = a.share("dropout");
    let attention = Attention { out_dropout: dropout, ..Attention::of(l, a, x)? };
    let perceptron = Perceptron { dropout, ..Perceptron::of(l, a, x, a.flag("gated"))? };
    let is_rms = a.word("norm").as_deref() == Some("rmsnorm");
    let norm = if is_rms { "RMSNormalization" } else { "LayerNormalization" };
    let is_post = a.word("order").as_deref() == Some("post");
    let path_dropout = a.share("drop_path");
    let mut x = x.clone();
    for (part, norm_name, drop_name) in
        [("attn", "norm1", "drop_path1"), ("mlp", "norm2", "drop_path2")]
    {
        let normed = |l: &mut Lowering<'_>, x: &Tensor| {
            l.within(norm_name, |l| norm_of_rows(l, x, norm, !is_rms))
        };
        let argument = if is_post { x.clone() } else { normed(l, &x)? };
        let y = l.within(part, |l| match part {
            "attn" => attention.lower(l, &argument, &argument),
            _ => perceptron.lower(l, &argument),
        })?;
        let y = l.within(drop_name, |l| Ok(drop_sample(l, y, path_dropout)))?;
        let before = x.id;
        x = l.made("Add", &[x.id, y.id], None, x.shape.clone());
        if is_post {
            x = normed(l, &x)?;
        }
        l.builder.hold(before, x.id);
    }
    Ok(x)
}
