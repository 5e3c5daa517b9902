//! Metadata: what `stat` tells, for Python.

use onewrite_fs::{FileKind, Timestamp};
use pyo3::prelude::*;

/// What is known of a file or directory of an image.
#[pyclass(frozen, get_all, module = "onewrite._native")]
pub(crate) struct Metadata {
    /// Inode number.
    ino: u64,
    /// "file", "directory", "link" or "other".
    kind: &'static str,
    /// Size in bytes.
    size: u64,
    /// Type and permissions, as `st_mode`.
    mode: u32,
    /// Number of names.
    nlink: u32,
    /// Owner.
    uid: u32,
    /// Group.
    gid: u32,
    /// Last read, in seconds since 1970.
    atime: f64,
    /// Last change of content, in seconds since 1970.
    mtime: f64,
    /// Last change of anything, in seconds since 1970.
    ctime: f64,
    /// Creation, in seconds since 1970; `None` where the image does not keep it.
    created: Option<f64>,
}

impl From<onewrite_host::Metadata> for Metadata {
    fn from(found: onewrite_host::Metadata) -> Metadata {
        Metadata {
            ino: found.ino.0,
            kind: kind(found.kind),
            size: found.size,
            mode: found.kind.type_bits() | u32::from(found.permissions),
            nlink: found.links,
            uid: found.uid,
            gid: found.gid,
            atime: seconds(found.accessed),
            mtime: seconds(found.modified),
            ctime: seconds(found.changed),
            created: found.created.map(seconds),
        }
    }
}

/// The word that fsspec has for it.
const fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        _ => "other",
    }
}

fn seconds(time: Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanoseconds) / 1e9
}
