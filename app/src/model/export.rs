//! The answer as a file: the page packs it, and `bin/highwater-export` writes it.

use highwater_core::export::{self, Answer, Played};
use highwater_draw::palette::Palette;
use highwater_draw::picture::{self, Words};

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

/// The text of a form; empty for a form that there is not, or for what is no packed answer.
pub fn written(form: &str, packed: &[u8], palette: &Palette) -> String {
    let Ok((answer, words)) = postcard::from_bytes::<(Answer, Words)>(packed) else {
        return String::new();
    };
    match form {
        "svg" => picture::svg(&answer, &words, palette),
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

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::estimate::{LargestBatch, Stages};
    use highwater_core::export::DeviceAnswer;
    use highwater_core::{Config, open};

    /// An answer as the page packs it: parts by reference, in the order of [`Answer`].
    #[test]
    fn what_the_page_packs_is_written_in_every_form() {
        let path = format!("{}/../examples/resnet50.onnx", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the example travels with the page");
        let model = open(&mut bytes.as_slice(), "resnet50.onnx").expect("it opens");
        let report = model.estimate(&Config::default()).expect("it is estimated");
        let largest = LargestBatch { without_flush: Some(7), with_flush: Some(8) };
        let devices = vec![DeviceAnswer { verdict: report.verdict.clone(), largest }];
        let words = Words { title: "Peaks <here>".to_owned(), ..Words::default() };
        let packed = (("resnet50.onnx", Some("batch"), &report, &devices), words);
        let packed = postcard::to_stdvec(&packed).expect("it packs");
        for form in FORMS.iter().filter(|form| form.id != SNAPSHOT && form.id != "png") {
            let text = written(form.id, &packed, &Palette::light());
            assert!(text.len() > 50, "{}: {text}", form.id);
        }
        let svg = written("svg", &packed, &Palette::light());
        assert!(svg.contains("Peaks &lt;here&gt;") && svg.ends_with("</svg>\n"));
        assert_eq!(written("colour", &packed, &Palette::light()), "");
        assert_eq!(written("json", &[1, 2], &Palette::light()), "");
        let run =
            model.simulate(&Config::default(), &mut Stages::default()).expect("it is simulated");
        let packed = postcard::to_stdvec(&Played::of(&run)).expect("it packs");
        assert_eq!(pickled(&packed), export::snapshot(&Played::of(&run)));
        assert!(pickled(&[1, 2]).is_empty());
    }
}
