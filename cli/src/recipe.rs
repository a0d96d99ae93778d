//! What a recipe sets, for people.

use highwater_core::config::Setting;
use highwater_core::recipe::{Choice, Origin, Recipe};
use highwater_core::{Config, Severity, bytes};

use crate::style::FAINT;
use crate::table::{Align, Cell, Table};
use crate::text::{listed, section};

/// Settings and the keys that state them, keys without effect, and what is not simulated; `config` is what was
/// estimated, in which flags come before the recipe.
pub(crate) fn render(recipe: &Recipe, config: &Config) -> String {
    let mut table = Table::new([Align::Left, Align::Left, Align::Left]);
    if let Some(model) = &recipe.model {
        table.row(["model".into(), model.as_str().into(), "".into()]);
    }
    for choice in &recipe.choices {
        let from = match given(choice, &recipe.config, config) {
            Some(given) => format!("{given} is given instead"),
            None => origin(&choice.from),
        };
        let value = choice.value.replace('\n', ", ");
        table.row([choice.setting.as_str().into(), value.into(), Cell::styled(from, FAINT)]);
    }
    let mut body = table.render("  ");
    if !recipe.idle.is_empty() {
        body += "  no effect on memory: ";
        body += &recipe.idle.join(", ");
        body += "\n";
    }
    let warnings: Vec<_> =
        recipe.notes.iter().filter(|note| note.severity >= Severity::Warning).cloned().collect();
    body += &listed(&warnings);
    section(&format!("Recipe of {}", recipe.tool), &body)
}

/// The value that was estimated, where it is another than the recipe's.
fn given(choice: &Choice, of_recipe: &Config, config: &Config) -> Option<String> {
    let value = |config: &Config| match Setting::named(&choice.setting) {
        Some(setting) => setting.value(config).to_string(),
        None => {
            config.dims.get(&choice.setting).map(|size| bytes::grouped(*size)).unwrap_or_default()
        }
    };
    let (stated, given) = (value(of_recipe), value(config));
    (stated != given && !given.is_empty()).then_some(given)
}

fn origin(from: &Origin) -> String {
    match from {
        Origin::Key(key) => key.clone(),
        Origin::Default(tool) => format!("default of {tool}"),
    }
}
