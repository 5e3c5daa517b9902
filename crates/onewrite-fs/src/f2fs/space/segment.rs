//! Segment: the blocks of one segment that are in use, now and at the last checkpoint.

use crate::f2fs::format::sit::{LogKind, MAP_SIZE, SitEntry, clear_bit, set_bit, test_bit};

/// A bit for each block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Map([u8; MAP_SIZE]);

impl Default for Map {
    fn default() -> Map {
        Map([0; MAP_SIZE])
    }
}

impl Map {
    pub(super) fn set(&mut self, index: usize) {
        set_bit(&mut self.0, index);
    }

    pub(super) fn has(&self, index: usize) -> bool {
        test_bit(&self.0, index)
    }

    fn count(&self) -> u16 {
        self.0.iter().map(|byte| byte.count_ones() as u16).sum()
    }
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    now: Map,
    at_checkpoint: Map,
    used: u16,
    used_at_checkpoint: u16,
    /// Number of the log that its blocks belong to.
    log: u16,
    /// When it last changed, in seconds of mounted time.
    changed_at: u64,
}

impl Segment {
    pub(super) fn new(entry: &SitEntry) -> Segment {
        let now = Map(entry.map);
        let used = now.count();
        let (log, changed_at) = (entry.log(), entry.mtime.get());
        Segment { now, at_checkpoint: now, used, used_at_checkpoint: used, log, changed_at }
    }

    /// Its entry in the SIT.
    pub(super) fn entry(&self) -> SitEntry {
        SitEntry::new(self.log, self.now.0, self.changed_at)
    }

    /// Blocks in use.
    pub(super) fn used(&self) -> u16 {
        self.used
    }

    /// Seconds without a change, at `age` seconds of mounted time.
    pub(super) fn idle(&self, age: u64) -> u64 {
        age.saturating_sub(self.changed_at)
    }

    /// Whether no block is in use, and none was at the last checkpoint.
    pub(super) fn is_unused(&self) -> bool {
        self.used == 0 && self.used_at_checkpoint == 0
    }

    pub(super) fn is_used(&self, index: usize) -> bool {
        self.now.has(index)
    }

    /// Whether its blocks are nodes; anything if it is unused.
    pub(super) fn holds_nodes(&self) -> bool {
        self.log >= LogKind::HotNode as u16
    }

    /// Whether neither now nor the last checkpoint has block `index` in use.
    pub(super) fn is_open(&self, index: usize) -> bool {
        !self.now.has(index) && !self.at_checkpoint.has(index)
    }

    /// Blocks for which [`Segment::is_open`] holds, but those in `taken`.
    pub(super) fn open_count(&self, taken: Option<&Map>) -> usize {
        let taken = taken.copied().unwrap_or_default();
        let maps = self.now.0.iter().zip(self.at_checkpoint.0).zip(taken.0);
        maps.map(|((now, before), taken)| (now | before | taken).count_zeros() as usize).sum()
    }

    /// The log that its blocks belong to; `None` if it holds nothing.
    pub(super) fn kind(&self) -> Option<LogKind> {
        LogKind::ALL.get(usize::from(self.log)).copied().filter(|_| !self.is_unused())
    }

    /// Its blocks belong to this log from now on.
    pub(super) fn set_log(&mut self, kind: LogKind) {
        self.log = kind as u16;
    }

    pub(super) fn take(&mut self, index: usize, kind: LogKind, age: u64) {
        debug_assert!(!self.now.has(index), "block {index} of a segment is taken twice");
        self.now.set(index);
        self.used += 1;
        (self.log, self.changed_at) = (kind as u16, age);
    }

    pub(super) fn give_back(&mut self, index: usize, age: u64) {
        if self.now.has(index) {
            clear_bit(&mut self.now.0, index);
            self.used -= 1;
            self.changed_at = age;
        }
    }

    /// The state is that of the last checkpoint from now on.
    pub(super) fn note_checkpoint(&mut self) {
        (self.at_checkpoint, self.used_at_checkpoint) = (self.now, self.used);
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match (self.used, self.used_at_checkpoint) == (self.now.count(), self.at_checkpoint.count()) {
            true => Ok(()),
            false => {
                Err(format!("its counts are {} and {}, the maps say otherwise", self.used, self.used_at_checkpoint))
            }
        }
    }
}
