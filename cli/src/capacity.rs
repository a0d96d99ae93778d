//! `highwater capacity`: how many tokens and requests a server keeps on each GPU.

use std::fmt::Write as _;
use std::path::Path;

use highwater_core::bytes::grouped;
use highwater_core::device::{self, Device};
use highwater_core::serving::{self, Answer, Fit, Row, Served, Serving, Weights};
use highwater_core::{Error, ErrorKind, Source as _, say};

use crate::args::Capacity;
use crate::file::FileSource;
use crate::named;
use crate::style::{BAD, CAUTION, FAINT, GOOD, HEAD};
use crate::table::{Align, Cell, Table};

/// SIZE: the longest configuration that is read.
const CONFIGURATION_MAX: u64 = 1 << 22;

/// The answer for the GPUs that are asked about, as text or as JSON.
pub(crate) fn capacity(arguments: &Capacity) -> Result<String, Error> {
    let model = open(&arguments.model)?;
    let settings = settings(arguments);
    let asked = arguments.device.as_deref().map(device::find).transpose()?;
    let devices: Vec<&Device> = match asked {
        Some(device) => vec![device],
        None => device::all().iter().collect(),
    };
    let answer = serving::answer(&model, &settings, &devices)?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&answer).expect("an answer is plain data");
        return Ok(text + "\n");
    }
    let change = asked.and_then(|device| serving::smallest_change(&model, &settings, device));
    Ok(match answer.rows.as_slice() {
        [row] => one(&answer, row, change),
        _ => all(&answer),
    })
}

/// The model of a name, of a `config.json`, or of a GGUF file.
fn open(path: &Path) -> Result<Served, Error> {
    let name = path.to_string_lossy();
    if !path.exists() {
        if let Some(model) = Served::named(&name)? {
            return Ok(model);
        }
        // Refuses with the nearest names.
        named::find(path)?;
    }
    let mut source = FileSource::open(path)?;
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    if begins_as_gguf(&mut source)? {
        return Served::gguf(serving::header(&mut source)?, &stem);
    }
    let long = || {
        let message = say!(
            "a server's model is a name, a `config.json` or a GGUF file; this file is larger than any configuration"
        );
        Error::new(ErrorKind::WrongFormat, message)
    };
    let text = source.text(CONFIGURATION_MAX)?.ok_or_else(long)?;
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
    Served::read(
        &text,
        if stem == "config" { folder.as_deref().unwrap_or("the model") } else { &stem },
    )
}

/// By its first bytes: people rename files.
fn begins_as_gguf(source: &mut FileSource) -> Result<bool, Error> {
    let mut magic = [0; 4];
    if source.len() < 4 {
        return Ok(false);
    }
    source.read_at(0, &mut magic)?;
    Ok(magic == *b"GGUF")
}

fn settings(arguments: &Capacity) -> Serving {
    Serving {
        engine: arguments.engine,
        context: arguments.context,
        utilization: arguments.utilization,
        kv_type: arguments.kv_type,
        weights: arguments.weights.map(Weights::of),
        tp: arguments.tp,
        max_num_seqs: arguments.max_num_seqs,
        max_num_batched_tokens: arguments.max_num_batched_tokens,
        is_eager: arguments.eager,
        vllm: arguments.vllm,
        sampler: arguments.sampler,
        block: arguments.block_size,
        gpu_layers: arguments.gpu_layers,
    }
}

/// The answer for one GPU: a sentence, and what its memory is divided into.
fn one(answer: &Answer, row: &Row, change: Option<(String, Row)>) -> String {
    let mut text = format!("{HEAD}{}{HEAD:#}\n", answer.sentence(row));
    if let Some((flag, changed)) = change {
        let requests = grouped(changed.requests);
        writeln!(text, "The smallest change that fits: `{flag}`, for {requests} at once.").ok();
    }
    for note in row.notes.iter().filter(|_| row.fit != Fit::Unsupported).chain(&answer.assumptions)
    {
        writeln!(text, "{note}").ok();
    }
    if row.fit == Fit::Unsupported {
        return text;
    }
    let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
    let mut line = |name: &str, size: String, about: String| {
        table.row([name.into(), size.into(), Cell::styled(about, FAINT)]);
    };
    let of = format!("of {}", row.total);
    line("budget", row.budget.to_string(), of);
    line("weights", row.weights.to_string(), answer.weights.clone());
    let batch = format!(
        "a batch of {} tokens and {} requests",
        grouped(row.max_num_batched_tokens),
        grouped(row.max_num_seqs)
    );
    if row.activations.0 > 0 {
        line("work", row.activations.to_string(), batch);
    }
    let range = |range: device::Context| format!("{} to {}", range.least, range.most);
    line("outside PyTorch", row.non_torch.likely.to_string(), range(row.non_torch));
    if row.graphs.most.0 > 0 {
        line("CUDA graphs", row.graphs.likely.to_string(), range(row.graphs));
    }
    let [least, most] = row.tokens_range.map(grouped);
    line("cache", row.cache.to_string(), format!("{least} to {most} tokens"));
    let per_token = format!("on each of {} GPUs", answer.tp);
    line("a token", answer.bytes_per_token.to_string(), per_token);
    text + "\n" + &table.render("  ")
}

/// A line for each GPU.
fn all(answer: &Answer) -> String {
    let mut table = Table::of_numbers_behind(1);
    let heads = ["", "weights", "work", "cache", "tokens", "at once"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    for row in &answer.rows {
        let (style, tokens, requests) = match row.fit {
            Fit::Serves => (GOOD, grouped(row.tokens), grouped(row.requests)),
            Fit::CacheTooSmall => (CAUTION, grouped(row.tokens), "too small".to_owned()),
            Fit::NoCache => (BAD, "-".to_owned(), "does not fit".to_owned()),
            Fit::Unsupported => (BAD, "-".to_owned(), "no kernels".to_owned()),
        };
        table.row([
            row.name.as_str().into(),
            row.weights.to_string().into(),
            row.activations.to_string().into(),
            row.cache.to_string().into(),
            tokens.into(),
            Cell::styled(requests, style),
        ]);
    }
    let fits = answer.rows.iter().filter(|row| row.fit == Fit::Serves).count();
    let mut text = format!(
        "{HEAD}{} in {}, {} weights: requests of {} tokens fit on {fits} of {} GPUs.{HEAD:#}\n",
        answer.model,
        answer.engine,
        answer.weights,
        grouped(answer.context),
        answer.rows.len()
    );
    for assumption in &answer.assumptions {
        writeln!(text, "{assumption}").ok();
    }
    text + "\n" + &table.render("  ")
}
