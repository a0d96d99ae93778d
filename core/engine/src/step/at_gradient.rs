//! Optimizers that step inside backward: each has one parameter, steps as soon as that has its gradient, and frees it
//! (`Tensor.register_post_accumulate_grad_hook`, as torchtune's `optimizer_in_bwd` and LOMO have it).

use std::cell::RefCell;

use super::Parameter;
use super::optimizer::State;
use crate::config::Config;
use crate::eager::Runtime;
use crate::eager::autograd::Leaf;
use crate::error::{Error, ErrorKind};
use crate::sentence::Sentence;

/// An optimizer for each parameter, in their order.
#[derive(Debug)]
pub(super) struct Optimizers(RefCell<Vec<State>>);

impl Optimizers {
    /// One for each parameter.
    ///
    /// # Errors
    /// Where something has to look at all gradients of a step first.
    pub(super) fn of(
        rt: &Runtime,
        config: &Config,
        parameters: &[Parameter],
    ) -> Result<Self, Error> {
        refuse_what_needs_all(config)?;
        let each = parameters.iter().map(|parameter| {
            let mut state = State::new(config)?;
            state.construct(rt, std::slice::from_ref(parameter));
            Ok(state)
        });
        Ok(Self(RefCell::new(each.collect::<Result<_, _>>()?)))
    }

    /// The step of the parameter that has just got its gradient.
    pub(super) fn step(&self, rt: &Runtime, parameters: &[Parameter], leaf: &Leaf) {
        let is_of_leaf = |parameter: &Parameter| std::ptr::eq(&raw const *parameter.leaf, leaf);
        let Some(at) = parameters.iter().position(is_of_leaf) else { return };
        let mut states = self.0.borrow_mut();
        if let (Some(state), Some(parameter)) = (states.get_mut(at), parameters.get(at..=at)) {
            state.step(rt, parameter);
            leaf.clear();
        }
    }
}

fn refuse_what_needs_all(config: &Config) -> Result<(), Error> {
    let reasons: [(bool, Sentence); 4] = [
        (config.clips(), say!("clipping needs all gradients at a time")),
        (config.accumulate.get() > 1, say!("accumulation keeps gradients for a later batch")),
        (config.precision.scales_gradients(), say!("the gradient scaler looks at all gradients")),
        (config.precision.has_masters(), say!("master weights get all gradients at a time")),
    ];
    match reasons.into_iter().find(|(applies, _)| *applies) {
        None => Ok(()),
        Some((_, why)) => {
            let message = say!(
                "with the optimizer in backward, no gradient waits for the others, but {why}: leave out one of both",
                why
            );
            Err(Error::new(ErrorKind::BadConfig, message).about("optimizer-in-backward"))
        }
    }
}
