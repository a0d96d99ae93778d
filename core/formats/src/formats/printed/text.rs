//! Text → [`Printed`]: modules inside each other, as `torch.nn.Module.__repr__` writes them.
//!
//! Parentheses decide, not indentation: text copied from a chat or a terminal has lost it.

use crate::error::{Error, ErrorKind, Place};
use crate::formats::spec::Value;
use crate::sentence::Sentence;

/// COUNT: modules inside each other, at most.
const DEPTH_MAX: usize = 40;

/// COUNT: modules of a print, at most.
const MODULES_MAX: usize = 50_000;

/// COUNT: modules that one line may stand for.
const REPEAT_MAX: u64 = 1000;

/// Wrappers whose `forward` is that of the module inside, and what they call it.
const WRAPPERS: [(&str, &str); 5] = [
    ("DataParallel", "module"),
    ("DistributedDataParallel", "module"),
    ("OptimizedModule", "_orig_mod"),
    ("FullyShardedDataParallel", "_fsdp_wrapped_module"),
    ("AveragedModel", "module"),
];

/// A module as it was printed.
#[derive(Clone, Debug)]
pub(in crate::formats) struct Printed {
    pub(in crate::formats) name: String,
    pub(in crate::formats) class: String,
    /// Arguments without a name, in order.
    pub(super) positional: Vec<Value>,
    pub(in crate::formats) named: Vec<(String, Value)>,
    pub(in crate::formats) children: Vec<Self>,
    /// COUNT: alike modules that `(0-11): 12 x Layer(` stands for.
    pub(super) count: u64,
    pub(in crate::formats) place: Place,
}

impl Printed {
    /// A module without arguments.
    pub(in crate::formats) fn new(name: &str, class: &str, children: Vec<Self>) -> Self {
        Self {
            name: name.to_owned(),
            class: class.to_owned(),
            positional: Vec::new(),
            named: Vec::new(),
            children,
            count: 1,
            place: Place::default(),
        }
    }

    /// The child of this name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The first child that has one of these names.
    pub(super) fn any_child(&self, names: &[&str]) -> Option<&Self> {
        self.children.iter().find(|child| names.contains(&child.name.as_str()))
    }

    /// An argument by name, or by its position.
    pub(super) fn argument(&self, name: &str, position: Option<usize>) -> Option<&Value> {
        let named = self.named.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        named.or_else(|| self.positional.get(position?))
    }

    /// All modules without children, in order.
    pub(in crate::formats) fn leaves(&self) -> Box<dyn Iterator<Item = &Self> + '_> {
        if self.children.is_empty() {
            return Box::new(std::iter::once(self));
        }
        Box::new(self.children.iter().flat_map(Self::leaves))
    }

    /// The module inside of what only wraps it.
    pub(super) fn peeled(self) -> Self {
        let inside = WRAPPERS.iter().find(|(class, _)| self.class == *class);
        let Some((_, name)) = inside else { return self };
        match self.children.iter().position(|child| child.name == *name) {
            Some(index) => {
                let mut children = self.children;
                children.swap_remove(index).peeled()
            }
            None => self,
        }
    }

    /// COUNT: rows of the table of positions, where one is printed.
    pub(super) fn positions(&self) -> Option<u64> {
        let table = self.leaves().find(|leaf| {
            let name = leaf.name.to_ascii_lowercase();
            leaf.class.ends_with("Embedding")
                && (name.contains("pos") || name == "wpe")
                && leaf.argument("num_embeddings", Some(0)).is_some()
        })?;
        match table.argument("num_embeddings", Some(0))? {
            Value::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    pub(super) fn has_attention(&self) -> bool {
        self.class.contains("Attention") || self.children.iter().any(Self::has_attention)
    }
}

/// Whether a text has a module with a module inside: `Net(` and `(conv1): Conv2d(`; or lines of one
/// that has lost its beginning.
pub(in crate::formats) fn is_printed(text: &str) -> bool {
    beginning(text).is_some() || stray(text).is_some()
}

/// The first line that is a module inside of another: `(conv1): Conv2d(`.
fn stray(text: &str) -> Option<usize> {
    let lines = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
    std::iter::once(0).chain(lines).find(|&at| {
        let line = text.get(at..).unwrap_or_default().trim_start_matches([' ', '\t']);
        child_name(line).is_some_and(|(_, rest)| {
            let class = rest.trim_start_matches(' ');
            let end = class.find(|c: char| !is_word(c)).unwrap_or(0);
            class.starts_with(|c: char| c.is_ascii_uppercase())
                && class.get(end..).is_some_and(|rest| rest.starts_with('('))
        })
    })
}

/// Where the outermost module begins: behind prompts and whatever else was copied.
fn beginning(text: &str) -> Option<usize> {
    text.match_indices('(').find_map(|(open, _)| {
        let before = text.get(..open)?;
        let word = before.trim_end_matches(is_word);
        let class = before.get(word.len()..)?;
        if !class.starts_with(|c: char| c.is_ascii_uppercase() || c == '_') {
            return None;
        }
        let inside = text.get(open.saturating_add(1)..)?.trim_start();
        let (_, rest) = child_name(inside)?;
        let rest = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = rest.strip_prefix(" x ").unwrap_or(rest);
        let class_end = rest.find(|c: char| !is_word(c))?;
        (class_end > 0 && rest.get(class_end..)?.starts_with('(')).then_some(word.len())
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `(name):` and what stands behind.
fn child_name(text: &str) -> Option<(&str, &str)> {
    const LONGEST: usize = 128;
    let inside = text.strip_prefix('(')?;
    let (end, _) = inside.char_indices().take(LONGEST).find(|(_, c)| *c == ')')?;
    let name = inside.get(..end)?;
    let rest = inside.get(end.saturating_add(1)..)?.strip_prefix(':')?;
    let is_name = |c: char| is_word(c) || matches!(c, '-' | '.' | '/' | ':' | '@');
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, rest))
}

/// Reads the print of a model.
///
/// # Errors
/// With the line at which it breaks off, or nests too deeply.
pub(super) fn parse(text: &str) -> Result<Printed, Error> {
    let lines = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
    let lines = std::iter::once(0).chain(lines).collect();
    let mut parser = Parser { text, at: 0, lines, modules: 0 };
    let start = beginning(text);
    // A module inside of another stands before the outermost, or is taken for it.
    let before = start.map_or(text.len(), |start| start.saturating_add(1));
    if let Some(at) = stray(text).filter(|&at| at < before) {
        parser.at = at;
        let message = say!(
            "the beginning of the print is missing: here is a module inside of another, \
                       and the line that opens that, such as `Net(`, is not there"
        );
        return Err(parser.fault(message));
    }
    parser.at = start.ok_or_else(|| {
        Error::new(
            ErrorKind::BadSpec,
            say!("here is no print of a model: `Net(`, `(conv1): Conv2d(…)`"),
        )
    })?;
    let printed = parser.module(String::new(), 0)?;
    let end = parser.at;
    if let Some(second) = beginning(parser.rest()) {
        parser.skip(second);
        let class = parser.rest().split('(').next().unwrap_or_default();
        let message = say!(
            "a second model, `{class}`, begins here, behind `{class_2}`; one print is read at a time",
            class,
            class_2 = printed.class
        );
        // A module with parts that stands where none can is of the first.
        if stray(text.get(end..).unwrap_or_default()).is_none_or(|at| at > second) {
            return Err(parser.fault(message));
        }
    }
    if let Some(at) = stray(text.get(end..).unwrap_or_default()) {
        parser.at = end.saturating_add(at);
        let message = say!(
            "`{class}` is closed before this module: there is one `)` too many above, or a line is missing",
            class = printed.class
        );
        return Err(parser.fault(message));
    }
    Ok(printed)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    /// Where lines begin.
    lines: Vec<usize>,
    modules: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    const fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn skip_while(&mut self, is: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !is(c)).unwrap_or(rest.len());
        self.skip(end);
        rest.get(..end).unwrap_or_default()
    }

    fn place(&self) -> Place {
        let line = self.lines.partition_point(|&start| start <= self.at);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        // Prints are ASCII, and a line may be the whole text.
        Place { line, column: self.at.saturating_sub(start).saturating_add(1) }
    }

    fn fault(&self, message: Sentence) -> Error {
        Error::new(ErrorKind::BadSpec, message).at(self.place())
    }

    fn module(&mut self, name: String, depth: usize) -> Result<Printed, Error> {
        self.modules = self.modules.saturating_add(1);
        if depth > DEPTH_MAX || self.modules > MODULES_MAX {
            let message = say!(
                "modules lie more than {depth_max} deep in each other, or are more than {modules_max}",
                depth_max = DEPTH_MAX,
                modules_max = MODULES_MAX
            );
            return Err(Error::new(ErrorKind::TooLarge, message).at(self.place()));
        }
        let place = self.place();
        let count = self.count()?;
        let class = self.skip_while(|c| is_word(c) || c == '.');
        let class = class.rsplit('.').next().unwrap_or(class).to_owned();
        if class.is_empty() || !self.rest().starts_with('(') {
            let message = say!("behind `({name}):` a module is expected, such as `ReLU()`", name);
            return Err(self.fault(message));
        }
        self.skip(1);
        let (positional, named, children) = (Vec::new(), Vec::new(), Vec::new());
        let mut printed = Printed { name, class, positional, named, children, count, place };
        loop {
            self.skip_while(|c| c.is_whitespace() || c == ',');
            let rest = self.rest();
            if rest.is_empty() {
                let message = say!(
                    "the print breaks off: `{class}`, which begins in line {line}, is not closed",
                    class = printed.class,
                    line = place.line
                );
                return Err(self.fault(message));
            }
            if rest.starts_with(')') {
                self.skip(1);
                break;
            }
            if let Some((name, behind)) = child_name(rest) {
                let before = rest.len().saturating_sub(behind.len());
                self.skip(before);
                self.skip_while(char::is_whitespace);
                // What a `ParameterList` holds: `(0): Parameter containing: [torch.float32 of size 3]`.
                if self.rest().starts_with("Parameter containing") {
                    self.skip_while(|c| !matches!(c, ']' | '\n'));
                    self.skip(usize::from(self.rest().starts_with(']')));
                    continue;
                }
                let child = self.module(name.to_owned(), depth.saturating_add(1))?;
                printed.children.push(child.peeled());
                continue;
            }
            let place = self.place();
            let piece = self.piece();
            if let Some(message) = noise(piece) {
                return Err(Error::new(ErrorKind::BadSpec, message).at(place));
            }
            match piece.split_once('=') {
                Some((name, value)) => {
                    if let Some(value) = value_of(value) {
                        printed.named.push((name.trim().to_owned(), value));
                    }
                }
                None => printed.positional.extend(value_of(piece)),
            }
        }
        // `, 2,363,904 params`
        if self.rest().starts_with(',') {
            self.skip_while(|c| c != '\n' && c != '(');
        }
        Ok(printed)
    }

    /// `12 x `.
    fn count(&mut self) -> Result<u64, Error> {
        let rest = self.rest();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        if digits == 0 || !rest.get(digits..).is_some_and(|rest| rest.starts_with(" x ")) {
            return Ok(1);
        }
        let count = rest.get(..digits).and_then(|digits| digits.parse().ok());
        let count = count.filter(|count| (1..=REPEAT_MAX).contains(count)).ok_or_else(|| {
            let message = say!("too many modules: {repeat_max} at most", repeat_max = REPEAT_MAX);
            Error::new(ErrorKind::TooLarge, message).at(self.place())
        })?;
        self.skip(digits.saturating_add(3));
        Ok(count)
    }

    /// An argument, up to the comma or the parenthesis behind it.
    fn piece(&mut self) -> &'t str {
        let rest = self.rest();
        let (mut depth, mut quote) = (0_usize, None);
        let end = rest.char_indices().find(|&(_, c)| {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, '(' | '[' | '{') => depth = depth.saturating_add(1),
                (None, ')' | ']' | '}') if depth > 0 => depth = depth.saturating_sub(1),
                (None, ')' | ',') if depth == 0 => return true,
                _ => {}
            }
            // A quote that is not closed ends with its line.
            c == '\n' && (depth == 0 || quote.is_some())
        });
        // One character at least, so that the caller gets on.
        let end = end.map_or(rest.len(), |(end, _)| end);
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = end.max(first);
        self.skip(end);
        rest.get(..end).unwrap_or_default().trim()
    }
}

/// What no module prints, and what it is instead.
fn noise(piece: &str) -> Option<Sentence> {
    if matches!(piece, "..." | "…") {
        return Some(say!("the print was shortened here: print all of it"));
    }
    let is_tensor = piece.starts_with("tensor(") || piece.starts_with("Parameter containing");
    is_tensor.then(|| say!("here is a tensor's print among the modules: print the model alone"))
}

/// A value as Python prints it; `None` for what is no argument of a layer here.
fn value_of(text: &str) -> Option<Value> {
    let text = text.trim();
    match text {
        "True" => return Some(Value::Flag(true)),
        "False" => return Some(Value::Flag(false)),
        "None" | "" => return None,
        _ => {}
    }
    if let Ok(n) = text.parse() {
        return Some(Value::Int(n));
    }
    if let Ok(x) = text.parse::<f64>() {
        return x.is_finite().then_some(Value::Number(x));
    }
    let inside = text.strip_prefix(['(', '[']).and_then(|text| text.strip_suffix([')', ']']));
    if let Some(inside) = inside {
        let numbers = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
        let numbers: Option<Vec<i64>> = numbers.map(|part| part.parse().ok()).collect();
        return numbers.filter(|numbers| !numbers.is_empty()).map(Value::Ints);
    }
    Some(Value::Word(text.trim_matches(['\'', '"']).to_owned()))
}
