//! The whole path from a file to an answer. A model is opened once and can be estimated any number of times.
//!
//! The stages are those of the crate's table, in their order; [`Stages`] keeps what they made.

mod abilities;
mod alone;
mod forecast;
mod largest;
mod layers;
mod locate;
mod ranks;
mod simulation;
mod stages;
mod timing;
mod usual;

use crate::order::IntoOrdered as _;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::adapt;
use crate::allocator::Conf;
use crate::config::{
    Attention, Checkpoint, Config, Library, LossKernel, Pass, Precision, PyTorch, Quantize,
    SETTINGS, Setting, Sizes, Stage, Task,
};
use crate::device;
use crate::diagnostic::{Diagnostic, Diagnostics, RECIPE_UNREAD, Severity};
use crate::eager::{Asked, Hardware, Launches, Runtime};
use crate::error::{Error, ErrorKind};
use crate::formats::catalogue::Entry;
use crate::formats::{self, Opened, Recognised};
use crate::graph::{Graph, Member};
use crate::infer::{self, OpenDim, Typed};
use crate::recipe::{self, Recipe};
use crate::recover::{self, Program};
use crate::report::{DeviceVerdict, Report};
use crate::sentence::Sentence;
use crate::source::Source;
use crate::step;
use crate::step::generate::Decode;
use crate::step::script::Script;
use crate::tensor::DType;
use crate::trace::Trace;
use crate::unroll;
use crate::unused;

pub use self::abilities::{Abilities, Everything, Rewrite};
pub use self::alone::{Alone, Held, Offer};
pub use self::largest::{BatchLine, LargestBatch};
pub use self::layers::{Layer, LayerKind};
pub use self::locate::{Candidate, Located, Match};
pub use self::ranks::RankLine;
pub use self::simulation::Simulation;
use self::stages::OnDevice;
pub use self::stages::{Made, Stages};
pub use self::timing::Timings;

/// A model that was read and can be estimated under any configuration.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    graph: Arc<Graph>,
    recognised: Recognised,
    defaults: Config,
    spec: Option<String>,
    configuration: Option<String>,
    recipe: Option<Recipe>,
    /// What can be done with it.
    abilities: Arc<dyn Abilities>,
}

/// A graph as it runs: without control flow, and with the types of its values.
#[derive(Clone, Debug)]
struct Shaped {
    graph: Arc<Graph>,
    typed: Arc<Typed>,
    diagnostics: Vec<Diagnostic>,
}

/// The operators that PyTorch runs, adapters among them.
#[derive(Clone, Debug)]
struct Recovered {
    program: Program,
    /// How one more token is read, where tokens are written.
    decode: Option<Decode>,
    /// Those of the shapes, too.
    diagnostics: Vec<Diagnostic>,
}

/// What a configuration does, before any allocator has seen it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Run {
    trace: Trace,
    /// What of it depends on the hardware.
    asked: Rc<Asked>,
    /// The kernels of all iterations, where they were asked for.
    launches: Option<Rc<Launches>>,
    /// Sizes of all dimensions.
    dims: BTreeMap<String, u64>,
    diagnostics: Vec<Diagnostic>,
    /// COUNT: operators of the graph, its control flow unrolled.
    operators: usize,
    /// Whether shapes are stand-ins or parts are not counted.
    lacks_parts: bool,
    /// Whether the file stated everything that the model runs.
    is_exact: bool,
    /// Whether its loss could be computed without all logits.
    has_next_token_head: bool,
    /// Whether statistics are taken over the samples of a batch.
    normalises_batches: bool,
}

impl Recovered {
    /// Events: the training steps, on some hardware, and their kernels from an iteration on where they are asked for.
    fn record(
        &self,
        config: &Config,
        (hardware, abilities): (Hardware, &dyn Abilities),
        kernels_from: Option<usize>,
    ) -> Result<Run, Error> {
        let Self { program, decode, diagnostics } = self;
        let sink = Diagnostics::default();
        sink.extend(diagnostics.iter().cloned().chain(unknown_version(config)));
        let loss = step::head_loss::choose(program, config, &sink)?;
        let rt = Runtime::new(hardware, config.pytorch);
        if let Some(iteration) = kernels_from {
            rt.record_launches(iteration);
        }
        let (trace, asked, launches) = if let Some(decode) = decode {
            step::generate::run(rt, (program, decode), config, &sink)?
        } else {
            let hooks = abilities.around(program, config)?;
            step::run(rt, program, &loss, config, &*hooks, &sink)?
        };
        Ok(Run {
            trace,
            asked: Rc::new(asked),
            launches: kernels_from.map(|_| Rc::new(launches)),
            dims: program.typed.dims.clone(),
            diagnostics: sink.into_inner(),
            operators: program.graph.nodes.len(),
            lacks_parts: program.typed.lower_bound,
            is_exact: program.reasons.is_empty(),
            has_next_token_head: step::head_loss::is_possible(program, config),
            normalises_batches: config.workload.trains() && program.normalises_batches(),
        })
    }
}

/// The module that a tensor of this name belongs to.
fn owner(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(owner, _)| owner)
}

/// Families whose classes in transformers 5.23 have `supports_gradient_checkpointing = False`.
const UNCHECKPOINTED: [&str; 3] = ["albert", "convnext", "resnet"];

impl Run {
    /// Whether parts of the model could not be estimated, or rest on an assumption that decides.
    fn is_open(&self) -> bool {
        let failed = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Error;
        self.lacks_parts || self.diagnostics.iter().any(failed) || self.is_uncertain()
    }

    /// Whether the truth may lie far above or below.
    fn is_uncertain(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_uncertain)
    }

    /// A configuration of it, with the dimensions that were assumed.
    fn given(&self, config: &Config) -> Config {
        Config { dims: self.dims.clone(), ..config.clone() }
    }
}

/// Reads a model; weights are not read.
///
/// # Errors
/// When the content is not a model that can be read here, is damaged, or contradicts itself.
pub fn open(source: &mut dyn Source, name: &str) -> Result<Model, Error> {
    open_for(source, name, None)
}

/// The same, for a release of PyTorch that the user states: defaults of a recipe depend on it.
///
/// # Errors
/// As [`open`].
pub fn open_for(
    source: &mut dyn Source,
    name: &str,
    pytorch: Option<PyTorch>,
) -> Result<Model, Error> {
    if let Some(recipe) = recipe::open(source, pytorch)? {
        let model = whole(recipe.called().unwrap_or(name), recipe.opened()?);
        return Ok(Model { recipe: Some(recipe), ..model });
    }
    let opened = formats::open(source, name)?;
    Ok(whole(name, opened))
}

/// The model of an entry of the catalogue, called by its id.
///
/// # Errors
/// As [`Entry::open`].
pub fn open_named(entry: &Entry) -> Result<Model, Error> {
    Ok(whole(entry.id, entry.open()?))
}

/// The model, with all that there is for it.
fn whole(name: &str, opened: Opened) -> Model {
    Model::new(name, opened, Arc::new(Everything))
}

impl Model {
    /// A model that was read, perhaps elsewhere, and what can be done with it.
    pub fn new(name: &str, opened: Opened, abilities: Arc<dyn Abilities>) -> Self {
        let Opened { mut graph, recognised, defaults, spec, configuration } = opened;
        if configuration.is_none() {
            // Without its configuration a model cannot be written with other sizes.
            graph.options.clear();
        }
        let (name, graph) = (name.to_owned(), Arc::new(graph));
        Self { name, graph, recognised, defaults, spec, configuration, recipe: None, abilities }
    }

    /// The model, trained as a recipe states, whatever model that names.
    #[must_use]
    pub fn trained_by(mut self, recipe: Recipe) -> Self {
        let usual = self.defaults.clone();
        self.defaults = recipe.defaults(usual);
        Arc::make_mut(&mut self.graph).diagnostics.extend(recipe.notes.iter().cloned());
        self.recipe = Some(recipe);
        self
    }

    /// The model, with which something else can be done than before.
    #[must_use]
    pub fn with_abilities(self, abilities: Arc<dyn Abilities>) -> Self {
        Self { abilities, ..self }
    }

    /// The configuration that the model was written of, where its input has one.
    pub fn configuration(&self) -> Option<&str> {
        self.configuration.as_deref()
    }

    /// The recipe that states its training, if one was opened.
    pub const fn recipe(&self) -> Option<&Recipe> {
        self.recipe.as_ref()
    }

    /// What its owner calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The graph as the file states it.
    pub const fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// What the input was recognised as.
    pub const fn recognised(&self) -> &Recognised {
        &self.recognised
    }

    /// The configuration where the user says nothing: what the input states, and defaults.
    pub const fn defaults(&self) -> &Config {
        &self.defaults
    }

    /// The model as a layer spec, where its format is one or was translated to one.
    pub fn spec(&self) -> Option<&str> {
        self.spec.as_deref()
    }

    /// Dimensions that the user may set, the batch first.
    pub fn open_dims(&self) -> Vec<OpenDim> {
        infer::open_dims(&self.graph)
    }

    /// The configuration with the names that the model has for its dimensions: what people call `batch` may be its `N`.
    ///
    /// # Errors
    /// When the model has no such dimension, two sizes of one are given, or a size is absurd.
    pub fn own_dims(&self, config: &Config) -> Result<Config, Error> {
        self.with_dims(config, &BTreeMap::new())
    }

    /// The same with sizes that count instead of those of the configuration, by any of their names.
    ///
    /// # Errors
    /// As [`Model::own_dims`].
    pub fn with_dims(
        &self,
        config: &Config,
        given: &BTreeMap<String, u64>,
    ) -> Result<Config, Error> {
        let own = |open: &[OpenDim]| -> Result<BTreeMap<String, u64>, Error> {
            let mut dims = infer::own_sizes(open, &config.dims)?;
            dims.extend(infer::own_sizes(open, given)?);
            Ok(dims)
        };
        let mut named = config.clone();
        named.dims = if let Ok(dims) = own(&self.open_dims()) {
            dims
        } else {
            // Another task or pass has other sizes, such as the number of classes.
            named.dims.extend(given.clone());
            own(&infer::open_dims(&*self.graph_for(named.code())?))?
        };
        Ok(named)
    }

    /// The whole answer for one configuration on its device.
    ///
    /// # Errors
    /// When the configuration names a device or a dimension that there is not, or an absurd size.
    pub fn estimate(&self, config: &Config) -> Result<Report, Error> {
        self.simulate(config, &mut Stages::default()).map(|simulation| simulation.report())
    }

    /// How the configuration ends on a device.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn verdict(
        &self,
        config: &Config,
        device_id: &str,
        stages: &mut Stages,
    ) -> Result<DeviceVerdict, Error> {
        let device = device::find(device_id)?;
        Ok(stages.peaks_on(self, config, device)?.verdict())
    }

    /// The run of a configuration on its device.
    pub(crate) fn on_device(
        &self,
        config: &Config,
        stages: &mut Stages,
    ) -> Result<OnDevice, Error> {
        stages.on(self, config, device::find(&config.device)?)
    }

    /// The events of a run, as PyTorch would make them on a device.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn trace(&self, config: &Config) -> Result<Trace, Error> {
        let hardware = device::find(&config.device)?.hardware(config.pytorch, config.cudnn);
        let config = &config.in_effect();
        Ok(self
            .program(&self.shape(config)?, config)?
            .record(config, (hardware, &*self.abilities), None)?
            .trace)
    }

    /// The kernels of a steady iteration, as PyTorch would launch them on a device.
    ///
    /// # Errors
    /// As [`Model::estimate`].
    pub fn launches(&self, config: &Config) -> Result<Launches, Error> {
        let hardware = device::find(&config.device)?.hardware(config.pytorch, config.cudnn);
        let config = &config.in_effect();
        let recovered = self.program(&self.shape(config)?, config)?;
        let steady = match recovered.decode {
            Some(_) => step::generate::STEADY,
            None => Script::of(config)?.steady,
        };
        let run = recovered.record(config, (hardware, &*self.abilities), Some(steady))?;
        Ok(run.launches.map(Rc::unwrap_or_clone).unwrap_or_default())
    }

    /// Shapes: what depends on the dimensions, and hardly on anything else.
    fn shape(&self, config: &Config) -> Result<Shaped, Error> {
        self.shape_to(config, unroll::NODES_MAX)
    }

    /// The same, with so many nodes of loops at most.
    fn shape_to(&self, config: &Config, nodes_max: usize) -> Result<Shaped, Error> {
        self.shape_of(self.graph_for(config.code())?, config, nodes_max)
    }

    /// The same of a graph that was written for a pass.
    fn shape_of(
        &self,
        mut graph: Arc<Graph>,
        config: &Config,
        nodes_max: usize,
    ) -> Result<Shaped, Error> {
        if let Some(dtype) = converts(config).filter(|_| graph.level.is_program()) {
            Arc::make_mut(&mut graph).convert_floats(dtype);
        }
        let sink = Diagnostics::default();
        let found = graph.diagnostics.iter().filter(|found| !self.is_settled(found, config));
        sink.extend(found.cloned());
        let batch = self.examples(config);
        let mut dims = config.dims.clone();
        let micro_batches = config.micro_batches();
        let texts = |examples: &u64| match examples.saturating_mul(config.objective.texts()) {
            texts if micro_batches > 1 => texts.div_euclid(micro_batches).max(1),
            texts => texts,
        };
        dims.extend(batch.iter().map(|(name, examples)| (name.clone(), texts(examples))));
        let settle = |graph: &mut Graph| self.abilities.settle(graph, &dims, &sink, nodes_max);
        let (mut graph, mut typed) = unroll::unroll_by(settle, graph, &dims, &sink)?;
        typed.dims.extend(batch);
        unused::note(&mut graph, &typed, config.workload.trains(), &sink);
        Ok(Shaped { graph, typed: Arc::new(typed), diagnostics: sink.into_inner() })
    }

    /// Whether something was found about a value of a recipe that the user has set otherwise since.
    fn is_settled(&self, found: &Diagnostic, config: &Config) -> bool {
        let Some(name) = found.node.as_deref().filter(|_| found.code == RECIPE_UNREAD) else {
            return false;
        };
        let size = |config: &Config| config.dims.get(name).copied();
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        size(config).is_some_and(|given| Some(given) != size(&self.defaults))
            || setting.is_some_and(|setting| !setting.is_same(config, &self.defaults))
    }

    /// The batch where a forward does not read just as many texts, by the name of its dimension.
    fn examples(&self, config: &Config) -> Option<(String, u64)> {
        let batch = self.open_dims().into_iter().find(|dim| dim.batch);
        let batch =
            batch.filter(|_| config.objective.is_of_pairs() || config.micro_batches() > 1)?;
        let given = self.own_dims(config).ok()?;
        let size = given.dims.get(&batch.name).copied().unwrap_or(batch.default);
        Some((batch.name, size))
    }

    /// Operators: what PyTorch runs of a graph, with adapters and other types where they are asked for.
    fn program(&self, shaped: &Shaped, config: &Config) -> Result<Recovered, Error> {
        let recovered = self.program_of(shaped, config)?;
        let decode = config.workload.generates().then(|| self.decode(&recovered.program, config));
        Ok(Recovered { decode: decode.transpose()?, ..recovered })
    }

    /// The program that reads one token behind those of the prompts, and its sizes until the last one.
    ///
    /// # Errors
    /// When the input does not state how a cache goes through the model, or there are more tokens than positions.
    fn decode(&self, prefill: &Program, config: &Config) -> Result<Decode, Error> {
        let refused = |message| Err(Error::new(ErrorKind::BadConfig, message).about("workload"));
        if prefill.graph.cache.is_empty() {
            return refused(match (&self.configuration, self.abilities.rewrite()) {
                (Some(_), Ok(_)) => say!(
                    "how this model writes tokens with a cache is not known here: choose the workload inference, for one \
                     forward pass"
                ),
                (Some(_), Err(why)) => why,
                _ => say!(
                    "this input has one forward pass, and not how keys and values are kept: for generation, give the \
                     model's config.json or its name; or choose the workload inference"
                ),
            });
        }
        let lengths = config.dims.get(infer::SEQUENCE).copied();
        let prompt =
            lengths.or_else(|| prefill.typed.dims.get(infer::SEQUENCE).copied()).unwrap_or(1);
        let new = config.new_tokens.get();
        let longest = prompt.saturating_add(new);
        if let Some(positions) = prefill.graph.positions.filter(|positions| longest > *positions) {
            let message = say!(
                "a prompt of {prompt} tokens and {new} new ones are more than the {positions} positions of the model: \
                 write fewer, or shorten the prompt",
                prompt,
                new,
                positions
            );
            return Err(Error::new(ErrorKind::BadConfig, message).about("new-tokens"));
        }
        let library = Library { pass: Pass::Decode, ..config.code() };
        let mut graph = self.graph_for(library)?;
        Arc::make_mut(&mut graph).positions = None;
        let kept = graph.window.map_or(u64::MAX, |window| window.saturating_sub(1));
        let last = longest.saturating_sub(2).max(prompt);
        let mut lengths = vec![prompt];
        lengths.extend((kept > prompt && kept < last).then_some(kept));
        lengths.extend((last > prompt).then_some(last));
        let mut first = None;
        let mut at = Vec::new();
        for past in lengths {
            let mut own = config.clone();
            own.dims.remove(infer::SEQUENCE);
            own.dims.insert(Sizes::PAST.to_owned(), past);
            own.dims.insert(Sizes::PAST_OF_WINDOW.to_owned(), past.min(kept));
            let has = |name: &str| graph.dims.contains_key(name);
            own.dims.retain(|name, _| has(name) || config.dims.contains_key(name));
            let shaped = self.shape_of(Arc::clone(&graph), &own, unroll::NODES_MAX)?;
            let program = self.program_of(&shaped, &own)?.program;
            at.push((past, Arc::clone(&program.typed)));
            first.get_or_insert(program);
        }
        let Some(program) = first else { return refused(say!("no token is written")) };
        Ok(Decode { program, at })
    }

    fn program_of(&self, shaped: &Shaped, config: &Config) -> Result<Recovered, Error> {
        let Shaped { graph, typed, diagnostics } = shaped;
        let sink = Diagnostics::default();
        sink.extend(diagnostics.iter().cloned());
        // A configuration was written out with the attention that is asked for.
        let written = self.configuration.as_ref().map(|_| Config::default().attention);
        let followed = written.map(|attention| Config { attention, ..config.clone() });
        let followed = followed.as_ref().unwrap_or(config);
        let mut program = recover::recover(graph, typed, followed, &sink);
        if let Some(dtype) = converts(config).filter(|_| !graph.level.is_program()) {
            Arc::make_mut(&mut program.typed).convert_floats(dtype);
        }
        if let Some(reason) = self.recognised.fidelity.reason() {
            program.rests_on(&reason);
        }
        adapt::adapt(&mut program, config, &sink)?;
        step::head_loss::fuse(&mut program, config)?;
        if !config.workload.trains() {
            step::loss::leave_out(&mut program);
        }
        Ok(Recovered { program, decode: None, diagnostics: sink.into_inner() })
    }

    /// What is to be said of the settings themselves.
    fn notes(&self, config: &Config) -> Result<Vec<Diagnostic>, Error> {
        let conf = Conf::read(&config.alloc_conf)?;
        let settings =
            self.attention_setting(config).into_iter().chain(self.other_settings(config));
        let settings = settings
            .chain(self.checkpoint_setting(config))
            .chain(self.task_setting(config))
            .chain(self.idle_settings(config))
            .chain(emulated(config)?)
            .chain(self.unread_parameters());
        let allocator = conf.not_modelled.iter().map(|setting| not_modelled(setting));
        Ok(settings.chain(allocator).chain(without_effect(&config.in_effect())).collect())
    }
}

impl Model {
    /// What shapes and programs of this model depend on: [`Config::up_to`], without what makes no difference to it.
    fn settings(&self, config: &Config, stage: Stage) -> Config {
        let mut own = config.up_to(stage);
        let is_shape = stage == Stage::Shape;
        let usual = Library::default();
        let is_written = self.is_written();
        own.transformers = if is_written { config.library() } else { usual.transformers };
        if is_shape && !is_written {
            (own.attention, own.kernels) = (usual.attention, usual.kernels);
            own.task = usual.task;
        }
        if is_shape && !self.graph.level.is_program() {
            own.precision = Precision::Fp32;
        } else if is_shape || config.quantize == Quantize::None {
            own.precision = own.precision.of_weights();
        }
        own
    }

    /// Whether its graph can be written again, with other code.
    fn is_written(&self) -> bool {
        self.configuration.is_some() && self.abilities.rewrite().is_ok()
    }

    /// The graph: written again where a configuration is asked for with other code than its own.
    fn graph_for(&self, library: Library) -> Result<Arc<Graph>, Error> {
        if library.parts > 1 && !self.is_written() {
            let message = say!(
                "tensor parallelism divides the layers of a model of transformers, which this input does not name: give \
                 the model's config.json or its name, or leave `tp` out of the mesh"
            );
            return Err(Error::new(ErrorKind::BadConfig, message).about("mesh"));
        }
        match (&self.configuration, self.abilities.rewrite()) {
            (Some(text), Ok(rewrite)) if library != Library::default() => {
                let mut graph = rewrite(text, library)?;
                // What was found about the recipe holds for any code.
                let of_recipe =
                    self.graph.diagnostics.iter().filter(|found| found.code.starts_with("recipe-"));
                graph.diagnostics.extend(of_recipe.cloned());
                Ok(Arc::new(graph))
            }
            _ => Ok(Arc::clone(&self.graph)),
        }
    }

    /// Where the setting of attention says nothing, or what cannot be.
    fn attention_setting(&self, config: &Config) -> Option<Diagnostic> {
        let message = match (config.attention, &self.configuration) {
            (Attention::Auto, _) => return None,
            (_, Some(_)) if !self.is_written() => {
                say!("attention is set by the configuration: write `attn_implementation` into it")
            }
            (Attention::Flash, _) if config.precision == Precision::Fp32 => {
                say!(
                    "the flash-attention package does not run in single precision: choose bf16, fp16 or \
                 autocast"
                )
            }
            _ => return None,
        };
        Some(Diagnostic::new(Severity::Warning, "attention-setting", message))
    }

    /// That a head was asked for, and the model has the one of its file.
    fn task_setting(&self, config: &Config) -> Option<Diagnostic> {
        let is_written = self.is_written();
        (config.task != Task::Auto && !is_written).then(|| {
            without_effect_of(
                "task",
                &say!("this input states its head; `architectures` of a `config.json` decides it there"),
            )
        })
    }

    /// That a setting was asked for that is about training alone.
    fn idle_settings(&self, config: &Config) -> impl Iterator<Item = Diagnostic> {
        let is_asked = |setting: &&Setting| {
            setting.is_changed(config) && !setting.is_same(config, &self.defaults)
        };
        let idle: Vec<&Setting> = config.idle_settings().filter(is_asked).collect();
        let why = Sentence::of("nothing is trained");
        idle.into_iter().map(move |setting| without_effect_of(setting.name, &why))
    }

    /// That the library's class refuses to checkpoint its blocks (`supports_gradient_checkpointing = False`).
    fn checkpoint_setting(&self, config: &Config) -> Option<Diagnostic> {
        let checkpoints = config.in_effect().checkpoint != Checkpoint::None;
        let text = self.configuration.as_deref().filter(|_| checkpoints);
        let settings: serde_json::Value = serde_json::from_str(text?).ok()?;
        let family = settings.get("model_type")?.as_str()?;
        UNCHECKPOINTED.contains(&family).then(|| {
            let message = say!(
                "transformers refuses `gradient_checkpointing_enable()` for this family: this answer is for code that \
                 calls `torch.utils.checkpoint` on each block itself. Otherwise the truth is that without checkpointing"
            );
            Diagnostic::new(Severity::Warning, "checkpoint-setting", message)
        })
    }

    /// That an ONNX file lacks what its forward does not read. The signature of the dynamo exporter has its names.
    fn unread_parameters(&self) -> Option<Diagnostic> {
        let graph = &*self.graph;
        let is_file = self.recognised.format.starts_with("ONNX");
        if !is_file || !graph.producer.starts_with("pytorch") {
            return None;
        }
        if graph.members.is_empty() {
            let message = say!(
                "an ONNX file has only the parameters and buffers that its forward reads: a module that is never called \
                 takes memory in training, and is not part of this answer"
            );
            return Some(Diagnostic::new(Severity::Info, "unread-parameters", message));
        }
        let values = graph.values.iter().filter(|value| value.initializer.is_some());
        let present: BTreeSet<&str> = values.map(|value| value.name.as_str()).into_set();
        // What was folded into others ran in its module, and so did what a tensor of the file belongs to.
        let modules = graph.nodes.iter().map(|node| node.module.as_str());
        let ran: BTreeSet<&str> =
            modules.chain(present.iter().filter_map(|name| owner(name))).into_set();
        let is_unread = |name: &&str| {
            !present.contains(name) && owner(name).is_some_and(|owner| !ran.contains(owner))
        };
        let members = graph.members.iter().filter(|(_, kind)| *kind == Member::Parameter);
        let unread: Vec<&str> = members.map(|(name, _)| name.as_str()).filter(is_unread).collect();
        let first = unread.first()?;
        let message = say!(
            "{count} parameters belong to modules that the forward never calls, the first is `{first}`. The file has their \
             names and not their sizes: the truth is higher by what they take",
            count = unread.len(),
            first
        );
        Some(Diagnostic::new(Severity::Warning, "unread-parameters", message))
    }

    /// That the input suggests other settings than those that were asked for.
    fn other_settings(&self, config: &Config) -> Option<Diagnostic> {
        let said = |config: &Config| {
            let always = [
                ("optimizer", config.optimizer.to_string()),
                ("precision", config.precision.to_string()),
                ("pytorch", config.pytorch.to_string()),
            ];
            always.into_iter().chain(config.unusual()).collect::<Vec<_>>()
        };
        let (usual, asked) = (said(&Config::default()), said(config));
        // The loss goes with the head.
        let is_idle = |name: &str| config.idle_settings().any(|setting| setting.name == name);
        let is_settled = |name: &str| name == "loss" && config.task != Task::Auto || is_idle(name);
        let suggested = said(&self.defaults).into_iter().filter(|(name, _)| !is_settled(name));
        let others =
            suggested.filter(|setting| !usual.contains(setting) && !asked.contains(setting));
        let others: Vec<String> = others.map(|(name, value)| format!("{name} {value}")).collect();
        let message = say!(
            "the input suggests other settings than this estimate is for: {others}",
            others = others.join(", ")
        );
        (!others.is_empty()).then(|| Diagnostic::new(Severity::Info, "other-settings", message))
    }
}

/// The type that floating-point tensors are converted to: those of a [program](crate::graph::Level) before shapes are
/// inferred, because its operators may have other types then; those of other graphs once operators are recovered, which
/// are told by the types that the exporter saw.
fn converts(config: &Config) -> Option<DType> {
    config.converts_to()
}

/// That the release of PyTorch is none whose rules are known.
fn unknown_version(config: &Config) -> Option<Diagnostic> {
    let version = config.pytorch;
    let (end, nearest) = if version < PyTorch::OLDEST {
        (say!("older"), PyTorch::OLDEST)
    } else {
        (say!("newer"), PyTorch::LATEST)
    };
    let message = say!(
        "PyTorch {version} is {end} than all that were compared with; the rules of {nearest} are followed",
        version,
        end,
        nearest
    );
    let unknown = || Diagnostic::new(Severity::Warning, "pytorch-unknown", message);
    (!version.is_known()).then(unknown)
}

/// Settings that were changed, but do nothing without another.
fn without_effect(config: &Config) -> impl Iterator<Item = Diagnostic> {
    let usual = Config::default();
    let has_adapters = !config.lora.is_empty();
    let is_chunked = config.loss_kernel == LossKernel::Chunked;
    let checkpoints = config.checkpoint != Checkpoint::None;
    let has_four_bits = matches!(config.quantize, Quantize::Nf4 | Quantize::Fp4);
    let adapters = Sentence::of("no layer has an adapter");
    let four_bits = Sentence::of("no weights have 4 bits");
    let chunks = Sentence::of("the loss is not computed in chunks of tokens");
    let no_checkpoint = Sentence::of("nothing is checkpointed");
    [
        ("checkpoint-offload", config.checkpoint_offload && !checkpoints, &no_checkpoint),
        ("loss-chunk", config.loss_chunk != usual.loss_chunk && !is_chunked, &chunks),
        (
            "checkpoint-reentry",
            config.checkpoint_reentry != usual.checkpoint_reentry && !checkpoints,
            &no_checkpoint,
        ),
        ("lora-rank", config.lora_rank != usual.lora_rank && !has_adapters, &adapters),
        ("lora-dropout", config.lora_dropout && !has_adapters, &adapters),
        ("dora", config.dora && !has_adapters, &adapters),
        ("modules-to-save", !config.modules_to_save.is_empty() && !has_adapters, &adapters),
        ("double-quantize", config.double_quantize && !has_four_bits, &four_bits),
        ("compute-type", config.compute_type != usual.compute_type && !has_four_bits, &four_bits),
    ]
    .into_iter()
    .filter(|(_, is_idle, _)| *is_idle)
    .map(|(name, _, why)| without_effect_of(name, why))
    .collect::<Vec<_>>()
    .into_iter()
}

fn without_effect_of(name: &'static str, why: &Sentence) -> Diagnostic {
    let message = say!("the setting `{name}` has no effect, because {why}", name, why);
    Diagnostic::new(Severity::Warning, "setting-without-effect", message)
}

/// That the device has no arithmetic in bf16.
fn emulated(config: &Config) -> Result<Option<Diagnostic>, Error> {
    /// Compute capability of the first GPUs that have it.
    const AMPERE: (u32, u32) = (8, 0);
    let device = device::find(&config.device)?;
    let types = [config.converts_to(), config.precision.autocast()];
    let is_emulated = device.compute_capability < AMPERE && types.contains(&Some(DType::BFloat16));
    Ok(is_emulated.then(|| {
        let message = say!(
            "{gpu} computes bf16 by emulation, which is slow; its users choose fp16, such as `--precision amp-fp16`. \
             The memory is that of bf16",
            gpu = device.name
        );
        Diagnostic::new(Severity::Info, "emulated-bf16", message)
    }))
}

/// A setting of the allocator that changes what is reserved, in a way that is not simulated.
fn not_modelled(setting: &str) -> Diagnostic {
    let message = say!(
        "the allocator's setting `{setting}` is not simulated: reserved memory may differ",
        setting
    );
    Diagnostic::new(Severity::Warning, "allocator-setting", message)
}

#[cfg(test)]
mod tests;
