//! Times of steps against those that others published.
//!
//! `tests/fixtures/published/ratios.txt` is the table, reviewed like code; `UPDATE_EXPECT=1 cargo test` rewrites it.
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "printed alone"
)]

#[path = "../../examples/tools/published.rs"]
mod rows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;

use expect_test::expect_file;
use highwater_core::estimate::Stages;

use self::rows::{Row, ours};

/// COUNT: rows that must be judged.
const LEAST: usize = 40;

/// Which rows, and what they are grouped by.
type Wanted<'a> = &'a dyn Fn(&Row) -> bool;
type Key = fn(&Row) -> String;

/// Ours next to the published time, or why there is none.
type Ratio = Result<f64, String>;

#[test]
fn times_are_as_near_to_published_ones_as_the_table_says() {
    let rows = Row::all().unwrap();
    let ratios = ratios(&rows);
    let of = |wanted: Wanted<'_>| -> Vec<f64> {
        let pairs = rows.iter().zip(&ratios).filter(|(row, _)| wanted(row));
        pairs.filter_map(|(_, ratio)| ratio.as_ref().ok().copied()).collect()
    };
    let judges = |row: &Row| row.left_out().is_none() && !row.chooses();
    let mut text = "Time of a step, ours / published. `cargo test -p highwater-core --test it published` makes this \
                    table.\n\n"
        .to_owned();
    let groups: [(&str, Wanted<'_>); 4] = [
        ("judged", &judges),
        ("may choose constants", &|row| row.left_out().is_none() && row.chooses()),
        ("left out: loader", &|row| row.left_out() == Some("loader")),
        ("compiled", &|row| row.left_out() == Some("compile")),
    ];
    head(&mut text, "");
    for (name, wanted) in groups {
        line(&mut text, name, of(wanted));
    }
    let keys: [(&str, Key); 3] = [
        ("by source", |row| row.source().to_owned()),
        ("by GPU", |row| row.cell("device").to_owned()),
        ("by precision", precision),
    ];
    for (title, key) in keys {
        for (group, wanted) in &groups[..2] {
            text.push('\n');
            head(&mut text, &format!("{group}, {title}"));
            let mut keys: Vec<String> = rows.iter().filter(|row| wanted(row)).map(key).collect();
            keys.sort();
            keys.dedup();
            for one in keys {
                line(&mut text, &one, of(&|row| wanted(row) && key(row) == one));
            }
        }
    }
    for (group, wanted) in groups {
        writeln!(text, "\n{group}").unwrap();
        for (row, ratio) in rows.iter().zip(&ratios).filter(|(row, _)| wanted(row)) {
            let ratio = match ratio {
                Ok(ratio) => format!("{ratio:.2}"),
                Err(why) => why.clone(),
            };
            writeln!(text, "{:<56} {:<15} {ratio}", row.cell("id"), row.cell("device")).unwrap();
        }
    }
    expect_file!["../../../tests/fixtures/published/ratios.txt"].assert_eq(&text);
    assert!(of(&judges).len() >= LEAST);
}

/// All rows that are shown; threads share the models.
fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let mut of_models: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        if matches!(row.left_out(), None | Some("loader" | "compile")) {
            of_models.entry(row.cell("model")).or_default().push(index);
        }
    }
    let queue = Mutex::new(of_models.into_values());
    let ratios = Mutex::new(vec![Err("not asked".to_owned()); rows.len()]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(indices) = { queue.lock().unwrap().next() } {
                    for (index, ratio) in of_model(rows, &indices) {
                        ratios.lock().unwrap()[index] = ratio;
                    }
                }
            });
        }
    });
    ratios.into_inner().unwrap()
}

/// Rows of one model: those with the same run stand together.
fn of_model(rows: &[Row], indices: &[usize]) -> Vec<(usize, Ratio)> {
    let model = match rows[indices[0]].open() {
        Ok(model) => model,
        Err(why) => return indices.iter().map(|index| (*index, Err(why.to_string()))).collect(),
    };
    let mut indices = indices.to_vec();
    indices.sort_by_key(|index| rows[*index].run(&model).unwrap_or_default());
    let mut stages = Stages::default();
    let ratio = |index: usize| -> (usize, Ratio) {
        let row = &rows[index];
        let found = row
            .timing(&model, &mut stages)
            .and_then(|(_, timing)| Ok(ours(&timing) / row.milliseconds(&timing)?));
        (index, found.map_err(|why| why.to_string()))
    };
    indices.into_iter().map(ratio).collect()
}

/// Of the arithmetic: TF32 where matrix products have it.
fn precision(row: &Row) -> String {
    let settings = row.cell("settings");
    let (_, rest) = settings.split_once("--precision ").unwrap_or_default();
    let precision = rest.split(' ').next().unwrap_or_default();
    let is_single = precision == "fp32" && row.cell("tf32") == "yes";
    if is_single { "fp32, TF32".to_owned() } else { precision.to_owned() }
}

fn head(text: &mut String, title: &str) {
    writeln!(text, "{title:<56} {:>5} {:>7} {:>12}", "rows", "median", "within 30 %").unwrap();
}

/// How many, their median, and the share of 0.77 to 1.3.
fn line(text: &mut String, name: &str, mut ratios: Vec<f64>) {
    ratios.sort_by(f64::total_cmp);
    if ratios.is_empty() {
        return;
    }
    let (count, middle) = (ratios.len(), ratios.len() / 2);
    let median = if count % 2 == 0 {
        f64::midpoint(ratios[middle - 1], ratios[middle])
    } else {
        ratios[middle]
    };
    let near = ratios.iter().filter(|ratio| (1.0 / 1.3..=1.3).contains(*ratio)).count();
    let percent = 100.0 * near as f64 / count as f64;
    writeln!(text, "{name:<56} {count:>5} {median:>7.2} {percent:>10.0} %").unwrap();
}
