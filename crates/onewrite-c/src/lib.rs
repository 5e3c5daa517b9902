//! The C door: an image in the process of a C program, by calls in the manner of POSIX. `docs/c.md` shows it in use.
//!
//! The functions of [`door`] and [`drafts`] turn C's pointers into Rust's references and call safe code; no other file
//! has unsafe code. The header `include/onewrite.h` is made from these two and `types.rs` (`tests/header.rs`).
//!
//! # Invariants
//! - No panic crosses the boundary: it becomes EIO.
//! - A call that fails says so by its result, sets errno, and leaves its text for [`door::ow_last_error`].
#![deny(unreachable_pub)]

mod directory;
pub mod door;
pub mod drafts;
mod failure;
mod file;
mod options;
pub mod types;
