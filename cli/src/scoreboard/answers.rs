//! What all estimators say about each run. They share one simulation.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use highwater_core::device::Interval;
use highwater_core::estimate::Stages;
use highwater_core::estimators::{self, ALL, Estimate, Estimator, Evidence};
use highwater_core::{Bytes, Config, Error, Model};
use rayon::prelude::*;

use super::runs::Run;
use super::sources::Source;
use crate::args::Training;
use crate::file::regular;
use crate::progress::Progress;

/// What all estimators say about a run, or why there is no estimate of it.
pub(crate) type Answered = Result<Answer, String>;

/// What all estimators say about a run.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The CUDA context: as measured on the machine, where it was.
    pub(crate) context: Bytes,
    /// What the process may use on the GPU.
    pub(crate) capacity: Bytes,
    /// What we expect nine runs in ten to need.
    pub(crate) interval: Option<Interval>,
    /// What we state where the context that was measured on the machine is known.
    pub(crate) known: Option<Known>,
    /// By position in [`ALL`]; `None` where an estimator does not answer about such a model.
    pub(crate) said: Vec<Option<Said>>,
    /// How long the simulation took.
    pub(crate) took: Option<Duration>,
}

/// What we say of a run whose context is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) said: Said,
    pub(crate) interval: Option<Interval>,
}

/// What one of them says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) estimate: Estimate,
    /// Whether it expects the run to survive.
    pub(crate) survives: bool,
    /// How long it took after the simulation.
    pub(crate) took: Option<Duration>,
}

/// A run, by the positions of its source and in it.
type Place = (usize, usize);

/// Ends of the names of model files, in the order in which they are tried.
const ENDINGS: [&str; 8] =
    ["", ".onnx", ".onnx.gz", ".pt2", ".pt2.gz", ".yaml", ".json", ".safetensors"];

/// The answers about all runs, in their order.
pub(crate) fn all(sources: &[Source], training: &Training) -> Vec<Vec<Answered>> {
    let mut by_model: BTreeMap<(usize, &str), Vec<Place>> = BTreeMap::new();
    for (at, source) in sources.iter().enumerate() {
        for (place, run) in source.runs.iter().enumerate() {
            by_model.entry((at, run.model.as_str())).or_default().push((at, place));
        }
    }
    let all = sources.iter().map(|source| source.runs.len()).sum();
    let progress = Progress::of("estimating {len} runs: {pos} of {len}", all);
    let groups: Vec<Vec<Place>> = by_model.into_values().collect();
    let answers: Vec<(Place, Answered)> = groups
        .into_par_iter()
        .flat_map(|group| of_model(sources, group, training, &progress))
        .collect();
    drop(progress);
    let mut table: Vec<Vec<Answered>> = sources
        .iter()
        .map(|source| source.runs.iter().map(|_| Err(String::new())).collect())
        .collect();
    for ((source, run), answer) in answers {
        if let Some(slot) = table.get_mut(source).and_then(|runs| runs.get_mut(run)) {
            *slot = answer;
        }
    }
    table
}

/// The answers about runs of one model.
fn of_model(
    sources: &[Source],
    group: Vec<Place>,
    training: &Training,
    progress: &Progress,
) -> Vec<(Place, Answered)> {
    let Some(&(at, first)) = group.first() else { return Vec::new() };
    let source = &sources[at];
    let model = open(source, &source.runs[first]);
    let answer = |&(_, place): &Place| {
        let run = &source.runs[place];
        let model = model.as_ref().map_err(Clone::clone)?;
        let config = configuration(model, run, &[&source.training, training])?;
        of(model, &config).map_err(|error| error.to_string())
    };
    let answered = group.into_par_iter().map(|place| {
        let answered = answer(&place);
        progress.advance();
        (place, answered)
    });
    answered.collect()
}

fn of(model: &Model, config: &Config) -> Result<Answer, Error> {
    let start = Instant::now();
    let mut stages = Stages::default();
    // A user knows the card, but not what its driver and libraries take on this machine.
    let asked = Config { context: None, ..config.clone() };
    let simulation = model.simulate(&asked, &mut stages)?;
    let verdict = simulation.verdict();
    let context = config.context.unwrap_or(verdict.context);
    let run = estimators::Run::of(model, &simulation, &mut stages)?.with_measured_context(context);
    let evidence = Evidence::of(&run);
    let took = Some(start.elapsed());
    let said = ALL.iter().map(|estimator| say(*estimator, &evidence)).collect();
    let known = match config.context {
        Some(_) => known(model, config, &mut stages)?,
        None => None,
    };
    let (capacity, interval) = (verdict.usable(), verdict.interval);
    Ok(Answer { context, capacity, interval, known, said, took })
}

fn known(model: &Model, config: &Config, stages: &mut Stages) -> Result<Option<Known>, Error> {
    let simulation = model.simulate(config, stages)?;
    let interval = simulation.verdict().interval;
    let run = estimators::Run::of(model, &simulation, stages)?;
    let said = say(ALL[0], &Evidence::of(&run));
    Ok(said.map(|said| Known { said, interval }))
}

fn say(estimator: &dyn Estimator, evidence: &Evidence<'_>) -> Option<Said> {
    let start = Instant::now();
    let estimate = estimator.estimate(evidence).ok()?;
    let took = Some(start.elapsed());
    Some(Said { estimate, survives: estimator.survives(evidence, estimate), took })
}

/// The run's own settings come after those of all runs, and these after what the model suggests.
fn configuration(model: &Model, run: &Run, shared: &[&Training]) -> Result<Config, String> {
    let of_run = Training::read(&run.settings)?;
    let mut config = model.defaults().clone();
    for training in shared.iter().copied().chain([&of_run]) {
        config = training.over(&config, model).map_err(|error| error.to_string())?;
    }
    for dim in model.open_dims() {
        let length = run.seq.filter(|_| dim.is_length());
        let size = if dim.batch { Some(run.batch) } else { length };
        config.dims.extend(size.map(|size| (dim.name, size)));
    }
    config.capacity = run.capacity.or(config.capacity);
    Ok(config)
}

/// The model of a run: its own description, a file, or a name of the catalogue.
fn open(source: &Source, run: &Run) -> Result<Model, String> {
    if let Some(spec) = &run.spec {
        let read = highwater_core::open(&mut spec.as_bytes(), "row.yaml");
        return read.map_err(|error| error.to_string());
    }
    let folder = source.file.parent().map(Path::to_owned).unwrap_or_default();
    let folders = [folder].into_iter().chain(source.about.models.iter().cloned());
    let names: Vec<PathBuf> = folders
        .flat_map(|folder| ENDINGS.map(|end| folder.join(format!("{}{end}", run.model))))
        .collect();
    let Some(path) = names.iter().find(|path| path.is_file()) else {
        // There is no such file, so that it is a name; or the message states what is known.
        let name = Path::new(&run.model);
        return crate::file_or_name(name).map_err(|error| crate::locate(name, &error));
    };
    let opened = if path.extension().is_some_and(|end| end == "gz") {
        unpacked(path).and_then(|bytes| {
            let name = path.with_extension("");
            highwater_core::open(&mut bytes.as_slice(), &name.to_string_lossy())
                .map_err(|error| error.to_string())
        })
    } else {
        crate::file_or_name(path).map_err(|error| error.to_string())
    };
    opened.map_err(|error| format!("{}: {error}", path.display()))
}

fn unpacked(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let (file, _) = regular(path).map_err(|error| error.to_string())?;
    let read = GzDecoder::new(file).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| format!("cannot unpack: {error}"))
}
