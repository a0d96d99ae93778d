//! Texts that people paste when memory ran out: PyTorch's message, `nvidia-smi`, `torch.cuda.memory_summary()`, or a log
//! with several of them.
//!
//! [`read`] takes figures out of text. [`Observed::explain`] derives the GPU, the memory of the CUDA context and
//! of other processes, why the allocation failed, what helps, and the settings for an estimate of this machine.
//! Messages print rounded sizes, so derived sizes are exact to a few MiB only: [`Printed`].

mod cause;
mod nvidia_smi;
mod out_of_memory;
mod summary;
mod text;

use crate::order::InOrder as _;
pub use cause::Cause;
pub use nvidia_smi::{Gpu, Instance, Machine, Process};
use out_of_memory::TENSORFLOW;
pub use out_of_memory::{Backend, Message, Versions};
pub use summary::Summary;

use crate::bytes::{Bytes, Printed};
use crate::config::{Config, PyTorch, SETTINGS, Setting};
use crate::device::{self, Device, Fit, Suspect};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Error;
use crate::sentence::Sentence;
use crate::source::Source;

/// SIZE: the largest context that was seen where CUDA loads all kernels at once, as PyTorch let it before 1.13
/// (pytorch/pytorch#49877, an RTX 3090).
const EAGER: Bytes = Bytes::mib(1644);

/// What was found in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The last out-of-memory message.
    pub message: Option<Message>,
    /// COUNT: different messages before it.
    pub earlier: usize,
    /// The last output of `nvidia-smi`.
    pub machine: Option<Machine>,
    /// The last `torch.cuda.memory_summary()`.
    pub summary: Option<Summary>,
    /// Value of `PYTORCH_CUDA_ALLOC_CONF`, if the text sets it.
    pub alloc_conf: Option<String>,
    /// Whether only the end of the text was read.
    pub cut: bool,
}

/// What follows from what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Cards that it may be, the likeliest first.
    pub suspects: Vec<Suspect>,
    /// The GPU of `nvidia-smi` that it is about: a position in [`Machine::gpus`].
    pub gpu: Option<usize>,
    /// CUDA context and libraries: what the process has in use less what its allocator holds.
    pub context: Option<Printed>,
    /// What others than this process hold.
    pub other_processes: Option<Printed>,
    /// What is missing to what was tried.
    pub missing: Option<Printed>,
    /// Why the allocation failed.
    pub cause: Option<Cause>,
    /// What an estimate should take over.
    pub known: Known,
    /// What was assumed on the way, and what the text does not say.
    pub notes: Vec<Diagnostic>,
}

/// What is known of a machine, as settings of an estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The card.
    pub device: Option<&'static Device>,
    /// [`Config::capacity`].
    pub capacity: Option<Bytes>,
    /// [`Config::other_processes`].
    pub other_processes: Option<Bytes>,
    /// [`Config::context`].
    pub context: Option<Bytes>,
    /// [`Config::allowed`].
    pub allowed: Option<Bytes>,
    /// [`Config::alloc_conf`].
    pub alloc_conf: Option<String>,
    /// [`Config::pytorch`].
    pub pytorch: Option<PyTorch>,
}

impl Known {
    /// The configuration with what is known in it.
    #[must_use]
    pub fn apply(&self, config: Config) -> Config {
        Config {
            device: self.device.map_or(config.device, |device| device.id.to_owned()),
            capacity: self.capacity.or(config.capacity),
            other_processes: self.other_processes.unwrap_or(config.other_processes),
            context: self.context.or(config.context),
            allowed: self.allowed.or(config.allowed),
            alloc_conf: self.alloc_conf.clone().unwrap_or(config.alloc_conf),
            pytorch: self.pytorch.unwrap_or(config.pytorch),
            ..config
        }
    }

    /// The settings of which something is known, in the order of the table.
    pub fn settings(&self) -> Vec<&'static Setting> {
        let Self { device, capacity, other_processes, context, allowed, alloc_conf, pytorch } =
            self;
        let known = [
            ("device", device.is_some()),
            ("capacity", capacity.is_some()),
            ("other-processes", other_processes.is_some()),
            ("context", context.is_some()),
            ("allowed", allowed.is_some()),
            ("alloc-conf", alloc_conf.is_some()),
            ("pytorch", pytorch.is_some()),
        ];
        SETTINGS.iter().filter(|setting| known.contains(&(setting.name, true))).collect()
    }
}

/// Finds what there is in a file or in what was pasted: of a long log the end is read. Bytes that are
/// no text are left out; there is nothing in a file that is none.
///
/// # Errors
/// When the source cannot be read.
pub fn open(source: &mut dyn Source) -> Result<Observed, Error> {
    let size = source.len();
    // UTF-16 has two bytes for each letter, and its mark at the beginning only.
    let least = usize::try_from(size).map_or(text::TEXT_MAX, |size| size.min(text::TEXT_MAX));
    let wide = usize::try_from(size).map_or(text::TEXT_MAX, |size| size.min(text::TEXT_MAX * 2));
    let mut mark = [0; 2];
    let is_wide = size >= 2 && {
        source.read_at(0, &mut mark)?;
        mark == text::UTF16_MARK
    };
    let length = if is_wide { wide } else { least };
    let mut bytes = vec![0; length];
    let skipped = size.saturating_sub(u64::try_from(length).unwrap_or(size));
    source.read_at(if is_wide { skipped & !1 } else { skipped }, &mut bytes)?;
    let text = if is_wide { text::utf16(&bytes) } else { String::from_utf8_lossy(&bytes).into() };
    if text.contains('\0') {
        return Ok(Observed::default());
    }
    let observed = read(&text);
    Ok(Observed { cut: observed.cut || skipped > 0, ..observed })
}

/// Finds what there is in a text; nothing is refused, and nothing is guessed.
///
/// ```
/// use highwater_core::observed;
/// let text = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 14.76 GiB total \
///             capacity; 9.70 GiB already allocated; 498.75 MiB free; 10.15 GiB reserved in total by \
///             PyTorch)";
/// let message = observed::read(text).message.unwrap_or_default();
/// assert_eq!(message.versions.to_string(), "1.4 to 1.12");
/// ```
pub fn read(text: &str) -> Observed {
    let (text, cut) = text::end(text);
    let mut messages = out_of_memory::read(&text::squeeze(text));
    let message = messages.pop();
    Observed {
        message,
        earlier: messages.len(),
        machine: nvidia_smi::read(text),
        summary: summary::read(text),
        alloc_conf: alloc_conf(text),
        cut,
    }
}

/// The last value that is given to the variable; PyTorch's own advice to set it is none.
fn alloc_conf(text: &str) -> Option<String> {
    const NAMES: [&str; 3] =
        ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"];
    let found = NAMES.iter().flat_map(|name| {
        text.match_indices(name).filter_map(move |(place, name)| {
            let before = text.get(..place)?.trim_end();
            if before.ends_with("setting") || before.ends_with("via") {
                return None;
            }
            let behind = text.get(place..)?.strip_prefix(name)?;
            let value = behind.trim_start_matches(['"', '\'', ']', ' ', ')']);
            let value = value.strip_prefix(['=', ':', ','])?.trim_start_matches([' ', '"', '\'']);
            let ends = |letter: char| letter.is_whitespace() || "\"'`;".contains(letter);
            let value = value.split(ends).next().unwrap_or_default();
            value.contains(':').then(|| (place, value.to_owned()))
        })
    });
    found.max_by_key(|(place, _)| *place).map(|(_, value)| value)
}

impl Observed {
    /// Whether the text held nothing of these.
    pub const fn is_empty(&self) -> bool {
        self.message.is_none() && self.machine.is_none() && self.summary.is_none()
    }

    /// What follows.
    pub fn explain(&self) -> Explanation {
        let mut explanation = Explanation::default();
        if self.cut {
            explanation.note("long-text", "only the last MiB of the text was read");
        }
        if self.earlier > 0 {
            let message = match self.earlier {
                1 => say!("another message comes before this one; the last is explained"),
                count => {
                    say!("{count} messages come before this one; the last is explained", count)
                }
            };
            explanation.note("several-messages", message);
        }
        explanation.known.alloc_conf.clone_from(&self.alloc_conf);
        if let Some(machine) = &self.machine {
            let index = self.message.as_ref().and_then(|message| message.gpu);
            explanation.machine(machine, index);
        }
        if let Some(message) = &self.message {
            explanation.message(message);
        }
        if let Some(summary) = &self.summary {
            explanation.summary(summary);
        }
        explanation
    }
}

impl Explanation {
    fn note(&mut self, code: &str, message: impl Into<Sentence>) {
        self.notes.push(Diagnostic::new(Severity::Info, code, message));
    }

    fn warn(&mut self, code: &str, message: impl Into<Sentence>) {
        self.notes.push(Diagnostic::new(Severity::Warning, code, message));
    }

    /// What `nvidia-smi` says, of the GPU that the message names or else of the emptiest.
    fn machine(&mut self, machine: &Machine, index: Option<u64>) {
        let named = machine.gpus.iter().position(|gpu| Some(gpu.index) == index);
        let free = |gpu: &Gpu| gpu.total.unwrap_or_default() - gpu.used.unwrap_or_default();
        // The first of those that have most.
        let emptiest = machine
            .gpus
            .iter()
            .enumerate()
            .rev()
            .max_by_key(|(_, gpu)| free(gpu))
            .map(|(at, _)| at);
        self.gpu = named.or(emptiest);
        let Some(gpu) = self.gpu.and_then(|at| machine.gpus.get(at)) else {
            self.warn("no-gpu", "nvidia-smi lists no GPU");
            return;
        };
        if machine.gpus.len() > 1 {
            let message = one_of(machine.gpus.len(), gpu, named.is_some());
            self.note("several-gpus", message);
        }
        self.known.device = gpu.device();
        if let Some(device) = self.known.device {
            let suspect = Suspect { device: Some(device), name: device.name, fit: Fit::Newest };
            self.suspects = vec![suspect];
        } else {
            let what = say!(
                "`{name}` is not a known GPU; choose a similar one as the device",
                name = gpu.name
            );
            self.warn("unknown-device", what);
        }
        // PyTorch's total is without what the driver keeps. Error correction may take a part of what
        // the table has.
        let impossible =
            |total: Bytes| self.known.device.is_none_or(|known| total < known.capacity);
        if let Some(total) = gpu.total {
            if let Some(reserved) = gpu.reserved {
                self.known.capacity = Some(total - reserved);
            } else if impossible(total) {
                self.known.capacity = Some(total);
                let what = "the total is the GPU's; the driver keeps some of it from PyTorch";
                self.warn("driver-reserve", what);
            }
        }
        let message = index.is_some();
        if !gpu.instances.is_empty() {
            let largest = gpu.instances.iter().max_by_key(|part| part.total - part.used);
            if let Some(part) = largest {
                self.known.capacity = Some(part.total);
                self.other_processes = Some(Printed::exactly(part.used));
            }
            self.warn(
                "mig",
                "the GPU is divided into instances; the one with most free is taken, and it has \
                 fewer multiprocessors than the whole GPU, whose kernels are assumed",
            );
        } else if !message {
            self.other_processes = Some(Printed::exactly(gpu.taken()));
            if gpu.taken() > Bytes::ZERO {
                let what = "what is in use now is assumed to stay in use by others";
                self.note("in-use", what);
            }
        }
        if self.known.device.is_some() || self.known.capacity.is_some() {
            self.known.other_processes = self.other_processes.map(|others| others.bytes);
        }
    }

    /// What the allocator says of itself.
    fn summary(&mut self, summary: &Summary) {
        let Summary { gpu, allocated: [_, allocated], reserved: [_, reserved], retries, ran_out } =
            *summary;
        let message = say!(
            "the process had at most {allocated} in tensors on GPU {gpu}, and {reserved} from the driver, without the \
             CUDA context",
            allocated,
            gpu,
            reserved
        );
        self.note("memory-summary", message);
        if retries > 0 || ran_out > 0 {
            let message = say!(
                "memory was full: the allocator gave its cache back and tried again {retries} times, and {ran_out} \
                 allocations failed",
                retries,
                ran_out
            );
            self.warn("memory-full", message);
        }
    }

    fn message(&mut self, message: &Message) {
        if message.library == Some(TENSORFLOW) {
            let what = "this is TensorFlow's message; only PyTorch's are explained, and its allocator is another";
            self.warn("not-pytorch", what);
            return;
        }
        if let Some(library) = message.library {
            let what = say!(
                "this is memory that ran out in {library}, and it has no figures; run nvidia-smi \
                 while it trains, or catch PyTorch's own message",
                library
            );
            self.warn("no-figures", what);
            return;
        }
        let is_absurd = message.tried.is_some_and(|tried| tried.bytes >= Bytes(1 << 60));
        if message.capacity.is_none() && message.backend == Backend::Cuda && !is_absurd {
            let what = "the message is cut off after what was tried; paste it whole, up to what is reserved, to \
                        see why";
            self.warn("message-cut", what);
        }
        let process = self.own_process(message);
        self.card(message, process);
        self.outside(message, process);
        let Message { backend, versions, allowed, expandable, .. } = message;
        self.known.allowed = allowed.map(|allowed| allowed.bytes);
        self.known.pytorch = rules(*versions);
        if *expandable && self.known.alloc_conf.is_none() {
            self.known.alloc_conf = Some("expandable_segments:True".to_owned());
        }
        if !matches!(backend, Backend::Cuda | Backend::CudaAsync) {
            let what = say!(
                "the message is about {backend}; estimates follow CUDA's kernels and its allocator",
                backend = backend.name()
            );
            self.warn("not-cuda", what);
        } else if *backend == Backend::CudaAsync {
            let what = "memory is the driver's own pool (backend:cudaMallocAsync), which is not \
                        simulated: segments and fragmentation will differ";
            self.warn("not-native", what);
        }
        if let (Some(tried), Some(free)) = (message.tried, message.free) {
            self.missing = Some(tried.minus(free));
        }
        self.cause = cause::of(message, self.other_processes);
        // Whatever else it is, it would not be so without them.
        if let (Some(missing), Some(others), Some(Cause::Fragmentation | Cause::NearlyFull)) =
            (self.missing, self.other_processes, self.cause)
            && missing.bytes > Bytes::ZERO
            && others.least() >= missing.bytes
            && others.least() >= Cause::OTHERS_MIN
        {
            let what = say!("other processes hold {others}, which is more than is missing", others);
            self.note("others-hold", what);
        }
    }

    /// What this process has in use. Within a container PyTorch does not recognise itself, and lists
    /// itself among the others.
    fn own_process(&mut self, message: &Message) -> Option<Printed> {
        if message.process.is_some() {
            return message.process;
        }
        let reserved = message.reserved?;
        let large =
            message.other_processes.iter().filter(|(_, size)| size.most() >= reserved.least());
        let large: Vec<_> = large.collect();
        let [(pid, size)] = large.as_slice() else { return None };
        self.note(
            "own-process",
            say!(
                "process {pid} is assumed to be the one that failed: it alone has room for what \
                 PyTorch holds (in a container it does not recognise itself)",
                pid
            ),
        );
        Some(*size)
    }

    /// Which card it is.
    fn card(&mut self, message: &Message, process: Option<Printed>) {
        let Some(capacity) = message.capacity else { return };
        self.known.capacity = Some(capacity.bytes);
        if let Some(device) = self.known.device {
            let off = capacity.bytes.0.abs_diff(device.capacity.0);
            if off.saturating_mul(10) > device.capacity.0 {
                let what = say!(
                    "the message's {capacity} are not those of the {device} that nvidia-smi lists",
                    capacity,
                    device = device.name
                );
                self.warn("two-cards", what);
            } else {
                return;
            }
        }
        let amd = |suspect: &Suspect| suspect.name.starts_with("AMD");
        let is_amd = message.backend == Backend::Hip;
        self.suspects = device::suspects(capacity);
        self.suspects.retain(|suspect| amd(suspect) == is_amd);
        if let (Some(process), Some(reserved)) = (process, message.reserved) {
            // Of cards that fit alike, the one whose context is nearest to what was measured.
            let context = process.minus(reserved).bytes.0;
            let off = |suspect: &Suspect| {
                suspect.device.map_or(u64::MAX, |device| device.context().0.abs_diff(context))
            };
            self.suspects.order_by_key(|suspect| (suspect.device.is_none(), off(suspect)));
        }
        self.known.device = self.suspects.first().and_then(|suspect| suspect.device);
        let names: Vec<&str> = self.suspects.iter().map(|suspect| suspect.name).collect();
        match (names.as_slice(), self.known.device) {
            ([], _) => {
                let what = say!(
                    "no known GPU reports {capacity}; choose one with similar kernels as the device",
                    capacity
                );
                self.warn("unknown-device", what);
            }
            (names, None) => {
                let what = say!(
                    "{capacity} are those of {names}, which is not among the GPUs that are estimated; \
                     choose similar kernels as the device",
                    capacity,
                    names = names.join(" / ")
                );
                self.warn("unknown-device", what);
            }
            ([_], Some(_)) => {}
            (names, Some(device)) => {
                let what = say!(
                    "{capacity} may be {names}; {device} is assumed",
                    capacity,
                    names = names.join(", "),
                    device = device.name
                );
                self.warn("several-cards", what);
            }
        }
    }

    /// What the allocator does not hold: the context, and other processes.
    fn outside(&mut self, message: &Message, process: Option<Printed>) {
        let reserved = message.reserved;
        let listed = message.other_processes.iter().map(|(_, size)| *size);
        let listed = listed.reduce(Printed::plus).unwrap_or_default();
        if let (Some(process), Some(reserved)) = (process, reserved) {
            let context = process.minus(reserved);
            self.context = Some(context);
            self.known.context = Some(context.bytes);
            let own = if message.process.is_none() { process } else { Printed::default() };
            let rest = match (message.capacity, message.free) {
                (Some(capacity), Some(free)) => capacity.minus(free).minus(process),
                _ => listed.minus(own),
            };
            // Less than what rounding hides is nothing.
            let others = if rest.least() > Bytes::ZERO { rest } else { Printed::default() };
            self.other_processes = Some(others);
            self.known.other_processes = Some(others.bytes);
        } else if let (Some(capacity), Some(free), Some(reserved)) =
            (message.capacity, message.free, reserved)
        {
            let outside = capacity.minus(free).minus(reserved);
            // The fitted contexts are those of libraries that load their kernels one by one.
            let is_lazy = message.versions.from >= Some((1, 13));
            let usual = if is_lazy { self.known.device.map(Device::context) } else { Some(EAGER) };
            let context = usual.filter(|context| *context < outside.bytes);
            if let Some(context) = context {
                let others = outside.minus(Printed::exactly(context));
                self.other_processes = Some(others);
                self.known.other_processes = Some(others.bytes);
                let what = say!(
                    "the message does not tell this process from others: of {outside} outside of \
                     PyTorch's allocator, {context} are assumed to be the context, {others} other \
                     processes or libraries such as NCCL",
                    outside,
                    context,
                    others
                );
                self.note("context-assumed", what);
            } else {
                self.known.context = Some(outside.bytes);
                let what = say!(
                    "the message does not tell this process from others: {outside} outside of \
                     PyTorch's allocator are assumed to be its context",
                    outside
                );
                self.note("context-assumed", what);
            }
        }
    }
}

/// Which of several GPUs it is about, and why.
fn one_of(count: usize, gpu: &Gpu, is_named: bool) -> Sentence {
    let why = if is_named { say!("the message names it") } else { say!("it has most free") };
    say!(
        "there are {count} GPUs; this is about GPU {index}, because {why} (CUDA_VISIBLE_DEVICES may number them \
         otherwise)",
        count,
        index = gpu.index,
        why
    )
}

/// The newest version that it may be, if the rules of cuBLAS's workspaces are the same in all.
fn rules(versions: Versions) -> Option<PyTorch> {
    let release = |(major, minor)| PyTorch::new(major, minor);
    let oldest = release(versions.from.unwrap_or_default());
    let newest = versions.until.map_or(PyTorch::LATEST, release);
    let rules = |of: PyTorch| (of.keeps_cublas_workspaces(), of.shares_cublas_workspaces());
    (rules(oldest) == rules(newest)).then_some(newest)
}
