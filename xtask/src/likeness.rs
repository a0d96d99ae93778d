//! Puts what is alike close together, because gzip sees only the last 32 kB.

use std::collections::{BTreeMap, VecDeque};

use crate::weight::gzip_size;

/// COUNT: bytes of the pieces by which functions are compared: two or three instructions.
const PIECE: usize = 6;
/// COUNT: the most functions that may have a piece in common. What more of them have is found again anyhow.
const COMMON: usize = 300;
/// SIZE: of what gzip still sees when the next function begins; all are tried, because a choice that is a little
/// different early leads to another order of everything.
const WINDOWS: [usize; 5] = [24_000, 26_000, 28_000, 30_000, 32_000];
/// COUNT: pieces that are added to each function's own, so that the smallest do not come first of all.
const SMALL: u64 = 20;
/// PERCENT: the least part of a function that gzip must have seen for it to be chosen.
const ALIKE: u64 = 1;

/// The order in which gzip makes the least of bodies.
pub(crate) fn order(bodies: &[&[u8]]) -> Vec<usize> {
    let known = pieces(bodies);
    let orders = WINDOWS.map(|window| order_in(window, bodies, &known));
    let size = |order: &Vec<usize>| {
        let all: Vec<u8> = order.iter().flat_map(|&body| bodies[body]).copied().collect();
        gzip_size(&all).unwrap_or(usize::MAX)
    };
    orders.into_iter().min_by_key(size).unwrap_or_default()
}

/// The pieces of each body, and the bodies that have each piece.
type Pieces = (Vec<Vec<usize>>, Vec<Vec<usize>>);

/// An order in which each body shares as much as possible with those in the window before it.
///
/// Where nothing is alike, the first body that is left comes next.
fn order_in(most: usize, bodies: &[&[u8]], (pieces, holders): &Pieces) -> Vec<usize> {
    // How many of a body's pieces the window has.
    let mut seen = vec![0_u64; bodies.len()];
    let mut times_in_window = vec![0_usize; holders.len()];
    let (mut window, mut size) = (VecDeque::new(), 0);
    let mut is_left = vec![true; bodies.len()];
    let mut order = Vec::with_capacity(bodies.len());
    while let Some(first) = is_left.iter().position(|&left| left) {
        let likeness = |body: usize| 100 * seen[body] / (pieces[body].len() as u64 + SMALL);
        let left = (first..bodies.len()).filter(|&body| is_left[body]);
        let alike = left.map(|body| (likeness(body), body)).filter(|&(part, _)| part >= ALIKE);
        let next = alike.max_by_key(|&(part, body)| (part, usize::MAX - body));
        let next = next.map_or(first, |(_, body)| body);
        is_left[next] = false;
        order.push(next);
        window.push_back(next);
        size += bodies[next].len();
        for &piece in &pieces[next] {
            times_in_window[piece] += 1;
            if times_in_window[piece] == 1 {
                holders[piece].iter().for_each(|&body| seen[body] += 1);
            }
        }
        while size > most
            && let Some(oldest) = window.pop_front()
        {
            size -= bodies[oldest].len();
            for &piece in &pieces[oldest] {
                times_in_window[piece] -= 1;
                if times_in_window[piece] == 0 {
                    holders[piece].iter().for_each(|&body| seen[body] -= 1);
                }
            }
        }
    }
    order
}

/// The pieces of each body, each once, and the bodies that have each piece.
fn pieces(bodies: &[&[u8]]) -> Pieces {
    let mut numbers = BTreeMap::<&[u8], usize>::new();
    let mut holders = Vec::<Vec<usize>>::new();
    let mut pieces = Vec::new();
    for (body, bytes) in bodies.iter().enumerate() {
        let mut own = Vec::new();
        for piece in bytes.windows(PIECE) {
            let number = *numbers.entry(piece).or_insert(holders.len());
            if number == holders.len() {
                holders.push(Vec::new());
            }
            if holders[number].last() != Some(&body) {
                holders[number].push(body);
                own.push(number);
            }
        }
        pieces.push(own);
    }
    for holders in &mut holders {
        if holders.len() > COMMON {
            holders.clear();
        }
    }
    (pieces, holders)
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn what_is_alike_stands_together() {
        let bodies: [&[u8]; 5] = [
            b"a load, an addition, a store",
            b"something of its own",
            b"a load, a product, a store",
            b"else, and of its own",
            b"a load, an addition, a return",
        ];
        assert_eq!(order(&bodies), [0, 4, 2, 1, 3]);
    }

    #[test]
    fn what_has_nothing_in_common_keeps_its_order() {
        assert_eq!(order(&[b"0123456", b"", b"abc", b"tuvwxyz"]), [0, 1, 2, 3]);
    }
}
