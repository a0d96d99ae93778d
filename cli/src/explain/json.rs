//! The wire format of `explain --json`. Bytes are integers; a size that was printed rounded has its possible
//! error.

use std::collections::BTreeMap;

use highwater_core::bytes::Printed;
use highwater_core::device::Fit;
use highwater_core::estimate;
use highwater_core::observed::{Cause, Gpu, Known, Machine, Message};
use highwater_core::{Bytes, Diagnostic};
use serde::Serialize;

use super::{Answer, Asked};
use crate::advise::json::JsonPlan;

#[derive(Serialize)]
struct JsonExplanation<'a> {
    message: Option<JsonMessage>,
    nvidia_smi: Option<JsonMachine<'a>>,
    memory_summary: Option<JsonSummary>,
    cause: Option<JsonCause>,
    missing: Option<JsonSize>,
    context: Option<JsonSize>,
    other_processes: Option<JsonSize>,
    suspects: Vec<JsonSuspect>,
    settings: JsonSettings<'a>,
    model: Option<JsonModel<'a>>,
    notes: Vec<JsonNote<'a>>,
}

/// `torch.cuda.memory_summary()`: sizes in bytes.
#[derive(Serialize)]
struct JsonSummary {
    gpu: u64,
    allocated: u64,
    peak_allocated: u64,
    reserved: u64,
    peak_reserved: u64,
    retries: u64,
    out_of_memory: u64,
}

#[derive(Serialize)]
struct JsonSize {
    bytes: u64,
    within: u64,
}

#[derive(Serialize)]
struct JsonMessage {
    backend: &'static str,
    pytorch: String,
    library: Option<&'static str>,
    gpu: Option<u64>,
    tried: Option<JsonSize>,
    free: Option<JsonSize>,
    capacity: Option<JsonSize>,
    allocated: Option<JsonSize>,
    unallocated: Option<JsonSize>,
    reserved: Option<JsonSize>,
    process: Option<JsonSize>,
    other_processes: Vec<JsonProcess>,
    private_pools: Option<JsonSize>,
    allowed: Option<JsonSize>,
}

#[derive(Serialize)]
struct JsonProcess {
    pid: u64,
    bytes: Option<u64>,
}

#[derive(Serialize)]
struct JsonMachine<'a> {
    driver: Option<&'a str>,
    cuda: Option<&'a str>,
    this: Option<usize>,
    gpus: Vec<JsonGpu<'a>>,
}

#[derive(Serialize)]
struct JsonGpu<'a> {
    index: u64,
    name: &'a str,
    id: Option<&'static str>,
    total: Option<u64>,
    used: Option<u64>,
    ecc: Option<bool>,
    processes: Vec<JsonProcess>,
    instances: Vec<JsonInstance>,
}

#[derive(Serialize)]
struct JsonInstance {
    id: u64,
    total: u64,
    used: u64,
}

#[derive(Serialize)]
struct JsonCause {
    name: &'static str,
    about: &'static str,
    advice: &'static [&'static str],
}

#[derive(Serialize)]
struct JsonSuspect {
    id: Option<&'static str>,
    name: &'static str,
    fit: &'static str,
}

#[derive(Serialize)]
struct JsonSettings<'a> {
    device: Option<&'static str>,
    capacity: Option<u64>,
    other_processes: Option<u64>,
    context: Option<u64>,
    allowed: Option<u64>,
    alloc_conf: Option<&'a str>,
    pytorch: Option<String>,
}

#[derive(Serialize)]
struct JsonModel<'a> {
    name: &'a str,
    dims: &'a BTreeMap<String, u64>,
    same_size: usize,
    peak_allocated: u64,
    places: Vec<JsonPlace<'a>>,
    other_batch: Option<JsonBatch<'a>>,
    remedy: JsonRemedy<'a>,
}

/// The smallest change with which the run fits on the message's GPU.
#[derive(Serialize)]
struct JsonRemedy<'a> {
    need: u64,
    fits_unchanged: bool,
    plan: JsonPlan<'a>,
}

#[derive(Serialize)]
struct JsonBatch<'a> {
    batch: u64,
    place: JsonPlace<'a>,
}

#[derive(Serialize)]
struct JsonPlace<'a> {
    fits: &'static str,
    iterations: &'a [usize],
    phase: &'static str,
    operator: &'a str,
    module: &'a str,
    name: &'a str,
    tensor: Option<String>,
    requested: u64,
    allocated: u64,
    event: usize,
}

#[derive(Serialize)]
struct JsonNote<'a> {
    severity: &'static str,
    code: &'a str,
    message: String,
}

pub(super) fn render(answer: &Answer) -> serde_json::Result<String> {
    let Answer { observed, explanation, located } = answer;
    let json = JsonExplanation {
        message: observed.message.as_ref().map(message),
        nvidia_smi: observed.machine.as_ref().map(|known| machine(known, explanation.gpu)),
        memory_summary: observed.summary.as_ref().map(|summary| JsonSummary {
            gpu: summary.gpu,
            allocated: summary.allocated[0].0,
            peak_allocated: summary.allocated[1].0,
            reserved: summary.reserved[0].0,
            peak_reserved: summary.reserved[1].0,
            retries: summary.retries,
            out_of_memory: summary.ran_out,
        }),
        cause: explanation.cause.map(cause),
        missing: explanation.missing.map(size),
        context: explanation.context.map(size),
        other_processes: explanation.other_processes.map(size),
        suspects: explanation
            .suspects
            .iter()
            .map(|suspect| JsonSuspect {
                id: suspect.device.map(|device| device.id),
                name: suspect.name,
                fit: fit(suspect.fit),
            })
            .collect(),
        settings: settings(&explanation.known),
        model: located.as_ref().map(model),
        notes: explanation.notes.iter().map(note).collect(),
    };
    serde_json::to_string_pretty(&json).map(|json| json + "\n")
}

const fn size(printed: Printed) -> JsonSize {
    let Printed { bytes: Bytes(bytes), within: Bytes(within) } = printed;
    JsonSize { bytes, within }
}

const fn fit(fit: Fit) -> &'static str {
    match fit {
        Fit::Newest => "newest",
        Fit::Older => "older",
        Fit::Windows => "windows",
        Fit::OtherEcc => "other-ecc",
        Fit::Near => "near",
    }
}

const fn cause(cause: Cause) -> JsonCause {
    JsonCause { name: cause.name(), about: cause.about(), advice: cause.advice() }
}

fn message(message: &Message) -> JsonMessage {
    let Message {
        backend,
        versions,
        gpu,
        tried,
        capacity,
        free,
        allocated,
        unallocated,
        reserved,
        process,
        other_processes,
        private_pools,
        allowed,
        expandable: _,
        library,
    } = message;
    let others = other_processes
        .iter()
        .map(|(pid, printed)| JsonProcess { pid: *pid, bytes: Some(printed.bytes.0) });
    JsonMessage {
        backend: backend.name(),
        pytorch: versions.to_string(),
        library: *library,
        gpu: *gpu,
        tried: tried.map(size),
        free: free.map(size),
        capacity: capacity.map(size),
        allocated: allocated.map(size),
        unallocated: unallocated.map(size),
        reserved: reserved.map(size),
        process: process.map(size),
        other_processes: others.collect(),
        private_pools: private_pools.map(size),
        allowed: allowed.map(size),
    }
}

fn machine(machine: &Machine, this: Option<usize>) -> JsonMachine<'_> {
    let Machine { driver, cuda, gpus } = machine;
    JsonMachine {
        driver: driver.as_deref(),
        cuda: cuda.as_deref(),
        this,
        gpus: gpus.iter().map(gpu).collect(),
    }
}

fn gpu(gpu: &Gpu) -> JsonGpu<'_> {
    let bytes = |size: Option<Bytes>| size.map(|Bytes(bytes)| bytes);
    let processes = gpu
        .processes
        .iter()
        .map(|process| JsonProcess { pid: process.pid, bytes: bytes(process.bytes) });
    let instances = gpu.instances.iter().map(|part| JsonInstance {
        id: part.id,
        total: part.total.0,
        used: part.used.0,
    });
    JsonGpu {
        index: gpu.index,
        name: &gpu.name,
        id: gpu.device().map(|device| device.id),
        total: bytes(gpu.total),
        used: bytes(gpu.used),
        ecc: gpu.ecc,
        processes: processes.collect(),
        instances: instances.collect(),
    }
}

fn settings(known: &Known) -> JsonSettings<'_> {
    let Known { device, capacity, other_processes, context, allowed, alloc_conf, pytorch } = known;
    let bytes = |size: &Option<Bytes>| size.map(|Bytes(bytes)| bytes);
    JsonSettings {
        device: device.map(|device| device.id),
        capacity: bytes(capacity),
        other_processes: bytes(other_processes),
        context: bytes(context),
        allowed: bytes(allowed),
        alloc_conf: alloc_conf.as_deref(),
        pytorch: pytorch.map(|version| version.to_string()),
    }
}

fn model(found: &Asked) -> JsonModel<'_> {
    let located = &found.located;
    JsonModel {
        name: &found.name,
        dims: &found.located.config.dims,
        same_size: located.same_size,
        peak_allocated: located.peak.0,
        places: located.places.iter().map(place).collect(),
        other_batch: located
            .batch
            .as_ref()
            .map(|(batch, found)| JsonBatch { batch: *batch, place: place(found) }),
        remedy: JsonRemedy {
            need: found.report.verdict.need.0,
            fits_unchanged: found.report.verdict.verdict.survives(),
            plan: JsonPlan::of(&found.report, &found.remedy),
        },
    }
}

fn place(place: &estimate::Candidate) -> JsonPlace<'_> {
    JsonPlace {
        fits: place.fits.name(),
        iterations: &place.iterations,
        phase: place.phase.name(),
        operator: &place.operator,
        module: &place.module,
        name: &place.name,
        tensor: place.tensor.as_ref().map(ToString::to_string),
        requested: place.requested.0,
        allocated: place.allocated.0,
        event: place.event,
    }
}

fn note(note: &Diagnostic) -> JsonNote<'_> {
    JsonNote { severity: note.severity.name(), code: &note.code, message: note.message.to_string() }
}
