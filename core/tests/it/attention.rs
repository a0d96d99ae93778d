//! `--attention`, against PyTorch with transformers' `attn_implementation`:
//! `./oracle run MODEL --batch 4 --seq 256 --opt sgd --attn eager`, and `sdpa`.

use highwater_core::{Bytes, Config};

use crate::fixtures;

/// The requested bytes at the peak, whichever attention the file has.
fn check(file: &str, attention: &str, requested: u64) {
    let content = fixtures::unpack(file).unwrap_or_else(|| panic!("{file} is missing"));
    let name = file.trim_end_matches(".gz");
    let model = highwater_core::open(&mut content.as_slice(), name).unwrap();
    let mut config = Config::default();
    for (setting, value) in [("optimizer", "sgd-momentum"), ("attention", attention)] {
        config.set(setting, value).unwrap();
    }
    config.dims = [("batch".to_owned(), 4), ("seq".to_owned(), 256)].into();
    let report = model.estimate(&config).unwrap();
    assert_eq!(report.peak.requested, Bytes(requested), "{file} {attention}");
}

#[test]
fn attention_runs_as_it_is_asked_for() {
    let gpt2 = (3_241_799_688, 2_902_650_888);
    let bert = (2_355_526_104, 2_016_377_304);
    for (file, (eager, sdpa)) in [
        ("zoo/train/gpt2.onnx.gz", gpt2),
        ("zoo/eval/gpt2.onnx.gz", gpt2),
        ("zoo/dynamo/gpt2.onnx.gz", gpt2),
        ("zoo/pt2/gpt2.pt2.gz", gpt2),
        ("zoo/train/bert_base.onnx.gz", bert),
        ("zoo/eval/bert_base.onnx.gz", bert),
        ("zoo/dynamo/bert_base.onnx.gz", bert),
        ("zoo/pt2/bert_base.pt2.gz", bert),
    ] {
        check(file, "eager", eager);
        check(file, "sdpa", sdpa);
    }
}
