//! Overlay: a device that reads from another one and keeps every write in memory, so that reading changes nothing.
//!
//! `ls`, `cat`, `tree` and `fsck -n` mount an image through it. They replay its log only in memory.

use std::collections::{BTreeMap, VecDeque};

use crate::bell::Bell;
use crate::counters::Counters;
use crate::device::{Completion, Device, Geometry, NextEvent, TrimRead};
use crate::page::Page;
use crate::request::{Operation, Request, Token};
use crate::units::{Lpn, Nanos};

/// A layer that passes no write on. Its writes live as long as the layer.
pub struct Overlay {
    inner: Box<dyn Device>,
    geometry: Geometry,
    written: BTreeMap<Lpn, Page>,
    reads: BTreeMap<Token, Lpn>,
    done: VecDeque<Completion>,
    now: Nanos,
    counters: Counters,
}

impl Overlay {
    /// A layer over `inner`.
    pub fn new(inner: Box<dyn Device>) -> Overlay {
        let geometry = Geometry { trim_read: TrimRead::Unsupported, share_pairs_max: 0, ..inner.geometry().clone() };
        Overlay {
            inner,
            geometry,
            written: BTreeMap::new(),
            reads: BTreeMap::new(),
            done: VecDeque::new(),
            now: Nanos::ZERO,
            counters: Counters::default(),
        }
    }

    fn keep(&mut self, start: Lpn, pages: Vec<Page>) {
        for (index, page) in (0..).zip(pages) {
            self.written.insert(start.offset(index), page);
        }
    }

    /// Replaces pages of a read by the newer ones in memory.
    fn lay_over(&self, start: Lpn, pages: &mut [Page]) {
        let end = start.offset(pages.len() as u64);
        for (lpn, page) in self.written.range(start..end) {
            pages[(lpn.0 - start.0) as usize] = page.clone();
        }
    }
}

impl Device for Overlay {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        self.counters.count(&request);
        if let Err(error) = self.geometry.admit(&request) {
            return self.done.push_back(Completion { token, outcome: Err(error) });
        }
        match request.operation {
            Operation::Read { start, .. } => {
                self.reads.insert(token, start);
                self.inner.submit(token, request, now);
            }
            Operation::Write { start, pages, .. } => {
                self.keep(start, pages);
                self.done.push_back(Completion { token, outcome: Ok(Vec::new()) });
            }
            _ => self.done.push_back(Completion { token, outcome: Ok(Vec::new()) }),
        }
    }

    fn attached(&mut self, bell: Option<Bell>) {
        self.inner.attached(bell);
    }

    fn next_event(&self) -> NextEvent {
        if self.done.is_empty() { self.inner.next_event() } else { NextEvent::At(self.now) }
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.now = to;
        completed.extend(self.done.drain(..));
        let seen = completed.len();
        self.inner.advance(to, completed);
        for completion in &mut completed[seen..] {
            let start = self.reads.remove(&completion.token).expect("only reads go inside");
            if let Ok(pages) = &mut completion.outcome {
                self.lay_over(start, pages);
            }
        }
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}
