//! Capturing: runs an emulated device and takes copies of it that lose power at the wanted internal points.
//!
//! A run is deterministic. A first run tells which advance of the clock passes which internal points:
//!
//! ```text
//!   before a wanted point: fork ─► the event ─► the fork is armed and loses power at the point
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::layer::{RecordedEvent, Recording};
use onewrite_block::mark::{self, Marks};
use onewrite_block::{
    Cause, Completion, Counters, Device, DeviceError, Geometry, Image, Lpn, Nanos, NextEvent, Page, PowerCut, Request,
    Token,
};

use crate::history::History;

/// How far ahead to look for work that a device does by itself.
const SOON: Nanos = Nanos::from_millis(3);

/// A copy of the device that lost power at an internal point.
pub(crate) struct Capture {
    pub(crate) point: u64,
    /// Events recorded before the cut.
    pub(crate) event: usize,
    /// The marks reached behind the last of them.
    pub(crate) reached: Marks,
    pub(crate) now: Nanos,
    pub(crate) device: Box<dyn PowerCut>,
    /// The device was collecting garbage: without the cut it would soon have moved pages or erased a block.
    pub(crate) collects: bool,
    /// Without the cut, the device would soon have programmed a record of the map.
    pub(crate) logs_map: bool,
}

/// A workload that ran on the device, with copies at the wanted points.
pub(crate) struct DeviceRun {
    /// The device's content before the run.
    pub(crate) content: Image,
    pub(crate) geometry: Geometry,
    pub(crate) events: Vec<RecordedEvent>,
    /// The marks reached before each of them.
    pub(crate) marks: Vec<Marks>,
    pub(crate) history: History,
    pub(crate) captured: Vec<Capture>,
    /// Internal points after each advance of the clock.
    pub(crate) advances: Vec<u64>,
    /// First and last internal point at which the power is cut.
    pub(crate) points: Range<u64>,
}

/// The internal points at which to take copies.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Internal points, in order.
    pub(crate) points: VecDeque<u64>,
    /// Internal points after each advance of the clock, as counted in an earlier run.
    pub(crate) advances: Vec<u64>,
}

/// The device, the points at which to copy it, and the copies taken.
pub(crate) struct Capturing {
    pub(crate) device: Box<dyn PowerCut>,
    /// The device's time at which the run begins.
    start: Nanos,
    wanted: Wanted,
    /// Internal points so far, after each advance of the clock.
    pub(crate) advances: Vec<u64>,
    pub(crate) captured: Vec<Capture>,
    /// Events and internal points so far, at each submission.
    pub(crate) trail: Vec<(usize, u64)>,
    recording: Rc<RefCell<Recording>>,
}

impl Capturing {
    /// Watches `device` in a run that begins at the device's time `start`.
    pub(crate) fn new(
        device: Box<dyn PowerCut>,
        start: Nanos,
        wanted: Wanted,
        recording: &Rc<RefCell<Recording>>,
    ) -> Rc<RefCell<Capturing>> {
        let (advances, captured, trail, recording) = (Vec::new(), Vec::new(), Vec::new(), Rc::clone(recording));
        Rc::new(RefCell::new(Capturing { device, start, wanted, advances, captured, trail, recording }))
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let passed = self.wanted.advances.get(self.advances.len()).copied().unwrap_or(0);
        let is_next = |wanted: &Wanted| wanted.points.front().is_some_and(|point| *point <= passed);
        let spare = is_next(&self.wanted).then(|| self.device.fork());
        self.device.advance(to, completed);
        self.advances.push(self.device.cut_points());
        while let (Some(spare), true) = (&spare, is_next(&self.wanted)) {
            let point = self.wanted.points.pop_front().expect("just seen");
            // What the copies do is not what the run does.
            let capture = mark::during(|| self.capture(spare.fork(), point, to)).0;
            self.captured.push(Capture { reached: mark::so_far(), ..capture });
        }
    }

    fn capture(&self, mut device: Box<dyn PowerCut>, point: u64, to: Nanos) -> Capture {
        device.arm(point);
        device.advance(to, &mut Vec::new());
        let mut ahead = self.device.fork();
        ahead.advance(to + SOON, &mut Vec::new());
        let (now, soon) = (device.counters(), ahead.counters());
        let event = self.recording.borrow().events.len();
        let collects = soon.moved_pages > now.moved_pages || soon.erases > now.erases;
        let logs_map = soon.map_program_bytes > now.map_program_bytes;
        Capture { point, event, reached: Marks::NONE, now: to, device, collects, logs_map }
    }
}

/// The device that the run sees; passes every call on.
pub(crate) struct CapturingDevice {
    geometry: Geometry,
    state: Rc<RefCell<Capturing>>,
}

impl CapturingDevice {
    /// A device that passes its calls on to `state`.
    pub(crate) fn new(state: &Rc<RefCell<Capturing>>) -> Box<CapturingDevice> {
        let geometry = state.borrow().device.geometry().clone();
        Box::new(CapturingDevice { geometry, state: Rc::clone(state) })
    }
}

impl Device for CapturingDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let mut state = self.state.borrow_mut();
        let start = state.start;
        let passed = (state.recording.borrow().events.len(), state.device.cut_points());
        state.trail.push(passed);
        state.device.submit(token, request, now + start);
    }

    fn next_event(&self) -> NextEvent {
        let state = self.state.borrow();
        state.device.next_event().moment().map(|moment| moment.saturating_sub(state.start)).into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let mut state = self.state.borrow_mut();
        let to = to + state.start;
        state.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.state.borrow().device.counters()
    }

    fn reset_counters(&mut self) {
        self.state.borrow_mut().device.reset_counters();
    }
}

/// Reads the given pages of a device that recovered at `now`, one request after another.
///
/// # Errors
/// The first request's that fails; [`DeviceError::PowerLost`] if one never ends.
pub(crate) fn read(mut device: Box<dyn PowerCut>, now: Nanos, pages: &[Lpn]) -> Result<Vec<(Lpn, Page)>, DeviceError> {
    let most = device.geometry().transfer_pages_max as usize;
    let (mut now, mut content, mut completed) = (now, Vec::with_capacity(pages.len()), Vec::new());
    let runs = pages.chunk_by(|one, next| one.0 + 1 == next.0);
    for part in runs.flat_map(|run| run.chunks(most)) {
        device.submit(Token(0), Request::read(part[0], part.len() as u32, Cause::Data), now);
        while completed.is_empty() {
            now = device.next_event().moment().ok_or(DeviceError::PowerLost)?.max(now);
            device.advance(now, &mut completed);
        }
        for Completion { outcome, .. } in completed.drain(..) {
            content.extend(part.iter().copied().zip(outcome?));
        }
    }
    Ok(content)
}
