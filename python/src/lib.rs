//! The compiled part of the Python package `highwater`: models that are open, and what the command line says of them.
//!
//! Python has all that is about modules, optimizers and tables. Every number comes from [`Model::ask`], which answers as
//! the command line does, so that both say the same.

// The macro makes functions for C of what stands here.
#![expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]

use std::path::Path;

use highwater_core::config::{Kind, PyTorch, SETTINGS, Setting};
use highwater_core::recipe::{self, Recipe};
use highwater_core::{Bytes, Config, device, formats};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(
    highwater,
    Error,
    PyValueError,
    "What cannot be estimated, and why: a model that cannot be read, a setting that there is not."
);

/// A model that was read; its weights were not.
#[pyclass(frozen, module = "highwater._native")]
#[derive(Debug)]
struct Model(highwater_core::Model);

#[pymethods]
impl Model {
    /// The published model of a name, such as `llama-3.1-8b`; `None` where there is none.
    #[staticmethod]
    fn named(name: &str) -> PyResult<Option<Self>> {
        let entry = formats::catalogue::find(name);
        let model = entry.map(|entry| highwater_core::open_named(&entry)).transpose();
        model.map(|model| model.map(Self)).map_err(|error| raised(&error))
    }

    /// The model in a file, or that of a name where there is no such file.
    #[staticmethod]
    fn open(py: Python<'_>, path: &str) -> PyResult<Self> {
        py.detach(|| highwater::open(Path::new(path))).map(Self).map_err(Error::new_err)
    }

    /// The model in some bytes.
    #[staticmethod]
    fn read(py: Python<'_>, bytes: &[u8], name: &str) -> PyResult<Self> {
        let model = py.detach(|| highwater_core::open(&mut &*bytes, name));
        model.map(Self).map_err(|error| raised(&error))
    }

    /// The model, trained as a recipe says: a script, YAML, or JSON of a trainer's arguments.
    fn trained_by(&self, text: &str, pytorch: Option<&str>) -> PyResult<Self> {
        Ok(Self(self.0.clone().trained_by(recipe_in(text, pytorch)?)))
    }

    /// What a setting is where the user states nothing: what the model or its recipe suggests.
    fn usual(&self, setting: &str) -> Option<String> {
        let setting = Setting::named(&setting.replace('_', "-"))?;
        Some(setting.value(self.0.defaults()).text())
    }

    /// What the command line prints about it; the arguments are those behind `highwater`.
    fn ask(&self, py: Python<'_>, arguments: Vec<String>) -> PyResult<String> {
        py.detach(|| highwater::answer_of(&self.0, &arguments)).map_err(Error::new_err)
    }

    /// Names of the dimensions that are open, the batch first.
    fn dims(&self) -> Vec<String> {
        self.0.open_dims().into_iter().map(|dim| dim.name).collect()
    }
}

/// A training recipe, as a release of `PyTorch` understands it.
fn recipe_in(text: &str, pytorch: Option<&str>) -> PyResult<Recipe> {
    let pytorch: Option<PyTorch> =
        pytorch.map(str::parse).transpose().map_err(|error| raised(&error))?;
    let recipe = recipe::read(text, pytorch).map_err(|error| raised(&error))?;
    recipe.ok_or_else(|| Error::new_err("this is no training recipe"))
}

/// Refuses flags that the command line does not have, and their values, as far as that needs no model.
#[pyfunction]
fn check_flags(flags: Vec<String>) -> PyResult<()> {
    let arguments = ["estimate", "model"].map(str::to_owned);
    let arguments: Vec<String> = arguments.into_iter().chain(flags).collect();
    highwater::check(&arguments).map_err(Error::new_err)
}

/// Refuses a text that is no training recipe.
#[pyfunction]
fn check_recipe(text: &str, pytorch: Option<&str>) -> PyResult<()> {
    recipe_in(text, pytorch).map(drop)
}

fn raised(error: &highwater_core::Error) -> PyErr {
    Error::new_err(error.to_string())
}

/// The command line: its exit status.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| highwater::main(arguments.into_iter().map(Into::into)))
}

/// The GPUs that `device=` takes; slices of them, such as `a100-80gb 3g.40gb`, may be given as well.
#[pyfunction]
fn devices() -> Vec<&'static str> {
    device::all().iter().map(|device| device.id).collect()
}

/// The GPU that a driver gives this name and so many bytes; `None` where it is unknown.
#[pyfunction]
fn device_called(name: &str, total: u64) -> Option<&'static str> {
    device::named_as(name, Bytes(total)).map(|device| device.id)
}

/// Settings of a training: their names with underscores, whether each is a flag without a value, and its usual value.
#[pyfunction]
fn settings() -> Vec<(String, bool, String)> {
    let usual = Config::default();
    let row = |setting: &Setting| {
        let value = setting.value(&usual).text();
        (setting.name.replace('-', "_"), setting.kind == Kind::Flag, value)
    };
    SETTINGS.iter().map(row).collect()
}

/// What Python imports.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Model>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(check_flags, module)?)?;
    module.add_function(wrap_pyfunction!(check_recipe, module)?)?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(device_called, module)?)?;
    module.add_function(wrap_pyfunction!(settings, module)?)
}
