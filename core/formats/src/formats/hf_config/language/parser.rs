//! Tokens → statements.

use super::lexer::{Token, tokens};
use super::mistake;
use crate::error::Error;
use crate::sentence::Sentence;

/// A line of a text, with what is indented below it.
#[derive(Debug)]
pub(in super::super) struct Statement<'t> {
    pub(super) line: usize,
    pub(super) kind: StatementKind<'t>,
}

pub(super) type Block<'t> = Vec<Statement<'t>>;

/// What a statement does.
#[derive(Debug)]
pub(super) enum StatementKind<'t> {
    /// `a = b = value`.
    Assign(Vec<Expr<'t>>, Expr<'t>),
    /// `a += value`: in place.
    Increase(Expr<'t>, Expr<'t>),
    Evaluate(Expr<'t>),
    /// `if`, each `elif`, and `else`.
    If(Vec<(Expr<'t>, Block<'t>)>),
    For(&'t str, Expr<'t>, Block<'t>),
    Return(Expr<'t>),
    Delete(&'t str),
    Define(Function<'t>),
    Class(Class<'t>),
}

#[derive(Debug)]
pub(super) struct Function<'t> {
    pub(super) name: &'t str,
    /// Names, and what they are where nothing is given.
    pub(super) parameters: Vec<(&'t str, Option<Expr<'t>>)>,
    /// The name of all further arguments.
    pub(super) others: Option<&'t str>,
    pub(super) body: Block<'t>,
    pub(super) file: &'t str,
}

#[derive(Debug)]
pub(in super::super) struct Class<'t> {
    pub(super) name: &'t str,
    /// The class whose methods and settings it has but for its own.
    pub(in super::super) base: Option<&'t str>,
    pub(in super::super) settings: Vec<(Vec<&'t str>, Expr<'t>)>,
    pub(super) methods: Vec<Function<'t>>,
}

#[derive(Debug)]
pub(in super::super) enum Expr<'t> {
    None,
    Flag(bool),
    Int(i64),
    Float(f64),
    Text(&'t str),
    Name(&'t str),
    List(Vec<Expr<'t>>),
    /// `[item for name in list]`
    Each(Box<Expr<'t>>, &'t str, Box<Expr<'t>>),
    Field(Box<Expr<'t>>, &'t str),
    Item(Box<Expr<'t>>, Box<Expr<'t>>),
    Call(Box<Expr<'t>>, Vec<Argument<'t>>),
    Not(Box<Expr<'t>>),
    Minus(Box<Expr<'t>>),
    Binary(&'static str, Box<Expr<'t>>, Box<Expr<'t>>),
    /// `first if condition else second`: condition, first, second.
    Choice(Box<[Expr<'t>; 3]>),
}

#[derive(Debug)]
pub(in super::super) struct Argument<'t> {
    pub(in super::super) name: Option<&'t str>,
    /// `*list`
    pub(super) spreads: bool,
    pub(in super::super) value: Expr<'t>,
}

/// Operators of two operands, from those that bind least.
const LEVELS: [&[&str]; 6] = [
    &["or"],
    &["and"],
    &["==", "!=", "<=", ">=", "<", ">", "in", "is"],
    &["+", "-"],
    &["*", "//", "/", "%", "@"],
    &["**"],
];

/// COUNT: expressions and blocks inside each other, at most.
const DEPTH_MAX: usize = 40;

/// Reads the text of a family.
///
/// # Errors
/// With the line, when the text breaks the grammar.
pub(in super::super) fn parse<'t>(
    file: &'t str,
    text: &'t str,
) -> Result<Vec<Statement<'t>>, Error> {
    let mut parser = Parser { file, tokens: tokens(file, text)?, at: 0, depth: 0 };
    let mut statements = Vec::new();
    while parser.peek() != Token::End {
        statements.push(parser.statement()?);
    }
    Ok(statements)
}

/// The arguments of a file's first statement, `family("gpt2", task="CausalLM")`: texts by name, the first without one.
///
/// # Errors
/// When the file begins otherwise.
pub(in super::super) fn header<'t>(
    file: &'t str,
    text: &'t str,
) -> Result<Vec<(&'t str, &'t str)>, Error> {
    let first = parse(file, through(text, "\nfamily(").unwrap_or_default())?.into_iter().next();
    if let Some(StatementKind::Evaluate(Expr::Call(_, arguments))) = first.map(|first| first.kind) {
        let row = |argument: Argument<'t>| match argument.value {
            Expr::Text(text) => Some((argument.name.unwrap_or_default(), text)),
            _ => None,
        };
        return Ok(arguments.into_iter().filter_map(row).collect());
    }
    Err(mistake(file, 1, &say!("a file begins with `family(…)`")))
}

/// The class `Layout` of a file, which stands near its beginning; the rest of the file is not read.
///
/// # Errors
/// With the line, when the text breaks the grammar.
pub(in super::super) fn layout<'t>(
    file: &'t str,
    text: &'t str,
) -> Result<Option<Class<'t>>, Error> {
    let Some(text) = through(text, "\nclass Layout") else { return Ok(None) };
    Ok(parse(file, text)?.pop().and_then(|last| match last.kind {
        StatementKind::Class(class) => Some(class),
        _ => None,
    }))
}

/// A text through the end of the statement that begins so.
fn through<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let inside = text.find(start)?.saturating_add(start.len());
    let rest = text.get(inside..)?;
    let is_next = |&(at, _): &(usize, &str)| {
        let next = rest.get(at..).and_then(|rest| rest.chars().nth(1));
        next.is_some_and(|next| !matches!(next, ' ' | '\n' | '#'))
    };
    let end = rest.match_indices('\n').find(is_next).map_or(rest.len(), |(at, _)| at);
    text.get(..inside.saturating_add(end))
}

struct Parser<'t> {
    file: &'t str,
    tokens: Vec<(Token<'t>, usize)>,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.tokens.get(self.at).map_or(Token::End, |&(token, _)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |&(_, line)| line)
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at = self.at.saturating_add(1);
        token
    }

    /// Goes over a token if it is the next.
    fn accept(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == token;
        self.at = self.at.saturating_add(usize::from(found));
        found
    }

    fn sign(&mut self, sign: &'static str) -> bool {
        self.accept(Token::Sign(sign))
    }

    fn expect(&mut self, token: Token<'_>, what: &Sentence) -> Result<(), Error> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    fn unexpected(&self, wanted: &Sentence) -> Error {
        let found = match self.peek() {
            Token::Name(name) => Sentence::name(&format!("`{name}`")),
            Token::Text(text) => say!("the text \"{text}\"", text),
            Token::Int(n) => Sentence::name(&format!("`{n}`")),
            Token::Float(x) => Sentence::name(&format!("`{x}`")),
            Token::Sign(sign) => Sentence::name(&format!("`{sign}`")),
            Token::NewLine => say!("the end of the line"),
            Token::Indent => say!("a deeper line"),
            Token::Dedent | Token::End => say!("the end of the block"),
        };
        mistake(
            self.file,
            self.line(),
            &say!("{wanted} is expected, and {found} found", wanted, found),
        )
    }

    fn name(&mut self) -> Result<&'t str, Error> {
        match self.peek() {
            Token::Name(name) => {
                self.at = self.at.saturating_add(1);
                Ok(name)
            }
            _ => Err(self.unexpected(&say!("a name"))),
        }
    }

    /// Runs a rule one level deeper.
    fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= DEPTH_MAX {
            return Err(mistake(self.file, self.line(), &say!("nested too deeply")));
        }
        self.depth = self.depth.saturating_add(1);
        let result = rule(self);
        self.depth = self.depth.saturating_sub(1);
        result
    }

    fn block(&mut self) -> Result<Block<'t>, Error> {
        self.expect(Token::Sign(":"), &say!("`:`"))?;
        self.expect(Token::NewLine, &say!("the end of the line"))?;
        self.expect(Token::Indent, &say!("a deeper line"))?;
        self.deeper(|parser| {
            let mut statements = Vec::new();
            while !parser.accept(Token::Dedent) {
                statements.push(parser.statement()?);
            }
            Ok(statements)
        })
    }

    fn statement(&mut self) -> Result<Statement<'t>, Error> {
        let line = self.line();
        let kind = match self.peek() {
            Token::Sign("if") => self.branches()?,
            Token::Sign("for") => {
                self.take();
                let name = self.name()?;
                self.expect(Token::Sign("in"), &say!("`in`"))?;
                StatementKind::For(name, self.expression()?, self.block()?)
            }
            Token::Sign("def") => StatementKind::Define(self.function()?),
            Token::Sign("class") => StatementKind::Class(self.class()?),
            _ => {
                let kind = self.simple()?;
                self.expect(Token::NewLine, &say!("the end of the line"))?;
                kind
            }
        };
        Ok(Statement { line, kind })
    }

    fn simple(&mut self) -> Result<StatementKind<'t>, Error> {
        if self.sign("del") {
            return Ok(StatementKind::Delete(self.name()?));
        }
        if self.sign("return") {
            let nothing = self.peek() == Token::NewLine;
            return Ok(StatementKind::Return(if nothing { Expr::None } else { self.several()? }));
        }
        let first = self.several()?;
        if self.sign("+=") {
            return Ok(StatementKind::Increase(first, self.several()?));
        }
        let mut all = vec![first];
        while self.sign("=") {
            all.push(self.several()?);
        }
        let value = all.pop().unwrap_or(Expr::None);
        Ok(if all.is_empty() {
            StatementKind::Evaluate(value)
        } else {
            StatementKind::Assign(all, value)
        })
    }

    fn branches(&mut self) -> Result<StatementKind<'t>, Error> {
        let mut branches = Vec::new();
        while self.sign(if branches.is_empty() { "if" } else { "elif" }) {
            branches.push((self.expression()?, self.block()?));
        }
        if self.sign("else") {
            branches.push((Expr::Flag(true), self.block()?));
        }
        Ok(StatementKind::If(branches))
    }

    fn function(&mut self) -> Result<Function<'t>, Error> {
        self.take();
        let name = self.name()?;
        self.expect(Token::Sign("("), &say!("`(`"))?;
        let (mut parameters, mut others) = (Vec::new(), None);
        while !self.sign(")") {
            if self.sign("*") {
                others = Some(self.name()?);
            } else {
                let name = self.name()?;
                let usual = if self.sign("=") { Some(self.expression()?) } else { None };
                parameters.push((name, usual));
            }
            if self.peek() != Token::Sign(")") {
                self.expect(Token::Sign(","), &say!("`,` or `)`"))?;
            }
        }
        Ok(Function { name, parameters, others, body: self.block()?, file: self.file })
    }

    fn class(&mut self) -> Result<Class<'t>, Error> {
        self.take();
        let name = self.name()?;
        let mut base = None;
        if self.sign("(") {
            base = Some(self.name()?);
            self.expect(Token::Sign(")"), &say!("`)`"))?;
        }
        let (mut settings, mut methods) = (Vec::new(), Vec::new());
        for statement in self.block()? {
            match statement.kind {
                StatementKind::Define(function) => methods.push(function),
                StatementKind::Assign(targets, value) => {
                    let names = targets.iter().map(|target| match target {
                        Expr::Name(name) => Ok(*name),
                        _ => Err(mistake(
                            self.file,
                            statement.line,
                            &say!("a setting has plain names"),
                        )),
                    });
                    settings.push((names.collect::<Result<_, _>>()?, value));
                }
                _ => {
                    let message = say!("a class has settings or methods, and nothing else");
                    return Err(mistake(self.file, statement.line, &message));
                }
            }
        }
        Ok(Class { name, base, settings, methods })
    }

    /// `a, b`: a list without brackets.
    fn several(&mut self) -> Result<Expr<'t>, Error> {
        let first = self.expression()?;
        if self.peek() != Token::Sign(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.sign(",") {
            all.push(self.expression()?);
        }
        Ok(Expr::List(all))
    }

    fn expression(&mut self) -> Result<Expr<'t>, Error> {
        self.deeper(|parser| {
            let first = parser.binary(0)?;
            if !parser.sign("if") {
                return Ok(first);
            }
            let condition = parser.binary(0)?;
            parser.expect(Token::Sign("else"), &say!("`else`"))?;
            Ok(Expr::Choice(Box::new([condition, first, parser.expression()?])))
        })
    }

    fn binary(&mut self, level: usize) -> Result<Expr<'t>, Error> {
        let Some(signs) = LEVELS.get(level) else { return self.postfix() };
        if level == 2 && self.sign("not") {
            return Ok(Expr::Not(Box::new(self.deeper(|parser| parser.binary(level))?)));
        }
        if level == 5 && self.sign("-") {
            return Ok(Expr::Minus(Box::new(self.deeper(|parser| parser.binary(level))?)));
        }
        let deeper = level.saturating_add(1);
        let mut left = self.binary(deeper)?;
        while let Some(&sign) = signs.iter().find(|sign| self.sign(sign)) {
            let negates = sign == "is" && self.sign("not");
            let right = self.binary(deeper)?;
            left = Expr::Binary(sign, Box::new(left), Box::new(right));
            if negates {
                left = Expr::Not(Box::new(left));
            }
        }
        Ok(left)
    }

    /// A value, and what is called or read of it.
    fn postfix(&mut self) -> Result<Expr<'t>, Error> {
        let mut value = self.atom()?;
        loop {
            value = if self.sign("(") {
                Expr::Call(Box::new(value), self.arguments()?)
            } else if self.sign(".") {
                Expr::Field(Box::new(value), self.name()?)
            } else if self.sign("[") {
                let index = self.expression()?;
                self.expect(Token::Sign("]"), &say!("`]`"))?;
                Expr::Item(Box::new(value), Box::new(index))
            } else {
                return Ok(value);
            };
        }
    }

    fn arguments(&mut self) -> Result<Vec<Argument<'t>>, Error> {
        let mut arguments = Vec::new();
        while !self.sign(")") {
            let spreads = self.sign("*");
            let (value, mut name) = (self.expression()?, None);
            let value = match value {
                Expr::Name(called) if self.sign("=") => {
                    name = Some(called);
                    self.expression()?
                }
                value => value,
            };
            arguments.push(Argument { name, spreads, value });
            if self.peek() != Token::Sign(")") {
                self.expect(Token::Sign(","), &say!("`,` or `)`"))?;
            }
        }
        Ok(arguments)
    }

    fn atom(&mut self) -> Result<Expr<'t>, Error> {
        let atom = match self.peek() {
            Token::Int(n) => Expr::Int(n),
            Token::Float(x) => Expr::Float(x),
            Token::Text(text) => Expr::Text(text),
            Token::Name(name) => Expr::Name(name),
            Token::Sign("None") => Expr::None,
            Token::Sign("True") => Expr::Flag(true),
            Token::Sign("False") => Expr::Flag(false),
            Token::Sign("(") => {
                self.take();
                let inside = self.several()?;
                self.expect(Token::Sign(")"), &say!("`)`"))?;
                return Ok(inside);
            }
            Token::Sign("[") => {
                self.take();
                return self.list();
            }
            _ => return Err(self.unexpected(&say!("a value"))),
        };
        self.take();
        Ok(atom)
    }

    fn list(&mut self) -> Result<Expr<'t>, Error> {
        let mut all = Vec::new();
        while !self.sign("]") {
            all.push(self.expression()?);
            if all.len() == 1 && self.sign("for") {
                let name = self.name()?;
                self.expect(Token::Sign("in"), &say!("`in`"))?;
                let list = self.expression()?;
                self.expect(Token::Sign("]"), &say!("`]`"))?;
                let item = all.pop().unwrap_or(Expr::None);
                return Ok(Expr::Each(Box::new(item), name, Box::new(list)));
            }
            if self.peek() != Token::Sign("]") {
                self.expect(Token::Sign(","), &say!("`,` or `]`"))?;
            }
        }
        Ok(Expr::List(all))
    }
}
