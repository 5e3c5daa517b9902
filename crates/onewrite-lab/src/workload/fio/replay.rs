//! Replay: the stream of a recorded run (`read_iolog`): the same accesses, at the same times or as fast as they go.

use onewrite_block::{Choices, Nanos, PAGE_SIZE};
use onewrite_fs::Position;

use crate::error::LabError;
use crate::job::{Iolog, IologAction, IologEvent, Options};
use crate::workload::{FileId, Operation, Order, Slot, Step, Stream, WriteManner};

/// See the module's head.
pub struct ReplayStream {
    options: Options,
    choices: Choices,
    log: Iolog,
    /// The file of each recorded one; several may be one (`replay_redirect`).
    files: Vec<FileId>,
    opened: usize,
    next: usize,
    closed: usize,
    loops: u64,
    /// When this pass began.
    began: Nanos,
    /// This pass had an event that was not skipped.
    had_event: bool,
}

impl ReplayStream {
    /// Replays `log` on `files`.
    pub fn new(options: &Options, log: Iolog, files: Vec<FileId>, choices: Choices) -> ReplayStream {
        let loops = options.loops;
        let (options, began) = (options.clone(), Nanos::ZERO);
        ReplayStream { options, choices, log, files, opened: 0, next: 0, closed: 0, loops, began, had_event: false }
    }

    fn skips(&self, action: IologAction) -> bool {
        let [read, write, trim, sync] = self.options.replay_skips;
        match action {
            IologAction::Read(..) => read,
            IologAction::Write(..) => write,
            IologAction::Trim(..) => trim,
            IologAction::Sync | IologAction::Datasync => sync,
        }
    }

    /// The pause before `event`, if it is not yet its time.
    fn pause(&self, event: &IologEvent, now: Nanos) -> Option<Nanos> {
        if self.options.replay_unpaced {
            return None;
        }
        let at = u128::from(event.at.0) * 100 / u128::from(self.options.replay_time_percent);
        let due = self.began + Nanos(at.min(u128::from(u64::MAX / 4)) as u64);
        (now < due).then(|| due - now)
    }

    fn place(&self, offset: u64) -> u64 {
        placed(&self.options, offset)
    }

    fn operation(&mut self, event: IologEvent) -> Operation {
        let slot = Slot(event.file as u32);
        let direct = self.options.direct;
        match event.action {
            IologAction::Read(offset, length) => Operation::Read { slot, offset: self.place(offset), length, direct },
            IologAction::Write(offset, length) => Operation::Write {
                slot,
                position: Position::At(self.place(offset)),
                length,
                seed: self.choices.bits(),
                compressible_percent: self.options.compressible_percent,
                manner: WriteManner { direct, sync: self.options.sync },
            },
            IologAction::Trim(offset, length) => Operation::Trim { slot, offset: self.place(offset), length },
            IologAction::Sync => Operation::Fsync { slot },
            IologAction::Datasync => Operation::Fdatasync { slot },
        }
    }

    fn event(&mut self, now: Nanos) -> Option<Step> {
        if self.options.runtime.is_some_and(|runtime| now >= runtime + self.options.ramp_time) {
            return None;
        }
        loop {
            let Some(&event) = self.log.events.get(self.next) else {
                let wants_more = self.options.time_based && self.options.runtime.is_some();
                self.loops -= 1;
                if (self.loops == 0 && !wants_more) || !std::mem::take(&mut self.had_event) {
                    self.loops = 1;
                    return None;
                }
                self.loops = self.loops.max(1);
                (self.next, self.began) = (0, now);
                continue;
            };
            if self.skips(event.action) {
                self.next += 1;
                continue;
            }
            self.had_event = true;
            if let Some(span) = self.pause(&event, now) {
                return Some(Step { operation: Operation::Think(span), order: Order::Blocking });
            }
            self.next += 1;
            let is_sync = event.action.range().is_none();
            let order = if is_sync { Order::Blocking } else { Order::Overlapping };
            return Some(Step { operation: self.operation(event), order });
        }
    }
}

/// An offset after `replay_scale` and `replay_align`.
pub fn placed(options: &Options, offset: u64) -> u64 {
    let offset = offset / options.replay_divisor;
    match options.replay_align {
        0 => offset,
        align => offset - offset % align,
    }
}

/// Bytes that the file of `index` needs, whole pages.
pub fn bytes_needed(options: &Options, log: &Iolog, index: usize) -> u64 {
    let events = log.events.iter().filter(|event| event.file == index);
    let ends = events.filter_map(|event| event.action.range()).map(|(offset, length)| placed(options, offset) + length);
    ends.max().unwrap_or(0).next_multiple_of(PAGE_SIZE as u64)
}

impl Stream for ReplayStream {
    fn next(&mut self, now: Nanos) -> Result<Option<Step>, LabError> {
        if self.opened < self.files.len() {
            let (file, slot) = (self.files[self.opened], Slot(self.opened as u32));
            self.opened += 1;
            self.began = now;
            return Ok(Some(Step::alone(Operation::Open { file, slot, create: true })));
        }
        if self.closed == 0
            && let Some(step) = self.event(now)
        {
            return Ok(Some(step));
        }
        if self.closed < self.files.len() {
            self.closed += 1;
            return Ok(Some(Step::alone(Operation::Close { slot: Slot(self.closed as u32 - 1) })));
        }
        Ok(None)
    }
}
