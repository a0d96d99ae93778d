//! The texts that the program looks up in the catalogues of languages. Tests read them from the program's sources,
//! and from the tables whose texts are looked up at run time.

use std::collections::BTreeSet;
use std::path::Path;

use highwater_core::autopsy::Why;
use highwater_core::basis::{Basis, Reason};
use highwater_core::config::{Choice as _, Method, SETTINGS, Workload};
use highwater_core::device::Class;
use highwater_core::estimate::Match;
use highwater_core::estimators::{ALL, WHY_NOT};
use highwater_core::formats::Fidelity;
use highwater_core::formats::spec::kinds::TABLE;
use highwater_core::levers::{LEVERS, WAYS};
use highwater_core::observed::Cause;
use highwater_core::serving::{Engine, KvType};
use highwater_core::sharing::Together;
use highwater_core::sharing::slowdown::Mode;
use highwater_core::trace::{Category, Phase};

use crate::model::examples::EXAMPLES;
use crate::model::export::FORMS;
use crate::model::input::KINDS;
use crate::model::language::Language;
use crate::model::lessons::LESSONS;
use crate::model::section::Section;
use crate::words::sentence;

/// What stands before the first argument, or the value, that is asked for.
const MARKS: [&str; 8] = [
    "phrase(",
    "tr(",
    "fill(",
    "Sentence::of(",
    "say!(",
    "let english =",
    "assumed: \"",
    "assumed_of_loop: \"",
];
/// What families of configurations call with a text.
const CALLS: [&str; 2] = ["fault(", "note("];
/// Texts of small tables in the components.
const LISTED: [&str; 9] = [
    "most relevant",
    "all",
    "it fits on",
    "too small",
    "GPU",
    "need",
    "need of capacity",
    "verdict",
    "capacity",
];

/// The names in braces.
fn names(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0)).collect()
}

#[test]
fn a_catalogue_has_what_the_page_says_and_nothing_else() {
    let asked = all();
    for language in Language::ALL.into_iter().filter(|&known| known != Language::English) {
        let path =
            format!("{}/../public/languages/{}.json", env!("CARGO_MANIFEST_DIR"), language.tag());
        let file = std::fs::read_to_string(path).expect("there is a catalogue");
        let texts = literals(&file);
        let known: BTreeSet<String> =
            texts.chunks(2).filter_map(|pair| pair.first().cloned()).collect();
        let missing: Vec<_> = asked.difference(&known).collect();
        assert!(missing.is_empty(), "missing: {missing:#?}");
        let idle: Vec<_> = known.difference(&asked).collect();
        assert!(idle.is_empty(), "nobody asks for: {idle:#?}");
        for pair in texts.chunks(2) {
            let [english, translated] = pair else { panic!("a text without another") };
            assert!(names(translated).is_subset(&names(english)), "{english}: {translated}");
        }
    }
}

/// The README counts what it names.
#[test]
fn the_readme_counts_lessons_and_forms() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let page = std::fs::read_to_string(path).expect("there is a README");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in
        [format!("saves {} formats", FORMS.len()), format!("teaches {} lessons", LESSONS.len())]
    {
        assert!(page.contains(&text), "README.md lacks: {text}");
    }
}

/// Everything that is asked for.
fn all() -> BTreeSet<String> {
    let mut asked = from_tables();
    asked.extend(LISTED.map(str::to_owned));
    for folder in
        ["/src", "/../core/src", "/../core/base/src", "/../core/formats/src", "/../core/engine/src"]
    {
        read(Path::new(&[env!("CARGO_MANIFEST_DIR"), folder].concat()), &mut asked);
    }
    // A name is the same in every language.
    for same in ["{name}", "{need}", "{share}", "{error}", ""] {
        asked.remove(same);
    }
    asked
}

/// Collects from all sources in a folder.
fn read(folder: &Path, asked: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            read(&path, asked);
            continue;
        }
        let ends = |end: &str| path.extension().is_some_and(|known| known == end);
        if ends("family") || path.ends_with("hf_config/keys.txt") {
            let text = std::fs::read_to_string(&path).expect("families are text");
            asked.extend(text.lines().flat_map(of_family));
        }
        if !ends("rs") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("sources are text");
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        // The words of a choice, for what is none of it.
        asked.extend(
            source.lines().filter(|line| line.starts_with("    pub enum ")).flat_map(literals),
        );
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let source = source.lines().filter(is_code).collect::<Vec<_>>().join("\n");
        if path.ends_with("src/asked.rs") {
            continue;
        }
        for mark in MARKS {
            for (at, _) in source.match_indices(mark) {
                let is_name = source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if !is_name {
                    let from = at + mark.trim_end_matches('"').len();
                    asked.extend(literals(argument(&source[from..])));
                }
            }
        }
    }
}

/// The texts in a line of a family of configurations, or of the table of keys that families leave unread.
fn of_family(line: &str) -> Vec<String> {
    if line.starts_with("! ") || line.starts_with("? ") {
        return line.split_once(": ").map(|(_, text)| text.to_owned()).into_iter().collect();
    }
    let second = |call: &str| {
        let (before, arguments) = line.split_once(call)?;
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') || before.contains('#') {
            return None;
        }
        let first = argument(arguments);
        let mut text = literals(argument(arguments[first.len()..].strip_prefix(',')?)).pop()?;
        for place in 1..=text.matches("{}").count() {
            text = text.replacen("{}", &format!("{{{place}}}"), 1);
        }
        Some(text)
    };
    CALLS.iter().filter_map(|call| second(call)).collect()
}

/// The beginning of a code up to the comma, the bracket or the semicolon that ends it.
fn argument(code: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, letter) in code.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' | ',' | ';' if depth == 0 => return &code[..at],
            _ => {}
        }
    }
    code
}

/// The texts of the literals in a code.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut letters = code.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '"' {
            continue;
        }
        let mut literal = String::new();
        while let Some(letter) = letters.next().filter(|&letter| letter != '"') {
            if letter != '\\' {
                literal.push(letter);
                continue;
            }
            match letters.next() {
                Some('n') => literal.push('\n'),
                Some('u') => {
                    let code: String = letters.by_ref().skip(1).take_while(|&c| c != '}').collect();
                    literal.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                }
                // A line that is continued.
                Some('\n') => while letters.next_if(|c| c.is_whitespace()).is_some() {},
                Some(letter) => literal.push(letter),
                None => {}
            }
        }
        found.push(literal);
    }
    found
}

/// The texts of the tables of the program and of its core.
fn from_tables() -> BTreeSet<String> {
    let mut asked = BTreeSet::new();
    for setting in SETTINGS {
        asked.extend([setting.label, setting.about].map(str::to_owned));
        let values = setting.kind.values().iter();
        asked.extend(values.flat_map(|value| [value.label, value.about]).map(str::to_owned));
    }
    for fidelity in [
        Fidelity::ExactGraph,
        Fidelity::Graph,
        Fidelity::Template,
        Fidelity::ApproximateOrder,
        Fidelity::StatesOnly,
        Fidelity::Recorded,
        Fidelity::SeenOnCpu,
    ] {
        asked.extend([fidelity.label().to_owned(), sentence(fidelity.about())]);
    }
    asked.extend(Basis::ALL.map(|basis| basis.name().to_owned()));
    asked.extend(Reason::FIXED.iter().map(|reason| reason.what().to_string()));
    let arguments = TABLE.iter().flat_map(|kind| kind.arguments);
    asked.extend(arguments.map(|argument| argument.about.to_owned()));
    for fits in [Match::Fails, Match::Allocated, Match::Near, Match::Size] {
        asked.insert(sentence(fits.about()));
    }
    asked.extend(Why::ALL.map(|why| why.about().to_owned()));
    asked.extend(Workload::ALL.iter().map(|workload| workload.verb().to_owned()));
    for served in [Engine::TABLE, KvType::TABLE] {
        asked.extend(served.iter().map(|named| named.label.to_owned()));
    }
    asked.extend(Method::ALL.map(|method| method.name().to_owned()));
    asked.extend(Method::ALL.map(|method| method.about().to_owned()));
    for cause in Cause::ALL {
        asked.insert(sentence(cause.about()));
        asked.extend(cause.advice().iter().map(|advice| sentence(advice)));
    }
    for lever in LEVERS {
        asked.extend([lever.title.to_owned(), lever.cost.about().to_owned()]);
    }
    asked.extend(WAYS.map(|way| way.name.to_owned()));
    asked.extend(Together::ALL.map(|verdict| verdict.label().to_owned()));
    asked.extend(Mode::ALL.map(|mode| mode.label().to_owned()));
    for lesson in LESSONS {
        asked.insert(lesson.title.to_owned());
        for step in lesson.steps {
            asked.extend([step.text.to_owned(), step.reveal.to_owned()]);
            asked.extend(step.ask.as_ref().map(|ask| ask.question.to_owned()));
        }
    }
    for about in ALL.iter().map(|estimator| estimator.about()) {
        let texts = [about.needs.name(), about.counts, about.leaves_out];
        asked.extend(texts.map(str::to_owned));
    }
    asked.extend(WHY_NOT.map(str::to_owned));
    for phase in Phase::ALL {
        asked.insert(phase.heading().to_owned());
        asked.extend((!phase.short().is_empty()).then(|| phase.short().to_owned()));
    }
    for category in Category::ALL {
        asked.extend([category.label().to_owned(), category.about().to_owned()]);
    }
    asked.extend(Section::ALL.map(|section| section.name().to_owned()));
    asked.extend(Class::ALL.map(|class| class.label().to_owned()));
    asked.extend(KINDS.map(|(name, _)| name.to_owned()));
    asked.extend(EXAMPLES.map(|example| example.about.to_owned()));
    asked.extend(FORMS.iter().flat_map(|form| [form.title, form.about]).map(str::to_owned));
    asked
}
