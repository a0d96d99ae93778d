//! Adam and AdamW with moments in eight bits, of bitsandbytes 0.44 and later
//! (`bitsandbytes/optim/optimizer.py`). Its kernels update in place.

use super::rule::{Rule, Slot};
use crate::config::Implementation;

/// `bnb.optim.Adam8bit(lr)`.
pub(super) const ADAM: Rule = Rule {
    class: "Adam8bit",
    state: &[Slot::Quantised],
    in_constructor: false,
    usual: Implementation::ForLoop,
    foreach: None,
    for_loop: |_| {},
    fused: None,
};

/// `bnb.optim.AdamW8bit(lr)`.
pub(super) const ADAMW: Rule = Rule { class: "AdamW8bit", ..ADAM };
