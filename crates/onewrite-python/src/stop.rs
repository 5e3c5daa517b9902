//! Stop: work on a thread of its own, which ^C ends.
//!
//! ```text
//!   Python's thread: waits without the lock ─► every 50 ms: signals? ─► asked to stop, waits for the end
//!   the work: asks now and then whether it is to stop
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use onewrite_lab::LabError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::failure::of_lab;

/// How often Python's signals are looked at.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Whether work is to stop.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it is.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// If it is.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        if self.is_asked() { Err(LabError::Stopped) } else { Ok(()) }
    }
}

/// The result of `work`. A signal whose handler raises (^C) stops it; a second one no longer waits for its end.
pub(crate) fn stoppable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> Result<T, LabError> + Send + 'static,
) -> PyResult<T> {
    let (tell, mut told) = sync_channel(1);
    let stop = Stop::default();
    let asks = stop.clone();
    #[expect(clippy::disallowed_methods, reason = "Python's own thread looks at signals meanwhile")]
    std::thread::spawn(move || {
        // Whoever waited may be gone after a second ^C.
        let _ = tell.send(work(&asks));
    });
    let mut raised = None;
    loop {
        match py.detach(|| next(&mut told)) {
            Ok(done) => return raised.map_or_else(|| done.map_err(of_lab), Err),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("a defect in Onewrite: the work panicked"));
            }
            Err(RecvTimeoutError::Timeout) => match py.check_signals() {
                Err(error) if raised.is_some() => return Err(error),
                Err(error) => {
                    stop.0.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
                Ok(()) => (),
            },
        }
    }
}

fn next<T>(told: &mut Receiver<T>) -> Result<T, RecvTimeoutError> {
    told.recv_timeout(SIGNALS_EVERY)
}
