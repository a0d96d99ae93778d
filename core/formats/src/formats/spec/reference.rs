//! The tables of layers in `docs/spec.md`, derived from the table of kinds.

use std::fmt::Write as _;

use super::kinds::{Argument, Default, STRUCTURES, TABLE, Takes};

/// All layers and arrangements as Markdown.
pub fn reference() -> String {
    let mut text = "| arrangement | what it is |\n|---|---|\n".to_owned();
    for (name, about) in STRUCTURES {
        writeln!(text, "| `{name}` | {about} |").ok();
    }
    text.push_str("\n| layer | stands for | arguments, in order |\n|---|---|---|\n");
    for kind in TABLE {
        let arguments: Vec<String> = kind.arguments.iter().map(argument).collect();
        let stands_for = match kind.class {
            "" => kind.about.to_owned(),
            class => format!("`{class}`: {}", kind.about),
        };
        writeln!(text, "| `{}` | {stands_for} | {} |", kind.name, arguments.join(", ")).ok();
    }
    text
}

/// `out_channels`, `stride` = 1
fn argument(argument: &Argument) -> String {
    let name = argument.name;
    let words = match argument.takes {
        Takes::Word(words) if words.len() <= 3 => format!(" ({})", words.join(", ")),
        _ => String::new(),
    };
    let default = match argument.default {
        Default::Needed => return format!("**`{name}`**{words}"),
        Default::Derived(what) => what.to_owned(),
        Default::Int(n) => n.to_string(),
        Default::Share(x) => x.to_string(),
        Default::Flag(flag) => flag.to_string(),
        Default::Word(word) => word.to_owned(),
    };
    format!("`{name}` = {default}{words}")
}
