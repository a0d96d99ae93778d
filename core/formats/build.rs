//! Packs the texts of families and of models' names, without their comments.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is how Cargo says where the output belongs"
    )]
    let folder = std::env::var("OUT_DIR")?;
    highwater_pack::write_fetched("formats", Path::new(&folder))
}
