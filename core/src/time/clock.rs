//! When the events of a run happen.

use super::machine::{Machine, Ran};
use super::{Bound, Gpu, Picoseconds};
use crate::eager::Launches;

/// Moments of a run: an event happens when the kernels that were launched before it have run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The moment of each event that was asked for, since the run began.
    pub moments: Vec<Picoseconds>,
    /// What most of the time since the event before it was spent on; `None` where no kernel ran.
    pub bounds: Vec<Option<Bound>>,
}

/// The device and the host, each with its own time.
#[derive(Clone, Copy, Debug, Default)]
struct Both {
    device: Picoseconds,
    host: Picoseconds,
}

impl Both {
    /// The host launches a kernel, which begins when the device is free; returns how long the device waits for it.
    fn launch(&mut self, on_host: Picoseconds, on_device: Picoseconds) -> Picoseconds {
        self.host += on_host;
        let idle = Picoseconds(self.host.0.saturating_sub(self.device.0));
        self.device += idle;
        self.device += on_device;
        idle
    }
}

impl Clock {
    /// The moments of events, of which the first come first, in a run with these launches.
    pub fn of(launches: &Launches, gpu: Gpu, events: &[usize]) -> Self {
        let machine = Machine::of(gpu);
        let mut clock = Self::default();
        let mut now = Both::default();
        let mut list = launches.list.iter().peekable();
        for &event in events {
            let mut spent =
                [Bound::Arithmetic, Bound::Bandwidth, Bound::Launches].map(|bound| (bound, 0));
            while let Some(launch) = list.next_if(|launch| launch.event <= event) {
                let Ran { time, on_device, on_host, .. } = machine.run(launch);
                let idle = now.launch(on_host, on_device);
                for (bound, sum) in &mut spent {
                    *sum += if *bound == time.bound { on_device.0 } else { 0 };
                    *sum += if *bound == Bound::Launches { idle.0 } else { 0 };
                }
            }
            let most = spent.into_iter().max_by_key(|(_, sum)| *sum).filter(|(_, sum)| *sum > 0);
            clock.moments.push(now.device);
            clock.bounds.push(most.map(|(bound, _)| bound));
        }
        clock
    }
}
