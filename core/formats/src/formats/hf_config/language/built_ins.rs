//! Operators of the language, and the functions that every text may call.

use super::super::settings::{LAYERS_MAX, Settings};
use super::parser::Expr;
use super::run::{Run, called};
use super::value::{Arguments, Value};
use crate::config::Sizes;
use crate::diagnostic::{Diagnostic, Severity};
use crate::error::{Error, ErrorKind};
use crate::formats::builder::joined;
use crate::graph::{Attribute, Dim, Member, ValueId};
use crate::sentence::{Part, Sentence};
use crate::tensor::DType;

/// Where the values of a note stand in its template.
const PLACES: [&str; 4] = ["{1}", "{2}", "{3}", "{4}"];

/// COUNT: nodes that a model may have.
const NODES_MAX: usize = 400_000;

/// COUNT: items of a list that is repeated, at most.
const REPEATED_MAX: usize = 64;

/// COUNT: items of a list to which another is added, at most.
const ADDED_MAX: usize = 1024;

/// COUNT: copies of one value in a list.
const COPIES_MAX: i64 = 8;

/// Setting of torchvision's classes for the number of classes.
const CLASSES_OF_TORCHVISION: &str = "num_classes";

/// COUNT: tokens and batch where nobody says.
const USUAL: [u64; 2] = [512, 8];

/// Functions of every text: lists, settings and what is said about them, inputs, state, operators.
const BUILT_INS: [&str; 31] = [
    "range",
    "len",
    "each",
    "add_module",
    "scaled",
    "setting",
    "stated",
    "states_null",
    "words",
    "count_labels",
    "fault",
    "note",
    "tokens",
    "window",
    "targets",
    "position_ids",
    "cached",
    "kept_layers",
    "numbers",
    "image",
    "side",
    "labels",
    "Parameter",
    "Buffer",
    "freeze",
    "recomputes",
    "op",
    "family",
    "tensor_parallel",
    "division",
    "parts",
];

impl<'t> Run<'t> {
    pub(super) fn find_built_in(name: &str) -> Option<Value<'t>> {
        BUILT_INS.iter().find(|known| **known == name).map(|name| Value::BuiltIn(name))
    }

    pub(super) fn built_in(
        &mut self,
        name: &'static str,
        arguments: Arguments<'t>,
    ) -> Result<Value<'t>, Error> {
        let Arguments { plain, named } = arguments;
        match (name, plain.as_slice()) {
            ("op", [Value::Text(op, _), inputs @ ..]) => self.operator(op, inputs, named),
            ("Parameter", sizes) => self.state(Member::Parameter, sizes, &named),
            ("Buffer", sizes) => self.state(Member::Buffer, sizes, &named),
            ("tokens", []) => Ok(self.tokens(None)),
            ("tokens", [Value::Int(longest)]) => Ok(self.tokens(Some(*longest))),
            ("targets", []) => Ok(self.targets()),
            ("position_ids" | "cached" | "kept_layers", given) => self.of_cache(name, given),
            ("window", [Value::Int(window)]) => {
                self.builder.graph.window = u64::try_from(*window).ok();
                Ok(Value::None)
            }
            ("numbers", sizes) => self.numbers(DType::Float32, sizes),
            ("image", [channels, sides @ ..]) => self.image(channels, sides),
            ("side", [Value::Int(side)]) => self.side(*side).map(Value::Int),
            ("labels", sizes) => self.numbers(DType::Int64, sizes),
            ("family", [Value::Text(..)]) => Ok(Value::None),
            ("range", [Value::Int(end)]) => Ok(Value::List((0..*end).map(Value::Int).collect())),
            ("len", [list]) => {
                let count = self.items(list)?.len();
                Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
            }
            ("each", [list @ Value::List(_), Value::Int(_)]) => Ok(list.clone()),
            ("each", [value, Value::Int(count @ 0..=COPIES_MAX)]) => {
                Ok(Value::List((0..*count).map(|_| value.clone()).collect()))
            }
            (
                "add_module",
                [owner, Value::Text(name, _), Value::List(numbers), class, plain @ ..],
            ) => {
                let made = Arguments { plain: plain.to_vec(), named };
                self.add_module(owner, (name, numbers), class, made)
            }
            ("scaled", [Value::Int(n), Value::Float(factor)]) => {
                Ok(Value::Int(scaled(*n, *factor)))
            }
            ("setting", [Value::Text(name, _), usual]) => self.read(self.c, &[name], usual),
            ("stated", [Value::Text(name, _)]) => {
                self.seen.push(name);
                Ok(Value::Flag(self.c.has(name)))
            }
            ("states_null", [Value::Text(name, _)]) => Ok(Value::Flag(self.c.states_null(name))),
            ("words", [Value::Text(name, _)]) => {
                self.seen.push(name);
                let words = self.c.words(name).into_iter().flat_map(|text| text.split('|'));
                Ok(Value::List(words.map(|word| Value::Text(word.trim(), name)).collect()))
            }
            ("count_labels", []) => self.labels(),
            ("fault", [Value::Text(text, setting), Value::Text(message, _)]) => {
                let name = if setting.is_empty() { text } else { setting };
                Err(self.fault(name, &Sentence::read(message)))
            }
            ("note", [Value::Text(code, _), Value::Text(message, _), values @ ..]) => {
                self.note(code, message, values);
                Ok(Value::None)
            }
            ("freeze", [module]) => {
                let path = self.path_of(module).unwrap_or_default().to_owned();
                self.frozen.push(path);
                Ok(Value::None)
            }
            ("recomputes", [Value::List(modules)]) => {
                let paths = modules.iter().filter_map(|module| self.path_of(module));
                let paths: Vec<String> = paths.map(str::to_owned).collect();
                self.builder.graph.recomputed.extend(paths);
                Ok(Value::None)
            }
            _ => Err(self.mistake(&say!("`{name}` is not given what it takes", name))),
        }
    }

    // Settings.

    /// A setting, of the type of its default.
    pub(super) fn setting(
        &mut self,
        c: Settings<'t>,
        names: &'t [&'t str],
        usual: &Value<'t>,
    ) -> Result<Value<'t>, Error> {
        self.stated.insert(names.first().copied().unwrap_or_default(), (c, names));
        self.read(c, names, usual)
    }

    fn read(
        &mut self,
        c: Settings<'t>,
        names: &[&'t str],
        usual: &Value<'t>,
    ) -> Result<Value<'t>, Error> {
        self.seen.extend(names);
        let first = names.first().copied().unwrap_or_default();
        if first == CLASSES_OF_TORCHVISION
            && let Value::Int(usual) = usual
        {
            let stated = c.maybe(names)?.unwrap_or_else(|| u64::try_from(*usual).unwrap_or(1));
            return Ok(whole(self.classes(stated)));
        }
        Ok(match usual {
            Value::None => c.maybe(names)?.map_or(Value::None, whole),
            Value::Int(1..) => c.maybe(names)?.map_or_else(|| usual.clone(), whole),
            Value::Int(_) => c.above_zero(names)?.map_or_else(|| usual.clone(), whole),
            Value::Float(x) => Value::Float(c.number(names, *x)),
            Value::Flag(flag) => Value::Flag(c.flag(names, *flag)),
            Value::Text(text, _) => Value::Text(c.word(names).unwrap_or(text), first),
            Value::List(_) => match c.counts(names)? {
                Some(list) => Value::List(list.into_iter().map(whole).collect()),
                None => usual.clone(),
            },
            other => {
                return Err(self.mistake(&say!("a setting is never {kind}", kind = other.kind())));
            }
        })
    }

    fn fault(&self, name: &str, message: &Sentence) -> Error {
        match self.stated.get(name) {
            Some((c, names)) => c.fault(names, message),
            None => self.c.fault(&[name], message),
        }
    }

    /// A range is that of layers, and there is a largest number of those.
    pub(super) fn bound(&self, end: &Expr<'t>, given: &Arguments<'t>) -> Result<(), Error> {
        match given.plain.as_slice() {
            [Value::Int(count)] if *count > LAYERS_MAX => {
                let unnamed = (self.c, <&[&str]>::default());
                let (c, names) = self.stated.get(called(end)).copied().unwrap_or(unnamed);
                Err(c.too_many(names, *count))
            }
            _ => Ok(()),
        }
    }

    /// COUNT: classes of a head that states so many, or as many as the user chose.
    fn classes(&mut self, stated: u64) -> u64 {
        self.options.insert(Sizes::CLASSES, Some(stated));
        self.asked.classes.unwrap_or(stated)
    }

    /// SIZE: the side of the pictures that a model is built for: that of its configuration, or the user's.
    fn side(&mut self, stated: i64) -> Result<i64, Error> {
        let Sizes { height, width, .. } = self.asked;
        let size = u64::try_from(stated).ok();
        self.options.extend([(Sizes::HEIGHT, size), (Sizes::WIDTH, size)]);
        let [Some(height), Some(width)] = [height.or(width), width.or(height)] else {
            return Ok(stated);
        };
        if height != width {
            let message = say!(
                "pictures of {height} by {width}: this model is built for square ones, so choose one size for both",
                height,
                width
            );
            return Err(Error::new(ErrorKind::BadConfig, message));
        }
        let side = i64::try_from(height).unwrap_or(i64::MAX);
        let code = "assumed-image-size";
        if side != stated && self.diagnostics.iter().all(|note| note.code != code) {
            let message = say!(
                "the model is assumed to be built for pictures of {side} by {side}; its configuration is for {stated}",
                side,
                stated
            );
            self.diagnostics.push(Diagnostic::new(Severity::Info, code, message));
        }
        Ok(side)
    }

    /// COUNT: classes of a head, of which a configuration has names.
    fn labels(&mut self) -> Result<Value<'t>, Error> {
        let named = self.c.part("id2label").map(|names| names.keys().count());
        let named = named.and_then(|count| u64::try_from(count).ok()).filter(|&count| count > 0);
        let count = self.c.maybe(&["num_labels"])?.or(named).unwrap_or(2);
        Ok(whole(self.classes(count)))
    }

    fn note(&mut self, code: &'t str, message: &str, values: &[Value<'t>]) {
        let mut template = message.to_owned();
        for (at, _) in values.iter().enumerate() {
            template = template.replacen("{}", PLACES.get(at).copied().unwrap_or("{}"), 1);
        }
        let mut note = Sentence::read(&template);
        for (place, value) in PLACES.iter().zip(values) {
            let value = match value {
                Value::Int(n) => Part::Name(n.to_string()),
                Value::Text(text, _) => Part::from(*text),
                other => Part::Sentence(other.kind()),
            };
            note = note.with(place.trim_matches(['{', '}']), value);
        }
        self.diagnostics.push(Diagnostic::new(Severity::Info, code, note));
    }

    // Inputs and state.

    /// An input of tokens; `longest` is the longest that the model takes, if there is one.
    fn tokens(&mut self, longest: Option<i64>) -> Value<'t> {
        let [tokens, batch] = USUAL;
        let longest = longest.map(|longest| u64::try_from(longest).unwrap_or(0));
        self.builder.graph.positions = longest;
        self.dims.insert("batch".to_owned(), batch);
        let usual = longest.map_or(tokens, |longest| longest.min(tokens));
        if !self.knows("decodes") {
            self.dims.entry("seq".to_owned()).or_insert(usual);
        }
        let dims = vec![Dim::Named("batch".to_owned()), self.length_of_texts()];
        Value::Tensor(self.builder.input(self.input, DType::Int64, dims))
    }

    /// Functions of models that keep keys and values.
    fn of_cache(
        &mut self,
        name: &'static str,
        arguments: &[Value<'t>],
    ) -> Result<Value<'t>, Error> {
        match (name, arguments) {
            ("position_ids", []) => Ok(self.position_ids()),
            ("cached", [new @ Value::Tensor(_), Value::Int(heads), Value::Int(width), window]) => {
                self.cached(new, [*heads, *width], window.is_true())
            }
            ("kept_layers", []) => {
                let layers = self.builder.graph.cache.len().div_euclid(2);
                Ok(Value::Int(i64::try_from(layers).unwrap_or(i64::MAX)))
            }
            _ => Err(self.mistake(&say!("`{name}` is not given what it takes", name))),
        }
    }

    /// Positions of the tokens that a pass reads, which `generate` gives.
    fn position_ids(&mut self) -> Value<'t> {
        let dims = vec![Dim::Named("batch".to_owned()), self.length_of_texts()];
        Value::Tensor(self.builder.input("position_ids", DType::Int64, dims))
    }

    fn length_of_texts(&self) -> Dim {
        let decodes = self.knows("decodes");
        if decodes { Dim::Known(1) } else { Dim::Named("seq".to_owned()) }
    }

    /// Keys or values `[N, heads, tokens, width]` of all tokens so far: those of a pass behind those that were kept. A
    /// layer with a window keeps as many as that.
    fn cached(
        &mut self,
        new: &Value<'t>,
        [heads, width]: [i64; 2],
        has_window: bool,
    ) -> Result<Value<'t>, Error> {
        let new = self.operand(new)?;
        let past = self.knows("decodes").then(|| {
            let known = |n: i64| Dim::Known(u64::try_from(n).unwrap_or(0));
            let tokens = if has_window { Sizes::PAST_OF_WINDOW } else { Sizes::PAST };
            self.dims.insert(tokens.to_owned(), 1);
            let tokens = Dim::Named(tokens.to_owned());
            let dims = vec![Dim::Named("batch".to_owned()), known(heads), tokens, known(width)];
            let name = format!("past_key_values.{}", self.builder.graph.cache.len());
            self.builder.input(&name, DType::Float32, dims)
        });
        let inputs = past.into_iter().chain([new]).map(Some).collect();
        let nothing: [(&str, Attribute); 0] = [];
        let made = self.builder.run(&self.path, "torch.Cached", inputs, nothing, 1);
        let Some(&kept) = made.first() else { return Ok(Value::None) };
        self.builder.graph.cache.push((past, kept));
        Ok(Value::Tensor(kept))
    }

    /// The decoder's text, an input of its own where its length is chosen; else it is as long as the encoder's.
    fn targets(&mut self) -> Value<'t> {
        self.options.insert(Sizes::TARGET, None);
        if self.asked.target.is_none() {
            return Value::None;
        }
        let dims = ["batch", Sizes::TARGET].map(|name| Dim::Named(name.to_owned()));
        Value::Tensor(self.builder.input(self.input, DType::Int64, dims.to_vec()))
    }

    /// An input of pictures of any size: height and width where nobody chooses, and how their names begin.
    fn image(&mut self, channels: &Value<'t>, sides: &[Value<'t>]) -> Result<Value<'t>, Error> {
        let (sides, of) = match sides {
            [sides @ .., Value::Text(of, _)] => (sides, *of),
            sides => (sides, ""),
        };
        let [_, batch] = USUAL;
        self.dims.insert("batch".to_owned(), batch);
        let mut dims = vec![Dim::Named("batch".to_owned())];
        dims.extend(self.sizes(std::slice::from_ref(channels))?.into_iter().map(Dim::Known));
        for (name, size) in [Sizes::HEIGHT, Sizes::WIDTH].into_iter().zip(self.sizes(sides)?) {
            let name = format!("{of}{name}");
            self.dims.insert(name.clone(), size);
            dims.push(Dim::Named(name));
        }
        Ok(Value::Tensor(self.builder.input(self.input, DType::Float32, dims)))
    }

    /// An input of numbers, whose batch is open.
    fn numbers(&mut self, dtype: DType, sizes: &[Value<'t>]) -> Result<Value<'t>, Error> {
        let [_, batch] = USUAL;
        self.dims.insert("batch".to_owned(), batch);
        let sizes = self.sizes(sizes)?.into_iter().map(Dim::Known);
        let dims = [Dim::Named("batch".to_owned())].into_iter().chain(sizes).collect();
        Ok(Value::Tensor(self.builder.input(self.input, dtype, dims)))
    }

    /// A module of that class, under a name with numbers in it: `block{}-{}`.
    fn add_module(
        &mut self,
        owner: &Value<'t>,
        (name, numbers): (&str, &[Value<'t>]),
        class: &Value<'t>,
        arguments: Arguments<'t>,
    ) -> Result<Value<'t>, Error> {
        let Some(path) = self.path_of(owner) else {
            return Err(self.mistake(&say!("{kind} has no modules", kind = owner.kind())));
        };
        let mut path = joined(path, name);
        for number in self.ints(numbers)? {
            path = path.replacen("{}", &number.to_string(), 1);
        }
        let outside = std::mem::replace(&mut self.naming, path);
        let made = self.call(class.clone(), arguments);
        self.naming = outside;
        made
    }

    fn sizes(&self, sizes: &[Value<'t>]) -> Result<Vec<u64>, Error> {
        let size = |value: &Value<'t>| match value {
            Value::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        };
        let sizes: Option<Vec<u64>> = sizes.iter().map(size).collect();
        sizes.ok_or_else(|| self.mistake(&say!("sizes are whole numbers")))
    }

    fn state(
        &mut self,
        member: Member,
        sizes: &[Value<'t>],
        named: &[(&'t str, Value<'t>)],
    ) -> Result<Value<'t>, Error> {
        let dtype = match named {
            [] => DType::Float32,
            [("dtype", Value::Text("int64", _))] => DType::Int64,
            [("dtype", Value::Text("bool", _))] => DType::Bool,
            _ => return Err(self.mistake(&say!("the type of a tensor is int64 or bool"))),
        };
        let mut sizes = self.sizes(sizes)?;
        if member == Member::Parameter {
            self.part_of(&mut sizes)?;
        }
        let id = self.builder.state(&self.naming, dtype, &sizes);
        self.builder.register(&self.naming, member);
        Ok(Value::Tensor(id))
    }

    // Operators.

    /// Runs an operator; those of PyTorch's that ONNX lacks are `torch.Linear`.
    fn operator(
        &mut self,
        op: &str,
        inputs: &[Value<'t>],
        named: Vec<(&'t str, Value<'t>)>,
    ) -> Result<Value<'t>, Error> {
        let mut ids = Vec::new();
        for input in inputs.iter().filter(|input| !matches!(input, Value::None)) {
            ids.push(Some(self.operand(input)?));
        }
        let (mut outputs, mut attributes) = (None, Vec::new());
        for (name, value) in named {
            let attribute = match value {
                Value::Int(n) if name == "outputs" => {
                    outputs = usize::try_from(n).ok().filter(|&n| n <= REPEATED_MAX);
                    continue;
                }
                Value::Int(n) => Attribute::Int(n),
                Value::Flag(flag) => Attribute::Int(i64::from(flag)),
                Value::Float(x) => Attribute::Float(x),
                Value::List(list) => Attribute::Ints(self.ints(&list)?),
                other => {
                    return Err(self.mistake(&say!(
                        "`{name}` is {kind}",
                        name,
                        kind = other.kind()
                    )));
                }
            };
            attributes.push((name, attribute));
        }
        if self.builder.graph.nodes.len() >= NODES_MAX {
            let message =
                say!("the model has more than {nodes_max} operators", nodes_max = NODES_MAX);
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let made = self.builder.run(&self.path, op, ids, attributes, outputs.unwrap_or(1));
        let mut made = made.into_iter().map(Value::Tensor);
        Ok(match outputs {
            Some(_) => Value::List(made.collect()),
            None => made.next().unwrap_or(Value::None),
        })
    }

    fn ints(&self, list: &[Value<'t>]) -> Result<Vec<i64>, Error> {
        let int = |value: &Value<'t>| match value {
            Value::Int(n) => Some(*n),
            _ => None,
        };
        let ints: Option<Vec<i64>> = list.iter().map(int).collect();
        ints.ok_or_else(|| self.mistake(&say!("these are not all whole numbers")))
    }

    /// What an operator reads: a tensor, or numbers that Python knows. Of a list of sizes, some may
    /// be tensors of one number.
    fn operand(&mut self, value: &Value<'t>) -> Result<ValueId, Error> {
        Ok(match value {
            Value::Tensor(id) => *id,
            Value::Int(n) => self.builder.int(*n),
            Value::Float(x) => self.builder.float(*x),
            Value::List(list) => {
                if let Ok(ints) = self.ints(list) {
                    return Ok(self.builder.ints(&ints));
                }
                if let Some(floats) = floats(list) {
                    return Ok(self.builder.floats(floats));
                }
                let mut parts = Vec::new();
                for item in list.iter() {
                    parts.push(Some(match item {
                        Value::Int(n) => self.builder.ints(&[*n]),
                        item => self.operand(item)?,
                    }));
                }
                let axis = [("axis", Attribute::Int(0))];
                let made = self.builder.run(&self.path, "Concat", parts, axis, 1);
                made.first().copied().unwrap_or(ValueId(0))
            }
            other => {
                return Err(self.mistake(&say!("no operator reads {kind}", kind = other.kind())));
            }
        })
    }

    /// `a += b`, which overwrites a tensor.
    pub(super) fn increased(&mut self, a: Value<'t>, b: Value<'t>) -> Result<Value<'t>, Error> {
        match a {
            Value::Tensor(_) => self.operator("Add", &[a, b], vec![("in_place", Value::Int(1))]),
            _ => self.arithmetic("+", &a, &b),
        }
    }

    pub(super) fn negated(&mut self, value: &Value<'t>) -> Result<Value<'t>, Error> {
        match value {
            Value::Int(n) => Ok(Value::Int(n.saturating_neg())),
            Value::Tensor(_) => self.operator("Neg", std::slice::from_ref(value), Vec::new()),
            other => Err(self.mistake(&say!("{kind} has no opposite", kind = other.kind()))),
        }
    }

    /// `left sign right`.
    pub(super) fn combined(
        &mut self,
        sign: &'static str,
        left: &'t Expr<'t>,
        right: &'t Expr<'t>,
    ) -> Result<Value<'t>, Error> {
        let a = self.value(left)?;
        match sign {
            "or" if a.is_true() => return Ok(a),
            "and" if !a.is_true() => return Ok(a),
            "or" | "and" => return self.value(right),
            _ => {}
        }
        let b = if sign == "+" { self.added_to(&a, right)? } else { self.value(right)? };
        match (sign, &a, &b) {
            ("is", a, b) => Ok(Value::Flag(a.equals(b))),
            ("in", a, b) => Ok(Value::Flag(self.items(b)?.iter().any(|item| item.equals(a)))),
            ("/", Value::Int(a), Value::Int(b)) => {
                let what = say!("{a} and {b}", a = called(right), b = called(left));
                self.c.divide(*a, *b, &what).map(Value::Int)
            }
            _ => self.arithmetic(sign, &a, &b),
        }
    }

    fn arithmetic(&mut self, sign: &str, a: &Value<'t>, b: &Value<'t>) -> Result<Value<'t>, Error> {
        if matches!(a, Value::Tensor(_)) || matches!(b, Value::Tensor(_)) {
            let op = match sign {
                "+" => "Add",
                "-" => "Sub",
                "*" => "Mul",
                "/" => "Div",
                "@" => "MatMul",
                "**" => "Pow",
                "==" => "Equal",
                "<" => "Less",
                "<=" => "LessOrEqual",
                ">" => "Greater",
                ">=" => "GreaterOrEqual",
                _ => return Err(self.mistake(&say!("tensors have no `{sign}`", sign))),
            };
            return self.operator(op, &[a.clone(), b.clone()], Vec::new());
        }
        let result = match (sign, a, b) {
            ("==", a, b) => Some(Value::Flag(a.equals(b))),
            ("!=", a, b) => Some(Value::Flag(!a.equals(b))),
            ("+", Value::List(a), Value::List(b)) if a.len().max(b.len()) <= ADDED_MAX => {
                Some(Value::List(a.iter().chain(b.iter()).cloned().collect()))
            }
            ("*", Value::List(list), Value::Int(n)) => usize::try_from(*n).ok().and_then(|n| {
                let few = list.len().saturating_mul(n) <= REPEATED_MAX;
                let all = || list.iter().cloned().cycle().take(list.len().saturating_mul(n));
                few.then(|| Value::List(all().collect()))
            }),
            (_, Value::Int(a), Value::Int(b)) => calculated(sign, *a, *b),
            (_, Value::Float(a), Value::Float(b)) => ordered(sign, a, b).map(Value::Flag),
            _ => None,
        };
        result.ok_or_else(|| {
            self.mistake(&say!(
                "{kind} {sign} {kind_2} means nothing",
                kind = a.kind(),
                sign,
                kind_2 = b.kind()
            ))
        })
    }
}

/// The numbers of a list that are all numbers with fractions.
fn floats(list: &[Value<'_>]) -> Option<Vec<f64>> {
    let float = |value: &Value<'_>| match value {
        Value::Float(x) => Some(*x),
        _ => None,
    };
    list.iter().map(float).collect()
}

fn whole<'t>(n: u64) -> Value<'t> {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// `a sign b` of whole numbers.
fn calculated<'t>(sign: &str, a: i64, b: i64) -> Option<Value<'t>> {
    Some(Value::Int(match sign {
        "+" => a.saturating_add(b),
        "-" => a.saturating_sub(b),
        "*" => a.saturating_mul(b),
        "//" => a.checked_div_euclid(b)?,
        "%" => a.checked_rem_euclid(b)?,
        _ => return ordered(sign, &a, &b).map(Value::Flag),
    }))
}

fn ordered<T: PartialOrd>(sign: &str, a: &T, b: &T) -> Option<bool> {
    Some(match sign {
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        ">=" => a >= b,
        _ => return None,
    })
}

/// `int(n * factor)`; nothing above `u32` is a width.
#[expect(clippy::float_arithmetic, reason = "a share of a width that is stated, and no bytes")]
fn scaled(n: i64, factor: f64) -> i64 {
    let product = u32::try_from(n).map_or(0.0, f64::from) * factor;
    // The largest whole number that is not above the product, by bisection: no conversion loses anything.
    let (mut low, mut high) = (0_u32, u32::MAX);
    while low < high {
        let middle = high.saturating_sub((high.saturating_sub(low)).div_euclid(2));
        if f64::from(middle) <= product {
            low = middle;
        } else {
            high = middle.saturating_sub(1);
        }
    }
    i64::from(low)
}
