//! Prints of models: what is read of them, and how near the answer is to PyTorch's for the model that
//! was printed.

use expect_test::expect_file;
use highwater_core::Config;
use highwater_core::formats::{self, Fidelity};

use crate::fixtures;
use crate::runs::{Run, signed, table};

const PRINTS: [&str; 26] = [
    "alexnet",
    "bert_base",
    "convnext_tiny",
    "deit_small",
    "densenet121",
    "distilbert",
    "efficientnet_b0",
    "googlenet",
    "gpt2",
    "inception_v3",
    "llama_1b",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "opt_125m",
    "pythia_160m",
    "qwen2_0_5b",
    "qwen3_0_6b",
    "regnet_y_400mf",
    "resnet50",
    "roberta_base",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "swin_t",
    "vgg16",
    "vit_b_16",
];

/// `print(model)` of the zoo's models: parameters, and the peak of the second iteration with AdamW.
#[test]
fn prints_are_near_the_models_that_they_were_made_of() {
    let truth = table("oracle/results.csv");
    let mut lines = format!(
        "{:<20}{:>6}{:>14}{:>12}{:>12}  {}\n",
        "model", "batch", "parameters", "printed", "allocated", "grade"
    );
    for name in PRINTS {
        let text = fixtures::read(&format!("printed/{name}.txt"));
        let model = match highwater_core::open(&mut text.as_slice(), name) {
            Ok(model) => model,
            Err(error) => {
                lines += &format!("{name:<20}{error}\n");
                continue;
            }
        };
        let runs =
            truth.iter().filter(|cells| cells["model"] == name && cells["settings"].is_empty());
        for cells in runs.take(1) {
            let config = Run::of(cells).configuration_over(&model, &Config::default()).unwrap();
            let report = model.estimate(&config).unwrap();
            let parameters: u64 = cells["parameters"].parse().unwrap();
            let allocated: u64 = cells["allocated_2"].parse().unwrap();
            lines += &format!(
                "{name:<20}{:>6}{parameters:>14}{:>12}{:>12}  {}\n",
                cells["batch"],
                signed(report.model.parameters, parameters),
                signed(report.iterations[1].allocated.0, allocated),
                model.recognised().fidelity.name(),
            );
        }
    }
    expect_file!["printed.txt"].assert_eq(&lines);
}
