//! Lists that stay short until someone asks for all of it.

use std::fmt::Display;

use super::markup::Markup;
use crate::words::format::grouped;
use crate::words::language::fill;

/// COUNT: entries shown at most; the whole of a very long list would stall the browser.
pub(super) const MOST: usize = 1000;

/// A button that shows the rest of a list, or hides it again; nothing where there is no rest.
pub(super) fn show_all(markup: &mut Markup, act: &str, all: usize, first: usize, open: bool) {
    if all <= first {
        return;
    }
    markup.raw("<button type=\"button\" class=\"show-all\" id=\"").text(act);
    markup.around("\" data-act=\"", act, "\" aria-expanded=\"");
    markup
        .raw(if open { "true\">" } else { "false\">" })
        .text(&label(all, first, open))
        .raw("</button>");
}

/// What that button says.
pub(super) fn label(all: usize, first: usize, open: bool) -> String {
    let count = |n: usize| grouped(n as u64);
    if open {
        fill("Show the first {n} only", &[("n", &first)])
    } else if all > MOST {
        let parts: [(&str, &dyn Display); 2] = [("n", &count(MOST)), ("all", &count(all))];
        fill("Show {n} of {all}", &parts)
    } else {
        fill("Show all {n}", &[("n", &count(all))])
    }
}

/// COUNT: entries to show of a list.
pub(crate) const fn shown(open: bool, first: usize) -> usize {
    if open { MOST } else { first }
}
