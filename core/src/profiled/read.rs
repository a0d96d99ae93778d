//! The trace as a stream of events. The reader keeps the relevant parts of each event and drops the rest.

use crate::order::InOrder as _;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

use super::{Change, Inputs, Operator, Profile, Span, Time, annotations, kernels};
use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;
use crate::source::Source;
use crate::unpack::Stream;

/// How to record a trace that can be read.
const HOW: Sentence = Sentence::of(
    "record it with profile(activities=[ProfilerActivity.CPU], profile_memory=True, \
                   record_shapes=True, with_stack=True) and export_chrome_trace(\"FILE.json.gz\")",
);
/// SIZE: no name, stack or argument of a real trace is as long.
const TEXT_MAX: usize = 1 << 24;
/// What Kineto says of where memory is: `c10::DeviceType`.
const CPU: i64 = 0;

pub(super) fn profile(source: &mut dyn Source) -> Result<Profile, Error> {
    if source.is_empty() {
        return Err(Error::new(ErrorKind::Empty, say!("the file is empty")));
    }
    let kept = events(Stream::of(source)?)?;
    kept.finish()
}

fn events(reader: impl Read) -> Result<Kept, Error> {
    let reader = BufReader::new(Texts { reader, is_inside: false, is_escaped: false, length: 0 });
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let mut kept = Kept::default();
    let read = Deserializer::deserialize_map(&mut deserializer, File(&mut kept));
    read.and_then(|()| deserializer.end()).map_err(|error| refuse(&error))?;
    Ok(kept)
}

fn refuse(error: &serde_json::Error) -> Error {
    let (line, column, text) = (error.line(), error.column(), error.to_string());
    // The place comes first here, as in all messages.
    let why = text.split(" at line ").next().unwrap_or_default();
    let is_cut = error.io_error_kind() == Some(io::ErrorKind::UnexpectedEof);
    match error.classify() {
        Category::Io if !is_cut => Error::new(
            ErrorKind::Corrupt,
            say!("the trace breaks in line {line}: {why}; {how}", line, why, how = HOW),
        ),
        Category::Eof | Category::Io => {
            let message = say!(
                "the trace ends in the middle, in line {line}: it was not written to its end; {how}",
                line,
                how = HOW
            );
            Error::new(ErrorKind::Corrupt, message)
        }
        Category::Syntax | Category::Data => {
            let message = say!(
                "line {line}, column {column}: {why}; this is no trace: {how}",
                line,
                column,
                why,
                how = HOW
            );
            Error::new(ErrorKind::WrongFormat, message)
        }
    }
}

/// JSON whose texts are of a bounded length, so that a small archive does not fill the memory.
struct Texts<R> {
    reader: R,
    /// Whether the next byte is one of a text.
    is_inside: bool,
    /// Whether the next byte is an escaped one.
    is_escaped: bool,
    /// COUNT: bytes of the text so far.
    length: usize,
}

impl<R: Read> Read for Texts<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        for &byte in into.iter().take(count) {
            if !self.is_inside {
                (self.is_inside, self.length) = (byte == b'"', 0);
                continue;
            }
            self.length = self.length.saturating_add(1);
            (self.is_inside, self.is_escaped) = match byte {
                _ if self.is_escaped => (true, false),
                b'"' => (false, false),
                other => (true, other == b'\\'),
            };
            if self.length > TEXT_MAX {
                let message = say!("a text is longer than {text_max} bytes", text_max = TEXT_MAX);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message.to_string()));
            }
        }
        Ok(count)
    }
}

/// What is kept of the events that came so far.
#[derive(Default)]
struct Kept {
    profile: Profile,
    ids: BTreeMap<String, usize>,
    /// Positions in [`Profile::given`].
    given: BTreeMap<Inputs, usize>,
    found: bool,
    /// A word of the script's mark.
    not_understood: Option<String>,
    /// COUNT: changes of memory of a device.
    on_device: usize,
}

impl Kept {
    fn name(&mut self, name: &str) -> usize {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.profile.names.len();
        self.profile.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    fn given(&mut self, inputs: Inputs) -> usize {
        if let Some(&known) = self.given.get(&inputs) {
            return known;
        }
        let position = self.profile.given.len();
        self.profile.given.push(inputs.clone());
        self.given.insert(inputs, position);
        position
    }

    fn take(&mut self, event: Event) {
        let Loose::Number(start) = event.ts else { return };
        let Event { name: Loose::Text(name), cat: Loose::Text(category), args, .. } = event else {
            return;
        };
        let thread = match event.tid {
            Loose::Number(thread) => thread,
            _ => 0,
        };
        if name == "[memory]" {
            return self.change(start, thread, &args);
        }
        let Loose::Number(length) = event.dur else { return };
        let end = start.saturating_add(length);
        let is_module = name.starts_with("nn.Module: ");
        match category.as_str() {
            "user_annotation" => {
                if let Some(read) = annotations::read(&name) {
                    match read {
                        Ok(read) => self.profile.annotations = read,
                        Err(word) => self.not_understood = Some(word),
                    }
                    return;
                }
                let span = Span { name: self.name(&name), start, end };
                self.profile.marks.push(span);
            }
            "python_function" if is_module => {
                let span = Span { name: self.name(&name), start, end };
                self.profile.modules.push(span);
            }
            "cpu_op" => {
                let number = self.profile.operators.len();
                let span = Span { name: self.name(&name), start, end };
                let sequence = args.sequence.and_then(|n| u64::try_from(n).ok());
                self.profile.operators.push(Operator { span, thread, sequence, number });
                if kernels::reads(&name) {
                    let given = self.given(args.inputs());
                    self.profile.inputs.insert(number, given);
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, at: Time, thread: u64, args: &Arguments) {
        let (Some(address), Some(bytes)) = (args.address, args.bytes) else { return };
        if args.device.is_some_and(|device| device != CPU) {
            self.on_device = self.on_device.saturating_add(1);
        } else {
            self.profile.changes.push(Change { at, address, bytes, thread });
        }
    }

    /// The events in their order.
    fn finish(self) -> Result<Profile, Error> {
        let Self { mut profile, found, on_device, not_understood, .. } = self;
        let refuse =
            |kind, why: Sentence| Err(Error::new(kind, say!("{why}; {how}", why, how = HOW)));
        if !found {
            return refuse(ErrorKind::WrongFormat, say!("this JSON has no traceEvents"));
        }
        if let Some(word) = not_understood {
            let why = say!(
                "the mark `highwater …` has `{word}`, which is not understood: write it as \
                 docs/profiles.md does",
                word
            );
            return refuse(ErrorKind::WrongFormat, why);
        }
        if on_device > 0 {
            let why = say!(
                "the trace is of training on a GPU, and contains the memory of this training; a \
                       snapshot of torch.cuda.memory._dump_snapshot() contains more. To predict from a \
                       trace, train on the CPU"
            );
            return refuse(ErrorKind::WrongFormat, why);
        }
        if profile.changes.is_empty() {
            let why = say!("the trace has no allocations: profile_memory=True was missing");
            return refuse(ErrorKind::NoGraph, why);
        }
        profile.changes.order_by_key(|change| change.at);
        let order = |span: &Span| (span.start, std::cmp::Reverse(span.end));
        profile.operators.order_by_key(|operator| order(&operator.span));
        profile.marks.order_by_key(order);
        profile.modules.order_by_key(order);
        Ok(profile)
    }
}

/// The whole file: an object with a list of events.
struct File<'k>(&'k mut Kept);

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace of torch.profiler")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                self.0.found = true;
                map.next_value_seed(Events(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Events<'k>(&'k mut Kept);

impl<'de> serde::de::DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element::<Event>()? {
            self.0.take(event);
        }
        Ok(())
    }
}

/// One event, of which nothing has to be there.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    name: Loose,
    #[serde(default)]
    cat: Loose,
    #[serde(default)]
    tid: Loose,
    #[serde(default)]
    ts: Loose,
    #[serde(default)]
    dur: Loose,
    #[serde(default)]
    args: Arguments,
}

/// Arguments that are read.
#[derive(Default, Deserialize)]
struct Arguments {
    #[serde(rename = "Addr", default)]
    address: Option<u64>,
    #[serde(rename = "Bytes", default)]
    bytes: Option<i64>,
    #[serde(rename = "Device Type", default)]
    device: Option<i64>,
    #[serde(rename = "Sequence number", default)]
    sequence: Option<i128>,
    #[serde(rename = "Input Dims", default)]
    dims: Vec<Dims>,
    #[serde(rename = "Input Strides", default)]
    strides: Vec<Dims>,
    #[serde(rename = "Input type", default)]
    types: Vec<Loose>,
    #[serde(rename = "Concrete Inputs", default)]
    values: Vec<Loose>,
}

impl Arguments {
    fn inputs(self) -> Inputs {
        let texts = |list: Vec<Loose>| list.into_iter().map(Loose::text).collect();
        Inputs {
            dims: self.dims.into_iter().map(|dims| dims.0).collect(),
            strides: self.strides.into_iter().map(|strides| strides.0).collect(),
            types: texts(self.types),
            values: texts(self.values),
        }
    }
}

/// Dimensions of a tensor, or its strides; lists of tensors are none.
#[derive(Default)]
struct Dims(Vec<u64>);

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Vec::<Loose>::deserialize(deserializer)?;
        let number = |number| match number {
            Loose::Number(number) => Some(number.div_euclid(1000)),
            _ => None,
        };
        Ok(Self(numbers.into_iter().filter_map(number).collect()))
    }
}

/// A number in thousandths, which for times are nanoseconds; a text; or something else.
#[derive(Default)]
enum Loose {
    Number(u64),
    Text(String),
    #[default]
    Other,
}

impl Loose {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(_) | Self::Other => String::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Loose, E> {
        Ok(Loose::Number(number.saturating_mul(1000)))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    /// Microseconds with three digits behind the point, which the shortest form gives back.
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Loose, E> {
        let digits = format!("{number:.3}").replace('.', "");
        if digits.starts_with('-') {
            return Ok(Loose::Other);
        }
        digits
            .parse()
            .map(Loose::Number)
            .map_err(|error| E::custom(say!("{number} as a time: {error}", number, error)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_end_are_refused() {
        let long = io::repeat(b'a').take(1 << 26);
        let trace = br#"{"traceEvents": [{"name": "a \"b\" \\"}, {"name": ""#.chain(long);
        let error = events(trace).err().expect("the text is refused");
        assert!(error.to_string().contains("a text is longer than 16777216 bytes"), "{error}");
    }
}
