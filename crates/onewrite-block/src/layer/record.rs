//! Record: keeps the requests and completions in order, so that every crash state of a run can be built later.

use std::cell::RefCell;
use std::rc::Rc;

use super::pass_on;
use crate::device::{Completion, Device, NextEvent};
use crate::mark::{Marks, take};
use crate::request::{Operation, Request, Token};
use crate::units::Nanos;

/// One thing that happened at the door of a device.
#[derive(Clone, Debug)]
pub enum RecordedEvent {
    /// A request went in. Reads are not kept.
    Submitted(Token, Request),
    /// The request completed without error. After a power cut between the two events it may be done or not.
    Completed(Token),
    /// The request completed with an error.
    Failed(Token),
    /// A mark of the caller, with a number of its own.
    Mark(u64),
}

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The events.
    pub events: Vec<RecordedEvent>,
    /// The marks that the run reached before each of them, and behind the one before.
    pub marks: Vec<Marks>,
}

impl Recording {
    /// Adds an event, with the marks that this thread reached since the last.
    pub fn push(&mut self, event: RecordedEvent) {
        self.events.push(event);
        self.marks.push(take());
    }
}

/// Records every request to the device inside. The maker of the layer shares the recording.
pub struct Recorded {
    inner: Box<dyn Device>,
    recording: Rc<RefCell<Recording>>,
    reads: Vec<Token>,
}

impl Recorded {
    /// A layer around `inner`.
    pub fn new(inner: Box<dyn Device>, recording: Rc<RefCell<Recording>>) -> Recorded {
        Recorded { inner, recording, reads: Vec::new() }
    }
}

impl Device for Recorded {
    pass_on!();

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        match &request.operation {
            Operation::Read { .. } => self.reads.push(token),
            _ => self.recording.borrow_mut().push(RecordedEvent::Submitted(token, request.clone())),
        }
        self.inner.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let seen = completed.len();
        self.inner.advance(to, completed);
        let mut recording = self.recording.borrow_mut();
        for completion in &completed[seen..] {
            match self.reads.iter().position(|token| *token == completion.token) {
                Some(read) => drop(self.reads.swap_remove(read)),
                None if completion.outcome.is_ok() => recording.push(RecordedEvent::Completed(completion.token)),
                None => recording.push(RecordedEvent::Failed(completion.token)),
            }
        }
    }
}
