//! The answer as a file.

use highwater_core::export::{self, Answer, Played};
use highwater_draw::palette::Palette;
use highwater_draw::picture::{self, Words};

/// A form that the answer can be saved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Its name.
    pub(crate) id: &'static str,
    /// How its files end.
    pub(crate) ending: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    /// What is in it.
    pub(crate) about: &'static str,
}

impl Form {
    /// Whether a recorded run can be saved so: the others speak of a model and its settings.
    pub(crate) fn takes_recorded(&self) -> bool {
        matches!(self.id, PICTURE | "svg" | "devices")
    }
}

/// The form that is made from the run itself, which is in the worker, and not from the answer.
pub(crate) const SNAPSHOT: &str = "snapshot";

/// The form that is drawn on a canvas.
pub(crate) const PICTURE: &str = "png";

/// All forms, in the order in which they are offered.
pub(crate) const FORMS: [Form; 9] = [
    Form {
        id: PICTURE,
        ending: "timeline.png",
        title: "Picture (PNG)",
        about: "The timeline, to paste anywhere",
    },
    Form {
        id: "svg",
        ending: "timeline.svg",
        title: "Drawing (SVG)",
        about: "The timeline, for papers and slides",
    },
    Form {
        id: "markdown",
        ending: "md",
        title: "Report (Markdown)",
        about: "For an issue or a pull request",
    },
    Form {
        id: "json",
        ending: "json",
        title: "Answer (JSON)",
        about: "The same as the command line prints",
    },
    Form {
        id: "timeline",
        ending: "timeline.csv",
        title: "Timeline (CSV)",
        about: "Every sample, by category",
    },
    Form {
        id: "tensors",
        ending: "tensors.csv",
        title: "Tensors at the peak (CSV)",
        about: "Largest first",
    },
    Form {
        id: "devices",
        ending: "devices.csv",
        title: "GPUs (CSV)",
        about: "Need, capacity, verdict",
    },
    Form {
        id: "trace",
        ending: "trace.json",
        title: "Trace (Perfetto)",
        about: "Counters and operators over time",
    },
    Form {
        id: SNAPSHOT,
        ending: "pickle",
        title: "Memory snapshot (PyTorch)",
        about: "For pytorch.org/memory_viz",
    },
];

/// The text of a form; empty for a form that there is not.
pub(crate) fn written(form: &str, answer: &Answer, words: &Words, palette: &Palette) -> String {
    match form {
        "svg" => picture::svg(answer, words, palette),
        "markdown" => export::markdown(answer),
        "json" => export::json(answer, None),
        "timeline" => export::timeline(&answer.report),
        "tensors" => export::tensors(&answer.report),
        "devices" => export::devices(answer),
        "trace" => export::trace(answer),
        _ => String::new(),
    }
}

/// The memory snapshot of a packed run; empty for what is none.
pub(crate) fn pickled(packed: &[u8]) -> Vec<u8> {
    postcard::from_bytes::<Played<'_>>(packed)
        .map_or_else(|_| Vec::new(), |run| export::snapshot(&run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::estimate::{LargestBatch, Stages};
    use highwater_core::export::{DeviceAnswer, Requirement};
    use highwater_core::{Config, open};

    #[test]
    fn an_answer_is_written_in_every_form() {
        let path = format!("{}/../examples/resnet50.onnx", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the example travels with the page");
        let model = open(&mut bytes.as_slice(), "resnet50.onnx").expect("it opens");
        let report = model.estimate(&Config::default()).expect("it is estimated");
        let largest = LargestBatch {
            likely: Some(6),
            without_flush: Some(7),
            chance: 56,
            with_flush: Some(8),
        };
        let devices = vec![DeviceAnswer { verdict: report.verdict.clone(), largest }];
        let words = Words { title: "Peaks <here>".to_owned(), ..Words::default() };
        let batch = Some("batch".to_owned());
        let answer = Answer {
            name: "resnet50.onnx".to_owned(),
            batch,
            report,
            ranks: Vec::new(),
            recipe: None,
            devices,
            require: Requirement::default(),
        };
        for form in FORMS.iter().filter(|form| ![PICTURE, SNAPSHOT].contains(&form.id)) {
            let text = written(form.id, &answer, &words, &Palette::light());
            assert!(text.len() > 50, "{}: {text}", form.id);
        }
        let svg = written("svg", &answer, &words, &Palette::light());
        assert!(svg.contains("Peaks &lt;here&gt;") && svg.ends_with("</svg>\n"));
        assert_eq!(written("colour", &answer, &words, &Palette::light()), "");
        let run =
            model.simulate(&Config::default(), &mut Stages::default()).expect("it is simulated");
        let packed = postcard::to_stdvec(&Played::of(&run)).expect("it packs");
        assert_eq!(pickled(&packed), export::snapshot(&Played::of(&run)));
        assert!(pickled(&[1, 2]).is_empty());
    }
}
