//! Cut: power cuts at the internal points of an emulated device, through `PowerCut` alone.
//!
//! The workload runs twice on the device: once to count its internal points, once to take copies of it, dark, at the
//! points that are wanted. Each copy loses its power with some chances, recovers (some are cut again while they do),
//! and is held to its contract before the file system on it is: every page gives its last durable content or a newer
//! one, as the recording of the requests has it.
//!
//! ```text
//!   fork ─► arm(point) ─► advance: dark ─► cut(chance) ─► recover, cut again, recover ─► check ─► pages ─► judges
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::{
    Cause, Choices, Completion, Counters, Device, DeviceError, Executor, Geometry, Image, Lpn, Nanos, Operation, Page,
    PowerCut, Request, Token,
};

use crate::action::Workload;
use crate::error::CrashError;
use crate::explore::{Explorer, Place, base_of};
use crate::hash::page_hash;
use crate::history::History;
use crate::judge::{Breach, Judge, Promise};
use crate::run::{perform, prepare};
use crate::state_id::StateId;
use crate::states::{Sum, Walker, log_pages};
use crate::subject::Subject;

/// Which internal points to cut at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCuts {
    /// Points spread evenly over the run.
    pub points: u64,
    /// Chances at each point: what of the content under way survives, and whether recovery is cut.
    pub chances: u64,
    /// Only this state (`cut:981:4`).
    pub only: Option<String>,
}

/// A copy of the device, dark at an internal point.
struct Capture {
    point: u64,
    /// Events recorded by then.
    event: usize,
    now: Nanos,
    device: Box<dyn PowerCut>,
}

struct State {
    device: Box<dyn PowerCut>,
    /// Time and point at which the run begins.
    start: (Nanos, u64),
    wanted: VecDeque<u64>,
    captured: Vec<Capture>,
    recording: Rc<RefCell<Recording>>,
}

/// The device in the run: passes everything on, and takes the copies that are wanted.
struct Watched {
    geometry: Geometry,
    state: Rc<RefCell<State>>,
}

impl State {
    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let Some(&next) = self.wanted.front() else { return self.device.advance(to, completed) };
        let spare = self.device.fork();
        self.device.advance(to, completed);
        if self.device.cut_points() < next {
            return;
        }
        while self.wanted.front().is_some_and(|point| *point <= self.device.cut_points()) {
            let point = self.wanted.pop_front().expect("just seen");
            let mut device = spare.fork();
            device.arm(point);
            device.advance(to, &mut Vec::new());
            let event = self.recording.borrow().events.len();
            self.captured.push(Capture { point, event, now: to, device });
        }
    }
}

impl Device for Watched {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let mut state = self.state.borrow_mut();
        let start = state.start.0;
        state.device.submit(token, request, now + start);
    }

    fn next_event(&self) -> Option<Nanos> {
        let state = self.state.borrow();
        state.device.next_event().map(|moment| moment.saturating_sub(state.start.0))
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let mut state = self.state.borrow_mut();
        let to = to + state.start.0;
        state.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.state.borrow().device.counters()
    }

    fn reset_counters(&mut self) {
        self.state.borrow_mut().device.reset_counters();
    }
}

/// The workload on the device, with copies at `wanted` points.
struct DeviceRun {
    base: Image,
    events: Vec<RecordedEvent>,
    history: History,
    captured: Vec<Capture>,
    /// First and last internal point of the run.
    points: (u64, u64),
}

/// Writes an image to a device, durably; gives the device back with the time it took.
fn load(device: Box<dyn PowerCut>, image: &Image) -> Result<(Box<dyn PowerCut>, Nanos), CrashError> {
    let geometry = device.geometry().clone();
    let recording = Rc::default();
    let (wanted, captured) = (VecDeque::new(), Vec::new());
    let state = Rc::new(RefCell::new(State { device, start: (Nanos::ZERO, 0), wanted, captured, recording }));
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let port = runtime.attach(Box::new(Watched { geometry: geometry.clone(), state: Rc::clone(&state) }));
    let image = image.clone();
    let work = async move {
        let most = u64::from(geometry.transfer_pages_max);
        for start in (0..image.pages()).step_by(most as usize) {
            let end = image.pages().min(start + most);
            let pages = (start..end).map(|lpn| image.page(Lpn(lpn)).clone()).collect();
            port.request(Request::write(Lpn(start), pages, Cause::Metadata)).await?;
        }
        port.request(Request::flush(Cause::Metadata)).await?;
        let now = port.runtime().now();
        port.unplug();
        Ok::<Nanos, DeviceError>(now)
    };
    let outcome = executor.block_on(work).map_err(|halt| CrashError::Halted { what: "loading".into(), halt })?;
    drop(executor);
    let now = outcome.map_err(|error| CrashError::FileSystem { what: "loading".into(), error: error.into() })?;
    let state = Rc::into_inner(state).expect("the port is unplugged and the run is over");
    Ok((state.into_inner().device, now))
}

/// What a device holds on the given pages after it recovered.
fn read(device: Box<dyn PowerCut>, now: Nanos, pages: &[Lpn]) -> Result<BTreeMap<Lpn, (Page, u64)>, DeviceError> {
    let geometry = device.geometry().clone();
    let (wanted, captured, recording) = (VecDeque::new(), Vec::new(), Rc::default());
    let state = Rc::new(RefCell::new(State { device, start: (now, 0), wanted, captured, recording }));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(Watched { geometry, state }));
    let pages = pages.to_vec();
    let work = async move {
        let mut content = BTreeMap::new();
        for run in pages.chunk_by(|one, next| one.0 + 1 == next.0) {
            for part in run.chunks(port.geometry().transfer_pages_max as usize) {
                let read = port.request(Request::read(part[0], part.len() as u32, Cause::Data)).await?;
                content.extend(part.iter().copied().zip(read.into_iter().map(|page| {
                    let hash = page_hash(&page);
                    (page, hash)
                })));
            }
        }
        Ok(content)
    };
    executor.block_on(work).unwrap_or(Err(DeviceError::PowerLost))
}

fn written_pages(events: &[RecordedEvent]) -> Vec<Lpn> {
    let mut pages = std::collections::BTreeSet::new();
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

impl<S: Subject> Explorer<'_, S> {
    /// Explores cuts inside the device that `make` makes, which must have the size of the image.
    ///
    /// # Errors
    /// If the workload cannot be run at all, or [`DeviceCuts::only`] means nothing.
    pub fn explore_device(
        &mut self,
        make: &dyn Fn() -> Box<dyn PowerCut>,
        workload: &Workload,
        cuts: &DeviceCuts,
    ) -> Result<(), CrashError> {
        self.report.workloads += 1;
        let (first, last) = self.run_on(make(), workload, VecDeque::new())?.points;
        let (wanted, chances) = match &cuts.only {
            None => (spread(first, last, cuts.points), 0..cuts.chances),
            Some(text) => match text.parse()? {
                StateId::Device { point, chance } => (VecDeque::from([point]), chance..chance + 1),
                StateId::Door(_) | StateId::Fault { .. } => {
                    let reason = "this is no cut inside a device".into();
                    return Err(CrashError::State { text: text.clone(), reason });
                }
            },
        };
        let run = self.run_on(make(), workload, wanted)?;
        self.judge_captures(workload, run, chances)
    }

    fn run_on(
        &self,
        device: Box<dyn PowerCut>,
        workload: &Workload,
        wanted: VecDeque<u64>,
    ) -> Result<DeviceRun, CrashError> {
        let (base, tree) = prepare(&self.subject, workload, self.options)?;
        let (device, now) = load(device, &base)?;
        let (recording, geometry) = (Rc::new(RefCell::new(Recording::default())), device.geometry().clone());
        let first = device.cut_points();
        let (start, captured, shared) = ((now, first), Vec::new(), Rc::clone(&recording));
        let state = Rc::new(RefCell::new(State { device, start, wanted, captured, recording: shared }));
        let watched = Watched { geometry, state: Rc::clone(&state) };
        let recorded = Box::new(Recorded::new(Box::new(watched), Rc::clone(&recording)));
        let layer = self.subject.layer(recorded);
        let history = perform(&self.subject, layer, (tree, &recording), workload.tasks.clone(), self.options.mount())?;
        let captured = std::mem::take(&mut state.borrow_mut().captured);
        let points = (state.borrow().start.1, state.borrow().device.cut_points());
        let events = std::mem::take(&mut recording.borrow_mut().events);
        Ok(DeviceRun { base, events, history, captured, points })
    }

    fn judge_captures(
        &mut self,
        workload: &Workload,
        run: DeviceRun,
        chances: std::ops::Range<u64>,
    ) -> Result<(), CrashError> {
        let judge = Judge::new(&run.history, self.options);
        let (log, pages) = (log_pages(&run.events), written_pages(&run.events));
        let Some(geometry) = run.captured.first().map(|capture| capture.device.geometry().clone()) else {
            return Ok(());
        };
        let mut walker = Walker::new(run.base, Sum::of_base(base_of(workload)), &log, &geometry);
        let (mut place, mut passed) = (Place::default(), 0);
        for capture in run.captured {
            while passed < capture.event {
                walker.pass(&run.events[passed]);
                place.pass(passed, &run.events[passed], &run.history);
                passed += 1;
            }
            for chance in chances.clone() {
                let state = StateId::Device { point: capture.point, chance };
                self.report.judged += 1;
                let breach = match self.power_up(&capture, chance, &pages) {
                    Ok(content) => self.judge_content(&walker, (&judge, place), content),
                    Err(what) => Some(Breach { promise: Promise::Device, what, difference: Vec::new() }),
                };
                if let Some(breach) = breach {
                    self.note(workload, &state, breach);
                }
                if self.is_done() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Loses the power and gets it back; gives what is then on the pages.
    fn power_up(&self, capture: &Capture, chance: u64, pages: &[Lpn]) -> Result<BTreeMap<Lpn, (Page, u64)>, String> {
        let mut choices = Choices::new(self.options.seed).stream("cut", capture.point).stream("chance", chance);
        let mut device = capture.device.fork();
        device.cut(&mut choices);
        // Every other chance cuts the recovery, too, and the recovery of that.
        for _ in 0..if chance % 2 == 1 { 2 } else { 0 } {
            device.arm(device.cut_points() + 1 + choices.below(64));
            if device.recover(capture.now) == Err(DeviceError::PowerLost) {
                device.cut(&mut choices);
            }
        }
        device.arm(u64::MAX);
        let report = device.recover(capture.now).map_err(|error| format!("recovery: {error}"))?;
        device.check()?;
        read(device, capture.now + report.duration, pages).map_err(|error| error.to_string())
    }

    fn judge_content(
        &mut self,
        walker: &Walker<'_>,
        (judge, place): (&Judge<'_>, Place),
        content: BTreeMap<Lpn, (Page, u64)>,
    ) -> Option<Breach> {
        let wrong = content.iter().filter(|(lpn, (_, hash))| !walker.may_hold(**lpn, *hash));
        let wrong: Vec<String> = wrong.map(|(lpn, _)| lpn.to_string()).collect();
        if !wrong.is_empty() {
            let what = format!("{} neither durable nor newer", wrong.join(", "));
            return Some(Breach { promise: Promise::Device, what, difference: Vec::new() });
        }
        let sum = walker.sum_with(&content);
        let outcome = self.recoverer.recover(walker.image_with(content), sum, walker.log());
        if self.seen.insert(sum.all) {
            self.report.states += 1;
            self.report.states_by_kind.inside_device += 1;
            let replays = outcome.replayed.is_some_and(|replayed| replayed.transactions > 0);
            self.report.states_by_kind.log_not_empty += u64::from(replays);
        }
        judge.judge(&outcome.found, place.happened)
    }
}

/// `count` points from `first` to `last`, evenly.
fn spread(first: u64, last: u64, count: u64) -> VecDeque<u64> {
    let all = last - first;
    let count = count.min(all);
    (0..count).map(|index| first + 1 + index * all / count.max(1)).collect()
}
