//! Translation layers as state machines: map, merges and erases. They run alone without content, or as a device.
//!
//! [`Fast`] and [`Bast`] are hybrid layers. FAST's log blocks take pages of all data blocks; each log block of BAST
//! takes pages of one data block. [`Dftl`] is a page-level layer with a bounded mapping cache. [`Open`] translates
//! nothing: the host writes flash blocks as zones. Each is a synchronous machine on a [`Flash`]. The flash keeps no
//! content, only the out-of-band area of every page: the kind of the page and its *version*. Every write of the host
//! takes a new version; moved pages keep theirs. A version stands for the content, so a test can ask for it.
//!
//! ```text
//!   host page ─► Ftl ─► Flash: read, program, erase ─► Clock (if time is asked for)
//!                         └─ power may go at any of them: PowerLost, then Ftl::recover
//! ```
//!
//! A write is durable when it returns (its area names it). A trim is durable when it returns (its record is on flash).
//! These machines have no write buffer; [`TimedFtl`] estimates the time that a buffer saves. [`FtlDevice`] is a layer
//! as a device for file systems: requests, a buffer, content, events, power cuts. Decision 026 compares them with the
//! event-driven SSD.

mod bast;
mod clock;
mod counters;
mod device;
mod dftl;
mod fast;
mod flash;
mod layer;
mod open;
mod rules;
mod timed;

pub use crate::address::{FlashBlock, Lpn, Ppn};
pub use bast::{Bast, BastPlan};
pub use counters::{FlashCounters, FtlCounters};
pub use device::FtlDevice;
pub use dftl::{Dftl, DftlPlan};
pub use fast::{Fast, FastPlan};
pub use flash::{Flash, PowerLost};
pub use layer::{Ftl, FtlPlan};
pub use open::{Open, OpenPlan};
pub use rules::{FtlRules, SoundFtl};
pub use timed::TimedFtl;
