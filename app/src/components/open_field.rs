//! The one field that opens everything: a file, pasted text, or a name.

use highwater_core::formats::catalogue::{MARK, of_address};
use highwater_core::order::InOrder as _;
use leptos::ev::{ClipboardEvent, KeyboardEvent, MouseEvent};
use leptos::html;
use leptos::prelude::*;
use web_sys::File;

use super::icons::{CROSS, OPEN, icon};
use super::keep::Keep;
use crate::model::examples::{EXAMPLES, Example, Setup};
use crate::model::state::Arriving;
use crate::model::visit::Recent;
use crate::words::keep;
use crate::words::language::{fill, tr};
use crate::words::notice;

/// What the field opens, and how.
#[derive(Clone, Copy)]
pub(crate) struct Opens {
    /// A file was chosen.
    pub(crate) file: Callback<File>,
    /// An example was chosen.
    pub(crate) example: Callback<Example>,
    /// A text was pasted: its name and the text.
    pub(crate) text: Callback<(String, String)>,
    /// A popular run was chosen.
    pub(crate) setup: Callback<Setup>,
    /// The models that need no file: a line for each.
    pub(crate) names: RwSignal<String>,
    /// Asks for them, where they are not there.
    pub(crate) ask_names: Callback<()>,
    /// The user wants to write a model.
    pub(crate) write: Callback<()>,
    /// What is being opened is not wanted any more.
    pub(crate) cancel: Callback<()>,
    /// The model is to be taken off the page.
    pub(crate) close: Callback<()>,
}

/// COUNT: models of the catalogue that are offered at once.
const NAMES_SHOWN: usize = 12;

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq)]
struct Named {
    id: String,
    name: String,
    hub: String,
}

/// An entry of the list below the field.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    /// A model that travels with the page.
    Example(Example),
    /// A model of the catalogue.
    Named(Named),
    /// Something that was opened before, and its place in that list.
    Recent(Recent, i32),
    /// Nothing of the above is to be remembered any more.
    ForgetAll,
    /// The editor.
    Write,
    /// A line of a message about memory.
    Message(String),
    /// COUNT: models of the catalogue that are not offered, because there are too many.
    More(usize),
    /// A name that is not known: what was typed.
    Unknown(String),
}

impl Entry {
    fn title(&self) -> String {
        match self {
            Self::Example(example) => example.title.to_owned(),
            Self::Named(named) => named.name.clone(),
            Self::Recent(recent, _) => recent.name.clone(),
            Self::ForgetAll => tr("Forget all"),
            Self::Write => tr("Write a model"),
            Self::Message(_) => tr("Explain this message"),
            Self::More(count) => fill("{n} more", &[("n", count)]),
            Self::Unknown(typed) => fill("“{name}” is not in the catalogue", &[("name", typed)]),
        }
    }

    fn about(&self) -> String {
        match self {
            Self::Example(example) => tr(example.about),
            Self::Named(named) => named.hub.clone(),
            Self::Recent(recent, _) => keep::recent_kind(&recent.kind),
            Self::ForgetAll => tr("recent inputs, and the files kept in this browser"),
            Self::Write => tr("as a list of layers, with an answer at every keystroke"),
            Self::Message(_) => tr("about memory that ran out"),
            Self::More(_) => tr("type more of the name"),
            Self::Unknown(_) => tr("Press Enter for the nearest names, or drop its config.json."),
        }
    }
}

/// The list below the field: what it offers, and which entry the keys have reached.
#[derive(Clone, Copy)]
struct List {
    typed: RwSignal<String>,
    is_open: RwSignal<bool>,
    active: RwSignal<Option<usize>>,
    entries: Memo<Vec<Entry>>,
    opens: Opens,
    keep: Keep,
}

impl List {
    fn of(opens: Opens, keep: Keep) -> Self {
        let typed = RwSignal::new(String::new());
        let entries = Memo::new(move |_| {
            opens.names.with(|names| entries(&typed.get(), &keep.recent.get(), names))
        });
        Self {
            typed,
            is_open: RwSignal::new(false),
            active: RwSignal::new(None),
            entries,
            opens,
            keep,
        }
    }

    fn close(self) {
        self.is_open.set(false);
        self.active.set(None);
    }

    fn choose(self, entry: Entry) {
        match entry {
            Entry::Example(example) => self.opens.example.run(example),
            Entry::Recent(recent, _) => self.keep.on_open.run(recent.fragment),
            Entry::ForgetAll => self.keep.on_forget.run(-1),
            Entry::Write => self.opens.write.run(()),
            Entry::Named(Named { id, name, .. }) => self.open_named(name, &id),
            Entry::Unknown(typed) => self.open_named(typed.clone(), &typed),
            Entry::Message(line) => self.opens.text.run((notice::pasted(), line)),
            Entry::More(_) => return,
        }
        self.typed.set(String::new());
        self.close();
    }

    /// Opens a model by its name, as a text that a link can hold.
    fn open_named(self, name: String, id: &str) {
        self.opens.text.run((name, [MARK, id].concat()));
    }

    fn type_text(self, text: String) {
        self.opens.ask_names.run(());
        self.typed.set(text);
        self.is_open.set(true);
        self.active.set(None);
    }

    fn press(self, event: &KeyboardEvent) {
        let count = self.entries.with_untracked(Vec::len);
        match event.key().as_str() {
            key @ ("ArrowDown" | "ArrowUp") if count > 0 => {
                let (first, step) =
                    if key == "ArrowDown" { (0, 1) } else { (count - 1, count - 1) };
                event.prevent_default();
                self.is_open.set(true);
                self.active.update(|at| *at = Some(at.map_or(first, |at| (at + step) % count)));
            }
            "Enter" => {
                event.prevent_default();
                self.is_open.set(true);
                let at = self.active.get_untracked().unwrap_or(0);
                let entry = self.entries.with_untracked(|entries| entries.get(at).cloned());
                if let Some(entry) = entry {
                    self.choose(entry);
                }
            }
            "Delete" => {
                let at = self.active.get_untracked();
                let entry =
                    at.and_then(|at| self.entries.with_untracked(|all| all.get(at).cloned()));
                if let Some(Entry::Recent(_, place)) = entry {
                    event.prevent_default();
                    self.active.set(None);
                    self.keep.on_forget.run(place);
                }
            }
            "Escape" => self.close(),
            _ => {}
        }
    }

    /// A name has one line; a model or a configuration has more, and so have most messages.
    fn paste(self, event: &ClipboardEvent) {
        let text = event.clipboard_data().and_then(|data| data.get_data("text/plain").ok());
        let is_whole = |text: &String| text.trim().contains(['\n', '{']) || is_message(text);
        if let Some(text) = text.filter(is_whole) {
            event.prevent_default();
            event.stop_propagation();
            self.opens.text.run((notice::pasted(), text));
            self.close();
        }
    }

    /// The id of the entry that the keys have reached.
    fn active_id(self) -> Option<String> {
        self.active.get().filter(|_| self.is_open.get()).map(entry_id)
    }
}

fn entry_id(at: usize) -> String {
    ["open-entry-", &at.to_string()].concat()
}

/// A combobox: typing filters what can be opened, a paste of several lines is a model.
#[component]
pub(crate) fn OpenField(
    /// Name of the model on the page.
    loaded: Signal<Option<String>>,
    /// What is being opened.
    #[prop(into)]
    opening: Signal<Option<Arriving>>,
    /// What it opens, and how.
    opens: Opens,
    /// What was opened before.
    keep: Keep,
    /// Whether it is what the page is about at the moment.
    #[prop(optional)]
    large: bool,
) -> impl IntoView {
    let list = List::of(opens, keep);
    let state = move || match (opening.get(), loaded.get()) {
        (Some(arriving), _) => arriving_chip(&arriving, opens.cancel).into_any(),
        (None, Some(name)) => loaded_chip(name, opens.close).into_any(),
        (None, None) => ().into_any(),
    };
    view! {
        <div
            class="open-field"
            class:open-field-large=large
            aria-busy=move || opening.with(Option::is_some).to_string()
        >
            <div class="open-frame">
                <span class="open-state" role="status">
                    {state}
                </span>
                <input
                    id="open"
                    type="text"
                    class="open-input"
                    role="combobox"
                    autocomplete="off"
                    autocapitalize="off"
                    spellcheck="false"
                    aria-label=tr("Open a model")
                    aria-autocomplete="list"
                    aria-controls="open-list"
                    aria-expanded=move || list.is_open.get().to_string()
                    aria-activedescendant=move || list.active_id()
                    placeholder=tr("Drop a file, paste a model, or type a name")
                    prop:value=list.typed
                    on:focus=move |_| list.is_open.set(true)
                    on:click=move |_| list.is_open.set(true)
                    on:blur=move |_| list.close()
                    on:input:target=move |event| list.type_text(event.target().value())
                    on:keydown=move |event| list.press(&event)
                    on:paste=move |event| list.paste(&event)
                />
                <FileButton on_file=opens.file large />
            </div>
            <ul
                class="open-list"
                id="open-list"
                role="listbox"
                aria-label=tr("What can be opened")
                hidden=move || !list.is_open.get()
            >
                {move || {
                    list.entries.get().into_iter().enumerate().map(|line| item(list, line)).collect_view()
                }}
            </ul>
        </div>
    }
}

/// A button that opens the system's file dialog.
#[component]
fn FileButton(
    /// A file was chosen.
    on_file: Callback<File>,
    /// Whether it is what the page is about at the moment.
    large: bool,
) -> impl IntoView {
    let files = NodeRef::<html::Input>::new();
    view! {
        <button
            type="button"
            class=if large { "button button-accent" } else { "button" }
            id="open-file"
            // Its word is hidden where there is no room.
            aria-label=tr("Open a file")
            on:click=move |_| {
                if let Some(files) = files.get() {
                    files.click();
                }
            }
        >
            {icon(OPEN)}
            <span class="open-file-word">{tr("Open a file")}</span>
        </button>
        <input
            node_ref=files
            type="file"
            class="hidden"
            tabindex="-1"
            aria-hidden="true"
            on:change:target=move |event| {
                let input = event.target();
                if let Some(file) = input.files().and_then(|files| files.get(0)) {
                    on_file.run(file);
                }
                // The same file chosen again is a change, too.
                input.set_value("");
            }
        />
    }
}

/// An entry of the list.
fn item(list: List, (at, entry): (usize, Entry)) -> impl IntoView {
    let chosen = entry.clone();
    let is_unknown = matches!(entry, Entry::Unknown(_));
    let forget = match &entry {
        Entry::Recent(recent, place) => Some((recent.name.clone(), *place)),
        _ => None,
    };
    let forget = forget.map(|(name, place)| {
        let forget = move |event: MouseEvent| {
            event.stop_propagation();
            list.keep.on_forget.run(place);
        };
        view! {
            // For pointers: an option holds no control. The key Delete does the same.
            <span
                class="open-entry-forget"
                aria-hidden="true"
                title=fill("Forget {name}", &[("name", &name)])
                on:click=forget
            >
                {icon(CROSS)}
            </span>
        }
    });
    view! {
        <li
            role="option"
            class="open-entry"
            class:open-entry-unknown=is_unknown
            id=entry_id(at)
            aria-selected=move || (list.active.get() == Some(at)).to_string()
            // The field keeps the focus.
            on:pointerdown=move |event| event.prevent_default()
            on:mousedown=move |event| event.prevent_default()
            on:click=move |_| list.choose(chosen.clone())
        >
            <span class="open-entry-title">{entry.title()}</span>
            <span class="open-entry-about">{entry.about()}</span>
            {forget}
        </li>
    }
}

/// What the list offers for what was typed.
fn entries(typed: &str, recent: &[Recent], names: &str) -> Vec<Entry> {
    if is_message(typed) {
        return vec![Entry::Message(typed.to_owned())];
    }
    let typed = of_address(typed);
    let wanted = typed.to_ascii_lowercase();
    let has = |name: &str| name.to_ascii_lowercase().contains(&wanted);
    let examples = EXAMPLES.into_iter();
    let examples = examples.filter(|example| has(example.title) || has(example.file));
    let examples = examples.map(Entry::Example);
    let places = (0..).zip(recent);
    let recent = places.filter(|(_, recent)| has(&recent.name) && recent.kind != "example");
    let recent = recent.map(|(place, recent)| Entry::Recent(recent.clone(), place));
    let mut named = named(&wanted, names);
    let more = named.len().saturating_sub(NAMES_SHOWN);
    named.truncate(NAMES_SHOWN);
    let named = named.into_iter().map(Entry::Named);
    let more = (more > 0).then_some(Entry::More(more));
    let mut entries: Vec<_> = examples.chain(recent).chain(named).chain(more).collect();
    if wanted.is_empty() {
        if entries.len() > EXAMPLES.len() {
            entries.push(Entry::ForgetAll);
        }
        entries.push(Entry::Write);
    } else if entries.is_empty() && !names.is_empty() {
        entries.push(Entry::Unknown(typed.to_owned()));
    }
    entries
}

/// Whether a line is a message about memory that ran out.
fn is_message(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["out of memory", "outofmemory", "alloc_failed"].iter().any(|sign| line.contains(sign))
}

/// Version of a model, by its id: 3.1 of `llama-3.1-8b`, 2.5 of `qwen2.5-7b`; sizes and years are none.
fn version(id: &str) -> f64 {
    let number = |part: &str| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        digits.parse().ok().filter(|number: &f64| *number < 10.0)
    };
    id.split('-').take(2).find_map(number).unwrap_or_default()
}

/// Whether a line has a word: one that begins with a digit is a number of its own, `8b` and not `1.8b`.
fn has_word(line: &str, word: &str) -> bool {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    let mut places = line.match_indices(word);
    places.any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !is_number || !before.is_some_and(|c| c.is_ascii_digit() || c == '.')
    })
}

/// The models whose names have all of these words; those whose id begins with the text come first, and of those the
/// newest.
fn named(wanted: &str, names: &str) -> Vec<Named> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    let wanted = &wanted.replace('_', "-");
    for line in names.lines().filter(|_| !wanted.is_empty()) {
        let lower = line.to_ascii_lowercase().replace('_', "-");
        if wanted.split_whitespace().all(|word| has_word(&lower, word)) {
            let mut cells = line.split('|').map(str::to_owned);
            let mut cell = || cells.next().unwrap_or_default();
            let (id, name, hub) = (cell(), cell(), cell());
            let list = if id.starts_with(wanted) { &mut first } else { &mut rest };
            list.push(Named { id, name, hub });
        }
    }
    first.order_by(|one: &Named, other| version(&other.id).total_cmp(&version(&one.id)));
    first.append(&mut rest);
    first
}

/// What is on its way in, and how far it is.
fn arriving_chip(arriving: &Arriving, on_cancel: Callback<()>) -> impl IntoView + use<> {
    let percent = arriving.percent.map(|percent| {
        view! {
            <span class="chip-percent" aria-hidden="true">{format!("{percent:.0}\u{a0}%")}</span>
            <button
                type="button"
                class="chip-close"
                id="leave-off"
                aria-label=tr("Cancel opening")
                on:click=move |_| on_cancel.run(())
            >
                {icon(CROSS)}
            </button>
        }
    });
    view! {
        <span class="chip chip-busy">
            <span class="chip-text">{fill("Opening {file}…", &[("file", &arriving.name)])}</span>
            {percent}
        </span>
    }
}

/// What is open.
fn loaded_chip(name: String, on_close: Callback<()>) -> impl IntoView {
    let title = name.clone();
    view! {
        <span class="chip" title=title>
            <span class="chip-text">{name}</span>
            <button
                type="button"
                class="chip-close"
                id="close"
                aria-label=tr("Close this model")
                on:click=move |_| on_close.run(())
            >
                {icon(CROSS)}
            </button>
        </span>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_filters_what_can_be_opened() {
        let mine = Recent {
            name: "my-resnet.onnx".to_owned(),
            kind: "file".to_owned(),
            fragment: String::new(),
        };
        let check = |typed: &str, expected: &[&str]| {
            let names = "llama-3.1-8b|Llama 3.1 8B|meta-llama/Llama-3.1-8B|8030261248\n\
                         llama-2-7b|Llama 2 7B|meta-llama/Llama-2-7b-hf|6738415616\n";
            let titles: Vec<_> = entries(typed, std::slice::from_ref(&mine), names)
                .iter()
                .map(|entry| match entry {
                    Entry::Example(example) => example.title.to_owned(),
                    Entry::Named(named) => ["= ", &named.id].concat(),
                    Entry::Recent(recent, _) => recent.name.clone(),
                    Entry::ForgetAll => "forget".to_owned(),
                    Entry::Write => "write".to_owned(),
                    Entry::Unknown(name) => ["? ", name].concat(),
                    Entry::Message(_) => "message".to_owned(),
                    Entry::More(count) => format!("+ {count}"),
                })
                .collect();
            assert_eq!(titles, expected);
        };
        check("", &["ResNet-50", "ViT-B/16", "DistilGPT-2", "my-resnet.onnx", "forget", "write"]);
        check(" resnet", &["ResNet-50", "my-resnet.onnx"]);
        check("Llama-3.1-8B", &["= llama-3.1-8b"]);
        check("7b llama", &["= llama-2-7b"]);
        check("Llama-9", &["? Llama-9"]);
        check("llama", &["= llama-3.1-8b", "= llama-2-7b"]);
        check("https://huggingface.co/meta-llama/Llama-3.1-8B", &["= llama-3.1-8b"]);
        check("vit_b_16", &["ViT-B/16"]);
        check("RuntimeError: CUDA error: out of memory", &["message"]);
    }
}
