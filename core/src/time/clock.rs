//! When the events of a run happen.

use super::machine::Machine;
use super::network::Queues;
use super::{Bound, Gpu, Picoseconds};
use crate::eager::Launches;

/// Moments of a run: an event happens when the kernels that were launched before it have run, on all streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The moment of each event that was asked for, since the run began.
    pub moments: Vec<Picoseconds>,
    /// What most of the time since the event before it was spent on; `None` where no kernel ran.
    pub bounds: Vec<Option<Bound>>,
}

impl Clock {
    /// The moments of events, of which the first come first, in a run with these launches.
    pub fn of(launches: &Launches, gpu: Gpu, events: &[usize]) -> Self {
        let machine = Machine::of(gpu);
        let mut clock = Self::default();
        let mut queues = Queues::default();
        let mut list = launches.list.iter().peekable();
        for &event in events {
            let mut spent = [Bound::Arithmetic, Bound::Bandwidth, Bound::Launches, Bound::Network]
                .map(|bound| (bound, 0));
            while let Some(launch) = list.next_if(|launch| launch.event <= event) {
                let ran = machine.run(launch);
                let waits = queues.launch(launch, &ran);
                for (bound, sum) in &mut spent {
                    *sum += match *bound {
                        Bound::Launches => waits.host.0,
                        Bound::Network => waits.network.0,
                        bound if bound == ran.time.bound => ran.on_device.0,
                        _ => 0,
                    };
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
    use crate::trace::{Phase, Stream};

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
