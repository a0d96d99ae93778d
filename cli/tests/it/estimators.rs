//! `highwater compare`: other estimators about the same training.

use expect_test::expect;
use serde_json::Value;

use crate::run::highwater;

/// The name and the figure of each row, and the sentence behind them.
#[test]
fn all_estimators_answer_about_a_model() {
    let outcome = highwater(&["compare", "resnet18", "--batch", "8", "--optimizer", "adam"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let figures = outcome.stdout.lines().map(|line| line.get(..66).unwrap_or(line).trim_end());
    expect![[r#"
        estimator                                       estimate  to ours
        Highwater                                     958.72 MiB      0 %
        xMem                                          920.72 MiB     -3 %
        VeritasEst                                    920.72 MiB     -3 %
        DNNMem                                        900.72 MiB     -6 %
        PyTorch MemTracker                            334.00 MiB     -5 %
        FakeTensor                                    244.79 MiB    -30 %
        LLMem                                                  -
        Horus                                         629.53 MiB    -34 %
        Horus + 1,000 MB                                1.55 GiB    +65 %
        accelerate estimate-memory                    178.51 MiB    -81 %
        EleutherAI calculator                                  -
        Megatron-LM                                            -
        DeepSpeed ZeRO-2                              222.96 MiB    -76 %
        DeepSpeed ZeRO-2, optimizer on the host        22.30 MiB    -97 %
        DeepSpeed ZeRO-3                              209.66 MiB    -78 %
        DeepSpeed ZeRO-3, optimizer on the host        31.30 MiB    -96 %
        DeepSpeed ZeRO-3, all on the host               9.00 MiB    -99 %
        SchedTune                                       2.14 GiB   +128 %
        GPUMemNet, perceptrons                   0 B to 7.81 GiB   +734 %
        GPUMemNet, transformers                  0 B to 7.81 GiB   +734 %
        DNNPerf                                         2.37 GiB   +153 %

        A figure for tensors is compared with our allocated memory, all ot
    "#]]
    .assert_eq(&(figures.collect::<Vec<_>>().join("\n") + "\n"));
}

/// Whoever has no figure says why; settings change what they say.
#[test]
fn answers_are_written_as_json() {
    let rows = |arguments: &[&str]| -> Vec<Value> {
        let outcome = highwater(&[&["compare", "--json"], arguments].concat());
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let of_images = rows(&["resnet18"]);
    let llmem = of_images.iter().find(|row| row["id"] == "llmem").unwrap();
    assert!(llmem["bytes"].is_null() && llmem["why_not"].is_string(), "{llmem}");
    let bytes = |rows: &[Value], id: &str| {
        let row = rows.iter().find(|row| row["id"] == id).unwrap();
        row["bytes"].as_u64().unwrap()
    };
    let (short, long) = (rows(&["gpt2", "--seq", "64"]), rows(&["gpt2", "--seq", "512"]));
    for row in short.iter().filter(|row| row["bytes"].is_u64()) {
        let id = row["id"].as_str().unwrap();
        let counts_states_alone = id.starts_with("zero-") || id == "accelerate";
        assert_eq!(bytes(&short, id) == bytes(&long, id), counts_states_alone, "{id}");
    }
}

/// Formulas divide the whole model; who knows one GPU only gives no figure, and the way of sharing is stated.
#[test]
fn figures_on_several_gpus_are_for_one_of_them() {
    let last = |settings: &[&str]| {
        let outcome = highwater(&[&["compare", "gpt2", "--seq", "64"], settings].concat());
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        outcome.stdout.lines().last().unwrap().to_owned()
    };
    assert!(last(&[]).starts_with("A figure for tensors is compared"));
    let ddp = last(&["--gpus", "4"]);
    assert_eq!(ddp, "Each figure is for one of 4 GPUs; ours shares the model by DDP.");
    let stage = last(&["--mesh", "pp=2", "--batch", "2"]);
    assert_eq!(stage, "Each figure is for one of 2 GPUs.");
    let outcome = highwater(&["compare", "gpt2", "--seq", "64", "--gpus", "4", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&outcome.stdout).unwrap();
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    // GPT-2 has 124,439,808 parameters.
    assert_eq!(row("zero-2")["bytes"], 124_439_808_u64 * 2 + 124_439_808 * 18 / 4);
    assert_eq!(row("xmem")["why_not"], "it answers for one GPU only");
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let outcome = highwater(&["compare", "gtp2"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""));
    assert!(outcome.stderr.contains("the nearest names are gpt2"), "{}", outcome.stderr);
}
