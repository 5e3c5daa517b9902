//! The mount from outside: real programs and system calls, its manners, and every way to end it.
//!
//! These tests need root and `/dev/fuse`; elsewhere each prints that it was skipped.

mod application;
mod atomic;
mod content;
mod databases;
mod ends;
mod f2fs;
mod kill;
mod manners;
mod marks;
mod names;
mod owners;
mod programs;
mod share;
mod sqlite;
mod support;
