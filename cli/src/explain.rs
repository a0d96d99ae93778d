//! `highwater explain`: explains a message or the output of `nvidia-smi`, and finds the failed allocation in a
//! model's step.

mod json;
mod text;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use highwater_core::Error;
use highwater_core::estimate::{Located, Stages};
use highwater_core::levers::Facts;
use highwater_core::observed::{self, Explanation, Observed};
use highwater_core::report::Report;

use crate::advise::Remedy;
use crate::args::Explain;

/// COUNT: bytes of a log that are read.
const LOG_MAX: u64 = 64 << 20;

/// Everything that is printed.
#[derive(Debug)]
struct Answer {
    observed: Observed,
    explanation: Explanation,
    /// Where it happened, if there is a model and a message with figures.
    located: Option<Asked>,
}

/// The model that was asked about.
#[derive(Debug)]
struct Asked {
    name: String,
    /// Name of its batch dimension, where it has one.
    batch: Option<String>,
    located: Located,
    /// The run on the message's GPU, with the batch that was found.
    report: Report,
    /// What would make it fit there.
    remedy: Remedy,
}

/// What to print.
pub(crate) fn explain(arguments: &Explain) -> Result<String, String> {
    let (observed, model) = inputs(arguments)?;
    if observed.is_empty() {
        return Err(
            "there is neither an out-of-memory message of PyTorch's in this text nor output \
                    of nvidia-smi"
                .to_owned(),
        );
    }
    let explanation = observed.explain();
    let located = match model {
        None => None,
        Some(model) => {
            let located = locate(arguments, model, &observed, &explanation);
            located.map_err(|error| crate::locate(model, &error))?
        }
    };
    let answer = Answer { observed, explanation, located };
    if arguments.json {
        json::render(&answer).map_err(|error| format!("cannot write JSON: {error}"))
    } else {
        Ok(text::render(&answer))
    }
}

fn locate(
    arguments: &Explain,
    path: &Path,
    observed: &Observed,
    explanation: &Explanation,
) -> Result<Option<Asked>, Error> {
    let Some(message) = observed.message.as_ref().filter(|message| message.tried.is_some()) else {
        return Ok(None);
    };
    let model = crate::file_or_name(path)?;
    let known = explanation.known.apply(model.defaults().clone());
    let config = arguments.training.over(&known, &model)?;
    let mut stages = Stages::default();
    let located = model.locate(&config, message, &mut stages)?;
    let batch = model.open_dims().into_iter().find(|dim| dim.batch).map(|dim| dim.name);
    let mut config = located.config.clone();
    if let (Some(batch), Some((size, _))) = (&batch, &located.batch) {
        config.dims.insert(batch.clone(), *size);
    }
    let simulation = model.simulate(&config, &mut stages)?;
    let report = simulation.report();
    let facts = Facts::of(&model, &simulation, &report.config);
    let remedy = Remedy::of(&model, &report, facts, &mut stages)?;
    let name = crate::called(&model);
    Ok(Some(Asked { name, batch, located, report, remedy }))
}

/// The text, and the model: a single file is whichever of both it is.
fn inputs(arguments: &Explain) -> Result<(Observed, Option<&Path>), String> {
    let model = arguments.model.as_deref();
    if let (Some(path), None) = (model, &arguments.message)
        && path.is_file()
    {
        let observed = read(Some(path))?;
        if !observed.is_empty() {
            return Ok((observed, None));
        }
    }
    Ok((read(arguments.message.as_deref())?, model))
}

/// What is in a file or in standard input.
fn read(path: Option<&Path>) -> Result<Observed, String> {
    let mut bytes = Vec::new();
    let from = |source: &mut dyn Read, bytes: &mut Vec<u8>| -> io::Result<usize> {
        source.take(LOG_MAX).read_to_end(bytes)
    };
    match path {
        None => from(&mut io::stdin().lock(), &mut bytes).map_err(|error| error.to_string()),
        Some(path) => File::open(path)
            .and_then(|mut file| from(&mut file, &mut bytes))
            .map_err(|error| format!("{}: cannot read: {error}", path.to_string_lossy())),
    }?;
    observed::open(&mut bytes.as_slice()).map_err(|error| error.to_string())
}
