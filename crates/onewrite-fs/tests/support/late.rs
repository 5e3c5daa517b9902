//! A disk on which chosen requests begin late, or fail; it is instant otherwise.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use onewrite_block::{
    Cause, Completion, Counters, Device, DeviceError, Geometry, Nanos, NextEvent, Operation, RamDisk, Request, Token,
};

/// Time by which a request is late.
pub const LATE: Nanos = Nanos::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    Trim,
    Share,
}

/// Requests that are late: the next `left` of a kind and a cause.
#[derive(Clone, Copy)]
pub struct Late {
    kind: Kind,
    cause: Cause,
    left: u32,
    by: Nanos,
    fails: bool,
}

impl Late {
    pub fn writes(cause: Cause, left: u32) -> Late {
        Late { kind: Kind::Write, cause, left, by: LATE, fails: false }
    }

    pub fn reads(cause: Cause, left: u32) -> Late {
        Late { kind: Kind::Read, ..Late::writes(cause, left) }
    }

    /// They fail at once.
    pub fn failing_reads(cause: Cause, left: u32) -> Late {
        Late { by: Nanos(0), fails: true, ..Late::reads(cause, left) }
    }

    /// They fail once they are late.
    pub fn failing_writes(cause: Cause, left: u32) -> Late {
        Late { fails: true, ..Late::writes(cause, left) }
    }

    pub fn trims(cause: Cause, left: u32) -> Late {
        Late { kind: Kind::Trim, ..Late::writes(cause, left) }
    }

    /// They are refused at once, for the device cannot share their first source.
    pub fn refused_shares(cause: Cause, left: u32) -> Late {
        Late { kind: Kind::Share, by: Nanos(0), fails: true, ..Late::writes(cause, left) }
    }

    pub fn by(self, by: Nanos) -> Late {
        Late { by, ..self }
    }
}

/// What is late from now on.
#[derive(Clone, Default)]
pub struct Plan(Rc<RefCell<Vec<Late>>>);

impl Plan {
    pub fn set(&self, late: &[Late]) {
        self.0.replace(late.to_vec());
    }

    /// Whether a request was late, of those meant by `u32::MAX`.
    pub fn has_met(&self) -> bool {
        self.0.borrow().iter().any(|late| late.left < u32::MAX)
    }

    /// How a request is late; counts it.
    fn take(&self, request: &Request) -> Option<Late> {
        let kind = match request.operation {
            Operation::Write { .. } => Kind::Write,
            Operation::Read { .. } => Kind::Read,
            Operation::Trim { .. } => Kind::Trim,
            Operation::Share(_) => Kind::Share,
            _ => return None,
        };
        let mut plan = self.0.borrow_mut();
        let is_meant = |late: &&mut Late| late.left > 0 && (late.kind, late.cause) == (kind, request.cause);
        let late = plan.iter_mut().find(is_meant)?;
        late.left -= 1;
        Some(*late)
    }
}

/// See the module's head.
pub struct LateDisk {
    disk: RamDisk,
    plan: Plan,
    /// The next to be taken in comes first.
    late: VecDeque<(Nanos, Token, Request, Late)>,
}

impl LateDisk {
    pub fn new(disk: RamDisk, plan: &Plan) -> Box<LateDisk> {
        Box::new(LateDisk { disk, plan: plan.clone(), late: VecDeque::new() })
    }
}

impl Device for LateDisk {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let Some(how) = self.plan.take(&request) else { return self.disk.submit(token, request, now) };
        let at = self.late.partition_point(|(moment, ..)| *moment <= now + how.by);
        self.late.insert(at, (now + how.by, token, request, how));
    }

    fn next_event(&self) -> NextEvent {
        let late = self.late.front().map(|(moment, ..)| *moment);
        late.into_iter().chain(self.disk.next_event().moment()).min().into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        while let Some((moment, token, request, how)) = self.late.pop_front_if(|(moment, ..)| *moment <= to) {
            match how.fails {
                true => completed.push(Completion { token, outcome: Err(failure(&request)) }),
                false => self.disk.submit(token, request, moment),
            }
        }
        self.disk.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn reset_counters(&mut self) {
        self.disk.reset_counters();
    }
}

/// Trims are not made to fail.
fn failure(request: &Request) -> DeviceError {
    match &request.operation {
        Operation::Read { start, .. } => DeviceError::ReadFailed { page: *start },
        Operation::Write { start, .. } => DeviceError::WriteFailed { page: *start },
        Operation::Share(pairs) => DeviceError::ShareSource { source_page: pairs[0].source },
        _ => unreachable!("{request:?} is not made to fail"),
    }
}
