//! The wish for a checkpoint soon.

use std::cell::Cell;

use onewrite_block::Runtime;
use onewrite_block::sync::Signal;

/// See the module's head.
pub(super) struct Wanted {
    is_wanted: Cell<bool>,
    signal: Signal,
}

impl Wanted {
    pub(super) fn new(runtime: &Runtime) -> Wanted {
        Wanted { is_wanted: Cell::new(false), signal: Signal::new(runtime) }
    }

    /// Asks for a checkpoint soon.
    pub(super) fn ask(&self) {
        self.is_wanted.set(true);
        self.signal.notify_all();
    }

    /// Waits until somebody asked.
    pub(super) async fn wait(&self) {
        self.signal.until(|| self.is_wanted.get()).await;
    }

    /// Forgets what was asked for.
    pub(super) fn clear(&self) {
        self.is_wanted.set(false);
    }
}
