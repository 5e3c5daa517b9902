//! Crew: the workers that carry out the tasks of a run, group by group.
//!
//! A task has as many workers as it may have operations under way. They share its [`Post`]: the stream, the open files,
//! and the locks that keep the order of the stream.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::sync::{RwLock, Signal};
use onewrite_block::{Nanos, Runtime};

use super::measure::{JobMeasure, Moment};
use super::progress::{Phase, Progress, RunOptions, WATCH_EVERY};
use super::target::Target;
use crate::error::LabError;
use crate::workload::{Ended, JobPlan, Operation, Order, OrderedOperation, Stream, Task};

/// What all workers of a run share.
pub(super) struct Crew<T: Target> {
    runtime: Runtime,
    target: Rc<T>,
    measures: Vec<Rc<RefCell<JobMeasure>>>,
    names: Vec<Rc<str>>,
    /// Posts of the tasks in the current group.
    posts: RefCell<Vec<Rc<Post<T::Descriptors>>>>,
    failure: RefCell<Option<LabError>>,
    operations: Cell<u64>,
    groups_done: Cell<usize>,
    group_count: usize,
    /// Last share reported to the watcher.
    told: Cell<f64>,
    options: RunOptions,
}

/// What the workers of one task share.
struct Post<D> {
    job: usize,
    name: Rc<str>,
    begin: Nanos,
    /// When measuring begins.
    measured_from: Cell<Nanos>,
    measure: Rc<RefCell<JobMeasure>>,
    stream: RefCell<Box<dyn Stream>>,
    descriptors: RefCell<D>,
    issue: RwLock,
    under_way: RwLock,
    /// Operations under way, and the signal that one of them has ended.
    busy: Cell<u32>,
    ended: Signal,
    is_over: Cell<bool>,
}

impl<T: Target + 'static> Crew<T> {
    /// A crew that has not begun.
    pub(super) fn new(
        runtime: &Runtime,
        target: Rc<T>,
        jobs: Vec<JobPlan>,
        group_count: usize,
        options: RunOptions,
    ) -> Crew<T> {
        Crew {
            runtime: runtime.clone(),
            target,
            names: jobs.iter().map(|job| job.name.as_str().into()).collect(),
            measures: jobs.into_iter().map(JobMeasure::new).map(RefCell::new).map(Rc::new).collect(),
            posts: RefCell::default(),
            failure: RefCell::new(None),
            operations: Cell::new(0),
            groups_done: Cell::new(0),
            group_count,
            told: Cell::new(0.0),
            options,
        }
    }

    /// The measures of each job.
    pub(super) fn measures(&self) -> Vec<JobMeasure> {
        self.measures.iter().map(|measure| measure.borrow().clone()).collect()
    }

    /// Carries out the tasks of one group side by side.
    ///
    /// # Errors
    /// The first failure of an operation.
    pub(super) async fn run(self: &Rc<Self>, group: Vec<Task>) -> Result<(), LabError> {
        if self.options.drops_caches {
            self.target.drop_caches().await?;
        }
        for task in &group {
            self.target.read_before(&task.read_before).await?;
        }
        let workers: Vec<u32> = group.iter().map(|task| task.concurrency).collect();
        self.posts.replace(group.into_iter().map(|task| Rc::new(self.post(task))).collect());
        self.work_together(&workers).await;
        self.posts.take().iter().for_each(|post| self.finish(post));
        self.groups_done.set(self.groups_done.get() + 1);
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Starts `workers[i]` workers for post `i`, and waits for all.
    async fn work_together(self: &Rc<Self>, workers: &[u32]) {
        let posts: Vec<_> = self.posts.borrow().clone();
        let mut started = Vec::new();
        for (post, &count) in posts.iter().zip(workers) {
            for _ in 0..count {
                let (crew, post) = (Rc::clone(self), Rc::clone(post));
                started.push(self.runtime.clone().start(async move {
                    if post.begin > crew.runtime.now() {
                        crew.runtime.sleep_until(post.begin).await;
                    }
                    match count {
                        1 => crew.work_alone(&post).await,
                        _ => crew.work(&post).await,
                    }
                }));
            }
        }
        for worker in started {
            worker.await;
        }
    }

    fn post(&self, task: Task) -> Post<T::Descriptors> {
        let begin = self.runtime.now() + task.start_delay;
        let of_job = &self.measures[task.job];
        // A stream with a depth search may forget what it measured, so its measures stay apart from those of other
        // tasks.
        let is_apart = task.stream.findings().depth.is_some();
        let apart = || Rc::new(RefCell::new(JobMeasure::new(of_job.borrow().plan.clone())));
        Post {
            job: task.job,
            name: Rc::clone(&self.names[task.job]),
            begin,
            measured_from: Cell::new(begin + task.ramp_time),
            measure: if is_apart { apart() } else { Rc::clone(of_job) },
            stream: RefCell::new(task.stream),
            descriptors: RefCell::default(),
            issue: RwLock::new(&self.runtime),
            under_way: RwLock::new(&self.runtime),
            busy: Cell::new(0),
            ended: Signal::new(&self.runtime),
            is_over: Cell::new(false),
        }
    }

    /// Adds a task's measures and findings to its job.
    fn finish(&self, post: &Post<T::Descriptors>) {
        let of_job = &self.measures[post.job];
        if !Rc::ptr_eq(of_job, &post.measure) {
            of_job.borrow_mut().add(&post.measure.borrow());
        }
        of_job.borrow_mut().findings.join(post.stream.borrow().findings());
    }
}

impl<T: Target> Crew<T> {
    /// Work of the only worker of a task; needs no locks.
    async fn work_alone(&self, post: &Post<T::Descriptors>) {
        while let Some(step) = self.next(post) {
            self.perform(post, step.operation).await;
        }
    }

    /// Work of one of several workers of a task.
    async fn work(&self, post: &Post<T::Descriptors>) {
        loop {
            let issuing = post.issue.write().await;
            post.ended.until(|| post.busy.get() < post.stream.borrow().depth()).await;
            let Some(OrderedOperation { operation, order }) = self.next(post) else { return };
            let _under_way = match order {
                Order::Alone => post.under_way.write().await,
                Order::Blocking | Order::Overlapping => post.under_way.read().await,
            };
            post.busy.set(post.busy.get() + 1);
            let _issuing = (order != Order::Overlapping).then_some(issuing);
            self.perform(post, operation).await;
            post.busy.set(post.busy.get() - 1);
            post.ended.notify_all();
        }
    }

    fn next(&self, post: &Post<T::Descriptors>) -> Option<OrderedOperation> {
        let is_enough = self.options.operations_max.is_some_and(|most| self.operations.get() >= most);
        if is_enough || self.failure.borrow().is_some() {
            return None;
        }
        let now = self.runtime.now().saturating_sub(post.begin);
        let step = post.stream.borrow_mut().next(now);
        let step = step.unwrap_or_else(|error| {
            self.fail(match error {
                LabError::Missed(problem) => LabError::Missed(format!("{}: {problem}", post.name)),
                other => other,
            });
            None
        });
        post.is_over.set(step.is_none());
        step
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
                self.note(post, &operation, bytes, begin);
                self.watch();
            }
        }
    }

    /// Tells the stream that an operation has ended, and measures it.
    fn note(&self, post: &Post<T::Descriptors>, operation: &Operation, bytes: u64, begin: Nanos) {
        let end = self.runtime.now();
        let mut stream = post.stream.borrow_mut();
        stream.completed(operation, Ended { now: end - post.begin, latency: end - begin, bytes });
        if stream.forgets() {
            post.measure.borrow_mut().clear();
            // Operations that are under way began earlier, so they do not count.
            post.measured_from.set(end);
        }
        let origin = post.measured_from.get();
        if begin >= origin {
            post.measure.borrow_mut().record(operation, bytes, Moment { origin, begin, end });
        }
    }

    /// Keeps the first failure; no worker begins another operation after it.
    fn fail(&self, error: LabError) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    fn watch(&self) {
        self.operations.set(self.operations.get() + 1);
        if let Some(watcher) = &self.options.watcher
            && self.operations.get().is_multiple_of(WATCH_EVERY)
        {
            let now = self.runtime.now();
            let (operations, share) = (self.operations.get(), self.share(now));
            if let Err(error) = watcher(Progress { phase: Phase::Jobs, operations, now, share }) {
                self.fail(error);
            }
        }
    }

    /// The share of the run that is done. Groups count alike; a group is as far as its slowest task.
    fn share(&self, now: Nanos) -> Option<f64> {
        let of = |post: &Rc<Post<T::Descriptors>>| match post.is_over.get() {
            true => Some(1.0),
            false => post.stream.borrow().share(now.saturating_sub(post.begin)),
        };
        let least = self.posts.borrow().iter().map(of).try_fold(1.0, |least: f64, share| Some(least.min(share?)));
        let share = least.map(|share| (self.groups_done.get() as f64 + share) / self.group_count as f64);
        let share = share?.max(self.told.get());
        self.told.set(share);
        Some(share)
    }
}
