//! The operations of one fio job (one clone), in the order in which fio 3.33 issues them (its `do_io`).
//!
//! ```text
//!   open ──► accesses, syncs among them ──► verify ──► end_fsync ──► close, unlink ──► end
//!               ▲   ▲      │ verify_backlog ▲  │ pass done, more wanted (loops, time_based, io_size)
//!               │   └──────┴────────────────┘  │
//!               └──────────────────────────────┘
//! ```
//!
//! # Invariants
//! - A pass ends when its bytes are issued, when its files have nothing left, or when the job's time, bytes or accesses
//!   are used up.
//! - Waiting (`rate`, `flow`, `thinktime`) is an [`Operation::Think`]; the stream itself never blocks.

use std::collections::BTreeMap;

use onewrite_block::{Choices, Nanos};
use onewrite_fs::Position;

use super::pace::Pacer;
use super::places::{FileRange, FileSpan, Places};
use super::shared::FlowShare;
use super::sizes::Amounts;
use super::task::{Task, part, sync_blocks};
use super::turns::{Mix, Turns};
use crate::error::LabError;
use crate::job::{Access, Amount, Direction, Options, Work};
use crate::workload::{
    Ended, Findings, Operation, Order, OrderedOperation, Reservation, Stream, TaskDescriptor, WriteManner,
};

/// Default pause of a task that is ahead of its flow, or whose access failed.
const REST: Nanos = Nanos::from_micros(10);
/// Error number of "no space left on device".
const ENOSPC: i32 = 28;
const ENOENT: i32 = 2;

/// The phase of a job.
enum Phase {
    /// Opens file `next`; before that drops its cached pages if `invalidate` is set.
    Opening {
        next: usize,
        opened: bool,
    },
    Accessing,
    /// Reads back `left` written blocks; then goes on, or ends the pass.
    Verifying {
        left: u64,
        goes_on: bool,
    },
    /// Syncs file `next`.
    Ending {
        next: usize,
    },
    /// Syncs, closes and unlinks file `next`.
    Closing {
        next: usize,
        step: u8,
    },
}

/// The stream of one clone.
pub(crate) struct FioStream {
    options: Options,
    choices: Choices,
    files: Vec<Places>,
    task: Task,
    flow: Option<FlowShare>,
    pacer: Pacer,
    phase: Phase,
    turns: Turns,
    mix: Mix,
    issued: Issued,
    /// A chosen direction that waits until it is due.
    waiting: Option<(usize, Direction)>,
    /// A trimmed block that must be written.
    trimmed: Option<(usize, FileRange)>,
    /// Passes of `loops` that are left.
    passes: u64,
    pass_bytes: u64,
    amounts: Amounts,
    thinking: Thinking,
    /// An access failed: the task pauses, so that time goes on.
    rests: bool,
    /// No room is left (`fill_device`), or another job has ended this one.
    is_ended: bool,
    written: BTreeMap<(usize, u64), u64>,
    checked_bytes: u64,
}

/// Accesses and bytes issued so far.
#[derive(Default)]
struct Issued {
    counts: [u64; 3],
    bytes: u64,
    synced: bool,
}

/// When the next pause begins.
#[derive(Default)]
struct Thinking {
    is_due: bool,
    accesses: u64,
    busy_since: Nanos,
}

impl FioStream {
    /// The stream of a job with `options` on `spans`.
    pub(super) fn new(
        options: &Options,
        spans: Vec<FileSpan>,
        amounts: Amounts,
        mut choices: Choices,
        task: Task,
    ) -> FioStream {
        let files: Vec<Places> = spans.into_iter().map(|span| Places::new(options, span, &mut choices)).collect();
        let flow = (options.flow.weight > 0).then(|| FlowShare::join(&task.shared, options.flow));
        FioStream {
            turns: Turns::new(files.len()),
            phase: Phase::Opening { next: 0, opened: false },
            flow,
            pacer: Pacer::new(options),
            mix: Mix::new(),
            issued: Issued::default(),
            waiting: None,
            trimmed: None,
            passes: options.loops - 1,
            pass_bytes: 0,
            amounts,
            thinking: Thinking::default(),
            rests: false,
            is_ended: false,
            written: BTreeMap::new(),
            checked_bytes: 0,
            options: options.clone(),
            choices,
            files,
            task,
        }
    }

    fn opening(&mut self, next: usize, opened: bool) -> Option<OrderedOperation> {
        let places = self.files.get(next)?;
        let slot = TaskDescriptor(next as u32);
        let options = &self.options;
        let invalidates = options.invalidate && !options.direct && !options.pre_read;
        self.phase = match invalidates && !opened {
            true => Phase::Opening { next, opened: true },
            false => Phase::Opening { next: next + 1, opened: false },
        };
        Some(OrderedOperation::alone(match opened {
            true => Operation::Invalidate { slot },
            false => Operation::Open { file: places.span.file, slot, create: true },
        }))
    }

    /// The next access or sync; `None` if the pass is done or a backlog is full.
    fn accessing(&mut self, now: Nanos) -> Option<OrderedOperation> {
        if std::mem::take(&mut self.thinking.is_due) {
            let span = self.options.think.span;
            self.pacer.think(span);
            self.thinking.busy_since = now + span;
            return Some(OrderedOperation::alone(Operation::Think(span)));
        }
        while !self.is_over(now) && !self.has_backlog() {
            if let Some((file, place)) = self.trimmed.take() {
                return Some(self.access(file, Direction::Write, place, now));
            }
            let (file, direction) = match self.waiting.take() {
                Some(chosen) => chosen,
                None => {
                    let Some(file) = self.next_file() else {
                        if !self.begin_pass() {
                            break;
                        }
                        continue;
                    };
                    if let Some(step) = self.sync_due(file) {
                        return Some(step);
                    }
                    (file, self.mix.next(&self.options, &self.issued.counts, &mut self.choices))
                }
            };
            if let Some(span) = self.wait(direction, now) {
                self.waiting = Some((file, direction));
                return Some(OrderedOperation { operation: Operation::Think(span), order: Order::Blocking });
            }
            match self.files[file].next(&self.options, direction, &mut self.choices) {
                Some(place) => return Some(self.access(file, direction, place, now)),
                None => {
                    self.turns.exhaust(file);
                }
            }
        }
        None
    }

    /// Time until an access in `direction` may begin; `None` if it may begin now.
    fn wait(&self, direction: Direction, now: Nanos) -> Option<Nanos> {
        let due = self.pacer.due(direction);
        if now < due {
            return Some(due - now);
        }
        let flow = self.flow.as_ref()?;
        (!flow.passes()).then(|| self.options.flow.sleep.max(REST))
    }

    fn is_over(&self, now: Nanos) -> bool {
        let options = &self.options;
        let time_is_up = options.runtime.is_some_and(|runtime| now >= runtime + options.ramp_time);
        let count: u64 = self.issued.counts.iter().sum();
        let is_enough = options.accesses_max > 0 && count >= options.accesses_max.saturating_mul(options.loops);
        let all_moved = self.issued.bytes >= self.amounts.limit.saturating_mul(options.loops);
        let pass_is_checked = options.verify && options.time_based && self.pass_bytes >= self.amounts.size;
        let is_ended = self.is_ended || self.task.is_ended();
        time_is_up || is_enough || is_ended || pass_is_checked || (!options.time_based && all_moved)
    }

    /// Whether there are enough writes to check them before anything else (`verify_backlog`).
    fn has_backlog(&self) -> bool {
        let backlog = self.options.checking.backlog;
        backlog > 0 && self.reads_back() && self.written.len() as u64 >= backlog
    }

    /// Bytes of all passes, with the bytes that are read back.
    fn bytes_wanted(&self) -> u64 {
        let moved = self.amounts.limit.saturating_mul(self.options.loops);
        let writes = match self.options.direction {
            _ if !self.reads_back() || !self.options.writes() => 0,
            Access::Mixed => 100 - u64::from(self.options.read_percent),
            _ => 100,
        };
        moved.saturating_add(Amount::Percent(writes as u8).of(moved))
    }

    fn reads_back(&self) -> bool {
        self.options.verify && self.options.checking.reads_back
    }

    /// The next file; `None` if this pass has nothing left.
    fn next_file(&mut self) -> Option<usize> {
        let is_moved = self.pass_bytes >= self.amounts.size && self.options.io_size.is_none();
        (!is_moved).then(|| self.turns.next(&self.options, self.issued.bytes > 0, &mut self.choices))?
    }

    /// Starts over if the job wants more than one pass.
    fn begin_pass(&mut self) -> bool {
        let left = self.amounts.limit.saturating_sub(self.issued.bytes);
        let has_room = self.options.io_size.is_some() && left >= self.options.block_size_most() && self.pass_bytes > 0;
        let wants_more = (self.options.time_based && self.pass_bytes > 0) || has_room;
        if self.options.verify || !wants_more {
            return false;
        }
        self.passes = self.passes.saturating_sub(1);
        self.start_over();
        true
    }

    fn start_over(&mut self) {
        let exhausted = self.turns.begin_pass();
        self.files.iter_mut().zip(exhausted).for_each(|(file, is_exhausted)| file.begin_pass(is_exhausted));
        self.pass_bytes = 0;
    }

    /// Whether another pass follows; asked after a pass whose writes have been checked.
    fn another_pass(&mut self, now: Nanos) -> bool {
        let moved = std::mem::take(&mut self.pass_bytes);
        let left = self.amounts.limit.saturating_sub(self.issued.bytes);
        let has_room = self.options.io_size.is_some() && left >= self.options.block_size_most() && moved > 0;
        let by_loops = self.passes > 0;
        if self.is_over(now) || !(by_loops || (self.options.time_based && moved > 0) || has_room) {
            return false;
        }
        self.passes -= u64::from(by_loops);
        self.start_over();
        true
    }

    /// An fsync after every `fsync_every` writes or an fdatasync after every `fdatasync_every`; never two in a row.
    fn sync_due(&mut self, file: usize) -> Option<OrderedOperation> {
        let writes = self.issued.counts[Direction::Write as usize];
        if self.issued.synced || writes == 0 || !self.options.writes() {
            return None;
        }
        let is_due = |every: u64| every > 0 && writes.is_multiple_of(every);
        let slot = TaskDescriptor(file as u32);
        let operation = match () {
            () if is_due(self.options.fsync_every) => Operation::Fsync { slot },
            () if is_due(self.options.fdatasync_every) => Operation::Fdatasync { slot },
            () => return None,
        };
        self.issued.synced = true;
        let order = if sync_blocks(self.options.engine) { Order::Blocking } else { Order::Overlapping };
        Some(OrderedOperation { operation, order })
    }

    fn access(&mut self, file: usize, direction: Direction, place: FileRange, now: Nanos) -> OrderedOperation {
        self.issued.counts[direction as usize] += 1;
        self.issued.synced = false;
        // A block that is trimmed and then written counts its bytes once.
        let is_half = self.options.direction == Access::TrimWrite && direction == Direction::Trim;
        if is_half {
            self.trimmed = Some((file, place));
        } else {
            self.issued.bytes += place.length;
            self.pass_bytes += place.length;
        }
        self.pacer.issue(direction, place.length, &mut self.choices);
        self.think(now);
        let (slot, FileRange { offset, length }) = (TaskDescriptor(file as u32), place);
        let operation = match (self.options.work, direction) {
            (Work::Allocate, _) => {
                let reservation = match direction {
                    Direction::Read => Reservation::KeepSize,
                    Direction::Write => Reservation::Extend,
                    Direction::Trim => Reservation::PunchHole,
                };
                Operation::Allocate { slot, direction, offset, length, reservation }
            }
            (Work::Truncate, _) => Operation::SetSize { slot, size: offset, length },
            (_, Direction::Read) => Operation::Read { slot, offset, length, direct: self.options.direct },
            (_, Direction::Trim) => Operation::Trim { slot, offset, length },
            (_, Direction::Write) => self.write(file, place),
        };
        // The write of a block must not overtake its trim.
        if is_half { OrderedOperation::alone(operation) } else { OrderedOperation::overlapping(operation) }
    }

    fn think(&mut self, now: Nanos) {
        let think = self.options.think;
        if think.span == Nanos::ZERO {
            return;
        }
        self.thinking.accesses += 1;
        let was_busy = think.busy > Nanos::ZERO && now.saturating_sub(self.thinking.busy_since) >= think.busy;
        if self.thinking.accesses >= think.accesses || was_busy {
            self.thinking.accesses = 0;
            self.thinking.is_due = true;
        }
    }

    fn write(&mut self, file: usize, place: FileRange) -> Operation {
        if self.reads_back() {
            self.written.insert((file, place.offset), place.length);
        }
        Operation::Write {
            slot: TaskDescriptor(file as u32),
            position: Position::At(place.offset),
            length: place.length,
            seed: self.choices.bits(),
            compressible_percent: self.options.compressible_percent,
            manner: WriteManner { direct: self.options.direct, sync: self.options.sync },
        }
    }

    fn verifying(&mut self, left: u64, goes_on: bool) -> Option<OrderedOperation> {
        if left == 0 {
            return None;
        }
        let ((file, offset), length) = self.written.pop_first()?;
        self.checked_bytes += length;
        self.phase = Phase::Verifying { left: left - 1, goes_on };
        let slot = TaskDescriptor(file as u32);
        Some(OrderedOperation::overlapping(Operation::Read { slot, offset, length, direct: self.options.direct }))
    }

    fn ending(&mut self, next: usize) -> Option<OrderedOperation> {
        let syncs = self.options.end_fsync && self.options.writes();
        if !syncs || next >= self.files.len() {
            return None;
        }
        self.phase = Phase::Ending { next: next + 1 };
        Some(OrderedOperation::alone(Operation::Fsync { slot: TaskDescriptor(next as u32) }))
    }

    /// The fsync, close or unlink of file `next` that the options ask for.
    fn closing(&mut self, next: usize, step: u8) -> Option<OrderedOperation> {
        let file = self.files.get(next)?.span.file;
        let slot = TaskDescriptor(next as u32);
        self.phase = match step {
            2 => Phase::Closing { next: next + 1, step: 0 },
            _ => Phase::Closing { next, step: step + 1 },
        };
        match step {
            0 if self.options.fsync_on_close => Some(OrderedOperation::alone(Operation::Fsync { slot })),
            1 => Some(OrderedOperation::alone(Operation::Close { slot })),
            2 if self.options.unlink => Some(OrderedOperation::alone(Operation::Unlink { file })),
            _ => match self.phase {
                Phase::Closing { next, step } => self.closing(next, step),
                _ => None,
            },
        }
    }

    /// The phase after one that has nothing left.
    fn following(&mut self, now: Nanos) -> Phase {
        let batch = match self.options.checking.batch {
            0 => u64::MAX,
            batch => batch,
        };
        match self.phase {
            Phase::Opening { .. } => Phase::Accessing,
            Phase::Accessing if self.has_backlog() && !self.is_over(now) => {
                Phase::Verifying { left: batch, goes_on: true }
            }
            Phase::Accessing => Phase::Verifying { left: u64::MAX, goes_on: false },
            Phase::Verifying { goes_on: true, .. } => Phase::Accessing,
            Phase::Verifying { goes_on: false, .. } => match self.another_pass(now) {
                true => Phase::Accessing,
                false => Phase::Ending { next: 0 },
            },
            Phase::Ending { .. } | Phase::Closing { .. } => {
                self.flow = None;
                self.task.end(&self.options);
                Phase::Closing { next: 0, step: 0 }
            }
        }
    }
}

impl Stream for FioStream {
    fn next(&mut self, now: Nanos) -> Result<Option<OrderedOperation>, LabError> {
        if std::mem::take(&mut self.rests) {
            return Ok(Some(OrderedOperation { operation: Operation::Think(REST), order: Order::Blocking }));
        }
        self.pacer.check(now)?;
        self.is_ended |= self.task.goals.are_reached(now)?;
        loop {
            let step = match self.phase {
                Phase::Opening { next, opened } => self.opening(next, opened),
                Phase::Accessing => self.accessing(now),
                Phase::Verifying { left, goes_on } => self.verifying(left, goes_on),
                Phase::Ending { next } => self.ending(next),
                Phase::Closing { next, .. } if next >= self.files.len() => return Ok(None),
                Phase::Closing { next, step } => match self.closing(next, step) {
                    None => return Ok(None),
                    step => step,
                },
            };
            if step.is_some() {
                return Ok(step);
            }
            self.phase = self.following(now);
        }
    }

    fn completed(&mut self, operation: &Operation, ended: Ended) {
        if let Some(direction) = operation.direction() {
            self.pacer.complete(direction, ended.bytes);
        }
        self.task.goals.ended(operation, ended);
    }

    /// Progress by time if only time ends the job, else by the limit that is nearest.
    fn share(&self, now: Nanos) -> Option<f64> {
        let options = &self.options;
        if matches!(self.phase, Phase::Ending { .. } | Phase::Closing { .. }) {
            return Some(1.0);
        }
        let by_time = options.runtime.map(|runtime| part(now.0, (runtime + options.ramp_time).0));
        let is_bounded = !options.time_based && !options.fill_device;
        let by_bytes = is_bounded.then(|| part(self.issued.bytes + self.checked_bytes, self.bytes_wanted()));
        let count: u64 = self.issued.counts.iter().sum();
        let most = options.accesses_max.saturating_mul(options.loops);
        let by_count = (most > 0).then(|| part(count, most));
        [by_time, by_bytes, by_count].into_iter().flatten().reduce(f64::max)
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

    fn failed(&mut self, operation: &Operation, errno: i32) -> bool {
        let is_read = matches!(operation, Operation::Read { .. });
        let is_full = self.options.fill_device && errno == ENOSPC && !is_read;
        // Clones that share a file all remove it; only the first one finds it.
        let is_gone = matches!(operation, Operation::Unlink { .. }) && errno == ENOENT;
        self.is_ended |= is_full;
        self.rests = true;
        self.options.tolerance.forgives(is_read, errno) || is_full || is_gone
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::goals::Goals;
    use super::super::shared::Membership;
    use super::*;
    use crate::job::JobFile;
    use crate::workload::FileId;

    /// The stream of a job with files of `size` bytes.
    fn stream(settings: &str, size: u64) -> FioStream {
        let text = format!("[a]\nsize={size}\ninvalidate=0\n{settings}\n");
        let options = JobFile::parse("t", &text).unwrap().jobs.remove(0).options;
        let spans =
            (0..options.file_count).map(|file| FileSpan { file: FileId(file), offset: 0, size, whole: size }).collect();
        let limit = options.io_size.map_or(size, |limit| limit.of(size));
        let goals = Goals::new(&options, None, Nanos::ZERO);
        let task = Task { shared: Rc::default(), member: Membership { group: 0, stonewall: 0 }, goals };
        FioStream::new(&options, spans, Amounts { size, limit }, Choices::new(1), task)
    }

    /// The operations of a job, one letter each; the clock advances by a microsecond for each.
    fn letters(settings: &str, size: u64) -> String {
        let mut stream = stream(settings, size);
        let step = |now| stream.next(Nanos::from_micros(now)).unwrap();
        (0..).map_while(step).map(|step| step.operation.name().chars().next().unwrap()).collect()
    }

    #[test]
    fn an_fsync_comes_after_every_n_writes_but_not_after_the_last() {
        assert_eq!(letters("rw=write\nfsync=2", 6 * 4096), "owwfwwfwwc");
        assert_eq!(letters("rw=write\nfsync=2\nend_fsync=1", 4 * 4096), "owwfwwfc");
    }

    #[test]
    fn io_size_goes_on_past_the_end_of_the_file() {
        assert_eq!(letters("rw=randwrite\nio_size=20k", 8192), "owwwwwc");
        assert_eq!(letters("rw=randwrite\nio_size=4k", 8192), "owc");
    }

    #[test]
    fn time_based_runs_until_its_time_is_up() {
        assert_eq!(letters("rw=read\ntime_based\nruntime=10us", 8192), "orrrrrrrrrc");
        assert_eq!(letters("rw=randread\ntime_based\nruntime=10us", 8192), "orrrrrrrrrc");
    }

    #[test]
    fn a_runtime_cuts_a_job_short() {
        assert_eq!(letters("rw=read\nruntime=3us", 1 << 20), "orrc");
    }

    #[test]
    fn verify_reads_back_what_was_written() {
        assert_eq!(letters("rw=randwrite\nverify=crc32c", 3 * 4096), "owwwrrrc");
    }

    #[test]
    fn thinking_follows_each_access() {
        assert_eq!(letters("rw=write\nthinktime=5us", 8192), "owtwtc");
    }

    #[test]
    fn a_mix_keeps_its_share() {
        let mixed = letters("rw=randrw\nrwmixread=70", 4000 * 4096);
        let reads = mixed.matches('r').count();
        assert!((2700..2900).contains(&reads), "{reads} of 4000");
    }

    /// The share after this number of operations, each of a microsecond.
    fn share_after(settings: &str, size: u64, operations: u64) -> Option<f64> {
        let mut stream = stream(settings, size);
        for now in 0..operations {
            stream.next(Nanos::from_micros(now)).unwrap();
        }
        stream.share(Nanos::from_micros(operations))
    }

    #[test]
    fn the_share_is_that_of_what_ends_the_job_first() {
        // The first operation opens the file.
        assert_eq!(share_after("rw=write", 8 * 4096, 3), Some(0.25));
        assert_eq!(share_after("rw=write\nloops=2", 8 * 4096, 5), Some(0.25));
        assert_eq!(share_after("rw=randwrite\nio_size=64k", 8 * 4096, 5), Some(0.25));
        assert_eq!(share_after("rw=write\nnumber_ios=4", 8 * 4096, 3), Some(0.5));
        assert_eq!(share_after("rw=write\nruntime=8us", 1 << 20, 4), Some(0.5));
        assert_eq!(share_after("rw=write\ntime_based\nruntime=8us", 4096, 2), Some(0.25), "passes end nothing");
        assert_eq!(share_after("rw=write\nverify=md5", 2 * 4096, 4), Some(0.75), "one block is read back");
        assert_eq!(share_after("rw=write\nfill_device=1", 1 << 20, 4), None);
        assert_eq!(share_after("rw=write", 4096, 3), Some(1.0));
    }
}
