//! Packs what programs carry or fetch: the choices of cuDNN, and texts without their comments.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use highwater_pack as pack;

const SPELLINGS: &str = "src/recover/spellings.txt";
const CHOICES: &str = "src/aten/conv/workspace/choices";

fn main() -> Result<(), Box<dyn Error>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is how Cargo says where the output belongs"
    )]
    let folder = std::env::var("OUT_DIR")?;
    let folder = Path::new(&folder);
    println!("cargo::rerun-if-changed={CHOICES}");
    fs::write(folder.join("choices.near"), pack::near(Path::new(CHOICES))?)?;
    write_parts(folder)?;
    pack::write_fetched("engine", folder)?;
    println!("cargo::rerun-if-changed={SPELLINGS}");
    fs::write(folder.join("spellings.txt"), pack::table(Path::new(SPELLINGS))?)?;
    Ok(())
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
