//! Parameters that are not trained, and training that reaches none.

use super::Parameter;
use crate::adapt::is_adapter;
use crate::config::{Config, pattern};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::error::{Error, ErrorKind};

/// Patterns of names, and what they have matched.
#[derive(Debug)]
pub(super) struct Frozen<'a> {
    patterns: Vec<(&'a str, usize)>,
    /// Whether only adapters are trained.
    adapters_only: bool,
}

impl<'a> Frozen<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        let patterns = config.freeze.iter().map(|pattern| (pattern.as_str(), 0));
        Self { patterns: patterns.collect(), adapters_only: !config.lora.is_empty() }
    }

    /// Whether a parameter is frozen.
    pub(super) fn has(&mut self, name: &str) -> bool {
        let mut any = self.adapters_only && !is_adapter(name);
        for (pattern, count) in &mut self.patterns {
            if pattern::matches(pattern, name) {
                *count += 1;
                any = true;
            }
        }
        any
    }

    /// Checks what the patterns matched.
    ///
    /// # Errors
    /// When one matched nothing, or all parameters are frozen: PyTorch raises where such a model is trained.
    pub(super) fn check(self, nothing_left: bool, sink: &Diagnostics) -> Result<(), Error> {
        let freezes = self.patterns.iter().any(|(_, count)| *count > 0);
        if nothing_left && (freezes || self.adapters_only) {
            let message =
                say!("all parameters are frozen, so that nothing is trained: freeze fewer of them");
            let setting = if freezes { "freeze" } else { "lora" };
            return Err(Error::new(ErrorKind::BadConfig, message).about(setting));
        }
        if nothing_left {
            let message = say!(
                "the file has no parameters, so that nothing is trained and there is no backward: \
                           what is shown is a forward pass"
            );
            sink.push(Diagnostic::new(Severity::Error, "nothing-to-train", message));
        }
        for (pattern, count) in &self.patterns {
            if *count == 0 {
                let message = say!(
                    "the pattern `{pattern}` matches no parameter, so that it freezes nothing; write a \
                     name, a module's path, or `*` for any text",
                    pattern
                );
                return Err(Error::new(ErrorKind::BadConfig, message).about("freeze"));
            }
        }
        Ok(())
    }
}

/// Notes that backward reached no parameter at all: PyTorch raises there.
///
/// # Errors
/// When that is so because of what the configuration freezes or adapts.
pub(super) fn check_gradients(
    parameters: &[Parameter],
    config: &Config,
    sink: &Diagnostics,
) -> Result<(), Error> {
    if parameters.is_empty() || parameters.iter().any(|p| p.leaf.is_reached()) {
        return Ok(());
    }
    let message = say!(
        "the loss depends on none of the parameters that are trained, so that there are no \
                   gradients"
    );
    let set = [("lora", !config.lora.is_empty()), ("freeze", !config.freeze.is_empty())];
    if let Some((setting, _)) = set.into_iter().find(|(_, is_set)| *is_set) {
        return Err(Error::new(ErrorKind::BadConfig, message).about(setting));
    }
    sink.push(Diagnostic::new(Severity::Error, "no-gradients", message));
    Ok(())
}
