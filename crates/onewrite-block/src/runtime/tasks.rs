//! Tasks: futures in numbered slots, and the queue of ready tasks.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

/// Number of a task. A slot is used again: a wake for a task that has ended may wake a later one, which allows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u32);

type Boxed = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
struct TaskSlot {
    /// `None` while the task runs or the slot is free.
    future: Option<Boxed>,
    is_ready: bool,
}

#[derive(Default)]
pub(super) struct Tasks {
    slots: RefCell<Vec<TaskSlot>>,
    free: RefCell<Vec<TaskId>>,
    ready: RefCell<VecDeque<TaskId>>,
    current: Cell<Option<TaskId>>,
}

impl Tasks {
    pub(super) fn spawn(&self, future: Boxed) -> TaskId {
        let mut slots = self.slots.borrow_mut();
        let task = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(TaskSlot::default());
            TaskId(slots.len() as u32 - 1)
        });
        slots[task.0 as usize].future = Some(future);
        drop(slots);
        self.wake(task);
        task
    }

    pub(super) fn wake(&self, task: TaskId) {
        let slot = &mut self.slots.borrow_mut()[task.0 as usize];
        if !std::mem::replace(&mut slot.is_ready, true) {
            self.ready.borrow_mut().push_back(task);
        }
    }

    pub(super) fn next_ready(&self) -> Option<TaskId> {
        self.ready.borrow_mut().pop_front()
    }

    pub(super) fn is_any_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    pub(super) fn current(&self) -> TaskId {
        self.current.get().expect("only a running task waits")
    }

    pub(super) fn poll(&self, task: TaskId) {
        let Some(mut future) = self.take(task) else { return };
        self.current.set(Some(task));
        let ended = self.poll_future(&mut future);
        self.current.set(None);
        if ended {
            drop(future);
            self.free.borrow_mut().push(task);
        } else {
            self.slots.borrow_mut()[task.0 as usize].future = Some(future);
        }
    }

    fn take(&self, task: TaskId) -> Option<Boxed> {
        let slot = &mut self.slots.borrow_mut()[task.0 as usize];
        slot.is_ready = false;
        slot.future.take()
    }

    fn poll_future(&self, future: &mut Boxed) -> bool {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Drops every future. Their drop code may still use the runtime.
    pub(super) fn drop_all(&self) {
        let futures: Vec<_> = self.slots.borrow_mut().iter_mut().filter_map(|slot| slot.future.take()).collect();
        drop(futures);
        self.ready.borrow_mut().clear();
    }
}
