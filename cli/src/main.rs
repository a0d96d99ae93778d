//! `highwater`: estimates from a shell or a scheduler.

fn main() {}
