//! `highwater share`: several jobs on one GPU.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::run::highwater;

fn check(arguments: &[&str], expected: &Expect) {
    let outcome = highwater(&[&["share"], arguments].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expected.assert_eq(&outcome.stdout);
}

#[test]
fn jobs_that_fit_get_slices_and_limits() {
    let jobs = ["resnet50 --batch 64 --optimizer adam", "gpt2 --batch 4 --seq 512"];
    check(
        &[&jobs[..], &["--device", "a100-40gb"]].concat(),
        &expect![[r#"
            2 jobs fit on A100 40 GB: their peaks need 12.52 GiB, and there are 39.38 GiB (chance > 99 %).

              alone                                    needs      nine runs in ten  at least  SM active  DRAM active
              resnet50 --batch 64 --optimizer adam  7.05 GiB  6.32 GiB to 8.87 GiB  6.12 GiB       94 %         68 %
              gpt2 --batch 4 --seq 512              5.48 GiB  5.02 GiB to 7.13 GiB  5.47 GiB       96 %         51 %

              a step                                  alone         time slices                 MPS                 MIG
              resnet50 --batch 64 --optimizer adam  81.1 ms  1.9 × (1.7 to 2.3)  1.3 × (1.1 to 1.5)   157 ms on 4g.20gb
              gpt2 --batch 4 --seq 512              37.3 ms  1.6 × (1.4 to 1.9)  3.3 × (2.5 to 4.2)  74.9 ms on 3g.20gb

            MIG: divide the card into 4g.20gb + 3g.20gb; the smallest slice that fits is 1g.10gb for resnet50 --batch 64 --optimizer adam, 1g.10gb for gpt2 --batch 4 --seq 512.

            Limits, so that none takes what another needs:
              torch.cuda.set_per_process_memory_fraction(0.5537)  # resnet50 --batch 64 --optimizer adam: 21.81 GiB
              torch.cuda.set_per_process_memory_fraction(0.4207)  # gpt2 --batch 4 --seq 512: 16.57 GiB
        "#]],
    );
}

#[test]
fn jobs_that_fit_only_with_limits() {
    let job = "resnet50 --batch 80";
    check(
        &[job, job, "--device", "t4"],
        &expect![[r#"
            2 jobs fit on T4 only with limits: their peaks need 15.51 GiB, and there are 14.56 GiB; with the limits below, allocators give cached memory back and 13.98 GiB are enough, which takes time (chance 11 %).

              alone                   needs      nine runs in ten  at least  SM active  DRAM active
              resnet50 --batch 80  7.76 GiB  7.07 GiB to 8.96 GiB  6.99 GiB       96 %         33 %
              resnet50 --batch 80  7.76 GiB  7.07 GiB to 8.96 GiB  6.99 GiB       96 %         33 %

              a step                alone         time slices                 MPS  MIG
              resnet50 --batch 80  716 ms  2.0 × (1.7 to 2.3)  2.0 × (1.7 to 2.3)    -
              resnet50 --batch 80  716 ms  2.0 × (1.7 to 2.3)  2.0 × (1.7 to 2.3)    -

            Limits, so that none takes what another needs:
              torch.cuda.set_per_process_memory_fraction(0.4881)  # resnet50 --batch 80: 7.11 GiB; its allocator gives cached memory back within steps
              torch.cuda.set_per_process_memory_fraction(0.4881)  # resnet50 --batch 80: 7.11 GiB; its allocator gives cached memory back within steps
        "#]],
    );
}

#[test]
fn json_has_what_each_needs_and_the_slices() {
    let asked = ["share", "resnet18", "gpt2 --batch 2 --seq 256", "--device", "a30", "--json"];
    let outcome = highwater(&asked);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(answer["verdict"], "fit");
    let jobs = answer["jobs"].as_array().unwrap();
    let needs: u64 = jobs.iter().map(|job| job["need"].as_u64().unwrap()).sum();
    assert_eq!(answer["need"].as_u64(), Some(needs));
    assert_eq!(jobs[0]["smallest_slice"], "a30-1g.6gb");
    let starts: Vec<_> =
        answer["mig"].as_array().unwrap().iter().map(|one| &one["start"]).collect();
    assert_eq!(starts, [0, 2]);
}

#[test]
fn bad_jobs_are_named() {
    for (arguments, part) in [
        (&["resnet18 --bach 3"][..], "resnet18: unexpected argument '--bach'"),
        (&["resnet18", "no-such-model"], "no-such-model"),
        (&["resnet18 --device t4", "gpt2 --device a30"], "give `--device` once"),
        (&["resnet18", "--device", "t4 1g.5gb"], "MIG does not divide T4"),
        (&["resnet18", "--device", "a30 9g.9gb"], "it has 1g.6gb, 2g.12gb, 4g.24gb"),
    ] {
        let outcome = highwater(&[&["share"], arguments].concat());
        assert_eq!(outcome.status, Some(2), "{arguments:?}");
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}
