//! Units of a sharded model, and how they come to the device: what both versions of FSDP share.
//!
//! A unit is a block of the model; what is in no block is the root's. A model waits on the host until FSDP moves one
//! unit after the other: the parameters of one are whole on the device for a moment, then only its shards.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::adapt::is_lora;
use crate::config::{Config, Ranks};
use crate::eager::{Runtime, Tensor};
use crate::graph::ValueId;
use crate::recover::Program;
use crate::step::forward;
use crate::step::modules::{ModuleId, Modules};
use crate::tensor::{DType, TensorType};
use crate::trace::Category;

/// The root's number.
pub(super) const ROOT: usize = 0;

/// Which unit a module or a parameter belongs to.
#[derive(Debug)]
pub(super) struct Units {
    by_path: BTreeMap<String, usize>,
    /// Of each parameter and buffer its unit and its place in the model.
    by_name: BTreeMap<String, (usize, usize)>,
}

impl Units {
    pub(super) fn of(program: &Program) -> Self {
        let blocks = forward::blocks(program);
        let numbered = blocks.iter().enumerate();
        let by_path = numbered.map(|(at, (path, _))| (path.clone(), at + 1)).collect();
        let owner = |value: ValueId| blocks.iter().position(|(_, reads)| reads.contains(&value));
        let mut by_name = BTreeMap::new();
        for &value in &program.placement {
            let unit = owner(value).map_or(ROOT, |at| at + 1);
            by_name.insert(program.graph.value_name(value).to_owned(), (unit, by_name.len()));
        }
        Self { by_path, by_name }
    }

    /// COUNT: units, the root among them.
    pub(super) fn count(&self) -> usize {
        self.by_path.len() + 1
    }

    /// The unit that a module is, if it is one.
    pub(super) fn of_module(&self, modules: &Modules, module: ModuleId) -> Option<usize> {
        match module {
            ModuleId::MODEL => Some(ROOT),
            _ => self.by_path.get(modules.path(module)).copied(),
        }
    }

    /// The unit of a parameter or buffer, and its place.
    pub(super) fn of_name(&self, name: &str) -> Option<(usize, usize)> {
        self.by_name.get(name).copied()
    }
}

/// In which types parameters are kept, by the policy for mixed precision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    /// The type in which parameters are gathered, if it is stated.
    pub(super) gathers: Option<DType>,
    /// The type of the model before the policy.
    stores: DType,
    /// Whether adapters have the type of the model.
    is_model_type: bool,
}

impl Types {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            gathers: config.param_type.dtype(),
            stores: config.precision.converts_to().unwrap_or(DType::Float32),
            is_model_type: config.lora_model_type,
        }
    }

    /// The type and dimensions of what is kept of a parameter, of those that operators read.
    ///
    /// Packed 4-bit values are bytes, kept as numbers of the type in which they are gathered
    /// (`bnb_4bit_quant_storage`), since FSDP divides no others well.
    pub(super) fn stored(self, name: &str, tensor: &Tensor) -> TensorType {
        let dtype = tensor.dtype();
        if dtype == DType::UInt8 {
            let kept = self.gathers.unwrap_or(self.stores);
            let bytes: u64 = tensor.sizes().iter().product();
            let rows = bytes.checked_div(kept.size().0).unwrap_or(bytes);
            return TensorType::new(kept, [rows, 1]);
        }
        let is_low = is_lora(name) && !self.is_model_type;
        let kept = if is_low && self.is_cast(dtype) { DType::Float32 } else { self.kept(dtype) };
        TensorType::new(kept, tensor.sizes())
    }

    /// The type in which a model keeps a parameter that operators read in another one.
    pub(super) fn kept(self, dtype: DType) -> DType {
        if self.is_cast(dtype) { self.stores } else { dtype }
    }

    const fn is_cast(self, dtype: DType) -> bool {
        self.gathers.is_some() && dtype.is_floating()
    }

    /// The type in which operators read a parameter.
    pub(super) fn read(self, tensor: &Tensor) -> DType {
        self.gathered(tensor.dtype())
    }

    /// The type in which what is kept is gathered.
    pub(super) fn gathered(self, stored: DType) -> DType {
        self.gathers.filter(|_| stored.is_floating()).unwrap_or(stored)
    }
}

/// Buffers that wait on the host, and those that have come.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    waiting: RefCell<Vec<Buffer>>,
    here: RefCell<Vec<Tensor>>,
}

#[derive(Debug)]
struct Buffer {
    name: String,
    ty: TensorType,
    unit: usize,
}

impl Buffers {
    /// Notes a buffer on the host; statistics of a quantised weight have the weight's name.
    pub(super) fn wait(&self, units: &Units, name: &str, tensor: &Tensor) {
        let unit = units.of_name(name).map_or(ROOT, |(unit, _)| unit);
        let ty = TensorType::new(tensor.dtype(), tensor.sizes());
        let buffer = Buffer { name: name.to_owned(), ty, unit };
        self.waiting.borrow_mut().push(buffer);
    }

    /// The statistics of a weight come to the device.
    pub(super) fn bring_statistics(&self, rt: &Runtime, name: &str) {
        self.bring(rt, |buffer| buffer.name == name);
    }

    /// All other buffers of a unit come.
    pub(super) fn bring_unit(&self, rt: &Runtime, unit: usize) {
        self.bring(rt, |buffer| buffer.unit == unit);
    }

    fn bring(&self, rt: &Runtime, is_next: impl Fn(&Buffer) -> bool) {
        let mut waiting = self.waiting.borrow_mut();
        let (next, later) = waiting.drain(..).partition::<Vec<_>, _>(is_next);
        *waiting = later;
        let place = |one: Buffer| rt.place(&one.ty, Category::Buffer, &one.name);
        self.here.borrow_mut().extend(next.into_iter().map(place));
    }
}

/// The part of this rank, and COUNT: parts.
pub(super) fn part(config: &Config, ranks: Ranks) -> (u64, u64) {
    (ranks.part_of(config.rank.0.unwrap_or_default()), ranks.data)
}
