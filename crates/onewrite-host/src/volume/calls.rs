//! What the calls of a volume and of its drafts that take paths do, on its core.
//!
//! Nothing here is generic. So each call is compiled once, in this crate: whoever calls it would else compile the file
//! systems that it enters anew, for some twenty seconds.

use onewrite_fs::api::{resolve, split_path};
use onewrite_fs::{
    AtomicFiles, AttributeChanges, DirectoryEntry, DraftId, FileSystem, FileView, Ino, NewNode, RenameManner,
};

use super::core::Core;
use super::error::VolumeError;
use super::file::Metadata;
use super::paths::{followed, found_or_made, made};

type PathBytes = Vec<u8>;

/// [`super::Volume`]'s.
impl Core {
    pub(super) fn open(&self, path: PathBytes) -> Result<Ino, VolumeError> {
        self.call(async move |fs| {
            let ino = resolve(&*fs, &followed(&*fs, path).await?).await?;
            fs.open(ino).await.map(|()| ino)
        })
    }

    pub(super) fn create(&self, path: PathBytes, node: NewNode) -> Result<Ino, VolumeError> {
        self.call(async move |fs| {
            let ino = made(&*fs, &path, node).await?;
            fs.open(ino).await.map(|()| ino)
        })
    }

    pub(super) fn open_or_create(&self, path: PathBytes, node: NewNode) -> Result<Ino, VolumeError> {
        self.call(async move |fs| found_or_made(&*fs, path, node).await)
    }

    pub(super) fn make(&self, path: PathBytes, node: NewNode) -> Result<(), VolumeError> {
        self.call(async move |fs| made(&*fs, &path, node).await.map(drop))
    }

    pub(super) fn link(&self, path: PathBytes, link: PathBytes) -> Result<(), VolumeError> {
        self.call(async move |fs| {
            let (directory, name) = split_path(&link)?;
            fs.link(resolve(&*fs, &path).await?, resolve(&*fs, directory).await?, name).await
        })
    }

    pub(super) fn symlink(&self, path: PathBytes, target: Vec<u8>) -> Result<(), VolumeError> {
        self.call(async move |fs| {
            let (directory, name) = split_path(&path)?;
            fs.symlink(resolve(&*fs, directory).await?, name, &target).await.map(drop)
        })
    }

    pub(super) fn read_link(&self, path: PathBytes) -> Result<Vec<u8>, VolumeError> {
        self.call(async move |fs| fs.read_link(resolve(&*fs, &path).await?).await)
    }

    pub(super) fn remove(&self, path: PathBytes) -> Result<(), VolumeError> {
        self.call(async move |fs| {
            let (directory, name) = split_path(&path)?;
            fs.unlink(resolve(&*fs, directory).await?, name).await
        })
    }

    pub(super) fn remove_directory(&self, path: PathBytes) -> Result<(), VolumeError> {
        self.call(async move |fs| {
            let (directory, name) = split_path(&path)?;
            fs.remove_directory(resolve(&*fs, directory).await?, name).await
        })
    }

    pub(super) fn rename(&self, from: PathBytes, to: PathBytes, manner: RenameManner) -> Result<(), VolumeError> {
        self.call(async move |fs| {
            let (from_directory, from_name) = split_path(&from)?;
            let (to_directory, to_name) = split_path(&to)?;
            let from = (resolve(&*fs, from_directory).await?, from_name);
            let to = (resolve(&*fs, to_directory).await?, to_name);
            fs.rename(from, to, manner).await
        })
    }

    pub(super) fn metadata(&self, path: PathBytes) -> Result<Metadata, VolumeError> {
        self.call(async move |fs| fs.attributes(resolve(&*fs, &path).await?).await)
    }

    pub(super) fn metadata_followed(&self, path: PathBytes) -> Result<Metadata, VolumeError> {
        self.call(async move |fs| fs.attributes(resolve(&*fs, &followed(&*fs, path).await?).await?).await)
    }

    pub(super) fn set_attributes(&self, path: PathBytes, changes: AttributeChanges) -> Result<(), VolumeError> {
        self.call(async move |fs| fs.set_attributes(resolve(&*fs, &followed(&*fs, path).await?).await?, changes).await)
    }

    /// The names without `.` and `..`.
    pub(super) fn read_directory(&self, path: PathBytes) -> Result<Vec<DirectoryEntry>, VolumeError> {
        self.call(async move |fs| {
            let directory = resolve(&*fs, &followed(&*fs, path).await?).await?;
            let (mut entries, mut cursor) = (Vec::new(), 0);
            loop {
                let some = fs.read_directory(directory, cursor).await?;
                let Some(last) = some.last() else { return Ok(entries) };
                cursor = last.next;
                entries.extend(some.into_iter().filter(|entry| entry.name != b"." && entry.name != b".."));
            }
        })
    }
}

/// [`super::Draft`]'s.
impl Core {
    pub(super) fn claim(&self, id: DraftId, path: PathBytes) -> Result<Ino, VolumeError> {
        self.call(async move |fs| {
            let ino = resolve(&*fs, &followed(&*fs, path).await?).await?;
            fs.claim(id, ino).await.map(|()| ino)
        })
    }

    pub(super) fn draft_create(&self, id: DraftId, path: PathBytes, node: NewNode) -> Result<Ino, VolumeError> {
        self.call(async move |fs| {
            let (directory, name) = split_path(&path)?;
            fs.draft_create(id, resolve(&*fs, directory).await?, name, node).await
        })
    }

    pub(super) fn draft_remove(&self, id: DraftId, path: PathBytes) -> Result<(), VolumeError> {
        self.call(async move |fs| {
            let (directory, name) = split_path(&path)?;
            fs.draft_unlink(id, resolve(&*fs, directory).await?, name).await
        })
    }

    pub(super) fn draft_rename(&self, id: DraftId, from: PathBytes, to: PathBytes) -> Result<(), VolumeError> {
        self.call(async move |fs| {
            let (source, name) = split_path(&from)?;
            let (target, new_name) = split_path(&to)?;
            let (source, target) = (resolve(&*fs, source).await?, resolve(&*fs, target).await?);
            fs.draft_rename(id, (source, name), (target, new_name)).await
        })
    }
}
