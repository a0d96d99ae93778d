//! Sets up, serves, tests and checks the project: the commands of the README.
//!
//! | module | concern |
//! |---|---|
//! | [`process`] | running other programs, with readable errors |
//! | [`place`] | paths of the checkout and the cache |
//! | [`progress`] | the current step, for the terminal and the waiting page |
//! | [`cargo`] | builds by cargo, whose progress is shown |
//! | [`toolchain`] | a compiler that can build for the browser |
//! | [`tools`] | a browser, Node |
//! | [`pack`] | cuDNN's choices in columns of bytes |
//! | [`manifest`] | the list of the page's parts in `index.html` |
//! | [`bindgen`] | the tool that splits the page's program, compiled once and kept |
//! | [`program`] | the page's program, compiled and split |
//! | [`site`] | the page's files, put together |
//! | [`taught`] | the texts of the lessons, which are the page's |
//! | [`docs`] | the pages of the documentation |
//! | [`offline`] | the list of files for visits without a network |
//! | [`hosting`] | headers for hosts, and compressed files |
//! | [`page`] | the static page in `dist/` |
//! | [`weight`] | the size of the page, and its limits |
//! | [`watch`] | notices changes of the page's sources |
//! | [`waiting`] | the page that is shown during a build |
//! | [`server`] | `dist/` over HTTP, on this machine only |
//! | [`oracle`] | compares our events with recorded ones |
//! | [`tidy`] | project rules that no lint checks |
//! | [`words`] | phrases that texts for readers do not have |
//! | [`schedulers`] | the examples for schedulers, with real ones |
//! | [`python`] | the Python package: its wheel, its tests |
//! | [`release`] | the version, and the text of its release |
//! | [`checks`] | all checks that a change must pass |
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks on its terminal")]

mod process;

mod place;

mod progress;

mod cargo;

mod toolchain;
mod tools;

mod manifest;

mod bindgen;

mod program;
mod site;

#[path = "../../app/src/model/lessons/table.rs"]
#[expect(dead_code, reason = "only the page uses the rest")]
mod taught;

mod docs;

mod offline;

mod hosting;

mod page;
mod weight;

mod watch;

mod waiting;

mod server;

mod oracle;

mod words;

mod tidy;

mod schedulers;

mod python;
mod release;

mod checks;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::{Result, While as _, command, run};
use crate::program::Flavour;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Sets up, serves, tests and checks Highwater")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up what is missing, build the page and serve it on this machine
    Serve {
        /// Port to listen on
        #[arg(long, default_value_t = 8080)]
        port: u16,
        /// Build what people get, as `build` does: small, in minutes; else what is served is quick to build
        #[arg(long)]
        small: bool,
    },
    /// Build the static page into dist/ and weigh it
    Build {
        /// Let clippy compile our crates, as the tests do
        #[arg(long)]
        linted: bool,
        /// Add each file compressed with Brotli and gzip, for hosts that serve such files
        #[arg(long)]
        compressed: bool,
    },
    /// Build the pages of the documentation alone, into a page that is in dist/ already
    Docs,
    /// Run every check: format, lints, tests, the page, the browser
    Test {
        /// Leave out everything that needs WebAssembly or a browser
        #[arg(long)]
        quick: bool,
    },
    /// Measure how long estimates take, and compare with the run that was saved last
    Bench {
        /// `save` keeps this run to compare with; `curve` measures the growth with the number of nodes alone
        what: Vec<String>,
    },
    /// Mutate inputs of every format for a while, and keep those that panic, take long or much memory
    Fuzz {
        /// How long, in minutes, all targets together
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// Where the random numbers begin: the same seed makes the same inputs
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Some of the targets, such as `onnx`
        targets: Vec<String>,
    },
    /// Run the examples for schedulers with a real Slurm and Ray, which are installed if they are missing
    Schedulers {
        /// Leave out those that are missing
        #[arg(long)]
        kept: bool,
    },
    /// Build the Python package's wheel and test it, in an environment that is installed if it is missing
    Python {
        /// Only install the environment
        #[arg(long)]
        prepare: bool,
        /// Test the library that the native checks have built, as `test` does
        #[arg(long, conflicts_with = "prepare")]
        built: bool,
    },
    /// Compare the events of a real run with ours, and say where they part
    DiffOracle {
        /// A model of the zoo, such as `resnet50`; with recorded events, its ONNX file
        model: String,
        /// Recorded events (`--events`), if any; one phase, such as `2:backward`, if not all; then,
        /// without recorded events, settings for `tests/oracle/oracle run`, such as `--batch 8`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compare modules and operators, one by one, with what the oracle recorded (`UPDATE_EXPECT=1`
    /// writes tests/operators.txt), or show the events of some
    Operators {
        /// Entries of tests/operators.txt, such as `nn.LeakyReLU`
        names: Vec<String>,
    },
    /// Predict many models by name, and say how near that is to what the oracle recorded
    Survey {
        /// Models, a line each, as in `tests/oracle/survey`
        list: PathBuf,
        /// Exports, with commas: train, eval, dynamo, pt2
        #[arg(long, default_value = "train,eval")]
        formats: String,
        /// A file for the table
        #[arg(long)]
        out: Option<PathBuf>,
        /// Predict from what is there already; ask and export nothing
        #[arg(long)]
        kept: bool,
    },
    /// Check the habits that no lint knows
    CheckTree,
    /// Print what `CHANGELOG.md` has about the version of a tag, such as v0.1.0
    Notes {
        /// Tag of this version
        tag: String,
    },
}

fn main() -> ExitCode {
    match perform(&Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: &Task) -> Result<()> {
    match *task {
        Task::Serve { port, small } => {
            serve(port, if small { Flavour::Small } else { Flavour::Quick })
        }
        Task::Build { linted, compressed } => {
            page::build(if linted { Flavour::Linted } else { Flavour::Small })?;
            weight::weigh()?;
            if compressed { hosting::compress() } else { Ok(()) }
        }
        Task::Docs => page::build_docs(),
        Task::Test { quick } => checks::run_all(quick),
        Task::Bench { ref what } => {
            let mut bench = command("cargo");
            bench.args("run --release -p highwater-core --example tools -- bench".split(' '));
            run(bench.args(what))
        }
        Task::Fuzz { minutes, seed, ref targets } => {
            let mut fuzz = command("cargo");
            let arguments = "run --profile fuzz --quiet --package highwater-fuzz --";
            fuzz.args(arguments.split(' ')).args([minutes.to_string(), seed.to_string()]);
            run(fuzz.args(targets))
        }
        Task::DiffOracle { ref model, ref arguments } => oracle::diff(model, arguments),
        Task::Operators { ref names } => {
            let mut test = command("cargo");
            let arguments =
                "test -q -p highwater-core --test it -- --ignored --nocapture operators::all";
            run(test.args(arguments.split(' ')).env("HIGHWATER_OPERATORS", names.join(" ")))
        }
        Task::Survey { ref list, ref formats, ref out, kept } => {
            oracle::survey(list, formats, out.as_deref(), kept)
        }
        Task::Schedulers { kept } => schedulers::test(!kept),
        Task::Python { prepare: true, .. } => python::prepare(),
        Task::Python { built: true, .. } => python::test_built(true),
        Task::Python { .. } => python::build_and_test(),
        Task::CheckTree => tidy::check(),
        Task::Notes { ref tag } => release::notes(tag),
    }
}

/// Serves the page, and builds it anew when its sources change.
fn serve(port: u16, flavour: Flavour) -> Result<()> {
    // The port first: whoever has it taken should not wait for a build to hear so.
    let listener = server::listen(port)?;
    let address = listener.local_addr().during("asking for the address")?;
    server::start(listener, place::dist());
    progress::say(format_args!("http://{address}/ shows how far the build is"));
    loop {
        let state = watch::sources()?;
        progress::begin();
        match page::build(flavour) {
            Ok(()) => {
                progress::end(None);
                progress::say(format_args!("Highwater is at http://{address}/ (stop with Ctrl+C)"));
                if flavour == Flavour::Quick {
                    progress::say(
                        "this is a quick build, larger and slower than what people get: `--small` builds that",
                    );
                }
            }
            Err(failure) => {
                eprintln!("error: {failure}");
                progress::end(Some(failure.to_string()));
                progress::say("waiting for a change of the sources (stop with Ctrl+C)");
            }
        }
        watch::wait_for_change(state)?;
    }
}
