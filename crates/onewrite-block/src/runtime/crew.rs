//! Crew: several threads carry one run on, one at a time.
//!
//! Its one idea: a letter needs no thread but its sender's. A thread that sleeps takes tens of microseconds to wake on
//! another core; most letters take a few. So while the run's own thread (its *home*) waits at the bell, the run lies in
//! the crew's place, and a sender may take it, have its letter read, and put it back.
//!
//! ```text
//!   home:   carries on until nothing is ready ──► puts the run into the place ──► waits at the bell ──► takes it out
//!   sender: letter into the inbox ──► takes the run, if it is there ──► carries on ──► puts it back
//!                                 └─► else, or if more is to do: rings the bell
//! ```
//!
//! # Invariants
//! - Whoever touches the run holds the lock of its place.
//! - The run is in the place only while [`carry`] waits. Afterwards no sender reaches it, and home drops it.
//! - Home waits no longer than until the run's next event: a sender that brought an earlier one rings.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Halt, Inner, Turn};
use crate::units::Nanos;

/// Most turns of a sender: then home goes on, and the sender returns to its own work.
const TURNS_MAX: usize = 64;

/// The place of one run.
#[derive(Default)]
pub(super) struct Crew(Mutex<Option<Resting>>);

/// A run at rest.
struct Resting {
    run: Rc<Inner>,
    /// Until when home waits; `None`: for a ring.
    until: Option<Nanos>,
    /// Whether what home waits for is done.
    is_over: Box<dyn Fn() -> bool>,
}

#[expect(unsafe_code, reason = "the compiler cannot see that a run's parts move together")]
// SAFETY: `Resting` moves between threads with everything that shares its counters of references. Those are the tasks,
// timers, ports and inboxes of the run, which the run owns, and handles on the stack of home. Home touches these only
// within a turn, and each turn holds the lock of the place; between turns home is inside `carry`. A task must not keep
// a handle of its run in a thread-local variable: the caller of `Executor::block_on_with_senders` vouches for that.
unsafe impl Send for Resting {}

impl Crew {
    fn place(&self) -> MutexGuard<'_, Option<Resting>> {
        self.0.lock().expect("nobody panicked who carried the run on")
    }

    /// Carries the run on until nothing is ready, on this thread. False if home has to go on: another thread carries
    /// the run, there is more to do, or the next event comes before home would wake.
    pub(super) fn help(&self) -> bool {
        let Ok(mut place) = self.0.try_lock() else { return false };
        let Some(resting) = place.take() else { return false };
        let is_done = resting.carry_on();
        *place = Some(resting);
        is_done
    }
}

impl Resting {
    fn carry_on(&self) -> bool {
        for _ in 0..TURNS_MAX {
            match self.run.turn() {
                Ok(Turn::Went) if (self.is_over)() => return false,
                Ok(Turn::Went) => (),
                Ok(Turn::Until(moment)) => return self.is_early_enough(moment),
                Ok(Turn::Idle) => return true,
                // Home finds the same.
                Err(_) => return false,
            }
        }
        false
    }

    /// Whether home wakes by `moment`.
    fn is_early_enough(&self, moment: Option<Nanos>) -> bool {
        moment.is_none_or(|moment| self.until.is_some_and(|until| until <= moment))
    }
}

/// Home's side: carries `run` on until `result` is there.
pub(super) fn carry<T: 'static>(
    run: &Rc<Inner>,
    crew: &Arc<Crew>,
    result: &Rc<RefCell<Option<T>>>,
) -> Result<(), Halt> {
    loop {
        let mut place = crew.place();
        // While home carries the run on, nobody finds it, not even after a panic.
        *place = None;
        let Some(until) = go_on(run, result)? else { return Ok(()) };
        let slot = Rc::clone(result);
        let is_over = Box::new(move || slot.borrow().is_some());
        *place = Some(Resting { run: Rc::clone(run), until, is_over });
        drop(place);
        run.rest(until);
    }
}

/// Takes turns until nothing is ready; returns until when to wait, or `None` when `result` is there.
fn go_on<T>(run: &Inner, result: &RefCell<Option<T>>) -> Result<Option<Option<Nanos>>, Halt> {
    loop {
        if result.borrow().is_some() {
            return Ok(None);
        }
        match run.turn()? {
            Turn::Went => (),
            Turn::Until(moment) => return Ok(Some(moment)),
            Turn::Idle => return Ok(Some(None)),
        }
    }
}
