//! When the events of a run happen.

use std::collections::BTreeMap;

use super::machine::{Machine, Ran};
use super::{Bound, Gpu, Picoseconds};
use crate::eager::Launches;
use crate::trace::Stream;

/// Moments of a run: an event happens when the kernels that were launched before it have run, on all streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The moment of each event that was asked for, since the run began.
    pub moments: Vec<Picoseconds>,
    /// What most of the time since the event before it was spent on; `None` where no kernel ran.
    pub bounds: Vec<Option<Bound>>,
}

/// The host and the streams of the device, each with its own time.
#[derive(Debug, Default)]
struct Queues {
    host: Picoseconds,
    streams: BTreeMap<Stream, Picoseconds>,
}

impl Queues {
    /// The host launches a kernel, which begins when its stream is free; returns how long the stream waits for it.
    fn launch(
        &mut self,
        stream: Stream,
        on_host: Picoseconds,
        on_device: Picoseconds,
    ) -> Picoseconds {
        self.host += on_host;
        let queue = self.streams.entry(stream).or_default();
        let idle = Picoseconds(self.host.0.saturating_sub(queue.0));
        *queue += idle;
        *queue += on_device;
        idle
    }

    /// When all that was launched has run.
    fn now(&self) -> Picoseconds {
        self.streams.values().copied().max().unwrap_or_default()
    }
}

impl Clock {
    /// The moments of events, of which the first come first, in a run with these launches.
    pub fn of(launches: &Launches, gpu: Gpu, events: &[usize]) -> Self {
        let machine = Machine::of(gpu);
        let mut clock = Self::default();
        let mut queues = Queues::default();
        let mut list = launches.list.iter().peekable();
        for &event in events {
            let mut spent =
                [Bound::Arithmetic, Bound::Bandwidth, Bound::Launches].map(|bound| (bound, 0));
            while let Some(launch) = list.next_if(|launch| launch.event <= event) {
                let Ran { time, on_device, on_host, .. } = machine.run(launch);
                let idle = queues.launch(launch.stream, on_host, on_device);
                for (bound, sum) in &mut spent {
                    *sum += if *bound == time.bound { on_device.0 } else { 0 };
                    *sum += if *bound == Bound::Launches { idle.0 } else { 0 };
                }
            }
            let most = spent.into_iter().max_by_key(|(_, sum)| *sum).filter(|(_, sum)| *sum > 0);
            clock.moments.push(queues.now());
            clock.bounds.push(most.map(|(bound, _)| bound));
        }
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use crate::config::{Config, PyTorch};
    use crate::device;
    use crate::eager::{Kernel, Runtime};
    use crate::tensor::DType;
    use crate::trace::Phase;

    /// The moment after two kernels of the same length, each on a stream.
    fn moment(streams: [u32; 2]) -> u64 {
        let device = device::find("a100-80gb").expect("it is in the table");
        let rt = Runtime::new(
            device.hardware(PyTorch::LATEST, Config::default().cudnn),
            PyTorch::LATEST,
        );
        rt.record_launches(1);
        rt.enter_phase(1, Phase::Forward);
        for stream in streams {
            let kernel = Kernel::Elementwise { read: Bytes::mib(512), written: Bytes::mib(512) };
            rt.on_stream(Stream(stream), || rt.launch(&[], kernel, DType::Float32));
        }
        let launches = Launches { list: rt.take_launches(), steady: 1, ..Launches::default() };
        let gpu = Gpu::of(device).expect("it has rates");
        Clock::of(&launches, gpu, &[0]).moments.iter().map(|moment| moment.0).sum()
    }

    #[test]
    fn streams_run_next_to_each_other() {
        let (in_line, apart) = (moment([0, 0]), moment([0, 1]));
        assert!(in_line * 2 > apart * 3, "{in_line} {apart}");
        assert_eq!(moment([1, 1]), in_line);
    }
}
