//! The allocator against PyTorch's own, call by call, under every setting: `fixtures/allocator`.
//!
//! Built with `HIGHWATER_EXPLAIN="power2_8 17"`, it prints the state after every call of a program, in the lines
//! that `tests/oracle/oracle allocator explain power2_8 17` prints of PyTorch.
#![expect(clippy::print_stderr, reason = "explains a difference")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::read::GzDecoder;
use highwater_core::Bytes;
use highwater_core::allocator::{
    Allocator, BlockId, Conf, Count, DeviceMemory, Pool, PoolStatistics, Settings, Stat, Stream,
};

/// COUNT: streams that programs take by turns.
const STREAMS: u32 = 3;

/// Training runs that were recorded under the default settings, under every other one.
#[test]
fn training_runs_lie_as_in_pytorch_under_every_setting() {
    let truths = truths();
    let text = std::fs::read_to_string(folder().join("training.txt")).expect("it is there");
    let mut counts = [0, 0];
    let mut differences = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, run, capacity, expected] = words[..] else { panic!("cannot read `{line}`") };
        let truth = truths.iter().find(|truth| truth.name == name).expect("a setting");
        let capacity = Bytes(capacity.parse().expect("a size"));
        let settings = Truth { capacity, programs: Vec::new(), ..truth.clone() }.settings();
        let mut device = Device::new(&settings, capacity, capacity);
        let mut crc = Crc::new();
        let calls = events(run);
        for call in &calls {
            device.line.clear();
            match call.split_once(' ').unwrap_or((call, "")) {
                ("a", rest) => {
                    let size = rest.split(' ').next().expect("a size").parse().expect("a size");
                    let id = device.allocator.malloc(Bytes(size)).unwrap_or(BlockId::NULL);
                    device.live.push(id);
                    let address = device.allocator.block(id).map(|block| block.address.0);
                    let said =
                        address.map_or_else(|| "no".to_owned(), |address| address.to_string());
                    device.line = said + " ";
                }
                ("f", rest) => {
                    let at: usize = rest.parse().expect("an index");
                    device.allocator.free(device.live[at]);
                }
                ("i", _) => device.describe(),
                _ => {}
            }
            crc.update(device.line.as_bytes());
        }
        device.line.clear();
        device.describe();
        crc.update(device.line.as_bytes());
        counts = [counts[0] + 1, counts[1] + calls.len()];
        if format!("{:08x}", crc.sum()) != expected {
            differences.push(format!("{name} {run}"));
        }
    }
    assert_eq!(differences, [""; 0]);
    assert_eq!(counts, [128, 275_808], "no run may be lost");
}

/// The lines of one of `fixtures/traces/training`.
fn events(run: &str) -> Vec<String> {
    let file = folder().join(format!("../traces/training/{run}.txt.gz"));
    let text = unpack(&file);
    text.lines().map(str::to_owned).collect()
}

fn unpack(path: &Path) -> String {
    let mut text = String::new();
    let file = File::open(path).expect("readable");
    GzDecoder::new(file).read_to_string(&mut text).expect("gzip of text");
    text
}

#[test]
fn settings_are_refused_where_pytorch_refuses_them() {
    let path = folder().join("settings.txt");
    let text = std::fs::read_to_string(path).expect("it is in the repository");
    let mut counts = [0, 0];
    for line in text.lines() {
        let (sign, said) = line.split_at(1);
        let conf = said.split(" | ").next().unwrap_or_default().trim_start();
        assert_eq!(Conf::read(conf).is_ok(), sign == "+", "{line}");
        counts[usize::from(sign == "+")] += 1;
    }
    assert_eq!(counts, [53, 49], "no text may be lost");
}

/// A setting, and programs that PyTorch ran under it.
#[derive(Clone)]
struct Truth {
    name: String,
    conf: String,
    /// Of the device, given to `set_per_process_memory_fraction`.
    fraction: Option<f64>,
    capacity: Bytes,
    programs: Vec<Program>,
}

#[derive(Clone)]
struct Program {
    room: Bytes,
    sizes: Vec<Bytes>,
    calls: String,
    /// The last byte of the checksum after each call, in hexadecimal; a blank; the last checksum.
    sums: String,
}

#[test]
fn every_call_ends_as_in_pytorch() {
    let truths = truths();
    let explained = option_env!("HIGHWATER_EXPLAIN").unwrap_or_default();
    let (mut programs, mut calls, mut retried, mut failed) = (0, 0, 0, 0);
    let mut differences = Vec::new();
    for truth in &truths {
        let settings = truth.settings();
        for (number, program) in truth.programs.iter().enumerate() {
            let name = format!("{} {number}", truth.name);
            let mut device = Device::new(&settings, truth.capacity, program.room);
            let difference = device.run(program, name == explained);
            differences.extend(difference.map(|call| format!("{name}: call {call}")));
            let statistics = device.allocator.statistics();
            programs += 1;
            calls += program.calls.len();
            retried += usize::from(statistics.num_alloc_retries > 0);
            failed += usize::from(statistics.num_ooms > 0);
        }
    }
    let first = differences.get(..differences.len().min(12));
    assert!(differences.is_empty(), "{} differ: {first:?}", differences.len());
    let counts = (truths.len(), programs, calls, retried, failed);
    assert_eq!(counts, (37, 2072, 134_044, 965, 939), "no program may be lost");
}

impl Truth {
    fn settings(&self) -> Settings {
        let conf = Conf::read(&self.conf).expect("PyTorch accepts it");
        assert_eq!(conf.not_modelled, [""; 0]);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "as PyTorch"
        )]
        let share = |fraction| Bytes((fraction * self.capacity.0 as f64) as u64);
        let allowed = self.fraction.map(share);
        conf.on(Some(self.capacity), allowed)
    }
}

/// The allocator on a device that other memory fills up, and what was got from it.
struct Device {
    allocator: Allocator,
    memory: DeviceMemory,
    live: Vec<BlockId>,
    /// On which is allocated.
    stream: Stream,
    /// The state after a call, in words.
    line: String,
}

impl Device {
    fn new(settings: &Settings, capacity: Bytes, room: Bytes) -> Self {
        let memory = DeviceMemory {
            index: 0,
            capacity,
            context: capacity.saturating_sub(room),
            other_processes: Bytes::ZERO,
            allowed: settings.allowed,
        };
        let allocator = Allocator::new(*settings, Some(room));
        let (live, stream, line) = (Vec::new(), Stream::DEFAULT, String::new());
        Self { allocator, memory, live, stream, line }
    }

    /// The first call after which something is not as it was in PyTorch.
    fn run(&mut self, program: &Program, explain: bool) -> Option<usize> {
        let mut crc = Crc::new();
        let mut first = None;
        for (at, letter) in program.calls.chars().enumerate() {
            self.line.clear();
            self.call(letter, &program.sizes);
            self.describe();
            crc.update(self.line.as_bytes());
            if explain {
                eprint!("{at} {letter} {}", self.line);
            }
            let last = format!("{:02x}", crc.sum() & 255);
            if program.sums.get(2 * at..2 * at + 2) != Some(&last) {
                first = first.or(Some(at));
                if !explain {
                    return first;
                }
            }
        }
        let whole = program.sums.split(' ').next_back() == Some(&format!("{:08x}", crc.sum()));
        first.or_else(|| (!whole).then_some(program.calls.len()))
    }

    fn call(&mut self, letter: char, sizes: &[Bytes]) {
        let place = |from: char| letter as usize - from as usize;
        match letter {
            'A'..='Z' => match self.allocator.malloc_on(self.stream, sizes[place('A')]) {
                Ok(id) => {
                    let address = self.address(id);
                    self.live.push(id);
                    write!(self.line, "{}", address.0).unwrap();
                }
                Err(error) => self.line += &without_process(&error.message(&self.memory)),
            },
            'a'..='z' => {
                let at = self.live.len() - 1 - place('a');
                self.allocator.free(self.live.remove(at));
            }
            '0'..='9' => self.allocator.free(self.live.remove(place('0'))),
            '!' => self.allocator.empty_cache(),
            '>' => self.stream = Stream((self.stream.0 + 1) % STREAMS),
            '^' => self.allocator.reset_peaks(),
            _ => panic!("no call `{letter}`"),
        }
        if !letter.is_ascii_uppercase() {
            self.line.push(letter);
        }
    }

    fn address(&self, id: BlockId) -> Bytes {
        self.allocator.block(id).expect("it was allocated").address
    }

    fn describe(&mut self) {
        let line = &mut self.line;
        line.push('|');
        for (at, segment) in self.allocator.segments().enumerate() {
            let pool = if segment.pool() == Pool::Small { "s" } else { "l" };
            let blank = if at > 0 { " " } else { "" };
            write!(line, "{blank}{pool}{}:{}", segment.address().0, segment.size().0).unwrap();
            for block in segment.blocks() {
                if block.allocated {
                    write!(line, " {}/{}", block.size.0, block.requested.0).unwrap();
                } else {
                    write!(line, " -{}", block.size.0).unwrap();
                }
            }
        }
        line.push('|');
        let statistics = self.allocator.statistics();
        for pool in [statistics.all, statistics.small, statistics.large] {
            let PoolStatistics {
                allocations,
                segments,
                inactive_splits,
                requested,
                allocated,
                reserved,
                inactive_split,
            } = pool;
            for count in [allocations, segments, allocations, inactive_splits] {
                write_count(line, count);
            }
            for Stat { current, peak } in
                [allocated, reserved, allocated, inactive_split, requested]
            {
                write_count(line, Count { current: current.0, peak: peak.0 });
            }
        }
        write_count(line, statistics.oversize_allocations);
        write_count(line, statistics.oversize_segments);
        let (retries, ooms) = (statistics.num_alloc_retries, statistics.num_ooms);
        let (given, taken) = (statistics.num_device_alloc, statistics.num_device_free);
        let rejections = statistics.num_oom_rejections;
        writeln!(line, "{retries} {ooms} {rejections} {given} {taken}").unwrap();
    }
}

fn write_count(line: &mut String, count: Count) {
    write!(line, "{},{} ", count.current, count.peak).unwrap();
}

/// The driver that PyTorch asked knew no processes.
fn without_process(message: &str) -> String {
    let Some((before, rest)) = message.split_once("Including") else { return message.to_owned() };
    let (_, behind) = rest.split_once("memory in use. ").expect("its end");
    format!("{before}{behind}")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/allocator")
}

fn truths() -> Vec<Truth> {
    let entries = folder().read_dir().expect("the folder is in the repository");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.to_string_lossy().ends_with(".gz")).collect();
    paths.sort();
    paths.iter().map(|path| truth(path)).collect()
}

fn truth(path: &Path) -> Truth {
    let text = unpack(path);
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(' ').collect();
    let [conf, fraction, capacity] = head[..] else { panic!("cannot read `{head:?}`") };
    let lines: Vec<&str> = lines.collect();
    let program = |lines: &[&str]| {
        let mut sizes = lines[0].split(' ').map(|size| Bytes(size.parse().expect("a size")));
        Program {
            room: sizes.next().expect("the room"),
            sizes: sizes.collect(),
            calls: lines[1].to_owned(),
            sums: lines[2].to_owned(),
        }
    };
    let name = path.file_name().expect("a name").to_string_lossy();
    Truth {
        name: name.trim_end_matches(".txt.gz").to_owned(),
        conf: if conf == "-" { "" } else { conf }.to_owned(),
        fraction: fraction.parse().ok(),
        capacity: Bytes(capacity.parse().expect("a size")),
        programs: lines.chunks(3).map(program).collect(),
    }
}
