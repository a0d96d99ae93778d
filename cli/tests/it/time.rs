//! `highwater time`: how long a training step takes.

use expect_test::expect;
use serde_json::Value;

use crate::run::highwater;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn resnet50() -> String {
    format!("{ROOT}/examples/resnet50.onnx")
}

#[test]
fn a_step_is_timed_by_phase_and_kind() {
    let outcome = highwater(&["time", &resnet50(), "--batch", "32", "--device", "t4"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let shown: Vec<&str> = outcome.stdout.lines().take(14).collect();
    expect![[r#"
        A step takes 303 ms on T4: 105 samples per second.
        The GPU computes 100 % of that time; most of the step waits for arithmetic.

                           time  share  kernels  GFLOP       moves
          forward        107 ms   35 %      176    261   11.11 GiB
          backward       187 ms   62 %      232    515   17.52 GiB
          optimizer     8.75 ms    3 %       20      0    1.90 GiB
          gemm          0.23 ms    0 %        3      0   24.55 MiB
          convolution    199 ms   66 %      158    777    7.94 GiB
          elementwise  46.48 ms   15 %      135      0   10.06 GiB
          reduction     0.10 ms    0 %        4      0   12.63 MiB
          softmax       0.02 ms    0 %        2      0  625.00 KiB
          norm         48.63 ms   16 %      106      0   10.60 GiB
          foreach       8.75 ms    3 %       20      0    1.90 GiB"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn parts_add_up_and_gpus_are_in_order() {
    let outcome = highwater(&["time", &resnet50(), "--device", "h100-80gb", "--json"]);
    let json: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
    let sum = |of: &str, key: &str| -> u64 {
        let parts = json["step"][of].as_object().expect("it has parts").values();
        parts.map(|part| part[key].as_u64().expect("it is a number")).sum()
    };
    for key in ["device_picoseconds", "kernels", "multiply_adds", "bytes"] {
        let all = json["step"]["all"][key].as_u64();
        assert_eq!([Some(sum("phases", key)), Some(sum("classes", key))], [all; 2], "{key}");
    }
    let devices = json["devices"].as_array().expect("there are some");
    let times: Vec<u64> = devices.iter().filter_map(|one| one["picoseconds"].as_u64()).collect();
    assert!(times.len() > 15 && times.is_sorted(), "{times:?}");
}

#[test]
fn a_gpu_without_published_rates_is_refused() {
    let outcome = highwater(&["time", &resnet50(), "--device", "b200"]);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("B200 has no published rates"), "{}", outcome.stderr);
}
