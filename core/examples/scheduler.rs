//! What a scheduler in Rust asks before it places a job:
//! `cargo run --release -p highwater-core --example scheduler -- llama-3.2-1b 4`.
//!
//! It estimates a published model at a batch size, and prints for each GPU whether the run fits and what to ask for.
#![expect(clippy::print_stdout, reason = "it prints its answer")]

use highwater_core::device::{self, Device};
use highwater_core::estimate::Stages;
use highwater_core::formats::catalogue;
use highwater_core::report::DeviceVerdict;
use highwater_core::sharing::Requests;
use highwater_core::{Error, ErrorKind, Severity, open_named};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "resnet50".to_owned());
    let batch = arguments.next().and_then(|batch| batch.parse().ok()).unwrap_or(32);

    // A model is read once, and may be shared by threads.
    let entry = catalogue::find(&name).ok_or_else(|| {
        let message = format!("there is no model `{name}`; near are {}", catalogue::nearest(&name));
        Error::new(ErrorKind::WrongFormat, highwater_core::wording::Sentence::name(&message))
    })?;
    let model = open_named(&entry)?;

    // The settings are the model's usual ones, but for what the job states.
    let mut config = model.defaults().clone();
    config.dims.insert("batch".to_owned(), batch);
    config.set("optimizer", "adamw")?;

    // Each thread has stages of its own: they keep what the next estimate of the same model can use.
    let mut stages = Stages::default();
    let report = model.simulate(&config, &mut stages)?.report();
    println!("{name} at batch {batch} reserves {} at its peak", report.peak.reserved);
    let warnings = report.diagnostics.iter().filter(|note| note.severity >= Severity::Warning);
    for warning in warnings {
        println!("  {}: {}", warning.severity.name(), warning.message);
    }

    for device in device::all() {
        let verdict = model.verdict(&config, device.id, &mut stages)?;
        println!("{}", line(device, &verdict));
    }
    Ok(())
}

fn line(device: &Device, verdict: &DeviceVerdict) -> String {
    let chance = verdict.chance.map_or_else(|| "?".to_owned(), |chance| chance.to_string());
    let asked = Requests::of(verdict).map_or_else(
        || "nothing: it is expected to fail".to_owned(),
        |requests| {
            let Requests { memory_mib, gpu_hundredths, shards, .. } = requests;
            format!("{memory_mib} MiB, {gpu_hundredths} % of the GPU, or {shards} shards")
        },
    );
    format!("{:<12} {:<20} {chance:>3} %  ask for {asked}", device.id, verdict.verdict.name())
}
