//! The colours of the pictures, by the names that the style sheet of the page gives them.

use highwater_core::device::Verdict;
use highwater_core::trace::Category;
use plotters::style::RGBColor;

use crate::stack::Stack;

/// What a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// What is drawn on.
    Ground,
    /// Text and outlines.
    Text,
    /// What is less important.
    Soft,
    /// The edge of something.
    Edge,
    /// The ground of something that lies deeper.
    Sunken,
    /// Lines across the picture.
    Grid,
    /// What is compared or chosen.
    Accent,
    /// What fits.
    Fits,
    /// What likely fits.
    Tight,
    /// What fits once the cache is flushed.
    Flush,
    /// What does not.
    Fails,
    /// The layer of a category.
    Category(Category),
    /// Activations of modules so deep in the model, from the first to the last of [`DEPTHS`].
    Depth(usize),
    /// The layer of a module, by its place; the last is for all others.
    Module(usize),
}

/// COUNT: tints of activations.
pub const DEPTHS: usize = 6;

/// How much black (below zero) or white each of them has.
const TINTS: [f64; DEPTHS] = [-0.3, -0.18, -0.06, 0.08, 0.2, 0.32];

/// COUNT: colours of modules; the last is for all others.
pub const MODULES: usize = 8;

/// Single colours: their names in the style sheet, and their values on a light ground.
const SINGLE: [(Ink, &str, RGBColor); 11] = [
    (Ink::Ground, "ground", RGBColor(0xff, 0xff, 0xff)),
    (Ink::Text, "ink", RGBColor(0x16, 0x19, 0x1d)),
    (Ink::Soft, "ink-soft", RGBColor(0x56, 0x5d, 0x67)),
    (Ink::Edge, "edge", RGBColor(0x8b, 0x92, 0x9c)),
    (Ink::Sunken, "sunken", RGBColor(0xee, 0xf0, 0xf2)),
    (Ink::Grid, "grid", RGBColor(0xe4, 0xe6, 0xea)),
    (Ink::Accent, "accent", RGBColor(0x3a, 0x49, 0xc9)),
    (Ink::Fits, "verdict-fits", RGBColor(0x1b, 0x7a, 0x43)),
    (Ink::Tight, "verdict-tight", RGBColor(0x8a, 0x5a, 0x00)),
    (Ink::Flush, "verdict-flush", RGBColor(0x6a, 0x4a, 0x9c)),
    (Ink::Fails, "verdict-fails", RGBColor(0xb3, 0x26, 0x1e)),
];

/// The same of modules.
const MODULE: [(&str, RGBColor); MODULES] = [
    ("module-1", RGBColor(0x7a, 0x3b, 0x93)),
    ("module-2", RGBColor(0x3f, 0x63, 0xa8)),
    ("module-3", RGBColor(0x2a, 0x8c, 0x9c)),
    ("module-4", RGBColor(0x3a, 0xa8, 0x73)),
    ("module-5", RGBColor(0x9c, 0xc2, 0x4a)),
    ("module-6", RGBColor(0xe3, 0xc5, 0x3c)),
    ("module-7", RGBColor(0xd9, 0x81, 0x3f)),
    ("module-other", RGBColor(0xa3, 0xa9, 0xb2)),
];

/// The value of a category's colour on a light ground.
const fn light(category: Category) -> RGBColor {
    match category {
        Category::Parameter => RGBColor(0x24, 0x50, 0x7c),
        Category::Buffer => RGBColor(0x85, 0x8b, 0x94),
        Category::OptimizerState => RGBColor(0x52, 0x88, 0xb8),
        Category::Cache => RGBColor(0x2a, 0x8c, 0x9c),
        Category::Communication => RGBColor(0x3f, 0x9b, 0x6d),
        Category::Input => RGBColor(0xb6, 0xbb, 0xc3),
        Category::Gradient => RGBColor(0x9c, 0xc4, 0xe2),
        Category::Activation => RGBColor(0xe2, 0x60, 0x2a),
        Category::Temporary => RGBColor(0xf0, 0xbf, 0x6a),
        Category::Workspace => RGBColor(0xbf, 0xa9, 0xe0),
    }
}

/// The values of all names on a dark ground.
const DARK: [(&str, RGBColor); 29] = [
    ("ground", RGBColor(0x16, 0x19, 0x1d)),
    ("ink", RGBColor(0xec, 0xee, 0xf1)),
    ("ink-soft", RGBColor(0xa3, 0xab, 0xb6)),
    ("edge", RGBColor(0x6a, 0x72, 0x7d)),
    ("sunken", RGBColor(0x1e, 0x22, 0x27)),
    ("grid", RGBColor(0x2a, 0x2f, 0x36)),
    ("accent", RGBColor(0xa3, 0xad, 0xff)),
    ("verdict-fits", RGBColor(0x62, 0xc9, 0x8b)),
    ("verdict-tight", RGBColor(0xe5, 0xb4, 0x54)),
    ("verdict-flush", RGBColor(0xc3, 0xa5, 0xf0)),
    ("verdict-fails", RGBColor(0xff, 0x8a, 0x80)),
    ("category-parameter", RGBColor(0x3f, 0x79, 0xb0)),
    ("category-buffer", RGBColor(0x6d, 0x74, 0x7e)),
    ("category-optimizer-state", RGBColor(0x6e, 0xa6, 0xd6)),
    ("category-cache", RGBColor(0x45, 0xae, 0xbd)),
    ("category-communication", RGBColor(0x5b, 0xbd, 0x8b)),
    ("category-input", RGBColor(0xa0, 0xa7, 0xb1)),
    ("category-gradient", RGBColor(0xb3, 0xd7, 0xf2)),
    ("category-activation", RGBColor(0xf0, 0x70, 0x3a)),
    ("category-temporary", RGBColor(0xf6, 0xd9, 0xa6)),
    ("category-workspace", RGBColor(0xc6, 0xb2, 0xe6)),
    ("module-1", RGBColor(0xa3, 0x68, 0xbb)),
    ("module-2", RGBColor(0x5b, 0x83, 0xcc)),
    ("module-3", RGBColor(0x3f, 0xa9, 0xb9)),
    ("module-4", RGBColor(0x4f, 0xc0, 0x8a)),
    ("module-5", RGBColor(0xb2, 0xd6, 0x61)),
    ("module-6", RGBColor(0xec, 0xd3, 0x5a)),
    ("module-7", RGBColor(0xe6, 0x9a, 0x5c)),
    ("module-other", RGBColor(0x7b, 0x82, 0x8c)),
];

impl Ink {
    /// The colour of a verdict.
    pub const fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Fits => Self::Fits,
            Verdict::LikelyFits => Self::Tight,
            Verdict::FitsAfterFlush => Self::Flush,
            Verdict::NotKnown => Self::Soft,
            Verdict::LikelyDoesNotFit | Verdict::DoesNotFit => Self::Fails,
        }
    }

    /// The colour of a layer, out of `layers` layers.
    pub fn of_layer(stack: Stack, layer: usize, layers: usize) -> Self {
        match stack {
            Stack::Category => {
                let category = Category::ALL.get(layer).copied();
                Self::Category(category.unwrap_or(Category::Workspace))
            }
            // What is left over is the last layer, however many there are.
            Stack::Module if layer + 1 == layers => Self::Module(MODULES - 1),
            Stack::Module => Self::Module(layer.min(MODULES - 2)),
        }
    }

    /// Its name in the style sheet, without the dashes before it.
    pub fn token(self) -> &'static str {
        self.stated().0
    }

    fn stated(self) -> (&'static str, RGBColor) {
        match self {
            Self::Depth(depth) => {
                let category = Category::Activation;
                (category.color(), tinted(light(category), depth))
            }
            Self::Category(category) => (category.color(), light(category)),
            Self::Module(module) => MODULE[module.min(MODULES - 1)],
            single => {
                let found = SINGLE.iter().find(|(ink, ..)| *ink == single);
                found.map_or(("ink", RGBColor(0, 0, 0)), |&(_, token, value)| (token, value))
            }
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let modules = (0..MODULES).map(Self::Module);
        let singles = SINGLE.into_iter().map(|(ink, ..)| ink);
        singles.chain(Category::ALL.map(Self::Category)).chain(modules)
    }
}

/// A value for each [`Ink`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Palette(Vec<(Ink, RGBColor)>);

impl Palette {
    /// Ink on a light ground: what is printed, and what the page has without another choice.
    pub fn light() -> Self {
        Self::read(|_| String::new())
    }

    /// Ink on a dark ground.
    pub fn dark() -> Self {
        let known = |ink: Ink| DARK.iter().find(|(token, _)| *token == ink.token());
        let value =
            |ink: Ink| (ink, known(ink).map_or_else(|| ink.stated().1, |&(_, value)| value));
        Self(Ink::all().map(value).collect())
    }

    /// As a style sheet has it: `value` is asked for each name, and what it does not know is light.
    pub fn read(value: impl Fn(&str) -> String) -> Self {
        let colour = |ink: Ink| {
            let (token, light) = ink.stated();
            (ink, parsed(&value(token)).unwrap_or(light))
        };
        Self(Ink::all().map(colour).collect())
    }

    /// Whether white is easier to read on a colour than black, by the contrast that WCAG 2.2 defines.
    pub fn is_dark(&self, ink: Ink) -> bool {
        let RGBColor(red, green, blue) = self.get(ink);
        let luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
        1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05
    }

    /// The value of a colour.
    pub fn get(&self, ink: Ink) -> RGBColor {
        if let Ink::Depth(depth) = ink {
            return tinted(self.get(Ink::Category(Category::Activation)), depth);
        }
        let found = self.0.iter().find(|(known, _)| *known == ink);
        found.map_or_else(|| ink.stated().1, |&(_, value)| value)
    }
}

/// A colour with the black or the white of a depth.
fn tinted(RGBColor(red, green, blue): RGBColor, depth: usize) -> RGBColor {
    let tint = TINTS[depth.min(DEPTHS - 1)];
    let end = if tint < 0.0 { 0.0 } else { 255.0 };
    let mixed = |channel: u8| {
        let value = f64::from(channel) + (end - f64::from(channel)) * tint.abs();
        rounded(value)
    };
    RGBColor(mixed(red), mixed(green), mixed(blue))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between two values of a channel"
)]
fn rounded(value: f64) -> u8 {
    value.round() as u8
}

/// The light of a channel of sRGB, from 0 to 1; a power of 2 for the standard's 2.4, which decides
/// nothing here, and needs no library's power.
fn linear(channel: u8) -> f64 {
    let share = f64::from(channel) / 255.0;
    share * share
}

/// A colour as browsers write it, `rgb(22, 25, 29)`, or as style sheets do, `#16191d`.
fn parsed(text: &str) -> Option<RGBColor> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix('#').filter(|digits| digits.len() == 6) {
        let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        return Some(RGBColor(red, green, blue));
    }
    let parts = text.strip_prefix("rgb")?.split(|c: char| !c.is_ascii_digit());
    let mut parts = parts.filter_map(|part| part.parse::<u8>().ok());
    Some(RGBColor(parts.next()?, parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_and_dark_are_what_the_style_sheet_has() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../styles/tokens.css");
        let styles = std::fs::read_to_string(path).expect("the page has a style sheet");
        for ink in Ink::all() {
            let (name, RGBColor(red, green, blue)) = ink.stated();
            let value = format!("#{red:02x}{green:02x}{blue:02x}");
            let dark = Palette::dark().get(ink);
            let dark = format!("#{:02x}{:02x}{:02x}", dark.0, dark.1, dark.2);
            let rule = format!("--{name}: light-dark({value}, {dark});");
            // Rules for a stronger contrast follow.
            let first = styles
                .split_once(&format!("--{name}: light-dark("))
                .map(|(before, _)| before.len());
            assert_eq!(first, styles.find(&rule), "{rule}");
            // Only of what is registered does a browser hand out a colour.
            let known = format!(
                "--{name} {{ syntax: \"<color>\"; inherits: true; initial-value: {value}; }}"
            );
            assert!(styles.contains(&known), "{known}");
        }
    }

    #[test]
    fn every_ink_has_its_token() {
        for (place, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(Ink::Category(category).token(), category.color());
            assert_eq!(Ink::of_layer(Stack::Category, place, 8), Ink::Category(category));
        }
        assert_eq!(Ink::Fails.token(), "verdict-fails");
        assert_eq!(Ink::of_layer(Stack::Module, 2, 4).token(), "module-3");
        assert_eq!(Ink::of_layer(Stack::Module, 3, 4).token(), "module-other");
    }

    #[test]
    fn early_layers_are_darker() {
        let palette = Palette::light();
        let tints: Vec<RGBColor> = (0..DEPTHS).map(|at| palette.get(Ink::Depth(at))).collect();
        assert_eq!(tints[0], RGBColor(158, 67, 29));
        let light = |&RGBColor(red, green, blue): &RGBColor| {
            u32::from(red) + u32::from(green) + u32::from(blue)
        };
        assert!(tints.is_sorted_by_key(light));
        assert_eq!(palette.get(Ink::Depth(99)), tints[DEPTHS - 1]);
    }

    #[test]
    fn colours_are_read_as_browsers_write_them() {
        let dark = |name: &str| match name {
            "ink" => "rgb(236, 238, 241)".to_owned(),
            "accent" => " #A3ADFF".to_owned(),
            _ => "light-dark(#fff, #000)".to_owned(),
        };
        let palette = Palette::read(dark);
        assert_eq!(palette.get(Ink::Text), RGBColor(236, 238, 241));
        assert_eq!(palette.get(Ink::Accent), RGBColor(0xa3, 0xad, 0xff));
        assert_eq!(palette.get(Ink::Grid), Palette::light().get(Ink::Grid));
    }
}
