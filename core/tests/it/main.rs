//! Integration tests of `highwater-core`, in one binary.

mod allocator;
mod replay;
