//! Model: the expected tree, in plain memory.
//!
//! [`Tree`] is a file system without a disk: names, and files as pages. [`Step`] is one atomic change of it, as the
//! file system's operations document it. [`Listing`] is the outside view of a tree. The model and a recovered image
//! have the same form of listing, so that the two can be compared and their difference shown.

mod given;
mod listing;
mod pages;
mod shared;
mod steps;
mod tree;

pub(crate) use listing::{Entry, FileAttributes, FileContent, Item, ItemKind, Listing};
pub(crate) use steps::{Met, by_pages, steps_of_allocation, steps_of_write};
pub(crate) use tree::{NewKind, NodeId, SharedPages, Step, Touched, Tree};
