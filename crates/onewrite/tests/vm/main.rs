//! Linux judges our images, and we judge Linux's, in a virtual machine: `make vm`.
//!
//! The machine runs a kernel of a distribution, with F2FS; nothing but QEMU in software is asked of the host. Without
//! the variable `ONEWRITE_VM_KERNEL`, which the make target sets, every case says that it is skipped. Mounts of ours
//! need root and `/dev/fuse`. docs/vm.md has the cases and their last result.
//!
//! ```text
//!   clean.rs      images that are unmounted            forward.rs   ours is stopped, Linux recovers
//!   back.rs       Linux is stopped, ours recovers      parity.rs    bytes and FLUSHes
//! ```

mod archive;
mod back;
mod clean;
mod disk;
mod forward;
mod guest;
mod listing;
mod machine;
mod parity;
mod place;
mod populate;
mod work;
