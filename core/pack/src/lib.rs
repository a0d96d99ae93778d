//! Packs what programs carry or fetch: the choices of cuDNN, and texts without their comments. Builds use it.
//!
//! People read the choices as text. The page fetches them in columns of bytes, which are a third smaller on the wire.
//!
//! A part is the lengths of four columns, four bytes each, the lower first; then the columns:
//! - the head: a line `plan filled+4` for each plan, the commonest first, and a line
//!   `for forward line` with the number of its nodes for each tree;
//! - nodes: a byte for each, in preorder. Below 16 it is a split, and says by which measure; up to 254 an
//!   answer, the plan of that number less 16; 255 says that the plan's number is the next of the rare ones;
//! - rare numbers, two bytes, the lower first;
//! - the limits of all splits, their lower bytes and then their higher ones.

mod near;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub use near::near;

/// Measures of a layer, as `choice.rs` numbers them.
const MEASURES: [&str; 15] = [
    "n",
    "c",
    "h",
    "w",
    "k",
    "g",
    "r",
    "s",
    "p",
    "q",
    "stride",
    "cg",
    "kg",
    "dilation",
    "positions",
];
/// The layers of the page's examples, which are no part.
const EXAMPLES: &str = "examples";
/// Instead of a plan: the part that a program fetches tells.
const ELSEWHERE: &str = "?";
/// Texts that programs for the browser fetch and others carry.
pub const FETCHED: [Fetched; 7] = [
    Fetched::of("formulas", "engine", "src/aten/formula/operators.txt"),
    Fetched::of("models", "formats", "src/formats/catalogue/models.txt"),
    Fetched::of("families", "formats", "src/formats/hf_config/families"),
    Fetched::of("schedtune", "", "src/estimators/learned/schedtune.txt"),
    Fetched::of("gpumemnet-mlp", "", "src/estimators/learned/gpumemnet-mlp.txt"),
    Fetched::of("gpumemnet-transformer", "", "src/estimators/learned/gpumemnet-transformer.txt"),
    Fetched::of("dnnperf", "", "src/estimators/learned/dnnperf.txt"),
];
/// Codes below this one are splits.
const FIRST_PLAN: usize = 16;
/// The code of a plan that has none of its own.
const RARE: u8 = 255;

/// What packing gives, or why it cannot be done.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A text that programs for the browser fetch and others carry.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// The stem of the file.
    pub stem: &'static str,
    /// The folder of its crate in `core`; empty for `core` itself.
    pub package: &'static str,
    /// The source in that folder.
    pub source: &'static str,
}

impl Fetched {
    const fn of(stem: &'static str, package: &'static str, source: &'static str) -> Self {
        Self { stem, package, source }
    }

    /// The file, which programs for the browser fetch: its name, and what is in it. `folder` is the crate's.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn file(&self, folder: &Path) -> Result<(String, String)> {
        let source = folder.join(self.source);
        let text = if source.is_dir() { families(&source)? } else { table(&source)? };
        Ok((format!("{}-{:08x}.bin", self.stem, fingerprint(text.as_bytes())), text))
    }
}

/// Writes the texts of a crate whose build this is, for `apart::text!`: their files' names and what is in them.
///
/// # Errors
/// A text cannot be read or written.
pub fn write_fetched(package: &str, folder: &Path) -> Result<()> {
    #[expect(clippy::print_stdout, reason = "this is how Cargo is told what a build reads")]
    for fetched in FETCHED.iter().filter(|fetched| fetched.package == package) {
        println!("cargo::rerun-if-changed={}", fetched.source);
        let (file, text) = fetched.file(Path::new(""))?;
        fs::write(folder.join(format!("{}.file", fetched.stem)), file)?;
        fs::write(folder.join(format!("{}.txt", fetched.stem)), text)?;
    }
    Ok(())
}

/// What a program fetches for a compute capability and a precision.
#[derive(Debug)]
pub struct Part {
    /// `8.0-half`.
    pub title: String,
    /// The name of the file, which no other version of the trees has.
    pub file: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The parts in a folder of text, by their titles.
///
/// # Errors
/// The folder cannot be read, or has something else.
pub fn parts(folder: &Path) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if title != EXAMPLES {
            let bytes = pack(fs::read_to_string(&path)?.lines())?;
            let file = format!("choices-{title}-{:08x}.bin", fingerprint(&bytes));
            parts.push(Part { title, file, bytes });
        }
    }
    parts.sort_by(|a, b| a.title.cmp(&b.title));
    Ok(parts)
}

/// A table of text whose lines of comment begin with `//`, without these.
///
/// # Errors
/// The file cannot be read.
pub fn table(source: &Path) -> Result<String> {
    let text = fs::read_to_string(source)?;
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    Ok(rows.flat_map(|row| [row, "\n"]).collect())
}

/// The `.family` files of a folder, each after a line `# NAME`. Their lines keep their numbers, and comments go.
fn families(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().ok_or("a family has a name")?.to_string_lossy().into_owned();
        files.push((name, fs::read_to_string(&path)?));
    }
    files.sort();
    let mut text = String::new();
    for (name, file) in files {
        writeln!(text, "# {name}")?;
        for line in file.lines() {
            let is_comment = line.trim_start().starts_with('#');
            writeln!(text, "{}", if is_comment { "" } else { line })?;
        }
    }
    Ok(text)
}

/// A question: `n 16`.
fn split(line: &str) -> Result<(usize, u16)> {
    let (name, limit) = line.split_once(' ').ok_or_else(|| wrong(line))?;
    let measure = MEASURES.iter().position(|&known| known == name).ok_or_else(|| wrong(line))?;
    Ok((measure, limit.parse()?))
}

fn wrong(line: &str) -> Box<dyn Error> {
    format!("`{line}` is no line of a tree").into()
}

/// FNV-1a, as the page's worker computes it of what arrives: enough to notice another version.
pub fn fingerprint(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

/// The plan that a line answers with.
fn answer(line: &str) -> Option<&str> {
    line.strip_prefix('=').or_else(|| (line == ELSEWHERE).then_some(line))
}

/// A part, of its lines.
fn pack<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<u8>> {
    let lines: Vec<&str> = lines.collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for plan in lines.iter().copied().filter_map(answer) {
        *counts.entry(plan).or_default() += 1;
    }
    let mut plans: Vec<_> = counts.into_iter().collect();
    plans.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut head = String::new();
    for (plan, _) in &plans {
        writeln!(head, "plan {plan}")?;
    }
    let codes: BTreeMap<_, _> = plans.iter().enumerate().map(|(n, &(plan, _))| (plan, n)).collect();

    let (mut nodes, mut rare, mut low, mut high) = (vec![], vec![], vec![], vec![]);
    let mut tree: Option<(&str, usize)> = None;
    for line in lines.into_iter().chain(["for "]) {
        if let Some(heading) = line.strip_prefix("for ") {
            if let Some((heading, begun)) = tree {
                writeln!(head, "for {heading} {}", nodes.len() - begun)?;
            }
            tree = Some((heading, nodes.len()));
        } else if let Some(plan) = answer(line) {
            let code = codes.get(plan).copied().unwrap_or_default();
            match u8::try_from(code + FIRST_PLAN) {
                Ok(byte) if byte < RARE => nodes.push(byte),
                _ => {
                    nodes.push(RARE);
                    rare.extend(u16::try_from(code)?.to_le_bytes());
                }
            }
        } else {
            let (measure, limit) = split(line)?;
            let [lower, higher] = limit.to_le_bytes();
            nodes.push(u8::try_from(measure)?);
            low.push(lower);
            high.push(higher);
        }
    }
    low.extend(high);
    let columns = [head.into_bytes(), nodes, rare, low];
    let mut part = Vec::new();
    for column in &columns {
        part.extend(u32::try_from(column.len())?.to_le_bytes());
    }
    part.extend(columns.concat());
    Ok(part)
}
