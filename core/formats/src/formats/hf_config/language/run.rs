//! Runs the statements of a family: first its definitions, then the model that they describe.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::settings::Settings;
use super::mistake;
use super::parser::{Argument, Expr, Function, Statement, StatementKind};
use super::plan::Plan;
use super::value::{Arguments, Known, Module, Value};
use crate::config::Sizes;
use crate::diagnostic::Diagnostic;
use crate::error::{Error, ErrorKind};
use crate::formats::builder::{Builder, joined};
use crate::graph::ValueId;
use crate::sentence::Sentence;

/// COUNT: calls inside each other, at most.
const CALLS_MAX: usize = 40;

/// COUNT: statements and items of lists that a model may take.
const STEPS_MAX: usize = 10_000_000;

/// The class of a model with its head.
const ROOT: &str = "WithHead";

/// A family that runs on a configuration.
#[derive(Debug)]
pub(in super::super) struct Run<'t> {
    pub(super) c: Settings<'t>,
    /// Sizes that the user chose.
    pub(super) asked: Sizes,
    /// Sizes that the user may choose though no input has them.
    pub(in super::super) options: BTreeMap<&'static str, Option<u64>>,
    pub(in super::super) builder: Builder,
    pub(in super::super) diagnostics: Vec<Diagnostic>,
    pub(in super::super) dims: BTreeMap<String, u64>,
    /// Modules whose parameters the class itself freezes: `requires_grad_(False)`.
    pub(in super::super) frozen: Vec<String>,
    /// The module that has no name in a model without a head.
    base: &'t str,
    globals: BTreeMap<&'t str, Value<'t>>,
    /// Names of the functions that run.
    frames: Vec<BTreeMap<&'t str, Value<'t>>>,
    classes: Vec<Known<'t>>,
    modules: Vec<Module<'t>>,
    /// Where settings stand, and their older names.
    pub(super) stated: BTreeMap<&'t str, (Settings<'t>, &'t [&'t str])>,
    /// Names of all settings that were read, and of parts.
    pub(in super::super) seen: Vec<&'t str>,
    /// Path of the module that runs.
    pub(super) path: String,
    /// Path of what is being made.
    pub(super) naming: String,
    /// COUNT: items in front of the list that is being made.
    in_front: usize,
    /// Name of the parameter that is being given its default: an input of the model.
    pub(super) input: &'t str,
    /// How layers are divided between ranks.
    pub(super) plan: Plan<'t>,
    file: &'t str,
    line: usize,
    steps: usize,
}

/// How a block ends.
enum Flow<'t> {
    Next,
    Return(Value<'t>),
}

impl<'t> Run<'t> {
    /// A run for a class of this name; `base` is the module that has no name.
    pub(in super::super) fn new(name: &str, asked: Sizes, c: Settings<'t>, base: &'t str) -> Self {
        Self {
            c,
            asked,
            options: BTreeMap::new(),
            builder: Builder::new(name, Vec::new()),
            diagnostics: Vec::new(),
            dims: BTreeMap::new(),
            frozen: Vec::new(),
            base,
            globals: BTreeMap::new(),
            frames: Vec::new(),
            classes: Vec::new(),
            modules: Vec::new(),
            stated: BTreeMap::new(),
            seen: Vec::new(),
            path: String::new(),
            naming: String::new(),
            in_front: 0,
            input: "",
            plan: Plan::default(),
            file: "",
            line: 0,
            steps: 0,
        }
    }

    /// Lets all files know a text under this name.
    pub(in super::super) fn know(&mut self, name: &'t str, text: &'t str) {
        self.globals.insert(name, Value::Text(text, ""));
    }

    /// The same for a flag.
    pub(in super::super) fn know_whether(&mut self, name: &'t str, flag: bool) {
        self.globals.insert(name, Value::Flag(flag));
    }

    /// Divides layers between so many ranks.
    pub(in super::super) fn divide(&mut self, parts: u64) {
        self.plan.parts = parts;
    }

    /// A setting of the family that is a whole number.
    pub(super) fn setting_of(&self, name: &str) -> Option<u64> {
        match self.globals.get("config") {
            Some(Value::Record(settings)) => match settings.get(name) {
                Some(Value::Int(n)) => u64::try_from(*n).ok(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The file that runs.
    pub(super) const fn file(&self) -> &'t str {
        self.file
    }

    /// Whether a flag of this name is on.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.globals.get(name).is_some_and(Value::is_true)
    }

    /// Runs files, of which each may define anew what one before it did, and returns what the model
    /// returns.
    pub(in super::super) fn files(
        &mut self,
        files: &'t [(&'t str, Vec<Statement<'t>>)],
    ) -> Result<Vec<ValueId>, Error> {
        for (file, statements) in files {
            self.file = file;
            for statement in statements {
                self.line = statement.line;
                self.define(statement)?;
            }
        }
        let config = self.global("Config")?;
        let config = self.call(config, Arguments::default())?;
        self.globals.insert("config", config);
        for (file, statements) in files {
            self.file = file;
            let is_done = |kind: &StatementKind<'_>| {
                matches!(kind, StatementKind::Define(_) | StatementKind::Class(_))
            };
            for statement in statements.iter().filter(|statement| !is_done(&statement.kind)) {
                self.statement(statement)?;
            }
        }
        if let Some((file, _)) = files.last() {
            let family = file.trim_end_matches(".family");
            self.check_plan(file, family)?;
        }
        let root = self.global(ROOT)?;
        let root = self.call(root, Arguments::default())?;
        let result = self.call(root, Arguments::default())?;
        let mut outputs = Vec::new();
        result.tensors(&mut outputs);
        Ok(outputs)
    }

    fn define(&mut self, statement: &'t Statement<'t>) -> Result<(), Error> {
        match &statement.kind {
            StatementKind::Define(function) => {
                self.globals.insert(function.name, Value::Function(function));
            }
            StatementKind::Class(class) => {
                let base = match class.base.map(|base| self.global(base)).transpose()? {
                    Some(Value::Class(base)) => Some(base),
                    Some(other) => {
                        return Err(self.mistake(&say!("{kind} is no class", kind = other.kind())));
                    }
                    None => None,
                };
                self.globals.insert(class.name, Value::Class(self.classes.len()));
                self.classes.push(Known { class, base });
            }
            _ => {}
        }
        Ok(())
    }

    fn global(&self, name: &str) -> Result<Value<'t>, Error> {
        let found = self.globals.get(name).cloned();
        found.ok_or_else(|| self.mistake(&say!("`{name}` is not defined", name)))
    }

    pub(super) fn mistake(&self, message: &Sentence) -> Error {
        mistake(self.file, self.line, message)
    }

    /// One step more.
    pub(super) fn step(&mut self) -> Result<(), Error> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > STEPS_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                say!("the model takes too long to write out"),
            ));
        }
        Ok(())
    }

    // Statements.

    fn block(&mut self, statements: &'t [Statement<'t>]) -> Result<Flow<'t>, Error> {
        for statement in statements {
            if let Flow::Return(value) = self.statement(statement)? {
                return Ok(Flow::Return(value));
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &'t Statement<'t>) -> Result<Flow<'t>, Error> {
        self.step()?;
        self.line = statement.line;
        match &statement.kind {
            StatementKind::Assign(targets, value) => self.assign_all(targets, value)?,
            StatementKind::Increase(target, value) => {
                let old = self.value(target)?;
                let more = self.added_to(&old, value)?;
                let sum = self.increased(old, more)?;
                self.assign(target, sum)?;
            }
            StatementKind::Evaluate(value) => drop(self.value(value)?),
            StatementKind::If(branches) => {
                for (condition, block) in branches {
                    if self.value(condition)?.is_true() {
                        return self.block(block);
                    }
                }
            }
            StatementKind::For(name, list, block) => {
                let list = self.value(list)?;
                for item in self.items(&list)?.iter() {
                    self.step()?;
                    self.bind(name, item.clone());
                    if let Flow::Return(value) = self.block(block)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
            StatementKind::Return(value) => return Ok(Flow::Return(self.value(value)?)),
            StatementKind::Delete(name) => self.bind(name, Value::None),
            StatementKind::Define(_) | StatementKind::Class(_) => {
                return Err(self.mistake(&say!("a definition must be at the start of a line")));
            }
        }
        Ok(Flow::Next)
    }

    fn assign_all(&mut self, targets: &'t [Expr<'t>], value: &'t Expr<'t>) -> Result<(), Error> {
        let outside = self.naming.clone();
        if let [Expr::Field(owner, name)] = targets
            && let Value::Module(id) = self.value(owner)?
        {
            let path = self.modules.get(id).map_or("", |module| module.path.as_str());
            let is_base = id == 0 && *name == self.base;
            self.naming = if is_base { String::new() } else { joined(path, name) };
        }
        let value = self.value(value)?;
        self.naming = outside;
        targets.iter().try_for_each(|target| self.assign(target, value.clone()))
    }

    fn assign(&mut self, target: &'t Expr<'t>, value: Value<'t>) -> Result<(), Error> {
        match target {
            Expr::Name(name) => self.bind(name, value),
            Expr::List(targets) => {
                let items = self.items(&value)?;
                if items.len() != targets.len() {
                    let message = say!(
                        "{names} names for {values} values",
                        names = targets.len(),
                        values = items.len()
                    );
                    return Err(self.mistake(&message));
                }
                for (target, item) in targets.iter().zip(items.iter()) {
                    self.assign(target, item.clone())?;
                }
            }
            Expr::Field(owner, name) => {
                let owner = self.value(owner)?;
                let module = match owner {
                    Value::Module(id) => self.modules.get_mut(id),
                    _ => None,
                };
                let Some(module) = module else {
                    return Err(self.mistake(&say!("{kind} takes no fields", kind = owner.kind())));
                };
                module.fields.insert(name, value);
            }
            _ => return Err(self.mistake(&say!("this cannot be assigned to"))),
        }
        Ok(())
    }

    /// `name = value`: what had that name before goes.
    fn bind(&mut self, name: &'t str, value: Value<'t>) {
        let names = self.frames.last_mut().unwrap_or(&mut self.globals);
        if let Some(before) = names.insert(name, value) {
            self.release(&before);
        }
    }

    /// A name lets go of a value.
    fn release(&mut self, value: &Value<'t>) {
        let mut held = Vec::new();
        value.tensors(&mut held);
        let Some(now) = self.builder.now() else { return };
        for id in held {
            self.builder.hold(id, now);
        }
    }

    // Calls.

    /// Calls a function, makes a module or reads settings, or runs a module.
    pub(super) fn call(
        &mut self,
        callee: Value<'t>,
        arguments: Arguments<'t>,
    ) -> Result<Value<'t>, Error> {
        match callee {
            Value::Function(function) => self.run(function, None, arguments),
            Value::Method(owner, function) => self.run(function, Some((*owner).clone()), arguments),
            Value::Class(class) => self.make(class, arguments),
            Value::Module(id) => {
                let Some(module) = self.modules.get(id) else { return Ok(Value::None) };
                let Some(forward) = self.method(module.class, "forward") else {
                    return Err(self.mistake(&say!("this module has no `forward`")));
                };
                let outside = std::mem::replace(&mut self.path, module.path.clone());
                // `Module.__call__(self, *args)`: the tuple holds them until the module returns.
                let plain = arguments.plain.iter();
                let args: Vec<Value<'t>> =
                    plain.chain(arguments.named.iter().map(|(_, value)| value)).cloned().collect();
                let result = self.run(forward, Some(Value::Module(id)), arguments);
                for value in &args {
                    self.release(value);
                }
                self.path = outside;
                result
            }
            Value::BuiltIn(name @ ("tensor_parallel" | "division" | "parts")) => {
                self.of_plan(name, &arguments)
            }
            Value::BuiltIn(name) => self.built_in(name, arguments),
            other => Err(self.mistake(&say!("{kind} cannot be called", kind = other.kind()))),
        }
    }

    fn run(
        &mut self,
        function: &'t Function<'t>,
        owner: Option<Value<'t>>,
        arguments: Arguments<'t>,
    ) -> Result<Value<'t>, Error> {
        if self.frames.len() >= CALLS_MAX {
            return Err(self.mistake(&say!("calls are nested too deeply")));
        }
        let caller = (self.file, self.line);
        self.frames.push(BTreeMap::new());
        self.parameters(function, owner, arguments)?;
        self.file = function.file;
        let flow = self.block(&function.body)?;
        (self.file, self.line) = caller;
        for value in self.frames.pop().unwrap_or_default().into_values() {
            self.release(&value);
        }
        Ok(match flow {
            Flow::Return(value) => value,
            Flow::Next => Value::None,
        })
    }

    /// Binds what a function is given.
    fn parameters(
        &mut self,
        function: &'t Function<'t>,
        owner: Option<Value<'t>>,
        arguments: Arguments<'t>,
    ) -> Result<(), Error> {
        let Arguments { plain, mut named } = arguments;
        let mut plain = owner.into_iter().chain(plain);
        for (name, usual) in &function.parameters {
            let given = named.iter().position(|(given, _)| given == name);
            let value = match (plain.next(), given, usual) {
                (Some(value), None, _) => value,
                (None, Some(index), _) => named.swap_remove(index).1,
                (None, None, Some(usual)) => {
                    self.input = name;
                    self.value(usual)?
                }
                _ => {
                    let message = say!(
                        "`{function}` is not given one `{name}`",
                        function = function.name,
                        name
                    );
                    return Err(self.mistake(&message));
                }
            };
            self.bind(name, value);
        }
        let rest: Rc<[Value<'t>]> = plain.collect();
        match function.others {
            Some(name) => self.bind(name, Value::List(rest)),
            None if rest.is_empty() => {}
            None => {
                return Err(
                    self.mistake(&say!("too many arguments of `{name}`", name = function.name))
                );
            }
        }
        match named.first() {
            Some((name, _)) => Err(self.mistake(&say!(
                "`{function}` has no argument `{name}`",
                function = function.name,
                name
            ))),
            None => Ok(()),
        }
    }

    /// Makes a module of a class, or reads the settings that the class states.
    fn make(&mut self, class: usize, arguments: Arguments<'t>) -> Result<Value<'t>, Error> {
        if self.lineage(class).any(|known| !known.class.settings.is_empty()) {
            return self.settings(class, &arguments);
        }
        let id = self.modules.len();
        let path = std::mem::take(&mut self.naming);
        self.modules.push(Module { class, path: path.clone(), fields: BTreeMap::new() });
        if let Some(init) = self.method(class, "__init__") {
            self.run(init, Some(Value::Module(id)), arguments)?;
        }
        self.naming = path;
        Ok(Value::Module(id))
    }

    /// A class and those that it builds on.
    fn lineage(&self, class: usize) -> impl Iterator<Item = Known<'t>> + '_ {
        let first = self.classes.get(class).copied();
        std::iter::successors(first, |known| self.classes.get(known.base?).copied())
    }

    fn method(&self, class: usize, name: &str) -> Option<&'t Function<'t>> {
        self.lineage(class).find_map(|known| known.class.methods.iter().find(|m| m.name == name))
    }

    /// Reads the settings of a class, from a part of the configuration if one is named.
    fn settings(&mut self, class: usize, arguments: &Arguments<'t>) -> Result<Value<'t>, Error> {
        let c = match arguments.plain.as_slice() {
            [] => self.c,
            [Value::Text(name, _)] => {
                self.seen.push(name);
                self.c.part_or_older(name)
            }
            _ => return Err(self.mistake(&say!("settings are read from a part with a name"))),
        };
        let mut rows: Vec<&'t (Vec<&'t str>, Expr<'t>)> = Vec::new();
        let lineage: Vec<Known<'t>> = self.lineage(class).collect();
        for row in lineage.iter().rev().flat_map(|known| &known.class.settings) {
            match rows.iter_mut().find(|known| known.0.first() == row.0.first()) {
                Some(known) => *known = row,
                None => rows.push(row),
            }
        }
        self.frames.push(BTreeMap::new());
        for (names, usual) in rows {
            let usual = self.value(usual)?;
            let value = self.setting(c, names, &usual)?;
            if let Some(name) = names.first() {
                self.bind(name, value);
            }
        }
        Ok(Value::Record(Rc::new(self.frames.pop().unwrap_or_default())))
    }

    // Expressions.

    pub(super) fn value(&mut self, expr: &'t Expr<'t>) -> Result<Value<'t>, Error> {
        Ok(match expr {
            Expr::None => Value::None,
            Expr::Flag(flag) => Value::Flag(*flag),
            Expr::Int(n) => Value::Int(*n),
            Expr::Float(x) => Value::Float(*x),
            Expr::Text(text) => Value::Text(text, ""),
            Expr::Name(name) => self.named(name)?,
            Expr::List(items) => {
                let items: Vec<&'t Expr<'t>> = items.iter().collect();
                self.list(&items, |run, item| run.value(item))?
            }
            Expr::Each(item, name, list) => {
                let in_front = std::mem::take(&mut self.in_front);
                let list = self.value(list)?;
                let list = self.items(&list)?;
                self.in_front = in_front;
                self.list(&list, |run, value| {
                    run.bind(name, value.clone());
                    run.value(item)
                })?
            }
            Expr::Field(owner, name) => {
                let owner = self.value(owner)?;
                self.field(&owner, name)?
            }
            Expr::Item(list, index) => {
                let (list, index) = (self.value(list)?, self.value(index)?);
                self.item(&list, &index)?
            }
            Expr::Call(callee, arguments) => self.called(callee, arguments)?,
            Expr::Not(value) => Value::Flag(!self.value(value)?.is_true()),
            Expr::Minus(value) => {
                let value = self.value(value)?;
                self.negated(&value)?
            }
            Expr::Binary(sign, left, right) => self.combined(sign, left, right)?,
            Expr::Choice(parts) => {
                let [condition, first, second] = parts.as_ref();
                let is_first = self.value(condition)?.is_true();
                self.value(if is_first { first } else { second })?
            }
        })
    }

    fn named(&self, name: &'t str) -> Result<Value<'t>, Error> {
        let own = self.frames.last().and_then(|frame| frame.get(name));
        let found = own.or_else(|| self.globals.get(name)).cloned();
        found
            .or_else(|| Self::find_built_in(name))
            .ok_or_else(|| self.mistake(&say!("`{name}` is not defined", name)))
    }

    /// What is added to a value; a list that is added to a list continues its numbers.
    pub(super) fn added_to(
        &mut self,
        value: &Value<'t>,
        more: &'t Expr<'t>,
    ) -> Result<Value<'t>, Error> {
        if let (Value::List(list), Expr::List(_) | Expr::Each(..)) = (value, more) {
            self.in_front = list.len();
        }
        self.value(more)
    }

    /// A list, whose modules have its numbers in their paths.
    fn list<T>(
        &mut self,
        items: &[T],
        mut value: impl FnMut(&mut Self, &T) -> Result<Value<'t>, Error>,
    ) -> Result<Value<'t>, Error> {
        let path = self.naming.clone();
        let in_front = std::mem::take(&mut self.in_front);
        let mut list = Vec::new();
        for (index, item) in items.iter().enumerate() {
            self.step()?;
            let index = index.saturating_add(in_front);
            if !path.is_empty() {
                self.naming = format!("{path}.{index}");
            }
            list.push(value(self, item)?);
        }
        self.naming = path;
        Ok(Value::List(list.into()))
    }

    pub(super) fn items(&self, list: &Value<'t>) -> Result<Rc<[Value<'t>]>, Error> {
        match list {
            Value::List(list) => Ok(Rc::clone(list)),
            other => Err(self.mistake(&say!("{kind} is no list", kind = other.kind()))),
        }
    }

    fn item(&self, list: &Value<'t>, index: &Value<'t>) -> Result<Value<'t>, Error> {
        let items = self.items(list)?;
        let index = match index {
            Value::Int(n) if *n < 0 => n.checked_add_unsigned(items.len().try_into().unwrap_or(0)),
            Value::Int(n) => Some(*n),
            _ => None,
        };
        let found = index.and_then(|n| items.get(usize::try_from(n).ok()?));
        found.cloned().ok_or_else(|| self.mistake(&say!("the list has no such item")))
    }

    fn field(&self, owner: &Value<'t>, name: &'t str) -> Result<Value<'t>, Error> {
        let method = |class| {
            let function = self.method(class, name)?;
            Some(Value::Method(Rc::new(owner.clone()), function))
        };
        let found = match owner {
            Value::Record(record) => record.get(name).cloned(),
            Value::Module(id) => self.modules.get(*id).and_then(|module| {
                module.fields.get(name).cloned().or_else(|| method(module.class))
            }),
            Value::Tensor(_) => match self.globals.get("Tensor") {
                Some(Value::Class(class)) => method(*class),
                _ => None,
            },
            _ => None,
        };
        found
            .ok_or_else(|| self.mistake(&say!("{kind} has no `{name}`", kind = owner.kind(), name)))
    }

    fn called(
        &mut self,
        callee: &'t Expr<'t>,
        arguments: &'t [Argument<'t>],
    ) -> Result<Value<'t>, Error> {
        let callee = self.value(callee)?;
        let naming = self.naming.clone();
        let mut given = Arguments::default();
        for argument in arguments {
            let value = self.value(&argument.value)?;
            match argument.name {
                Some(name) => given.named.push((name, value)),
                None if argument.spreads => given.plain.extend(self.items(&value)?.iter().cloned()),
                None => given.plain.push(value),
            }
        }
        self.naming = naming;
        if let (Value::BuiltIn("range"), [only]) = (&callee, arguments) {
            self.bound(&only.value, &given)?;
        }
        self.call(callee, given)
    }

    /// The path of a module, for what is done to all of it.
    pub(super) fn path_of(&self, module: &Value<'t>) -> Option<&str> {
        let Value::Module(id) = module else { return None };
        self.modules.get(*id).map(|module| module.path.as_str())
    }
}

/// What an expression is called, for messages about settings.
pub(super) fn called<'t>(expr: &Expr<'t>) -> &'t str {
    match expr {
        Expr::Name(name) | Expr::Field(_, name) => name,
        _ => "…",
    }
}
