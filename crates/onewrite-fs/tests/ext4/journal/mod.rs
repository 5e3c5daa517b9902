//! What the journal promises, one promise a test: on a disk alone, without a file system above it.

mod checkpoint;
mod late;
mod log_space;
mod recovery;
mod rig;
mod trimming;
