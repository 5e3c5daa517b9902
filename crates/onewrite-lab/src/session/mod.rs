//! Session: puts a device, a file system, options and a job together, runs them, and takes them apart again.
//!
//! ```text
//!   device ─► mkfs ─► counters to zero ─► mount ─► layout and job ─► unmount ─► figures ─► image, if asked for
//! ```
//!
//! # Invariants
//! - Figures cover the time from the end of mkfs to the end of the clean unmount, with the layout and the last
//!   checkpoint.
//! - On an emulated device time is virtual, and the same [`RunSpec`] gives the same
//!   [`RunResult`](crate::results::RunResult) to the byte.

mod crash;
mod cuts;
mod device;
mod files;
mod first_page;
mod format;
mod gather;
mod image;
mod judge;
mod recovery;
mod room;
mod run;
mod spec;
mod stack;

pub use crash::crash_workloads;
pub use cuts::try_cuts;
pub use device::{DEFAULT_BYTES, DeviceChoice, open_disk, view_disk};
pub use first_page::{FirstPage, Unfinished};
pub use format::{FormatOptions, Formatted, format, held_by, held_in, lazy_journal_bytes, plan_ext4, plan_f2fs};
pub use judge::{Judgement, Mended, Prospect, judge, mend, prospect};
pub(crate) use recovery::{Remounted, recovery_after, remount_after};
pub use run::{Extras, run};
pub use spec::{JobSpec, RunSpec};
pub use stack::{F2fsStack, Stack};
