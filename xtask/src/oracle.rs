//! Compares our events with recorded ones, or with those that the oracle records now.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{self, Path, PathBuf};

use crate::place;
use crate::process::{Failure, Result, While as _, command, output_of, run};
use crate::progress;

/// Exports that the oracle knows models of, and the file that names them to it.
const EXPORTS: [(&str, Option<&str>); 3] =
    [("train", None), ("outside", Some("outside.py")), ("measured", Some("measured.py"))];

/// Compares events.
///
/// `arguments` begin with a file of recorded events, else the oracle runs `model`; then a phase such
/// as `2:backward` may follow, then settings for the oracle.
///
/// # Errors
/// There is no such model, or no oracle to ask; or a program ends badly.
pub(crate) fn diff(model: &str, arguments: &[String]) -> Result<()> {
    let (events, arguments) = match arguments {
        [events, rest @ ..] if Path::new(events).is_file() => (Some(PathBuf::from(events)), rest),
        _ => (None, arguments),
    };
    let (phase, settings) = match arguments {
        [phase, rest @ ..] if !phase.starts_with('-') => (Some(phase), rest),
        _ => (None, arguments),
    };
    let (export, events) = match events {
        Some(events) if settings.is_empty() => (PathBuf::from(model), events),
        Some(_) => return Err(Failure::new("recorded events have their settings with them")),
        None => ask(model, settings)?,
    };
    let mut diff = command("cargo");
    diff.args("run --release -q -p highwater-core --example tools -- oracle diff".split(' '));
    run(diff.args([export, events]).args(phase))
}

/// Asks the oracle about many models, as far as it has not been asked yet, and predicts them all.
///
/// # Errors
/// There is no oracle to ask, or no such list; or a program ends badly.
pub(crate) fn survey(list: &Path, formats: &str, out: Option<&Path>, kept: bool) -> Result<()> {
    let oracle = oracle()?;
    let list = path::absolute(list).during("finding the list")?;
    let folder = place::root().join("target").join("oracle");
    fs::create_dir_all(&folder).during(format_args!("making {}", folder.display()))?;
    let index = folder.join("survey.jsonl");
    let mut ask = command(oracle.join("oracle"));
    ask.arg("survey").args([list.as_os_str(), OsStr::new(formats), index.as_os_str()]);
    run(if kept { ask.arg("--kept") } else { &mut ask })?;
    let mut predict = command("cargo");
    predict.args("run --release -q -p highwater-core --example tools -- oracle survey".split(' '));
    predict.arg(&index);
    let Some(out) = out else { return run(&mut predict) };
    let table = output_of(&mut predict)? + "\n";
    fs::write(out, table).during(format_args!("writing {}", out.display()))
}

/// The oracle's folder.
///
/// # Errors
/// Its environment is not set up.
fn oracle() -> Result<PathBuf> {
    let oracle = place::root().join("tests").join("oracle");
    let python = environment()?.join("venv").join("bin").join("python");
    if python.is_file() {
        return Ok(oracle);
    }
    Err(Failure::new(format!(
        "no oracle to ask: {} sets it up (8 GB, Linux on x86-64); or give a file of events",
        oracle.join("setup.sh").display()
    )))
}

/// Has the oracle record a run; gives our export of the model, and the events.
fn ask(model: &str, settings: &[String]) -> Result<(PathBuf, PathBuf)> {
    let oracle = oracle()?;
    let zoo = place::root().join("tests").join("fixtures").join("zoo");
    let find = |&(folder, further): &(&str, Option<&'static str>)| {
        let path = zoo.join(folder).join(format!("{model}.onnx.gz"));
        path.is_file().then_some((path, further))
    };
    let Some((export, further)) = EXPORTS.iter().find_map(find) else {
        return Err(Failure::new(format!("no {model}.onnx.gz under {}", zoo.display())));
    };
    let folder = place::root().join("target").join("oracle");
    fs::create_dir_all(&folder).during(format_args!("making {}", folder.display()))?;
    let events = folder.join(format!("{model}.jsonl.gz"));
    progress::say(format_args!("asking PyTorch about {model}"));
    let mut record = command(oracle.join("oracle"));
    record.args([OsStr::new("run"), OsStr::new(model)]).args(settings);
    record.arg("--events").arg(&events);
    if let Some(further) = further {
        record.env("ORACLE_ZOO", oracle.join(further));
    }
    run(&mut record)?;
    Ok((export, events))
}

/// Where `tests/oracle/setup.sh` puts the environment.
fn environment() -> Result<PathBuf> {
    match (env::var_os("ORACLE_HOME"), env::var_os("HOME")) {
        (Some(home), _) if !home.is_empty() => Ok(PathBuf::from(home)),
        (_, Some(home)) => Ok(Path::new(&home).join(".cache").join("highwater-oracle")),
        _ => Err(Failure::new("no place for the oracle: set HOME or ORACLE_HOME")),
    }
}
