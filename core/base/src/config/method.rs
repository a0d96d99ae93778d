//! [`Method`]: what of a model is trained, as people name it.

use super::{Config, Group, Quantize, SETTINGS};

/// Stands for all linear layers where layers are named that get adapters, but the head.
pub const ALL_LINEAR: &str = "all-linear";

/// What is trained, and how the rest of the weights is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// All weights.
    Full,
    /// Adapters; the weights are frozen.
    Lora,
    /// Adapters; the weights are frozen, and have 4 bits.
    Qlora,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Full, Self::Lora, Self::Qlora];

    /// The method of a configuration.
    pub const fn of(config: &Config) -> Self {
        match (config.lora.is_empty(), config.quantize) {
            (true, _) => Self::Full,
            (false, Quantize::Nf4 | Quantize::Fp4) => Self::Qlora,
            (false, _) => Self::Lora,
        }
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "Full",
            Self::Lora => "LoRA",
            Self::Qlora => "QLoRA",
        }
    }

    /// What it means: no full stop.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Full => "all weights are trained",
            Self::Lora => "only adapters are trained; the weights are frozen",
            Self::Qlora => "only adapters are trained; the weights are frozen, with 4 bits each",
        }
    }

    /// The settings that choose it, with adapters of all linear layers where there are none yet. Settings of
    /// adapters that it does not have go back to their defaults.
    pub fn apply(self, config: &mut Config) {
        let usual = Config::default();
        if self == Self::Full {
            let of_adapters = |group| matches!(group, Group::Method | Group::Adapters);
            let rows = SETTINGS.iter().filter(|row| of_adapters(row.group));
            rows.for_each(|row| row.copy(&usual, config));
        } else if config.lora.is_empty() {
            config.lora = vec![ALL_LINEAR.to_owned()];
        }
        config.quantize = match (self, config.quantize) {
            (Self::Qlora, Quantize::Nf4 | Quantize::Fp4) => config.quantize,
            (Self::Qlora, _) => Quantize::Nf4,
            (Self::Full | Self::Lora, _) => Quantize::None,
        };
        if self != Self::Qlora {
            config.double_quantize = usual.double_quantize;
            config.compute_type = usual.compute_type;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_that_of_its_settings() {
        let mut config = Config::default();
        for method in [Method::Full, Method::Qlora, Method::Lora, Method::Qlora, Method::Full] {
            method.apply(&mut config);
            assert_eq!(Method::of(&config), method);
        }
        assert_eq!(config, Config::default());
    }

    #[test]
    fn chosen_layers_stay() {
        let mut config = Config { lora: vec!["q_proj".to_owned()], ..Config::default() };
        Method::Qlora.apply(&mut config);
        Method::Lora.apply(&mut config);
        assert_eq!(config, Config { lora: vec!["q_proj".to_owned()], ..Config::default() });
    }
}
