//! What cuDNN's heuristics choose for a call: decision trees, learnt from its answers.
//!
//! `choices.txt` has one tree for each compute capability and direction, and more for kinds of
//! layers that are unlike those of most networks:
//!
//! - `for 8.0 forward` begins a tree, `for 8.0 forward half` one for half precision, and
//!   `for 8.0 forward half line` one for a [`Kind`];
//! - `n 16` asks whether `n` is at most 16: what follows answers if it is, and what follows that
//!   if not;
//! - `=filled+4` is an answer: a [`Plan`].
//!
//! `build/pack.rs` packs them, and says how. Programs for the browser carry those that most first answers
//! need, and fetch the others when a run does.

use std::sync::OnceLock;

use super::plan::Plan;
use super::{Direction, Kind, Shape, product};

/// What a tree may ask of a layer, as `build/pack.rs` numbers it.
const MEASURES: [fn(&Shape) -> u64; 15] = [
    |s| s.batch,
    |s| s.in_channels,
    |s| s.input.0,
    |s| s.input.1,
    |s| s.out_channels,
    |s| s.groups,
    |s| s.kernel.0,
    |s| s.kernel.1,
    |s| s.output.0,
    |s| s.output.1,
    |s| s.stride,
    Shape::group_in,
    Shape::group_out,
    |s| s.dilation,
    // Of all results in the batch, in blocks of 32.
    |s| product(&[s.batch, s.out_area()]).div_euclid(32),
];
/// The code of the commonest plan; those below are splits.
const FIRST_PLAN: u8 = 16;
/// The code of a plan whose number stands elsewhere.
const RARE: u8 = 255;

/// The compute capability whose trees every program carries, as `build/pack.rs` parts them.
const NEAR: (u32, u32) = (8, 0);

/// That a tree is needed which is in a file that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Apart;

#[derive(Clone, Copy, Debug)]
enum Node {
    /// Goes on with the next node if the measure is within the limit.
    Split {
        measure: fn(&Shape) -> u64,
        limit: u16,
        otherwise: usize,
    },
    Answer(Plan),
}

#[derive(Clone, Debug)]
struct Tree {
    capability: (u32, u32),
    direction: Direction,
    half: bool,
    kind: Kind,
    nodes: Vec<Node>,
}

impl Tree {
    fn answer(&self, shape: &Shape) -> Option<Plan> {
        let mut at = 0;
        loop {
            match *self.nodes.get(at)? {
                Node::Answer(plan) => return Some(plan),
                Node::Split { measure, limit, otherwise } => {
                    let next = at.saturating_add(1);
                    at =
                        if measure(shape) <= u64::from(limit) { next } else { otherwise.max(next) };
                }
            }
        }
    }
}

/// The columns that `build/pack.rs` made, each read from front to back.
struct Columns {
    plans: Vec<Plan>,
    nodes: std::slice::Iter<'static, u8>,
    rare: std::slice::Iter<'static, u8>,
    limits: std::iter::Zip<std::slice::Iter<'static, u8>, std::slice::Iter<'static, u8>>,
}

impl Columns {
    /// Reads one tree: `8.0 forward half line 120`.
    fn tree(&mut self, heading: &str) -> Option<Tree> {
        let (heading, count) = heading.rsplit_once(' ')?;
        let mut words = heading.split(' ');
        let (major, minor) = words.next()?.split_once('.')?;
        let capability = (major.parse().ok()?, minor.parse().ok()?);
        let direction = match words.next()? {
            "forward" => Direction::Forward,
            "data" => Direction::BackwardData,
            "filter" => Direction::BackwardFilter,
            _ => return None,
        };
        let mut rest = words.peekable();
        let half = rest.next_if_eq(&"half").is_some();
        let kind = rest.next().map_or(Some(Kind::Plain), Kind::named)?;
        let nodes = self.nodes(count.parse().ok()?)?;
        Some(Tree { capability, direction, half, kind, nodes })
    }

    /// Reads the nodes of one tree.
    fn nodes(&mut self, count: usize) -> Option<Vec<Node>> {
        let mut nodes: Vec<Node> = Vec::with_capacity(count);
        // Splits whose other side has not begun.
        let mut open: Vec<usize> = Vec::new();
        for at in 0..count {
            let code = *self.nodes.next()?;
            if code < FIRST_PLAN {
                let (&low, &high) = self.limits.next()?;
                let measure = *MEASURES.get(usize::from(code))?;
                let limit = u16::from_le_bytes([low, high]);
                open.push(at);
                nodes.push(Node::Split { measure, limit, otherwise: usize::MAX });
                continue;
            }
            let number = match code {
                RARE => u16::from_le_bytes([*self.rare.next()?, *self.rare.next()?]),
                _ => u16::from(code.checked_sub(FIRST_PLAN)?),
            };
            nodes.push(Node::Answer(*self.plans.get(usize::from(number))?));
            if let Some(Node::Split { otherwise, .. }) =
                open.pop().and_then(|split| nodes.get_mut(split))
            {
                *otherwise = at.saturating_add(1);
            }
        }
        open.is_empty().then_some(nodes)
    }
}

/// The trees of a part, or nothing where it is none.
fn read(part: &'static [u8]) -> Option<Vec<Tree>> {
    let (lengths, mut rest) = part.split_at_checked(16)?;
    let mut columns = lengths.chunks_exact(4).map(|length| {
        let length = u32::from_le_bytes(length.try_into().ok()?);
        let (column, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        rest = behind;
        Some(column)
    });
    let mut next = || columns.next().flatten();
    let (head, nodes, rare, limits) = (next()?, next()?, next()?, next()?);
    let head = str::from_utf8(head).ok()?;
    let (low, high) = limits.split_at_checked(limits.len().div_euclid(2))?;
    let plans = head.lines().filter_map(|line| line.strip_prefix("plan ")).map(Plan::parse);
    let mut columns = Columns {
        plans: plans.collect::<Option<_>>()?,
        nodes: nodes.iter(),
        rare: rare.iter(),
        limits: low.iter().zip(high),
    };
    let headings = head.lines().filter_map(|line| line.strip_prefix("for "));
    headings.map(|heading| columns.tree(heading)).collect()
}

/// Of single precision on [`NEAR`].
fn near() -> &'static [Tree] {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let part = include_bytes!(concat!(env!("OUT_DIR"), "/choices.near"));
    TREES.get_or_init(|| read(part).unwrap_or_default())
}

/// All others; `None` where they are in a file that cannot be had.
fn far() -> Option<&'static [Tree]> {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    if let Some(trees) = TREES.get() {
        return Some(trees);
    }
    let trees = read(part()?)?;
    Some(TREES.get_or_init(|| trees))
}

#[cfg(not(target_arch = "wasm32"))]
#[expect(clippy::unnecessary_wraps, reason = "the page's programs have it in a file")]
const fn part() -> Option<&'static [u8]> {
    Some(include_bytes!(concat!(env!("OUT_DIR"), "/choices.far")))
}

#[cfg(target_arch = "wasm32")]
fn part() -> Option<&'static [u8]> {
    LOADER.get().and_then(|load| load(FILE)).map(|bytes| &*bytes.leak())
}

/// Name of the file that [`set_loader`]'s function is asked for.
#[cfg(target_arch = "wasm32")]
const FILE: &str = include_str!(concat!(env!("OUT_DIR"), "/choices.name"));

/// How a file is read: its bytes, by its name.
#[cfg(target_arch = "wasm32")]
pub type Loader = fn(&str) -> Option<Vec<u8>>;

#[cfg(target_arch = "wasm32")]
static LOADER: OnceLock<Loader> = OnceLock::new();

/// In the browser, how files are read that a program for it does not carry: the function gets a file's name.
#[cfg(target_arch = "wasm32")]
pub fn set_loader(load: Loader) {
    // A second one would be the same.
    let _is_first = LOADER.set(load).is_ok();
}

/// The choice; `None` where no tree tells.
///
/// By the newest capability recorded that is not newer than this one, else by the oldest; by its tree for
/// plain layers where it has none for the kind.
///
/// # Errors
/// The tree is in a file that cannot be had.
pub(super) fn choose(
    capability: (u32, u32),
    direction: Direction,
    shape: &Shape,
) -> Result<Option<Plan>, Apart> {
    let half = shape.element <= 2;
    let far = if capability == NEAR && !half { &[] } else { far().ok_or(Apart)? };
    let is_meant = |tree: &&Tree| tree.direction == direction && tree.half == half;
    let of_direction = || near().iter().chain(far).filter(is_meant);
    let plain = || of_direction().filter(|tree| tree.kind == Kind::Plain);
    let nearest = plain()
        .filter(|tree| tree.capability <= capability)
        .max_by_key(|tree| tree.capability)
        .or_else(|| plain().min_by_key(|tree| tree.capability));
    let Some(nearest) = nearest else { return Ok(None) };
    let is_of_kind =
        |tree: &&Tree| tree.kind == shape.kind && tree.capability == nearest.capability;
    Ok(of_direction().find(is_of_kind).unwrap_or(nearest).answer(shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_is_understood() {
        let text = include_str!("choices.txt");
        let lines = |begins: &str| text.lines().filter(|line| line.starts_with(begins)).count();
        let trees: Vec<&Tree> = near().iter().chain(far().unwrap()).collect();
        assert_eq!(trees.len(), lines("for "));
        assert!(near().iter().all(|tree| tree.capability == NEAR && !tree.half));
        assert_eq!(near().iter().filter(|tree| tree.kind == Kind::Plain).count(), 3);
        for tree in &trees {
            for (at, node) in tree.nodes.iter().enumerate() {
                if let Node::Split { otherwise, .. } = *node {
                    assert!(at + 1 < otherwise && otherwise < tree.nodes.len());
                }
            }
            assert!(matches!(tree.nodes.last(), Some(Node::Answer(_))));
        }
        let answers = trees.iter().flat_map(|tree| &tree.nodes);
        let answers = answers.filter(|node| matches!(node, Node::Answer(_))).count();
        assert_eq!(answers, lines("="));
    }
}
