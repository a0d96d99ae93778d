//! `highwater time`: how long a training step, a forward pass and tokens take.

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
    let shown: Vec<&str> = outcome.stdout.lines().take(15).collect();
    expect![[r#"
        A step takes 295 ms on T4 (189 ms to 460 ms in nine of ten runs): 108 samples per second.
        The GPU computes 100 % of that time; most of the step waits for arithmetic.
        SM active 43 to 97 %, SM occupancy 27 to 61 %, tensor active 0 %, DRAM active 15 to 34 %, as DCGM averages them.
        The most is with a data loader as fast as needed, the least is that of the idlest measured loop; `--loader` and
        the samples per second that yours gives narrow it.
        Model FLOP utilisation 32 %.

                          time  share  kernels  GFLOP       moves
          forward       104 ms   35 %      229    261   11.11 GiB
          backward      182 ms   62 %      232    515   17.52 GiB
          optimizer    8.75 ms    3 %       20      0    1.90 GiB
          gemm          228 µs    0 %        3      0   24.55 MiB
          convolution   190 ms   65 %      158    777    7.94 GiB
          elementwise  46.8 ms   16 %      188      0   10.06 GiB
          reduction    84.2 µs    0 %        4      0   12.63 MiB"#]]
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
fn a_step_of_several_gpus_waits_for_others() {
    let model = ["time", "smollm2-135m", "--batch", "4", "--seq", "512", "--device", "a100-80gb"];
    let outcome = highwater(&[&model[..], &["--gpus", "8", "--data-parallel", "fsdp"]].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let shown: Vec<&str> = outcome.stdout.lines().skip(6).take(6).collect();
    expect![[r#"
        A GPU sends 626.24 MiB to others in a step (over NVLink 3).
        That takes 4.51 ms, of which 0.00 µs are not hidden behind computation:
          all-gather: 61 times, 401.74 MiB sent, 2.93 ms
          reduce-scatter: 31 times, 224.50 MiB sent, 1.58 ms
        Model FLOP utilisation 5 %.
    "#]]
    .assert_eq(&shown.join("\n"));
    let outcome = highwater(&[&model[..], &["--gpus", "8", "--json"]].concat());
    let json: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
    let network = &json["step"]["network"];
    let number = |key: &str| network[key].as_u64().expect("it is a number");
    assert_eq!(network["link"].as_str(), Some("NVLink 3"));
    // Samples and tokens are those of all.
    assert_eq!(json["step"]["samples"], 4 * 8);
    assert_eq!(json["step"]["tokens"], 4 * 8 * 512);
    assert!(number("exposed_picoseconds") < number("picoseconds"), "{network}");
    let exchanges = network["exchanges"].as_object().expect("there are some");
    let sent = exchanges.values().map(|one| one["sent_bytes"].as_u64().expect("it is a number"));
    assert_eq!(sent.sum::<u64>(), number("sent_bytes"));
    let outcome = highwater(&[&model[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
    assert_eq!(json["step"]["network"], Value::Null);
}

/// A form of a board is a row of its own, and one that there is not is refused.
#[test]
fn a_board_has_forms() {
    let of = |form: &[&str]| {
        highwater(&[&["time", &resnet50(), "--device", "a100-40gb", "--json"], form].concat())
    };
    let json: Value = serde_json::from_str(&of(&["--form", "pcie"]).stdout).expect("it is JSON");
    assert_eq!(json["step"]["form"].as_str(), Some("PCIe"));
    let devices = json["devices"].as_array().expect("there are some");
    let is_a100 = |one: &&Value| one["device"] == "a100-40gb";
    assert_eq!(devices.iter().filter(is_a100).count(), 2);
    let outcome = of(&["--form", "SXM5"]);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("known are SXM, PCIe"), "{}", outcome.stderr);
}

/// Products of matrices are faster in TF32, where a GPU has it, and memory stays as it is.
#[test]
fn tf32_makes_products_faster_and_takes_no_memory() {
    let of = |command: &str, key: &str, tf32: &str| -> Value {
        let asked = ["--batch", "8", "--seq", "128", "--device", "a100-40gb", "--json", "--tf32"];
        let model = [command, "bert-base-uncased", "--precision", "fp32"];
        let given = [&model[..], &asked, &[tf32]].concat();
        let outcome = highwater(&given);
        let json: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
        json.pointer(key).cloned().expect("it is there")
    };
    let gemm = "/step/classes/gemm/device_picoseconds";
    let [off, on, auto] = ["off", "on", "auto"].map(|tf32| of("time", gemm, tf32).as_u64());
    assert!(on < off.map(|off| off / 2) && auto == off, "{off:?} {on:?} {auto:?}");
    assert_eq!(of("estimate", "/peak", "off"), of("estimate", "/peak", "on"));
}

/// A loader that is too slow makes the step longer, and the GPU wait.
#[test]
fn a_slow_loader_leaves_the_gpu_idle() {
    let answer = |loader: &[&str]| -> Value {
        let model = resnet50();
        let given = ["time", &model, "--batch", "32", "--device", "a100-40gb", "--json"];
        let outcome = highwater(&[given.as_slice(), loader].concat());
        serde_json::from_str(&outcome.stdout).expect("it is JSON")
    };
    let (free, slow) = (answer(&[]), answer(&["--loader", "100"]));
    assert_eq!(slow["step"]["picoseconds"].as_u64(), Some(320_000_000_000));
    assert_eq!(slow["step"]["bound"].as_str(), Some("loader"));
    for (name, share) in free["step"]["utilisation"].as_object().expect("it has shares") {
        let [free, slow] = [share, &slow["step"]["utilisation"][name]].map(Value::as_f64);
        assert!(slow < free && free <= Some(1.0), "{name}: {slow:?} {free:?}");
    }
    let model = resnet50();
    let outcome = highwater(&["time", &model, "--batch", "32", "--device", "t4", "--loader", "10"]);
    let shown: Vec<&str> = outcome.stdout.lines().take(3).collect();
    expect![[r#"
        A step takes 3.20 s on T4 (3.20 s to 4.99 s in nine of ten runs): 10.0 samples per second.
        The GPU computes 9 % of that time; most of the step waits for the data loader.
        SM active 8 %, SM occupancy 5 %, tensor active 0 %, DRAM active 3 %, as DCGM averages them."#]]
    .assert_eq(&shown.join("\n"));
}

/// Tokens have times of their own, launched by Python and in CUDA graphs.
#[test]
fn tokens_are_timed() {
    let of = |more: &[&str]| {
        let asked = ["time", "qwen2.5-0.5b", "--workload", "generation", "--precision", "bf16"];
        highwater(
            &[&asked, ["--new-tokens", "6", "--device", "a100-80gb"].as_slice(), more].concat(),
        )
    };
    let shown = of(&[]).stdout;
    for line in ["time to first token", "time per output token", "output tokens per second"] {
        assert!(shown.contains(line), "{shown}");
    }
    let json: Value = serde_json::from_str(&of(&["--json"]).stdout).expect("it is JSON");
    let time = |how: &str, what: &str| {
        json["generation"][how][what]["picoseconds"].as_u64().expect("it is a number")
    };
    for how in ["python", "cuda_graph"] {
        let passes = time(how, "total") - time(how, "first_token");
        assert_eq!(passes / 5, time(how, "per_token"), "{how}");
        assert!(time(how, "first_pass") <= time(how, "last_pass"), "{how}");
    }
    assert!(time("cuda_graph", "total") < time("python", "total"));
    let refused = of(&["--epoch", "100"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("generation reads prompts once"), "{}", refused.stderr);
}

#[test]
fn inference_has_forward_passes() {
    let outcome = highwater(&["time", &resnet50(), "--workload", "inference", "--batch", "8"]);
    assert!(outcome.stdout.starts_with("A forward pass takes "), "{}", outcome.stdout);
}
