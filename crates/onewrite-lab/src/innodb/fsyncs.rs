//! Fsyncs: those of the log and of the cleaner, timed for the measure.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{Nanos, Runtime};
use onewrite_fs::{FileSystem, FsResult, Ino};

use crate::driver::{JobMeasure, Moment};

/// The file system, and when each fsync of it began and ended.
pub(super) struct Fsyncs<F> {
    pub(super) fs: Rc<F>,
    runtime: Runtime,
    done: RefCell<Vec<(Nanos, Nanos)>>,
}

impl<F: FileSystem> Fsyncs<F> {
    pub(super) fn new(runtime: &Runtime, fs: Rc<F>) -> Fsyncs<F> {
        Fsyncs { fs, runtime: runtime.clone(), done: RefCell::default() }
    }

    /// Makes a file durable.
    pub(super) async fn fsync(&self, ino: Ino) -> FsResult<()> {
        let begin = self.runtime.now();
        self.fs.fsync(ino).await?;
        self.done.borrow_mut().push((begin, self.runtime.now()));
        Ok(())
    }

    /// Adds what has ended to `measure`.
    pub(super) fn count(&self, measure: &mut JobMeasure) {
        for (begin, end) in self.done.take() {
            measure.count_sync(Moment { origin: begin, begin, end });
        }
    }
}
