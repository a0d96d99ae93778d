//! Numbers in the README and in `docs`: each is counted, or computed from a table that a test keeps.

use highwater_core::config::Setting;
use highwater_core::device;
use highwater_core::levers::LEVERS;

use crate::fixtures;

/// COUNT: words of the README at most.
const WORDS_MAX: usize = 700;

fn document(name: &str) -> String {
    String::from_utf8(fixtures::read(&format!("../../{name}"))).unwrap()
}

/// Requires a text; lines of a paragraph may break anywhere.
fn require(name: &str, text: &str) {
    let page = document(name).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(text), "{name} does not say: {text}");
}

#[test]
fn the_readme_is_short() {
    let count = document("README.md").split_whitespace().filter(|word| *word != "|").count();
    assert!(count <= WORDS_MAX, "README.md has {count} words");
}

#[test]
fn things_are_counted() {
    let optimizers = Setting::named("optimizer").unwrap().kind.values().len();
    require("README.md", &format!("{} GPUs", device::all().len()));
    require("README.md", &format!("simulates {} changes", LEVERS.len()));
    require("README.md", &format!("the {optimizers} optimizers"));
    require("docs/command-line.md", &format!("each of {} changes", LEVERS.len()));
    require("docs/command-line.md", &format!("`--optimizer` ({optimizers} of them)"));
}

/// The line of a table that begins with a name.
fn line<'a>(table: &'a str, name: &str) -> &'a str {
    table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no line {name}"))
}

/// Per cent behind a word, with one decimal: `5.0`, and without one.
fn percent(line: &str, word: &str) -> [String; 2] {
    let rest = line.split_once(word).unwrap().1.trim_start();
    let value: f64 = rest.split(' ').next().unwrap().parse().unwrap();
    [format!("{value:.1} %"), format!("{value:.0} %")]
}

#[test]
fn systems_are_compared_on_the_same_runs() {
    let measured = document("tests/measured.txt");
    let systems = [
        (
            "with workspaces ",
            "| Highwater | a model file |",
            "| Highwater, with those of cuDNN 9.26 | 29 |",
        ),
        ("without   ", "", "| Highwater, without workspaces | 29 |"),
        ("xmem   ", "| xMem | a CPU profile of the training script |", "| xMem | 29 |"),
        ("schedtune ", "| SchedTune | a model trained on other runs |", "| SchedTune | 29 |"),
        ("dnnmem ", "| DNNMem | a model |", "| DNNMem | 29 |"),
        ("llmem ", "| LLMem (8 of the runs) | a language model |", "| LLMem | 8 |"),
    ];
    for (name, in_readme, in_docs) in systems {
        let line = line(&measured, name);
        let [median, _] = percent(line, "median error");
        let [worst, _] = percent(line, "worst");
        let [_, fails] = percent(line, "failure");
        if !in_readme.is_empty() {
            require("README.md", &format!("{in_readme} {median} | {worst} | {fails} |"));
        }
        require("docs/accuracy.md", &format!("{in_docs} {median} | {worst} | {fails} |"));
    }
}

#[test]
fn fake_tensors_are_compared_on_the_same_runs() {
    let measured = document("tests/measured.txt");
    let of_carma = measured.split("\nxMem,").next().unwrap();
    // The last two columns, where both are numbers: ours and FakeTensor's.
    let mut errors: Vec<[f64; 2]> = Vec::new();
    let is_run = |line: &&str| line.matches(" %").count() == 2 && !line.contains(" rows, ");
    for line in of_carma.lines().filter(is_run) {
        let mut numbers =
            line.split(" %").filter_map(|part| part.split(' ').next_back()?.parse().ok());
        if let (Some(ours), Some(theirs)) = (numbers.next(), numbers.next()) {
            errors.push([f64::abs(ours), f64::abs(theirs)]);
        }
    }
    let rows = errors.len();
    let median = |system: usize| {
        let mut column: Vec<f64> = errors.iter().map(|row| row[system]).collect();
        column.sort_by(f64::total_cmp);
        format!("{:.1} %", column[column.len() / 2])
    };
    let text = format!(
        "On {rows} runs of convolutional networks on an A100, PyTorch's FakeTensor mode has a median error \
         of {}, Highwater {}.",
        median(1),
        median(0)
    );
    require("README.md", &text);
}

#[test]
fn peaks_equal_to_the_byte_are_counted() {
    let accuracy = document("tests/accuracy.txt");
    let (mut all, mut exact, mut worst) = (0.0, 0.0, 0.0_f64);
    for table in ["train, ", "eval, ", "dynamo, "] {
        let is_it = |line: &&str| line.starts_with(table) && line.contains(" allocated exact ");
        let line = accuracy.lines().find(is_it).unwrap();
        let numbers: Vec<f64> =
            line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        all += numbers[0];
        exact += numbers[1];
        worst = worst.max(*numbers.last().unwrap());
    }
    let text =
        format!("{exact} of {all} peaks are equal to the byte, and the worst is {worst:.2} % off");
    require("README.md", &text);
}
