//! What the user chooses: dimensions, optimizer, device.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

/// Everything that an estimate depends on besides the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Sizes of the model's open dimensions, by name. A name left out gets a stated default.
    pub dims: BTreeMap<String, u64>,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Id of the device whose kernels and capacity the run assumes, such as `a100-80gb`.
    pub device: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { dims: BTreeMap::new(), optimizer: Optimizer::AdamW, device: "a100-80gb".to_owned() }
    }
}

/// Optimizers, in PyTorch's default implementation (`foreach` on CUDA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// `torch.optim.SGD` without momentum: no state.
    Sgd,
    /// `torch.optim.SGD(momentum=0.9)`: one buffer per parameter.
    SgdMomentum,
    /// `torch.optim.Adam`: two moments per parameter.
    Adam,
    /// `torch.optim.AdamW`: two moments per parameter.
    #[serde(rename = "adamw")]
    AdamW,
}

impl Optimizer {
    /// All of them, plainest first.
    pub const ALL: [Self; 4] = [Self::Sgd, Self::SgdMomentum, Self::Adam, Self::AdamW];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::SgdMomentum => "sgd-momentum",
            Self::Adam => "adam",
            Self::AdamW => "adamw",
        }
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Optimizer {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|optimizer| optimizer.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|optimizer| optimizer.name()).collect();
            Error::new(
                ErrorKind::BadConfig,
                format!("unknown optimizer `{name}`; choose one of {}", known.join(", ")),
            )
        })
    }
}
