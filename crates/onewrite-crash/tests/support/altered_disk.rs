//! A disk whose requests or answers are altered on their way.

use onewrite_block::{Completion, Counters, Device, Geometry, Nanos, NextEvent, Request, Token};

/// What becomes of requests and answers.
pub trait Alteration: 'static {
    /// Alters a request before the disk gets it.
    fn submitted(&mut self, token: Token, request: &mut Request);

    /// Alters an answer before the file system gets it.
    fn completed(&mut self, completion: &mut Completion);
}

struct AlteredDisk<A> {
    inner: Box<dyn Device>,
    alteration: A,
}

/// A disk over `inner` with this alteration.
pub fn altered_disk<A: Alteration>(inner: Box<dyn Device>, alteration: A) -> Box<dyn Device> {
    Box::new(AlteredDisk { inner, alteration })
}

impl<A: Alteration> Device for AlteredDisk<A> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, token: Token, mut request: Request, now: Nanos) {
        self.alteration.submitted(token, &mut request);
        self.inner.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let seen = completed.len();
        self.inner.advance(to, completed);
        completed[seen..].iter_mut().for_each(|completion| self.alteration.completed(completion));
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}
