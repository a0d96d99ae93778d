//! The layers of the timeline and their heights.

use highwater_core::Bytes;
use highwater_core::report::{ByCategory, Depth, Timeline};
use highwater_core::trace::Category;
use serde::{Deserialize, Serialize};

/// What the layers of the timeline are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stack {
    /// One for each category.
    #[default]
    Category,
    /// One for each of the modules with the most, and one for the rest.
    Module,
}

/// The layers at one sample, from the bottom.
pub fn layers(timeline: &Timeline, stack: Stack, sample: usize) -> Vec<Bytes> {
    let categories = timeline.categories.get(sample).copied().unwrap_or_default();
    split(timeline, stack, &categories, sample)
}

/// The layers at one sample of which the categories are known better.
pub fn split(
    timeline: &Timeline,
    stack: Stack,
    categories: &ByCategory,
    sample: usize,
) -> Vec<Bytes> {
    match stack {
        Stack::Category => Category::ALL.map(|category| categories.get(category)).to_vec(),
        Stack::Module => {
            let owned = timeline.owners.iter().map(|owner| owner.at(sample));
            let mut layers: Vec<Bytes> = owned.collect();
            let rest = categories.total().saturating_sub(layers.iter().copied().sum());
            layers.push(rest);
            layers
        }
    }
}

/// COUNT: bytes of the path that all paths lie in: `m.transformer.` is the same for all of its
/// blocks.
pub fn shared_path(paths: &[&str]) -> usize {
    let Some((first, others)) = paths.split_first().filter(|(_, others)| !others.is_empty()) else {
        return 0;
    };
    let ends = first.match_indices('.').map(|(at, _)| at + 1);
    let is_shared = |end: &usize| {
        let path = first.get(..*end).unwrap_or_default();
        others.iter().all(|other| other.starts_with(path))
    };
    ends.take_while(is_shared).last().unwrap_or(0)
}

/// What the bands of activations are called: by their first and their last module.
pub fn depth_names(timeline: &Timeline) -> Vec<String> {
    let ends = |depth: &'_ Depth| [depth.owner.module.clone(), depth.last.clone()];
    let all: Vec<String> = timeline.depths.iter().flat_map(ends).collect();
    let named: Vec<&str> = all.iter().map(String::as_str).filter(|path| !path.is_empty()).collect();
    let shared = shared_path(&named);
    let name = |depth: &Depth| {
        let short = |path: &str| path.get(shared..).unwrap_or_default().to_owned();
        let (first, last) = (short(&depth.owner.module), short(&depth.last));
        match (first.as_str(), last.as_str()) {
            (first, last) if first == last => first.to_owned(),
            ("", one) | (one, "") => one.to_owned(),
            // The path that both lie in is written once, but `h.1 – 2` would be read as numbers.
            (first, last) => {
                let same = shared_path(&[first, last]);
                let (path, rest) = last.split_at_checked(same).unwrap_or(("", last));
                let parent = path.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
                let is_number = rest.starts_with(|letter: char| letter.is_ascii_digit());
                match (is_number, parent) {
                    (true, parent) if !parent.is_empty() => {
                        format!("{first} \u{2013} {parent}.{rest}")
                    }
                    _ => format!("{first} \u{2013} {rest}"),
                }
            }
        }
    };
    timeline.depths.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::timeline;
    use highwater_core::report::Owner;

    #[test]
    fn layers_add_up_whatever_they_are() {
        let mut timeline = timeline(&[10, 20, 30], &[]);
        timeline.owners = vec![
            Owner { module: "a".to_owned(), from: vec![0], bytes: vec![Bytes(4)] },
            Owner { module: "b".to_owned(), from: vec![1, 2], bytes: vec![Bytes(9), Bytes(5)] },
        ];
        let modules = |sample| layers(&timeline, Stack::Module, sample);
        assert_eq!(modules(0), [4, 0, 6].map(Bytes));
        assert_eq!(modules(1), [4, 9, 7].map(Bytes));
        assert_eq!(modules(2), [4, 5, 21].map(Bytes));
        let sum: Bytes = layers(&timeline, Stack::Category, 2).into_iter().sum();
        assert_eq!(sum, Bytes(30));
    }

    #[test]
    fn bands_have_the_names_of_their_ends() {
        let mut timeline = timeline(&[1], &[]);
        let depth = |first: &str, last: &str| Depth {
            last: last.to_owned(),
            owner: Owner { module: first.to_owned(), ..Owner::default() },
        };
        timeline.depths = vec![depth("m.h.0", "m.h.3"), depth("m.head", "m.head"), depth("", "")];
        assert_eq!(depth_names(&timeline), ["h.0 \u{2013} h.3", "head", ""]);
        timeline.depths = vec![depth("conv1", "relu"), depth("layer1", "layer1")];
        assert_eq!(depth_names(&timeline), ["conv1 \u{2013} relu", "layer1"]);
    }
}
