//! Usage: how busy a device was, as the kernel's `/proc/diskstats` counts it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::device::{Completion, Device, NextEvent};
use crate::request::{Operation, Request, Token};
use crate::units::Nanos;

/// How busy a device was since its counters were reset. Requests still under way do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Reads.
    pub read_ios: u64,
    /// Writes, with FUA or without.
    pub write_ios: u64,
    /// Time of all reads together.
    pub read_time: Nanos,
    /// Time of all writes together.
    pub write_time: Nanos,
    /// Time of all requests together, of every kind.
    pub queue_time: Nanos,
    /// Time in which at least one request was under way.
    pub busy_time: Nanos,
}

/// What a request counts as.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Other,
}

/// Counts the use of the device inside. The holder of `usage` reads the counts.
pub struct Gauged {
    inner: Box<dyn Device>,
    usage: Rc<RefCell<Usage>>,
    under_way: BTreeMap<Token, (Kind, Nanos)>,
    busy_since: Nanos,
}

impl Gauged {
    /// A layer around `inner`.
    pub fn new(inner: Box<dyn Device>, usage: Rc<RefCell<Usage>>) -> Gauged {
        Gauged { inner, usage, under_way: BTreeMap::new(), busy_since: Nanos::ZERO }
    }

    fn count(&mut self, completion: &Completion, now: Nanos) {
        let (kind, submitted) = self.under_way.remove(&completion.token).expect("what completes was submitted");
        let span = now.saturating_sub(submitted);
        let mut usage = self.usage.borrow_mut();
        usage.queue_time += span;
        match kind {
            Kind::Read => {
                usage.read_ios += 1;
                usage.read_time += span;
            }
            Kind::Write => {
                usage.write_ios += 1;
                usage.write_time += span;
            }
            Kind::Other => (),
        }
        if self.under_way.is_empty() {
            usage.busy_time += now.saturating_sub(self.busy_since);
        }
    }
}

impl Device for Gauged {
    fn geometry(&self) -> &crate::device::Geometry {
        self.inner.geometry()
    }

    fn counters(&self) -> crate::counters::Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.usage.replace(Usage::default());
        self.inner.reset_counters();
    }

    fn is_dark(&self) -> bool {
        self.inner.is_dark()
    }

    fn as_power_cut(&mut self) -> Option<&mut dyn crate::device::PowerCut> {
        self.inner.as_power_cut()
    }

    fn attached(&mut self, bell: Option<crate::bell::Bell>) {
        self.inner.attached(bell);
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let kind = match request.operation {
            Operation::Read { .. } => Kind::Read,
            Operation::Write { .. } => Kind::Write,
            Operation::Flush | Operation::Trim { .. } | Operation::Share(_) => Kind::Other,
        };
        if self.under_way.is_empty() {
            self.busy_since = now;
        }
        self.under_way.insert(token, (kind, now));
        self.inner.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let seen = completed.len();
        self.inner.advance(to, completed);
        for completion in &completed[seen..] {
            self.count(completion, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use crate::ram::RamDisk;
    use crate::request::Cause;
    use crate::runtime::Executor;
    use crate::units::Lpn;

    /// Lets each request take a microsecond.
    struct Slow(RamDisk, Vec<(Nanos, Completion)>);

    impl Device for Slow {
        fn geometry(&self) -> &crate::device::Geometry {
            self.0.geometry()
        }

        fn counters(&self) -> crate::counters::Counters {
            self.0.counters()
        }

        fn reset_counters(&mut self) {
            self.0.reset_counters();
        }

        fn submit(&mut self, token: Token, request: Request, now: Nanos) {
            let mut completed = Vec::new();
            self.0.submit(token, request, now);
            self.0.advance(now, &mut completed);
            self.1.extend(completed.into_iter().map(|completion| (now + Nanos::from_micros(1), completion)));
        }

        fn next_event(&self) -> NextEvent {
            self.1.iter().map(|(due, _)| *due).min().into()
        }

        fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
            let (due, later) = std::mem::take(&mut self.1).into_iter().partition(|(due, _)| *due <= to);
            self.1 = later;
            let due: Vec<(Nanos, Completion)> = due;
            completed.extend(due.into_iter().map(|(_, completion)| completion));
        }
    }

    #[test]
    fn requests_side_by_side_are_busy_once_and_queued_twice() {
        let usage = Rc::new(RefCell::new(Usage::default()));
        let slow = Slow(RamDisk::new(8), Vec::new());
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(Gauged::new(Box::new(slow), Rc::clone(&usage))));
        let runtime = executor.runtime();
        let ended = executor.block_on(async move {
            let write = port.send(Request::write(Lpn(1), vec![Page::ZEROS], Cause::Data)).await;
            let read = port.send(Request::read(Lpn(2), 1, Cause::Data)).await;
            let outcomes = (write.await, read.await);
            runtime.sleep(Nanos::from_micros(5)).await;
            (outcomes, port.request(Request::flush(Cause::Data)).await)
        });
        assert!(matches!(ended, Ok(((Ok(_), Ok(_)), Ok(_)))));
        let Usage { read_ios, write_ios, read_time, queue_time, busy_time, .. } = *usage.borrow();
        assert_eq!((read_ios, write_ios, read_time), (1, 1, Nanos::from_micros(1)));
        assert_eq!((queue_time, busy_time), (Nanos::from_micros(3), Nanos::from_micros(2)));
    }
}
