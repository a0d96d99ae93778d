//! Python's pickle format, opcode by opcode: protocols 2 to 5, limited to the opcodes that build plain data.
//!
//! Names and meanings are those of `Lib/pickletools.py`, `CPython` 3.14. Nothing is imported, called or executed:
//! an opcode that would do so is refused by name.

use std::io::{self, Read as _};

use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;
use crate::source::Source;
use crate::unpack::Stream;

/// SIZE: what is read at once.
const CHUNK: usize = 1 << 18;
/// SIZE: the longest text that is taken for one.
const TEXT_MAX: u64 = 1 << 24;

/// What one opcode does to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Pushes a number that is not negative.
    Number(u64),
    Flag(bool),
    /// Pushes the text in [`Scanner::text`].
    Text,
    /// Pushes something that is none of these: `None`, a real, bytes.
    Other,
    EmptyDict,
    EmptyList,
    Mark,
    /// What is above the mark becomes a list.
    List,
    /// What is above the mark becomes a dictionary.
    Dict,
    /// What is above the mark becomes a tuple.
    Tuple,
    /// The last so many become a tuple.
    TupleOf(usize),
    Append,
    Appends,
    SetItem,
    SetItems,
    /// Remembers the top; under the next number, where none is given.
    Remember(Option<usize>),
    Recall(usize),
    /// Nothing.
    Skip,
    Stop,
}

/// Reads steps.
pub(super) struct Scanner<'s> {
    stream: Stream<'s>,
    buffer: Vec<u8>,
    /// Position in `buffer`.
    at: usize,
    /// Offset of the first byte behind `buffer`.
    end: u64,
    /// Offset of the opcode that was read last.
    opcode: u64,
    text: String,
}

impl<'s> Scanner<'s> {
    /// At the first opcode behind the head.
    pub(super) fn new(source: &'s mut dyn Source) -> Result<Self, Error> {
        if source.is_empty() {
            return Err(Error::new(ErrorKind::Empty, say!("the file is empty")));
        }
        let (stream, buffer) = (Stream::of(source)?, Vec::new());
        let mut scanner = Self { stream, buffer, at: 0, end: 0, opcode: 0, text: String::new() };
        match scanner.byte()? {
            0x80 => {
                let version = scanner.byte()?;
                if !(2..=5).contains(&version) {
                    let why = say!("pickle protocol {version} is not one of 2 to 5", version);
                    return Err(scanner.refuse(&why));
                }
                Ok(scanner)
            }
            b'P' => {
                Err(scanner
                    .refuse(&say!("this is a zip archive, as torch.save makes it, and no snapshot")))
            }
            _ => Err(scanner.refuse(
                &say!("this is no pickle of protocol 2 to 5, as memory snapshots are, and no JSON, as profiler \
                 traces are"),
            )),
        }
    }

    /// The text that was pushed last.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The error, with where it is and what to do.
    pub(super) fn refuse(&self, why: &Sentence) -> Error {
        let message = say!(
            "byte {opcode}: {why}; write the snapshot with torch.cuda.memory._dump_snapshot(\"FILE\")",
            opcode = self.opcode,
            why
        );
        Error::new(ErrorKind::WrongFormat, message)
    }

    pub(super) fn next(&mut self) -> Result<Step, Error> {
        self.opcode = self.offset();
        Ok(match self.byte()? {
            b'.' => {
                self.stream.check().map_err(|error| unreadable(&error))?;
                Step::Stop
            }
            b'(' => Step::Mark,
            b'}' => Step::EmptyDict,
            b']' => Step::EmptyList,
            b'l' => Step::List,
            b'd' => Step::Dict,
            b't' => Step::Tuple,
            b')' => Step::TupleOf(0),
            0x85 => Step::TupleOf(1),
            0x86 => Step::TupleOf(2),
            0x87 => Step::TupleOf(3),
            b'a' => Step::Append,
            b'e' => Step::Appends,
            b's' => Step::SetItem,
            b'u' => Step::SetItems,
            b'N' => Step::Other,
            0x88 => Step::Flag(true),
            0x89 => Step::Flag(false),
            b'K' => Step::Number(self.unsigned::<1>()?),
            b'M' => Step::Number(self.unsigned::<2>()?),
            b'J' => self.signed(4)?,
            0x8a => {
                let size = self.unsigned::<1>()?;
                self.signed(size)?
            }
            0x8b => {
                let size = self.unsigned::<4>()?;
                self.signed(size)?
            }
            b'G' => self.skip(8, Step::Other)?,
            0x8c => {
                let size = self.unsigned::<1>()?;
                self.letters(size)?
            }
            b'X' => {
                let size = self.unsigned::<4>()?;
                self.letters(size)?
            }
            0x8d => {
                let size = self.unsigned::<8>()?;
                self.letters(size)?
            }
            b'C' => {
                let size = self.unsigned::<1>()?;
                self.skip(size, Step::Other)?
            }
            b'B' => {
                let size = self.unsigned::<4>()?;
                self.skip(size, Step::Other)?
            }
            0x94 => Step::Remember(None),
            b'q' => Step::Remember(Some(self.index::<1>()?)),
            b'r' => Step::Remember(Some(self.index::<4>()?)),
            b'h' => Step::Recall(self.index::<1>()?),
            b'j' => Step::Recall(self.index::<4>()?),
            0x95 => self.skip(8, Step::Skip)?,
            0x80 => self.skip(1, Step::Skip)?,
            other => return Err(self.refuse(&refused(other))),
        })
    }

    fn offset(&self) -> u64 {
        let left = self.buffer.len().saturating_sub(self.at);
        self.end.saturating_sub(u64::try_from(left).unwrap_or(0))
    }

    /// SIZE: bytes to come, as far as the file tells.
    fn left(&self) -> u64 {
        self.stream.size().map_or(u64::MAX, |size| size.saturating_sub(self.offset()))
    }

    fn byte(&mut self) -> Result<u8, Error> {
        if let Some(&byte) = self.buffer.get(self.at) {
            self.at = self.at.saturating_add(1);
            return Ok(byte);
        }
        self.buffer.resize(CHUNK, 0);
        let read = self.stream.read(&mut self.buffer).map_err(|error| unreadable(&error))?;
        self.buffer.truncate(read);
        self.end = self.end.saturating_add(u64::try_from(read).unwrap_or(0));
        self.at = 1;
        self.buffer.first().copied().ok_or_else(|| self.ends())
    }

    fn ends(&self) -> Error {
        let message = say!(
            "the file ends at byte {n}, in the middle of the pickle: copy it again, or dump it again",
            n = self.stream.size().unwrap_or(self.end)
        );
        Error::new(ErrorKind::Corrupt, message)
    }

    /// Little-endian.
    fn unsigned<const N: usize>(&mut self) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        for byte in bytes.iter_mut().take(N) {
            *byte = self.byte()?;
        }
        Ok(u64::from_le_bytes(bytes))
    }

    fn index<const N: usize>(&mut self) -> Result<usize, Error> {
        Ok(usize::try_from(self.unsigned::<N>()?).unwrap_or(usize::MAX))
    }

    /// Two's complement, little-endian; what is negative or has more than 64 bits is no size.
    fn signed(&mut self, size: u64) -> Result<Step, Error> {
        if size > 1024 {
            return Err(self.refuse(&say!("a number of {size} bytes", size)));
        }
        let mut number: u64 = 0;
        let mut fits = true;
        let mut last = 0;
        for place in 0..size {
            last = self.byte()?;
            match u32::try_from(place).ok().filter(|&place| place < 8) {
                Some(place) => number |= u64::from(last) << (place * 8),
                None => fits &= last == 0,
            }
        }
        Ok(if fits && last < 0x80 { Step::Number(number) } else { Step::Other })
    }

    fn skip(&mut self, size: u64, step: Step) -> Result<Step, Error> {
        if size > self.left() {
            return Err(self.ends());
        }
        for _ in 0..size {
            self.byte()?;
        }
        Ok(step)
    }

    fn letters(&mut self, size: u64) -> Result<Step, Error> {
        if size > self.left() {
            return Err(self.ends());
        }
        if size > TEXT_MAX {
            return Err(self.refuse(&say!("a text of {size} bytes", size)));
        }
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        bytes.clear();
        for _ in 0..size {
            bytes.push(self.byte()?);
        }
        // Python writes lone surrogates, too, which no other language reads.
        self.text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(Step::Text)
    }
}

/// Why the file cannot be read, or not be unpacked.
fn unreadable(error: &io::Error) -> Error {
    let message = match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            say!("what gzip packed ends in the middle: copy the file again")
        }
        _ => say!("{error}", error),
    };
    Error::new(ErrorKind::Corrupt, message)
}

/// Why there is no step for an opcode.
fn refused(opcode: u8) -> Sentence {
    let name = match opcode {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => {
            return say!(
                "opcode 0x{opcode} does not occur in snapshots: this is another pickle, or a damaged one",
                opcode = format!("{opcode:02x}")
            );
        }
    };
    say!(
        "the opcode {name} asks to import or run something, which no snapshot does and is not done",
        name
    )
}
