//! The commands, one file each. The commands that read images share one file, and those that change names another.

pub mod cache;
pub mod change;
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
pub mod mount;
pub mod names;
pub mod paper;
pub mod probe;
pub mod run;
pub mod stats;
pub mod stdin;
pub mod trace;
