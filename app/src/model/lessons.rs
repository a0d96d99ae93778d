//! Short lessons that drive the page itself: a small model, a question, and the simulated answer.
//!
//! A lesson is data (`table`). The numbers in its sentences come from the report, so they always agree with the
//! picture.

mod table;

use highwater_core::Bytes;
use highwater_core::report::Report;
use highwater_core::trace::Category;

use crate::model::section::Section;

pub(crate) use table::{Ask, Asked, LESSONS, Lesson, Step};

/// Where a lesson stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Teaching {
    /// Which lesson.
    pub(crate) lesson: usize,
    /// Which of its steps.
    pub(crate) step: usize,
    /// Whether the answer of the step is shown.
    pub(crate) revealed: bool,
}

impl Step {
    /// The section of the page that it is about, if it is in one.
    pub(crate) fn section(&self) -> Option<Section> {
        match self.about {
            ".timeline" => Some(Section::Timeline),
            ".segment-map" => Some(Section::Allocator),
            ".rests-on" => Some(Section::Assumptions),
            ".others" => Some(Section::Others),
            _ => None,
        }
    }
}

impl Ask {
    /// SIZE: the largest that can be guessed.
    pub(crate) fn most(&self) -> Bytes {
        Bytes::mib(self.most_mib)
    }
}

impl Asked {
    /// SIZE: the answer.
    pub(crate) fn of(self, report: &Report) -> Bytes {
        match self {
            Self::Activations => most(report, Category::Activation),
            Self::Second => allocated_in(report, 2),
            Self::Reserved => report.peak.reserved,
            Self::Allocated => report.peak.allocated,
            Self::Trained => trained(report),
        }
    }
}

impl Teaching {
    /// The lesson.
    pub(crate) fn lesson(self) -> &'static Lesson {
        LESSONS.get(self.lesson).unwrap_or(&LESSONS[0])
    }

    /// The step.
    pub(crate) fn step(self) -> &'static Step {
        let steps = self.lesson().steps;
        steps.get(self.step).unwrap_or(&steps[0])
    }

    /// The model of the step.
    pub(crate) fn model(self) -> &'static str {
        let lesson = self.lesson();
        let mut so_far = lesson.steps.iter().take(self.step + 1).rev();
        so_far.find_map(|step| step.model).unwrap_or(lesson.model)
    }

    /// Iteration that the timeline shows.
    pub(crate) fn iteration(self) -> Option<usize> {
        if self.is_asking() { self.step().guessing } else { self.step().iteration }
    }

    /// Whether even the sizes of the picture are hidden while one guesses.
    pub(crate) fn hides_sizes(self) -> bool {
        self.is_asking() && self.step().guessing.is_none()
    }

    /// Whether something is to be guessed before the page may show it.
    pub(crate) fn is_asking(self) -> bool {
        !self.revealed && self.step().ask.is_some()
    }
}

/// The most that one category takes in an iteration.
fn most(report: &Report, category: Category) -> Bytes {
    let sizes = report.timeline.categories.iter().map(|sizes| sizes.get(category));
    sizes.max().unwrap_or_default()
}

/// What training needs besides activations: parameters, their gradients, and the optimizer's state.
fn trained(report: &Report) -> Bytes {
    let gradients = most(report, Category::Gradient);
    report.model.parameter_bytes + gradients + most(report, Category::OptimizerState)
}

fn allocated_in(report: &Report, iteration: usize) -> Bytes {
    let peaks = iteration.checked_sub(1).and_then(|at| report.iterations.get(at));
    peaks.map(|peaks| peaks.allocated).unwrap_or_default()
}

/// Names and sizes of a report that sentences may contain.
pub(crate) fn parts(report: &Report) -> [(&'static str, Bytes); 9] {
    [
        ("allocated", report.peak.allocated),
        ("reserved", report.peak.reserved),
        ("unused", report.peak.reserved.saturating_sub(report.peak.allocated)),
        ("first", allocated_in(report, 1)),
        ("second", allocated_in(report, 2)),
        ("parameters", report.model.parameter_bytes),
        ("activations", most(report, Category::Activation)),
        ("state", most(report, Category::OptimizerState)),
        ("gradients", most(report, Category::Gradient)),
    ]
}

#[cfg(test)]
mod tests {

    use highwater_core::config::{Checkpoint, Precision};
    use highwater_core::report::Verdict;
    use highwater_core::{Config, Model, Optimizer};

    use super::*;

    fn open(model: &str) -> Model {
        highwater_core::open(&mut model.as_bytes(), "lesson").expect("it opens")
    }

    fn estimate(id: &str, config: &Config) -> Report {
        let lesson = LESSONS.iter().find(|lesson| lesson.id == id).expect("it is there");
        open(lesson.model).estimate(config).expect("it is estimated")
    }

    /// All steps of all lessons, with their models.
    fn steps() -> impl Iterator<Item = (Teaching, &'static Step)> {
        let of_lesson =
            |lesson: usize| (0..LESSONS[lesson].steps.len()).map(move |step| (lesson, step));
        (0..LESSONS.len()).flat_map(of_lesson).map(|(lesson, step)| {
            let at = Teaching { lesson, step, revealed: false };
            (at, at.step())
        })
    }

    #[test]
    fn what_lessons_say_is_so() {
        let sgd = Config { optimizer: Optimizer::Sgd, ..Config::default() };
        let mut twice = sgd.clone();
        twice.dims.insert("N".to_owned(), 8192);
        let once = most(&estimate("saved-for-backward", &sgd), Category::Activation);
        let twice = most(&estimate("saved-for-backward", &twice), Category::Activation);
        assert!((Bytes::mib(64)..Bytes::mib(65)).contains(&once), "{once}");
        assert!((Bytes::mib(128)..Bytes::mib(130)).contains(&twice), "{twice}");

        let adam = estimate("second-step", &Config::default());
        assert!(allocated_in(&adam, 2) > allocated_in(&adam, 1) + Bytes::mib(30));
        let sgd = estimate("second-step", &sgd);
        assert_eq!(allocated_in(&sgd, 2), allocated_in(&sgd, 1));

        let odd = estimate("reserved", &Config::default());
        assert!(odd.peak.reserved.0 > odd.peak.allocated.0 * 3 / 2);

        let plain = estimate("checkpointing", &Config::default());
        assert_eq!(plain.peak.allocated.to_string(), "1.90 GiB");
        let blocks = Config { checkpoint: Checkpoint::Blocks, ..Config::default() };
        let blocks = estimate("checkpointing", &blocks);
        assert!(blocks.peak.allocated.0 < plain.peak.allocated.0 * 3 / 5);

        let amp = Config { precision: Precision::AmpBf16, ..Config::default() };
        let amp = estimate("mixed-precision", &amp);
        let plain = estimate("mixed-precision", &Config::default());
        assert_eq!(plain.peak.allocated.to_string(), "1.90 GiB");
        let (half, whole) = (plain.peak.allocated.0 / 2, plain.peak.allocated.0);
        assert!((half..whole).contains(&amp.peak.allocated.0), "{}", amp.peak.allocated);
        assert_eq!(trained(&amp), trained(&plain));

        let small = Config { capacity: Some(Bytes::mib(650)), ..Config::default() };
        assert_eq!(estimate("fragmentation", &small).verdict.verdict, Verdict::FitsAfterFlush);
    }

    /// What a model suggests would take the place of what its lesson sets.
    #[test]
    fn no_model_of_a_lesson_suggests_other_settings() {
        for (at, step) in steps().filter(|(at, step)| at.step == 0 || step.model.is_some()) {
            let opened = open(at.model());
            let suggested = opened.defaults().changed().map(|setting| setting.name);
            let of_lesson: Vec<_> = step.settings.iter().map(|(name, _)| *name).collect();
            let lost: Vec<_> = suggested.filter(|name| of_lesson.contains(name)).collect();
            assert!(lost.is_empty(), "{}: {lost:?}", at.model());
        }
    }

    /// The report of a step with its settings.
    fn report(at: Teaching) -> Report {
        let model = open(at.model());
        let mut config = Config::default();
        for (name, value) in at.step().settings {
            match name.strip_prefix("dim:") {
                Some(dim) => {
                    assert!(model.open_dims().iter().any(|open| open.name == dim), "{dim}");
                    config.dims.insert(dim.to_owned(), value.parse().expect("a size"));
                }
                None => assert_eq!(config.set(name, value).err(), None, "{name}"),
            }
        }
        model.estimate(&config).expect("it is estimated")
    }

    /// Every setting is known, every answer can be guessed, and the numbers that the documentation shows are those
    /// of the reports; `UPDATE_EXPECT=1` writes them.
    #[test]
    fn every_number_is_that_of_the_report() {
        assert!(LESSONS.iter().all(|lesson| !lesson.steps.is_empty()));
        let mut numbers = Vec::new();
        for (at, step) in steps() {
            let report = report(at);
            let mut line = |name: &str, size: Bytes| {
                let (lesson, step) = (at.lesson().id, at.step + 1);
                numbers.push(format!("{lesson} {step} {name} {}\n", size.short()));
            };
            for (name, size) in parts(&report) {
                let part = format!("{{{name}}}");
                if step.text.contains(&part) || step.reveal.contains(&part) {
                    line(name, size);
                }
            }
            if let Some(ask) = &step.ask {
                let answer = ask.of.of(&report);
                assert!(answer > Bytes::ZERO && answer < ask.most(), "{}", step.text);
                line("answer", answer);
            }
        }
        let numbers = numbers.concat();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model/lessons/numbers.txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, &numbers).expect("the numbers can be written");
        }
        let kept = std::fs::read_to_string(path).expect("there are numbers");
        assert_eq!(kept, numbers, "write them again with UPDATE_EXPECT=1");
    }
}
