//! Fault: chosen requests fail as on a failing medium; they do not reach the device inside.

use std::cell::RefCell;
use std::rc::Rc;

use super::pass_on;
use crate::device::{Completion, Device, DeviceError, Geometry, NextEvent};
use crate::request::{Operation, Request, Token};
use crate::units::{Lpn, Nanos};

/// Which requests fail. Requests are numbered from 0, all operations together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One request.
    Request(u64),
    /// Every request from this one on.
    From(u64),
    /// Every write from this request on, as on a full device. Other operations succeed.
    FullFrom(u64),
    /// Every read or write that touches the page.
    Page(Lpn),
}

/// Which requests are to fail, and how many passed.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// The faults; a request fails if any of them hits it.
    pub faults: Vec<Fault>,
    /// Requests that passed.
    pub requests: u64,
    /// Requests that failed by plan.
    pub failed: u64,
    /// Those of them that were TRIMs: nothing is lost with one.
    pub failed_trims: u64,
}

impl FaultPlan {
    /// A plan with one fault, to be shared with [`Faulty`].
    pub fn of(fault: Fault) -> Rc<RefCell<FaultPlan>> {
        Rc::new(RefCell::new(FaultPlan { faults: vec![fault], ..FaultPlan::default() }))
    }

    /// Whether a request that fails now gets the error "no room".
    fn is_full(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::FullFrom(number) if *number <= self.requests))
    }

    fn hits(&self, request: &Request) -> bool {
        let touched = match &request.operation {
            Operation::Read { start, count } => start.0..start.0 + u64::from(*count),
            Operation::Write { start, pages, .. } => start.0..start.0 + pages.len() as u64,
            Operation::Flush | Operation::Trim { .. } | Operation::Share(_) => 0..0,
        };
        self.faults.iter().any(|fault| match fault {
            Fault::Request(number) => *number == self.requests,
            Fault::From(number) => *number <= self.requests,
            Fault::FullFrom(number) => {
                *number <= self.requests && matches!(request.operation, Operation::Write { .. } | Operation::Share(_))
            }
            Fault::Page(lpn) => touched.contains(&lpn.0),
        })
    }
}

/// Makes requests fail by plan.
pub struct Faulty {
    inner: Box<dyn Device>,
    plan: Rc<RefCell<FaultPlan>>,
    failed: Vec<Completion>,
    now: Nanos,
}

impl Faulty {
    /// A layer around `inner`.
    pub fn new(inner: Box<dyn Device>, plan: Rc<RefCell<FaultPlan>>) -> Faulty {
        Faulty { inner, plan, failed: Vec::new(), now: Nanos::ZERO }
    }
}

fn no_room(geometry: &Geometry) -> DeviceError {
    DeviceError::WornOut { device: geometry.name.clone(), detail: "no room for another write".to_owned() }
}

fn error(operation: &Operation) -> DeviceError {
    match operation {
        Operation::Read { start, .. } => DeviceError::ReadFailed { page: *start },
        Operation::Write { start, .. } | Operation::Trim { start, .. } => DeviceError::WriteFailed { page: *start },
        Operation::Share(pairs) => DeviceError::WriteFailed { page: pairs.first().map_or(Lpn(0), |pair| pair.target) },
        Operation::Flush => DeviceError::FlushFailed,
    }
}

impl Device for Faulty {
    pass_on!();

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let mut plan = self.plan.borrow_mut();
        let (hit, is_full) = (plan.hits(&request), plan.is_full());
        plan.requests += 1;
        if hit {
            plan.failed += 1;
            plan.failed_trims += u64::from(matches!(request.operation, Operation::Trim { .. }));
            self.now = now;
            let error = if is_full { no_room(self.inner.geometry()) } else { error(&request.operation) };
            self.failed.push(Completion { token, outcome: Err(error) });
        } else {
            self.inner.submit(token, request, now);
        }
    }

    fn next_event(&self) -> NextEvent {
        let failed = (!self.failed.is_empty() && !self.inner.is_dark()).then_some(self.now);
        NextEvent::from(failed).or_earlier(self.inner.next_event())
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        completed.append(&mut self.failed);
        self.inner.advance(to, completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Recorded, RecordedEvent, Recording, Traced};
    use crate::page::Page;
    use crate::ram::RamDisk;
    use crate::request::Cause;
    use crate::runtime::Executor;

    #[test]
    fn a_fault_stops_before_the_medium_and_outer_layers_see_it() {
        let recording = Rc::new(RefCell::new(Recording::default()));
        let seen = Rc::new(RefCell::new(Vec::new()));
        let inner = Recorded::new(Box::new(RamDisk::new(8)), Rc::clone(&recording));
        let faulty = Faulty::new(Box::new(inner), FaultPlan::of(Fault::Request(1)));
        let sink = Rc::clone(&seen);
        let traced = Traced::new(Box::new(faulty), move |event| sink.borrow_mut().push((event.start.0, event.failed)));
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(traced));
        let outcomes = executor.block_on(async move {
            let write = |page| Request::write(Lpn(page), vec![Page::ZEROS], Cause::Data);
            [port.request(write(3)).await, port.request(write(4)).await, port.request(write(5)).await]
        });
        assert_eq!(outcomes.unwrap()[1], Err(DeviceError::WriteFailed { page: Lpn(4) }));
        assert_eq!(*seen.borrow(), [(3, false), (4, true), (5, false)]);
        let submitted = |event: &&RecordedEvent| matches!(event, RecordedEvent::Submitted(..));
        assert_eq!(recording.borrow().events.iter().filter(submitted).count(), 2);
    }

    #[test]
    fn a_full_device_refuses_writes_and_nothing_else() {
        let faulty = Faulty::new(Box::new(RamDisk::new(8)), FaultPlan::of(Fault::FullFrom(1)));
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(faulty));
        let outcomes = executor.block_on(async move {
            let write = |page| Request::write(Lpn(page), vec![Page::ZEROS], Cause::Data);
            let flush = Request::flush(Cause::Data);
            [port.request(write(3)).await, port.request(write(4)).await, port.request(flush).await]
        });
        let [first, second, flush] = outcomes.unwrap();
        assert!(first.is_ok() && flush.is_ok());
        assert!(matches!(second, Err(DeviceError::WornOut { .. })), "{second:?}");
    }
}
