//! The commands, one file each (`ls`, `cat` and `tree` share one).

pub mod cache;
pub mod compare;
pub mod cp;
pub mod crash;
pub mod device;
pub mod fsck;
pub mod host;
pub mod job;
mod layer;
pub mod look;
pub mod mkfs;
pub mod paper;
pub mod probe;
pub mod run;
pub mod trace;
