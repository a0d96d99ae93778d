//! Settings by name, as texts that can be kept and read again by other versions.

use std::str::FromStr;

use super::{
    Choice as _, Config, Implementation, InPlace, LoopStyle, LossChoice, MemoryFormat, Named,
    Optimizer, Precision, PyTorch, Recover, ZeroGrad,
};
use crate::bytes::Bytes;

/// COUNT: settings besides the dimensions.
const COUNT: usize = 25;

impl Config {
    /// Settings other than the defaults, dimensions left out: the command line's names and exact
    /// values that [`Config::say`] understands.
    pub fn said(&self) -> Vec<(&'static str, String)> {
        let usual = Self::default().texts();
        let settings = self.texts().into_iter().zip(usual);
        settings.filter(|(said, usual)| said != usual).map(|(said, _)| said).collect()
    }

    /// One setting by its name, as [`Config::say`] understands it; empty for what is none.
    pub fn text(&self, name: &str) -> String {
        let named = self.texts().into_iter().find(|(known, _)| *known == name);
        named.map(|(_, text)| text).unwrap_or_default()
    }

    /// Settings that differ from another configuration's, those of dimensions first: the name, and
    /// what each says. What only one has is empty in the other.
    pub fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        let size = |config: &Self, dim: &String| {
            config.dims.get(dim).map_or_else(String::new, u64::to_string)
        };
        let mut dims: Vec<&String> = self.dims.keys().collect();
        dims.extend(other.dims.keys().filter(|dim| !self.dims.contains_key(*dim)));
        let dims = dims.into_iter().map(|dim| (dim.clone(), size(self, dim), size(other, dim)));
        let settings = self.texts().into_iter().zip(other.texts());
        let settings = settings.filter(|((_, ours), (_, theirs))| ours != theirs);
        let settings = settings.map(|((name, ours), (_, theirs))| (name.to_owned(), ours, theirs));
        dims.filter(|(_, ours, theirs)| ours != theirs).chain(settings).collect()
    }

    /// Takes a setting by its name; says whether it is one, and whether the value means something.
    pub fn say(&mut self, name: &str, value: &str) -> bool {
        match name {
            "precision" => put(&mut self.precision, value),
            "memory-format" => put(&mut self.memory_format, value),
            "optimizer" => put(&mut self.optimizer, value),
            "optimizer-impl" => put(&mut self.optimizer_impl, value),
            "weight-decay" => put(&mut self.weight_decay, value),
            "clip-grad-norm" => put(&mut self.clip_grad_norm, value),
            "ema" => put(&mut self.ema, value),
            "zero-grad" => put(&mut self.zero_grad, value),
            "loop" => put(&mut self.loop_style, value),
            "checkpoint" => put(&mut self.checkpoint, value),
            "accumulate" => put(&mut self.accumulate, value),
            "freeze" => list(&mut self.freeze, value),
            "lora" => list(&mut self.lora, value),
            "lora-rank" => put(&mut self.lora_rank, value),
            "loss" => put(&mut self.loss, value),
            "pytorch" => put(&mut self.pytorch, value),
            "attention" => put(&mut self.attention, value),
            "in-place" => put(&mut self.in_place, value),
            "recover" => put(&mut self.recover, value),
            "device" => put(&mut self.device, value),
            "capacity" => size(&mut self.capacity, value),
            "other-processes" => put(&mut self.other_processes, value),
            "context" => size(&mut self.context, value),
            "allowed" => size(&mut self.allowed, value),
            "alloc-conf" => put(&mut self.alloc_conf, value),
            _ => false,
        }
    }

    fn texts(&self) -> [(&'static str, String); COUNT] {
        let Self {
            dims: _,
            precision,
            memory_format,
            optimizer,
            optimizer_impl,
            weight_decay,
            clip_grad_norm,
            ema,
            zero_grad,
            loop_style,
            checkpoint,
            accumulate,
            freeze,
            lora,
            lora_rank,
            loss,
            pytorch,
            attention,
            in_place,
            recover,
            device,
            capacity,
            other_processes,
            context,
            allowed,
            alloc_conf,
        } = self;
        let bytes = |size: &Option<Bytes>| size.map_or_else(String::new, |size| size.0.to_string());
        let whether = |so: bool| if so { "true" } else { "false" }.to_owned();
        [
            ("precision", precision.name().to_owned()),
            ("memory-format", memory_format.name().to_owned()),
            ("optimizer", optimizer.name().to_owned()),
            ("optimizer-impl", optimizer_impl.name().to_owned()),
            ("weight-decay", whether(*weight_decay)),
            ("clip-grad-norm", whether(*clip_grad_norm)),
            ("ema", whether(*ema)),
            ("zero-grad", zero_grad.name().to_owned()),
            ("loop", loop_style.name().to_owned()),
            ("checkpoint", checkpoint.to_string()),
            ("accumulate", accumulate.to_string()),
            ("freeze", freeze.join("\n")),
            ("lora", lora.join("\n")),
            ("lora-rank", lora_rank.to_string()),
            ("loss", loss.name().to_owned()),
            ("pytorch", pytorch.name().to_owned()),
            ("attention", attention.name().to_owned()),
            ("in-place", in_place.name().to_owned()),
            ("recover", recover.name().to_owned()),
            ("device", device.clone()),
            ("capacity", bytes(capacity)),
            ("other-processes", other_processes.0.to_string()),
            ("context", bytes(context)),
            ("allowed", bytes(allowed)),
            ("alloc-conf", alloc_conf.clone()),
        ]
    }
}

/// The values that a setting can have; none where it is no choice of several names.
///
/// ```
/// use highwater_core::config::choices;
/// assert_eq!(choices("optimizer-impl")[0].name, "auto");
/// assert!(choices("accumulate").is_empty());
/// ```
pub fn choices(name: &str) -> &'static [Named] {
    match name {
        "precision" => Precision::TABLE,
        "memory-format" => MemoryFormat::TABLE,
        "optimizer" => Optimizer::TABLE,
        "optimizer-impl" => Implementation::TABLE,
        "zero-grad" => ZeroGrad::TABLE,
        "loop" => LoopStyle::TABLE,
        "loss" => LossChoice::TABLE,
        "pytorch" => PyTorch::TABLE,
        "in-place" => InPlace::TABLE,
        "recover" => Recover::TABLE,
        _ => &[],
    }
}

fn put<T: FromStr>(setting: &mut T, value: &str) -> bool {
    value.parse().map(|value| *setting = value).is_ok()
}

fn size(setting: &mut Option<Bytes>, value: &str) -> bool {
    *setting = if value.is_empty() { None } else { value.parse().ok() };
    value.is_empty() || setting.is_some()
}

fn list(setting: &mut Vec<String>, value: &str) -> bool {
    *setting = value.lines().map(str::to_owned).collect();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Checkpoint, Optimizer, Precision};

    #[test]
    fn differences_are_named() {
        let sgd = Config { optimizer: Optimizer::Sgd, ..Config::default() };
        let mut larger = Config { ema: true, ..sgd };
        larger.dims.insert("batch".to_owned(), 64);
        let shown: Vec<String> = Config::default()
            .differences(&larger)
            .iter()
            .map(|(name, before, after)| format!("{name} {before} > {after}"))
            .collect();
        assert_eq!(shown, ["batch  > 64", "optimizer adamw > sgd", "ema false > true"]);
        assert!(larger.differences(&larger).is_empty());
    }

    #[test]
    fn what_was_said_can_be_said_again() {
        let config = Config {
            precision: Precision::AmpBf16,
            optimizer: Optimizer::Adam8bit,
            ema: true,
            checkpoint: Checkpoint::Blocks,
            freeze: vec!["layer1".to_owned(), "*.bias".to_owned()],
            device: "t4".to_owned(),
            capacity: Some(Bytes(15_634_661_377)),
            other_processes: Bytes(1),
            alloc_conf: "expandable_segments:True".to_owned(),
            ..Config::default()
        };
        let said = config.said();
        assert_eq!(said.len(), 9, "{said:?}");
        let mut again = Config::default();
        assert!(said.iter().all(|(name, value)| again.say(name, value)));
        assert_eq!(again, config);
    }

    #[test]
    fn every_setting_has_a_name_that_is_understood() {
        let config = Config::default();
        assert!(config.said().is_empty());
        for (name, value) in config.texts() {
            assert!(Config::default().say(name, &value), "{name}={value}");
        }
        assert!(!Config::default().say("colour", "red"));
        assert!(!Config::default().say("optimizer", "adamm"));
    }
}
