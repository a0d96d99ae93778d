//! The program `highwater`: see the library of that name.

use std::env;
use std::process::ExitCode;

/// A third of an estimate is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(highwater::main(env::args_os()))
}
