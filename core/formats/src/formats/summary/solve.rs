//! Finds the arguments of layers from their input size, their output size, and their number of parameters.

use std::collections::BTreeMap;

use super::super::printed::Printed;
use super::table::{Row, Stated};
use super::{Node, name_of};
use crate::diagnostic::{Diagnostic, Severity};
use crate::formats::spec::Value;
use crate::sentence::Sentence;

/// SIZE: the largest window that is tried.
const WINDOW_MAX: u64 = 31;

/// Follows sizes through a table.
#[derive(Debug)]
pub(super) struct Solver {
    /// What flows, without the batch.
    x: Vec<u64>,
    overwrites: bool,
    /// Layers that several windows fit.
    several: Vec<Sentence>,
    /// Rows whose inside is not shown.
    hidden: Vec<Sentence>,
}

/// A convolution that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kernel {
    channels: u64,
    window: (u64, u64),
    groups: u64,
    bias: bool,
}

impl Solver {
    pub(super) fn new(input: &[u64], overwrites: bool) -> Self {
        Self { x: input.to_vec(), overwrites, several: Vec::new(), hidden: Vec::new() }
    }

    pub(super) fn notes(&self) -> Vec<Diagnostic> {
        let mut notes = Vec::new();
        if let Some(first) = self.several.first() {
            let message = say!(
                "several convolutions have the parameters of {first}, and the usual one is taken; so \
                 in {n} layers",
                first,
                n = self.several.len()
            );
            notes.push(Diagnostic::new(Severity::Info, "several-fit", message));
        }
        if let Some(first) = self.hidden.first() {
            let message = say!(
                "the table does not show what is inside of {first}, so that it is missing, as in {n} \
                 such rows; print it with a larger `depth`",
                first,
                n = self.hidden.len()
            );
            notes.push(Diagnostic::new(Severity::Error, "hidden-layers", message));
        }
        notes
    }

    pub(super) fn modules(&mut self, nodes: Vec<Node<'_>>) -> Vec<Printed> {
        let modules = nodes.into_iter().enumerate();
        modules
            .map(|(index, node)| {
                let mut module = self.module(node, "", 1);
                if module.name.is_empty() {
                    module.name = index.to_string();
                }
                module
            })
            .collect()
    }

    fn module(&mut self, node: Node<'_>, around: &str, nth: usize) -> Printed {
        let Node { row, class, children } = node;
        let name = row.name.clone().filter(|_| class == row.class);
        let name = name.or_else(|| name_of(around, &class, nth)).unwrap_or_default();
        let mut module = if children.is_empty() {
            self.leaf(row)
        } else {
            let children = self.children(&class, children);
            Printed::new("", &class, children)
        };
        module.name = name;
        module.place = row.place;
        module
    }

    fn children(&mut self, around: &str, nodes: Vec<Node<'_>>) -> Vec<Printed> {
        let begin = self.x.clone();
        let is_residual = ["BasicBlock", "Bottleneck"].contains(&around);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut children: Vec<Printed> = Vec::new();
        for node in nodes {
            let count = counts.entry(node.class.clone()).or_insert(0);
            *count = count.saturating_add(1);
            let count = *count;
            // The other way of a residual block begins where the block does.
            let is_way = is_residual && node.class == "Sequential";
            let behind = self.x.clone();
            if is_way {
                self.x.clone_from(&begin);
            }
            let mut child = self.module(node, around, count);
            if is_way {
                self.x = behind;
            }
            // What is called again is one module.
            if !child.name.is_empty() && children.iter().any(|known| known.name == child.name) {
                continue;
            }
            if child.name.is_empty() {
                child.name = children.len().to_string();
            }
            children.push(child);
        }
        children
    }

    fn leaf(&mut self, row: &Row) -> Printed {
        let x: Vec<u64> = match &row.input {
            Some(input) => input.iter().skip(1).copied().collect(),
            None => self.x.clone(),
        };
        let y: Vec<u64> = row.output.iter().skip(1).copied().collect();
        let mut leaf = Printed::new("", &row.class, Vec::new());
        let arguments = self.arguments(row, &x, &y);
        leaf.named = arguments.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
        if !y.is_empty() {
            self.x = y;
        }
        leaf
    }

    fn arguments(&mut self, row: &Row, x: &[u64], y: &[u64]) -> Vec<(&'static str, Value)> {
        let class = row.class.as_str();
        let out = y.first().copied().unwrap_or(1);
        let width = y.last().copied().unwrap_or(1);
        match class {
            "Conv1d" | "Conv2d" | "ConvTranspose2d" => self.convolution(row, x, y),
            "Linear" | "NonDynamicallyQuantizableLinear" => {
                let plain = row.parameters.div_euclid(width.max(1));
                let last = x.last().copied().unwrap_or(0);
                let whole = x.iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
                let reads = |n: u64| n == last || Some(n) == whole || x.first() == Some(&n);
                let bias = reads(plain.saturating_sub(1)) || !reads(plain);
                let features = if bias { plain.saturating_sub(1) } else { plain };
                vec![
                    ("in_features", features.max(1).into()),
                    ("out_features", width.into()),
                    ("bias", bias.into()),
                ]
            }
            "BatchNorm1d" | "BatchNorm2d" | "BatchNorm3d" | "SyncBatchNorm" => {
                vec![("num_features", row.parameters.div_euclid(2).max(1).into())]
            }
            "GroupNorm" => {
                let groups: u64 = if out.is_multiple_of(32) { 32 } else { 1 };
                vec![("num_groups", groups.into()), ("num_channels", out.into())]
            }
            "LayerNorm" => {
                let bias = row.parameters != width;
                vec![("normalized_shape", ints([width])), ("bias", bias.into())]
            }
            "RMSNorm" => vec![("normalized_shape", ints([width]))],
            "Embedding" => {
                let rows = row.parameters.div_euclid(width.max(1)).max(1);
                vec![("num_embeddings", rows.into()), ("embedding_dim", width.into())]
            }
            "MaxPool2d" | "AvgPool2d" | "MaxPool1d" | "AvgPool1d" => {
                let rank = if class.ends_with("1d") { 1 } else { 2 };
                let at = |list: &[u64], axis: usize| list.get(axis).copied().unwrap_or(1);
                let windows: Vec<[u64; 3]> =
                    (1..=rank).map(|axis| pool(at(x, axis), at(y, axis))).collect();
                let list = |part: fn(&[u64; 3]) -> u64| ints(windows.iter().map(part));
                vec![
                    ("kernel_size", list(|[window, _, _]| *window)),
                    ("stride", list(|[_, stride, _]| *stride)),
                    ("padding", list(|[_, _, padding]| *padding)),
                ]
            }
            "AdaptiveAvgPool2d" => vec![("output_size", ints(y.iter().skip(1).copied()))],
            "Upsample" | "UpsamplingNearest2d" | "UpsamplingBilinear2d" => {
                let last = x.last().copied().unwrap_or(1).max(1);
                vec![("scale_factor", width.div_euclid(last).max(1).into())]
            }
            "ReLU" | "ReLU6" | "SiLU" | "Hardswish" | "LeakyReLU" | "ELU" => {
                vec![("inplace", self.overwrites.into())]
            }
            "StochasticDepth" | "DropPath" => vec![("p", 0.1.into())],
            _ => {
                if row.parameters > 0 {
                    let (line, count) = (row.place.line, row.parameters);
                    self.hidden.push(say!(
                        "`{class}` (line {line}, {count} parameters)",
                        class,
                        line,
                        count
                    ));
                }
                Vec::new()
            }
        }
    }

    fn convolution(&mut self, row: &Row, x: &[u64], y: &[u64]) -> Vec<(&'static str, Value)> {
        let class = row.class.as_str();
        let transposed = class == "ConvTranspose2d";
        let out = y.first().copied().unwrap_or(1);
        let found = convolutions(row, x.first().copied(), out, transposed);
        let Some(kernel) = found.first().copied() else { return Vec::new() };
        let (height, wide) = kernel.window;
        let windows = if class == "Conv1d" { vec![height.max(wide)] } else { vec![height, wide] };
        if found.iter().any(|other| other.window != kernel.window) {
            self.several.push(say!("`{class}` (line {line})", class, line = row.place.line));
        }
        let mut steps = Vec::new();
        for (axis, &window) in (1..).zip(&windows) {
            let at = |list: &[u64]| list.get(axis).copied().unwrap_or(1);
            let half = window.saturating_sub(1).div_euclid(2);
            let step = if transposed {
                grow(at(x), at(y), window)
            } else {
                slide(at(x), at(y), window).map(|[stride, padding]| [stride, padding, 0])
            };
            steps.push(step.unwrap_or([1, half, 0]));
        }
        let list = |part: fn(&[u64; 3]) -> u64| ints(steps.iter().map(part));
        let mut arguments = vec![
            ("in_channels", kernel.channels.into()),
            ("out_channels", out.into()),
            ("kernel_size", ints(windows)),
            ("stride", list(|[stride, _, _]| *stride)),
            ("padding", list(|[_, padding, _]| *padding)),
            ("groups", kernel.groups.into()),
            ("bias", kernel.bias.into()),
        ];
        if transposed {
            arguments.push(("output_padding", list(|[_, _, extra]| *extra)));
        }
        arguments
    }
}

fn ints(list: impl IntoIterator<Item = u64>) -> Value {
    Value::Ints(list.into_iter().map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect())
}

/// Convolutions with a number of parameters: of the input's channels, or of others if none fits.
fn convolutions(row: &Row, channels: Option<u64>, out: u64, transposed: bool) -> Vec<Kernel> {
    const OTHERS: [u64; 12] = [3, 1, 4, 6, 16, 32, 64, 128, 256, 512, 1024, 2048];
    let candidates = channels.into_iter().chain(OTHERS);
    let mut found = candidates.map(|channels| kernels(row, channels, out, transposed));
    found.find(|found| !found.is_empty()).unwrap_or_default()
}

fn kernels(row: &Row, channels: u64, out: u64, transposed: bool) -> Vec<Kernel> {
    let mut found = Vec::new();
    for (bias, beside) in [(false, 0), (true, out)] {
        let Some(weights) = row.parameters.checked_sub(beside).filter(|&n| n > 0) else { continue };
        for groups in [1, channels, 2, 4, 8, 16, 32, 64] {
            let divides = |n: u64| groups > 0 && n.is_multiple_of(groups);
            if !divides(channels) || !divides(out) {
                continue;
            }
            let (whole, part) = if transposed { (channels, out) } else { (out, channels) };
            let pairs = whole.checked_mul(part.div_euclid(groups)).filter(|&n| n > 0);
            let Some(pairs) = pairs.filter(|&pairs| weights.is_multiple_of(pairs)) else {
                continue;
            };
            let area = weights.div_euclid(pairs);
            let window = match row.kernel.as_deref() {
                Some([.., height, wide]) => Some((*height, *wide)),
                Some([length]) => Some((*length, 1)),
                _ if row.class == "Conv1d" => (area <= WINDOW_MAX).then_some((area, 1)),
                _ => square(area),
            };
            let fits = |&(height, wide): &(u64, u64)| height.checked_mul(wide) == Some(area);
            if let Some(window) = window.filter(fits) {
                found.push(Kernel { channels, window, groups, bias });
            }
        }
    }
    found
}

/// A square window of this area, or a row of 3, 5 or 7.
fn square(area: u64) -> Option<(u64, u64)> {
    let side = area.isqrt();
    if side.checked_mul(side) == Some(area) && side <= WINDOW_MAX {
        return Some((side, side));
    }
    [3, 5, 7].contains(&area).then_some((1, area))
}

/// COUNT: places of a window.
fn places(n: u64, window: u64, stride: u64, padding: u64) -> Option<u64> {
    let room = n.checked_add(padding.checked_mul(2)?)?.checked_sub(window)?;
    room.checked_div_euclid(stride)?.checked_add(1)
}

/// Strides and paddings that give an output length for an input length and a window, the usual ones first.
fn slide(n: u64, made: u64, window: u64) -> Option<[u64; 2]> {
    let usual = if window.is_multiple_of(2) { 0 } else { window.div_euclid(2) };
    let paddings = [usual, 0].into_iter().chain(0..=window.min(WINDOW_MAX));
    let steps = |padding| (1..=8).chain([window]).map(move |stride| [stride, padding]);
    let mut all = paddings.flat_map(steps);
    all.find(|&[stride, padding]| places(n, window, stride, padding) == Some(made))
}

/// Stride, padding and output padding of a transposed convolution.
fn grow(n: u64, made: u64, window: u64) -> Option<[u64; 3]> {
    let all = (1..=8_u64).flat_map(|stride| {
        (0..=window.min(WINDOW_MAX).div_euclid(2))
            .flat_map(move |padding| (0..stride).map(move |extra| [stride, padding, extra]))
    });
    let makes = |&[stride, padding, extra]: &[u64; 3]| {
        let full =
            n.checked_sub(1)?.checked_mul(stride)?.checked_add(window)?.checked_add(extra)?;
        full.checked_sub(padding.checked_mul(2)?)
    };
    all.into_iter().find(|step| makes(step) == Some(made))
}

/// Window, stride and padding of a pool; which of those that fit is taken changes no memory.
fn pool(n: u64, made: u64) -> [u64; 3] {
    const USUAL: [[u64; 3]; 8] =
        [[2, 2, 0], [3, 2, 1], [3, 2, 0], [3, 1, 1], [2, 1, 0], [3, 3, 0], [2, 2, 1], [1, 1, 0]];
    let makes =
        |&[window, stride, padding]: &[u64; 3]| places(n, window, stride, padding) == Some(made);
    let window = n.checked_div_euclid(made).unwrap_or(1).max(1);
    USUAL.into_iter().find(makes).unwrap_or([window, window, 0])
}

/// What the first layer reads, without the batch, by what it makes.
pub(super) fn first_input(row: &Row, stated: Option<Stated>) -> Option<Vec<u64>> {
    const SIDES: [u64; 12] = [224, 299, 32, 28, 256, 64, 96, 128, 384, 227, 112, 512];
    let batch = row.output.first().copied().unwrap_or(1);
    let out = row.output.get(1).copied().unwrap_or(1);
    match row.class.as_str() {
        "Conv2d" => {
            let made = row.output.get(2).copied()?;
            let found = [3, 1, 4, 2].into_iter().flat_map(|n| kernels(row, n, out, false));
            let found = found.filter(|kernel| kernel.window.0 > 1);
            found.into_iter().find_map(|Kernel { channels, window: (window, _), .. }| {
                let is_usual = |[stride, padding]: [u64; 2]| {
                    stride <= window && padding.saturating_mul(2) <= window
                };
                let side = SIDES.into_iter().chain(1..=1024).find(|&side| {
                    slide(side, made, window).is_some_and(is_usual)
                        && is_about(stated, [batch, channels, side, side])
                });
                side.map(|side| vec![channels, side, side])
            })
        }
        "Linear" => {
            let width = row.output.last().copied()?;
            let features = row.parameters.checked_div_euclid(width)?.checked_sub(1)?.max(1);
            let middle = row.output.iter().skip(1).take(row.output.len().saturating_sub(2));
            Some(middle.copied().chain([features]).collect())
        }
        "Embedding" => row.output.get(1).map(|length| vec![*length]),
        _ if row.parameters == 0 => Some(row.output.iter().skip(1).copied().collect()),
        _ => None,
    }
}

/// Whether a tensor has about this number of bytes: a table rounds to hundredths.
fn is_about(stated: Option<Stated>, sizes: [u64; 4]) -> bool {
    let Some(Stated { hundredths, unit }) = stated else { return true };
    let bytes = sizes.iter().try_fold(400_u64, |all, n| all.checked_mul(*n));
    let wanted = hundredths.saturating_mul(unit);
    bytes.is_some_and(|bytes| bytes.abs_diff(wanted) <= unit)
}
