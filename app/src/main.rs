//! The one binary of the page and of its worker.

fn main() {
    highwater_app::start();
}
