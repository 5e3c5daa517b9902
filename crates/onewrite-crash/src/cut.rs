//! Cut: power cuts at the internal points of an emulated device, through `PowerCut` alone.
//!
//! The device holds the image and, behind it, the region of a background load (see `background`). It has been aged
//! until it collects garbage. The workload runs twice on it: the first run counts its internal points, the second takes
//! copies that lose power at the wanted points. Each copy is cut with several random outcomes and recovers; some
//! recoveries are cut again. Then the device's contract is checked, and after it the file system: every page reads as
//! its last durable content or a newer one, by the recording of the requests, and a SHARE took effect whole or not at
//! all.
//!
//! ```text
//!   fork ─► arm(point) ─► advance ─► cut(chance) ─► recover, cut again, recover ─► check ─► pages ─► judges
//! ```
//!
//! Judging such a cut needs only the copy; entering it needs the ledger (see `ahead`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::mark::{self, Marks};
use onewrite_block::{Choices, DeviceError, Executor, Lpn, PAGE_SIZE, Page};

use crate::action::Workload;
use crate::aged::Aged;
use crate::ahead::{Ahead, LookedInside, Survivor};
use crate::background::{Effect, Region};
use crate::capturing::{Capture, Capturing, CapturingDevice, DeviceRun, Wanted, read};
use crate::enter::Met;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::in_memory::InMemory;
use crate::judge::{Breach, Judge, Promise};
use crate::perform::perform_at;
use crate::plan::{MakeDevice, Stage};
use crate::read_tree::Extended;
use crate::state_id::{DeviceCut, StateId};
use crate::states::log_pages;
use crate::subject::{Purpose, Subject};
use crate::survivors::{Along, Pages, written_pages};
use crate::walk::{Walk, base_of};

/// Checks all pages of the device in one of this many states; in the others, only the pages that the run wrote.
const ALL_PAGES_EVERY: u64 = 8;
/// A recovery is cut at one of this many first internal points.
const RECOVERY_POINTS: u64 = 24;

/// Which internal points to cut at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCuts {
    /// Points spread evenly over the run.
    pub points: u64,
    /// Random outcomes tried at each point: which content under way survives, and whether recovery is cut.
    pub chances: u64,
    /// Only this state (`cut:981:4`, `cut:981:4>12:1`).
    pub only: Option<String>,
}

/// The device after the power came back.
struct PoweredUp {
    /// By page, ascending.
    content: Vec<(Lpn, Page)>,
    /// Recoveries that a further power cut interrupted.
    cut_again: u32,
}

impl<S: Subject> Explorer<'_, S> {
    /// Explores power cuts inside a device that `make` creates.
    ///
    /// # Errors
    /// If the workload cannot be run at all, or [`DeviceCuts::only`] names no state.
    pub fn explore_device(
        &mut self,
        make: &MakeDevice<'_>,
        workload: &Workload,
        cuts: &DeviceCuts,
    ) -> Result<(), CrashError> {
        self.age(make, workload)?;
        let DeviceRun { points, advances, .. } = self.run_on_device(workload, Wanted::default())?;
        let (points, chances) = match &cuts.only {
            None => (spread(points, cuts.points), 0..cuts.chances),
            Some(text) => match text.parse()? {
                StateId::Device { cut: DeviceCut { point, chance }, then } => {
                    self.only = Some(then);
                    (VecDeque::from([point]), chance..chance + 1)
                }
                StateId::Door(_) | StateId::Fault { .. } | StateId::Mounted => {
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
        let outcome = self.judge_captures(workload, run, chances).map(drop);
        let wanted = self.only.take();
        match (&cuts.only, wanted) {
            (Some(text), Some(then)) if !then.is_empty() && !self.has_met_only => {
                outcome.and(Err(CrashError::no_such_state(text)))
            }
            _ => outcome,
        }
    }

    /// Judges all cuts without the ledger; leaves the outcome in [`Explorer::ahead`].
    ///
    /// # Errors
    /// If the workload cannot be run at all.
    pub(crate) fn look_inside(
        &mut self,
        make: &MakeDevice<'_>,
        workload: &Workload,
        DeviceCuts { points, chances, .. }: &DeviceCuts,
    ) -> Result<(), CrashError> {
        self.age(make, workload)?;
        let first = self.run_on_device(workload, Wanted::default())?;
        let wanted = Wanted { points: spread(first.points.clone(), *points), advances: first.advances };
        let run = self.run_on_device(workload, wanted)?;
        let (run, states) = self.judge_captures(workload, run, 0..*chances)?;
        self.ahead = Ahead::Inside { points: *points, run: Box::new(run), states };
        Ok(())
    }

    /// Sets [`Explorer::aged`] to the device that `workload` begins on.
    fn age(&mut self, make: &MakeDevice<'_>, workload: &Workload) -> Result<(), CrashError> {
        if self.aged.as_ref().is_none_or(|aged| aged.base != base_of(workload)) {
            self.tell_stage(Stage::Aging);
            self.aged = Some(Aged::new(&self.subject, workload, self.options, make)?);
        }
        Ok(())
    }

    fn run_on_device(&self, workload: &Workload, wanted: Wanted) -> Result<DeviceRun, CrashError> {
        let aged = self.aged.as_ref().expect("the device was aged");
        let recording = Rc::new(RefCell::new(Recording::default()));
        let watch = Capturing::new(aged.device.fork(), aged.now, wanted, &recording);
        let recorded = Box::new(Recorded::new(CapturingDevice::new(&watch), Rc::clone(&recording)));
        let executor = Executor::ideal();
        let image_end = Lpn(self.options.size_bytes / PAGE_SIZE as u64);
        let port = executor.runtime().attach(self.subject.layer(Box::new(InMemory::new(recorded, image_end))));
        let chance = Choices::new(self.options.seed).stream("beside", aged.base);
        let region = Region::behind(self.options.size_bytes / PAGE_SIZE as u64);
        let effect = if self.subject.promises().pads { Effect::LeavesVolatile } else { Effect::MakesDurable };
        region.keep_busy(&port, &chance, effect);
        let (subject, tree) = (&self.subject, (aged.tree.clone(), &recording));
        let mounting = self.options.mounting(Purpose::RunInsideDevice);
        let work = || perform_at((executor, port), subject, tree, workload.clone(), mounting);
        let history = mark::during(work).0?;
        let captured = std::mem::take(&mut watch.borrow_mut().captured);
        let Recording { events, marks } = std::mem::take(&mut *recording.borrow_mut());
        let last = watch.borrow().device.cut_points();
        let first = first_point(&watch.borrow().trail, &events, history.warm_up).unwrap_or(last);
        let advances = std::mem::take(&mut watch.borrow_mut().advances);
        let (content, geometry) = (aged.content.clone(), aged.device.geometry().clone());
        Ok(DeviceRun { content, geometry, events, marks, history, captured, advances, points: first..last })
    }

    /// Judges the captured copies; returns those that it judged without the ledger.
    fn judge_captures(
        &mut self,
        workload: &Workload,
        mut run: DeviceRun,
        chances: Range<u64>,
    ) -> Result<(DeviceRun, Vec<LookedInside>), CrashError> {
        let captured = std::mem::take(&mut run.captured);
        let judge = Judge::new(&run.history, self.subject.promises(), self.options);
        self.recoverer.extended = Extended::of(workload);
        let log = log_pages(&run.events, self.subject.log_causes());
        let mut along = Along::new(&run, base_of(workload), self.image_pages(), &log);
        let all = (0..run.geometry.pages).map(Lpn).collect();
        let pages = Pages { written: written_pages(&run.events), all };
        let mut ahead = Vec::new();
        for (capture, chance) in
            captured.iter().flat_map(|capture| chances.clone().map(move |chance| (capture, chance)))
        {
            if self.is_done() {
                break;
            }
            along.pass_to(capture.event);
            let looked = self.look_at_cut((&judge, &along), capture, chance, &pages);
            match self.ledger {
                Some(_) => self.enter_cut((&judge, workload), &along, looked)?,
                None => {
                    ahead.push(looked);
                    self.enter_waiting(|_| false);
                }
            }
        }
        drop((along, judge));
        Ok((run, ahead))
    }

    /// Enters states that were judged ahead.
    ///
    /// # Errors
    /// If the foreign checker cannot run.
    pub(crate) fn enter_inside(
        &mut self,
        workload: &Workload,
        run: &DeviceRun,
        states: Vec<LookedInside>,
    ) -> Result<(), CrashError> {
        let judge = Judge::new(&run.history, self.subject.promises(), self.options);
        self.recoverer.extended = Extended::of(workload);
        let log = log_pages(&run.events, self.subject.log_causes());
        let mut along = Along::new(run, base_of(workload), self.image_pages(), &log);
        for looked in states {
            if self.is_done() {
                break;
            }
            along.pass_to(looked.event);
            self.enter_cut((&judge, workload), &along, looked)?;
        }
        Ok(())
    }

    fn image_pages(&self) -> u64 {
        self.options.size_bytes / PAGE_SIZE as u64
    }

    /// Cuts the power and restores it; returns the content of `pages`.
    fn power_up(&self, capture: &Capture, chance: u64, pages: &Pages) -> Result<PoweredUp, String> {
        let mut choices = Choices::new(self.options.seed).stream("cut", capture.point).stream("chance", chance);
        let mut device = capture.device.fork();
        device.cut(&mut choices);
        let mut cut_again = 0;
        // Every second chance also cuts the recovery, and the recovery after that.
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
            true => &pages.all,
            false => &pages.written,
        };
        let content = read(device, capture.now + report.duration, wanted).map_err(|error| error.to_string())?;
        Ok(PoweredUp { content, cut_again })
    }

    fn look_at_cut(
        &mut self,
        (judge, along): (&Judge<'_>, &Along<'_>),
        capture: &Capture,
        chance: u64,
        pages: &Pages,
    ) -> LookedInside {
        let cut = DeviceCut { point: capture.point, chance };
        let (found, powered_up) = mark::during(|| self.power_up(capture, chance, pages));
        let outcome = found.and_then(|found| self.look_at_content((judge, along), capture, found));
        let outcome = outcome.map(|it| Survivor { recovered: it.recovered.and(powered_up), ..it });
        let (event, reached) = (capture.event, capture.reached);
        LookedInside { cut, event, reached, outcome: outcome.map_err(broken_device) }
    }

    fn look_at_content(
        &mut self,
        (judge, along): (&Judge<'_>, &Along<'_>),
        capture: &Capture,
        PoweredUp { content, cut_again }: PoweredUp,
    ) -> Result<Survivor, String> {
        let walkers = &along.walkers;
        let mut content = walkers.newer(content).map_err(|wrong| {
            let wrong: Vec<String> = wrong.iter().map(Lpn::to_string).collect();
            format!("{}: neither durable nor newer", wrong.join(", "))
        })?;
        if let Some(lpn) = walkers.region.halved_share(&content) {
            return Err(format!("a SHARE happened in part: {lpn} differs from the pairs beside it"));
        }
        let region = content.split_off(&Lpn(walkers.start));
        let sum = walkers.image.sum_with(&content);
        let key = sum.all.wrapping_add(walkers.region.sum_with(&region).all);
        let image = walkers.image.image_with(content.clone());
        let outcome = self.recoverer.recover(image, sum, walkers.image.log());
        let breach = judge.judge(&outcome.found, along.place.happened);
        let (collects, logs_map) = (capture.collects, capture.logs_map);
        let (replayed, recovered) = (outcome.replayed, outcome.reached);
        Ok(Survivor { content, sum, key, replayed, recovered, collects, logs_map, cut_again, breach })
    }

    /// Counts a judged cut, and explores cuts inside its recovery.
    fn enter_cut(
        &mut self,
        (judge, workload): (&Judge<'_>, &Workload),
        along: &Along<'_>,
        looked: LookedInside,
    ) -> Result<(), CrashError> {
        let (cut, log) = (looked.cut, along.walkers.image.log());
        let walk = Walk { inside: Some(cut), ..Walk::of(workload, judge, log) };
        self.count_judgement();
        self.ledger().judged_inside_device += 1;
        let breach = match looked.outcome {
            Ok(survivor) => self.enter_survivor(&walk, along, (survivor, looked.reached))?,
            Err(breach) => Some(breach),
        };
        if let Some(breach) = breach {
            self.note(workload, &StateId::Device { cut, then: Vec::new() }, breach);
        }
        Ok(())
    }

    fn enter_survivor(
        &mut self,
        walk: &Walk<'_>,
        along: &Along<'_>,
        (survivor, reached): (Survivor, Marks),
    ) -> Result<Option<Breach>, CrashError> {
        let image = || along.walkers.image.image_with(survivor.content.clone());
        let is_new = self.ledger().seen.insert(survivor.key);
        if is_new {
            self.count_inside(along, &survivor, reached);
            if self.is_stranger_asked() {
                let recovered = self.recoverer.recover(image(), survivor.sum, walk.log).image;
                if let Some(breach) = self.stranger_finding(&recovered)? {
                    return Ok(Some(breach));
                }
            }
        }
        if self.wants_nested(walk, 0, Met { replays: survivor.replayed.is_some(), is_new }) {
            self.cut_recovery(walk, (image(), survivor.sum), along.place)?;
        }
        Ok(survivor.breach)
    }

    fn count_inside(&mut self, along: &Along<'_>, survivor: &Survivor, reached: Marks) {
        let replayed = survivor.replayed.filter(|replayed| replayed.transactions > 0);
        let report = &mut self.ledger().report;
        report.states += 1;
        report.marks.count(along.place.reached.and(reached), survivor.recovered);
        let kinds = &mut report.states_by_kind;
        kinds.inside_device += 1;
        kinds.inside_share += u64::from(along.walkers.region.has_share_under_way());
        kinds.inside_map_log += u64::from(survivor.logs_map);
        kinds.inside_collection += u64::from(survivor.collects);
        kinds.inside_device_recovery += u64::from(survivor.cut_again > 0);
        kinds.log_not_empty += u64::from(replayed.is_some());
        kinds.log_wrapped += u64::from(along.walkers.image.has_wrapped);
        kinds.forced_checkpoint += u64::from(along.place.has_forced);
        kinds.revoke += u64::from(replayed.is_some_and(|replayed| replayed.revoked_blocks > 0));
    }
}

fn broken_device(what: String) -> Breach {
    Breach { promise: Promise::Device, what, difference: Vec::new() }
}

/// The internal point at which the warm-up ended, after `warm_up` happenings.
fn first_point(trail: &[(usize, u64)], events: &[RecordedEvent], warm_up: usize) -> Option<u64> {
    let is_last = |event: &RecordedEvent| matches!(event, RecordedEvent::Mark(mark) if *mark as usize + 1 == warm_up);
    let end = events.iter().position(is_last).unwrap_or(0);
    trail.iter().find(|(event, _)| *event >= end).map(|(_, point)| *point)
}

/// `count` of the points behind the start of `points`, evenly spaced; its end is the last.
fn spread(points: Range<u64>, count: u64) -> VecDeque<u64> {
    let (first, all) = (points.start, points.end - points.start);
    let count = count.min(all);
    (0..count).map(|index| first + 1 + index * all / count.max(1)).collect()
}
