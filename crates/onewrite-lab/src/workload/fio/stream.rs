//! The operations of one fio job (one clone), in the order in which fio 3.33 issues them (its `do_io`).
//!
//! ```text
//!   open ──► accesses, syncs among them ──► verify ──► end_fsync ──► close ──► end
//!               ▲        │ pass done, more wanted (time_based, io_size)
//!               └────────┘
//! ```

use std::collections::BTreeMap;

use onewrite_block::{Choices, Nanos};
use onewrite_fs::Position;

use super::places::{FileSpan, Place, Places};
use super::sync_blocks;
use crate::error::LabError;
use crate::job::{Access, Direction, Options};
use crate::workload::{Operation, Order, Slot, Step, Stream, WriteManner};

/// What the job does now.
enum Phase {
    /// Opens file `next`, and drops its cached pages first where `invalidate` says so.
    Opening {
        next: usize,
        opened: bool,
    },
    Accessing,
    /// Reads back what was written.
    Verifying,
    /// Syncs file `next`.
    Ending {
        next: usize,
    },
    /// Closes file `next`.
    Closing {
        next: usize,
    },
}

/// The stream of one clone.
pub struct FioStream {
    options: Options,
    choices: Choices,
    files: Vec<Places>,
    phase: Phase,
    /// The file whose turn it is.
    turn: usize,
    /// Files that have nothing left in this pass.
    exhausted: Vec<bool>,
    mix: Mix,
    issued: Issued,
    pass_bytes: u64,
    size: u64,
    limit: u64,
    think: bool,
    written: BTreeMap<(usize, u64), u64>,
}

/// How much has been issued.
#[derive(Default)]
struct Issued {
    counts: [u64; 3],
    bytes: u64,
    synced: bool,
}

/// Which of reads and writes comes next (`get_rw_ddir`): one direction goes on until its share is reached.
struct Mix {
    direction: Direction,
    until: u64,
}

impl FioStream {
    /// The stream of a job with `options` on `spans`.
    pub fn new(options: &Options, spans: Vec<FileSpan>, mut choices: Choices) -> FioStream {
        let total: u64 = spans.iter().map(|span| span.size).sum();
        let size = options.size.map_or(total, |size| size.of(total).min(total));
        let limit = options.io_size.map_or(size, |limit| limit.of(size));
        let files: Vec<Places> = spans.into_iter().map(|span| Places::new(options, span, &mut choices)).collect();
        FioStream {
            exhausted: vec![false; files.len()],
            phase: Phase::Opening { next: 0, opened: false },
            turn: 0,
            mix: Mix { direction: Direction::Read, until: 0 },
            issued: Issued::default(),
            pass_bytes: 0,
            think: false,
            written: BTreeMap::new(),
            options: options.clone(),
            choices,
            files,
            size,
            limit,
        }
    }

    fn opening(&mut self, next: usize, opened: bool) -> Option<Step> {
        let places = self.files.get(next)?;
        let slot = Slot(next as u32);
        let invalidates = self.options.invalidate && !self.options.direct;
        self.phase = match invalidates && !opened {
            true => Phase::Opening { next, opened: true },
            false => Phase::Opening { next: next + 1, opened: false },
        };
        Some(Step::alone(match opened {
            true => Operation::Invalidate { slot },
            false => Operation::Open { file: places.span.file, slot, create: true },
        }))
    }

    /// The next access or sync; `None` when the job's work is done.
    fn accessing(&mut self, now: Nanos) -> Option<Step> {
        if std::mem::take(&mut self.think) {
            return Some(Step::alone(Operation::Think(self.options.think_time)));
        }
        while !self.is_over(now) {
            let Some(file) = self.next_file() else {
                if !self.begin_pass() {
                    break;
                }
                continue;
            };
            if let Some(step) = self.sync_due(file) {
                return Some(step);
            }
            let direction = self.direction();
            match self.files[file].next(&self.options, direction, &mut self.choices) {
                Some(place) => return Some(self.access(file, direction, place)),
                None => self.exhausted[file] = true,
            }
        }
        None
    }

    fn is_over(&self, now: Nanos) -> bool {
        let options = &self.options;
        let time_is_up = options.runtime.is_some_and(|runtime| now >= runtime + options.ramp_time);
        time_is_up || (!options.time_based && self.issued.bytes >= self.limit)
    }

    /// The files take turns, access by access.
    fn next_file(&mut self) -> Option<usize> {
        let count = self.files.len();
        let file = (0..count).map(|step| (self.turn + step) % count).find(|&file| !self.exhausted[file])?;
        if self.pass_bytes >= self.size && self.options.io_size.is_none() {
            return None;
        }
        self.turn = (file + 1) % count;
        Some(file)
    }

    /// Starts over, if the job wants more than one pass gives.
    fn begin_pass(&mut self) -> bool {
        let wants_more = self.options.time_based || (self.options.io_size.is_some() && self.issued.bytes < self.limit);
        if !wants_more || self.pass_bytes == 0 {
            return false;
        }
        self.files.iter_mut().for_each(Places::reset);
        self.exhausted.fill(false);
        self.pass_bytes = 0;
        true
    }

    /// An fsync after every so many writes, never two in a row.
    fn sync_due(&mut self, file: usize) -> Option<Step> {
        let writes = self.issued.counts[Direction::Write as usize];
        if self.issued.synced || writes == 0 || !self.options.writes() {
            return None;
        }
        let is_due = |every: u64| every > 0 && writes.is_multiple_of(every);
        let slot = Slot(file as u32);
        let operation = match () {
            () if is_due(self.options.fsync_every) => Operation::Fsync { slot },
            () if is_due(self.options.fdatasync_every) => Operation::Fdatasync { slot },
            () => return None,
        };
        self.issued.synced = true;
        let order = if sync_blocks(self.options.engine) { Order::Blocking } else { Order::Overlapping };
        Some(Step { operation, order })
    }

    fn direction(&mut self) -> Direction {
        let Access::Only(direction) = self.options.direction else { return self.mixed_direction() };
        direction
    }

    fn mixed_direction(&mut self) -> Direction {
        if self.issued.counts[self.mix.direction as usize] >= self.mix.until {
            let share = u64::from(self.options.read_percent);
            let is_read = self.choices.below(100) < share;
            let direction = if is_read { Direction::Read } else { Direction::Write };
            if direction != self.mix.direction {
                let other = if self.mix.direction == Direction::Read { 100 - share } else { share };
                self.mix.until = self.issued.counts[self.mix.direction as usize] * other / 100;
            }
            self.mix.direction = direction;
        }
        self.mix.direction
    }

    fn access(&mut self, file: usize, direction: Direction, place: Place) -> Step {
        self.issued.counts[direction as usize] += 1;
        self.issued.bytes += place.length;
        self.issued.synced = false;
        self.pass_bytes += place.length;
        self.think = self.options.think_time > Nanos::ZERO;
        let (slot, Place { offset, length }) = (Slot(file as u32), place);
        Step::overlapping(match direction {
            Direction::Read => Operation::Read { slot, offset, length, direct: self.options.direct },
            Direction::Trim => Operation::Trim { slot, offset, length },
            Direction::Write => self.write(file, place),
        })
    }

    fn write(&mut self, file: usize, place: Place) -> Operation {
        if self.options.verify {
            self.written.insert((file, place.offset), place.length);
        }
        Operation::Write {
            slot: Slot(file as u32),
            position: Position::At(place.offset),
            length: place.length,
            seed: self.choices.bits(),
            compressible_percent: self.options.compressible_percent,
            manner: WriteManner { direct: self.options.direct, sync: self.options.sync },
        }
    }

    fn verifying(&mut self) -> Option<Step> {
        let ((file, offset), length) = self.written.pop_first()?;
        let slot = Slot(file as u32);
        Some(Step::overlapping(Operation::Read { slot, offset, length, direct: self.options.direct }))
    }

    fn ending(&mut self, next: usize) -> Option<Step> {
        let syncs = self.options.end_fsync && self.options.writes();
        if !syncs || next >= self.files.len() {
            return None;
        }
        self.phase = Phase::Ending { next: next + 1 };
        Some(Step::alone(Operation::Fsync { slot: Slot(next as u32) }))
    }
}

impl Stream for FioStream {
    fn next(&mut self, now: Nanos) -> Result<Option<Step>, LabError> {
        loop {
            let step = match self.phase {
                Phase::Opening { next, opened } => self.opening(next, opened),
                Phase::Accessing => self.accessing(now),
                Phase::Verifying => self.verifying(),
                Phase::Ending { next } => self.ending(next),
                Phase::Closing { next } if next >= self.files.len() => return Ok(None),
                Phase::Closing { next } => {
                    self.phase = Phase::Closing { next: next + 1 };
                    Some(Step::alone(Operation::Close { slot: Slot(next as u32) }))
                }
            };
            if step.is_some() {
                return Ok(step);
            }
            self.phase = match self.phase {
                Phase::Opening { .. } => Phase::Accessing,
                Phase::Accessing => Phase::Verifying,
                Phase::Verifying => Phase::Ending { next: 0 },
                Phase::Ending { .. } | Phase::Closing { .. } => Phase::Closing { next: 0 },
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobFile;
    use crate::workload::FileId;

    /// One letter for each operation of a job; the clock goes on by a microsecond for each.
    fn letters(settings: &str, size: u64) -> String {
        let text = format!("[a]\nsize={size}\ninvalidate=0\n{settings}\n");
        let options = JobFile::parse("t", &text).unwrap().jobs.remove(0).options;
        let spans = (0..options.file_count).map(|file| FileSpan { file: FileId(file), size, whole: size }).collect();
        let mut stream = FioStream::new(&options, spans, Choices::new(1));
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
}
