//! Releases of transformers, and which rules a model's code follows.
//!
//! Each rule that changed states the release that changed it. Sources: the release notes and `modeling_*.py`,
//! `trainer.py` and `loss_utils.py` of the releases named.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::choice::Named;
use super::setting::{Kind, Typed, Value};
use super::{Attention, Compile, Config, Kernels, Pass, PyTorch, Sizes, Task};
use crate::error::{Error, ErrorKind};

/// A release of transformers; `None` for the one of PyTorch's time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Transformers(Option<(u64, u64)>);

/// The release with which each release of PyTorch was used: the newest when the next one of PyTorch came.
const OF_PYTORCH: [(PyTorch, (u64, u64)); 17] = [
    (PyTorch::new(1, 10), (4, 16)),
    (PyTorch::new(1, 11), (4, 20)),
    (PyTorch::new(1, 12), (4, 23)),
    (PyTorch::new(1, 13), (4, 27)),
    (PyTorch::new(2, 0), (4, 34)),
    (PyTorch::new(2, 1), (4, 37)),
    (PyTorch::new(2, 2), (4, 39)),
    (PyTorch::new(2, 3), (4, 42)),
    (PyTorch::new(2, 4), (4, 45)),
    (PyTorch::new(2, 5), (4, 48)),
    (PyTorch::new(2, 6), (4, 51)),
    (PyTorch::new(2, 7), (4, 54)),
    (PyTorch::new(2, 8), (4, 57)),
    (PyTorch::new(2, 9), (5, 0)),
    (PyTorch::new(2, 10), (5, 3)),
    (PyTorch::new(2, 11), (5, 8)),
    (PyTorch::new(2, 12), (5, 12)),
];

impl Transformers {
    /// The release that families follow.
    pub const LATEST: Self = Self::new(5, 23);

    /// The release of a major and a minor number.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self(Some((major, minor)))
    }

    /// The release that people used with a release of PyTorch.
    fn of(pytorch: PyTorch) -> Self {
        let newer = OF_PYTORCH.iter().rev().find(|(release, _)| *release <= pytorch);
        match newer {
            _ if pytorch >= PyTorch::new(2, 13) => Self::LATEST,
            Some((_, release)) => Self(Some(*release)),
            None => Self::new(4, 12),
        }
    }

    /// Whether decoders, BERT and vision transformers call PyTorch's fused attention by default. Decoders did from 4.36
    /// on, BERT from 4.41, image models and the rest with the attention interface of 4.48.
    pub fn has_sdpa(self, family: &str) -> bool {
        /// Families with a class of their own for it in 4.36.
        const FIRST: [&str; 6] = ["llama", "mistral", "mixtral", "falcon", "phi", "gpt_bigcode"];
        const BEFORE_INTERFACE: [&str; 10] = [
            "bert",
            "roberta",
            "xlm-roberta",
            "electra",
            "gpt2",
            "gemma",
            "gemma2",
            "qwen2",
            "starcoder2",
            "stablelm",
        ];
        const LAST: [&str; 1] = ["t5"];
        let since = match family {
            _ if FIRST.contains(&family) => Self::new(4, 36),
            _ if LAST.contains(&family) => Self::new(5, 16),
            "bart" | "whisper" => Self::new(4, 37),
            _ if BEFORE_INTERFACE.contains(&family) => Self::new(4, 41),
            _ => Self::new(4, 46),
        };
        self >= since
    }

    /// Whether next-token losses raise the logits inside the model and cut off the last position of each text, into a
    /// copy of its own; later, labels are padded instead.
    pub fn shifts_logits(self) -> bool {
        self < Self::new(4, 55)
    }

    /// Whether a model raises its logits itself, so that it returns them in single precision.
    pub fn returns_single(self) -> bool {
        self < Self::new(4, 46)
    }

    /// Whether `gradient_checkpointing_enable()` reenters autograd unless told not to.
    pub fn reenters(self) -> bool {
        self < Self::new(5, 0)
    }

    /// Whether experts are modules of their own, with linear layers, and not a few large parameters.
    pub fn has_expert_modules(self) -> bool {
        self < Self::new(5, 0)
    }

    /// Whether the Trainer takes the fused AdamW by itself.
    pub fn fuses_adamw(self) -> bool {
        self >= Self::new(4, 55)
    }
}

/// Whose code the model of a configuration runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// Which attention was asked for.
    pub attention: Attention,
    /// Whose kernels run norms, gates and rotary positions.
    pub kernels: Kernels,
    /// The release of transformers.
    pub transformers: Transformers,
    /// Which head was asked for.
    pub task: Task,
    /// Which sizes were asked for.
    pub sizes: Sizes,
    /// Whether a compiler traces it, which its masks depend on.
    pub is_compiled: bool,
    /// Which forward pass is written.
    pub pass: Pass,
    /// COUNT: parts into which tensor parallelism divides layers.
    pub parts: u64,
}

impl Default for Library {
    /// What a configuration has by itself.
    fn default() -> Self {
        Self {
            attention: Attention::Auto,
            kernels: Kernels::Torch,
            transformers: Transformers::LATEST,
            task: Task::Auto,
            sizes: Sizes::default(),
            is_compiled: false,
            pass: Pass::Whole,
            parts: 1,
        }
    }
}

impl Config {
    /// Whose code a configuration's model runs, and what is asked of it.
    pub fn code(&self) -> Library {
        let Self { attention, kernels, task, compile, .. } = *self;
        let (transformers, sizes) = (self.library(), Sizes::of(self));
        let is_compiled = compile != Compile::None;
        let pass = self.first_pass();
        let ranks = self.is_parallel().then(|| self.ranks().ok()).flatten();
        let parts = ranks.map_or(1, |ranks| ranks.tensor);
        Library { attention, kernels, transformers, task, sizes, is_compiled, pass, parts }
    }

    /// Whether checkpointing is with reentry. By default it is where a library's model has it so (`is_of_library`), and
    /// where checkpoints wait on the host; code of one's own names the kind that it wants.
    pub fn reenters(&self, is_of_library: bool) -> bool {
        let usual = self.checkpoint_offload || is_of_library && self.library().reenters();
        self.checkpoint_reentry.or(usual)
    }

    /// The release of transformers: that which was chosen, or that of PyTorch's time.
    pub fn library(&self) -> Transformers {
        match self.transformers {
            Transformers(None) => Transformers::of(self.pytorch),
            chosen => chosen,
        }
    }
}

said_plainly!(Transformers);

impl fmt::Display for Transformers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.pad("auto"),
            Some((major, minor)) => f.pad(&format!("{major}.{minor}")),
        }
    }
}

impl FromStr for Transformers {
    type Err = Error;

    /// A version, as `transformers.__version__` prints it, or `auto`: `4.46.3`, `5.0`.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "auto" {
            return Ok(Self(None));
        }
        let mut parts = text.split('.').map(str::parse::<u64>);
        // YAML reads 5.0 as the number 5.
        let (major, minor) = (parts.next(), parts.next().unwrap_or(Ok(0)));
        if let (Some(Ok(major @ 2..=5)), Ok(minor @ 0..=99)) = (major, minor) {
            return Ok(Self::new(major, minor));
        }
        let message = say!(
            "`{text}` is no version of transformers: write one such as 4.46 or 5.0, or auto",
            text
        );
        Err(Error::new(ErrorKind::BadConfig, message))
    }
}

impl Typed for Transformers {
    const KIND: Kind = Kind::Suggestion(&[
        Named { name: "auto", label: "automatic", about: "the one of PyTorch's time" },
        Named { name: "5.23", label: "5.23", about: "" },
        Named { name: "5.0", label: "5.0", about: "" },
        Named { name: "4.57", label: "4.57", about: "" },
        Named { name: "4.46", label: "4.46", about: "" },
        Named { name: "4.36", label: "4.36", about: "" },
    ]);

    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn read(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<String> for Transformers {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Transformers> for String {
    fn from(release: Transformers) -> Self {
        release.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_version_or_that_of_pytorch() {
        for (text, release) in [("4.46.3", "4.46"), ("5.0", "5.0"), ("auto", "auto")] {
            assert_eq!(
                text.parse::<Transformers>().map(|it| it.to_string()),
                Ok(release.to_owned())
            );
        }
        for text in ["", "6.0", "four", "2030"] {
            assert!(text.parse::<Transformers>().is_err(), "{text}");
        }
        for (pytorch, release) in
            [("2.15", "5.23"), ("2.5", "4.48"), ("2.0", "4.34"), ("1.9", "4.12")]
        {
            let config = Config { pytorch: pytorch.parse().unwrap(), ..Config::default() };
            assert_eq!(config.library().to_string(), release, "{pytorch}");
        }
        assert!(OF_PYTORCH.is_sorted());
    }
}
