//! `highwater scoreboard`: scores of estimators over measured runs.

use std::fs;

use expect_test::{expect, expect_file};
use serde_json::Value;

use crate::run::{self, Outcome, highwater};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn sources() -> String {
    format!("{ROOT}/tests/fixtures/measured/sources.toml")
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{name}")).unwrap()
}

/// Two runs of resnet18: one that survived, and one that ran out of memory.
const RUNS: &str = "\
# our own card
model,batch,settings,process,allocated,oom,fake-tensor,remark
resnet18,8,--optimizer adam,1GiB,350MiB,no,200MiB,quick
resnet18,4096,,,,yes,,
resnet19,8,,1GiB,,,,
";

fn scoreboard(name: &str, runs: &str, flags: &[&str]) -> Outcome {
    let file = run::file(name, runs.as_bytes());
    highwater(&[&["scoreboard", file.to_str().unwrap(), "--device", "t4"], flags].concat())
}

/// A sample of the runs, simulated now, has the estimates that are kept.
#[test]
fn kept_estimates_are_those_of_a_sample() {
    let outcome = highwater(&["scoreboard", &sources(), "--sample", "3", "--keep", "-"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let kept = read("tests/scoreboard.csv");
    let known: Vec<&str> = kept.lines().collect();
    for line in outcome.stdout.lines() {
        assert!(
            known.contains(&line),
            "make tests/scoreboard.csv anew, see docs/scoreboard.md: it has another line than\n{line}"
        );
    }
    assert!(outcome.stdout.lines().count() > 12, "{}", outcome.stdout);
}

/// The page and its pictures are what the kept estimates give.
#[test]
fn the_page_shows_the_kept_estimates() {
    let page = run::file("scoreboard.md", read("docs/scoreboard.md").as_bytes());
    let folder = page.with_file_name("pictures");
    let kept = format!("{ROOT}/tests/scoreboard.csv");
    let outcome = highwater(&[
        "scoreboard",
        &sources(),
        "--kept",
        &kept,
        "--document",
        page.to_str().unwrap(),
        "--plots",
        folder.to_str().unwrap(),
    ]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    expect_file!["../../../docs/scoreboard.md"].assert_eq(&fs::read_to_string(&page).unwrap());
    let picture = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    expect_file!["../../../docs/pictures/scoreboard-predicted.svg"]
        .assert_eq(&picture("scoreboard-predicted.svg"));
    expect_file!["../../../docs/pictures/scoreboard-error-by-need.svg"]
        .assert_eq(&picture("scoreboard-error-by-need.svg"));
    expect_file!["../../../docs/pictures/scoreboard-error-by-batch.svg"]
        .assert_eq(&picture("scoreboard-error-by-batch.svg"));
}

/// Figures of tensors are compared with allocated memory, others with the process.
#[test]
fn own_runs_are_scored() {
    let outcome = scoreboard("own.csv", RUNS, &["--csv", "-"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let lines = outcome.stdout.lines().filter(|line| {
        line.contains(",highwater,") || line.contains(",fake-tensor,") || line.starts_with("source")
    });
    expect![[r#"
        source,line,model,batch,seq,settings,estimator,published,estimate,from,measured,measured_as,error_percent,capacity,survived,expected_to_survive
        own,3,resnet18,8,,--optimizer adam,highwater,no,602721484,,1073741824,process,-43.87,15637413888,yes,yes
        own,3,resnet18,8,,--optimizer adam,highwater,no,367708160,,367001600,allocated,0.19,15637413888,yes,yes
        own,3,resnet18,8,,--optimizer adam,fake-tensor,no,256684576,,367001600,allocated,-30.06,15637413888,yes,yes
        own,3,resnet18,8,,--optimizer adam,fake-tensor,yes,209715200,,367001600,allocated,-42.86,15637413888,yes,yes
        own,4,resnet18,4096,,,highwater,no,129839713484,,,,,15637413888,no,no
        own,4,resnet18,4096,,,highwater,no,91775681536,,,,,15637413888,no,no
        own,4,resnet18,4096,,,fake-tensor,no,91727623392,,,,,15637413888,no,no
    "#]].assert_eq(&(lines.collect::<Vec<_>>().join("\n") + "\n"));
}

#[test]
fn scores_are_written_as_json() {
    let outcome = scoreboard("json.csv", RUNS, &["--json"]);
    let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let scores = value["sources"][0]["scores"].as_array().unwrap();
    let ours = scores.iter().find(|score| score["id"] == "highwater").unwrap();
    assert_eq!(ours["runs"], 2, "{ours}");
    assert_eq!(ours["verdicts"]["part"], 2, "{ours}");
    assert_eq!(ours["errors"]["runs"], 1, "{ours}");
    assert!(ours["microseconds"].is_u64(), "{ours}");
    let left_out = value["left_out"][0].as_str().unwrap();
    assert!(left_out.starts_with("json.csv:5: resnet19: there is no file"), "{left_out}");
}

/// What is wrong, where, and what to do.
#[test]
fn a_bad_table_is_refused() {
    let check = |runs: &str, message: &str| {
        let outcome = scoreboard("bad.csv", runs, &[]);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""), "{runs}");
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    };
    check(
        "model,process\n",
        "bad.csv: there is no column `batch`; the first line names the columns: model, process",
    );
    check("model,batch,process\n", "bad.csv: the table has no runs");
    check(
        "model,batch,process\nresnet18,8,1 GB\n",
        "bad.csv:2: column `process`: `1 GB` is no size; write it as 23.6GiB",
    );
    check(
        "model,batch,process\nresnet18,0,1GiB\n",
        "bad.csv:2: column `batch`: `0` is no whole number above 0",
    );
    check(
        "model,batch,process\nresnet18,8,0\n",
        "bad.csv:2: column `process`: a run needs more than 0 bytes",
    );
    check(
        "model,batch,process\nresnet18,8,\n",
        "bad.csv:2: nothing was measured: fill in `process`",
    );
    check("model,batch,oom\nresnet18,8,perhaps\n", "column `oom`: `perhaps` is neither yes nor no");
    check("model,batch,oom\nresnet18,8\n", "bad.csv: CSV error: record 1 (line: 2");
    check(
        "model,batch,settings,oom\nresnet18,8,--optimiser adam,no\n",
        "no run could be estimated; the first:\nbad.csv:2: unexpected argument '--optimiser' found",
    );
}

#[test]
fn kept_estimates_are_of_the_same_runs() {
    let kept = run::file("kept.csv", b"source,line,model,batch,context,capacity,left_out\n");
    let outcome = scoreboard("other.csv", RUNS, &["--kept", kept.to_str().unwrap()]);
    assert_eq!(outcome.status, Some(2));
    assert!(
        outcome.stderr.contains("there is no estimate of other, 3, resnet18, 8 in it"),
        "{}",
        outcome.stderr
    );
}
