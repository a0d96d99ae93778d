//! The explanation of a message about memory, in English sentences. The readers' program makes them, so the page
//! need not wait for this code; the page translates them.

use highwater_core::bytes::Printed;
use highwater_core::config::{SETTINGS, Setting};
use highwater_core::observed::{Cause, Explanation, Machine, Message, Observed, Versions};
use highwater_core::recipe::{Origin, Recipe};
use highwater_core::wording::answer::with_article;
use highwater_core::wording::{Part, Sentence};
use highwater_core::{Bytes, Config, Diagnostic, Severity};

use super::names::sentence;
use crate::model::explained::{Explained, Held, Sought};

impl Explained {
    /// Explains what was found in a text; nothing where there was nothing.
    pub(crate) fn of(observed: &Observed) -> Option<Self> {
        if observed.is_empty() {
            return None;
        }
        let explanation = observed.explain();
        let message = observed.message.as_ref();
        let machine = observed.machine.as_ref().filter(|_| message.is_none());
        let (title, figures) = match (message, machine) {
            (Some(message), _) => (title(message), asked(message, &explanation)),
            (None, Some(machine)) => in_use(machine, &explanation),
            (None, None) => (Sentence::of("PyTorch's memory summary"), Sentence::default()),
        };
        let settings = explanation.known.settings();
        Some(Self {
            title,
            figures,
            why: explanation.cause.map_or_else(String::new, |cause| sentence(cause.about())),
            about: about(message, &explanation),
            parts: parts(message, machine, &explanation),
            tried: message.and_then(|message| Some(message.tried?.bytes)),
            settings,
            device: explanation
                .known
                .device
                .map_or_else(String::new, |known| known.name.to_owned()),
            known: explanation.known.apply(Config::default()),
            advice: advice(explanation.cause),
            notes: explanation.notes.iter().map(|note| note.message.clone()).collect(),
            sought: message.and_then(Sought::of),
            is_waiting: false,
        })
    }
}

impl Explained {
    /// What a recipe sets; with the reason where its model is missing, so that nothing is set yet.
    pub(crate) fn of_recipe(recipe: &Recipe, missing: Option<Sentence>) -> Self {
        let Recipe { tool, choices, idle, notes, config, .. } = recipe;
        let is_set = |setting: &&Setting| {
            let chosen = choices.iter().any(|choice| choice.setting == setting.name);
            chosen && setting.is_changed(config)
        };
        let settings =
            if missing.is_some() { Vec::new() } else { SETTINGS.iter().filter(is_set).collect() };
        let by_key = choices.iter().filter_map(|choice| match &choice.from {
            Origin::Key(key) => Some(format!("{} {} ({key})", choice.setting, choice.value)),
            Origin::Default(_) => None,
        });
        let by_key: Vec<String> = by_key.collect();
        let mut of_tools: Vec<(&str, Vec<String>)> = Vec::new();
        for choice in choices {
            let Origin::Default(tool) = &choice.from else { continue };
            let text = format!("{} {}", choice.setting, choice.value);
            match of_tools.iter_mut().find(|(known, _)| known == tool) {
                Some((_, texts)) => texts.push(text),
                None => of_tools.push((tool, vec![text])),
            }
        }
        let stated = (!by_key.is_empty()).then(|| {
            Sentence::of("The recipe states: {settings}").with("settings", by_key.join(", "))
        });
        let usual = of_tools.into_iter().map(|(tool, texts)| {
            Sentence::of("Defaults of {tool}: {settings}")
                .with("tool", tool)
                .with("settings", texts.join(", "))
        });
        let without = (!idle.is_empty())
            .then(|| Sentence::of("No effect on memory: {keys}").with("keys", idle.join(", ")));
        let is_waiting = missing.is_some();
        let is_open = |note: &&Diagnostic| note.severity >= Severity::Warning;
        let figures = missing.unwrap_or_else(|| {
            Sentence::of(
                "Keys: {used} followed, {idle} without effect on memory, {open} not followed.",
            )
            .with("used", by_key.len())
            .with("idle", idle.len())
            .with("open", notes.iter().filter(is_open).count())
        });
        // The answer lists what is assumed, once there is one.
        let own = notes.iter().filter(is_open).map(|note| note.message.clone());
        let read = stated.into_iter().chain(usual).chain(without).filter(|_| !is_waiting);
        Self {
            title: Sentence::of("Training recipe of {tool}").with("tool", tool),
            figures,
            is_waiting,
            settings,
            known: config.clone(),
            notes: own.chain(read).collect(),
            ..Self::default()
        }
    }
}

impl Sought {
    fn of(message: &Message) -> Option<Self> {
        let Message { tried, allocated, reserved, free, .. } = *message;
        tried.map(|_| Self { tried, allocated, reserved, free })
    }
}

fn title(message: &Message) -> Sentence {
    let backend = message.backend.name();
    match (message.library, message.gpu) {
        (Some(library), _) => Sentence::of("Memory ran out in {library}").with("library", library),
        (None, Some(gpu)) => Sentence::of("{backend} ran out of memory on GPU {n}")
            .with("backend", backend)
            .with("n", gpu),
        (None, None) => Sentence::of("{backend} ran out of memory").with("backend", backend),
    }
}

/// What it asked for, what there was, and what was missing.
fn asked(message: &Message, explanation: &Explanation) -> Sentence {
    let Some(tried) = message.tried else { return Sentence::default() };
    let there = message.free.or(message.allowed).unwrap_or(tried);
    let short = explanation.missing.filter(|missing| missing.bytes > Bytes::ZERO);
    let missing = short.unwrap_or(tried);
    let sentence = match (message.free, message.allowed, short) {
        (Some(_), _, Some(_)) => {
            Sentence::of("It asked for {size} where {there} was free: {missing} short.")
        }
        (Some(_), _, None) => Sentence::of("It asked for {size} where {there} was free."),
        (None, Some(_), Some(_)) => {
            Sentence::of("It asked for {size} where {there} may be held: {missing} short.")
        }
        (None, Some(_), None) => Sentence::of("It asked for {size} where {there} may be held."),
        (None, None, Some(_)) => Sentence::of("It asked for {size}: {missing} short."),
        (None, None, None) => Sentence::of("It asked for {size}."),
    };
    sentence.with("size", tried).with("there", there).with("missing", missing)
}

/// The facts of `nvidia-smi` about its GPU.
fn in_use(machine: &Machine, explanation: &Explanation) -> (Sentence, Sentence) {
    let gpu = explanation.gpu.and_then(|at| machine.gpus.get(at));
    let Some(gpu) = gpu else {
        return (Sentence::of("nvidia-smi lists no GPU"), Sentence::default());
    };
    let name = explanation.known.device.map_or(gpu.name.as_str(), |device| device.name);
    let title = Sentence::of("This machine has {gpu}").with("gpu", with_article(name));
    let figures = gpu.total.map_or_else(Sentence::default, |total| {
        Sentence::of("GPU {n} has {taken} in use.")
            .with("n", gpu.index)
            .with("taken", Part::Of(gpu.taken(), total))
    });
    (title, figures)
}

fn about(message: Option<&Message>, explanation: &Explanation) -> Vec<Sentence> {
    let names: Vec<_> = explanation.suspects.iter().map(|suspect| suspect.name).collect();
    let card = match names.as_slice() {
        [] => None,
        [name] => Some(Sentence::name(name)),
        [first, rest @ ..] => Some(
            Sentence::of("{gpu}, perhaps {others}")
                .with("gpu", *first)
                .with("others", rest.join(" / ")),
        ),
    };
    let versions = message.filter(|message| message.library.is_none());
    let versions = versions.and_then(|message| of_pytorch(&message.versions));
    card.into_iter().chain(versions).collect()
}

/// Versions of `PyTorch`; nothing where it may be any.
fn of_pytorch(versions: &Versions) -> Option<Sentence> {
    let name = |(major, minor): (u64, u64)| format!("{major}.{minor}");
    Some(match (versions.from.map(name), versions.until.map(name)) {
        (Some(from), Some(until)) if from == until => Sentence::of("PyTorch {n}").with("n", from),
        (Some(from), Some(until)) => {
            Sentence::of("PyTorch {from} to {until}").with("from", from).with("until", until)
        }
        (Some(from), None) => Sentence::of("PyTorch {n} or later").with("n", from),
        (None, Some(until)) => Sentence::of("PyTorch {n} or before").with("n", until),
        (None, None) => return None,
    })
}

/// Who holds what of the card.
fn parts(
    message: Option<&Message>,
    machine: Option<&Machine>,
    explanation: &Explanation,
) -> Vec<(Held, Bytes)> {
    /// SIZE: what rounding hides of a card.
    const ROUNDED: Bytes = Bytes::mib(64);
    let size = |size: Option<Printed>| size.map_or(Bytes::ZERO, |size| size.bytes);
    let mut parts = Vec::new();
    if let Some(message) = message
        && let (Some(capacity), Some(free)) = (message.capacity, message.free)
    {
        parts.extend([
            (Held::Allocated, size(message.allocated)),
            (Held::Unallocated, size(message.unallocated)),
            (Held::Context, size(explanation.context)),
            (Held::Others, size(explanation.other_processes)),
        ]);
        let named: Bytes = parts.iter().map(|(_, bytes)| *bytes).sum();
        let rest = capacity.bytes - free.bytes - named;
        if rest > ROUNDED {
            // Before 2.0 a message does not contain the context.
            let what = if explanation.context.is_none() { Held::Context } else { Held::Unknown };
            parts.push((what, rest));
        }
        parts.push((Held::Free, free.bytes));
    } else if let Some(gpu) = machine
        .and_then(|machine| machine.gpus.get(explanation.gpu?))
        .filter(|gpu| gpu.total.is_some())
    {
        parts.extend([
            (Held::Others, gpu.taken()),
            (Held::Free, gpu.total.unwrap_or_default() - gpu.taken()),
        ]);
    }
    parts.retain(|(_, bytes)| *bytes > Bytes::ZERO);
    parts
}

fn advice(cause: Option<Cause>) -> Vec<String> {
    let advice = cause.map_or(&[][..], Cause::advice);
    advice.iter().map(|what| sentence(what)).collect()
}

#[cfg(test)]
mod tests {
    use highwater_core::config::Setting;
    use highwater_core::observed;

    use super::*;

    const MESSAGE: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 \
        has a total capacty of 14.58 GiB of which 3.26 GiB is free. Process 341 has 1.00 GiB memory \
        in use. Including non-PyTorch memory, this process has 10.32 GiB memory in use. Of the \
        allocated memory 10.00 GiB is allocated by PyTorch, and 213.20 MiB is reserved by PyTorch \
        but unallocated.";

    fn explained(text: &str) -> Explained {
        Explained::of(&observed::read(text)).expect("there is a message")
    }

    #[test]
    fn a_message_is_explained_in_sentences() {
        let explained = explained(MESSAGE);
        assert_eq!(explained.title.to_string(), "CUDA ran out of memory on GPU 0");
        assert_eq!(
            explained.figures.to_string(),
            "It asked for 9.00 GiB where 3.26 GiB was free: 5.74 GiB short."
        );
        assert_eq!(explained.why, "Even with all unused memory it would not fit.");
        let sum: Bytes = explained.parts.iter().map(|(_, bytes)| *bytes).sum();
        assert!(sum.0.abs_diff((14_580 << 30) / 1000) < 64 << 20, "{sum}");
        assert_eq!(Explained::of(&observed::read("layers: [relu]")), None);
    }

    #[test]
    fn settings_are_applied_and_taken_back() {
        let explained = explained(MESSAGE);
        let before = Config { device: "l4".to_owned(), ..Config::default() };
        let mut config = before.clone();
        let named = |name| Setting::named(name).expect("it is a setting");
        for setting in &explained.settings {
            assert!(
                !explained.is_applied(setting, &config) || setting.name == "pytorch",
                "{setting:?}"
            );
            explained.apply(setting, &mut config);
            assert!(explained.is_applied(setting, &config), "{setting:?}");
        }
        assert_eq!(config.device, "t4");
        Explained::undo(named("device"), &before, &mut config);
        assert!(!config.knows_the_card());
        explained.apply(named("capacity"), &mut config);
        assert_eq!(config.device, "t4");
        Explained::undo(named("capacity"), &before, &mut config);
        assert_eq!(config.capacity, None);
    }
}
