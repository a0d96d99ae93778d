//! `highwater`: estimates from a shell or a scheduler.
//!
//! Reads arguments and a file, calls `highwater-core`, prints. This crate has the texts for terminals; the core
//! computes everything and writes all other forms. The program is [`main`]; the Python package asks [`answer_of`] about
//! a model that it holds.
//!
//! Exit status: 0 the estimate was made, 1 it does not fit and `--require` was given, 2 bad use or input.

mod advise;
mod answer;
mod args;
mod autopsy;
mod capacity;
mod catalogue;
mod compare;
mod estimators;
mod explain;
mod file;
mod foreign;
mod generation;
mod jobs;
mod named;
mod output;
mod pack;
mod picture;
mod plot;
mod progress;
mod recipe;
mod replay;
mod scale;
mod scoreboard;
mod screen;
mod serve;
mod share;
mod shell;
mod style;
mod table;
mod text;
mod time;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anstream::adapter::strip_str;
use clap::Parser as _;
use highwater_core::estimate::Stages;
use highwater_core::export::{self, Answer, Played, Requirement};
use highwater_core::{Error, ErrorKind, Model, Report, formats, say};

use crate::answer::Asked;
use crate::args::{Arguments, Estimate, Table, Task};
use crate::file::FileSource;
use crate::output::Output;

/// The answer was printed.
const ANSWERED: u8 = 0;
/// The model does not fit on a required device.
const DOES_NOT_FIT: u8 = 1;
/// Bad use or input; clap exits with the same.
const BAD_INPUT: u8 = 2;

/// The program: answers the arguments of its command line, and returns its exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => match foreign::explain(&error) {
            Some(message) => return complain(&message, BAD_INPUT),
            None => error.exit(),
        },
    };
    screen::look();
    let (output, status) = match run(&arguments.command, Models::default()) {
        Ok(outcome) => outcome,
        Err(message) => return complain(&message, BAD_INPUT),
    };
    let output = if arguments.command.is_for_people() { screen::fitted(&output) } else { output };
    match print(&output) {
        Ok(()) => status,
        Err(message) => complain(&message, BAD_INPUT),
    }
}

/// What a command prints about a model that is open already; its arguments are those behind `highwater`, with any name
/// in the model's place.
///
/// # Errors
/// Bad use or input, with the text that the command would print.
pub fn answer_of(model: &Model, arguments: &[String]) -> Result<String, String> {
    let arguments = parsed(arguments)?;
    let (output, _) = run(&arguments.command, Models(Some(model)))?;
    // Nobody knows where the text goes: it has no colours.
    Ok(strip_str(&output).to_string())
}

/// Checks the arguments behind `highwater`, as far as that needs no model.
///
/// # Errors
/// A flag or a value that there is not, with the text that the command would print.
pub fn check(arguments: &[String]) -> Result<(), String> {
    parsed(arguments).map(drop)
}

fn parsed(arguments: &[String]) -> Result<Arguments, String> {
    let program = "highwater".to_owned();
    Arguments::try_parse_from(std::iter::once(&program).chain(arguments))
        .map_err(|error| foreign::explain(&error).unwrap_or_else(|| args::in_a_line(&error)))
}

/// The model in a file; where there is no such file, the model of that name.
///
/// # Errors
/// The text that a command would print about it.
pub fn open(path: &Path) -> Result<Model, String> {
    file_or_name(path).map_err(|error| locate(path, &error))
}

/// Where a task has its model from: a file or a name, unless it is open already.
#[derive(Clone, Copy, Debug, Default)]
struct Models<'a>(Option<&'a Model>);

impl Models<'_> {
    /// The model in a file; where there is no such file, the model of that name.
    fn open(self, path: &Path) -> Result<Model, Error> {
        self.0.map_or_else(|| file_or_name(path), |model| Ok(model.clone()))
    }

    /// The model of an estimate: that of a recipe may be given by itself.
    fn open_estimated(self, arguments: &Estimate) -> Result<Model, Error> {
        self.0.map_or_else(|| open_estimated(arguments), |model| Ok(model.clone()))
    }
}

/// What a task prints, and the exit status.
fn run(task: &Task, models: Models<'_>) -> Result<(String, u8), String> {
    let at =
        |path: &Path, result: Result<String, Error>| result.map_err(|error| locate(path, &error));
    let output = match task {
        Task::Estimate(arguments) => return answered(arguments, models),
        Task::Advise(arguments) => advise::advise(arguments, models),
        Task::Explain(arguments) => explain::explain(arguments),
        Task::Replay(arguments) => at(&arguments.snapshot, replay::replay(arguments)),
        Task::Compare(arguments) => at(&arguments.model, compare_all(arguments, models)),
        Task::Time(arguments) => at(&arguments.question.model, time_steps(arguments, models)),
        Task::Scale(arguments) => at(&arguments.question.model, scale::scale(arguments, models)),
        Task::Share(arguments) => share::share(arguments),
        Task::Capacity(arguments) => at(&arguments.model, capacity::capacity(arguments)),
        Task::Pack(arguments) => pack::pack(arguments),
        Task::Scoreboard(arguments) => scoreboard::scoreboard(arguments),
        Task::Serve(arguments) => serve::serve(arguments).map(|()| String::new()),
        Task::Spec(arguments) => at(&arguments.model, spec(&arguments.model, models)),
        Task::Schema => Ok(formats::spec::schema()),
        Task::Operators => Ok(catalogue::operators()),
        Task::Devices => Ok(catalogue::devices()),
        Task::Models(arguments) => named::list(&arguments.text.join(" ")),
        Task::Open(arguments) => serve::open(arguments, models).map(|()| String::new()),
        Task::Completions(arguments) => Ok(shell::completions(arguments.shell)),
        Task::Man(arguments) => shell::man(arguments.folder.as_deref()),
    };
    output.map(|output| (output, ANSWERED))
}

/// Prints, and whatever was printed is to be read at once.
fn print(text: &str) -> Result<(), String> {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever reads has read enough: `highwater operators | head`.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write the answer: {error}"))
        }
        _ => Ok(()),
    }
}

/// Answers one question, or a file of jobs.
fn answered(arguments: &Estimate, models: Models<'_>) -> Result<(String, u8), String> {
    let Some(file) = &arguments.jsonl else { return estimate(arguments, models) };
    jobs::answer_lines(file).map(|()| (String::new(), ANSWERED))
}

/// What is left to print, and how to exit. The estimate for people is printed before other devices are
/// asked, which takes many times as long.
fn estimate(arguments: &Estimate, models: Models<'_>) -> Result<(String, u8), String> {
    let of_model = |error: Error| locate(&arguments.model, &error);
    let model = models.open_estimated(arguments).map_err(of_model)?;
    let config = arguments.config(&model).map_err(of_model)?;
    let mut stages = Stages::default();
    let simulation = model.simulate(&config, &mut stages).map_err(of_model)?;
    let report = simulation.report();
    let recorded = arguments
        .compare
        .as_ref()
        .map(|path| compare::open(path, &report.config).map_err(|error| locate(path, &error)));
    let recorded = recorded.transpose()?;
    let for_people = !arguments.json && !arguments.prints_export();
    if for_people {
        let recipe = model.recipe().map(|recipe| recipe::render(recipe, &report.config) + "\n");
        let report = text::first(&report, recorded.as_ref(), arguments.plots_in_report());
        print(&(screen::fitted(&recipe.unwrap_or_default()) + &report))?;
    }
    let output = Output { inputs: arguments.inputs(), force: arguments.force };
    if let Some(path) = &arguments.snapshot {
        output.write(path, &export::snapshot(&Played::of(&simulation)))?;
    }
    let asked = Asked::by(arguments, &report);
    let config = model.settled(&config, &mut stages).map_err(of_model)?;
    let ranks = model.ranks(&config, &mut stages).map_err(of_model)?;
    let times = if arguments.json {
        answer::times(&model, &config, &asked, &mut stages)
    } else {
        Vec::new()
    };
    let (devices, batch) = answer::devices(&model, &config, &asked, stages).map_err(of_model)?;
    let recipe = model.recipe().cloned();
    let require =
        Requirement { devices: arguments.require.clone(), chance: arguments.require_chance };
    let name = called(&model);
    let answer = Answer { name, batch, report, ranks, recipe, devices, require };
    let mut status = ANSWERED;
    for device in &answer.devices {
        let required = answer.require.devices.contains(&device.verdict.id);
        if required && !device.verdict.passes(answer.require.chance) {
            status = complain(&text::refusal(&answer, device), DOES_NOT_FIT);
        }
    }
    let mut printed = if arguments.json {
        export::timed_json(&answer, recorded.as_ref(), &times)
    } else if for_people {
        text::gpus(&answer)
    } else {
        String::new()
    };
    for (path, text) in exports(arguments, &answer, recorded.as_ref()) {
        if path.as_os_str() == "-" {
            printed = text;
        } else {
            output.write(&path, text.as_bytes())?;
        }
    }
    Ok((printed, status))
}

/// What is to be written in addition to the report, and where to; `-` stands for its place.
fn exports(
    arguments: &Estimate,
    answer: &Answer,
    recorded: Option<&Report>,
) -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    if let Some(path) = &arguments.markdown {
        texts.push((path.clone(), export::markdown(answer)));
    }
    if let Some(path) = &arguments.trace {
        texts.push((path.clone(), export::trace(answer)));
    }
    if let Some(path) = arguments.plot.as_ref().filter(|_| !arguments.plots_in_report()) {
        let is_printed = path.as_os_str() == "-";
        let draw = if is_printed { plot::for_screen } else { plot::for_file };
        texts.push((path.clone(), draw(&answer.report)));
    }
    if let Some(path) = &arguments.picture {
        texts.push((path.clone(), picture::svg(answer, recorded, arguments.dark)));
    }
    for (table, path) in &arguments.csv {
        let text = match table {
            Table::Timeline => export::timeline(&answer.report),
            Table::Tensors => export::tensors(&answer.report),
            Table::Devices => export::devices(answer),
        };
        texts.push((path.clone(), text));
    }
    texts
}

fn file_or_name(path: &Path) -> Result<Model, Error> {
    if let Some(entry) = named::find(path)? {
        return highwater_core::open_named(&entry);
    }
    highwater_core::open(&mut FileSource::with_parts(path)?, &path.to_string_lossy())
}

/// The model of an estimate: that of a recipe may be given by itself.
fn open_estimated(arguments: &Estimate) -> Result<Model, Error> {
    let (path, pytorch) = (&arguments.model, arguments.training.pytorch()?);
    if named::find(path)?.is_some() {
        return file_or_name(path);
    }
    let mut source = FileSource::with_parts(path)?;
    let Some(model) = &arguments.of else {
        return highwater_core::open_for(&mut source, &path.to_string_lossy(), pytorch);
    };
    if let Some(recipe) = highwater_core::recipe::open(&mut source, pytorch)? {
        return Ok(file_or_name(model)?.trained_by(recipe));
    }
    let message = say!("this is no training recipe, so that `--model` has no meaning");
    Err(Error::new(ErrorKind::BadConfig, message))
}

/// What all estimators say of a model.
fn compare_all(arguments: &args::Question, models: Models<'_>) -> Result<String, Error> {
    estimators::compare(&models.open(&arguments.model)?, arguments)
}

fn time_steps(arguments: &args::Timing, models: Models<'_>) -> Result<String, Error> {
    time::time(&models.open(&arguments.question.model)?, arguments)
}

/// The name of a model in answers: that of its file without folders, or its name in the catalogue.
fn called(model: &Model) -> String {
    let name = Path::new(model.name());
    name.file_name().unwrap_or(name.as_os_str()).to_string_lossy().into_owned()
}

/// What a file holds, as a layer spec.
fn spec(path: &Path, models: Models<'_>) -> Result<String, Error> {
    let model = models.open(path)?;
    let spec = model.spec().ok_or_else(|| {
        let format = &model.recognised().format;
        let message =
            say!("{format} contains operators and no layers, so there is no spec of it", format);
        Error::new(ErrorKind::WrongFormat, message)
    })?;
    Ok(spec.to_owned())
}

/// An error and the file it is about, which it may name already.
fn locate(path: &Path, error: &Error) -> String {
    let path = path.to_string_lossy();
    let message = error.to_string();
    if message.starts_with(&*path) { message } else { format!("{path}: {message}") }
}

/// Prints an error to stderr. If stderr is closed, only the exit status shows it.
fn complain(message: &str, status: u8) -> u8 {
    writeln!(anstream::stderr(), "{}error:{:#} {message}", style::BAD, style::BAD).ok();
    status
}
