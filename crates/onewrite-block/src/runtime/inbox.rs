//! Inbox: other threads give work to a run. It is the third source of events beside timers and devices.
//!
//! Any thread sends; one task receives, in the order of arrival. When a letter arrives, the task becomes ready. If the
//! run waits in wall time, it wakes.
//!
//! A run is idle, not deadlocked, while a task waits at an open inbox: [`Executor::block_on`](super::Executor) then
//! waits in wall time. An inbox is open while it has a sender.
//!
//! # Determinism
//! In virtual time the run looks at its inboxes whenever no task is ready, before it goes to the next event. The letter
//! arrives at the present virtual moment. So a run is a function of its seed, of the letters, and of the turn at which
//! each letter arrived. This turn is fixed only if the letter was sent before the run began, or while nothing else was
//! left to do. A run without an inbox does not change.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use super::crew::Crew;
use super::{Bell, Runtime, TaskId};

/// What both ends share.
struct Letterbox<T> {
    content: Mutex<Content<T>>,
    bell: Bell,
    crew: Arc<Crew>,
}

struct Content<T> {
    letters: VecDeque<T>,
    senders: usize,
    has_taker: bool,
}

impl<T> Letterbox<T> {
    fn content(&self) -> MutexGuard<'_, Content<T>> {
        self.content.lock().expect("nobody panics while holding this")
    }
}

/// The question that a run asks an inbox of any letter type.
trait News: Send + Sync {
    /// Whether a waiting task can go on: a letter is there, or none will ever come.
    fn has_news(&self) -> bool;
}

impl<T: Send> News for Letterbox<T> {
    fn has_news(&self) -> bool {
        let content = self.content();
        !content.letters.is_empty() || content.senders == 0
    }
}

/// An inbox as its run sees it.
pub(super) struct Desk {
    letterbox: Arc<dyn News>,
    waiting: Cell<Option<TaskId>>,
}

impl Desk {
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.get().is_some()
    }

    /// The waiting task, if it can go on now. It no longer counts as waiting.
    pub(super) fn take_served(&self) -> Option<TaskId> {
        self.waiting.get().filter(|_| self.letterbox.has_news())?;
        self.waiting.take()
    }
}

/// An inbox for `runtime`, and its first sender.
pub(super) fn inbox<T: Send + 'static>(runtime: &Runtime, bell: Bell) -> (InboxSender<T>, Inbox<T>) {
    let content = Mutex::new(Content { letters: VecDeque::new(), senders: 1, has_taker: true });
    let letterbox = Arc::new(Letterbox { content, bell, crew: Arc::clone(&runtime.0.crew) });
    let news = Arc::clone(&letterbox) as Arc<dyn News>;
    let desk = Rc::new(Desk { letterbox: news, waiting: Cell::new(None) });
    runtime.0.desks.borrow_mut().push(Rc::clone(&desk));
    (InboxSender(Arc::clone(&letterbox)), Inbox { runtime: runtime.clone(), letterbox, desk })
}

/// Sends to an [`Inbox`] from any thread. The inbox closes when its last sender is dropped.
pub struct InboxSender<T>(Arc<Letterbox<T>>);

impl<T> InboxSender<T> {
    /// Sends `letter` and wakes the run. It never waits.
    ///
    /// # Errors
    /// The letter, if the inbox is gone and nobody will receive it.
    pub fn send(&self, letter: T) -> Result<(), T> {
        self.post(letter)?;
        self.0.bell.ring();
        Ok(())
    }

    /// As [`InboxSender::send`]. But if the run waits in [`Executor::block_on_with_senders`](super::Executor), this
    /// thread carries it on until nothing is ready: the letter is read, and work that waits for nothing ends, before
    /// this returns. It never waits for another thread.
    ///
    /// # Errors
    /// As [`InboxSender::send`].
    pub fn send_and_run(&self, letter: T) -> Result<(), T> {
        self.post(letter)?;
        if !self.0.crew.help() {
            self.0.bell.ring();
        }
        Ok(())
    }

    fn post(&self, letter: T) -> Result<(), T> {
        let mut content = self.0.content();
        if !content.has_taker {
            return Err(letter);
        }
        content.letters.push_back(letter);
        Ok(())
    }
}

impl<T> Clone for InboxSender<T> {
    fn clone(&self) -> InboxSender<T> {
        self.0.content().senders += 1;
        InboxSender(Arc::clone(&self.0))
    }
}

impl<T> Drop for InboxSender<T> {
    fn drop(&mut self) {
        self.0.content().senders -= 1;
        self.0.bell.ring();
    }
}

/// One task receives here what other threads sent; see the module's head.
pub struct Inbox<T> {
    runtime: Runtime,
    letterbox: Arc<Letterbox<T>>,
    desk: Rc<Desk>,
}

impl<T> Inbox<T> {
    /// Waits for the next letter; `None` if there is none and every sender is dropped.
    pub fn receive(&mut self) -> impl Future<Output = Option<T>> + '_ {
        Receive { inbox: self }
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut content = self.letterbox.content();
        content.has_taker = false;
        let letters = std::mem::take(&mut content.letters);
        drop(content);
        self.runtime.0.desks.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.desk));
        drop(letters);
    }
}

struct Receive<'a, T> {
    inbox: &'a mut Inbox<T>,
}

impl<T> Future for Receive<'_, T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        let Inbox { runtime, letterbox, desk } = &*self.inbox;
        let mut content = letterbox.content();
        match content.letters.pop_front() {
            Some(letter) => Poll::Ready(Some(letter)),
            None if content.senders == 0 => Poll::Ready(None),
            None => {
                desk.waiting.set(Some(runtime.current_task()));
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Receive<'_, T> {
    fn drop(&mut self) {
        self.inbox.desk.waiting.set(None);
    }
}
