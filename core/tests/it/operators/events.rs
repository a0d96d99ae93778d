//! An iteration's events on either side, and where they part.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use highwater_core::trace::{Event, Trace};
use similar::{Algorithm, DiffOp};

/// The iteration that is compared: in the first one libraries take their workspaces.
const STEADY: usize = 2;

/// An allocation, and what was freed since the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Step {
    /// SIZE: sorted.
    freed: Vec<u64>,
    /// SIZE: of the allocation; zero behind the last.
    bytes: u64,
    phase: char,
    operator: String,
}

/// All events of one iteration.
#[derive(Clone, Debug, Default)]
pub(super) struct Iteration {
    /// The last one allocates nothing.
    steps: Vec<Step>,
}

/// Where two iterations part first.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    /// What kind of difference it is, for counting.
    pub(super) kind: String,
    /// In few words.
    words: String,
    /// SIZE: ours above theirs at the peak.
    pub(super) peak: i64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; peak {:+}", self.words, self.peak)
    }
}

impl Iteration {
    /// As the oracle writes them: `f +4096:mul -4096 b …`.
    pub(super) fn read(text: &str) -> Self {
        let mut made = Self::default();
        let mut phase = 'z';
        let mut freed = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if let Some(bytes) = word.strip_prefix('-') {
                freed.push(bytes.parse().expect("bytes"));
            } else if let Some(made_by) = word.strip_prefix('+') {
                let (bytes, operator) = made_by.split_once(':').expect("an operator");
                made.push(&mut freed, bytes.parse().expect("bytes"), phase, operator);
            } else {
                phase = word.chars().next().expect("a phase");
            }
        }
        made.push(&mut freed, 0, phase, "end");
        made
    }

    /// Ours.
    pub(super) fn of(trace: &Trace) -> Self {
        let mut made = Self::default();
        let mut freed = Vec::new();
        for (index, event) in trace.events.iter().enumerate() {
            let Some(mark) = trace.phase_at(index).filter(|mark| mark.iteration == STEADY) else {
                continue;
            };
            let Some(storage) = trace.storage(*event) else { continue };
            let phase = mark.phase.name().chars().next().expect("a name");
            match event {
                Event::Free(_) => freed.push(storage.requested.0),
                Event::Alloc(_) => {
                    let operator = trace.operators.get(index).map_or("", |&id| trace.label(id));
                    made.push(&mut freed, storage.requested.0, phase, operator);
                }
            }
        }
        made.push(&mut freed, 0, 'o', "end");
        made
    }

    fn push(&mut self, freed: &mut Vec<u64>, bytes: u64, phase: char, operator: &str) {
        let mut freed = std::mem::take(freed);
        freed.sort_unstable();
        let operator = operator.trim_start_matches("aten::").to_owned();
        self.steps.push(Step { freed, bytes, phase, operator });
    }

    /// SIZE: the most above what the iteration begins with.
    fn peak(&self) -> i64 {
        let (mut live, mut peak) = (0, 0);
        for step in &self.steps {
            let freed: u64 = step.freed.iter().sum();
            live += step.bytes.cast_signed() - freed.cast_signed();
            peak = peak.max(live);
        }
        peak
    }

    /// Allocations in order, and frees between two of them as a set.
    pub(super) fn difference(&self, theirs: &Self) -> Option<Difference> {
        let pairs = self.steps.iter().zip(&theirs.steps).enumerate();
        let differs =
            |(_, (a, b)): &(usize, (&Step, &Step))| a.bytes != b.bytes || a.freed != b.freed;
        let (at, (ours, true_one)) = pairs.into_iter().find(differs)?;
        let number = at + 1;
        let words = if ours.freed == true_one.freed {
            let tell = |step: &Step| match step.bytes {
                0 => "no more".to_owned(),
                bytes => format!("{bytes} {}", step.operator),
            };
            format!("allocation {number}: ours {}, theirs {}", tell(ours), tell(true_one))
        } else {
            let (only_ours, only_theirs) =
                (without(&ours.freed, &true_one.freed), without(&true_one.freed, &ours.freed));
            let tell = |side: &str, freed: &[u64]| match freed {
                [] => String::new(),
                [first, rest @ ..] => {
                    format!("; {side} {first}{}", if rest.is_empty() { "" } else { "…" })
                }
            };
            format!(
                "freed before allocation {number}, {}{}{}",
                true_one.operator,
                tell("only ours", &only_ours),
                tell("only theirs", &only_theirs)
            )
        };
        let peak = self.peak() - theirs.peak();
        Some(Difference { kind: self.kind(theirs, true_one), words, peak })
    }

    /// Allocations alike: when something dies. Else the phase where they part, and which side has more.
    fn kind(&self, theirs: &Self, first: &Step) -> String {
        let order = |side: &Self| side.steps.iter().map(|step| step.bytes).collect::<Vec<_>>();
        let (ours_order, true_order) = (order(self), order(theirs));
        if ours_order == true_order {
            let kept = self.peak() - theirs.peak();
            let how = match kept {
                1.. => ", and ours has the higher peak",
                0 => "",
                _ => ", and ours has the lower peak",
            };
            return format!("frees{how}");
        }
        for (phase, name) in
            [('z', "zero_grad"), ('f', "forward"), ('b', "backward"), ('o', "optimizer")]
        {
            let of = |side: &Self| {
                let mut sizes: Vec<u64> = side
                    .steps
                    .iter()
                    .filter(|step| step.phase == phase)
                    .map(|step| step.bytes)
                    .collect();
                sizes.sort_unstable();
                sizes
            };
            let (ours, truly) = (of(self), of(theirs));
            let how = match (without(&ours, &truly).as_slice(), without(&truly, &ours).as_slice()) {
                ([], []) => continue,
                (_, []) => "ours has one more",
                ([], _) => "ours lacks one",
                _ => "other sizes",
            };
            return format!("{name}: {how}");
        }
        format!("order, from {}", first.phase)
    }
}

/// Of two sorted lists, what only the first has.
fn without(list: &[u64], other: &[u64]) -> Vec<u64> {
    let mut left: BTreeMap<u64, usize> = BTreeMap::new();
    for &bytes in other {
        *left.entry(bytes).or_default() += 1;
    }
    let is_alone = |bytes: &&u64| match left.get_mut(bytes) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    list.iter().filter(is_alone).copied().collect()
}

/// Both, line by line: `=` in common, `<` only ours, `>` only theirs.
pub(super) fn side_by_side(ours: &Iteration, theirs: &Iteration, warned: bool) -> String {
    let Some(difference) = ours.difference(theirs) else { return "  proven\n".to_owned() };
    let how = if warned { "with a warning" } else { "silently" };
    let mut text = format!("  differs {how}: {difference} ({})\n", difference.kind);
    let (a, b) = (lines(ours), lines(theirs));
    let keys =
        |lines: &[(String, String)]| lines.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    for operation in similar::capture_diff_slices(Algorithm::Myers, &keys(&a), &keys(&b)) {
        let (old, new) = (operation.old_range(), operation.new_range());
        if let DiffOp::Equal { .. } = operation {
            for (left, right) in old.zip(new) {
                let (ours, theirs) = (&a[left], &b[right]);
                writeln!(text, "  = {:<16} {:<34} {}", ours.0, ours.1, theirs.1).unwrap();
            }
            continue;
        }
        for (key, what) in &a[old] {
            writeln!(text, "  < {key:<16} {what}").unwrap();
        }
        for (key, what) in &b[new] {
            writeln!(text, "  > {key:<16} {:<34} {what}", "").unwrap();
        }
    }
    text
}

/// What must agree, and what made it.
fn lines(side: &Iteration) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for step in &side.steps {
        lines.extend(step.freed.iter().map(|bytes| (format!("-{bytes}"), String::new())));
        if step.bytes > 0 {
            lines.push((format!("+{}", step.bytes), format!("{} {}", step.phase, step.operator)));
        }
    }
    lines
}
