//! `highwater explain`.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::run::{file, highwater, model};

const FRAGMENTED: &str = "\
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty \
of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process has 20.81 GiB memory \
in use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch \
but unallocated.";

fn check(text: &str, arguments: &[&str], expected: &Expect) {
    // Tests run beside each other, each with texts of its own.
    let path = file(&format!("message-{}.txt", text.len()), text.as_bytes());
    let outcome =
        highwater(&[&["explain", "--message", &path.to_string_lossy()], arguments].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expected.assert_eq(&outcome.stdout);
}

/// The message that the estimate itself prints where a model does not fit.
fn failure(arguments: &[&str]) -> String {
    let alexnet = model("train/alexnet");
    let flags = ["estimate", &alexnet, "--device", "t4", "--require", "t4"];
    let outcome = highwater(&[&flags, arguments].concat());
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    outcome.stderr
}

#[test]
fn a_message_is_explained() {
    check(
        FRAGMENTED,
        &[],
        &expect![[r#"
            CUDA out of memory on GPU 0
            fragmentation: the process holds enough memory that no tensor uses, but in pieces that are too small

            Message (PyTorch 2.1)
              tried          3.00 GiB  the segment that the driver refused
              free           1.66 GiB  on the GPU, after cached segments were released
              missing       ~1.34 GiB  tried minus free
              allocated     12.09 GiB  in blocks that tensors hold
              unallocated    4.84 GiB  reserved but unused: holes between blocks
              reserved     ~16.93 GiB  both of these
              process       20.81 GiB  in use by this process
              context       ~3.88 GiB  process minus reserved: the CUDA context and libraries
              others        ~1.18 GiB  in use by other processes
              total         23.65 GiB  GeForce RTX 4090, as older drivers report it

            What helps
              1. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (before PyTorch 2.1: max_split_size_mb:512)
              2. inputs of one size, or the largest one first: segments of many sizes are what leaves holes

            For an estimate on this machine
              --device rtx-4090 --capacity 23.65GiB --context 3.88GiB --other-processes 1.18GiB --pytorch 2.1
        "#]],
    );
}

#[test]
fn nvidia_smi_is_explained() {
    let text = "\
| NVIDIA-SMI 535.183.01             Driver Version: 535.183.01   CUDA Version: 12.2     |
|   0  NVIDIA GeForce RTX 4090        Off | 00000000:01:00.0  On |                  Off |
| 31%   48C    P2              75W / 450W |   1203MiB / 24564MiB |      3%      Default |
| Processes:                                                                            |
|    0   N/A  N/A      1571      G   /usr/lib/xorg/Xorg                          610MiB |
";
    check(
        text,
        &[],
        &expect![[r#"
            GeForce RTX 4090

            nvidia-smi (driver 535.183.01, CUDA up to 12.2)
              GPU 0  NVIDIA GeForce RTX 4090          1.17 GiB of 23.99 GiB in use  ECC off  this one
                     process 1571 /usr/lib/xorg/Xorg                    610.00 MiB

            For an estimate on this machine
              --device rtx-4090 --other-processes 1.17GiB

            Assumptions
              info [in-use] what is in use now is assumed to stay in use by others
        "#]],
    );
}

#[test]
fn the_operator_is_found_in_the_model() {
    let alexnet = model("train/alexnet");
    let others = ["--other-processes", "13GiB", "--dim", "batch=256"];
    check(
        &failure(&others),
        &[&alexnet, "--dim", "batch=256"],
        &expect![[r#"
            CUDA out of memory on GPU 0
            other processes: other processes use the missing memory

            Message (PyTorch 2.10 or later)
              tried         144.00 MiB  the segment that the driver refused
              free           96.20 MiB  on the GPU, after cached segments were released
              missing        47.80 MiB  tried minus free
              allocated       1.07 GiB  in blocks that tensors hold
              unallocated   236.21 MiB  reserved but unused: holes between blocks
              reserved        1.30 GiB  both of these
              process         1.47 GiB  in use by this process
              context      ~173.39 MiB  process minus reserved: the CUDA context and libraries
              others        ~13.00 GiB  in use by other processes
              total          14.56 GiB  T4, as newer drivers report it

            In alexnet.onnx, batch = 256; adamw, fp32
              in the optimizer step (aten::_foreach_sqrt), iteration 1
                144.00 MiB: float32[4096, 9216], with 1.07 GiB allocated
                the simulated run, with the message's limit, fails here with the same figures

            The smallest change that fits on a T4 set to 14.56 GiB:
              1. Accumulate gradients over smaller batches (the same training, perhaps rounded differently): -1.10 GiB, needs 1.66 GiB, fits after cache flush
                   for x, target in loader:  # on the CPU still
                       for part, goal in zip(x.chunk(4), target.chunk(4)):  # 64 samples at most
                           part, goal = part.cuda(), goal.cuda()
                           loss = loss_fn(model(part), goal) * len(part) / len(x)
                           loss.backward()
                       optimizer.step()
                       optimizer.zero_grad()

            What helps in general
              1. end the other processes, or take another GPU (CUDA_VISIBLE_DEVICES)
              2. a smaller batch

            For an estimate on this machine
              --device t4 --capacity 14.56GiB --context 173.39MiB --other-processes 13.00GiB
        "#]],
    );
}

#[test]
fn another_batch_is_found() {
    let alexnet = model("train/alexnet");
    let others = ["--other-processes", "13GiB", "--dim", "batch=256"];
    check(
        &failure(&others),
        &[&alexnet, "--dim", "batch=8"],
        &expect![[r#"
            CUDA out of memory on GPU 0
            other processes: other processes use the missing memory

            Message (PyTorch 2.10 or later)
              tried         144.00 MiB  the segment that the driver refused
              free           96.20 MiB  on the GPU, after cached segments were released
              missing        47.80 MiB  tried minus free
              allocated       1.07 GiB  in blocks that tensors hold
              unallocated   236.21 MiB  reserved but unused: holes between blocks
              reserved        1.30 GiB  both of these
              process         1.47 GiB  in use by this process
              context      ~173.39 MiB  process minus reserved: the CUDA context and libraries
              others        ~13.00 GiB  in use by other processes
              total          14.56 GiB  T4, as newer drivers report it

            In alexnet.onnx, batch = 8; adamw, fp32
              The simulated step has no such allocation (9 of that size; at most 1.15 GiB are allocated):
              does the run have another batch, other settings, or another model?
              With batch = 256 it would be:
              in the optimizer step (aten::_foreach_sqrt), iteration 1
                144.00 MiB: float32[4096, 9216], with 1.07 GiB allocated
                the simulated run, with the message's limit, fails here with the same figures

            The smallest change that fits on a T4 set to 14.56 GiB:
              1. Accumulate gradients over smaller batches (the same training, perhaps rounded differently): -1.10 GiB, needs 1.66 GiB, fits after cache flush
                   for x, target in loader:  # on the CPU still
                       for part, goal in zip(x.chunk(4), target.chunk(4)):  # 64 samples at most
                           part, goal = part.cuda(), goal.cuda()
                           loss = loss_fn(model(part), goal) * len(part) / len(x)
                           loss.backward()
                       optimizer.step()
                       optimizer.zero_grad()

            What helps in general
              1. end the other processes, or take another GPU (CUDA_VISIBLE_DEVICES)
              2. a smaller batch

            For an estimate on this machine
              --device t4 --capacity 14.56GiB --context 173.39MiB --other-processes 13.00GiB
        "#]],
    );
}

#[test]
fn a_message_alone_is_no_model() {
    let path = file("alone.txt", FRAGMENTED.as_bytes());
    let alone = highwater(&["explain", &path.to_string_lossy()]);
    let named = highwater(&["explain", "--message", &path.to_string_lossy()]);
    assert_eq!((alone.status, alone.stdout), (Some(0), named.stdout));
}

#[test]
fn json_has_the_same() {
    let path = file("json.txt", FRAGMENTED.as_bytes());
    let outcome = highwater(&["explain", "--json", "--message", &path.to_string_lossy()]);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let mut keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "cause",
            "context",
            "memory_summary",
            "message",
            "missing",
            "model",
            "notes",
            "nvidia_smi",
            "other_processes",
            "settings",
            "suspects"
        ]
    );
    assert_eq!(json["cause"]["name"], "fragmentation");
    assert_eq!(json["suspects"][0]["id"], "rtx-4090");
    assert_eq!(json["settings"]["device"], "rtx-4090");
    assert_eq!(json["model"], Value::Null);
}

/// What `torch.cuda.memory_summary()` returns.
#[test]
fn a_memory_summary_is_explained() {
    let table = "|   PyTorch CUDA memory summary, device ID 0   |\n\
        |  CUDA OOMs: 1  |  cudaMalloc retries: 2  |\n\
        | Allocated memory      | 161792 B   |  10516 KiB |  73209 KiB |  73051 KiB |\n\
        | GPU reserved memory   |  24576 KiB |  24576 KiB |  24576 KiB |      0 B   |\n";
    let path = file("summary.txt", table.as_bytes());
    let arguments = ["explain", "--message", &path.to_string_lossy()];
    let outcome = highwater(&arguments);
    for expected in ["10.27 MiB in tensors", "24.00 MiB from the driver", "tried again 2 times"] {
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
    let json = highwater(&[&arguments[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["memory_summary"]["peak_allocated"], 10_516 << 10);
}

#[test]
fn what_is_neither_is_refused() {
    let path = file("neither.txt", b"loss 0.3");
    let outcome = highwater(&["explain", "--message", &path.to_string_lossy()]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""));
    expect![[r#"
        error: there is neither an out-of-memory message of PyTorch's in this text nor output of nvidia-smi
    "#]].assert_eq(&outcome.stderr);
}

/// Windows' `>` writes two bytes for each letter.
#[test]
fn wide_letters_are_read() {
    let mut bytes = b"\xff\xfe".to_vec();
    bytes.extend(FRAGMENTED.encode_utf16().flat_map(u16::to_le_bytes));
    let path = file("wide.txt", &bytes);
    let outcome = highwater(&["explain", "--message", &path.to_string_lossy()]);
    assert!(outcome.stdout.contains("fragmentation"), "{}", outcome.stdout);
}
