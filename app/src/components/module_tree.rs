//! The modules of the model as a tree, each with its bytes at the peak.

use highwater_core::order::{InOrder as _, IntoOrdered as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::Report;
use leptos::html;
use leptos::prelude::*;

use crate::words::format::{exact, length, percent, share};
use crate::words::language::{fill, tr};

/// REM: the height of a row, which the style sheet has as well.
const ROW: f64 = 1.9375;
/// COUNT: rows in sight.
const IN_SIGHT: usize = 8;
/// COUNT: rows drawn above and below those in sight, so that keys find the next one.
const AROUND: usize = 24;

/// The modules of a report, each with those inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tree {
    /// All of them.
    modules: Vec<Module>,
    /// The place of each by its path.
    places: BTreeMap<String, usize>,
    /// Places of those inside no other, in the order in which they run.
    outermost: Vec<usize>,
    /// SUM: what all of them hold.
    bytes: Bytes,
}

/// A module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Module {
    /// Its whole path; empty for what belongs to no module.
    path: String,
    /// Where the last part of the path begins.
    name: usize,
    /// Requested bytes at the peak, of it and of all inside it.
    bytes: Bytes,
    /// Places of those inside it, in the order in which they run.
    inside: Vec<usize>,
}

/// A row that is shown or scrolled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    /// Place of its module.
    module: usize,
    /// COUNT: modules around it.
    depth: usize,
    /// Its number among those inside the same module, from 1.
    number: usize,
    /// COUNT: those.
    of: usize,
}

/// The tree, folded, with a bar for each module that is shown. Only rows near those in sight are drawn, however many
/// there are.
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
    let tree = Memo::new(move |_| report.get().map(|report| Arc::new(Tree::of(&report))));
    Effect::new(move |_| {
        if let Some(tree) = tree.get() {
            open.update(|open| open.extend(tree.first_fork()));
        }
    });
    let rows = Memo::new(move |_| {
        let tree = tree.get()?;
        let around = chosen.with(|chosen| chosen.as_deref().map(outer_paths).unwrap_or_default());
        Some(open.with(|open| tree.rows(&|path| open.contains(path) || around.contains(path))))
    });
    let count = move || rows.with(|rows| rows.as_ref().map_or(0, Vec::len));
    let window = NodeRef::<html::Div>::new();
    let top = RwSignal::new(0);
    let scrolled = move |_| {
        if let Some(window) = window.get_untracked() {
            let share = f64::from(window.scroll_top()) / f64::from(window.scroll_height().max(1));
            top.set(place(share, untrack(count)));
        }
    };
    let drawn = Memo::new(move |_| {
        let count = count();
        let first = top.get().min(count.saturating_sub(IN_SIGHT)).saturating_sub(AROUND);
        (first, (first + IN_SIGHT + 2 * AROUND).min(count))
    });
    let shown = Shown { tree, open, chosen, on_module };
    let in_window = move || {
        let (first, end) = drawn.get();
        let tree = tree.get();
        let path = |row: &Row| Some((tree.as_ref()?.modules.get(row.module)?.path.clone(), *row));
        rows.with(|rows| {
            let rows = rows.as_deref().and_then(|rows| rows.get(first..end));
            rows.unwrap_or_default().iter().filter_map(path).collect::<Vec<_>>()
        })
    };
    let rem = |rows: usize| length(ROW * f64::from(u32::try_from(rows).unwrap_or(0))) + "rem";
    view! {
        <section class="module-tree" aria-labelledby="module-tree-title">
            <h3 class="module-tree-title" id="module-tree-title">
                {tr("Modules at the peak")}
            </h3>
            <div class="module-window" node_ref=window on:scroll=scrolled>
                <ul
                    class="module-list"
                    style:padding-top=move || rem(drawn.get().0)
                    style:padding-bottom=move || rem(count().saturating_sub(drawn.get().1))
                >
                    <For each=in_window key=Clone::clone let:item>
                        {row(item.0, item.1, shown)}
                    </For>
                </ul>
            </div>
        </section>
    }
}

/// COUNT: rows above a share of the height.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count is a count, and one that is too large or no number is cut"
)]
fn place(share: f64, rows: usize) -> usize {
    (share * f64::from(u32::try_from(rows).unwrap_or(u32::MAX))) as usize
}

/// The paths of all modules around one.
fn outer_paths(path: &str) -> BTreeSet<String> {
    let ends = path.match_indices('.').map(|(end, _)| end);
    ends.filter_map(|end| path.get(..end).map(str::to_owned)).collect()
}

/// What the rows read and ask for.
#[derive(Clone, Copy)]
struct Shown {
    tree: Memo<Option<Arc<Tree>>>,
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

    /// What a module holds, of what all of them hold.
    fn bytes(self, path: &str) -> (Bytes, Bytes) {
        self.tree.with(|tree| {
            let module = tree.as_ref().and_then(|tree| Some((tree.at(path)?.bytes, tree.bytes)));
            module.unwrap_or_default()
        })
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

fn row(path: String, row: Row, shown: Shown) -> impl IntoView {
    let outside = path.is_empty();
    let (name, has_inside) = shown.tree.with_untracked(|tree| {
        let module = tree.as_ref().and_then(|tree| tree.at(&path));
        let name = module.and_then(|module| module.path.get(module.name..)).unwrap_or_default();
        (name.to_owned(), module.is_some_and(|module| !module.inside.is_empty()))
    });
    let name = if outside { tr("outside of any module") } else { name };
    let title = if outside { name.clone() } else { path.clone() };
    let path = StoredValue::new(path);
    let is_open = Memo::new(move |_| path.with_value(|path| shown.is_open(path)));
    let is_chosen = Memo::new(move |_| {
        path.with_value(|path| shown.chosen.with(|chosen| chosen.as_ref() == Some(path)))
    });
    let unfold = has_inside.then(|| {
        let label = fill("Modules inside {module}", &[("module", &title)]);
        view! {
            <button
                type="button"
                class="module-unfold"
                aria-label=label
                aria-expanded=move || is_open.get().to_string()
                on:click=move |_| path.with_value(|path| shown.toggle(path))
            >
                {move || if is_open.get() { "\u{25be}" } else { "\u{25b8}" }}
            </button>
        }
    });
    let choose =
        move |_| shown.on_module.run((!is_chosen.get_untracked()).then(|| path.get_value()));
    let held = Memo::new(move |_| path.with_value(|path| shown.bytes(path)));
    view! {
        <li
            class="module"
            attr:aria-level=(row.depth + 1).to_string()
            attr:aria-posinset=row.number.to_string()
            attr:aria-setsize=row.of.to_string()
        >
            <div
                class="module-row"
                class:module-chosen=move || is_chosen.get()
                style:margin-left=["calc(var(--space-3) * ", &row.depth.to_string(), ")"].concat()
            >
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
                <data
                    class="byte-size"
                    value=move || held.get().0.0.to_string()
                    title=move || exact(held.get().0)
                >
                    {move || held.get().0.short()}
                </data>
                <span class="module-share">
                    {move || {
                        let (bytes, total) = held.get();
                        percent(bytes, total)
                    }}
                </span>
                <svg class="module-bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
                    <rect
                        height="1"
                        width=move || {
                            let (bytes, total) = held.get();
                            length(share(bytes, total))
                        }
                    ></rect>
                </svg>
            </div>
        </li>
    }
}

impl Tree {
    /// The modules of a report.
    fn of(report: &Report) -> Self {
        let labels = report.timeline.labels.iter().enumerate();
        let runs: BTreeMap<&str, usize> =
            labels.map(|(place, label)| (label.as_str(), place)).into_map();
        let parts = report.modules_at_peak.iter();
        let mut parts: Vec<(&str, Bytes)> =
            parts.map(|part| (part.module.as_str(), part.bytes)).collect();
        // Those of which no event is shown come behind the others.
        parts.order_by_key(|(path, _)| runs.get(path).copied().unwrap_or(usize::MAX));
        let mut tree = Self::default();
        for (path, bytes) in parts {
            tree.add(path, bytes);
        }
        tree
    }

    /// The module of a path.
    fn at(&self, path: &str) -> Option<&Module> {
        self.modules.get(*self.places.get(path)?)
    }

    /// Counts what a module holds, here and on the way to it.
    fn add(&mut self, path: &str, bytes: Bytes) {
        self.bytes += bytes;
        let mut around = None;
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        let mut name = 0;
        for end in ends {
            let outer = path.get(..end).unwrap_or_default();
            let place = self.places.get(outer).copied().unwrap_or_else(|| {
                let place = self.modules.len();
                self.modules.push(Module { path: outer.to_owned(), name, ..Module::default() });
                self.places.insert(outer.to_owned(), place);
                match around.and_then(|around: usize| self.modules.get_mut(around)) {
                    Some(around) => around.inside.push(place),
                    None => self.outermost.push(place),
                }
                place
            });
            if let Some(module) = self.modules.get_mut(place) {
                module.bytes += bytes;
            }
            around = Some(place);
            name = end + 1;
        }
    }

    /// The rows from above to below, where these modules are unfolded.
    fn rows(&self, is_open: &dyn Fn(&str) -> bool) -> Vec<Row> {
        let row = |depth, (at, &module, of): (usize, &usize, usize)| Row {
            module,
            depth,
            number: at + 1,
            of,
        };
        let each = |places: &[usize], depth: usize| -> Vec<Row> {
            let places = places.iter().enumerate().rev();
            let of = places.len();
            places.map(|(at, module)| row(depth, (at, module, of))).collect()
        };
        // Those to come, the next one last.
        let mut next = each(&self.outermost, 0);
        let mut rows = Vec::new();
        while let Some(row) = next.pop() {
            rows.push(row);
            let inside = self.modules.get(row.module).filter(|module| is_open(&module.path));
            next.extend(inside.map_or_else(Vec::new, |of| each(&of.inside, row.depth + 1)));
        }
        rows
    }

    /// The modules to unfold at first: those that hold nearly everything, such as `model.layers`.
    fn first_fork(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let is_most = |place: &&usize| {
            let module = self.modules.get(**place);
            module.is_some_and(|module| module.bytes.parts_of(self.bytes, 100) >= 60)
        };
        let mut inside = &self.outermost;
        while let Some(module) = inside.iter().find(is_most).and_then(|&at| self.modules.get(at)) {
            if !module.path.is_empty() {
                paths.push(module.path.clone());
            }
            inside = &module.inside;
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(parts: &[(&str, u64)]) -> Tree {
        let mut tree = Tree::default();
        for &(path, bytes) in parts {
            tree.add(path, Bytes(bytes));
        }
        tree
    }

    #[test]
    fn modules_have_what_is_inside_them() {
        let tree = tree(&[("m.h.0.mlp", 5), ("m.h.0", 1), ("m.h.1.mlp", 5), ("loss", 3), ("", 2)]);
        let lines: Vec<String> = tree
            .rows(&|_| true)
            .iter()
            .map(|row| {
                let module = &tree.modules[row.module];
                let (name, place) = (&module.path[module.name..], [row.number, row.of]);
                format!("{}{name} {} {place:?}", "  ".repeat(row.depth), module.bytes.0)
            })
            .collect();
        assert_eq!(
            lines,
            [
                "m 11 [1, 3]",
                "  h 11 [1, 1]",
                "    0 6 [1, 2]",
                "      mlp 5 [1, 1]",
                "    1 5 [2, 2]",
                "      mlp 5 [1, 1]",
                "loss 3 [2, 3]",
                " 2 [3, 3]"
            ]
        );
        assert_eq!(tree.bytes, Bytes(16));
        assert_eq!(tree.first_fork(), ["m", "m.h"]);
        assert_eq!(tree.rows(&|path| path == "m").len(), 4);
        assert_eq!(outer_paths("m.h.0"), ["m".to_owned(), "m.h".to_owned()].into());
        assert!(
            is_inside("m.h.0", "m.h") && !is_inside("m.h", "m.h") && !is_inside("m.head", "m.h")
        );
    }

    /// As many modules as a long printed model has are put together at once, and each is found by its path.
    #[test]
    fn a_tree_of_many_modules_is_made_in_one_pass() {
        let names: Vec<String> = (0..40_000).map(|n| format!("layers.{n}")).collect();
        let tree = tree(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
        assert_eq!(tree.rows(&|path| path == "layers").len(), 40_001);
        assert_eq!(tree.at("layers.39999").map(|module| module.bytes), Some(Bytes(1)));
    }
}
