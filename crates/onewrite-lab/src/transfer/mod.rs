//! Transfer: copies files and trees between the host and file systems, and lists entries.
//!
//! Content, kinds, holes, symbolic and hard links, times and `user.` attributes are always copied. Owners, all
//! permission bits, access control lists and the other extended attributes are copied into a file system, and to the
//! host only on request ([`Keep`]). [`Left`] lists what is not copied.

mod copy_in;
mod copy_out;
mod directories;
mod host_tree;
mod left;
mod metadata;
mod paths;
mod remove;
mod source;
mod weigh;

use onewrite_fs::{Attributes, DirectoryEntry, FileKind, FileView, FsError, FsResult, Ino};

use crate::error::LabError;

pub use copy_in::{CopyIn, Origin};
pub use copy_out::CopyOut;
pub use host_tree::{HostNode, HostTree};
pub use left::{Left, LeftOut};
pub use metadata::Keep;
pub use remove::remove;
pub use source::{Entries, Identity, Source, Tree};
pub use weigh::{Weight, weigh};

/// Most bytes moved at a time.
const CHUNK: usize = 1 << 20;

/// Watches the progress of a transfer and may stop it; progress bars and interruptions use it.
pub trait Watcher {
    /// `bytes` more bytes of content were moved; 0 means that an entry begins. Called between chunks, often enough that
    /// a stop seems immediate.
    ///
    /// # Errors
    /// [`LabError::Stopped`], or any other reason to end the transfer. Incomplete copies are removed; complete ones
    /// stay.
    fn moved(&mut self, bytes: u64) -> Result<(), LabError>;
}

/// No watcher.
impl Watcher for () {
    fn moved(&mut self, _bytes: u64) -> Result<(), LabError> {
        Ok(())
    }
}

/// Number of entries and bytes transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, pipes, sockets, device nodes and second names of files.
    pub others: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// An entry of a directory with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: Vec<u8>,
    /// Its attributes.
    pub attributes: Attributes,
    /// Where it leads, if it is a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// The entries of `directory` without `.` and `..`, by name.
///
/// # Errors
/// As [`FileView::read_directory`].
pub async fn entries<F: FileView>(fs: &F, directory: Ino) -> FsResult<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    let mut cursor = 0;
    loop {
        let part = fs.read_directory(directory, cursor).await?;
        let Some(last) = part.last() else { break };
        cursor = last.next;
        entries.extend(part.into_iter().filter(|entry| entry.name != b"." && entry.name != b".."));
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// [`entries`] with attributes.
///
/// # Errors
/// As [`FileView::attributes`].
pub async fn list<F: FileView>(fs: &F, directory: Ino) -> FsResult<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in entries(fs, directory).await? {
        listed.push(look(fs, entry.name, entry.ino).await?);
    }
    Ok(listed)
}

/// Attributes of `ino`, whose name is `name`.
///
/// # Errors
/// As [`FileView::attributes`].
pub async fn look<F: FileView>(fs: &F, name: Vec<u8>, ino: Ino) -> FsResult<Listed> {
    let attributes = fs.attributes(ino).await?;
    let target = match attributes.kind {
        FileKind::Symlink => match fs.read_link(ino).await {
            // An encrypted link is listed, although its target is unknown.
            Err(FsError::Unsupported(_)) => None,
            target => Some(target?),
        },
        _ => None,
    };
    Ok(Listed { name, attributes, target })
}
