//! [`MachineField`]: the settings that are about the machine and not about the training.

use super::{Config, choice};
use crate::bytes::Bytes;
use crate::error::Error;

choice! {
    /// One setting of the machine. All but the last two are about the device of the
    /// configuration and no other.
    pub enum MachineField ("setting of the machine") {
        /// [`Config::device`].
        Device = "device", "GPU", "its kernels and capacity are assumed",
        /// [`Config::capacity`].
        Capacity = "capacity", "total memory", "of the card, as PyTorch reports it",
        /// [`Config::context`].
        Context = "context", "CUDA context", "CUDA and its libraries in the training process",
        /// [`Config::other_processes`].
        OtherProcesses = "other-processes", "other processes", "what they hold of the card",
        /// [`Config::allowed`].
        Allowed = "allowed", "limit of the process", "as set_per_process_memory_fraction gives it",
        /// [`Config::alloc_conf`].
        AllocConf = "alloc-conf", "allocator settings", "PYTORCH_CUDA_ALLOC_CONF",
        /// [`Config::pytorch`].
        PyTorch = "pytorch", "PyTorch", "whose rules are followed",
    }
}

impl MachineField {
    /// Takes one setting over from another configuration.
    pub fn copy(self, from: &Config, to: &mut Config) {
        match self {
            Self::Device => to.device.clone_from(&from.device),
            Self::Capacity => to.capacity = from.capacity,
            Self::Context => to.context = from.context,
            Self::OtherProcesses => to.other_processes = from.other_processes,
            Self::Allowed => to.allowed = from.allowed,
            Self::AllocConf => to.alloc_conf.clone_from(&from.alloc_conf),
            Self::PyTorch => to.pytorch = from.pytorch,
        }
    }

    /// What a configuration says, as [`MachineField::read`] reads it; empty where it leaves the
    /// figure to the table of devices.
    pub fn text(self, config: &Config) -> String {
        let size = |size: Option<Bytes>| size.map_or_else(String::new, |size| size.to_string());
        match self {
            Self::Device => config.device.clone(),
            Self::Capacity => size(config.capacity),
            Self::Context => size(config.context),
            Self::OtherProcesses => size(Some(config.other_processes).filter(|held| held.0 > 0)),
            Self::Allowed => size(config.allowed),
            Self::AllocConf => config.alloc_conf.clone(),
            Self::PyTorch => config.pytorch.name().to_owned(),
        }
    }

    /// Whether two configurations say the same.
    pub fn same(self, one: &Config, other: &Config) -> bool {
        match self {
            Self::Device => one.device == other.device,
            Self::Capacity => one.capacity == other.capacity,
            Self::Context => one.context == other.context,
            Self::OtherProcesses => one.other_processes == other.other_processes,
            Self::Allowed => one.allowed == other.allowed,
            Self::AllocConf => one.alloc_conf == other.alloc_conf,
            Self::PyTorch => one.pytorch == other.pytorch,
        }
    }

    /// Sets what somebody typed; nothing leaves the figure to the table again.
    ///
    /// # Errors
    /// When it is no size, or no version that is known.
    pub fn read(self, typed: &str, config: &mut Config) -> Result<(), Error> {
        let typed = typed.trim();
        if typed.is_empty() {
            self.copy(&Config::default(), config);
            return Ok(());
        }
        match self {
            Self::Device => typed.clone_into(&mut config.device),
            Self::Capacity => config.capacity = Some(typed.parse()?),
            Self::Context => config.context = Some(typed.parse()?),
            Self::OtherProcesses => config.other_processes = typed.parse()?,
            Self::Allowed => config.allowed = Some(typed.parse()?),
            Self::AllocConf => typed.clone_into(&mut config.alloc_conf),
            Self::PyTorch => config.pytorch = typed.parse()?,
        }
        Ok(())
    }
}

impl Config {
    /// Figures of one card, which say nothing of another.
    const OF_THE_CARD: [MachineField; 4] = [
        MachineField::Capacity,
        MachineField::Context,
        MachineField::OtherProcesses,
        MachineField::Allowed,
    ];

    /// Another device, with the table's figures.
    pub fn choose_device(&mut self, id: &str) {
        if self.device != id {
            id.clone_into(&mut self.device);
            let usual = Self::default();
            for field in Self::OF_THE_CARD {
                field.copy(&usual, self);
            }
        }
    }

    /// Whether the configuration knows its own card better than the table of devices.
    pub fn knows_the_card(&self) -> bool {
        let usual = Self::default();
        Self::OF_THE_CARD.iter().any(|field| !field.same(self, &usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_reads_back() {
        let cases = [
            (MachineField::Device, "t4"),
            (MachineField::Capacity, "14.56 GiB"),
            (MachineField::Context, "150.00 MiB"),
            (MachineField::OtherProcesses, "2.50 GiB"),
            (MachineField::Allowed, "512.00 MiB"),
            (MachineField::AllocConf, "max_split_size_mb:512"),
            (MachineField::PyTorch, "2.8"),
        ];
        let usual = Config::default();
        let mut all = Config::default();
        for (field, typed) in cases {
            assert_eq!(field.read(typed, &mut all).err(), None, "{field}");
            assert_eq!(field.text(&all), typed, "{field}");
            assert!(!field.same(&all, &usual), "{field}");
            let mut one = Config::default();
            field.copy(&all, &mut one);
            assert!(field.same(&all, &one), "{field}");
        }
        assert!(MachineField::Capacity.read("24GB", &mut all).is_err());
        for field in MachineField::ALL {
            assert_eq!(field.read(" ", &mut all).err(), None, "{field}");
        }
        assert_eq!(all, usual);
    }

    #[test]
    fn another_device_has_the_tables_figures() {
        let mut config = Config {
            device: "t4".to_owned(),
            capacity: Some(Bytes::mib(15_000)),
            other_processes: Bytes::mib(850),
            alloc_conf: "max_split_size_mb:512".to_owned(),
            ..Config::default()
        };
        config.choose_device("t4");
        assert!(config.knows_the_card());
        config.choose_device("l4");
        assert!(!config.knows_the_card());
        assert_eq!(config.alloc_conf, "max_split_size_mb:512");
    }
}
