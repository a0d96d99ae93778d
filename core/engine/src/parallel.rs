//! One rank of several: what data parallelism does around the step of one process, as sets of [`Hooks`].
//!
//! The process groups of PyTorch's tests answer without communication, and so does this: a rank is a run of its own, and
//! what it allocates does not depend on the others. Buffers of NCCL lie outside of the allocator.

mod ddp;
mod flat;
mod fsdp;
mod pipeline;
mod stage;
mod units;
mod zero;

use crate::config::{Config, DataParallel, Quantize};
use crate::eager::exchange::Group;
use crate::error::{Error, ErrorKind};
use crate::recover::Program;
use crate::step::hooks::Hooks;

/// What stands around the step of the rank that a configuration asks for.
///
/// # Errors
/// When there are no such ranks.
pub fn hooks(program: &Program, config: &Config) -> Result<Box<dyn Hooks>, Error> {
    if !config.is_parallel() {
        return Ok(Box::new(()));
    }
    let ranks = config.ranks()?;
    if let Some(rank) = config.rank.0.filter(|rank| *rank >= ranks.all()) {
        let message = say!(
            "there is no rank {rank}: {gpus} GPUs have the ranks 0 to {last}",
            rank,
            gpus = ranks.all(),
            last = ranks.all().saturating_sub(1)
        );
        return Err(Error::new(ErrorKind::BadConfig, message).about("rank"));
    }
    if ranks.pipeline > 1 {
        return Ok(Box::new(pipeline::Pipeline::of(program, config, ranks.pipeline)?));
    }
    if ranks.tensor > 1 {
        // Divided layers are part of the program.
        let is_shared = ranks.data > 1;
        return Ok(if is_shared {
            Box::new(fsdp::Fsdp::of(program, config, ranks))
        } else {
            Box::new(())
        });
    }
    let group = Group { ranks: ranks.all(), apart: 1 };
    if config.data_parallel.shards_parameters() && config.quantize == Quantize::Int8 {
        let message = say!(
            "FSDP divides no weights of 8 bits; packed weights of 4 bits are kept as floating-point numbers: choose `nf4`"
        );
        return Err(Error::new(ErrorKind::BadConfig, message).about("quantize"));
    }
    Ok(match config.data_parallel {
        DataParallel::Auto | DataParallel::Ddp => Box::new(ddp::Ddp::of(config, group, None)),
        DataParallel::Zero1 => {
            let shares = zero::Shares { ranks: ranks.all(), rank: config.rank.0 };
            Box::new(ddp::Ddp::of(config, group, Some(shares)))
        }
        DataParallel::Fsdp => Box::new(fsdp::Fsdp::of(program, config, ranks)),
        DataParallel::Fsdp1 => Box::new(flat::Flat::of(program, config, ranks)),
    })
}
