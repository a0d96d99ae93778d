//! Writes ONNX models for tests: field numbers and all, so that broken ones can be written too.
//!
//! Numbers are those of <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>.

use highwater_core::{Error, ErrorKind, Source};

/// `FLOAT` and `INT64` of `TensorProto.DataType`.
pub(crate) const FLOAT: i64 = 1;
pub(crate) const INT64: i64 = 7;

/// A message under construction; holes stand for long runs of zeros that take no memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proto(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Bytes(Vec<u8>),
    Hole(u64),
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Hole(size) => *size,
        }
    }
}

impl Proto {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn int(self, field: u64, value: i64) -> Self {
        self.raw(&[varint(field << 3), varint(value.cast_unsigned())].concat())
    }

    pub(crate) fn float(self, field: u64, value: f32) -> Self {
        self.raw(&[varint(field << 3 | 5), value.to_le_bytes().to_vec()].concat())
    }

    pub(crate) fn bytes(self, field: u64, bytes: &[u8]) -> Self {
        self.raw(&[&varint(field << 3 | 2), &varint(bytes.len() as u64), bytes].concat())
    }

    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn texts(self, field: u64, texts: &[&str]) -> Self {
        texts.iter().fold(self, |proto, text| proto.text(field, text))
    }

    pub(crate) fn message(mut self, field: u64, message: Self) -> Self {
        self = self.raw(&[varint(field << 3 | 2), varint(message.len())].concat());
        self.0.extend(message.0);
        self
    }

    pub(crate) fn messages(self, field: u64, messages: impl IntoIterator<Item = Self>) -> Self {
        messages.into_iter().fold(self, |proto, message| proto.message(field, message))
    }

    /// A field of so many zero bytes.
    pub(crate) fn hole(mut self, field: u64, size: u64) -> Self {
        self = self.raw(&[varint(field << 3 | 2), varint(size)].concat());
        self.0.push(Part::Hole(size));
        self
    }

    /// Bytes as they are.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.push(Part::Bytes(bytes.to_vec()));
        self
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len()).expect("fits memory")];
        self.clone().read_at(0, &mut bytes).expect("the range is the whole");
        bytes
    }
}

impl Source for Proto {
    fn len(&self) -> u64 {
        self.0.iter().map(Part::len).sum()
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let (mut start, end) = (0, offset + buffer.len() as u64);
        if end > self.len() {
            return Err(Error::new(ErrorKind::Io, "read beyond the end"));
        }
        buffer.fill(0);
        for part in &self.0 {
            if let Part::Bytes(bytes) = part {
                let from = offset.max(start);
                let until = end.min(start + part.len());
                if from < until {
                    let index = |at: u64, base: u64| usize::try_from(at - base).expect("in memory");
                    buffer[index(from, offset)..index(until, offset)]
                        .copy_from_slice(&bytes[index(from, start)..index(until, start)]);
                }
            }
            start += part.len();
        }
        Ok(())
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

/// A model with this graph, as PyTorch writes it.
pub(crate) fn model(graph: Proto) -> Proto {
    let opset = Proto::new().text(1, "").int(2, 20);
    Proto::new().int(1, 10).text(2, "pytorch").text(3, "2.15.0").message(7, graph).message(8, opset)
}

/// A graph from `x` to `outputs`, with `x [batch, 4]`.
pub(crate) fn graph(nodes: &[Proto], initializers: &[Proto], outputs: &[&str]) -> Proto {
    Proto::new()
        .messages(1, nodes.iter().cloned())
        .text(2, "main")
        .messages(5, initializers.iter().cloned())
        .message(11, value("x", FLOAT, &["batch", "4"]))
        .messages(12, outputs.iter().map(|name| Proto::new().text(1, name)))
}

/// A node without a name.
pub(crate) fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Proto {
    Proto::new().texts(1, inputs).texts(2, outputs).text(4, op)
}

/// A tensor without elements.
pub(crate) fn tensor(name: &str, dtype: i64, dims: &[i64]) -> Proto {
    let dims = dims.iter().fold(Proto::new(), |proto, &dim| proto.int(1, dim));
    dims.int(2, dtype).text(8, name)
}

/// Name and type of a value; dimensions that are no numbers are names, `?` has none.
pub(crate) fn value(name: &str, dtype: i64, dims: &[&str]) -> Proto {
    let dim = |dim: &&str| match dim.parse() {
        Ok(size) => Proto::new().int(1, size),
        Err(_) if *dim == "?" => Proto::new(),
        Err(_) => Proto::new().text(2, dim),
    };
    let shape = Proto::new().messages(1, dims.iter().map(dim));
    let tensor = Proto::new().int(1, dtype).message(2, shape);
    Proto::new().text(1, name).message(2, Proto::new().message(1, tensor))
}

/// Attributes of the kinds that tests need.
pub(crate) fn int_attribute(name: &str, value: i64) -> Proto {
    Proto::new().text(1, name).int(3, value).int(20, 2)
}

pub(crate) fn tensor_attribute(name: &str, tensor: Proto) -> Proto {
    Proto::new().text(1, name).message(5, tensor).int(20, 4)
}

pub(crate) fn graph_attribute(name: &str, graph: Proto) -> Proto {
    Proto::new().text(1, name).message(6, graph).int(20, 5)
}

/// An attribute that is the one of the function's call.
pub(crate) fn reference_attribute(name: &str, reference: &str) -> Proto {
    Proto::new().text(1, name).int(20, 2).text(21, reference)
}
