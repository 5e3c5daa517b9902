//! Port: connects a device to a run; keeps the device's queue full and never over-full.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::{Runtime, TaskId};
use crate::device::{Completion, Device, Geometry, NextEvent, Outcome};
use crate::request::{Request, Token};
use crate::units::Nanos;

/// What became of the request of a token.
enum RequestState {
    Free,
    Waiting(Option<TaskId>),
    Done(Outcome),
    /// No future waits for the result any more; it is dropped.
    Abandoned,
}

/// Who may submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// Everybody.
    Open,
    /// Nobody while requests are under way; then this task continues.
    Emptying(TaskId),
    /// The holder of [`Alone`].
    Alone,
}

pub(super) struct Port {
    door: Cell<Door>,
    /// Other tasks that want to be alone.
    line: RefCell<VecDeque<TaskId>>,
    device: RefCell<Option<Box<dyn Device>>>,
    queue_depth: usize,
    requests: RefCell<Vec<RequestState>>,
    free: RefCell<Vec<Token>>,
    backlog: RefCell<VecDeque<(Token, Request)>>,
    under_way: Cell<usize>,
    completed: RefCell<Vec<Completion>>,
}

impl Port {
    pub(super) fn new(device: Box<dyn Device>) -> Rc<Port> {
        Rc::new(Port {
            door: Cell::new(Door::Open),
            line: RefCell::default(),
            queue_depth: device.geometry().queue_depth as usize,
            device: RefCell::new(Some(device)),
            requests: RefCell::default(),
            free: RefCell::default(),
            backlog: RefCell::default(),
            under_way: Cell::new(0),
            completed: RefCell::default(),
        })
    }

    pub(super) fn next_event(&self) -> NextEvent {
        self.device.borrow().as_ref().map_or(NextEvent::Idle, |device| device.next_event())
    }

    pub(super) fn is_dark(&self) -> bool {
        self.device.borrow().as_ref().is_some_and(|device| device.is_dark())
    }

    fn device(&self) -> RefMut<'_, Box<dyn Device>> {
        RefMut::map(self.device.borrow_mut(), |device| device.as_mut().expect("an unplugged device takes no requests"))
    }

    pub(super) fn advance(&self, now: Nanos, mut wake: impl FnMut(TaskId)) {
        let mut completed = self.completed.take();
        if let Some(device) = self.device.borrow_mut().as_mut() {
            device.advance(now, &mut completed);
        }
        for completion in completed.drain(..) {
            self.under_way.set(self.under_way.get() - 1);
            self.finish(completion, &mut wake);
            if self.door.get() == Door::Open {
                self.submit_next(now);
            }
        }
        self.completed.replace(completed);
        if let (Door::Emptying(task), 0) = (self.door.get(), self.under_way.get()) {
            wake(task);
        }
    }

    /// Lets everybody submit again. Waiting requests go first.
    fn open_door(&self, now: Nanos, wake: impl FnMut(TaskId)) {
        self.door.set(Door::Open);
        while self.under_way.get() < self.queue_depth && !self.backlog.borrow().is_empty() {
            self.submit_next(now);
        }
        self.line.take().into_iter().for_each(wake);
    }

    fn finish(&self, completion: Completion, wake: &mut impl FnMut(TaskId)) {
        let state = &mut self.requests.borrow_mut()[completion.token.0 as usize];
        match std::mem::replace(state, RequestState::Done(completion.outcome)) {
            RequestState::Waiting(Some(task)) => wake(task),
            RequestState::Waiting(None) => (),
            RequestState::Abandoned => self.release(completion.token, state),
            RequestState::Free | RequestState::Done(_) => unreachable!("{:?} completed twice", completion.token),
        }
    }

    fn release(&self, token: Token, state: &mut RequestState) {
        *state = RequestState::Free;
        self.free.borrow_mut().push(token);
    }

    fn submit_next(&self, now: Nanos) {
        if let Some((token, request)) = self.backlog.borrow_mut().pop_front() {
            self.under_way.set(self.under_way.get() + 1);
            self.device().submit(token, request, now);
        }
    }

    fn new_token(&self) -> Token {
        let mut requests = self.requests.borrow_mut();
        let token = self.free.borrow_mut().pop().unwrap_or_else(|| {
            requests.push(RequestState::Free);
            Token(requests.len() as u32 - 1)
        });
        requests[token.0 as usize] = RequestState::Waiting(None);
        token
    }

    fn submit(&self, request: Request, now: Nanos) -> Token {
        let token = self.new_token();
        self.backlog.borrow_mut().push_back((token, request));
        if self.under_way.get() < self.queue_depth && self.door.get() == Door::Open {
            self.submit_next(now);
        }
        token
    }

    /// Submits before all waiting requests; for the holder of [`Alone`].
    fn submit_alone(&self, request: Request, now: Nanos) -> Token {
        let token = self.new_token();
        self.under_way.set(self.under_way.get() + 1);
        self.device().submit(token, request, now);
        token
    }
}

/// A device plugged into a run. Clones name the same device.
#[derive(Clone)]
pub struct DevicePort {
    runtime: Runtime,
    port: Rc<Port>,
    geometry: Rc<Geometry>,
}

impl DevicePort {
    pub(super) fn new(runtime: Runtime, port: Rc<Port>) -> DevicePort {
        let geometry = Rc::new(port.device().geometry().clone());
        DevicePort { runtime, port, geometry }
    }

    /// What the device is and promises.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The run that the device is plugged into.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Carries a request out and gives its result.
    ///
    /// # Errors
    /// What the device says.
    pub async fn request(&self, request: Request) -> Outcome {
        self.send(request).await.await
    }

    /// Submits a request after a core has spent the time for it. Does not wait for its end.
    pub async fn send(&self, request: Request) -> InFlight {
        self.runtime.cpu(self.runtime.host().submit()).await;
        self.submit(request)
    }

    /// Submits a request at once, at no cost.
    pub fn submit(&self, request: Request) -> InFlight {
        let token = self.port.submit(request, self.runtime.now());
        InFlight { runtime: self.runtime.clone(), port: Rc::clone(&self.port), token, taken: false }
    }

    /// Waits until nothing is under way. From then on only the holder of the result submits, until it is dropped;
    /// requests of others wait. Use it to measure the time of a single request.
    pub async fn alone(&self) -> Alone<'_> {
        let task = self.runtime.current_task();
        poll_fn(|_| match self.port.door.get() {
            Door::Open => Poll::Ready(()),
            _ => {
                self.port.line.borrow_mut().push_back(task);
                Poll::Pending
            }
        })
        .await;
        self.port.door.set(Door::Emptying(task));
        let alone = Alone { port: self };
        poll_fn(|_| if self.port.under_way.get() == 0 { Poll::Ready(()) } else { Poll::Pending }).await;
        self.port.door.set(Door::Alone);
        alone
    }

    /// The device itself, to look at.
    pub fn device(&self) -> Ref<'_, dyn Device> {
        Ref::map(self.port.device.borrow(), |device| &**device.as_ref().expect("the device is plugged in"))
    }

    /// The device itself, to set up or reset.
    pub fn device_mut(&self) -> RefMut<'_, Box<dyn Device>> {
        self.port.device()
    }

    /// Takes the device out of the run. Requests under way will never complete.
    pub fn unplug(&self) -> Box<dyn Device> {
        self.runtime.detach(&self.port);
        self.port.device.borrow_mut().take().expect("a device is unplugged once")
    }
}

/// A device to oneself; see [`DevicePort::alone`].
pub struct Alone<'a> {
    port: &'a DevicePort,
}

impl Alone<'_> {
    /// Carries a request out and gives its result.
    ///
    /// # Errors
    /// What the device says.
    pub async fn request(&self, request: Request) -> Outcome {
        let (runtime, port) = (&self.port.runtime, &self.port.port);
        let token = port.submit_alone(request, runtime.now());
        InFlight { runtime: runtime.clone(), port: Rc::clone(port), token, taken: false }.await
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let runtime = &self.port.runtime;
        self.port.port.open_door(runtime.now(), |task| runtime.wake(task));
    }
}

/// A request under way: a future of its result. Dropping it does not stop the request.
pub struct InFlight {
    runtime: Runtime,
    port: Rc<Port>,
    token: Token,
    taken: bool,
}

impl Future for InFlight {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        let task = self.runtime.current_task();
        let port = Rc::clone(&self.port);
        let state = &mut port.requests.borrow_mut()[self.token.0 as usize];
        if !matches!(state, RequestState::Done(_)) {
            *state = RequestState::Waiting(Some(task));
            return Poll::Pending;
        }
        let RequestState::Done(outcome) = std::mem::replace(state, RequestState::Free) else {
            unreachable!("just seen")
        };
        port.free.borrow_mut().push(self.token);
        self.taken = true;
        Poll::Ready(outcome)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let state = &mut self.port.requests.borrow_mut()[self.token.0 as usize];
        match state {
            RequestState::Done(_) => self.port.release(self.token, state),
            _ => *state = RequestState::Abandoned,
        }
    }
}
