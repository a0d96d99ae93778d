//! The few pictures of the page as markup, drawn in the colour of the text around them.

/// The mark, water below the line it once reached, and the name.
pub(super) const NAME: &str = "<svg class=\"mark\" viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
    <path class=\"mark-line\" d=\"M2 6.5h20\"/><path class=\"mark-water\" \
    d=\"M2 15.5c3.3 0 3.3-3.5 6.7-3.5s3.3 3.5 6.6 3.5S18.7 12 22 12v10H2z\"/></svg>Highwater";

/// A sheet with an arrow: open a file.
pub(super) const OPEN: &str = "<svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
    <path d=\"M8 10.5v-8M4.8 5.5 8 2.3l3.2 3.2M2.5 10v3.5h11V10\"/></svg>";

/// A half-filled disc: the theme.
pub(super) const THEME: &str = "<svg class=\"icon\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
    <circle cx=\"8\" cy=\"8\" r=\"5.5\"/><path class=\"icon-filled\" d=\"M8 2.5a5.5 5.5 0 0 1 0 11z\"/></svg>";
