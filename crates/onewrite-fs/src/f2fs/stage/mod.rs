//! The staging area of StageFS: a log of changed bytes outside the image, so that an fsync writes bytes, not pages.
//!
//! ```text
//!   image of F2FS │ label │ page │ page │ page │ …
//!                         └ transaction ┘ one for each round of fsyncs; a padding record ends it
//! ```
//!
//! A transaction says what changed since the one before: bytes of inodes and of pages, where whole pages were written
//! in the image, holes, inodes that are gone. It counts if each of its pages is there and has its checksum, so nothing
//! orders its writes. All transactions are bound to one checkpoint of the image: they continue it, and the next
//! checkpoint holds what they say.
//!
//! Source: Y. Lu, J. Shu, J. Zhang, "Mitigating Synchronous I/O Overhead in File Systems on Open-Channel SSDs", ACM TOS
//! 15(3), 2019, §3 and §4. `docs/decisions/087-stagefs.md` says what it leaves open and how it is closed here.

pub(super) mod area;
pub(super) mod format;
pub(super) mod merge;
pub(super) mod pending;
