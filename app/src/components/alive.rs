//! What is alive at one moment: tensor by tensor, by module, by category.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::report::{LiveTensor, Snapshot};
use highwater_core::trace::Category;
use highwater_core::{Bytes, Report, sorted};
use highwater_draw::stack::Stack;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{HtmlElement, HtmlInputElement, KeyboardEvent};

use super::capped::{label, shown};
use super::island::{children, find, number_of, on, panel, said, set, watch};
use super::markup::Markup;
use super::readout::{class, what, when};
use super::turns::in_turn;
use crate::words::Vocabulary;
use crate::words::format::{grouped, length, percent, share};
use crate::words::language::{fill, tr};

/// COUNT: rows shown at first.
const FIRST: usize = 10;

/// The tab of single tensors.
const TENSOR: usize = 0;
/// The tab of categories; that of modules is between them.
const CATEGORY: usize = 2;

/// A moment, as far as it is known.
enum Moment {
    /// The peak, which the report tells.
    Peak(Arc<Report>),
    /// Any.
    Seen(Arc<Snapshot>),
}

impl Moment {
    fn live(&self) -> &[LiveTensor] {
        match self {
            Self::Peak(report) => &report.live_at_peak,
            Self::Seen(snapshot) => &snapshot.live,
        }
    }

    fn words(&self, report: Option<&Report>) -> String {
        match self {
            Self::Peak(report) => when(&report.timeline, report.peak.event),
            Self::Seen(snapshot) => {
                let when = report.map(|report| when(&report.timeline, snapshot.event));
                when.unwrap_or_default() + &what(&snapshot.operator, &snapshot.module)
            }
        }
    }
}

/// What the panel reads and asks for, and what its user has chosen in it.
struct List {
    report: Signal<Option<Arc<Report>>>,
    snapshot: Signal<Option<Arc<Snapshot>>>,
    marked: RwSignal<Option<usize>>,
    on_jump: Callback<usize>,
    by: Cell<usize>,
    query: RefCell<String>,
    is_open: Cell<bool>,
    /// The moment for which the whole list is shown.
    open_at: Cell<Option<usize>>,
}

/// The list, its tabs and its search.
#[component]
pub(crate) fn AlivePanel(
    /// The report, for its peak until a moment has been looked at.
    report: Signal<Option<Arc<Report>>>,
    /// The moment.
    snapshot: Signal<Option<Arc<Snapshot>>>,
    /// The tensor that is marked, by its place in the moment.
    marked: RwSignal<Option<usize>>,
    /// Another event is to be looked at.
    on_jump: Callback<usize>,
) -> impl IntoView {
    let live = move |root: HtmlElement| {
        let list = Rc::new(List {
            report,
            snapshot,
            marked,
            on_jump,
            by: Cell::new(TENSOR),
            query: RefCell::default(),
            is_open: Cell::new(false),
            open_at: Cell::new(None),
        });
        let (drawn, node) = (list.clone(), root.clone());
        watch(Box::new(move || {
            drawn.report.track();
            drawn.snapshot.track();
            let (drawn, here) = (drawn.clone(), node.clone());
            let draw = move || {
                let _drawn = drawn.draw(&here);
            };
            in_turn(&node, Box::new(draw));
        }));
        let node = root.clone();
        watch(Box::new(move || mark(&node, marked.get())));
        listen(&list, &root);
    };
    panel("panel alive", "alive-title", inside(), Box::new(live))
}

/// What is on the page before there is a moment.
fn inside() -> String {
    let (tabs, find) = (tr("How the list is put together"), tr("Find by name"));
    let mut markup = Markup::default();
    markup
        .raw(
            "<div class=\"panel-head\"><h2 class=\"panel-title\" id=\"alive-title\"></h2>\
         <p class=\"panel-note\"></p></div><p class=\"alive-when\"></p>\
         <div class=\"alive-tools\"><div class=\"choice\" role=\"tablist\" aria-label=\"",
        )
        .text(&tabs)
        .raw("\">");
    for (at, name) in [tr("by tensor"), tr("by module"), tr("by category")].iter().enumerate() {
        let at = at.to_string();
        markup
            .raw("<button type=\"button\" role=\"tab\" aria-controls=\"alive-list\" data-by=\"")
            .text(&at)
            .raw("\">")
            .text(name)
            .raw("</button>");
    }
    markup
        .raw("</div><input type=\"search\" class=\"alive-search\" aria-label=\"")
        .text(&find)
        .raw("\" placeholder=\"")
        .text(&find)
        .raw(
            "\"></div><div id=\"alive-list\" role=\"tabpanel\" tabindex=\"0\" \
         aria-labelledby=\"alive-title\"></div>\
         <button type=\"button\" class=\"show-all\" hidden></button>",
        );
    markup.done()
}

impl List {
    fn moment(&self) -> Option<Moment> {
        let seen = self.snapshot.get_untracked().map(Moment::Seen);
        seen.or_else(|| self.report.get_untracked().map(Moment::Peak))
    }

    fn draw(&self, root: &HtmlElement) -> Option<()> {
        let moment = self.moment()?;
        let report = self.report.get_untracked();
        let peak = report.as_ref().map(|report| report.peak.event);
        let at = match &moment {
            Moment::Peak(_) => peak,
            Moment::Seen(snapshot) => Some(snapshot.event),
        };
        // A long list is not drawn anew for every moment that the cursor passes.
        let is_open = self.is_open.get() && self.open_at.get() == at;
        self.is_open.set(is_open);
        self.open_at.set(at);
        let found = found(moment.live(), &self.query.borrow());
        let title = if at == peak { tr("Alive at the peak") } else { tr("Alive at this moment") };
        for (selector, words) in [
            (".panel-title", title),
            (".panel-note", summary(&moment, &found)),
            (".alive-when", moment.words(report.as_deref())),
        ] {
            find(root, selector)?.set_text_content(Some(&words));
        }
        let tabs = find(root, ".choice")?;
        let vocabulary = report.as_deref().map(Vocabulary::of).unwrap_or_default();
        for (at, tab) in children(&tabs).enumerate() {
            let is_chosen = at == self.by.get();
            set(&tab, "aria-selected", if is_chosen { "true" } else { "false" });
            set(&tab, "tabindex", if is_chosen { "0" } else { "-1" });
            let stack = if at == CATEGORY { Stack::Category } else { Stack::Module };
            if at != TENSOR {
                tab.set_text_content(Some(&vocabulary.stacked(stack)));
            }
        }
        let mut rows = Markup::default();
        rows.raw("<ul class=\"alive-rows\">");
        let all = self.rows(&mut rows, &moment, &found, vocabulary, shown(is_open, FIRST));
        rows.raw("</ul>");
        if all == 0 {
            rows.raw("<p class=\"hint\">").text(&tr("Nothing alive has such a name.")).raw("</p>");
        }
        replace(&find(root, "#alive-list")?, &rows.done());
        let more = find(root, ".show-all")?;
        more.set_hidden(all <= FIRST);
        more.set_text_content(Some(&label(all, FIRST, is_open)));
        set(&more, "aria-expanded", if is_open { "true" } else { "false" });
        Some(())
    }

    /// Writes the rows; how many there are in all.
    fn rows(
        &self,
        markup: &mut Markup,
        moment: &Moment,
        found: &[usize],
        vocabulary: Vocabulary,
        most: usize,
    ) -> usize {
        if self.by.get() == TENSOR {
            for &at in found.iter().take(most) {
                if let Some(tensor) = moment.live().get(at) {
                    write_tensor(markup, tensor, at, vocabulary);
                }
            }
            return found.len();
        }
        let named = (self.by.get() == CATEGORY).then_some(vocabulary);
        let groups = groups(moment.live(), found, named);
        let largest = groups.first().map_or(Bytes::ZERO, |group| group.bytes);
        let total = groups.iter().map(|group| group.bytes).sum();
        for group in groups.iter().take(most) {
            write_group(markup, group, largest, total);
        }
        groups.len()
    }

    /// What the user chooses is seen at once.
    fn choose(&self, by: usize, root: &HtmlElement) {
        self.by.set(by);
        let _drawn = self.draw(root);
    }
}

/// Replaces a list; a focus that was on one of its rows is on the list then, and not lost.
fn replace(list: &HtmlElement, rows: &str) {
    let active = list.owner_document().and_then(|document| document.active_element());
    let had_focus = active.is_some_and(|active| active != **list && list.contains(Some(&active)));
    list.set_inner_html(rows);
    if had_focus {
        // Fails only for what cannot have it.
        drop(list.focus());
    }
}

/// Shows which row is marked.
fn mark(root: &HtmlElement, marked: Option<usize>) {
    if let Some(old) = find(root, ".alive-marked") {
        // Fails only for names with spaces.
        drop(old.class_list().remove_1("alive-marked"));
    }
    let row = marked.and_then(|at| find(root, &format!("[data-at=\"{at}\"]")));
    if let Some(row) = row {
        drop(row.class_list().add_1("alive-marked"));
    }
}

fn listen(list: &Rc<List>, root: &HtmlElement) {
    let (here, node) = (list.clone(), root.clone());
    let on_click = move |event: &web_sys::Event| {
        if let Some(by) = number_of(event, "data-by") {
            here.choose(by, &node);
        } else if let Some(event) = number_of(event, "data-event") {
            here.on_jump.run(event);
        } else if said(event, "aria-expanded").is_some() {
            here.is_open.set(!here.is_open.get());
            here.choose(here.by.get(), &node);
        }
    };
    on(root, "click", Box::new(on_click));
    let (here, node) = (list.clone(), root.clone());
    let on_input = move |event: &web_sys::Event| {
        let Some(target) = event.target() else { return };
        let field: HtmlInputElement = target.unchecked_into();
        *here.query.borrow_mut() = field.value().trim().to_ascii_lowercase();
        here.choose(here.by.get(), &node);
    };
    on(root, "input", Box::new(on_input));
    let (here, node) = (list.clone(), root.clone());
    let on_key = move |event: &web_sys::Event| {
        let key: &KeyboardEvent = event.unchecked_ref();
        let step = match &*key.key() {
            "ArrowLeft" => 2,
            "ArrowRight" => 1,
            _ => return,
        };
        if number_of(event, "data-by").is_some() {
            event.prevent_default();
            here.choose((here.by.get() + step) % 3, &node);
            // The focus goes along.
            if let Some(tab) = find(&node, "[aria-selected=true]") {
                drop(tab.focus());
            }
        }
    };
    on(root, "keydown", Box::new(on_key));
    for name in ["pointerover", "focusin", "pointerleave"] {
        let marked = list.marked;
        on(
            root,
            name,
            Box::new(move |event| {
                let at = number_of(event, "data-at").filter(|_| event.type_() != "pointerleave");
                if marked.get_untracked() != at {
                    marked.set(at);
                }
            }),
        );
    }
}

/// `1,234 tensors, 3.20 GiB`.
fn summary(moment: &Moment, found: &[usize]) -> String {
    let bytes: Bytes = found.iter().filter_map(|&at| Some(moment.live().get(at)?.bytes)).sum();
    fill(
        "{count} tensors, {size} requested",
        &[("count", &grouped(found.len() as u64)), ("size", &bytes)],
    )
}

/// Places of the tensors that have a text in one of their names.
fn found(live: &[LiveTensor], query: &str) -> Vec<usize> {
    let has = |name: &String| name.to_ascii_lowercase().contains(query);
    let is_found = |tensor: &LiveTensor| {
        query.is_empty() || has(&tensor.name) || has(&tensor.module) || has(&tensor.operator)
    };
    let places = live.iter().enumerate().filter(|(_, tensor)| is_found(tensor));
    places.map(|(place, _)| place).collect()
}

/// Several tensors in one row.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    name: String,
    meaning: String,
    class: &'static str,
    bytes: Bytes,
}

/// Sums by category, where there are names for them, else by module.
fn groups(live: &[LiveTensor], found: &[usize], by: Option<Vocabulary>) -> Vec<Group> {
    let tensors = || found.iter().filter_map(|&at| live.get(at));
    let mut groups = Vec::new();
    if let Some(vocabulary) = by {
        for category in Category::ALL {
            let own = tensors().filter(|tensor| tensor.category == category);
            groups.push(Group {
                name: vocabulary.category(category),
                meaning: vocabulary.meaning(category),
                class: class(category),
                bytes: own.map(|tensor| tensor.bytes).sum(),
            });
        }
        groups.retain(|group| group.bytes > Bytes::ZERO);
    } else {
        let mut sums: BTreeMap<&str, Bytes> = BTreeMap::new();
        for tensor in tensors() {
            *sums.entry(&tensor.module).or_default() += tensor.bytes;
        }
        for (module, bytes) in sums {
            let outside = module.is_empty();
            let name = if outside { tr("outside of any module") } else { module.to_owned() };
            groups.push(Group { meaning: name.clone(), name, class: "", bytes });
        }
    }
    sorted::by_key(&mut groups, |group| std::cmp::Reverse(group.bytes));
    groups
}

fn write_group(markup: &mut Markup, group: &Group, largest: Bytes, total: Bytes) {
    markup.raw("<li class=\"alive-group\">");
    markup.size(group.bytes);
    let (part, width) = (percent(group.bytes, total), length(share(group.bytes, largest)));
    markup
        .raw("<span class=\"alive-name\" title=\"")
        .text(&group.meaning)
        .raw("\">")
        .text(&group.name)
        .raw("</span><span class=\"alive-share\">")
        .text(&part)
        .raw("</span><svg class=\"alive-bar ")
        .text(group.class)
        .raw(
            "-bar\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect height=\"1\" width=\"",
        )
        .text(&width)
        .raw("\"/></svg></li>");
}

fn write_tensor(markup: &mut Markup, tensor: &LiveTensor, at: usize, vocabulary: Vocabulary) {
    let name = vocabulary.tensor(tensor);
    let kind = tensor.tensor.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut about = vec![tensor.operator.as_str(), tensor.module.as_str(), kind.as_str()];
    about.retain(|part| !part.is_empty() && *part != name);
    let (about, at) = (about.join(" · "), at.to_string());
    let category = vocabulary.category(tensor.category);
    markup.raw("<li class=\"alive-row\" data-at=\"").text(&at).raw("\">");
    markup.size(tensor.bytes);
    markup
        .raw("<span class=\"alive-name\" title=\"")
        .text(&name)
        .raw("\"><span class=\"swatch ")
        .text(class(tensor.category))
        .raw("\" aria-hidden=\"true\"></span><span class=\"hidden-text\">")
        .text(&category)
        .raw(" </span>")
        .text(&name)
        .raw("</span>");
    match tensor.operator.split_once('\n') {
        None => markup
            .around("<span class=\"alive-about\" title=\"", &about, "\">")
            .around("", &about, "</span>"),
        // Of a recorded run: who called, innermost first.
        Some((innermost, callers)) => markup
            .around("<details class=\"alive-about\"><summary>", innermost, "</summary>")
            .around("<pre>", callers, "</pre></details>"),
    };
    markup.raw("<span class=\"alive-life\">");
    let number = |event: usize| grouped(event as u64);
    let born = fill("born {event}", &[("event", &number(tensor.born))]);
    if tensor.born == usize::MAX {
        markup.around("<span>", &tr("there before"), "</span>");
    } else {
        write_jump(markup, tensor.born, &born, &name);
    }
    match tensor.dies {
        Some(event) => {
            let dies = fill("dies {event}", &[("event", &number(event))]);
            write_jump(markup, event, &dies, &name);
        }
        None => {
            markup.around("<span>", &tr("stays"), "</span>");
        }
    }
    markup.raw("</span></li>");
}

/// A button that goes to an event.
fn write_jump(markup: &mut Markup, event: usize, words: &str, name: &str) {
    let label = fill("{words}: go there ({name})", &[("words", &words), ("name", &name)]);
    let event = event.to_string();
    markup
        .raw("<button type=\"button\" data-event=\"")
        .text(&event)
        .raw("\" aria-label=\"")
        .text(&label)
        .raw("\" title=\"")
        .text(&label)
        .raw("\">")
        .text(words)
        .raw("</button>");
}
