//! The modules of the model as a tree, each with its bytes at the peak.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::Report;
use leptos::prelude::*;

use crate::words::format::{exact, length, percent, share};
use crate::words::language::{fill, tr};

/// A module, and the modules inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Module {
    /// Its whole path; empty for what belongs to no module.
    path: String,
    /// The last part of the path.
    name: String,
    /// Requested bytes at the peak, of it and of all inside it.
    bytes: Bytes,
    /// In the order in which they run.
    inside: Vec<Self>,
}

/// The tree, folded, with a bar for each module that is shown.
#[component]
pub(crate) fn ModuleTree(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// The path of the module that is highlighted.
    chosen: Signal<Option<String>>,
    /// Another module is to be highlighted, or none.
    on_module: Callback<Option<String>>,
) -> impl IntoView {
    let open = RwSignal::new(BTreeSet::new());
    let tree = Memo::new(move |_| report.get().map(|report| tree(&report)));
    Effect::new(move |_| {
        if let Some(tree) = tree.get() {
            open.update(|open| open.extend(first_fork(&tree)));
        }
    });
    let shown = Shown { open, chosen, on_module };
    view! {
        <section class="module-tree" aria-labelledby="module-tree-title">
            <h3 class="module-tree-title" id="module-tree-title">
                {tr("Modules at the peak")}
            </h3>
            {move || tree.get().map(|tree| list(&tree, tree.bytes, shown))}
        </section>
    }
}

/// What the rows read and ask for.
#[derive(Clone, Copy)]
struct Shown {
    open: RwSignal<BTreeSet<String>>,
    chosen: Signal<Option<String>>,
    on_module: Callback<Option<String>>,
}

impl Shown {
    /// Whether the modules inside one are shown: it was unfolded, or one of them is highlighted.
    fn is_open(self, path: &str) -> bool {
        let is_around =
            |chosen: &Option<String>| chosen.as_ref().is_some_and(|chosen| is_inside(chosen, path));
        self.open.with(|open| open.contains(path)) || self.chosen.with(is_around)
    }

    fn toggle(self, path: &str) {
        self.open.update(|open| {
            if !open.remove(path) {
                open.insert(path.to_owned());
            }
        });
    }
}

/// Whether a path is another or lies below it.
pub(super) fn is_within(path: &str, outer: &str) -> bool {
    path == outer || is_inside(path, outer)
}

/// Whether a path lies below another.
fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

fn list(module: &Module, total: Bytes, shown: Shown) -> AnyView {
    let rows = module.inside.iter().map(|inside| row(inside.clone(), total, shown));
    view! { <ul class="module-list">{rows.collect_view()}</ul> }.into_any()
}

fn row(module: Module, total: Bytes, shown: Shown) -> impl IntoView {
    let outside = module.path.is_empty();
    let name = if outside { tr("outside of any module") } else { module.name.clone() };
    let title = if outside { name.clone() } else { module.path.clone() };
    let module = StoredValue::new(module);
    let path = move || module.with_value(|module| module.path.clone());
    let is_open = Memo::new(move |_| shown.is_open(&path()));
    let is_chosen =
        Memo::new(move |_| shown.chosen.with(|chosen| chosen.as_deref() == Some(path().as_str())));
    let unfold = module.with_value(|module| !module.inside.is_empty()).then(|| {
        let label = fill("Modules inside {module}", &[("module", &title)]);
        view! {
            <button
                type="button"
                class="module-unfold"
                aria-label=label
                aria-expanded=move || is_open.get().to_string()
                on:click=move |_| shown.toggle(&path())
            >
                {move || if is_open.get() { "\u{25be}" } else { "\u{25b8}" }}
            </button>
        }
    });
    let choose = move |_| shown.on_module.run((!is_chosen.get_untracked()).then(path));
    let bytes = module.with_value(|module| module.bytes);
    view! {
        <li class="module">
            <div class="module-row" class:module-chosen=move || is_chosen.get()>
                {unfold}
                <button
                    type="button"
                    class="module-name"
                    title=title
                    disabled=outside
                    aria-pressed=move || is_chosen.get().to_string()
                    on:click=choose
                >
                    {name}
                </button>
                <data class="byte-size" value=bytes.0.to_string() title=exact(bytes)>
                    {bytes.short()}
                </data>
                <span class="module-share">{percent(bytes, total)}</span>
                <svg class="module-bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
                    <rect height="1" width=length(share(bytes, total))></rect>
                </svg>
            </div>
            {move || is_open.get().then(|| module.with_value(|module| list(module, total, shown)))}
        </li>
    }
}

/// The modules of a report; the root has what all of them hold.
fn tree(report: &Report) -> Module {
    let labels = report.timeline.labels.iter().enumerate();
    let runs: BTreeMap<&str, usize> =
        labels.map(|(place, label)| (label.as_str(), place)).collect();
    let parts = report.modules_at_peak.iter();
    let mut parts: Vec<(&str, Bytes)> =
        parts.map(|part| (part.module.as_str(), part.bytes)).collect();
    // Those of which no event is shown come behind the others.
    parts.sort_by_key(|(path, _)| runs.get(path).copied().unwrap_or(usize::MAX));
    let mut root = Module::default();
    for (path, bytes) in parts {
        root.add(path, bytes);
    }
    root
}

impl Module {
    /// Counts what a module holds, here and on the way to it.
    fn add(&mut self, path: &str, bytes: Bytes) {
        self.bytes += bytes;
        let mut module = self;
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        let mut begin = 0;
        for end in ends {
            let (outer, name) = (path.get(..end), path.get(begin..end));
            let (outer, name) = (outer.unwrap_or_default(), name.unwrap_or_default());
            let known = module.inside.iter().position(|inside| inside.path == outer);
            let place = known.unwrap_or_else(|| {
                let new = Self { path: outer.to_owned(), name: name.to_owned(), ..Self::default() };
                module.inside.push(new);
                module.inside.len() - 1
            });
            module = &mut module.inside[place];
            module.bytes += bytes;
            begin = end + 1;
        }
    }
}

/// The modules to unfold at first: those that hold nearly everything, such as `model.layers`.
fn first_fork(root: &Module) -> Vec<String> {
    let mut paths = Vec::new();
    let mut module = root;
    let is_most = |inside: &&Module| inside.bytes.parts_of(root.bytes, 100) >= 60;
    while let Some(inside) = module.inside.iter().find(is_most) {
        if !inside.path.is_empty() {
            paths.push(inside.path.clone());
        }
        module = inside;
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(module: &Module, depth: usize, lines: &mut Vec<String>) {
        for inside in &module.inside {
            lines.push(format!("{}{} {}", "  ".repeat(depth), inside.name, inside.bytes.0));
            outline(inside, depth + 1, lines);
        }
    }

    #[test]
    fn modules_have_what_is_inside_them() {
        let mut root = Module::default();
        for (path, bytes) in
            [("m.h.0.mlp", 5), ("m.h.0", 1), ("m.h.1.mlp", 5), ("loss", 3), ("", 2)]
        {
            root.add(path, Bytes(bytes));
        }
        let mut lines = Vec::new();
        outline(&root, 0, &mut lines);
        assert_eq!(
            lines,
            ["m 11", "  h 11", "    0 6", "      mlp 5", "    1 5", "      mlp 5", "loss 3", " 2"]
        );
        assert_eq!(root.bytes, Bytes(16));
        assert_eq!(first_fork(&root), ["m", "m.h"]);
        assert!(
            is_inside("m.h.0", "m.h") && !is_inside("m.h", "m.h") && !is_inside("m.head", "m.h")
        );
    }
}
