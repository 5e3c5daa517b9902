//! Translation layers as state machines: map, merges and erases. They run alone, without content, or as a device.
//!
//! [`Fast`] and [`Bast`] are hybrid layers: FAST's log blocks take pages of all data blocks, each of BAST's those of
//! one. [`Dftl`] is a page-level layer with a bounded mapping cache. Each is a synchronous machine on a [`Flash`] that
//! keeps no content, but the out-of-band area of every page: what the page holds and its *version*. Every write of the
//! host takes a new version, moved pages keep theirs. A version stands for the content, so a test can ask for it back.
//!
//! ```text
//!   host page ─► Ftl ─► Flash: read, program, erase ─► Clock (if time is asked for)
//!                         └─ power may go at any of them: PowerLost, then Ftl::recover
//! ```
//!
//! Durable: a write when it returns (its area names it), a trim when it returns (its record is on flash). These
//! machines have no write buffer; [`TimedFtl`] estimates what one does to time. [`FtlDevice`] is a layer as a device
//! that file systems run on: requests, a buffer, content, events, power cuts. Decision 026 compares them with the
//! event-driven SSD.

mod bast;
mod clock;
mod counters;
mod device;
mod dftl;
mod fast;
mod flash;
mod layer;
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
pub use rules::{FtlRules, SoundFtl};
pub use timed::TimedFtl;
