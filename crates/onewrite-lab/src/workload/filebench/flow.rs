//! Flows: the operations that a thread of a personality repeats.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use onewrite_block::{Choices, MIB, Nanos};
use onewrite_fs::Position;

use super::fileset::FileSet;
use super::parameters::{Length, Parameters};
use crate::error::LabError;
use crate::job::SyncMode;
use crate::workload::{Ended, FileId, Operation, OrderedOperation, Stream, TaskDescriptor, WriteManner};

/// One flow operation of filebench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// `deletefile`
    Delete,
    /// `createfile`
    Create,
    /// `openfile`
    Open,
    /// `appendfilerand`
    Append,
    /// `appendfilerand` on the log, which stays open.
    AppendLog,
    /// `writewholefile`
    WriteWhole,
    /// `readwholefile`
    ReadWhole,
    /// `fsync`
    Fsync,
    /// `statfile`
    Stat,
    /// `closefile`
    Close,
}

use Flow::{Append, AppendLog, Close, Create, Delete, Fsync, Open, ReadWhole, Stat, WriteWhole};

/// `varmail.f`
pub(crate) const VARMAIL: &[Flow] = &[
    Delete, Create, Append, Fsync, Close, // a message arrives
    Open, ReadWhole, Append, Fsync, Close, // a message is read and marked
    Open, ReadWhole, Close, // a message is read
];

/// `fileserver.f`
pub(crate) const FILESERVER: &[Flow] =
    &[Create, WriteWhole, Close, Open, Append, Close, Open, ReadWhole, Close, Delete, Stat];

/// `webserver.f`
pub(crate) const WEBSERVER: &[Flow] = &[
    Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole,
    Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open,
    ReadWhole, Close, AppendLog,
];

/// `webproxy.f`
pub(crate) const WEBPROXY: &[Flow] = &[
    Delete, Create, Append, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open,
    ReadWhole, Close, Open, ReadWhole, Close,
];

const FILE: TaskDescriptor = TaskDescriptor(1);
const LOG: TaskDescriptor = TaskDescriptor(2);

/// The progress of a run; its threads share it.
pub(super) struct Pace {
    length: Length,
    issued: Cell<u64>,
}

impl Pace {
    /// A run that has not begun.
    pub(super) fn new(length: Length) -> Pace {
        Pace { length, issued: Cell::new(0) }
    }

    fn is_over(&self, now: Nanos) -> bool {
        match self.length {
            Length::Time(span) => now >= span,
            Length::Operations(count) => self.issued.get() >= count,
        }
    }

    fn share(&self, now: Nanos) -> f64 {
        let (done, all) = match self.length {
            Length::Time(span) => (now.0, span.0),
            Length::Operations(count) => (self.issued.get(), count),
        };
        (done as f64 / all.max(1) as f64).min(1.0)
    }
}

/// The stream of one thread.
pub(crate) struct FlowStream {
    personality: &'static str,
    flows: &'static [Flow],
    next: usize,
    parameters: Parameters,
    set: Rc<RefCell<FileSet>>,
    pace: Rc<Pace>,
    choices: Choices,
    file: Option<FileId>,
    log_open: bool,
    /// The remaining operations of a flow that has several.
    pending: VecDeque<Operation>,
}

impl FlowStream {
    /// The stream of a thread that repeats `flows`.
    pub(super) fn new(
        personality: &'static str,
        flows: &'static [Flow],
        parameters: Parameters,
        set: Rc<RefCell<FileSet>>,
        pace: Rc<Pace>,
        choices: Choices,
    ) -> FlowStream {
        let (next, file, log_open, pending) = (0, None, false, VecDeque::new());
        FlowStream { personality, flows, next, parameters, set, pace, choices, file, log_open, pending }
    }

    /// Puts the operations of the next flow into `pending`; there may be none.
    fn flow(&mut self) -> Result<(), LabError> {
        let flow = self.flows[self.next];
        self.next = (self.next + 1) % self.flows.len();
        match flow {
            Delete => {
                let file = self.set.borrow_mut().pick_for_deletion();
                if let Some(file) = self.picked(file, "existing")? {
                    self.pending.push_back(Operation::Unlink { file });
                }
            }
            Create => {
                let picked = self.set.borrow_mut().pick_missing();
                let file = self.picked(picked, "missing")?;
                self.opened(file, Operation::Create { file, slot: FILE });
            }
            Open => {
                let file = self.existing()?;
                self.opened(file, Operation::Open { file, slot: FILE, create: false });
            }
            Stat => {
                let file = self.existing()?;
                self.pending.push_back(Operation::Stat { file });
            }
            Append => self.append(FILE),
            AppendLog => self.append_log(),
            WriteWhole => self.write_whole(),
            ReadWhole => self.pending.push_back(Operation::ReadWhole { slot: FILE, chunk: MIB }),
            Fsync => self.pending.push_back(Operation::Fsync { slot: FILE }),
            Close => self.close(),
        }
        Ok(())
    }

    fn existing(&mut self) -> Result<FileId, LabError> {
        let picked = self.set.borrow_mut().pick_existing();
        self.picked(picked, "existing")
    }

    fn picked<T>(&self, picked: Option<T>, wanted: &'static str) -> Result<T, LabError> {
        picked.ok_or_else(|| LabError::NoFile { job: self.personality.to_owned(), wanted })
    }

    fn opened(&mut self, file: FileId, operation: Operation) {
        self.file = Some(file);
        self.pending.push_back(operation);
    }

    fn close(&mut self) {
        self.pending.push_back(Operation::Close { slot: FILE });
    }

    /// Appends a random length below the append size. As in filebench, length zero does nothing.
    fn append(&mut self, slot: TaskDescriptor) {
        let length = self.choices.below(self.parameters.append_size);
        if length > 0 {
            let operation = self.write(slot, Position::End, length);
            self.pending.push_back(operation);
        }
    }

    fn append_log(&mut self) {
        let log = self.set.borrow().log.expect("the personality has a log");
        if !std::mem::replace(&mut self.log_open, true) {
            self.pending.push_back(Operation::Open { file: log, slot: LOG, create: false });
        }
        self.append(LOG);
    }

    fn write_whole(&mut self) {
        let file = self.file.expect("a file is open");
        let size = self.set.borrow().size(file);
        for offset in (0..size).step_by(MIB as usize) {
            let operation = self.write(FILE, Position::At(offset), MIB.min(size - offset));
            self.pending.push_back(operation);
        }
    }

    fn write(&mut self, slot: TaskDescriptor, position: Position, length: u64) -> Operation {
        Operation::Write {
            slot,
            position,
            length,
            seed: self.choices.bits(),
            compressible_percent: self.parameters.compressible_percent,
            manner: WriteManner { direct: false, sync: SyncMode::None },
        }
    }

    /// Closes the open files, one after the other.
    fn ending(&mut self) -> Option<Operation> {
        if self.file.is_some() {
            return Some(Operation::Close { slot: FILE });
        }
        std::mem::take(&mut self.log_open).then_some(Operation::Close { slot: LOG })
    }
}

impl Stream for FlowStream {
    fn next(&mut self, now: Nanos) -> Result<Option<OrderedOperation>, LabError> {
        if self.pace.is_over(now) {
            return Ok(self.ending().map(OrderedOperation::alone));
        }
        while self.pending.is_empty() {
            self.flow()?;
        }
        self.pace.issued.set(self.pace.issued.get() + 1);
        Ok(self.pending.pop_front().map(OrderedOperation::alone))
    }

    fn completed(&mut self, operation: &Operation, _: Ended) {
        let mut set = self.set.borrow_mut();
        match operation {
            Operation::Close { slot: FILE } => set.closed(self.file.take().expect("a file is open")),
            other => set.completed(other),
        }
    }

    fn share(&self, now: Nanos) -> Option<f64> {
        Some(self.pace.share(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::filebench::{Personality, plan};

    /// The operations of a single thread, one letter each.
    fn letters(personality: Personality, operations: u64) -> String {
        let parameters =
            Parameters { threads: 1, files: 50, length: Length::Operations(operations), ..personality.parameters() };
        let mut workload = plan(personality, parameters, &Choices::new(1)).unwrap();
        let stream = &mut workload.groups[0][0].stream;
        let mut letters = String::new();
        while let Some(step) = stream.next(Nanos::ZERO).unwrap() {
            letters.push(step.operation.name().chars().next().unwrap());
            stream.completed(&step.operation, Ended::default());
        }
        letters
    }

    #[test]
    fn varmail_goes_through_its_flows() {
        assert_eq!(letters(Personality::Varmail, 14), "ucwfcorwfcorcu");
    }

    #[test]
    fn the_log_of_webserver_stays_open() {
        assert_eq!(letters(Personality::Webserver, 63), "orc".repeat(10) + "ow" + &"orc".repeat(10) + "w" + "c");
    }

    #[test]
    fn a_run_ends_with_everything_closed() {
        assert_eq!(letters(Personality::Varmail, 3), "ucwc");
    }

    #[test]
    fn too_few_files_are_an_error_that_says_so() {
        let parameters = Parameters { threads: 1, files: 1, ..Personality::Webproxy.parameters() };
        let mut workload = plan(Personality::Webproxy, parameters, &Choices::new(1)).unwrap();
        let stream = &mut workload.groups[0][0].stream;
        let first = stream.next(Nanos::ZERO);
        let second = stream.next(Nanos::ZERO);
        assert!(first.is_err() || second.is_err());
    }
}
