//! Packs the choices of cuDNN into the bytes that programs carry, and takes comments from tables of text.

#[path = "build/pack.rs"]
mod pack;

use std::error::Error;
use std::fs;
use std::path::Path;

/// Tables of text whose lines of comment begin with `//`, and their names without these.
const TABLES: [(&str, &str); 2] = [
    ("src/aten/formula/operators.txt", "operators.txt"),
    ("src/recover/spellings.txt", "spellings.txt"),
];
const SOURCE: &str = "src/aten/conv/workspace/choices.txt";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let [near, far] = pack::packed(&fs::read_to_string(SOURCE)?)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this is how Cargo says where the output belongs"
    )]
    let folder = std::env::var("OUT_DIR")?;
    let folder = Path::new(&folder);
    fs::write(folder.join("choices.name"), pack::name(&far))?;
    fs::write(folder.join("choices.near"), near)?;
    fs::write(folder.join("choices.far"), far)?;
    for (source, name) in TABLES {
        println!("cargo::rerun-if-changed={source}");
        let text = fs::read_to_string(source)?;
        let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
        fs::write(folder.join(name), rows.flat_map(|row| [row, "\n"]).collect::<String>())?;
    }
    Ok(())
}
