//! TOML → [`Tree`].

use super::tree::Tree;
use crate::error::Error;

pub(super) const fn is_toml(_text: &str) -> bool {
    false
}

pub(super) fn parse(text: &str) -> Result<Tree, Error> {
    super::tree::parse(text)
}
