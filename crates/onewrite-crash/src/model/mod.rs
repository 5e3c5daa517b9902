//! Model: what the tree has to be, in plain memory.
//!
//! [`Tree`] is a file system without a disk: names, files as pages, nothing else. [`Step`] is one atomic change of it,
//! as the head of the file system's operations states them. [`Listing`] is what a tree looks like from outside, in one
//! form for the model and for a recovered image, so that the two can be compared and their difference shown.

mod listing;
mod tree;

pub(crate) use listing::{FileAttributes, FileContent, Item, ItemKind, Listing};
pub(crate) use tree::{NewKind, NodeId, Step, Touched, Tree, by_pages, steps_of_allocation, steps_of_write};
