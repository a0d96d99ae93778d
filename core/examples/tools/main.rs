//! Programs for work on the project, one a word: `cargo run --release -p highwater-core --example tools -- WORD …`.
//!
//! | word | what |
//! |---|---|
//! | [`bench`] | where the time goes, compared with the run that was kept |
//! | [`cluster`] | the tables and pictures of `docs/cluster.md` |
//! | [`features`] | what learned estimators see of measured models |
//! | [`infer`] | types of every value beside those that files state |
//! | [`launches`] | the kernels of training steps, for `tests/times` |
//! | [`oracle`] | our answers beside the oracle's |
//! | [`replay`] | how fast the allocator replays |
//! | [`steps`] | how long a training step takes |
//!
//! They are one program, because linking it takes longer than compiling any of them. `scheduler.rs`, beside this
//! folder, is the example of how a program uses `highwater-core`.

mod bench;
mod cluster;
mod features;
mod infer;
mod launches;
mod oracle;
mod perceptron;
#[expect(clippy::cast_precision_loss, reason = "printed alone")]
mod published;
mod replay;
mod settings;
mod steps;

use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A word, and what it runs with the arguments behind it.
type Tool = (&'static str, fn(&[&str]) -> Result<()>);

const TOOLS: [Tool; 8] = [
    ("bench", bench::run),
    ("cluster", cluster::run),
    ("features", features::run),
    ("infer", infer::run),
    ("launches", launches::run),
    ("oracle", oracle::run),
    ("replay", replay::run),
    ("steps", steps::run),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (word, rest) = words.split_first().unwrap_or((&"", &[]));
    let found = TOOLS.iter().find(|(name, _)| name == word);
    let Some((_, tool)) = found else {
        let names = TOOLS.map(|(name, _)| name).join(", ");
        return Err(format!("`{word}` is none of {names}").into());
    };
    tool(rest)
}
