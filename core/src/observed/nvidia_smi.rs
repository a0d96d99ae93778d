//! Reads the output of `nvidia-smi`: its table in the layouts of all drivers since 384, `-q`, and `--query-gpu=…
//! --format=csv`.

use super::text::without_colours;
use crate::bytes::{Bytes, Printed};
use crate::device::{self, Device};

/// What one or more outputs say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Version of the driver.
    pub driver: Option<String>,
    /// Newest version of CUDA that the driver has.
    pub cuda: Option<String>,
    /// The GPUs, in order.
    pub gpus: Vec<Gpu>,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Its number.
    pub index: u64,
    /// What the driver calls it; the table cuts long names short.
    pub name: String,
    /// SIZE: all memory, what the driver keeps included.
    pub total: Option<Bytes>,
    /// SIZE: what is in use.
    pub used: Option<Bytes>,
    /// SIZE: what the driver keeps, where it says so.
    pub reserved: Option<Bytes>,
    /// Whether errors are corrected, where it says so.
    pub ecc: Option<bool>,
    /// Its processes.
    pub processes: Vec<Process>,
    /// Instances that it is divided into.
    pub instances: Vec<Instance>,
}

/// One process and its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// Its program.
    pub name: String,
    /// SIZE: what it has in use, where that is known.
    pub bytes: Option<Bytes>,
}

/// A part of a GPU (MIG).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Number of the GPU instance.
    pub id: u64,
    /// SIZE: its memory.
    pub total: Bytes,
    /// SIZE: what is in use.
    pub used: Bytes,
}

impl Gpu {
    /// The card that it is, if its name and its memory tell.
    pub fn device(&self) -> Option<&'static Device> {
        device::named_as(&self.name, self.total.unwrap_or_default())
    }

    /// SIZE: what is in use, also by processes that are not listed (in a container none are).
    pub fn taken(&self) -> Bytes {
        let listed: Bytes = self.processes.iter().filter_map(|process| process.bytes).sum();
        listed.max(self.used.unwrap_or_default())
    }
}

/// COUNT: GPUs and processes that are kept.
const LIST_MAX: usize = 4096;

/// What `nvidia-smi` said in a text, if it did.
pub(super) fn read(text: &str) -> Option<Machine> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(&without_colours(line));
    }
    let machine = reader.machine;
    (!machine.gpus.is_empty() || machine.driver.is_some()).then_some(machine)
}

/// Which part of an output a line belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Gpus,
    Instances,
    Processes,
    /// Of `-q`, below a heading such as `FB Memory Usage`.
    Memory,
    Ecc,
}

#[derive(Default)]
struct Reader {
    machine: Machine,
    part: Part,
    /// Columns of CSV, where a head was read.
    columns: Vec<String>,
    /// Whether lines are those of `-q`.
    query: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed.contains("Driver Version") && trimmed.contains("NVIDIA-SMI") {
            self.driver(trimmed);
        } else if trimmed.starts_with('|') {
            self.row(trimmed);
        } else if let Some((key, value)) = trimmed.split_once(" : ") {
            self.pair(key.trim(), value.trim());
        } else if is_head(trimmed) {
            self.columns = trimmed.split(',').map(column).collect();
        } else if !self.columns.is_empty() && trimmed.split(',').count() == self.columns.len() {
            self.values(trimmed);
        } else {
            self.columns.clear();
            self.heading(trimmed);
        }
    }

    fn gpu(&mut self) -> Option<&mut Gpu> {
        self.machine.gpus.last_mut()
    }

    fn add(&mut self, gpu: Gpu) {
        if self.machine.gpus.len() < LIST_MAX {
            self.machine.gpus.push(gpu);
        }
    }

    /// `| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |`: what stood above
    /// is an earlier output.
    fn driver(&mut self, line: &str) {
        let behind = |marker: &str| {
            let (_, rest) = line.split_once(marker)?;
            rest.split_whitespace().next().filter(|word| word.contains('.')).map(str::to_owned)
        };
        self.machine = Machine {
            driver: behind("Driver Version:"),
            cuda: behind("CUDA Version:"),
            gpus: Vec::new(),
        };
        self.part = Part::Gpus;
    }

    /// A row of the table.
    fn row(&mut self, line: &str) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let first = cells.first().copied().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().collect();
        if first.starts_with("Processes") {
            self.part = Part::Processes;
        } else if first.starts_with("MIG devices") {
            self.part = Part::Instances;
        } else if self.part == Part::Processes {
            self.process(&words);
        } else if let Some((used, total)) = cells.iter().find_map(|cell| usage(cell)) {
            match (self.part, words.as_slice()) {
                (Part::Instances, [gpu, id, ..]) => {
                    // The second line of an instance is about another kind of memory.
                    if let (Ok(gpu), Ok(id)) = (gpu.parse::<u64>(), id.parse()) {
                        let of = self.machine.gpus.iter_mut().find(|known| known.index == gpu);
                        let instance = Instance { id, total, used };
                        if let Some(of) = of.filter(|of| of.instances.len() < LIST_MAX) {
                            of.instances.push(instance);
                        }
                    }
                }
                (Part::Gpus, _) => {
                    if let Some(gpu) = self.gpu().filter(|gpu| gpu.total.is_none()) {
                        (gpu.used, gpu.total) = (Some(used), Some(total));
                    }
                }
                _ => {}
            }
        } else if let (Part::Gpus, [index, name @ ..], [_, bus, rest @ ..]) =
            (self.part, words.as_slice(), cells.as_slice())
            && let (Ok(index), true) = (index.parse(), bus.contains(':'))
        {
            // The persistence mode has a column of its own in the head only.
            let name =
                name.strip_suffix(&["On"]).or_else(|| name.strip_suffix(&["Off"])).unwrap_or(name);
            let ecc = rest.first().and_then(|cell| cell.split_whitespace().last());
            self.add(Gpu {
                index,
                name: name.join(" "),
                ecc: ecc.and_then(|ecc| match ecc {
                    "Off" => Some(false),
                    count => count.parse::<u64>().ok().map(|_| true),
                }),
                ..Gpu::default()
            });
        }
    }

    /// `0  N/A  N/A  1234  C  python  1035MiB`; older drivers have no instances.
    fn process(&mut self, words: &[&str]) {
        let [index, rest @ ..] = words else { return };
        let rest = match rest {
            ["N/A", "N/A", rest @ ..] => rest,
            [instance, compute, pid, rest @ ..]
                if [instance, compute, pid].iter().all(|word| word.parse::<u64>().is_ok()) =>
            {
                // The instance's numbers, then the process's.
                return self.add_process(index, pid, rest);
            }
            rest => rest,
        };
        if let [pid, rest @ ..] = rest {
            self.add_process(index, pid, rest);
        }
    }

    fn add_process(&mut self, index: &str, pid: &str, rest: &[&str]) {
        let (Ok(index), Ok(pid)) = (index.parse::<u64>(), pid.parse()) else { return };
        let bytes = rest.last().and_then(|size| mib(size));
        let name = match rest {
            [_, name @ .., _] => name.join(" "),
            _ => String::new(),
        };
        let of = self.machine.gpus.iter_mut().find(|gpu| gpu.index == index);
        if let Some(of) = of.filter(|of| of.processes.len() < LIST_MAX) {
            of.processes.push(Process { pid, name, bytes });
        }
    }

    /// A line without a value: of `-q`, a GPU's or a group's name.
    fn heading(&mut self, line: &str) {
        let bus = line.strip_prefix("GPU ").filter(|bus| bus.contains(':'));
        if bus.is_some() && self.query {
            let index = u64::try_from(self.machine.gpus.len()).unwrap_or(u64::MAX);
            self.add(Gpu { index, ..Gpu::default() });
            self.part = Part::Gpus;
        } else if self.query && !line.is_empty() {
            self.part = match line {
                "FB Memory Usage" => Part::Memory,
                "ECC Mode" | "Ecc Mode" => Part::Ecc,
                "Processes" => Part::Processes,
                _ => Part::Gpus,
            };
        }
    }

    /// A line of `-q`.
    fn pair(&mut self, key: &str, value: &str) {
        self.query |= matches!(key, "Driver Version" | "Attached GPUs" | "Product Name");
        match key {
            "Driver Version" => self.machine.driver = Some(value.to_owned()),
            "CUDA Version" => self.machine.cuda = Some(value.to_owned()),
            _ => {}
        }
        if !self.query {
            return;
        }
        let part = self.part;
        if key == "Product Name" && self.gpu().is_none_or(|gpu| !gpu.name.is_empty()) {
            // An excerpt, without the line that names the GPU.
            let index = u64::try_from(self.machine.gpus.len()).unwrap_or(u64::MAX);
            self.add(Gpu { index, ..Gpu::default() });
        }
        let Some(gpu) = self.gpu() else { return };
        match (part, key) {
            (_, "Product Name") => value.clone_into(&mut gpu.name),
            (Part::Memory, "Total") => gpu.total = mib(value),
            (Part::Memory, "Used") => gpu.used = mib(value),
            (Part::Memory, "Reserved") => gpu.reserved = mib(value),
            (Part::Ecc, "Current") => gpu.ecc = Some(value == "Enabled"),
            (Part::Processes, "Process ID") if gpu.processes.len() < LIST_MAX => {
                let pid = value.parse().unwrap_or(0);
                gpu.processes.push(Process { pid, ..Process::default() });
            }
            (Part::Processes, "Name") => {
                if let Some(process) = gpu.processes.last_mut() {
                    value.clone_into(&mut process.name);
                }
            }
            (Part::Processes, "Used GPU Memory") => {
                if let Some(process) = gpu.processes.last_mut() {
                    process.bytes = mib(value);
                }
            }
            _ => {}
        }
    }

    /// A line of CSV.
    fn values(&mut self, line: &str) {
        let columns = std::mem::take(&mut self.columns);
        let cell = |name: &str| {
            let place = columns.iter().position(|column| column == name)?;
            line.split(',').nth(place).map(str::trim)
        };
        let size = |name: &str| cell(name).and_then(mib);
        if let Some(pid) = cell("pid").and_then(|pid| pid.parse().ok()) {
            let name = cell("process_name").or_else(|| cell("name")).unwrap_or_default().to_owned();
            let bytes = size("used_memory").or_else(|| size("used_gpu_memory"));
            // Which GPU it is on follows from numbers that no other line has.
            if let [gpu] = self.machine.gpus.as_mut_slice()
                && gpu.processes.len() < LIST_MAX
            {
                gpu.processes.push(Process { pid, name, bytes });
            }
        } else {
            if let Some(driver) = cell("driver_version") {
                self.machine.driver = Some(driver.to_owned());
            }
            let next = u64::try_from(self.machine.gpus.len()).unwrap_or(u64::MAX);
            let total = size("memory.total");
            let used = size("memory.used").or_else(|| Some(total? - size("memory.free")?));
            self.add(Gpu {
                index: cell("index").and_then(|index| index.parse().ok()).unwrap_or(next),
                name: cell("name").or_else(|| cell("gpu_name")).unwrap_or_default().to_owned(),
                total,
                used,
                reserved: size("memory.reserved"),
                ecc: cell("ecc.mode.current").map(|mode| mode == "Enabled"),
                ..Gpu::default()
            });
        }
        self.columns = columns;
    }
}

/// Whether a line is the head of CSV that `nvidia-smi` prints.
fn is_head(line: &str) -> bool {
    let names: Vec<String> = line.split(',').map(column).collect();
    let memory = names.iter().any(|name| name.starts_with("memory.") || name.starts_with("used_"));
    let who =
        names.iter().any(|name| matches!(name.as_str(), "name" | "gpu_name" | "index" | "pid"));
    names.len() > 1 && memory && who
}

/// The name of a column, without its unit.
fn column(head: &str) -> String {
    head.split('[').next().unwrap_or_default().trim().to_owned()
}

/// `1035MiB`, `81920 MiB`, or the number alone.
fn mib(text: &str) -> Option<Bytes> {
    let number = text.trim().trim_end_matches("MiB").trim_end();
    number.parse().ok().map(Bytes::mib).or_else(|| Some(Printed::read(text)?.bytes))
}

/// `12MiB / 9856MiB`
fn usage(cell: &str) -> Option<(Bytes, Bytes)> {
    let (used, total) = cell.split_once('/')?;
    let size = |text: &str| text.trim().strip_suffix("MiB").and_then(mib);
    Some((size(used)?, size(total.split_whitespace().next()?)?))
}
