//! What learned estimators see of measured models, a line of CSV for each, for the programs that train them.
//!
//! `cargo run --release -p highwater-core --example tools -- features tests/fixtures/measured/mlp.csv MODEL.onnx.gz…`
//!
//! A line of `mlp.csv` is a perceptron, and is called by its number. Layers are `kind:outputs:parameters:sources`.
#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use highwater_core::estimate::Stages;
use highwater_core::estimators::{Evidence, Features, Run};
use highwater_core::{Config, Model};

use crate::Result;
use crate::perceptron::perceptron;

/// COUNT: samples of the batch at which models of images are seen; what is printed is for each sample.
const BATCH: u64 = 8;

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    println!("model,domain,parameters,activations,inputs,activation,layers");
    for path in arguments {
        let path = Path::new(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|ending| ending == "csv") {
            for (number, line) in std::fs::read_to_string(path)?.lines().skip(1).enumerate() {
                let (spec, batch) = perceptron(line)?;
                let model = highwater_core::open(&mut spec.as_bytes(), "mlp.yaml")?;
                see(&number.to_string(), &model, batch)?;
            }
        } else {
            let mut bytes = Vec::new();
            GzDecoder::new(File::open(path)?).read_to_end(&mut bytes)?;
            let name = name.trim_end_matches(".onnx.gz");
            let model = highwater_core::open(&mut bytes.as_slice(), name)?;
            if let Err(error) = see(name, &model, BATCH) {
                println!("# {name}: {error}");
            }
        }
    }
    Ok(())
}

fn see(name: &str, model: &Model, batch: u64) -> Result<()> {
    let batch_dims = model.open_dims().into_iter().filter(|dim| dim.batch);
    let dims = batch_dims.map(|dim| (dim.name, batch)).collect();
    let config = Config { dims, ..model.defaults().clone() };
    let mut stages = Stages::default();
    let simulation = model.simulate(&config, &mut stages)?;
    let features = Features::of(&Evidence::of(&Run::of(model, &simulation, &mut stages)?))?;
    let layers = features.layers.iter().map(|layer| {
        let sources: Vec<String> = layer.sources.iter().map(usize::to_string).collect();
        format!("{}:{}:{}:{}", layer.kind, layer.outputs, layer.parameters, sources.join("+"))
    });
    println!(
        "{name},{:?},{},{},{},{},{}",
        features.domain,
        features.parameters,
        features.activations,
        features.inputs,
        features.activation,
        layers.collect::<Vec<_>>().join(" ")
    );
    Ok(())
}
