//! Writes Python's pickle format: protocol 4, and of its opcodes only those that PyTorch's viewer of
//! memory snapshots knows (`torch/utils/viz/MemoryViz.js`, 2.15).
//!
//! A text is written once and recalled afterwards, which keeps snapshots small.

use std::collections::BTreeMap;

/// COUNT: items between a mark and the opcode that takes them, as `CPython` does; the viewer spreads them
/// over the arguments of one call.
const BATCH: usize = 1000;

/// A value that was written and can be recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Memo(u32);

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Number(u64),
    /// -1: what PyTorch writes for no limit.
    Unlimited,
    /// 0.0.
    ZeroReal,
    Flag(bool),
    /// `(0, 0)`.
    ZeroPair,
}

/// A pickle that is being written.
#[derive(Debug)]
pub(super) struct Pickle {
    bytes: Vec<u8>,
    texts: BTreeMap<String, Memo>,
    zero_pair: Option<Memo>,
    memos: u32,
}

impl Pickle {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0x80, 4], texts: BTreeMap::new(), zero_pair: None, memos: 0 }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'.');
        self.bytes
    }

    /// A dictionary begins: keys and values follow, fewer than a thousand, then [`Pickle::close`].
    pub(super) fn open(&mut self) {
        self.bytes.extend(b"}(");
    }

    pub(super) fn close(&mut self) {
        self.bytes.push(b'u');
    }

    /// A whole dictionary.
    pub(super) fn dict(&mut self, entries: &[(&str, Value<'_>)]) {
        self.open();
        self.entries(entries);
        self.close();
    }

    /// Keys and values of the dictionary that is open.
    pub(super) fn entries(&mut self, entries: &[(&str, Value<'_>)]) {
        for &(key, value) in entries {
            self.text(key);
            self.value(value);
        }
    }

    /// A list, each item written by a function that writes exactly one value.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.bytes.push(b']');
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            self.bytes.push(b'(');
            for item in items.by_ref().take(BATCH) {
                write(self, item);
            }
            self.bytes.push(b'e');
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if let Some(&known) = self.texts.get(text) {
            return self.recall(known);
        }
        // A text of 4 GiB would be cut short.
        let size = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
        if let [small, 0, 0, 0] = size {
            self.bytes.extend([0x8c, small]);
        } else {
            self.bytes.push(b'X');
            self.bytes.extend(size);
        }
        self.bytes.extend(text.as_bytes());
        let memo = self.memoize();
        self.texts.insert(text.to_owned(), memo);
    }

    /// Keeps the value that was just written.
    pub(super) fn memoize(&mut self) -> Memo {
        self.bytes.push(0x94);
        let memo = Memo(self.memos);
        self.memos = self.memos.saturating_add(1);
        memo
    }

    pub(super) fn recall(&mut self, Memo(memo): Memo) {
        let memo = memo.to_le_bytes();
        if let [small, 0, 0, 0] = memo {
            self.bytes.extend([b'h', small]);
        } else {
            self.bytes.push(b'j');
            self.bytes.extend(memo);
        }
    }

    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Text(text) => self.text(text),
            Value::Number(n) => self.number(n),
            Value::Unlimited => self.bytes.extend(b"J\xff\xff\xff\xff"),
            Value::ZeroReal => self.bytes.extend(b"G\0\0\0\0\0\0\0\0"),
            Value::Flag(is) => self.bytes.push(if is { 0x88 } else { 0x89 }),
            Value::ZeroPair => {
                if let Some(known) = self.zero_pair {
                    return self.recall(known);
                }
                self.bytes.extend(b"K\0K\0\x86");
                self.zero_pair = Some(self.memoize());
            }
        }
    }

    fn number(&mut self, n: u64) {
        let bytes = n.to_le_bytes();
        let [a, b, c, d, ..] = bytes;
        match n {
            0..=0xff => self.bytes.extend([b'K', a]),
            0x100..=0xffff => self.bytes.extend([b'M', a, b]),
            0x1_0000..=0x7fff_ffff => self.bytes.extend([b'J', a, b, c, d]),
            _ => {
                // In front of the highest bit there is one for the sign.
                let used =
                    u64::BITS.saturating_sub(n.leading_zeros()).saturating_add(1).div_ceil(8);
                self.bytes.extend([0x8a, u8::try_from(used).unwrap_or(0)]);
                let padded = bytes.into_iter().chain([0]);
                self.bytes.extend(padded.take(usize::try_from(used).unwrap_or(0)));
            }
        }
    }
}
