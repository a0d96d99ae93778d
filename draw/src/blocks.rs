//! Single tensors in the stack, where few enough events are shown.
//!
//! A report lists only the tensors alive at its peak one by one. The rest of a category is one undivided area on
//! top of them.

use highwater_core::Bytes;
use highwater_core::order::InOrder as _;
use highwater_core::report::{LiveTensor, Report};
use highwater_core::trace::Category;

use crate::pen::Area;
use crate::span::Span;
use crate::stack::Stack;
use crate::timeline::{Curves, height_of};

/// COUNT: events beyond which single tensors are too narrow to be seen.
const EVENTS: usize = 400;
/// Pixels of the lowest block, with its edge.
const LOWEST: u64 = 4;

/// A tensor along the picture.
#[derive(Clone, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) tensor: &'a LiveTensor,
    /// Heights from above of its upper and its lower edge in each column; equal where it is not alive.
    pub(crate) edges: Vec<(i32, i32)>,
}

/// The tensors that a view shows one by one, if it does.
pub fn shown(report: &Report, span: Span, stack: Stack) -> &[LiveTensor] {
    if span.count() <= EVENTS && stack == Stack::Category { &report.live_at_peak } else { &[] }
}

/// The blocks that are high enough to be seen, in each category the oldest at the bottom.
pub(crate) fn blocks<'a>(curves: &Curves<'a>, area: Area) -> Vec<Block<'a>> {
    let height = u64::try_from(area.height).unwrap_or(0);
    let is_high = |tensor: &&LiveTensor| tensor.bytes.times(height) >= curves.top.times(LOWEST);
    let mut tensors: Vec<&LiveTensor> = curves.tensors.iter().filter(is_high).collect();
    // What was there before the first event has the last number: it comes first.
    tensors.order_by_key(|tensor| tensor.born.wrapping_add(1));
    let edge = |size: Bytes| height_of(area, size, curves.top);
    let mut below = vec![Bytes::ZERO; curves.columns.len()];
    let mut blocks = Vec::new();
    for category in Category::ALL {
        let mut floor = below.clone();
        let sizes = |sample: usize| curves.data.categories.get(sample).map(|it| it.get(category));
        for (below, &sample) in below.iter_mut().zip(curves.columns) {
            *below += sizes(sample).unwrap_or_default();
        }
        for tensor in tensors.iter().filter(|tensor| tensor.category == category) {
            let columns = floor.iter_mut().zip(&below).zip(curves.columns);
            let edges = columns.map(|((floor, &roof), &sample)| {
                let lower = *floor;
                let event = curves.data.event.get(sample).copied().unwrap_or_default();
                if is_alive(tensor, event) {
                    *floor = (*floor + tensor.bytes).min(roof);
                }
                (edge(*floor), edge(lower))
            });
            let edges = edges.collect();
            blocks.push(Block { tensor, edges });
        }
    }
    blocks
}

/// Whether a tensor is there after an event.
fn is_alive(tensor: &LiveTensor, event: usize) -> bool {
    let is_born = tensor.born == usize::MAX || tensor.born <= event;
    is_born && tensor.dies.is_none_or(|dies| event < dies)
}

/// Bars along the upper edges of blocks, one for each level stretch.
pub(crate) fn edges(blocks: &[Block<'_>], area: Area, line: i32) -> Vec<Area> {
    let mut bars = Vec::new();
    for block in blocks {
        let mut left = area.left;
        for stretch in block.edges.chunk_by(|a, b| a == b) {
            let width = i32::try_from(stretch.len()).unwrap_or(0);
            if let Some(&(top, bottom)) = stretch.first().filter(|(top, bottom)| top < bottom) {
                bars.push(Area { left, top, width, height: line.min(bottom - top) });
            }
            left += width;
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::timeline;

    fn tensor(bytes: u64, born: usize, dies: Option<usize>) -> LiveTensor {
        LiveTensor {
            bytes: Bytes(bytes),
            category: Category::Activation,
            operator: String::new(),
            module: "layer1".to_owned(),
            name: String::new(),
            tensor: None,
            born,
            dies,
        }
    }

    #[test]
    fn tensors_lie_on_older_ones_while_they_live() {
        // The third of the bytes in the last columns belongs to a tensor that is not known.
        let data = timeline(&[10, 30, 30, 40, 20], &[]);
        let tensors = [tensor(20, 1, None), tensor(10, 0, Some(4)), tensor(1, 0, None)];
        let columns = [0, 1, 2, 3, 4];
        let curves = Curves {
            data: &data,
            columns: &columns,
            stack: Stack::Category,
            top: Bytes(50),
            ticks: &[],
            compared: None,
            limits: &[],
            tensors: &tensors,
        };
        let area = Area { left: 3, top: 0, width: 5, height: 50 };
        let blocks = blocks(&curves, area);
        let sizes: Vec<u64> = blocks.iter().map(|block| block.tensor.bytes.0).collect();
        assert_eq!(sizes, [10, 20]);
        assert_eq!(blocks[0].edges, [(40, 50), (40, 50), (40, 50), (40, 50), (50, 50)]);
        assert_eq!(blocks[1].edges, [(40, 40), (20, 40), (20, 40), (20, 40), (30, 50)]);
        let bar = |left, top, width| Area { left, top, width, height: 1 };
        let bars = [bar(3, 40, 4), bar(4, 20, 3), bar(7, 30, 1)];
        assert_eq!(edges(&blocks, area, 1), bars);
    }

    #[test]
    fn what_was_there_before_is_alive_from_the_first_event() {
        assert!(is_alive(&tensor(1, usize::MAX, Some(3)), 0));
        assert!(!is_alive(&tensor(1, usize::MAX, Some(3)), 3));
        assert!(!is_alive(&tensor(1, 2, None), 1));
    }
}
