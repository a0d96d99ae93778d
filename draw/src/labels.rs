//! Places names inside the areas of the timeline, where there is space for their text.
//!
//! Nothing here measures text: every letter is assumed to be wide.

use highwater_core::Bytes;
use highwater_core::order::InOrder as _;
use highwater_core::report::Report;

use crate::blocks::{Block, blocks};
use crate::compared;
use crate::float;
use crate::palette::Ink;
use crate::pen::{Area, Point, whole};
use crate::scene::Limit;
use crate::span::Span;
use crate::stack::depth_names;
use crate::timeline::{Curves, Layer, height_of};

/// Widths of a Latin letter and of an ideograph, in ems.
const LETTER: f64 = 0.56;
const IDEOGRAPH: f64 = 1.05;
/// Height of a line, in ems.
const LINE: f64 = 1.35;
/// COUNT: letters of the peak's text, at most.
const MARK: u32 = 16;

/// A text in the picture: a name with its size inside an area, or the name of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its text: `activations 10.2 GiB`.
    pub text: String,
    /// Its middle.
    pub at: Point,
    /// What it is for.
    pub face: Face,
}

/// What a label is for, and so how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// It lies on an area of this colour.
    On(Ink),
    /// It names the limit of the chosen device.
    Chosen,
    /// It names other limits.
    Other,
    /// It names the run that this one is compared with.
    Kept,
}

/// Where labels may be.
#[derive(Clone, Debug)]
pub struct Room {
    /// The picture.
    pub area: Area,
    /// Pixels of an em.
    pub em: f64,
    /// What is there already.
    pub taken: Vec<Area>,
}

impl Room {
    /// The box of a text that begins here and whose middle is as high as this.
    pub fn text(&self, text: &str, (left, middle): Point) -> Area {
        let height = whole(LINE * self.em);
        Area { left, top: middle - height / 2, width: width(text, self.em), height }
    }

    /// Takes a box, and returns its middle.
    fn take(&mut self, place: Area) -> Point {
        self.taken.push(place);
        (place.left + place.width / 2, place.top + place.height / 2)
    }

    /// Whether the place is free, and no other text is so near that both would read as one.
    pub fn is_free(&self, wanted: Area) -> bool {
        let gap = whole(self.em / 2.0);
        let (left, width) = (wanted.left - gap, wanted.width + 2 * gap);
        let wanted = Area { left, width, ..wanted };
        !self.taken.iter().any(|taken| overlap(*taken, wanted))
    }
}

/// The mark of the peak: a dot on the stack, with the size next to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The event that it stands at.
    pub event: usize,
    /// What `max_memory_allocated` returns.
    pub bytes: Bytes,
    /// The middle of the dot.
    pub at: Point,
    /// Whether the text is left of it.
    pub is_left: bool,
}

impl Mark {
    /// Of the highest moment that is shown, where that is as high as the peak: iterations alike reach
    /// it more than once. The stack shows requested bytes, and the allocator's rounding is above it.
    pub fn of(report: &Report, span: Span, top: Bytes, area: Area) -> Option<Self> {
        let peak = &report.peak;
        let data = &report.timeline;
        let event = if span.contains(peak.event) {
            peak.event
        } else {
            let mut reached = data.event.iter().zip(&data.allocated);
            let is_peak = |&(event, &bytes): &(&usize, &Bytes)| {
                span.contains(*event) && bytes == peak.allocated
            };
            *reached.find(is_peak)?.0
        };
        let share = span.middle(event);
        let left = area.left + whole(share * f64::from(area.width));
        let at = (left, height_of(area, peak.requested, top));
        Some(Self { event, bytes: peak.allocated, at, is_left: share > 0.6 })
    }

    /// The size with three digits.
    pub fn text(&self) -> String {
        self.bytes.short()
    }

    /// The box of the dot and its text.
    pub fn taken(&self, em: f64) -> Area {
        let (x, y) = self.at;
        let wide = whole(em * LETTER * f64::from(MARK)) + 12;
        let left = if self.is_left { x - wide } else { x - 6 };
        Area { left, top: y - whole(2.0 * em), width: wide + 6, height: whole(2.5 * em) }
    }
}

/// Pixels of a text, or a few more.
pub fn width(text: &str, em: f64) -> i32 {
    let of = |letter: char| if letter < '\u{2e80}' { LETTER } else { IDEOGRAPH };
    whole(em * text.chars().map(of).sum::<f64>())
}

const fn overlap(a: Area, b: Area) -> bool {
    a.left < b.right() && b.left < a.right() && a.top < b.bottom() && b.top < a.bottom()
}

/// The labels of what is drawn: `names` are those of the layers of its stack, from the bottom.
///
/// A label lies where its layer is highest, across the columns that it needs; a layer that is nowhere
/// high enough has none. Layers choose before their parts, these before single tensors, and large
/// ones before small ones.
pub fn labels(curves: &Curves<'_>, names: &[String], room: &mut Room) -> Vec<Label> {
    let count = curves.columns.len();
    if count == 0 || room.area.width <= 0 {
        return Vec::new();
    }
    let (mut layers, mut parts) = strips(curves, names, room.area);
    let tensors = blocks(curves, room.area).into_iter().map(Strip::of);
    let mut tensors: Vec<Strip> = tensors.collect();
    let mut labels = Vec::new();
    for strips in [&mut layers, &mut parts, &mut tensors] {
        strips.order_by_key(|strip| std::cmp::Reverse(strip.most));
        for strip in strips.iter().filter(|strip| !strip.name.is_empty()) {
            let text = format!("{} {}", strip.name, strip.most.short());
            // A band of one tensor is named already.
            if labels.iter().any(|label: &Label| label.text == text) {
                continue;
            }
            if let Some(place) = strip.place(&text, room) {
                let at = room.take(place);
                labels.push(Label { text, at, face: Face::On(strip.on) });
            }
        }
    }
    labels
}

/// The labels of limits, each with the text that `say` returns for it.
///
/// Within the picture a label lies on its line or hangs below it, at the right edge, in the middle or
/// at the left one, wherever nothing else is; limits above the picture share one line at its upper
/// edge, the nearest first.
pub fn limit_labels(
    limits: &[Limit],
    top: Bytes,
    say: &dyn Fn(&Limit) -> String,
    room: &mut Room,
) -> Vec<Label> {
    let area = room.area;
    let high = room.text("", (0, 0)).height;
    let mut labels = Vec::new();
    let face = |limit: &Limit| if limit.is_chosen { Face::Chosen } else { Face::Other };
    let above = limits.iter().filter(|limit| limit.bytes > top);
    let mut listed = String::new();
    for limit in above {
        let sign = if listed.is_empty() { "\u{2191} " } else { " \u{b7} " };
        let longer = [&listed, sign, &say(limit)].concat();
        if width(&longer, room.em) < area.width {
            listed = longer;
        }
    }
    if !listed.is_empty() {
        let place = room.text(&listed, (area.left + 4, area.top + high / 2 + 2));
        if room.is_free(place) {
            labels.push(Label { text: listed, at: room.take(place), face: Face::Other });
        }
    }
    // The chosen one has the first choice.
    let within = |chosen: bool| {
        limits.iter().filter(move |limit| limit.bytes <= top && limit.is_chosen == chosen)
    };
    for limit in within(true).chain(within(false)) {
        let text = say(limit);
        let line = height_of(area, limit.bytes, top);
        let wide = width(&text, room.em);
        let lefts = [area.right() - wide - 4, area.left + (area.width - wide) / 2, area.left + 4];
        let middles = [line - high / 2 - 1, line + high / 2 + 2];
        let places = middles.into_iter().flat_map(|middle| lefts.map(|left| (left, middle)));
        let mut places = places.map(|place| room.text(&text, place));
        let is_inside = |place: &Area| place.top >= area.top && place.left >= area.left;
        let free = places.find(|place| is_inside(place) && room.is_free(*place));
        if let Some(place) = free {
            labels.push(Label { text, at: room.take(place), face: face(limit) });
        }
    }
    labels
}

/// COUNT: columns that one box of a line covers.
const STRETCH: usize = 4;

/// The label of the run that this one is compared with, above its line where that is highest. From then on the line
/// is taken, so that it strikes through no other text.
pub fn kept_label(curves: &Curves<'_>, name: &str, room: &mut Room) -> Option<Label> {
    let sizes = compared::sizes(curves.data, curves.columns, curves.compared?);
    let area = room.area;
    let column = f64::from(area.width) / float(Bytes(sizes.len().max(1) as u64));
    let heights: Vec<i32> = sizes.iter().map(|&size| height_of(area, size, curves.top)).collect();
    // Each stretch begins with the last column of the one before: the line between them belongs to it.
    let begins = (0..heights.len()).step_by(STRETCH);
    let line: Vec<Area> = begins
        .filter_map(|begin| {
            let stretch =
                heights.get(begin.saturating_sub(1)..(begin + STRETCH).min(heights.len()))?;
            let (top, bottom) = (*stretch.iter().min()?, *stretch.iter().max()?);
            let place = |column_at: usize| whole(float(Bytes(column_at as u64)) * column);
            let left = area.left + place(begin);
            let width = place(begin + STRETCH) - place(begin);
            Some(Area { left, top: top - 2, width, height: bottom - top + 4 })
        })
        .collect();
    room.taken.extend(&line);
    let mut highest = line;
    highest.order_by_key(|part| part.top);
    let wide = width(name, room.em);
    let place = highest.into_iter().find_map(|part| {
        let middle = part.left + part.width / 2 - wide / 2;
        let left = middle.min(area.right() - wide - 4).max(area.left + 4);
        let place = room.text(name, (left, 0));
        let place = Area { top: part.top - place.height, ..place };
        (place.top >= area.top && room.is_free(place)).then_some(place)
    })?;
    Some(Label { text: name.to_owned(), at: room.take(place), face: Face::Kept })
}

/// A layer of the stack along the picture, or a part of one.
struct Strip {
    name: String,
    on: Ink,
    /// The most that it has.
    most: Bytes,
    /// Heights from above of its upper and its lower edge, in each column.
    edges: Vec<(i32, i32)>,
}

impl Strip {
    /// A tensor, called by its own name or by its module.
    fn of(block: Block<'_>) -> Self {
        let Block { tensor, edges } = block;
        let name = if tensor.name.is_empty() { &tensor.module } else { &tensor.name };
        let (name, on) = (name.clone(), Ink::Category(tensor.category));
        Self { name, on, most: tensor.bytes, edges }
    }

    /// On what lies below it, which it is added to.
    fn on(
        name: String,
        layer: &Layer,
        below: &mut [Bytes],
        curves: &Curves<'_>,
        area: Area,
    ) -> Self {
        let edge = |size: Bytes| height_of(area, size, curves.top);
        let edges = below.iter_mut().zip(&layer.sizes).map(|(below, &size)| {
            let lower = edge(*below);
            *below += size;
            (edge(*below), lower)
        });
        let edges = edges.collect();
        let most = layer.sizes.iter().copied().max().unwrap_or_default();
        Self { name, on: layer.ink, most, edges }
    }
}

/// The layers, and their parts.
fn strips(curves: &Curves<'_>, names: &[String], area: Area) -> (Vec<Strip>, Vec<Strip>) {
    let mut below = vec![Bytes::ZERO; curves.columns.len()];
    let (mut layers, mut parts) = (Vec::new(), Vec::new());
    for (at, layer) in curves.layers().iter().enumerate() {
        let mut part_below = below.clone();
        let part_names = depth_names(curves.data);
        for (part, name) in layer.parts.iter().zip(part_names) {
            parts.push(Strip::on(name, part, &mut part_below, curves, area));
        }
        let name = names.get(at).cloned().unwrap_or_default();
        layers.push(Strip::on(name, layer, &mut below, curves, area));
    }
    (layers, parts)
}

impl Strip {
    /// The box of a text inside it, where it has most room above and below.
    fn place(&self, text: &str, room: &Room) -> Option<Area> {
        let size = room.text(text, (0, 0));
        let count = i32::try_from(self.edges.len()).ok()?;
        let column = f64::from(room.area.width) / f64::from(count);
        let margin = whole(room.em / 2.0);
        let wide = whole((f64::from(size.width + margin) / column).ceil());
        let wide = usize::try_from(wide).ok()?.max(1);
        let mut best: Option<(i32, Area)> = None;
        for (start, window) in (0..).zip(self.edges.windows(wide)) {
            let top = window.iter().map(|edge| edge.0).max()?;
            let bottom = window.iter().map(|edge| edge.1).min()?;
            let high = bottom - top;
            if high < size.height || best.is_some_and(|(most, _)| most >= high) {
                continue;
            }
            let left = room.area.left + whole(f64::from(start) * column) + margin / 2;
            let heights =
                [i32::midpoint(top, bottom), top + size.height / 2, bottom - size.height / 2];
            let boxes = heights.map(|middle| room.text(text, (left, middle)));
            let free = boxes.into_iter().find(|&place| room.is_free(place));
            best = free.map(|place| (high, place)).or(best);
        }
        best.map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::timeline;
    use crate::stack::Stack;
    use highwater_core::report::{ByCategory, Timeline};

    const AREA: Area = Area { left: 50, top: 10, width: 400, height: 200 };

    /// A hill of activations on parameters, with a thin layer of gradients on top.
    fn hill() -> Timeline {
        let mut data = timeline(&[0, 20, 60, 80, 70, 30, 5, 0], &[]);
        for categories in &mut data.categories {
            categories.parameter = Bytes(12);
            categories.temporary = Bytes(1);
        }
        data
    }

    fn placed(data: &Timeline, taken: &[Area]) -> (String, Vec<Area>) {
        let columns: Vec<usize> = (0..data.event.len()).collect();
        let curves = Curves {
            data,
            columns: &columns,
            stack: Stack::Category,
            top: Bytes(100),
            ticks: &[],
            compared: None,
            limits: &[],
            tensors: &[],
        };
        let names = ["parameters", "", "", "", "gradients", "activations", "", "temporaries"];
        let names = names.map(str::to_owned);
        let mut room = Room { area: AREA, em: 13.0, taken: taken.to_vec() };
        let labels = labels(&curves, &names, &mut room);
        let texts: Vec<String> =
            labels.iter().map(|label| format!("{} at {:?}", label.text, label.at)).collect();
        (texts.join("; "), room.taken)
    }

    #[test]
    fn large_areas_have_names() {
        let (texts, taken) = placed(&hill(), &[]);
        expect_test::expect!["temporaries 80 B at (211, 126); parameters 12 B at (107, 198)"]
            .assert_eq(&texts);
        assert!(taken.iter().all(|label| label.left >= AREA.left && label.right() <= AREA.right()));
    }

    #[test]
    fn labels_are_on_nothing_else() {
        let (texts, boxes) = placed(&hill(), &[]);
        let middle = boxes[0];
        let (around, boxes) = placed(&hill(), &[middle]);
        assert_ne!(around, texts);
        for (at, one) in boxes.iter().enumerate() {
            assert!(boxes[at + 1..].iter().all(|other| !overlap(*one, *other)), "{boxes:?}");
        }
        assert_eq!(placed(&hill(), &[AREA]).0, "");
        assert_eq!(
            placed(&Timeline { categories: vec![ByCategory::default()], ..hill() }, &[]).0,
            ""
        );
    }

    #[test]
    fn what_is_compared_has_its_name_and_strikes_through_no_other() {
        let (data, other) = (hill(), timeline(&[10, 20, 40, 50, 40, 20, 10, 5], &[]));
        let mut data = data;
        data.phases.clone_from(&other.phases);
        let columns: Vec<usize> = (0..data.event.len()).collect();
        let curves = Curves {
            data: &data,
            columns: &columns,
            stack: Stack::Category,
            top: Bytes(100),
            ticks: &[],
            compared: Some(&other),
            limits: &[],
            tensors: &[],
        };
        let mut room = Room { area: AREA, em: 13.0, taken: Vec::new() };
        let kept = kept_label(&curves, "Kept: other", &mut room).expect("it has room");
        assert_eq!((kept.text.as_str(), kept.face), ("Kept: other", Face::Kept));
        let line: Vec<Area> = room.taken.clone();
        let names = ["parameters", "", "", "", "", "activations", ""].map(str::to_owned);
        let before = room.taken.len();
        let named = labels(&curves, &names, &mut room);
        assert!(!named.is_empty());
        for place in &room.taken[before..] {
            assert!(line.iter().all(|part| !overlap(*part, *place)), "{place:?}");
        }
    }

    #[test]
    fn limits_have_names_that_do_not_collide() {
        let limit = |name: &str, bytes, is_chosen| Limit {
            name: name.to_owned(),
            bytes: Bytes(bytes),
            is_chosen,
        };
        let limits = [
            limit("T4", 80, true),
            limit("V100", 82, false),
            limit("A100", 500, false),
            limit("H100", 600, false),
        ];
        let say = |limit: &Limit| format!("{}: {}", limit.name, limit.bytes.short());
        let mut room = Room { area: AREA, em: 13.0, taken: Vec::new() };
        let labels = limit_labels(&limits, Bytes(100), &say, &mut room);
        let texts: Vec<String> =
            labels.iter().map(|label| format!("{} at {:?}", label.text, label.at)).collect();
        expect_test::expect!["↑ A100: 500 B · H100: 600 B at (152, 21); T4: 80 B at (417, 40); V100: 82 B at (249, 57)"].assert_eq(&texts.join("; "));
        for (at, one) in room.taken.iter().enumerate() {
            assert!(room.taken[at + 1..].iter().all(|other| !overlap(*one, *other)));
        }
    }
}
