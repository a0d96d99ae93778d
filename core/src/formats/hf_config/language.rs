//! The language of the files in `families`: what a model of transformers is, in a small part of
//! Python's syntax.
//!
//! - A class with plain assignments states settings and their defaults; any other class is a module:
//!   `__init__` registers parameters, buffers and modules in order, `forward` runs operators.
//! - A name holds a tensor until it is bound again, is deleted, or its function returns: as in Python,
//!   and that is what the allocator sees.
//! - Nothing is unbounded: calls nest to a depth, ranges have a largest size, a run has a number of
//!   steps.

mod built_ins;
mod lexer;
mod parser;
mod run;
mod value;

pub(super) use parser::{Statement, header, parse};
pub(super) use run::Run;

use crate::error::{Error, ErrorKind};

/// A mistake in the text of a family: no fault of the file that is read.
fn mistake(file: &str, line: usize, message: &str) -> Error {
    Error::new(ErrorKind::NoGraph, format!("the family `{file}`, line {line}: {message}"))
}
