//! File: an open file of a [`Volume`](super::Volume).

use std::sync::Arc;

use onewrite_fs::{
    AttributeChanges, Attributes, Content, FileSystem, FileView, FsError, Ino, Manner, Position, SharePages, ShareRange,
};

use super::core::Core;
use super::error::VolumeError;

/// What `stat` tells.
pub type Metadata = Attributes;

/// An open file. It lives without a name until this is dropped.
pub struct File {
    core: Arc<Core>,
    ino: Ino,
}

impl File {
    /// Takes over one open of `ino`.
    pub(super) const fn new(core: Arc<Core>, ino: Ino) -> File {
        File { core, ino }
    }

    /// The inode, for a call of the volume of `core`.
    pub(super) fn ino_on(&self, core: &Arc<Core>) -> Result<Ino, VolumeError> {
        match Arc::ptr_eq(&self.core, core) {
            true => Ok(self.ino),
            false => Err(FsError::Invalid("a draft of one volume cannot claim a file of another".to_owned()).into()),
        }
    }

    /// Up to `length` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// A damaged image, a device that fails.
    pub fn read_at(&self, offset: u64, length: u64) -> Result<Vec<u8>, VolumeError> {
        let ino = self.ino;
        self.core.call(async move |fs| Ok(fs.read(ino, offset, length, Manner::default()).await?.to_vec()))
    }

    /// Writes `bytes` at `offset`. Up to [`onewrite_fs::WRITE_STEP_BYTES`] are one step.
    ///
    /// # Errors
    /// No space, a device that fails, a volume that is read-only.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        self.write(Position::At(offset), bytes).map(drop)
    }

    /// Writes `bytes` behind the end of the file, and returns where they begin.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn append(&self, bytes: &[u8]) -> Result<u64, VolumeError> {
        self.write(Position::End, bytes)
    }

    fn write(&self, position: Position, bytes: &[u8]) -> Result<u64, VolumeError> {
        let (ino, bytes) = (self.ino, bytes.to_vec());
        self.core.call(async move |fs| fs.write(ino, position, Content::Bytes(&bytes), Manner::default()).await)
    }

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn set_size(&self, size: u64) -> Result<(), VolumeError> {
        let ino = self.ino;
        let changes = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
        self.core.call(async move |fs| fs.set_attributes(ino, changes).await)
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// A damaged image.
    pub fn metadata(&self) -> Result<Metadata, VolumeError> {
        let ino = self.ino;
        self.core.call(async move |fs| fs.attributes(ino).await)
    }

    /// Makes content, attributes and the name it was created under durable.
    ///
    /// # Errors
    /// If the device fails: what was written since the last sync may be lost.
    pub fn sync(&self) -> Result<(), VolumeError> {
        let ino = self.ino;
        self.core.call(async move |fs| fs.fsync(ino).await)
    }

    /// Makes the content durable, and what is needed to read it.
    ///
    /// # Errors
    /// As [`File::sync`].
    pub fn sync_data(&self) -> Result<(), VolumeError> {
        let ino = self.ino;
        self.core.call(async move |fs| fs.fdatasync(ino).await)
    }
}

/// A range of [`Volume::share`](super::Volume::share). All numbers are bytes and multiples of 4096.
#[derive(Clone, Copy)]
pub struct SharedRange<'a> {
    /// The file whose content is taken.
    pub source: &'a File,
    /// First byte there.
    pub source_offset: u64,
    /// The file that changes.
    pub target: &'a File,
    /// First byte there.
    pub target_offset: u64,
    /// Length.
    pub length: u64,
}

/// See [`Volume::share`](super::Volume::share).
pub(super) fn share(core: &Arc<Core>, ranges: &[SharedRange<'_>]) -> Result<(), VolumeError> {
    let is_here = |file: &File| Arc::ptr_eq(&file.core, core);
    if !ranges.iter().all(|range| is_here(range.source) && is_here(range.target)) {
        let text = "a file of another volume cannot be shared: copy its content";
        return Err(FsError::Invalid(text.to_owned()).into());
    }
    let range = |range: &SharedRange<'_>| ShareRange {
        source: range.source.ino,
        source_offset: range.source_offset,
        target: range.target.ino,
        target_offset: range.target_offset,
        length: range.length,
    };
    let ranges: Vec<ShareRange> = ranges.iter().map(range).collect();
    core.call(async move |fs| fs.share(&ranges).await)
}

impl Drop for File {
    /// An error has nobody to go to; the next call of the volume meets it again.
    fn drop(&mut self) {
        let ino = self.ino;
        let _ = self.core.call(async move |fs| fs.release(ino).await);
    }
}
