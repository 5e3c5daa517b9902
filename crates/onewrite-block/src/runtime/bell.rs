//! Bell: what wakes a run that waits in wall time.
//!
//! Its one idea: a run waits at one place, and whoever has something for it rings there: a thread that ended a job, the
//! sender of an inbox, a device, or the kernel on behalf of a device. The place is an event counter of the kernel
//! (`eventfd(2)`), because io_uring can count up nothing else.
//!
//! # Invariants
//! - Whatever was done before [`Bell::ring`] is seen by the run when its wait has ended.
//! - Rings between two waits cost one system call together.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::units::Nanos;

/// Wakes the run that it was made for, from any thread. Clones ring the same run.
#[derive(Clone, Debug)]
pub struct Bell(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    events: OwnedFd,
    /// Rung since the last wait that it ended.
    is_rung: AtomicBool,
}

impl Bell {
    /// A bell that nobody waits at yet.
    ///
    /// # Errors
    /// If the process may open no more files.
    pub fn new() -> io::Result<Bell> {
        let events = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell(Arc::new(Counter { events, is_rung: AtomicBool::new(false) })))
    }

    /// Wakes the run. It looks at its inboxes, jobs and devices, and may find nothing.
    pub fn ring(&self) {
        if !self.0.is_rung.swap(true, Ordering::AcqRel) {
            // It fails only where the counter stands at its end, and then the run wakes anyway.
            let _ = rustix::io::write(&self.0.events, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until somebody rings, at most for `patience`; a signal to the process may end it, too.
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

    /// The flag goes down last: who rings before that has done what the run looks at next.
    fn silence(&self) {
        let _ = rustix::io::read(&self.0.events, &mut [0_u8; 8]);
        self.0.is_rung.swap(false, Ordering::AcqRel);
    }
}

/// The event counter, for a kernel interface that counts up when it has something.
impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.events.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
