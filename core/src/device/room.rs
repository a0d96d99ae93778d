//! [`Room`]: the memory of one device that one process may use.

use super::confidence::Doubt;
use super::{Context, Device, NCCL, Provenance};
use crate::bytes::Bytes;
use crate::config::Config;

/// What there is for one process on one device: the table's figures, and what the configuration
/// knows better of its own device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// SIZE: total memory as PyTorch sees it.
    pub capacity: Bytes,
    /// Where that comes from.
    pub capacity_from: Provenance,
    /// CUDA context and libraries of this process.
    pub context: Context,
    /// The same on [a machine where it is high](Device::high_context); `None` where it was measured or kernels are
    /// loaded eagerly.
    pub high_context: Option<Context>,
    /// Where the context comes from.
    pub context_from: Provenance,
    /// SIZE: what other processes hold.
    pub other_processes: Bytes,
    /// SIZE: what this process may reserve, where it is limited to a fraction.
    pub allowed: Option<Bytes>,
}

impl Room {
    /// On a device; figures of the configuration are about the device that it names, no other.
    pub fn of(device: &Device, config: &Config) -> Self {
        Self::of_one(device, config).with_groups(config)
    }

    /// The same with what NCCL takes for each group of ranks that this one is in; a context that the user states has it.
    fn with_groups(self, config: &Config) -> Self {
        if !config.is_parallel() || config.context.is_some() {
            return self;
        }
        let groups = 1 + u64::from(config.ranks().is_ok_and(|ranks| ranks.replicate > 1));
        let all = |context: Context| Context {
            least: context.least + NCCL.least.times(groups),
            likely: context.likely + NCCL.likely.times(groups),
            most: context.most + NCCL.most.times(groups),
        };
        Self { context: all(self.context), high_context: self.high_context.map(all), ..self }
    }

    fn of_one(device: &Device, config: &Config) -> Self {
        let is_eager = config.module_loading.is_eager(config.pytorch);
        let table = Self {
            capacity: device.capacity,
            capacity_from: device.capacity_from,
            context: device.context_range(is_eager),
            high_context: (!is_eager).then(|| device.high_context()),
            context_from: device.context_provenance(),
            other_processes: Bytes::ZERO,
            allowed: None,
        };
        if device.id != config.device {
            return table;
        }
        let (capacity, capacity_from) = given(config.capacity, table.capacity, table.capacity_from);
        let context = config.context.map(Context::about);
        let (context, context_from) = given(context, table.context, table.context_from);
        Self {
            capacity,
            capacity_from,
            context,
            high_context: table.high_context.filter(|_| config.context.is_none()),
            context_from,
            other_processes: config.other_processes,
            allowed: config.allowed,
        }
    }

    /// What a device with this room is called: one whose capacity the user gives is not the card
    /// that the catalogue has.
    pub fn named(&self, device: &Device) -> String {
        if self.capacity == device.capacity {
            return device.name.to_owned();
        }
        format!("{} set to {}", device.name, self.capacity)
    }

    /// What the driver can give to the allocator.
    pub fn left(&self) -> Bytes {
        self.left_by(self.context.likely)
    }

    /// The same where the context has this size.
    fn left_by(&self, context: Bytes) -> Bytes {
        self.capacity - context - self.other_processes
    }

    /// What the allocator may reserve: no more than is left, or than a fraction allows.
    pub fn limit(&self) -> Bytes {
        let left = self.left();
        self.allowed.map_or(left, |allowed| left.min(allowed))
    }

    /// What is uncertain about a run that is expected to reserve so much, of which `workspaces` are for convolutions.
    pub(crate) const fn doubt(&self, reserved: Bytes, workspaces: Bytes) -> Doubt {
        let Self { context, high_context, .. } = *self;
        Doubt { reserved, context, high_context, workspaces, rough: reserved }
    }

    /// The same of a run that reserves `least` where convolutions take no workspaces; `None` where they take none.
    pub(crate) fn doubt_of(&self, reserved: Bytes, least: Option<Bytes>) -> Doubt {
        self.doubt(reserved, reserved - least.unwrap_or(reserved))
    }

    /// Percent: the chance that a run fits that is expected to reserve so much.
    pub fn chance(&self, reserved: Bytes) -> u64 {
        self.chance_of(&self.doubt(reserved, Bytes::ZERO))
    }

    /// Percent: the chance that a run fits.
    pub(crate) fn chance_of(&self, doubt: &Doubt) -> u64 {
        // Where a fraction allows less than a high context leaves, that makes no difference.
        let high = doubt.high_context.filter(|high| self.left_by(high.most) < self.limit());
        Doubt { high_context: high, ..*doubt }.chance(self.usable())
    }

    /// What a run may be expected to reserve at most for it to fit with a chance.
    pub fn likely_limit(&self, percent: u64) -> Bytes {
        let (mut fits, mut fails) = (0_u64, self.limit().0.saturating_add(1));
        while fits.saturating_add(1) < fails {
            let middle = fits.midpoint(fails);
            if self.chance(Bytes(middle)) >= percent {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        Bytes(fits)
    }

    /// What this process may use, its context included.
    pub fn usable(&self) -> Bytes {
        self.limit() + self.context.likely
    }
}

fn given<T>(value: Option<T>, known: T, from: Provenance) -> (T, Provenance) {
    value.map_or((known, from), |value| (value, Provenance::Given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device;

    #[test]
    fn figures_of_the_user_are_about_the_users_device() {
        let config = Config {
            device: "t4".to_owned(),
            capacity: Some(Bytes::mib(15_000)),
            context: Some(Bytes::mib(150)),
            other_processes: Bytes::mib(850),
            ..Config::default()
        };
        let room = |id: &str| device::lookup(id).map(|device| Room::of(device, &config));
        assert_eq!(room("t4").map(|room| room.limit()), Some(Bytes::mib(14_000)));
        let l4 = device::lookup("l4").map(|device| device.capacity - device.context());
        assert_eq!(room("l4").map(|room| room.limit()), l4);
    }

    #[test]
    fn a_fraction_limits_what_is_reserved() {
        let config = Config {
            capacity: Some(Bytes::mib(1000)),
            context: Some(Bytes::mib(100)),
            allowed: Some(Bytes::mib(600)),
            ..Config::default()
        };
        let room = device::lookup(&config.device).map(|device| Room::of(device, &config));
        assert_eq!(room.map(|room| room.limit()), Some(Bytes::mib(600)));
        assert_eq!(room.map(|room| room.usable()), Some(Bytes::mib(700)));
    }
}
