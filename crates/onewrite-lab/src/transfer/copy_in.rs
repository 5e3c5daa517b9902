//! From the host into a file system.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use onewrite_fs::{
    AttributeChanges, Content, FileKind, FileSystem, FsError, FsResult, Ino, Manner, NewNode, Position, Timestamp,
};

use super::{CHUNK, Transferred};
use crate::error::LabError;

/// Copies `source` and all below it into `directory` under `name`; existing directories are merged, existing files
/// replaced. With no `name`, the content of the directory `source` goes into `directory` itself.
///
/// # Errors
/// A host file that cannot be read, by its path; or whatever the file system says.
pub async fn copy_in<F: FileSystem>(
    fs: &F,
    source: &Path,
    directory: Ino,
    name: Option<&[u8]>,
) -> Result<Transferred, LabError> {
    let mut copy = CopyIn { fs, links: BTreeMap::new(), made: Vec::new(), transferred: Transferred::default() };
    let mut pending = Vec::new();
    match name {
        Some(name) => copy.entry(source.to_owned(), directory, name, &mut pending).await?,
        None => copy.children(source, directory, &mut pending)?,
    }
    while let Some((path, parent)) = pending.pop() {
        let name = path.file_name().expect("an entry of a directory has a name").as_bytes().to_vec();
        copy.entry(path, parent, &name, &mut pending).await?;
    }
    copy.finish_directories().await?;
    Ok(copy.transferred)
}

struct CopyIn<'a, F> {
    fs: &'a F,
    /// Files with several names: device and inode of the host.
    links: BTreeMap<(u64, u64), Ino>,
    /// Directories made; their times are set last, since what goes into them changes them.
    made: Vec<(Ino, Metadata)>,
    transferred: Transferred,
}

fn unreadable(path: &Path, error: &std::io::Error) -> LabError {
    LabError::ReadFile { path: path.display().to_string(), message: error.to_string() }
}

impl<F: FileSystem> CopyIn<'_, F> {
    fn children(&self, path: &Path, ino: Ino, pending: &mut Vec<(PathBuf, Ino)>) -> Result<(), LabError> {
        let failed = |error| unreadable(path, &error);
        let mut children = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            children.push(entry.map_err(failed)?.path());
        }
        children.sort_unstable_by(|a, b| b.cmp(a));
        pending.extend(children.into_iter().map(|child| (child, ino)));
        Ok(())
    }

    async fn entry(
        &mut self,
        path: PathBuf,
        parent: Ino,
        name: &[u8],
        pending: &mut Vec<(PathBuf, Ino)>,
    ) -> Result<(), LabError> {
        let metadata = std::fs::symlink_metadata(&path).map_err(|error| unreadable(&path, &error))?;
        let identity = (metadata.dev(), metadata.ino());
        if let Some(&known) = self.links.get(&identity) {
            self.transferred.others += 1;
            return Ok(self.fs.link(known, parent, name).await?);
        }
        let ino = match kind_of(&metadata) {
            FileKind::Directory => {
                let ino = self.directory(parent, name, &metadata).await?;
                self.children(&path, ino, pending)?;
                return Ok(());
            }
            FileKind::Symlink => {
                let target = std::fs::read_link(&path).map_err(|error| unreadable(&path, &error))?;
                self.transferred.others += 1;
                self.fs.symlink(parent, name, target.as_os_str().as_bytes()).await?
            }
            kind => self.node(&path, parent, name, (kind, &metadata)).await?,
        };
        if metadata.nlink() > 1 {
            self.links.insert(identity, ino);
        }
        Ok(self.fs.set_attributes(ino, changes(&metadata)).await?)
    }

    async fn directory(&mut self, parent: Ino, name: &[u8], metadata: &Metadata) -> FsResult<Ino> {
        let ino = match self.fs.create(parent, name, node(FileKind::Directory, metadata)).await {
            Err(FsError::Exists(_)) => self.fs.lookup(parent, name).await?,
            other => other?,
        };
        self.transferred.directories += 1;
        self.made.push((ino, metadata.clone()));
        Ok(ino)
    }

    async fn node(
        &mut self,
        path: &Path,
        parent: Ino,
        name: &[u8],
        (kind, metadata): (FileKind, &Metadata),
    ) -> Result<Ino, LabError> {
        let made = match self.fs.create(parent, name, node(kind, metadata)).await {
            Err(FsError::Exists(_)) => {
                self.fs.unlink(parent, name).await?;
                self.fs.create(parent, name, node(kind, metadata)).await
            }
            other => other,
        };
        let ino = made?;
        if kind != FileKind::Regular {
            self.transferred.others += 1;
            return Ok(ino);
        }
        self.transferred.files += 1;
        self.content(path, ino).await?;
        Ok(ino)
    }

    async fn content(&mut self, path: &Path, ino: Ino) -> Result<(), LabError> {
        let failed = |error| unreadable(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let mut buffer = Vec::with_capacity(CHUNK);
        let mut offset = 0;
        loop {
            buffer.clear();
            let length = file.by_ref().take(CHUNK as u64).read_to_end(&mut buffer).map_err(failed)? as u64;
            if length == 0 {
                break;
            }
            if buffer.iter().any(|byte| *byte != 0) {
                self.fs.write(ino, Position::At(offset), Content::Bytes(&buffer), Manner::default()).await?;
            }
            offset += length;
        }
        self.transferred.bytes += offset;
        let size = AttributeChanges { size: Some(offset), ..AttributeChanges::default() };
        Ok(self.fs.set_attributes(ino, size).await?)
    }

    async fn finish_directories(&mut self) -> FsResult<()> {
        for (ino, metadata) in self.made.drain(..).rev() {
            self.fs.set_attributes(ino, changes(&metadata)).await?;
        }
        Ok(())
    }
}

fn kind_of(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_symlink() => FileKind::Symlink,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() => FileKind::CharacterDevice,
        () if kind.is_block_device() => FileKind::BlockDevice,
        () => FileKind::Regular,
    }
}

fn node(kind: FileKind, metadata: &Metadata) -> NewNode {
    NewNode {
        kind,
        permissions: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        device: device_numbers(metadata.rdev()),
    }
}

/// Major and minor number as Linux packs them into 64 bits.
const fn device_numbers(packed: u64) -> (u32, u32) {
    let major = (packed >> 8 & 0xfff) | (packed >> 32 & !0xfff);
    let minor = (packed & 0xff) | (packed >> 12 & !0xff);
    (major as u32, minor as u32)
}

fn changes(metadata: &Metadata) -> AttributeChanges {
    let permissions = (!metadata.file_type().is_symlink()).then_some((metadata.mode() & 0o7777) as u16);
    AttributeChanges {
        permissions,
        uid: Some(metadata.uid()),
        gid: Some(metadata.gid()),
        size: None,
        accessed: Some(timestamp(metadata.atime(), metadata.atime_nsec())),
        modified: Some(timestamp(metadata.mtime(), metadata.mtime_nsec())),
    }
}

const fn timestamp(seconds: i64, nanoseconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: nanoseconds as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_unpacked_as_linux_packs_them() {
        assert_eq!(device_numbers(0x0801), (8, 1));
        assert_eq!(device_numbers(0x0010_3005), (0x030, 0x105));
    }
}
