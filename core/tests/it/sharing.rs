//! A run on one device answers for others; the answer is the same as that of a run of their own.

use highwater_core::estimate::Runs;
use highwater_core::{Config, device};

use crate::fixtures;

#[test]
fn shared_runs_answer_as_runs_of_their_own() {
    for name in
        ["models/train/alexnet.onnx", "models/train/resnet18.onnx", "models/train/distilgpt2.onnx"]
    {
        let model =
            highwater_core::open(&mut fixtures::read(name).as_slice(), name).expect("it opens");
        for precision in ["fp32", "amp-fp16"] {
            let mut config = Config::default();
            config.set("precision", precision).expect("a precision");
            let mut shared = Runs::default();
            for device in device::all() {
                let alone = model.verdict(&config, device.id, &mut Runs::default());
                let known = model.verdict(&config, device.id, &mut shared);
                assert_eq!(known, alone, "{name}, {precision}, {}", device.id);
            }
            assert!(shared.len() < device::all().len(), "{name}: every device ran for itself");
        }
    }
}
