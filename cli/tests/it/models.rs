//! Models by name.

use expect_test::expect;
use serde_json::Value;

use crate::run::{Outcome, file, highwater};

/// What an estimate by name is for: parameters, and the settings that matter.
fn estimated(arguments: &[&str]) -> (u64, String) {
    let quick = ["--json", "--no-max-batch", "--devices", "a100-80gb"];
    let Outcome { status, stdout, stderr } =
        highwater(&[&["estimate"], arguments, &quick].concat());
    assert_eq!(status, Some(0), "{arguments:?}: {stderr}");
    let json: Value = serde_json::from_str(&stdout).unwrap();
    let config = |name: &str| json["config"][name].as_str().unwrap_or_default().to_owned();
    let dims = json["config"]["dims"].to_string();
    let settings = [config("precision"), config("optimizer"), config("checkpoint"), dims];
    (json["model"]["parameters"].as_u64().unwrap(), settings.join(" "))
}

/// Flags override the settings that an entry opens with.
#[test]
fn models_are_estimated_by_name() {
    for (arguments, parameters, settings) in [
        (&["smollm2-135m"][..], 134_515_008, r#"bf16 adamw none {"batch":1,"seq":2048}"#),
        (
            &["HuggingFaceTB/SmolLM2-135M", "--seq", "64", "--precision", "fp32"],
            134_515_008,
            r#"fp32 adamw none {"batch":1,"seq":64}"#,
        ),
        (
            &["llama-3.1-8b", "--optimizer", "sgd"],
            8_030_261_248,
            r#"bf16 sgd blocks {"batch":1,"seq":2048}"#,
        ),
        (
            &["bert-base-uncased", "--batch", "4", "--checkpoint", "blocks"],
            109_514_298,
            r#"amp-bf16 adamw blocks {"batch":4,"seq":512}"#,
        ),
    ] {
        assert_eq!(estimated(arguments), (parameters, settings.to_owned()), "{arguments:?}");
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let refused = |arguments: &[&str]| {
        let Outcome { status, stdout, stderr } = highwater(arguments);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        stderr
    };
    expect![[r#"
        error: lama-3.1-8b: there is no file and no model of this name; the nearest names are llama-3.1-8b, llama-3-8b, llama-3.2-1b, llama-3.1-70b, llama-3.2-3b. `highwater models` lists all names; or give a file, such as the model's `config.json`
    "#]]
    .assert_eq(&refused(&["estimate", "lama-3.1-8b"]));
    let message = refused(&["advise", "qwen2.5-8b"]);
    assert!(message.contains("qwen2.5-7b"), "{message}");
    for missing in ["gpt2.onnx", "./gpt2", "/gpt2"] {
        let message = refused(&["estimate", missing]);
        assert!(message.contains("cannot read"), "{message}");
    }
    let message = refused(&["models", "gtp2"]);
    assert!(message.contains("gpt2"), "{message}");
}

/// A file goes before a name.
#[test]
fn a_file_goes_before_a_name() {
    let path = file("gpt2", b"no model");
    let outcome = highwater(&["estimate", &path.to_string_lossy()]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("not a model"), "{}", outcome.stderr);
}

#[test]
fn models_are_listed() {
    let listed = highwater(&["models", "SmolLM2", "135m"]).stdout;
    let lines: Vec<_> = listed.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "name          model          parameters  family  on the Hub",
            "smollm2-135m  SmolLM2 135M  134,515,008  llama   HuggingFaceTB/SmolLM2-135M",
            "",
            "1 model.",
        ]
    );
    let all = highwater(&["models"]).stdout;
    assert!(all.lines().count() >= 120, "{all}");
}
