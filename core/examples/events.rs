//! Prints the events of one model: `events FILE BATCH SEQ OPTIMIZER`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for developers, not part of the library"
)]

use highwater_core::{Config, Optimizer, trace::Event};
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let bytes = std::fs::read(&a[0]).unwrap();
    let model = highwater_core::open(&mut bytes.as_slice(), "m").unwrap();
    let dims = model
        .open_dims()
        .iter()
        .map(|d| {
            (d.name.clone(), if d.batch { a[1].parse().unwrap() } else { a[2].parse().unwrap() })
        })
        .collect();
    let optimizer = match a[3].as_str() {
        "sgd" => Optimizer::SgdMomentum,
        "sgd0" => Optimizer::Sgd,
        _ => Optimizer::AdamW,
    };
    let t = model.trace(&Config { dims, optimizer, device: "a100-80gb".into() }).unwrap();
    for (i, e) in t.events.iter().enumerate() {
        let (k, id) = match e {
            Event::Alloc(id) => ('+', id),
            Event::Free(id) => ('-', id),
        };
        let m = t.phase_at(i).unwrap();
        let s = &t.storages[id.0];
        println!(
            "{k} {} {}:{} {} {} {} #{}",
            s.requested.0,
            m.iteration,
            m.phase.name(),
            s.category.name(),
            t.label(t.operators[i]),
            t.label(t.modules[i]),
            id.0
        );
    }
}
