//! The legend of the timeline, and its numbers at the cursor, or at the peak where there is none.

use std::sync::Arc;

use highwater_core::Bytes;
use highwater_core::report::{ByCategory, Report, Timeline};
use highwater_core::trace::{Category, Phase};
use leptos::prelude::*;

use super::byte_size::ByteSize;
use crate::text;

/// One moment of the timeline in numbers.
#[component]
pub(crate) fn Readout(
    /// The report.
    report: Signal<Option<Arc<Report>>>,
    /// Place of the cursor in the samples.
    cursor: Signal<Option<usize>>,
) -> impl IntoView {
    move || {
        report.get().map(|report| {
            let at = cursor.get().and_then(|at| Moment::at(&report, at));
            let moment = at.unwrap_or_else(|| Moment::peak(&report));
            view! {
                <div class="readout">
                    <p class="readout-when">
                        <strong>{moment.title}</strong>
                        <span>{moment.place}</span>
                    </p>
                    <dl class="readout-values">
                        {Category::ALL
                            .map(|category| legend(category, moment.categories.get(category)))
                            .collect_view()} <div class="readout-value">
                            <dt>
                                <span class="swatch swatch-line" aria-hidden="true"></span>
                                "reserved"
                            </dt>
                            <dd>
                                <ByteSize bytes=moment.reserved />
                            </dd>
                        </div>
                    </dl>
                </div>
            }
        })
    }
}

fn legend(category: Category, bytes: Bytes) -> impl IntoView {
    view! {
        <div
            class="readout-value"
            class:readout-none=bytes == Bytes::ZERO
            title=text::category_meaning(category)
        >
            <dt>
                <span class=format!("swatch {}", class(category)) aria-hidden="true"></span>
                {text::category(category)}
            </dt>
            <dd>
                <ByteSize bytes />
            </dd>
        </div>
    }
}

/// The style sheet's name of a category.
pub(super) const fn class(category: Category) -> &'static str {
    match category {
        Category::Parameter => "category-parameter",
        Category::Buffer => "category-buffer",
        Category::Input => "category-input",
        Category::Activation => "category-activation",
        Category::Temporary => "category-temporary",
        Category::Workspace => "category-workspace",
        Category::Gradient => "category-gradient",
        Category::OptimizerState => "category-optimizer-state",
    }
}

struct Moment {
    title: &'static str,
    place: String,
    categories: ByCategory,
    reserved: Bytes,
}

impl Moment {
    fn at(report: &Report, at: usize) -> Option<Self> {
        let data = &report.timeline;
        let event = *data.event.get(at)?;
        Some(Self {
            title: "At the cursor",
            place: format!(
                "{}{}, {} allocated",
                when(data, event),
                running(data, at),
                data.allocated.get(at)?
            ),
            categories: *data.categories.get(at)?,
            reserved: *data.reserved.get(at)?,
        })
    }

    fn peak(report: &Report) -> Self {
        let data = &report.timeline;
        let peak = &report.peak;
        let at = data.event.partition_point(|&event| event <= peak.event).checked_sub(1);
        let reserved = at.and_then(|at| data.reserved.get(at)).copied().unwrap_or_default();
        let operator = what(&peak.operator, &peak.module);
        Self {
            title: "At the peak",
            place: format!("{}{operator}, {} allocated", when(data, peak.event), peak.allocated),
            categories: report.at_peak,
            reserved,
        }
    }
}

/// What ran at a sample: `, aten::convolution in layer1.0.conv2`.
pub(super) fn running(data: &Timeline, at: usize) -> String {
    let label = |places: &[usize]| {
        places.get(at).and_then(|&place| data.labels.get(place)).map_or("", String::as_str)
    };
    what(label(&data.operator), label(&data.module))
}

fn what(operator: &str, module: &str) -> String {
    match (operator, module) {
        ("", "") => String::new(),
        (one, "") | ("", one) => format!(", {one}"),
        (operator, module) => format!(", {operator} in {module}"),
    }
}

/// `backward of iteration 2`.
pub(super) fn when(data: &Timeline, event: usize) -> String {
    let after = data.phases.partition_point(|mark| mark.event <= event);
    match after.checked_sub(1).and_then(|at| data.phases.get(at)) {
        None => String::new(),
        Some(mark) if mark.phase == Phase::Setup => "set-up".to_owned(),
        Some(mark) => format!("{} of iteration {}", text::phase(mark.phase), mark.iteration),
    }
}
