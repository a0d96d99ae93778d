//! How tensor parallelism divides the layers of a family: `base_model_tp_plan` of transformers' configurations.

use super::run::Run;
use super::value::{Arguments, Value};
use crate::error::{Error, ErrorKind};

/// Layers that all models of such families have besides: the table of words, and the head of those that guess the next.
const OF_ALL: [(&str, Style); 2] = [("embed_tokens", Style::Words), ("lm_head", Style::Gathered)];

/// COUNT: layers that a plan may name.
const NAMED_MAX: usize = 64;

/// Settings that are divided, if heads are.
const HEADS: [&str; 2] = ["num_attention_heads", "num_key_value_heads"];

/// How a layer is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// By its outputs: `colwise`.
    Columns,
    /// By its outputs, which are then gathered: `colwise_gather_output`.
    Gathered,
    /// By its inputs, of which each rank has its part: `rowwise`.
    Rows,
    /// By its inputs, which all ranks have: `rowwise_split_input`.
    Split,
    /// By the rows of a table: `embedding_rowwise`.
    Words,
}

/// The styles that a family states, under the names of arguments.
const STYLES: [(&str, Style); 4] = [
    ("colwise", Style::Columns),
    ("rowwise", Style::Rows),
    ("gathered", Style::Gathered),
    ("split", Style::Split),
];

impl Style {
    /// What families call it.
    const fn name(self) -> &'static str {
        match self {
            Self::Columns => "colwise",
            Self::Gathered => "gathered",
            Self::Rows => "rowwise",
            Self::Split => "split",
            Self::Words => "words",
        }
    }

    /// The dimension of a parameter that is divided, of so many; `None` where each rank has all of it.
    const fn divided(self, rank: usize) -> Option<usize> {
        match self {
            Self::Columns | Self::Gathered | Self::Words => Some(0),
            Self::Rows | Self::Split if rank > 1 => Some(1),
            Self::Rows | Self::Split => None,
        }
    }
}

/// The plan of a family, and into how many parts it divides.
#[derive(Debug, Default)]
pub(super) struct Plan<'t> {
    pub(super) parts: u64,
    styles: Vec<(&'t str, Style)>,
    /// The file that states it: a family does not take it from the one that it is like.
    file: &'t str,
}

impl Plan<'_> {
    /// How the layer at a path is divided.
    fn style(&self, path: &str) -> Option<Style> {
        let is_at = |end: &str| {
            path.strip_suffix(end).is_some_and(|front| front.is_empty() || front.ends_with('.'))
        };
        self.styles.iter().find(|(end, _)| is_at(end)).map(|(_, style)| *style)
    }
}

impl<'t> Run<'t> {
    /// Functions of layers that are divided.
    pub(super) fn of_plan(
        &mut self,
        name: &str,
        arguments: &Arguments<'t>,
    ) -> Result<Value<'t>, Error> {
        match name {
            "division" => Ok(self.style()),
            "parts" => Ok(self.parts()),
            _ => self.plan(arguments).map(|()| Value::None),
        }
    }

    /// `tensor_parallel(colwise=…, rowwise=…)`: ends of the paths of layers.
    fn plan(&mut self, arguments: &Arguments<'t>) -> Result<(), Error> {
        let named = arguments.named.iter().map(|(name, list)| (*name, list));
        let plain = STYLES.iter().map(|(name, _)| *name).zip(&arguments.plain);
        let mut styles = Vec::new();
        for (name, list) in plain.chain(named) {
            let style = STYLES.iter().find(|(known, _)| *known == name).map(|(_, style)| *style);
            let Some(style) = style else {
                return Err(self.mistake(&say!("`{name}` is no way to divide a layer", name)));
            };
            for end in self.items(list)?.iter() {
                match end {
                    Value::Text(end, _) if styles.len() < NAMED_MAX => styles.push((*end, style)),
                    _ => return Err(self.mistake(&say!("a plan has the names of layers"))),
                }
            }
        }
        styles.extend(OF_ALL);
        let (parts, file) = (self.plan.parts, self.file());
        self.plan = Plan { parts, styles, file };
        Ok(())
    }

    /// Refuses a family without a plan of its own, and sizes that cannot be divided.
    pub(super) fn check_plan(&self, file: &str, family: &str) -> Result<(), Error> {
        let parts = self.plan.parts;
        let refuse = |message| Err(Error::new(ErrorKind::BadConfig, message).about("mesh"));
        if parts < 2 {
            return Ok(());
        }
        if self.plan.file != file || self.plan.styles.is_empty() {
            return refuse(say!(
                "how transformers divides layers of the family {family} is not known here: leave `tp` out of the mesh; \
                 families such as llama, mistral, qwen2, qwen3, gemma, phi3 and olmo2 can be divided",
                family
            ));
        }
        let divides_heads = self.plan.styles.iter().any(|(end, style)| {
            *style == Style::Columns
                && (end.ends_with("k_proj") || end.ends_with("query_key_value"))
        });
        for name in HEADS.iter().filter(|_| divides_heads) {
            let count = self.setting_of(name);
            if let Some(count) = count.filter(|count| !count.is_multiple_of(parts)) {
                return refuse(say!(
                    "{count} `{name}` cannot be divided by {parts} ranks: choose a `tp` that divides the heads",
                    count,
                    name = *name,
                    parts
                ));
            }
        }
        Ok(())
    }

    /// This rank's part of a parameter.
    pub(super) fn part_of(&mut self, sizes: &mut [u64]) -> Result<(), Error> {
        let parts = self.plan.parts;
        if parts < 2 {
            return Ok(());
        }
        let module = self.naming.rsplit_once('.').map_or("", |(module, _)| module);
        let Some(style) = self.plan.style(module) else { return Ok(()) };
        self.builder.graph.spread.insert(self.naming.clone());
        let rank = sizes.len();
        let Some(size) = style.divided(rank).and_then(|axis| sizes.get_mut(axis)) else {
            return Ok(());
        };
        if !size.is_multiple_of(parts) {
            let message = say!(
                "`{name}` is {size} wide, which cannot be divided by {parts} ranks: choose a `tp` that divides it",
                name = self.naming.as_str(),
                size = *size,
                parts
            );
            return Err(Error::new(ErrorKind::BadConfig, message).about("mesh"));
        }
        *size = size.div_euclid(parts);
        Ok(())
    }

    /// How the layer that runs is divided: a name, and nothing where it is not.
    fn style(&self) -> Value<'t> {
        let style = self.plan.style(&self.path).filter(|_| self.plan.parts > 1);
        Value::Text(style.map_or("", Style::name), "")
    }

    /// COUNT: parts of a layer.
    fn parts(&self) -> Value<'t> {
        Value::Int(i64::try_from(self.plan.parts.max(1)).unwrap_or(i64::MAX))
    }
}
