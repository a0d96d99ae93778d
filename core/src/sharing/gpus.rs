//! A list of GPUs, as YAML or JSON: what a scheduler has to place jobs on.

use crate::device::{self, Device};
use crate::error::Error;
use crate::formats::spec::tree::{Content, Key, Tree, fault, parse};

/// COUNT: GPUs of a list, at most.
const MOST: u64 = 100_000;

/// GPUs of one kind in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The kind.
    pub device: &'static Device,
    /// COUNT: how many.
    pub count: u64,
    /// Name of the node that has them.
    pub node: Option<String>,
}

/// Reads a list of groups, or a mapping with such a list under `gpus`: `- {device: t4, count: 2, node: a}`.
///
/// # Errors
/// When it is neither, or a group has no known device, another key, or too many GPUs.
pub fn read(text: &str) -> Result<Vec<Group>, Error> {
    let tree = parse(text)?;
    let groups = match tree.content {
        Content::List(groups) => groups,
        Content::Map(entries) => {
            let of_gpus = |(key, tree): (Key, Tree)| match (key.text.as_str(), tree.content) {
                ("gpus", Content::List(groups)) => Some(groups),
                _ => None,
            };
            entries.into_iter().find_map(of_gpus).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    if groups.is_empty() {
        let message = say!(
            "this is no list of GPUs; write one group in each line, such as `- {lbrace}device: t4, count: 2{rbrace}`",
            lbrace = "{",
            rbrace = "}"
        );
        return Err(fault(tree.place, message));
    }
    let groups: Vec<Group> = groups.into_iter().map(group).collect::<Result<_, Error>>()?;
    let all = groups.iter().fold(0, |sum: u64, group| sum.saturating_add(group.count));
    if all > MOST {
        return Err(fault(
            tree.place,
            say!("there are {all} GPUs; at most {MOST} can be listed", all, MOST),
        ));
    }
    Ok(groups)
}

fn group(Tree { place, content }: Tree) -> Result<Group, Error> {
    let (mut device, mut count, mut node) = (None, 1, None);
    let entries = match content {
        Content::Map(entries) => entries,
        Content::Text(name) => {
            return Ok(Group { device: device::typed(&name)?, count: 1, node: None });
        }
        _ => Vec::new(),
    };
    for (key, value) in entries {
        match (key.text.as_str(), value.content) {
            ("device", Content::Text(name)) => device = Some(device::typed(&name)?),
            ("count", Content::Int(n @ 1..)) => count = n.unsigned_abs(),
            ("node", Content::Text(name)) => node = Some(name),
            (name, _) => {
                let message = say!(
                    "`{name}` cannot be used here; a group of GPUs has `device`, a `count` from 1 on, and perhaps a \
                     `node`",
                    name
                );
                return Err(fault(key.place, message));
            }
        }
    }
    let device = device.ok_or_else(|| {
        fault(place, say!("a group of GPUs has no `device`; `highwater devices` lists them"))
    })?;
    Ok(Group { device, count, node })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_gpus_are_read() {
        let text = "gpus:\n- {device: a100-40gb, count: 4, node: one}\n- t4\n";
        let groups = read(text).expect("it is a list");
        let found: Vec<_> = groups
            .iter()
            .map(|group| (group.device.id, group.count, group.node.as_deref()))
            .collect();
        assert_eq!(found, [("a100-40gb", 4, Some("one")), ("t4", 1, None)]);
        assert_eq!(read("[{\"device\": \"t4\", \"count\": 2}]").map(|groups| groups.len()), Ok(1));
        let error = |text: &str| read(text).expect_err("it is refused").to_string();
        assert!(error("gpus: 4").contains("no list of GPUs"));
        assert!(error("- {device: t5000, count: 2}").contains("t5000"));
        assert!(error("- {device: t4, count: 0}").contains("`count`"));
        assert!(error("- {count: 2}").contains("no `device`"));
        assert!(error("- {device: t4, count: 100001}").contains("100001"));
    }
}
