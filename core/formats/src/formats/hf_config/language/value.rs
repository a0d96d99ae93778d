//! The values that a name of a family's text may have.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::parser::{Class, Function};
use crate::graph::ValueId;
use crate::sentence::Sentence;

/// A value, as cheap to copy as Python's.
#[derive(Clone, Debug)]
pub(super) enum Value<'t> {
    None,
    Flag(bool),
    Int(i64),
    Float(f64),
    /// A text, and the setting that it is of, if it is one.
    Text(&'t str, &'t str),
    Tensor(ValueId),
    List(Rc<[Value<'t>]>),
    /// Settings that were read.
    Record(Rc<BTreeMap<&'t str, Value<'t>>>),
    /// Number of a module.
    Module(usize),
    /// Number of a class.
    Class(usize),
    Function(&'t Function<'t>),
    /// A function of what stands before the dot.
    Method(Rc<Value<'t>>, &'t Function<'t>),
    BuiltIn(&'static str),
}

/// A class, and the number of the one that it builds on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'t> {
    pub(super) class: &'t Class<'t>,
    pub(super) base: Option<usize>,
}

/// A module that was made.
#[derive(Debug)]
pub(super) struct Module<'t> {
    pub(super) class: usize,
    pub(super) path: String,
    pub(super) fields: BTreeMap<&'t str, Value<'t>>,
}

/// What a call gives.
#[derive(Debug, Default)]
pub(super) struct Arguments<'t> {
    pub(super) plain: Vec<Value<'t>>,
    pub(super) named: Vec<(&'t str, Value<'t>)>,
}

impl Value<'_> {
    /// What it is, for messages.
    pub(super) fn kind(&self) -> Sentence {
        match self {
            Self::None => say!("None"),
            Self::Flag(_) => say!("a flag"),
            Self::Int(_) => say!("a whole number"),
            Self::Float(_) => say!("a number"),
            Self::Text(..) => say!("a text"),
            Self::Tensor(_) => say!("a tensor"),
            Self::List(_) => say!("a list"),
            Self::Record(_) => say!("settings"),
            Self::Module(_) => say!("a module"),
            Self::Class(_) => say!("a class"),
            Self::Function(_) | Self::Method(..) | Self::BuiltIn(_) => say!("a function"),
        }
    }

    /// Whether it counts as true, as in Python.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::None => false,
            Self::Flag(flag) => *flag,
            Self::Int(n) => *n != 0,
            Self::Float(x) => *x != 0.0,
            Self::Text(text, _) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            _ => true,
        }
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Flag(a), Self::Flag(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a, _), Self::Text(b, _)) => a == b,
            _ => false,
        }
    }

    /// The tensors that a name for it holds.
    pub(super) fn tensors(&self, held: &mut Vec<ValueId>) {
        match self {
            Self::Tensor(id) => held.push(*id),
            Self::List(list) => list.iter().for_each(|item| item.tensors(held)),
            _ => {}
        }
    }
}
