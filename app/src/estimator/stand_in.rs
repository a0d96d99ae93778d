//! A made-up network until the estimator itself is here: the shape of an answer, not an answer.

use highwater_core::report::{
    ByCategory, DeviceVerdict, IterationPeaks, LiveTensor, ModelSummary, ModuleBytes, OutOfMemory,
    Peak, Timeline, Verdict,
};
use highwater_core::source::Source;
use highwater_core::tensor::{DType, TensorType};
use highwater_core::trace::{Category, Phase, PhaseMark};
use highwater_core::{Bytes, Config, Diagnostic, Error, ErrorKind, Optimizer, Report, Severity};

use super::{Device, Model, OpenDim};

const DEVICES: [(&str, &str, u64, u64); 12] = [
    ("gtx-1080-ti", "GeForce GTX 1080 Ti", 11172, 171),
    ("rtx-2080-ti", "GeForce RTX 2080 Ti", 11011, 180),
    ("rtx-3060", "GeForce RTX 3060", 11909, 140),
    ("t4", "Tesla T4", 14910, 133),
    ("v100-16gb", "Tesla V100 16 GB", 16151, 300),
    ("rtx-4090", "GeForce RTX 4090", 24081, 440),
    ("a10g", "A10G", 22503, 300),
    ("l4", "L4", 22699, 280),
    ("a100-40gb", "A100 40 GB", 40326, 490),
    ("l40s", "L40S", 45457, 430),
    ("a100-80gb", "A100 80 GB", 81155, 490),
    ("h100-80gb", "H100 80 GB", 81000, 520),
];

pub(super) fn devices() -> Vec<Device> {
    DEVICES.iter().map(|d| Device { id: d.0.to_owned(), name: d.1.to_owned() }).collect()
}

pub(super) fn open(source: &mut dyn Source, name: &str) -> Result<Model, Error> {
    let mut first = [0; 1];
    if source.is_empty() {
        return Err(Error::new(ErrorKind::Empty, "the file is empty: export the model again"));
    }
    source.read_at(0, &mut first)?;
    if first != [8] {
        return Err(Error::new(
            ErrorKind::WrongFormat,
            "this is not an ONNX model: export one with torch.onnx.export(model, args, path)",
        ));
    }
    let blocks = if name.contains("gpt") { 6 } else { 16 };
    Ok(Model { stand_in: Net { name: name.to_owned(), blocks, tokens: name.contains("gpt") } })
}

pub(super) struct Net {
    name: String,
    blocks: usize,
    tokens: bool,
}

struct Builder {
    now: ByCategory,
    high: u64,
    timeline: Timeline,
    peak: (u64, usize, ByCategory),
}

impl Builder {
    fn change(&mut self, category: Category, bytes: u64, alloc: bool) {
        let slot = self.now.get_mut(category);
        if alloc {
            *slot += Bytes(bytes);
        } else {
            *slot -= Bytes(bytes);
        }
        let total = self.now.total();
        self.high = self.high.max(total.0 + (total.0 >> 4));
        let event = self.timeline.event.len();
        if total.0 > self.peak.0 {
            self.peak = (total.0, event, self.now);
        }
        self.timeline.event.push(event);
        self.timeline.categories.push(self.now);
        self.timeline.allocated.push(total);
        self.timeline.reserved.push(Bytes(self.high).round_up(Bytes::mib(2)));
    }

    fn mark(&mut self, iteration: usize, phase: Phase) {
        let event = self.timeline.event.len();
        self.timeline.phases.push(PhaseMark { event, iteration, phase });
    }
}

impl Net {
    pub(super) fn open_dims(&self) -> Vec<OpenDim> {
        let inputs = vec!["input".to_owned()];
        let dim = |name: &str, default, batch| OpenDim {
            name: name.to_owned(),
            default,
            batch,
            inputs: inputs.clone(),
        };
        let mut dims = vec![dim("batch", 32, true)];
        if self.tokens {
            dims.push(dim("seq", 512, false));
        }
        dims
    }

    fn filled(&self, config: &Config) -> Config {
        let mut config = config.clone();
        for dim in self.open_dims() {
            config.dims.entry(dim.name).or_insert(dim.default);
        }
        config
    }

    pub(super) fn estimate(&self, config: &Config) -> Report {
        let config = self.filled(config);
        let batch = config.dims.get("batch").copied().unwrap_or(1);
        let scale = batch * config.dims.get("seq").copied().unwrap_or(256);
        let states = match config.optimizer {
            Optimizer::Sgd => 0,
            Optimizer::SgdMomentum => 1,
            Optimizer::Adam | Optimizer::AdamW => 2,
        };
        let blocks = u64::try_from(self.blocks).unwrap_or(1);
        let width = |i: u64| 1536 << 10 | (i << 16);
        let kept = |i: u64| scale * (14 << 10) / (1 + i / 3);
        let mut b = Builder {
            now: ByCategory::default(),
            high: 0,
            timeline: Timeline::default(),
            peak: (0, 0, ByCategory::default()),
        };
        b.mark(0, Phase::Setup);
        for i in 0..blocks {
            b.change(Category::Parameter, width(i) * 4, true);
            b.change(Category::Buffer, 4 << 10, true);
        }
        b.change(Category::Input, scale * 588, true);
        for iteration in 1..=3 {
            b.mark(iteration, Phase::ZeroGrad);
            if iteration > 1 {
                for i in 0..blocks {
                    b.change(Category::Gradient, width(i) * 4, false);
                }
            }
            b.mark(iteration, Phase::Forward);
            for i in 0..blocks {
                for part in 0..8 {
                    b.change(Category::Workspace, scale * 2048, true);
                    b.change(Category::Activation, kept(i) / 8, true);
                    b.change(Category::Workspace, scale * 2048, false);
                    if part == 6 {
                        b.change(Category::Temporary, kept(i) / 3, true);
                        b.change(Category::Temporary, kept(i) / 3, false);
                    }
                }
            }
            b.mark(iteration, Phase::Backward);
            for i in (0..blocks).rev() {
                for part in 0..8 {
                    b.change(Category::Temporary, kept(i) / 8, true);
                    b.change(Category::Workspace, scale * 3072, true);
                    b.change(Category::Workspace, scale * 3072, false);
                    b.change(Category::Activation, kept(i) / 8, false);
                    b.change(Category::Temporary, kept(i) / 8, false);
                    if part == 7 {
                        b.change(Category::Gradient, width(i) * 4, true);
                    }
                }
            }
            b.mark(iteration, Phase::Optimizer);
            for i in 0..blocks {
                if iteration == 1 && states > 0 {
                    b.change(Category::OptimizerState, width(i) * 4 * states, true);
                }
                b.change(Category::Temporary, width(i) * 4, true);
            }
            for i in 0..blocks {
                b.change(Category::Temporary, width(i) * 4, false);
            }
        }
        b.timeline.events = b.timeline.event.len();
        let (peak, event, at_peak) = b.peak;
        let mark = b.timeline.phases.iter().rfind(|mark| mark.event <= event).copied();
        let reserved = Bytes(b.high).round_up(Bytes::mib(2));
        let verdict = verdict(&config.device, reserved);
        let module = |i: u64| format!("layer{}.{}.conv{}", i / 4 + 1, i % 4, i % 3 + 1);
        let mut live: Vec<_> = (0..blocks * 8)
            .map(|k| LiveTensor {
                bytes: Bytes(kept(k / 8) / 8),
                category: if k % 9 == 7 { Category::Parameter } else { Category::Activation },
                operator: "aten::convolution".to_owned(),
                module: module(k / 8),
                name: String::new(),
                tensor: Some(TensorType::new(DType::Float32, [batch, 64 << (k / 32), 56, 56])),
                born: 40 + usize::try_from(k).unwrap_or(0) * 3,
                dies: Some(event + usize::try_from(k).unwrap_or(0)),
            })
            .collect();
        live.sort_by_key(|tensor| std::cmp::Reverse(tensor.bytes));
        let peaks = IterationPeaks { requested: Bytes(peak), allocated: Bytes(peak), reserved };
        Report {
            model: ModelSummary {
                name: self.name.clone(),
                producer: "pytorch 2.15.0".to_owned(),
                parameters: (0..blocks).map(width).sum(),
                parameter_bytes: Bytes((0..blocks).map(|i| width(i) * 4).sum()),
                buffer_bytes: Bytes::mib(1),
                operators: 175,
            },
            peak: Peak {
                requested: Bytes(peak),
                allocated: Bytes(peak),
                reserved,
                process: verdict.need,
                phase: mark.map_or(Phase::Setup, |mark| mark.phase),
                iteration: mark.map_or(0, |mark| mark.iteration),
                operator: "aten::convolution_backward".to_owned(),
                module: "layer1.0.conv2".to_owned(),
                event,
            },
            iterations: vec![peaks; 3],
            at_peak,
            modules_at_peak: (0..blocks)
                .map(|i| ModuleBytes { module: module(i), bytes: Bytes(kept(i)) })
                .collect(),
            live_at_peak: live,
            timeline: b.timeline,
            verdict,
            lower_bound: self.tokens,
            diagnostics: vec![
                Diagnostic::new(
                    Severity::Info,
                    "assumed-dimension",
                    "The file leaves `batch` open; 32 was assumed until you choose",
                ),
                Diagnostic::new(
                    Severity::Warning,
                    "recovered-norm",
                    "49 BatchNorms were folded into convolutions and were put back",
                )
                .at("/layer1/layer1.0/conv1/Conv"),
            ],
            config,
        }
    }

    pub(super) fn verdict(&self, config: &Config, device: &str) -> DeviceVerdict {
        verdict(device, self.estimate(config).peak.reserved)
    }

    pub(super) fn largest_batch(&self, config: &Config, device: &str) -> Option<u64> {
        let mut config = config.clone();
        let mut fits = |batch: u64| {
            config.dims.insert("batch".to_owned(), batch);
            self.verdict(&config, device).verdict.survives()
        };
        let (mut low, mut high) = (0_u64, 1_u64 << 12);
        while low + 1 < high {
            let middle = low.midpoint(high);
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low > 0).then_some(low)
    }
}

fn verdict(device: &str, reserved: Bytes) -> DeviceVerdict {
    let (id, name, capacity, context) =
        DEVICES.into_iter().find(|d| d.0 == device).unwrap_or(DEVICES[0]);
    let (capacity, context) = (Bytes::mib(capacity), Bytes::mib(context));
    let need = reserved + context;
    let verdict = if need.0 <= capacity.0 / 100 * 95 {
        Verdict::Fits
    } else if need <= capacity {
        Verdict::Tight
    } else if need.0 <= capacity.0 / 100 * 104 {
        Verdict::FitsAfterFlush
    } else {
        Verdict::DoesNotFit
    };
    DeviceVerdict {
        id: id.to_owned(),
        name: name.to_owned(),
        capacity,
        need,
        context,
        verdict,
        out_of_memory: (!verdict.survives()).then(|| OutOfMemory {
            iteration: 1,
            phase: Phase::Backward,
            operator: "aten::convolution_backward".to_owned(),
            module: "layer1.1.conv2".to_owned(),
            message: "CUDA out of memory. Tried to allocate 98.00 MiB.".to_owned(),
        }),
    }
}
