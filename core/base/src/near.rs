//! How near two names are, for who mistyped one.

/// Edits that make one word the other (Levenshtein's distance).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i.saturating_add(1)];
        for ((y, &diagonal), &above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or(0);
            let replaced = diagonal.saturating_add(usize::from(x != *y));
            next.push(replaced.min(above.saturating_add(1)).min(left.saturating_add(1)));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
