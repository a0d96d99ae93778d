//! Packs the choices of cuDNN, which people read as text, into columns of bytes: the page carries
//! them, and columns are a third smaller on the wire.
//!
//! - `choices.head`: a line `plan filled+4` for each plan, the commonest first, and a line
//!   `for 8.0 forward half` with the number of its nodes for each tree;
//! - `choices.nodes`: a byte for each node, in preorder. Below 16 it is a split, and says by which
//!   measure; up to 254 an answer, the plan of that number less 16; 255 says that the plan's number is
//!   the next in `choices.rare`, two bytes, the lower first;
//! - `choices.limits`: the limits of all splits, their lower bytes and then their higher ones.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

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
const SOURCE: &str = "src/aten/conv/workspace/choices.txt";
/// Codes below this one are splits.
const FIRST_PLAN: usize = 16;
/// The code of a plan that has none of its own.
const RARE: u8 = 255;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let text = fs::read_to_string(SOURCE)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this is how Cargo says where the output belongs"
    )]
    let folder = std::env::var("OUT_DIR")?;
    for (name, bytes) in pack(&text)? {
        fs::write(Path::new(&folder).join(name), bytes)?;
    }
    Ok(())
}

/// A file to write: its name and what is in it.
type Column = (&'static str, Vec<u8>);

fn pack(text: &str) -> Result<[Column; 4], Box<dyn Error>> {
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for plan in lines().filter_map(|line| line.strip_prefix('=')) {
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
    for line in lines().chain(["for "]) {
        if let Some(heading) = line.strip_prefix("for ") {
            if let Some((heading, begun)) = tree {
                writeln!(head, "for {heading} {}", nodes.len() - begun)?;
            }
            tree = Some((heading, nodes.len()));
        } else if let Some(plan) = line.strip_prefix('=') {
            let code = codes.get(plan).copied().unwrap_or_default();
            match u8::try_from(code + FIRST_PLAN) {
                Ok(byte) if byte < RARE => nodes.push(byte),
                _ => {
                    nodes.push(RARE);
                    rare.extend(u16::try_from(code)?.to_le_bytes());
                }
            }
        } else {
            let wrong = || format!("{SOURCE}: `{line}` is no line of a tree");
            let (name, limit) = line.split_once(' ').ok_or_else(wrong)?;
            let measure = MEASURES.iter().position(|&known| known == name).ok_or_else(wrong)?;
            let [lower, higher] = limit.parse::<u16>()?.to_le_bytes();
            nodes.push(u8::try_from(measure)?);
            low.push(lower);
            high.push(higher);
        }
    }
    low.extend(high);
    Ok([
        ("choices.head", head.into_bytes()),
        ("choices.nodes", nodes),
        ("choices.rare", rare),
        ("choices.limits", low),
    ])
}
