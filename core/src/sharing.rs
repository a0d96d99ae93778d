//! Several jobs on one card, and what a scheduler has to know to put them there.
//!
//! | module | concern |
//! |---|---|
//! | [`requests`] | what a scheduler asks for on behalf of a job |
//! | [`fit`] | whether the memory of several jobs fits together |
//! | [`partition`] | a slice of the card for each, by MIG |
//! | [`slowdown`] | how much longer steps take |

pub mod fit;
pub mod partition;
pub mod requests;
pub mod slowdown;

pub use self::fit::{Fit, Limit, Tenant, Together};
pub use self::partition::Partition;
pub use self::requests::Requests;
