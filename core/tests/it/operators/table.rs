//! `tests/operators.txt`: a line for each module and operator, and what sums them up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{FORMATS, Outcome, State};

/// COUNT: cases of an entry from one format, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    proven: usize,
    warned: usize,
    silent: usize,
    refused: usize,
    not_exported: usize,
}

impl Counts {
    fn add(&mut self, state: &State) {
        let count = match state {
            State::Proven => &mut self.proven,
            State::Differs { warned: true, .. } => &mut self.warned,
            State::Differs { .. } => &mut self.silent,
            State::Refused(_) => &mut self.refused,
            State::NotExported => &mut self.not_exported,
        };
        *count += 1;
    }

    const fn exported(self) -> usize {
        self.proven + self.warned + self.silent + self.refused
    }

    /// Fewer are proven, or more are wrong without a word.
    const fn is_worse_than(self, before: Self) -> bool {
        self.proven < before.proven || self.silent > before.silent
    }

    /// From a cell of the table.
    fn read(cell: &str) -> Self {
        let mut counts = Self::default();
        for word in cell.split_whitespace() {
            let (number, mark) = word.split_at(word.len() - 1);
            let number = number.parse().unwrap_or(0);
            match mark {
                "=" => counts.proven = number,
                "w" => counts.warned = number,
                "s" => counts.silent = number,
                "r" => counts.refused = number,
                "x" => counts.not_exported = number,
                _ => {}
            }
        }
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked = [
            (self.proven, '='),
            (self.warned, 'w'),
            (self.silent, 's'),
            (self.refused, 'r'),
            (self.not_exported, 'x'),
        ];
        let there = marked.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = there.map(|(count, mark)| format!("{count}{mark}")).collect();
        f.pad(&words.join(" "))
    }
}

/// An entry's cells, and its worst difference.
#[derive(Debug, Default)]
struct Line<'a> {
    cells: [Counts; FORMATS.len()],
    worst: Option<&'a Outcome>,
}

fn lines(outcomes: &[Outcome]) -> BTreeMap<&str, Line<'_>> {
    let mut lines: BTreeMap<&str, Line<'_>> = BTreeMap::new();
    for outcome in outcomes {
        let line = lines.entry(&outcome.name).or_default();
        let column = FORMATS.iter().position(|format| *format == outcome.format).expect("a format");
        line.cells[column].add(&outcome.state);
        if line.worst.is_none_or(|worst| badness(outcome) > badness(worst))
            && badness(outcome) > (0, 0)
        {
            line.worst = Some(outcome);
        }
    }
    lines
}

/// Wrong without a word, by how much; wrong; refused.
fn badness(outcome: &Outcome) -> (u8, u64) {
    match &outcome.state {
        State::Differs { first, warned } => {
            (if *warned { 2 } else { 3 }, first.peak.unsigned_abs())
        }
        State::Refused(_) => (1, 0),
        State::Proven | State::NotExported => (0, 0),
    }
}

/// COUNT: columns of a name and of a cell.
const NAME: usize = 52;
const CELL: usize = 15;

fn write_lines(lines: &BTreeMap<&str, Line<'_>>) -> String {
    let mut text = String::new();
    for (name, line) in lines {
        write!(text, "{name:<NAME$}").unwrap();
        for cell in line.cells {
            write!(text, " {cell:<CELL$}").unwrap();
        }
        if let Some(worst) = line.worst {
            let what = match &worst.state {
                State::Differs { first, .. } => first.to_string(),
                State::Refused(error) => error.clone(),
                State::Proven | State::NotExported => String::new(),
            };
            write!(text, " {}: {}: {what}", worst.format, worst.about).unwrap();
        }
        let kept = text.trim_end().len();
        text.truncate(kept);
        text.push('\n');
    }
    text
}

fn head(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "Every module and operator of PyTorch by itself: the events of a steady iteration, ours beside PyTorch's.\n\
         `=` proven to the byte, `w` differs with a warning, `s` differs silently, `r` refused, `x` not exported by\n\
         PyTorch; then the worst case: its format, arguments (* has a gradient) and settings, the first difference,\n\
         and ours above theirs at the iteration's peak, in bytes. `cargo xtask operators NAME` shows all.\n\n",
    );
    text += &totals(outcomes);
    write!(text, "\n{:<NAME$}", "").unwrap();
    for format in FORMATS {
        write!(text, " {format:<CELL$}").unwrap();
    }
    text.trim_end().to_owned() + "\n"
}

/// Cases and entries, by format.
fn totals(outcomes: &[Outcome]) -> String {
    let lines = lines(outcomes);
    let mut text = String::new();
    for (column, format) in FORMATS.iter().enumerate() {
        let mut all = Counts::default();
        outcomes
            .iter()
            .filter(|outcome| outcome.format == *format)
            .for_each(|outcome| all.add(&outcome.state));
        let exported = lines.values().filter(|line| line.cells[column].exported() > 0);
        let whole = exported
            .clone()
            .filter(|line| line.cells[column].proven == line.cells[column].exported());
        writeln!(
            text,
            "{format:<7} {:>5} of {:>5} exported cases proven, {} of {} entries in all their cases; {} differ with a \
             warning, {} silently, {} refused; {} not exported",
            all.proven,
            all.exported(),
            whole.count(),
            exported.count(),
            all.warned,
            all.silent,
            all.refused,
            all.not_exported
        )
        .unwrap();
    }
    text
}

/// What differs, by kind and family, the largest first.
pub(super) fn summary(outcomes: &[Outcome]) -> String {
    let mut text = totals(outcomes);
    let mut kinds: BTreeMap<(&str, String), BTreeMap<&str, usize>> = BTreeMap::new();
    for outcome in outcomes {
        let kind = match &outcome.state {
            State::Differs { first, warned } => {
                format!("{}{}", first.kind, if *warned { " (warned)" } else { "" })
            }
            State::Refused(error) => {
                format!("refused: {}", error.split(['`', ':']).next().unwrap_or(""))
            }
            State::Proven | State::NotExported => continue,
        };
        *kinds
            .entry((family(&outcome.name), kind))
            .or_default()
            .entry(&outcome.name)
            .or_default() += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, names)| Reverse(names.values().sum::<usize>()));
    text += "\ncases  entries  family and kind\n";
    for ((family, kind), names) in kinds.iter().take(60) {
        let mut most: Vec<_> = names.iter().collect();
        most.sort_by_key(|(_, count)| Reverse(**count));
        let most: Vec<String> =
            most.iter().take(12).map(|(name, count)| format!("{name} {count}")).collect();
        let cases: usize = names.values().sum();
        writeln!(text, "{cases:>5}  {:>7}  {family}, {kind}: {}", names.len(), most.join(", "))
            .unwrap();
    }
    text
}

/// The part of PyTorch's interface that a name belongs to.
fn family(name: &str) -> &str {
    const FAMILIES: [&str; 7] =
        ["nn.functional", "nn", "linalg", "fft", "special", "masked", "signal"];
    let belongs =
        |family: &&&str| name.strip_prefix(**family).is_some_and(|rest| rest.starts_with('.'));
    FAMILIES.iter().find(belongs).map_or("torch", |family| *family)
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/operators.txt")
}

/// The committed table's lines, by name.
fn committed() -> BTreeMap<String, [Counts; FORMATS.len()]> {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    let body = text.lines().skip_while(|line| !line.starts_with(' ')).skip(1);
    let body = body.take_while(|line| !line.is_empty());
    body.map(|line| {
        let cell = |column: usize| {
            let from = NAME + 1 + column * (CELL + 1);
            let rest: String = line.chars().skip(from).take(CELL).collect();
            Counts::read(&rest)
        };
        let name: String = line.chars().take(NAME).collect();
        (name.trim_end().to_owned(), [0, 1, 2, 3].map(cell))
    })
    .collect()
}

/// Each line proves as much as the committed one, and is wrong in silence no more often.
pub(super) fn assert_no_worse(outcomes: &[Outcome]) {
    let committed = committed();
    let lines = lines(outcomes);
    assert!(!lines.is_empty(), "no entries");
    let mut worse = BTreeSet::new();
    for (name, line) in &lines {
        let before = committed.get(*name).unwrap_or_else(|| panic!("{name} is not in the table"));
        for (now, before) in line.cells.iter().zip(before) {
            if now.is_worse_than(*before) {
                worse.insert(format!("{name}: {before} became {now}"));
            }
        }
    }
    assert!(worse.is_empty(), "worse than tests/operators.txt:\n{worse:#?}");
}

/// Writes the table if asked to, otherwise nothing may be worse.
#[expect(clippy::print_stdout, reason = "a command speaks on its terminal")]
pub(super) fn compare_or_write(outcomes: &[Outcome], left_out: &BTreeMap<String, Vec<&str>>) {
    let mut text = head(outcomes) + &write_lines(&lines(outcomes));
    text += "\nWithout a comparison, because PyTorch did not run them here:\n";
    for (reason, names) in left_out {
        writeln!(text, "{reason}: {}", names.join(", ")).unwrap();
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path(), text).expect("tests/operators.txt");
        return;
    }
    assert_no_worse(outcomes);
    if std::fs::read_to_string(path()).unwrap_or_default() != text {
        println!("no line is worse, but the table is another: UPDATE_EXPECT=1 writes it");
    }
}
