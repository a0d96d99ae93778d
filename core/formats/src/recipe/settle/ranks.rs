//! How many ranks a recipe has, how they are divided, and how they share the model.

use super::{Desk, Tool};
use crate::config::{Config, Setting};
use crate::diagnostic::{Diagnostic, Severity};
use crate::recipe::Origin;
use crate::recipe::draft::{Slot, Why};

/// COUNT: ranks that read different batches, where a recipe shares the model and states no number.
const ASSUMED: u64 = 2;

/// Axes that divide what a rank computes: the name in a mesh, and what is said where it is not simulated.
const AXES: [(Slot, &str, Why); 3] = [
    (Slot::Context, "cp", Why::ContextParallel),
    (Slot::Tensor, "tp", Why::TensorParallel),
    (Slot::Pipeline, "pp", Why::PipelineParallel),
];

/// The processes of a job.
struct Job {
    /// COUNT: all of them.
    all: u64,
    /// COUNT: those that read different batches.
    data: u64,
    /// Where the number is from, if it is stated.
    from: Option<Origin>,
}

impl Desk<'_> {
    fn count(&self, slot: Slot) -> Option<(u64, Origin)> {
        let (value, from) = self.fact(slot)?;
        Some((value.parse().ok()?, from))
    }

    /// COUNT: ranks along an axis; `rest` is 1 here.
    fn width(&self, slot: Slot) -> u64 {
        self.count(slot).map_or(1, |(width, _)| width.max(1))
    }

    /// COUNT: processes, where they are stated by themselves: a number, or one per machine.
    fn processes(&self) -> Option<(u64, Origin)> {
        if let Some(stated) = self.count(Slot::Gpus) {
            return Some(stated);
        }
        if let Some((each, from)) = self.count(Slot::PerMachine) {
            return Some((each.saturating_mul(self.width(Slot::Machines)), from));
        }
        // The samples of all GPUs are those of one, as often as there are GPUs and accumulated batches.
        let (samples, from) = self.count(Slot::GlobalBatch)?;
        let (batch, _) = self.count(Slot::Batch)?;
        let (accumulated, _) = self.count(Slot::Accumulate)?;
        let ranks = samples.checked_div(batch.saturating_mul(accumulated))?;
        (ranks > 0).then_some((ranks, from))
    }

    /// How ranks that read different batches share the model, by itself: `ddp`, `fsdp`, `fsdp1`.
    fn way(&self) -> Option<(String, Origin)> {
        let shards = self.fact(Slot::Shard).filter(|(width, _)| width != "1");
        let of_key = self.fact(Slot::Fsdp).filter(|(value, _)| value == "on");
        let of_context = || {
            let context = self.fact(Slot::Context);
            context.filter(|(width, _)| self.tool == Tool::Torchtitan && width != "1")
        };
        let is_of_shards = of_key.is_none();
        if let Some((_, from)) = of_key.or(shards).or_else(of_context) {
            if let Some((_, from)) = self.fact(Slot::FsdpStrategy).filter(|(way, _)| way == "none")
            {
                return Some(("ddp".to_owned(), from));
            }
            // A mesh with shards is one of FSDP2.
            let is_second = match self.fact(Slot::FsdpVersion) {
                Some((version, Origin::Key(_))) => version == "2",
                Some((version, Origin::Default(_))) => is_of_shards || version == "2",
                None => true,
            };
            return Some((if is_second { "fsdp" } else { "fsdp1" }.to_owned(), from));
        }
        if let Some((width, from)) = self.fact(Slot::Replicate).filter(|(width, _)| width != "1")
            && width != "rest"
        {
            return Some(("ddp".to_owned(), from));
        }
        self.fact(Slot::DataParallel)
    }

    fn job(&self) -> Option<Job> {
        let others = [self.copied(), Slot::Context, Slot::Tensor, Slot::Pipeline];
        let others = others.map(|slot| self.width(slot)).into_iter().fold(1, u64::saturating_mul);
        let shards = self.count(Slot::Shard).map(|(width, _)| width.max(1));
        let is_open = self.fact(Slot::Shard).is_some_and(|(width, _)| width == "rest");
        let all = match (self.processes(), shards) {
            (Some((all, from)), _) => {
                let data = all.checked_div(others).unwrap_or(1).max(1);
                return (all > 1).then_some(Job { all, data, from: Some(from) });
            }
            (None, Some(shards)) => others.saturating_mul(shards),
            (None, None) if is_open || self.way().is_some_and(|(way, _)| divides(&way)) => {
                return Some(Job {
                    all: others.saturating_mul(ASSUMED),
                    data: ASSUMED,
                    from: None,
                });
            }
            (None, None) if others > 1 => others,
            (None, None) if self.way().is_some() => {
                return Some(Job { all: ASSUMED, data: ASSUMED, from: None });
            }
            (None, None) => return None,
        };
        let stated = [Slot::Shard, Slot::Replicate, Slot::Tensor, Slot::Context, Slot::Pipeline];
        let from = stated.into_iter().find_map(|slot| {
            let (width, from) = self.count(slot)?;
            (width > 1).then_some(from)
        });
        let data = all.checked_div(others).unwrap_or(1);
        (all > 1).then_some(Job { all, data, from })
    }

    /// Whether parameters are divided over ranks.
    pub(super) fn is_sharded(&self) -> bool {
        let Some(job) = self.job() else { return false };
        let is_way = self.way().is_some_and(|(way, _)| divides(&way));
        is_way && (job.data > 1 || self.width(Slot::Context) > 1)
    }

    /// Whether weights that are trained are converted to fp32 before they are divided: accelerate does so where
    /// autocast is on.
    pub(super) fn raises_shards(&self) -> bool {
        let is_accelerate = self.tool.has_trainer() || self.tool == Tool::Accelerate;
        let autocast = self.text(Slot::Autocast).unwrap_or_default();
        is_accelerate && self.is_sharded() && !matches!(autocast.as_str(), "" | "none")
    }

    /// Settings of several GPUs.
    pub(super) fn ranks(&mut self) {
        let Some(job) = self.job() else { return self.sharing() };
        let is_sharded = self.is_sharded();
        let mut gpus = job.all;
        let mut mesh: Vec<String> = Vec::new();
        let mut of_mesh = None;
        let copies = self.count(self.copied());
        if let Some((width, from)) = copies.filter(|(width, _)| is_sharded && *width > 1) {
            mesh.push(format!("replicate={width}"));
            of_mesh = Some(from);
        }
        for (slot, axis, why) in AXES {
            let Some((width, from)) = self.count(slot).filter(|(width, _)| *width > 1) else {
                continue;
            };
            let pair = format!("{axis}={width}");
            if is_simulated(&pair) {
                mesh.push(pair);
                of_mesh = of_mesh.or(Some(from));
                continue;
            }
            self.leave_out(why, &from);
            // Ranks that read parts of a text have shards of their own.
            let keeps = slot == Slot::Context && is_sharded;
            gpus = if keeps { gpus } else { gpus.checked_div(width).unwrap_or(1).max(1) };
        }
        self.spread(gpus, job.from.as_ref());
        if let Some(from) = of_mesh {
            self.choose("mesh", &mesh.join(","), &from);
        }
        self.accumulated(job.data);
        self.sharing();
    }

    /// What states copies of a sharded model: there is one on each machine where shards stay within it.
    fn copied(&self) -> Slot {
        let is_hybrid = self.text(Slot::FsdpStrategy).as_deref() == Some("hybrid");
        let is_open = !self.draft.has(Slot::Replicate);
        if is_hybrid && is_open { Slot::Machines } else { Slot::Replicate }
    }

    /// The number of GPUs, which is assumed where nothing states it.
    fn spread(&mut self, gpus: u64, from: Option<&Origin>) {
        if let Some(from) = from {
            return self.choose("gpus", &gpus.to_string(), from);
        }
        let config = &mut self.settled.config;
        if Setting::named("gpus").is_some_and(|gpu| gpu.set(config, &gpus.to_string()).is_ok()) {
            let message = say!(
                "the recipe does not state how many GPUs it runs on, so {gpus} are assumed; set their number \
                 (`--gpus`)",
                gpus
            );
            let note = Diagnostic::new(Severity::Warning, "recipe-size", message);
            self.settled.notes.push(note);
        }
    }

    /// COUNT: batches of a step, where only the samples of all GPUs are stated.
    fn accumulated(&mut self, data: u64) {
        let (false, Some((samples, from))) =
            (self.fact(Slot::Accumulate).is_some(), self.count(Slot::GlobalBatch))
        else {
            return;
        };
        let together = self.width(Slot::Batch).saturating_mul(self.width(self.copied()));
        let together = together.saturating_mul(data);
        if let Some(batches) = samples.checked_div(together).filter(|batches| *batches > 1) {
            self.choose("accumulate", &batches.to_string(), &from);
        }
    }

    /// Notes that an axis is left out.
    fn leave_out(&mut self, why: Why, from: &Origin) {
        let (Origin::Key(key) | Origin::Default(key)) = from;
        let message = why.sentence(key);
        let note = Diagnostic::new(Severity::Warning, "recipe-not-simulated", message);
        self.settled.notes.push(note);
    }

    /// How ranks share the model. What is stated is always a setting: it counts once there are several GPUs.
    fn sharing(&mut self) {
        let (is_sharded, is_parallel) = (self.is_sharded(), self.settled.config.gpus.get() > 1);
        if let Some((way, from)) = self.way().or_else(|| {
            let is_usual = is_parallel && (self.tool.has_trainer() || self.tool.launches_ddp());
            is_usual.then(|| ("ddp".to_owned(), self.default_of(self.tool.library())))
        }) && (is_parallel || matches!(from, Origin::Key(_)))
        {
            let way = if is_parallel && divides(&way) && !is_sharded { "ddp" } else { &way };
            self.choose("data-parallel", way, &from);
        }
        if is_sharded
            && self.text(Slot::FsdpWrap).as_deref() == Some("model")
            && let Some((_, from)) = self.fact(Slot::FsdpWrap)
        {
            // By itself, accelerate has no units but the model.
            let key = Origin::Key("fsdp_auto_wrap_policy".to_owned());
            self.leave_out(Why::OneUnit, if matches!(from, Origin::Key(_)) { &from } else { &key });
        }
        // accelerate excludes integers from what FSDP2 divides.
        if is_sharded
            && self.is_on(Slot::FourBits)
            && self.fact(Slot::QuantStorage).is_none()
            && let Some((_, from)) = self.fact(Slot::FourBits)
            && self.tool.has_trainer()
        {
            self.leave_out(Why::WholeQuantized, &from);
        }
        let is_ddp = is_parallel && !is_sharded;
        for (name, slot, counts) in [
            ("reshard", Slot::Reshard, is_sharded),
            ("cpu-offload", Slot::CpuOffload, is_sharded),
            ("bucket-cap", Slot::BucketCap, is_ddp),
            ("bucket-view", Slot::BucketView, is_ddp),
            ("find-unused", Slot::FindUnused, is_ddp),
            ("no-sync", Slot::NoSync, is_parallel && self.settled.config.accumulate.get() > 1),
        ] {
            if let Some((value, from)) = self.fact(slot)
                && (counts || self.draft.has(slot))
            {
                let is_flag = !matches!(slot, Slot::Reshard | Slot::BucketCap);
                let value = if is_flag { flag(&value) } else { &value };
                self.choose(name, value, &from);
            }
        }
        self.unused(is_ddp);
        if is_sharded {
            self.types();
        }
    }

    /// transformers looks for unused parameters, unless a model of its own is checkpointed.
    fn unused(&mut self, is_ddp: bool) {
        let is_own = !self.is_lora();
        let is_usual = is_ddp && self.tool.has_trainer() && !self.draft.has(Slot::FindUnused);
        if is_usual && !(is_own && self.is_on(Slot::Checkpoint)) {
            let from = self.default_of(super::Library::Transformers);
            self.choose("find-unused", "true", &from);
        }
    }

    /// FSDP's mixed precision: as stated, or that of autocast, as accelerate and Lightning have it.
    fn types(&mut self) {
        let has_policy = self.tool.has_trainer() || self.tool.launches_ddp();
        let autocast = self.fact(Slot::Autocast).filter(|(to, _)| has_policy && to != "none");
        for (name, slot) in [("param-type", Slot::ParamType), ("reduce-type", Slot::ReduceType)] {
            if let Some((to, from)) = self.fact(slot).or_else(|| autocast.clone()) {
                self.choose(name, &to, &from);
            }
        }
    }
}

/// Whether parameters are divided.
fn divides(way: &str) -> bool {
    way.starts_with("fsdp")
}

/// A flag as settings have it.
fn flag(value: &str) -> &str {
    match value {
        "on" => "true",
        "off" => "false",
        value => value,
    }
}

/// Whether a mesh can have this axis. The loops of recipes are not run by the schedule of a pipeline yet.
fn is_simulated(pair: &str) -> bool {
    let mesh = pair.parse();
    let ranks = mesh.and_then(|mesh| Config { mesh, ..Config::default() }.ranks());
    ranks.is_ok_and(|ranks| ranks.pipeline == 1)
}
