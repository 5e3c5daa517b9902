//! Ring: does work through io_uring. The kernel rings the run's bell when work has ended.
//!
//! ```text
//!   give ──► unsent ──collect──► submission queue ──► kernel ──► completion queue ──collect──► Ended
//!              ▲                                                       │
//!              └──────────── short transfer, interruption ◄────────────┘
//! ```
//!
//! # Invariants
//! - The kernel reads and fills only memory of work in `table`. Work leaves `table` after its completion was taken or
//!   before it was sent. [`Ring`] is dropped only after all work has left.
//! - The kernel never has more work than its completion queue holds.
//! - Only the thread that made the ring gives work to the kernel: the kernel cancels what a thread gave it when that
//!   thread ends. Other threads leave work in the queue, and the ring stays ready ([`Carrier::is_ready`]).
//!
//! Threads do the work that the kernel refuses for now (EAGAIN), trims that the file system cannot do, and SHARE.
//! Source: io_uring(7), io_uring_enter(2).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::thread::{self, ThreadId};

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use onewrite_block::Bell;
use rustix::io::Errno;

use super::carrier::{Carrier, Ended};
use super::threads::Threads;
use super::work::{Direction, Extent, PUNCH, Work};

/// Operations that the kernel must support.
const OPERATIONS: [u8; 4] = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Fallocate::CODE];

/// What the completion of a hint carries; work carries its number.
const HINT: u64 = u64::MAX;

/// SYNC_FILE_RANGE_WRITE of sync_file_range(2): begin to write dirty pages, and wait for none.
const SYNC_FILE_RANGE_WRITE: u32 = 2;

/// See the module's head.
pub(super) struct Ring {
    ring: IoUring,
    file: Arc<File>,
    /// Work under way, by number, without the work of threads.
    table: Vec<Option<Work>>,
    /// Numbers of `table` that are not in the submission queue yet.
    unsent: VecDeque<usize>,
    /// Bytes that the kernel is to begin writing out, not in the submission queue yet.
    hints: VecDeque<Extent>,
    /// Pieces of work and hints in the submission queue or in the kernel.
    sent: usize,
    /// Pieces of work in the submission queue.
    queued: usize,
    /// The thread that made the ring.
    home: ThreadId,
    threads: Threads,
}

impl Ring {
    /// A ring of `entries` places for `file`. It rings `bell`.
    ///
    /// # Errors
    /// If the kernel refuses io_uring, or lacks an operation.
    pub(super) fn new(file: &Arc<File>, bell: &Bell, entries: u32) -> io::Result<Ring> {
        let ring = IoUring::new(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !OPERATIONS.iter().all(|operation| probe.is_supported(*operation)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        ring.submitter().register_eventfd(bell.as_fd().as_raw_fd())?;
        let mut ring = Ring {
            ring,
            file: Arc::clone(file),
            table: Vec::new(),
            unsent: VecDeque::new(),
            hints: VecDeque::new(),
            sent: 0,
            queued: 0,
            home: thread::current().id(),
            threads: Threads::new(file, bell, 1),
        };
        ring.try_out()?;
        Ok(ring)
    }

    /// Tests whether the kernel accepts work: some systems let a process make a ring but not use it.
    fn try_out(&mut self) -> io::Result<()> {
        let mut queue = self.ring.submission();
        #[expect(unsafe_code, reason = "io_uring takes nothing else")]
        // SAFETY: a NOP has no memory.
        let pushed = unsafe { queue.push(&opcode::Nop::new().build()) };
        pushed.expect("the queue is empty");
        drop(queue);
        self.ring.submit_and_wait(1)?;
        self.ring.completion().for_each(drop);
        Ok(())
    }

    /// Moves as much work as fits into the submission queue.
    fn fill(&mut self) {
        let most = self.ring.params().cq_entries() as usize;
        let mut queue = self.ring.submission();
        let count = (most - self.sent).min(queue.capacity() - queue.len()).min(self.unsent.len());
        for number in self.unsent.drain(..count) {
            let work = self.table[number].as_mut().expect("what is unsent is in the table");
            let entry = entry(work, Fd(self.file.as_raw_fd())).user_data(number as u64);
            #[expect(unsafe_code, reason = "io_uring takes nothing else")]
            // SAFETY: the entry's memory belongs to work of `table`, which keeps it in place until its completion. The
            // file is open as long as the ring.
            let pushed = unsafe { queue.push(&entry) };
            pushed.expect("there is room");
            self.sent += 1;
        }
        let count = (most - self.sent).min(queue.capacity() - queue.len()).min(self.hints.len());
        for hint in self.hints.drain(..count) {
            let entry = hint_entry(hint, Fd(self.file.as_raw_fd())).user_data(HINT);
            #[expect(unsafe_code, reason = "io_uring takes nothing else")]
            // SAFETY: the entry has no memory. The file is open as long as the ring.
            let pushed = unsafe { queue.push(&entry) };
            pushed.expect("there is room");
            self.sent += 1;
        }
        self.queued = queue.len();
    }

    /// Gives the submission queue to the kernel and waits for `wanted` completions.
    fn enter(&mut self, wanted: usize) {
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => (),
            // Try again later.
            Err(error) if is_passing(&error) => (),
            Err(error) => panic!("io_uring_enter: {error}: it was tried out, and its entries are good"),
        }
        self.queued = self.ring.submission().len();
    }

    fn reap(&mut self, ended: &mut Vec<Ended>) {
        let completions: Vec<_> = self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (number, answer) in completions {
            self.sent -= 1;
            if number != HINT {
                self.take(number as usize, answer, ended);
            }
        }
    }

    /// Handles the kernel's answer: a count, or a negative error.
    fn take(&mut self, number: usize, answer: i32, ended: &mut Vec<Ended>) {
        let answer = usize::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer));
        let mut work = self.table[number].take().expect("what completes is in the table");
        if answer.as_ref().is_err_and(|error| is_for_threads(&work, error)) {
            ended.extend(self.threads.give(number, work));
            return;
        }
        let end = match &mut work {
            Work::Read(transfer) => transfer.take(Direction::In, answer),
            Work::Write(transfer) => transfer.take(Direction::Out, answer),
            Work::Flush | Work::Trim(_) | Work::Share(_) => match answer {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
                answer => Some(answer.map(drop)),
            },
        };
        match end {
            Some(result) => ended.push(Ended { number, work, result }),
            None => self.send(number, work),
        }
    }

    fn send(&mut self, number: usize, work: Work) {
        if self.table.len() <= number {
            self.table.resize_with(number + 1, || None);
        }
        let before = self.table[number].replace(work);
        assert!(before.is_none(), "number {number} is under way twice");
        self.unsent.push_back(number);
    }
}

fn entry(work: &mut Work, file: Fd) -> squeue::Entry {
    match work {
        Work::Read(transfer) => {
            let offset = transfer.rest().offset;
            let rest = transfer.rest_mut();
            opcode::Read::new(file, rest.as_mut_ptr(), rest.len() as u32).offset(offset).build()
        }
        Work::Write(transfer) => {
            let rest = transfer.rest_bytes();
            opcode::Write::new(file, rest.as_ptr(), rest.len() as u32).offset(transfer.rest().offset).build()
        }
        Work::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        Work::Trim(extent) => {
            let mode = PUNCH.bits() as i32;
            opcode::Fallocate::new(file, extent.length).offset(extent.offset).mode(mode).build()
        }
        Work::Share(_) => unreachable!("threads share"),
    }
}

fn hint_entry(extent: Extent, file: Fd) -> squeue::Entry {
    let length = extent.length.try_into().expect("a row is short");
    opcode::SyncFileRange::new(file, length).offset(extent.offset).flags(SYNC_FILE_RANGE_WRITE).build()
}

/// Whether the kernel may accept the same call later.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn is_for_threads(work: &Work, error: &io::Error) -> bool {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    is(Errno::AGAIN) || (matches!(work, Work::Trim(_)) && is(Errno::OPNOTSUPP))
}

impl Carrier for Ring {
    fn give(&mut self, number: usize, work: Work) -> Option<Ended> {
        match work {
            Work::Share(_) => return self.threads.give(number, work),
            Work::Trim(Extent { length: 0, .. }) => return Some(Ended { number, work, result: Ok(()) }),
            _ => self.send(number, work),
        }
        None
    }

    fn begin_writeback(&mut self, extent: Extent) {
        self.hints.push_back(extent);
    }

    fn collect(&mut self, ended: &mut Vec<Ended>) {
        loop {
            self.fill();
            if self.queued > 0 && thread::current().id() == self.home {
                self.enter(0);
            }
            let seen = ended.len();
            self.reap(ended);
            if ended.len() == seen || self.unsent.is_empty() {
                break;
            }
        }
        self.threads.collect(ended);
    }

    fn is_ready(&self) -> bool {
        let has_room = self.sent < self.ring.params().cq_entries() as usize;
        self.queued > 0 || (has_room && !(self.unsent.is_empty() && self.hints.is_empty()))
    }

    fn finish(&mut self, ended: &mut Vec<Ended>) {
        loop {
            self.fill();
            if self.sent == 0 {
                break;
            }
            self.enter(1);
            self.reap(ended);
        }
        self.threads.finish(ended);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.unsent.clear();
        self.hints.clear();
        self.finish(&mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Lpn, PAGE_SIZE, Page};

    use super::*;
    use crate::file::tests::skipped;
    use crate::file::work::Alignment;

    /// A ring on a file of 8 pages, if io_uring works here.
    fn ring(name: &str) -> Option<Ring> {
        let path = std::env::temp_dir().join(format!("onewrite-ring-{}-{name}", std::process::id()));
        std::fs::write(&path, vec![7; 8 * PAGE_SIZE]).unwrap();
        let file = Arc::new(File::options().read(true).write(true).open(&path).unwrap());
        std::fs::remove_file(path).unwrap();
        let ring = Ring::new(&file, &Bell::new().unwrap(), 4);
        ring.inspect_err(|error| skipped(name, &error.to_string())).ok()
    }

    /// Answers `work` with `answer` in place of the kernel. If the work is not done, the kernel does the rest.
    fn answered(ring: &mut Ring, work: Work, answer: i32) -> Vec<Ended> {
        let mut ended = Vec::new();
        assert!(ring.give(0, work).is_none());
        assert_eq!(ring.unsent.pop_front(), Some(0));
        ring.take(0, answer, &mut ended);
        if ended.is_empty() {
            ring.collect(&mut ended);
            ring.finish(&mut ended);
        }
        ended
    }

    fn error(errno: Errno) -> i32 {
        -errno.raw_os_error()
    }

    #[test]
    fn a_short_or_interrupted_transfer_goes_on() {
        let Some(mut ring) = ring("short") else { return };
        for (answer, begin) in [(error(Errno::INTR), 1), (1000, 3), (error(Errno::AGAIN), 5)] {
            let pages = [Page::from_slice(&[1; PAGE_SIZE]), Page::from_slice(&[2; PAGE_SIZE])];
            let ended = answered(&mut ring, Work::write(Lpn(begin), &pages, Alignment::Direct), answer);
            assert!(matches!(&ended[..], [Ended { result: Ok(()), number: 0, .. }]), "{answer}: {ended:?}");
            let ended = answered(&mut ring, Work::read(Lpn(begin), 2, Alignment::Direct), error(Errno::INTR));
            let [Ended { work: Work::Read(read), result: Ok(()), .. }] = &ended[..] else { panic!("{ended:?}") };
            // The answer claimed these bytes without a transfer, so they are still the file's bytes.
            let kept = usize::try_from(answer).unwrap_or(0);
            assert_eq!((read.bytes()[kept], read.bytes()[2 * PAGE_SIZE - 1]), (1, 2));
            assert!(kept == 0 || read.bytes()[..kept].iter().all(|byte| *byte == 7), "{answer}");
        }
    }

    #[test]
    fn a_trim_that_the_file_system_has_not_writes_zeros() {
        let Some(mut ring) = ring("trim") else { return };
        let ended = answered(&mut ring, Work::Trim(Extent::of_pages(Lpn(2), 2)), error(Errno::OPNOTSUPP));
        assert!(matches!(&ended[..], [Ended { result: Ok(()), .. }]), "{ended:?}");
        let ended = answered(&mut ring, Work::read(Lpn(1), 4, Alignment::Any), error(Errno::AGAIN));
        let [Ended { work: Work::Read(read), .. }] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(read.pages().iter().map(Page::is_zeros).collect::<Vec<_>>(), [false, true, true, false]);
    }

    #[test]
    fn a_hint_is_given_to_the_kernel_and_ends_nothing() {
        let Some(mut ring) = ring("hint") else { return };
        let mut ended = Vec::new();
        ring.begin_writeback(Extent::of_pages(Lpn(0), 8));
        assert!(ring.is_ready());
        ring.collect(&mut ended);
        ring.finish(&mut ended);
        assert!(ended.is_empty() && ring.sent == 0 && !ring.is_ready());
    }

    #[test]
    fn an_error_of_the_kernel_ends_the_work() {
        let Some(mut ring) = ring("error") else { return };
        for work in [Work::Flush, Work::read(Lpn(0), 1, Alignment::Any)] {
            let ended = answered(&mut ring, work, error(Errno::IO));
            assert!(matches!(&ended[..], [Ended { result: Err(_), .. }]), "{ended:?}");
        }
    }
}
