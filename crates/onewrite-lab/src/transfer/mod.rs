//! Transfer: files and trees between the host and a file system, and lists of what is there.
//!
//! Content, kinds, permissions, owners, times, symbolic and hard links go over; extended attributes do not (the
//! file-system API has none yet). Holes stay holes where a whole chunk is zeros.

mod copy_in;
mod copy_out;

use onewrite_fs::{Attributes, DirectoryEntry, FileKind, FileSystem, FsResult, Ino};

pub use copy_in::copy_in;
pub use copy_out::copy_out;

/// Bytes moved at a time.
const CHUNK: usize = 1 << 20;

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
/// As [`FileSystem::read_directory`].
pub async fn entries<F: FileSystem>(fs: &F, directory: Ino) -> FsResult<Vec<DirectoryEntry>> {
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
/// As [`FileSystem::attributes`].
pub async fn list<F: FileSystem>(fs: &F, directory: Ino) -> FsResult<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in entries(fs, directory).await? {
        listed.push(look(fs, entry.name, entry.ino).await?);
    }
    Ok(listed)
}

/// What is known of `ino`, which goes by `name`.
///
/// # Errors
/// As [`FileSystem::attributes`].
pub async fn look<F: FileSystem>(fs: &F, name: Vec<u8>, ino: Ino) -> FsResult<Listed> {
    let attributes = fs.attributes(ino).await?;
    let target = match attributes.kind {
        FileKind::Symlink => Some(fs.read_link(ino).await?),
        _ => None,
    };
    Ok(Listed { name, attributes, target })
}
