//! Exit statuses, and messages on bad use or input.

use expect_test::{Expect, expect};

use crate::run::{Outcome, contents, file, highwater, model};

/// Bad input: status 2, nothing on stdout, and a message on stderr.
fn check(arguments: &[&str], expected: &Expect) {
    let Outcome { status, stdout, stderr } = highwater(arguments);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
    // Folders are the machine's own.
    let folders = [env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR")];
    let stderr = folders.iter().fold(stderr, |text, folder| text.replace(folder, ""));
    expected.assert_eq(&stderr);
}

#[test]
fn flags_of_other_tools_are_answered_with_ours() {
    for (flag, expected) in [
        ("--bf16", "`--precision bf16-amp`"),
        ("--gradient_checkpointing", "`--checkpoint blocks`"),
        ("--batch-size=8", "`--batch`"),
        ("--fsdp", "`--gpus N --data-parallel fsdp`"),
        ("--dpo", "not simulated yet"),
        ("--inference", "use `--workload inference`"),
        ("--torch-compile", "`--compile inductor`"),
        ("--imgsz", "`--image-size`"),
        ("--num-labels", "`--dim classes=N`"),
        ("--head", "`--task`"),
        ("--max-target-length", "`--dim target=N`"),
    ] {
        let Outcome { status, stderr, .. } = highwater(&["estimate", "gpt2", flag]);
        assert_eq!(status, Some(2), "{flag}");
        assert!(stderr.contains(expected), "{flag}: {stderr}");
    }
}

#[test]
fn files_that_are_no_models_are_refused() {
    let check_file = |name: &str, bytes: &[u8], expected: &Expect| {
        check(&["estimate", &file(name, bytes).to_string_lossy()], expected);
    };
    check(
        &["estimate", "no-such.onnx"],
        &expect![[r#"
        error: no-such.onnx: cannot read: No such file or directory (os error 2)
    "#]],
    );
    check(
        &["estimate", env!("CARGO_TARGET_TMPDIR")],
        &expect![[r#"
        error: : this is a folder; name the model in it
    "#]],
    );
    check_file(
        "empty.onnx",
        b"",
        &expect![[r#"
        error: /empty.onnx is empty
    "#]],
    );
    check_file(
        "picture.onnx",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01",
        &expect![[r#"
        error: /picture.onnx is a PNG picture; open an ONNX model (.onnx)
    "#]],
    );
    let whole = contents("train/alexnet");
    check_file(
        "truncated.onnx",
        &whole[..whole.len() / 2],
        &expect![[r#"
        error: /truncated.onnx: the file is truncated at byte 4435: a field at byte 22 is 8844 bytes long; copy or download it again
    "#]],
    );
}

#[test]
fn specs_are_read_and_their_mistakes_told() {
    let spec = "input: [N, 8]\nlayers: [linear: 4]\ntrain: {optimizer: sgd}\n";
    let path = file("model.txt", spec.as_bytes());
    let path = path.to_string_lossy();
    let Outcome { status, stdout, .. } = highwater(&["estimate", &path, "--dim", "N=4"]);
    assert_eq!(status, Some(0));
    assert!(stdout.contains("layer spec, exact graph"), "{stdout}");
    // The command line goes before what the spec suggests.
    assert!(stdout.contains("N = 4; sgd, fp32"), "{stdout}");
    let arguments = ["estimate", &path, "--optimizer", "adamw"];
    let stdout = highwater(&arguments).stdout;
    assert!(stdout.contains("N = 1; adamw, fp32"), "{stdout}");
    let expected = "the input suggests other settings than this estimate is for: optimizer sgd";
    assert!(stdout.contains(expected), "{stdout}");
    let written = highwater(&["spec", &path]).stdout;
    assert!(written.contains("- linear: {out_features: 4}"), "{written}");
    assert!(highwater(&["schema"]).stdout.starts_with("{\n  \"$schema\""));
    check(
        &[
            "estimate",
            &file("bad.yaml", b"input: [N, 8]\nlayers:\n  - linera: 4\n").to_string_lossy(),
        ],
        &expect![[r#"
        error: /bad.yaml: line 3, column 5: there is no layer `linera`; did you mean `linear`?
    "#]],
    );
    check(
        &["spec", &model("train/alexnet")],
        &expect![[r#"
            error: /../tests/fixtures/models/train/alexnet.onnx: ONNX contains operators and no layers, so there is no spec of it
        "#]],
    );
}

#[test]
fn unknown_names_are_refused_with_those_that_are_known() {
    let model = model("train/alexnet");
    let refused = |flag: &str, value: &str, expected: &Expect| {
        check(&["estimate", &model, flag, value], expected);
    };
    refused(
        "--dim",
        "bacth=8",
        &expect![[r#"
        error: /../tests/fixtures/models/train/alexnet.onnx: the model has no dimension `bacth`; it has `batch`
    "#]],
    );
    refused(
        "--dim",
        "batch",
        &expect![[r#"
        error: invalid value 'batch' for '--dim <NAME=N>': write NAME=N, such as batch=32

        For more information, try '--help'.
    "#]],
    );
    refused(
        "--dim",
        "batch=many",
        &expect![[r#"
        error: invalid value 'batch=many' for '--dim <NAME=N>': the size `many` of `batch` is no whole number

        For more information, try '--help'.
    "#]],
    );
    refused(
        "--dim",
        "batch=0",
        &expect![[r#"
        error: /../tests/fixtures/models/train/alexnet.onnx: dimension `batch` is 0; choose 1 to 2147483648
    "#]],
    );
    refused(
        "--optimizer",
        "adamm",
        &expect![[r#"
            error: invalid value 'adamm' for '--optimizer <NAME>'
              [possible values: sgd, sgd-momentum, sgd-nesterov, adam, adam-amsgrad, adamw, adamw-amsgrad, nadam, radam, adamax, rmsprop, rmsprop-momentum, rmsprop-centered, adagrad, adadelta, rprop, asgd, adafactor, muon, lion, adam-8bit, adamw-8bit, paged-adamw-8bit, paged-adamw-32bit]

              tip: a similar value exists: 'adam'

            For more information, try '--help'.
        "#]],
    );
    for (flag, device, part) in [
        ("--device", "a100", "may be any of a100-40gb, a100-80gb"),
        ("--gpu", "m2", "Apple GPUs are not modelled"),
        ("--devices", "t4,mi300x", "AMD GPUs are not modelled"),
        ("--require", "abacus", "`highwater devices` lists all"),
    ] {
        let Outcome { status, stderr, .. } = highwater(&["estimate", &model, flag, device]);
        assert_eq!(status, Some(2), "{device}");
        assert!(stderr.contains(part), "{device}: {stderr}");
    }
}

#[test]
fn absurd_steps_are_refused() {
    check(
        &["estimate", &model("train/alexnet"), "--accumulate", "18446744073709551615"],
        &expect![[r#"
            error: /../tests/fixtures/models/train/alexnet.onnx: 18446744073709551615 batches per step are more than the 256 that are simulated
        "#]],
    );
}

#[test]
fn what_leaves_no_room_is_refused() {
    let alexnet = model("train/alexnet");
    for (arguments, expected) in [
        (
            &["--capacity", "0"][..],
            expect![[r#"
            error: /../tests/fixtures/models/train/alexnet.onnx: 0 B leave nothing to PyTorch: CUDA itself takes 514.72 MiB, and other processes 0 B
        "#]],
        ),
        (
            &["--capacity", "300MiB"],
            expect![[r#"
            error: /../tests/fixtures/models/train/alexnet.onnx: 300.00 MiB leave nothing to PyTorch: CUDA itself takes 514.72 MiB, and other processes 0 B
        "#]],
        ),
        (
            &["--other-processes", "79GiB"],
            expect![[r#"
            error: /../tests/fixtures/models/train/alexnet.onnx: 79.14 GiB leave nothing to PyTorch: CUDA itself takes 514.72 MiB, and other processes 79.00 GiB
        "#]],
        ),
        (
            &["--dim", "batch=2", "--batch", "3"],
            expect![[r#"
            error: /../tests/fixtures/models/train/alexnet.onnx: two sizes of batch are given: 2 and 3
        "#]],
        ),
    ] {
        check(&[&["estimate", &alexnet], arguments].concat(), &expected);
    }
}

#[test]
fn settings_that_do_nothing_are_named() {
    let mut said = String::new();
    for arguments in [
        "--double-quantize",
        "--lora-rank 16",
        "--dora --modules-to-save score",
        "--checkpoint 1000",
        "--pytorch 1.4",
        "--pytorch 3.0",
    ] {
        let arguments = arguments.split(' ');
        let all = ["estimate", "bert-tiny", "--no-max-batch"].into_iter().chain(arguments);
        let Outcome { stdout, .. } = highwater(&all.collect::<Vec<_>>());
        let warnings = stdout.lines().filter(|line| line.contains("warning"));
        said.extend(warnings.flat_map(|line| [line.trim(), "\n"]));
    }
    expect![[r#"
        warning [setting-without-effect] the setting `double-quantize` has no effect, because no weights have 4 bits
        warning [setting-without-effect] the setting `lora-rank` has no effect, because no layer has an adapter
        warning [setting-without-effect] the setting `dora` has no effect, because no layer has an adapter
        warning [setting-without-effect] the setting `modules-to-save` has no effect, because no layer has an adapter
        warning [checkpointed-blocks] only the first block is run again in backward: there are no 1000 more behind it
        warning [pytorch-unknown] PyTorch 1.4 is older than all that were compared with; the rules of 1.10 are followed
        warning [pytorch-unknown] PyTorch 3.0 is newer than all that were compared with; the rules of 2.15 are followed
    "#]].assert_eq(&said);
}

#[test]
fn what_is_required_decides_the_status() {
    let model = model("train/alexnet");
    let ask = |batch: &str, devices: &[&str]| {
        let mut arguments = vec!["estimate", &model, "--dim", batch];
        arguments.extend(devices.iter().flat_map(|device| ["--require", device]));
        highwater(&arguments)
    };
    assert_eq!(ask("batch=8", &["t4"]).status, Some(0));
    assert_eq!(ask("batch=8000", &[]).status, Some(0));
    assert_eq!(ask("batch=8000", &["h200"]).status, Some(0));
    let refused = ask("batch=8000", &["h200", "t4"]);
    assert_eq!(refused.status, Some(1));
    assert!(refused.stdout.contains("does not fit"), "the report is printed all the same");
    let message = refused.stderr;
    assert!(
        message.starts_with("error: Does not fit on a T4: alexnet at batch 8,000 needs "),
        "{message}"
    );
    assert!(message.contains("Largest batch on a T4: "), "{message}");
    assert!(message.contains("CUDA out of memory. Tried to allocate "), "{message}");
}

/// One judgement for every way to ask: the flags; the status, what the report has, what stderr has.
#[test]
fn a_gate_lets_through_what_may_be_relied_on() {
    let slice = "a100-80gb-1g.10gb";
    let fails = "Does not fit on an A100 80 GB 1g.10gb: resnet50";
    for (flags, (status, report, why)) in [
        (&["--batch", "400", "--require", "a100-80gb 1g.10gb"][..], (1, fails, fails)),
        (&["--batch", "400", "--device", slice, "--require", slice], (1, fails, fails)),
        (
            &["--batch", "400", "--device", "t4", "--require", slice],
            (1, "1g.10gb      does not fit", fails),
        ),
        (&["--batch", "32", "--require", slice], (0, "fits on an A100 80 GB 1g.10gb", "")),
        (&["--batch", "32", "--devices", "t4,a100-80gb 2g.20gb"], (0, "A100 80 GB 2g.20gb", "")),
        // 91, 88 and 55 %, and only with flushes.
        (&["--batch", "143", "--require", "t4"], (0, "likely fits on a T4", "")),
        (&["--batch", "146", "--require", "t4"], (1, "likely fits on a T4", "a chance of 90 %")),
        (&["--batch", "146", "--require", "t4", "--require-chance", "80"], (0, "likely fits", "")),
        (
            &["--batch", "154", "--require", "t4"],
            (1, "likely fits on a T4 (55 %)", "a chance of 90 %"),
        ),
        (&["--batch", "165", "--require", "t4"], (1, "flushes its cache", "must flush its cache")),
        (
            &["--batch", "165", "--require", "t4", "--require-chance", "1"],
            (1, "flushes its cache", "must flush its cache"),
        ),
    ] {
        let outcome = highwater(&[&["estimate", "resnet50", "--no-max-batch"], flags].concat());
        assert_eq!(outcome.status, Some(status), "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stdout.contains(report), "{flags:?}: {}", outcome.stdout);
        assert!(outcome.stderr.contains(why), "{flags:?}: {}", outcome.stderr);
    }
    let open = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/robustness/intonly.onnx");
    let outcome = highwater(&["estimate", open, "--require", "h200", "--require-chance", "1"]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("What it needs is not known"), "{}", outcome.stderr);
}

/// The GPU of the report is that of `--device`, else the first that a flag or a job names.
#[test]
fn one_default_device() {
    for (flags, expected) in [
        (&[][..], "an A100 80 GB"),
        (&["--devices", "l4,t4"], "an L4"),
        (&["--require", "l4", "--require", "t4"], "an L4"),
        (&["--require", "l4", "--devices", "t4"], "a T4"),
        (&["--devices", "l4", "--device", "t4"], "a T4"),
        (&["--devices", "l4", "--capacity", "20GiB"], "an L4 set to 20.00 GiB"),
    ] {
        let ask = ["estimate", "resnet50", "--no-max-batch"];
        let lead = highwater(&[&ask, flags].concat()).stdout;
        assert!(lead.starts_with(&format!("resnet50 at batch 32 fits on {expected}: ")), "{lead}");
    }
}

/// `--batch` and `--seq` mean the batch and the length, whatever a file calls them.
#[test]
fn sizes_are_given_by_any_name() {
    let rows = file("rows.yaml", b"input: [N, 784]\nlayers:\n  - linear: 256\n  - linear: 10\n");
    let printed = file(
        "printed.txt",
        b"Sequential(\n  (0): Linear(in_features=8, out_features=4, bias=True)\n)\n",
    );
    for path in [&rows, &printed] {
        let path = path.to_str().unwrap();
        for command in ["estimate", "advise", "compare", "time", "scale"] {
            let outcome = highwater(&[command, path, "--batch", "64"]);
            assert_eq!(outcome.status, Some(0), "{command} {path}: {}", outcome.stderr);
        }
        let json = highwater(&["estimate", path, "--batch", "64", "--require", "t4", "--json"]);
        assert_eq!(json.status, Some(0), "{}", json.stderr);
        let same = highwater(&["estimate", path, "--dim", "N=64", "--require", "t4", "--json"]);
        let same = same.stdout.replace("N=64", "");
        assert!(
            json.stdout.contains("\"N\": 64") || json.stdout.contains("\"batch\": 64"),
            "{}",
            json.stdout
        );
        assert!(same.is_empty() || same == json.stdout, "{path}");
        let two = highwater(&["estimate", path, "--batch", "64", "--dim", "N=8"]);
        assert_eq!(two.status, Some(2), "{}", two.stdout);
    }
    let rows = rows.to_str().unwrap();
    let two = highwater(&["estimate", rows, "--batch", "64", "--dim", "N=8"]);
    assert!(
        two.stderr.contains("two sizes of `N` are given: 8, and 64 as `batch`"),
        "{}",
        two.stderr
    );
}

#[test]
fn fewer_devices_can_be_asked_for() {
    let model = model("train/alexnet");
    let ask =
        |more: &[&str]| highwater(&[&["estimate", &model, "--dim", "batch=64"], more].concat());
    let outcome = ask(&["--devices", "t4,h200", "--no-max-batch"]);
    let (_, gpus) = outcome.stdout.split_once("\nGPUs\n").unwrap();
    // What is expected loses its indentation.
    let gpus: String =
        gpus.lines().map(|line| [line.get(2..).unwrap_or_default(), "\n"].concat()).collect();
    expect![[r#"
        Fits on all 2 GPUs.
              verdict  chance      need    capacity      margin
        T4    fits     > 99 %  1.66 GiB   14.56 GiB   12.90 GiB
        H200  fits     > 99 %  2.04 GiB  139.80 GiB  137.76 GiB
    "#]]
    .assert_eq(&gpus);
    assert!(outcome.stdout.starts_with("alexnet at batch 64 fits on a T4: "), "{}", outcome.stdout);
    let only = ask(&["--devices", "t4", "--device", "t4", "--no-max-batch"]).stdout;
    assert!(only.starts_with("alexnet at batch 64 fits on a T4: it needs "), "{only}");
    assert!(!only.contains("Fits on"), "{only}");
    let refused =
        ask(&["--devices", "h200", "--dim", "batch=9000", "--require", "t4", "--no-max-batch"]);
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.starts_with("error: Does not fit on a T4"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("Largest batch"), "{}", refused.stderr);
}

#[test]
fn a_plain_file_shows_no_colours() {
    for arguments in [&["operators"][..], &["devices"], &["estimate", &model("train/alexnet")]] {
        assert!(!highwater(arguments).stdout.contains('\x1b'), "{arguments:?}");
    }
}

/// What a recipe states and nobody could read: the answer is uncertain until the user decides.
#[test]
fn recipes_with_unreadable_values_are_uncertain() {
    let recipe = |line: &str| format!("base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 512\n{line}\n");
    for (line, flags, (status, why)) in [
        ("micro_batch_size: 2", &[][..], (0, "")),
        ("micro_batch_size: two", &[], (1, "not known")),
        ("micro_batch_size: -2", &[], (1, "not known")),
        ("micro_batch_size: 2.7", &[], (1, "not known")),
        ("micro_batch_size: 1e18", &[], (1, "not known")),
        ("micro_batch_size: two", &["--batch", "3"], (0, "")),
        ("optimizer: frobnicate", &[], (1, "not known")),
        ("micro_batch_sise: 2", &[], (1, "not known")),
        ("frobnicate: 2", &[], (1, "not known")),
    ] {
        let path = file("unreadable.yaml", recipe(line).as_bytes());
        let path = path.to_string_lossy();
        let arguments = [&["estimate", &path, "--no-max-batch", "--require", "a100-80gb"], flags];
        let outcome = highwater(&arguments.concat());
        assert_eq!(outcome.status, Some(status), "{line}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(why), "{line}: {}", outcome.stderr);
        let headline = outcome.stdout.lines().take(40).collect::<Vec<_>>().join(" ");
        assert_eq!(headline.contains("Warning:"), status != 0, "{line}: {headline}");
        let json = highwater(&[&arguments.concat()[..], &["--json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(json["uncertain"], status != 0, "{line}");
    }
}

/// Small tensors lie in files beside the model: shapes are made of them.
#[test]
fn tensors_beside_the_model_are_read() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/external/model.onnx");
    let outcome = highwater(&["estimate", model, "--no-max-batch", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["model"]["parameters"], 15_044);
    assert_eq!((&json["uncertain"], &json["lower_bound"]), (&false.into(), &false.into()));
}
/// What a name or a recipe switches on can be switched off.
#[test]
fn flags_can_be_switched_off() {
    let decays = |flags: &[&str]| {
        let arguments =
            [&["estimate", "resnet18", "--batch", "2", "--json", "--no-max-batch"], flags];
        let outcome = highwater(&arguments.concat());
        let answer: serde_json::Value =
            serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
        (answer["config"]["weight_decay"].as_bool().unwrap(), answer["peak"]["requested"].as_u64())
    };
    let (on, with) = decays(&[]);
    assert!(on, "the recipe of torchvision decays weights");
    assert_eq!(decays(&["--weight-decay"]), (true, with));
    assert_eq!(decays(&["--weight-decay=true"]), (true, with));
    let (off, without) = decays(&["--weight-decay=false"]);
    assert!(!off && without <= with, "{without:?} {with:?}");
    assert_eq!(decays(&["--no-weight-decay"]), (false, without));
    for wrong in [&["--weight-decay=maybe"][..], &["--no-weight-decay", "--weight-decay"]] {
        let outcome = highwater(&[&["estimate", "resnet18"], wrong].concat());
        assert_eq!(outcome.status, Some(2), "{outcome:?}");
    }
}
