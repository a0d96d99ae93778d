//! Tells the linker of macOS that Python's own functions come from the program that loads the library.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
