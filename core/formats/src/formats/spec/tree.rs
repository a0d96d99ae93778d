//! Text → [`Tree`]: lists, mappings and scalars, each with its place. YAML, JSON and TOML share this form.
//!
//! - JSON is read as the YAML that it is.
//! - Anchors and tags are refused: a spec has `repeat`, and an alias could stand for billions.
//! - Nesting and the number of nodes are bounded.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use crate::error::{Error, ErrorKind, Place};
use crate::sentence::Sentence;

/// COUNT: lists and mappings inside each other, at most.
pub(crate) const DEPTH_MAX: usize = 48;

/// COUNT: nodes of a text, at most.
const NODES_MAX: usize = 200_000;

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Where it begins.
    pub place: Place,
    /// What it is.
    pub content: Content,
}

/// What the piece is.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Nothing.
    Null,
    /// A truth value.
    Flag(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Number(f64),
    /// Anything else in one piece.
    Text(String),
    /// Pieces in a row.
    List(Vec<Tree>),
    /// Pieces by their keys, in the order of the text.
    Map(Vec<(Key, Tree)>),
}

/// A key of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Where it stands.
    pub place: Place,
    /// The key.
    pub text: String,
}

impl Tree {
    /// What it is, for messages: `a list`.
    pub(crate) fn kind(&self) -> Sentence {
        match &self.content {
            Content::Null => say!("nothing"),
            Content::Flag(flag) => Sentence::name(&format!("`{flag}`")),
            Content::Int(n) => say!("the number {n}", n),
            Content::Number(x) => say!("the number {x}", x),
            Content::Text(text) => say!("the text `{text}`", text = shortened(text)),
            Content::List(_) => say!("a list"),
            Content::Map(_) => say!("a mapping"),
        }
    }
}

/// The beginning of a text that may be long.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 40;
    let line = text.lines().next().unwrap_or_default();
    let start: String = line.chars().take(LONGEST).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

/// An error about a place.
pub fn fault(place: Place, message: Sentence) -> Error {
    let error = Error::new(ErrorKind::BadSpec, message);
    if place == Place::default() { error } else { error.at(place) }
}

/// Reads YAML or JSON.
///
/// # Errors
/// When the text is neither, has more than one document, repeats a key, or nests too deeply.
pub fn parse(text: &str) -> Result<Tree, Error> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let info = error.info();
            let hint = if text.contains('\t') && info.contains("token") {
                say!("; YAML is indented with spaces, not with tabs")
            } else {
                Sentence::default()
            };
            let message = say!("the text breaks off as YAML: {info}{hint}", info, hint);
            fault(place(error.marker()), message)
        })?;
        builder.event(event, span)?;
    }
    builder.root.ok_or_else(|| fault(Place { line: 1, column: 1 }, say!("the text is empty")))
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line(), column: marker.col().saturating_add(1) }
}

/// Lists and mappings that are still open.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Tree>,
    nodes: usize,
}

struct Open {
    place: Place,
    body: Body,
}

enum Body {
    List(Vec<Tree>),
    Map { entries: Vec<(Key, Tree)>, key: Option<Key> },
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Error> {
        let place = place(&span.start);
        match event {
            Event::Alias(_) => {
                let message =
                    say!("aliases (`*name`) are not read here: write `repeat` for what repeats");
                Err(fault(place, message))
            }
            Event::Scalar(text, style, _, tag) => {
                if tag.is_some() {
                    return Err(fault(
                        place,
                        say!("tags (`!name`) are not read here: leave it out"),
                    ));
                }
                let content = match style {
                    ScalarStyle::Plain => plain(&text),
                    _ => Content::Text(text.into_owned()),
                };
                self.put(Tree { place, content })
            }
            Event::SequenceStart(..) => self.open(place, Body::List(Vec::new())),
            Event::MappingStart(..) => {
                self.open(place, Body::Map { entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(fault(place, say!("a second document begins here; a spec is one")))
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, place: Place, body: Body) -> Result<(), Error> {
        if self.open.len() >= DEPTH_MAX {
            let message = say!(
                "lists and mappings lie more than {depth_max} deep in each other",
                depth_max = DEPTH_MAX
            );
            return Err(Error::new(ErrorKind::TooLarge, message).at(place));
        }
        self.open.push(Open { place, body });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(Open { place, body }) = self.open.pop() else { return Ok(()) };
        let content = match body {
            Body::List(items) => Content::List(items),
            Body::Map { entries, key: _ } => Content::Map(entries),
        };
        self.put(Tree { place, content })
    }

    fn put(&mut self, tree: Tree) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes > NODES_MAX {
            let message = say!("the text has more than {nodes_max} entries", nodes_max = NODES_MAX);
            return Err(Error::new(ErrorKind::TooLarge, message).at(tree.place));
        }
        let place = tree.place;
        match self.open.last_mut().map(|open| &mut open.body) {
            None => self.root = Some(tree),
            Some(Body::List(items)) => items.push(tree),
            Some(Body::Map { entries, key }) => {
                if let Some(name) = key.take() {
                    entries.push((name, tree));
                    return Ok(());
                }
                let text = key_text(&tree).ok_or_else(|| {
                    fault(place, say!("a key must be one word, such as `linear`"))
                })?;
                if entries.iter().any(|(known, _)| known.text == text) {
                    let message = say!("the key `{text}` appears a second time", text);
                    return Err(fault(place, message));
                }
                *key = Some(Key { place, text });
            }
        }
        Ok(())
    }
}

fn key_text(tree: &Tree) -> Option<String> {
    match &tree.content {
        Content::Text(text) => Some(text.clone()),
        Content::Int(n) => Some(n.to_string()),
        Content::Flag(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// A scalar without quotes, by the core schema of YAML 1.2 (`10.3.2` of the specification).
fn plain(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Content::Null,
        "true" | "True" | "TRUE" => return Content::Flag(true),
        "false" | "False" | "FALSE" => return Content::Flag(false),
        _ => {}
    }
    // `1_000_000` as in Python.
    let digits = text.replace('_', "");
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if is_number {
        if let Ok(n) = digits.parse() {
            return Content::Int(n);
        }
        if let Ok(x) = digits.parse::<f64>()
            && x.is_finite()
        {
            return Content::Number(x);
        }
    }
    Content::Text(text.to_owned())
}
