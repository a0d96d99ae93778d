//! Local peaks: the moments before memory falls by more than a ripple.

use highwater_core::Bytes;

/// A fall by less than this part of the highest is a ripple.
const RIPPLE: u64 = 50;

/// Positions of the samples that are peaks, ascending.
pub fn peaks(samples: &[Bytes]) -> Vec<usize> {
    let highest = samples.iter().copied().max().unwrap_or_default();
    let ripple = Bytes(highest.0 / RIPPLE).max(Bytes(1));
    let mut peaks = Vec::new();
    // The candidate while it rises; the lowest since, while it falls.
    let (mut top, mut low) = (0, Bytes::ZERO);
    let mut rises = true;
    for (at, &here) in samples.iter().enumerate() {
        if rises {
            if samples.get(top).is_none_or(|&top| here > top) {
                top = at;
            } else if samples[top].saturating_sub(here) >= ripple {
                peaks.push(top);
                (rises, low) = (false, here);
            }
        } else {
            low = low.min(here);
            if here.saturating_sub(low) >= ripple {
                (rises, top) = (true, at);
            }
        }
    }
    if rises && !samples.is_empty() {
        peaks.push(top);
    }
    peaks
}

/// The peak before or behind an event, as an event.
pub fn next(events: &[usize], peaks: &[usize], from: usize, forward: bool) -> Option<usize> {
    let mut at = peaks.iter().filter_map(|&peak| events.get(peak).copied());
    if forward {
        at.find(|&event| event > from)
    } else {
        at.take_while(|&event| event < from).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ripples_are_no_peaks() {
        let samples = [0, 50, 100, 99, 100, 20, 21, 20, 60, 10, 80].map(Bytes);
        assert_eq!(peaks(&samples), [2, 8, 10]);
        assert_eq!(peaks(&[]), [0; 0]);
        assert_eq!(peaks(&[Bytes(0), Bytes(5)]), [1]);
    }

    #[test]
    fn one_peak_leads_to_the_next() {
        let events: Vec<usize> = (0..20).map(|n| 10 * n).collect();
        let peaks = [2, 8, 10];
        assert_eq!(next(&events, &peaks, 20, true), Some(80));
        assert_eq!(next(&events, &peaks, 80, false), Some(20));
        assert_eq!(next(&events, &peaks, 85, false), Some(80));
        assert_eq!(next(&events, &peaks, 20, false), None);
        assert_eq!(next(&events, &peaks, 100, true), None);
    }
}
