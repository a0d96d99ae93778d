//! Calls with their arguments, from the text of a Python script. Nothing is executed: a value is a literal, a name, a
//! call, or unknown.

use std::collections::BTreeMap;

use super::value::{Call, Entry, Value};
use crate::error::Place;

/// COUNT: brackets inside each other, at most; what lies deeper is unknown.
const DEPTH_MAX: usize = 32;

/// COUNT: members of a list or mapping that a variable is remembered with.
const REMEMBERED_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// `torch.bfloat16` is one name.
    Name(String),
    Text(String),
    Int(i64),
    Number(f64),
    /// A bracket, a comma, an operator.
    Sign(&'static str),
    /// The end of a statement.
    End,
}

/// Operators and brackets, the longest first.
const SIGNS: [&str; 42] = [
    "**=", "//=", ">>=", "<<=", "...", "==", "!=", "<=", ">=", "->", ":=", "+=", "-=", "*=", "/=",
    "%=", "&=", "|=", "^=", "**", "//", "<<", ">>", "(", ")", "[", "]", "{", "}", ",", ":", "=",
    "+", "-", "*", "/", "%", "<", ">", "@", "|", "&",
];

/// All calls of a script, those in the arguments of others before these.
pub(super) fn calls(text: &str) -> Vec<Call> {
    let mut parser =
        Parser { tokens: tokens(text), at: 0, calls: Vec::new(), known: BTreeMap::new() };
    parser.script();
    parser.calls
}

/// Tokens and their places. A text that never ends, ends with the script.
fn tokens(text: &str) -> Vec<(Token, Place)> {
    let mut found = Vec::new();
    let mut scanner = Scanner { rest: text, line: 1, column: 1 };
    let mut depth = 0_usize;
    while let Some(c) = scanner.rest.chars().next() {
        let place = Place { line: scanner.line, column: scanner.column };
        let mut push = |token| found.push((token, place));
        match c {
            '#' => {
                let end = scanner.rest.find('\n').unwrap_or(scanner.rest.len());
                scanner.skip(end);
            }
            '\n' | ';' => {
                if depth == 0 {
                    push(Token::End);
                }
                scanner.skip(1);
            }
            '\\' => {
                scanner.skip(1);
                let end = if scanner.rest.starts_with("\r\n") { 2 } else { 1 };
                if scanner.rest.starts_with(['\n', '\r']) {
                    scanner.skip(end);
                }
            }
            '"' | '\'' => push(Token::Text(scanner.text(false))),
            c if c.is_ascii_digit() => push(scanner.number()),
            '.' if scanner.rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit()) => {
                push(scanner.number());
            }
            c if c.is_alphabetic() || c == '_' => {
                let word = scanner.word();
                let is_prefix = word.len() <= 2 && word.chars().all(|c| "rbufRBUF".contains(c));
                if is_prefix && scanner.rest.starts_with(['"', '\'']) {
                    let raw = word.contains(['r', 'R']);
                    push(Token::Text(scanner.text(raw)));
                } else {
                    push(Token::Name(word));
                }
            }
            _ => match SIGNS.iter().find(|sign| scanner.rest.starts_with(**sign)) {
                Some(sign) => {
                    match *sign {
                        "(" | "[" | "{" => depth = depth.saturating_add(1),
                        ")" | "]" | "}" => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    push(Token::Sign(sign));
                    scanner.skip(sign.len());
                }
                None => scanner.skip(c.len_utf8()),
            },
        }
    }
    found
}

struct Scanner<'t> {
    rest: &'t str,
    line: usize,
    column: usize,
}

impl Scanner<'_> {
    /// Goes on by some bytes, which end between characters.
    fn skip(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        for c in gone.chars() {
            if c == '\n' {
                self.line = self.line.saturating_add(1);
                self.column = 1;
            } else {
                self.column = self.column.saturating_add(1);
            }
        }
        self.rest = rest;
    }

    /// A name with its dots.
    fn word(&mut self) -> String {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let word = self.rest.get(..end).unwrap_or_default().trim_end_matches('.').to_owned();
        self.skip(word.len().max(1));
        word
    }

    fn number(&mut self) -> Token {
        let mut end = 0_usize;
        let mut last = ' ';
        for c in self.rest.chars() {
            let is_sign = matches!(c, '+' | '-') && matches!(last, 'e' | 'E');
            if !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || is_sign) {
                break;
            }
            last = c;
            end = end.saturating_add(c.len_utf8());
        }
        let digits = self.rest.get(..end).unwrap_or_default().replace('_', "");
        self.skip(end.max(1));
        if let Ok(n) = digits.parse() {
            return Token::Int(n);
        }
        Token::Number(digits.parse().ok().filter(|x: &f64| x.is_finite()).unwrap_or(0.0))
    }

    /// A text in quotation marks, one or three.
    fn text(&mut self, raw: bool) -> String {
        let mark = if self.rest.starts_with('"') { "\"" } else { "'" };
        let triple = mark.repeat(3);
        let end = if self.rest.starts_with(&triple) { triple } else { mark.to_owned() };
        self.skip(end.len());
        let mut text = String::new();
        while let Some(c) = self.rest.chars().next() {
            if self.rest.starts_with(&end) {
                self.skip(end.len());
                break;
            }
            if c == '\n' && end.len() == 1 {
                break;
            }
            self.skip(c.len_utf8());
            if c == '\\' && !raw {
                let Some(next) = self.rest.chars().next() else { break };
                self.skip(next.len_utf8());
                match next {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    '\n' => {}
                    next => text.push(next),
                }
            } else {
                text.push(c);
            }
        }
        text
    }
}

struct Parser {
    tokens: Vec<(Token, Place)>,
    at: usize,
    calls: Vec<Call>,
    /// Variables with literals.
    known: BTreeMap<String, Value>,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn behind(&self) -> Option<&Token> {
        self.tokens.get(self.at.saturating_add(1)).map(|(token, _)| token)
    }

    fn place(&self) -> Place {
        self.tokens.get(self.at).map(|(_, place)| *place).unwrap_or_default()
    }

    fn go(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        if found {
            self.go();
        }
        found
    }

    fn is_at(&self, signs: &[&str]) -> bool {
        matches!(self.peek(), Some(Token::Sign(sign)) if signs.contains(sign))
    }

    fn script(&mut self) {
        let mut is_start = true;
        while self.peek().is_some() {
            let before = self.at;
            let assigned = match (self.peek(), self.behind()) {
                (Some(Token::Name(name)), Some(Token::Sign("="))) if is_start => Some(name.clone()),
                _ => None,
            };
            if let Some(name) = assigned {
                self.go();
                self.go();
                let value = self.value(0);
                match remembered(&value) {
                    Some(value) => self.known.insert(name, value),
                    None => self.known.remove(&name),
                };
            } else {
                self.value(0);
            }
            if self.at == before {
                self.go();
            }
            let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
            is_start = matches!(last, Some((Token::End | Token::Sign(":"), _)))
                || matches!(self.peek(), Some(Token::End));
        }
    }

    /// An expression; what is no literal, name or call is unknown, but its calls are found.
    fn value(&mut self, depth: usize) -> Value {
        if depth > DEPTH_MAX {
            self.skip();
            return Value::Opaque;
        }
        let mut value = self.atom(depth);
        loop {
            if self.is_at(&["*", "**", "//"]) {
                let is_power = self.is_at(&["**"]);
                let is_product = self.is_at(&["*"]);
                self.go();
                let other = self.atom(depth.saturating_add(1));
                value = match (value, other) {
                    (Value::Int(a), Value::Int(b)) if is_product => {
                        a.checked_mul(b).map_or(Value::Opaque, Value::Int)
                    }
                    (Value::Int(a), Value::Int(b)) if is_power => {
                        let power = u32::try_from(b).ok().and_then(|b| a.checked_pow(b));
                        power.map_or(Value::Opaque, Value::Int)
                    }
                    (Value::Int(a), Value::Int(b)) => {
                        a.checked_div(b).map_or(Value::Opaque, Value::Int)
                    }
                    _ => Value::Opaque,
                };
                continue;
            }
            let ends = [",", ")", "]", "}", ":", "="];
            let is_end = self.is_at(&ends) || matches!(self.peek(), None | Some(Token::End));
            if is_end {
                return value;
            }
            // `a + b`, `a if b else c`: an expression that goes on.
            value = Value::Opaque;
            let before = self.at;
            // A word such as `return` stands before a value without a sign.
            let is_sign =
                matches!(self.peek(), Some(Token::Sign(sign)) if !matches!(*sign, "(" | "[" | "{"));
            if is_sign {
                self.go();
            }
            if !self.is_at(&ends) {
                self.atom(depth.saturating_add(1));
            }
            if self.at == before {
                self.go();
            }
        }
    }

    fn atom(&mut self, depth: usize) -> Value {
        let place = self.place();
        let Some(token) = self.peek().cloned() else { return Value::Opaque };
        let value = match token {
            Token::End | Token::Sign(")" | "]" | "}" | "," | ":" | "=") => return Value::Opaque,
            Token::Int(n) => {
                self.go();
                Value::Int(n)
            }
            Token::Number(x) => {
                self.go();
                Value::Number(x)
            }
            Token::Text(mut text) => {
                self.go();
                // Texts that follow each other are one.
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.go();
                }
                Value::Text(text)
            }
            Token::Sign("-") => {
                self.go();
                match self.peek() {
                    Some(Token::Int(n)) => {
                        let n = n.checked_neg();
                        self.go();
                        n.map_or(Value::Opaque, Value::Int)
                    }
                    Some(Token::Number(x)) => {
                        let x = -x;
                        self.go();
                        Value::Number(x)
                    }
                    _ => Value::Opaque,
                }
            }
            Token::Sign("[") => self.list(depth),
            Token::Sign("{") => self.map(depth),
            Token::Sign("(") => self.group(depth),
            Token::Sign(_) => {
                self.go();
                Value::Opaque
            }
            Token::Name(name) => {
                self.go();
                match name.as_str() {
                    "True" => Value::Flag(true),
                    "False" => Value::Flag(false),
                    "None" => Value::Null,
                    _ if self.is_at(&["("]) => self.call(name, place, depth),
                    _ => self.known.get(&name).cloned().unwrap_or(Value::Name(name)),
                }
            }
        };
        self.trailers(value, place, depth)
    }

    /// `.name`, `(…)` and `[…]` behind a value: a call's method is a call by itself.
    fn trailers(&mut self, mut value: Value, place: Place, depth: usize) -> Value {
        loop {
            if self.is_at(&["["]) {
                self.list(depth.saturating_add(1));
                value = Value::Opaque;
            } else if self.is_at(&["("]) {
                value = self.call(String::new(), place, depth);
            } else if let Some(Token::Name(name)) = self.peek()
                && !matches!(value, Value::Name(_))
                && matches!(self.behind(), Some(Token::Sign("(")))
                && matches!(value, Value::Call(_))
            {
                // The dot between them is no token.
                let name = name.clone();
                self.go();
                value = self.call(name, place, depth);
            } else {
                return value;
            }
        }
    }

    /// Arguments in parentheses.
    fn call(&mut self, name: String, place: Place, depth: usize) -> Value {
        self.go();
        let mut call = Call { name, place, positional: Vec::new(), keywords: Vec::new() };
        while !self.takes(")") {
            if self.peek().is_none() {
                break;
            }
            let before = self.at;
            let place = self.place();
            let keyword = match (self.peek(), self.behind()) {
                (Some(Token::Name(key)), Some(Token::Sign("="))) => Some(key.clone()),
                _ => None,
            };
            if let Some(key) = keyword {
                self.go();
                self.go();
                let value = self.value(depth.saturating_add(1));
                call.keywords.push(Entry { key, place, value });
            } else if self.takes("**") {
                // `**{…}` and `**known` are keywords, too.
                match self.value(depth.saturating_add(1)) {
                    Value::Map(entries) => call.keywords.extend(entries),
                    other => {
                        call.keywords.push(Entry { key: "**".to_owned(), place, value: other });
                    }
                }
            } else {
                let value = self.value(depth.saturating_add(1));
                if self.at > before {
                    call.positional.push(value);
                }
            }
            if !self.takes(",") && self.at == before {
                self.go();
            }
        }
        self.calls.push(call.clone());
        Value::Call(call)
    }

    fn list(&mut self, depth: usize) -> Value {
        self.go();
        let mut items = Vec::new();
        while !self.takes("]") {
            if self.peek().is_none() {
                break;
            }
            let before = self.at;
            items.push(self.value(depth.saturating_add(1)));
            if !self.takes(",") && self.at == before {
                self.go();
            }
        }
        Value::List(items)
    }

    fn map(&mut self, depth: usize) -> Value {
        self.go();
        let mut entries = Vec::new();
        while !self.takes("}") {
            if self.peek().is_none() {
                break;
            }
            let (before, place) = (self.at, self.place());
            let key = self.value(depth.saturating_add(1));
            if self.takes(":") {
                let value = self.value(depth.saturating_add(1));
                if let Value::Text(key) = key {
                    entries.push(Entry { key, place, value });
                }
            }
            if !self.takes(",") && self.at == before {
                self.go();
            }
        }
        Value::Map(entries)
    }

    /// Parentheses: one value, or a tuple, which is a list here.
    fn group(&mut self, depth: usize) -> Value {
        self.go();
        let mut items = Vec::new();
        let mut is_tuple = false;
        while !self.takes(")") {
            if self.peek().is_none() {
                break;
            }
            let before = self.at;
            items.push(self.value(depth.saturating_add(1)));
            if self.takes(",") {
                is_tuple = true;
            } else if self.at == before {
                self.go();
            }
        }
        match items.pop() {
            Some(only) if items.is_empty() && !is_tuple => only,
            last => Value::List(items.into_iter().chain(last).collect()),
        }
    }

    /// Over a bracket and all in it, or over one token.
    fn skip(&mut self) {
        let mut open = 0_usize;
        while self.peek().is_some() {
            if self.is_at(&["(", "[", "{"]) {
                open = open.saturating_add(1);
            } else if self.is_at(&[")", "]", "}"]) {
                if open == 0 {
                    return;
                }
                open = open.saturating_sub(1);
            }
            self.go();
            if open == 0 {
                return;
            }
        }
    }
}

/// A value that a variable is remembered with: a literal of a size that people write.
fn remembered(value: &Value) -> Option<Value> {
    let is_plain = |value: &Value| {
        matches!(
            value,
            Value::Null
                | Value::Flag(_)
                | Value::Int(_)
                | Value::Number(_)
                | Value::Text(_)
                | Value::Name(_)
        )
    };
    let is_kept = match value {
        Value::List(items) => items.len() <= REMEMBERED_MAX && items.iter().all(is_plain),
        Value::Map(entries) => {
            entries.len() <= REMEMBERED_MAX && entries.iter().all(|entry| is_plain(&entry.value))
        }
        value => is_plain(value),
    };
    is_kept.then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn shown(value: &Value) -> String {
        match value {
            Value::Null => "None".to_owned(),
            Value::Flag(flag) => flag.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Number(x) => x.to_string(),
            Value::Text(text) => format!("{text:?}"),
            Value::Name(name) => name.clone(),
            Value::List(items) => {
                format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            Value::Map(entries) => format!("{{{}}}", keywords(entries)),
            Value::Call(call) => shown_call(call),
            Value::Opaque => "?".to_owned(),
        }
    }

    fn keywords(entries: &[Entry]) -> String {
        let entry = |entry: &Entry| format!("{}={}", entry.key, shown(&entry.value));
        entries.iter().map(entry).collect::<Vec<_>>().join(", ")
    }

    fn shown_call(call: &Call) -> String {
        let positional = call.positional.iter().map(shown).collect::<Vec<_>>().join(", ");
        let between = if positional.is_empty() || call.keywords.is_empty() { "" } else { ", " };
        format!("{}({positional}{between}{})", call.name, keywords(&call.keywords))
    }

    fn check(script: &str, expected: &Expect) {
        let lines = calls(script).iter().map(shown_call).collect::<Vec<_>>().join("\n");
        expected.assert_eq(&lines);
    }

    #[test]
    fn calls_and_their_arguments_are_read() {
        check(
            "x = 2 * 4\ny = \"a\" 'b'\nf(x, y, z, k=torch.bfloat16, n=None, on=True)  # f(9)",
            &expect![[r#"f(8, "ab", z, k=torch.bfloat16, n=None, on=true)"#]],
        );
        check(
            "SFTTrainer(m, args=c, peft_config=LoraConfig(r=8, t=[\"q\",\n \"v\"])).train()",
            &expect![[r#"
                LoraConfig(r=8, t=["q", "v"])
                SFTTrainer(m, args=c, peft_config=LoraConfig(r=8, t=["q", "v"]))
                train()"#]],
        );
        check(
            "f(a=1 + g(2), b=x if y else z, **{'c': 1e-4, \"d\": -3})",
            &expect![[r"
                g(2)
                f(a=?, b=?, c=0.0001, d=-3)"]],
        );
        check(
            "def f(self): return a.b(c, d=1) if not e(2) else 3",
            &expect![[r"
                f(self)
                a.b(c, d=1)
                e(2)"]],
        );
        check(
            "kw = dict(r=r_, t='''two\nlines''')\nf(**kw)\nclass A(B):\n  def g(self): x = 3; h(x)",
            &expect![[r#"
                dict(r=r_, t="two\nlines")
                f(**=kw)
                A(B)
                g(self)
                h(3)"#]],
        );
    }

    #[test]
    fn whatever_is_broken_ends() {
        let deep = "f(".repeat(5000);
        for text in
            ["f(", "f(a=", "'", "\"\"\"x", "f(a=[1,{2:3", ")", "]]", "\\", "x = ", "1e999", &deep]
        {
            calls(text);
        }
    }
}
