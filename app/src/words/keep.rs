//! Sentences about links, files and recent inputs.

use highwater_core::estimate::LargestBatch;
use highwater_core::export::{Answer, DeviceAnswer};
use highwater_core::report::Verdict;
use highwater_core::trace::{Category, Phase};
use highwater_draw::picture::{self, Gpu, Words};
use highwater_draw::scene::{Limit, View};
use highwater_draw::stack::Stack;

use super::names::phase;
use super::vocabulary::Vocabulary;
use crate::model::state::{Kept, Notice, Shared};
use crate::model::visit::CARRIED;
use crate::words::format::{self, grouped};
use crate::words::language::{fill, tr};

/// An address or a file holds no state that can be read.
pub(crate) fn unreadable_link() -> Notice {
    Notice {
        title: tr("This link cannot be read"),
        detail: tr("It is cut off, or comes from another version of this page."),
        is_error: true,
    }
}

/// An address names a file that the user must open.
pub(crate) fn file_wanted(name: &str) -> Notice {
    Notice {
        title: fill("Open {name} to see this", &[("name", &name)]),
        detail: tr("The link contains the settings and the view, but not the file."),
        is_error: false,
    }
}

/// An address has settings that mean nothing here.
pub(crate) fn unknown_settings(names: &str) -> Notice {
    Notice {
        title: tr("Not all of this link is understood"),
        detail: fill("Ignored: {names}. Everything else is as shared.", &[("names", &names)]),
        is_error: false,
    }
}

/// The answer could not be saved.
pub(crate) fn unsaved() -> Notice {
    Notice {
        title: tr("The answer could not be saved"),
        detail: tr("The program that saves it could not be loaded. Is the page still reachable?"),
        is_error: true,
    }
}

/// What became of the link, and how long it is.
pub(crate) fn shared(shared: &Shared) -> String {
    let length = grouped(shared.link.len() as u64);
    let english = match (shared.copied, shared.link.len() > CARRIED) {
        (_, true) => {
            "The link has {length} characters, and many programs cut links that long. A file is safer."
        }
        (true, false) => "The link is copied ({length} characters).",
        (false, false) => "Copy this link ({length} characters).",
    };
    fill(english, &[("length", &length)])
}

/// What is in the link.
pub(crate) fn in_the_link(shared: &Shared) -> String {
    match &shared.without {
        None => tr("It contains the model, the settings and the view."),
        Some(name) => fill(
            "It contains the settings, the view and the name {name}. To open it, you need that file.",
            &[("name", name)],
        ),
    }
}

/// The frame that shows the answer of a link inside another page; none where the link needs a file.
pub(crate) fn frame(shared: &Shared) -> Option<String> {
    let is_whole = shared.without.is_none() && shared.link.len() <= CARRIED;
    let (page, state) = shared.link.split_once('#').filter(|_| is_whole)?;
    let sign = if page.contains('?') { '&' } else { '?' };
    Some(format!(
        "<iframe src=\"{page}{sign}embed=1#{state}\" width=\"900\" height=\"700\" title=\"Highwater\"></iframe>"
    ))
}

/// Texts around the picture of the timeline.
pub(crate) fn around_the_picture(
    title: String,
    view: View,
    answer: &Answer,
    kept: Option<&Kept>,
    mine: Option<&str>,
) -> Words {
    let vocabulary = Vocabulary::of(&answer.report);
    let mut legend: Vec<_> = match view.stack {
        Stack::Category => Category::ALL.iter().map(|&of| vocabulary.category(of)).collect(),
        Stack::Module => {
            let owners = &answer.report.timeline.owners;
            let owners = owners.iter().map(|owner| owner.module.clone());
            owners.chain([tr("all others")]).collect()
        }
    };
    legend.extend([tr("reserved"), tr("cached")]);
    legend.extend(kept.map(|kept| fill("Kept: {name}", &[("name", &kept.name)])));
    let limits = picture::limits(answer, usable);
    Words {
        title,
        gpus: picture::shown_gpus(answer, mine).map(|device| gpu(answer, device)).collect(),
        legend,
        limits,
        phases: Phase::ALL.map(phase).into(),
        part: view.part,
        stack: view.stack,
        compared: kept.map(|kept| kept.report.timeline.clone()),
    }
}

/// What a device leaves to the allocator.
pub(crate) fn usable(limit: &Limit) -> String {
    let size = limit.bytes.short();
    fill("{gpu}: {size} for PyTorch", &[("gpu", &limit.name), ("size", &size)])
}

/// How the run ends on a GPU.
fn gpu(answer: &Answer, device: &DeviceAnswer) -> Gpu {
    let verdict = &device.verdict;
    let (need, usable) = (verdict.need, verdict.usable());
    // One that was not searched looks like one where no batch fits: nothing is claimed of either.
    let known = device.largest != LargestBatch::default() && answer.batch.is_some();
    let batch = known.then(|| largest_batch(device.largest, verdict.verdict));
    let sign = format::verdict_symbol(verdict.verdict);
    Gpu {
        name: verdict.name.clone(),
        need,
        usable,
        verdict: verdict.verdict,
        word: [sign, " ", &format::verdict_short(verdict.verdict)].concat(),
        amounts: format::of(need, usable),
        batch: batch.unwrap_or_default(),
        is_chosen: verdict.id == answer.report.verdict.id,
    }
}

/// The largest batch on a GPU with this verdict, as its card and the saved picture have it.
pub(crate) fn largest_batch(largest: LargestBatch, verdict: Verdict) -> String {
    let LargestBatch { likely, without_flush, with_flush, .. } = largest;
    match (likely, without_flush, with_flush) {
        (_, Some(batch), _) if verdict == Verdict::NotKnown => {
            fill("largest batch at most {n}", &[("n", &format::batch(batch))])
        }
        (Some(batch), ..) => fill("largest batch {n}", &[("n", &format::batch(batch))]),
        (None, Some(batch), _) => fill("batch {n} at best", &[("n", &format::batch(batch))]),
        (None, None, Some(batch)) => {
            fill("batch {n} with flushes", &[("n", &format::batch(batch))])
        }
        (None, None, None) => tr("no batch fits"),
    }
}

/// What something was that was opened before.
pub(crate) fn recent_kind(kind: &str) -> String {
    match kind {
        "example" => tr("example"),
        "text" => tr("text, kept here"),
        _ => tr("file, kept here up to 32 MiB"),
    }
}
