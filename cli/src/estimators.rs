//! `highwater compare`: what published estimators say of a run.

use highwater_core::config::DataParallel;
use highwater_core::estimate::{Simulation, Stages};
use highwater_core::estimators::{ALL, About, Estimate, Estimator, Evidence, Means, Run};
use highwater_core::{Bytes, Error, Model};
use serde::Serialize;

use crate::args::Question;
use crate::style::{FAINT, HEAD};
use crate::table::{Align, Cell, Table};

/// An estimator's answer: a figure, or why it has none.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    about: &'static About,
    #[serde(flatten)]
    estimate: Option<Estimate>,
    /// Why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<&'static str>,
}

/// All answers about a model, as a table or as JSON.
pub(crate) fn compare(model: &Model, arguments: &Question) -> Result<String, Error> {
    let config = arguments.training.of(model)?;
    let mut stages = Stages::default();
    let simulation = model.simulate(&config, &mut stages)?;
    let run = Run::of(model, &simulation, &mut stages)?;
    let evidence = Evidence::of(&run);
    let row = |estimator: &&dyn Estimator| {
        let answer = estimator.estimate(&evidence);
        Row { about: estimator.about(), estimate: answer.ok(), why_not: answer.err() }
    };
    let rows: Vec<Row> = ALL.iter().map(row).collect();
    if arguments.json {
        let text = serde_json::to_string_pretty(&rows).expect("rows are plain data");
        return Ok(text + "\n");
    }
    Ok(table(&rows, &simulation) + &ranks(&evidence, &simulation))
}

fn table(rows: &[Row], simulation: &Simulation) -> String {
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
    let heads = ["estimator", "estimate", "to ours", "needs", "leaves out"];
    table.row(heads.map(|head| Cell::styled(head, HEAD)));
    let ours = |means| match means {
        Means::Process => {
            rows.first().and_then(|row| row.estimate).map_or(Bytes::ZERO, |ours| ours.bytes)
        }
        Means::Tensors => simulation.replay().allocated.bytes,
    };
    for row in rows {
        let About { name, needs, means, leaves_out, .. } = *row.about;
        let (figure, difference, note) = match (row.estimate, row.why_not) {
            (Some(Estimate { bytes, from, .. }), _) => {
                let from = from.map(|from| format!("{from} to ")).unwrap_or_default();
                (format!("{from}{bytes}"), percent(bytes, ours(means)), leaves_out)
            }
            (None, why_not) => ("-".to_owned(), String::new(), why_not.unwrap_or_default()),
        };
        let note = Cell::styled(note, FAINT);
        table.row([name.into(), figure.into(), difference.into(), needs.name().into(), note]);
    }
    let device = &simulation.verdict().name;
    format!(
        "{}\nA figure for tensors is compared with our allocated memory, all others with the process on {device}.\n",
        table.render("")
    )
}

/// Which share of a run on several GPUs the figures are; nothing for one GPU.
fn ranks(evidence: &Evidence<'_>, simulation: &Simulation) -> String {
    let Some(ranks) = evidence.ranks() else { return String::new() };
    let way = simulation.config().data_parallel;
    let way = match way {
        DataParallel::Auto => String::new(),
        _ => format!("; ours shares the model by {}", way.label()),
    };
    format!("Each figure is for one of {} GPUs{way}.\n", ranks.all())
}

/// How far a figure lies from another: `+12 %`.
fn percent(bytes: Bytes, other: Bytes) -> String {
    if other == Bytes::ZERO {
        return String::new();
    }
    let (bytes, other) = (i128::from(bytes.0), i128::from(other.0));
    match (bytes - other) * 100 / other {
        0 => "0 %".to_owned(),
        difference => format!("{difference:+} %"),
    }
}
