//! The known families: one file each in `families`, in alphabetical order.

use super::language::{Statement, header, parse};
use super::layouts::Layout;
use crate::apart;
use crate::error::{Error, ErrorKind};
use crate::order::InOrder as _;

apart::text!(text, "families");

/// A file by name, and its text.
type File = (&'static str, &'static str);

/// What all families may use, and the files of the families.
fn all() -> Result<(Vec<File>, Vec<File>), Error> {
    let text = text().ok_or_else(|| {
        Error::new(ErrorKind::Io, say!("the families of models could not be fetched: open the model again once the network is there"))
    })?;
    let files =
        text.trim_start_matches("# ").split("\n# ").filter_map(|file| file.split_once('\n'));
    Ok(files.partition(|(_, text)| !text.lines().any(|line| line.starts_with("family("))))
}

/// A family of models: one `model_type`.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// What such a model is trained for if `architectures` does not state it.
    pub(super) task: &'static str,
    /// The only class of the family, if it is one of torchvision's; else classes have names as in transformers.
    pub(super) class: &'static str,
    /// How the names of its classes begin, if not as `model_type`.
    pub(super) classes: &'static str,
    /// The model inside of one with a head.
    pub(super) base: &'static str,
    /// Keys that its configurations have and few others.
    pub(super) keys: Vec<&'static str>,
    /// The family whose file comes before its own.
    like: &'static str,
    file: File,
}

/// All families, by the first lines of their files.
pub(super) fn families() -> Result<Vec<Family>, Error> {
    let family = |file: File| {
        let header = header(file.0, file.1)?;
        let stated = |name: &str| header.iter().find(|row| row.0 == name).map_or("", |row| row.1);
        Ok(Family {
            model_type: stated(""),
            task: stated("task"),
            class: stated("model"),
            classes: stated("classes"),
            base: stated("base"),
            keys: stated("keys").split(' ').collect(),
            like: stated("like"),
            file,
        })
    };
    all()?.1.into_iter().map(family).collect()
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
    layouts.order_by_key(|layout| std::cmp::Reverse(layout.least_words));
    Ok(layouts)
}

impl Family {
    /// The files that its programs are made of but for those that all share, the earliest first.
    fn lineage(&self, families: &[Self]) -> Vec<File> {
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
        let files = all()?.0.into_iter().chain(self.lineage(families));
        files.map(|(name, text)| Ok((name, parse(name, text)?))).collect()
    }
}
