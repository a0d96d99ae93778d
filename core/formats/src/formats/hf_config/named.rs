//! Parameters by name → the configuration that their family's class was built with.
//!
//! Neither a print nor a file of weights states a configuration, but both name every parameter with its sizes.
//! [`super::layouts`] maps sizes to settings, family by family. Settings without a size are assumed to have their
//! usual values, and reported: the width of a head, unless a norm of heads or a table by heads shows it; in a
//! print, whether the head shares the table of words; in a file, the dropout.
//!
//! The resulting program is compared with the given parameters, one by one. A model with an additional parameter,
//! or one of another size, does not belong to the family.

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::families::layouts;
use super::language::Expr;
use super::layouts::{self, Layout};
use super::settings::Settings;
use crate::config::{Config, Library};
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::Error;
use crate::formats::spec::tree;
use crate::graph::{Graph, Member};
use crate::sentence::Sentence;

/// What an input other than a configuration tells of a model.
#[derive(Debug, Default)]
pub(in crate::formats) struct Clues {
    /// Class of the model; none in a file of weights.
    pub(in crate::formats) class: Option<String>,
    /// Parameters and their sizes, by path.
    pub(in crate::formats) parameters: BTreeMap<String, Vec<u64>>,
    /// Modules whose parameters the file does not list.
    pub(in crate::formats) opaque: BTreeSet<String>,
    /// Probabilities of dropouts, by path.
    pub(in crate::formats) dropouts: BTreeMap<String, f64>,
    /// Activations by path, as configurations call them.
    pub(in crate::formats) activations: BTreeMap<String, String>,
    /// Type of the weights, as configurations call it.
    pub(in crate::formats) dtype: Option<&'static str>,
}

/// Ends of the names of parameters that may be another's: of the head, and of tables of words.
const SHARED: [&str; 8] = [
    "lm_head.weight",
    "lm_head.bias",
    "decoder.weight",
    "decoder.bias",
    "vocab_projector.weight",
    "generator_lm_head.weight",
    "embed_tokens.weight",
    "shared.weight",
];

/// Parameters that published files have beside those of the class that is trained.
const BESIDE: [&str; 3] =
    ["pooler.", "cls.seq_relationship.", "EncDecAttention.relative_attention_bias"];

/// Parameters that are not of a module of their own, so that no print has them.
const UNPRINTED: [&str; 7] = [
    "cls_token",
    "mask_token",
    "distillation_token",
    "position_embeddings",
    "predictions.bias",
    "lm_head.bias",
    "layer_scale_parameter",
];

/// The program of the family that such parameters are of, where one fits.
///
/// # Errors
/// When the families cannot be had.
pub(in crate::formats) fn program(named: &Clues) -> Result<Option<(Graph, Config)>, Error> {
    let layouts = layouts()?;
    let mut fitting = layouts.iter().filter(|layout| named.may_be(layout));
    Ok(fitting.find_map(|layout| of_layout(named, layout)))
}

/// The program of a family, where it has these parameters.
fn of_layout(named: &Clues, layout: &Layout) -> Option<(Graph, Config)> {
    let named = named.renamed(layout);
    let sought = Sought { named: &named, layout };
    let configuration = sought.configuration()?;
    let text = Json::Object(configuration).to_string();
    let tree = tree::parse(&text).ok()?;
    let (mut graph, config) = super::program(Settings::new(&tree), Library::default()).ok()?;
    let beside = sought.compare(&graph)?;
    graph.diagnostics.extend(sought.assumptions(&tree));
    graph.diagnostics.extend(beside);
    let message = say!(
        "read as a model of transformers with this configuration, which can be corrected, and opened in place of \
         this file: {text}",
        text
    );
    graph.diagnostics.push(Diagnostic::new(Severity::Info, "derived-configuration", message));
    Some((graph, config))
}

impl Clues {
    /// Whether the class is one of a family, or in a file, whether the family's marks are there.
    fn may_be(&self, layout: &Layout) -> bool {
        if let Some(class) = &self.class {
            return class.strip_prefix(layout.class).is_some_and(|rest| {
                rest.starts_with("For") || rest.starts_with("Model") || rest.starts_with("LMHead")
            });
        }
        let named = self.renamed(layout);
        let is_there = |mark: &&str| named.parameters.keys().any(|name| name.ends_with(*mark));
        if layout.least_words > 0 {
            let sought = Sought { named: &named, layout };
            if sought.vocab().is_none_or(|words| words < layout.least_words) {
                return false;
            }
        }
        !layout.marks.is_empty()
            && layout.marks.iter().all(is_there)
            && !layout.without.iter().any(is_there)
    }

    /// The same under the names of transformers 5.
    fn renamed(&self, layout: &Layout) -> Self {
        let name = |name: &str| {
            layout.renamed.iter().fold(name.to_owned(), |name, (old, new)| name.replace(old, new))
        };
        Self {
            class: self.class.clone(),
            parameters: mapped(&self.parameters, name),
            opaque: self.opaque.iter().map(|path| name(path)).into_set(),
            dropouts: mapped(&self.dropouts, name),
            activations: mapped(&self.activations, name),
            dtype: self.dtype,
        }
    }

    const fn is_file(&self) -> bool {
        self.class.is_none()
    }
}

fn mapped<T: Clone>(
    map: &BTreeMap<String, T>,
    name: impl Fn(&str) -> String,
) -> BTreeMap<String, T> {
    map.iter().map(|(key, value)| (name(key), value.clone())).into_map()
}

/// A family, and the parameters that may be of it.
struct Sought<'a> {
    named: &'a Clues,
    layout: &'a Layout,
}

impl Sought<'_> {
    /// A path of the family's, as it is given: files of a bare model have no prefix.
    fn under<'t, T>(&self, map: &'t BTreeMap<String, T>, path: &str) -> Option<&'t T> {
        map.get(&format!("{}.{path}", self.layout.base)).or_else(|| map.get(path))
    }

    fn size(&self, (path, axis): (&str, usize)) -> Option<u64> {
        self.under(&self.named.parameters, path)?.get(axis).copied()
    }

    /// COUNT: modules of a list, by the highest number.
    fn count(&self, list: &str) -> Option<u64> {
        let numbers = self.named.parameters.keys().filter_map(|name| {
            let behind =
                name.strip_prefix(self.layout.base).and_then(|name| name.strip_prefix('.'));
            let behind = behind.unwrap_or(name).strip_prefix(list)?.strip_prefix('.')?;
            behind.split('.').next()?.parse::<u64>().ok()
        });
        numbers.max()?.checked_add(1)
    }

    /// What a row of the layout asks for.
    fn shown(&self, name: &str, given: &[Json]) -> Option<Json> {
        let (path, more) = given.split_first()?;
        let path = path.as_str()?;
        match (name, more) {
            ("size", [axis]) => {
                self.size((path, usize::try_from(axis.as_u64()?).ok()?)).map(Json::from)
            }
            ("count", []) => self.count(path).map(Json::from),
            ("has", []) => Some(Json::from(self.under(&self.named.parameters, path).is_some())),
            ("drop", []) => self.under(&self.named.dropouts, path).copied().map(Json::from),
            ("act", []) => self.under(&self.named.activations, path).cloned().map(Json::from),
            _ => None,
        }
    }

    fn value(&self, row: &Expr<'_>) -> Option<Json> {
        layouts::value(row, &|name, given| self.shown(name, given))
    }

    /// The width of all heads of a row.
    fn width(&self, row: &(&'static str, Expr<'_>)) -> Option<u64> {
        self.value(&row.1)?.as_u64()
    }

    /// COUNT: rows of the vocabulary.
    fn vocab(&self) -> Option<u64> {
        let (_, row) = self.layout.settings.iter().find(|(key, _)| *key == "vocab_size")?;
        self.value(row)?.as_u64()
    }

    fn configuration(&self) -> Option<Map<String, Json>> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Json| map.insert(key.to_owned(), value);
        let class = self.class();
        put("model_type", Json::from(self.layout.model_type));
        put("architectures", Json::from(vec![class]));
        for (key, row) in &self.layout.settings {
            if let Some(value) = self.value(row) {
                put(key, value);
            }
        }
        if let Some(row) = self.layout.heads.first() {
            let queries = self.width(row)?;
            let keys = self.layout.heads.get(1);
            let keys_width = keys.and_then(|keys| self.width(keys));
            let stated = self.layout.norm.and_then(|norm| self.size((norm, 0)));
            let divides = |n: &u64| {
                *n > 0
                    && queries.is_multiple_of(*n)
                    && keys_width.is_none_or(|k| k.is_multiple_of(*n))
            };
            let width = self.layout.head_width(queries, self.vocab());
            let usual = [width, 64, 80, 96, 128, 32, 16, 8];
            let head = stated.into_iter().chain(usual).find(divides)?;
            put(row.0, Json::from(queries.checked_div(head)?));
            if let Some(((key, _), keys)) = keys.zip(keys_width) {
                put(key, Json::from(keys.checked_div(head)?));
                put("head_dim", Json::from(head));
            }
        }
        let rows = ["score", "classifier", "classifier.out_proj"].iter().find_map(|head| {
            self.named.parameters.get(&format!("{head}.weight"))?.first().copied()
        });
        if let Some(rows) = rows {
            put("num_labels", Json::from(rows));
        }
        if let Some(tied) = self.ties() {
            put("tie_word_embeddings", Json::from(tied));
        }
        if let Some(dtype) = self.named.dtype {
            put("dtype", Json::from(dtype));
        }
        Some(map)
    }

    /// The class of the model: as it is printed, or by what a file has beside the bare model.
    fn class(&self) -> String {
        if let Some(class) = &self.named.class {
            return class.clone();
        }
        let has = |start: &str| self.named.parameters.keys().any(|name| name.starts_with(start));
        let end = if has("score.") {
            "ForSequenceClassification"
        } else if has("classifier.") && self.layout.head == "ForImageClassification" {
            self.layout.head
        } else if has("classifier.dense.") || has("pre_classifier.") {
            "ForSequenceClassification"
        } else if has("classifier.") {
            let pools = self.named.parameters.keys().any(|name| name.contains("pooler."));
            if pools { "ForSequenceClassification" } else { "ForTokenClassification" }
        } else if self.layout.head_parts.is_empty()
            || self.layout.head_parts.iter().any(|start| has(start))
        {
            self.layout.head
        } else {
            "Model"
        };
        format!("{}{end}", self.layout.class)
    }

    /// Whether the head has the words' table: a file has it once then. A print does not say: it is
    /// what the family's published models do.
    fn ties(&self) -> Option<bool> {
        let words = self.layout.words?;
        if self.named.is_file() {
            return Some(!self.named.parameters.contains_key("lm_head.weight"));
        }
        let [vocab, width] = [self.size((words, 0))?, self.size((words, 1))?];
        self.layout.ties(vocab, width)
    }

    /// What a file has beside the program, if that is all that differs.
    fn compare(&self, graph: &Graph) -> Option<Vec<Diagnostic>> {
        let values = graph.values.iter().filter_map(|value| {
            Some((value.name.as_str(), value.initializer.as_ref()?.dims.as_slice()))
        });
        let values = values.into_map();
        let parameters = graph.members.iter().filter(|(_, member)| *member == Member::Parameter);
        let base = format!("{}.", self.layout.base);
        let given = &self.named.parameters;
        let mut shared = BTreeSet::new();
        for (name, _) in parameters {
            let bare = name.strip_prefix(&base).unwrap_or(name);
            let dims = *values.get(name.as_str())?;
            match given.get(name).or_else(|| given.get(bare)) {
                Some(found) if found.as_slice() == dims => {
                    shared.extend(dims.first().copied());
                }
                Some(_) => return None,
                None => {
                    let unprinted = UNPRINTED.iter().any(|end| name.ends_with(end)) || {
                        let module = name.rsplit_once('.').map_or("", |(module, _)| module);
                        self.named.opaque.contains(module)
                    };
                    // The bias of a head may be there under the name of the layer that shares it.
                    let elsewhere =
                        ["predictions.bias", "lm_head.bias"].iter().any(|end| name.ends_with(end))
                            && given.keys().any(|name| name.ends_with("decoder.bias"));
                    if !(unprinted && !self.named.is_file() || elsewhere) {
                        return None;
                    }
                }
            }
        }
        let mut beside = Vec::new();
        for (name, dims) in given {
            let whole = format!("{base}{name}");
            if values.contains_key(name.as_str()) || values.contains_key(whole.as_str()) {
                continue;
            }
            let is_shared = SHARED.iter().any(|end| name.ends_with(end))
                && dims.first().is_some_and(|rows| shared.contains(rows));
            if is_shared {
                continue;
            }
            if !self.named.is_file() || !BESIDE.iter().any(|part| name.contains(part)) {
                return None;
            }
            beside.push(name.as_str());
        }
        if beside.is_empty() {
            return Some(Vec::new());
        }
        let message = say!(
            "`{name}` does not read {n} of the file's parameters, which are left out: {names}",
            name = graph.name,
            n = beside.len(),
            names = beside.join(", ")
        );
        Some(vec![Diagnostic::new(Severity::Info, "left-out", message)])
    }

    /// What was taken as usual.
    fn assumptions(&self, tree: &tree::Tree) -> Vec<Diagnostic> {
        let mut said = Vec::new();
        let mut say_as = |severity, code, message: Sentence| {
            said.push(Diagnostic::new(severity, code, message));
        };
        let mut say = |code, message| say_as(Severity::Info, code, message);
        let c = Settings::new(tree);

        if let Some(row) = self.layout.heads.first()
            && self.layout.norm.is_none_or(|norm| self.size((norm, 0)).is_none())
            && let (Ok(Some(heads)), Some(width)) = (c.maybe(&[row.0]), self.width(row))
        {
            let width = width.checked_div(heads).unwrap_or(0);
            let message = if self.named.is_file() {
                say!(
                    "names of parameters do not state how many heads there are; {heads} of {width} are assumed, \
                     as is usual for this width",
                    heads,
                    width
                )
            } else {
                say!(
                    "a print does not state how many heads there are; {heads} of {width} are assumed, as is usual \
                     for this width",
                    heads,
                    width
                )
            };
            say("assumed-heads", message);
        }
        let has_head = self.named.parameters.contains_key("lm_head.weight");
        if self.named.is_file() {
            let message = say!(
                "names and sizes of parameters are those of the family `{model_type}`; activations, dropout and \
                 how long its sequences may be are that family's defaults",
                model_type = self.layout.model_type
            );
            say("assumed-family", message);
        }
        if let Some(words) = self.layout.words.filter(|_| !self.named.is_file() && has_head) {
            let is_one = c.flag(&["tie_word_embeddings"], true);
            let one = if is_one { say!("one tensor") } else { say!("two tensors") };
            // Models of one family differ in it by their size.
            let differs = self.layout.ties(u64::MAX, 1) != self.layout.ties(1, u64::MAX);
            let severity = if differs { Severity::Warning } else { Severity::Info };
            let message = say!(
                "`lm_head.weight` and `{words}` are assumed to be {one}, as is usual for the family",
                words,
                one
            );
            say_as(severity, "assumed-tied-weights", message);
        }
        said
    }
}
