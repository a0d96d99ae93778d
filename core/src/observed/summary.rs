//! Reads what `torch.cuda.memory_summary()` returns: a table of the caching allocator's statistics
//! (`torch/cuda/memory.py`).

use crate::bytes::Bytes;

/// The allocator's own account of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of the GPU in the process.
    pub gpu: u64,
    /// SIZE: what tensors take, now and at most.
    pub allocated: [Bytes; 2],
    /// SIZE: what the allocator has from the driver, now and at most.
    pub reserved: [Bytes; 2],
    /// COUNT: times that the allocator gave its cache back and tried again.
    pub retries: u64,
    /// COUNT: times that memory ran out.
    pub ran_out: u64,
}

/// The last summary in a text, if there is one.
pub(super) fn read(text: &str) -> Option<Summary> {
    const TITLE: &str = "PyTorch CUDA memory summary, device ID";
    let (_, table) = text.rsplit_once(TITLE)?;
    let row = |name: &str| {
        let cells = table
            .lines()
            .find_map(|line| line.trim().strip_prefix('|')?.trim().strip_prefix(name))?;
        let mut cells = cells.split('|').map(str::trim).filter(|cell| !cell.is_empty());
        Some([size(cells.next()?)?, size(cells.next()?)?])
    };
    let behind = |label: &str| -> Option<u64> {
        let (_, rest) = table.split_once(label)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    Some(Summary {
        gpu: table.split_whitespace().next()?.parse().ok()?,
        allocated: row("Allocated memory")?,
        // Before PyTorch 1.4 it was called cached.
        reserved: row("GPU reserved memory").or_else(|| row("GPU cached memory"))?,
        retries: behind("cudaMalloc retries:").unwrap_or(0),
        ran_out: behind("CUDA OOMs:").unwrap_or(0),
    })
}

/// A whole number of bytes, or of a multiple: `10516 KiB`.
fn size(cell: &str) -> Option<Bytes> {
    let (number, unit) = cell.split_once(' ')?;
    let power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].iter().position(|known| *known == unit)?;
    let unit = 1_u64.checked_shl(u32::try_from(power).ok()?.checked_mul(10)?)?;
    Some(Bytes(number.parse::<u64>().ok()?.checked_mul(unit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let table = "\
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 1                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 2            |        cudaMalloc retries: 3         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      | 161792 B   |  10516 KiB |  73209 KiB |  73051 KiB |
|       from large pool |      0 B   |   8320 KiB |  49920 KiB |  49920 KiB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |  24576 KiB |     25 MiB |  24576 KiB |      0 B   |
";
        let expected = Summary {
            gpu: 1,
            allocated: [Bytes(161_792), Bytes(10_516 << 10)],
            reserved: [Bytes::mib(24), Bytes::mib(25)],
            retries: 3,
            ran_out: 2,
        };
        assert_eq!(read(table), Some(expected));
        let cut = table.split("| GPU reserved").next().unwrap_or_default();
        assert_eq!(read(cut), None);
        assert_eq!(read("no summary"), None);
    }
}
