//! The JSON Schema of the language, derived from its tables: editors complete and check with it.

use std::fmt::Write as _;

use super::kinds::{Argument, Default, STRUCTURES, TABLE, Takes};
use super::parse::{KEYS, settings};
use crate::config::Kind;

/// The schema, as JSON with a line end (<https://json-schema.org/draft/2020-12>).
pub fn schema() -> String {
    let mut keys = Vec::new();
    for (name, about) in KEYS {
        let shape = match name {
            "highwater" => "\"const\": 1".to_owned(),
            "name" => "\"type\": \"string\"".to_owned(),
            "input" => "\"$ref\": \"#/$defs/input\"".to_owned(),
            "dims" => "\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\", \"minimum\": 1}".to_owned(),
            "layers" => "\"$ref\": \"#/$defs/layers\"".to_owned(),
            "outputs" => "\"$ref\": \"#/$defs/names\"".to_owned(),
            "loss" => "\"$ref\": \"#/$defs/train/properties/loss\"".to_owned(),
            _ => "\"$ref\": \"#/$defs/train\"".to_owned(),
        };
        keys.push(format!("    {}: {{{shape}, \"description\": {}}}", quoted(name), quoted(about)));
    }
    let words: Vec<String> = TABLE.iter().flat_map(names).map(quoted).collect();
    let definitions = [
        dims(),
        r#"    "names": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}"#
            .to_owned(),
        "    \"layers\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/layer\"}}"
            .to_owned(),
        format!(
            "    \"layer\": {{\"anyOf\": [\n      {{\"enum\": [{}]}},\n      {{\"type\": \"object\", \"minProperties\": 1, \"additionalProperties\": false, \"properties\": {{\n{}\n      }}}}\n    ]}}",
            words.join(", "),
            layer_properties()
        ),
        train(),
    ];
    format!(
        "{{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": \"Highwater layer spec\",\n  \"type\": \"object\",\n  \"required\": [\"input\", \"layers\"],\n  \"additionalProperties\": false,\n  \"properties\": {{\n{},\n    \"inputs\": {{\"$ref\": \"#/$defs/input\"}}\n  }},\n  \"$defs\": {{\n{}\n  }}\n}}\n",
        keys.join(",\n"),
        definitions.join(",\n")
    )
}

/// The layer's own name and PyTorch's.
fn names(kind: &super::LayerKind) -> impl Iterator<Item = &'static str> {
    let class = kind.class.trim_start_matches("nn.");
    [kind.name, class].into_iter().filter(|name| !name.is_empty())
}

fn dims() -> String {
    let shape = "{\"type\": \"array\", \"items\": {\"type\": [\"integer\", \"string\"]}}";
    let dtype = "{\"type\": \"string\"}";
    format!(
        "    \"input\": {{\"anyOf\": [{shape}, {{\"type\": \"object\", \"properties\": {{\"dtype\": {dtype}}}, \"additionalProperties\": {{\"anyOf\": [{shape}, {{\"type\": \"object\", \"properties\": {{\"shape\": {shape}, \"dtype\": {dtype}}}, \"required\": [\"shape\"], \"additionalProperties\": false}}]}}}}]}}"
    )
}

fn layer_properties() -> String {
    let layers = "{\"$ref\": \"#/$defs/layers\"}";
    let mut lines = vec![
        line(
            "name",
            "\"type\": \"string\", \"description\": \"name of the module and of its result\"",
        ),
        line(
            "from",
            "\"type\": \"string\", \"description\": \"name of an earlier layer or of an input that is read\"",
        ),
        line(
            "block",
            &format!(
                "\"$ref\": \"#/$defs/layers\", \"description\": {}",
                quoted("layers that repeat")
            ),
        ),
        line(
            "shortcut",
            "\"$ref\": \"#/$defs/layers\", \"description\": \"layers of a residual's other way\"",
        ),
        line(
            "inplace",
            "\"type\": \"boolean\", \"description\": \"whether a residual's sum overwrites\"",
        ),
        line(
            "join",
            "\"enum\": [\"concat\", \"add\", \"mul\"], \"description\": \"how branches meet\"",
        ),
        line("dim", "\"type\": \"integer\", \"description\": \"dimension along which\""),
    ];
    for (name, about) in STRUCTURES {
        let shape = match name {
            "repeat" => "\"type\": \"integer\", \"minimum\": 1".to_owned(),
            "branch" => format!("\"type\": \"array\", \"items\": {layers}"),
            "concat" | "add" | "mul" => "\"$ref\": \"#/$defs/names\"".to_owned(),
            _ => "\"$ref\": \"#/$defs/layers\"".to_owned(),
        };
        lines.push(line(name, &format!("{shape}, \"description\": {}", quoted(about))));
    }
    for kind in TABLE {
        let mut properties = Vec::new();
        for argument in kind.arguments {
            properties.push(format!("{}: {{{}}}", quoted(argument.name), argument_shape(argument)));
            properties.extend(
                argument
                    .aliases
                    .iter()
                    .map(|alias| format!("{}: {{{}}}", quoted(alias), argument_type(argument))),
            );
        }
        let object = format!(
            "{{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {{{}}}}}",
            properties.join(", ")
        );
        let short = kind.arguments.first().map_or_else(String::new, |argument| {
            format!(", {{{}}}, {{\"type\": \"array\"}}", argument_type(argument))
        });
        let shape = format!(
            "\"description\": {}, \"anyOf\": [{object}, {{\"type\": \"null\"}}{short}]",
            quoted(kind.about)
        );
        lines.extend(names(kind).map(|name| line(name, &shape)));
    }
    lines.join(",\n")
}

fn line(name: &str, shape: &str) -> String {
    format!("        {}: {{{shape}}}", quoted(name))
}

fn argument_type(argument: &Argument) -> String {
    const NUMBERS: &str = "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}";
    match argument.takes {
        Takes::Count => "\"type\": \"integer\", \"minimum\": 1".to_owned(),
        Takes::Counts => {
            format!("\"anyOf\": [{{\"type\": \"integer\", \"minimum\": 0}}, {NUMBERS}]")
        }
        Takes::Padding => format!(
            "\"anyOf\": [{{\"type\": \"integer\", \"minimum\": 0}}, {NUMBERS}, {{\"const\": \"same\"}}]"
        ),
        Takes::Index => "\"type\": \"integer\"".to_owned(),
        Takes::Ints => format!("\"anyOf\": [{{\"type\": \"integer\"}}, {NUMBERS}]"),
        Takes::Flag => "\"type\": \"boolean\"".to_owned(),
        Takes::Share => "\"type\": \"number\", \"minimum\": 0, \"maximum\": 1".to_owned(),
        Takes::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            format!("\"enum\": [{}]", words.join(", "))
        }
        Takes::Name => "\"type\": \"string\"".to_owned(),
    }
}

fn argument_shape(argument: &Argument) -> String {
    let mut shape = argument_type(argument);
    let default = match argument.default {
        Default::Needed | Default::Derived(_) => None,
        Default::Int(n) => Some(n.to_string()),
        Default::Share(x) => Some(x.to_string()),
        Default::Flag(flag) => Some(flag.to_string()),
        Default::Word(word) => Some(quoted(word)),
    };
    if let Some(default) = default {
        write!(shape, ", \"default\": {default}").ok();
    }
    let about = match argument.default {
        Default::Derived(what) => format!("{} (default: {what})", argument.about),
        _ => argument.about.to_owned(),
    };
    write!(shape, ", \"description\": {}", quoted(&about)).ok();
    shape
}

fn train() -> String {
    let properties = settings().map(|setting| {
        let shape = match setting.kind {
            Kind::Choice(values) => {
                let words: Vec<String> = values.iter().map(|value| quoted(value.name)).collect();
                format!("\"enum\": [{}]", words.join(", "))
            }
            Kind::Flag => "\"type\": \"boolean\"".to_owned(),
            Kind::Count => "\"type\": \"integer\", \"minimum\": 1".to_owned(),
            Kind::Names => "\"$ref\": \"#/$defs/names\"".to_owned(),
            Kind::Suggestion(_) => "\"type\": [\"string\", \"number\"]".to_owned(),
            _ => "\"type\": [\"string\", \"integer\"]".to_owned(),
        };
        let about = quoted(setting.help());
        line(&setting.key(), &format!("{shape}, \"description\": {about}"))
    });
    format!(
        "    \"train\": {{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {{\n{}\n    }}}}",
        properties.collect::<Vec<_>>().join(",\n")
    )
}

/// A text as JSON has it; the tables hold nothing that needs more.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
