//! Commands that start a run on several GPUs: `torchrun`, `accelerate launch`, `deepspeed` and others, in a script of a
//! shell, or in a comment of another recipe.
//!
//! A launcher's own options state how many processes there are. The arguments of a script are read if they are those of
//! transformers or TRL.
#![expect(clippy::unnecessary_wraps, reason = "the rows of a table call functions of one type")]

use std::collections::BTreeMap;

use super::arguments::{DPO, LORA, QUANTIZATION, SFT, TRAINING};
use super::draft::Does::{Absent, Fills, Nothing, Part, Reads, Refused};
use super::draft::{Draft, Row, Slot, Why, as_, row};
use super::settle::Tool;
use super::sharing::{FSDP, MESH};
use super::value::{Entry, Value};
use super::versions::Library;
use super::yaml::COMMAND;
use super::{launchers, sharing};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, Place};
use crate::formats::spec::tree;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launcher {
    Torchrun,
    Accelerate,
    DeepSpeed,
    Torchtune,
    /// TRL's commands, which take accelerate's options with their own.
    Trl,
    TrlDpo,
    /// What starts a recipe in a file; only variables of the environment count.
    OfFile,
}

/// The words that a command begins with.
const LAUNCHERS: [(&[&str], Launcher); 11] = [
    (&["torchrun"], Launcher::Torchrun),
    (&["python", "-m", "torch.distributed.run"], Launcher::Torchrun),
    (&["python", "-m", "torch.distributed.launch"], Launcher::Torchrun),
    (&["accelerate", "launch"], Launcher::Accelerate),
    (&["deepspeed"], Launcher::DeepSpeed),
    (&["tune", "run"], Launcher::Torchtune),
    (&["trl", "sft"], Launcher::Trl),
    (&["trl", "dpo"], Launcher::TrlDpo),
    (&["llamafactory-cli", "train"], Launcher::OfFile),
    (&["axolotl", "train"], Launcher::OfFile),
    (&["run_train.sh"], Launcher::OfFile),
];

/// Words that may stand before a launcher.
const BEFORE: [&str; 8] = ["exec", "nohup", "time", "srun", "uv", "run", "bash", "sudo"];

/// Words that lines of a shell begin with.
const SHELL: [&str; 34] = [
    "export",
    "cd",
    "set",
    "source",
    "module",
    "conda",
    "pip",
    "uv",
    "echo",
    "mkdir",
    "sleep",
    "wait",
    "ulimit",
    "nvidia-smi",
    "python",
    "python3",
    "bash",
    "sh",
    "exec",
    "nohup",
    "time",
    "srun",
    "if",
    "then",
    "else",
    "fi",
    "for",
    "do",
    "done",
    "wandb",
    "unset",
    "exit",
    "git",
    "rm",
];

/// Options of launchers that take no value.
const FLAGS: [&str; 22] = [
    "standalone",
    "no_python",
    "run_path",
    "module",
    "use_fsdp",
    "use_deepspeed",
    "use_megatron_lm",
    "use_parallelism_config",
    "multi_gpu",
    "cpu",
    "tpu",
    "debug",
    "quiet",
    "same_network",
    "enable_cpu_affinity",
    "no_local_rank",
    "no_ssh",
    "no_ssh_check",
    "use_env",
    "save_pid",
    "force_multi",
    "dynamo_use_dynamic",
];

const TORCHRUN: &[Row] = &[
    row(&["nproc_per_node"], Fills(Slot::PerMachine, as_::count)),
    row(&["nnodes"], Fills(Slot::Machines, as_::count)),
    row(&["*"], Nothing),
];

const DEEPSPEED: &[Row] = &[
    row(&["num_gpus"], Fills(Slot::PerMachine, as_::count)),
    row(&["num_nodes"], Fills(Slot::Machines, as_::count)),
    row(&["include", "i"], Reads(include)),
    row(&["*"], Nothing),
];

/// `accelerate launch`; keys of FSDP and of meshes have tables of their own.
const ACCELERATE: &[Row] = &[
    row(&["num_processes"], Fills(Slot::Gpus, as_::count)),
    row(&["num_machines"], Fills(Slot::Machines, as_::count)),
    row(&["mixed_precision"], Reads(launchers::mixed)),
    row(&["gradient_accumulation_steps"], Fills(Slot::Accumulate, as_::count)),
    row(&["gradient_clipping"], Fills(Slot::Clip, as_::positive)),
    row(&["multi_gpu"], Reads(several)),
    row(&["use_fsdp"], Fills(Slot::Fsdp, as_::flag)),
    row(&["use_megatron_lm", "tpu"], Refused(Why::SeveralGpus)),
    row(&["dynamo_backend"], Absent(Why::Compile)),
    // Read by themselves.
    row(&["zero_stage", "deepspeed_config_file", "use_deepspeed", "config_file"], Part),
    row(
        &[
            "use_parallelism_config",
            "gpu_ids",
            "machine_rank",
            "main_*",
            "num_cpu_threads_per_process",
            "rdzv_*",
            "module",
            "m",
            "dynamo_*",
            "offload_*",
            "zero3_*",
            "deepspeed_*",
            "megatron_lm_*",
            "monitor_interval",
            "max_restarts",
            "same_network",
            "enable_cpu_affinity",
            "debug",
            "quiet",
            "q",
            "tee",
            "role",
            "log_dir",
            "no_python",
            "cpu",
        ],
        Nothing,
    ),
];

/// What transformers' example scripts take besides `TrainingArguments`.
const EXAMPLES: &[Row] = &[
    row(&["block_size", "max_seq_length", "max_source_length"], Fills(Slot::Seq, as_::count)),
    row(&["deepspeed_config"], Reads(sharing::deepspeed)),
    // Read by itself.
    row(&["accelerate_config"], Part),
    row(
        &[
            "dataset_*",
            "train_file",
            "validation_file",
            "test_file",
            "task_name",
            "text_column",
            "summary_column",
            "source_prefix",
            "max_target_length",
            "val_max_target_length",
            "validation_split_percentage",
            "preprocessing_num_workers",
            "streaming",
            "config_name",
            "tokenizer_name",
            "cache_dir",
            "use_fast_tokenizer",
            "low_cpu_mem_usage",
            "trust_remote_code",
            "token",
            "overwrite_cache",
            "max_train_samples",
            "max_eval_samples",
            "pad_to_max_length",
            "local_rank",
        ],
        Nothing,
    ),
];

/// A command that starts a run.
#[derive(Debug)]
pub(super) struct Launch {
    launcher: Launcher,
    place: Place,
    /// Whether it stands in a comment.
    is_comment: bool,
    /// Variables that are set for it.
    variables: Vec<(String, String)>,
    options: Vec<Entry>,
    script: String,
    arguments: Vec<Entry>,
}

/// The commands of a text that start a run.
pub(super) fn launches(text: &str) -> Vec<Launch> {
    let has =
        |(words, _): &(&[&str], Launcher)| words.last().is_some_and(|word| text.contains(word));
    if LAUNCHERS.iter().any(has) { commands(text) } else { Vec::new() }
}

/// Whether a text is a script of a shell that starts a run: all its lines are those of a shell.
pub(super) fn is_shell(text: &str, launches: &[Launch]) -> bool {
    let is_line = |line: &Line| {
        let words = words(&line.text, &BTreeMap::new());
        let first = words.first().map(|word| plain(word)).unwrap_or_default();
        let is_known = SHELL.contains(&first) || words.first().is_some_and(|word| sets(word));
        line.is_comment || words.is_empty() || is_known || begins(&words).is_some()
    };
    launches.iter().any(|launch| !launch.is_comment) && lines(text).iter().all(is_line)
}

/// States what launchers say: how many processes there are, and what accelerate does.
///
/// # Errors
/// When they start a run that is not simulated.
pub(super) fn state(draft: &mut Draft, launches: &[Launch]) -> Result<(), Error> {
    for launch in launches {
        launch.state(draft)?;
    }
    Ok(())
}

/// Reads the arguments of the script that is started.
///
/// # Errors
/// When they describe a run that is not simulated.
pub(super) fn read(draft: &mut Draft, launches: &[Launch]) -> Result<Option<Tool>, Error> {
    let Some(launch) = launches.iter().rfind(|launch| !launch.is_comment) else { return Ok(None) };
    launch.read(draft).map(Some)
}

impl Launch {
    fn state(&self, draft: &mut Draft) -> Result<(), Error> {
        let variable = |name: &str| {
            let pair = self.variables.iter().find(|(known, _)| known == name);
            pair.map(|(_, text)| text.as_str())
        };
        for (name, slot) in [
            ("NPROC_PER_NODE", Slot::PerMachine),
            ("NGPU", Slot::PerMachine),
            ("NNODES", Slot::Machines),
        ] {
            if let Some(count) = variable(name).and_then(|text| text.parse::<u64>().ok()) {
                draft.fill(slot, count.to_string(), name);
            }
        }
        match self.launcher {
            Launcher::Torchrun | Launcher::Torchtune => {
                draft.read(TORCHRUN, &self.options, Library::Torch)?;
            }
            Launcher::DeepSpeed => draft.read(DEEPSPEED, &self.options, Library::DeepSpeed)?,
            Launcher::Accelerate => self.accelerate(draft)?,
            Launcher::Trl | Launcher::TrlDpo | Launcher::OfFile => {}
        }
        if self.launcher == Launcher::Torchtune && self.script.contains("distributed") {
            draft.fill(Slot::Fsdp, "on", &self.script);
        }
        let takes_all = !matches!(self.launcher, Launcher::Torchrun | Launcher::Torchtune);
        let is_open = !draft.has(Slot::Gpus) && !draft.has(Slot::PerMachine);
        if is_open && takes_all {
            if let Some(devices) = variable("CUDA_VISIBLE_DEVICES") {
                let count = devices.split(',').filter(|device| !device.trim().is_empty()).count();
                draft.fill(Slot::PerMachine, count.to_string(), "CUDA_VISIBLE_DEVICES");
            } else if self.launcher == Launcher::DeepSpeed {
                draft.fill(Slot::DataParallel, "ddp", "deepspeed");
            }
        }
        Ok(())
    }

    fn accelerate(&self, draft: &mut Draft) -> Result<(), Error> {
        let tables = [ACCELERATE, FSDP, MESH];
        draft.read_by(&tables, &self.options, Library::Accelerate)?;
        let has = |key: &str| self.options.iter().any(|entry| entry.key == key);
        if has("use_deepspeed") {
            return sharing::plugged(draft, &self.options, "use_deepspeed", self.place);
        }
        // Comments have examples of several kinds.
        if let Some(file) = self.options.iter().find(|entry| entry.key == "config_file")
            && !self.is_comment
        {
            sharing::named(draft, file)?;
        }
        Ok(())
    }

    fn read(&self, draft: &mut Draft) -> Result<Tool, Error> {
        let arguments = &self.arguments;
        let has = |keys: &[&str]| arguments.iter().any(|entry| keys.contains(&entry.key.as_str()));
        if matches!(self.launcher, Launcher::Trl | Launcher::TrlDpo) {
            return self.trl(draft, self.launcher == Launcher::TrlDpo);
        }
        let is_trainer = has(&["per_device_train_batch_size"])
            || (has(&["output_dir"]) && has(&["num_train_epochs", "learning_rate", "do_train"]));
        let script = plain(&self.script);
        if is_trainer && (script.starts_with("sft") || script.starts_with("dpo")) {
            return self.trl(draft, script.starts_with("dpo"));
        }
        if is_trainer {
            let tables = [TRAINING, EXAMPLES, COMMAND, LORA];
            draft.read_by(&tables, arguments, Library::Transformers)?;
            return Ok(Tool::Transformers);
        }
        if let Some(entry) = arguments.iter().find(|entry| {
            matches!(entry.key.as_str(), "deepspeed" | "deepspeed_config")
                && !entry.value.entries().is_empty() | matches!(entry.value, Value::Text(_))
        }) {
            sharing::deepspeed(draft, entry)?;
        }
        if !self.script.is_empty() {
            let message = say!(
                "what `{script}` does with its arguments is not known here; set the batch, the precision and the \
                 optimizer yourself",
                script = &self.script
            );
            draft.note(Diagnostic::new(Severity::Info, "recipe-script", message));
        }
        Ok(match self.launcher {
            Launcher::Accelerate => Tool::Accelerate,
            Launcher::DeepSpeed => Tool::DeepSpeed,
            Launcher::Torchtune => Tool::Torchtune,
            _ => Tool::Torch,
        })
    }

    /// TRL's commands and scripts. Accelerate's options may stand among theirs.
    fn trl(&self, draft: &mut Draft, is_dpo: bool) -> Result<Tool, Error> {
        let is_launchers = |entry: &&Entry| {
            matches!(
                entry.key.as_str(),
                "num_processes" | "num_machines" | "use_fsdp" | "multi_gpu"
            )
        };
        let (own, others): (Vec<&Entry>, Vec<&Entry>) =
            self.arguments.iter().partition(is_launchers);
        let own: Vec<Entry> = own.into_iter().cloned().collect();
        let others: Vec<Entry> = others.into_iter().cloned().collect();
        draft.read(ACCELERATE, &own, Library::Accelerate)?;
        if let Some(name) = others.iter().find(|entry| entry.key == "accelerate_config") {
            sharing::named(draft, name)?;
        }
        let mut tables = vec![COMMAND, SFT, TRAINING, QUANTIZATION, EXAMPLES];
        if is_dpo {
            draft.fill(Slot::Objective, "dpo", "dpo");
            tables.insert(0, DPO);
        }
        draft.read_by(&tables, &others, Library::Trl)?;
        if draft.has(Slot::Model) && !draft.has(Slot::Weights) {
            draft.fill(Slot::LoadedByTrl, "on", "model_name_or_path");
        }
        Ok(Tool::Trl)
    }
}

/// `--multi_gpu`: DDP.
fn several(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    draft.fill(Slot::DataParallel, "ddp", &entry.key);
    Ok(())
}

/// `localhost:0,1@worker:0,1`.
fn include(draft: &mut Draft, entry: &Entry) -> Result<(), Error> {
    let Some(hosts) = entry.value.word() else { return Ok(()) };
    let count = |host: &str| host.split_once(':').map(|(_, devices)| devices.split(',').count());
    match hosts.split('@').map(count).collect::<Option<Vec<usize>>>() {
        Some(counts) => {
            draft.fill(Slot::Gpus, counts.iter().sum::<usize>().to_string(), &entry.key);
        }
        None => draft.unread(&entry.key),
    }
    Ok(())
}

/// A line of a shell, with those that it goes on in.
struct Line {
    place: Place,
    is_comment: bool,
    text: String,
}

/// Lines with anything on them.
fn lines(text: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let bare = trimmed.trim_start_matches(['#', '$', '!', '>', ' ', '\t']);
        let (piece, continues) = match bare.strip_suffix('\\') {
            Some(piece) => (piece.trim_end(), true),
            None => (bare, false),
        };
        match found.last_mut().filter(|_| goes_on) {
            Some(last) => last.text.extend([" ", piece]),
            None if piece.is_empty() => {}
            None => found.push(Line {
                place: Place { line: at.saturating_add(1), column: 1 },
                is_comment: trimmed.starts_with('#'),
                text: piece.to_owned(),
            }),
        }
        goes_on = continues;
    }
    found
}

fn commands(text: &str) -> Vec<Launch> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    for line in lines(text) {
        let words = command(&line, &known);
        if let Some((at, launcher)) = begins(&words) {
            let before = words.get(..at).unwrap_or_default();
            let rest = words.get(at..).unwrap_or_default();
            let has_script = !matches!(launcher, Launcher::Trl | Launcher::TrlDpo);
            let (options, script, arguments) = parts(rest, has_script, &line);
            let own = before.iter().filter_map(|word| word.split_once('='));
            let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let outer = known.iter().map(|(name, value)| (name.clone(), value.clone()));
            found.push(Launch {
                launcher,
                place: line.place,
                is_comment: line.is_comment,
                variables: own.chain(outer).collect(),
                options,
                script,
                arguments,
            });
        } else if let Some(directive) = line.text.strip_prefix("SBATCH ") {
            known.extend(slurm(directive).into_iter().flatten());
        } else if !line.is_comment {
            let assignments = words.iter().skip_while(|word| *word == "export");
            let pairs = assignments.take_while(|word| sets(word));
            known.extend(pairs.filter_map(|word| {
                word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
            }));
        }
    }
    found
}

/// The words of a line. A comment may announce its command: `# Run it with: torchrun …`.
fn command(line: &Line, known: &BTreeMap<String, String>) -> Vec<String> {
    let whole = words(&line.text, known);
    if !line.is_comment || begins(&whole).is_some() {
        return whole;
    }
    let behind = line.text.split_once(": ").map(|(_, rest)| words(rest.trim_matches('`'), known));
    behind.filter(|words| begins(words).is_some()).unwrap_or(whole)
}

/// Variables that a directive of Slurm sets: `#SBATCH --nodes=2`, `#SBATCH --gres=gpu:a100:8`.
fn slurm(directive: &str) -> Option<Vec<(String, String)>> {
    const NODES: [&str; 2] = ["SLURM_NNODES", "SLURM_JOB_NUM_NODES"];
    const GPUS: [&str; 2] = ["SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"];
    let (name, value) = directive.trim().split_once(['=', ' '])?;
    let names = match name {
        "--nodes" | "-N" => NODES,
        "--gpus-per-node" => GPUS,
        "--gres" if value.contains("gpu") => GPUS,
        _ => return None,
    };
    let count: u64 = value.trim().rsplit(':').next()?.parse().ok()?;
    Some(names.map(|name| (name.to_owned(), count.to_string())).to_vec())
}

/// Whether a word sets a variable.
fn sets(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_part))
}

/// The launcher that a command begins with, and how many words it takes until there.
fn begins(words: &[String]) -> Option<(usize, Launcher)> {
    let is_before = |word: &&String| sets(word) || BEFORE.contains(&word.as_str());
    let at = words.iter().take_while(is_before).count();
    let rest = words.get(at..)?;
    LAUNCHERS.iter().find_map(|(start, launcher)| {
        let is_same = |(word, expected): (&String, &&str)| {
            let word = plain(word);
            word == *expected || (*expected == "python" && word == "python3")
        };
        let fits = rest.len() > start.len() || *launcher == Launcher::OfFile;
        let is_start = rest.iter().zip(*start).all(is_same) && rest.len() >= start.len();
        // A sentence may begin with the name of a launcher.
        let goes_on = rest.get(start.len()).is_none_or(|word| {
            word.starts_with('-') || word.contains(['.', '/', '_']) || word.starts_with('$')
        });
        (fits && is_start && goes_on).then(|| (at.saturating_add(start.len()), *launcher))
    })
}

/// The last part of a path.
fn plain(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Options of the launcher, the script, and its arguments; without a script there are only arguments.
fn parts(words: &[String], has_script: bool, line: &Line) -> (Vec<Entry>, String, Vec<Entry>) {
    let mut options = Vec::new();
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next_if(|word| has_script && word.starts_with('-')) {
        if word == "-m" {
            continue;
        }
        let entry = option(word, line);
        let is_flag = entry.value == Value::Flag(true);
        if is_flag && !FLAGS.contains(&entry.key.as_str()) {
            let value = words.next_if(|word| !word.starts_with("--"));
            options.push(Entry { value: value.map_or(Value::Flag(true), value_of), ..entry });
        } else {
            options.push(entry);
        }
    }
    let script = words.next_if(|_| has_script).unwrap_or_default().to_owned();
    let mut arguments: Vec<Entry> = Vec::new();
    for word in words {
        if word.starts_with("--") && word.len() > 2 {
            arguments.push(option(word, line));
        } else if let Some(last) = arguments.last_mut() {
            last.value = match std::mem::replace(&mut last.value, Value::Null) {
                Value::Flag(true) => value_of(word),
                Value::List(mut items) => {
                    items.push(value_of(word));
                    Value::List(items)
                }
                one => Value::List(vec![one, value_of(word)]),
            };
        }
    }
    (options, script, arguments)
}

/// `--key`, `--key=value`.
fn option(word: &str, line: &Line) -> Entry {
    let word = word.trim_start_matches('-');
    let (key, value) = match word.split_once('=') {
        Some((key, value)) => (key, value_of(value)),
        None => (word, Value::Flag(true)),
    };
    Entry { key: key.replace('-', "_"), place: line.place, value }
}

fn value_of(word: &str) -> Value {
    if let Ok(n) = word.parse::<i64>() {
        return Value::Int(n);
    }
    if let Some(x) = word.parse::<f64>().ok().filter(|x| x.is_finite()) {
        return Value::Number(x);
    }
    match word {
        "true" | "True" => Value::Flag(true),
        "false" | "False" => Value::Flag(false),
        "None" | "null" => Value::Null,
        _ if word.starts_with(['{', '[']) => {
            tree::parse(word).map_or_else(|_| Value::Text(word.to_owned()), Value::of)
        }
        _ => Value::Text(word.to_owned()),
    }
}

/// The words of a command, until it ends; variables that are known have their values.
fn words(line: &str, known: &BTreeMap<String, String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => found.extend(word.take()),
            (None, '|' | ';' | '&' | '>' | '<') => break,
            (None, '#') if word.is_none() => break,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(rest.next()),
            (None | Some('"'), '$') => {
                let is_braced = rest.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(c) = rest
                    .next_if(|&c| c.is_ascii_alphanumeric() || c == '_' || (is_braced && c != '}'))
                {
                    name.push(c);
                }
                if is_braced {
                    rest.next();
                }
                let (plain, usual) = name.split_once(":-").unwrap_or((&name, ""));
                let value = known.get(plain).map(String::as_str);
                let value = value.or_else(|| (!usual.is_empty()).then_some(usual));
                match value {
                    Some(value) => word.get_or_insert_default().push_str(value),
                    None => word.get_or_insert_default().extend(["$", &name]),
                }
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_are_those_of_a_shell() {
        let known = BTreeMap::from([("N".to_owned(), "4".to_owned())]);
        for (line, expected) in [
            ("a  b", vec!["a", "b"]),
            ("--n=$N \"two words\" '$N'", vec!["--n=4", "two words", "$N"]),
            ("x ${N} ${M:-8} $M", vec!["x", "4", "8", "$M"]),
            ("run it | tee log", vec!["run", "it"]),
            ("a # b", vec!["a"]),
            ("'open", vec!["open"]),
        ] {
            assert_eq!(words(line, &known), expected, "{line}");
        }
    }

    #[test]
    fn a_command_has_options_a_script_and_arguments() {
        let text = "N=4\nOMP_NUM_THREADS=8 torchrun --standalone --nproc-per-node $N \\\n  train.py --lr 1e-4 \\\n \
                    --a b c --on\n";
        let found = launches(text);
        let launch = found.first().expect("one command");
        assert_eq!(launch.script, "train.py");
        let key = |entry: &Entry| entry.key.clone();
        assert_eq!(
            launch.options.iter().map(key).collect::<Vec<_>>(),
            ["standalone", "nproc_per_node"]
        );
        assert_eq!(launch.arguments.iter().map(key).collect::<Vec<_>>(), ["lr", "a", "on"]);
        assert!(is_shell(text, &found));
        assert!(!is_shell(&format!("{text}Some text that is none\n"), &found));
    }
}
