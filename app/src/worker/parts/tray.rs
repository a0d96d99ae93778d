//! Jobs that share a GPU: those that are open, were open, or are there once more.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use highwater_core::device::{self, Device, USUAL};
use highwater_core::estimate::{Alone, Offer, Stages};
use highwater_core::sharing::slowdown::{self, Mode, Slowed};
use highwater_core::sharing::{Fit, Partition, Tenant};
use highwater_core::{Config, Error, Model};
use wasm_split_helpers::{SplitLoaderError, wasm_split};

use crate::model::shared::{self, Ask, Card, Shared, Told};

/// COUNT: jobs that are kept, at most.
const MOST: usize = 12;

/// The tray, as the worker uses it.
pub(crate) trait Tray {
    /// Takes note of what is open, and does what is asked for, packed.
    fn ask(&mut self, open: Option<(&Model, &Config)>, ask: &[u8]);

    /// Another model is opened: the one before stays as a job.
    fn keep(&mut self);

    /// Computes what is not known yet of one job; whether there was any.
    fn step(&mut self) -> bool;

    /// What is known, packed.
    fn answer(&self) -> Vec<u8>;
}

/// What makes an empty tray. It computes times, as the part does that it arrives with.
///
/// # Errors
/// It did not arrive.
#[wasm_split(time, fallible)]
pub(crate) fn tray() -> Result<Box<dyn Tray>, SplitLoaderError> {
    Ok(Box::new(Jobs::default()))
}

#[derive(Default)]
struct Jobs {
    list: Vec<Job>,
    /// The number of the next job.
    next: u64,
    /// The card in the settings of the page.
    chosen: String,
    is_full: bool,
}

struct Job {
    id: u64,
    model: Model,
    config: Config,
    card: String,
    is_open: bool,
    stages: Stages,
    /// What it does alone on each card that it was on.
    alone: BTreeMap<String, Result<Alone, Error>>,
    /// How it ends on the slices of each card that it was on.
    offers: BTreeMap<String, Vec<Offer>>,
}

impl Job {
    fn new(id: u64, model: &Model, config: &Config) -> Self {
        Self {
            id,
            model: model.clone(),
            config: config.clone(),
            card: config.device.clone(),
            is_open: true,
            stages: Stages::default(),
            alone: BTreeMap::new(),
            offers: BTreeMap::new(),
        }
    }

    /// What it does alone on its card, where that is known.
    fn here(&self) -> Option<&Alone> {
        self.alone.get(&self.card)?.as_ref().ok()
    }

    /// The settings with which it is the same run on any card.
    fn run(&self) -> Config {
        Config { device: String::new(), ..self.config.clone() }
    }

    fn shown(&self) -> shared::Job {
        let sizes: Vec<_> =
            self.config.dims.iter().map(|(name, size)| format!("{name} {size}")).collect();
        let problem = self.alone.get(&self.card).and_then(|alone| alone.as_ref().err());
        shared::Job {
            id: self.id,
            name: self.model.name().to_owned(),
            sizes: sizes.join(", "),
            card: self.card.clone(),
            is_open: self.is_open,
            problem: problem.map(Error::sentence),
        }
    }
}

impl Jobs {
    /// The open model with the settings of the page: a new job, or the one that it is already.
    fn follow(&mut self, model: &Model, config: &Config) {
        self.chosen.clone_from(&config.device);
        if let Some(job) = self.list.iter_mut().find(|job| job.is_open) {
            let is_same = Config { device: String::new(), ..config.clone() } == job.run();
            if !is_same || job.model.name() != model.name() {
                *job = Job { card: job.card.clone(), ..Job::new(job.id, model, config) };
            }
            return;
        }
        if self.has_place() {
            self.list.push(Job::new(self.next, model, config));
            self.next = self.next.saturating_add(1);
        }
    }

    fn has_place(&mut self) -> bool {
        self.is_full = self.list.len() >= MOST;
        !self.is_full
    }

    /// The cards that are shown: the chosen one, the usual ones, and those that jobs are on.
    fn cards(&self) -> Vec<&'static Device> {
        let usual = USUAL.into_iter();
        let own = self.list.iter().map(|job| job.card.as_str());
        let mut cards: Vec<&'static Device> = Vec::new();
        for id in [self.chosen.as_str()].into_iter().chain(usual).chain(own) {
            let card = device::lookup(id).filter(|card| !cards.contains(card));
            cards.extend(card);
        }
        cards
    }

    fn card(&self, card: &'static Device) -> Card {
        let here: Vec<&Job> = self.list.iter().filter(|job| job.card == card.id).collect();
        let known: Vec<_> = here.iter().filter_map(|job| Some((*job, job.here()?))).collect();
        let tenants = known.iter().map(|(job, alone)| shared::Tenant {
            job: job.id,
            need: alone.verdict.need,
            step: alone.timing.as_ref().map(|timing| timing.time.step().0),
        });
        let usable = known.first().map(|(_, alone)| &alone.verdict);
        Card {
            id: card.id.to_owned(),
            name: card.name.to_owned(),
            usable: usable
                .map_or(card.capacity, |verdict| verdict.capacity - verdict.other_processes),
            tenants: tenants.collect(),
            told: if known.len() == here.len() { told(&known) } else { None },
        }
    }
}

/// How jobs end together, all of which are known; nothing where there is none.
fn told(jobs: &[(&Job, &Alone)]) -> Option<Told> {
    let keys: Vec<_> =
        jobs.iter().map(|(job, _)| format!("{}{:?}", job.model.name(), job.config.dims)).collect();
    let tenants: Vec<_> =
        jobs.iter().zip(&keys).map(|((_, alone), name)| Tenant { name, alone }).collect();
    let fit = Fit::of(&tenants)?;
    let by_mode = |(mode, steps): (Mode, Vec<Slowed>)| {
        (mode.label().to_owned(), steps.iter().map(Slowed::slowdowns).collect())
    };
    let slowed = slowdown::of_all(jobs.iter().map(|(_, alone)| *alone));
    let offers: Vec<_> = jobs
        .iter()
        .map(|(job, alone)| {
            let step = alone.timing.as_ref().map(|timing| timing.time.step());
            (job.offers.get(&job.card).cloned().unwrap_or_default(), step)
        })
        .collect();
    let partition = Partition::of(&offers);
    let slices = partition.map_or_else(Vec::new, |partition| {
        let steps = partition.steps.iter().map(|step| step.map(|step| step.0));
        partition.slices.iter().map(|slice| slice.nameplate.to_owned()).zip(steps).collect()
    });
    let mut limits = String::new();
    for ((job, _), limit) in jobs.iter().zip(&fit.limits) {
        writeln!(
            limits,
            "torch.cuda.set_per_process_memory_fraction(0.{:04})  # {}: {}",
            limit.fraction.0,
            job.model.name(),
            limit.reserved
        )
        .ok();
    }
    Some(Told {
        sentence: fit.sentence(),
        verdict: fit.verdict,
        chance: fit.chance,
        slowed: slowed.into_iter().map(by_mode).collect(),
        slices,
        limits,
    })
}

impl Tray for Jobs {
    fn ask(&mut self, open: Option<(&Model, &Config)>, ask: &[u8]) {
        if let Some((model, config)) = open {
            self.follow(model, config);
        }
        match postcard::from_bytes(ask) {
            Ok(Ask::Move(id, card)) => {
                if let Some(job) = self.list.iter_mut().find(|job| job.id == id) {
                    job.card = card;
                }
            }
            Ok(Ask::Again(id)) => {
                let same = self.list.iter().find(|job| job.id == id).map(|job| {
                    let Job { model, config, card, alone, offers, .. } = job;
                    let (model, config, card) = (model.clone(), config.clone(), card.clone());
                    let (alone, offers) = (alone.clone(), offers.clone());
                    let stages = Stages::default();
                    Job {
                        id: self.next,
                        model,
                        config,
                        card,
                        is_open: false,
                        stages,
                        alone,
                        offers,
                    }
                });
                if let Some(same) = same.filter(|_| self.has_place()) {
                    self.next = self.next.saturating_add(1);
                    self.list.push(same);
                }
            }
            Ok(Ask::Remove(id)) => {
                self.list.retain(|job| job.id != id);
                self.is_full = false;
            }
            Ok(Ask::Show) | Err(_) => {}
        }
    }

    fn keep(&mut self) {
        for job in &mut self.list {
            job.is_open = false;
        }
    }

    fn step(&mut self) -> bool {
        for job in &mut self.list {
            let Job { model, config, card, stages, alone, offers, .. } = job;
            if !alone.contains_key(card) {
                let found = model.alone(config, card, stages);
                alone.insert(card.clone(), found);
                return true;
            }
            if !offers.contains_key(card) && device::slices(card).next().is_some() {
                let found = model.offers(config, card, stages).unwrap_or_default();
                offers.insert(card.clone(), found);
                return true;
            }
        }
        false
    }

    fn answer(&self) -> Vec<u8> {
        let shared = Shared {
            jobs: self.list.iter().map(Job::shown).collect(),
            cards: self.cards().into_iter().map(|card| self.card(card)).collect(),
            is_full: self.is_full,
        };
        postcard::to_stdvec(&shared).unwrap_or_default()
    }
}
