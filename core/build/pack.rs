//! Packs the choices of cuDNN, which people read as text, into columns of bytes: the page carries
//! them, and columns are a third smaller on the wire.
//!
//! A part is the lengths of four columns, four bytes each, the lower first; then the columns:
//! - the head: a line `plan filled+4` for each plan, the commonest first, and a line
//!   `for 8.0 forward half` with the number of its nodes for each tree;
//! - nodes: a byte for each, in preorder. Below 16 it is a split, and says by which measure; up to 254 an
//!   answer, the plan of that number less 16; 255 says that the plan's number is the next of the rare ones;
//! - rare numbers, two bytes, the lower first;
//! - the limits of all splits, their lower bytes and then their higher ones.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

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
const SOURCE: &str = "choices.txt";
/// The capability of the card that is assumed where nobody chose one.
const NEAR: &str = "8.0 ";
/// Codes below this one are splits.
const FIRST_PLAN: usize = 16;
/// The code of a plan that has none of its own.
const RARE: u8 = 255;

/// Two parts: the trees that the page's program carries, and those that it fetches when a run needs one.
pub(crate) fn packed(text: &str) -> Result<[Vec<u8>; 2], Box<dyn Error>> {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    let mut is_near = false;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(heading) = line.strip_prefix("for ") {
            is_near = heading.starts_with(NEAR) && !heading.contains("half");
        }
        if is_near { &mut near } else { &mut far }.push(line);
    }
    Ok([pack(&near)?, pack(&far)?])
}

/// The name of the file that the page fetches, which no other version of the trees has.
pub(crate) fn name(far: &[u8]) -> String {
    let hash = far
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("choices-{hash:08x}.bin")
}

fn pack(lines: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
    let lines = || lines.iter().copied();
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
    let columns = [head.into_bytes(), nodes, rare, low];
    let mut part = Vec::new();
    for column in &columns {
        part.extend(u32::try_from(column.len())?.to_le_bytes());
    }
    part.extend(columns.concat());
    Ok(part)
}
