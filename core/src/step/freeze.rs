//! Parameters that are not trained.

use crate::adapt::is_adapter;
use crate::config::{Config, pattern};
use crate::diagnostic::{Diagnostic, Severity};

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

    /// Patterns that matched nothing; and whether there is anything left to train.
    pub(super) fn diagnostics(self, nothing_left: bool) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (pattern, count) in &self.patterns {
            if *count == 0 {
                let message = format!(
                    "no parameter is called `{pattern}` or lies in a module of that name, so that it \
                     freezes nothing; write a name, a module's path, or `*` for any text"
                );
                found.push(Diagnostic::new(Severity::Warning, "freeze-matches-nothing", message));
            }
        }
        if nothing_left && !self.patterns.is_empty() {
            let message = "all parameters are frozen: nothing is trained";
            found.push(Diagnostic::new(Severity::Warning, "nothing-to-train", message));
        }
        found
    }
}
