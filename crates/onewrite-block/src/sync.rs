//! Waiting for another task of the same run: a signal, a lock, a shared lock. No threads, no atomics.
//!
//! Waiting tasks go on in the order in which they came. So runs are deterministic and no task starves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::runtime::{Runtime, TaskId};
use crate::units::Nanos;

/// Wakes tasks that wait for a change. Combine it with a condition; check the condition again after each wake.
pub struct Signal {
    runtime: Runtime,
    waiting: RefCell<Vec<TaskId>>,
    notified: Cell<u64>,
}

impl Signal {
    /// A signal for tasks of `runtime`.
    pub fn new(runtime: &Runtime) -> Signal {
        Signal { runtime: runtime.clone(), waiting: RefCell::default(), notified: Cell::new(0) }
    }

    /// Wakes every task that waits.
    pub fn notify_all(&self) {
        self.notified.set(self.notified.get() + 1);
        self.waiting.borrow_mut().drain(..).for_each(|task| self.runtime.wake(task));
    }

    /// Wakes every task that waits, one after another. The caller pays
    /// [`HostProfile::wake_ns`](crate::HostProfile::wake_ns) for each, so the first goes on before the last is woken.
    /// If the future is dropped, it wakes the rest at once.
    pub async fn notify_in_turn(&self) {
        self.notified.set(self.notified.get() + 1);
        let mut rest = Rest { runtime: &self.runtime, tasks: self.waiting.take().into() };
        while !rest.tasks.is_empty() {
            self.runtime.cpu(Nanos(self.runtime.host().wake_ns)).await;
            rest.tasks.pop_front().into_iter().for_each(|task| self.runtime.wake(task));
        }
    }

    /// Waits for the next [`Signal::notify_all`].
    pub async fn wait(&self) {
        let mut place = Place { signal: self, seen: self.notified.get(), task: None };
        poll_fn(|_| {
            if place.has_passed() {
                return Poll::Ready(());
            }
            place.take();
            Poll::Pending
        })
        .await;
    }

    /// Waits until `condition` holds. Checks it now and after each [`Signal::notify_all`].
    pub async fn until(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.wait().await;
        }
    }
}

/// A wait's place among those of its signal. A task that polls the wait again keeps it; dropping the wait gives it
/// back.
struct Place<'a> {
    signal: &'a Signal,
    /// Notifications before the wait.
    seen: u64,
    task: Option<TaskId>,
}

impl Place<'_> {
    fn has_passed(&self) -> bool {
        self.signal.notified.get() != self.seen
    }

    fn take(&mut self) {
        if self.task.is_none() {
            let task = self.signal.runtime.current_task();
            self.signal.waiting.borrow_mut().push(task);
            self.task = Some(task);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(task) = self.task.filter(|_| !self.has_passed()) else { return };
        let mut waiting = self.signal.waiting.borrow_mut();
        if let Some(at) = waiting.iter().rposition(|waiter| *waiter == task) {
            waiting.remove(at);
        }
    }
}

/// Tasks that are still to be woken.
struct Rest<'a> {
    runtime: &'a Runtime,
    tasks: VecDeque<TaskId>,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.tasks.drain(..).for_each(|task| self.runtime.wake(task));
    }
}

/// Waits until either future is done and drops the other. Polls `first` first.
pub async fn either(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| match first.as_mut().poll(context).is_ready() || second.as_mut().poll(context).is_ready() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// A lock that one task may hold alone, or several together for reading.
///
/// It guards no data. Its user documents what it protects.
pub struct RwLock {
    runtime: Runtime,
    readers: Cell<u32>,
    writer: Cell<bool>,
    /// Those who wait. Few locks ever have one, and each file in memory has two locks.
    #[expect(clippy::box_collection, reason = "an empty line takes less memory")]
    line: RefCell<Option<Box<VecDeque<Waiter>>>>,
    tickets: Cell<u64>,
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Read,
    Write,
}

#[derive(Clone, Copy)]
struct Waiter {
    ticket: u64,
    task: TaskId,
    hold: Hold,
}

impl RwLock {
    /// A free lock for tasks of `runtime`.
    pub fn new(runtime: &Runtime) -> RwLock {
        RwLock {
            runtime: runtime.clone(),
            readers: Cell::new(0),
            writer: Cell::new(false),
            line: RefCell::default(),
            tickets: Cell::new(0),
        }
    }

    /// Whether no task holds it.
    pub fn is_free(&self) -> bool {
        self.readers.get() == 0 && !self.writer.get()
    }

    /// Waits until no other task holds it and takes it alone.
    pub async fn write(&self) -> RwGuard<'_> {
        self.acquire(Hold::Write).await
    }

    /// Waits until no task holds it alone and takes it together with other readers.
    pub async fn read(&self) -> RwGuard<'_> {
        self.acquire(Hold::Read).await
    }

    async fn acquire(&self, hold: Hold) -> RwGuard<'_> {
        if self.first().is_none() && self.admits(hold) {
            return self.take(hold);
        }
        let ticket = self.tickets.replace(self.tickets.get() + 1);
        let task = self.runtime.current_task();
        self.line.borrow_mut().get_or_insert_default().push_back(Waiter { ticket, task, hold });
        let waiting = Waiting { lock: self, ticket };
        poll_fn(|_| match self.is_next(ticket) && self.admits(hold) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        let guard = self.take(hold);
        drop(waiting);
        guard
    }

    fn admits(&self, hold: Hold) -> bool {
        !self.writer.get() && (hold == Hold::Read || self.readers.get() == 0)
    }

    /// Who waits longest.
    fn first(&self) -> Option<Waiter> {
        self.line.borrow().as_ref()?.front().copied()
    }

    fn is_next(&self, ticket: u64) -> bool {
        self.first().is_some_and(|waiter| waiter.ticket == ticket)
    }

    fn take(&self, hold: Hold) -> RwGuard<'_> {
        match hold {
            Hold::Write => self.writer.set(true),
            Hold::Read => self.readers.set(self.readers.get() + 1),
        }
        RwGuard { lock: self, hold }
    }

    /// Wakes the first waiting task if it may go on.
    fn call_next(&self) {
        if let Some(waiter) = self.first().filter(|waiter| self.admits(waiter.hold)) {
            self.runtime.wake(waiter.task);
        }
    }
}

/// A ticket in the queue. It ends when its task takes the lock or no longer waits.
struct Waiting<'a> {
    lock: &'a RwLock,
    ticket: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.lock.line.borrow_mut().iter_mut().for_each(|line| line.retain(|waiter| waiter.ticket != self.ticket));
        self.lock.call_next();
    }
}

/// A lock that is held; dropping it releases the lock.
pub struct RwGuard<'a> {
    lock: &'a RwLock,
    hold: Hold,
}

impl Drop for RwGuard<'_> {
    fn drop(&mut self) {
        match self.hold {
            Hold::Write => self.lock.writer.set(false),
            Hold::Read => self.lock.readers.set(self.lock.readers.get() - 1),
        }
        self.lock.call_next();
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::runtime::{Executor, HostProfile, Time};

    /// Runs one task for each letter (capitals write, small letters read). Each holds the lock for 10 ns. Returns when
    /// each got the lock, ns.
    fn served(letters: &str) -> Vec<(char, u64)> {
        let executor = Executor::ideal();
        let lock = Rc::new(RwLock::new(&executor.runtime()));
        let log = Rc::new(RefCell::new(Vec::new()));
        for letter in letters.chars() {
            let (lock, log, runtime) = (Rc::clone(&lock), Rc::clone(&log), executor.runtime());
            executor.runtime().spawn(async move {
                let _held = if letter.is_uppercase() { lock.write().await } else { lock.read().await };
                log.borrow_mut().push((letter, runtime.now().0));
                runtime.sleep(Nanos(10)).await;
            });
        }
        executor.run_until_idle().unwrap();
        assert!(lock.is_free());
        Rc::try_unwrap(log).unwrap().into_inner()
    }

    #[test]
    fn readers_share_and_writers_wait_their_turn() {
        assert_eq!(served("abCd"), [('a', 0), ('b', 0), ('C', 10), ('d', 20)]);
        assert_eq!(served("ABc"), [('A', 0), ('B', 10), ('c', 20)]);
        assert_eq!(served("Abc"), [('A', 0), ('b', 10), ('c', 10)]);
    }

    #[test]
    fn who_waits_beside_other_work_takes_one_place_and_gives_it_back() {
        let executor = Executor::ideal();
        let signal = Rc::new(Signal::new(&executor.runtime()));
        let runtime = executor.runtime();
        for _ in 0..3 {
            let (waiter, worker) = (Rc::clone(&signal), runtime.clone());
            runtime.spawn(async move {
                let work = async {
                    for _ in 0..100 {
                        worker.sleep(Nanos(10)).await;
                    }
                };
                either(waiter.wait(), work).await;
            });
        }
        let (watched, watcher) = (Rc::clone(&signal), runtime.clone());
        let at_work = executor.block_on(async move {
            watcher.sleep(Nanos(995)).await;
            watched.waiting.borrow().len()
        });
        executor.run_until_idle().unwrap();
        assert_eq!((at_work.unwrap(), signal.waiting.borrow().len()), (3, 0));
    }

    #[test]
    fn a_signal_wakes_all() {
        let executor = Executor::ideal();
        let signal = Rc::new(Signal::new(&executor.runtime()));
        let woken = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let (signal, woken) = (Rc::clone(&signal), Rc::clone(&woken));
            executor.runtime().spawn(async move {
                signal.wait().await;
                woken.set(woken.get() + 1);
            });
        }
        executor.run_until_idle().unwrap();
        signal.notify_all();
        executor.run_until_idle().unwrap();
        assert_eq!(woken.get(), 3);
    }

    /// Three tasks wait; the one that wakes them stops after `patience`. Returns when each woke.
    fn woken_in_turn(patience: Nanos) -> Vec<u64> {
        let executor = Executor::new(Time::Virtual, HostProfile { wake_ns: 5, cores: 2, ..HostProfile::ideal() });
        let signal = Rc::new(Signal::new(&executor.runtime()));
        let log = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..3 {
            let (signal, log, runtime) = (Rc::clone(&signal), Rc::clone(&log), executor.runtime());
            executor.runtime().spawn(async move {
                signal.wait().await;
                log.borrow_mut().push(runtime.now().0);
            });
        }
        executor.run_until_idle().unwrap();
        let runtime = executor.runtime();
        executor.runtime().spawn(async move { either(signal.notify_in_turn(), runtime.sleep(patience)).await });
        executor.run_until_idle().unwrap();
        Rc::try_unwrap(log).unwrap().into_inner()
    }

    #[test]
    fn a_signal_wakes_in_turn_and_loses_nobody() {
        assert_eq!(woken_in_turn(Nanos(100)), [5, 10, 15]);
        assert_eq!(woken_in_turn(Nanos(7)), [5, 7, 7]);
    }
}
