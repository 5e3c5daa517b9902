//! Volume: an image in this process, by blocking calls from any thread.
//!
//! ```no_run
//! # fn main() -> Result<(), onewrite_host::VolumeError> {
//! use onewrite_fs::ext4::{Mode, MountOptions};
//! use onewrite_host::Volume;
//!
//! let volume = Volume::open("disk.img", MountOptions::new(Mode::DataAsync))?;
//! volume.create_directory("/logs")?;
//! let file = volume.create("/logs/today")?;
//! file.append(b"first line\n")?;
//! file.sync()?; // now it survives a power cut
//! volume.close()
//! # }
//! ```
//!
//! `examples/shared_log.rs` has several threads on one file; `examples/atomic_transfer.rs` changes two files together
//! ([`Volume::atomic`]).
//!
//! A volume starts a thread of its own, the core, which has the file system on it. Calls send work there and wait for
//! its result; calls of several threads overlap, and their syncs share commits.
//!
//! # Invariants
//! - The image is locked while the volume is open.
//! - In a child of fork every call says [`VolumeError::Closed`]: the core stays with the parent.
//! - When the last handle of a volume goes, the core unmounts; [`Volume::close`] tells whether that worked.

mod calls;
mod core;
mod draft;
mod error;
mod file;
mod image;
mod mapping;
mod paths;

use std::path::Path;
use std::sync::Arc;

use onewrite_block::Counters;
use onewrite_fs::ext4::MountOptions;
use onewrite_fs::{
    AtomicFiles, AttributeChanges, DirectoryEntry, FileSystem, FileView, Ino, NewNode, RenameManner, Space,
};

pub use draft::{Draft, DraftFile};
pub use error::VolumeError;
pub use file::{File, Metadata, SharedRange};
pub use image::make_image;
pub use mapping::Mapping;

use self::core::Core;

/// An open image. Clones are handles of the same volume; any thread may use one.
#[derive(Clone)]
pub struct Volume {
    core: Arc<Core>,
}

impl Volume {
    /// Opens the image or disk at `path`, with nobody beside; a log is replayed. With `read_only` nothing changes on
    /// disk.
    ///
    /// # Errors
    /// An image that cannot be opened, is in use, damaged or not supported; options that it cannot have.
    pub fn open(path: impl AsRef<Path>, options: MountOptions) -> Result<Volume, VolumeError> {
        Ok(Volume { core: Arc::new(Core::start(path.as_ref().to_owned(), options)?) })
    }

    /// Opens a file. Paths begin at the image's root; symbolic links are followed.
    ///
    /// # Errors
    /// A missing or wrong path, a damaged image.
    pub fn open_file(&self, path: impl AsRef<[u8]>) -> Result<File, VolumeError> {
        Ok(self.file(self.core.open(path.as_ref().to_vec())?))
    }

    /// Makes a file, empty, and opens it.
    ///
    /// # Errors
    /// If there is one, and as [`Volume::open_file`].
    pub fn create(&self, path: impl AsRef<[u8]>) -> Result<File, VolumeError> {
        self.create_as(path, NewNode::FILE)
    }

    /// Makes `node` and opens it.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn create_as(&self, path: impl AsRef<[u8]>, node: NewNode) -> Result<File, VolumeError> {
        Ok(self.file(self.core.create(path.as_ref().to_vec(), node)?))
    }

    /// Opens what lies at `path`, or makes `node` there. A symbolic link is followed, also to where nothing is yet.
    ///
    /// # Errors
    /// As [`Volume::open_file`].
    pub fn open_or_create(&self, path: impl AsRef<[u8]>, node: NewNode) -> Result<File, VolumeError> {
        Ok(self.file(self.core.open_or_create(path.as_ref().to_vec(), node)?))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn create_directory(&self, path: impl AsRef<[u8]>) -> Result<(), VolumeError> {
        self.make(path, NewNode::DIRECTORY)
    }

    /// Makes `node`.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn make(&self, path: impl AsRef<[u8]>, node: NewNode) -> Result<(), VolumeError> {
        self.core.make(path.as_ref().to_vec(), node)
    }

    /// Gives what lies at `path` a second name `link`; a symbolic link is not followed.
    ///
    /// # Errors
    /// A directory, a name that is taken, and as [`Volume::open_file`].
    pub fn link(&self, path: impl AsRef<[u8]>, link: impl AsRef<[u8]>) -> Result<(), VolumeError> {
        self.core.link(path.as_ref().to_vec(), link.as_ref().to_vec())
    }

    /// Makes a symbolic link at `path` with the content `target`.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn symlink(&self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Result<(), VolumeError> {
        self.core.symlink(path.as_ref().to_vec(), target.as_ref().to_vec())
    }

    /// The content of the symbolic link at `path`.
    ///
    /// # Errors
    /// A missing path, something that is no symbolic link.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, VolumeError> {
        self.core.read_link(path.as_ref().to_vec())
    }

    /// Removes a name of anything but a directory; the content goes when no name and no open file is left.
    ///
    /// # Errors
    /// A missing path, a directory.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), VolumeError> {
        self.core.remove(path.as_ref().to_vec())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// A missing path, a directory that holds names.
    pub fn remove_directory(&self, path: impl AsRef<[u8]>) -> Result<(), VolumeError> {
        self.core.remove_directory(path.as_ref().to_vec())
    }

    /// Moves a name. One step: after a power cut it is there or here, never both or neither.
    ///
    /// # Errors
    /// Missing paths, and what rename(2) refuses.
    pub fn rename(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        manner: RenameManner,
    ) -> Result<(), VolumeError> {
        self.core.rename(from.as_ref().to_vec(), to.as_ref().to_vec(), manner)
    }

    /// What is known of what lies at `path`; a symbolic link is not followed.
    ///
    /// # Errors
    /// A missing path.
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata, VolumeError> {
        self.core.metadata(path.as_ref().to_vec())
    }

    /// What is known of what lies at `path`; symbolic links are followed.
    ///
    /// # Errors
    /// A missing path.
    pub fn metadata_followed(&self, path: impl AsRef<[u8]>) -> Result<Metadata, VolumeError> {
        self.core.metadata_followed(path.as_ref().to_vec())
    }

    /// Changes attributes of what lies at `path`; symbolic links are followed.
    ///
    /// # Errors
    /// A missing path, a volume that is read-only, no space.
    pub fn set_attributes(&self, path: impl AsRef<[u8]>, changes: AttributeChanges) -> Result<(), VolumeError> {
        self.core.set_attributes(path.as_ref().to_vec(), changes)
    }

    /// The names in a directory, without `.` and `..`, in the order of the directory. Symbolic links are followed.
    ///
    /// # Errors
    /// A missing path, something that is no directory.
    pub fn read_directory(&self, path: impl AsRef<[u8]>) -> Result<Vec<DirectoryEntry>, VolumeError> {
        self.core.read_directory(path.as_ref().to_vec())
    }

    /// Begins a draft: changes of several files and names that become visible and durable together, or never.
    ///
    /// # Errors
    /// EOPNOTSUPP in modes that write content in place, a volume that is read-only.
    pub fn atomic(&self) -> Result<Draft, VolumeError> {
        Draft::begin(&self.core)
    }

    /// Whether a power cut leaves, of all changes beside those of drafts, those up to some moment, each write whole.
    pub fn keeps_order(&self) -> bool {
        self.core.call(async |fs| Ok(fs.keeps_order())).unwrap_or(false)
    }

    /// Commits several drafts of this volume as one step. Each is empty then and keeps its files.
    ///
    /// # Errors
    /// As [`Draft::commit`]: nothing has changed. EINVAL if a draft is named twice, or is one of another volume.
    pub fn commit_together(&self, drafts: &[&Draft]) -> Result<(), VolumeError> {
        draft::commit(&self.core, drafts)
    }

    /// Makes the target of every range read as its source does, as one step that is durable when the call returns:
    /// after a power cut all ranges are as before or all as after. Later changes of a source leave its targets as they
    /// are. Offsets and lengths are multiples of 4096; a target grows if its range ends beyond its end.
    ///
    /// A device with an atomic SHARE command writes nothing for it. On others a mode that logs content sends the pages
    /// through the log once more. `docs/share.md` has the rules.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), onewrite_host::VolumeError> {
    /// # use onewrite_fs::ext4::{Mode, MountOptions};
    /// # use onewrite_host::{SharedRange, Volume};
    /// # let volume = Volume::open("disk.img", MountOptions::new(Mode::DataAsync))?;
    /// let (area, table) = (volume.open_file("/double-write")?, volume.open_file("/table")?);
    /// area.write_at(0, &[7; 8192])?;
    /// area.sync_data()?;
    /// let page = |source_offset, target_offset| {
    ///     SharedRange { source: &area, source_offset, target: &table, target_offset, length: 4096 }
    /// };
    /// volume.share(&[page(0, 40_960), page(4096, 12_288)]) // both pages of the table, or none
    /// # }
    /// ```
    ///
    /// # Errors
    /// EOPNOTSUPP if neither is there, EFBIG for more pages than one step takes, EINVAL for ranges not of whole pages,
    /// that overlap, whose source is a hole or beyond its end, or for a call that both replaces pages and
    /// extends a target; EBUSY if a draft has a target. Nothing has changed then. Device errors.
    pub fn share(&self, ranges: &[SharedRange<'_>]) -> Result<(), VolumeError> {
        file::share(&self.core, ranges)
    }

    /// How much room there is.
    ///
    /// # Errors
    /// A damaged image.
    pub fn space(&self) -> Result<Space, VolumeError> {
        self.core.call(async |fs| fs.space().await)
    }

    /// What the image's device has counted since the volume was opened: bytes by cause, flushes.
    ///
    /// # Errors
    /// [`VolumeError::Closed`].
    pub fn device_counters(&self) -> Result<Counters, VolumeError> {
        self.core.device_counters()
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// If the device fails.
    pub fn sync(&self) -> Result<(), VolumeError> {
        self.core.call(async |fs| fs.sync().await)
    }

    /// Unmounts: everything is home, and the image clean. Calls of other handles fail from now on.
    ///
    /// # Errors
    /// What unmounting met; [`VolumeError::Closed`] if another handle closed it.
    pub fn close(self) -> Result<(), VolumeError> {
        self.core.close()
    }

    /// What the core has opened.
    fn file(&self, ino: Ino) -> File {
        File::new(Arc::clone(&self.core), ino)
    }
}
