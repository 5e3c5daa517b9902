//! Doors: how programs of the host reach a file system of Onewrite. Today there is one, the FUSE mount ([`fuse`]).

pub mod fuse;
