//! A job in words, as people write it into a comment or an annotation: `model=resnet50 batch=32 optimizer=adamw`.

use highwater_core::config::{Kind, Setting};
use serde_json::{Map, Value, json};

use super::answer::Failure;

/// The key of a job for its words.
pub(super) const KEY: &str = "words";

/// Keys of a job that words can give. All others are settings.
const OF_JOB: [&str; 3] = ["model", "batch", "seq"];

/// Replaces the words of a job by what they state. Words can also be the JSON of a job.
pub(super) fn expand(job: &mut Map<String, Value>) -> Result<(), Failure> {
    let Some(words) = job.remove(KEY).filter(|words| !words.is_null()) else { return Ok(()) };
    let wrong = |message: String| Failure::new("bad-job", message).at(KEY);
    let Value::String(text) = &words else {
        return Err(wrong(format!("`{KEY}` must be a text, and is {words}")));
    };
    let stated = if text.trim_start().starts_with('{') {
        serde_json::from_str(text)
            .map_err(|error| wrong(format!("`{KEY}` begins as JSON and is none: {error}")))?
    } else {
        of_words(text).map_err(wrong)?
    };
    for (key, value) in stated {
        if job.contains_key(&key) {
            let message =
                format!("the job has `{key}`, and its `{KEY}` have it again; leave one out");
            return Err(wrong(message));
        }
        job.insert(key, value);
    }
    Ok(())
}

fn of_words(text: &str) -> Result<Map<String, Value>, String> {
    let (mut job, mut settings) = (Map::new(), Map::new());
    for word in text.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("`{word}` is not KEY=VALUE, such as model=resnet50"));
        };
        let (into, value) = match key {
            "model" => (&mut job, json!(value)),
            _ if OF_JOB.contains(&key) => (&mut job, number(value)),
            _ => (&mut settings, of_setting(key, value)),
        };
        if into.insert(key.to_owned(), value).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    if !settings.is_empty() {
        job.insert("settings".to_owned(), settings.into());
    }
    Ok(job)
}

/// A value in the type of its setting. What has another type stays a text, which is refused where it is read.
fn of_setting(key: &str, value: &str) -> Value {
    match Setting::named(&key.replace('_', "-")).map(|setting| setting.kind) {
        Some(Kind::Names) => value.split(',').collect(),
        Some(Kind::Flag) => value.parse().map_or_else(|_| json!(value), Value::Bool),
        Some(Kind::Count) => number(value),
        _ => json!(value),
    }
}

fn number(value: &str) -> Value {
    value.parse::<u64>().map_or_else(|_| json!(value), Value::from)
}
