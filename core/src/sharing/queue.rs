//! A queue of jobs in front of some GPUs: who goes where, when, and who runs out of memory.
//!
//! Jobs wait in the order of submission. Whenever a job comes or ends, each that waits gets a GPU if the [`Policy`]
//! finds one; a job that finds none lets later ones pass. A job keeps its memory until it ends, as PyTorch's allocator
//! does. So the one that comes last runs out of memory where not enough is left: it is then put at the end of the queue,
//! and gets a GPU of its own. Nothing is random, so that the same jobs always end the same way.

use crate::order::InOrder as _;
use std::collections::BTreeSet;

use super::policy::{Policy, Prefers};
use crate::bytes::Bytes;
use crate::time::Share;

/// A GPU that jobs are placed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its kind: the place among [`Job::on`].
    pub kind: usize,
    /// SIZE: what processes may use, their contexts included.
    pub memory: Bytes,
}

/// A job in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// When it is submitted, in milliseconds.
    pub submitted: u64,
    /// What it does on each kind of GPU; `None` where it cannot run.
    pub on: Vec<Option<On>>,
}

impl Job {
    fn on(&self, kind: usize) -> Option<On> {
        self.on.get(kind).copied().flatten()
    }
}

/// A job on one kind of GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct On {
    /// How long it runs alone, in milliseconds.
    pub duration: u64,
    /// SIZE: what the scheduler counts with; `None` where it has no figure: such a job gets a GPU of its own.
    pub believed: Option<Bytes>,
    /// SIZE: what its process needs.
    pub real: Bytes,
    /// How busy it keeps the multiprocessors.
    pub active: Share,
}

/// Why a job got its GPU, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is the only one there.
    Alone,
    /// Others are there, and this much was left by their figures.
    Shares {
        /// SIZE: left before it came.
        left: Bytes,
    },
    /// No GPU has this much memory.
    TooLarge,
}

/// A job that was placed, or never can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The job, by its place in the list.
    pub job: usize,
    /// The GPU, by its place; `None` where none is large enough.
    pub card: Option<usize>,
    /// When, in milliseconds.
    pub at: u64,
    /// Why there.
    pub why: Reason,
    /// Jobs that were there before, by their places.
    pub with: Vec<usize>,
    /// Whether it ran out of memory there.
    pub failed: bool,
}

/// How one job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// When it began the run that survived, and when that ended, in milliseconds; `None` where it never ran.
    pub ran: Option<(u64, u64)>,
    /// COUNT: times it ran out of memory.
    pub failures: u32,
}

/// How all ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// In the order of time.
    pub placed: Vec<Placed>,
    /// By the place of the job.
    pub ended: Vec<Ended>,
    /// Sum over GPUs of the time in which they had a job, in milliseconds.
    pub busy: u64,
    /// COUNT: GPUs that ever had a job.
    pub used: usize,
}

/// How much slower jobs run on a kind of GPU: for those with these places in the list, per mille of their time alone.
pub type Slowdown<'a> = dyn FnMut(usize, &[usize]) -> Vec<u64> + 'a;

/// MILLISECONDS: how long a job runs before it runs out of memory: its start, and the first steps. A minute, in which
/// CUDA, data and the model are loaded.
const FAILS_AFTER: u64 = 60_000;
/// Parts of a millisecond of work, so that slow progress is not rounded away.
const PARTS: u64 = 1_000_000;

/// A job on a GPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    job: usize,
    /// Work that is left: milliseconds alone, in [`PARTS`].
    left: u64,
    /// Parts of work in a millisecond.
    speed: u64,
    began: u64,
    fails: bool,
    is_exclusive: bool,
}

/// A GPU and those on it.
#[derive(Clone, Debug)]
struct Host {
    card: Card,
    jobs: Vec<Running>,
    used: bool,
}

/// The queue at a moment.
struct Queue<'a, 'b> {
    jobs: &'a [Job],
    policy: Policy,
    slowdown: &'a mut Slowdown<'b>,
    hosts: Vec<Host>,
    /// Jobs that wait; whether each wants a GPU of its own.
    waiting: Vec<(usize, bool)>,
    now: u64,
    outcome: Outcome,
}

/// Runs all jobs on some GPUs.
pub fn run(cards: &[Card], jobs: &[Job], policy: Policy, slowdown: &mut Slowdown<'_>) -> Outcome {
    let host = |card: &Card| Host { card: *card, jobs: Vec::new(), used: false };
    let mut queue = Queue {
        jobs,
        policy,
        slowdown,
        hosts: cards.iter().map(host).collect(),
        waiting: Vec::new(),
        now: 0,
        outcome: Outcome { ended: vec![Ended::default(); jobs.len()], ..Outcome::default() },
    };
    let mut arrivals: Vec<usize> = (0..jobs.len()).collect();
    arrivals.order_by_key(|at| (jobs.get(*at).map(|job| job.submitted), *at));
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let arrives = arrivals.peek().and_then(|at| jobs.get(*at)).map(|job| job.submitted);
        let Some(next) = queue.ends().into_iter().chain(arrives).min() else { break };
        queue.pass(next);
        while let Some(job) =
            arrivals.next_if(|at| jobs.get(*at).is_some_and(|job| job.submitted <= next))
        {
            queue.waiting.push((job, !policy.shares));
        }
        queue.place();
    }
    queue.outcome.used = queue.hosts.iter().filter(|host| host.used).count();
    queue.outcome
}

impl Queue<'_, '_> {
    /// When the next job ends or fails.
    fn ends(&self) -> Option<u64> {
        let running = self.hosts.iter().flat_map(|host| &host.jobs);
        running
            .map(|running| self.now.saturating_add(running.left.div_ceil(running.speed.max(1))))
            .min()
    }

    /// Lets time pass until then, and takes those that ended off their GPUs.
    fn pass(&mut self, next: u64) {
        let passed = next.saturating_sub(self.now);
        self.now = next.max(self.now);
        let now = self.now;
        for at in 0..self.hosts.len() {
            let Some(host) = self.hosts.get_mut(at) else { continue };
            if host.jobs.is_empty() {
                continue;
            }
            self.outcome.busy = self.outcome.busy.saturating_add(passed);
            let mut gone = Vec::new();
            host.jobs.retain_mut(|running| {
                running.left = running.left.saturating_sub(running.speed.saturating_mul(passed));
                if running.left == 0 {
                    gone.push(*running);
                }
                running.left > 0
            });
            for running in &gone {
                let Some(ended) = self.outcome.ended.get_mut(running.job) else { continue };
                if running.fails {
                    ended.failures = ended.failures.saturating_add(1);
                    self.waiting.push((running.job, true));
                } else {
                    ended.ran = Some((running.began, now));
                }
            }
            if !gone.is_empty() {
                self.pace(at);
            }
        }
    }

    /// Places all that can be placed.
    fn place(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        // Where a job with these needs found no GPU, one with the same needs finds none now.
        let mut refused: BTreeSet<Vec<Option<Option<Bytes>>>> = BTreeSet::new();
        for (at, wants_own) in waiting {
            let Some(job) = self.jobs.get(at) else { continue };
            let needs = |on: &Option<On>| on.map(|on| on.believed.filter(|_| !wants_own));
            let needs: Vec<_> = job.on.iter().map(needs).collect();
            if !refused.contains(&needs) || self.policy.busiest.is_some() {
                if let Some((card, why)) = self.choose(job, wants_own) {
                    self.begin(at, card, why, wants_own);
                    continue;
                }
                if !self.hosts.iter().any(|host| allows(job, host.card, wants_own)) {
                    self.refuse(at);
                    continue;
                }
                refused.insert(needs);
            }
            self.waiting.push((at, wants_own));
        }
    }

    fn refuse(&mut self, job: usize) {
        let why = Reason::TooLarge;
        let with = Vec::new();
        self.outcome.placed.push(Placed {
            job,
            card: None,
            at: self.now,
            why,
            with,
            failed: false,
        });
    }

    /// The GPU for a job by the rule, if there is one now.
    fn choose(&self, job: &Job, wants_own: bool) -> Option<(usize, Reason)> {
        let mut found: Option<((u64, usize), Reason)> = None;
        for (at, host) in self.hosts.iter().enumerate() {
            let Some(on) = job.on(host.card.kind) else { continue };
            let is_exclusive = wants_own || on.believed.is_none();
            let is_idle = host.jobs.is_empty();
            let is_taken = host.jobs.iter().any(|running| running.is_exclusive);
            let is_taken = is_taken || host.jobs.len() >= self.policy.most;
            if is_taken || (is_exclusive && !is_idle) || !allows(job, host.card, wants_own) {
                continue;
            }
            let left = host.card.memory - self.on(host).filter_map(|on| on.believed).sum();
            let busy = self.busy(host);
            let cap = self.policy.busiest.filter(|_| !is_idle);
            let is_too_busy = cap.is_some_and(|cap| busy.saturating_add(on.active.0) > cap.0);
            let lacks = on.believed.is_some_and(|needs| !is_exclusive && needs > left);
            if lacks || is_too_busy {
                continue;
            }
            let rank = match self.policy.prefers {
                Prefers::First => 0,
                Prefers::Tightest => left.0,
                Prefers::Idlest => u64::from(busy),
            };
            if found.is_none_or(|(best, _)| (rank, at) < best) {
                let why = if is_idle { Reason::Alone } else { Reason::Shares { left } };
                found = Some(((rank, at), why));
            }
        }
        found.map(|((_, at), why)| (at, why))
    }

    /// What the jobs on a GPU do there.
    fn on(&self, host: &Host) -> impl Iterator<Item = On> {
        let jobs = host.jobs.iter().filter_map(|running| self.jobs.get(running.job));
        jobs.filter_map(|job| job.on(host.card.kind))
    }

    /// COUNT: ten-thousandths: how busy those on a GPU keep it.
    fn busy(&self, host: &Host) -> u32 {
        self.on(host).fold(0, |sum: u32, on| sum.saturating_add(on.active.0))
    }

    fn begin(&mut self, at: usize, card: usize, why: Reason, wants_own: bool) {
        let Some(host) = self.hosts.get_mut(card) else { return };
        let kind = host.card.kind;
        let of = |job: usize| self.jobs.get(job).and_then(|job| job.on(kind));
        let Some(on) = of(at) else { return };
        // Those that will fail hold what is left until they do, so they are no reason for others to fail.
        let held = host.jobs.iter().filter(|running| !running.fails);
        let held: Bytes = held.filter_map(|running| of(running.job)).map(|on| on.real).sum();
        let fails = on.real > host.card.memory - held;
        let duration = on.duration.max(1);
        let work = if fails { FAILS_AFTER.min(duration) } else { duration };
        host.used = true;
        let with = host.jobs.iter().map(|running| running.job).collect();
        host.jobs.push(Running {
            job: at,
            left: work.saturating_mul(PARTS),
            speed: PARTS,
            began: self.now,
            fails,
            is_exclusive: wants_own || on.believed.is_none(),
        });
        let placed = Placed { job: at, card: Some(card), at: self.now, why, with, failed: fails };
        self.outcome.placed.push(placed);
        self.pace(card);
    }

    /// How fast jobs run on a GPU from now on.
    fn pace(&mut self, card: usize) {
        let Some(host) = self.hosts.get_mut(card) else { return };
        let jobs: Vec<usize> = host.jobs.iter().map(|running| running.job).collect();
        let kind = host.card.kind;
        let slower =
            if jobs.len() > 1 { (self.slowdown)(kind, &jobs) } else { vec![1000; jobs.len()] };
        for (running, slower) in host.jobs.iter_mut().zip(slower) {
            running.speed = PARTS.saturating_mul(1000).div_euclid(slower.max(1000));
        }
    }
}

/// Whether a job can ever have this GPU: what is believed fits, or what it needs where it is to be alone.
fn allows(job: &Job, card: Card, wants_own: bool) -> bool {
    job.on(card.kind).is_some_and(|on| {
        let asks = on.believed.filter(|_| !wants_own).unwrap_or(on.real);
        asks <= card.memory
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::policy;

    const SECOND: u64 = 1000;

    const fn seconds(milliseconds: u64) -> u64 {
        milliseconds.div_euclid(SECOND)
    }

    fn job(submitted: u64, seconds: u64, believed: u64, real: u64) -> Job {
        let on = On {
            duration: seconds * SECOND,
            believed: Some(Bytes::mib(believed)),
            real: Bytes::mib(real),
            active: Share(5000),
        };
        Job { submitted: submitted * SECOND, on: vec![Some(on)] }
    }

    fn outcome(cards: usize, jobs: &[Job], id: &str) -> Outcome {
        let cards = vec![Card { kind: 0, memory: Bytes::mib(40) }; cards];
        let policy = *policy::find(id).expect("it is in the table");
        run(&cards, jobs, policy, &mut |_, jobs| vec![1500; jobs.len()])
    }

    /// When each began and ended, in seconds.
    fn times(outcome: &Outcome) -> Vec<(u64, u64)> {
        let ran = outcome.ended.iter().map(|ended| ended.ran.expect("it ran"));
        ran.map(|(began, ended)| (seconds(began), seconds(ended))).collect()
    }

    /// Jobs that share run at once and slower; exclusive ones one after another.
    #[test]
    fn jobs_share_where_they_fit() {
        let jobs = [job(0, 100, 20, 20), job(0, 100, 20, 20)];
        assert_eq!(times(&outcome(1, &jobs, "exclusive")), [(0, 100), (100, 200)]);
        let shared = outcome(1, &jobs, "first-fit");
        assert_eq!(times(&shared), [(0, 150), (0, 150)]);
        assert_eq!((seconds(shared.busy), shared.used), (150, 1));
        let why = Reason::Shares { left: Bytes::mib(20) };
        let second = shared.placed.get(1).map(|placed| (placed.why, placed.with.clone()));
        assert_eq!(second, Some((why, vec![0])));
        // When one ends, the other is as fast as alone.
        let jobs = [job(0, 100, 20, 20), job(0, 200, 20, 20)];
        assert_eq!(times(&outcome(1, &jobs, "first-fit")), [(0, 150), (0, 250)]);
    }

    /// A job that needs more than was believed fails, and runs alone afterwards.
    #[test]
    fn who_needs_more_than_believed_fails_and_is_restarted_alone() {
        let jobs = [job(0, 1000, 30, 30), job(0, 1000, 5, 15)];
        let outcome = outcome(1, &jobs, "first-fit");
        let failures: Vec<u32> = outcome.ended.iter().map(|ended| ended.failures).collect();
        assert_eq!(failures, [0, 1]);
        let (began, ended) = times(&outcome)[1];
        assert!(began >= 1000 && ended == began + 1000, "{began} {ended}");
    }

    /// The rules choose different GPUs, and a job that no GPU can hold does not block others.
    #[test]
    fn rules_choose_different_cards() {
        let jobs = [job(0, 100, 10, 10), job(1, 100, 35, 35), job(2, 100, 5, 5), job(3, 9, 50, 50)];
        let cards = |id: &str| -> Vec<Option<usize>> {
            outcome(3, &jobs, id).placed.iter().map(|placed| placed.card).collect()
        };
        assert_eq!(cards("first-fit"), [Some(0), Some(1), Some(0), None]);
        assert_eq!(cards("best-fit"), [Some(0), Some(1), Some(1), None]);
        assert_eq!(cards("by-utilisation"), [Some(0), Some(1), Some(2), None]);
    }
}
