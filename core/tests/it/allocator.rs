//! The allocator's rules: text traces and pictures of the segments, and what always holds.
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use highwater_core::Bytes;
use highwater_core::allocator::{
    Allocator, BlockId, BlockView, DeviceMemory, OutOfMemory, Pool, PoolStatistics, SegmentView,
    Settings,
};
use proptest::prelude::*;

/// Runs a text trace and compares the picture.
///
/// Lines: `a = alloc 600KiB`, `free a`, `empty_cache`; first of all `limit 60MiB`, `max_split 64MiB`.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that tests read as a trace and its picture")]
fn check(trace: &str, picture: Expect) {
    picture.assert_eq(&draw(trace));
}

fn draw(trace: &str) -> String {
    let mut settings = Settings::default();
    let mut limit = None;
    let mut allocator = Allocator::new(settings, limit);
    let mut live: BTreeMap<&str, BlockId> = BTreeMap::new();
    let mut out = Vec::new();
    for line in trace.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["limit", bytes] => {
                limit = Some(size(bytes));
                allocator = Allocator::new(settings, limit);
            }
            ["max_split", bytes] => {
                settings.max_split_size = Some(size(bytes));
                allocator = Allocator::new(settings, limit);
            }
            ["expandable"] => {
                settings.expandable_segments = true;
                allocator = Allocator::new(settings, limit);
            }
            [name, "=", "alloc", bytes] => match allocator.malloc(size(bytes)) {
                Ok(block) => assert_eq!(live.insert(name, block), None, "{name} is alive"),
                Err(error) => {
                    let device = DeviceMemory {
                        index: 0,
                        capacity: limit.unwrap_or_default(),
                        context: Bytes::ZERO,
                        other_processes: Bytes::ZERO,
                        allowed: None,
                    };
                    let message = error.message(&device);
                    let advice = message.find(" If ").expect("it gives advice");
                    out.push(message[..advice].to_owned());
                }
            },
            ["free", name] => allocator.free(live.remove(name).expect("it is alive")),
            ["empty_cache"] => allocator.empty_cache(),
            _ => panic!("cannot read `{line}`"),
        }
    }
    out.extend(allocator.segments().map(|segment| draw_segment(&segment, &live)));
    let statistics = allocator.statistics();
    let all = statistics.all;
    for (name, stat) in
        [("requested", all.requested), ("allocated", all.allocated), ("reserved", all.reserved)]
    {
        out.push(format!("{name} {} (peak {})", stat.current.0, stat.peak.0));
    }
    if statistics.num_alloc_retries > 0 {
        out.push(format!("retries {}", statistics.num_alloc_retries));
    }
    out.push(String::new());
    out.join("\n")
}

/// `small  2.00 MiB [aab···] a 0+512 …`: for each of 24 columns the block at its first byte, then
/// offset and size of each block. A dot is free.
fn draw_segment(segment: &SegmentView<'_>, live: &BTreeMap<&str, BlockId>) -> String {
    const COLUMNS: u64 = 24;
    let name = |block: &BlockView| {
        let named = live.iter().find(|&(_, &id)| block.allocated && id == block.id);
        named.map_or("·", |(name, _)| name)
    };
    let pool = if segment.pool() == Pool::Small { "small" } else { "large" };
    let blocks: Vec<BlockView> = segment.blocks().collect();
    let column = |column: u64| {
        let at = Bytes((segment.size().0 * column).div_euclid(COLUMNS));
        name(blocks.iter().rfind(|block| block.offset <= at).expect("blocks begin at zero"))
    };
    let row: String = (0..COLUMNS).map(column).collect();
    let list: Vec<String> = blocks
        .iter()
        .map(|block| format!("{} {}+{}", name(block), block.offset.0, block.size.0))
        .collect();
    format!("{pool} {:>9} [{row}] {}", segment.size().to_string(), list.join(" "))
}

fn size(text: &str) -> Bytes {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "MiB" => Bytes::mib(1),
        "KiB" => Bytes::kib(1),
        "B" => Bytes(1),
        unit => panic!("no unit `{unit}`"),
    };
    unit.times(digits.parse().expect("a number"))
}

#[test]
fn a_freed_block_serves_the_next_request_that_fits() {
    check(
        "
        a = alloc 600KiB
        b = alloc 600KiB
        free a
        c = alloc 512B
        ",
        expect![[r#"
            small  2.00 MiB [c·······bbbbbbb·········] c 0+512 · 512+613888 b 614400+614400 · 1228800+868352
            requested 614912 (peak 1228800)
            allocated 614912 (peak 1228800)
            reserved 2097152 (peak 2097152)
        "#]],
    );
}

#[test]
fn sizes_at_the_borders_of_the_pools() {
    check(
        "
        a = alloc 1B
        b = alloc 1048576B
        c = alloc 1048576B
        d = alloc 1048577B
        e = alloc 10485760B
        f = alloc 19922944B
        ",
        expect![[r#"
            small  2.00 MiB [abbbbbbbbbbbb···········] a 0+512 b 512+1048576 · 1049088+1048064
            small  2.00 MiB [cccccccccccc············] c 0+1048576 · 1048576+1048576
            large 20.00 MiB [ddeeeeeeeeeeee··········] d 0+1049088 e 1049088+10485760 · 11534848+9436672
            large 20.00 MiB [ffffffffffffffffffffffff] f 0+20971520
            requested 33554434 (peak 33554434)
            allocated 34604032 (peak 34604032)
            reserved 46137344 (peak 46137344)
        "#]],
    );
    check(
        "
        a = alloc 1B
        b = alloc 1048576B
        c = alloc 1048576B
        d = alloc 1048577B
        e = alloc 10485760B
        f = alloc 19922944B
        free d
        free e
        g = alloc 9437184B
        ",
        expect![[r#"
            small  2.00 MiB [abbbbbbbbbbbb···········] a 0+512 b 512+1048576 · 1049088+1048064
            small  2.00 MiB [cccccccccccc············] c 0+1048576 · 1048576+1048576
            large 20.00 MiB [ggggggggggg·············] g 0+9437184 · 9437184+11534336
            large 20.00 MiB [ffffffffffffffffffffffff] f 0+20971520
            requested 31457281 (peak 33554434)
            allocated 32506368 (peak 34604032)
            reserved 46137344 (peak 46137344)
        "#]],
    );
}

#[test]
fn a_remainder_of_one_mebibyte_is_not_split_off() {
    check(
        "
        a = alloc 19922944B
        b = alloc 9437185B
        free b
        c = alloc 19922944B
        d = alloc 12583424B
        ",
        expect![[r#"
            large 20.00 MiB [aaaaaaaaaaaaaaaaaaaaaaaa] a 0+20971520
            large 20.00 MiB [cccccccccccccccccccccccc] c 0+20971520
            large 14.00 MiB [ddddddddddddddddddddd···] d 0+12583424 · 12583424+2096640
            requested 52429312 (peak 52429312)
            allocated 54526464 (peak 54526464)
            reserved 56623104 (peak 56623104)
        "#]],
    );
}

#[test]
fn cached_segments_are_given_back_before_memory_runs_out() {
    check(
        "
        limit 60MiB
        a = alloc 20MiB
        b = alloc 20MiB
        c = alloc 9MiB
        free a
        free b
        d = alloc 30MiB
        ",
        expect![[r#"
            large 20.00 MiB [ccccccccccc·············] c 0+9437184 · 9437184+11534336
            large 30.00 MiB [dddddddddddddddddddddddd] d 0+31457280
            requested 40894464 (peak 51380224)
            allocated 40894464 (peak 51380224)
            reserved 52428800 (peak 62914560)
            retries 1
        "#]],
    );
}

#[test]
fn out_of_memory_leaves_what_is_alive() {
    check(
        "
        limit 60MiB
        a = alloc 20MiB
        b = alloc 20MiB
        c = alloc 9MiB
        d = alloc 5242881B
        e = alloc 12345678B
        ",
        expect![[r#"
            CUDA out of memory. Tried to allocate 12.00 MiB. GPU 0 has a total capacity of 60.00 MiB of which 0 bytes is free. Including non-PyTorch memory, this process has 60.00 MiB memory in use. Of the allocated memory 54.00 MiB is allocated by PyTorch, and 6.00 MiB is reserved by PyTorch but unallocated.
            large 20.00 MiB [aaaaaaaaaaaaaaaaaaaaaaaa] a 0+20971520
            large 20.00 MiB [bbbbbbbbbbbbbbbbbbbbbbbb] b 0+20971520
            large 20.00 MiB [cccccccccccdddddd·······] c 0+9437184 d 9437184+5243392 · 14680576+6290944
            requested 56623105 (peak 56623105)
            allocated 56623616 (peak 56623616)
            reserved 62914560 (peak 62914560)
            retries 1
        "#]],
    );
}

#[test]
fn the_oldest_segment_wins_among_equal_blocks() {
    check(
        "
        a = alloc 12MiB
        b = alloc 12MiB
        free b
        free a
        c = alloc 12MiB
        ",
        expect![[r#"
            large 12.00 MiB [cccccccccccccccccccccccc] c 0+12582912
            large 12.00 MiB [························] · 0+12582912
            requested 12582912 (peak 25165824)
            allocated 12582912 (peak 25165824)
            reserved 25165824 (peak 25165824)
        "#]],
    );
}

#[test]
fn a_block_joins_both_free_neighbours() {
    check(
        "
        a = alloc 4MiB
        b = alloc 4MiB
        c = alloc 4MiB
        d = alloc 4MiB
        free a
        free c
        free b
        ",
        expect![[r#"
            large 20.00 MiB [···············ddddd····] · 0+12582912 d 12582912+4194304 · 16777216+4194304
            requested 4194304 (peak 16777216)
            allocated 4194304 (peak 16777216)
            reserved 20971520 (peak 20971520)
        "#]],
    );
}

#[test]
fn only_segments_without_live_blocks_are_given_back() {
    check(
        "
        a = alloc 4MiB
        b = alloc 30MiB
        c = alloc 1KiB
        d = alloc 1KiB
        free b
        free c
        empty_cache
        ",
        expect![[r#"
            large 20.00 MiB [aaaaa···················] a 0+4194304 · 4194304+16777216
            small  2.00 MiB [························] · 0+1024 d 1024+1024 · 2048+2095104
            requested 4195328 (peak 35653632)
            allocated 4195328 (peak 35653632)
            reserved 23068672 (peak 54525952)
        "#]],
    );
}

#[test]
fn oversize_blocks_serve_only_oversize_requests() {
    check(
        "
        max_split 64MiB
        a = alloc 80MiB
        free a
        b = alloc 30MiB
        c = alloc 70MiB
        ",
        expect![[r#"
            large 80.00 MiB [cccccccccccccccccccccccc] c 0+83886080
            large 30.00 MiB [bbbbbbbbbbbbbbbbbbbbbbbb] b 0+31457280
            requested 104857600 (peak 104857600)
            allocated 115343360 (peak 115343360)
            reserved 115343360 (peak 115343360)
        "#]],
    );
}

#[test]
fn a_request_of_nothing_gets_nothing() {
    let mut allocator = Allocator::new(Settings::default(), Some(Bytes::ZERO));
    assert_eq!(allocator.malloc(Bytes::ZERO), Ok(BlockId::NULL));
    allocator.free(BlockId::NULL);
    assert_eq!(allocator.segments().count(), 0);
}

#[test]
fn absurd_requests_are_out_of_memory() {
    let mut allocator = Allocator::new(Settings::default(), None);
    let blocks = [1, u64::MAX, u64::MAX - 1, 1 << 63, 1 << 63].map(|n| allocator.malloc(Bytes(n)));
    assert_eq!(blocks.map(|block| block.is_ok()), [true, false, false, true, false]);
    check_invariants(&allocator).unwrap();
}

/// Printed by PyTorch 2.15 in the situation of [`out_of_memory_leaves_what_is_alive`] on a device
/// of 60 MiB, but for the sentence on the process: the driver it asked knew no processes.
#[test]
fn the_message_is_pytorchs() {
    let error = OutOfMemory {
        request: Bytes(12_345_678),
        segment: Bytes::mib(12),
        allocated: Bytes::mib(54),
        reserved: Bytes::mib(60),
        held: Bytes::mib(60),
        expandable: false,
        rejected: false,
    };
    let device = DeviceMemory {
        index: 0,
        capacity: Bytes::mib(60),
        context: Bytes::ZERO,
        other_processes: Bytes::ZERO,
        allowed: None,
    };
    assert_eq!(
        error.message(&device),
        "CUDA out of memory. Tried to allocate 12.00 MiB. GPU 0 has a total capacity of 60.00 MiB \
         of which 0 bytes is free. Including non-PyTorch memory, this process has 60.00 MiB memory \
         in use. Of the allocated memory 54.00 MiB is allocated by PyTorch, and 6.00 MiB is \
         reserved by PyTorch but unallocated. If reserved but unallocated memory is large try \
         setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See \
         documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda\
         .html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    );
}

/// What holds after every call.
fn check_invariants(allocator: &Allocator) -> Result<(), TestCaseError> {
    let statistics = allocator.statistics();
    let mut sums = [PoolStatistics::default(); 3];
    for segment in allocator.segments() {
        let blocks: Vec<BlockView> = segment.blocks().collect();
        let mut end = segment.offset();
        let mut sum = PoolStatistics::default();
        for block in &blocks {
            prop_assert_eq!(block.offset, end, "blocks tile their segment");
            prop_assert!(block.size > Bytes::ZERO);
            end += block.size;
            if block.allocated {
                prop_assert!(block.requested <= block.size);
                prop_assert_eq!(allocator.block(block.id), Some(*block));
                sum.allocated.current += block.size;
                sum.requested.current += block.requested;
                sum.allocations.current += 1;
            } else if blocks.len() > 1 {
                sum.inactive_split.current += block.size;
                sum.inactive_splits.current += 1;
            }
        }
        prop_assert_eq!(end, segment.offset() + segment.size());
        let neighbours = |pair: &[BlockView]| !pair[0].allocated && !pair[1].allocated;
        prop_assert!(!blocks.windows(2).any(neighbours), "no two neighbours are free");
        sum.reserved.current = segment.size();
        sum.segments.current = 1;
        let pool = if segment.pool() == Pool::Small { 1 } else { 2 };
        for at in [0, pool] {
            add(&mut sums[at], &sum);
        }
    }
    let found = [statistics.all, statistics.small, statistics.large];
    for (found, sum) in found.iter().zip(sums) {
        prop_assert_eq!(found.requested.current, sum.requested.current);
        prop_assert_eq!(found.allocated.current, sum.allocated.current);
        prop_assert_eq!(found.allocations.current, sum.allocations.current);
        prop_assert_eq!(found.reserved.current, sum.reserved.current);
        // Of segments that expand these are not counted.
        if found.segments.current > 0 {
            prop_assert_eq!(found.segments.current, sum.segments.current);
            prop_assert_eq!(found.inactive_split.current, sum.inactive_split.current);
            prop_assert_eq!(found.inactive_splits.current, sum.inactive_splits.current);
        }
        prop_assert!(found.requested.current <= found.allocated.current);
        prop_assert!(found.allocated.current <= found.reserved.current);
        for stat in [found.requested, found.allocated, found.reserved, found.inactive_split] {
            prop_assert!(stat.current <= stat.peak);
        }
        for count in [found.allocations, found.segments, found.inactive_splits] {
            prop_assert!(count.current <= count.peak);
        }
    }
    Ok(())
}

fn add(sum: &mut PoolStatistics, more: &PoolStatistics) {
    sum.requested.current += more.requested.current;
    sum.allocated.current += more.allocated.current;
    sum.reserved.current += more.reserved.current;
    sum.inactive_split.current += more.inactive_split.current;
    sum.allocations.current += more.allocations.current;
    sum.segments.current += more.segments.current;
    sum.inactive_splits.current += more.inactive_splits.current;
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Malloc(u64),
    /// Frees one of the live blocks, chosen by this number.
    Free(usize),
    EmptyCache,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let near =
        prop_oneof![Just(512_u64), Just(1 << 20), Just(2 << 20), Just(10 << 20), Just(19 << 20)];
    let sizes = prop_oneof![
        4 => 1_u64..1 << 21,
        4 => 1_u64..64 << 20,
        2 => (near, 0_u64..3).prop_map(|(size, more)| size + more - 1),
    ];
    let call = prop_oneof![
        12 => sizes.prop_map(Call::Malloc),
        10 => any::<usize>().prop_map(Call::Free),
        1 => Just(Call::EmptyCache),
    ];
    proptest::collection::vec(call, 1..200)
}

fn settings() -> impl Strategy<Value = Settings> {
    let mib = |range: std::ops::Range<u64>| proptest::option::of(range.prop_map(Bytes::mib));
    let sizes = (mib(20..80), 0_u64..9, 11_u64..40);
    let limits = (mib(10..600), mib(1..300), mib(10..600));
    let expandable = (any::<bool>(), mib(40..900));
    (sizes, limits, expandable).prop_map(|(sizes, limits, expandable)| Settings {
        max_split_size: sizes.0,
        roundup_power2_divisions: [sizes.1; 16],
        large_segment_size: Bytes::mib(sizes.2),
        allowed: limits.0,
        collect_above: limits.1,
        reject_above: limits.2,
        expandable_segments: expandable.0,
        address_space: expandable.1,
        ..Settings::default()
    })
}

proptest! {
    #[test]
    fn invariants_hold_after_every_call(
        calls in calls(),
        settings in settings(),
        limit in proptest::option::of((2_u64..600).prop_map(Bytes::mib)),
    ) {
        let mut allocator = Allocator::new(settings, limit);
        let limits = [limit, settings.allowed, settings.reject_above];
        let most = limits.into_iter().flatten().min().unwrap_or(Bytes(u64::MAX));
        // A segment that expands does so in pieces, and is granted what the request alone needs.
        let piece = Bytes::mib(40);
        let mut live = Vec::new();
        for call in calls {
            let before = allocator.statistics().all;
            match call {
                Call::Malloc(bytes) => match allocator.malloc(Bytes(bytes)) {
                    Ok(block) => live.push(block),
                    Err(error) => {
                        let spare = if settings.expandable_segments { piece } else { Bytes::ZERO };
                        let needed = error.held + error.segment.round_up(Bytes::mib(2)) + spare;
                        prop_assert!(needed > most.min(settings.address_space.unwrap_or(most)));
                        prop_assert_eq!(error.allocated, before.allocated.current);
                    }
                },
                Call::Free(n) if !live.is_empty() => {
                    allocator.free(live.swap_remove(n % live.len()));
                }
                Call::Free(_) => {}
                Call::EmptyCache => allocator.empty_cache(),
            }
            check_invariants(&allocator)?;
            let now = allocator.statistics().all;
            prop_assert!(now.reserved.current <= most + piece);
            prop_assert!(now.reserved.current <= limit.unwrap_or(most + piece));
            prop_assert!(now.allocated.peak >= before.allocated.peak, "a peak never falls");
        }
        for block in live {
            allocator.free(block);
        }
        prop_assert_eq!(allocator.allocated(), Bytes::ZERO);
        allocator.empty_cache();
        prop_assert_eq!(allocator.reserved(), Bytes::ZERO);
        prop_assert_eq!(allocator.segments().count(), 0);
    }
}
