//! Survivors: what a run wrote to the two parts of a device, image and background region, and which of it may survive a
//! power cut.

use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Lpn, Operation, Page};
use rustc_hash::FxHashSet;

use crate::capturing::DeviceRun;
use crate::marks::{Recently, marks_of};
use crate::states::{Sum, Walker};
use crate::walk::WalkPosition;

/// A walk along a run on a device.
pub(crate) struct Along<'w> {
    run: &'w DeviceRun,
    pub(crate) walkers: Walkers<'w>,
    pub(crate) place: WalkPosition,
    recently: Recently,
    passed: usize,
}

impl<'w> Along<'w> {
    /// A walk at the beginning of `run`, on an image of `pages` pages.
    pub(crate) fn new(run: &'w DeviceRun, base: u64, pages: u64, log: &'w FxHashSet<Lpn>) -> Along<'w> {
        let walker = || Walker::new(run.content.clone(), Sum::of_base(base), log, &run.geometry);
        let walkers = Walkers { image: walker(), region: walker(), start: pages };
        Along { run, walkers, place: WalkPosition::default(), recently: Recently::default(), passed: 0 }
    }

    /// Visits events until `event` of them are passed.
    pub(crate) fn pass_to(&mut self, event: usize) {
        while self.passed < event {
            let event = &self.run.events[self.passed];
            self.walkers.pass(event);
            self.place.pass(self.passed, event, &self.run.history);
            self.place.reached = self.recently.pass(event, marks_of(&self.run.marks, self.passed));
            self.passed += 1;
        }
    }
}

/// One walker for the pages of the image, one for the region behind it.
pub(crate) struct Walkers<'w> {
    pub(crate) image: Walker<'w>,
    pub(crate) region: Walker<'w>,
    /// First page of the region.
    pub(crate) start: u64,
}

impl Walkers<'_> {
    fn pass(&mut self, event: &RecordedEvent) {
        match (event, first_page(event)) {
            (_, Some(first)) if first >= self.start => self.region.pass(event),
            (_, Some(_)) => self.image.pass(event),
            _ => self.region.pass(event) + self.image.pass(event),
        };
    }

    /// The pages of `content` that differ from the last durable content, each with its hash.
    ///
    /// # Errors
    /// The pages with neither the last durable content nor a newer one.
    pub(crate) fn newer(&self, content: Vec<(Lpn, Page)>) -> Result<BTreeMap<Lpn, (Page, u64)>, Vec<Lpn>> {
        let (mut newer, mut wrong) = (BTreeMap::new(), Vec::new());
        for (lpn, page) in content {
            let walker = if lpn.0 < self.start { &self.image } else { &self.region };
            match walker.newer(lpn, &page) {
                Ok(None) => (),
                Ok(Some(hash)) => drop(newer.insert(lpn, (page, hash))),
                Err(()) => wrong.push(lpn),
            }
        }
        if wrong.is_empty() { Ok(newer) } else { Err(wrong) }
    }
}

/// The first page that a request changes; `None` for a read, a FLUSH, and any event but a submission.
fn first_page(event: &RecordedEvent) -> Option<u64> {
    let RecordedEvent::Submitted(_, request) = event else { return None };
    match &request.operation {
        Operation::Write { start, .. } | Operation::Trim { start, .. } => Some(start.0),
        Operation::Share(pairs) => pairs.first().map(|pair| pair.target.0),
        Operation::Read { .. } | Operation::Flush => None,
    }
}

/// The pages that a run wrote, and all pages of the device.
pub(crate) struct Pages {
    pub(crate) written: Vec<Lpn>,
    pub(crate) all: Vec<Lpn>,
}

pub(crate) fn written_pages(events: &[RecordedEvent]) -> Vec<Lpn> {
    let mut pages = BTreeSet::new();
    for event in events {
        let RecordedEvent::Submitted(_, request) = event else { continue };
        match &request.operation {
            Operation::Write { start, pages: content, .. } => {
                pages.extend((start.0..start.0 + content.len() as u64).map(Lpn));
            }
            Operation::Trim { start, count } => pages.extend((start.0..start.0 + count).map(Lpn)),
            Operation::Share(pairs) => pages.extend(pairs.iter().map(|pair| pair.target)),
            Operation::Read { .. } | Operation::Flush => (),
        }
    }
    pages.into_iter().collect()
}
