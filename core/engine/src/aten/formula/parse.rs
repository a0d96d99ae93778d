//! The text of formulas → expressions.

use super::{Gradient, Row};
use crate::decimal;
use crate::order::InOrder as _;

/// Statements, of which the last without a name is the value.
#[derive(Debug, Default)]
pub(crate) struct Body(pub Vec<(Option<&'static str>, Expr)>);

/// An expression; operators are calls: `a + b` is `add(a, b)`.
#[derive(Debug)]
pub(crate) enum Expr {
    Int(i64),
    Float(f64),
    Text(&'static str),
    Name(&'static str),
    /// `#x`: the sizes of a tensor.
    Sizes(&'static str),
    /// `!x`: whether the gradient of a parameter is needed.
    Needs(&'static str),
    List(Vec<Expr>),
    /// `name=x` among arguments.
    Named(&'static str, Box<Expr>),
    Choice(Box<[Expr; 3]>),
    Call {
        name: &'static str,
        arguments: Vec<Expr>,
        is_method: bool,
    },
}

impl Body {
    /// Whether a formula reads the elements of what has this name.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.0.iter().any(|(_, expr)| expr.reads(name))
    }
}

impl Expr {
    fn reads(&self, wanted: &str) -> bool {
        match self {
            Self::Name(name) => *name == wanted,
            Self::List(list) => list.iter().any(|expr| expr.reads(wanted)),
            Self::Named(_, expr) => expr.reads(wanted),
            Self::Choice(parts) => parts.iter().any(|expr| expr.reads(wanted)),
            Self::Call { arguments, .. } => arguments.iter().any(|expr| expr.reads(wanted)),
            Self::Int(_) | Self::Float(_) | Self::Text(_) | Self::Sizes(_) | Self::Needs(_) => {
                false
            }
        }
    }
}

/// All rows of a text: one at the start of a line, its gradients indented by two, what goes on further.
pub(super) fn rows(text: &'static str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    // Rows that stand together.
    let mut together = 0;
    for line in entries(text) {
        let indented = line.starts_with(' ');
        if indented {
            let Some((of, _)) = line.split_once(':') else { continue };
            let body = line.get(of.len().saturating_add(1)..).unwrap_or("");
            let of: Vec<&'static str> = of.split(',').map(str::trim).collect();
            let first = rows.len().saturating_sub(together);
            for row in rows.iter_mut().skip(first) {
                row.gradients.push(Gradient { of: of.clone(), body: Parser::body(body) });
            }
            continue;
        }
        let Some((head, body)) = line.split_once('=') else { continue };
        let Some((names, parameters)) = head.split_once('(') else { continue };
        let parameters = parameters.trim().trim_end_matches(')');
        together = 0;
        for name in names.split_whitespace() {
            together = together.saturating_add(1);
            let (name, is_proven) =
                name.strip_suffix('~').map_or((name, true), |name| (name, false));
            let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
            rows.push(Row {
                name,
                is_proven,
                label: format!("aten::{plain}"),
                parameters: parameters
                    .split(',')
                    .map(str::trim)
                    .filter(|p| !p.is_empty())
                    .collect(),
                body: Parser::body(body),
                gradients: Vec::new(),
            });
        }
    }
    for row in &mut rows {
        row.gradients.order_by_key(|gradient| gradient.of.join(", "));
    }
    rows
}

/// Lines without comments, those that go on joined.
pub(crate) fn entries(text: &'static str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let (mut start, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        let goes_on = line.starts_with("    ");
        if !goes_on {
            found.extend(text.get(start..end));
            start = end;
        }
        end = end.saturating_add(line.len());
        if line.starts_with("//") || line.trim().is_empty() {
            start = end;
        }
    }
    found.extend(text.get(start..end));
    found.retain(|entry| !entry.trim().is_empty());
    found
}

/// A text and what of it is left.
struct Parser {
    rest: &'static str,
}

/// The statements of a text.
pub(crate) fn body(text: &'static str) -> Body {
    Parser::body(text)
}

/// The arguments of a text.
pub(crate) fn list(text: &'static str) -> Vec<Expr> {
    Parser { rest: text }.list(")")
}

/// Operators by their precedence, loosest first, with the calls that they are.
const LEVELS: [&[(&str, &str)]; 5] = [
    &[("||", "logical_or")],
    &[("&&", "logical_and")],
    &[("==", "eq"), ("!=", "ne"), ("<=", "le"), (">=", "ge"), ("<", "lt"), (">", "gt")],
    &[("+", "add"), ("-", "sub")],
    &[("*", "mul"), ("/", "div")],
];

impl Parser {
    fn body(text: &'static str) -> Body {
        let mut parser = Self { rest: text };
        let mut statements = Vec::new();
        loop {
            let name = parser.assigned();
            statements.push((name, parser.choice()));
            if !parser.take(";") {
                return Body(statements);
            }
        }
    }

    fn starts(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(token)
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.starts(token);
        if found {
            self.rest = self.rest.get(token.len()..).unwrap_or("");
        }
        found
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'static str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        word
    }

    fn name(&mut self) -> Option<&'static str> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        (first.is_ascii_alphabetic() || first == '_')
            .then(|| self.word(|c| c.is_ascii_alphanumeric() || c == '_'))
    }

    /// A name in front of `=`.
    fn assigned(&mut self) -> Option<&'static str> {
        let before = self.rest;
        let name = self.name().filter(|_| !self.starts("==") && self.take("="));
        if name.is_none() {
            self.rest = before;
        }
        name
    }

    fn choice(&mut self) -> Expr {
        let condition = self.binary(0);
        if !self.take("?") {
            return condition;
        }
        let yes = self.choice();
        self.take(":");
        let no = self.choice();
        Expr::Choice(Box::new([condition, yes, no]))
    }

    fn binary(&mut self, level: usize) -> Expr {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level.saturating_add(1));
        while let Some((_, name)) = operators.iter().find(|(token, _)| self.take(token)) {
            let right = self.binary(level.saturating_add(1));
            left = Expr::Call { name, arguments: vec![left, right], is_method: false };
        }
        left
    }

    fn unary(&mut self) -> Expr {
        if self.take("-") {
            return match self.unary() {
                Expr::Int(n) => Expr::Int(n.saturating_neg()),
                x => Expr::Call { name: "neg", arguments: vec![x], is_method: true },
            };
        }
        let mut object = self.primary();
        while self.take(".") {
            let name = self.name().unwrap_or("");
            let mut arguments = vec![object];
            self.take("(");
            arguments.extend(self.list(")"));
            object = Expr::Call { name, arguments, is_method: true };
        }
        object
    }

    fn primary(&mut self) -> Expr {
        if self.take("(") {
            let inner = self.choice();
            self.take(")");
            return inner;
        }
        if self.take("[") {
            return Expr::List(self.list("]"));
        }
        if self.take("'") {
            let text = self.word(|c| c != '\'');
            self.take("'");
            return Expr::Text(text);
        }
        if self.take("#") {
            return Expr::Sizes(self.name().unwrap_or(""));
        }
        if self.take("!") {
            return Expr::Needs(self.name().unwrap_or(""));
        }
        if let Some(name) = self.name() {
            if self.take("(") {
                return Expr::Call { name, arguments: self.list(")"), is_method: false };
            }
            return Expr::Name(name);
        }
        let number = self.word(|c| c.is_ascii_digit() || c == '.');
        match number.parse::<i64>() {
            Ok(n) => Expr::Int(n),
            Err(_) => Expr::Float(decimal::number(number).unwrap_or(0.0)),
        }
    }

    fn list(&mut self, end: &str) -> Vec<Expr> {
        let mut found = Vec::new();
        while !self.take(end) && !self.rest.is_empty() {
            let name = self.assigned();
            let value = self.choice();
            found.push(match name {
                Some(name) => Expr::Named(name, Box::new(value)),
                None => value,
            });
            self.take(",");
        }
        found
    }
}
