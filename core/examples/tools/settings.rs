//! Settings as arguments: those of the command line, and dimensions by their names.

use std::error::Error;

use highwater_core::config::SETTINGS;
use highwater_core::eager::Launches;
use highwater_core::{Config, Model};

/// The kernels of a model on a device under settings, each `name=value`.
pub(crate) fn launches(
    model: &Model,
    device: &str,
    settings: &[&str],
) -> Result<Launches, Box<dyn Error>> {
    let mut config = Config { ..model.defaults().clone() };
    config.choose_device(device);
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("a setting is name=value")?;
        if SETTINGS.iter().any(|setting| setting.name == name) {
            config.set(name, value)?;
        } else {
            config.dims.insert(name.to_owned(), value.parse()?);
        }
    }
    Ok(model.launches(&config)?)
}
