//! The answer as a file: packed by the page, written by `bin/highwater-export`, which nobody waits
//! for until somebody asks for one.

use highwater_core::export::{self, Answer, Played};
use highwater_core::report::Timeline;
use highwater_core::{Bytes, Config};
use serde::{Deserialize, Serialize};

use crate::chart::stack::Stack;
use crate::chart::svg::{self, Around};

/// A form that the answer can be saved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Its name in `public/export.js`.
    pub(crate) id: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    /// What is in it.
    pub(crate) about: &'static str,
}

impl Form {
    /// Whether a recorded run can be saved so: the others speak of a model and its settings.
    pub(crate) fn takes_recorded(&self) -> bool {
        matches!(self.id, "png" | "svg" | "devices")
    }
}

/// The form that is made from the run itself, which is in the worker, and not from the answer.
pub(crate) const SNAPSHOT: &str = "snapshot";

/// All forms, in the order in which they are offered.
pub(crate) const FORMS: [Form; 9] = [
    Form { id: "png", title: "Picture (PNG)", about: "The timeline, to paste anywhere" },
    Form { id: "svg", title: "Drawing (SVG)", about: "The timeline, for papers and slides" },
    Form { id: "markdown", title: "Report (Markdown)", about: "For an issue or a pull request" },
    Form { id: "json", title: "Answer (JSON)", about: "The same as the command line prints" },
    Form { id: "timeline", title: "Timeline (CSV)", about: "Every sample, by category" },
    Form { id: "tensors", title: "Tensors at the peak (CSV)", about: "Largest first" },
    Form { id: "devices", title: "GPUs (CSV)", about: "Need, capacity, verdict" },
    Form { id: "trace", title: "Trace (Perfetto)", about: "Counters and operators over time" },
    Form { id: SNAPSHOT, title: "Memory snapshot (PyTorch)", about: "For pytorch.org/memory_viz" },
];

/// What is said around the picture, in the language of the page.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Words {
    /// The sentence above it.
    pub(crate) title: String,
    /// Names of the layers in the order of the stack, then of the reserved bytes, then of the kept
    /// run where there is one.
    pub(crate) legend: Vec<String>,
    /// Names of the phases, in their order.
    pub(crate) phases: Vec<String>,
    /// Iteration shown; `None` for all.
    pub(crate) iteration: Option<usize>,
    /// Whether the layers are modules, not categories.
    pub(crate) by_module: bool,
    /// The kept run, to be drawn beside this one.
    pub(crate) beside: Option<Timeline>,
}

/// The text of a form; empty for a form that there is not, or for what is no packed answer.
pub fn written(form: &str, packed: &[u8], colours: &[String]) -> String {
    let Ok((answer, words)) = postcard::from_bytes::<(Answer, Words)>(packed) else {
        return String::new();
    };
    match form {
        "png" | "svg" => picture(&answer, &words, colours),
        "markdown" => export::markdown(&answer),
        "json" => export::json(&answer, None),
        "timeline" => export::timeline(&answer.report),
        "tensors" => export::tensors(&answer.report),
        "devices" => export::devices(&answer),
        "trace" => export::trace(&answer),
        _ => String::new(),
    }
}

/// The memory snapshot of a packed run; empty for what is none.
pub fn pickled(packed: &[u8]) -> Vec<u8> {
    postcard::from_bytes::<Played<'_>>(packed)
        .map_or_else(|_| Vec::new(), |run| export::snapshot(&run))
}

fn picture(answer: &Answer, words: &Words, colours: &[String]) -> String {
    let Config { dims, optimizer, precision, .. } = &answer.report.config;
    let mut about = answer.name.clone();
    let is_simulated = answer.report.recorded.is_none();
    for (name, size) in dims.iter().filter(|_| is_simulated) {
        about = format!("{about}, {name} = {size}");
    }
    if is_simulated {
        about = format!("{about}, {}, {}", optimizer.label(), precision.label());
    }
    for (name, value) in answer.report.config.unusual().into_iter().filter(|_| is_simulated) {
        about = format!("{about}, {name} {value}");
    }
    let device = &answer.report.verdict;
    let Bytes(room) = device.capacity - device.context;
    about = format!("{about}; {}: {}", device.name, Bytes(room));
    let around = Around {
        title: &words.title,
        about: &about,
        legend: &words.legend,
        phases: &words.phases,
        iteration: words.iteration,
        stack: if words.by_module { Stack::Module } else { Stack::Category },
        beside: words.beside.as_ref(),
        colours,
    };
    svg::svg(&answer.report, around)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::estimate::LargestBatch;
    use highwater_core::export::DeviceAnswer;
    use highwater_core::open;

    /// An answer as the page packs it: parts by reference, in the order of [`Answer`].
    #[test]
    fn what_the_page_packs_is_written_in_every_form() {
        let path = format!("{}/../public/examples/resnet50.onnx", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the example travels with the page");
        let model = open(&mut bytes.as_slice(), "resnet50.onnx").expect("it opens");
        let report = model.estimate(&Config::default()).expect("it is estimated");
        let largest = LargestBatch { without_flush: Some(7), with_flush: Some(8) };
        let devices = vec![DeviceAnswer { verdict: report.verdict.clone(), largest }];
        let words = Words { title: "Peaks <here>".to_owned(), ..Words::default() };
        let packed = (("resnet50.onnx", Some("batch"), &report, &devices), words);
        let packed = postcard::to_stdvec(&packed).expect("it packs");
        for form in FORMS.iter().filter(|form| form.id != SNAPSHOT) {
            let text = written(form.id, &packed, &[]);
            assert!(text.len() > 50, "{}: {text}", form.id);
        }
        let svg = written("svg", &packed, &["white".to_owned()]);
        assert!(svg.contains("Peaks &lt;here>") && svg.ends_with("</svg>\n"));
        assert_eq!(written("colour", &packed, &[]), "");
        assert_eq!(written("json", &[1, 2], &[]), "");
        let run = model.simulate(&Config::default()).expect("it is simulated");
        let packed = postcard::to_stdvec(&Played::of(&run)).expect("it packs");
        assert_eq!(pickled(&packed), export::snapshot(&Played::of(&run)));
        assert!(pickled(&[1, 2]).is_empty());
    }
}
