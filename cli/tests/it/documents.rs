//! Commands in documents: each runs as it is printed, and prints what is shown below it.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use flate2::read::GzDecoder;

use crate::serve::folder;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Lines that are left out of an example.
const LEFT_OUT: &str = "…";

/// What a reader of a document has in the folder: its name, and the file of the checkout that stands for it.
const FILES: [(&str, &str); 8] = [
    ("resnet50.onnx", "examples/resnet50.onnx"),
    ("gpt2.onnx", "examples/distilgpt2.onnx"),
    ("resnet18.onnx", "tests/fixtures/models/train/resnet18.onnx"),
    ("config.json", "tests/fixtures/hf_config/llama_1b.json"),
    ("model.txt", "tests/fixtures/printed/alexnet.txt"),
    ("snapshot.pickle", "tests/fixtures/snapshots/resnet18.pickle.gz"),
    ("trace.json.gz", "tests/fixtures/profiles/resnet18_8_sgd_128.json.gz"),
    ("runs.csv", "tests/fixtures/measured/rtx3090.csv"),
];

/// The same of files that are written by hand.
const TEXTS: [(&str, &str); 6] = [
    ("mlp.yaml", "input: [N, 784]\nlayers:\n  - linear: 256\n  - relu\n  - linear: 10\n"),
    (
        "unet.yaml",
        "input: [N, 3, height, height]\nlayers:\n  - conv2d: {out: 16, kernel: 3, padding: 1}\n  - relu\n  \
         - conv2d: {out: 2, kernel: 1}\n",
    ),
    (
        "axolotl.yaml",
        "base_model: HuggingFaceTB/SmolLM2-135M\nadapter: lora\nlora_r: 16\nlora_alpha: 32\n\
         lora_target_linear: true\nsequence_len: 1024\nmicro_batch_size: 2\noptimizer: adamw_torch\nbf16: true\n",
    ),
    (
        "recipe.yaml",
        "base_model: mine/unknown\nsequence_len: 256\nmicro_batch_size: 1\noptimizer: adamw_torch\nbf16: true\n",
    ),
    (
        "train.py",
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n\
         model = AutoModelForCausalLM.from_pretrained(\"HuggingFaceTB/SmolLM2-135M\")\n\
         args = TrainingArguments(per_device_train_batch_size=4, bf16=True)\nTrainer(model, args).train()\n",
    ),
    (
        "error.log",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.56 GiB. GPU 0 has a total capacity of \
         14.58 GiB of which 1.05 GiB is free. Process 2115 has 13.53 GiB memory in use. Of the allocated memory 12.87 \
         GiB is allocated by PyTorch, and 526.45 MiB is reserved by PyTorch but unallocated.\n",
    ),
];

/// Beginnings of commands that no test runs, and why.
const NOT_RUN: [(&str, &str); 5] = [
    ("highwater serve", "never ends; `serve` has tests of its own"),
    ("highwater open", "never ends; `open` has tests of its own"),
    ("highwater completions", "writes into the home folder; `shell` has tests of its own"),
    ("highwater man", "needs a pager; `shell` has tests of its own"),
    ("/usr/bin/time", "is about a file of gigabytes"),
];

/// The beginning of the command that takes longest.
const LONGEST: &str = "highwater scoreboard";

/// A command of a document.
#[derive(Debug)]
struct Example {
    page: String,
    command: String,
    /// What is shown of its output.
    shown: Vec<String>,
}

/// Commands of a document: those behind `$` in `console` blocks, and the lines of other blocks that begin with the
/// program.
fn examples(page: &str, text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    // In a block: whether output is shown there.
    let mut block: Option<bool> = None;
    let mut continued = false;
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            block = if block.is_none() { Some(kind == "console") } else { None };
            continue;
        }
        let line = match (block, line.strip_prefix("    ")) {
            (Some(_), _) => line.trim_end(),
            (None, Some(line)) => line.trim_end(),
            (None, None) => {
                continued = false;
                continue;
            }
        };
        let is_shell = block != Some(true);
        let command = if is_shell {
            Some(line).filter(|line| is_ours(line))
        } else {
            line.strip_prefix("$ ")
        };
        if continued && let Some(last) = found.last_mut() {
            last.command += "\n";
            last.command += line;
        } else if let Some(command) = command {
            let (page, command) = (page.to_owned(), command.to_owned());
            found.push(Example { page, command, shown: Vec::new() });
        } else if let Some(last) = found.last_mut().filter(|_| !is_shell) {
            last.shown.push(line.to_owned());
            continue;
        } else {
            continue;
        }
        continued = line.ends_with('\\');
    }
    found.retain(|example| {
        example.command.contains("highwater") && !example.command.contains("cargo ")
    });
    found
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|end| end == ending)
}

fn is_ours(line: &str) -> bool {
    ["highwater ", "echo ", "nvidia-smi ", "/usr/bin/time"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// All documents.
fn pages() -> Vec<(String, String)> {
    let docs = fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let names = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    let mut names: Vec<String> = names.filter(|name| ends_with(Path::new(name), "md")).collect();
    names.sort_unstable();
    names.insert(0, "README.md".to_owned());
    let read = |name: String| {
        let text = fs::read_to_string(Path::new(ROOT).join(&name)).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

/// A fresh folder with what a checkout has, and the files of its reader.
fn reader(name: &str) -> PathBuf {
    let root = folder(name);
    let checkout = Path::new(ROOT).canonicalize().unwrap();
    for shared in ["examples", "tests"] {
        symlink(checkout.join(shared), root.join(shared)).unwrap();
    }
    for (name, of) in FILES {
        let of = checkout.join(of);
        let is_packed = ends_with(&of, "gz") && !ends_with(Path::new(name), "gz");
        if is_packed {
            let mut packed = GzDecoder::new(fs::File::open(&of).unwrap());
            io::copy(&mut packed, &mut fs::File::create(root.join(name)).unwrap()).unwrap();
        } else {
            fs::copy(&of, root.join(name)).unwrap();
        }
    }
    for (name, text) in TEXTS {
        fs::write(root.join(name), text).unwrap();
    }
    fs::create_dir(root.join("docs")).unwrap();
    fs::copy(checkout.join("docs/confidence.md"), root.join("docs/confidence.md")).unwrap();
    for programs in ["bin", "target/release"] {
        fs::create_dir_all(root.join(programs)).unwrap();
        symlink(env!("CARGO_BIN_EXE_highwater"), root.join(programs).join("highwater")).unwrap();
    }
    root
}

/// Runs a command as a reader would; what it prints.
fn run(example: &Example, folder: &Path) -> Result<String, String> {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", &example.command]).current_dir(folder).env("PATH", path);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let mut lines = printed.lines().map(str::trim_end);
    for line in example.shown.iter().filter(|line| line.trim() != LEFT_OUT) {
        if !lines.any(|known| known == line) {
            return Err(format!("it does not print, or not there:\n{line}"));
        }
    }
    Ok(printed)
}

#[test]
fn commands_run_as_they_are_printed() {
    let pages = pages();
    let mut all: Vec<Example> =
        pages.iter().flat_map(|(name, text)| examples(name, text)).collect();
    // Begun last, it would leave a core idle.
    all.sort_by_key(|example| !example.command.starts_with(LONGEST));
    let is_run =
        |example: &&Example| !NOT_RUN.iter().any(|(start, _)| example.command.starts_with(start));
    let folder = reader("documents");
    let queue = Mutex::new(all.iter().filter(is_run));
    let failures = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some(example) = { queue.lock().unwrap().next() } {
            if let Err(message) = run(example, &folder) {
                let place = format!("{}: {}", example.page, example.command);
                failures.lock().unwrap().insert(place, message);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let failures = failures.into_inner().unwrap();
    let shown: Vec<_> =
        failures.iter().map(|(place, message)| format!("{place}\n  {message}\n")).collect();
    assert!(failures.is_empty(), "{}", shown.concat());
    for page in ["README.md", "docs/command-line.md"] {
        assert!(all.iter().any(|example| example.page == page), "{page} has no example");
    }
}
