//! The steps from a GPU's nameplate size down to the memory that a run leaves free, each drawn at its place in the
//! whole.

use highwater_core::Bytes;
use highwater_core::report::DeviceVerdict;
use plotters::prelude::DrawingBackend;

use crate::float;
use crate::palette::Ink;
use crate::pen::{Area, Drawn, Pen, whole};

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What `PyTorch` sees of the card.
    Capacity,
    /// The CUDA context takes some.
    Context,
    /// Other processes do.
    Others,
    /// What the process may not use.
    Beyond,
    /// What the run reserves.
    Reserved,
    /// What stays free.
    Free,
}

/// One step: a number of bytes out of the rest of the steps before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// What it is.
    pub step: Step,
    /// SIZE: of it.
    pub bytes: Bytes,
    /// SIZE: what was left before it.
    pub left: Bytes,
}

/// The steps of a run on a device, with those that take nothing left out.
pub fn rungs(device: &DeviceVerdict, reserved: Bytes) -> Vec<Rung> {
    let mut left = device.capacity;
    let mut rungs = vec![Rung { step: Step::Capacity, bytes: left, left }];
    let beyond = |left: Bytes| device.allowed.map(|allowed| left.saturating_sub(allowed));
    let others = Some(device.other_processes).filter(|&bytes| bytes > Bytes::ZERO);
    let mut take = |step, bytes: Option<Bytes>| {
        if let Some(bytes) = bytes {
            rungs.push(Rung { step, bytes, left });
            left = left.saturating_sub(bytes);
        }
        left
    };
    take(Step::Context, Some(device.context));
    let room = take(Step::Others, others);
    take(Step::Beyond, beyond(room));
    let free = take(Step::Reserved, Some(reserved));
    take(Step::Free, Some(free));
    rungs
}

/// Draws one step as a part of a bar.
///
/// # Errors
/// The backend cannot draw.
pub fn draw<B: DrawingBackend>(
    pen: &mut Pen<'_, B>,
    area: Area,
    capacity: Bytes,
    rung: &Rung,
) -> Drawn<B> {
    pen.bars([area], pen.colour(Ink::Sunken))?;
    let place = |bytes: Bytes| {
        let share = float(bytes.min(capacity)) / float(capacity).max(1.0);
        whole(share * f64::from(area.width))
    };
    let (end, begin) = (place(rung.left), place(rung.left.saturating_sub(rung.bytes)));
    let ink = match rung.step {
        Step::Capacity => Ink::Edge,
        Step::Free => Ink::Fits,
        _ => Ink::Soft,
    };
    let part = Area { left: area.left + begin, width: end - begin, ..area };
    pen.bars([part], pen.colour(ink))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::Config;

    #[test]
    fn steps_lead_down_to_what_stays_free() {
        let mut spec = "input: [N, 64]\nlayers: [{linear: 256}]\n".as_bytes();
        let model = highwater_core::open(&mut spec, "mlp.yaml").expect("it is a spec");
        let config = Config { other_processes: Bytes::mib(1024), ..Config::default() };
        let device = model.estimate(&config).expect("it is estimated").verdict;
        let rungs = rungs(&device, Bytes::mib(2048));
        let steps: Vec<Step> = rungs.iter().map(|rung| rung.step).collect();
        assert_eq!(
            steps,
            [Step::Capacity, Step::Context, Step::Others, Step::Reserved, Step::Free]
        );
        let free = device.capacity - device.context - Bytes::mib(3072);
        assert_eq!(rungs.last().map(|rung| (rung.bytes, rung.left)), Some((free, free)));
        let rung = Rung { step: Step::Context, bytes: Bytes(20), left: Bytes(80) };
        let svg = crate::samples::drawn((10, 2), |pen, area| draw(pen, area, Bytes(100), &rung));
        expect_test::expect![[r##"
            <svg width="10" height="2" viewBox="0 0 10 2" xmlns="http://www.w3.org/2000/svg">
            <rect x="0" y="0" width="10" height="2" opacity="1" fill="#EEF0F2" stroke="none"/>
            <rect x="6" y="0" width="2" height="2" opacity="1" fill="#565D67" stroke="none"/>
            </svg>
        "##]]
        .assert_eq(&svg);
    }
}
