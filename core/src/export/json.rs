//! The wire format of `--json`, which the page saves as well. Bytes are integers.
//!
//! The types here are filled from the core's types field by field. So a new field of the core compiles only after
//! somebody has decided what scripts see of it. Settings are those of the table, by their keys.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{Answer, DeviceAnswer, Requirement};
use crate::bytes::Bytes;
use crate::config::{Config, SETTINGS};
use crate::device::Interval;
use crate::diagnostic::Diagnostic;
use crate::estimate::{LargestBatch, RankLine};
use crate::formats::Recognised;
use crate::recipe::{Choice, Origin, Recipe};
use crate::report::difference::{PhaseDifference, by_phase};
use crate::report::{
    Band, ByCategory, Certainty, DeviceVerdict, IterationPeaks, ModelSummary, Part, Peak, Report,
};
use crate::time::{Picoseconds, Timing};

#[derive(Serialize)]
struct JsonAnswer<'a> {
    headline: String,
    model: JsonModel<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipe: Option<JsonRecipe<'a>>,
    config: JsonConfig<'a>,
    peak: JsonPeak<'a>,
    without_workspaces: Option<JsonBand>,
    iterations: Vec<JsonIteration>,
    at_peak: ByCategory,
    certainty: Option<JsonCertainty<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranks: Vec<JsonRanks<'a>>,
    devices: Vec<JsonDevice<'a>>,
    require: &'a Requirement,
    lower_bound: bool,
    uncertain: bool,
    diagnostics: Vec<JsonDiagnostic<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_time: Option<JsonStepTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<JsonRecorded<'a>>,
}

/// Ranks that need the same.
#[derive(Serialize)]
struct JsonRanks<'a> {
    first: u64,
    last: u64,
    allocated: u64,
    reserved: u64,
    need: u64,
    verdict: &'a str,
}

impl<'a> JsonRanks<'a> {
    fn of(line: &'a RankLine) -> Self {
        let RankLine { first, last, allocated, reserved, verdict } = line;
        Self {
            first: *first,
            last: *last,
            allocated: allocated.0,
            reserved: reserved.0,
            need: verdict.need.0,
            verdict: verdict.verdict.name(),
        }
    }
}

/// What a recipe states.
#[derive(Serialize)]
struct JsonRecipe<'a> {
    tool: &'a str,
    model: Option<&'a str>,
    settings: Vec<JsonChoice<'a>>,
    without_effect: &'a [String],
    notes: Vec<JsonDiagnostic<'a>>,
}

/// A setting of a recipe, and the key or the tool's default that it is from.
#[derive(Serialize)]
struct JsonChoice<'a> {
    setting: &'a str,
    value: &'a str,
    key: Option<&'a str>,
    default_of: Option<&'a str>,
}

/// What was recorded of the same training.
#[derive(Serialize)]
struct JsonRecorded<'a> {
    name: &'a str,
    format: &'a str,
    peak: JsonPeak<'a>,
    phases: Vec<JsonPhase>,
    diagnostics: Vec<JsonDiagnostic<'a>>,
}

/// The highest moment of a phase.
#[derive(Serialize)]
struct JsonPhase {
    iteration: usize,
    phase: &'static str,
    estimate: u64,
    recorded: u64,
}

#[derive(Serialize)]
struct JsonModel<'a> {
    name: &'a str,
    format: &'a str,
    fidelity: &'a str,
    parameters: u64,
    parameter_bytes: u64,
    buffer_bytes: u64,
}

/// The settings of a run.
#[derive(Debug)]
pub struct JsonConfig<'a> {
    config: &'a Config,
    /// COUNT: iterations that ran.
    iterations: usize,
}

/// The peak.
#[derive(Debug, Serialize)]
pub struct JsonPeak<'a> {
    requested: u64,
    allocated: u64,
    reserved: u64,
    process: u64,
    phase: &'a str,
    iteration: usize,
    operator: &'a str,
    module: &'a str,
}

#[derive(Serialize)]
struct JsonIteration {
    requested: u64,
    allocated: u64,
    reserved: u64,
}

/// The peaks had no convolution taken a workspace.
#[derive(Serialize)]
struct JsonBand {
    allocated: u64,
    reserved: u64,
}

/// What the bytes at the peak rest on.
#[derive(Serialize)]
struct JsonCertainty<'a> {
    proven: u64,
    recovered: u64,
    assumed: u64,
    parts: Vec<JsonPart<'a>>,
}

#[derive(Serialize)]
struct JsonPart<'a> {
    basis: &'a str,
    what: String,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonDevice<'a> {
    id: &'a str,
    name: &'a str,
    capacity: u64,
    capacity_from: &'a str,
    need: u64,
    context: u64,
    context_high: Option<u64>,
    context_from: &'a str,
    other_processes: u64,
    allowed: Option<u64>,
    interval: Option<JsonInterval>,
    chance: Option<u64>,
    verdict: &'a str,
    passes: bool,
    max_batch_likely: Option<u64>,
    max_batch: Option<u64>,
    max_batch_with_flush: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_time: Option<JsonStepTime>,
}

/// How long a step takes.
#[derive(Clone, Copy, Serialize)]
struct JsonStepTime {
    picoseconds: u64,
    interval_picoseconds: [u64; 2],
}

/// How long a step takes on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTime {
    /// Stable id of the device.
    pub id: &'static str,
    /// The time of a step.
    pub step: Picoseconds,
    /// What nine of ten runs take, at least and at most.
    pub interval: (Picoseconds, Picoseconds),
}

impl DeviceTime {
    /// Of a timing.
    pub fn of(timing: &Timing) -> Self {
        let time = &timing.time;
        Self { id: timing.device.id, step: time.step(), interval: time.interval() }
    }

    const fn json(&self) -> JsonStepTime {
        let (Picoseconds(least), Picoseconds(most)) = self.interval;
        JsonStepTime { picoseconds: self.step.0, interval_picoseconds: [least, most] }
    }
}

/// What nine runs in ten need.
#[derive(Serialize)]
struct JsonInterval {
    low: u64,
    high: u64,
}

#[derive(Serialize)]
struct JsonDiagnostic<'a> {
    severity: &'a str,
    code: &'a str,
    message: String,
    node: Option<&'a str>,
}

/// The answer as JSON, indented, with a line end; and what was recorded of the same training.
pub fn json(answer: &Answer, recorded: Option<&Report>) -> String {
    written(JsonAnswer::of(answer), answer, recorded)
}

/// The same with the time of a step, where it is known.
pub fn timed_json(answer: &Answer, recorded: Option<&Report>, times: &[DeviceTime]) -> String {
    let mut json = JsonAnswer::of(answer);
    let of = |id: &str| times.iter().find(|time| time.id == id).map(DeviceTime::json);
    for device in &mut json.devices {
        device.step_time = of(device.id);
    }
    json.step_time = of(&answer.report.verdict.id);
    written(json, answer, recorded)
}

fn written<'a>(
    mut json: JsonAnswer<'a>,
    answer: &'a Answer,
    recorded: Option<&'a Report>,
) -> String {
    json.compared = recorded.map(|recorded| JsonRecorded::of(&answer.report, recorded));
    // Fails only for maps whose keys are no texts, and there are none.
    serde_json::to_string_pretty(&json).unwrap_or_default() + "\n"
}

impl<'a> JsonRecorded<'a> {
    fn of(estimate: &Report, recorded: &'a Report) -> Self {
        let phase = |row: &PhaseDifference| JsonPhase {
            iteration: row.iteration,
            phase: row.phase.name(),
            estimate: row.before.0,
            recorded: row.after.0,
        };
        Self {
            name: &recorded.model.name,
            format: &recorded.model.recognised.format,
            peak: JsonPeak::of(&recorded.peak),
            phases: by_phase(estimate, recorded).iter().map(phase).collect(),
            diagnostics: recorded.diagnostics.iter().map(JsonDiagnostic::of).collect(),
        }
    }
}

impl<'a> JsonAnswer<'a> {
    fn of(answer: &'a Answer) -> Self {
        let Answer { name, batch: _, report, ranks, recipe, devices, require } = answer;
        let Report {
            model,
            config,
            peak,
            iterations,
            without_workspaces,
            at_peak,
            modules_at_peak: _,
            live_at_peak: _,
            certainty,
            timeline: _,
            verdict: _,
            lower_bound,
            uncertain,
            diagnostics,
            recorded: _,
        } = report;
        Self {
            headline: answer.headline().lead.to_string(),
            model: JsonModel::of(name, model),
            recipe: recipe.as_ref().map(JsonRecipe::of),
            config: JsonConfig::of(config, iterations.len()),
            peak: JsonPeak::of(peak),
            without_workspaces: without_workspaces.as_ref().map(JsonBand::of),
            iterations: iterations.iter().map(JsonIteration::of).collect(),
            at_peak: *at_peak,
            certainty: certainty.as_ref().map(JsonCertainty::of),
            ranks: ranks.iter().map(JsonRanks::of).collect(),
            devices: devices
                .iter()
                .map(|device| JsonDevice::of(device, answer.largest(device), require.chance))
                .collect(),
            require,
            lower_bound: *lower_bound,
            uncertain: *uncertain,
            diagnostics: diagnostics.iter().map(JsonDiagnostic::of).collect(),
            step_time: None,
            compared: None,
        }
    }
}

impl<'a> JsonRecipe<'a> {
    fn of(recipe: &'a Recipe) -> Self {
        // The settings are those of the answer, where nothing else is given.
        let Recipe { tool, model, choices, idle, notes, config: _ } = recipe;
        let choice = |choice: &'a Choice| {
            let (key, default_of) = match &choice.from {
                Origin::Key(key) => (Some(key.as_str()), None),
                Origin::Default(tool) => (None, Some(tool.as_str())),
            };
            JsonChoice { setting: &choice.setting, value: &choice.value, key, default_of }
        };
        Self {
            tool,
            model: model.as_deref(),
            settings: choices.iter().map(choice).collect(),
            without_effect: idle,
            notes: notes.iter().map(JsonDiagnostic::of).collect(),
        }
    }
}

impl<'a> JsonCertainty<'a> {
    fn of(certainty: &'a Certainty) -> Self {
        let Certainty { proven, recovered, assumed, parts } = certainty;
        let part = |Part { reason, bytes }: &'a Part| JsonPart {
            basis: reason.basis().name(),
            what: reason.what().to_string(),
            bytes: bytes.0,
        };
        Self {
            proven: proven.0,
            recovered: recovered.0,
            assumed: assumed.0,
            parts: parts.iter().map(part).collect(),
        }
    }
}

impl<'a> JsonModel<'a> {
    const fn of(name: &'a str, model: &'a ModelSummary) -> Self {
        let ModelSummary {
            name: _,
            producer: _,
            recognised: Recognised { ref format, fidelity },
            parameters,
            parameter_bytes: Bytes(parameter_bytes),
            buffer_bytes: Bytes(buffer_bytes),
            operators: _,
            batch: _,
        } = *model;
        let (format, fidelity) = (format.as_str(), fidelity.name());
        Self { name, format, fidelity, parameters, parameter_bytes, buffer_bytes }
    }
}

impl<'a> JsonConfig<'a> {
    /// The settings as they are written, with how many iterations ran.
    pub const fn of(config: &'a Config, iterations: usize) -> Self {
        Self { config, iterations }
    }
}

impl Serialize for JsonConfig<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("dims", &self.config.dims)?;
        for setting in SETTINGS {
            map.serialize_entry(&setting.key(), &setting.value(self.config))?;
        }
        map.serialize_entry("iterations", &self.iterations)?;
        map.end()
    }
}

impl<'a> JsonPeak<'a> {
    /// The mark as it is written.
    pub fn of(peak: &'a Peak) -> Self {
        let Peak {
            requested: Bytes(requested),
            allocated: Bytes(allocated),
            reserved: Bytes(reserved),
            process: Bytes(process),
            phase,
            iteration,
            ref operator,
            ref module,
            event: _,
        } = *peak;
        let phase = phase.name();
        Self { requested, allocated, reserved, process, phase, iteration, operator, module }
    }
}

impl JsonIteration {
    const fn of(peaks: &IterationPeaks) -> Self {
        let IterationPeaks {
            requested: Bytes(requested),
            allocated: Bytes(allocated),
            reserved: Bytes(reserved),
        } = *peaks;
        Self { requested, allocated, reserved }
    }
}

impl JsonBand {
    const fn of(band: &Band) -> Self {
        let Band { allocated: Bytes(allocated), reserved: Bytes(reserved) } = *band;
        Self { allocated, reserved }
    }
}

impl<'a> JsonDevice<'a> {
    fn of(answer: &'a DeviceAnswer, largest: LargestBatch, passes_with: u64) -> Self {
        let DeviceAnswer { verdict, largest: _ } = answer;
        let passes = verdict.passes(passes_with);
        let DeviceVerdict {
            id,
            name,
            capacity: Bytes(capacity),
            capacity_from,
            need: Bytes(need),
            context: Bytes(context),
            context_high,
            context_from,
            other_processes: Bytes(other_processes),
            allowed,
            interval,
            chance,
            verdict,
            out_of_memory: _,
        } = verdict;
        Self {
            id,
            name,
            capacity: *capacity,
            capacity_from: capacity_from.name(),
            need: *need,
            context: *context,
            context_high: context_high.map(|Bytes(bytes)| bytes),
            context_from: context_from.name(),
            other_processes: *other_processes,
            allowed: allowed.map(|Bytes(bytes)| bytes),
            interval: interval
                .map(|Interval { low: Bytes(low), high: Bytes(high) }| JsonInterval { low, high }),
            chance: *chance,
            verdict: verdict.name(),
            passes,
            max_batch_likely: largest.likely,
            max_batch: largest.without_flush,
            max_batch_with_flush: largest.with_flush,
            step_time: None,
        }
    }
}

impl<'a> JsonDiagnostic<'a> {
    fn of(diagnostic: &'a Diagnostic) -> Self {
        let Diagnostic { severity, code, message, node } = diagnostic;
        Self {
            severity: severity.name(),
            code,
            message: message.to_string(),
            node: node.as_deref(),
        }
    }
}
