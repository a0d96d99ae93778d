//! The answer in forms for other programs and people: JSON, Markdown, CSV, a trace, a snapshot. It writes no
//! files.
//!
//! | form | for whom |
//! |---|---|
//! | [`json`] | scripts: the wire format of `--json` |
//! | [`markdown`] | people: a report for an issue or a pull request |
//! | [`csv`] | spreadsheets: the timeline, the tensors at the peak, the devices |
//! | [`trace`] | ui.perfetto.dev: counters and slices over the events of the run |
//! | [`snapshot`] | PyTorch's viewer of memory: the whole run, from [`Played`], because an [`Answer`] does not contain all of it |

mod csv;
mod json;
mod markdown;
mod pickle;
mod snapshot;
mod trace;

use serde::{Deserialize, Serialize};

pub use self::csv::{devices, tensors, timeline};
pub use self::json::{DeviceTime, JsonConfig, JsonPeak, json, timed_json};
pub use self::markdown::markdown;
pub use self::snapshot::{Played, snapshot};
pub use self::trace::trace;
use crate::estimate::{LargestBatch, RankLine};
use crate::recipe::Recipe;
use crate::report::{DeviceVerdict, Report};
use crate::wording::answer::Devices;
use crate::wording::{Headline, Sentence, headline};

/// One estimate, and how the same run ends on every device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the file.
    pub name: String,
    /// Name of the dimension that `largest` varies, where there is one.
    pub batch: Option<String>,
    /// The estimate.
    pub report: Report,
    /// What each rank needs, where there are several.
    pub ranks: Vec<RankLine>,
    /// The recipe that states the training, if one was opened.
    pub recipe: Option<Recipe>,
    /// Those that were asked, in the order of [`crate::device::all`].
    pub devices: Vec<DeviceAnswer>,
    /// What is required of them.
    pub require: Requirement,
}

/// Devices on which a run must fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Their ids.
    pub devices: Vec<String>,
    /// Percent: the chance with which a run [passes](DeviceVerdict::passes).
    pub chance: u64,
}

impl Default for Requirement {
    fn default() -> Self {
        Self { devices: Vec::new(), chance: DeviceVerdict::PASSES }
    }
}

impl Answer {
    /// How the run ends on all devices.
    pub fn on_devices(&self) -> Option<Sentence> {
        let verdicts = self.devices.iter().map(|device| device.verdict.verdict);
        Devices::of(verdicts).sentence(self.report.is_open())
    }

    /// The answer on the configured device.
    pub fn headline(&self) -> Headline {
        let is_it = |device: &&DeviceAnswer| device.verdict.id == self.report.verdict.id;
        let largest = self.devices.iter().find(is_it).map(|device| device.largest);
        headline(&self.report, largest.filter(|_| self.batch.is_some()))
    }

    /// How far the batch can go on a device; not known of a lower bound.
    pub fn largest(&self, device: &DeviceAnswer) -> LargestBatch {
        if self.report.is_open() { LargestBatch::default() } else { device.largest }
    }
}

/// How the run ends on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAnswer {
    /// The verdict.
    pub verdict: DeviceVerdict,
    /// How far the batch can go.
    pub largest: LargestBatch,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use crate::device::{Interval, Provenance, Verdict};
    use crate::report::{ByCategory, LiveTensor, Peak, Timeline};
    use crate::trace::{Category, Phase, PhaseMark};
    use crate::{Config, Diagnostic, Severity};
    use expect_test::{Expect, expect};

    fn activation(bytes: u64) -> ByCategory {
        ByCategory { parameter: Bytes(4), activation: Bytes(bytes), ..ByCategory::default() }
    }

    fn verdict(name: &str, verdict: Verdict) -> DeviceVerdict {
        DeviceVerdict {
            id: name.to_ascii_lowercase(),
            name: name.to_owned(),
            capacity: Bytes::mib(100),
            need: Bytes::mib(120),
            capacity_from: Provenance::Reported,
            context: Bytes::mib(10),
            context_high: Some(Bytes::mib(35)),
            context_from: Provenance::Fitted,
            other_processes: Bytes::ZERO,
            allowed: None,
            interval: Some(Interval { low: Bytes::mib(110), high: Bytes::mib(130) }),
            chance: Some(3),
            verdict,
            out_of_memory: None,
        }
    }

    /// An answer with names that need care in every form.
    fn answer() -> Answer {
        let timeline = Timeline {
            event: vec![0, 1, 2],
            categories: vec![activation(0), activation(8), activation(8)],
            allocated: vec![Bytes(512), Bytes(1024), Bytes(1024)],
            reserved: vec![Bytes(2048); 3],
            operator: vec![0, 1, 1],
            module: vec![0, 2, 2],
            owners: Vec::new(),
            depths: Vec::new(),
            labels: vec![String::new(), "aten::relu".to_owned(), "a|\"b\", c".to_owned()],
            phases: vec![
                PhaseMark { event: 0, iteration: 0, phase: Phase::Setup },
                PhaseMark { event: 1, iteration: 1, phase: Phase::Forward },
            ],
            events: 4,
        };
        let tensor = LiveTensor {
            bytes: Bytes(8),
            category: Category::Activation,
            operator: "aten::relu".to_owned(),
            module: "a|\"b\", c".to_owned(),
            name: String::new(),
            tensor: None,
            born: 1,
            dies: None,
        };
        let peak = Peak {
            requested: Bytes(12),
            allocated: Bytes(1024),
            reserved: Bytes(2048),
            process: Bytes::mib(110),
            phase: Phase::Forward,
            iteration: 1,
            operator: "aten::relu".to_owned(),
            module: "a|\"b\", c".to_owned(),
            event: 1,
        };
        let report = Report {
            model: crate::report::ModelSummary::default(),
            config: Config::default(),
            peak,
            iterations: Vec::new(),
            without_workspaces: None,
            certainty: None,
            at_peak: activation(8),
            modules_at_peak: Vec::new(),
            live_at_peak: vec![tensor],
            timeline,
            verdict: verdict("A|1", Verdict::Fits),
            lower_bound: true,
            uncertain: false,
            diagnostics: vec![Diagnostic::new(Severity::Info, "assumed", "a <loss>")],
            recorded: None,
        };
        let up_to = |likely, without_flush, with_flush| LargestBatch {
            likely,
            without_flush,
            chance: 56,
            with_flush,
        };
        let devices = [
            ("A|1", Verdict::Fits, up_to(Some(6), Some(7), Some(9))),
            ("B, 2", Verdict::DoesNotFit, up_to(None, None, None)),
        ];
        let devices = devices
            .map(|(name, ends, largest)| DeviceAnswer { verdict: verdict(name, ends), largest });
        let (name, batch) = ("net.onnx".to_owned(), Some("batch".to_owned()));
        let (ranks, recipe) = (Vec::new(), None);
        let (devices, require) = (devices.to_vec(), Requirement::default());
        Answer { name, batch, report, ranks, recipe, devices, require }
    }

    fn check(text: &str, expected: &Expect) {
        expected.assert_eq(text);
    }

    #[test]
    fn tables_quote_what_needs_it() {
        let answer = answer();
        check(
            &timeline(&answer.report),
            &expect![[r#"
                event,iteration,phase,operator,module,allocated,reserved,parameter,buffer,optimizer_state,cache,input,gradient,communication,activation,temporary,workspace
                0,0,setup,,,512,2048,4,0,0,0,0,0,0,0,0,0
                1,1,forward,aten::relu,"a|""b"", c",1024,2048,4,0,0,0,0,0,0,8,0,0
                2,1,forward,aten::relu,"a|""b"", c",1024,2048,4,0,0,0,0,0,0,8,0,0
            "#]],
        );
        check(
            &tensors(&answer.report),
            &expect![[r#"
            bytes,category,name,module,operator,type,born,dies
            8,activation,,"a|""b"", c",aten::relu,,1,
        "#]],
        );
        check(
            &devices(&answer),
            &expect![[r#"
                id,name,verdict,need,capacity,context,other_processes,max_batch_likely,max_batch,max_batch_with_flush
                a|1,A|1,fits,125829120,104857600,10485760,0,,,
                b, 2,"B, 2",does-not-fit,125829120,104857600,10485760,0,,,
            "#]],
        );
    }

    #[test]
    fn a_report_survives_names_with_bars() {
        check(
            &markdown(&answer()),
            &expect![[r#"
                # GPU memory of training net.onnx

                **the model needs at least 120 of 100 MiB on an A\|1.** At least 1.00 KiB are allocated at the peak, in the forward pass of a\|"b", c. Does not fit on 1 of 2 GPUs; the verdict for the others is unknown.

                ## Settings

                | | |
                |---|---|
                | input | , exact graph |
                | parameters | 0 (0 B) |
                | optimizer | adamw |
                | precision | fp32 |
                | simulated | A\|1, PyTorch 2.15 |

                ## Peaks

                | | size | bytes |
                |---|--:|--:|
                | requested by tensors | 12 B | 12 |
                | `torch.cuda.max_memory_allocated()` | 1.00 KiB | 1024 |
                | `torch.cuda.max_memory_reserved()` | 2.00 KiB | 2048 |
                | process, with the CUDA context | 110.00 MiB | 115343360 |

                ## At the peak

                The peak of 1.00 KiB is reached in the forward pass of a\|"b", c, by aten::relu, in iteration 1.

                | category | size | share |
                |---|--:|--:|
                | activation | 8 B | 67 % |
                | parameter | 4 B | 33 % |

                | largest tensors | category | size | made by | type |
                |---|---|--:|---|---|
                | a\|"b", c | activation | 8 B | aten::relu |  |

                ## GPUs

                | | verdict | need | capacity | largest batch | at best | with cache flushes |
                |---|---|--:|--:|--:|--:|--:|
                | A\|1 | fits | 120.00 MiB | 100.00 MiB | at most 6 | at most 7 | at most 9 |
                | B, 2 | does not fit | 120.00 MiB | 100.00 MiB | none | none | none |

                ## Assumptions

                - **Lower bound:** parts of the model could not be estimated.
                - info `assumed`: a \<loss>

                Estimated by Highwater; nothing was run.
            "#]],
        );
    }

    #[test]
    fn a_trace_has_phases_operators_and_counters() {
        let text = trace(&answer());
        serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON");
        check(
            &text,
            &expect![[r#"
                {"displayTimeUnit":"ms","otherData":{"time":"one microsecond is one call to the allocator"},"traceEvents":[
                {"ph":"M","pid":1,"name":"process_name","args":{"name":"net.onnx"}},
                {"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"phases"}},
                {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"operators"}},
                {"ph":"X","pid":1,"tid":1,"ts":0,"dur":1,"name":"set-up"},
                {"ph":"X","pid":1,"tid":1,"ts":1,"dur":3,"name":"forward, iteration 1"},
                {"ph":"X","pid":1,"tid":2,"ts":1,"dur":3,"name":"aten::relu","args":{"module":"a|\"b\", c"}},
                {"ph":"C","pid":1,"ts":0,"name":"allocated","args":{"bytes":512}},
                {"ph":"C","pid":1,"ts":0,"name":"reserved","args":{"bytes":2048}},
                {"ph":"C","pid":1,"ts":0,"name":"by category","args":{"parameter":4,"buffer":0,"optimizer_state":0,"cache":0,"input":0,"gradient":0,"communication":0,"activation":0,"temporary":0,"workspace":0}},
                {"ph":"C","pid":1,"ts":1,"name":"allocated","args":{"bytes":1024}},
                {"ph":"C","pid":1,"ts":1,"name":"by category","args":{"parameter":4,"buffer":0,"optimizer_state":0,"cache":0,"input":0,"gradient":0,"communication":0,"activation":8,"temporary":0,"workspace":0}}
                ]}
            "#]],
        );
    }
}
