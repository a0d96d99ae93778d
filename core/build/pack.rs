//! Packs the choices of cuDNN, which people read as text, into columns of bytes: the page fetches
//! them, and columns are a third smaller on the wire.
//!
//! A part is the lengths of four columns, four bytes each, the lower first; then the columns:
//! - the head: a line `plan filled+4` for each plan, the commonest first, and a line
//!   `for forward line` with the number of its nodes for each tree;
//! - nodes: a byte for each, in preorder. Below 16 it is a split, and says by which measure; up to 254 an
//!   answer, the plan of that number less 16; 255 says that the plan's number is the next of the rare ones;
//! - rare numbers, two bytes, the lower first;
//! - the limits of all splits, their lower bytes and then their higher ones.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Measures of a layer, as `choice.rs` numbers them.
pub(crate) const MEASURES: [&str; 15] = [
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
pub(crate) const EXAMPLES: &str = "examples";
/// Instead of a plan: the part that a program fetches tells.
pub(crate) const ELSEWHERE: &str = "?";
/// Texts that programs for the browser fetch and others carry: the stem of the file, and its source in `src`.
pub(crate) const FETCHED: [(&str, &str); 7] = [
    ("formulas", "aten/formula/operators.txt"),
    ("models", "formats/catalogue/models.txt"),
    ("families", "formats/hf_config/families"),
    ("schedtune", "estimators/learned/schedtune.txt"),
    ("gpumemnet-mlp", "estimators/learned/gpumemnet-mlp.txt"),
    ("gpumemnet-transformer", "estimators/learned/gpumemnet-transformer.txt"),
    ("dnnperf", "estimators/learned/dnnperf.txt"),
];
/// Codes below this one are splits.
const FIRST_PLAN: usize = 16;
/// The code of a plan that has none of its own.
const RARE: u8 = 255;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a program fetches for a compute capability and a precision.
pub(crate) struct Part {
    /// `8.0-half`.
    pub(crate) title: String,
    /// The name of the file, which no other version of the trees has.
    pub(crate) file: String,
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
}

/// The parts in a folder of text, by their titles.
pub(crate) fn parts(folder: &Path) -> Result<Vec<Part>> {
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
pub(crate) fn table(source: &Path) -> Result<String> {
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

/// The file of a text, which programs for the browser fetch: its name, and what is in it.
pub(crate) fn fetched(stem: &str, source: &Path) -> Result<(String, String)> {
    let text = if source.is_dir() { families(source)? } else { table(source)? };
    Ok((format!("{stem}-{:08x}.bin", fingerprint(text.as_bytes())), text))
}

/// A question: `n 16`.
pub(crate) fn split(line: &str) -> Result<(usize, u16)> {
    let (name, limit) = line.split_once(' ').ok_or_else(|| wrong(line))?;
    let measure = MEASURES.iter().position(|&known| known == name).ok_or_else(|| wrong(line))?;
    Ok((measure, limit.parse()?))
}

pub(crate) fn wrong(line: &str) -> Box<dyn Error> {
    format!("`{line}` is no line of a tree").into()
}

/// FNV-1a, as the page's worker computes it of what arrives: enough to notice another version.
pub(crate) fn fingerprint(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

/// The plan that a line answers with.
fn answer(line: &str) -> Option<&str> {
    line.strip_prefix('=').or_else(|| (line == ELSEWHERE).then_some(line))
}

/// A part, of its lines.
pub(crate) fn pack<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<u8>> {
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
