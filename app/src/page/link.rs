//! The page's state as an address, and back; also the list of recent inputs.
//!
//! An address has the settings that differ from the defaults, the part shown, and the input: an example's name, a
//! whole text, or a file's name. Its keys are those of the command line. A version that does not know a key
//! reports it. `public/keep.js` packs and unpacks addresses.

use gloo::events::EventListener;
use gloo::timers::callback::Timeout;
use highwater_core::Config;
use highwater_core::Report;
use highwater_core::export::{self, DeviceAnswer};
use highwater_core::report::DeviceVerdict;
use highwater_draw::scene::{Part, View};
use highwater_draw::stack::Stack;
use js_sys::{Array, JSON, Object, Reflect, Uint8Array};
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{File, HtmlCanvasElement};

use crate::model::examples::{EXAMPLES, Example};
use crate::model::export::{FORMS, PICTURE, SNAPSHOT};
use crate::model::input::Input;
use crate::model::state::{Shared, State};
use crate::model::visit::{CARRIED, Recent, Waiting};
use crate::words::keep;

use super::{files, saving};

/// COUNT: letters of an address that the page keeps to itself.
const KEPT: usize = 32_000;
/// COUNT: letters of an address that are worth printing.
const PRINTED: usize = 600;
/// How files end that hold a state.
pub(crate) const ENDING: &str = ".highwater.json";
/// SIZE: the largest of them.
const FILE_MAX: f64 = 2e6;
/// Milliseconds of rest before the address follows.
const REST: u32 = 500;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = highwater, catch)]
    async fn pack(text: &str) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_namespace = highwater, catch)]
    async fn unpack(fragment: &str) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_namespace = highwater)]
    fn fragment() -> String;

    /// Puts a fragment into the address; as an entry of its own in the browser's history, or in place of the
    /// newest.
    #[wasm_bindgen(js_namespace = highwater)]
    fn show(fragment: &str, as_entry: bool);

    /// Keeps a small file in this browser, so that a reload need not ask for it again.
    #[wasm_bindgen(js_namespace = highwater, js_name = keepFile)]
    pub(crate) fn keep_file(file: &File);

    /// The newest kept file with a name; nothing where there is none.
    #[wasm_bindgen(js_namespace = highwater, js_name = keptFile, catch)]
    async fn kept_file(name: &str) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_namespace = highwater)]
    fn recent() -> Array;

    #[wasm_bindgen(js_namespace = highwater)]
    fn remember(name: &str, kind: &str, fragment: &str);

    #[wasm_bindgen(js_namespace = highwater)]
    fn forget(place: i32);

    #[wasm_bindgen(js_namespace = highwater, js_name = wholeAddress)]
    fn whole_address() -> String;

    #[wasm_bindgen(js_namespace = highwater, catch)]
    async fn copy(text: &str) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(js_namespace = highwater, catch)]
    async fn save(content: JsValue, name: &str, ending: &str) -> Result<JsValue, JsValue>;

    /// Keeps the page for times without a network, which fetches all of it.
    #[wasm_bindgen(js_namespace = highwater, js_name = keepOffline)]
    pub(crate) fn keep_offline();

    /// Opens what a fragment names.
    #[wasm_bindgen(js_namespace = highwater)]
    pub(crate) fn visit(fragment: &str);
}

/// How an address opens what it names.
#[derive(Clone, Copy)]
pub(crate) struct Openers {
    /// An example.
    pub(crate) example: Callback<Example>,
    /// A text for the editor: its name and the text.
    pub(crate) text: Callback<(String, String)>,
    /// A text without the editor, or a file that this browser kept.
    pub(crate) input: Callback<Input>,
    /// Nothing: back to the empty page.
    pub(crate) nothing: Callback<()>,
}

/// Whether the address names a state of the page.
pub(crate) fn is_given() -> bool {
    is_state(&fragment())
}

/// Whether a fragment is a state of the page; others are places on it.
fn is_state(fragment: &str) -> bool {
    fragment.starts_with('v') && fragment.contains('.')
}

/// Restores what the address asks for, now and when it changes; then lets it follow the state.
pub(crate) fn attach(state: State, openers: Openers) {
    state.recent.set(remembered());
    let timer = StoredValue::new_local(None::<Timeout>);
    // Whether the model that is on its way was named by the address, so that it has its entry already.
    let has_entry = StoredValue::new(false);
    let restore = move || {
        let fragment = fragment();
        let is_open =
            state.loaded.with_untracked(Option::is_some) && !untrack(move || state.is_sample());
        if fragment.is_empty() && is_open {
            openers.nothing.run(());
        } else if fragment == state.address.get_untracked() && is_open {
            // The page itself has just written it.
        } else if is_state(&fragment) {
            // What was on the page until now has no say about this address any more.
            timer.set_value(None);
            spawn_local(async move {
                let text = unpack(&fragment).await.ok().and_then(|text| text.as_string());
                if let Some(text) = text {
                    has_entry.set_value(true);
                    return open(state, openers, &text);
                }
                if !is_open {
                    openers.nothing.run(());
                }
                state.notice.set(Some(keep::unreadable_link()));
            });
        }
    };
    if let Some(window) = web_sys::window() {
        EventListener::new(&window, "hashchange", move |_| restore()).forget();
    }
    restore();
    Effect::new(move |_| settle(state));
    let entries = StoredValue::new(0);
    Effect::new(move |was_open: Option<bool>| {
        state.config.track();
        state.source.track();
        state.is_writing.track();
        state.view.track();
        state.pin.track();
        let is_open = state.loaded.with(Option::is_some) && !state.is_sample();
        if state.waiting.with(Option::is_some) {
            timer.set_value(None);
        } else if is_open {
            let begin = move || {
                let opened = state.opened.get_untracked();
                let as_entry = entries.get_value() != opened && !has_entry.get_value();
                entries.set_value(opened);
                has_entry.set_value(false);
                spawn_local(async move { drop(write(state, as_entry).await) });
            };
            timer.set_value(Some(Timeout::new(REST, begin)));
        } else if was_open == Some(true) {
            timer.set_value(None);
            state.address.set(String::new());
            show("", false);
        }
        is_open
    });
}

/// Writes the state into the address at once; what it is now, behind its `#`.
pub(crate) async fn address(state: State) -> Option<String> {
    write(state, false).await
}

async fn write(state: State, as_entry: bool) -> Option<String> {
    let before = fragment();
    let mut fragment = pack(&described(state, true)?).await.ok()?.as_string()?;
    if fragment.len() > KEPT {
        fragment = pack(&described(state, false)?).await.ok()?.as_string()?;
    }
    // The model may have been closed meanwhile, or the address may name another one.
    let (name, kind) = input(state)?;
    let now = self::fragment();
    let is_other = now != before && now != state.address.get_untracked();
    if is_other || state.waiting.with_untracked(Option::is_some) {
        return None;
    }
    show(&fragment, as_entry && now != fragment);
    remember(&name, kind, &fragment);
    state.recent.set(remembered());
    state.address.set(fragment.clone());
    Some(fragment)
}

/// Makes the link and copies it.
pub(crate) fn share(state: State) {
    state.shared.set(None);
    spawn_local(async move {
        let Some(fragment) = address(state).await else { return };
        let link = whole_address();
        let copied = fragment.len() <= CARRIED && copy(&link).await.is_ok();
        let without = input(state).filter(|(_, kind)| match *kind {
            "text" => fragment.len() > KEPT,
            kind => kind == "file",
        });
        let without = without.map(|(name, _)| name);
        state.shared.set(Some(Shared { link, copied, without }));
    });
}

/// Hands the state to the user as a file.
pub(crate) fn save_state(state: State) {
    if let (Some(json), Some((name, _))) = (described(state, true), input(state)) {
        // A browser that cannot save reports that itself.
        let _saved = files::save(&[&name, ENDING].concat(), &json);
    }
}

/// Saves the answer in a form of [`crate::model::export::FORMS`].
pub(crate) fn save_answer(state: State, form: &'static str, title: String) {
    let Some(answer) = state.answer.get_untracked() else { return };
    let batch = state.loaded.with_untracked(|loaded| {
        let dim = loaded.as_ref()?.dims.iter().find(|dim| dim.batch)?;
        Some(dim.name.clone())
    });
    let devices: Vec<_> = untrack(|| {
        state.devices.with(|rows| {
            let known = rows.iter().filter_map(|row| {
                let current = Some(answer.generation);
                let verdict = row.judged(current, DeviceVerdict::clone)?;
                let largest = row.reach(current).found();
                Some(DeviceAnswer { verdict, largest: largest.unwrap_or_default() })
            });
            known.collect()
        })
    });
    let name = input(state).map_or_else(String::new, |(name, _)| name);
    let report = Report::clone(&answer.report);
    let (ranks, recipe, require) = (Vec::new(), None, export::Requirement::default());
    let answer =
        export::Answer { name: name.clone(), batch, report, ranks, recipe, devices, require };
    let view = state.view.get_untracked();
    let mine = state.my_gpu.get_untracked();
    let words = state.kept.with_untracked(|kept| {
        keep::around_the_picture(title, view, &answer, kept.as_ref(), mine.as_deref())
    });
    hand_over(state, form, name, async move {
        if form != PICTURE {
            return saving::written(form, answer, words).await.ok().map(JsValue::from);
        }
        let document = web_sys::window()?.document()?;
        let canvas: HtmlCanvasElement = document.create_element("canvas").ok()?.unchecked_into();
        let is_painted = saving::painted(canvas.clone(), answer, words).await.ok()?;
        is_painted.then(|| canvas.into())
    });
}

/// Saves the run as a memory snapshot.
pub(crate) fn save_run(state: State, packed: Vec<u8>) {
    let name = input(state).map_or_else(String::new, |(name, _)| name);
    hand_over(state, SNAPSHOT, name, async move {
        let pickled = saving::pickled(packed).await.ok()?;
        Some(Uint8Array::from(&*pickled).into())
    });
}

fn hand_over(
    state: State,
    form: &'static str,
    name: String,
    content: impl Future<Output = Option<JsValue>> + 'static,
) {
    spawn_local(async move {
        let ending = FORMS.iter().find(|known| known.id == form).map_or("", |form| form.ending);
        let is_saved = match content.await {
            Some(content) => save(content, &name, ending).await.is_ok(),
            None => false,
        };
        if !is_saved {
            state.notice.set(Some(keep::unsaved()));
        }
    });
}

/// Forgets one input that was opened before; a negative place means all.
pub(crate) fn forget_recent(state: State, place: i32) {
    forget(place);
    state.recent.set(remembered());
}

/// Opens a file that holds a state.
pub(crate) fn open_file(state: State, openers: Openers, file: File) {
    spawn_local(async move {
        let text =
            if file.size() < FILE_MAX { JsFuture::from(file.text()).await.ok() } else { None };
        open(state, openers, &text.and_then(|text| text.as_string()).unwrap_or_default());
    });
}

/// The address as it is printed; nothing where nobody would type it.
pub(crate) fn printed(fragment: &str) -> Option<String> {
    (1..PRINTED).contains(&fragment.len()).then(whole_address)
}

fn remembered() -> Vec<Recent> {
    let part = |entry: &Array, at| entry.get(at).as_string().unwrap_or_default();
    let entry = |entry: JsValue| {
        let entry: Array = entry.unchecked_into();
        Recent { name: part(&entry, 0), kind: part(&entry, 1), fragment: part(&entry, 2) }
    };
    recent().iter().map(entry).collect()
}

/// Name and kind of the input on the page.
fn input(state: State) -> Option<(String, &'static str)> {
    let loaded = state.loaded.get_untracked()?;
    let source = state.source.with_untracked(|source| Some(source.as_ref()?.name.clone()));
    Some(match source {
        Some(name) => (name, "text"),
        None if loaded.own_file => (loaded.name, "file"),
        None => (loaded.name, "example"),
    })
}

/// The state as JSON; with the whole of a text, or with its name only.
pub(crate) fn described(state: State, whole: bool) -> Option<String> {
    let (name, kind) = input(state)?;
    let json = Object::new();
    put(&json, "highwater", &JsValue::from(1));
    put(&json, if kind == "text" && !whole { "file" } else { kind }, &name.into());
    if kind == "text" && whole {
        let text = state.source.with_untracked(|source| Some(source.as_ref()?.text.clone()))?;
        put(&json, "content", &text.into());
        put(&json, "editing", &state.is_writing.get_untracked().into());
    }
    let dims = Object::new();
    let settings = Object::new();
    state.config.with_untracked(|config| {
        for (name, &size) in &config.dims {
            put(&dims, name, &number(size));
        }
        for setting in config.changed() {
            put(&settings, setting.name, &setting.value(config).text().into());
        }
    });
    put(&json, "dims", &dims);
    put(&json, "settings", &settings);
    let View { part, stack } = state.view.get_untracked();
    let [iteration, begin, end] = part.numbers();
    let event = state.pin.get_untracked();
    for (key, n) in [("iteration", iteration), ("from", begin), ("to", end), ("event", event)] {
        if let Some(n) = n {
            put(&json, key, &number(n as u64));
        }
    }
    if stack == Stack::Module {
        put(&json, "by", &"module".into());
    }
    JSON::stringify(&json).ok()?.as_string()
}

/// Opens what a state names, and keeps its settings until that is there.
fn open(state: State, openers: Openers, json: &str) {
    let json = JSON::parse(json).ok().filter(|json| get(json, "highwater").is_truthy());
    let Some(json) = json else {
        state.notice.set(Some(keep::unreadable_link()));
        return;
    };
    let named = |kind| get(&json, kind).as_string();
    let mut unknown = Vec::new();
    let config = configured(&json, &mut unknown);
    let (example, written, file) = (named("example"), named("text"), named("file"));
    let known = example
        .as_ref()
        .and_then(|name| EXAMPLES.into_iter().find(|example| example.file == *name));
    let Some(name) = known.map(|known| known.file.to_owned()).or(written).or(example).or(file)
    else {
        state.notice.set(Some(keep::unreadable_link()));
        return;
    };
    let whole = |key| integer(&get(&json, key)).and_then(|n| usize::try_from(n).ok());
    let part = Part::of_numbers(["iteration", "from", "to"].map(whole));
    let by_module = named("by").is_some_and(|by| by == "module");
    let stack = if by_module { Stack::Module } else { Stack::Category };
    let (view, event) = (View { part, stack }, whole("event"));
    state.waiting.set(Some(Waiting { name: name.clone(), config: Some(config), view, event }));
    if let Some(example) = known {
        openers.example.run(example);
    } else if let Some(content) = named("content") {
        if get(&json, "editing").is_truthy() {
            openers.text.run((name, content));
        } else {
            openers.input.run(Input::text(&name, &content));
        }
    } else {
        spawn_local(async move {
            match kept_file(&name).await.ok().and_then(|file| file.dyn_into::<File>().ok()) {
                Some(file) => openers.input.run(Input::File(file)),
                None => state.notice.set(Some(keep::file_wanted(&name))),
            }
        });
    }
    if !unknown.is_empty() {
        state.notice.set(Some(keep::unknown_settings(&unknown.join(", "))));
    }
}

/// The settings of a state, and the names of those that mean nothing here.
fn configured(json: &JsValue, unknown: &mut Vec<String>) -> Config {
    let mut config = Config::default();
    each(&get(json, "settings"), |name, value| {
        if config.set(&name, &value.as_string().unwrap_or_default()).is_err() {
            unknown.push(name);
        }
    });
    each(&get(json, "dims"), |name, size| {
        if let Some(size) = integer(&size) {
            config.dims.insert(name, size);
        }
    });
    config
}

/// Puts on the page what was waiting for the newest answer: first the settings, then the view.
fn settle(state: State) {
    let Some(answer) = state.answer.get() else { return };
    let Some(mut waiting) = state.waiting.get_untracked() else { return };
    let is_other = state
        .loaded
        .with_untracked(|loaded| loaded.as_ref().is_none_or(|l| l.name != waiting.name));
    if is_other {
        state.waiting.set(None);
        return;
    }
    if let Some(mut config) = waiting.config.take() {
        let mut dims = answer.report.config.dims.clone();
        for (name, size) in &mut dims {
            *size = config.dims.get(name).copied().unwrap_or(*size);
        }
        config.dims = dims;
        if config != answer.report.config {
            state.waiting.set(Some(waiting));
            state.config.set(config);
            return;
        }
    }
    state.waiting.set(None);
    state.view.set(waiting.view);
    state.pin.set(waiting.event.filter(|&event| event < answer.report.timeline.events));
}

fn put(object: &Object, key: &str, value: &JsValue) {
    // Fails for frozen objects only.
    drop(Reflect::set(object, &key.into(), value));
}

fn get(object: &JsValue, key: &str) -> JsValue {
    Reflect::get(object, &key.into()).unwrap_or(JsValue::UNDEFINED)
}

fn each(object: &JsValue, mut take: impl FnMut(String, JsValue)) {
    if let Some(object) = object.dyn_ref::<Object>() {
        for key in Object::keys(object).iter().filter_map(|key| key.as_string()) {
            let value = get(object, &key);
            take(key, value);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of dimensions are far below 2^53")]
fn number(n: u64) -> JsValue {
    JsValue::from(n as f64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within bounds that are checked"
)]
fn integer(value: &JsValue) -> Option<u64> {
    value.as_f64().filter(|n| (0.0..9e15).contains(n)).map(|n| n as u64)
}
