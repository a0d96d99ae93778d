//! Several jobs on one card, and queues of them in front of several.
//!
//! | module | concern |
//! |---|---|
//! | [`requests`] | what a scheduler asks for on behalf of a job |
//! | [`fit`] | whether the memory of several jobs fits together |
//! | [`partition`] | a slice of the card for each, by MIG |
//! | [`slowdown`] | how much longer steps take |
//! | [`gpus`] | the GPUs of a queue |
//! | [`policy`] | the rules by which a queue places its jobs |
//! | [`queue`] | jobs in front of GPUs, simulated |

pub mod fit;
pub mod gpus;
pub mod partition;
pub mod policy;
pub mod queue;
pub mod requests;
pub mod slowdown;

pub use self::fit::{Fit, Limit, Tenant, Together};
pub use self::partition::Partition;
pub use self::requests::Requests;
