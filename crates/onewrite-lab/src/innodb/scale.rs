//! Scale: how large everything is. The head of [`super`] says where it comes from.

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 16 << 10;
/// Data files, a table each.
pub(super) const FILES: u64 = 20;
/// Pages of a file: 25 MiB.
pub(super) const FILE_PAGES: u64 = 1_600;
/// Pages in the pool: half of the data.
pub(super) const POOL_PAGES: usize = 16_000;
/// Bytes of the redo log.
pub(super) const LOG_BYTES: u64 = 4_915_200;
/// Transactions of all clients.
pub(super) const TRANSACTIONS: u32 = 50_000;

/// Pages of the doublewrite buffer.
pub(super) const BUFFER_PAGES: usize = 120;
/// Bytes of the doublewrite file: two extents of 1 MiB.
pub(super) const DOUBLEWRITE_BYTES: u64 = 2 << 20;
/// Pages of a batch of the cleaner, and frames at the cold end of the pool that it looks at: `innodb_lru_scan_depth`
/// 1,024 in each of eight instances, a twentieth of all, in whole buffers.
pub(super) const BATCH_PAGES: usize = 480;

/// Bytes of all files.
pub(crate) const BYTES: u64 = FILES * FILE_PAGES * PAGE_BYTES + LOG_BYTES + DOUBLEWRITE_BYTES;
/// Number of all files.
pub(crate) const INODES: u64 = FILES + 2;
