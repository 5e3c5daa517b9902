//! Devices that disobey: a manner decides what becomes of each request. Reads return what the file system believes to
//! be there, so nobody notices before the power loss.

use std::collections::BTreeMap;

use onewrite_block::{Completion, Counters, Device, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Request, Token};

/// How a device disobeys.
pub trait Manner: 'static {
    /// Decides what becomes of a request.
    fn submitted(&mut self, disk: &mut Disk, token: Token, request: Request);

    /// Hears that a request that was passed on has completed.
    fn completed(&mut self, _disk: &mut Disk, _token: Token) {}
}

/// First token of the device's own requests.
const OWN: u32 = 1 << 30;

/// The disk beneath, and what the file system believes of it.
pub struct Disk {
    inner: Box<dyn Device>,
    believed: BTreeMap<Lpn, Page>,
    reads: BTreeMap<Token, Lpn>,
    acknowledged: Vec<Completion>,
    own: u32,
    now: Nanos,
}

impl Disk {
    /// Passes a request on.
    pub fn pass(&mut self, token: Token, request: Request) {
        if let Operation::Read { start, .. } = request.operation {
            self.reads.insert(token, start);
        }
        self.inner.submit(token, request, self.now);
    }

    /// Acknowledges a request that was not passed on.
    pub fn acknowledge(&mut self, token: Token) {
        self.acknowledged.push(Completion { token, outcome: Ok(Vec::new()) });
    }

    /// Carries out a request that the file system does not hear of.
    pub fn add(&mut self, request: Request) {
        self.own += 1;
        self.inner.submit(Token(self.own), request, self.now);
    }

    /// Reads return `page` from now on, whatever is on the disk; with none, what is on the disk.
    pub fn believe(&mut self, lpn: Lpn, page: Option<Page>) {
        match page {
            Some(page) => self.believed.insert(lpn, page),
            None => self.believed.remove(&lpn),
        };
    }

    fn show(&mut self, completion: &mut Completion) {
        if let (Some(start), Ok(pages)) = (self.reads.remove(&completion.token), &mut completion.outcome) {
            for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                *page = self.believed.get(&lpn).unwrap_or(page).clone();
            }
        }
    }
}

struct Disobedient<M> {
    disk: Disk,
    manner: M,
}

/// A device over `inner` that disobeys in this manner.
pub fn disobedient<M: Manner>(inner: Box<dyn Device>, manner: M) -> Box<dyn Device> {
    let (believed, reads, acknowledged) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let disk = Disk { inner, believed, reads, acknowledged, own: OWN, now: Nanos::ZERO };
    Box::new(Disobedient { disk, manner })
}

impl<M: Manner> Device for Disobedient<M> {
    fn geometry(&self) -> &Geometry {
        self.disk.inner.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.disk.now = now;
        self.manner.submitted(&mut self.disk, token, request);
    }

    fn next_event(&self) -> NextEvent {
        match self.disk.acknowledged.is_empty() {
            true => self.disk.inner.next_event(),
            false => NextEvent::At(self.disk.now),
        }
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.disk.now = to;
        completed.append(&mut self.disk.acknowledged);
        let mut inner = Vec::new();
        self.disk.inner.advance(to, &mut inner);
        for mut completion in inner.into_iter().filter(|completion| completion.token.0 < OWN) {
            self.disk.show(&mut completion);
            self.manner.completed(&mut self.disk, completion.token);
            completed.push(completion);
        }
    }

    fn counters(&self) -> Counters {
        self.disk.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.disk.inner.reset_counters();
    }
}
