//! Prints peaks of models against recorded truth: `peaks RESULTS.jsonl FOLDER [MODEL…]`.
use highwater_core::{Config, Optimizer};
use std::collections::BTreeMap;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rows = std::fs::read_to_string(&args[0]).unwrap();
    let mut errors = Vec::new();
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let model = row["model"].as_str().unwrap();
        if args.len() > 2 && !args[2..].iter().any(|m| m == model) {
            continue;
        }
        let bytes = std::fs::read(format!("{}/{model}.onnx", args[1])).unwrap();
        let batch = row["batch"].as_u64().unwrap();
        let seq = row["seq"].as_u64();
        let opt = row["optimizer"].as_str().unwrap();
        let model_ = match highwater_core::open(&mut bytes.as_slice(), model) {
            Ok(m) => m,
            Err(e) => {
                println!("{model}: {e}");
                continue;
            }
        };
        let mut dims = BTreeMap::new();
        for d in model_.open_dims() {
            dims.insert(d.name.clone(), if d.batch { batch } else { seq.unwrap_or(d.default) });
        }
        let optimizer = match opt {
            "sgd" => Optimizer::SgdMomentum,
            "sgd0" => Optimizer::Sgd,
            "adam" => Optimizer::Adam,
            _ => Optimizer::AdamW,
        };
        let config = Config { dims, optimizer, device: "a100-80gb".into() };
        match model_.estimate(&config) {
            Ok(r) => {
                let t = |k: &str| row[k].as_u64().unwrap() as f64;
                let e = |a: u64, b: f64| (a as f64 / b - 1.0) * 100.0;
                let (ea, er) =
                    (e(r.peak.allocated.0, t("allocated")), e(r.peak.reserved.0, t("reserved")));
                errors.push((ea, er));
                println!(
                    "{model:22} b{batch:<3} {opt:6} alloc {:>12} {:>+7.2}%  reserved {:>12} {:>+7.2}%  it1 {:+.2}% params {}{} {} {}",
                    r.peak.allocated.0,
                    ea,
                    r.peak.reserved.0,
                    er,
                    e(r.iterations[0].requested.0, t("it1_requested")),
                    r.model.parameters as i64 - row["params"].as_i64().unwrap(),
                    if r.lower_bound { " LOWER" } else { "" },
                    r.peak.phase.name(),
                    r.peak.operator
                );
                if args.len() > 2 {
                    for d in &r.diagnostics {
                        println!("   {d}")
                    }
                    println!("   {:?}", r.at_peak);
                    println!("   truth {}", row["summary"]["2"]);
                }
            }
            Err(e) => println!("{model}: {e}"),
        }
    }
    let mut a: Vec<f64> = errors.iter().map(|e| e.0.abs()).collect();
    let mut b: Vec<f64> = errors.iter().map(|e| e.1.abs()).collect();
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    println!(
        "{} rows: alloc median {:.2}% exact {} within3 {} worst {:.2}%; reserved median {:.2}% worst {:.2}%",
        a.len(),
        a[a.len() / 2],
        a.iter().filter(|e| **e == 0.0).count(),
        a.iter().filter(|e| **e <= 3.0).count(),
        a[a.len() - 1],
        b[b.len() / 2],
        b[b.len() - 1]
    );
}
