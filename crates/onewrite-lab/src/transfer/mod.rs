//! Transfer: files and trees between the host and file systems, and lists of what is there.
//!
//! Content, kinds, holes, symbolic and hard links, times and `user.` attributes always go over; into a file system also
//! owners, all permission bits, access control lists and the other extended attributes, to the host only where that is
//! asked for ([`Keep`]). What does not go over is [`Left`], and told.

mod copy_in;
mod copy_out;
mod directories;
mod host_tree;
mod left;
mod paths;
mod remove;
mod settle;
mod source;
mod weigh;

use onewrite_fs::{Attributes, DirectoryEntry, FileKind, FileView, FsError, FsResult, Ino};

use crate::error::LabError;

pub use copy_in::CopyIn;
pub use copy_out::CopyOut;
pub use host_tree::{HostNode, HostTree};
pub use left::{Left, LeftOut};
pub use remove::remove;
pub use settle::Keep;
pub use source::{Entries, Identity, Source, Tree};
pub use weigh::{Weight, weigh};

/// Bytes moved at a time.
const CHUNK: usize = 1 << 20;

/// Sees how far a transfer is, and may stop it: progress bars and interruptions come in here.
pub trait Watcher {
    /// So many more bytes of content were moved (0: an entry is about to be). Called between chunks, so often that a
    /// stop feels immediate.
    ///
    /// # Errors
    /// [`LabError::Stopped`], or any other reason to end here: what is half copied is removed, what is whole stays.
    fn moved(&mut self, bytes: u64) -> Result<(), LabError>;
}

/// Nobody watches.
impl Watcher for () {
    fn moved(&mut self, _bytes: u64) -> Result<(), LabError> {
        Ok(())
    }
}

/// What was transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, pipes, sockets, device nodes and further names of files.
    pub others: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// An entry of a directory with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub attributes: Attributes,
    /// Content, if it is a symbolic link.
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

/// What is known of `ino`, which goes by `name`.
///
/// # Errors
/// As [`FileView::attributes`].
pub async fn look<F: FileView>(fs: &F, name: Vec<u8>, ino: Ino) -> FsResult<Listed> {
    let attributes = fs.attributes(ino).await?;
    let target = match attributes.kind {
        FileKind::Symlink => match fs.read_link(ino).await {
            // An encrypted link is there, even if nobody can tell where it leads.
            Err(FsError::Unsupported(_)) => None,
            target => Some(target?),
        },
        _ => None,
    };
    Ok(Listed { name, attributes, target })
}
