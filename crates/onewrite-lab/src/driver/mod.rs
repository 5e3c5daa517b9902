//! Driver: carries the streams of a workload out and measures them.
//!
//! Its one idea: one loop for everything. A task's workers take operations from its stream one after the other and
//! carry them out on a [`Target`]: a file system ([`Files`]) or a raw device ([`Raw`]). In virtual time the same loop
//! gives the same figures to the last digit.
//!
//! ```text
//!   layout of all files ──► group 1: its tasks together ──► group 2 ──► … ──► Measures
//!                              each task: `concurrency` workers on one stream
//! ```
//!
//! # Invariants
//! - A worker asks its stream only while it holds the task's `issue` lock, so a stream is never entered twice.
//! - An operation's latency is the time from its beginning to its end, waiting for cores and locks included.
//! - After a failure no task begins another operation.

mod contents;
mod files;
mod ledger;
mod measure;
mod raw;
mod samples;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::sync::SharedLock;
use onewrite_block::{Nanos, Runtime};

pub use contents::Contents;
pub use files::Files;
pub use ledger::{Ledger, Settled};
use measure::Moment;
pub use measure::{JobMeasure, Latencies, Series};
pub use raw::Raw;
pub use samples::{Rates, SAMPLE, Samples};

use crate::error::LabError;
use crate::workload::{Operation, Order, Step, Stream, Task, Workload};

/// What operations are carried out on.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Target {
    /// What one task has open.
    type Descriptors: Default;

    /// Makes and fills the files of `workload`.
    async fn lay_out(&self, workload: &Workload) -> Result<(), LabError>;

    /// Makes everything durable, then drops what the page cache holds and nothing needs.
    async fn drop_caches(&self) -> Result<(), LabError>;

    /// Carries one operation out; returns the bytes it read or wrote.
    async fn carry_out(&self, descriptors: &RefCell<Self::Descriptors>, operation: &Operation) -> Result<u64, Failure>;
}

/// Why an operation failed; the driver adds the job.
pub enum Failure {
    /// The file system refused.
    Fs(onewrite_fs::FsError),
    /// The device refused.
    Device(onewrite_block::DeviceError),
    /// The content was not what had been written.
    Content {
        /// The file.
        file: String,
        /// First byte.
        offset: u64,
        /// What was wrong.
        problem: String,
    },
}

impl Failure {
    fn of(self, job: &str, operation: &Operation) -> LabError {
        let (job, operation) = (job.to_owned(), operation.name().to_owned());
        match self {
            Failure::Fs(source) => LabError::Operation { job, operation, source },
            Failure::Device(source) => LabError::Raw { job, operation, source },
            Failure::Content { file, offset, problem } => LabError::Verify { job, file, offset, problem },
        }
    }
}

impl Failure {
    /// The number that a program would see.
    fn errno(&self) -> i32 {
        match self {
            Failure::Fs(error) => error.errno(),
            Failure::Device(_) => EIO,
            Failure::Content { .. } => EILSEQ,
        }
    }
}

const EIO: i32 = 5;
const EILSEQ: i32 = 84;

impl From<onewrite_fs::FsError> for Failure {
    fn from(error: onewrite_fs::FsError) -> Failure {
        Failure::Fs(error)
    }
}

impl From<onewrite_block::DeviceError> for Failure {
    fn from(error: onewrite_block::DeviceError) -> Failure {
        Failure::Device(error)
    }
}

/// How far a run is, for a progress bar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Operations carried out.
    pub operations: u64,
    /// The clock of the run.
    pub now: Nanos,
    /// The part of the work that is done, 0 to 1, where the workload knows.
    pub share: Option<f64>,
}

/// Called now and then with how far a run is.
pub type Watcher = Rc<dyn Fn(Progress)>;

/// Operations between two calls of a [`Watcher`].
const WATCH_EVERY: u64 = 1024;

/// What a run may be told besides its workload.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Told now and then how far the run is.
    pub watcher: Option<Watcher>,
    /// Operations after which no task begins another.
    pub operations_max: Option<u64>,
    /// Whether each group of jobs begins with an empty page cache.
    pub drops_caches: bool,
}

/// Carries `workload` out on `target`.
///
/// # Errors
/// The first failure of an operation, with its job; or a workload that could not go on.
pub async fn run<T: Target + 'static>(
    runtime: &Runtime,
    target: Rc<T>,
    workload: Workload,
    options: RunOptions,
) -> Result<Vec<JobMeasure>, LabError> {
    target.lay_out(&workload).await?;
    let names: Vec<Rc<str>> = workload.jobs.iter().map(|job| job.name.as_str().into()).collect();
    let crew = Rc::new(Crew {
        runtime: runtime.clone(),
        target,
        measures: workload.jobs.into_iter().map(JobMeasure::new).map(RefCell::new).collect(),
        failure: RefCell::new(None),
        operations: Cell::new(0),
        groups_done: Cell::new(0),
        group_count: workload.groups.len(),
        options,
    });
    for group in workload.groups {
        if crew.options.drops_caches {
            crew.target.drop_caches().await?;
        }
        run_group(&crew, group, &names).await;
        if let Some(failure) = crew.failure.take() {
            return Err(failure);
        }
        crew.groups_done.set(crew.groups_done.get() + 1);
    }
    Ok(crew.measures.iter().map(|measure| measure.borrow().clone()).collect())
}

/// What all workers share.
struct Crew<T> {
    runtime: Runtime,
    target: Rc<T>,
    measures: Vec<RefCell<JobMeasure>>,
    failure: RefCell<Option<LabError>>,
    operations: Cell<u64>,
    groups_done: Cell<usize>,
    group_count: usize,
    options: RunOptions,
}

/// What the workers of one task share.
struct Post<D> {
    job: usize,
    name: Rc<str>,
    begin: Nanos,
    measured_from: Nanos,
    stream: RefCell<Box<dyn Stream>>,
    descriptors: RefCell<D>,
    issue: SharedLock,
    under_way: SharedLock,
}

async fn run_group<T: Target + 'static>(crew: &Rc<Crew<T>>, group: Vec<Task>, names: &[Rc<str>]) {
    let posts = group.into_iter().map(|task| crew.post(task, names));
    let posts: Vec<(u32, Rc<Post<T::Descriptors>>)> = posts.collect();
    let mut workers = Vec::new();
    for (concurrency, post) in posts {
        for _ in 0..concurrency {
            let (crew, post) = (Rc::clone(crew), Rc::clone(&post));
            workers.push(crew.runtime.clone().start(async move {
                match concurrency {
                    1 => crew.work_alone(&post).await,
                    _ => crew.work(&post).await,
                }
            }));
        }
    }
    for worker in workers {
        worker.await;
    }
}

impl<T: Target> Crew<T> {
    fn post(&self, task: Task, names: &[Rc<str>]) -> (u32, Rc<Post<T::Descriptors>>) {
        let begin = self.runtime.now();
        let post = Post {
            job: task.job,
            name: Rc::clone(&names[task.job]),
            begin,
            measured_from: begin + task.ramp_time,
            stream: RefCell::new(task.stream),
            descriptors: RefCell::default(),
            issue: SharedLock::new(&self.runtime),
            under_way: SharedLock::new(&self.runtime),
        };
        (task.concurrency, Rc::new(post))
    }

    /// The only worker of a task: no locks.
    async fn work_alone(&self, post: &Post<T::Descriptors>) {
        while let Some(step) = self.next(post) {
            self.perform(post, step.operation).await;
        }
    }

    /// One of several workers of a task.
    async fn work(&self, post: &Post<T::Descriptors>) {
        loop {
            let issuing = post.issue.exclusive().await;
            let Some(Step { operation, order }) = self.next(post) else { return };
            let _under_way = match order {
                Order::Alone => post.under_way.exclusive().await,
                Order::Blocking | Order::Overlapping => post.under_way.shared().await,
            };
            let _issuing = (order != Order::Overlapping).then_some(issuing);
            self.perform(post, operation).await;
        }
    }

    fn next(&self, post: &Post<T::Descriptors>) -> Option<Step> {
        let is_enough = self.options.operations_max.is_some_and(|most| self.operations.get() >= most);
        if is_enough || self.failure.borrow().is_some() {
            return None;
        }
        let now = self.runtime.now().saturating_sub(post.begin);
        let step = post.stream.borrow_mut().next(now);
        step.unwrap_or_else(|error| {
            self.fail(error);
            None
        })
    }

    async fn perform(&self, post: &Post<T::Descriptors>, operation: Operation) {
        if let Operation::Think(span) = operation {
            return self.runtime.sleep(span).await;
        }
        let begin = self.runtime.now();
        match self.target.carry_out(&post.descriptors, &operation).await {
            Err(failure) => {
                let goes_on = post.stream.borrow_mut().failed(&operation, failure.errno());
                if !goes_on {
                    self.fail(failure.of(&post.name, &operation));
                }
            }
            Ok(bytes) => {
                post.stream.borrow_mut().completed(&operation);
                if begin >= post.measured_from {
                    let moment = Moment { origin: post.measured_from, begin, end: self.runtime.now() };
                    self.measures[post.job].borrow_mut().record(&operation, bytes, moment);
                }
                self.watch(post);
            }
        }
    }

    /// The first failure counts; nobody begins another operation after it.
    fn fail(&self, error: LabError) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    fn watch(&self, post: &Post<T::Descriptors>) {
        self.operations.set(self.operations.get() + 1);
        if let Some(watcher) = &self.options.watcher
            && self.operations.get().is_multiple_of(WATCH_EVERY)
        {
            let now = self.runtime.now();
            let share = post.stream.borrow().share(now.saturating_sub(post.begin));
            // Groups count alike.
            let share = share.map(|share| (self.groups_done.get() as f64 + share) / self.group_count as f64);
            watcher(Progress { operations: self.operations.get(), now, share });
        }
    }
}
