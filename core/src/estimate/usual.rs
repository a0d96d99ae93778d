//! [`Model::usual_dims`]: the default batch, if the file gives none.

use std::collections::BTreeMap;

use super::{Model, Stages};
use crate::config::Config;
use crate::graph::Graph;
use crate::infer::OpenDim;

/// COUNT: pictures, or rows of a table, in a batch that people train with.
const PICTURES: u64 = 32;
/// COUNT: texts in such a batch.
const TEXTS: u64 = 8;

impl Model {
    /// The batch that people train such a model with: 32 pictures, or 8 texts; fewer where a device holds
    /// fewer. Nothing where the model has no open batch, or where the file gives one.
    pub fn usual_dims(
        &self,
        config: &Config,
        device_id: &str,
        stages: &mut Stages,
    ) -> BTreeMap<String, u64> {
        let batch = self.open_dims().into_iter().find(|dim| dim.batch);
        let Some(batch) = batch.filter(|batch| !self.is_given(batch)) else {
            return BTreeMap::new();
        };
        let mut usual = config.clone();
        let size = if reads_texts(&self.graph) { TEXTS } else { PICTURES };
        usual.dims.insert(batch.name.clone(), size);
        let fits = self.verdict(&usual, device_id, stages);
        let is_fitting = fits.is_ok_and(|verdict| verdict.need <= verdict.usable());
        let size = if is_fitting { size } else { self.held(&usual, device_id, stages).min(size) };
        [(batch.name, size)].into()
    }

    /// Whether the file has a batch.
    fn is_given(&self, batch: &OpenDim) -> bool {
        self.graph.dims.contains_key(&batch.name) || batch.default > 1
    }

    /// COUNT: the largest power of two that a device holds as batch; 1 where it holds none.
    fn held(&self, config: &Config, device_id: &str, stages: &mut Stages) -> u64 {
        let line = self.batch_line(config, stages);
        let largest = self.largest_batch(config, device_id, &line, stages).ok().flatten();
        let most = largest.and_then(|largest| largest.likely).unwrap_or(1).max(1);
        1 << most.ilog2()
    }
}

/// Whether the first input is rows of token numbers.
pub(super) fn reads_texts(graph: &Graph) -> bool {
    let mut inputs = graph.inputs.iter().filter_map(|&id| graph.value(id)?.declared.as_ref());
    inputs.next().is_some_and(|input| {
        let is_whole = input.dtype.is_some_and(|dtype| !dtype.is_floating());
        is_whole && input.dims.as_ref().is_some_and(|dims| dims.len() == 2)
    })
}
