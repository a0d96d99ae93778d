//! One execution: its time, its memory, its panic.

use std::fmt;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::MEMORY;
use crate::targets::{Outcome, Target};

/// SIZE: what an execution may take in addition to [`RATIO`] times what was read.
pub const FREE: u64 = 64 << 20;
/// Memory that an execution may take for each byte that was read.
pub const RATIO: u64 = 4;
/// SIZE: memory that an execution may take for each operator that a repetition was written out to: a file of
/// a hundred bytes may state a thousand layers, each a hundred allocations.
pub const OPERATOR: u64 = 16 << 10;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A panic: where, and its message.
    Panic(String),
    /// It took too long.
    Slow(Duration),
    /// It took too much memory, in bytes.
    Memory(u64),
    /// The second execution had another answer.
    Differs,
}

impl Fault {
    /// What tells faults of one kind apart: where it panicked.
    pub fn key(&self) -> String {
        match self {
            Self::Panic(message) => {
                message.split(": ").next().unwrap_or_default().replace(['/', ':'], "-")
            }
            Self::Slow(_) => "slow".to_owned(),
            Self::Memory(_) => "memory".to_owned(),
            Self::Differs => "differs".to_owned(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(message) => write!(f, "panics at {message}"),
            Self::Slow(time) => write!(f, "takes {:.1} s", time.as_secs_f64()),
            Self::Memory(bytes) => write!(f, "takes {} MiB", bytes >> 20),
            Self::Differs => write!(f, "has another answer when it is run again"),
        }
    }
}

/// One execution.
#[derive(Clone, Debug)]
pub struct Execution {
    /// How it ended; nothing where it panicked.
    pub outcome: Option<Outcome>,
    /// How long it took.
    pub time: Duration,
    /// SIZE: the most memory that it had at once.
    pub peak: u64,
    /// What went wrong, if anything.
    pub fault: Option<Fault>,
}

static PANIC: Mutex<String> = Mutex::new(String::new());
static HOOK: Once = Once::new();

/// Panics are noted instead of printed.
fn catch_panics() {
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let message = info.payload_as_str().unwrap_or_default();
            *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = format!("{place}: {message}");
        }));
    });
}

fn execute(target: &Target, input: &[u8]) -> Execution {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let start = Instant::now();
    let result = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let time = start.elapsed();
    let peak = u64::try_from(MEMORY.peak_usage().saturating_sub(before)).unwrap_or(u64::MAX);
    let message = || PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match result {
        Ok(outcome) => Execution { outcome: Some(outcome), time, peak, fault: None },
        Err(_) => Execution { outcome: None, time, peak, fault: Some(Fault::Panic(message())) },
    }
}

/// Processor time of this thread so far; `None` where the system does not have it in a file.
fn processor_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Runs a target on an input, and compares what it took with the bounds.
pub fn check(target: &Target, input: &[u8], limit: Duration) -> Execution {
    catch_panics();
    let mut execution = execute(target, input);
    if execution.time > limit {
        // Other programs may have had the processor.
        let before = processor_time();
        let again = execute(target, input);
        let spent =
            processor_time().zip(before).map(|(after, before)| after.saturating_sub(before));
        execution.time = execution.time.min(again.time).min(spent.unwrap_or(again.time));
    }
    let read = execution.outcome.as_ref().map_or(0, |outcome| outcome.read);
    let operators = execution.outcome.as_ref().map_or(0, |outcome| outcome.operators);
    let read = read.max(u64::try_from(input.len()).unwrap_or(0));
    let allowed = read.saturating_mul(RATIO) + operators.saturating_mul(OPERATOR) + FREE;
    if execution.fault.is_none() {
        execution.fault = if execution.time > limit {
            Some(Fault::Slow(execution.time))
        } else if execution.peak > allowed {
            Some(Fault::Memory(execution.peak))
        } else {
            None
        };
    }
    execution
}

/// As [`check`], and compares the answer with that of another execution.
pub fn check_twice(target: &Target, input: &[u8], limit: Duration) -> Execution {
    let first = check(target, input, limit);
    if first.fault.is_some() {
        return first;
    }
    let second = execute(target, input);
    let differs = second.outcome != first.outcome;
    Execution { fault: differs.then_some(Fault::Differs), ..first }
}
