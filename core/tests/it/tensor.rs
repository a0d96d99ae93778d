//! Tensor parallelism of transformers, against PyTorch's own allocations for one rank.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{expect, expect_file};
use highwater_core::formats::catalogue;
use highwater_core::{Config, Severity};

use crate::runs;

/// COUNT: hundredths of a percent that an answer may be off, and that half of them may be.
const WORST: u64 = 100;
const USUAL: u64 = 10;

#[test]
fn peaks_are_those_of_a_rank() {
    let head = "Models of the catalogue: batch, length and settings; then true allocated and reserved bytes of a \
                    rank, each with\nthe error of ours (`=`: to the byte).\n\n";
    let (lines, [allocated, _]) = runs::of_catalogue("ranks/tensor.csv");
    let page = [head, &lines].concat();
    let mut errors: Vec<u64> = allocated.into_iter().map(i64::unsigned_abs).collect();
    expect_file!["../../../tests/fixtures/ranks/tensor-errors.txt"].assert_eq(&page);
    errors.sort_unstable();
    assert!(runs::median(&errors) <= USUAL, "{errors:?}");
    assert!(errors.last() <= Some(&WORST), "{errors:?}");
}

fn open(name: &str) -> highwater_core::Model {
    let entry = catalogue::find(name).expect("a name of the catalogue");
    highwater_core::open(&mut entry.configuration().as_bytes(), "config.json").unwrap()
}

/// What is said of a mesh that cannot be.
fn refusal(name: &str, mesh: &str) -> String {
    let model = open(name);
    let config = Config { mesh: mesh.parse().unwrap(), ..model.defaults().clone() };
    model.estimate(&config).expect_err("a mesh that cannot be").to_string()
}

#[test]
fn what_cannot_be_divided_is_refused() {
    assert_eq!(
        refusal("smollm2-135m", "tp=2"),
        "9 `num_attention_heads` cannot be divided by 2 ranks: choose a `tp` that divides the heads"
    );
    assert_eq!(
        refusal("qwen2.5-0.5b", "tp=7"),
        "2 `num_key_value_heads` cannot be divided by 7 ranks: choose a `tp` that divides the heads"
    );
    assert_eq!(
        refusal("gpt2", "tp=2"),
        "how transformers divides layers of the family gpt2 is not known here: leave `tp` out of the mesh; families \
         such as llama, mistral, qwen2, qwen3, gemma, phi3 and olmo2 can be divided"
    );
    assert_eq!(
        refusal("qwen2.5-0.5b", "replicate=2,tp=2"),
        "layers that are divided are shared by FSDP only: choose the data parallelism fsdp without `replicate`, or 2 \
         GPUs for tp=2 by itself"
    );
}

/// The first model of each family that can be divided by two: shapes fit, and less is allocated.
#[test]
fn every_family_with_a_plan_is_divided() {
    let mut families = BTreeSet::new();
    for entry in catalogue::entries() {
        if families.contains(entry.family()) {
            continue;
        }
        let configuration = entry.configuration();
        let model = highwater_core::open(&mut configuration.as_bytes(), "config.json").unwrap();
        let given = |mesh: &str| Config {
            mesh: mesh.parse().unwrap(),
            dims: BTreeMap::from([("batch".to_owned(), 1), ("seq".to_owned(), 64)]),
            ..model.defaults().clone()
        };
        let divided = match model.estimate(&given("tp=2")) {
            Ok(report) => report,
            Err(error) => {
                let said = error.to_string();
                assert!(
                    ["cannot be divided", "is not known here"]
                        .iter()
                        .any(|part| said.contains(part)),
                    "{said}"
                );
                continue;
            }
        };
        let whole = model.estimate(&given("")).unwrap();
        let failed: Vec<_> = divided
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .filter(|diagnostic| !whole.diagnostics.contains(diagnostic))
            .collect();
        assert!(failed.is_empty(), "{}: {failed:?}", entry.id);
        let [divided_bytes, whole_bytes] = [&divided, &whole].map(|report| report.peak.allocated);
        assert!(divided_bytes < whole_bytes, "{}: {divided_bytes:?} of {whole_bytes:?}", entry.id);
        families.insert(entry.family());
    }
    let names: Vec<&str> = families.into_iter().collect();
    expect!["apertus cohere cohere2 ernie4_5 exaone4 gemma gemma2 gemma3_text glm4 gpt_neox internlm3 llama mistral nemotron olmo olmo2 olmo3 phi phi3 qwen2 qwen3 seed_oss smollm3 starcoder2"].assert_eq(&names.join(" "));
}
