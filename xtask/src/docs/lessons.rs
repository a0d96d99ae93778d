//! The lessons of the estimator as pages of the documentation.
//!
//! The texts are those of the estimator (`app/src/model/lessons/table.rs`). Its tests write the numbers in them into
//! `app/src/model/lessons/numbers.txt`, because this program does not estimate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::content::{Content, escaped};
use crate::process::{Failure, Result, While as _};
use crate::taught::{LESSONS, Lesson, Step};

/// The file of numbers.
const NUMBERS: &str = "app/src/model/lessons/numbers.txt";

/// The sizes of each step of each lesson, by their names.
type Numbers = BTreeMap<(String, usize), Vec<(String, String)>>;

/// A page for each lesson, with its address, in the order of the lessons.
///
/// # Errors
/// A number in the text of a lesson is unknown.
pub(super) fn pages(root: &Path) -> Result<Vec<(String, Content)>> {
    let text = fs::read_to_string(root.join(NUMBERS)).during(format_args!("reading {NUMBERS}"))?;
    let numbers = numbers(&text)?;
    let page =
        |lesson: &Lesson| Ok((format!("docs/lessons/{}.html", lesson.id), page(lesson, &numbers)?));
    LESSONS.iter().map(page).collect()
}

/// Reads lines such as `second-step 1 first 88.2 MiB`.
fn numbers(text: &str) -> Result<Numbers> {
    let mut numbers = Numbers::new();
    for (at, line) in text.lines().enumerate() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (lesson, step, name, size) = (word(), word(), word(), word());
        let step: usize = step.parse().during(format_args!("{NUMBERS}:{}", at + 1))?;
        let sizes = numbers.entry((lesson.to_owned(), step)).or_default();
        sizes.push((name.to_owned(), size.to_owned()));
    }
    Ok(numbers)
}

fn page(lesson: &Lesson, numbers: &Numbers) -> Result<Content> {
    let mut content = Content::default();
    let count = lesson.steps.len();
    content.heading(1, lesson.title);
    content.html(&format!(
        "<p class=\"docs-start\"><a class=\"docs-button\" href=\"../../?lesson={}\">Start this lesson in the \
         estimator</a></p>\n",
        lesson.id
    ));
    let steps = if count == 1 { "one step".to_owned() } else { format!("{count} steps") };
    content.paragraph(&format!(
        "A lesson in {steps}. The estimator simulates its model while you go through it, and shows where in memory \
         things are. This page has the texts."
    ));
    let mut model = lesson.model;
    model_of(model, &mut content);
    for (at, step) in lesson.steps.iter().enumerate() {
        content.heading(2, &format!("Step {} of {count}", at + 1));
        if let Some(other) = step.model.filter(|other| *other != model) {
            model = other;
            model_of(model, &mut content);
        }
        let key = (lesson.id.to_owned(), at + 1);
        let sizes = numbers.get(&key).map_or(&[][..], Vec::as_slice);
        self::step(step, sizes, &mut content)
            .map_err(|name| Failure::new(format!("{NUMBERS} lacks {} {} {name}", key.0, key.1)))?;
    }
    Ok(content)
}

/// The model, which somebody may want to write anew.
fn model_of(model: &str, content: &mut Content) {
    content.html(&format!(
        "<details>\n<summary>The model</summary>\n<pre tabindex=\"0\"><code>{}</code></pre>\n</details>\n",
        escaped(model)
    ));
}

/// Adds a step.
///
/// # Errors
/// The name of a number that is unknown.
fn step(
    step: &Step,
    sizes: &[(String, String)],
    content: &mut Content,
) -> std::result::Result<(), String> {
    content.paragraph(&filled(step.text, sizes)?);
    if !step.settings.is_empty() {
        let settings = step.settings.iter().map(|(name, value)| {
            let name = name.strip_prefix("dim:").unwrap_or(name);
            format!("`{name}`: `{value}`")
        });
        content.paragraph(&format!("Settings: {}.", settings.collect::<Vec<_>>().join(", ")));
    }
    let reveal = filled(step.reveal, sizes)?;
    let Some(ask) = &step.ask else {
        if !reveal.is_empty() {
            content.paragraph(&reveal);
        }
        return Ok(());
    };
    let answer = filled("{answer}", sizes)?;
    content.html(&format!("<p class=\"docs-question\">{}</p>\n", escaped(ask.question)));
    content.read(ask.question);
    content.html("<details class=\"docs-answer\">\n<summary>Show the answer</summary>\n");
    if !reveal.contains(&answer) {
        content.paragraph(&format!("Simulated: {answer}."));
    }
    content.paragraph(&reveal);
    content.html("</details>\n");
    Ok(())
}

/// A text with its numbers.
///
/// # Errors
/// The name of one that is unknown.
fn filled(text: &str, sizes: &[(String, String)]) -> std::result::Result<String, String> {
    let mut filled = text.to_owned();
    for (name, size) in sizes {
        filled = filled.replace(&format!("{{{name}}}"), &size.replace(' ', "\u{a0}"));
    }
    match filled.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((name, _)) => Err(name.to_owned()),
        None => Ok(filled),
    }
}

#[cfg(test)]
mod tests {
    use super::{filled, numbers, pages};
    use crate::place;
    use crate::taught::LESSONS;

    #[test]
    fn every_lesson_is_a_page_that_starts_it() {
        let pages = pages(&place::root()).expect("all numbers are known");
        assert_eq!(pages.len(), LESSONS.len());
        for ((address, content), lesson) in pages.iter().zip(LESSONS) {
            assert_eq!(*address, format!("docs/lessons/{}.html", lesson.id));
            assert_eq!(content.title(), lesson.title);
            assert!(content.body.contains(&format!("href=\"../../?lesson={}\"", lesson.id)));
            assert_eq!(content.sections.len(), lesson.steps.len() + 1, "{address}");
        }
    }

    #[test]
    fn texts_have_their_numbers() {
        let known = numbers("a 1 first 88.2 MiB\na 1 state 1 KiB\n").expect("numbers");
        let sizes = &known[&("a".to_owned(), 1)];
        assert_eq!(filled("{first}, {state}.", sizes).as_deref(), Ok("88.2\u{a0}MiB, 1\u{a0}KiB."));
        assert_eq!(filled("{second}", sizes), Err("second".to_owned()));
        numbers("a b first 1 MiB").expect_err("no number of a step");
    }
}
