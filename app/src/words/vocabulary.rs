//! Names of categories and modules. If a recording does not state what blocks are for, categories are origins, and
//! modules are lines of code.

use highwater_core::report::{LiveTensor, Report, Snapshot};
use highwater_core::trace::Category;
use highwater_draw::stack::Stack;

use super::language::{fill, tr};

/// The names that fit an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    /// Those of a model.
    #[default]
    Model,
    /// Those of a model that writes tokens.
    Generation,
    /// Those of a model that several ranks train.
    Ranks,
    /// Those of origins.
    Origins,
}

impl Vocabulary {
    /// The names that fit this answer.
    pub(crate) fn of(report: &Report) -> Self {
        match &report.recorded {
            Some(run) if run.by_origin => Self::Origins,
            _ if report.config.workload.generates() => Self::Generation,
            _ if report.config.is_parallel() => Self::Ranks,
            _ => Self::Model,
        }
    }

    /// A category in words.
    pub(crate) fn category(self, category: Category) -> String {
        tr(match (self, category) {
            (Self::Model | Self::Generation | Self::Ranks, _) => category.label(),
            (Self::Origins, Category::Parameter) => "moved",
            (Self::Origins, Category::OptimizerState) => "in the step",
            (Self::Origins, Category::Gradient) => "in backward",
            (Self::Origins, Category::Activation) => "in forward",
            (Self::Origins, _) => "unknown",
        })
    }

    /// What a category means, for those who ask.
    pub(crate) fn meaning(self, category: Category) -> String {
        tr(match (self, category) {
            (Self::Model | Self::Generation | Self::Ranks, _) => category.about(),
            (Self::Origins, Category::Parameter) => "Allocated by .to() or .cuda()",
            (Self::Origins, Category::OptimizerState) => "Allocated within the optimizer's step",
            (Self::Origins, Category::Gradient) => "Allocated while the backward pass ran",
            (Self::Origins, Category::Activation) => "Allocated within the forward of a module",
            (Self::Origins, _) => "The stack is inconclusive, or was not recorded",
        })
    }

    /// The categories that can occur.
    pub(crate) fn categories(self) -> impl Iterator<Item = Category> {
        Category::ALL.into_iter().filter(move |&category| self.occurs(category))
    }

    /// Whether a category can occur.
    pub(crate) const fn occurs(self, category: Category) -> bool {
        match self {
            Self::Generation => !matches!(category, Category::Communication),
            Self::Ranks => !matches!(category, Category::Cache),
            Self::Model => !matches!(category, Category::Cache | Category::Communication),
            Self::Origins => !matches!(
                category,
                Category::Buffer
                    | Category::Input
                    | Category::Temporary
                    | Category::Cache
                    | Category::Communication
            ),
        }
    }

    /// What the layers of a stack are.
    pub(crate) fn stacked(self, stack: Stack) -> String {
        tr(match (stack, self) {
            (Stack::Category, Self::Origins) => "by origin",
            (Stack::Category, _) => "by category",
            (Stack::Module, Self::Origins) => "by line of code",
            (Stack::Module, _) => "by module",
        })
    }

    /// What a tensor is called: by its own name, else by its module, else by what it is for.
    pub(crate) fn tensor(self, tensor: &LiveTensor) -> String {
        match (tensor.name.as_str(), tensor.module.as_str()) {
            ("", "") => self.category(tensor.category),
            ("", module) => module.to_owned(),
            (name, _) => name.to_owned(),
        }
    }

    /// `98.00 MiB activations layer1.0.conv2, in segment 3`.
    pub(crate) fn block(self, snapshot: &Snapshot, segment: usize, at: usize) -> Option<String> {
        let block = snapshot.segments.get(segment)?.blocks.get(at)?;
        let number = segment + 1;
        let Some(owner) = block.tensor.and_then(|tensor| snapshot.live.get(tensor)) else {
            let parts: [(&str, &dyn std::fmt::Display); 2] =
                [("size", &block.size.short()), ("n", &number)];
            return Some(fill("{size} free, in segment {n}", &parts));
        };
        let (name, category) = (self.tensor(owner), self.category(owner.category));
        // What has no name is called what it is for.
        let english = if name == category {
            "{size} {name}, in segment {n}"
        } else {
            "{size} {category} {name}, in segment {n}"
        };
        let parts: [(&str, &dyn std::fmt::Display); 4] = [
            ("size", &block.size.short()),
            ("category", &category),
            ("name", &name),
            ("n", &number),
        ];
        Some(fill(english, &parts))
    }
}
