//! Stop: the effect of ^C, SIGTERM and SIGHUP.
//!
//! ```text
//!   computing ──signal──► partial files removed, ended by the signal
//!   changing an image ──signal──► asked: work stops at the next good place, the image is closed, ended by the signal
//!                     ──second signal──► as if computing: the image's log brings it in order when it is next opened
//! ```
//!
//! A signal that the parent process ignores (`nohup`) stays ignored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onewrite_lab::LabError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Work under way, and the signal received.
struct State {
    /// Number of pieces of work that must close something.
    changing: u32,
    asked: Option<i32>,
    /// What else is to be done when it is asked.
    action: Option<Box<dyn FnOnce() + Send>>,
}

static STATE: Mutex<State> = Mutex::new(State { changing: 0, asked: None, action: None });
static IS_ASKED: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to handle signals as the module's head says.
pub fn watch() {
    let ignored = ignored();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(signals) else { return };
    #[expect(clippy::disallowed_methods, reason = "signals come from outside, while the one thread of the core works")]
    std::thread::spawn(move || signals.forever().for_each(take));
}

/// The mask of ignored signals.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn take(signal: i32) {
    let mut state = state();
    if state.changing == 0 || state.asked.is_some() {
        end(signal);
    }
    state.asked = Some(signal);
    IS_ASKED.store(true, Ordering::Relaxed);
    errln!("onewrite: stopping; again to stop at once");
    let action = state.action.take();
    drop(state);
    if let Some(action) = action {
        action();
    }
}

fn end(signal: i32) -> ! {
    onewrite_lab::remove_all();
    let _ = emulate_default_handler(signal);
    std::process::exit(128 + signal);
}

/// Exists while an image is changed or a tree is copied to the host. The first signal then only requests a stop.
#[must_use]
pub struct Changing(());

impl Changing {
    /// Begins such work.
    ///
    /// # Errors
    /// If a stop was requested before.
    pub fn begin() -> Result<Changing, LabError> {
        let mut state = state();
        if state.asked.is_some() {
            return Err(LabError::Stopped);
        }
        state.changing += 1;
        Ok(Changing(()))
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        state().changing -= 1;
    }
}

/// Calls `action` once, when the first signal asks for a stop; at once if it asked before. For work that waits for
/// others and cannot call [`check`].
pub fn when_asked(action: impl FnOnce() + Send + 'static) {
    let mut state = state();
    match state.asked {
        None => state.action = Some(Box::new(action)),
        Some(_) => {
            drop(state);
            action();
        }
    }
}

/// Must be called at good places to stop.
///
/// # Errors
/// If a stop is requested.
pub fn check() -> Result<(), LabError> {
    if IS_ASKED.load(Ordering::Relaxed) { Err(LabError::Stopped) } else { Ok(()) }
}

/// Ends the process with the signal that requested it, if there was one.
pub fn end_if_asked() {
    let asked = state().asked;
    if let Some(signal) = asked {
        end(signal);
    }
}
