//! How fast a GPU is, as its vendor publishes it.

/// What the memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Stacks next to the chip.
    Hbm,
    /// Chips on the board.
    Gddr,
}

/// The vendor's figures for one form of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The form, where there are several: `PCIe`.
    pub form: &'static str,
    /// Clock that it is guaranteed to hold, in MHz.
    pub base_mhz: u32,
    /// Highest clock under load, in MHz.
    pub boost_mhz: u32,
    /// DRAM bandwidth, in GB/s.
    pub bandwidth: u32,
    /// What the memory is made of.
    pub memory: MemoryKind,
    /// L2 that one half of the chip reaches, in KiB: A100 and H100 keep a copy in each of two halves.
    pub l2_kib: u32,
    /// L1 and shared memory of a multiprocessor, in KiB; 0 where loads bypass it.
    pub l1_kib: u32,
    /// COUNT: fp32 units of a multiprocessor.
    pub lanes: u32,
    /// Power that the board may take, in watts.
    pub watts: u32,
    /// FLOP of dense half-precision products with sums in fp32, in a clock of a multiprocessor.
    pub half_flop: u32,
}
