//! Disk: a device in memory for a run or a recovery; the explorer can read its content and take it away.
//!
//! It loses nothing by itself: the explorer derives the losses of a power cut from the recorded requests. Requests
//! either take no time (recovery) or a seeded time each (runs), so that they overlap and complete out of order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use onewrite_block::{
    Choices, Completion, Counters, Device, Geometry, Image, Lpn, Nanos, NextEvent, Operation, Outcome, Page, Request,
    Token,
};

use crate::reads::Reads;

/// The content of a disk, shared with the owner of the run.
#[derive(Debug)]
pub(crate) struct Medium {
    pub(crate) image: Image,
    /// Pages changed since it was made, in order, with repetitions.
    pub(crate) written: Vec<Lpn>,
    /// What was read, if somebody wants to know.
    pub(crate) reads: Option<Reads>,
}

impl Medium {
    /// A medium that holds `image`.
    pub(crate) fn new(image: Image) -> Rc<RefCell<Medium>> {
        Rc::new(RefCell::new(Medium { image, written: Vec::new(), reads: None }))
    }

    /// The same, and what is read goes to `reads`, if that is there.
    pub(crate) fn watched(image: Image, reads: Option<Reads>) -> Rc<RefCell<Medium>> {
        Rc::new(RefCell::new(Medium { image, written: Vec::new(), reads }))
    }

    /// A medium without pages, to put in place of one that was taken.
    pub(crate) fn empty() -> Medium {
        Medium { image: Image::new(0), written: Vec::new(), reads: None }
    }

    fn set(&mut self, lpn: Lpn, page: Page) {
        self.image.set(lpn, page);
        self.written.push(lpn);
        if let Some(reads) = &mut self.reads {
            reads.note_write(lpn);
        }
    }

    fn clear(&mut self, start: Lpn, count: u64) {
        let holds_content = |lpn: &Lpn| !self.image.page(*lpn).same_handle(&Page::ZEROS);
        self.written.extend((start.0..start.0 + count).map(Lpn).filter(holds_content));
        self.image.clear(start, count);
        if let Some(reads) = &mut self.reads {
            reads.note_trim(start.0..start.0 + count);
        }
    }

    fn page(&mut self, lpn: Lpn) -> Page {
        if let Some(reads) = &mut self.reads {
            reads.note_read(lpn);
        }
        self.image.page(lpn).clone()
    }
}

/// How long requests take: 20 to 120 µs each, and one of `slow_one_in` up to 10 ms, so that much happens beside it.
pub(crate) struct Pace {
    pub(crate) choices: Choices,
    /// 0: none does.
    pub(crate) slow_one_in: u64,
}

impl Pace {
    /// Nanoseconds of the next request.
    fn next(&mut self) -> u64 {
        if self.slow_one_in > 0 && self.choices.chance(1, self.slow_one_in) {
            return 500_000 + self.choices.below(9_500_000);
        }
        20_000 + self.choices.below(100_000)
    }
}

/// See the module's head.
pub(crate) struct Disk {
    geometry: Geometry,
    medium: Rc<RefCell<Medium>>,
    /// Sorted by time of completion, then by order of submission.
    under_way: BTreeMap<(Nanos, u64), (Token, Request)>,
    submitted: u64,
    pace: Option<Pace>,
    counters: Counters,
}

impl Disk {
    /// A disk that takes no time.
    pub(crate) fn instant(medium: &Rc<RefCell<Medium>>, geometry: &Geometry) -> Disk {
        Disk {
            geometry: geometry.clone(),
            medium: Rc::clone(medium),
            under_way: BTreeMap::new(),
            submitted: 0,
            pace: None,
            counters: Counters::default(),
        }
    }

    /// A disk whose requests take as long as `pace` says.
    pub(crate) fn paced(medium: &Rc<RefCell<Medium>>, geometry: &Geometry, pace: Pace) -> Disk {
        Disk { pace: Some(pace), ..Disk::instant(medium, geometry) }
    }

    fn carry_out(&self, operation: Operation) -> Outcome {
        let mut medium = self.medium.borrow_mut();
        match operation {
            Operation::Read { start, count } => {
                return Ok((0..u64::from(count)).map(|at| medium.page(start.offset(at))).collect());
            }
            Operation::Write { start, pages, .. } => {
                (start.0..).map(Lpn).zip(pages).for_each(|(lpn, page)| medium.set(lpn, page));
            }
            Operation::Flush => (),
            Operation::Trim { start, count } => medium.clear(start, count),
            Operation::Share(pairs) => {
                let sources: Vec<Page> = pairs.iter().map(|pair| medium.page(pair.source)).collect();
                pairs.iter().zip(sources).for_each(|(pair, page)| medium.set(pair.target, page));
            }
        }
        Ok(Vec::new())
    }
}

impl Device for Disk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let span = self.pace.as_mut().map_or(0, Pace::next);
        self.counters.count(&request);
        self.under_way.insert((now + Nanos(span), self.submitted), (token, request));
        self.submitted += 1;
    }

    fn next_event(&self) -> NextEvent {
        self.under_way.first_key_value().map(|((moment, _), _)| *moment).into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        while self.next_event().moment().is_some_and(|moment| moment <= to) {
            let (_, (token, request)) = self.under_way.pop_first().expect("just seen");
            let outcome = self.geometry.admit(&request).and_then(|()| self.carry_out(request.operation));
            completed.push(Completion { token, outcome });
        }
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}
