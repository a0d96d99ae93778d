//! Keys of a configuration that its family does not read. `keys.txt` states the effect of each: none, a refusal or a
//! warning; a key that is not there is a warning, too.

use super::super::spec::kinds::did_you_mean;
use super::FAMILY;
use super::settings::Settings;
use super::tree::shortened;
use crate::config::pattern;
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Error;
use crate::sentence::Sentence;

const TABLE: &str = include_str!("keys.txt");

/// Kinds of layers in `layer_types` that attend to other tokens, all or some of them: families with `layer_types`
/// run these, and others run the same operators for each.
const ATTENDING: [&str; 3] = ["full_attention", "sliding_attention", "chunked_attention"];

/// Where the kinds of layers stand.
const KINDS: &str = "layer_types";

/// The row of a key: its sign, and its message.
fn row(key: &str) -> Option<(&'static str, &'static str)> {
    TABLE.lines().find_map(|line| {
        let (sign, rest) =
            line.split_once(' ').filter(|(sign, _)| matches!(*sign, "=" | "!" | "?"))?;
        let (names, message) = rest.split_once(": ").unwrap_or((rest, ""));
        names.split(' ').any(|name| pattern::matches(name, key)).then_some((sign, message))
    })
}

/// What is reported of a configuration whose family read the keys `seen`.
///
/// # Errors
/// When a key states that the model is another one.
pub(super) fn report(c: Settings<'_>, seen: &[&str]) -> Result<Vec<Diagnostic>, Error> {
    if let Some(kind) = c.words(KINDS).into_iter().find(|kind| !ATTENDING.contains(kind)) {
        let message = say!("layers of the kind `{kind}` are not supported", kind = shortened(kind));
        return Err(c.fault(&[KINDS], &message));
    }
    contradictions(c, seen)?;
    let (mut ignored, mut reported) = (Vec::new(), Vec::new());
    let mut warn = |message: Sentence| {
        reported.push(Diagnostic::new(Severity::Warning, "unread-key", message));
    };
    for (part, key) in c.keys_and_those_of(seen) {
        if seen.contains(&key)
            || FAMILY.contains(&key)
            || matches!(key, "architectures" | "dtype" | "torch_dtype")
        {
            continue;
        }
        match row(key) {
            _ if key.starts_with('_') || part.is_off(key) => ignored.push(key),
            Some(("=", _)) => ignored.push(key),
            Some(("!", message)) => return Err(part.fault(&[key], &Sentence::read(message))),
            Some((_, message)) => {
                warn(say!(
                    "`{key}` of the configuration is not followed: {message}",
                    key = shortened(key),
                    message = Sentence::read(message)
                ));
            }
            None => {
                let meant = did_you_mean(key, seen.iter().copied());
                warn(say!(
                    "`{key}` of the configuration is unknown for this family, and ignored{meant}",
                    key = shortened(key),
                    meant
                ));
            }
        }
    }
    if !ignored.is_empty() {
        let names: Vec<_> = ignored.into_iter().map(shortened).collect();
        let message =
            say!("keys without effect on memory are ignored: {names}", names = names.join(", "));
        reported.push(Diagnostic::new(Severity::Info, "ignored-keys", message));
    }
    Ok(reported)
}

/// Refuses values with which the library makes no model: another number of kinds than of layers, and probabilities that
/// are none.
fn contradictions(c: Settings<'_>, seen: &[&str]) -> Result<(), Error> {
    const LAYERS: [&str; 3] = ["num_hidden_layers", "n_layer", "num_layers"];
    const PROBABILITIES: [&str; 5] =
        ["dropout", "pdrop", "dropout_p", "dropout_prob", "dropout_rate"];
    let kinds = c.words(KINDS).len();
    let layers = if kinds > 0 { c.maybe(&LAYERS)? } else { None };
    if let Some(layers) = layers.filter(|layers| u64::try_from(kinds) != Ok(*layers)) {
        let message =
            say!("it names the kinds of {kinds} layers, and there are {layers}", kinds, layers);
        return Err(c.fault(&[KINDS], &message));
    }
    for (part, key) in c.keys_and_those_of(seen) {
        let is_probability = PROBABILITIES.iter().any(|end| {
            key.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        });
        let value = part.number(&[key], 0.0);
        if is_probability && !(0.0..=1.0).contains(&value) {
            return Err(part.fault(&[key], &say!("a probability is from 0 to 1")));
        }
    }
    Ok(())
}

/// Refuses quantized weights, also of a configuration of which only a part is read.
pub(super) fn refuse_quantized(c: Settings<'_>) -> Result<(), Error> {
    const KEY: &str = "quantization_config";
    match row(KEY) {
        Some((_, message)) if !c.is_off(KEY) => Err(c.fault(&[KEY], &Sentence::read(message))),
        _ => Ok(()),
    }
}
