//! Options: how an image is mounted.

use onewrite_block::{Geometry, Nanos, PAGE_SIZE};
use onewrite_cache::PolicyKind;

use super::mode::{Mode, Scope};
use crate::api::{FsError, FsResult};
use crate::journal::{CheckpointBy, EvictionSpot, ReclaimedSpace, padding_warnings};
use crate::pages;

/// How an image is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// How it stays consistent.
    pub mode: Mode,
    /// Pages of the page cache; at least [`MountOptions::CACHE_PAGES_MIN`].
    pub cache_pages: usize,
    /// Replacement policy of the page cache; any policy that needs no knowledge of the future.
    pub cache_policy: PolicyKind,
    /// Age at which a transaction commits by itself.
    pub commit_interval: Nanos,
    /// Longest time for which a commit waits for other tasks that sync, so that they share it; it never waits longer
    /// than half of what a commit takes. 0: never, as the kernel's journal behaves where each task syncs its own file.
    pub max_batch_time: Nanos,
    /// Whether the flusher begins as soon as a tenth of the page cache is dirty, beside the writers, as Linux's does.
    /// Else it looks every five seconds, and writers that find a fifth dirty write back themselves.
    pub prompt_writeback: bool,
    /// Age at which a committed block goes home by itself.
    pub checkpoint_age: Nanos,
    /// In metadata scope, allocate a block when its page is written out, not when it is written to: Linux's `delalloc`.
    pub delayed_allocation: bool,
    /// Whether log space is trimmed before it is used again; `None` follows the mode.
    pub self_trimming: Option<bool>,
    /// Refuse changes. Mount still replays the log.
    pub read_only: bool,
    /// Where commits pad: what `onewrite probe` found out about the device's write buffer. `None` uses what the device
    /// reports.
    pub eviction_spot: Option<EvictionSpot>,
}

impl MountOptions {
    /// Smallest page cache.
    pub const CACHE_PAGES_MIN: usize = pages::CACHE_PAGES_MIN;

    /// Pages that the cache policies treat as one flash block: 4 MiB of a file.
    pub const FLASH_BLOCK_PAGES: u32 = 1024;

    /// The defaults with `mode`: 64 MiB of page cache under LRU, commits every 5 s, blocks home after 30 s.
    pub const fn new(mode: Mode) -> MountOptions {
        MountOptions {
            mode,
            cache_pages: 64 * 1024 * 1024 / PAGE_SIZE,
            cache_policy: PolicyKind::Lru,
            commit_interval: Nanos::from_secs(5),
            max_batch_time: Nanos::ZERO,
            checkpoint_age: Nanos::from_secs(30),
            prompt_writeback: false,
            delayed_allocation: true,
            self_trimming: None,
            read_only: false,
            eviction_spot: None,
        }
    }

    /// As [`MountOptions::new`], for a file system that programs of a host use: commits wait for others that sync, up
    /// to 15 ms (Linux's `max_batch_time`), and writeback is prompt.
    pub const fn for_programs(mode: Mode) -> MountOptions {
        let max_batch_time = Nanos::from_millis(15);
        MountOptions { max_batch_time, prompt_writeback: true, ..MountOptions::new(mode) }
    }

    /// What happens to log space before it is used again.
    pub(super) fn reclaimed_space(&self) -> ReclaimedSpace {
        match self.self_trimming.unwrap_or(self.mode.trims_itself()) {
            true => ReclaimedSpace::Trimmed,
            false => ReclaimedSpace::Kept,
        }
    }

    /// Checks that a device has what the mode needs; mount checks it too.
    ///
    /// # Errors
    /// [`FsError::Unsupported`]; the message names what is missing and an alternative.
    pub fn check_device(&self, geometry: &Geometry) -> FsResult<()> {
        let Geometry { name, share_pairs_max, share_refusal, .. } = geometry;
        let mode = self.mode;
        if mode.checkpoint() != CheckpointBy::Share || *share_pairs_max > 0 {
            return Ok(());
        }
        let reason = share_refusal.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        let what = format!("mode `{mode}` on {name}: it brings blocks home by SHARE, which the device lacks{reason}");
        let cure = match mode.scope() {
            Scope::Full => Mode::Data,
            _ => Mode::Ordered,
        };
        Err(FsError::Unsupported(format!("{what}; use `{cure}`, or a device with SHARE (nvme-share)")))
    }

    /// Assumptions of the mode that do not hold on this device, one sentence each.
    pub fn warnings(&self, geometry: &Geometry) -> Vec<String> {
        let padding = self.mode.padding();
        padding.map_or_else(Vec::new, |padding| padding_warnings(padding, geometry, self.eviction_spot))
    }
}
