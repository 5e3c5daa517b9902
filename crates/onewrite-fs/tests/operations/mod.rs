//! One stream of seeded operations for a model in memory, our ext4 and the kernel's ext4. Every operation gives the
//! same answer and the same tree in all of them.
//!
//! Paths consist of few names, so operations touch the same files and many fail; the tests also compare error numbers.
//! Symbolic links have no target, so paths through them fail in the same way.
#![allow(dead_code, reason = "each test uses its part")]

pub mod entry;
pub mod kernel;
pub mod model;
pub mod model_file;
pub mod operation;
pub mod ours;
pub mod tasks;
