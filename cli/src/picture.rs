//! `highwater estimate … --picture FILE`: the timeline as an SVG.

use highwater_core::Report;
use highwater_core::bytes::grouped;
use highwater_core::device::Verdict;
use highwater_core::export::{Answer, DeviceAnswer};
use highwater_core::trace::{Category, Phase};
use highwater_core::wording::{Part, Sentence};
use highwater_draw::palette::Palette;
use highwater_draw::picture::{self, Gpu, Words};
use highwater_draw::scene;
use highwater_draw::stack::Stack;

/// The picture, with what was recorded of the same training on the same axes.
pub(crate) fn svg(answer: &Answer, compared: Option<&Report>, is_dark: bool) -> String {
    let mut legend: Vec<String> = Category::ALL.map(|category| category.label().to_owned()).into();
    legend.extend(["reserved", "cached"].map(str::to_owned));
    legend.extend(compared.map(|report| report.model.name.clone()));
    let words = Words {
        title: answer.headline().lead.to_string(),
        gpus: picture::shown_gpus(answer, None).map(|device| gpu(answer, device)).collect(),
        limits: picture::limits(answer, |limit| {
            format!("{}: {} usable", limit.name, limit.bytes.short())
        }),
        legend,
        phases: Phase::ALL.map(|phase| phase.heading().to_owned()).into(),
        part: scene::Part::Usual,
        stack: Stack::Category,
        compared: compared.map(|report| report.timeline.clone()),
    };
    let palette = if is_dark { Palette::dark() } else { Palette::light() };
    picture::svg(answer, &words, &palette)
}

/// How the run ends on a GPU.
fn gpu(answer: &Answer, device: &DeviceAnswer) -> Gpu {
    let verdict = &device.verdict;
    let (need, usable) = (verdict.need, verdict.usable());
    let word = match verdict.verdict {
        Verdict::Fits => "\u{2713} fits",
        Verdict::LikelyFits => "\u{2248} likely fits",
        Verdict::FitsAfterFlush => "\u{21bb} flushes",
        Verdict::NotKnown => "? unknown",
        Verdict::LikelyDoesNotFit | Verdict::DoesNotFit => "\u{2715} too big",
    };
    let largest = device.largest;
    let batch = match (largest.likely, largest.without_flush, largest.with_flush) {
        _ if answer.batch.is_none() => String::new(),
        (_, Some(batch), _) if verdict.verdict == Verdict::NotKnown => {
            format!("largest batch at most {}", grouped(batch))
        }
        (Some(batch), ..) => format!("largest batch {}", grouped(batch)),
        (None, Some(batch), _) => format!("batch {} at best", grouped(batch)),
        (None, None, Some(batch)) => format!("batch {} with flushes", grouped(batch)),
        (None, None, None) => "no batch fits".to_owned(),
    };
    Gpu {
        name: verdict.name.clone(),
        need,
        usable,
        verdict: verdict.verdict,
        word: word.to_owned(),
        amounts: Sentence::of("{need}").with("need", Part::Of(need, usable)).to_string(),
        batch,
        is_chosen: verdict.id == answer.report.verdict.id,
    }
}
