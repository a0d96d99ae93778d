//! Something the user must know about, above everything else.

use leptos::prelude::*;

use super::drawn::Drawn;
use super::markup::Markup;
use crate::model::state::Notice;
use crate::words::language::tr;

/// Tells what went wrong, why, what to do, and what is still there.
#[component]
pub(crate) fn NoticeView(
    /// The message, if there is one.
    #[prop(into)]
    notice: Signal<Option<Notice>>,
    /// The user has read it.
    on_dismiss: Callback<()>,
) -> impl IntoView {
    let markup = Signal::derive(move || {
        notice.with(|notice| notice.as_ref().map(drawn)).unwrap_or_default()
    });
    let on_act = Callback::new(move |_| on_dismiss.run(()));
    view! { <Drawn class="notice-place" role="alert" at_once=true markup on_act /> }
}

fn drawn(notice: &Notice) -> String {
    let mut markup = Markup::default();
    let error = "<div class=\"notice notice-error\">";
    markup.raw(if notice.is_error { error } else { "<div class=\"notice\">" });
    markup.raw("<span class=\"notice-sign\" aria-hidden=\"true\">!</span>");
    markup.around("<div><p class=\"notice-title\">", &notice.title, "</p>");
    markup.raw("<p class=\"notice-detail\">").prose(&notice.detail).raw("</p></div>");
    markup.cross("quiet-button", "dismiss", &tr("Dismiss")).raw("</div>");
    markup.done()
}
