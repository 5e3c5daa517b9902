//! The mount from outside: real programs and system calls on it, its manners, and its end by every way there is.
//!
//! These tests need root and `/dev/fuse`; elsewhere each says loudly that it was skipped.

mod content;
mod kill;
mod manners;
mod names;
mod owners;
mod programs;
mod support;
