//! Hooks of the step: called at the right places, and what they allocate is in the trace there.

use std::cell::RefCell;
use std::sync::Arc;

use expect_test::{Expect, expect};
use highwater_core::config::Checkpoint;
use highwater_core::diagnostic::{Diagnostic, Diagnostics};
use highwater_core::eager::autograd::Leaf;
use highwater_core::eager::{Runtime, Tensor};
use highwater_core::step::hooks::{Direction, Hooks};
use highwater_core::step::loss::Loss;
use highwater_core::step::modules::{ModuleId, Modules};
use highwater_core::step::{self, Parameter};
use highwater_core::trace::{Category, Event, Phase, Trace};
use highwater_core::{Bytes, Config, formats, infer, recover};

use crate::recording;

/// Two linear layers, of which the first is read twice, so that its gradients are added up.
const SHARED: &str = "input: [8, 64]\nlayers:\n  - {name: a, linear: 64}\n  - relu\n  - again: a\n  \
                      - {name: b, linear: 10}\n";

const BLOCKS: &str = "input: [8, 64]\nlayers:\n  - name: h\n    repeat: 2\n    block:\n      \
                      - linear: 64\n      - relu\n      - linear: 64\n";

fn record(spec: &str, config: &Config, hooks: &dyn Hooks) -> Trace {
    run(spec, config, hooks).0
}

fn run(spec: &str, config: &Config, hooks: &dyn Hooks) -> (Trace, Vec<Diagnostic>) {
    let sink = Diagnostics::default();
    let graph = Arc::new(formats::open(&mut spec.as_bytes(), "spec").unwrap().graph);
    let typed = Arc::new(infer::infer(&graph, &config.dims, &sink).unwrap());
    let program = recover::recover(&graph, &typed, config, &sink);
    let loss = Loss::choose(config.loss, &program.graph, &program.typed, &sink).unwrap();
    let (trace, _) = step::record(&program, &loss, config, recording::A100, hooks, &sink).unwrap();
    (trace, sink.into_sorted())
}

/// What an event is, as `phase operator +bytes`.
fn shown(trace: &Trace, index: usize) -> String {
    let phase = trace.phase_at(index).map_or("", |mark| mark.phase.name());
    let operator = trace.label(trace.operators[index]);
    let (sign, id) = match trace.events[index] {
        Event::Alloc(id) => ('+', id),
        Event::Free(id) => ('-', id),
    };
    format!("{phase} {operator} {sign}{}", trace.storages[id.index()].requested.0)
}

/// Writes down what is called.
#[derive(Default)]
struct Log(RefCell<Vec<String>>);

impl Log {
    fn note(&self, line: String) {
        self.0.borrow_mut().push(line);
    }

    /// The calls of one iteration, the second.
    fn check(&self, spec: &str, config: &Config, expected: &Expect) {
        record(spec, config, self);
        let calls = self.0.take();
        let mut steps = calls.split(|line| line == "after the optimizer");
        expected.assert_eq(&steps.nth(1).unwrap().join("\n"));
    }
}

impl Hooks for Log {
    fn before_module(
        &self,
        _rt: &Runtime,
        modules: &Modules,
        module: ModuleId,
        direction: Direction,
    ) {
        self.note(format!("{direction:?} of `{}` {{", modules.path(module)));
    }

    fn after_module(
        &self,
        _rt: &Runtime,
        modules: &Modules,
        module: ModuleId,
        direction: Direction,
    ) {
        let path = modules.path(module);
        let begun = format!("{direction:?} of `{path}` {{");
        let mut log = self.0.borrow_mut();
        match log.last_mut().filter(|last| **last == begun) {
            Some(last) => last.push('}'),
            None => log.push(format!("}} {direction:?} of `{path}`")),
        }
    }

    fn after_accumulation(&self, _rt: &Runtime, leaf: &Leaf) {
        let grad = leaf.grad().map(|grad| grad.sizes().to_vec());
        self.note(format!("{}.grad {:?}", leaf.name(), grad.unwrap()));
    }

    fn before_optimizer(&self, _rt: &Runtime, parameters: &[Parameter]) {
        self.note(format!("before the optimizer: {}", parameters.len()));
    }

    fn after_optimizer(&self, _rt: &Runtime, _parameters: &[Parameter]) {
        self.note("after the optimizer".to_owned());
    }
}

#[test]
fn calls_follow_modules_gradients_and_the_optimizer() {
    Log::default().check(
        SHARED,
        &Config::default(),
        &expect![[r#"
        Forward of `` {
        Forward of `a` {}
        Forward of `1` {}
        Forward of `a` {}
        Forward of `b` {}
        } Forward of ``
        Backward of `` {
        Backward of `b` {
        b.bias.grad [10]
        b.weight.grad [10, 64]
        } Backward of `b`
        Backward of `a` {}
        Backward of `1` {}
        Backward of `a` {
        a.bias.grad [64]
        a.weight.grad [64, 64]
        } Backward of `a`
        } Backward of ``
        before the optimizer: 4"#]],
    );
}

#[test]
fn a_checkpointed_block_is_entered_again_in_backward_and_what_is_around_it_is_not() {
    let config = Config { checkpoint: Checkpoint::Blocks, ..Config::default() };
    Log::default().check(
        BLOCKS,
        &config,
        &expect![[r#"
        Forward of `` {
        Forward of `h` {
        Forward of `h.0` {
        Forward of `h.0.0` {}
        Forward of `h.0.1` {}
        Forward of `h.0.2` {}
        } Forward of `h.0`
        Forward of `h.1` {
        Forward of `h.1.0` {}
        Forward of `h.1.1` {}
        Forward of `h.1.2` {}
        } Forward of `h.1`
        } Forward of `h`
        } Forward of ``
        Backward of `` {
        Backward of `h` {
        Backward of `h.1` {
        Backward of `h.1.2` {
        Forward of `h.1` {
        Forward of `h.1.0` {}
        Forward of `h.1.1` {}
        Forward of `h.1.2` {}
        } Forward of `h.1`
        h.1.2.bias.grad [64]
        h.1.2.weight.grad [64, 64]
        } Backward of `h.1.2`
        Backward of `h.1.1` {}
        Backward of `h.1.0` {
        h.1.0.bias.grad [64]
        h.1.0.weight.grad [64, 64]
        } Backward of `h.1.0`
        } Backward of `h.1`
        Backward of `h.0` {
        Backward of `h.0.2` {
        Forward of `h.0` {
        Forward of `h.0.0` {}
        Forward of `h.0.1` {}
        Forward of `h.0.2` {}
        } Forward of `h.0`
        h.0.2.bias.grad [64]
        h.0.2.weight.grad [64, 64]
        } Backward of `h.0.2`
        Backward of `h.0.1` {}
        Backward of `h.0.0` {
        h.0.0.bias.grad [64]
        h.0.0.weight.grad [64, 64]
        } Backward of `h.0.0`
        } Backward of `h.0`
        } Backward of `h`
        } Backward of ``
        before the optimizer: 8"#]],
    );
}

/// A bucket for each parameter, from its gradient to the end of the optimizer's step.
#[derive(Default)]
struct Buckets(RefCell<Vec<Tensor>>);

impl Hooks for Buckets {
    fn after_accumulation(&self, rt: &Runtime, leaf: &Leaf) {
        let grad = leaf.grad().unwrap();
        rt.enter_operator("bucket");
        self.0.borrow_mut().push(rt.empty_like(&grad));
    }

    fn after_optimizer(&self, rt: &Runtime, _parameters: &[Parameter]) {
        rt.enter_operator("bucket");
        self.0.take().into_iter().for_each(drop);
    }
}

#[test]
fn what_a_hook_allocates_is_in_the_trace_and_changes_nothing_else() {
    let config = Config::default();
    let (plain, bucketed) =
        (record(SHARED, &config, &()), record(SHARED, &config, &Buckets::default()));
    let is_bucket = |at: usize| bucketed.label(bucketed.operators[at]) == "bucket";
    let events = |trace: &Trace, keep: &dyn Fn(usize) -> bool| -> Vec<String> {
        let kept = (0..trace.events.len()).filter(|&at| keep(at));
        kept.map(|at| shown(trace, at)).collect()
    };
    assert_eq!(events(&bucketed, &|at| !is_bucket(at)), events(&plain, &|_| true));
    let second = |at: usize| bucketed.phase_at(at).is_some_and(|mark| mark.iteration == 2);
    let around = |at: usize| is_bucket(at) || (at > 0 && is_bucket(at + 1));
    let shown = events(&bucketed, &|at| second(at) && around(at)).join("\n");
    expect![[r#"
        backward aten::sum -2048
        backward bucket +40
        backward bucket +2560
        backward aten::add -256
        backward bucket +256
        backward bucket +16384
        optimizer aten::_foreach_sqrt -16384
        optimizer bucket -40
        optimizer bucket -2560
        optimizer bucket -256
        optimizer bucket -16384"#]]
    .assert_eq(&shown);
}

/// The optimizer of one of two processes, which updates half of each parameter.
struct Halves(RefCell<Vec<Parameter>>);

impl Hooks for Halves {
    fn loaded(&self, rt: &Runtime, parameters: &[Parameter]) -> Option<Vec<Parameter>> {
        rt.enter_operator("shard");
        let half = |parameter: &Parameter| {
            let whole = &parameter.tensor;
            let half = rt.empty(whole.dtype(), &[whole.numel().div_ceil(2)]);
            let (tensor, leaf) = rt.parameter(&half, parameter.leaf.name());
            Parameter { tensor, leaf }
        };
        let halves: Vec<Parameter> = parameters.iter().map(half).collect();
        let copy = |half: &Parameter| Parameter {
            tensor: half.tensor.clone(),
            leaf: std::rc::Rc::clone(&half.leaf),
        };
        self.0.replace(halves.iter().map(copy).collect());
        Some(halves)
    }

    fn before_optimizer(&self, rt: &Runtime, parameters: &[Parameter]) {
        rt.enter_operator("reduce_scatter");
        for (half, whole) in self.0.borrow().iter().zip(parameters) {
            half.leaf.set(rt.empty_like(&half.tensor));
            whole.leaf.clear();
        }
    }
}

/// SUM: state of the optimizer at the end.
fn optimizer_state(trace: &Trace) -> Bytes {
    let freed = |id| trace.events.contains(&Event::Free(id));
    let state = trace.storages.iter().enumerate().filter(|(id, storage)| {
        storage.category == Category::OptimizerState
            && !freed(highwater_core::trace::StorageId::new(*id))
    });
    state.map(|(_, storage)| storage.requested).sum()
}

#[test]
fn the_optimizer_can_be_given_shards() {
    let config = Config::default();
    let whole = optimizer_state(&record(SHARED, &config, &()));
    let sharded = record(SHARED, &config, &Halves(RefCell::default()));
    assert_eq!(optimizer_state(&sharded).0 * 2, whole.0);
    let steps = sharded.events.iter().enumerate().filter(|(at, _)| {
        sharded
            .phase_at(*at)
            .is_some_and(|mark| (mark.iteration, mark.phase) == (3, Phase::Optimizer))
    });
    let scattered = steps.filter(|(at, event)| {
        matches!(event, Event::Alloc(_))
            && sharded.label(sharded.operators[*at]) == "reduce_scatter"
    });
    assert_eq!(scattered.count(), 4);
}

/// An optimizer that steps within backward, so that no gradient outlives its parameter's turn.
struct InBackward;

impl Hooks for InBackward {
    fn after_accumulation(&self, _rt: &Runtime, leaf: &Leaf) {
        leaf.clear();
    }
}

#[test]
fn gradients_may_go_where_they_were_accumulated() {
    let (trace, found) = run(SHARED, &Config::default(), &InBackward);
    assert!(found.iter().all(|found| found.code != "no-gradients"));
    let state = trace.storages.iter();
    assert!(state.clone().any(|storage| storage.category == Category::Gradient));
    assert!(state.clone().all(|storage| storage.category != Category::OptimizerState));
}
