//! [`Scale`]: the same training on more or fewer GPUs, by each way of sharing it.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::{Facts, Lever, Outcome};
use crate::bytes::Bytes;
use crate::config::{Config, DataParallel, Mesh, Rank};
use crate::device;
use crate::error::{Error, ErrorKind};
use crate::estimate::{LargestBatch, Model, Stages, Timings};
use crate::time::Picoseconds;

/// COUNT: GPUs of a node, which layers are divided within.
const NODE: u64 = 8;

/// A way to train on several GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Stable name: `fsdp`.
    pub id: &'static str,
    /// Name for people: `FSDP`.
    pub name: &'static str,
    /// Ids of the levers that lead there from `DistributedDataParallel`; one that changes nothing is left out.
    levers: &'static [&'static str],
    /// Whether each layer is divided among all GPUs.
    divides_layers: bool,
}

/// Every way, the simplest first.
pub const WAYS: [Way; 6] = [
    Way { id: "ddp", name: "DDP", levers: &[], divides_layers: false },
    Way { id: "zero-1", name: "ZeRO-1", levers: &["zero-1"], divides_layers: false },
    Way { id: "fsdp", name: "FSDP", levers: &["fsdp"], divides_layers: false },
    Way {
        id: "fsdp-checkpoint",
        name: "FSDP, recomputed",
        levers: &["fsdp", "checkpoint"],
        divides_layers: false,
    },
    Way {
        id: "fsdp-offload",
        name: "FSDP, recomputed, offloaded",
        levers: &["fsdp", "checkpoint", "cpu-offload"],
        divides_layers: false,
    },
    Way { id: "tp", name: "tensor parallel", levers: &[], divides_layers: true },
];

impl Way {
    /// The way with this id.
    pub fn named(id: &str) -> Option<&'static Self> {
        WAYS.iter().find(|way| way.id == id)
    }
}

/// What one way leads to on so many GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaled {
    /// COUNT: GPUs.
    pub gpus: u64,
    /// [`Way::id`].
    pub way: String,
    /// The settings.
    pub config: Config,
    /// What the fullest of the GPUs needs.
    pub outcome: Outcome,
    /// How far the batch of each GPU can go; `None` where the model has no batch.
    pub largest: Option<LargestBatch>,
    /// How fast it is; `None` where it does not fit, or no rates of the GPU are published.
    pub pace: Option<Pace>,
    /// What to write in Python, and how it is started.
    pub code: String,
}

/// How fast a step on several GPUs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// PICOSECONDS: a step, with what of its exchanges computation does not hide.
    pub step: u64,
    /// PICOSECONDS: exchanges that computation does not hide.
    pub exposed: u64,
    /// SIZE: what each GPU sends to others in a step.
    pub sent: Bytes,
    /// COUNT: samples of a step on all GPUs.
    pub samples: u64,
}

impl Pace {
    /// COUNT: samples in a second on all GPUs, in hundredths.
    pub fn samples_per_second(&self) -> u64 {
        Picoseconds(self.step).per(self.samples.saturating_mul(100))
    }
}

/// A training whose number of GPUs is varied.
#[derive(Clone, Debug)]
pub struct Scale {
    config: Config,
    facts: Facts,
}

impl Scale {
    /// COUNT: GPUs that are tried: those of one node, then nodes of 8.
    pub const COUNTS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

    /// Of a configuration, without what it has of several GPUs.
    pub fn new(config: &Config, facts: Facts) -> Self {
        let config = Config {
            gpus: NonZeroU64::MIN,
            mesh: Mesh::default(),
            rank: Rank::default(),
            data_parallel: DataParallel::Ddp,
            cpu_offload: false,
            ..config.clone()
        };
        Self { config, facts }
    }

    /// The settings of a way on so many GPUs, and its code; `None` where that is no way of its own.
    fn settings(&self, gpus: NonZeroU64, way: &Way) -> Option<(Config, String)> {
        let mut config = Config { gpus, ..self.config.clone() };
        let mut code = String::new();
        if gpus == NonZeroU64::MIN {
            return (way.id == "ddp").then_some((config, code));
        }
        if way.divides_layers {
            (gpus.get() <= NODE).then_some(())?;
            config.mesh = Mesh::tensor(gpus);
            code += "model = AutoModelForCausalLM.from_pretrained(name, tp_plan=\"auto\")\n";
        }
        let mut pulled = Vec::new();
        let has_code = !code.is_empty();
        for lever in way.levers.iter().filter_map(|id| Lever::named(id)) {
            let Some(changed) = lever.pull(&config, &self.facts) else { continue };
            config = changed;
            pulled.push(lever);
        }
        for lever in &pulled {
            // Who offloads shards writes that in the same call.
            if lever.id != "fsdp" || !config.cpu_offload {
                let own = lever.code(&config, &self.facts);
                code = separated(&code, &own);
            }
        }
        // What lacks its last lever is the way before.
        let is_own = pulled.last().map(|lever| lever.id) == way.levers.last().copied();
        if !has_code && !config.data_parallel.shards_parameters() {
            code = separated(
                "from torch.nn.parallel import DistributedDataParallel\n\n\
                 model = DistributedDataParallel(model, device_ids=[rank])\n",
                &code,
            );
        }
        is_own.then_some((config, started(gpus.get(), &code)))
    }

    /// What a way leads to on so many GPUs, the largest batch on its device included; `None` where that is no way of
    /// its own, or the model cannot be shared so.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn on(
        &self,
        gpus: NonZeroU64,
        way: &Way,
        model: &Model,
        stages: &mut Stages,
    ) -> Result<Option<Scaled>, Error> {
        let Some((config, code)) = self.settings(gpus, way) else { return Ok(None) };
        let outcome = match model.outcome(&config, stages) {
            Ok(outcome) => outcome,
            Err(error) if error.kind() == ErrorKind::BadConfig && gpus.get() > 1 => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let line = model.batch_line(&config, stages);
        let largest = model.largest_batch(&config, &config.device, &line, stages)?;
        let fits = outcome.verdict.verdict.survives();
        let pace = fits.then(|| Self::pace(&config, model, stages)).flatten();
        let way = way.id.to_owned();
        Ok(Some(Scaled { gpus: gpus.get(), way, config, outcome, largest, pace, code }))
    }

    fn pace(config: &Config, model: &Model, stages: &mut Stages) -> Option<Pace> {
        let device = device::find(&config.device).ok()?;
        let timing = Timings::new(model, config, stages).on(device).ok()?;
        Some(Pace {
            step: timing.time.step().0,
            exposed: timing.time.network.exposed.0,
            sent: timing.sent(),
            samples: timing.samples,
        })
    }
}

/// Two pieces of code with a line between them.
fn separated(one: &str, other: &str) -> String {
    let line = if one.is_empty() || other.is_empty() { "" } else { "\n" };
    [one, line, other].concat()
}

/// The script with the lines that every one of several processes begins with, and how it is started.
fn started(gpus: u64, code: &str) -> String {
    let launch = if gpus <= NODE {
        format!("torchrun --nproc-per-node {gpus} train.py")
    } else {
        let nodes = gpus.div_ceil(NODE);
        format!("torchrun --nnodes {nodes} --nproc-per-node {NODE} --rdzv-endpoint HOST train.py")
    };
    format!(
        "# {launch}\nimport os\n\nimport torch\n\nrank = int(os.environ[\"LOCAL_RANK\"])\ntorch.cuda.set_device(rank)\n\
         torch.distributed.init_process_group(\"nccl\")\n\n{code}"
    )
}
