//! The layout of a family: where its parameters show its settings. Each family's file states it in `class Layout`.
//!
//! A row is a setting of the configuration, `n_layer = count("h")`, or a fact about the family's names (`marks`).
//! Paths are those of transformers 5, under the family's base. What a row may ask:
//!
//! | call | meaning |
//! |---|---|
//! | `size(path, axis)` | a dimension of a parameter |
//! | `count(path)` | the number of modules in a list |
//! | `has(path)` | whether there is such a parameter |
//! | `drop(path)`, `act(path)` | the probability of a dropout, the name of an activation |
//! | `root(x)` | the whole square root |
//! | `heads(x)` | heads that are `x` wide together; a second such row is that of the keys |
//!
//! A row whose parameter is missing states nothing, and neither does `None`.

use serde_json::Value as Json;

use super::families::Family;
use super::language::{Argument, Expr, layout, mistake};
use crate::error::Error;

/// A family's layout.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) model_type: &'static str,
    /// How names of its classes begin.
    pub(super) class: &'static str,
    /// The model inside of one with a head.
    pub(super) base: &'static str,
    /// Ends of the names of parameters by which a file is recognised; a family without any is not looked for in files.
    pub(super) marks: Vec<&'static str>,
    /// Ends of names that it does not have.
    pub(super) without: Vec<&'static str>,
    /// COUNT: rows of the vocabulary from which a file may be of this family; families with the same names differ so.
    pub(super) least_words: u64,
    /// Older names, each with that of today.
    pub(super) renamed: Vec<(&'static str, &'static str)>,
    /// Settings, each with what shows it.
    pub(super) settings: Vec<(&'static str, Expr<'static>)>,
    /// Numbers of heads, each with the width of all: of queries, then of keys where they may be fewer. Empty where a
    /// setting has the number.
    pub(super) heads: Vec<(&'static str, Expr<'static>)>,
    /// A norm of heads, whose size is the width of one.
    pub(super) norm: Option<&'static str>,
    /// The usual width of a head, by `width`, that of all queries, and `vocab`.
    width: Option<Expr<'static>>,
    /// The usual head: the end of a class's name.
    pub(super) head: &'static str,
    /// How the names of the head's parameters begin; none where a file need not have any.
    pub(super) head_parts: Vec<&'static str>,
    /// The table of words that a head may share.
    pub(super) words: Option<&'static str>,
    /// Whether published models of so many words, `vocab`, and that `width` share it.
    ties: Option<Expr<'static>>,
}

impl Layout {
    /// The layout of a family, if its own file states one; a layout may start from that of an earlier file.
    pub(super) fn of(
        family: &Family,
        files: &[(&'static str, &'static str)],
    ) -> Result<Option<Self>, Error> {
        let (mut rows, mut found, mut name): (Vec<(&str, Expr<'static>)>, _, _) =
            (Vec::new(), false, "");
        for &(file, text) in files {
            let class = layout(file, text)?;
            (found, name) = (class.is_some(), file);
            let Some(class) = class else { continue };
            if class.base.is_none() {
                rows.clear();
            }
            for (keys, mut value) in class.settings {
                if keys.len() > 1 && !matches!(value, Expr::None) {
                    return Err(mistake(
                        file,
                        1,
                        &say!("in a layout, only `None` has several names"),
                    ));
                }
                for key in keys {
                    let value = std::mem::replace(&mut value, Expr::None);
                    match rows.iter_mut().find(|row| row.0 == key) {
                        Some(row) => row.1 = value,
                        None => rows.push((key, value)),
                    }
                }
            }
        }
        if !found {
            return Ok(None);
        }
        let mut layout = Self {
            model_type: family.model_type,
            class: "",
            base: family.base,
            marks: Vec::new(),
            without: Vec::new(),
            least_words: 0,
            renamed: Vec::new(),
            settings: Vec::new(),
            heads: Vec::new(),
            norm: None,
            width: None,
            head: "ForCausalLM",
            head_parts: Vec::new(),
            words: None,
            ties: None,
        };
        for (key, value) in rows {
            if !layout.put(key, value) {
                let message = say!("`{key}` of the layout is not such a value", key);
                return Err(mistake(name, 1, &message));
            }
        }
        if layout.class.is_empty() {
            return Err(mistake(name, 1, &say!("a layout states `classes`")));
        }
        Ok(Some(layout))
    }

    /// Takes a row; whether its value is of the right kind.
    fn put(&mut self, key: &'static str, value: Expr<'static>) -> bool {
        match (key, value) {
            ("classes", Expr::Text(text)) => self.class = text,
            ("base", Expr::Text(text)) => self.base = text,
            ("head", Expr::Text(text)) => self.head = text,
            ("words", Expr::Text(text)) => self.words = Some(text),
            ("head_norm", Expr::Text(text)) => self.norm = Some(text),
            ("least_words", Expr::Int(n)) => self.least_words = u64::try_from(n).unwrap_or(0),
            ("marks", Expr::List(list)) => return texts(&list, &mut self.marks),
            ("without", Expr::List(list)) => return texts(&list, &mut self.without),
            ("head_parts", Expr::List(list)) => return texts(&list, &mut self.head_parts),
            ("renamed", Expr::List(list)) => {
                for pair in list {
                    let Expr::List(pair) = pair else { return false };
                    let [Expr::Text(old), Expr::Text(new)] = pair.as_slice() else { return false };
                    self.renamed.push((*old, *new));
                }
            }
            ("head_width", value) => self.width = Some(value),
            ("ties", value) => self.ties = Some(value),
            (_, Expr::None) => {}
            (
                "classes" | "base" | "head" | "words" | "head_norm" | "least_words" | "marks"
                | "without" | "head_parts" | "renamed",
                _,
            ) => return false,
            (key, Expr::Call(called, mut arguments))
                if matches!(*called, Expr::Name("heads")) && arguments.len() == 1 =>
            {
                let width = arguments.pop().map_or(Expr::None, |argument| argument.value);
                self.heads.push((key, width));
            }
            (key, value) => self.settings.push((key, value)),
        }
        true
    }

    /// The usual width of a head.
    pub(super) fn head_width(&self, width: u64, vocab: Option<u64>) -> u64 {
        let known = self.width.as_ref().and_then(|known| about(known, width, vocab));
        known.and_then(|known| known.as_u64()).unwrap_or(64)
    }

    /// Whether published models of this size share the table of words with the head; `None` where that is not stated.
    pub(super) fn ties(&self, vocab: u64, width: u64) -> Option<bool> {
        about(self.ties.as_ref()?, width, Some(vocab))?.as_bool()
    }
}

fn texts(list: &[Expr<'static>], into: &mut Vec<&'static str>) -> bool {
    for item in list {
        let Expr::Text(text) = item else { return false };
        into.push(text);
    }
    true
}

/// An expression of a model's size alone.
fn about(expression: &Expr<'_>, width: u64, vocab: Option<u64>) -> Option<Json> {
    value(expression, &|name, _| match name {
        "width" => Some(Json::from(width)),
        "vocab" => vocab.map(Json::from),
        _ => None,
    })
}

/// The value of an expression; `shown` answers names and calls. `None` where a part of it is missing.
pub(super) fn value(
    expression: &Expr<'_>,
    shown: &dyn Fn(&str, &[Json]) -> Option<Json>,
) -> Option<Json> {
    let value = |expression| value(expression, shown);
    let whole = |expression| value(expression).and_then(|value| value.as_u64());
    Some(match expression {
        Expr::Flag(flag) => Json::from(*flag),
        Expr::Int(n) => Json::from(*n),
        Expr::Float(x) => Json::from(*x),
        Expr::Text(text) => Json::from(*text),
        Expr::Name(name) => shown(name, &[])?,
        Expr::Not(inside) => Json::from(!value(inside)?.as_bool()?),
        Expr::Choice(parts) => {
            let [condition, first, second] = &**parts;
            value(if value(condition)?.as_bool()? { first } else { second })?
        }
        Expr::Call(called, arguments) => {
            let Expr::Name(name) = &**called else { return None };
            let given: Option<Vec<Json>> =
                arguments.iter().map(|Argument { value: given, .. }| value(given)).collect();
            match (*name, given?.as_slice()) {
                ("root", [of]) => Json::from(of.as_u64()?.isqrt()),
                (name, given) => shown(name, given)?,
            }
        }
        Expr::Binary("and", a, b) => Json::from(value(a)?.as_bool()? && value(b)?.as_bool()?),
        Expr::Binary("or", a, b) => Json::from(value(a)?.as_bool()? || value(b)?.as_bool()?),
        Expr::Binary(sign, a, b) => {
            let (a, b) = (whole(a)?, whole(b)?);
            match *sign {
                "-" => Json::from(a.checked_sub(b)?),
                "+" => Json::from(a.checked_add(b)?),
                "*" => Json::from(a.checked_mul(b)?),
                "//" => Json::from(a.checked_div(b)?),
                "%" => Json::from(a.checked_rem(b)?),
                "==" => Json::from(a == b),
                "<" => Json::from(a < b),
                "<=" => Json::from(a <= b),
                ">" => Json::from(a > b),
                ">=" => Json::from(a >= b),
                _ => return None,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::families::layouts;
    use super::*;

    /// Every layout can be read, every row of it has a value, and families that a file may be of have marks of their
    /// own.
    #[test]
    fn layouts_are_sound() {
        let layouts = layouts().unwrap();
        assert!(layouts.len() > 20, "{}", layouts.len());
        let all = |name: &str, given: &[Json]| match (name, given) {
            ("size", [Json::String(_), Json::Number(_)]) => Some(Json::from(1 << 20)),
            ("count", [Json::String(_)]) => Some(Json::from(2)),
            ("has", [Json::String(_)]) => Some(Json::from(true)),
            ("drop", [Json::String(_)]) => Some(Json::from(0.5)),
            ("act", [Json::String(_)]) => Some(Json::from("gelu")),
            _ => None,
        };
        for layout in &layouts {
            for (key, row) in layout.settings.iter().chain(&layout.heads) {
                assert!(value(row, &all).is_some(), "{}: {key}", layout.model_type);
            }
            assert!(layout.head_width(768, Some(100)) >= 8, "{}", layout.model_type);
            let same = layouts
                .iter()
                .find(|other| other.class == layout.class && other.model_type != layout.model_type);
            assert!(same.is_none(), "{same:?}");
        }
    }
}
