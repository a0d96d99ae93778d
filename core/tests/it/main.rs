//! Integration tests of `highwater-core`: one binary, a module per subject.
#![expect(clippy::unwrap_used, reason = "tests end where something is not as it should be")]
#![expect(clippy::needless_raw_string_hashes, reason = "`expect-test` writes them so")]

mod accuracy;
mod adapters;
mod allocator;
mod allocator_truth;
mod asked;
mod attention;
mod autopsy;
mod catalogue;
mod categories;
mod certainty;
mod compiled;
mod control_flow;
mod documents;
mod estimators;
mod evaluation;
mod fixtures;
mod generated;
mod hf_config;
mod hooks;
mod infer;
mod inference;
mod inputs;
mod keras;
mod levers;
mod loops;
mod losses;
mod measured;
mod node_cases;
mod observed;
mod onnx;
mod onnx_writer;
mod operators;
mod optimizers;
mod printed;
mod profiled;
mod published;
mod recipes;
mod recorded;
mod recording;
mod replay;
mod robustness;
mod runs;
mod scripts;
mod serving;
mod settings;
mod sharing;
mod snapshots;
mod spec;
mod streams;
mod tensor;
mod training;
mod utilisation;

mod wording;
