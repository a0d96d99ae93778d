//! What the timeline is stacked by, and how high each layer is.

use highwater_core::Bytes;
use highwater_core::report::{ByCategory, Timeline};
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
}
