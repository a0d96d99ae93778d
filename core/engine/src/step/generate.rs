//! Generation: prompts are read, then tokens are written one after another (`_sample` in `generation/utils.py` of
//! transformers 5.23).
//!
//! Every token is a forward pass of other sizes: keys and values grow by one. All tokens run where that is not too
//! much, else some, at equal distances; what one of these makes is as large as it is at its place.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::forward::Forward;
use super::loss::Loss;
use super::{Batch, BatchPlan, Device, Recorded, compile};
use crate::config::Config;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::eager::launch::{DecodePass, Launches};
use crate::eager::{Mode, Runtime, Tensor};
use crate::error::Error;
use crate::graph::ValueId;
use crate::infer::{self, Typed};
use crate::recover::Program;
use crate::roles;
use crate::tensor::DType;
use crate::trace::{Category, Phase};

/// COUNT: events of tokens that are run, about.
const EVENTS: usize = 1 << 18;

/// The iteration that stands for all: `generate` is called once.
pub const STEADY: usize = 1;

/// COUNT: tokens at each end that run in any case.
const ENDS: u64 = 3;

/// The program that reads one token more, at some numbers of tokens before it.
#[derive(Clone, Debug)]
pub struct Decode {
    /// Its operators, in the sizes of the first token.
    pub program: Program,
    /// Types at these numbers of tokens, in order: between two, each size is a line.
    pub at: Vec<(u64, Arc<Typed>)>,
}

/// The types of [`Decode`] at one number of tokens after another.
struct Growing<'a> {
    at: &'a [(u64, Arc<Typed>)],
    /// The interval in which `typed` lies: the end of it.
    behind: usize,
    typed: Typed,
}

impl<'a> Growing<'a> {
    fn of(decode: &'a Decode) -> Self {
        Self { at: &decode.at, behind: 0, typed: Typed::default() }
    }

    /// The types where so many tokens are kept.
    fn typed(&mut self, past: u64) -> &Typed {
        let behind =
            self.at.partition_point(|(at, _)| *at <= past).clamp(1, self.at.len().max(2) - 1);
        let first = self.at.get(behind - 1);
        if let Some((_, first)) = first.filter(|_| behind != self.behind) {
            self.typed = Typed::clone(first);
            self.behind = behind;
        }
        if let (Some((from, first)), Some((to, last))) = (first, self.at.get(behind)) {
            let part = (past.saturating_sub(*from), to.saturating_sub(*from));
            self.typed.set_between(first, last, part);
        }
        &self.typed
    }
}

/// One call of `generate`.
///
/// # Errors
/// As [`super::record`].
pub fn run(
    rt: Runtime,
    (prefill, decode): (&Program, &Decode),
    config: &Config,
    sink: &Diagnostics,
) -> Result<Recorded, Error> {
    compile::check(prefill, config)?;
    let loss = Loss::none(&prefill.graph, &prefill.typed, config);
    let device = Device::load(&rt, prefill, config, &(), sink)?;
    let plan = BatchPlan {
        graph: &prefill.graph,
        typed: &prefill.typed,
        loss: &loss,
        format: config.memory_format,
        has_labels: false,
    };
    let batch = device.new_batch(&rt, &plan);
    let forward = Forward::plan(&rt, prefill, &prefill.typed, &device.roles, config);
    let next_roles = roles::roles(&decode.program, &decode.program.typed);
    let next = Forward::plan(&rt, &decode.program, &decode.program.typed, &next_roles, config);
    let state = State::of(prefill, &device, &decode.program);
    let new = config.new_tokens.get();
    let read = prefill.typed.dims.get(infer::SEQUENCE).copied().unwrap_or(1);
    let is_new = prefill.graph.window.is_some_and(|window| read <= window);
    sink.extend(infer::beyond_window(&prefill.graph, read.saturating_add(new)).filter(|_| is_new));
    let mut timed = Vec::new();
    let ran = rt.in_mode(Mode::EVALUATION, || {
        rt.autocast(config.precision.autocast(), || {
            let mut text = Text::of(&rt, prefill, batch);
            let specials = specials(&rt);
            let mut growing = Growing::of(decode);
            rt.enter_phase(1, Phase::Prefill);
            let outputs = forward.run(&rt, (&device.values, text.prompt(&rt)), &());
            let mut kept = text.write(&rt, outputs);
            rt.enter_phase(1, Phase::Decode);
            let before = rt.events();
            let mut passes = Passes::of(new.saturating_sub(1));
            while let Some(token) = passes.next() {
                timed.push(DecodePass { number: token, from: rt.launches() });
                let typed = growing.typed(text.read.saturating_add(token));
                let given = text.token(&decode.program, std::mem::take(&mut kept));
                let outputs = next.run_with(&rt, typed, (&state.values, given), &());
                text.length = text.read.saturating_add(token).saturating_add(1);
                kept = text.write(&rt, outputs);
                passes.measured(rt.events().saturating_sub(before));
            }
            drop((kept, specials));
            passes.stride
        })
    });
    sink.extend(forward.diagnostics());
    sink.extend(next.diagnostics());
    sink.extend((ran > 1).then(|| skipped(ran)));
    let list = rt.take_launches();
    let (trace, asked) = rt.into_parts();
    let labels = if list.is_empty() { Vec::new() } else { trace.labels.clone() };
    Ok((trace, asked, Launches { list, labels, steady: STEADY, passes: timed }))
}

/// What `_prepare_special_tokens` leaves on the device: the tokens that begin, end and pad a text, and whether the last
/// is one of those that end it.
fn specials(rt: &Runtime) -> Vec<Tensor> {
    let mut all: Vec<Tensor> =
        (0..3).map(|_| rt.empty_for(Category::Input, DType::Int64, &[])).collect();
    all.push(rt.empty_for(Category::Input, DType::Bool, &[]));
    all
}

/// That not all tokens ran.
fn skipped(stride: u64) -> Diagnostic {
    let message = say!(
        "one of {stride} tokens is simulated: allocated memory is as large as with all, and reserved memory may be \
         larger, because each length of the cache asks for blocks of another size",
        stride
    );
    Diagnostic::new(Severity::Info, "skipped-tokens", message)
}

/// Which forward passes behind the prefill run, by their number from 0.
struct Passes {
    count: u64,
    at: u64,
    stride: u64,
}

impl Passes {
    const fn of(count: u64) -> Self {
        Self { count, at: 0, stride: 1 }
    }

    fn next(&mut self) -> Option<u64> {
        let at = self.at;
        (at < self.count).then(|| {
            let is_end = at + 1 < ENDS || at + ENDS >= self.count;
            let step = if is_end { 1 } else { self.stride };
            // The last ones run, whatever the stride is.
            let last = self.count.saturating_sub(ENDS).max(at + 1);
            self.at = (at + step).min(if at + 1 > last { u64::MAX } else { last });
            at
        })
    }

    /// Chooses the distance once the first passes have run.
    fn measured(&mut self, events: usize) {
        if self.at == ENDS && self.stride == 1 {
            let each = events.div_euclid(usize::try_from(ENDS).unwrap_or(1)).max(1);
            let most = u64::try_from(EVENTS.div_euclid(each)).unwrap_or(u64::MAX).max(2 * ENDS);
            self.stride = self.count.div_ceil(most).max(1);
        }
    }
}

/// What lies on the device, as the program that reads one token knows it.
struct State {
    values: Vec<Option<Tensor>>,
}

impl State {
    fn of(prefill: &Program, device: &Device, decode: &Program) -> Self {
        let names = device.values.iter().enumerate().filter_map(|(id, tensor)| {
            Some((prefill.graph.value_name(ValueId(id)), tensor.as_ref()?))
        });
        let by_name: BTreeMap<&str, &Tensor> = names.into_map();
        let values = decode.graph.values.iter().map(|value| {
            value.initializer.as_ref()?;
            by_name.get(value.name.as_str()).map(|tensor| Tensor::clone(tensor))
        });
        Self { values: values.collect() }
    }
}

/// Texts that are written: the names of `_sample` that hold something.
struct Text {
    inputs: Vec<(ValueId, Tensor)>,
    input_ids: Option<Tensor>,
    position_ids: Option<Tensor>,
    logits: Option<Tensor>,
    next_tokens: Option<Tensor>,
    unfinished: Tensor,
    /// What the next pass is given: the last token, and its position.
    last: Vec<Tensor>,
    /// COUNT: texts, and tokens of their prompts.
    texts: u64,
    read: u64,
    /// COUNT: tokens so far.
    length: u64,
}

impl Text {
    fn of(rt: &Runtime, prefill: &Program, batch: Batch) -> Self {
        let sizes = batch.inputs.first().map(|(_, ids)| ids.sizes().to_vec()).unwrap_or_default();
        let (texts, read) = (size(&sizes, 0), size(&sizes, 1));
        let named = |name: &str| {
            let is = |(id, _): &&(ValueId, Tensor)| prefill.graph.value_name(*id) == name;
            batch.inputs.iter().find(is).map(|(_, tensor)| tensor.clone())
        };
        Self {
            input_ids: batch.inputs.first().map(|(_, ids)| ids.clone()),
            position_ids: named(POSITIONS),
            logits: None,
            next_tokens: None,
            unfinished: rt.empty_for(Category::Input, DType::Int64, &[texts]),
            last: Vec::new(),
            texts,
            read,
            length: read,
            inputs: batch.inputs,
        }
    }

    /// What the prefill is given: the tokens are a copy.
    fn prompt(&mut self, rt: &Runtime) -> Vec<(ValueId, Tensor)> {
        let mut given = std::mem::take(&mut self.inputs);
        if let Some((_, ids)) = given.first_mut() {
            rt.enter_operator("aten::clone");
            *ids = rt.empty_for(Category::Input, ids.dtype(), ids.sizes());
            self.last = vec![ids.clone()];
        }
        given
    }

    /// What a later pass is given: one token, its position, and what was kept.
    fn token(&self, decode: &Program, kept: Vec<Tensor>) -> Vec<(ValueId, Tensor)> {
        let graph = &decode.graph;
        let pasts: BTreeSet<ValueId> = graph.pasts().into_set();
        let own = graph.inputs.iter().copied().filter(|id| !pasts.contains(id));
        own.zip(self.last.iter().cloned()).chain(graph.pasts().zip(kept)).collect()
    }

    /// Chooses the next tokens of what a pass returned; gives back what is kept.
    fn write(&mut self, rt: &Runtime, mut outputs: Vec<Tensor>) -> Vec<Tensor> {
        let (n, length) = (self.texts, self.length);
        let kept = outputs.split_off(1.min(outputs.len()));
        let ids = |sizes: &[u64]| rt.empty_for(Category::Input, DType::Int64, sizes);
        let flags = || rt.empty_for(Category::Temporary, DType::Bool, &[n]);
        let number = || rt.empty_for(Category::Temporary, DType::Int64, &[n]);
        rt.enter_module(rt.label("generate"));
        // The positions grow by one.
        rt.enter_operator("aten::cat");
        if self.position_ids.is_some() {
            let next = number();
            self.position_ids = Some(ids(&[n, length.saturating_add(1)]));
            drop(next);
        }
        rt.enter_operator("aten::to");
        if let Some(logits) = outputs.first() {
            let sizes = [n, size(logits.sizes(), logits.rank().saturating_sub(1))];
            let raised = rt.empty_for(Category::Activation, DType::Float32, &sizes);
            self.logits = Some(raised);
        }
        rt.enter_operator("aten::argmax");
        let best = number();
        self.next_tokens = None;
        let (open, done) = (number(), number());
        let padding = number();
        drop(done);
        self.next_tokens = Some(ids(&[n]));
        drop((open, padding, best));
        rt.enter_operator("aten::cat");
        self.input_ids = Some(ids(&[n, length.saturating_add(1)]));
        rt.enter_operator("aten::isin");
        let (done, more) = (flags(), flags());
        let either = flags();
        drop((more, done));
        let ends = flags();
        drop(either);
        drop(ends);
        self.unfinished = ids(&[n]);
        drop(outputs);
        rt.enter_operator("aten::clone");
        let last = vec![ids(&[n, 1]), ids(&[n, 1])];
        self.last = last;
        kept
    }
}

/// The name of the input that has positions.
const POSITIONS: &str = "position_ids";

fn size(sizes: &[u64], at: usize) -> u64 {
    sizes.get(at).copied().unwrap_or(1)
}
