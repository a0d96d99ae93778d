//! The modules of a program as a tree: each has a number and the module around it.

use std::collections::BTreeMap;

use crate::trace::LabelId;

/// A module's position in its [`Modules`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(usize);

impl ModuleId {
    /// The whole model, around all others.
    pub const MODEL: Self = Self(0);
}

/// All modules that operators run in, and those around them. A module comes behind the one around it.
#[derive(Debug)]
pub struct Modules {
    list: Vec<Module>,
    by_path: BTreeMap<String, ModuleId>,
    by_label: BTreeMap<LabelId, ModuleId>,
}

#[derive(Debug)]
struct Module {
    path: String,
    around: ModuleId,
    /// COUNT: modules around it.
    depth: usize,
}

impl Default for Modules {
    fn default() -> Self {
        let model = Module { path: String::new(), around: ModuleId::MODEL, depth: 0 };
        let by_path = BTreeMap::from([(String::new(), ModuleId::MODEL)]);
        let by_label = BTreeMap::from([(LabelId::default(), ModuleId::MODEL)]);
        Self { list: vec![model], by_path, by_label }
    }
}

impl Modules {
    /// Adds a module with those around it: `h.0.attn` with `h` and `h.0`. Labels of one path are one module.
    pub(super) fn add(&mut self, label: LabelId, path: &str) {
        if !self.by_label.contains_key(&label) {
            let id = self.of_path(path);
            self.by_label.insert(label, id);
        }
    }

    fn of_path(&mut self, path: &str) -> ModuleId {
        let mut around = ModuleId::MODEL;
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        for path in ends.filter_map(|end| path.get(..end)).filter(|path| !path.is_empty()) {
            around = self.by_path.get(path).copied().unwrap_or_else(|| {
                let id = ModuleId(self.list.len());
                let depth = self.depth(around) + 1;
                self.list.push(Module { path: path.to_owned(), around, depth });
                self.by_path.insert(path.to_owned(), id);
                id
            });
        }
        around
    }

    /// The module that a label of the trace names; `None` for one that names something else, such as the loss.
    pub(super) fn of_label(&self, label: LabelId) -> Option<ModuleId> {
        self.by_label.get(&label).copied()
    }

    /// The module's path, such as `h.0.attn`; empty for the whole model.
    pub fn path(&self, module: ModuleId) -> &str {
        self.list.get(module.0).map_or("", |module| &module.path)
    }

    /// The module around this one; the whole model is around itself.
    pub fn around(&self, module: ModuleId) -> ModuleId {
        self.list.get(module.0).map_or(ModuleId::MODEL, |module| module.around)
    }

    fn depth(&self, module: ModuleId) -> usize {
        self.list.get(module.0).map_or(0, |module| module.depth)
    }

    /// The innermost module around both, or one of the two.
    pub fn shared(&self, a: ModuleId, b: ModuleId) -> ModuleId {
        let (mut a, mut b) = (a, b);
        while a != b {
            if self.depth(a) >= self.depth(b) {
                a = self.around(a);
            } else {
                b = self.around(b);
            }
        }
        a
    }

    /// A module and those around it, from the innermost, without `end` and those around that.
    pub(super) fn within(
        &self,
        module: ModuleId,
        end: ModuleId,
    ) -> impl DoubleEndedIterator<Item = ModuleId> {
        let mut list = Vec::new();
        let mut at = module;
        while at != end && at != ModuleId::MODEL {
            list.push(at);
            at = self.around(at);
        }
        list.into_iter()
    }
}
