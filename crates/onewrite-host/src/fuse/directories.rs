//! Directories: listing, with or without attributes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{ReplyDirectory, ReplyDirectoryPlus};
use onewrite_fs::{Attributes, DirectoryEntry, FsResult, Ino};

use super::convert::{Answer, file_type, generation};
use super::server::{Mountable, Server};

impl<F: Mountable> Server<F> {
    /// Fills `reply` with entries from `cursor` on.
    pub(super) async fn list(&self, directory: Ino, mut cursor: u64, reply: &mut ReplyDirectory) -> Answer<()> {
        loop {
            let entries = self.fs.read_directory(directory, cursor).await?;
            for entry in &entries {
                let number = self.numbers.outside(entry.ino);
                if reply.add(number, entry.next, file_type(entry.kind), OsStr::from_bytes(&entry.name)) {
                    return Ok(());
                }
            }
            match entries.last() {
                Some(last) => cursor = last.next,
                None => return Ok(()),
            }
        }
    }

    /// Like [`Server::list`], with attributes. The kernel counts a lookup of each entry but `.` and `..`.
    pub(super) async fn list_attributes(
        &self,
        directory: Ino,
        mut cursor: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Answer<()> {
        loop {
            let entries = self.fs.read_directory(directory, cursor).await?;
            for entry in &entries {
                let (attributes, time_to_live) = self.attributes_of(directory, entry).await?;
                let attr = self.numbers.attributes(&attributes);
                let name = OsStr::from_bytes(&entry.name);
                if reply.add(attr.ino, entry.next, name, &time_to_live, &attr, generation(&attributes)) {
                    return Ok(());
                }
                if entry.name != b"." && entry.name != b".." {
                    self.known.looked_up(entry.ino);
                    self.note_name(entry.ino, &entry.name);
                }
            }
            match entries.last() {
                Some(last) => cursor = last.next,
                None => return Ok(()),
            }
        }
    }

    /// The attributes to list with an entry, and how long the kernel may cache them. The kernel uses only the number of
    /// `..`, so the parent is not read. An unreadable inode is listed with stand-in attributes; using it fails.
    async fn attributes_of(&self, directory: Ino, entry: &DirectoryEntry) -> FsResult<(Attributes, Duration)> {
        let ino = if entry.name == b".." { directory } else { entry.ino };
        match self.fs.attributes(ino).await {
            Ok(found) => {
                let (time_to_live, found) = self.shown(&found);
                Ok((Attributes { ino: entry.ino, ..found }, time_to_live))
            }
            Err(error) => {
                tracing::error!("{}: {error}", String::from_utf8_lossy(&entry.name));
                let stand_in = self.fs.attributes(directory).await?;
                Ok((Attributes { ino: entry.ino, kind: entry.kind, ..stand_in }, Duration::ZERO))
            }
        }
    }
}
