//! First page: a new file system becomes visible only when it is complete.
//!
//! The superblock is in the first page. While the file system is made and filled, that page reads as zeros on the disk,
//! and writes to it wait here. So whatever interrupts the work, even `kill -9`, leaves no file system that looks
//! complete. F2FS has a second superblock in the second page: what is there is gone before anything else is written.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use onewrite_block::{
    Bell, Cause, Completion, Counters, Device, DevicePort, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Request,
    Token,
};
use onewrite_fs::FsError;

use crate::error::LabError;

/// The waiting page; `None` while the layer passes everything through.
#[derive(Clone, Debug, Default)]
pub struct FirstPage(Rc<RefCell<Option<Page>>>);

impl FirstPage {
    /// Writes zeros to the first two pages of the device behind `port`, over which this layer lies; later writes to the
    /// first wait.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn hold_back(&self, port: &DevicePort) -> Result<(), LabError> {
        write(port, vec![Page::ZEROS; port.geometry().pages.min(2) as usize]).await?;
        *self.0.borrow_mut() = Some(Page::ZEROS);
        Ok(())
    }

    /// Writes the first page, after all other pages are durable.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn release(&self, port: &DevicePort) -> Result<(), LabError> {
        port.request(Request::flush(Cause::Metadata)).await.map_err(FsError::from)?;
        match self.0.take() {
            Some(page) => write(port, vec![page]).await,
            None => Ok(()),
        }
    }
}

async fn write(port: &DevicePort, pages: Vec<Page>) -> Result<(), LabError> {
    port.request(Request::write(Lpn(0), pages, Cause::Metadata)).await.map_err(FsError::from)?;
    port.request(Request::flush(Cause::Metadata)).await.map_err(FsError::from)?;
    Ok(())
}

/// The layer that holds the first page back.
pub struct Unfinished {
    inner: Box<dyn Device>,
    geometry: Geometry,
    first: FirstPage,
    /// Reads under way that begin with the first page.
    reads: BTreeSet<Token>,
    done: Vec<Completion>,
    now: Nanos,
}

impl Unfinished {
    /// A layer over `inner`, and the handle that tells it when to hold the page and when to write it.
    pub fn new(inner: Box<dyn Device>) -> (Unfinished, FirstPage) {
        let first = FirstPage::default();
        let geometry = Geometry {
            share_pairs_max: 0,
            share_refusal: Some("a file system is being made here".to_owned()),
            ..inner.geometry().clone()
        };
        let (reads, done) = (BTreeSet::new(), Vec::new());
        (Unfinished { inner, geometry, first: first.clone(), reads, done, now: Nanos::ZERO }, first)
    }

    /// The part of a write or trim that the layer passes on, if any.
    fn keep_first(&self, operation: Operation) -> Option<Operation> {
        let mut first = self.first.0.borrow_mut();
        match operation {
            Operation::Write { start: Lpn(0), mut pages, durable } if first.is_some() => {
                *first = Some(pages.remove(0));
                (!pages.is_empty()).then_some(Operation::Write { start: Lpn(1), pages, durable })
            }
            Operation::Trim { start: Lpn(0), count } if first.is_some() => {
                *first = Some(Page::ZEROS);
                (count > 1).then_some(Operation::Trim { start: Lpn(1), count: count - 1 })
            }
            other => Some(other),
        }
    }
}

impl Device for Unfinished {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        if let Err(error) = self.geometry.admit(&request) {
            return self.done.push(Completion { token, outcome: Err(error) });
        }
        if matches!(request.operation, Operation::Read { start: Lpn(0), .. }) {
            self.reads.insert(token);
        }
        let Request { operation, .. } = request;
        match self.keep_first(operation) {
            Some(operation) => self.inner.submit(token, Request { operation, ..request }, now),
            None => self.done.push(Completion { token, outcome: Ok(Vec::new()) }),
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
        completed.append(&mut self.done);
        let seen = completed.len();
        self.inner.advance(to, completed);
        for completion in &mut completed[seen..] {
            let is_first = self.reads.remove(&completion.token);
            if let (true, Ok(pages), Some(page)) = (is_first, &mut completion.outcome, &*self.first.0.borrow()) {
                pages[0] = page.clone();
            }
        }
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}
