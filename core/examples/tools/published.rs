//! Rows of `tests/fixtures/published/throughput.csv`: what others measured, as settings of ours.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use flate2::read::GzDecoder;
use highwater_core::config::{Kind, Setting, Stage};
use highwater_core::device;
use highwater_core::eager::Launches;
use highwater_core::estimate::{Stages, Timings};
use highwater_core::formats::catalogue;
use highwater_core::time::Timing;
use highwater_core::{Config, Model};

/// The sources by whose rows constants may be chosen; all others only judge.
const CHOOSE: [&str; 2] = ["lambdal/", "ryujaehun/"];
/// Words of notes, and kinds of kernels, with which a row is left out.
const UNCLEAN: [&str; 4] = ["multi", "fused", "doubtful", "loader"];
const APEX: &str = "apex";
/// Kernels by `torch.compile`, whose rows are a group of their own.
const COMPILED: &str = "compile";

/// A published run.
#[derive(Clone, Debug)]
pub(crate) struct Row(BTreeMap<String, String>);

impl Row {
    /// All of the table.
    pub(crate) fn all() -> Result<Vec<Self>, Box<dyn Error>> {
        let text = fs::read_to_string(folder().join("throughput.csv"))?;
        let mut lines = text.lines().map(cells);
        let names = lines.next().unwrap_or_default();
        Ok(lines.map(|cells| Self(names.iter().cloned().zip(cells).collect())).collect())
    }

    pub(crate) fn cell(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Repository or site.
    pub(crate) fn source(&self) -> &str {
        self.cell("source").split([' ', ':']).next().unwrap_or_default()
    }

    /// Whether constants may be chosen by it.
    pub(crate) fn chooses(&self) -> bool {
        CHOOSE.iter().any(|source| self.cell("source").starts_with(source))
    }

    /// Why it is no measure of ours, if so.
    pub(crate) fn left_out(&self) -> Option<&'static str> {
        let notes: Vec<&str> = self.cell("notes").split([';', ':']).map(str::trim).collect();
        let has_kernels = |kind: &&str| *kind == self.cell("kernels");
        let unclean = || UNCLEAN.into_iter().find(|word| notes.contains(word));
        Some(APEX)
            .filter(has_kernels)
            .or_else(unclean)
            .or_else(|| Some(COMPILED).filter(has_kernels))
    }

    /// The model of a name or a file.
    pub(crate) fn open(&self) -> Result<Model, Box<dyn Error>> {
        let name = self.cell("model");
        if let Some(entry) = catalogue::find(name) {
            return Ok(highwater_core::open_named(&entry)?);
        }
        let path = folder().join(name);
        let mut file = File::open(&path).map_err(|_error| format!("no model {name}"))?;
        let mut bytes = Vec::new();
        if path.extension().is_some_and(|ending| ending == "gz") {
            GzDecoder::new(file).read_to_end(&mut bytes)?;
        } else {
            file.read_to_end(&mut bytes)?;
        }
        let name = name.rsplit('/').next().unwrap_or_default().trim_end_matches(".gz");
        Ok(highwater_core::open(&mut bytes.as_slice(), name)?)
    }

    /// Its settings.
    pub(crate) fn config(&self, model: &Model) -> Result<Config, Box<dyn Error>> {
        let mut config = model.defaults().clone();
        config.choose_device(&self.device_and_form().0);
        let flags = ["dims", "settings"].map(|name| self.cell(name)).join(" ");
        let batch = format!("batch {}", self.cell("batch"));
        let flags = flags.split("--").map(str::trim).filter(|flag| !flag.is_empty());
        for flag in flags.chain([batch.as_str()]) {
            let (name, value) = flag.split_once(' ').unwrap_or((flag, "true"));
            match Setting::named(name) {
                Some(setting) if setting.kind == Kind::Names => {
                    let known = setting.value(&config).text();
                    config.set(name, &format!("{known}\n{value}"))?;
                }
                Some(_) if value == "true" && name != "ema" && name != "weight-decay" => {
                    config.set(name, "on")?;
                }
                Some(_) => config.set(name, value)?,
                None if name == "image-size" => {
                    for side in ["height", "width"] {
                        config.dims.insert(side.to_owned(), value.parse()?);
                    }
                }
                None => {
                    config.dims.insert(name.to_owned(), value.parse()?);
                }
            }
        }
        let tf32 = match self.cell("tf32") {
            "yes" => "on",
            "no" => "convolutions",
            _ => "auto",
        };
        config.set("tf32", tf32)?;
        if self.cell("kernels") == COMPILED {
            config.set("compile", "inductor")?;
        }
        Ok(config)
    }

    /// Rows with the same text have the same run, on any GPU.
    pub(crate) fn run(&self, model: &Model) -> Result<String, Box<dyn Error>> {
        Ok(format!("{:?}", self.config(model)?.up_to(Stage::Run)))
    }

    /// Its kernels and their time.
    pub(crate) fn timing(
        &self,
        model: &Model,
        stages: &mut Stages,
    ) -> Result<(Rc<Launches>, Timing), Box<dyn Error>> {
        let config = self.config(model)?;
        let (id, form) = self.device_and_form();
        let device = device::find(&id)?;
        let mut timings = Timings::new(model, &config, stages);
        let launches = timings.launches(device)?;
        Ok((launches, timings.on_form(device, form)?))
    }

    /// Published milliseconds of such a step.
    pub(crate) fn milliseconds(&self, timing: &Timing) -> Result<f64, Box<dyn Error>> {
        let value: f64 = self.cell("value").parse()?;
        let counted = match self.cell("quantity") {
            "samples_per_s" => timing.samples,
            "tokens_per_s" => timing.tokens.ok_or("no tokens")?,
            _ => return Ok(value),
        };
        Ok(1000.0 * counted as f64 / value)
    }

    /// The device of the table, and the form of its board where it is another than the usual one.
    fn device_and_form(&self) -> (String, Option<&'static str>) {
        let id = self.cell("device");
        match id.strip_suffix("-pcie").filter(|id| id.starts_with("a100")) {
            Some(id) => (id.to_owned(), Some("PCIe")),
            None => (id.to_owned(), None),
        }
    }
}

/// Ours, in milliseconds.
pub(crate) fn ours(timing: &Timing) -> f64 {
    timing.time.step().0 as f64 / 1e9
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/published")
}

/// Cells of a line, of which some are quoted.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("there is one").push(letter),
        }
    }
    cells
}
