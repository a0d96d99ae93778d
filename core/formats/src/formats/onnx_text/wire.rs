//! Protocol buffers, written (<https://protobuf.dev/programming-guides/encoding/>).

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Its bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.extend(u8::try_from(n & 0x7F).map(|low| low | 0x80));
            n >>= 7;
        }
        self.0.extend(u8::try_from(n));
    }

    /// An integer field.
    pub(super) fn int(&mut self, field: u64, n: i64) {
        self.varint(field << 3);
        self.varint(n.cast_unsigned());
    }

    /// A text field, or bytes.
    pub(super) fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// A field that is a message.
    pub(super) fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// A float field.
    pub(super) fn float(&mut self, field: u64, x: f32) {
        self.varint(field << 3 | 5);
        self.0.extend(x.to_le_bytes());
    }

    /// A list of floats.
    pub(super) fn floats(&mut self, field: u64, list: impl IntoIterator<Item = f32>) {
        let packed: Vec<u8> = list.into_iter().flat_map(f32::to_le_bytes).collect();
        self.bytes(field, &packed);
    }

    /// A list of doubles.
    pub(super) fn doubles(&mut self, field: u64, list: impl IntoIterator<Item = f64>) {
        let packed: Vec<u8> = list.into_iter().flat_map(f64::to_le_bytes).collect();
        self.bytes(field, &packed);
    }

    /// A list of integers.
    pub(super) fn ints(&mut self, field: u64, list: impl IntoIterator<Item = i64>) {
        let mut packed = Self::default();
        list.into_iter().for_each(|n| packed.varint(n.cast_unsigned()));
        self.bytes(field, &packed.0);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(bytes);
    }
}
