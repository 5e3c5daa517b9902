//! One stream of seeded operations, applied to a model in memory, to our ext4 and to the kernel's: every step has the
//! same answer everywhere, and leaves the same tree.
//!
//! Paths consist of few names, so that steps meet and many fail: the error numbers are compared, too. Symbolic links
//! lead nowhere, so that paths through them end alike.
#![allow(dead_code, reason = "each test uses its part")]

pub mod entry;
pub mod kernel;
pub mod model;
pub mod model_file;
pub mod ours;
pub mod step;
