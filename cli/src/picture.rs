//! `highwater estimate … --picture FILE`: the timeline as an SVG.

use highwater_core::Report;
use highwater_core::export::Answer;
use highwater_core::trace::{Category, Phase};
use highwater_core::wording::place::phase;
use highwater_draw::palette::Palette;
use highwater_draw::picture::{self, Words};
use highwater_draw::stack::Stack;

/// The picture, with what was recorded of the same training on the same axes.
pub(crate) fn svg(answer: &Answer, compared: Option<&Report>) -> String {
    let mut legend: Vec<String> = Category::ALL.map(|category| category.label().to_owned()).into();
    legend.push("reserved".to_owned());
    legend.extend(compared.map(|report| report.model.name.clone()));
    let phases = [Phase::Setup, Phase::ZeroGrad, Phase::Forward, Phase::Backward, Phase::Optimizer];
    let words = Words {
        title: answer.headline().lead.to_string(),
        legend,
        phases: phases.map(|of| phase(of).to_owned()).into(),
        iteration: None,
        stack: Stack::Category,
        compared: compared.map(|report| report.timeline.clone()),
    };
    picture::svg(answer, &words, &Palette::light())
}
