//! What a program can do with a model besides running it as it was read, on one GPU.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::RefUnwindSafe;

use crate::config::{Config, Library};
use crate::diagnostic::Diagnostics;
use crate::error::Error;
use crate::formats;
use crate::graph::Graph;
use crate::parallel;
use crate::recover::Program;
use crate::sentence::Sentence;
use crate::step::hooks::Hooks;
use crate::unroll;

/// A configuration and the library whose code runs → the graph.
pub type Rewrite = fn(&str, Library) -> Result<Graph, Error>;

/// What a program can do with a model besides running it as it was read, on one GPU.
///
/// [`Everything`] is all there is. A program that loads its own parts as it needs them says in its answers which it
/// lacks, and what to do.
pub trait Abilities: fmt::Debug + Send + Sync + RefUnwindSafe {
    /// Writes the graph of a configuration with other code, for other passes and releases of a library.
    ///
    /// # Errors
    /// This program does not do it for the model: why its tokens are not written, and what to do.
    fn rewrite(&self) -> Result<Rewrite, Sentence>;

    /// Replaces the control flow of a graph by the nodes that run, at most `nodes_max`: [`unroll::settle`].
    ///
    /// # Errors
    /// There would be more nodes, or this program has nothing for control flow.
    fn settle(
        &self,
        graph: &mut Graph,
        dims: &BTreeMap<String, u64>,
        sink: &Diagnostics,
        nodes_max: usize,
    ) -> Result<(), Error>;

    /// What stands around the step of one rank: [`parallel::hooks`]. One process alone has nothing around it.
    ///
    /// # Errors
    /// There are no such ranks, or this program has nothing for several.
    fn around(&self, program: &Program, config: &Config) -> Result<Box<dyn Hooks>, Error>;
}

/// All that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Everything;

impl Abilities for Everything {
    fn rewrite(&self) -> Result<Rewrite, Sentence> {
        Ok(formats::with_library)
    }

    fn settle(
        &self,
        graph: &mut Graph,
        dims: &BTreeMap<String, u64>,
        sink: &Diagnostics,
        nodes_max: usize,
    ) -> Result<(), Error> {
        unroll::settle(graph, dims, sink, nodes_max)
    }

    fn around(&self, program: &Program, config: &Config) -> Result<Box<dyn Hooks>, Error> {
        parallel::hooks(program, config)
    }
}
