//! Doors: the ways from the host's programs to a file system of Onewrite. There is one today, the FUSE mount
//! ([`fuse`]).

pub mod fuse;
