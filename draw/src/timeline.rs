//! The timeline: layers of memory over time, in steps, because memory does not slope.

use highwater_core::Bytes;
use highwater_core::report::{Depth, LiveTensor, Timeline};
use highwater_core::trace::Category;
use plotters::prelude::{Color as _, DrawingBackend};

use crate::blocks;
use crate::compared;
use crate::float;
use crate::hatch::stripes;
use crate::palette::{DEPTHS, Ink};
use crate::pen::{Area, Drawn, Pen, Point, steps, whole};
use crate::scene::{Ground, Limit, Scene};
use crate::stack::{Stack, layers};

/// COUNT: columns of a level stretch where a line may part two layers. A line along every corner would
/// wipe out peaks that are one column wide.
const PARTED: usize = 4;

/// What is drawn of a run, in a column per pixel.
#[derive(Clone, Copy, Debug)]
pub struct Curves<'a> {
    /// The run.
    pub data: &'a Timeline,
    /// Position of the sample to draw in each column.
    pub columns: &'a [usize],
    /// What the layers are.
    pub stack: Stack,
    /// Size at the upper edge.
    pub top: Bytes,
    /// Sizes with a line across.
    pub ticks: &'a [Bytes],
    /// Another run on the same axes.
    pub compared: Option<&'a Timeline>,
    /// What devices leave to the allocator; those above the picture are not drawn.
    pub limits: &'a [Limit],
    /// Tensors that are drawn one by one in the stack by category.
    pub tensors: &'a [LiveTensor],
}

/// One layer of the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its colour.
    pub ink: Ink,
    /// Its size in each column.
    pub sizes: Vec<Bytes>,
    /// Parts of it from the bottom, in tints of its colour.
    pub parts: Vec<Layer>,
}

/// One view of a report, on an area that is as wide as the surface has pixels.
///
/// # Errors
/// The backend cannot draw.
pub fn draw<B: DrawingBackend>(pen: &mut Pen<'_, B>, area: Area, scene: &Scene) -> Drawn<B> {
    let columns = scene.ground.columns(scene.span, usize::try_from(area.width).unwrap_or(0));
    Curves::of(scene, &columns).draw(pen, area)
}

/// The whole run in small: everything allocated, as one dark shape.
///
/// # Errors
/// The backend cannot draw.
pub fn minimap<B: DrawingBackend>(pen: &mut Pen<'_, B>, area: Area, ground: &Ground) -> Drawn<B> {
    let sizes = &ground.data().allocated;
    let top = Bytes(ground.report.peak.allocated.0.max(1));
    let columns = ground.columns(ground.all(), usize::try_from(area.width).unwrap_or(0));
    let height = |at: usize| height_of(area, sizes.get(at).copied().unwrap_or_default(), top);
    let heights: Vec<i32> = columns.into_iter().map(height).collect();
    let mut corners = steps(area.left, &heights);
    corners.extend([(area.right(), area.bottom()), (area.left, area.bottom())]);
    pen.fill(corners, pen.colour(Ink::Text).mix(0.45))
}

/// How far from above a size is drawn.
pub fn height_of(area: Area, bytes: Bytes, top: Bytes) -> i32 {
    let share = float(bytes.min(top)) / float(top).max(1.0);
    area.top + whole(f64::from(area.height) * (1.0 - share))
}

impl<'a> Curves<'a> {
    /// Of one view of a report.
    pub fn of(scene: &'a Scene, columns: &'a [usize]) -> Self {
        let ground = &scene.ground;
        Self {
            data: ground.data(),
            columns,
            stack: scene.stack,
            top: ground.top,
            ticks: &ground.ticks.at,
            compared: ground.compared.as_ref().map(|report| &report.timeline),
            limits: &ground.limits,
            tensors: blocks::shown(&ground.report, scene.span, scene.stack),
        }
    }

    /// Draws all of it.
    ///
    /// # Errors
    /// The backend cannot draw.
    pub fn draw<B: DrawingBackend>(&self, pen: &mut Pen<'_, B>, area: Area) -> Drawn<B> {
        let line = pen.pixels(1.0);
        let across = |&size: &Bytes| area.across(height_of(area, size, self.top), line);
        pen.bars(self.ticks.iter().map(across), pen.colour(Ink::Grid))?;
        let reserved = self.sizes(&self.data.reserved);
        self.cached(pen, area, &reserved)?;
        self.stacked(pen, area, line)?;
        let edges = blocks::edges(&blocks::blocks(self, area), area, line);
        pen.bars(edges, pen.colour(Ink::Ground).mix(0.5))?;
        self.outline(pen, area, &reserved, 1.5, Ink::Text)?;
        if let Some(other) = self.compared {
            let sizes = compared::sizes(self.data, self.columns, other);
            self.outline(pen, area, &sizes, 4.0, Ink::Ground)?;
            self.outline(pen, area, &sizes, 2.0, Ink::Accent)?;
        }
        self.limits(pen, area, line)
    }

    /// Dashes for limits, and a line for the chosen one.
    fn limits<B: DrawingBackend>(&self, pen: &mut Pen<'_, B>, area: Area, line: i32) -> Drawn<B> {
        let across = |limit: &Limit| area.across(height_of(area, limit.bytes, self.top), line);
        let shown = || self.limits.iter().filter(|limit| limit.bytes <= self.top);
        let dash = pen.pixels(5.0);
        let dashes = |limit: &Limit| {
            let (bar, period) = (across(limit), usize::try_from(2 * dash).unwrap_or(1));
            let dashed = move |left| Area { left, width: dash.min(bar.right() - left), ..bar };
            (bar.left..bar.right()).step_by(period).map(dashed)
        };
        let others = shown().filter(|limit| !limit.is_chosen).flat_map(dashes);
        pen.bars(others, pen.colour(Ink::Soft))?;
        let chosen = shown().filter(|limit| limit.is_chosen).map(across);
        pen.bars(chosen, pen.colour(Ink::Fails))
    }

    /// What is reserved and not allocated: the allocator's cache, hatched.
    fn cached<B: DrawingBackend>(
        &self,
        pen: &mut Pen<'_, B>,
        area: Area,
        reserved: &[Bytes],
    ) -> Drawn<B> {
        let upper = self.heights(area, reserved);
        let lower = self.heights(area, &self.sizes(&self.data.allocated));
        let (apart, thick) = (pen.pixels(7.0), pen.pixels(1.0));
        let corners = stripes(area.left, &upper, &lower, apart, thick);
        pen.fill(corners, pen.colour(Ink::Edge).mix(0.5))
    }

    /// The layers of memory from the bottom.
    pub fn layers(&self) -> Vec<Layer> {
        let stacks: Vec<_> =
            self.columns.iter().map(|&at| layers(self.data, self.stack, at)).collect();
        let count = stacks.first().map_or(0, Vec::len);
        let layer = |layer: usize| {
            let size = |stack: &Vec<Bytes>| stack.get(layer).copied().unwrap_or_default();
            let ink = Ink::of_layer(self.stack, layer, count);
            let parts = match ink {
                Ink::Category(Category::Activation) => self.depths(),
                _ => Vec::new(),
            };
            Layer { ink, sizes: stacks.iter().map(size).collect(), parts }
        };
        (0..count).map(layer).collect()
    }

    /// The activations by depth; the tints of a few bands span the same range as those of many.
    fn depths(&self) -> Vec<Layer> {
        let depths = &self.data.depths;
        let last = depths.len().saturating_sub(1).max(1);
        let depth = |(at, depth): (usize, &Depth)| {
            let ink = Ink::Depth(at * (DEPTHS - 1) / last);
            let sizes = self.columns.iter().map(|&sample| depth.owner.at(sample)).collect();
            Layer { ink, sizes, parts: Vec::new() }
        };
        depths.iter().enumerate().map(depth).collect()
    }

    /// Draws the layers, each on those before it.
    fn stacked<B: DrawingBackend>(&self, pen: &mut Pen<'_, B>, area: Area, line: i32) -> Drawn<B> {
        let mut below = vec![Bytes::ZERO; self.columns.len()];
        let mut floor = self.heights(area, &below);
        for Layer { ink, sizes, parts } in self.layers() {
            let above: Vec<Bytes> = below.iter().zip(&sizes).map(|(&a, &b)| a + b).collect();
            if above != below {
                let edge = self.heights(area, &above);
                let mut roof = edge.clone();
                // Where the ground shows between two layers, the lower one ends earlier.
                for at in level(&above) {
                    roof[at] = (roof[at] + line).min(floor[at]);
                }
                pen.fill(between(area.left, &roof, &floor), pen.colour(ink))?;
                let mut part_below = below.clone();
                for Layer { ink, sizes, .. } in parts {
                    let lower = self.heights(area, &part_below);
                    for (below, &size) in part_below.iter_mut().zip(&sizes) {
                        *below += size;
                    }
                    let upper = self.heights(area, &part_below);
                    let within = |heights: Vec<i32>| -> Vec<i32> {
                        heights.iter().zip(&roof).map(|(&height, &roof)| height.max(roof)).collect()
                    };
                    let corners = between(area.left, &within(upper), &within(lower));
                    pen.fill(corners, pen.colour(ink))?;
                }
                floor = edge;
            }
            below = above;
        }
        Ok(())
    }

    fn outline<B: DrawingBackend>(
        &self,
        pen: &mut Pen<'_, B>,
        area: Area,
        sizes: &[Bytes],
        thick: f64,
        ink: Ink,
    ) -> Drawn<B> {
        let corners = steps(area.left, &self.heights(area, sizes));
        pen.stairs(&corners, pen.pixels(thick), pen.colour(ink))
    }

    /// One of the sizes of each sample, in each column.
    fn sizes(&self, of: &[Bytes]) -> Vec<Bytes> {
        self.columns.iter().map(|&at| of.get(at).copied().unwrap_or_default()).collect()
    }

    fn heights(&self, area: Area, sizes: &[Bytes]) -> Vec<i32> {
        sizes.iter().map(|&size| height_of(area, size, self.top)).collect()
    }
}

/// The corners of what lies between two staircases.
fn between(left: i32, upper: &[i32], lower: &[i32]) -> Vec<Point> {
    let mut corners = steps(left, upper);
    corners.extend(steps(left, lower).into_iter().rev());
    corners
}

/// The columns of level stretches above zero that are long enough for a line.
fn level(sizes: &[Bytes]) -> impl Iterator<Item = usize> {
    let mut end = 0;
    sizes.chunk_by(|a, b| a == b).flat_map(move |stretch| {
        end += stretch.len();
        let is_parted = stretch.len() >= PARTED && stretch[0] > Bytes::ZERO;
        if is_parted { end - stretch.len()..end } else { 0..0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{drawn, timeline};
    use expect_test::expect;
    use highwater_core::report::Owner;
    use highwater_core::trace::Phase;

    #[test]
    fn lines_part_layers_where_they_are_level_for_long() {
        let long = [0, 0, 0, 0, 1, 1, 1, 1, 9, 2, 2].map(Bytes);
        assert_eq!(level(&long).collect::<Vec<_>>(), [4, 5, 6, 7]);
    }

    #[test]
    fn layers_lie_on_each_other_below_what_is_reserved() {
        let marks = [(0, 0, Phase::Setup)];
        let mut data = timeline(&[2, 6, 6, 6, 6, 3], &marks);
        let module = "layer1".to_owned();
        data.owners = vec![Owner { module, from: vec![0], bytes: vec![Bytes(2)] }];
        let other = timeline(&[1, 1, 8, 1, 1, 1], &marks);
        let columns: Vec<usize> = (0..6).collect();
        let limits = [Limit { name: "T4".to_owned(), bytes: Bytes(11), is_chosen: true }];
        let curves = Curves {
            data: &data,
            columns: &columns,
            stack: Stack::Module,
            top: Bytes(12),
            ticks: &[Bytes(0), Bytes(6)],
            compared: Some(&other),
            limits: &limits,
            tensors: &[],
        };
        let svg = drawn((6, 12), |pen, area| curves.draw(pen, area));
        expect![[r##"
            <svg width="6" height="12" viewBox="0 0 6 12" xmlns="http://www.w3.org/2000/svg">
            <polygon opacity="1" fill="#E4E6EA" points="0,13 0,12 6,12 6,13 0,13 0,7 0,6 6,6 6,7 0,7 "/>
            <polygon opacity="0.5" fill="#8B929C" points="0,5 2,5 3,5 6,2 5,2 2,5 0,5 "/>
            <polygon opacity="1" fill="#7A3B93" points="0,11 6,11 6,12 0,12 "/>
            <polygon opacity="1" fill="#A3A9B2" points="0,10 1,10 1,7 5,7 5,9 6,9 6,10 0,10 "/>
            <polygon opacity="1" fill="#16191D" points="0,1 6,1 6,3 0,3 "/>
            <polygon opacity="1" fill="#FFFFFF" points="0,9 0,9 0,2 5,2 5,9 6,9 6,13 1,13 1,6 4,6 4,13 0,13 "/>
            <polygon opacity="1" fill="#3A49C9" points="0,10 1,10 1,3 4,3 4,10 6,10 6,12 2,12 2,5 3,5 3,12 0,12 "/>
            <rect x="0" y="1" width="6" height="1" opacity="1" fill="#B3261E" stroke="none"/>
            </svg>
        "##]].assert_eq(&svg);
    }
}
