//! `highwater scale`: the same training on other numbers of GPUs.

use serde_json::Value;

use crate::run::highwater;

#[test]
fn the_fewest_gpus_that_are_enough() {
    let asked =
        ["scale", "llama-3.2-1b", "--device", "rtx-3060", "--counts", "1,2", "--seq", "512"];
    let outcome = highwater(&asked);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expect_test::expect![[r#"
        llama-3.2-1b: It fits on 2 × GeForce RTX 3060 12 GB, with ZeRO-1, only if PyTorch flushes its cache every step (slow).
        What each GPU needs, and the largest batch of each.

          GPUs        DDP           ZeRO-1            FSDP  FSDP, recomputed  FSDP, recomputed, offloaded  tensor parallel
          1     12.35 GiB                -               -                 -                            -                -
          2     14.99 GiB  11.80 GiB, to 1  9.41 GiB, to 2    9.47 GiB, to 3               4.85 GiB, to 7   7.63 GiB, to 3

          GPUs  simplest way    step  waits for others  each sends  samples/s
          2     ZeRO-1        567 ms            217 ms    3.45 GiB       3.52

        # torchrun --nproc-per-node 2 train.py
        import os

        import torch

        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl")

        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(model, device_ids=[rank])

        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr)
    "#]].assert_eq(&outcome.stdout);
}

#[test]
fn json_has_every_way_that_there_is() {
    let asked = ["scale", "llama-3.2-1b", "--counts", "1,2", "--seq", "512", "--json"];
    let outcome = highwater(&asked);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let rows: Vec<Value> = serde_json::from_str(&outcome.stdout).unwrap();
    let ways: Vec<(u64, &str)> = rows
        .iter()
        .map(|row| (row["gpus"].as_u64().unwrap(), row["way"].as_str().unwrap()))
        .collect();
    let shared =
        ["ddp", "zero-1", "fsdp", "fsdp-checkpoint", "fsdp-offload", "tp"].map(|way| (2, way));
    assert_eq!(ways, [&[(1, "ddp")], &shared[..]].concat());
    assert!(rows.iter().all(|row| row["need"].as_u64() > row["reserved"].as_u64()));
}

#[test]
fn a_number_of_gpus_is_a_number() {
    let outcome = highwater(&["scale", "gpt2", "--counts", "0"]);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("--counts"), "{}", outcome.stderr);
}
