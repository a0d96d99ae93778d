//! Numbers that depend on a seed only, so that a campaign can be repeated.

/// A generator: `SplitMix64` (Steele, Lea, Flood 2014, doi 10.1145/2660193.2660195).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `end`; 0 where there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next().checked_rem(end).unwrap_or(0)).unwrap_or(0)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these; `None` where there are none.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// COUNT: edits of one mutation: mostly one, seldom many.
    pub fn edits(&mut self) -> usize {
        let mut edits = 1;
        while edits < 32 && self.once_in(2) {
            edits += 1;
        }
        edits
    }

    /// A size that programs treat in a special way, or any.
    pub fn size(&mut self) -> u64 {
        const SIZES: [u64; 24] = [
            0,
            1,
            2,
            3,
            4,
            7,
            8,
            16,
            63,
            64,
            65,
            127,
            255,
            256,
            1000,
            1024,
            65_535,
            1 << 20,
            (1 << 31) - 1,
            1 << 32,
            1 << 40,
            (1 << 53) + 1,
            (1 << 63) - 1,
            u64::MAX,
        ];
        match self.below(8) {
            0 => self.next() >> self.below(64),
            1 => u64::try_from(self.below(100)).unwrap_or(0),
            // Minus one and minus two, as many formats mean them.
            2 => u64::MAX - u64::try_from(self.below(3)).unwrap_or(0),
            _ => self.one_of(&SIZES).copied().unwrap_or(0),
        }
    }
}
