//! [`OutOfMemory`], and the sentence that PyTorch prints for it.

use std::fmt;

use crate::bytes::Bytes;

/// An allocation failed: the state of the allocator after it had given back what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// SIZE: what the tensor asked for.
    pub request: Bytes,
    /// SIZE: of the segment that the driver refused; what the message calls the attempt.
    pub segment: Bytes,
    /// SUM: allocated at that moment.
    pub allocated: Bytes,
    /// SUM: reserved at that moment.
    pub reserved: Bytes,
    /// SUM: what the driver had given for that, in its own granularity of 2 MiB.
    pub held: Bytes,
    /// Whether segments expanded, which is other advice.
    pub expandable: bool,
    /// Whether the driver was not even asked: `throw_on_cudamalloc_oom`.
    pub rejected: bool,
}

/// What a message ends with; the doubled spaces are PyTorch's own.
const ADVICE: &str = "If reserved but unallocated memory is large try setting \
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation \
    for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html\
    #optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";

/// What it ends with where segments expand already.
const ADVICE_EXPANDABLE: &str = "expandable_segments is enabled. If instead the process is running \
    out of virtual address space (VSZ), expandable segments may be over-reserving VA (each segment \
    reserves ~9/8 of device memory, times the number of streams); reduce it via \
    PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / expandable_segments_reserve_by_class.";

/// What the message says about the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Number of the device, as in `cuda:0`.
    pub index: usize,
    /// SIZE: total memory as PyTorch sees it.
    pub capacity: Bytes,
    /// SIZE: CUDA context and libraries of this process.
    pub context: Bytes,
    /// SIZE: what other processes hold.
    pub other_processes: Bytes,
    /// SIZE: what this process may reserve, where it is limited to a fraction.
    pub allowed: Option<Bytes>,
}

impl OutOfMemory {
    /// What `torch.OutOfMemoryError` says, but for the sentences on each other process.
    ///
    /// ```
    /// use highwater_base::Bytes;
    /// use highwater_engine::allocator::{DeviceMemory, OutOfMemory};
    /// let error = OutOfMemory {
    ///     request: Bytes::mib(30),
    ///     segment: Bytes::mib(30),
    ///     allocated: Bytes::mib(54),
    ///     reserved: Bytes::mib(60),
    ///     held: Bytes::mib(60),
    ///     expandable: false,
    ///     rejected: false,
    /// };
    /// let device = DeviceMemory {
    ///     index: 0,
    ///     capacity: Bytes::mib(180),
    ///     context: Bytes::mib(100),
    ///     other_processes: Bytes::ZERO,
    ///     allowed: None,
    /// };
    /// assert!(error.message(&device).starts_with(
    ///     "CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of \
    ///      180.00 MiB of which 20.00 MiB is free."
    /// ));
    /// ```
    pub fn message(&self, device: &DeviceMemory) -> String {
        if self.rejected {
            return format!(
                "CUDA out of memory. Allocation was preemptively rejected because it would exceed \
                 per_process_memory_fraction limit. Requested size: {}",
                FormatSize(self.request)
            );
        }
        let process = device.context + self.held;
        let advice = if self.expandable { ADVICE_EXPANDABLE } else { ADVICE };
        let allowed = device
            .allowed
            .map_or_else(String::new, |allowed| format!("{} allowed; ", FormatSize(allowed)));
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which \
             {} is free. Including non-PyTorch memory, this process has {} memory in use. {allowed}Of the \
             allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but \
             unallocated. {advice}",
            FormatSize(self.segment),
            device.index,
            FormatSize(device.capacity),
            FormatSize(device.capacity - process - device.other_processes),
            FormatSize(process),
            FormatSize(self.allocated),
            FormatSize(self.reserved - self.allocated),
        )
    }
}

/// `format_size`: a unit is used from one byte above it, so that 1 GiB reads `1024.00 MiB`.
struct FormatSize(Bytes);

impl fmt::Display for FormatSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let bytes = self.0.0;
        for (shift, unit) in UNITS {
            if bytes > 1 << shift {
                // `printf` rounds the exact value, halves to even.
                let scaled = u128::from(bytes) * 100;
                let (floor, rest) = (scaled >> shift, scaled & ((1 << shift) - 1));
                let half = 1 << (shift - 1);
                let up = rest > half || (rest == half && floor & 1 == 1);
                let hundredths = floor + u128::from(up);
                let (whole, part) = (hundredths.div_euclid(100), hundredths.rem_euclid(100));
                return write!(f, "{whole}.{part:02} {unit}");
            }
        }
        write!(f, "{bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_pytorch_prints_them() {
        // (1 << 20) / 1000 and the halves were checked with glibc's `%.2f`.
        let cases = [
            (0, "0 bytes"),
            (1024, "1024 bytes"),
            (1025, "1.00 KiB"),
            (1152, "1.12 KiB"),
            (1408, "1.38 KiB"),
            (1 << 20, "1024.00 KiB"),
            (20 << 20, "20.00 MiB"),
            (1 << 30, "1024.00 MiB"),
            ((1 << 30) + 1, "1.00 GiB"),
            (1500 << 20, "1.46 GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(FormatSize(Bytes(bytes)).to_string(), text);
        }
    }
}
