//! Directory: the names of a directory, one after the other.

use std::vec::IntoIter;

use onewrite_fs::{DirectoryEntry, FileKind};
use onewrite_host::Volume;

use crate::failure::Failure;
use crate::types::{OW_NAME_MAX, ow_dirent};

/// An open directory: the names that it had when it was opened.
pub(crate) struct OpenDirectory {
    entries: IntoIter<DirectoryEntry>,
    current: ow_dirent,
}

impl OpenDirectory {
    /// Reads the directory at `path`.
    ///
    /// # Errors
    /// A missing path, something that is no directory.
    pub(crate) fn open(volume: &Volume, path: &[u8]) -> Result<OpenDirectory, Failure> {
        let entries = volume.read_directory(path)?.into_iter();
        Ok(OpenDirectory { entries, current: ow_dirent::default() })
    }

    /// The next name, until `None`.
    pub(crate) fn next(&mut self) -> Option<&ow_dirent> {
        let entry = self.entries.next()?;
        self.current = ow_dirent { ino: entry.ino.0, kind: kind(entry.kind), ..ow_dirent::default() };
        let name = entry.name.iter().take(OW_NAME_MAX);
        self.current.name.iter_mut().zip(name).for_each(|(place, byte)| *place = *byte as _);
        Some(&self.current)
    }
}

/// The type as in `d_type` of readdir(3).
const fn kind(kind: FileKind) -> u8 {
    match kind {
        FileKind::Fifo => 1,
        FileKind::CharacterDevice => 2,
        FileKind::Directory => 4,
        FileKind::BlockDevice => 6,
        FileKind::Regular => 8,
        FileKind::Symlink => 10,
        FileKind::Socket => 12,
    }
}
