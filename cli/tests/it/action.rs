//! The action for pull requests and the hook for pre-commit: their scripts, run as GitHub and pre-commit would.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::run::model;
use crate::serve::folder;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Two checkouts with the same file: the base has one model in it, the head another.
struct Checkouts(PathBuf);

impl Checkouts {
    fn of(name: &str, base: &str, head: &str) -> Self {
        let root = folder(name);
        for (folder, source) in [("base", base), ("head", head)] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::copy(model(source), root.join(folder).join("net.onnx")).unwrap();
        }
        let event = json!({ "pull_request": { "number": 7 } });
        fs::write(root.join("event.json"), event.to_string()).unwrap();
        Self(root)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Runs the script of the action, with the files of a job.
    fn run(&self, arguments: &[&str], api: &str) -> (Option<i32>, String) {
        let at = |name: &str| self.0.join(name);
        let mut command = Command::new("python3");
        command.arg(Path::new(ROOT).join("action/fits.py"));
        command.args(["--program", env!("CARGO_BIN_EXE_highwater"), "--model=net.onnx"]);
        command.arg("--head").arg(at("head")).arg("--out").arg(at("out")).args(arguments);
        command.env("GITHUB_EVENT_PATH", at("event.json")).env("GITHUB_OUTPUT", at("output"));
        command.env("GITHUB_STEP_SUMMARY", at("summary.md")).env("GITHUB_API_URL", api);
        command.env("GITHUB_REPOSITORY", "me/nets").env("GITHUB_TOKEN", "secret");
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
        (status.code(), text)
    }
}

#[test]
fn a_pull_request_that_still_fits_has_a_report() {
    let checkouts = Checkouts::of("action-fits", "train/squeezenet1_1", "train/alexnet");
    let base = checkouts.0.join("base");
    let settings = "--settings=--batch 64 --optimizer sgd --device t4";
    let base = format!("--base={}", base.display());
    let ask = [&base, settings, "--require=t4, a100-40gb", "--dry-run"];
    let (status, text) = checkouts.run(&ask, "");
    assert_eq!(status, Some(0), "{text}");
    let (_, comment) = text.split_once("The comment on pull request 7:\n").unwrap();
    assert!(comment.starts_with("<!-- highwater: net.onnx -->\n### GPU memory of "), "{comment}");
    let report = checkouts.read("out/report.md");
    expect_file!["action.md"].assert_eq(&report);
    assert_eq!(checkouts.read("summary.md"), report);
    let output = checkouts.read("output");
    assert!(output.starts_with("fits=true\npeak-allocated="), "{output}");
    assert!(checkouts.read("out/timeline.svg").starts_with("<svg"));
    let answer: Value = serde_json::from_str(&checkouts.read("out/answer.json")).unwrap();
    assert_eq!(answer["model"]["name"], "net.onnx");
}

#[test]
fn one_that_no_longer_fits_fails() {
    let checkouts = Checkouts::of("action-fails", "train/squeezenet1_1", "train/alexnet");
    // The answer about the base was stored; the model of the head is written by a command.
    let program = env!("CARGO_BIN_EXE_highwater");
    let flags = ["--batch", "3000", "--json", "--devices", "t4", "--device", "t4"];
    let mut stored = Command::new(program);
    stored.arg("estimate").arg(checkouts.0.join("base/net.onnx")).args(flags);
    let stored = stored.output().unwrap().stdout;
    fs::write(checkouts.0.join("base.json"), stored).unwrap();
    let base = format!("--base-result={}", checkouts.0.join("base.json").display());
    fs::rename(checkouts.0.join("head/net.onnx"), checkouts.0.join("head/other.onnx")).unwrap();
    let export = "--export=cp other.onnx net.onnx";
    let settings = "--settings=--batch 30000 --device t4";
    let ask = [&base, export, settings, "--require=t4", "--title=our net", "--dry-run"];
    let (status, text) = checkouts.run(&ask, "");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("::error::Does not fit on a T4: net at batch 30,000 needs "), "{text}");
    let report = checkouts.read("summary.md");
    for part in [
        "❌ **our net** does not pass: T4 does not fit.",
        "❌ does not fit",
        "CUDA out of memory. Tried to allocate ",
        "At the peak of ",
    ] {
        assert!(report.contains(part), "{part} is missing in {report}");
    }
    assert!(checkouts.read("output").starts_with("fits=false\n"));
}

#[test]
fn what_is_wrong_is_an_error_of_the_job() {
    let checkouts = Checkouts::of("action-bad", "train/alexnet", "train/alexnet");
    for (arguments, expected) in [
        (&["--settings=--batch none"][..], "::error::error: invalid value 'none'"),
        (&["--require=t44"], "::error::error: invalid value 't44'"),
        (&["--export=exit 3"], "::error::the command that exports the model failed in "),
        (&["--base-result=none.json"], "none.json: this is no answer of `highwater estimate"),
        (&["--program=./none"], "::error::highwater: cannot run `./none`"),
    ] {
        let all = [&["--dry-run", "--require=t4"], arguments].concat();
        let (status, text) = checkouts.run(&all, "");
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    // A base without the model is no mistake: the pull request adds it.
    let empty = checkouts.0.join("empty");
    fs::create_dir_all(&empty).unwrap();
    let base = format!("--base={}", empty.display());
    let (status, text) = checkouts.run(&["--require=t4", &base], "");
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("There is no comparison: the base could not be estimated"), "{text}");
}

/// Answers requests as GitHub would, and returns them: method and path, and the body.
fn github(listener: &TcpListener, answers: &[(u16, &str)]) -> Vec<(String, Value)> {
    let answer = |&(status, text): &(u16, &str)| {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        assert!(head.iter().any(|line| line == "Authorization: Bearer secret"), "{head:?}");
        let length = head.iter().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let length = text.len();
        let reply = format!(
            "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
        );
        TcpStream::write_all(&mut stream, reply.as_bytes()).unwrap();
        let request = head[0].rsplit_once(' ').unwrap().0.to_owned();
        (request, serde_json::from_slice(&body).unwrap_or_default())
    };
    answers.iter().map(answer).collect()
}

#[test]
fn one_comment_is_kept_up_to_date() {
    let checkouts = Checkouts::of("action-comment", "train/alexnet", "train/alexnet");
    let base = format!("--base={}", checkouts.0.join("base").display());
    let ask = |answers: &[(u16, &str)]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = format!("http://{}", listener.local_addr().unwrap());
        thread::scope(|scope| {
            let requests = scope.spawn(|| github(&listener, answers));
            let ran = checkouts.run(&["--require=t4", "--comment", &base], &api);
            assert_eq!(ran.0, Some(0), "{}", ran.1);
            (requests.join().unwrap(), ran.1)
        })
    };
    let list = "GET /repos/me/nets/issues/7/comments?per_page=100&page=1";
    let (first, _) = ask(&[(200, "[{\"id\": 1, \"body\": \"nice\"}]"), (201, "{}")]);
    assert_eq!(first[0].0, list);
    assert_eq!(first[1].0, "POST /repos/me/nets/issues/7/comments");
    let body = first[1].1["body"].as_str().unwrap();
    assert!(body.starts_with("<!-- highwater: net.onnx -->\n") && body.contains("no change"));
    assert!(body.contains("T4 leaves 14.4 GiB to PyTorch"), "the picture is of the required GPU");
    let known = json!([{ "id": 9, "body": body }]).to_string();
    let (second, _) = ask(&[(200, &known), (200, "{}")]);
    assert_eq!(second[1].0, "PATCH /repos/me/nets/issues/comments/9");
    // From a fork the token may not write: the job does not fail by it.
    let (_, text) = ask(&[(403, "{}")]);
    assert!(text.contains("::warning::The comment could not be written (status 403)"), "{text}");
}

/// What `runs` of the action gives the script exists there, and every input is described.
#[test]
fn the_description_of_the_action_fits_its_script() {
    let action = fs::read_to_string(Path::new(ROOT).join("action.yml")).unwrap();
    let script = fs::read_to_string(Path::new(ROOT).join("action/fits.py")).unwrap();
    let (inputs, steps) = action.split_once("\nruns:\n").unwrap();
    let flags = steps.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    let flags: Vec<_> = flags.filter_map(|flag| flag.split_once("=\"$")).collect();
    assert!(flags.len() > 7, "{flags:?}");
    for (flag, _) in flags {
        assert!(script.contains(&format!("add_argument(\"--{flag}\"")), "{flag}");
    }
    for used in steps.split("inputs.").skip(1) {
        let end = used.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
        let name = &used[..end.unwrap()];
        assert!(inputs.contains(&format!("\n  {name}:\n    description: ")), "{name}");
    }
}

/// The value of a key in a line of a YAML file with one hook.
fn value(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key));
    line.unwrap().trim().to_owned()
}

#[test]
fn the_hook_refuses_models_that_do_not_fit() {
    let hooks = fs::read_to_string(Path::new(ROOT).join(".pre-commit-hooks.yaml")).unwrap();
    let path = Path::new(ROOT).join("examples/pre-commit/.pre-commit-config.yaml");
    let example = fs::read_to_string(path).unwrap();
    assert_eq!(value(&hooks, "id:"), value(&example, "id:"));
    let entry = Path::new(ROOT).join(value(&hooks, "entry:"));
    let run = |args: &[&str], files: &[&str]| {
        let mut command = Command::new(&entry);
        command.args(args).args(files).env("HIGHWATER", env!("CARGO_BIN_EXE_highwater"));
        let Output { status, stderr, .. } = command.output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    };
    let of = |text: &str| -> Vec<String> {
        let args = value(text, "args:");
        let args = args.trim_matches(['[', ']']).split(", ");
        args.map(|arg| arg.trim_matches('"').to_owned()).collect()
    };
    let (small, large) = (model("train/squeezenet1_1"), model("train/alexnet"));
    for text in [&hooks, &example] {
        let args = of(text);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(run(&args, &[&small, &large]), (Some(0), String::new()), "{args:?}");
    }
    let (status, message) = run(&["--batch", "30000", "--require", "t4", "--"], &[&large]);
    assert_eq!(status, Some(1), "{message}");
    assert!(message.starts_with(&format!("{large}: Does not fit on a T4")), "{message}");
    let (status, message) = run(&["--require", "t4", "--"], &["none.onnx", &small]);
    assert_eq!(status, Some(2), "{message}");
    assert!(message.contains("none.onnx: cannot read"), "{message}");
    assert_eq!(run(&["--require", "t4"], &[&small]).0, Some(2), "`--` is missing");
}
