//! A message about memory, explained: what happened, who held what, which settings follow, what helps,
//! and where in the step it was.

use std::sync::Arc;

use highwater_core::config::{Kind, Setting};
use highwater_core::{Bytes, Config, Report};
use leptos::prelude::*;

use super::drawn::{Act, Drawn};
use super::markup::Markup;
use crate::model::explained::{Explained, Held};
use crate::model::protocol::Finding;
use crate::model::state::Message;
use crate::words::format::{length, share};
use crate::words::language::{fill, tr};
use crate::words::message as words;

/// The message that the user has shown, if any.
#[component]
pub(crate) fn MessageView(
    /// The message.
    #[prop(into)]
    message: Signal<Option<Message>>,
    /// Where its allocation is.
    #[prop(into)]
    found: Signal<Option<Finding>>,
    /// The report, if there is a model.
    report: Signal<Option<Arc<Report>>>,
    /// The settings.
    #[prop(into)]
    config: Signal<Config>,
    /// Other settings are wanted.
    on_config: Callback<Config>,
    /// The user wants to see an event on the timeline.
    on_event: Callback<usize>,
    /// The user wants another batch.
    on_batch: Callback<u64>,
    /// The message is not wanted any more.
    on_dismiss: Callback<()>,
) -> impl IntoView {
    let is_shown = Memo::new(move |_| message.with(Option::is_some));
    let on_act = Callback::new(move |act: Act| {
        let found = found.get_untracked().unwrap_or_default();
        match (act.name.as_str(), found.place, found.batch) {
            ("message-dismiss", ..) => on_dismiss.run(()),
            ("message-event", Some(spot), _) => on_event.run(spot.event),
            ("message-batch", _, Some((batch, _))) => on_batch.run(batch),
            (name, ..) => {
                let switched = message.with_untracked(|message| {
                    switched(message.as_ref()?, name, config.get_untracked())
                });
                if let Some(wanted) = switched {
                    on_config.run(wanted);
                }
            }
        }
    });
    // Where the allocation is: the lead, and what else is to be said of it.
    let place = move || {
        let report = report.get()?;
        let fits = report.verdict.verdict.survives();
        let fits_on = fits.then_some(report.verdict.name.as_str());
        Some(found.with(|found| {
            let found = found.as_ref();
            (words::lead(found), words::detail(found, fits_on))
        }))
    };
    let markup = Signal::derive(move || {
        let mut markup = Markup::default();
        let place = place();
        message.with(|message| {
            let Some(message) = message else { return };
            let told = &message.explained;
            head(&mut markup, told);
            memory(&mut markup, told);
            if told.sought.is_some() {
                found.with(|found| draw_place(&mut markup, place, found.as_ref()));
            }
            markup.raw("<div class=\"message-columns\">");
            config.with(|config| settings(&mut markup, told, config));
            listed(&mut markup, "message-advice", &tr("What helps"), &told.advice);
            listed(&mut markup, "message-notes", &tr("What this rests on"), &told.notes);
            markup.raw("</div>");
        });
        markup.done()
    });
    // Spoken by those who do not see it, each when it changes.
    let told =
        move || message.with(|message| Some(figures(&message.as_ref()?.explained).join(" ")));
    let sought = move || {
        let is_sought = |message: &Message| message.explained.sought.is_some();
        let is_sought = message.with(|message| message.as_ref().is_some_and(is_sought));
        place().filter(|_| is_sought).map(|(lead, detail)| [lead, detail].join(" "))
    };
    view! {
        <Show when=move || is_shown.get()>
            <Drawn class="message" labelledby="message-title" at_once=true markup on_act />
        </Show>
        <p class="hidden-text" role="status">
            {told}
        </p>
        <p class="hidden-text" role="status">
            {sought}
        </p>
    }
}

/// The settings with the one that a button is about applied, or taken back.
fn switched(message: &Message, button: &str, mut config: Config) -> Option<Config> {
    let told = &message.explained;
    let setting = told.settings.iter().find(|setting| act(setting) == button)?;
    if told.is_applied(setting, &config) {
        Explained::undo(setting, &message.before, &mut config);
    } else {
        told.apply(setting, &mut config);
    }
    Some(config)
}

/// What the button of a setting is called.
fn act(setting: &Setting) -> String {
    ["message-", setting.name].concat()
}

/// Its figures, and why.
fn figures(told: &Explained) -> [String; 2] {
    [told.figures.spoken(), tr(&told.why)]
}

fn head(markup: &mut Markup, told: &Explained) {
    let [figures, why] = figures(told);
    markup
        .raw("<div class=\"message-head\"><div><h2 class=\"message-title\" id=\"message-title\">");
    markup.around("", &told.title.spoken(), "</h2><p class=\"message-figures\">");
    markup.around("", &figures, " ").around("<strong>", &why, "</strong></p></div>");
    markup.cross("quiet-button", "message-dismiss", &tr("Dismiss the message"));
    markup.raw("</div><p class=\"message-about\">");
    for what in &told.about {
        markup.around("<span>", &what.spoken(), "</span>");
    }
    markup.raw("</p>");
}

/// The card's memory as a bar, with what was asked for beneath its free end.
fn memory(markup: &mut Markup, told: &Explained) {
    if told.parts.is_empty() {
        return;
    }
    let total: Bytes = told.parts.iter().map(|(_, bytes)| *bytes).sum();
    markup.raw("<div class=\"message-memory\"><div class=\"message-bar\" aria-hidden=\"true\">");
    for &(held, bytes) in &told.parts {
        let width = length(share(bytes, total));
        markup.raw("<span class=\"").raw(class(held));
        markup.around("\" data-width=\"", &width, "\"></span>");
    }
    markup.raw("</div>");
    if let Some(tried) = told.tried {
        let width = length(share(tried, total).min(100.0));
        let label = fill("asked for {size}", &[("size", &tried)]);
        markup.raw(
            "<div class=\"message-tried\"><span class=\"message-tried-bar\" aria-hidden=\"true\"",
        );
        markup.around(" data-width=\"", &width, "\"></span><span class=\"message-tried-label\">");
        markup.around("", &label, "</span></div>");
    }
    markup.raw("<dl class=\"message-parts\">");
    for &(held, bytes) in &told.parts {
        markup.around("<div title=\"", &words::held_meaning(held), "\"><dt><span class=\"swatch ");
        markup.raw(class(held)).around(
            "\" aria-hidden=\"true\"></span>",
            &words::held(held),
            "</dt>",
        );
        markup.raw("<dd>").size(bytes).raw("</dd></div>");
    }
    markup.raw("</dl></div>");
}

/// The style sheet's name of a part.
const fn class(held: Held) -> &'static str {
    match held {
        Held::Allocated => "held-allocated",
        Held::Unallocated => "held-unallocated",
        Held::Context => "held-context",
        Held::Others => "held-others",
        Held::Unknown => "held-unknown",
        Held::Free => "held-free",
    }
}

/// Where in the step it was, or the invitation to open a model.
fn draw_place(markup: &mut Markup, place: Option<(String, String)>, found: Option<&Finding>) {
    let title = tr("Where in the step");
    markup.around("<div class=\"message-where\"><h3 class=\"label\">", &title, "</h3><p>");
    let Some((lead, detail)) = place else {
        let invite = tr("Open the model that ran, and you see which operator asked for it. The \
                         settings below wait for it.");
        markup.around("", &invite, "</p></div>");
        return;
    };
    markup.around("<strong>", &lead, "</strong> ").around("", &detail, " ");
    if found.is_some_and(|found| found.place.is_some()) {
        markup.button("link-button", "message-event", &tr("Show on the timeline"));
    }
    markup.raw("</p>");
    if let Some((batch, spot)) = found.and_then(|found| found.batch.as_ref()) {
        markup.around("<p>", &words::other_batch(*batch, spot), " ");
        markup.button("link-button", "message-batch", &tr("Take this batch")).raw("</p>");
    }
    markup.raw("</div>");
}

/// The settings that follow, each applied or not.
fn settings(markup: &mut Markup, told: &Explained, config: &Config) {
    if told.settings.is_empty() {
        return;
    }
    let title = tr("Settings that follow");
    markup.around("<div class=\"message-settings\"><h3 class=\"label\">", &title, "</h3><ul>");
    for setting in &told.settings {
        let is_applied = told.is_applied(setting, config);
        let (name, value) = match setting.kind {
            Kind::Device => (tr("GPU"), told.device.clone()),
            _ => (tr(setting.label), setting.typed(&told.known)),
        };
        let value = if value.is_empty() { tr("none") } else { value };
        let act = act(setting);
        let (says, does) = if is_applied {
            (tr("Undo"), fill("Undo {setting}", &[("setting", &name)]))
        } else {
            (tr("Apply"), fill("Apply {setting}", &[("setting", &name)]))
        };
        markup.raw(if is_applied { "<li>" } else { "<li class=\"message-setting-off\">" });
        markup.around("<span class=\"message-setting-name\" title=\"", &tr(setting.about), "\">");
        markup.around("", &name, "</span><span class=\"message-setting-value\">");
        markup.around("", &value, "</span>");
        markup.labelled("link-button", &act, &does).text(&says).raw("</button></li>");
    }
    markup.raw("</ul></div>");
}

/// A list under a heading; nothing where it is empty.
fn listed(markup: &mut Markup, class: &'static str, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    markup.raw("<div class=\"").raw(class).around("\"><h3 class=\"label\">", title, "</h3><ul>");
    for line in lines {
        markup.around("<li>", &tr(line), "</li>");
    }
    markup.raw("</ul></div>");
}
