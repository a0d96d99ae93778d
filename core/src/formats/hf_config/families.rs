//! The known families: one file each in `families`, in alphabetical order.

use super::language::{Statement, header, parse};
use super::layouts::Layout;
use crate::error::Error;
use crate::sorted;

// What all families may use, and the families: `build.rs` writes both tables from the folder.
include!(concat!(env!("OUT_DIR"), "/families.rs"));

/// A family of models: one `model_type`.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// What such a model is trained for if `architectures` does not state it.
    pub(super) task: &'static str,
    /// The only class of the family, if it is one of torchvision's; else classes have names as in transformers.
    pub(super) class: &'static str,
    /// The model inside of one with a head.
    pub(super) base: &'static str,
    /// Keys that its configurations have and few others.
    pub(super) keys: Vec<&'static str>,
    /// The family whose file comes before its own.
    like: &'static str,
    file: (&'static str, &'static str),
}

/// All families, by the first lines of their files.
pub(super) fn families() -> Result<Vec<Family>, Error> {
    let family = |&file: &(&'static str, &'static str)| {
        let header = header(file.0, file.1)?;
        let stated = |name: &str| header.iter().find(|row| row.0 == name).map_or("", |row| row.1);
        Ok(Family {
            model_type: stated(""),
            task: stated("task"),
            class: stated("model"),
            base: stated("base"),
            keys: stated("keys").split(' ').collect(),
            like: stated("like"),
            file,
        })
    };
    FAMILIES.iter().map(family).collect()
}

/// The layouts of all families that state one, in the order in which files of weights are compared with them.
///
/// # Errors
/// With the file, when a layout has a mistake.
pub(super) fn layouts() -> Result<Vec<Layout>, Error> {
    let families = families()?;
    let mut layouts = Vec::new();
    for family in &families {
        layouts.extend(Layout::of(family, &family.lineage(&families))?);
    }
    // Of families with the same names, the vocabulary tells the one with the larger tables.
    sorted::by_key(&mut layouts, |layout| std::cmp::Reverse(layout.least_words));
    Ok(layouts)
}

impl Family {
    /// The files that its programs are made of but for those that all share, the earliest first.
    fn lineage(&self, families: &[Self]) -> Vec<(&'static str, &'static str)> {
        let like = |family: &&Self| families.iter().find(|other| other.model_type == family.like);
        // What is like itself has no end.
        let lineage = std::iter::successors(Some(self), like).take(families.len());
        let mut lineage: Vec<_> = lineage.map(|family| family.file).collect();
        lineage.reverse();
        lineage
    }

    /// The statements of all files that its programs are made of, in the order in which they count.
    pub(super) fn files(
        &self,
        families: &[Self],
    ) -> Result<Vec<(&'static str, Vec<Statement<'static>>)>, Error> {
        let files = SHARED.iter().copied().chain(self.lineage(families));
        files.map(|(name, text)| Ok((name, parse(name, text)?))).collect()
    }
}
