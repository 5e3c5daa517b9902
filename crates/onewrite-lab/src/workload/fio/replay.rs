//! Replay: the stream of a recorded run (`read_iolog`): the same accesses, at their recorded times or as fast as
//! possible.

use onewrite_block::{Choices, Nanos, PAGE_SIZE};
use onewrite_fs::Position;

use super::task::{Task, part};
use crate::error::LabError;
use crate::job::{Iolog, IologAction, IologEvent, Options};
use crate::workload::{
    Ended, FileId, Findings, Operation, Order, OrderedOperation, Stream, TaskDescriptor, WriteManner,
};

/// The stream of one recorded run.
pub(crate) struct ReplayStream {
    options: Options,
    choices: Choices,
    log: Iolog,
    /// The file of each recorded file; several may share one (`replay_redirect`).
    files: Vec<FileId>,
    opened: usize,
    next: usize,
    closed: usize,
    loops: u64,
    /// Beginning of this pass.
    began: Nanos,
    /// Whether this pass had an event that was not skipped.
    had_event: bool,
    /// Only closing files is left.
    is_over: bool,
    task: Task,
}

impl ReplayStream {
    /// Replays `log` on `files`.
    pub(super) fn new(options: &Options, log: Iolog, files: Vec<FileId>, choices: Choices, task: Task) -> ReplayStream {
        ReplayStream {
            options: options.clone(),
            choices,
            log,
            files,
            opened: 0,
            next: 0,
            closed: 0,
            loops: options.loops,
            began: Nanos::ZERO,
            had_event: false,
            is_over: false,
            task,
        }
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

    /// The pause until `event` is due; `None` if it is due already.
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
        let slot = TaskDescriptor(event.file as u32);
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

    /// The next event; `None` at the end of the last pass.
    fn event(&mut self, now: Nanos) -> Option<OrderedOperation> {
        let time_is_up = self.options.runtime.is_some_and(|runtime| now >= runtime + self.options.ramp_time);
        if time_is_up || self.task.is_ended() {
            return None;
        }
        loop {
            let Some(&event) = self.log.events.get(self.next) else {
                if !self.begins_pass(now) {
                    return None;
                }
                continue;
            };
            if self.skips(event.action) {
                self.next += 1;
                continue;
            }
            self.had_event = true;
            if let Some(span) = self.pause(&event, now) {
                return Some(OrderedOperation { operation: Operation::Think(span), order: Order::Blocking });
            }
            self.next += 1;
            let is_sync = event.action.range().is_none();
            let order = if is_sync { Order::Blocking } else { Order::Overlapping };
            return Some(OrderedOperation { operation: self.operation(event), order });
        }
    }

    /// Whether another pass begins; passes without events would never end.
    fn begins_pass(&mut self, now: Nanos) -> bool {
        let is_wanted = self.loops > 1 || self.options.time_based;
        let begins = is_wanted && std::mem::take(&mut self.had_event);
        if begins {
            self.loops = (self.loops - 1).max(1);
            (self.next, self.began) = (0, now);
        }
        begins
    }

    /// Progress in the log: in recorded time if times are kept, else in events.
    fn place_in_log(&self) -> f64 {
        let events = &self.log.events;
        let time = |event: Option<&IologEvent>| event.map_or(0, |event| event.at.0);
        match self.options.replay_unpaced || time(events.last()) == 0 {
            true => part(self.next as u64, events.len() as u64),
            false if self.next >= events.len() => 1.0,
            false => part(time(events.get(self.next)), time(events.last())),
        }
    }
}

/// An offset changed by `replay_scale` and `replay_align`.
pub(crate) fn placed(options: &Options, offset: u64) -> u64 {
    let offset = offset / options.replay_divisor;
    match options.replay_align {
        0 => offset,
        align => offset - offset % align,
    }
}

/// Bytes that the file of `index` needs, in whole pages.
pub(super) fn bytes_needed(options: &Options, log: &Iolog, index: usize) -> u64 {
    let events = log.events.iter().filter(|event| event.file == index);
    let ends = events.filter_map(|event| event.action.range()).map(|(offset, length)| placed(options, offset) + length);
    ends.max().unwrap_or(0).next_multiple_of(PAGE_SIZE as u64)
}

impl Stream for ReplayStream {
    fn next(&mut self, now: Nanos) -> Result<Option<OrderedOperation>, LabError> {
        if self.opened < self.files.len() {
            let (file, slot) = (self.files[self.opened], TaskDescriptor(self.opened as u32));
            self.opened += 1;
            self.began = now;
            return Ok(Some(OrderedOperation::alone(Operation::Open { file, slot, create: true })));
        }
        let are_reached = self.task.goals.are_reached(now)?;
        if !self.is_over {
            if !are_reached && let Some(step) = self.event(now) {
                return Ok(Some(step));
            }
            self.is_over = true;
            self.task.end(&self.options);
        }
        if self.closed < self.files.len() {
            self.closed += 1;
            return Ok(Some(OrderedOperation::alone(Operation::Close {
                slot: TaskDescriptor(self.closed as u32 - 1),
            })));
        }
        Ok(None)
    }

    fn completed(&mut self, operation: &Operation, ended: Ended) {
        self.task.goals.ended(operation, ended);
    }

    fn share(&self, now: Nanos) -> Option<f64> {
        if self.is_over {
            return Some(1.0);
        }
        let options = &self.options;
        let by_time = options.runtime.map(|runtime| part(now.0, (runtime + options.ramp_time).0));
        let passes = (options.loops - self.loops) as f64 + self.place_in_log();
        let by_place = (!options.time_based).then_some(passes / options.loops as f64);
        by_time.into_iter().chain(by_place).reduce(f64::max)
    }

    fn depth(&self) -> u32 {
        self.task.goals.depth()
    }

    fn forgets(&mut self) -> bool {
        self.task.goals.forget()
    }

    fn findings(&self) -> Findings {
        self.task.goals.findings()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::goals::Goals;
    use super::super::shared::Membership;
    use super::*;
    use crate::job::JobFile;

    /// The shares before each event of a log that is replayed on time, and the share at its end.
    fn shares(settings: &str) -> Vec<f64> {
        let job = JobFile::parse("t", &format!("[a]\nsize=1m\n{settings}\n")).unwrap().jobs.remove(0);
        let log = "fio version 3 iolog\n0 f add\n0 f write 0 4096\n1000 f write 4096 4096\n4000 f write 8192 4096\n";
        let goals = Goals::new(&job.options, None, Nanos::ZERO);
        let task = Task { shared: Rc::default(), member: Membership { group: 0, stonewall: 0 }, goals };
        let log = Iolog::parse(log).unwrap();
        let mut stream = ReplayStream::new(&job.options, log, vec![FileId(0)], Choices::new(1), task);
        let (mut now, mut shares) = (Nanos::ZERO, Vec::new());
        while let Some(step) = stream.next(now).unwrap() {
            match step.operation {
                Operation::Think(span) => now += span,
                _ => shares.push(stream.share(now).unwrap()),
            }
        }
        shares
    }

    #[test]
    fn the_share_is_the_place_in_the_log() {
        // Open, three writes, close.
        assert_eq!(shares(""), [0.0, 0.25, 1.0, 1.0, 1.0], "of its time");
        assert_eq!(shares("replay_no_stall=1"), [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0], "of its events");
        assert_eq!(shares("loops=2"), [0.0, 0.125, 0.5, 0.5, 0.625, 1.0, 1.0, 1.0]);
        assert_eq!(shares("loops=2\nruntime=1250us"), [0.0, 0.125, 0.8, 1.0], "what comes first");
    }
}
