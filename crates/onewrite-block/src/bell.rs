//! Bell: what wakes a run that waits in wall time.
//!
//! Its one idea: a run waits at one place, and everything that has news for the run rings there. That is a thread that
//! ended a job, the sender of an inbox, a device, or the kernel for a device. The place is an event counter of the
//! kernel (`eventfd(2)`), the only one that io_uring can signal.
//!
//! # Invariants
//! - After its wait the run sees everything that was done before [`Bell::ring`].
//! - All rings between two waits cost one system call together.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::units::Nanos;

/// Wakes the run that it was made for, from any thread. Clones ring for the same run.
#[derive(Clone, Debug)]
pub struct Bell(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    events: OwnedFd,
    /// Whether it rang since the last wait that a ring ended.
    is_rung: AtomicBool,
}

impl Bell {
    /// A bell at which nobody waits yet.
    ///
    /// # Errors
    /// If the process may open no more files.
    pub fn new() -> io::Result<Bell> {
        let events = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell(Arc::new(Counter { events, is_rung: AtomicBool::new(false) })))
    }

    /// Wakes the run. The run then looks at its inboxes, jobs and devices; it may find nothing.
    pub fn ring(&self) {
        if !self.0.is_rung.swap(true, Ordering::AcqRel) {
            // This fails only if the counter is at its maximum, and then the run wakes anyway.
            let _ = rustix::io::write(&self.0.events, &1_u64.to_ne_bytes());
        }
    }

    /// Waits for a ring, at most for `patience`. A signal to the process may also end the wait.
    pub fn wait(&self, patience: Option<Nanos>) {
        let patience = patience.map(|Nanos(span)| Timespec {
            tv_sec: (span / 1_000_000_000) as i64,
            tv_nsec: (span % 1_000_000_000) as _,
        });
        let mut events = [PollFd::new(&self.0.events, PollFlags::IN)];
        if poll(&mut events, patience.as_ref()) == Ok(1) {
            self.silence();
        }
    }

    /// Clears the flag last: a thread that finds it set has finished its work, so the run sees that work when it looks
    /// next.
    fn silence(&self) {
        let _ = rustix::io::read(&self.0.events, &mut [0_u8; 8]);
        self.0.is_rung.swap(false, Ordering::AcqRel);
    }
}

/// The event counter, for a kernel interface that signals it.
impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.events.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "bells ring from other threads")]
    fn no_ring_is_lost_while_a_wait_ends() {
        let bell = Bell::new().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (other, is_over) = (bell.clone(), Arc::clone(&stop));
        let ringer = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                other.ring();
            }
        });
        // A ring that the flag hides for ever would let each of these wait for a millisecond.
        (0..20_000).for_each(|_| bell.wait(Some(Nanos(1_000_000))));
        stop.store(true, Ordering::Relaxed);
        ringer.join().unwrap();
        bell.wait(Some(Nanos::ZERO));
        bell.ring();
        assert_eq!(poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&Timespec::default())), Ok(1), "it is lost");
    }

    #[test]
    fn a_ring_before_the_wait_is_not_lost_and_ends_one_wait() {
        let bell = Bell::new().unwrap();
        let is_silent = || poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&Timespec::default())) == Ok(0);
        bell.ring();
        bell.ring();
        assert!(!is_silent());
        bell.wait(None);
        assert!(is_silent());
        bell.ring();
        assert!(!is_silent(), "the flag went down, so that the next ring counts");
    }
}
