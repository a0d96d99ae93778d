//! Several GPUs: how many ranks there are, how they are divided, and how those that read different batches share the
//! model.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::choice::choice;
use super::{Config, Kind, Typed, Value};
use crate::error::{Error, ErrorKind};
use crate::tensor::DType;

choice! {
    /// How ranks that read different batches share parameters, gradients and optimizer state.
    pub enum DataParallel ("data parallelism") {
        /// The first of those below that fits the GPU.
        Auto = "auto", "automatic", "the simplest that fits: DDP, else ZeRO-1, else FSDP",
        /// `torch.nn.parallel.DistributedDataParallel`.
        Ddp = "ddp", "DDP", "each rank has everything; gradients go through buckets",
        /// DDP with `torch.distributed.optim.ZeroRedundancyOptimizer`.
        Zero1 = "zero-1", "ZeRO-1", "DDP whose optimizer state is divided by whole parameters",
        /// `torch.distributed.fsdp.fully_shard`: FSDP2.
        Fsdp = "fsdp", "FSDP", "fully_shard: everything is divided, and blocks are gathered while they run",
        /// `torch.distributed.fsdp.FullyShardedDataParallel`: the first version.
        Fsdp1 = "fsdp1", "FSDP1", "FullyShardedDataParallel, with one flat parameter for each block",
    }
}

impl DataParallel {
    /// Whether parameters are divided.
    pub const fn shards_parameters(self) -> bool {
        matches!(self, Self::Fsdp | Self::Fsdp1)
    }

    /// Those that [`DataParallel::Auto`] tries, in this order.
    pub const SIMPLEST_FIRST: [Self; 3] = [Self::Ddp, Self::Zero1, Self::Fsdp];
}

choice! {
    /// In which order a stage of a pipeline runs forwards and backwards of its micro-batches.
    pub enum Schedule ("schedule") {
        /// `ScheduleGPipe`.
        GPipe = "gpipe", "GPipe", "all forwards, then all backwards",
        /// `Schedule1F1B`.
        OneForwardOneBackward = "1f1b", "1F1B", "each backward as soon as its gradient can be there",
        /// `ScheduleInterleaved1F1B`.
        Interleaved = "interleaved", "interleaved 1F1B", "1F1B with several parts of the model on each GPU",
    }
}

/// An axis of a mesh of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Copies of a sharded model, as in HSDP.
    Replicate,
    /// Ranks that read different batches.
    Data,
    /// Parts of each text.
    Context,
    /// Groups of experts.
    Expert,
    /// Parts of each layer.
    Tensor,
    /// Stages of the model.
    Pipeline,
}

/// Axes by the names that a mesh has for them.
const AXES: [(&str, Axis); 6] = [
    ("replicate", Axis::Replicate),
    ("dp", Axis::Data),
    ("cp", Axis::Context),
    ("ep", Axis::Expert),
    ("tp", Axis::Tensor),
    ("pp", Axis::Pipeline),
];

/// COUNT: ranks along the axes that are stated, such as `dp=2,tp=4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mesh([Option<NonZeroU64>; AXES.len()]);

impl Mesh {
    /// Ranks that divide each layer, and no others.
    pub fn tensor(ranks: NonZeroU64) -> Self {
        Self(AXES.map(|(_, axis)| (axis == Axis::Tensor).then_some(ranks)))
    }

    /// The axes that are stated, by name, in the order of [`AXES`].
    fn axes(&self) -> impl Iterator<Item = (&'static str, Axis, NonZeroU64)> {
        let sizes = AXES.into_iter().zip(self.0);
        sizes.filter_map(|((name, axis), size)| Some((name, axis, size?)))
    }

    fn stated(&self, axis: Axis) -> Option<u64> {
        self.axes().find(|(_, own, _)| *own == axis).map(|(_, _, size)| size.get())
    }

    fn size(&self, axis: Axis) -> u64 {
        self.stated(axis).unwrap_or(1)
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, _, size)) in self.axes().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={size}")?;
        }
        Ok(())
    }
}

impl FromStr for Mesh {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut mesh = Self::default();
        for pair in text.split([',', ' ']).map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, size) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, size) = (name.trim(), size.trim().parse().ok());
            let place = AXES.iter().position(|(own, _)| *own == name);
            let slot = place.and_then(|at| mesh.0.get_mut(at));
            let Some((slot, size)) = slot.zip(size).filter(|(slot, _)| slot.is_none()) else {
                let message = say!(
                    "`{pair}` is no axis of a mesh, or comes again: write AXIS=N with commas between them, such as \
                     dp=2,tp=4; axes are replicate, dp, cp, ep, tp and pp",
                    pair
                );
                return Err(Error::new(ErrorKind::BadConfig, message));
            };
            *slot = Some(size);
        }
        Ok(mesh)
    }
}

impl TryFrom<String> for Mesh {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Mesh> for String {
    fn from(mesh: Mesh) -> Self {
        mesh.to_string()
    }
}

impl Typed for Mesh {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn read(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

/// COUNT: ranks along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Copies of the sharded model.
    pub replicate: u64,
    /// Ranks that read different batches; where parameters are divided, the parts.
    pub data: u64,
    /// Parts of each layer.
    pub tensor: u64,
    /// Stages of the model, each a part of its blocks.
    pub pipeline: u64,
}

impl Ranks {
    /// Which part of divided parameters a rank has.
    pub fn part_of(self, rank: u64) -> u64 {
        let reader = rank.checked_div(self.tensor).unwrap_or(rank);
        reader.checked_rem(self.data).unwrap_or_default()
    }

    /// COUNT: those that read samples of their own; parts of a layer and stages read the same.
    pub const fn readers(self) -> u64 {
        self.replicate.saturating_mul(self.data)
    }

    /// COUNT: all.
    pub const fn all(self) -> u64 {
        let of_layers = self.tensor.saturating_mul(self.pipeline);
        self.readers().saturating_mul(of_layers)
    }
}

impl Config {
    /// Whether the run is one of several ranks.
    pub fn is_parallel(&self) -> bool {
        self.workload.trains() && (self.gpus.get() > 1 || self.mesh != Mesh::default())
    }

    /// What parameters and inputs are converted to for arithmetic, where they are.
    pub fn converts_to(&self) -> Option<DType> {
        self.gathers_as().or_else(|| self.precision.converts_to())
    }

    /// What the policy of a sharded model casts parameters to where they are gathered.
    pub fn gathers_as(&self) -> Option<DType> {
        let gathered = self.is_parallel() && self.data_parallel.shards_parameters();
        self.param_type.dtype().filter(|_| gathered)
    }

    /// Whether an answer with these settings is one to what is asked: what is left open there may be settled.
    pub fn is_answered_by(&self, used: &Self) -> bool {
        let is_open = self.data_parallel == DataParallel::Auto;
        let data_parallel = if is_open { used.data_parallel } else { self.data_parallel };
        let rank = if self.rank.0.is_none() { used.rank } else { self.rank };
        self == used || Self { data_parallel, rank, ..self.clone() } == *used
    }

    /// How the ranks are divided; a mesh alone says how many there are.
    ///
    /// # Errors
    /// When the mesh does not have as many ranks as there are GPUs, or an axis that is not simulated.
    pub fn ranks(&self) -> Result<Ranks, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::BadConfig, message).about("mesh"));
        let known = [Axis::Replicate, Axis::Data, Axis::Tensor, Axis::Pipeline];
        let is_unknown = |axis: &Axis, size: NonZeroU64| size.get() > 1 && !known.contains(axis);
        if let Some((name, ..)) = self.mesh.axes().find(|(_, axis, size)| is_unknown(axis, *size)) {
            return refuse(say!(
                "the axis `{name}` is not simulated yet: leave it out of the mesh",
                name
            ));
        }
        let stated = self.mesh.axes().map(|(.., size)| size.get()).fold(1, u64::saturating_mul);
        let gpus = self.gpus.get();
        let is_whole = self.mesh.stated(Axis::Data).is_some();
        let [tensor, pipeline] = [Axis::Tensor, Axis::Pipeline].map(|axis| self.mesh.size(axis));
        // Parts of the model alone say how many ranks there are, too.
        let is_whole = is_whole || (gpus == 1 && tensor.max(pipeline) > 1);
        let fits = if is_whole { gpus == 1 || gpus == stated } else { gpus.is_multiple_of(stated) };
        if !fits && is_whole {
            return refuse(say!(
                "the mesh {mesh} has {stated} ranks, and there are {gpus} GPUs",
                mesh = self.mesh,
                stated,
                gpus
            ));
        }
        if !fits {
            return refuse(say!(
                "{gpus} GPUs cannot be divided into a mesh of {mesh}, which is {stated} ranks",
                gpus,
                mesh = self.mesh,
                stated
            ));
        }
        let others = || gpus.checked_div(stated).filter(|_| !is_whole);
        let data = self.mesh.stated(Axis::Data).or_else(others).unwrap_or(1);
        let replicate = self.mesh.size(Axis::Replicate);
        let shares = matches!(self.data_parallel, DataParallel::Auto | DataParallel::Fsdp);
        if tensor > 1 && (replicate > 1 || (data > 1 && !shares)) {
            return refuse(say!(
                "layers that are divided are shared by FSDP only: choose the data parallelism fsdp without `replicate`, \
                 or {tensor} GPUs for tp={tensor} by itself",
                tensor
            ));
        }
        if pipeline > 1 && (replicate > 1 || data > 1 || tensor > 1) {
            return refuse(say!(
                "a pipeline together with data or tensor parallelism is not simulated yet: for pp={pipeline} by itself, \
                 choose {pipeline} GPUs",
                pipeline
            ));
        }
        Ok(Ranks { replicate, data, tensor, pipeline })
    }

    /// COUNT: micro-batches that a pipeline divides a batch into; 1 where there is no pipeline.
    pub fn micro_batches(&self) -> u64 {
        if !self.is_parallel() {
            return 1;
        }
        let stages = self.ranks().map_or(1, |ranks| ranks.pipeline);
        let count = self.micro_batches.0.map_or(stages, NonZeroU64::get);
        if stages > 1 { count } else { 1 }
    }
}

choice! {
    /// A type of FSDP's mixed precision (`MixedPrecisionPolicy`).
    pub enum PolicyType ("type") {
        /// No other than parameters have.
        Auto = "auto", "automatic", "as parameters are stored",
        /// Single precision.
        Fp32 = "fp32", "fp32", "32 bits",
        /// IEEE half precision.
        Fp16 = "fp16", "fp16", "half precision",
        /// bfloat16.
        Bf16 = "bf16", "bf16", "bfloat16",
    }
}

impl PolicyType {
    /// The type, where one is stated.
    pub const fn dtype(self) -> Option<DType> {
        match self {
            Self::Auto => None,
            Self::Fp32 => Some(DType::Float32),
            Self::Fp16 => Some(DType::Float16),
            Self::Bf16 => Some(DType::BFloat16),
        }
    }
}

/// The rank whose memory is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rank(pub Option<u64>);

impl Typed for Rank {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value {
        Value::Text(String::from(*self))
    }

    fn read(text: &str) -> Result<Self, Error> {
        if matches!(text, "" | "auto") {
            return Ok(Self(None));
        }
        text.parse().map(|rank| Self(Some(rank))).map_err(|_error| {
            let message = say!("`{text}` is no rank: write a number from 0 on, or auto", text);
            Error::new(ErrorKind::BadConfig, message)
        })
    }
}

impl TryFrom<String> for Rank {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::read(&text)
    }
}

impl From<Rank> for String {
    fn from(rank: Rank) -> Self {
        rank.0.map_or_else(|| "auto".to_owned(), |rank| rank.to_string())
    }
}

/// COUNT: micro-batches of a pipeline; by itself as many as stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MicroBatches(pub Option<NonZeroU64>);

impl Typed for MicroBatches {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value {
        Value::Text(String::from(*self))
    }

    fn read(text: &str) -> Result<Self, Error> {
        if matches!(text, "" | "auto") {
            return Ok(Self(None));
        }
        text.parse().map(|count| Self(Some(count))).map_err(|_error| {
            let message = say!(
                "`{text}` is no count of micro-batches: write a number from 1 on, or auto",
                text
            );
            Error::new(ErrorKind::BadConfig, message)
        })
    }
}

impl TryFrom<String> for MicroBatches {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::read(&text)
    }
}

impl From<MicroBatches> for String {
    fn from(count: MicroBatches) -> Self {
        count.0.map_or_else(|| "auto".to_owned(), |count| count.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(gpus: u64, mesh: &str, expected: Result<[u64; 3], &str>) {
        let config = Config {
            gpus: NonZeroU64::new(gpus).expect("a number"),
            mesh: mesh.parse().expect("a mesh"),
            ..Config::default()
        };
        let found = config.ranks().map(|ranks| [ranks.replicate, ranks.data, ranks.tensor]);
        assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_mesh_has_as_many_ranks_as_there_are_gpus() {
        check(1, "", Ok([1, 1, 1]));
        check(8, "", Ok([1, 8, 1]));
        check(8, "replicate=2", Ok([2, 4, 1]));
        check(1, "dp=4, replicate=2", Ok([2, 4, 1]));
        check(1, "tp=4", Ok([1, 1, 4]));
        check(4, "tp=4", Ok([1, 1, 4]));
        check(8, "tp=2", Ok([1, 4, 2]));
        check(
            8,
            "replicate=2,tp=2",
            Err(
                "layers that are divided are shared by FSDP only: choose the data parallelism fsdp without `replicate`, \
                 or 2 GPUs for tp=2 by itself",
            ),
        );
        check(8, "dp=4", Err("the mesh dp=4 has 4 ranks, and there are 8 GPUs"));
        check(
            8,
            "replicate=3",
            Err("8 GPUs cannot be divided into a mesh of replicate=3, which is 3 ranks"),
        );
        check(1, "pp=2", Ok([1, 1, 1]));
        check(
            8,
            "pp=2",
            Err(
                "a pipeline together with data or tensor parallelism is not simulated yet: for pp=2 by itself, choose 2 \
                 GPUs",
            ),
        );
        check(8, "cp=2", Err("the axis `cp` is not simulated yet: leave it out of the mesh"));
    }

    #[test]
    fn a_mesh_is_written_as_it_is_read() {
        let mesh: Mesh = "tp=4,dp=2".parse().expect("a mesh");
        assert_eq!(mesh.to_string(), "dp=2,tp=4");
        assert!("dp".parse::<Mesh>().is_err());
        assert!("dp=0".parse::<Mesh>().is_err());
        assert!("dp=2,dp=4".parse::<Mesh>().is_err());
    }
}
