//! A Markdown document whose tables are computed.
//!
//! A table stands between `<!-- scoreboard: NAME -->` and `<!-- end -->`.

use std::collections::BTreeMap;

const BEGIN: &str = "<!-- scoreboard: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end -->";

/// The document with these tables, by their names.
///
/// # Errors
/// Where it has no place for a table, an unknown one, or a place without an end.
pub(crate) fn filled(text: &str, tables: &BTreeMap<&str, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    let mut found = false;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(CLOSE).unwrap_or_default();
        let known = tables.keys().copied().collect::<Vec<_>>().join(", ");
        let table = tables
            .get(name)
            .ok_or_else(|| format!("there is no table `{name}`; the tables are {known}"))?;
        let (_, after) = after
            .split_once(END)
            .ok_or_else(|| format!("the table `{name}` has no end; write `{END}` behind it"))?;
        let table = table.trim_end();
        filled.extend([before, BEGIN, name, CLOSE, "\n\n", table, "\n\n", END]);
        (rest, found) = (after, true);
    }
    if !found {
        return Err(format!(
            "it has no place for a table; write `{BEGIN}process{CLOSE}` and `{END}`"
        ));
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_replaced() {
        let tables = BTreeMap::from([("all", "| a |\n".to_owned())]);
        let fill = |text: &str| filled(text, &tables);
        let once = fill("# T\n<!-- scoreboard: all -->old<!-- end -->\nend\n").unwrap_or_default();
        assert_eq!(once, "# T\n<!-- scoreboard: all -->\n\n| a |\n\n<!-- end -->\nend\n");
        assert_eq!(fill(&once).as_ref(), Ok(&once));
        let error = |text: &str| fill(text).err().unwrap_or_default();
        assert!(error("# T").contains("has no place"));
        assert!(error("<!-- scoreboard: al --><!-- end -->").contains("the tables are all"));
        assert!(error("<!-- scoreboard: all -->").contains("has no end"));
    }
}
