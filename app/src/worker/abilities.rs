//! What the worker can do with a model, as far as the parts of the program that do it have arrived.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_core::diagnostic::Diagnostics;
use highwater_core::estimate::{Abilities, Rewrite};
use highwater_core::graph::Graph;
use highwater_core::recover::Program;
use highwater_core::step::hooks::Hooks;
use highwater_core::wording::Sentence;
use highwater_core::{Config, Error, ErrorKind, Model, say};

/// Replaces the control flow of a graph by the nodes that run. The number is how many there may be.
pub(crate) type Settle =
    fn(&mut Graph, &BTreeMap<String, u64>, &Diagnostics, usize) -> Result<(), Error>;

/// What stands around the step of one rank.
pub(crate) type Around = fn(&Program, &Config) -> Result<Box<dyn Hooks>, Error>;

/// What has arrived for a model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// What writes its configuration with other code; it brings all families along.
    pub(crate) rewrite: Option<Rewrite>,
    /// What settles its control flow; examples have none.
    pub(crate) settle: Option<Settle>,
    /// What several GPUs add.
    pub(crate) around: Option<Around>,
}

impl Arrived {
    /// Gives a model these abilities.
    pub(crate) fn given_to(self, model: Model) -> Model {
        model.with_abilities(Arc::new(self))
    }
}

impl Abilities for Arrived {
    fn rewrite(&self) -> Result<Rewrite, Sentence> {
        self.rewrite.ok_or_else(|| {
            say!(
                "the model was written for one forward pass: in a shell, `highwater estimate --workload generation` \
                 writes it for tokens, too"
            )
        })
    }

    fn settle(
        &self,
        graph: &mut Graph,
        dims: &BTreeMap<String, u64>,
        sink: &Diagnostics,
        nodes_max: usize,
    ) -> Result<(), Error> {
        let Some(settle) = self.settle else {
            let message = say!(
                "this graph has loops or branches, which were not read with it: open the file again"
            );
            return Err(Error::new(ErrorKind::WrongFormat, message));
        };
        settle(graph, dims, sink, nodes_max)
    }

    fn around(&self, program: &Program, config: &Config) -> Result<Box<dyn Hooks>, Error> {
        if let Some(around) = self.around {
            return around(program, config);
        }
        if config.is_parallel() {
            let message = say!(
                "what simulates several GPUs has not arrived: try again when there is a network"
            );
            return Err(Error::new(ErrorKind::BadConfig, message).about("gpus"));
        }
        Ok(Box::new(()))
    }
}
