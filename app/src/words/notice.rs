//! Notices to the user, outside the answer.

use std::fmt::Display;

use highwater_core::wording::Sentence;
use highwater_core::{Bytes, say};

use super::language::{fill, spoken, tr};
use super::names::{spaced, stated};
use crate::model::state::Notice;

/// Name of a model that is begun in the editor.
pub(crate) fn new_spec() -> String {
    tr("new model")
}

/// Name of a text from the clipboard.
pub(crate) fn pasted() -> String {
    tr("pasted text")
}

/// Name of a text that was dragged in.
pub(crate) fn dropped() -> String {
    tr("dropped text")
}

/// Why there are no times.
pub(crate) fn no_times() -> Sentence {
    say!(
        "What computes times did not arrive. Is the page still reachable? Choose another tab, then this one"
    )
}

/// How near a guess was.
pub(crate) fn guessed(guess: Bytes, answer: Bytes) -> String {
    let off = u128::from(guess.0.abs_diff(answer.0)) * 100 / u128::from(answer.0.max(1));
    let parts: [(&str, &dyn Display); 3] =
        [("guess", &guess.short()), ("answer", &answer.short()), ("off", &off)];
    let english = match off {
        0..=5 => "Your guess: {guess}. It is {answer}: nearly exact.",
        6..=25 => "Your guess: {guess}. It is {answer}: close, {off} % off.",
        _ if guess < answer => "Your guess: {guess}. It is {answer}: more than most expect.",
        _ => "Your guess: {guess}. It is {answer}: less than most expect.",
    };
    fill(english, &parts)
}

/// Nothing could be made of a file.
pub(crate) fn refused(name: &str, reason: &Sentence, kept: Option<&str>) -> Notice {
    let detail = match spoken(reason).strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')) {
        Some(rest) => stated(&say!("the file {rest}", rest)),
        None => stated(reason),
    };
    let kept = kept.map(|kept| fill("{file} is still here.", &[("file", &kept)]));
    Notice {
        title: fill("Could not open {file}", &[("file", &name)]),
        detail: spaced(&[&detail, kept.as_deref().unwrap_or_default()]),
        is_error: true,
    }
}

/// The worker died and was started again.
pub(crate) fn restarted(at_fault: Option<&str>, kept: Option<&str>) -> Notice {
    let why = match at_fault {
        Some(name) => {
            fill("{file} stopped the estimator. Please report this bug.", &[("file", &name)])
        }
        None => tr("The last setting stopped the estimator. Please report this bug."),
    };
    let now = match kept {
        Some(kept) => fill("It was started again, with {file}.", &[("file", &kept)]),
        None => tr("It was started again."),
    };
    Notice {
        title: tr("The estimator had to be restarted"),
        detail: spaced(&[&why, &now]),
        is_error: true,
    }
}

/// The worker does not come back.
pub(crate) fn stopped_for_good() -> Notice {
    Notice {
        title: tr("The estimator does not start"),
        detail: tr(
            "Reload the page. If that does not help, try a current Firefox, Chrome or Safari.",
        ),
        is_error: true,
    }
}

/// More files were dropped than can be compared.
pub(crate) fn not_opened(names: &str) -> Notice {
    Notice {
        title: tr("Two models can be compared at a time"),
        detail: fill("Not opened: {names}. Drop them again to see them.", &[("names", &names)]),
        is_error: false,
    }
}

/// Something other than a file was dropped.
pub(crate) fn not_a_file() -> Notice {
    Notice {
        title: tr("That was not a file"),
        detail: tr("Drop one file from your computer: a model, or a log with the message."),
        is_error: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::sentence;

    #[test]
    fn reasons_become_sentences() {
        let notice = refused(
            "a.zip",
            &say!("{name} is a zip archive; unpack it", name = "a.zip"),
            Some("b.onnx"),
        );
        assert_eq!(notice.title, "Could not open a.zip");
        assert_eq!(notice.detail, "The file is a zip archive; unpack it. b.onnx is still here.");
        assert_eq!(sentence("the file is empty"), "The file is empty.");
        assert_eq!(sentence("Was it moved?"), "Was it moved?");
        assert_eq!(sentence(""), ".");
    }
}
