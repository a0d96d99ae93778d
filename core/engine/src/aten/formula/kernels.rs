//! The functions that formulas call: kernels, facts about their arguments, and operators without a formula.

use super::{Refused, Value, launches, lookup, tensor, tensors};
use crate::aten::{dropout, elementwise, embedding, index, matmul, norm, reduce, softmax, view};
use crate::config::MemoryFormat;
use crate::eager::kernels::{self, kept_sizes, pointwise};
use crate::eager::layout::{broadcast_sizes, contiguous_strides};
use crate::eager::{Runtime, Tensor};
use crate::order::InOrder as _;
use crate::tensor::{DType, Dims};

/// A call's value, and what is still to be overwritten.
type Called = Result<(Value, Option<Tensor>), Refused>;

type Kernel = fn(&Given<'_>) -> Answer;

/// Calls that make a tensor, or tell something of one.
const KERNELS: &[(&str, Kernel)] = &[
    // Memory of a kernel: of a type, with the sizes that operands have together.
    ("longs", |g| g.elementwise(Some(DType::Int64))),
    ("like", |g| Ok(g.rt.empty_like(&g.tensor(0)?).into())),
    ("fresh", |g| {
        let x = g.tensor(0)?;
        Ok(g.rt.empty(g.dtype(2).unwrap_or_else(|| x.dtype()), &g.sizes(1)?).into())
    }),
    // Several results of one kind.
    ("fresh_flags", |g| Ok(g.rt.empty(DType::Bool, &g.sizes(0)?).into())),
    ("bytes", |g| {
        let size = u64::try_from(g.int(0)?).unwrap_or(0);
        Ok(g.rt.empty(DType::UInt8, &[size]).into())
    }),
    // A product by cuBLASLt.
    ("product_lt", |g| {
        let x = g.tensor(0)?;
        let y = g.rt.empty(x.dtype(), &g.sizes(1)?);
        g.rt.cublas_lt();
        launches::product(g.rt, &x, &y);
        Ok(y.into())
    }),
    // A product of matrices that overwrites what is there.
    ("cublas", |g| {
        g.rt.cublas();
        Ok(Value::Nothing)
    }),
    ("fresh_longs", |g| Ok(g.rt.empty(DType::Int64, &g.sizes(0)?).into())),
    ("over", |g| Ok(g.tensor(0)?.alias_in_place().into())),
    ("scratch", |g| {
        let x = g.tensor(0)?;
        Ok(g.rt.empty(x.dtype(), &[]).into())
    }),
    ("reduced", |g| {
        let x = g.tensor(0)?;
        let (mask, keep) = (g.mask(&x, 1)?, g.flag(2));
        let dtype = g.dtype(3).unwrap_or_else(|| x.dtype());
        Ok(reduce::shaped(kernels::reduce(g.rt, &x, &mask, dtype), &x, &mask, keep).into())
    }),
    ("shrunk", |g| Ok(g.tensor(0)?.alias_sole(Vec::new(), Vec::new()).into())),
    ("staging", |g| {
        let x = g.tensor(0)?;
        kernels::reduce_into_place(g.rt, &x, &g.mask(&x, 1)?);
        Ok(Value::Nothing)
    }),
    ("kept", |g| {
        let sizes = g.extents(0)?;
        let mask = g.marked(sizes.len(), 1)?;
        let kept = sizes.iter().zip(&mask).map(|(&n, &gone)| if gone { 1 } else { n });
        Ok(list(&kept.collect::<Vec<_>>()))
    }),
    ("without", |g| {
        let sizes = g.extents(0)?;
        let mask = g.marked(sizes.len(), 1)?;
        let left = sizes.iter().zip(&mask).filter(|(_, gone)| !**gone).map(|(&n, _)| n);
        Ok(list(&left.collect::<Vec<_>>()))
    }),
    // Facts.
    ("refuse", |_| Err(say!("arguments of this form have no formula"))),
    ("rank", |g| Ok(Value::Int(g.extents(0)?.len().try_into().unwrap_or(0)))),
    ("len", |g| match g.at(0) {
        Value::List(list) => Ok(Value::Int(list.len().try_into().unwrap_or(0))),
        _ => Ok(Value::Int(0)),
    }),
    ("numel", |g| Ok(int(crate::tensor::numel(&g.extents(0)?)))),
    ("size", |g| {
        let sizes = g.extents(0)?;
        Ok(int(sizes.get(axis(g.int(1)?, sizes.len())?).copied().unwrap_or(1)))
    }),
    ("item", |g| match g.at(0) {
        Value::List(list) => {
            let at = axis(g.int(1)?, list.len())?;
            Ok(list.get(at).cloned().unwrap_or(Value::Nothing))
        }
        _ => Err(say!("no list")),
    }),
    ("with", |g| {
        let mut sizes = g.extents(0)?;
        let at = axis(g.int(1)?, sizes.len())?;
        if let Some(slot) = sizes.get_mut(at) {
            *slot = u64::try_from(g.int(2)?).unwrap_or(0);
        }
        Ok(list(&sizes))
    }),
    ("join", |g| {
        let mut sizes = g.extents(0)?;
        sizes.extend(g.extents(1)?);
        Ok(list(&sizes))
    }),
    ("part", |g| {
        let sizes = g.extents(0)?;
        let bound = |at| g.int(at).map(|n| usize::try_from(n).unwrap_or(0).min(sizes.len()));
        Ok(list(sizes.get(bound(1)?..bound(2)?).unwrap_or(&[])))
    }),
    // Lists: `range(n)` counts, `append` joins any two, `others` names what is not named.
    ("range", |g| Ok(Value::List((0..g.int(0)?.min(MOST_DIMS)).map(Value::Int).collect()))),
    ("reversed", |g| match g.at(0) {
        Value::List(list) => Ok(Value::List(list.iter().rev().cloned().collect())),
        _ => Err(say!("no list")),
    }),
    ("append", |g| match (g.at(0), g.at(1)) {
        (Value::List(a), Value::List(b)) => Ok(Value::List([a.as_slice(), b].concat())),
        _ => Err(say!("no lists")),
    }),
    ("others", |g| {
        let rank = usize::try_from(g.int(0)?).unwrap_or(0);
        let named = g.axes(rank, 1)?;
        let left = (0..rank).filter(|at| !named.contains(at));
        Ok(Value::List(left.map(|at| Value::Int(at.try_into().unwrap_or(0))).collect()))
    }),
    ("pick", |g| {
        let sizes = g.extents(0)?;
        let of = g.axes(sizes.len(), 1)?;
        Ok(list(&of.iter().filter_map(|&at| sizes.get(at).copied()).collect::<Vec<_>>()))
    }),
    ("moved", |g| {
        let rank = usize::try_from(g.int(0)?).unwrap_or(0);
        let (from, to) = (g.axes(rank, 1)?, g.axes(rank, 2)?);
        let mut stay = (0..rank).filter(|at| !from.contains(at));
        let order = (0..rank).map(|at| match to.iter().position(|&slot| slot == at) {
            Some(position) => from.get(position).copied(),
            None => stay.next(),
        });
        Ok(list(&order.map(|at| u64::try_from(at.unwrap_or(0)).unwrap_or(0)).collect::<Vec<_>>()))
    }),
    ("smaller", |g| Ok(Value::Int(g.int(0)?.min(g.int(1)?)))),
    ("larger", |g| Ok(Value::Int(g.int(0)?.max(g.int(1)?)))),
    ("modulo", |g| Ok(Value::Int(g.int(0)?.checked_rem_euclid(g.int(1)?).unwrap_or(0)))),
    ("type", |g| match g.at(0) {
        Value::Text(name) if name == "double" => Ok(Value::Type(DType::Float64)),
        Value::Text(name) if name == "float" => Ok(Value::Type(DType::Float32)),
        Value::Text(name) if name == "int" => Ok(Value::Type(DType::Int32)),
        Value::Text(name) if name == "long" => Ok(Value::Type(DType::Int64)),
        Value::Text(name) if name == "byte" => Ok(Value::Type(DType::UInt8)),
        Value::Text(name) if name == "bool" => Ok(Value::Type(DType::Bool)),
        Value::Tensor(x) => Ok(Value::Type(x.dtype())),
        // ONNX's number for it.
        Value::Int(code) => {
            DType::from_onnx(*code).map(Value::Type).ok_or_else(|| say!("no type {code}", code))
        }
        _ => Err(say!("no type")),
    }),
    ("is_complex", |g| Ok(truth_value(is_complex(g.tensor(0)?.dtype())))),
    ("to_format", |g| {
        let x = g.tensor(0)?;
        let dtype = g.dtype(1).unwrap_or_else(|| x.dtype());
        // Contiguous is 1 in the schema.
        let format =
            if g.int(2)? == 1 { MemoryFormat::Contiguous } else { MemoryFormat::ChannelsLast };
        if is_complex(dtype) && x.suggested_format() != MemoryFormat::Contiguous {
            return Err(say!("complex numbers in channels last have no formula"));
        }
        if x.dtype() == dtype && x.suggested_format() == format {
            return Ok(x.into());
        }
        g.rt.enter_operator("aten::to");
        let y = g.rt.empty_in(dtype, x.sizes(), format);
        let from = x.dtype();
        let y = g.rt.differentiable("ToCopyBackward0", y, &[&x], &[], move |pass| {
            vec![pass.grad().map(|grad| kernels::cast(pass.rt, grad, from))]
        });
        Ok(y.into())
    }),
    ("index_of", |g| {
        let x = g.tensor(0)?;
        let Value::List(list) = g.at(1) else { return Err(say!("no list")) };
        let given = tensors(g.at(1));
        let first = list.iter().take_while(|value| matches!(value, Value::Nothing)).count();
        let together = list.iter().skip(first).take(given.len());
        let is_known = together.clone().all(|value| matches!(value, Value::Tensor(_)));
        if !is_known || given.iter().any(|index| index.dtype() == DType::Bool) {
            return Err(say!("indices of this form have no formula"));
        }
        let sizes = given.iter().fold(Dims::new(), |all, t| broadcast_sizes(&all, t.sizes()));
        let before = x.sizes().iter().take(first).copied();
        let behind = x.sizes().iter().skip(first.saturating_add(given.len())).copied();
        let output: Vec<u64> = before.chain(sizes).chain(behind).collect();
        let given: Vec<&Tensor> = given.iter().collect();
        Ok(index::indexed(g.rt, &x, &given, &output).into())
    }),
    // Complex numbers and pairs of their parts.
    ("complex_of", |g| Ok(g.rt.empty(DType::Complex64, &g.sizes(0)?).into())),
    ("as_real", |g| {
        let x = g.tensor(0)?;
        let mut sizes = x.sizes().to_vec();
        sizes.push(2);
        let mut strides: Dims = x.strides().iter().map(|n| n.saturating_mul(2)).collect();
        strides.push(1);
        Ok(x.view_as(parts(x.dtype()), sizes, strides).into())
    }),
    ("as_complex", |g| {
        let x = g.tensor(0)?;
        let kept = x.rank().saturating_sub(1);
        let sizes: Dims = x.sizes().iter().take(kept).copied().collect();
        let strides: Dims = x.strides().iter().take(kept).map(|n| n.div_euclid(2)).collect();
        let whole = if x.dtype() == DType::Float64 { DType::Complex128 } else { DType::Complex64 };
        Ok(x.view_as(whole, sizes, strides).into())
    }),
    ("keeps_type", |g| {
        let same = g.dtype(1).is_none_or(|dtype| g.tensor(0).is_ok_and(|x| x.dtype() == dtype));
        Ok(truth_value(same))
    }),
    ("strides", |g| Ok(list(g.tensor(0)?.strides()))),
    ("is_channels_last", |g| {
        Ok(truth_value(g.tensor(0)?.suggested_format() != MemoryFormat::Contiguous))
    }),
    ("broadcast", |g| {
        let (a, b) = (g.extents(0)?, g.extents(1)?);
        Ok(list(&broadcast_sizes(&a, &b)))
    }),
    ("is_tensor", |g| Ok(truth_value(matches!(g.at(0), Value::Tensor(_))))),
    ("is_none", |g| Ok(truth_value(matches!(g.at(0), Value::Nothing)))),
    ("is_list", |g| Ok(truth_value(matches!(g.at(0), Value::List(_))))),
    ("is_one", |g| Ok(truth_value(g.number(0).is_none_or(|n| n.total_cmp(&1.0).is_eq())))),
    ("is_float", |g| Ok(truth_value(g.tensor(0)?.dtype().is_floating()))),
    ("is_bool", |g| Ok(truth_value(g.tensor(0)?.dtype() == DType::Bool))),
    ("is_half", |g| {
        Ok(truth_value(matches!(g.tensor(0)?.dtype(), DType::Float16 | DType::BFloat16)))
    }),
    ("has_grad", |g| {
        Ok(truth_value(g.rt.requires_grad(&tensors(g.at(0)).iter().collect::<Vec<_>>())))
    }),
    ("is_same", |g| Ok(truth_value(g.extents(0)? == g.extents(1)?))),
    ("not", |g| Ok(truth_value(!truth(g.at(0))?))),
    ("or_else", |g| Ok(if matches!(g.at(0), Value::Nothing) { g.at(1) } else { g.at(0) }.clone())),
    // Operators that are written out elsewhere.
    ("sum", |g| {
        let x = g.tensor(0)?;
        let (mask, keep) = (g.mask(&x, 1)?, g.flag(2));
        if x.dtype().is_floating() {
            return Ok(reduce::sum(g.rt, &x, &mask, keep).into());
        }
        g.rt.enter_operator("aten::sum");
        let made = g.rt.empty(DType::Int64, &kept_sizes(&x, &mask));
        let wide = (x.dtype() != DType::Int64).then(|| g.rt.empty(DType::Int64, x.sizes()));
        kernels::reduce_into_place(g.rt, wide.as_ref().unwrap_or(&x), &mask);
        drop(wide);
        Ok(reduce::shaped(made, &x, &mask, keep).into())
    }),
    ("mean", |g| {
        let x = g.tensor(0)?;
        Ok(reduce::mean(g.rt, &x, &g.mask(&x, 1)?, g.flag(2)).into())
    }),
    ("where", |g| {
        let condition = g.tensor(0)?;
        let (a, b) = (tensor(g.at(1)), tensor(g.at(2)));
        Ok(elementwise::select(g.rt, &condition, a.as_ref(), b.as_ref()).into())
    }),
    ("reshape", |g| {
        let x = g.tensor(0)?;
        Ok(view::reshape(g.rt, &x, &g.target(1, x.numel())?).into())
    }),
    ("expand", |g| Ok(view::expand(g.rt, &g.tensor(0)?, &g.sizes(1)?).into())),
    ("transpose", |g| {
        let x = g.tensor(0)?;
        let (a, b) = (axis(g.int(1)?, x.rank())?, axis(g.int(2)?, x.rank())?);
        Ok(view::transpose(g.rt, &x, a, b).into())
    }),
    ("permute", |g| {
        let x = g.tensor(0)?;
        let order: Result<Vec<usize>, Refused> =
            g.ints(1)?.iter().map(|&dim| axis(dim, x.rank())).collect();
        Ok(view::permute(g.rt, &x, &order?).into())
    }),
    ("unsqueeze", |g| {
        let x = g.tensor(0)?;
        let at = axis(g.int(1)?, x.rank().saturating_add(1))?;
        let (mut sizes, mut strides) = (x.sizes().to_vec(), x.strides().to_vec());
        let stride = sizes.get(at).zip(strides.get(at)).map_or(1, |(n, s)| n.saturating_mul(*s));
        sizes.insert(at, 1);
        strides.insert(at, stride);
        Ok(view::restrided(g.rt, &x, sizes, strides).into())
    }),
    ("squeeze", |g| {
        let x = g.tensor(0)?;
        let dims = if matches!(g.at(1), Value::Nothing) { None } else { Some(g.mask(&x, 1)?) };
        let stays = |at: &usize| {
            let named = dims.as_ref().is_none_or(|dims| dims.get(*at) == Some(&true));
            !(named && x.size(*at) == 1)
        };
        let kept: Vec<usize> = (0..x.rank()).filter(stays).collect();
        let pick = |of: &[u64]| kept.iter().filter_map(|&at| of.get(at).copied()).collect::<Dims>();
        Ok(view::restrided(g.rt, &x, pick(x.sizes()), pick(x.strides())).into())
    }),
    ("select", |g| {
        let x = g.tensor(0)?;
        Ok(view::select(g.rt, &x, axis(g.int(1)?, x.rank())?).into())
    }),
    ("narrow", |g| {
        let x = g.tensor(0)?;
        let length = u64::try_from(g.int(3)?).unwrap_or(0);
        let step = u64::try_from(g.int(4).unwrap_or(1)).unwrap_or(1);
        Ok(view::slice(g.rt, &x, axis(g.int(1)?, x.rank())?, length, step).into())
    }),
    ("cat", |g| {
        let pieces = tensors(g.at(0));
        let pieces: Vec<&Tensor> = pieces.iter().collect();
        let rank = pieces.iter().map(|piece| piece.rank()).max().unwrap_or(0);
        Ok(view::cat(g.rt, &pieces, axis(g.int(1).unwrap_or(0), rank)?).into())
    }),
    ("seen", |g| {
        let (x, sizes) = (g.tensor(0)?, g.sizes(1)?);
        // A part of a tensor: not dense.
        let strides: Dims =
            contiguous_strides(&sizes).iter().map(|n| n.saturating_mul(2)).collect();
        Ok(x.view_of(sizes, strides).into())
    }),
    // Memory of a kernel in the format that a tensor suggests.
    ("formatted", |g| {
        let x = g.tensor(0)?;
        let dtype = g.dtype(2).unwrap_or_else(|| x.dtype());
        Ok(g.rt.empty_in(dtype, &g.sizes(1)?, x.suggested_format()).into())
    }),
    // Views: by sizes and strides, of a diagonal, of windows along a dimension.
    ("viewed", |g| Ok(g.tensor(0)?.view_of(g.sizes(1)?, g.sizes(2)?).into())),
    ("diagonal_of", |g| {
        let x = g.tensor(0)?;
        let offset = g.int(1).unwrap_or(0);
        let (a, b) = (axis(g.int(2)?, x.rank())?, axis(g.int(3)?, x.rank())?);
        let shortened = |n: u64, by: i64| n.saturating_sub(u64::try_from(by).unwrap_or(0));
        let length =
            shortened(x.size(a), offset.saturating_neg()).min(shortened(x.size(b), offset));
        let stride = |at: usize| x.strides().get(at).copied().unwrap_or(1);
        let rest = |of: &[u64], last: u64| {
            let left = of.iter().enumerate().filter(|(at, _)| *at != a && *at != b);
            left.map(|(_, &n)| n).chain([last]).collect::<Vec<_>>()
        };
        let strides = rest(x.strides(), stride(a).saturating_add(stride(b)));
        Ok(x.view_of(rest(x.sizes(), length), strides).into())
    }),
    ("windows_of", |g| {
        let x = g.tensor(0)?;
        let at = axis(g.int(1)?, x.rank())?;
        let (size, step) = (g.count(2)?, g.count(3)?);
        let (mut sizes, mut strides) = (x.sizes().to_vec(), x.strides().to_vec());
        if let (Some(n), Some(stride)) = (sizes.get_mut(at), strides.get_mut(at)) {
            *n = n.saturating_sub(size).checked_div(step).map_or(0, |n| n.saturating_add(1));
            let between = *stride;
            *stride = between.saturating_mul(step);
            strides.push(between);
        }
        sizes.push(size);
        Ok(x.view_of(sizes, strides).into())
    }),
    // Whether two places of a view share memory, as far as strides tell (`_maybe_overlapping_memory`).
    ("overlaps", |g| {
        let (sizes, strides) = (g.sizes(0)?, g.sizes(1)?);
        let mut dims: Vec<(u64, u64)> = strides.into_iter().zip(sizes).collect();
        dims.order_by_key(|&(stride, _)| stride);
        let mut reach = 0_u64;
        let mut found = false;
        for (stride, size) in dims.into_iter().filter(|&(_, size)| size > 1) {
            found |= stride <= reach;
            reach = reach.saturating_add(stride.saturating_mul(size.saturating_sub(1)));
        }
        Ok(truth_value(found))
    }),
    // Views of a dimension's parts, by their lengths; and the lengths of parts.
    ("pieces", |g| {
        let x = g.tensor(0)?;
        let at = axis(g.int(2).unwrap_or(0), x.rank())?;
        let piece = |length| Value::Tensor(view::slice(g.rt, &x, at, length, 1));
        Ok(Value::List(g.sizes(1)?.into_iter().map(piece).collect()))
    }),
    ("lengths", |g| {
        let (whole, most) = (g.count(0)?, g.count(1)?.max(1));
        let parts = whole.div_ceil(most).min(MOST_PARTS);
        let rest = |at: u64| whole.saturating_sub(at.saturating_mul(most)).min(most);
        Ok(list(&(0..parts).map(rest).collect::<Vec<_>>()))
    }),
    ("shares", |g| {
        let (whole, parts) = (g.count(0)?, g.count(1)?.clamp(1, MOST_PARTS));
        let (each, more) = (whole.checked_div(parts), whole.checked_rem(parts));
        let share = |at: u64| each.unwrap_or(0).saturating_add(u64::from(at < more.unwrap_or(0)));
        Ok(list(&(0..parts).map(share).collect::<Vec<_>>()))
    }),
    ("between", |g| {
        let whole = g.count(0)?;
        let mut start = 0;
        let mut lengths = Vec::new();
        for cut in g.ints(1)? {
            let from_end = whole.saturating_sub(cut.unsigned_abs());
            let end = u64::try_from(cut).unwrap_or(from_end).min(whole);
            lengths.push(end.saturating_sub(start));
            start = end;
        }
        lengths.push(whole.saturating_sub(start));
        Ok(list(&lengths))
    }),
    ("unbound", |g| {
        let x = g.tensor(0)?;
        let pieces = view::unbind(g.rt, &x, axis(g.int(1).unwrap_or(0), x.rank())?);
        Ok(Value::List(pieces.into_iter().map(Value::Tensor).collect()))
    }),
    ("stack", |g| {
        let pieces = tensors(g.at(0));
        let first = pieces.first().ok_or_else(|| say!("nothing to stack"))?;
        let mut sizes = first.sizes().to_vec();
        let at = axis(g.int(1).unwrap_or(0), sizes.len().saturating_add(1))?;
        sizes.insert(at, u64::try_from(pieces.len()).unwrap_or(0));
        Ok(g.rt.empty(first.dtype(), &sizes).into())
    }),
    // Operators with Rust of their own.
    ("embedding_of", |g| Ok(embedding::embedding(g.rt, &g.tensor(0)?, &g.tensor(1)?).into())),
    ("dropout_of", |g| Ok(dropout::dropout(g.rt, &g.tensor(0)?).into())),
    ("instance_norm_of", |g| {
        let [weight, bias, mean] = [1, 2, 3].map(|at| tensor(g.at(at)));
        let x = g.tensor(0)?;
        Ok(norm::instance_norm(g.rt, &x, weight.as_ref(), bias.as_ref(), mean.as_ref()).into())
    }),
    ("map", |g| {
        let Value::Text(name) = g.at(0) else { return Err(say!("no name")) };
        let rest = g.values.get(2..).unwrap_or(&[]);
        let Value::List(list) = g.at(1) else { return Err(say!("no list")) };
        let each = list.iter().map(|value| {
            let arguments = std::iter::once(value.clone()).chain(rest.iter().cloned());
            call(g.rt, name, arguments.collect(), None).map(|(value, _)| value)
        });
        each.collect::<Result<_, _>>().map(Value::List)
    }),
    // A loop: `step(place, state, …)` gives the next state.
    ("loop", |g| {
        let Value::Text(name) = g.at(0) else { return Err(say!("no name")) };
        let rest = g.values.get(3..).unwrap_or(&[]);
        let trips = g.int(1)?;
        if trips > MOST_DIMS {
            return Err(say!("{trips} rounds are too many", trips));
        }
        (0..trips).try_fold(g.at(2).clone(), |state, at| {
            let arguments = [Value::Int(at), state].into_iter().chain(rest.iter().cloned());
            call(g.rt, name, arguments.collect(), None).map(|(value, _)| value)
        })
    }),
    ("expand_together", |g| {
        let all = tensors(g.at(0));
        let sizes = all.iter().fold(Dims::new(), |sizes, t| broadcast_sizes(&sizes, t.sizes()));
        let wide = |t: &Tensor| view::expand(g.rt, t, &sizes).into();
        Ok(Value::List(all.iter().map(wide).collect()))
    }),
    ("copied", |g| Ok(view::copy(g.rt, &g.tensor(0)?, MemoryFormat::Contiguous).into())),
    ("contiguous", |g| Ok(view::contiguous(g.rt, &g.tensor(0)?).into())),
    ("duplicated", |g| Ok(view::duplicate(g.rt, &g.tensor(0)?).into())),
    ("detach", |g| Ok(g.tensor(0)?.detach().into())),
    ("to", |g| {
        let x = g.tensor(0)?;
        let dtype = match g.at(1) {
            Value::Tensor(like) => like.dtype(),
            _ => g.dtype(1).unwrap_or_else(|| x.dtype()),
        };
        Ok(kernels::cast(g.rt, &x, dtype).into())
    }),
    ("matmul", |g| Ok(matmul::matmul(g.rt, &g.tensor(0)?, &g.tensor(1)?).into())),
    ("bmm", |g| Ok(matmul::bmm(g.rt, &g.tensor(0)?, &g.tensor(1)?).into())),
    ("softmax", |g| Ok(softmax::softmax(g.rt, &g.tensor(0)?).into())),
    ("log_softmax", |g| Ok(softmax::log_softmax(g.rt, &g.tensor(0)?).into())),
];

/// COUNT: pieces of one tensor.
const MOST_PARTS: u64 = 1 << 16;

/// COUNT: of a list that is counted out.
const MOST_DIMS: i64 = 1 << 12;

/// Calls whose result may be what is overwritten instead of new memory.
const OVERWRITES: [&str; 5] = ["each", "reals", "flags", "product", "each_product"];

/// Calls on numbers.
const ARITHMETIC: [&str; 13] = [
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
];

const fn is_complex(dtype: DType) -> bool {
    matches!(dtype, DType::Complex64 | DType::Complex128)
}

/// The type of a complex number's parts.
const fn parts(dtype: DType) -> DType {
    if matches!(dtype, DType::Complex128) { DType::Float64 } else { DType::Float32 }
}

type Answer = Result<Value, Refused>;

/// Whether something answers to the name.
#[cfg(test)]
pub(super) fn is_known(name: &str) -> bool {
    OVERWRITES.contains(&name)
        || KERNELS.iter().any(|(known, _)| *known == name)
        || lookup(name.strip_suffix('_').unwrap_or(name)).is_some()
        || lookup(name).is_some()
}

/// Makes a call.
pub(super) fn call(
    rt: &Runtime,
    name: &str,
    values: Vec<Value>,
    overwritten: Option<Tensor>,
) -> Called {
    if ARITHMETIC.contains(&name) && values.iter().all(|value| tensors(value).is_empty()) {
        return Ok((arithmetic(name, &values), overwritten));
    }
    let given = Given { rt, values: &values };
    if OVERWRITES.contains(&name) {
        let products = match name {
            "product" => 1,
            "each_product" => given.int(2)?,
            _ => 0,
        };
        if let Some(x) = overwritten {
            (0..products).for_each(|_| rt.cublas());
            match given.tensor(0) {
                Ok(operand) if products > 0 => launches::product(rt, &operand, &x),
                _ => launches::over(rt, &values, &x),
            }
            return Ok((rt.overwritten(&x).into(), None));
        }
        let made = match name {
            "product" | "each_product" => {
                let x = given.tensor(0)?;
                let y = rt.empty(x.dtype(), &given.sizes(1)?);
                (0..products).for_each(|_| rt.cublas());
                launches::product(rt, &x, &y);
                y.into()
            }
            "flags" => given.elementwise(Some(DType::Bool))?,
            _ => given.made(name == "reals")?,
        };
        return Ok((made, None));
    }
    if let Some((_, kernel)) = KERNELS.iter().find(|(known, _)| *known == name) {
        return Ok((kernel(&given)?, overwritten));
    }
    if let Some(row) = lookup(name) {
        return Ok((row.run(rt, values, false)?, overwritten));
    }
    let plain = name.strip_suffix('_').and_then(lookup);
    let row = plain.ok_or_else(|| say!("{name} is unknown", name))?;
    Ok((row.run(rt, values, true)?, overwritten))
}

/// Whether a number is not zero.
pub(super) fn truth(value: &Value) -> Result<bool, Refused> {
    match value {
        Value::Int(n) => Ok(*n != 0),
        Value::Float(x) => Ok(x.abs() > 0.0),
        Value::Nothing => Ok(false),
        _ => Err(say!("a choice by what only a run shows")),
    }
}

const fn truth_value(holds: bool) -> Value {
    Value::Int(if holds { 1 } else { 0 })
}

fn int(n: u64) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn list(sizes: &[u64]) -> Value {
    Value::List(sizes.iter().map(|&n| int(n)).collect())
}

fn axis(dim: i64, rank: usize) -> Result<usize, Refused> {
    let wide = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
    let from_front = if dim < 0 { dim.saturating_add(wide) } else { dim };
    let inside = (0..wide).contains(&from_front);
    usize::try_from(from_front).ok().filter(|_| inside).ok_or_else(|| say!("axis {dim}", dim))
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

/// Arithmetic and comparisons in Python or C++.
#[expect(clippy::float_arithmetic, reason = "numbers of formulas, no bytes")]
fn arithmetic(name: &str, values: &[Value]) -> Value {
    let (a, b) = (values.first(), values.get(1));
    if let (Some(Value::Text(a)), Some(b)) = (a, b) {
        let same = matches!(b, Value::Text(b) if a == b);
        return truth_value(same == (name == "eq"));
    }
    let given = match b {
        Some(Value::Int(b)) => Some(*b),
        _ => None,
    };
    if let (Some(Value::Int(a)), None | Some(Value::Int(_) | Value::Nothing)) = (a, b) {
        let other = given.unwrap_or(0);
        return match name {
            "add" => Value::Int(a.saturating_add(other)),
            "sub" => Value::Int(a.saturating_sub(other)),
            "mul" => Value::Int(a.saturating_mul(other)),
            "div" => Value::Int(a.checked_div(other).unwrap_or(0)),
            "neg" => Value::Int(a.saturating_neg()),
            "eq" => truth_value(given == Some(*a)),
            "ne" => truth_value(given != Some(*a)),
            "lt" => truth_value(*a < other),
            "le" => truth_value(*a <= other),
            "gt" => truth_value(*a > other),
            "ge" => truth_value(*a >= other),
            "logical_and" => truth_value(*a != 0 && other != 0),
            _ => truth_value(*a != 0 || other != 0),
        };
    }
    let (Some(a), b) = (a.and_then(number), b.and_then(number)) else {
        // `None` equals nothing.
        return truth_value(name == "ne");
    };
    let Some(b) = b.or_else(|| (name == "neg").then_some(0.0)) else {
        return truth_value(name == "ne");
    };
    match name {
        "add" => Value::Float(a + b),
        "sub" => Value::Float(a - b),
        "mul" => Value::Float(a * b),
        "div" => Value::Float(a / b),
        "neg" => Value::Float(-a),
        "eq" => truth_value(a.total_cmp(&b).is_eq()),
        "ne" => truth_value(a.total_cmp(&b).is_ne()),
        "lt" => truth_value(a < b),
        "le" => truth_value(a <= b),
        "gt" => truth_value(a > b),
        "ge" => truth_value(a >= b),
        "logical_and" => truth_value(a.abs() > 0.0 && b.abs() > 0.0),
        _ => truth_value(a.abs() > 0.0 || b.abs() > 0.0),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => i32::try_from(*n).ok().map(f64::from),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

/// Arguments of a call.
struct Given<'a> {
    rt: &'a Runtime,
    values: &'a [Value],
}

impl Given<'_> {
    fn at(&self, position: usize) -> &Value {
        self.values.get(position).unwrap_or(&Value::Nothing)
    }

    fn tensor(&self, position: usize) -> Result<Tensor, Refused> {
        tensor(self.at(position)).ok_or_else(|| say!("argument {position} is no tensor", position))
    }

    fn int(&self, position: usize) -> Result<i64, Refused> {
        match self.at(position) {
            Value::Int(n) => Ok(*n),
            _ => Err(say!("argument {position} is no integer", position)),
        }
    }

    fn count(&self, position: usize) -> Result<u64, Refused> {
        u64::try_from(self.int(position)?)
            .map_err(|_negative| say!("argument {position} is negative", position))
    }

    /// Dimensions in the order in which they are named.
    fn axes(&self, rank: usize, position: usize) -> Result<Vec<usize>, Refused> {
        self.ints(position)?.iter().map(|&dim| axis(dim, rank)).collect()
    }

    fn number(&self, position: usize) -> Option<f64> {
        number(self.at(position))
    }

    fn flag(&self, position: usize) -> bool {
        matches!(self.at(position), Value::Int(n) if *n != 0)
    }

    /// One integer, or a list of them.
    fn ints(&self, position: usize) -> Result<Vec<i64>, Refused> {
        let one = |value: &Value| match value {
            Value::Int(n) => Ok(*n),
            _ => Err(say!("argument {position} is no list of integers", position)),
        };
        match self.at(position) {
            Value::List(list) => list.iter().map(one).collect(),
            value => Ok(vec![one(value)?]),
        }
    }

    fn sizes(&self, position: usize) -> Result<Dims, Refused> {
        let count = |n: i64| u64::try_from(n).ok().ok_or_else(|| say!("a size of {n}", n));
        self.ints(position)?.into_iter().map(count).collect()
    }

    /// Sizes of a tensor, or sizes.
    fn extents(&self, position: usize) -> Result<Dims, Refused> {
        match self.at(position) {
            Value::Tensor(tensor) => Ok(tensor.sizes().into()),
            _ => self.sizes(position),
        }
    }

    /// Sizes of which one may be -1: what is left.
    fn target(&self, position: usize, numel: u64) -> Result<Dims, Refused> {
        let wanted = self.ints(position)?;
        let known = wanted.iter().filter_map(|&n| u64::try_from(n).ok());
        let rest = numel.checked_div(known.fold(1, u64::saturating_mul)).unwrap_or(0);
        Ok(wanted.iter().map(|&n| u64::try_from(n).unwrap_or(rest)).collect())
    }

    /// Dimensions that are named; all where none is.
    fn mask(&self, x: &Tensor, position: usize) -> Result<Vec<bool>, Refused> {
        self.marked(x.rank(), position)
    }

    fn marked(&self, rank: usize, position: usize) -> Result<Vec<bool>, Refused> {
        let dims = match self.at(position) {
            Value::Nothing => Vec::new(),
            _ => self.ints(position)?,
        };
        let mut mask = vec![dims.is_empty(); rank];
        for dim in dims {
            let at = axis(dim, rank)?;
            if let Some(slot) = mask.get_mut(at) {
                *slot = true;
            }
        }
        Ok(mask)
    }

    fn dtype(&self, position: usize) -> Option<DType> {
        match self.at(position) {
            Value::Type(dtype) => Some(*dtype),
            Value::Tensor(like) => Some(like.dtype()),
            _ => None,
        }
    }

    /// A result of `TensorIterator`: of a stated type, or of the operands' together.
    fn elementwise(&self, dtype: Option<DType>) -> Answer {
        let operands: Vec<Tensor> = self.values.iter().flat_map(tensors).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        if operands.is_empty() {
            return Err(say!("no operand is a tensor"));
        }
        let mut types = operands.iter().map(|tensor| (tensor.dtype(), tensor.rank()));
        let first = types.next().unwrap_or((DType::Float32, 0));
        let wider = |(dtype, rank): (DType, usize), next: (DType, usize)| {
            (elementwise::promoted((dtype, rank), next), rank.max(next.1))
        };
        let together = types.fold(first, wider).0;
        Ok(pointwise(self.rt, dtype.unwrap_or(together), &operands).into())
    }

    /// The same in the type that arithmetic has: a fraction makes integers floats.
    fn made(&self, real: bool) -> Answer {
        let fraction = self.values.iter().any(|value| matches!(value, Value::Float(_)));
        let floats = self.values.iter().flat_map(tensors).any(|t| t.dtype().is_floating());
        let dtype = ((fraction || real) && !floats).then_some(DType::Float32);
        self.elementwise(dtype)
    }
}
