//! Stop: what ^C, SIGTERM and SIGHUP do.
//!
//! ```text
//!   computing ──signal──► partial files removed, ended by the signal
//!   changing an image ──signal──► asked: work stops at the next good place, the image is closed, ended by the signal
//!                     ──second signal──► as if computing: the image's log brings it in order when it is next opened
//! ```
//!
//! A signal that whoever started this process had ignored (`nohup`) stays ignored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onewrite_lab::LabError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// What is under way, and what was asked.
struct State {
    /// Pieces of work that have to close something.
    changing: u32,
    asked: Option<i32>,
}

static STATE: Mutex<State> = Mutex::new(State { changing: 0, asked: None });
static IS_ASKED: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on signals are dealt with as the module's head says.
pub fn watch() {
    let ignored = ignored();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(signals) else { return };
    #[expect(clippy::disallowed_methods, reason = "signals come from outside, while the one thread of the core works")]
    std::thread::spawn(move || signals.forever().for_each(take));
}

/// The mask of signals that are ignored.
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
}

fn end(signal: i32) -> ! {
    onewrite_lab::remove_all();
    let _ = emulate_default_handler(signal);
    std::process::exit(128 + signal);
}

/// Lives while an image is being changed, or a tree copied to the host: the first signal only asks.
#[must_use]
pub struct Changing(());

impl Changing {
    /// Begins.
    ///
    /// # Errors
    /// If the end was asked for before.
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

/// To be called at good places to stop.
///
/// # Errors
/// If it is time to stop.
pub fn check() -> Result<(), LabError> {
    if IS_ASKED.load(Ordering::Relaxed) { Err(LabError::Stopped) } else { Ok(()) }
}

/// Ends the process by the signal that asked for it, if one did.
pub fn end_if_asked() {
    let asked = state().asked;
    if let Some(signal) = asked {
        end(signal);
    }
}
