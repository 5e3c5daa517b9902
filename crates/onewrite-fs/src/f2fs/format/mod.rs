//! The F2FS disk format: bytes in, structures out. No I/O, no state, no policy.
//!
//! ```text
//!   superblock (2 copies) │ checkpoint (2 packs) │ SIT (2 copies of each block) │ NAT (the same) │ SSA │ main area
//! ```
//!
//! Everything that changes is found from the newer sound checkpoint pack. The main area has segments of 512 blocks.
//! A file is a tree of nodes; nodes name each other by number ([`Nid`]), and the NAT says where each lies. Blocks of
//! content are named by address. Each module opens with the layout it knows; `docs/f2fs.md` says the sources. No
//! function trusts the bytes: a damaged structure gives a [`FormatError`] that names structure, place and problem.

pub mod address;
pub mod checkpoint;
pub mod dentry;
pub mod error;
pub mod features;
pub mod hash;
pub mod inode;
pub mod layout;
pub mod nat;
pub mod new_inode;
pub mod node;
pub mod orphan;
pub mod path;
pub mod sit;
pub mod summary;
pub mod superblock;
pub mod xattr;

pub use address::{DataAddress, Nid, SegmentNo};
pub use checkpoint::Checkpoint;
pub use error::{FormatError, Place, Problem};
pub use features::Features;
pub use inode::Inode;
pub use layout::Layout;
pub use path::NodePath;
