//! Options: how an F2FS image is mounted.

use std::fmt;
use std::str::FromStr;

use onewrite_block::{Geometry, Nanos, PAGE_SIZE};
use onewrite_cache::PolicyKind;

use crate::api::{FsError, FsResult};
use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::pages;

/// What an fsync promises about names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsyncMode {
    /// A new file's first name survives with it; a rename survives with the next checkpoint.
    #[default]
    Posix,
    /// A name that changed since the last checkpoint survives with its file, too: the fsync is a checkpoint then.
    Strict,
}

impl FsyncMode {
    /// Both modes.
    pub const ALL: [FsyncMode; 2] = [FsyncMode::Posix, FsyncMode::Strict];

    /// The name that Linux's mount option `fsync_mode` has for it.
    pub const fn name(self) -> &'static str {
        match self {
            FsyncMode::Posix => "posix",
            FsyncMode::Strict => "strict",
        }
    }
}

impl fmt::Display for FsyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FsyncMode {
    type Err = String;

    fn from_str(text: &str) -> Result<FsyncMode, String> {
        let known = FsyncMode::ALL.into_iter().find(|mode| mode.name() == text);
        known.ok_or_else(|| format!("`{text}` is no mode of fsync; there are posix and strict"))
    }
}

/// How cleaning gives content another address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clean {
    /// It reads the content and writes it elsewhere.
    #[default]
    Copy,
    /// By the device's SHARE: no content is read or written. Source: dissertation §3.7.
    Share,
}

impl Clean {
    /// Both ways.
    pub const ALL: [Clean; 2] = [Clean::Copy, Clean::Share];

    /// The name of the option's value.
    pub const fn name(self) -> &'static str {
        match self {
            Clean::Copy => "copy",
            Clean::Share => "share",
        }
    }

    /// Checks that a device has what it needs; mount checks it too.
    ///
    /// # Errors
    /// [`FsError::Unsupported`]; the message names what is missing and the cure.
    pub fn check_device(self, geometry: &Geometry) -> FsResult<()> {
        let Geometry { name, share_pairs_max, share_refusal, .. } = geometry;
        if self == Clean::Copy || *share_pairs_max > 0 {
            return Ok(());
        }
        let reason = share_refusal.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        Err(FsError::Unsupported(format!(
            "clean=share on {name}: the device lacks SHARE{reason}; use clean=copy, or a device with SHARE (nvme-share)"
        )))
    }
}

impl fmt::Display for Clean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Clean {
    type Err = String;

    fn from_str(text: &str) -> Result<Clean, String> {
        let known = Clean::ALL.into_iter().find(|clean| clean.name() == text);
        known.ok_or_else(|| format!("`{text}` is no way of cleaning; there are copy and share"))
    }
}

/// Which blocks logs take. Source: Linux's mount option `mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogMode {
    /// Whole segments while there are enough, then free blocks of used segments (SSR).
    #[default]
    Adaptive,
    /// Whole segments only: a log-structured file system in the strict sense. Cleaning alone makes room.
    Lfs,
}

impl LogMode {
    /// Both.
    pub const ALL: [LogMode; 2] = [LogMode::Adaptive, LogMode::Lfs];

    /// The name that Linux has for it.
    pub const fn name(self) -> &'static str {
        match self {
            LogMode::Adaptive => "adaptive",
            LogMode::Lfs => "lfs",
        }
    }
}

impl fmt::Display for LogMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LogMode {
    type Err = String;

    fn from_str(text: &str) -> Result<LogMode, String> {
        let known = LogMode::ALL.into_iter().find(|log_mode| log_mode.name() == text);
        known.ok_or_else(|| format!("`{text}` is no mode of F2FS, which has no journal; there are adaptive and lfs"))
    }
}

/// How an image is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F2fsOptions {
    /// Pages of the page cache; at least [`F2fsOptions::CACHE_PAGES_MIN`].
    pub cache_pages: usize,
    /// Replacement policy of the page cache; any policy that needs no knowledge of the future.
    pub cache_policy: PolicyKind,
    /// Time from a change to the checkpoint that makes it durable, without any sync; less than 1 ms is taken as 1 ms.
    pub checkpoint_interval: Nanos,
    /// Whether the flusher begins as soon as a tenth of the cache is dirty, not only every five seconds.
    pub prompt_writeback: bool,
    /// What an fsync promises about names.
    pub fsync_mode: FsyncMode,
    /// How cleaning gives content another address.
    pub clean: Clean,
    /// Which blocks logs take.
    pub log_mode: LogMode,
    /// An fsync of fewer dirty pages than this writes them over their blocks (in-place updates); 0 for never. Such an
    /// fsync is not atomic: a power cut in it can leave some of its pages new and others as they were.
    pub in_place_below: u32,
    /// In quiet times, cleaning empties segments that have not changed for so many seconds of mounted time, the oldest
    /// first (ATGC), once the file system has been mounted for as long; `None` for cost and benefit always.
    pub age_threshold: Option<u64>,
    /// Give up what the staging area holds of a checkpoint that is not the image's any more, and the area that
    /// continues the image's checkpoint if it is not there.
    pub discard_stage: bool,
    /// Refuse changes. Nothing is written, so what fsyncs left behind the last checkpoint must not be there.
    pub read_only: bool,
}

impl F2fsOptions {
    /// Smallest page cache.
    pub const CACHE_PAGES_MIN: usize = pages::CACHE_PAGES_MIN;

    /// The limit that the dissertation's F2FS has for in-place updates, in pages of an fsync (§3.7).
    pub const IN_PLACE_BELOW: u32 = 16;

    /// The age threshold that Linux has: seven days, in seconds.
    pub const AGE_THRESHOLD: u64 = 7 * 24 * 3600;

    /// Pages that the cache policies treat as one flash block: a segment.
    pub(super) const FLASH_BLOCK_PAGES: u64 = SEGMENT_BLOCKS;
}

impl F2fsOptions {
    /// Blocks that the commit of all drafts together may change: a quarter of the page cache.
    pub(super) const fn draft_blocks_max(&self) -> usize {
        self.cache_pages / 4
    }

    /// # Errors
    /// [`FsError::Unsupported`] if pages cannot be written over their blocks as wanted.
    pub(super) fn check_in_place(&self, has_zones: bool, has_stage: bool) -> FsResult<()> {
        let reason = match (has_zones, has_stage, self.log_mode) {
            _ if self.in_place_below == 0 => return Ok(()),
            (true, ..) => "on a device with zones, which are written in order",
            (_, true, _) => "with a staging area, whose transactions name what new blocks hold",
            (_, _, LogMode::Lfs) => "with mode=lfs, which overwrites nothing",
            (false, false, LogMode::Adaptive) => return Ok(()),
        };
        Err(FsError::Unsupported(format!("in-place updates (ipu={}) {reason}; leave them out", self.in_place_below)))
    }
}

impl Default for F2fsOptions {
    /// 64 MiB of page cache under LRU, a checkpoint every 60 s, as Linux.
    fn default() -> F2fsOptions {
        F2fsOptions {
            cache_pages: 64 * 1024 * 1024 / PAGE_SIZE,
            cache_policy: PolicyKind::Lru,
            checkpoint_interval: Nanos::from_secs(60),
            prompt_writeback: false,
            fsync_mode: FsyncMode::default(),
            clean: Clean::default(),
            log_mode: LogMode::default(),
            in_place_below: 0,
            age_threshold: None,
            discard_stage: false,
            read_only: false,
        }
    }
}
