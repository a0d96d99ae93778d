//! Changes of bytes, for any format.

use super::{Corpus, INPUT_MAX};
use crate::random::Random;

/// Sets, inserts, removes, repeats, cuts, or takes a part of another seed.
pub fn mutate(corpus: &Corpus, input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..random.edits() {
        edit(&mut bytes, corpus.donor(random), random);
    }
    bytes.truncate(INPUT_MAX);
    bytes
}

fn edit(bytes: &mut Vec<u8>, donor: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    let end = |random: &mut Random, most: usize| (at + 1 + random.below(most)).min(bytes.len());
    match random.below(8) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next().to_le_bytes()[0];
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            let size = random.size().to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            let until = (at + width).min(bytes.len());
            bytes.splice(at..until, size[..width].iter().copied());
        }
        4 => {
            let until = end(random, 64);
            bytes.drain(at.min(until)..until);
        }
        5 => {
            let until = end(random, 2000);
            let part = bytes[at.min(until)..until].to_vec();
            bytes.splice(at..at, part);
        }
        6 => {
            let from = random.below(donor.len());
            let until = (from + 1 + random.below(200)).min(donor.len());
            bytes.splice(at..at, donor[from.min(until)..until].iter().copied());
        }
        _ if random.once_in(4) => bytes.truncate(at),
        _ => {
            let letters = b" \n\t\"'{}[](),:=.0159-eE#\\\0\x7f\xff";
            let letter = random.one_of(letters).copied();
            bytes.splice(at..at, letter);
        }
    }
}
