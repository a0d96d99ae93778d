//! Loops of which not all trips ran ([`Fold`]): the events of one trip, as often as the loop has trips like it.
//!
//! A run passes the trips in sweeps: forward from the first to the last, backward from the last to the first. In each
//! sweep the events of [`Fold::TEMPLATE`] are repeated. What such an event allocates is a storage of the repeated
//! trip; what it frees belongs to the same trip or to one near it, at the same distance as in the template. The trips
//! next to the template must do the same as it does; otherwise the loop is refused.
//!
//! Where that would be too many events, one repeated trip stands for several. What it keeps for backward is one
//! allocation as large as all of theirs; what it frees itself is as large as that of one.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::bytes::Bytes;
use crate::diagnostic::{Diagnostic, Severity};
use crate::eager::{Asked, Launch};
use crate::error::{Error, ErrorKind};
use crate::graph::{Fold, Trip};
use crate::trace::{Category, Event, LabelId, PhaseMark, StorageId, Trace};

/// COUNT: events that repeated trips of a loop add at most, but those of one trip in any case.
const EVENTS_MAX: usize = 1 << 17;

/// SIZE: what all trips of a loop keep, at most.
const KEPT_MAX: u64 = 1 << 55;

/// SIZE: the allocator's blocks are multiples of this.
const BLOCK: Bytes = Bytes(512);

/// How far apart two trips are at most of which one frees what the other allocated.
const NEAR: usize = 2;

/// Repeats the trips that did not run; returns what there is to say of loops that are too long even so.
///
/// # Errors
/// When the trips of a loop are not alike.
pub(super) fn all(
    trace: &mut Trace,
    asked: &mut Asked,
    trips: &[(LabelId, Trip)],
    folds: &[Fold],
) -> Result<Vec<Diagnostic>, Error> {
    if trips.is_empty() {
        return Ok(Vec::new());
    }
    // What is asked of the device tells nothing of the repeated trips.
    asked.forget();
    let mut by_label = vec![None; trace.labels.len()];
    for (label, trip) in trips {
        by_label.get_mut(label.index()).into_iter().for_each(|slot| *slot = Some(*trip));
    }
    let mut said = Vec::new();
    for (position, fold) in folds.iter().enumerate() {
        let place = |label: &LabelId| {
            let trip: Trip = by_label.get(label.index()).copied().flatten()?;
            (trip.fold == position).then_some(trip.place)
        };
        let places: Vec<Option<usize>> = trace.modules.iter().map(place).collect();
        let repeated = Sweep::all(trace, &places).map(|sweeps| Repeated::new(trace, sweeps, fold));
        let Some(mut repeated) = repeated.filter(Repeated::are_alike) else {
            return Err(unlike(fold));
        };
        if repeated.kept() > u128::from(KEPT_MAX) {
            return Err(too_large(fold));
        }
        let each = repeated.each;
        let Some(whole) = repeated.whole() else { return Err(unlike(fold)) };
        *trace = whole;
        said.extend((each > 1).then(|| joined(fold, each)));
    }
    merge_labels(trace, trips);
    Ok(said)
}

/// Counts the launches of the trip that stands for others as often as these run.
pub(super) fn count(launches: &mut [Launch], trips: &[(LabelId, Trip)], folds: &[Fold]) {
    for launch in launches {
        let trip = trips.iter().find(|(module, _)| *module == launch.module);
        let template = trip.map(|(_, trip)| trip).filter(|trip| trip.place == Fold::TEMPLATE);
        if let Some(fold) = template.and_then(|trip| folds.get(trip.fold)) {
            launch.times = launch.times.saturating_mul(fold.lacking().saturating_add(1));
        }
    }
}

fn unlike(fold: &Fold) -> Error {
    let Fold { name, trips } = fold;
    let message = say!(
        "\"{name}\" (Loop) runs its body {trips} times, which is too many to write out, and its trips are not alike, \
         so that one cannot stand for the others: give it fewer trips",
        name,
        trips
    );
    Error::new(ErrorKind::TooManyOperators, message)
}

fn too_large(fold: &Fold) -> Error {
    let Fold { name, trips } = fold;
    let message = say!(
        "\"{name}\" (Loop) runs its body {trips} times, and keeps more memory for backward than any machine has: \
         give it fewer trips",
        name,
        trips
    );
    Error::new(ErrorKind::TooLarge, message)
}

fn joined(fold: &Fold, each: u64) -> Diagnostic {
    let Fold { name, trips } = fold;
    let message = say!(
        "\"{name}\" runs its body {trips} times: what {each} trips keep is counted as one allocation, so reserved \
         memory is near the truth and not exact",
        name,
        trips,
        each
    );
    Diagnostic::new(Severity::Warning, "joined-trips", message).at(name.as_str())
}

/// Trips have labels of their own; from here on those of one text are one label.
fn merge_labels(trace: &mut Trace, trips: &[(LabelId, Trip)]) {
    let mut first = BTreeMap::new();
    for (at, text) in trace.labels.iter().enumerate() {
        first.entry(text.as_str()).or_insert_with(|| LabelId::new(at));
    }
    let mut merged: Vec<LabelId> = (0..trace.labels.len()).map(LabelId::new).collect();
    for (label, _) in trips {
        let one = first.get(trace.label(*label)).copied();
        if let (Some(slot), Some(one)) = (merged.get_mut(label.index()), one) {
            *slot = one;
        }
    }
    let of_storages = trace.storages.iter_mut().map(|storage| &mut storage.module);
    for module in of_storages.chain(&mut trace.modules) {
        *module = merged.get(module.index()).copied().unwrap_or(*module);
    }
}

/// One pass over all trips that ran.
#[derive(Debug)]
struct Sweep {
    /// Events of each trip, by its place.
    trips: [Range<usize>; Fold::WRITTEN],
    /// Whether the last trip comes first.
    is_backward: bool,
}

impl Sweep {
    /// All sweeps of a run, in order; `None` where one skips a trip.
    fn all(trace: &Trace, places: &[Option<usize>]) -> Option<Vec<Self>> {
        let mut sweeps = Vec::new();
        let starts = trace.phases.iter().map(|mark| mark.event);
        let ends = starts.clone().skip(1).chain([places.len()]);
        for (start, end) in starts.zip(ends) {
            let mut stays: Vec<(usize, Range<usize>)> = Vec::new();
            for (at, place) in places.iter().enumerate().take(end).skip(start) {
                let Some(place) = *place else { continue };
                match stays.last_mut() {
                    Some((last, stay)) if *last == place => stay.end = at + 1,
                    _ => stays.push((place, at..at + 1)),
                }
            }
            let mut rest = stays.as_mut_slice();
            while !rest.is_empty() {
                let (sweep, used) = Self::first(rest)?;
                sweeps.push(sweep);
                // The way back may begin with the trip that the way there ended with.
                let turns =
                    rest.get(used).is_some_and(|next| next.0 == 1 || next.0 + 2 == Fold::WRITTEN);
                let used = if turns { used - 1 } else { used };
                if let Some((_, stay)) = rest.get_mut(used).filter(|_| turns) {
                    stay.start = stay.end;
                }
                rest = rest.get_mut(used..)?;
            }
        }
        Some(sweeps)
    }

    /// The sweep that begins here, and how many stays it takes.
    fn first(stays: &[(usize, Range<usize>)]) -> Option<(Self, usize)> {
        let own = stays.get(..Fold::WRITTEN)?;
        let is_backward = own.first()?.0 > 0;
        let mut trips: [Range<usize>; Fold::WRITTEN] = Default::default();
        for (step, (place, stay)) in own.iter().enumerate() {
            let expected = if is_backward { Fold::WRITTEN - 1 - step } else { step };
            // What no trip is named for follows the trip that it stands behind.
            let end = own.get(step + 1).map_or(stay.end, |(_, next)| next.start);
            *trips.get_mut(*place).filter(|_| *place == expected)? = stay.start..end;
        }
        Some((Self { trips, is_backward }, own.len()))
    }

    fn template(&self) -> Range<usize> {
        self.trips.get(Fold::TEMPLATE).cloned().unwrap_or_default()
    }
}

/// Which allocation of a loop a storage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    sweep: usize,
    place: usize,
    /// Among those of the trip in this sweep.
    at: usize,
}

/// What an event does, told in the same words for each trip.
#[derive(Debug, PartialEq, Eq)]
enum Deed {
    /// To a storage of a trip near it: how far on that is, counted from `NEAR` back.
    Near { sweep: usize, ahead: usize, at: usize, bytes: Bytes, category: Category },
    /// To any other storage.
    Far(StorageId),
}

/// A run whose trips are repeated.
struct Repeated<'t> {
    trace: &'t Trace,
    sweeps: Vec<Sweep>,
    /// By [`StorageId`].
    origins: Vec<Option<Origin>>,
    /// The trip that each event belongs to.
    places: Vec<Option<usize>>,
    /// Storages by sweep, place and order.
    made: Vec<[Vec<StorageId>; Fold::WRITTEN]>,
    /// Which storages outlive their sweep, by [`StorageId`].
    outlives: Vec<bool>,
    /// COUNT: trips that did not run.
    lacking: u64,
    /// COUNT: of these, how many a trip stands for that is added; the last one for the rest.
    each: u64,
    /// COUNT: trips to add.
    times: usize,
    /// The first storage of the added trips of each sweep.
    added: Vec<usize>,
}

impl<'t> Repeated<'t> {
    fn new(trace: &'t Trace, sweeps: Vec<Sweep>, fold: &Fold) -> Self {
        let mut origins = vec![None; trace.storages.len()];
        let mut places = vec![None; trace.events.len()];
        let mut made = Vec::with_capacity(sweeps.len());
        for (sweep, one) in sweeps.iter().enumerate() {
            let mut of_sweep: [Vec<StorageId>; Fold::WRITTEN] = Default::default();
            for (place, (events, list)) in one.trips.iter().zip(&mut of_sweep).enumerate() {
                let of_trip = places.get_mut(events.clone());
                of_trip.into_iter().flatten().for_each(|slot| *slot = Some(place));
                for event in trace.events.get(events.clone()).unwrap_or_default() {
                    let Event::Alloc(id) = *event else { continue };
                    let origin = Origin { sweep, place, at: list.len() };
                    origins.get_mut(id.index()).into_iter().for_each(|slot| *slot = Some(origin));
                    list.push(id);
                }
            }
            made.push(of_sweep);
        }
        let each: usize = sweeps.iter().map(|sweep| sweep.template().len()).sum();
        let most = EVENTS_MAX.checked_div(each).map_or(0, |most| most.max(1));
        let lacking = fold.lacking();
        let outlives = outliving(trace, &sweeps, &origins);
        let mut new = Self {
            trace,
            sweeps,
            origins,
            places,
            made,
            outlives,
            lacking,
            each: 1,
            times: 0,
            added: Vec::new(),
        };
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        if lacking > most && most > 0 {
            let kept = new.kept_sizes().max().unwrap_or_default();
            new.each = trips_together(lacking.div_ceil(most), kept);
        }
        new.times = usize::try_from(lacking.div_ceil(new.each).min(most)).unwrap_or(usize::MAX);
        new
    }

    fn origin(&self, id: StorageId) -> Option<Origin> {
        self.origins.get(id.index()).copied().flatten()
    }

    /// What an event of a trip does.
    fn deed(&self, place: usize, event: Event) -> Deed {
        let id = event.storage();
        let near = self.origin(id).filter(|origin| origin.place.abs_diff(place) <= NEAR);
        let of_storage = near.zip(self.trace.storage(event));
        of_storage.map_or(Deed::Far(id), |(origin, storage)| Deed::Near {
            sweep: origin.sweep,
            ahead: origin.place + NEAR - place,
            at: origin.at,
            bytes: storage.requested,
            category: storage.category,
        })
    }

    /// Whether the trips next to the template do what it does.
    fn are_alike(&self) -> bool {
        let template = Fold::TEMPLATE;
        self.sweeps.iter().all(|sweep| {
            let deeds = |place: usize| {
                let events = sweep.trips.get(place).cloned().unwrap_or_default();
                events.filter_map(move |at| {
                    let event = *self.trace.events.get(at)?;
                    let is_free = matches!(event, Event::Free(_));
                    Some((is_free, self.trace.operators.get(at)?, self.deed(place, event)))
                })
            };
            deeds(template - 1).eq(deeds(template)) && deeds(template).eq(deeds(template + 1))
        })
    }

    fn outlives(&self, id: StorageId) -> bool {
        self.outlives.get(id.index()) == Some(&true)
    }

    /// SIZE: blocks of the template that outlive their sweep.
    fn kept_sizes(&self) -> impl Iterator<Item = Bytes> {
        let templates = self.made.iter().filter_map(|made| made.get(Fold::TEMPLATE)).flatten();
        let kept = templates.filter(|id| self.outlives(**id));
        let storages = kept.filter_map(|id| self.trace.storages.get(id.index()));
        storages.map(|storage| storage.requested.round_up(BLOCK))
    }

    /// SIZE: what the trips that did not run keep beyond their sweeps.
    fn kept(&self) -> u128 {
        let each: u128 = self.kept_sizes().map(|size| u128::from(size.0)).sum();
        each.saturating_mul(u128::from(self.lacking))
    }

    /// The run with all trips; `None` where what the trips free does not add up.
    fn whole(&mut self) -> Option<Trace> {
        let old = self.trace;
        let mut new = Trace {
            events: Vec::new(),
            operators: Vec::new(),
            modules: Vec::new(),
            phases: Vec::new(),
            held: Vec::new(),
            ..old.clone()
        };
        let each = |events: Range<usize>| events.len().saturating_mul(self.times);
        let added: usize = self.sweeps.iter().map(|sweep| each(sweep.template())).sum();
        new.events.reserve_exact(old.events.len().saturating_add(added));
        for made in &self.made {
            self.added.push(new.storages.len());
            let template = made.get(Fold::TEMPLATE)?;
            let like = |id: &StorageId| Some((old.storages.get(id.index())?, self.outlives(*id)));
            let like: Vec<_> = template.iter().filter_map(like).collect();
            let mut left = self.lacking;
            for _ in 0..self.times {
                let stands_for = left.min(self.each);
                left -= stands_for;
                new.storages.extend(like.iter().map(|&(storage, keeps)| {
                    let mut storage = storage.clone();
                    if keeps && stands_for > 1 {
                        storage.requested = storage.requested.round_up(BLOCK).times(stands_for);
                    }
                    storage
                }));
            }
        }
        let mut marks = old.phases.iter().peekable();
        let mut at = 0;
        for sweep in &self.sweeps {
            let template = sweep.template();
            let until = if sweep.is_backward { template.start } else { template.end };
            self.as_it_ran(&mut new, &mut marks, at..until)?;
            for step in 1..=self.times {
                let trip = if sweep.is_backward { self.times + 1 - step } else { step };
                self.again(&mut new, template.clone(), trip)?;
            }
            at = until;
        }
        self.as_it_ran(&mut new, &mut marks, at..old.events.len())?;
        new.phases.extend(marks.map(|mark| PhaseMark { event: new.events.len(), ..*mark }));
        is_sound(&new).then_some(new)
    }

    /// Events that ran.
    fn as_it_ran<'m>(
        &self,
        new: &mut Trace,
        marks: &mut std::iter::Peekable<impl Iterator<Item = &'m PhaseMark>>,
        events: Range<usize>,
    ) -> Option<()> {
        for at in events {
            while let Some(mark) = marks.next_if(|mark| mark.event <= at) {
                new.phases.push(PhaseMark { event: new.events.len(), ..*mark });
            }
            let event = *self.trace.events.get(at)?;
            match self.origin(event.storage()) {
                None => self.push(new, at, event),
                Some(origin) => match self.places.get(at).copied().flatten() {
                    Some(place) if place.abs_diff(origin.place) <= NEAR => {
                        let id = self.storage(origin, self.position(place), place)?;
                        self.push(new, at, of(event, id));
                    }
                    _ if origin.place == Fold::TEMPLATE => self.free_all(new, at, event, origin)?,
                    _ => self.push(new, at, event),
                },
            }
        }
        Some(())
    }

    /// The template's events in one of the added trips.
    fn again(&self, new: &mut Trace, template: Range<usize>, trip: usize) -> Option<()> {
        for at in template {
            let event = *self.trace.events.get(at)?;
            let event = match self.origin(event.storage()) {
                Some(origin) if origin.place.abs_diff(Fold::TEMPLATE) <= NEAR => {
                    let position = Fold::TEMPLATE + trip;
                    of(event, self.storage(origin, position, Fold::TEMPLATE)?)
                }
                _ => event,
            };
            self.push(new, at, event);
        }
        Some(())
    }

    /// What is freed after the loop, of the template and of the trips like it, in the order in which the loop's other
    /// trips are freed.
    fn free_all(&self, new: &mut Trace, at: usize, event: Event, origin: Origin) -> Option<()> {
        let before = self.trace.events.get(at.checked_sub(1)?)?;
        let after = self.origin(before.storage()).map(|before| before.place);
        let is_backward = after == Some(Fold::TEMPLATE + 1);
        for step in 0..=self.times {
            let trip = if is_backward { self.times - step } else { step };
            let id = self.storage(origin, Fold::TEMPLATE + trip, Fold::TEMPLATE)?;
            self.push(new, at, of(event, id));
        }
        Some(())
    }

    fn push(&self, new: &mut Trace, at: usize, event: Event) {
        new.events.push(event);
        new.operators.extend(self.trace.operators.get(at));
        new.modules.extend(self.trace.modules.get(at));
    }

    /// Where a trip that ran stands among all.
    const fn position(&self, place: usize) -> usize {
        if place > Fold::TEMPLATE { place + self.times } else { place }
    }

    /// The storage that is to a trip at a position what the origin is to the trip of that place.
    fn storage(&self, origin: Origin, position: usize, place: usize) -> Option<StorageId> {
        let Origin { sweep, at, .. } = origin;
        let target = (position + origin.place).checked_sub(place)?;
        let made = self.made.get(sweep)?;
        if target > Fold::TEMPLATE && target <= Fold::TEMPLATE + self.times {
            let each = made.get(Fold::TEMPLATE)?.len();
            let trip = target - Fold::TEMPLATE - 1;
            let first = self.added.get(sweep)?;
            return (at < each).then(|| StorageId::new(first + trip * each + at));
        }
        let target = if target > Fold::TEMPLATE { target - self.times } else { target };
        made.get(target)?.get(at).copied()
    }
}

/// Which storages outlive the sweep that they are made in.
fn outliving(trace: &Trace, sweeps: &[Sweep], origins: &[Option<Origin>]) -> Vec<bool> {
    let mut outlives = vec![true; trace.storages.len()];
    for (number, sweep) in sweeps.iter().enumerate() {
        let of_trips = sweep.trips.iter().cloned().flatten();
        for event in of_trips.filter_map(|at| trace.events.get(at)) {
            let Event::Free(id) = *event else { continue };
            let origin = origins.get(id.index()).copied().flatten();
            if origin.is_some_and(|origin| origin.sweep == number)
                && let Some(slot) = outlives.get_mut(id.index())
            {
                *slot = false;
            }
        }
    }
    outlives
}

/// COUNT: trips to take together, at least so many: as many as fill a segment of the allocator, or a part of it, so
/// that as little is left over as between the blocks of single trips.
fn trips_together(least: u64, kept: Bytes) -> u64 {
    const MIB: u64 = 1 << 20;
    let kept = kept.0.max(1);
    let size = least.saturating_mul(kept);
    let fill = |segment: u64| segment.div_euclid(segment.div_euclid(size).max(1));
    let fills = if size <= MIB {
        fill(2 * MIB)
    } else if size < 10 * MIB {
        fill(20 * MIB)
    } else {
        size.checked_next_multiple_of(2 * MIB).unwrap_or(size)
    };
    fills.div_euclid(kept).max(least)
}

/// The same of another storage.
const fn of(event: Event, id: StorageId) -> Event {
    match event {
        Event::Alloc(_) => Event::Alloc(id),
        Event::Free(_) => Event::Free(id),
    }
}

/// Whether each storage is allocated before it is freed, and both at most once.
fn is_sound(trace: &Trace) -> bool {
    let (mut allocated, mut freed) =
        (vec![false; trace.storages.len()], vec![false; trace.storages.len()]);
    trace.events.iter().all(|event| {
        let at = event.storage().index();
        let (Some(allocated), Some(freed)) = (allocated.get_mut(at), freed.get_mut(at)) else {
            return false;
        };
        match event {
            Event::Alloc(_) => !std::mem::replace(allocated, true),
            Event::Free(_) => *allocated && !std::mem::replace(freed, true),
        }
    })
}
