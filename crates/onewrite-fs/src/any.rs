//! A view of an image of any file system that Onewrite reads: ext2, ext3, ext4 and F2FS.
//!
//! The superblock says which it is. Both have theirs at byte 1024; F2FS keeps a second copy a block later.

use onewrite_block::{Cause, DevicePort, Lpn, Request};

use crate::api::{Attributes, DirectoryEntry, FileView, FsError, FsResult, Ino, Manner, SeekTarget, Space};
use crate::content::Data;
use crate::ext4::format::SUPERBLOCK_OFFSET;
use crate::ext4::format::superblock::SUPERBLOCK_MAGIC;
use crate::ext4::view::{ImageView, ViewOptions};
use crate::f2fs::view::F2fsView;
use crate::f2fs::{self, F2fs, F2fsOptions};
use crate::journal::Recovered;
use crate::losses::Losses;

/// Byte of a superblock of ext2, ext3 or ext4 at which its magic number lies.
const EXT_MAGIC_OFFSET: usize = 0x38;

/// Whether the image on `port` is F2FS. A second copy of F2FS's superblock counts only if the first block has no
/// superblock of ext: it may be left of what the device held before.
///
/// # Errors
/// Device errors.
pub async fn is_f2fs(port: &DevicePort) -> FsResult<bool> {
    match f2fs::marked_copies(port).await? {
        [true, _] => Ok(true),
        [false, false] => Ok(false),
        [false, true] => {
            let first = port.request(Request::read(Lpn(0), 1, Cause::Metadata)).await?;
            let magic = &first[0].bytes()[SUPERBLOCK_OFFSET + EXT_MAGIC_OFFSET..][..2];
            Ok(*magic != SUPERBLOCK_MAGIC.to_le_bytes())
        }
    }
}

/// See the module's head.
pub enum AnyView {
    /// ext2, ext3 or ext4.
    Ext(Box<ImageView>),
    /// F2FS.
    F2fs(Box<F2fsView>),
    /// F2FS, with what fsyncs left behind its last checkpoint.
    RolledForward(Box<F2fs>),
}

impl AnyView {
    /// Opens the image on `port` for reading. Writes nothing, whatever the state of the image.
    ///
    /// # Errors
    /// As [`ImageView::open`] or [`F2fsView::open`]; [`FsError::Unsupported`] for a rescue of F2FS.
    pub async fn open(port: &DevicePort, options: ViewOptions) -> FsResult<AnyView> {
        match is_f2fs(port).await? {
            false => Ok(AnyView::Ext(Box::new(ImageView::open(port, options).await?))),
            true if options.is_rescue => {
                Err(FsError::Unsupported("a rescue of F2FS; without --rescue, what is sound can be read".into()))
            }
            true => AnyView::f2fs(port).await,
        }
    }

    /// F2FS as its next mount would have it; as its checkpoint has it, with a warning, if it cannot be rolled forward.
    async fn f2fs(port: &DevicePort) -> FsResult<AnyView> {
        let view = F2fsView::open(port).await?;
        if view.unseen_fsyncs() > 0 {
            let options = F2fsOptions { read_only: true, ..F2fsOptions::default() };
            if let Ok(fs) = F2fs::mount(port.clone(), options).await
                && fs.recovered().is_some()
            {
                return Ok(AnyView::RolledForward(Box::new(fs)));
            }
        }
        Ok(AnyView::F2fs(Box::new(view)))
    }

    /// If a log holds anything: what recovery found in it, and the number of blocks with newer copies.
    pub fn recovered(&self) -> Option<(Recovered, u64)> {
        match self {
            AnyView::Ext(view) => view.recovered(),
            AnyView::F2fs(_) | AnyView::RolledForward(_) => None,
        }
    }

    /// Warnings for the reader.
    pub fn warnings(&self) -> &[String] {
        match self {
            AnyView::Ext(view) => view.warnings(),
            AnyView::F2fs(view) => view.warnings(),
            AnyView::RolledForward(fs) => fs.warnings(),
        }
    }

    /// Losses so far. Outside a rescue only F2FS has any: damaged names, which its listings leave out.
    pub fn losses(&self) -> Losses {
        match self {
            AnyView::Ext(view) => view.losses(),
            AnyView::F2fs(view) => view.losses(),
            AnyView::RolledForward(_) => Losses::default(),
        }
    }
}

/// Calls the view that it is.
macro_rules! of_view {
    ($view:expr, $each:ident => $call:expr) => {
        match $view {
            AnyView::Ext($each) => $call,
            AnyView::F2fs($each) => $call,
            AnyView::RolledForward($each) => $call,
        }
    };
}

impl FileView for AnyView {
    fn root(&self) -> Ino {
        of_view!(self, view => view.root())
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        of_view!(self, view => view.lookup(directory, name).await)
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        of_view!(self, view => view.attributes(ino).await)
    }

    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>> {
        of_view!(self, view => view.read_link(ino).await)
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, manner: Manner) -> FsResult<Data> {
        of_view!(self, view => view.read(ino, offset, length, manner).await)
    }

    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        of_view!(self, view => view.read_directory(directory, cursor).await)
    }

    async fn extended_attribute(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        of_view!(self, view => view.extended_attribute(ino, name).await)
    }

    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        of_view!(self, view => view.extended_attributes(ino).await)
    }

    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64> {
        of_view!(self, view => view.seek(ino, offset, target).await)
    }

    async fn space(&self) -> FsResult<Space> {
        of_view!(self, view => view.space().await)
    }
}
