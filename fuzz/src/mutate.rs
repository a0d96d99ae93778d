//! An input → another one, by what its format is made of.
//!
//! A change of single bytes mostly makes a file that is refused at once. So each family has a mutation that keeps
//! the file readable: fields of protocol buffers, values of JSON, lines and words of a text.

pub mod bytes;
pub mod json;
pub mod onnx;
pub mod text;

use crate::random::Random;

/// SIZE: the largest input that a mutation returns; longer ones take time and show nothing new.
pub const INPUT_MAX: usize = 256 << 10;

/// What a mutation may draw from.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// Inputs of the target.
    pub seeds: Vec<Vec<u8>>,
    /// Words that stand in them, each once, sorted.
    pub words: Vec<String>,
}

impl Corpus {
    /// Collects the words of the seeds.
    pub fn new(seeds: Vec<Vec<u8>>) -> Self {
        let mut words = Vec::new();
        for seed in &seeds {
            let text = String::from_utf8_lossy(seed);
            let is_part = |c: char| c.is_alphanumeric() || "_.:".contains(c);
            let found = text.split(|c| !is_part(c)).filter(|word| (2..40).contains(&word.len()));
            words.extend(found.take(4000).map(str::to_owned));
        }
        words.sort();
        words.dedup();
        Self { seeds, words }
    }

    /// A seed, to take parts from.
    pub fn donor(&self, random: &mut Random) -> &[u8] {
        random.one_of(&self.seeds).map(Vec::as_slice).unwrap_or_default()
    }

    /// A word.
    pub fn word(&self, random: &mut Random) -> &str {
        random.one_of(&self.words).map_or("x", String::as_str)
    }
}

/// Makes another input of one.
pub type Mutation = fn(&Corpus, &[u8], &mut Random) -> Vec<u8>;
