//! Control flow does what the nodes do that it runs: two texts, one trace.

use highwater_core::estimate::Stages;
use highwater_core::{Config, Report};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::fixtures;
use crate::onnx::{apply, edit};

const HEAD: &str = r#"<ir_version: 9, opset_import: ["" : 18]>"#;

fn open(text: &str) -> highwater_core::Model {
    let text = format!("{HEAD}\n{text}");
    highwater_core::open(&mut text.as_bytes(), "net.onnxtxt").unwrap()
}

/// Every allocation and free of a training run, in order.
#[track_caller]
fn events(text: &str) -> Vec<String> {
    let trace = open(text).trace(&Config::default()).unwrap();
    let sizes = trace.events.iter().map(|event| {
        let storage = trace.storage(*event).expect("an event is of a storage");
        format!("{event:?} {}", storage.requested)
    });
    sizes.collect()
}

/// Two models that run the same; both are trained, and it is no empty run.
#[track_caller]
fn check(name: &str, controlled: &str, spelled_out: &str) {
    let (ours, expected) = (events(controlled), events(spelled_out));
    assert!(expected.len() > 20, "{name}: {} events", expected.len());
    let first = ours.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!((first, ours.len()), (None, expected.len()), "{name}");
}

/// What the report says of control flow.
fn report(text: &str) -> (Report, Vec<String>) {
    let report = open(text).estimate(&Config::default()).unwrap();
    let codes =
        report.diagnostics.iter().map(|found| format!("{} {}", found.severity.name(), found.code));
    let codes =
        codes.filter(|code| ["branch", "trips", "control"].iter().any(|word| code.contains(word)));
    let codes = codes.collect();
    (report, codes)
}

#[test]
fn branches_that_are_known_are_the_nodes_of_one() {
    let spelled_out = "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {
        h = MatMul(x, w)  y = Relu(h)
    }";
    let branches = "then_branch = t () => (float[8,64] a) { a = Relu(h) },
        else_branch = e () => (float[8,64] b) { c = MatMul(h, w)  b = Sigmoid(c) }";
    let constant = format!(
        "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {{
            yes = Constant <value = bool {{1}}> ()
            h = MatMul(x, w)  y = If(yes) <{branches}>
        }}"
    );
    check("a constant", &constant, spelled_out);
    let by_shape = format!(
        "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {{
            h = MatMul(x, w)
            sizes = Shape(h)  zero = Constant <value_int = 0> ()  rows = Gather(sizes, zero)
            many = Constant <value_int = 4> ()  yes = Greater(rows, many)
            y = If(yes) <{branches}>
        }}"
    );
    check("a shape", &by_shape, spelled_out);
}

#[test]
fn loops_are_their_bodies_again_and_again() {
    let spelled_out = "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {
        a1 = MatMul(x, w)  b1 = Tanh(a1)
        a2 = MatMul(b1, w)  b2 = Tanh(a2)
        a3 = MatMul(b2, w)  y = Tanh(a3)
    }";
    let body = "body = b (int64 i, bool on, float[8,64] h) => (bool go, float[8,64] t) {
        go = Identity(on)  m = MatMul(h, w)  t = Tanh(m)
    }";
    let counted = format!(
        "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {{
            n = Constant <value_int = 3> ()  yes = Constant <value = bool {{1}}> ()
            y = Loop(n, yes, x) <{body}>
        }}"
    );
    check("a constant", &counted, spelled_out);
    let by_size = format!(
        "g (float[8,64] x, float[3,2] z) => (float[8,64] y) <float[64,64] w> {{
            sizes = Shape(z)  zero = Constant <value_int = 0> ()  n = Gather(sizes, zero)
            y = Loop(n, , x) <{body}>
        }}"
    );
    check("a shape", &by_size, spelled_out);
}

#[test]
fn scans_and_outputs_of_loops_are_stacked() {
    let spelled_out = "g (float[3,8,64] x, float[8,64] s) => (float[3,8,64] y) <float[64,64] w> {
        i0 = Constant <value_int = 0> ()  i1 = Constant <value_int = 1> ()
        i2 = Constant <value_int = 2> ()  front = Constant <value_ints = [0]> ()
        x0 = Gather(x, i0)  m0 = MatMul(x0, w)  t0 = Add(m0, s)
        x1 = Gather(x, i1)  m1 = MatMul(x1, w)  t1 = Add(m1, t0)
        x2 = Gather(x, i2)  m2 = MatMul(x2, w)  t2 = Add(m2, t1)
        u0 = Unsqueeze(t0, front)  u1 = Unsqueeze(t1, front)  u2 = Unsqueeze(t2, front)
        y = Concat <axis = 0> (u0, u1, u2)
    }";
    let scan = "g (float[3,8,64] x, float[8,64] s) => (float[3,8,64] y) <float[64,64] w> {
        last, y = Scan(s, x) <num_scan_inputs = 1,
            body = b (float[8,64] h, float[8,64] p) => (float[8,64] t, float[8,64] o) {
                m = MatMul(p, w)  t = Add(m, h)  o = Identity(t)
            }>
    }";
    check("a scan", scan, spelled_out);
    let scanned = "g (float[3,8,64] x, float[8,64] s) => (float[3,8,64] y) <float[64,64] w> {
        n = Constant <value_int = 3> ()  yes = Constant <value = bool {1}> ()
        last, y = Loop(n, yes, s) <
            body = b (int64 i, bool on, float[8,64] h)
                => (bool on, float[8,64] t, float[8,64] t) {
                p = Gather(x, i)  m = MatMul(p, w)  t = Add(m, h)
            }>
    }";
    check("a loop with an output for each trip", scanned, spelled_out);
    let listed = "g (float[3,8,64] x, float[8,64] s) => (float[3,8,64] y) <float[64,64] w> {
        n = Constant <value_int = 3> ()  yes = Constant <value = bool {1}> ()
        none = SequenceEmpty()
        last, all = Loop(n, yes, s, none) <
            body = b (int64 i, bool on, float[8,64] h, seq(float[8,64]) list)
                => (bool on, float[8,64] t, seq(float[8,64]) longer) {
                p = Gather(x, i)  m = MatMul(p, w)  t = Add(m, h)
                longer = SequenceInsert(list, t)
            }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }";
    check("a loop that fills a sequence", listed, spelled_out);
}

#[test]
fn sequences_are_the_values_in_them() {
    let spelled_out = "g (float[8,64] x) => (float[8,32] y) <float[64,64] w> {
        h = MatMul(x, w)  a, b = Split <axis = 1, num_outputs = 2> (h)
        y = Mul(a, b)
    }";
    let sequence = "g (float[8,64] x) => (float[8,32] y) <float[64,64] w> {
        h = MatMul(x, w)  size = Constant <value_int = 32> ()
        list = SplitToSequence <axis = 1> (h, size)
        zero = Constant <value_int = 0> ()  last = Constant <value_int = -1> ()
        a = SequenceAt(list, zero)  b = SequenceAt(list, last)
        y = Mul(a, b)
    }";
    check("split", sequence, spelled_out);
}

#[test]
fn what_is_inside_waits_for_what_is_around_it() {
    let spelled_out = "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {
        a = MatMul(x, w)  b = Relu(a)  c = MatMul(b, w)  y = Relu(c)
    }";
    let nested = "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {
        two = Constant <value_int = 2> ()  yes = Constant <value = bool {1}> ()
        y = Loop(two, yes, x) <
            body = b (int64 i, bool on, float[8,64] h) => (bool on, float[8,64] r) {
                four = Constant <value_int = 4> ()
                sizes = Shape(h)  zero = Constant <value_int = 0> ()  rows = Gather(sizes, zero)
                yes2 = Greater(rows, four)
                r = If(yes2) <
                    then_branch = t () => (float[8,64] p) { q = MatMul(h, w)  p = Relu(q) },
                    else_branch = e () => (float[8,64] p) { p = Identity(h) }>
            }>
    }";
    check("a branch in a loop", nested, spelled_out);
}

#[test]
fn what_data_decides_is_assumed_and_said() {
    let text = "g (float[8,64] x) => (float[8,64] y) <float[64,64] w, float[64,64] v> {
        m = ReduceMax <keepdims = 0> (x)  zero = Constant <value_float = 0.0> ()
        big = Greater(m, zero)
        y = If(big) <
            then_branch = t () => (float[8,64] a) { a = Relu(x) },
            else_branch = e () => (float[8,64] b) { c = MatMul(x, w)  b = MatMul(c, v) }>
    }";
    let (answer, codes) = report(text);
    assert_eq!(codes, ["warning assumed-branch"]);
    assert_eq!((answer.model.parameters, answer.lower_bound), (2 * 64 * 64, false));
    let text = "g (float[8,64] x, bool[1] begin) => (float[8,64] y) <float[64,64] w> {
        y = Loop(, begin, x) <
            body = b (int64 i, bool on, float[8,64] h) => (bool go, float[8,64] t) {
                t = MatMul(h, w)  m = ReduceMax <keepdims = 0> (t)
                zero = Constant <value_float = 0.0> ()  go = Greater(m, zero)
            }>
    }";
    let (answer, codes) = report(text);
    assert_eq!(codes, ["error unknown-trips"]);
    assert_eq!((answer.model.parameters, answer.lower_bound), (64 * 64, true));
}

#[test]
fn weights_of_the_other_branch_are_in_memory_too() {
    let text = "g (float[8,64] x) => (float[8,64] y) <float[64,64] w, float[64,64] v> {
        yes = Constant <value = bool {1}> ()
        y = If(yes) <
            then_branch = t () => (float[8,64] a) { a = MatMul(x, w) },
            else_branch = e () => (float[8,64] b) { b = MatMul(x, v) }>
    }";
    let (answer, codes) = report(text);
    assert_eq!((answer.model.parameters, codes.len()), (2 * 64 * 64, 0));
}

/// A loop with a layer.
fn of_trips(trips: u64) -> Report {
    let text = format!(
        "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {{
            n = Constant <value_int = {trips}> ()  yes = Constant <value = bool {{1}}> ()
            y = Loop(n, yes, x) <body = b (int64 i, bool on, float[8,64] h) => (bool go, float[8,64] t) {{
                go = Identity(on)  m = MatMul(h, w)  t = Tanh(m)
            }}>
        }}"
    );
    open(&text).estimate(&Config::default()).expect("it is estimated")
}

#[test]
fn loops_run_as_often_as_they_say() {
    // Each trip keeps what it made for its backward: 8 × 64 numbers.
    let peak = |trips| of_trips(trips).peak.requested.0;
    let (few, many, more) = (peak(10_000), peak(100_000), peak(1_000_000));
    assert_eq!((many - few, more - many), (90_000 * 8 * 64 * 4, 900_000 * 8 * 64 * 4));
    let long = of_trips(1_000_000);
    let codes: Vec<&str> = long.diagnostics.iter().map(|found| found.code.as_str()).collect();
    assert!(!long.is_open() && codes.contains(&"joined-trips"), "{codes:?}");
    // A million blocks of 2 KiB fill their segments.
    let (allocated, reserved) = (long.peak.allocated.0, long.peak.reserved.0);
    assert!(reserved - allocated < allocated.div_euclid(100), "{allocated} of {reserved}");
}

#[test]
fn loops_that_no_machine_holds_are_refused() {
    let text = "g (float[8,64] x) => (float[8,64] y) <float[64,64] w> {
        n = Constant <value_int = 9223372036854775807> ()
        y = Loop(n, , x) <body = b (int64 i, bool on, float[8,64] h) => (bool on, float[8,64] t) {
            m = MatMul(h, w)  t = Tanh(m)
        }>
    }";
    let error = open(text).estimate(&Config::default()).unwrap_err().to_string();
    assert!(error.contains("more memory for backward than any machine has"), "{error}");
}

#[test]
fn trips_that_an_input_counts_are_a_dimension() {
    let text = "g (float[8,64] x, int64 steps) => (float[8,64] y) <float[64,64] w> {
        yes = Constant <value = bool {1}> ()
        y = Loop(steps, yes, x) <body = b (int64 i, bool on, float[8,64] h) => (bool on, float[8,64] t) {
            m = MatMul(h, w)  t = Tanh(m)
        }>
    }";
    let model = open(text);
    let names: Vec<String> = model.open_dims().into_iter().map(|dim| dim.name).collect();
    assert_eq!(names, ["batch", "steps"]);
    let peak = |steps: u64| {
        let dims = [("steps".to_owned(), steps)].into();
        let report = model.estimate(&Config { dims, ..Config::default() }).unwrap();
        (report.peak.requested.0, report.is_open())
    };
    assert_eq!(peak(500).0 - peak(400).0, 100 * 8 * 64 * 4);
    assert!(!peak(500).1);
}

#[test]
fn long_loops_whose_trips_differ_are_refused() {
    // Each trip reads more than the one before.
    let text = "g (float[60000,64] x, float[64] s) => (float[64] y) <float[64] w> {
        n = Constant <value_int = 60000> ()  yes = Constant <value = bool {1}> ()
        zero = Constant <value_ints = [0]> ()  one = Constant <value_ints = [1]> ()
        y = Loop(n, yes, s) <body = b (int64 i, bool on, float[64] h) => (bool on, float[64] t) {
            j = Reshape(i, one)  k = Add(j, one)  p = Slice(x, zero, k, zero)
            q = Mul(p, w)  r = ReduceSum <keepdims = 0> (q, zero)  t = Add(h, r)
        }>
    }";
    let error = open(text).estimate(&Config::default()).unwrap_err().to_string();
    assert!(error.contains("its trips are not alike"), "{error}");
}

/// Branches, loops, scans and sequences inside each other.
const ALL: &str = r#"<ir_version: 9, opset_import: ["" : 18]>
g (float[3,8,64] x, float[8,64] s) => (float[3,8,64] y) <float[64,64] w, float[64,64] v> {
    n = Constant <value_int = 3> ()  yes = Constant <value = bool {1}> ()
    none = SequenceEmpty()
    last, all = Loop(n, yes, s, none) <
        body = b (int64 i, bool on, float[8,64] h, seq(float[8,64]) list)
            => (bool on, float[8,64] t, seq(float[8,64]) longer) {
            p = Gather(x, i)
            m = If(on) <
                then_branch = t () => (float[8,64] a) { a = MatMul(p, w) },
                else_branch = e () => (float[8,64] a) { a = MatMul(p, v) }>
            t = Add(m, h)  longer = SequenceInsert(list, t)
        }>
    z = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    end, y = Scan(last, z) <num_scan_inputs = 1,
        body = b2 (float[8,64] c, float[8,64] d) => (float[8,64] f, float[8,64] f) { f = Add(c, d) }>
}"#;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x100F),
        ..ProptestConfig::default()
    })]

    #[test]
    fn changed_control_flow_never_panics(edits in prop::collection::vec(edit(), 1..6)) {
        let mut bytes = ALL.as_bytes().to_vec();
        for edit in edits {
            apply(&mut bytes, edit);
        }
        if let Ok(model) = highwater_core::open(&mut bytes.as_slice(), "net.onnxtxt") {
            drop(model.estimate(&Config::default()));
        }
    }
}

/// Parameters and bytes of buffers of a model in which nothing is assumed.
#[track_caller]
fn check_roles(name: &str, text: &str, expected: (u64, u64)) {
    let (report, _) = report(text);
    let found = (report.model.parameters, report.model.buffer_bytes.0);
    assert_eq!(found, expected, "{name}");
    assert!(!report.is_open(), "{name}: {:?}", report.diagnostics);
}

#[test]
fn squeezes_and_frozen_normalisations_are_what_the_exporter_meant() {
    let squeeze = |size: usize| {
        format!(
            "g (float[8,{size},64] x, bool[1] c) => (float[n,k] y) <float[64,64] w> {{
                axis = Constant <value_ints = [1]> ()
                s = If(c) <
                    then_branch = t () => (float[n,k] a) {{ a = Squeeze(x, axis) }},
                    else_branch = e () => (float[n,m,k] b) {{ b = Identity(x) }}>
                y = MatMul(s, w)
            }}"
        )
    };
    check_roles("an axis of one", &squeeze(1), (64 * 64, 0));
    check_roles("an axis of three", &squeeze(3), (64 * 64, 0));
    let frozen = "g (float[8,4,6,6] x) => (float[8,4,6,6] y) <
            float[4,4,1,1] conv.weight, float[4] bn.weight, float[4] bn.bias,
            float[4] bn.running_mean, float[4] bn.running_var> {
        shape = Constant <value_ints = [1, 4, 1, 1]> ()
        h = Conv(x, conv.weight)
        w = Reshape(bn.weight, shape)  b = Reshape(bn.bias, shape)
        m = Reshape(bn.running_mean, shape)  v = Reshape(bn.running_var, shape)
        d = Sqrt(v)  r = Reciprocal(d)  s = Mul(w, r)  ms = Mul(m, s)  o = Sub(b, ms)
        z = Mul(h, s)  y = Add(z, o)
    }";
    check_roles("FrozenBatchNorm2d", frozen, (16, 64));
}

#[test]
fn the_limit_of_unrolling_is_no_limit_of_memory() {
    // Its first axis counts time; the same file with a batch there.
    let mut bytes = fixtures::read("robustness/scan.onnx");
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(b"\x12\x01T") {
            bytes[at + 2] = b'N';
        }
    }
    let model = highwater_core::open(&mut bytes.as_slice(), "scan").expect("it opens");
    let (config, mut stages) = (Config::default(), Stages::default());
    let line = model.batch_line(&config, &mut stages);
    let largest = model.largest_batch(&config, "b200", &line, &mut stages).expect("it is searched");
    let most = largest.and_then(|largest| largest.without_flush);
    assert!(most > Some(50_000), "{most:?}");
    assert!(stages.made().runs < 10, "{:?}", stages.made());
}
