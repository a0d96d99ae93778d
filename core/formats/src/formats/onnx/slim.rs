//! The structure of an ONNX file without its weights, still in protobuf's wire format.
//!
//! - Messages that can hold tensors are walked; their other fields are copied as they stand.
//! - A tensor's elements are copied when they are few (shape arithmetic reads them) and jumped over
//!   when they are many. Weights are never read.
//! - Documentation, stack traces and what no stage reads are jumped over as well.
//! - Parents get their new lengths; a length is written in five bytes, as protobuf permits, so that
//!   it can be filled in afterwards.
//! - Depth, number of fields and size of the copy are bounded, for any content of the file.

use crate::error::{Error, ErrorKind};
use crate::source::Source;

use super::wire::{self, Reader, Tag, WireType};

/// SIZE: elements of a tensor up to so many bytes are kept.
pub(super) const PAYLOAD_KEPT: u64 = 1 << 10;
/// The field of a tensor's raw elements.
const RAW_DATA: u64 = 9;
/// SIZE: structure that is read at most; the largest models known have some ten MiB.
const SLIM_MAX: u64 = 256 << 20;
/// COUNT: fields that are walked at most.
const FIELDS_MAX: u64 = 50_000_000;
/// COUNT: messages inside each other; the decoder behind allows 100.
const DEPTH_MAX: u32 = 90;
/// COUNT: bytes that a length takes which is filled in afterwards.
const LENGTH_BYTES: usize = 5;

const _: () = assert!(SLIM_MAX < 1 << (7 * LENGTH_BYTES), "every length fits its place");

/// Messages of `onnx.proto` that are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    Function,
    ValueInfo,
    Metadata,
}

/// What happens to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Copied as it stands.
    Copy,
    /// Walked as this message.
    Walk(Message),
    /// Elements of a tensor: copied when few.
    Payload,
    /// Not read.
    Drop,
}

/// What to do with each field of each message, by the numbers of `onnx.proto`.
const fn rule(message: Message, field: u64) -> Rule {
    use Message::{
        Attribute, Function, Graph, Metadata, Model, Node, SparseTensor, Tensor, ValueInfo,
    };
    match (message, field) {
        (Model, 7) | (Attribute, 6 | 11) => Rule::Walk(Graph),
        (Model, 25) => Rule::Walk(Function),
        (Graph, 1) | (Function, 7) => Rule::Walk(Node),
        (Graph, 5) | (Attribute, 5 | 10) | (SparseTensor, 1 | 2) => Rule::Walk(Tensor),
        (Graph, 15) | (Attribute, 22 | 23) => Rule::Walk(SparseTensor),
        (Graph, 11..=13) | (Function, 12) => Rule::Walk(ValueInfo),
        (Graph, 16) | (Node, 9) => Rule::Walk(Metadata),
        (Node, 5) | (Function, 11) => Rule::Walk(Attribute),
        // `string_data` (6) is not among them: nothing reads texts.
        (Tensor, 4 | 5 | 7 | 9..=11) => Rule::Payload,
        (Model, 1 | 2 | 3 | 8)
        | (Graph, 2)
        | (Node, 1..=4 | 7 | 8)
        | (Attribute, 1..=4 | 7..=9 | 14 | 15 | 20 | 21)
        // External data: where small tensors lie, of which shapes may be made.
        | (Tensor, 1 | 2 | 8 | 13 | 14)
        | (SparseTensor, 3)
        | (Function, 1 | 4..=6 | 9 | 10 | 13)
        | (ValueInfo | Metadata, 1 | 2) => Rule::Copy,
        _ => Rule::Drop,
    }
}

/// Reads a model's structure.
///
/// # Errors
/// When the file is no ONNX model, is truncated or damaged, or its structure is too large.
pub(super) fn slim(source: &mut dyn Source) -> Result<Vec<u8>, Error> {
    let reader = Reader::new(source);
    let size = reader.size;
    let mut slimmer = Slimmer { reader, out: Vec::new(), fields: 0 };
    slimmer.recognise()?;
    slimmer.walk(Message::Model, size, 0)?;
    Ok(slimmer.out)
}

struct Slimmer<'s> {
    reader: Reader<'s>,
    out: Vec<u8>,
    /// COUNT: fields walked so far.
    fields: u64,
}

impl Slimmer<'_> {
    /// Refuses a file whose first field no ONNX model has.
    fn recognise(&mut self) -> Result<(), Error> {
        let first = self.reader.tag(self.reader.size);
        self.reader.at = 0;
        let is_model = matches!(
            first,
            Ok(
                Tag { field: 1 | 5, wire: WireType::Varint }
                | Tag { field: 2..=4 | 6..=8 | 14 | 20 | 25 | 26, wire: WireType::Delimited },
            )
        );
        if is_model {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::WrongFormat,
            say!(
                "the file is of no kind that is known here; open an ONNX model (.onnx), or, if these \
             are a model's weights (.onnx.data), the .onnx file next to them"
            ),
        ))
    }

    /// Copies a message from the position to `end`.
    fn walk(&mut self, message: Message, end: u64, depth: u32) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                say!(
                    "the model nests more than {depth_max} messages inside each other",
                    depth_max = DEPTH_MAX
                ),
            ));
        }
        while self.reader.at < end {
            self.fields += 1;
            if self.fields > FIELDS_MAX || wire::length(&self.out) > SLIM_MAX {
                return Err(too_large());
            }
            let tag = self.reader.tag(end)?;
            self.field(tag, rule(message, tag.field), end, depth)?;
        }
        Ok(())
    }

    /// Treats one field, whose tag was read.
    fn field(&mut self, tag: Tag, rule: Rule, end: u64, depth: u32) -> Result<(), Error> {
        let start = self.reader.at;
        let (size, fixed) = match tag.wire {
            WireType::Varint => {
                let value = self.reader.varint(end)?;
                if matches!(rule, Rule::Copy | Rule::Payload) {
                    wire::put_tag(tag, &mut self.out);
                    wire::put_varint(value, &mut self.out);
                }
                return Ok(());
            }
            WireType::Fixed64 => (8, true),
            WireType::Fixed32 => (4, true),
            WireType::Delimited => (self.reader.delimited(end)? - self.reader.at, false),
        };
        match rule {
            Rule::Walk(_) if fixed => {
                Err(wire::corrupt(start, &say!("a number instead of a message")))
            }
            Rule::Walk(message) => self.message(tag, message, size, depth),
            Rule::Payload if size > PAYLOAD_KEPT => {
                if tag.field == RAW_DATA {
                    self.note_size(size);
                }
                self.reader.skip(size, end)
            }
            Rule::Drop => self.reader.skip(size, end),
            Rule::Copy | Rule::Payload => {
                if wire::length(&self.out).saturating_add(size) > SLIM_MAX {
                    return Err(too_large());
                }
                wire::put_tag(tag, &mut self.out);
                if !fixed {
                    wire::put_varint(size, &mut self.out);
                }
                self.reader.copy(size, end, &mut self.out)
            }
        }
    }

    /// Notes the size of elements that are jumped over, as the end of the tensor's `segment`, which no file has.
    fn note_size(&mut self, size: u64) {
        let mut segment = Vec::new();
        wire::put_tag(Tag { field: 2, wire: WireType::Varint }, &mut segment);
        wire::put_varint(size, &mut segment);
        wire::put_tag(Tag { field: 3, wire: WireType::Delimited }, &mut self.out);
        wire::put_varint(wire::length(&segment), &mut self.out);
        self.out.extend(segment);
    }

    /// Copies a message inside another and fills in its new length.
    fn message(&mut self, tag: Tag, message: Message, size: u64, depth: u32) -> Result<(), Error> {
        let end = self.reader.at.saturating_add(size);
        if message == Message::Metadata && self.reader.is_next(STACK_TRACE, end)? {
            return self.reader.skip(size, end);
        }
        wire::put_tag(tag, &mut self.out);
        let place = self.out.len();
        self.out.resize(place + LENGTH_BYTES, 0);
        self.walk(message, end, depth + 1)?;
        let length = self.out.len() - place - LENGTH_BYTES;
        for (index, byte) in self.out.iter_mut().skip(place).take(LENGTH_BYTES).enumerate() {
            let [low, ..] = (length >> (7 * index) & 0x7F).to_le_bytes();
            *byte = if index + 1 < LENGTH_BYTES { low | 0x80 } else { low };
        }
        Ok(())
    }
}

/// How the entry begins that holds a Python stack trace, half of a dynamo export: the tag of its
/// key, the key's length, the key.
const STACK_TRACE: &[u8] = b"\x0A\x1Apkg.torch.onnx.stack_trace";

fn too_large() -> Error {
    Error::new(
        ErrorKind::TooLarge,
        say!(
            "the model has more structure than is read here (256 MiB without weights); is it an ONNX \
         model?"
        ),
    )
}
