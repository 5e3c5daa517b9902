//! Cut: power cuts at the internal points of an emulated device, through `PowerCut` alone.
//!
//! The device holds the image and, behind it, a neighbour's region (see `neighbour`), and has been aged until it
//! collects garbage. The workload runs twice on it: once to count its internal points, once to take copies of it, dark,
//! at the points that are wanted. Each copy loses its power with some chances, recovers (some are cut again while they
//! do), and is held to its contract before the file system on it is: every page gives its last durable content or a
//! newer one, as the recording of the requests has it, and a SHARE happened whole or not at all.
//!
//! ```text
//!   fork ─► arm(point) ─► advance: dark ─► cut(chance) ─► recover, cut again, recover ─► check ─► pages ─► judges
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::{
    Cause, Choices, DeviceError, Executor, Image, Lpn, Nanos, Operation, PAGE_SIZE, Page, PowerCut, Request,
};

use crate::action::Workload;
use crate::crash::Stage;
use crate::error::CrashError;
use crate::explore::{Explorer, Place, Walk, base_of, no_such_state};
use crate::history::History;
use crate::judge::{Breach, Judge, Promise};
use crate::model::Tree;
use crate::neighbour::Region;
use crate::recovery::Extended;
use crate::run::{perform_at, prepare};
use crate::state_id::{DeviceCut, StateId};
use crate::states::{Sum, Walker, log_pages};
use crate::subject::{Purpose, Subject};
use crate::watched::{Capture, Wanted, Watch, Watched, read};

/// Makes an emulated device of so many pages, always the same.
pub type MakeDevice<'d> = dyn Fn(u64) -> Box<dyn PowerCut> + Sync + 'd;

/// Every so-many-th state has all pages of the device looked at; of the others only those that the run wrote.
const ALL_PAGES_EVERY: u64 = 8;
/// Internal points within which a recovery is cut.
const RECOVERY_POINTS: u64 = 24;

/// Which internal points to cut at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCuts {
    /// Points spread evenly over the run.
    pub points: u64,
    /// Chances at each point: what of the content under way survives, and whether recovery is cut.
    pub chances: u64,
    /// Only this state (`cut:981:4`, `cut:981:4>12:1`).
    pub only: Option<String>,
}

/// A device that holds what a workload begins with, and the neighbour's region, aged.
pub(crate) struct Aged {
    /// Of which setup.
    base: u64,
    device: Box<dyn PowerCut>,
    /// The device's time.
    now: Nanos,
    content: Image,
    tree: Tree,
}

/// The workload on the device, with copies at the wanted points.
struct DeviceRun {
    events: Vec<RecordedEvent>,
    history: History,
    captured: Vec<Capture>,
    /// Internal points after each advance of the clock.
    advances: Vec<u64>,
    /// First and last internal point at which it is cut.
    points: (u64, u64),
}

/// What a run did to the pages before and behind the end of the image.
struct Walkers<'w> {
    image: Walker<'w>,
    region: Walker<'w>,
    /// First page of the region.
    start: u64,
}

impl Walkers<'_> {
    fn pass(&mut self, event: &RecordedEvent) {
        match (event, first_page(event)) {
            (_, Some(first)) if first >= self.start => self.region.pass(event),
            (_, Some(_)) => self.image.pass(event),
            _ => self.region.pass(event) + self.image.pass(event),
        };
    }

    /// What differs from the last durable content, each page with its hash.
    ///
    /// # Errors
    /// The pages that hold neither that nor anything newer.
    fn newer(&self, content: BTreeMap<Lpn, Page>) -> Result<BTreeMap<Lpn, (Page, u64)>, Vec<Lpn>> {
        let (mut newer, mut wrong) = (BTreeMap::new(), Vec::new());
        let (image, region) = (self.image.pending_pages(), self.region.pending_pages());
        for (lpn, page) in content {
            let (walker, pending) = if lpn.0 < self.start { (&self.image, &image) } else { (&self.region, &region) };
            match walker.newer(pending, lpn, &page) {
                Ok(None) => (),
                Ok(Some(hash)) => drop(newer.insert(lpn, (page, hash))),
                Err(()) => wrong.push(lpn),
            }
        }
        if wrong.is_empty() { Ok(newer) } else { Err(wrong) }
    }
}

/// The first page that a request changes; `None` for a FLUSH and what is no submission.
fn first_page(event: &RecordedEvent) -> Option<u64> {
    let RecordedEvent::Submitted(_, request) = event else { return None };
    match &request.operation {
        Operation::Write { start, .. } | Operation::Trim { start, .. } => Some(start.0),
        Operation::Share(pairs) => pairs.first().map(|pair| pair.target.0),
        Operation::Read { .. } | Operation::Flush => None,
    }
}

/// The pages that a run wrote, and all of the device.
struct Pages {
    written: Vec<Lpn>,
    all: u64,
}

fn written_pages(events: &[RecordedEvent]) -> Vec<Lpn> {
    let mut pages = BTreeSet::new();
    for event in events {
        let RecordedEvent::Submitted(_, request) = event else { continue };
        match &request.operation {
            Operation::Write { start, pages: content, .. } => {
                pages.extend((start.0..start.0 + content.len() as u64).map(Lpn));
            }
            Operation::Trim { start, count } => pages.extend((start.0..start.0 + count).map(Lpn)),
            Operation::Share(pairs) => pages.extend(pairs.iter().map(|pair| pair.target)),
            Operation::Read { .. } | Operation::Flush => (),
        }
    }
    pages.into_iter().collect()
}

/// What came of getting the power back.
struct PoweredUp {
    content: BTreeMap<Lpn, Page>,
    /// Recoveries that were cut.
    cut_again: u32,
}

impl<S: Subject> Explorer<'_, S> {
    /// Explores cuts inside a device that `make` makes.
    ///
    /// # Errors
    /// If the workload cannot be run at all, or [`DeviceCuts::only`] means nothing.
    pub fn explore_device(
        &mut self,
        make: &MakeDevice<'_>,
        workload: &Workload,
        cuts: &DeviceCuts,
    ) -> Result<(), CrashError> {
        if !self.take_turn() {
            return Ok(());
        }
        self.age(make, workload)?;
        let DeviceRun { points: (first, last), advances, .. } = self.run_on_device(workload, Wanted::default())?;
        let (points, chances) = match &cuts.only {
            None => (spread(first, last, cuts.points), 0..cuts.chances),
            Some(text) => match text.parse()? {
                StateId::Device { cut: DeviceCut { point, chance }, then } => {
                    self.only = Some(then);
                    (VecDeque::from([point]), chance..chance + 1)
                }
                StateId::Door(_) | StateId::Fault(_) => {
                    let reason = "this is no cut inside a device".into();
                    return Err(CrashError::State { text: text.clone(), reason });
                }
            },
        };
        let run = self.run_on_device(workload, Wanted { points, advances })?;
        if let (Some(text), true) = (&cuts.only, run.captured.is_empty()) {
            let reason = "the run has no such internal point".into();
            return Err(CrashError::State { text: text.clone(), reason });
        }
        let outcome = self.judge_captures(workload, run, chances);
        let wanted = self.only.take();
        match (&cuts.only, wanted) {
            (Some(text), Some(then)) if !then.is_empty() && !self.has_met_only => outcome.and(Err(no_such_state(text))),
            _ => outcome,
        }
    }

    /// Makes [`Explorer::aged`] the device that `workload` begins on.
    fn age(&mut self, make: &MakeDevice<'_>, workload: &Workload) -> Result<(), CrashError> {
        let base = base_of(workload);
        if self.aged.as_ref().is_some_and(|aged| aged.base == base) {
            return Ok(());
        }
        if let Some(watch) = self.watch {
            watch(Stage::Aging);
        }
        let (image, tree) = prepare(&self.subject, workload, self.options)?;
        let region = Region::behind(image.pages());
        let chance = Choices::new(self.options.seed).stream("ageing", base);
        let (device, now, content) = load(make(region.device_pages()), &image, region, chance)?;
        self.aged = Some(Aged { base, device, now, content, tree });
        Ok(())
    }

    fn run_on_device(&self, workload: &Workload, wanted: Wanted) -> Result<DeviceRun, CrashError> {
        let aged = self.aged.as_ref().expect("the device was aged");
        let recording = Rc::new(RefCell::new(Recording::default()));
        let watch = Watch::new(aged.device.fork(), aged.now, wanted, &recording);
        let recorded = Box::new(Recorded::new(Watched::new(&watch), Rc::clone(&recording)));
        let executor = Executor::ideal();
        let port = executor.runtime().attach(self.subject.layer(recorded));
        let chance = Choices::new(self.options.seed).stream("beside", aged.base);
        let region = Region::behind(self.options.size_bytes / PAGE_SIZE as u64);
        region.keep_busy(&port, &chance, !self.subject.promises().pads);
        let (subject, tree) = (&self.subject, (aged.tree.clone(), &recording));
        let mounting = self.options.mounting(Purpose::RunInsideDevice);
        let history = perform_at((executor, port), subject, tree, workload.clone(), mounting)?;
        let captured = std::mem::take(&mut watch.borrow_mut().captured);
        let events = std::mem::take(&mut recording.borrow_mut().events);
        let last = watch.borrow().device.cut_points();
        let first = first_point(&watch.borrow().trail, &events, history.warm_up).unwrap_or(last);
        let advances = std::mem::take(&mut watch.borrow_mut().advances);
        Ok(DeviceRun { events, history, captured, advances, points: (first, last) })
    }

    fn judge_captures(
        &mut self,
        workload: &Workload,
        run: DeviceRun,
        chances: std::ops::Range<u64>,
    ) -> Result<(), CrashError> {
        let judge = Judge::new(&run.history, self.subject.promises(), self.options);
        self.recoverer.extended = Extended::of(workload);
        let log = log_pages(&run.events);
        let Some(geometry) = run.captured.first().map(|capture| capture.device.geometry().clone()) else {
            return Ok(());
        };
        let content = self.aged.as_ref().expect("the device was aged").content.clone();
        let (base, start) = (Sum::of_base(base_of(workload)), self.options.size_bytes / PAGE_SIZE as u64);
        let image = Walker::new(content.clone(), base, &log, &geometry);
        let region = Walker::new(content, base, &log, &geometry);
        let mut walkers = Walkers { image, region, start };
        let pages = Pages { written: written_pages(&run.events), all: geometry.pages };
        let (mut place, mut passed) = (Place::default(), 0);
        for capture in run.captured {
            while passed < capture.event {
                walkers.pass(&run.events[passed]);
                place.pass(passed, &run.events[passed], &run.history);
                passed += 1;
            }
            for chance in chances.clone() {
                let cut = DeviceCut { point: capture.point, chance };
                let (judge, log, base) = (&judge, &log, base_of(workload));
                let walk = Walk { judge, log, base, workload, inside: Some(cut), above: Vec::new(), run: None };
                self.count_judgement();
                self.ledger().judged_inside_device += 1;
                let breach = match self.power_up(&capture, chance, &pages) {
                    Ok(found) => self.judge_content(&walkers, (&walk, place), &capture, found)?,
                    Err(what) => Some(broken_device(what)),
                };
                if let Some(breach) = breach {
                    self.note(workload, &StateId::Device { cut, then: Vec::new() }, breach);
                }
                if self.is_done() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Loses the power and gets it back; gives what is then on the pages.
    fn power_up(&self, capture: &Capture, chance: u64, pages: &Pages) -> Result<PoweredUp, String> {
        let mut choices = Choices::new(self.options.seed).stream("cut", capture.point).stream("chance", chance);
        let mut device = capture.device.fork();
        device.cut(&mut choices);
        let mut cut_again = 0;
        // Every other chance cuts the recovery, too, and the recovery of that.
        for _ in 0..if chance % 2 == 1 { 2 } else { 0 } {
            device.arm(device.cut_points() + 1 + choices.below(RECOVERY_POINTS));
            if device.recover(capture.now) == Err(DeviceError::PowerLost) {
                device.cut(&mut choices);
                cut_again += 1;
            }
        }
        device.arm(u64::MAX);
        let report = device.recover(capture.now).map_err(|error| format!("recovery: {error}"))?;
        device.check()?;
        let wanted = match (capture.point + chance).is_multiple_of(ALL_PAGES_EVERY) {
            true => (0..pages.all).map(Lpn).collect(),
            false => pages.written.clone(),
        };
        let content = read(device, capture.now + report.duration, wanted).map_err(|error| error.to_string())?;
        Ok(PoweredUp { content, cut_again })
    }

    fn judge_content(
        &mut self,
        walkers: &Walkers<'_>,
        (walk, place): (&Walk<'_>, Place),
        capture: &Capture,
        PoweredUp { content, cut_again }: PoweredUp,
    ) -> Result<Option<Breach>, CrashError> {
        let mut content = match walkers.newer(content) {
            Ok(content) => content,
            Err(wrong) => {
                let wrong: Vec<String> = wrong.iter().map(Lpn::to_string).collect();
                return Ok(Some(broken_device(format!("{}: neither durable nor newer", wrong.join(", ")))));
            }
        };
        if let Some(lpn) = walkers.region.halved_share(&content) {
            let what = format!("a SHARE happened in part: {lpn} differs from the pairs beside it");
            return Ok(Some(broken_device(what)));
        }
        let region = content.split_off(&Lpn(walkers.start));
        let sum = walkers.image.sum_with(&content);
        let image = walkers.image.image_with(content);
        let outcome = self.recoverer.recover(image.clone(), sum, walkers.image.log());
        let is_new = self.ledger().seen.insert(sum.all.wrapping_add(walkers.region.sum_with(&region).all));
        if is_new {
            let replayed = outcome.replayed.filter(|replayed| replayed.transactions > 0);
            let report = &mut self.ledger().report;
            report.states += 1;
            let kinds = &mut report.states_by_kind;
            kinds.inside_device += 1;
            kinds.inside_share += u64::from(walkers.region.has_share_under_way());
            kinds.inside_map_log += u64::from(capture.logs_map);
            kinds.inside_collection += u64::from(capture.collects);
            kinds.inside_device_recovery += u64::from(cut_again > 0);
            kinds.log_not_empty += u64::from(replayed.is_some());
            kinds.log_wrapped += u64::from(walkers.image.has_wrapped);
            kinds.forced_checkpoint += u64::from(place.has_forced);
            kinds.revoke += u64::from(replayed.is_some_and(|replayed| replayed.revoked_blocks > 0));
            if let Some(breach) = self.stranger_finding_now_and_then(&outcome.image)? {
                return Ok(Some(breach));
            }
        }
        if self.wants_nested(walk, 0, outcome.replayed.is_some(), is_new) {
            self.cut_recovery(walk, (image, sum), place)?;
        }
        Ok(walk.judge.judge(&outcome.found, place.happened))
    }
}

fn broken_device(what: String) -> Breach {
    Breach { promise: Promise::Device, what, difference: Vec::new() }
}

/// Writes an image to a device, durably, and ages the region behind it; gives the device back with its time and
/// content.
fn load(
    device: Box<dyn PowerCut>,
    image: &Image,
    region: Region,
    mut chance: Choices,
) -> Result<(Box<dyn PowerCut>, Nanos, Image), CrashError> {
    let watch = Watch::new(device, Nanos::ZERO, Wanted::default(), &Rc::default());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Watched::new(&watch));
    let mut content = Image::new(region.device_pages());
    image.written().filter(|(lpn, _)| lpn.0 < image.pages()).for_each(|(lpn, page)| content.set(lpn, page.clone()));
    let work = async move {
        let most = u64::from(port.geometry().transfer_pages_max);
        for start in (0..region.start).step_by(most as usize) {
            let end = region.start.min(start + most);
            let pages = (start..end).map(|lpn| content.page(Lpn(lpn)).clone()).collect();
            port.request(Request::write(Lpn(start), pages, Cause::Metadata)).await?;
        }
        region.age(&port, &mut content, &mut chance).await?;
        let now = port.runtime().now();
        port.unplug();
        Ok::<_, DeviceError>((now, content))
    };
    let outcome = executor.block_on(work).map_err(|halt| CrashError::Halted { what: "loading".into(), halt })?;
    drop(executor);
    let loaded = outcome.map_err(|error| CrashError::FileSystem { what: "loading".into(), error: error.into() });
    let (now, content) = loaded?;
    let watch = Rc::into_inner(watch).expect("the port is unplugged and the run is over");
    Ok((watch.into_inner().device, now, content))
}

/// The internal point at which the warm-up, `warm_up` happenings, was over.
fn first_point(trail: &[(usize, u64)], events: &[RecordedEvent], warm_up: usize) -> Option<u64> {
    let is_last = |event: &RecordedEvent| matches!(event, RecordedEvent::Mark(mark) if *mark as usize + 1 == warm_up);
    let end = events.iter().position(is_last).unwrap_or(0);
    trail.iter().find(|(event, _)| *event >= end).map(|(_, point)| *point)
}

/// `count` points from `first` to `last`, evenly.
fn spread(first: u64, last: u64, count: u64) -> VecDeque<u64> {
    let all = last - first;
    let count = count.min(all);
    (0..count).map(|index| first + 1 + index * all / count.max(1)).collect()
}
