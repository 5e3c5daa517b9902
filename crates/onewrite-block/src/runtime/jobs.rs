//! Jobs: pure work outside the run. In wall time a few threads do it, unless it takes less time than handing it over.

use std::cell::{Cell, OnceCell};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::{Bell, Runtime, TaskId};

/// What a job does, for its cost on the host profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobCost {
    /// A checksum, or a pass over the bytes at about the same cost.
    Checksum {
        /// Bytes read.
        bytes: u64,
    },
    /// Compression.
    Compress {
        /// Bytes before compression.
        bytes: u64,
        /// Bytes after it.
        packed_bytes: u64,
    },
    /// Decompression.
    Decompress {
        /// Bytes after decompression.
        bytes: u64,
        /// Bytes before it.
        packed_bytes: u64,
    },
}

impl Runtime {
    /// Does pure work, with owned input and owned output.
    ///
    /// In virtual time the work runs at once and occupies a core for the time that the host profile gives. In wall time
    /// a thread of the pool does it, unless it is short. The result is the same in all cases.
    pub async fn job<T: Send + 'static>(&self, cost: JobCost, work: impl FnOnce() -> T + Send + 'static) -> T {
        if self.is_virtual() {
            self.cpu(self.host().cost(cost)).await;
            return work();
        }
        if cost.is_short() {
            return work();
        }
        let ticket = self.0.pool.submit(self.current_task(), self.0.bell(), work);
        std::future::poll_fn(move |_| ticket.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// The same for work that costs at most `most`, and what its result says.
    pub async fn job_by_result<T: Send + 'static>(
        &self,
        most: JobCost,
        work: impl FnOnce() -> T + Send + 'static,
        cost: impl FnOnce(&T) -> JobCost,
    ) -> T {
        if !self.is_virtual() {
            return self.job(most, work).await;
        }
        let result = work();
        self.cpu(self.host().cost(cost(&result))).await;
        result
    }
}

/// Most bytes of a checksum that the run makes itself: 256 KiB take about as long as another thread takes to wake and
/// to ring, 50 µs. An fsync of eight pages into a file took a tenth longer where another thread made the checksums.
const CHECKSUM_HERE_MAX: u64 = 256 * 1024;
/// The same for compression.
const COMPRESS_HERE_MAX: u64 = 16 * 1024;
/// The same for decompression.
const DECOMPRESS_HERE_MAX: u64 = 64 * 1024;

impl JobCost {
    /// Whether the work takes less time than handing it to another thread.
    pub(super) fn is_short(self) -> bool {
        match self {
            JobCost::Checksum { bytes } => bytes <= CHECKSUM_HERE_MAX,
            JobCost::Compress { bytes, .. } => bytes <= COMPRESS_HERE_MAX,
            JobCost::Decompress { bytes, .. } => bytes <= DECOMPRESS_HERE_MAX,
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// The thread pool. It starts at the first job and ends with the run.
pub(super) struct Pool {
    threads: Option<usize>,
    line: OnceCell<Line>,
    under_way: Cell<usize>,
}

struct Line {
    work: Sender<Work>,
    done: Receiver<TaskId>,
    done_sender: Sender<TaskId>,
}

/// Where a job's result will be.
pub(super) struct Ticket<T>(Arc<Mutex<Option<T>>>);

impl<T> Ticket<T> {
    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().expect("a job does not panic while it holds this").take()
    }
}

impl Pool {
    /// A pool of `threads` threads, or none in virtual time.
    pub(super) fn new(threads: Option<usize>) -> Pool {
        Pool { threads, line: OnceCell::new(), under_way: Cell::new(0) }
    }

    pub(super) fn has_work(&self) -> bool {
        self.under_way.get() > 0
    }

    /// Puts a job into the queue. When it has ended, `bell` rings and [`Pool::take_ended`] gives `task`.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        task: TaskId,
        bell: &Bell,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Ticket<T> {
        let line = self.line.get_or_init(|| start(self.threads.expect("jobs run inline in virtual time")));
        let result = Arc::new(Mutex::new(None));
        let (slot, done, bell) = (Arc::clone(&result), line.done_sender.clone(), bell.clone());
        self.under_way.set(self.under_way.get() + 1);
        let whole = Box::new(move || {
            let output = work();
            *slot.lock().expect("nobody panics while holding this") = Some(output);
            // If the run has ended meanwhile, nobody waits.
            let _ = done.send(task);
            bell.ring();
        });
        line.work.send(whole).expect("the pool lives as long as the run");
        Ticket(result)
    }

    /// The task of a job that has ended.
    pub(super) fn take_ended(&self) -> Option<TaskId> {
        let task = self.line.get()?.done.try_recv().ok()?;
        self.under_way.set(self.under_way.get() - 1);
        Some(task)
    }
}

#[expect(clippy::disallowed_methods, reason = "the one thread pool; results do not depend on it")]
fn start(threads: usize) -> Line {
    let (work, queue) = channel::<Work>();
    let (done_sender, done) = channel();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..threads {
        let queue = Arc::clone(&queue);
        std::thread::spawn(move || {
            loop {
                let next = queue.lock().expect("no job runs under this lock").recv();
                match next {
                    Ok(work) => work(),
                    Err(_) => return,
                }
            }
        });
    }
    Line { work, done, done_sender }
}
