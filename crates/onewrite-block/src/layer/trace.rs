//! Trace: one event for each request, reported when it completes, and one where the counters begin.

use std::collections::BTreeMap;

use super::pass_on;
use crate::device::{Completion, Device, NextEvent};
use crate::request::{Cause, Durable, Operation, Request, Token};
use crate::units::{Lpn, Nanos};

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When it was submitted.
    pub submitted: Nanos,
    /// How long it took.
    pub latency: Nanos,
    /// `read`, `write`, `write-fua`, `flush`, `trim` or `share`; [`TraceEvent::COUNTERS_BEGIN`] is no request.
    pub operation: &'static str,
    /// First page; a share's first target; page 0 for a flush.
    pub start: Lpn,
    /// Pages; a share's pairs; 0 for a flush.
    pub count: u64,
    /// Why it was made.
    pub cause: Cause,
    /// Whether it failed.
    pub failed: bool,
}

impl TraceEvent {
    /// The operation of the mark that stands where the device's counters were set to zero: what came before it is in no
    /// figure of a run (mkfs). Only its time means anything.
    pub const COUNTERS_BEGIN: &str = "counters-begin";

    fn counters_begin(now: Nanos) -> TraceEvent {
        let (latency, operation, start) = (Nanos::ZERO, TraceEvent::COUNTERS_BEGIN, Lpn(0));
        TraceEvent { submitted: now, latency, operation, start, count: 0, cause: Cause::Metadata, failed: false }
    }
}

/// Reports every request to the device inside to `sink`, and where its counters begin.
pub struct Traced {
    inner: Box<dyn Device>,
    sink: Box<dyn FnMut(TraceEvent)>,
    under_way: BTreeMap<Token, TraceEvent>,
    /// Latest time that the device has been told.
    now: Nanos,
}

impl Traced {
    /// A layer around `inner`.
    pub fn new(inner: Box<dyn Device>, sink: impl FnMut(TraceEvent) + 'static) -> Traced {
        Traced { inner, sink: Box::new(sink), under_way: BTreeMap::new(), now: Nanos::ZERO }
    }
}

fn event(request: &Request, now: Nanos) -> TraceEvent {
    let (operation, start, count) = match &request.operation {
        Operation::Read { start, count } => ("read", *start, u64::from(*count)),
        Operation::Write { start, pages, durable: Durable::AfterFlush } => ("write", *start, pages.len() as u64),
        Operation::Write { start, pages, durable: Durable::OnCompletion } => ("write-fua", *start, pages.len() as u64),
        Operation::Flush => ("flush", Lpn(0), 0),
        Operation::Trim { start, count } => ("trim", *start, *count),
        Operation::Share(pairs) => ("share", pairs.first().map_or(Lpn(0), |pair| pair.target), pairs.len() as u64),
    };
    TraceEvent { submitted: now, latency: Nanos::ZERO, operation, start, count, cause: request.cause, failed: false }
}

impl Device for Traced {
    pass_on!(except reset_counters);

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
        (self.sink)(TraceEvent::counters_begin(self.now));
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        self.under_way.insert(token, event(&request, now));
        self.inner.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let seen = completed.len();
        self.now = to;
        self.inner.advance(to, completed);
        for completion in &completed[seen..] {
            let event = self.under_way.remove(&completion.token).expect("what completes was submitted");
            let latency = to.saturating_sub(event.submitted);
            (self.sink)(TraceEvent { latency, failed: completion.outcome.is_err(), ..event });
        }
    }
}
