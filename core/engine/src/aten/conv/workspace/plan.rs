//! The contents of cuDNN's workspace for a plan, by the kind of its kernel.
//!
//! The kinds of engines were derived from the sizes of 350 000 recorded plans. These rules give 97 to 99 % of the
//! sizes within 1 KiB, and most to the byte.

use super::{Direction, Shape, product};
use crate::bytes::Bytes;

/// COUNT: channel groups that one launch of a [`Copying::Filled`] plan does.
const GROUPS_AT_ONCE: u64 = 8;

/// A choice of the heuristics, as `choices/*.txt` write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// `0`: a kernel that reads NCHW and needs nothing.
    Nothing,
    /// `index`: one that does so with a table of offsets.
    Index,
    /// `winograd`: one that transforms 3x3 weights first.
    Winograd,
    /// `filled`, `filled+4`, `filled/128x64+4`: one that reads channels innermost, from copies,
    /// with the inner sum split or not.
    Copies(Copying, Option<Split>),
}

/// Which tensors are copied, and how many channels a copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    /// Channels in whole groups of 16 bytes; eight channel groups at a time.
    Filled,
    /// All channel groups, each filled up to a power of two or, beyond 32, to a multiple of 32.
    Packed,
    /// As [`Copying::Packed`], but the result leaves in NCHW.
    Streamed,
    /// Channels as they are.
    Plain,
    /// As [`Copying::Filled`], but only of tensors whose order or width does not suit.
    Fitting,
}

/// An inner sum that is split, so that all multiprocessors have work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// Rows and columns of the result's tiles that partial results consist of; whole without.
    tile: Option<(u64, u64)>,
    /// COUNT: partial results, in single precision.
    partials: u64,
}

impl Plan {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "0" => return Some(Self::Nothing),
            "index" => return Some(Self::Index),
            "winograd" => return Some(Self::Winograd),
            _ => {}
        }
        let (head, partials) = match text.split_once('+') {
            Some((head, partials)) => (head, Some(partials.parse().ok()?)),
            None => (text, None),
        };
        let (kind, tile) = match head.split_once('/') {
            Some((kind, tile)) => {
                let (rows, columns) = tile.split_once('x')?;
                (kind, Some((rows.parse().ok()?, columns.parse().ok()?)))
            }
            None => (head, None),
        };
        let kind = match kind {
            "filled" => Copying::Filled,
            "packed" => Copying::Packed,
            "streamed" => Copying::Streamed,
            "plain" => Copying::Plain,
            "fitting" => Copying::Fitting,
            _ => return None,
        };
        Some(Self::Copies(kind, partials.map(|partials| Split { tile, partials })))
    }

    /// SIZE: the workspace.
    pub(super) fn scratch(self, shape: &Shape, direction: Direction) -> Bytes {
        match self {
            Self::Nothing => Bytes::ZERO,
            Self::Index => index(shape, direction),
            Self::Winograd => winograd(shape, direction),
            Self::Copies(kind, split) => {
                let copies = Copies { kind, shape, direction };
                let split = split.map_or(0, |split| copies.split(split));
                Bytes(copies.size().saturating_add(split))
            }
        }
    }

    /// What is chosen in this one's stead if the tensors have their channels innermost already, as
    /// cuDNN answers for most layers of networks: kernels that read NCHW, or write it, give way to
    /// those that do not. In half precision sums are split for the weight's gradient only.
    pub(super) const fn in_order(self, element: u64, direction: Direction) -> Self {
        let is_kept = match self {
            Self::Copies(..) => element > 2 || matches!(direction, Direction::BackwardFilter),
            Self::Nothing => element > 2 && !matches!(direction, Direction::BackwardData),
            Self::Index | Self::Winograd => {
                element > 2 && matches!(direction, Direction::BackwardFilter)
            }
        };
        match self {
            Self::Copies(Copying::Streamed, split) if element > 2 => {
                Self::Copies(Copying::Packed, split)
            }
            _ if is_kept => self,
            _ => Self::Copies(Copying::Filled, None),
        }
    }
}

/// SIZE: six bytes for each position of the result, in blocks; for its input, 2 KiB more.
fn index(shape: &Shape, direction: Direction) -> Bytes {
    let (positions, more) = match direction {
        Direction::BackwardData => (shape.in_area(), 2176),
        _ => (shape.out_area(), 0),
    };
    let blocks = positions.saturating_mul(6).div_euclid(128).saturating_add(1);
    Bytes(blocks.saturating_mul(128).saturating_add(more))
}

/// SIZE: 25 numbers for each 3x3 filter, 16 of them for whole blocks of channels, and one number
/// for each channel of the result.
fn winograd(shape: &Shape, direction: Direction) -> Bytes {
    let (inner, results) = match direction {
        Direction::Forward => (shape.in_channels, shape.out_channels),
        _ => (shape.out_channels, shape.in_channels),
    };
    let blocks = product(&[16, multiple(results, 32), multiple(inner, 8)]);
    let numbers = product(&[9, results, inner]).saturating_add(blocks).saturating_add(results);
    Bytes(numbers.saturating_mul(4))
}

fn multiple(channels: u64, of: u64) -> u64 {
    channels.checked_next_multiple_of(of).unwrap_or(channels)
}

/// A plan that copies, for one call.
#[derive(Clone, Copy)]
struct Copies<'a> {
    kind: Copying,
    shape: &'a Shape,
    direction: Direction,
}

impl Copies<'_> {
    /// COUNT: channels of one group in a copy.
    fn fill(&self, channels: u64) -> u64 {
        let shape = self.shape;
        match self.kind {
            Copying::Plain => channels,
            Copying::Packed | Copying::Streamed if shape.groups > 1 => match channels {
                0..=4 => 4,
                5..=32 => channels.next_power_of_two(),
                _ => multiple(channels, 32),
            },
            _ => multiple(channels, 16_u64.div_euclid(shape.element).max(1)),
        }
    }

    fn group_in(&self) -> u64 {
        self.fill(self.shape.group_in())
    }

    fn group_out(&self) -> u64 {
        self.fill(self.shape.group_out())
    }

    /// COUNT: channel groups in one launch.
    fn groups(&self) -> u64 {
        match self.kind {
            Copying::Packed | Copying::Streamed => self.shape.groups,
            _ => self.shape.groups.min(GROUPS_AT_ONCE),
        }
    }

    /// SIZE: all copies, with a header of 16 bytes for each launch's groups.
    fn size(&self) -> u64 {
        let Self { shape, direction, .. } = *self;
        let (c, k) = (self.group_in(), self.group_out());
        let (c_suits, k_suits) = (c == shape.group_in(), k == shape.group_out());
        let images = shape.batch;
        let input = (Direction::BackwardData, c_suits, shape.in_area(), [images, c]);
        let output = (Direction::Forward, k_suits, shape.out_area(), [images, k]);
        let weight = (Direction::BackwardFilter, c_suits && k_suits, shape.kernel_area(), [c, k]);
        let elements = [input, output, weight].map(|(result_of, width_suits, area, others)| {
            let is_result = direction == result_of;
            // The groups of a weight lie in each other's way in any order.
            let together = shape.groups == 1 || result_of != Direction::BackwardFilter;
            let ordered = if is_result && self.kind == Copying::Streamed {
                !shape.channels_last
            } else {
                (area == 1 && together) || shape.channels_last
            };
            // In single precision operands are copied in any case, rounded to TF32.
            let may_suit = is_result || shape.element < 4 || self.kind == Copying::Fitting;
            let [one, other] = others;
            if ordered && width_suits && may_suit { 0 } else { product(&[area, one, other]) }
        });
        let group = elements.into_iter().fold(0, u64::saturating_add);
        let header = match self.kind {
            _ if group == 0 => 0,
            Copying::Packed | Copying::Streamed => 16,
            _ => self.groups().saturating_mul(16),
        };
        product(&[group, self.groups(), shape.element]).saturating_add(header)
    }

    /// SIZE: partial results, with what counts the tiles that are done.
    fn split(&self, split: Split) -> u64 {
        match split.tile {
            None => {
                let launches = match self.kind {
                    Copying::Filled | Copying::Plain => self.groups(),
                    _ => 1,
                };
                let partials = self.result().saturating_mul(split.partials);
                partials.saturating_mul(4).saturating_add(launches.saturating_mul(128))
            }
            Some((rows, columns)) => {
                let each = rows.saturating_mul(columns).saturating_add(1);
                let area = each.saturating_mul(split.partials).saturating_add(1);
                product(&[4, self.tiles(rows, columns), area]).saturating_add(159)
            }
        }
    }

    /// COUNT: elements of one whole partial result.
    fn result(&self) -> u64 {
        let shape = self.shape;
        match self.direction {
            Direction::Forward => product(&[shape.batch, shape.out_channels, shape.out_area()]),
            Direction::BackwardData => product(&[shape.batch, shape.in_channels, shape.in_area()]),
            Direction::BackwardFilter => {
                product(&[self.groups(), self.group_in(), self.group_out(), shape.kernel_area()])
            }
        }
    }

    /// COUNT: tiles of the result: positions by channels, for the weight taps by channels.
    fn tiles(&self, rows: u64, columns: u64) -> u64 {
        let Self { shape, .. } = *self;
        let (c, k) = (self.group_in(), self.group_out());
        let (rows, columns) = (rows.max(1), columns.max(1));
        let blocks =
            |height: u64, width: u64| height.div_ceil(rows).saturating_mul(width.div_ceil(columns));
        let positions = |area: u64| shape.batch.saturating_mul(area);
        match self.direction {
            Direction::Forward => blocks(positions(shape.out_area()), k),
            Direction::BackwardData => blocks(positions(shape.in_area()), c),
            // Groups that are narrower than a tile share one.
            Direction::BackwardFilter if shape.groups > 1 && c <= rows => {
                let together = blocks(shape.groups.saturating_mul(c), k.min(c));
                return together.saturating_mul(shape.kernel_area());
            }
            Direction::BackwardFilter => blocks(c.saturating_mul(shape.kernel_area()), k),
        }
        .saturating_mul(shape.groups)
    }
}
