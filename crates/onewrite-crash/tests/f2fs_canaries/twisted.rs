//! Twisted: a device that disobeys. A twist sees each request of the file system, and changes it, leaves it out, or
//! adds writes of its own. What is left out is acknowledged, and read back as if it were there: nobody notices
//! before the power loss.

use std::collections::BTreeMap;

use onewrite_block::{Completion, Counters, Device, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Request, Token};

/// What becomes of a request.
pub enum Fate {
    /// It is passed on.
    Passes,
    /// It is acknowledged, and nothing happens.
    IsLost,
    /// It is passed on, and these behind it.
    IsFollowedBy(Vec<Request>),
}

/// What a device does wrong.
pub trait Twist: 'static {
    fn fate(&mut self, request: &mut Request) -> Fate;
}

/// First token of the device's own writes.
const OWN: u32 = 1 << 30;

struct Twisted<T> {
    inner: Box<dyn Device>,
    twist: T,
    /// Pages as the file system wrote them, where the disk holds something else.
    held: BTreeMap<Lpn, Page>,
    reads: BTreeMap<Token, Lpn>,
    acknowledged: Vec<Completion>,
    own: u32,
    now: Nanos,
}

/// A twisted device over `inner`.
pub fn twisted<T: Twist>(inner: Box<dyn Device>, twist: T) -> Box<dyn Device> {
    let (held, reads) = (BTreeMap::new(), BTreeMap::new());
    Box::new(Twisted { inner, twist, held, reads, acknowledged: Vec::new(), own: OWN, now: Nanos::ZERO })
}

impl<T: Twist> Twisted<T> {
    /// Remembers the pages of a write that reach the disk changed, or not at all.
    fn hold(&mut self, asked: &Request, done: Option<&Request>) {
        let Operation::Write { start, pages, .. } = &asked.operation else { return };
        for (place, (lpn, page)) in (start.0..).map(Lpn).zip(pages).enumerate() {
            let written = done.and_then(|done| match &done.operation {
                Operation::Write { pages, .. } => pages.get(place),
                _ => None,
            });
            match written == Some(page) {
                true => drop(self.held.remove(&lpn)),
                false => drop(self.held.insert(lpn, page.clone())),
            }
        }
    }

    fn pass(&mut self, token: Token, request: Request) {
        if let Operation::Read { start, .. } = request.operation {
            self.reads.insert(token, start);
        }
        self.inner.submit(token, request, self.now);
    }

    fn finish(&mut self, mut completion: Completion, completed: &mut Vec<Completion>) {
        if completion.token.0 >= OWN {
            return;
        }
        if let (Some(start), Ok(pages)) = (self.reads.remove(&completion.token), &mut completion.outcome) {
            for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                *page = self.held.get(&lpn).unwrap_or(page).clone();
            }
        }
        completed.push(completion);
    }
}

impl<T: Twist> Device for Twisted<T> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        let mut done = request.clone();
        match self.twist.fate(&mut done) {
            Fate::IsLost => {
                self.hold(&request, None);
                self.acknowledged.push(Completion { token, outcome: Ok(Vec::new()) });
            }
            Fate::Passes => {
                self.hold(&request, Some(&done));
                self.pass(token, done);
            }
            Fate::IsFollowedBy(own) => {
                self.hold(&request, Some(&done));
                self.pass(token, done);
                for request in own {
                    self.own += 1;
                    self.inner.submit(Token(self.own), request, self.now);
                }
            }
        }
    }

    fn next_event(&self) -> NextEvent {
        if self.acknowledged.is_empty() { self.inner.next_event() } else { NextEvent::At(self.now) }
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.now = to;
        completed.append(&mut self.acknowledged);
        let mut inner = Vec::new();
        self.inner.advance(to, &mut inner);
        inner.into_iter().for_each(|completion| self.finish(completion, completed));
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}
