//! TOML → [`Tree`] (<https://toml.io/en/v1.0.0>): all of it but dates, which no spec has.
//!
//! Written here: the crate `toml` (1.2.1, for parsing alone) makes the readers 24 kB heavier with gzip, and saves
//! some 210 lines. For `[N, 3]`, the likeliest mistake, it reports `invalid float, expected nan`. Its parser
//! alone, `toml_parser`, has about half of that size, and has neither tables nor messages.

use super::tree::{Content, DEPTH_MAX, Key, Tree, fault, shortened};
use crate::error::{Error, ErrorKind, Place};
use crate::sentence::Sentence;

/// Whether a text is TOML: its first line with anything on it sets a key, or begins a table.
pub(crate) fn is_toml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let Some(first) = lines.find(|line| !line.is_empty() && !line.starts_with('#')) else {
        return false;
    };
    let is_name = |text: &str| {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'');
        !text.is_empty() && text.chars().all(is_part)
    };
    let table = first.split('#').next().unwrap_or(first).trim();
    let table = table.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let array = table.and_then(|inner| inner.strip_prefix('[')?.strip_suffix(']'));
    let sets_key = first.split_once('=').is_some_and(|(key, _)| is_name(key.trim_end()));
    sets_key || array.or(table).is_some_and(|name| is_name(name.trim()))
}

/// Reads the whole text as one table.
///
/// # Errors
/// Where it is no TOML, sets a key twice, or nests too deeply.
pub(crate) fn parse(text: &str) -> Result<Tree, Error> {
    let place = Place { line: 1, column: 1 };
    let mut reader = Reader { rest: text, place, depth: 0 };
    let mut root = Tree { place, content: Content::Map(Vec::new()) };
    let mut table: Vec<Key> = Vec::new();
    loop {
        reader.skip_lines();
        let at = reader.place;
        let Some(next) = reader.peek() else { return Ok(root) };
        if next == '[' {
            reader.next();
            let is_array = reader.take('[');
            reader.depth = 0;
            table = reader.keys()?;
            reader.depth = table.len();
            let closed = reader.take(']') && (!is_array || reader.take(']'));
            if !closed {
                return Err(reader.fault(say!("a `]` is missing behind the name of the table")));
            }
            open_table(&mut root, &table, is_array, at)?;
        } else {
            let (keys, value) = reader.entry()?;
            let entries = entries(&mut root, &table)?;
            insert(entries, &keys, value)?;
        }
        reader.end_of_line()?;
    }
}

/// The entries of a table that was opened; of an array of tables, its last one's.
fn entries<'t>(root: &'t mut Tree, path: &[Key]) -> Result<&'t mut Vec<(Key, Tree)>, Error> {
    let mut at = root;
    for key in path {
        let place = key.place;
        let no_table = || fault(place, say!("`{text}` is no table", text = shortened(&key.text)));
        let Content::Map(entries) = &mut at.content else { return Err(no_table()) };
        let position = entries.iter().position(|(known, _)| known.text == key.text);
        let position = position.unwrap_or_else(|| {
            let empty = Tree { place, content: Content::Map(Vec::new()) };
            entries.push((key.clone(), empty));
            entries.len().saturating_sub(1)
        });
        let tree = entries.get_mut(position).map(|(_, tree)| tree).ok_or_else(no_table)?;
        at = if let Tree { content: Content::List(_), .. } = tree {
            let Content::List(items) = &mut tree.content else { return Err(no_table()) };
            items.last_mut().ok_or_else(no_table)?
        } else {
            tree
        };
    }
    match &mut at.content {
        Content::Map(entries) => Ok(entries),
        _ => Err(fault(at.place, say!("here is no table"))),
    }
}

/// `[table]` and `[[array]]`.
fn open_table(root: &mut Tree, path: &[Key], is_array: bool, place: Place) -> Result<(), Error> {
    let Some((last, around)) = path.split_last() else {
        return Err(fault(place, say!("a table has a name")));
    };
    if !is_array {
        return entries(root, path).map(drop);
    }
    let entries = entries(root, around)?;
    let empty = Tree { place, content: Content::Map(Vec::new()) };
    match entries.iter_mut().find(|(key, _)| key.text == last.text) {
        None => {
            let content = Content::List(vec![empty]);
            entries.push((last.clone(), Tree { place, content }));
            Ok(())
        }
        Some((_, Tree { content: Content::List(items), .. })) => {
            items.push(empty);
            Ok(())
        }
        Some(_) => Err(twice(last)),
    }
}

/// Sets a key, or one inside of others: `a.b = 1`.
fn insert(entries: &mut Vec<(Key, Tree)>, keys: &[Key], value: Tree) -> Result<(), Error> {
    let Some((first, rest)) = keys.split_first() else { return Ok(()) };
    let known = entries.iter_mut().find(|(key, _)| key.text == first.text);
    match (known, rest.is_empty()) {
        (Some((_, Tree { content: Content::Map(inner), .. })), false) => insert(inner, rest, value),
        (Some(_), _) => Err(twice(first)),
        (None, true) => {
            entries.push((first.clone(), value));
            Ok(())
        }
        (None, false) => {
            let mut inner = Vec::new();
            insert(&mut inner, rest, value)?;
            let tree = Tree { place: first.place, content: Content::Map(inner) };
            entries.push((first.clone(), tree));
            Ok(())
        }
    }
}

fn twice(key: &Key) -> Error {
    fault(key.place, say!("the key `{text}` appears a second time", text = shortened(&key.text)))
}

struct Reader<'t> {
    rest: &'t str,
    place: Place,
    /// COUNT: lists and tables around what is read; each part of a dotted key is one.
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        self.place = match next {
            '\n' => Place { line: self.place.line.saturating_add(1), column: 1 },
            _ => Place { column: self.place.column.saturating_add(1), ..self.place },
        };
        Some(next)
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.next();
        }
        is_next
    }

    fn fault(&self, message: Sentence) -> Error {
        fault(self.place, message)
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.next();
        }
    }

    fn skip_comment(&mut self) {
        if self.peek() == Some('#') {
            while self.peek().is_some_and(|c| c != '\n') {
                self.next();
            }
        }
    }

    /// White space, line ends and comments.
    fn skip_lines(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\r' | '\n' | '#')) {
            self.skip_comment();
            if self.peek().is_some_and(char::is_whitespace) {
                self.next();
            }
        }
    }

    fn end_of_line(&mut self) -> Result<(), Error> {
        self.skip_spaces();
        self.skip_comment();
        match self.peek() {
            None | Some('\n') => Ok(()),
            Some('\r') if self.rest.starts_with("\r\n") => Ok(()),
            Some(other) => Err(self.fault(say!("a line ends before `{other}`", other))),
        }
    }

    fn equals(&mut self) -> Result<(), Error> {
        if self.take('=') {
            Ok(())
        } else {
            Err(self.fault(say!("a `=` is missing behind the key")))
        }
    }

    /// `a`, `"a"`, `a.b`.
    fn keys(&mut self) -> Result<Vec<Key>, Error> {
        let mut keys = Vec::new();
        loop {
            self.skip_spaces();
            let place = self.place;
            let text = match self.peek() {
                Some(quote @ ('"' | '\'')) => self.text(quote)?,
                _ => self.word(|c| c.is_alphanumeric() || matches!(c, '_' | '-')),
            };
            if text.is_empty() {
                return Err(fault(place, say!("a key is missing here")));
            }
            keys.push(Key { place, text });
            if self.depth.saturating_add(keys.len()) > DEPTH_MAX {
                let message = say!("the key lies too deep");
                return Err(Error::new(ErrorKind::TooLarge, message).at(place));
            }
            if !self.take('.') {
                return Ok(keys);
            }
        }
    }

    /// `a.b = 1`.
    fn entry(&mut self) -> Result<(Vec<Key>, Tree), Error> {
        let keys = self.keys()?;
        self.equals()?;
        let around = self.depth;
        self.depth = around.saturating_add(keys.len().saturating_sub(1));
        let value = self.value()?;
        self.depth = around;
        Ok((keys, value))
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let mut word = String::new();
        while let Some(next) = self.peek().filter(|&c| is_part(c)) {
            word.push(next);
            self.next();
        }
        word
    }

    fn value(&mut self) -> Result<Tree, Error> {
        self.skip_spaces();
        let place = self.place;
        let content = match self.peek() {
            Some(quote @ ('"' | '\'')) => Content::Text(self.text(quote)?),
            Some('[') => self.nested(Self::array)?,
            Some('{') => self.nested(Self::table)?,
            _ => {
                let is_part =
                    |c: char| c.is_alphanumeric() || matches!(c, '+' | '-' | '.' | '_' | ':');
                let word = self.word(is_part);
                scalar(&word).ok_or_else(|| {
                    let message =
                        say!("`{word}` is no value; texts need quotes", word = shortened(&word));
                    fault(place, message)
                })?
            }
        };
        Ok(Tree { place, content })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Content, Error>) -> Result<Content, Error> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH_MAX {
            let message = say!(
                "lists and tables lie more than {depth_max} deep in each other",
                depth_max = DEPTH_MAX
            );
            return Err(Error::new(ErrorKind::TooLarge, message).at(self.place));
        }
        self.next();
        let content = read(self)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(content)
    }

    fn array(&mut self) -> Result<Content, Error> {
        let mut items = Vec::new();
        loop {
            self.skip_lines();
            if self.take(']') {
                return Ok(Content::List(items));
            }
            items.push(self.value()?);
            self.skip_lines();
            if !self.take(',') && self.peek() != Some(']') {
                return Err(self.fault(say!("a `,` or a `]` is missing in the list")));
            }
        }
    }

    /// An inline table; line ends are allowed in it, as in TOML 1.1.
    fn table(&mut self) -> Result<Content, Error> {
        let mut entries = Vec::new();
        loop {
            self.skip_lines();
            if self.take('}') {
                return Ok(Content::Map(entries));
            }
            let (keys, value) = self.entry()?;
            insert(&mut entries, &keys, value)?;
            self.skip_lines();
            if !self.take(',') && self.peek() != Some('}') {
                return Err(self.fault(say!("a `,` or a `}` is missing in the table")));
            }
        }
    }

    /// A text in quotes, on one line.
    fn text(&mut self, quote: char) -> Result<String, Error> {
        let start = self.place;
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                None | Some('\n') => {
                    return Err(fault(start, say!("the text has no closing quote")));
                }
                Some('\\') if quote == '"' => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(c @ ('"' | '\\')) => text.push(c),
                    _ => return Err(self.fault(say!("only \\n, \\t, \\\" and \\\\ are read here"))),
                },
                Some(c) => text.push(c),
            }
        }
    }
}

fn scalar(word: &str) -> Option<Content> {
    match word {
        "true" => return Some(Content::Flag(true)),
        "false" => return Some(Content::Flag(false)),
        _ => {}
    }
    let digits = word.replace('_', "");
    if !digits.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) {
        return None;
    }
    let number = digits.parse().ok().map(Content::Int);
    number.or_else(|| digits.parse().ok().filter(|x: &f64| x.is_finite()).map(Content::Number))
}
