//! Layout: counts laid-out files and bytes, and reports them now and then.

use std::cell::{Cell, RefCell};

use super::progress::{LaidOut, Phase};
use crate::error::LabError;
use crate::workload::{Layout, Workload};

/// Bytes and files between two reports.
const BYTES_EVERY: u64 = 4 << 20;
const FILES_EVERY: u64 = 256;

/// Counts the files and bytes laid out.
pub struct LayoutWatch<'w> {
    watch: &'w dyn Fn(Phase) -> Result<(), LabError>,
    /// The error by which the watcher stopped the run.
    stopped: RefCell<Option<LabError>>,
    now: Cell<LaidOut>,
    told: Cell<LaidOut>,
}

impl<'w> LayoutWatch<'w> {
    /// Starts to count the layout of `workload`, and reports to `watch` that nothing is done.
    pub(super) fn new(
        workload: &Workload,
        watch: &'w dyn Fn(Phase) -> Result<(), LabError>,
    ) -> Result<LayoutWatch<'w>, LabError> {
        let mut begin = LaidOut::default();
        for file in &workload.files {
            begin.files_total += u64::from(file.layout != Layout::None);
            if let Layout::Filled { size, .. } = file.layout {
                begin.bytes_total = begin.bytes_total.saturating_add(size);
            }
        }
        watch(Phase::LayingOut(begin))?;
        Ok(LayoutWatch { watch, stopped: RefCell::default(), now: Cell::new(begin), told: Cell::new(begin) })
    }

    /// Must be called between two files.
    ///
    /// # Errors
    /// If the watcher stopped the run.
    pub(super) fn check(&self) -> Result<(), LabError> {
        self.stopped.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Counts `bytes` written to a file.
    pub(super) fn wrote(&self, bytes: u64) {
        let now = self.now.get();
        self.reach(LaidOut { bytes: now.bytes.saturating_add(bytes), ..now });
    }

    /// Counts a finished file.
    pub(super) fn made(&self) {
        let now = self.now.get();
        self.reach(LaidOut { files: now.files + 1, ..now });
    }

    fn reach(&self, now: LaidOut) {
        self.now.set(now);
        let told = self.told.get();
        let is_last = now.files == now.files_total;
        if is_last || now.bytes - told.bytes >= BYTES_EVERY || now.files - told.files >= FILES_EVERY {
            self.told.set(now);
            if let Err(error) = (self.watch)(Phase::LayingOut(now)) {
                self.stopped.borrow_mut().get_or_insert(error);
            }
        }
    }
}
