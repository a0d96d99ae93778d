//! The wire format of `advise --json`. Bytes are integers; savings may be negative.

use highwater_core::Bytes;
use highwater_core::autopsy::{Autopsy, Group, NextPeak, Scores};
use highwater_core::levers::{Outcome, Pulled};
use highwater_core::report::{DeviceVerdict, Report};
use serde::Serialize;

use super::{Advice, Remedy};
use highwater_core::export::{JsonConfig, JsonPeak};

#[derive(Serialize)]
struct JsonAdvice<'a> {
    model: &'a str,
    config: JsonConfig<'a>,
    device: JsonDevice<'a>,
    peak: JsonPeak<'a>,
    autopsy: JsonAutopsy<'a>,
    levers: Vec<JsonLever<'a>>,
    plan: JsonPlan<'a>,
}

/// The device that is judged.
#[derive(Serialize)]
struct JsonDevice<'a> {
    id: &'a str,
    name: &'a str,
    capacity: u64,
    need: u64,
    verdict: &'a str,
}

#[derive(Serialize)]
struct JsonAutopsy<'a> {
    total: u64,
    groups: Vec<JsonGroup<'a>>,
    others: u64,
    scores: Option<JsonScores>,
    next: Option<JsonNext<'a>>,
}

/// Tensors that are alive at the peak for one reason.
#[derive(Serialize)]
struct JsonGroup<'a> {
    why: &'a str,
    count: usize,
    bytes: u64,
    operator: &'a str,
    module: &'a str,
    tensor: Option<String>,
}

#[derive(Serialize)]
struct JsonScores {
    count: usize,
    bytes: u64,
    classes: u64,
    tensor: String,
}

/// What would be the peak without the one there is.
#[derive(Serialize)]
struct JsonNext<'a> {
    allocated: u64,
    iteration: usize,
    phase: &'a str,
    operator: &'a str,
    module: &'a str,
}

#[derive(Serialize)]
struct JsonLever<'a> {
    id: &'a str,
    title: &'a str,
    cost: &'a str,
    saved: i128,
    need: u64,
    allocated: u64,
    reserved: u64,
    verdict: &'a str,
    iteration: usize,
    phase: &'a str,
    operator: &'a str,
    module: &'a str,
    code: &'a str,
}

#[derive(Serialize)]
pub(crate) struct JsonPlan<'a> {
    fits: bool,
    tried: usize,
    steps: Vec<JsonLever<'a>>,
    /// Every setting once all steps are made.
    config: Option<JsonConfig<'a>>,
}

/// The advice as JSON, indented, with a line end.
pub(super) fn render(advice: &Advice) -> serde_json::Result<String> {
    let Advice { name, report, autopsy, pulled, slower: _, remedy } = advice;
    let before = report.verdict.need;
    let levers = pulled.iter().map(|pulled| JsonLever::of(pulled, before)).collect();
    let iterations = report.iterations.len();
    let json = JsonAdvice {
        model: name,
        config: JsonConfig::of(&report.config, iterations),
        device: JsonDevice::of(&report.verdict),
        peak: JsonPeak::of(&report.peak),
        autopsy: JsonAutopsy::of(autopsy),
        levers,
        plan: JsonPlan::of(report, remedy),
    };
    serde_json::to_string_pretty(&json).map(|json| json + "\n")
}

impl<'a> JsonPlan<'a> {
    pub(crate) fn of(report: &Report, remedy: &'a Remedy) -> Self {
        let mut before = report.verdict.need;
        let mut steps = Vec::new();
        for step in &remedy.plan.steps {
            steps.push(JsonLever::of(step, before));
            before = step.outcome.verdict.need;
        }
        let last = remedy.plan.steps.last();
        let config = last.map(|last| JsonConfig::of(&last.config, report.iterations.len()));
        Self { fits: remedy.fits, tried: remedy.tried, steps, config }
    }
}

impl<'a> JsonDevice<'a> {
    fn of(device: &'a DeviceVerdict) -> Self {
        let (Bytes(capacity), Bytes(need)) = (device.capacity, device.need);
        let verdict = device.verdict.name();
        Self { id: &device.id, name: &device.name, capacity, need, verdict }
    }
}

impl<'a> JsonAutopsy<'a> {
    fn of(autopsy: &'a Autopsy) -> Self {
        let Autopsy { total: Bytes(total), groups, others: Bytes(others), scores, next } = autopsy;
        Self {
            total: *total,
            groups: groups.iter().map(JsonGroup::of).collect(),
            others: *others,
            scores: scores.as_ref().map(JsonScores::of),
            next: next.as_ref().map(JsonNext::of),
        }
    }
}

impl<'a> JsonGroup<'a> {
    fn of(group: &'a Group) -> Self {
        let Group { why, count, bytes: Bytes(bytes), example } = group;
        Self {
            why: why.name(),
            count: *count,
            bytes: *bytes,
            operator: &example.operator,
            module: &example.module,
            tensor: example.tensor.as_ref().map(ToString::to_string),
        }
    }
}

impl JsonScores {
    fn of(scores: &Scores) -> Self {
        let Scores { count, bytes: Bytes(bytes), classes, tensor } = scores;
        Self { count: *count, bytes: *bytes, classes: *classes, tensor: tensor.to_string() }
    }
}

impl<'a> JsonNext<'a> {
    fn of(next: &'a NextPeak) -> Self {
        let NextPeak { allocated: Bytes(allocated), iteration, phase, operator, module } = next;
        let phase = phase.name();
        Self { allocated: *allocated, iteration: *iteration, phase, operator, module }
    }
}

impl<'a> JsonLever<'a> {
    fn of(pulled: &'a Pulled, before: Bytes) -> Self {
        let Pulled { id, title, cost, config: _, code, outcome } = pulled;
        let Outcome { allocated, reserved, phase, iteration, operator, module, verdict } = outcome;
        let (Bytes(allocated), Bytes(reserved)) = (*allocated, *reserved);
        Self {
            id,
            title,
            cost: cost.name(),
            saved: i128::from(before.0) - i128::from(verdict.need.0),
            need: verdict.need.0,
            allocated,
            reserved,
            verdict: verdict.verdict.name(),
            iteration: *iteration,
            phase: phase.name(),
            operator,
            module,
            code,
        }
    }
}
