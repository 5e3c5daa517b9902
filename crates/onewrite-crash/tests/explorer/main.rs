//! The explorer over sound file systems, over broken ones (canaries) and over a toy, in one program: so explorers and
//! file systems are compiled once.

#[path = "../support/mod.rs"]
mod support;

mod application;
mod conduct;
mod crash;
mod devices;
mod drafts;
mod every_operation;
mod ext4_canaries;
mod f2fs;
mod f2fs_canaries;
mod f2fs_cleaning;
mod f2fs_drafts;
mod faults;
mod full_log;
mod lives;
mod marks;
mod mounted;
mod no_room;
mod padding;
mod shares;
mod side_by_side;
mod sparse;
mod stage;
mod swarm;
mod toy;
mod truncation;
mod zones;
