//! The language of the files in `families`: it describes a model of transformers in a small part of Python's
//! syntax.
//!
//! - A class with plain assignments states settings and their defaults; any other class is a module:
//!   `__init__` registers parameters, buffers and modules in order, `forward` runs operators.
//! - A variable keeps its tensor alive until it is assigned again, is deleted, or its function returns, as in
//!   Python. The allocator sees this.
//! - Everything is bounded: the depth of calls, the size of ranges, the number of steps.

mod built_ins;
mod lexer;
mod parser;
mod plan;
mod run;
mod value;

pub(super) use parser::{Argument, Expr, Statement, header, layout, parse};
pub(super) use run::Run;

use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;

/// A mistake in the text of a family: no fault of the file that is read.
pub(super) fn mistake(file: &str, line: usize, message: &Sentence) -> Error {
    Error::new(
        ErrorKind::NoGraph,
        say!("the family `{file}`, line {line}: {message}", file, line, message),
    )
}
