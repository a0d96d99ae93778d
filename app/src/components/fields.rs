//! The settings one by one: what each is called, how it is chosen or typed, and what is said about it.
//!
//! A field is a line of a table; its names and values are those of [`Config::say`].

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::config::{MachineField, choices};
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{Event, HtmlElement, HtmlInputElement};

use super::island::{find, on, panel, said, set, watch};
use super::markup::Markup;
use crate::model::state::{ConfigProblem, DeviceRow};
use crate::words;
use crate::words::language::{fill, tr};

/// One setting.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in a configuration, and the id of its control.
    id: &'static str,
    /// What people call it.
    pub(crate) label: &'static str,
    /// How it is set.
    kind: Kind,
    /// What it means; empty where each value has its own meaning.
    pub(crate) about: &'static str,
}

/// How a setting is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Chosen among [`choices`].
    Choice,
    /// Chosen among [`CHECKPOINTS`].
    Checkpoint,
    /// Chosen among the devices.
    Device,
    /// A whole number from one on.
    Count,
    /// On or off.
    Switch,
    /// Names between commas, with an example of them.
    Names(&'static str),
    /// A figure of the card.
    Figure(MachineField),
}

impl Field {
    const fn new(id: &'static str, label: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { id, label, kind, about }
    }

    const fn choice(id: &'static str, label: &'static str) -> Self {
        Self::new(id, label, Kind::Choice, "")
    }

    const fn figure(figure: MachineField) -> Self {
        Self::new(figure.name(), figure.label(), Kind::Figure(figure), figure.about())
    }
}

/// Ways of checkpointing: their names in a configuration, and what people call them.
pub(crate) const CHECKPOINTS: [(&str, &str); 4] = [
    ("none", "none"),
    ("blocks", "every block"),
    ("2", "every 2nd block"),
    ("4", "every 4th block"),
];

/// The settings that are always seen.
const MAIN: [Field; 3] = [
    Field::choice("precision", "precision"),
    Field::choice("optimizer", "optimizer"),
    Field::new("device", "device", Kind::Device, "its kernels and capacity are assumed"),
];

/// What is known of the very card that a run has; the device and the version have fields of their own.
const CARD: [Field; 5] = [
    Field::figure(MachineField::Capacity),
    Field::figure(MachineField::Context),
    Field::figure(MachineField::OtherProcesses),
    Field::figure(MachineField::Allowed),
    Field::figure(MachineField::AllocConf),
];

/// How training is written.
const TRAINING: [Field; 16] = [
    Field::choice("loss", "loss"),
    Field::new(
        "checkpoint",
        "checkpointing",
        Kind::Checkpoint,
        "blocks are run again in backward instead of being kept",
    ),
    Field::new(
        "accumulate",
        "batches per step",
        Kind::Count,
        "gradients of so many batches are accumulated",
    ),
    Field::new(
        "freeze",
        "frozen",
        Kind::Names("encoder, *.embeddings"),
        "modules or parameters that are not trained",
    ),
    Field::new(
        "lora",
        "LoRA adapters",
        Kind::Names("q_proj, v_proj"),
        "linear layers that get them; nothing else is trained then",
    ),
    Field::new("lora-rank", "LoRA rank", Kind::Count, "of every adapter"),
    Field::choice("optimizer-impl", "optimizer runs"),
    Field::new(
        "weight-decay",
        "weight decay",
        Kind::Switch,
        "where the optimizer has it off by default",
    ),
    Field::new("clip-grad-norm", "clip gradients", Kind::Switch, "by the norm of all of them"),
    Field::new(
        "ema",
        "average of parameters",
        Kind::Switch,
        "a moving average is kept beside them",
    ),
    Field::choice("zero-grad", "zero_grad"),
    Field::choice("loop", "loop"),
    Field::choice("memory-format", "memory format"),
    Field::choice("in-place", "in-place activations"),
    Field::choice("recover", "recovery"),
    Field::choice("pytorch", "PyTorch"),
];

/// All fields.
pub(crate) fn all() -> impl Iterator<Item = &'static Field> {
    MAIN.iter().chain(&CARD).chain(&TRAINING)
}

/// What the fields read and ask for.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// The settings.
    pub(super) config: Signal<Config>,
    /// Devices to choose from.
    pub(super) devices: Signal<Vec<DeviceRow>>,
    /// The report, for the figures that hold where none is typed.
    pub(super) report: Signal<Option<Arc<Report>>>,
    /// Why these settings have no answer.
    pub(super) problem: Signal<Option<ConfigProblem>>,
    /// Others are wanted.
    pub(super) on_config: Callback<Config>,
}

/// The fields, the rarer ones folded away.
pub(super) fn fields(form: Form) -> impl IntoView {
    panel("settings-fields", "settings-title", inside(), Box::new(move |root| live(&root, form)))
}

/// What is on the page before anything is known.
fn inside() -> String {
    let mut markup = Markup::default();
    markup.around("<h2 class=\"hidden-text\" id=\"settings-title\">", &tr("Settings"), "</h2>");
    for field in &MAIN {
        write(&mut markup, field);
    }
    let card = "<details class=\"training-details your-card\">";
    for (open, fields) in [(card, &CARD[..]), ("<details class=\"training-details\">", &TRAINING)] {
        markup.raw(open).raw("<summary></summary><div class=\"training-details-fields\">");
        for field in fields {
            write(&mut markup, field);
        }
        markup.raw("</div>");
        if open == card {
            markup.raw("<button type=\"button\" class=\"link-button\" data-reset hidden>");
            markup.around("", &tr("Back to the figures of the table"), "</button>");
        }
        markup.raw("</details>");
    }
    markup.done()
}

fn write(markup: &mut Markup, field: &Field) {
    let Field { id, label, kind, about } = field;
    let option = |markup: &mut Markup, value: &str, label: &str| {
        markup.around("<option value=\"", value, "\">").around("", &tr(label), "</option>");
    };
    let is_switch = *kind == Kind::Switch;
    markup.raw(if is_switch { "<div class=\"field switch\">" } else { "<div class=\"field\">" });
    markup.around("<label for=\"", id, "\">");
    if is_switch {
        markup.around("<input type=\"checkbox\" id=\"", id, "\" data-field=\"");
        markup.around("", id, "\">");
    }
    markup.around("", &tr(label), "</label>");
    match kind {
        Kind::Choice | Kind::Checkpoint | Kind::Device => {
            markup.around("<select id=\"", id, "\" data-field=\"").around("", id, "\">");
            for choice in choices(id) {
                option(markup, choice.name, choice.label);
            }
            for (name, label) in CHECKPOINTS.iter().filter(|_| *kind == Kind::Checkpoint) {
                option(markup, name, label);
            }
            markup.raw("</select>");
        }
        Kind::Count => {
            markup.raw("<input type=\"number\" inputmode=\"numeric\" min=\"1\" step=\"1\" id=\"");
            markup.around("", id, "\" data-field=\"").around("", id, "\">");
        }
        Kind::Switch => {}
        Kind::Names(_) | Kind::Figure(_) => {
            markup.raw("<input type=\"text\" spellcheck=\"false\" autocapitalize=\"off\" autocomplete=\"off\" id=\"");
            markup.around("", id, "\" data-field=\"").around("", id, "\">");
        }
    }
    markup.around("<p class=\"hint\" id=\"about-", id, "\">");
    markup.around("", &tr(about), "</p></div>");
}

fn live(root: &HtmlElement, form: Form) {
    let node = root.clone();
    watch(Box::new(move || {
        let mut options = Markup::default();
        form.devices.with(|rows| {
            for row in rows {
                row.device.with_value(|device| {
                    options.around("<option value=\"", &device.id, "\">");
                    options.around("", &device.name, "</option>");
                });
            }
        });
        if let Some(select) = find(&node, "#device") {
            select.set_inner_html(&options.done());
            let device = form.config.with_untracked(|config| config.device.clone());
            select.unchecked_ref::<HtmlInputElement>().set_value(&device);
        }
    }));
    let (node, shown) = (root.clone(), Rc::new(RefCell::new(vec![None; all().count()])));
    watch(Box::new(move || {
        form.config.with(|config| {
            for (field, shown) in all().zip(&mut *shown.borrow_mut()) {
                let text = field.text(config);
                // What is being typed stays until it is taken, or the setting changes.
                if shown.as_ref() != Some(&text) {
                    let _shown = show(&node, field, &text);
                    *shown = Some(text);
                }
            }
            let _summed = sum_up(&node, config);
        });
    }));
    let node = root.clone();
    watch(Box::new(move || {
        let report = form.report.get();
        for field in all() {
            if let Some(control) = find(&node, &["#", field.id].concat()) {
                set(&control, "placeholder", &field.usual(report.as_deref()));
            }
        }
    }));
    let (node, told) = (root.clone(), RefCell::new(None));
    watch(Box::new(move || {
        // What was said of another field is no longer true.
        if let Some(field) = told.take() {
            let text = form.config.with_untracked(|config| Field::text(field, config));
            let _told = tell(&node, field, &text, None);
        }
        let problem = form.problem.get().filter(|problem| !problem.taken_back);
        if let Some(fault) = problem.map(|problem| problem.fault)
            && let Some(field) = all().find(|field| fault.setting.as_deref() == Some(field.id))
        {
            let _told = tell(&node, field, "", Some(&words::sentence(&fault.reason)));
            told.replace(Some(field));
        }
    }));
    let node = root.clone();
    on(
        root,
        "change",
        Box::new(move |event| {
            let _taken = take(&node, form, event);
        }),
    );
    on(
        root,
        "click",
        Box::new(move |event| {
            if said(event, "data-reset").is_some() {
                let mut config = form.config.get_untracked();
                for field in &CARD {
                    // The figure of the table, which can always be read.
                    let _read = field.read("", &mut config);
                }
                form.on_config.run(config);
            }
        }),
    );
}

impl Field {
    /// What a configuration says, as it stands in the control.
    fn text(&self, config: &Config) -> String {
        match self.kind {
            Kind::Figure(figure) => figure.text(config),
            Kind::Names(_) => config.text(self.id).replace('\n', ", "),
            _ => config.text(self.id),
        }
    }

    /// Takes what was typed or chosen.
    fn read(&self, typed: &str, config: &mut Config) -> Result<(), String> {
        let known = match self.kind {
            Kind::Figure(figure) => {
                let read = figure.read(typed, config);
                return read.map_err(|error| words::sentence(&error.to_string()));
            }
            Kind::Device => {
                config.choose_device(typed);
                true
            }
            Kind::Names(_) => config.say(self.id, &names(typed)),
            _ => config.say(self.id, typed.trim()),
        };
        let stays = self.text(config);
        known
            .then_some(())
            .ok_or_else(|| fill("A whole number from 1 on; {n} stays.", &[("n", &stays)]))
    }

    /// What one might write, or what holds where nothing is written.
    fn usual(&self, report: Option<&Report>) -> String {
        let verdict = report.map(|report| &report.verdict);
        let size = |size: Option<Bytes>| size.map(|size| size.to_string()).unwrap_or_default();
        match self.kind {
            Kind::Names(example) => example.to_owned(),
            Kind::Figure(MachineField::Capacity) => size(verdict.map(|known| known.capacity)),
            Kind::Figure(MachineField::Context) => size(verdict.map(|known| known.context)),
            Kind::Figure(MachineField::OtherProcesses) => Bytes::ZERO.to_string(),
            Kind::Figure(MachineField::AllocConf) => "max_split_size_mb:512".to_owned(),
            Kind::Figure(_) => tr("none"),
            _ => String::new(),
        }
    }
}

/// Puts the text of a field into its control, and what it means below.
fn show(root: &HtmlElement, field: &Field, text: &str) -> Option<()> {
    let control: HtmlInputElement = find(root, &["#", field.id].concat())?.unchecked_into();
    if field.kind == Kind::Switch {
        control.set_checked(text == "true");
    } else {
        control.set_value(text);
    }
    tell(root, field, text, None)
}

/// Says below a field what it means, or what is wrong with what was typed.
fn tell(root: &HtmlElement, field: &Field, text: &str, wrong: Option<&str>) -> Option<()> {
    let control = find(root, &["#", field.id].concat())?;
    let about = find(root, &["#about-", field.id].concat())?;
    let chosen = choices(field.id).iter().find(|choice| choice.name == text);
    let meaning = tr(chosen.map_or(field.about, |choice| choice.about));
    about.set_text_content(Some(wrong.unwrap_or(&meaning)));
    about.set_class_name(if wrong.is_some() { "hint hint-wrong" } else { "hint" });
    set(&control, "aria-invalid", &wrong.is_some().to_string());
    Some(())
}

/// A control was changed.
fn take(root: &HtmlElement, form: Form, event: &Event) -> Option<()> {
    let id = said(event, "data-field")?;
    let field = all().find(|field| field.id == id)?;
    let control: HtmlInputElement = event.target()?.unchecked_into();
    let typed = match field.kind {
        Kind::Switch => control.checked().to_string(),
        _ => control.value(),
    };
    let mut config = form.config.get_untracked();
    let read = field.read(&typed, &mut config);
    let text = field.text(&config);
    if read.is_ok() || field.kind == Kind::Count {
        show(root, field, &text)?;
    }
    tell(root, field, &text, read.as_ref().err().map(String::as_str))?;
    if read.is_ok() {
        form.on_config.run(config);
    }
    Some(())
}

/// Says how many of the settings that are folded away are not as usual.
fn sum_up(root: &HtmlElement, config: &Config) -> Option<()> {
    let usual = Config::default();
    let unusual = |fields: &[Field]| {
        fields.iter().filter(|field| field.text(config) != field.text(&usual)).count()
    };
    let (card, training) = (unusual(&CARD), unusual(&TRAINING));
    let card_says = match card {
        0 => tr("Your card"),
        count => fill("Your card ({n} set)", &[("n", &count)]),
    };
    let training_says = match training {
        0 => tr("How it trains"),
        count => fill("How it trains ({n} changed)", &[("n", &count)]),
    };
    find(root, ".your-card summary")?.set_text_content(Some(&card_says));
    let summary = find(root, ".training-details:not(.your-card) summary")?;
    summary.set_text_content(Some(&training_says));
    find(root, "[data-reset]")?.set_hidden(card == 0);
    Some(())
}

/// Names between commas, one a line.
fn names(typed: &str) -> String {
    let names = typed.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_a_setting_and_reads_what_it_says() {
        let config = Config::default();
        for field in all() {
            let mut read = config.clone();
            let text = field.text(&config);
            assert_eq!(field.read(&text, &mut read), Ok(()), "{}", field.id);
            assert_eq!(read, config, "{}", field.id);
            assert!(field.kind != Kind::Choice || !choices(field.id).is_empty(), "{}", field.id);
        }
        for (way, _) in CHECKPOINTS {
            let mut read = config.clone();
            assert!(read.say("checkpoint", way));
            assert_eq!(read.text("checkpoint"), way);
        }
    }

    #[test]
    fn names_stand_between_commas() {
        assert_eq!(names(" encoder, *.bias ,,"), "encoder\n*.bias");
        assert_eq!(names("  "), "");
    }
}
