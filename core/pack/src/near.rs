//! What of cuDNN's choices the page's program carries, so that it answers for the page's examples before it
//! fetches anything.

use std::fs;
use std::path::Path;

use crate::{ELSEWHERE, EXAMPLES, MEASURES, Result, pack, split, wrong};

/// The capability of the card that is assumed where nobody chose one.
const NEAR: &str = "8.0";

/// Of the trees for the card that is assumed what the page's examples ask: the page's program carries it.
///
/// # Errors
/// The texts cannot be read, or are something else.
pub fn near(folder: &Path) -> Result<Vec<u8>> {
    let [trees, examples] =
        [NEAR, EXAMPLES].map(|title| fs::read_to_string(folder.join(format!("{title}.txt"))));
    let (trees, examples) = (trees?, examples?);
    let rows = examples.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<(&str, Vec<u64>)> = rows.map(example).collect::<Result<_>>()?;
    let (mut near, mut lines) = (Vec::new(), trees.lines());
    while let Some(line) = lines.next() {
        let words = line.strip_prefix("for ").ok_or_else(|| wrong(line))?;
        let kind = words.split_once(' ').map_or("plain", |(_, kind)| kind);
        let asking: Vec<&[u64]> =
            rows.iter().filter(|(of, _)| *of == kind).map(|(_, row)| row.as_slice()).collect();
        near.push(line);
        near.extend(asked(&mut lines, &asking)?);
    }
    pack(near.into_iter())
}

/// A line of the examples: `plain 32 3 224 …`, a kind and all measures.
fn example(line: &str) -> Result<(&str, Vec<u64>)> {
    let (kind, measures) = line.split_once(' ').ok_or_else(|| wrong(line))?;
    let measures =
        measures.split(' ').map(str::parse).collect::<std::result::Result<Vec<_>, _>>()?;
    if measures.len() == MEASURES.len() { Ok((kind, measures)) } else { Err(wrong(line)) }
}

/// Of a tree, which is read to its end, the lines that some rows reach.
fn asked<'a>(lines: &mut std::str::Lines<'a>, rows: &[&[u64]]) -> Result<Vec<&'a str>> {
    let line = lines.next().ok_or("a tree has no end")?;
    let mut result = vec![line];
    if !line.starts_with('=') {
        let (measure, limit) = split(line)?;
        let below = |row: &&[u64]| row.get(measure).is_some_and(|&value| value <= limit.into());
        let (small, large): (Vec<&[u64]>, Vec<&[u64]>) = rows.iter().partition(|row| below(row));
        for side in [small, large] {
            result.extend(asked(lines, &side)?);
        }
    }
    Ok(if rows.is_empty() { vec![ELSEWHERE] } else { result })
}
