//! Work on streams besides the default one: what each allocates, and when it is free.

use expect_test::{Expect, expect};
use highwater_core::Bytes;
use highwater_core::allocator::{Settings, Stream, replay};
use highwater_core::config::PyTorch;
use highwater_core::eager::{Runtime, Tensor};
use highwater_core::tensor::DType;
use highwater_core::trace::Event;

use crate::recording;

const SIDE: Stream = Stream(1);

/// Events as `+storage stream`, then what is reserved at most.
fn check(script: impl FnOnce(&Runtime), expected: &Expect) {
    let rt = Runtime::new(recording::A100, PyTorch::LATEST);
    script(&rt);
    let trace = rt.into_trace();
    let event = |&event: &Event| match event {
        Event::Alloc(id) => format!("+{} on {}", id.index(), trace.storages[id.index()].stream.0),
        Event::Free(id) => format!("-{}", id.index()),
    };
    let events: Vec<String> = trace.events.iter().map(event).collect();
    let reserved = replay(&trace, &Settings::default(), None).reserved.bytes;
    expected.assert_eq(&format!("{}; {reserved}", events.join(", ")));
}

fn mebibytes(rt: &Runtime, n: u64) -> Tensor {
    rt.empty(DType::UInt8, &[Bytes::mib(n).0])
}

#[test]
fn a_block_serves_its_own_stream_alone() {
    check(
        |rt| {
            drop(rt.on_stream(SIDE, || mebibytes(rt, 32)));
            drop(mebibytes(rt, 32));
            drop(rt.on_stream(SIDE, || mebibytes(rt, 32)));
        },
        &expect!["+0 on 1, -0, +1 on 0, -1, +2 on 1, -2; 64.00 MiB"],
    );
}

#[test]
fn a_storage_is_free_when_the_streams_that_use_it_are_done() {
    check(
        |rt| {
            let used = mebibytes(rt, 32);
            rt.record_stream(&used, SIDE);
            drop(used);
            drop(mebibytes(rt, 32));
            rt.synchronize(SIDE);
            drop(mebibytes(rt, 64));
        },
        &expect!["+0 on 0, +1 on 0, -1, -0, +2 on 0, -2; 128.00 MiB"],
    );
    // Its own stream need not be waited for, and one that is done before the last holder lets go is.
    check(
        |rt| {
            let used = mebibytes(rt, 32);
            rt.record_stream(&used, Stream::DEFAULT);
            drop(used);
            let used = mebibytes(rt, 32);
            rt.record_stream(&used, SIDE);
            rt.synchronize(SIDE);
            drop(used);
        },
        &expect!["+0 on 0, -0, +1 on 0, -1; 32.00 MiB"],
    );
}
