//! Runtime: tasks, time, cores and devices of one run, on one thread.
//!
//! Its one idea: everything that waits, waits here. Tasks run in the order in which they became ready. When no task is
//! ready, the clock goes to the next event of a timer or a device, and this event makes tasks ready again. In **virtual
//! time** the clock jumps; in **wall time** it waits. The code above cannot see the difference.
//!
//! ```text
//!   ready task ──poll──► waits on a timer, a device, a core, a signal, an inbox
//!        ▲                               │
//!        ├── event at the next moment ◄──┤  (timers first, then devices in order of attachment)
//!        └── ring of the bell ◄──────────┘  (ended jobs first, then inboxes in order of creation)
//! ```
//!
//! In wall time a run waits at one place, its [`Bell`], until the next moment. Other threads and the kernel ring it:
//! for a letter in an [`Inbox`], for a job that ended, for a request whose end the device could not predict
//! ([`NextEvent::Unknown`]).
//!
//! # Invariants
//! - Time never goes back. An event happens at its moment, before any later one.
//! - The order of requests breaks ties, never an address or a hash.
//! - No waker is needed. A future that waits stores its task's number where the event finds it; it accepts polls
//!   without need.

mod clock;
mod cores;
mod crew;
mod host;
mod inbox;
mod jobs;
mod port;
mod tasks;
#[cfg(test)]
mod tests;
mod timers;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

pub use crate::bell::Bell;
pub use clock::Time;
pub use host::{HostError, HostProfile};
pub use inbox::{Inbox, InboxSender};
pub use jobs::JobCost;
pub use port::{DevicePort, InFlight};
pub use tasks::TaskId;

use crate::choices::Choices;
use crate::device::{Device, NextEvent};
use crate::units::Nanos;
use clock::Clock;
use cores::{Cores, Place, Rank, Turn as CoreTurn};
use crew::Crew;
use inbox::Desk;
use jobs::Pool;
use port::Port;
use tasks::Tasks;
use timers::Timers;

/// Why a run stopped before the awaited future was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Halt {
    /// A device's power was cut.
    #[error("the power was cut")]
    PowerLost,
    /// Every task waits, no event is left, and no task waits at an open inbox. This is a bug in the code that runs.
    #[error("every task waits and nothing will ever happen")]
    Deadlock,
}

struct Inner {
    clock: Clock,
    tasks: Tasks,
    timers: RefCell<Timers>,
    ports: RefCell<Vec<Rc<Port>>>,
    cores: RefCell<Cores>,
    /// Chance of the host's delays.
    chance: RefCell<Choices>,
    host: HostProfile,
    pool: Pool,
    /// Inboxes, in order of creation.
    desks: RefCell<Vec<Rc<Desk>>>,
    bell: OnceCell<Bell>,
    crew: Arc<Crew>,
    halted: Cell<Option<Halt>>,
}

/// What a turn of the run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Something happened, or may have happened.
    Went,
    /// Wall time only: nothing happens before this moment or a ring; `None`: before a ring.
    Until(Option<Nanos>),
    /// Nothing can happen before a letter arrives.
    Idle,
}

/// Owns a run; dropping it drops every task. [`Executor::runtime`] gives the handle that tasks hold.
pub struct Executor(Rc<Inner>);

/// A task's handle to its run; cheap to clone.
#[derive(Clone)]
pub struct Runtime(Rc<Inner>);

impl Executor {
    /// A run that begins now, on the machine that `host` describes, with the delays of seed 1.
    pub fn new(time: Time, host: HostProfile) -> Executor {
        Executor::seeded(time, host, 1)
    }

    /// As [`Executor::new`]; in virtual time `seed` decides how long each piece of work is delayed.
    pub fn seeded(time: Time, host: HostProfile, seed: u64) -> Executor {
        let is_wall = matches!(time, Time::Wall { .. });
        Executor(Rc::new(Inner {
            clock: Clock::new(time),
            tasks: Tasks::default(),
            timers: RefCell::default(),
            ports: RefCell::default(),
            cores: RefCell::new(Cores::new(host.cores, Nanos(host.slice_ns))),
            chance: RefCell::new(Choices::new(seed).stream("host", 0)),
            pool: Pool::new(is_wall.then_some(host.cores)),
            host,
            desks: RefCell::default(),
            bell: OnceCell::new(),
            crew: Arc::default(),
            halted: Cell::new(None),
        }))
    }

    /// A run in virtual time on a host that costs nothing: for tests and for pure device work.
    pub fn ideal() -> Executor {
        Executor::new(Time::Virtual, HostProfile::ideal())
    }

    /// The handle for tasks.
    pub fn runtime(&self) -> Runtime {
        Runtime(Rc::clone(&self.0))
    }

    /// Runs until `future` is done; other tasks run too. If only tasks at an open [`Inbox`] are left, it waits for a
    /// letter in wall time, even if the run's time is virtual.
    ///
    /// # Errors
    /// [`Halt`] if the power is cut or nothing can go on. Tasks stay where they are.
    pub fn block_on<F: Future + 'static>(&self, future: F) -> Result<F::Output, Halt>
    where
        F::Output: 'static,
    {
        let result = self.begin(future);
        // A look, not a `take`, which moves a large result at each turn.
        while result.borrow().is_none() {
            match self.0.turn()? {
                Turn::Went => (),
                Turn::Until(moment) => self.0.rest(moment),
                Turn::Idle => self.0.rest(None),
            }
        }
        Ok(result.take().expect("the loop ends when it is there"))
    }

    /// As [`Executor::block_on`] in wall time; but while this thread waits, a thread that sends a letter by
    /// [`InboxSender::send_and_run`] carries the run on itself.
    ///
    /// # Errors
    /// As [`Executor::block_on`].
    ///
    /// # Panics
    /// If the run panicked on another thread.
    ///
    /// # Safety
    /// No task of this run keeps a [`Runtime`], a [`DevicePort`] or an `Rc` of the run in a thread-local variable.
    #[expect(unsafe_code, reason = "thread-local variables are beyond the compiler's sight")]
    pub unsafe fn block_on_with_senders<F: Future + 'static>(&self, future: F) -> Result<F::Output, Halt>
    where
        F::Output: 'static,
    {
        let result = self.begin(future);
        crew::carry(&self.0, &self.0.crew, &result)?;
        Ok(result.take().expect("the run goes on until it is there"))
    }

    /// Starts a task that leaves its output in the cell.
    fn begin<F: Future + 'static>(&self, future: F) -> Rc<RefCell<Option<F::Output>>> {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.runtime().spawn(async move {
            let output = future.await;
            *slot.borrow_mut() = Some(output);
        });
        result
    }

    /// Runs until no task is ready and no event is left. Background tasks that wait for a signal or at an open
    /// [`Inbox`] remain. It takes the letters that have arrived first and waits for no others.
    ///
    /// # Errors
    /// [`Halt::PowerLost`] if the power is cut.
    pub fn run_until_idle(&self) -> Result<(), Halt> {
        loop {
            match self.0.turn() {
                Ok(Turn::Went) => (),
                Ok(Turn::Until(moment)) => self.0.rest(moment),
                Ok(Turn::Idle) | Err(Halt::Deadlock) => return Ok(()),
                Err(halt) => return Err(halt),
            }
        }
    }

    /// Runs everything that is due until the virtual clock is at `moment`.
    ///
    /// # Errors
    /// [`Halt::PowerLost`] if the power is cut.
    pub fn run_until(&self, moment: Nanos) -> Result<(), Halt> {
        let runtime = self.runtime();
        self.block_on(async move { runtime.sleep_until(moment).await })
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.0.tasks.drop_all();
    }
}

impl Inner {
    /// Polls one task or, if none is ready, goes to the next event.
    fn turn(&self) -> Result<Turn, Halt> {
        if let Some(task) = self.tasks.next_ready() {
            self.tasks.poll(task);
            self.give_up_core(task);
            return Ok(Turn::Went);
        }
        if let Some(halt) = self.halted.get() {
            return Err(halt);
        }
        self.next_event()
    }

    /// `task` waits or has ended: the core that it holds goes to the first in line.
    fn give_up_core(&self, task: TaskId) {
        let next = self.cores.borrow_mut().give_up(task);
        next.into_iter().for_each(|next| self.tasks.wake(next));
    }

    fn next_event(&self) -> Result<Turn, Halt> {
        self.hear();
        match self.clock.is_virtual() {
            _ if self.tasks.is_any_ready() => Ok(Turn::Went),
            true => self.jump(),
            false => self.wait(),
        }
    }

    /// Wakes the tasks whose jobs ended and the tasks whose inboxes have news.
    fn hear(&self) {
        while let Some(task) = self.pool.take_ended() {
            self.tasks.wake(task);
        }
        self.desks.borrow().iter().filter_map(|desk| desk.take_served()).for_each(|task| self.tasks.wake(task));
    }

    /// Virtual time only: jumps to the next event.
    fn jump(&self) -> Result<Turn, Halt> {
        match self.soonest() {
            NextEvent::At(moment) => {
                self.clock.jump_to(moment);
                self.happen(moment)
            }
            NextEvent::Idle => self.idle(),
            NextEvent::Unknown => unreachable!("a device that was not given a bell knows its moments"),
        }
    }

    /// Wall time only: lets due events happen. If that makes no task ready, the run has to rest.
    fn wait(&self) -> Result<Turn, Halt> {
        self.happen(self.clock.now())?;
        if self.tasks.is_any_ready() {
            return Ok(Turn::Went);
        }
        match self.soonest() {
            NextEvent::At(moment) => Ok(Turn::Until(Some(moment))),
            NextEvent::Unknown => Ok(Turn::Until(None)),
            NextEvent::Idle if self.pool.has_work() => Ok(Turn::Until(None)),
            NextEvent::Idle => self.idle(),
        }
    }

    /// Waits until `moment` or a ring.
    fn rest(&self, moment: Option<Nanos>) {
        let patience = moment.map(|moment| moment.saturating_sub(self.clock.now()));
        if patience != Some(Nanos::ZERO) {
            self.bell().wait(patience);
        }
    }

    fn idle(&self) -> Result<Turn, Halt> {
        match self.desks.borrow().iter().any(|desk| desk.is_awaited()) {
            true => Ok(Turn::Idle),
            false => Err(Halt::Deadlock),
        }
    }

    /// The next event of all timers and devices.
    fn soonest(&self) -> NextEvent {
        let timer = NextEvent::from(self.timers.borrow_mut().next());
        self.ports.borrow().iter().fold(timer, |soonest, port| soonest.or_earlier(port.next_event()))
    }

    /// The bell, made on first use: a run in virtual time without an inbox has none.
    fn bell(&self) -> &Bell {
        self.bell.get_or_init(|| Bell::new().expect("the process may open one file more"))
    }

    /// Lets everything that is due by `moment` happen.
    fn happen(&self, moment: Nanos) -> Result<Turn, Halt> {
        let mut timers = self.timers.borrow_mut();
        while let Some(task) = timers.take_due(moment) {
            self.tasks.wake(task);
        }
        drop(timers);
        let ports = self.ports.borrow().clone();
        for port in ports {
            port.advance(moment, |task| self.tasks.wake(task));
            if port.is_dark() {
                self.halted.set(Some(Halt::PowerLost));
                return Err(Halt::PowerLost);
            }
        }
        Ok(Turn::Went)
    }
}

impl Runtime {
    /// The time since the run began.
    pub fn now(&self) -> Nanos {
        self.0.clock.now()
    }

    /// Civil time: nanoseconds since 1970. In virtual time a run begins at a fixed date.
    pub fn civil_now(&self) -> Nanos {
        self.0.clock.civil_now()
    }

    /// Whether time is virtual.
    pub fn is_virtual(&self) -> bool {
        self.0.clock.is_virtual()
    }

    /// The machine that this run is modelled on.
    pub fn host(&self) -> &HostProfile {
        &self.0.host
    }

    /// Starts a task; it runs after the tasks that are ready now.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> TaskId {
        self.0.tasks.spawn(Box::pin(future))
    }

    /// Starts a task and returns a future of its result.
    pub fn start<T, F>(&self, future: F) -> Started<T>
    where
        T: 'static,
        F: Future<Output = T> + 'static,
    {
        let slot: Rc<Finish<T>> = Rc::new(Finish { result: Cell::new(None), waiter: Cell::new(None) });
        let (finish, runtime) = (Rc::clone(&slot), self.clone());
        self.spawn(async move {
            finish.result.set(Some(future.await));
            if let Some(task) = finish.waiter.take() {
                runtime.wake(task);
            }
        });
        Started { runtime: self.clone(), slot }
    }

    /// The task that is running.
    pub fn current_task(&self) -> TaskId {
        self.0.tasks.current()
    }

    /// Makes `task` ready, if it still lives.
    pub(crate) fn wake(&self, task: TaskId) {
        self.0.tasks.wake(task);
    }

    /// Waits for `span`.
    pub async fn sleep(&self, span: Nanos) {
        self.sleep_until(self.now() + span).await;
    }

    /// Waits until the clock is at `moment` or later.
    pub fn sleep_until(&self, moment: Nanos) -> impl Future<Output = ()> + use<> {
        Sleep { runtime: self.clone(), moment, is_set: false }
    }

    /// Occupies one of the modelled cores for `cost` and the delay that chance adds ([`HostProfile::delays_ns`]). Waits
    /// for a core if all are occupied. A task that computed just before goes on at once, to the end of its slice; one
    /// that waited pays for the switch, too. No-op in wall time, where the work occupies a real core.
    pub async fn cpu(&self, cost: Nanos) {
        if cost == Nanos::ZERO || !self.is_virtual() {
            return;
        }
        let (host, task) = (self.host(), self.current_task());
        let switch = if self.0.cores.borrow().holds(task) { Nanos::ZERO } else { self.switch() };
        let delay = host.delay(&mut self.0.chance.borrow_mut());
        self.compute(cost + delay + switch, Rank::Last).await;
    }

    /// Switches to this task, which was woken and goes before all who wait for a core. For a task of the kernel that
    /// others wait for. No-op if the task computed just before, and in wall time.
    pub async fn resume_first(&self) {
        if self.is_virtual() && !self.0.cores.borrow().holds(self.current_task()) {
            self.compute(self.switch(), Rank::First).await;
        }
    }

    /// Occupies a core for `left`, in slices.
    async fn compute(&self, mut left: Nanos, rank: Rank) {
        while left > Nanos::ZERO {
            left = left
                - Compute { runtime: self.clone(), task: self.current_task(), left, rank, stage: Stage::Asks }.await;
        }
    }

    /// Draws the time of a switch to a task.
    fn switch(&self) -> Nanos {
        self.host().switch(&mut self.0.chance.borrow_mut())
    }

    /// A new inbox of this run, and its first sender, which may move to another thread.
    ///
    /// # Panics
    /// If the process may open no more files.
    pub fn inbox<T: Send + 'static>(&self) -> (InboxSender<T>, Inbox<T>) {
        inbox::inbox(self, self.0.bell().clone())
    }

    /// Plugs a device in. Its state belongs to the run until [`DevicePort::unplug`]. In wall time the device gets the
    /// run's bell ([`Device::attached`]).
    ///
    /// # Panics
    /// In wall time, if the process may open no more files.
    pub fn attach(&self, mut device: Box<dyn Device>) -> DevicePort {
        device.attached((!self.is_virtual()).then(|| self.0.bell().clone()));
        let port = Port::new(device);
        self.0.ports.borrow_mut().push(Rc::clone(&port));
        DevicePort::new(self.clone(), port)
    }

    fn detach(&self, port: &Rc<Port>) {
        self.0.ports.borrow_mut().retain(|other| !Rc::ptr_eq(other, port));
    }
}

struct Finish<T> {
    result: Cell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
}

/// The future result of a task; see [`Runtime::start`]. If it is dropped, the task continues.
pub struct Started<T> {
    runtime: Runtime,
    slot: Rc<Finish<T>>,
}

impl<T> Future for Started<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        if let Some(result) = self.slot.result.take() {
            return Poll::Ready(result);
        }
        self.slot.waiter.set(Some(self.runtime.current_task()));
        Poll::Pending
    }
}

/// Computes on one core until `left` is done or the slice has ended; gives how long it computed.
struct Compute {
    runtime: Runtime,
    task: TaskId,
    left: Nanos,
    rank: Rank,
    stage: Stage,
}

enum Stage {
    Asks,
    InLine(Place),
    Computes { begin: Nanos, end: Nanos },
    Done,
}

impl Compute {
    /// Has a core until `slice_end`.
    fn begin(&mut self, slice_end: Nanos) {
        let begin = self.runtime.now();
        let end = slice_end.min(begin + self.left);
        self.stage = Stage::Computes { begin, end };
        self.runtime.0.timers.borrow_mut().set(end, self.task);
    }

    fn wake(&self, next: Option<TaskId>) {
        next.into_iter().for_each(|task| self.runtime.wake(task));
    }
}

impl Future for Compute {
    type Output = Nanos;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Nanos> {
        let (now, runtime) = (self.runtime.now(), self.runtime.clone());
        match self.stage {
            Stage::Asks => {
                let (turn, next) = runtime.0.cores.borrow_mut().ask(self.task, self.rank, now);
                self.wake(next);
                match turn {
                    CoreTurn::Until(slice_end) => self.begin(slice_end),
                    CoreTurn::Waits(place) => self.stage = Stage::InLine(place),
                }
            }
            Stage::InLine(place) => {
                let slice_end = runtime.0.cores.borrow_mut().begin(place, now);
                slice_end.into_iter().for_each(|slice_end| self.begin(slice_end));
            }
            Stage::Computes { begin, end } if now >= end => {
                runtime.0.cores.borrow_mut().pause(self.task);
                self.stage = Stage::Done;
                return Poll::Ready(end - begin);
            }
            Stage::Computes { .. } | Stage::Done => (),
        }
        Poll::Pending
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        let mut cores = self.runtime.0.cores.borrow_mut();
        let next = match self.stage {
            Stage::InLine(place) => cores.leave(place),
            Stage::Computes { .. } => cores.stop(self.task),
            Stage::Asks | Stage::Done => None,
        };
        drop(cores);
        self.wake(next);
    }
}

struct Sleep {
    runtime: Runtime,
    moment: Nanos,
    is_set: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.runtime.now() >= self.moment {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut self.is_set, true) {
            let task = self.runtime.current_task();
            self.runtime.0.timers.borrow_mut().set(self.moment, task);
        }
        Poll::Pending
    }
}
