//! The least that a job can be limited to, as PyTorch's own allocator has it.

use highwater_core::estimate::Stages;
use highwater_core::formats::catalogue;
use highwater_core::{Bytes, Config, open_named};

/// MiB: truth is known to 4, and ours to 2.
const EXACT: u64 = 6;

#[test]
fn limits_are_those_with_which_pytorch_survives() {
    let table = include_str!("../../../tests/fixtures/sharing/limits.csv");
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, batch, reserved, least] = fields[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let model =
            open_named(&catalogue::find(name).expect("it is in the catalogue")).expect("it opens");
        let mut config = Config { device: "t4".to_owned(), ..model.defaults().clone() };
        config.optimizer = "adamw".parse().expect("an optimizer");
        config.dims.insert("batch".to_owned(), number(batch));
        let alone = model.alone(&config, "t4", &mut Stages::default()).expect("it is estimated");
        let mib = |size: Bytes| size.0 >> 20;
        assert_eq!(mib(alone.doubt.reserved), number(reserved), "{name}");
        assert!(mib(alone.least).abs_diff(number(least)) <= EXACT, "{name}: {}", alone.least);
    }
}
