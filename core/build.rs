//! Packs the choices of cuDNN into the bytes that programs carry or fetch, takes comments from tables of text, and
//! lists the families of models.

#[path = "build/near.rs"]
mod near;
#[path = "build/pack.rs"]
mod pack;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const FORMULAS: &str = "src/aten/formula/operators.txt";
const MODELS: &str = "src/formats/catalogue/models.txt";
const SPELLINGS: &str = "src/recover/spellings.txt";
const FAMILIES: &str = "src/formats/hf_config/families";
const CHOICES: &str = "src/aten/conv/workspace/choices";

fn main() -> Result<(), Box<dyn Error>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is how Cargo says where the output belongs"
    )]
    let folder = std::env::var("OUT_DIR")?;
    let folder = Path::new(&folder);
    println!("cargo::rerun-if-changed={CHOICES}");
    fs::write(folder.join("choices.near"), near::near(Path::new(CHOICES))?)?;
    write_parts(folder)?;
    for source in [FORMULAS, MODELS, SPELLINGS] {
        println!("cargo::rerun-if-changed={source}");
    }
    for (stem, source, name) in [("formulas", FORMULAS, "operators"), ("models", MODELS, "models")]
    {
        let (file, text) = pack::fetched(stem, Path::new(source))?;
        fs::write(folder.join(format!("{name}.file")), file)?;
        fs::write(folder.join(format!("{name}.txt")), text)?;
    }
    fs::write(folder.join("spellings.txt"), pack::table(Path::new(SPELLINGS))?)?;
    println!("cargo::rerun-if-changed={FAMILIES}");
    fs::write(folder.join("families.rs"), families(folder)?)
        .map_err(|error| format!("families.rs: {error}").into())
}

/// The tables that `families.rs` includes: each file of the folder by name, without its comments.
fn families(folder: &Path) -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(FAMILIES)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).ok_or("a family has a name")?;
        let text = fs::read_to_string(&path)?;
        // Lines keep their numbers.
        let is_comment = |line: &str| line.trim_start().starts_with('#');
        let lines = text.lines().map(|line| if is_comment(line) { "" } else { line });
        let lines: Vec<&str> = lines.collect();
        let out = folder.join(format!("{name}.family"));
        fs::write(&out, lines.join("\n"))?;
        let is_family = lines.iter().any(|line| line.starts_with("family("));
        let row = format!("({name:?}, include_str!({:?}))", out.display().to_string());
        files.push((is_family, row));
    }
    files.sort();
    let rows = |family: bool| {
        let rows = files.iter().filter(|(is_family, _)| *is_family == family);
        rows.map(|(_, row)| row.as_str()).collect::<Vec<_>>().join(",\n")
    };
    let table = "&[(&str, &str)]";
    Ok(format!(
        "/// What all families may use.\nconst SHARED: {table} = &[{}];\n\n\
         /// All families.\nconst FAMILIES: {table} = &[{}];\n",
        rows(false),
        rows(true)
    ))
}

/// Writes the parts, and the table of them that `choice.rs` includes.
fn write_parts(folder: &Path) -> Result<(), Box<dyn Error>> {
    let parts = pack::parts(Path::new(CHOICES))?;
    let mut table = format!("/// All of them.\nstatic PARTS: [Part; {}] = [", parts.len());
    for pack::Part { title, file, bytes } in parts {
        let (capability, half) = match title.strip_suffix("-half") {
            Some(capability) => (capability, true),
            None => (title.as_str(), false),
        };
        let (major, minor) = capability.split_once('.').ok_or("a part is named `8.0`")?;
        let path = folder.join(&file);
        fs::write(&path, bytes)?;
        writeln!(
            table,
            "Part {{ capability: ({major}, {minor}), half: {half}, \
             #[cfg(target_arch = \"wasm32\")] file: {file:?}, \
             #[cfg(not(target_arch = \"wasm32\"))] bytes: include_bytes!(\"{}\"), \
             trees: OnceLock::new() }},",
            path.display()
        )?;
    }
    fs::write(folder.join("choices.rs"), table + "];")?;
    Ok(())
}
