//! The operations: the file-system API on a mounted F2FS.
//!
//! Lock order: renames, directories by inode number, the named inode, `changes`. Every operation is one step between
//! checkpoints, but a write, which is one step for each 64 KiB.

use std::rc::Rc;

use onewrite_block::sync::RwGuard;

use super::directories::FoundName;
use super::file::File;
use super::mount::F2fs;
use super::sync::Synced;
use super::volume::Volume;
use crate::api::{
    Allocation, AttributeChanges, AttributeManner, FileKind, FileSystem, FsCounters, FsError, FsResult, Ino, Manner,
    NewNode, Position, RenameManner,
};
use crate::content::Content;
use crate::drafts::expect_unclaimed;
use crate::f2fs::format::dentry::NewEntry;
use crate::f2fs::format::inode::put_times;
use crate::names::{check_link_target, check_name, display, refuse_dots};
use crate::pages::PagedFile;

/// Runs a change between checkpoints; if it lacks space that a checkpoint may give back, makes one and tries again.
macro_rules! as_change {
    ($volume:expr, $operation:expr) => {{
        let volume = $volume;
        volume.cleaner().balance().await?;
        let mut has_waited = false;
        loop {
            let wanted = volume.numbers.borrow().changed_count();
            let outcome = {
                let _changes = volume.changes.read().await;
                volume.check_writable()?;
                $operation.await
            };
            match outcome {
                Err(FsError::NoSpace { .. }) if !has_waited && wanted > 0 => {
                    has_waited = true;
                    Box::pin(volume.checkpoints().checkpoint()).await?;
                }
                outcome => break outcome,
            }
        }
    }};
}

impl FileSystem for F2fs {
    async fn set_attributes(&self, ino: Ino, changes: AttributeChanges) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let file = volume.nodes().file(ino).await?;
        let _held = file.lock().write().await;
        file.expect_undeleted()?;
        if let Some(size) = changes.size {
            file.expect_regular()?;
            expect_unclaimed(&*file)?;
            volume.contents().check_end(&file, size)?;
        }
        as_change!(volume, volume.change_attributes(&file, changes))
    }

    async fn create(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        if node.kind == FileKind::Symlink {
            return Err(FsError::Invalid("a symbolic link is made by `symlink`".into()));
        }
        self.volume().create_in(directory, name, node, b"").await
    }

    async fn symlink(&self, directory: Ino, name: &[u8], target: &[u8]) -> FsResult<Ino> {
        check_link_target(target)?;
        let node = NewNode { kind: FileKind::Symlink, permissions: 0o777, ..NewNode::FILE };
        self.volume().create_in(directory, name, node, target).await
    }

    async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        check_name(name)?;
        let (directory, file) = (volume.directories().directory(directory).await?, volume.nodes().file(ino).await?);
        let _held = directory.lock().write().await;
        directory.expect_named()?;
        volume.directories().expect_absent(&directory, name).await?;
        if file.is_directory() {
            return Err(FsError::NotPermitted(format!("a second name for the directory {ino}")));
        }
        let _file_held = file.lock().write().await;
        file.expect_named()?;
        as_change!(volume, volume.link_locked(&file, &directory, name))
    }

    async fn unlink(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().write().await;
        let found = volume.directories().expect_name(&directory, name).await?;
        let file = volume.nodes().file(found.ino()).await?;
        if file.is_directory() {
            return Err(FsError::IsDirectory(display(name)));
        }
        let _file_held = file.lock().write().await;
        as_change!(volume, volume.remove_locked(&directory, (name, found), &file))
    }

    async fn remove_directory(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        refuse_dots(name, "removed")?;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().write().await;
        let found = volume.directories().expect_name(&directory, name).await?;
        let file = volume.nodes().file(found.ino()).await?;
        if !file.is_directory() {
            return Err(FsError::NotDirectory(display(name)));
        }
        let _file_held = file.lock().write().await;
        if !volume.directories().is_empty_directory(&file).await? {
            return Err(FsError::NotEmpty(display(name)));
        }
        as_change!(volume, volume.remove_locked(&directory, (name, found), &file))
    }

    async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), manner: RenameManner) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        refuse_dots(from.1, "renamed")?;
        refuse_dots(to.1, "renamed")?;
        let _renames = volume.renames.write().await;
        let (source, target) =
            (volume.directories().directory(from.0).await?, volume.directories().directory(to.0).await?);
        let _directories = lock_both(&source, &target).await;
        target.expect_named()?;
        let (from, to) = ((&source, from.1), (&target, to.1));
        let renaming = volume.directories().prepare_rename(from, to, manner).await?;
        let _files = match renaming.files() {
            (Some(file), other) => Some(lock_both(file, other.unwrap_or(file)).await),
            _ => None,
        };
        as_change!(volume, volume.directories().rename_locked(from, to, &renaming))
    }

    async fn open(&self, ino: Ino) -> FsResult<()> {
        self.volume().nodes().file(ino).await?.add_opener();
        Ok(())
    }

    async fn release(&self, ino: Ino) -> FsResult<()> {
        let volume = self.volume();
        match volume.file_in_memory(crate::f2fs::format::Nid::from_ino(ino)) {
            Some(file) => volume.contents().release(&file).await,
            None => Ok(()),
        }
    }

    async fn write(&self, ino: Ino, position: Position, content: Content<'_>, manner: Manner) -> FsResult<u64> {
        let volume = self.volume();
        volume.syscall(content.length()).await;
        volume.check_writable()?;
        let file = volume.nodes().file(ino).await?;
        file.expect_regular()?;
        let _held = file.lock().write().await;
        file.expect_undeleted()?;
        expect_unclaimed(&*file)?;
        let offset = match position {
            Position::At(offset) => offset,
            Position::End => file.size(),
        };
        if content.length() > 0 {
            volume.contents().write_file(&file, offset, content, manner).await?;
        }
        Ok(offset)
    }

    async fn allocate(&self, ino: Ino, offset: u64, length: u64, allocation: Allocation) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let file = volume.nodes().file(ino).await?;
        file.expect_regular()?;
        if length == 0 {
            return Err(FsError::Invalid(format!("a range of no bytes at {offset}")));
        }
        volume.contents().check_end(&file, offset.saturating_add(length))?;
        let _held = file.lock().write().await;
        file.expect_undeleted()?;
        expect_unclaimed(&*file)?;
        as_change!(volume, volume.contents().allocate_file(&file, offset..offset + length, allocation))
    }

    async fn set_extended_attribute(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
        manner: AttributeManner,
    ) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let file = volume.nodes().file(ino).await?;
        let _held = file.lock().write().await;
        file.expect_undeleted()?;
        as_change!(volume, volume.extended_attributes().set_attribute(&file, name, value, manner))
    }

    fn drop_cached(&self, ino: Ino) {
        self.volume().pages.drop_clean(Some(ino.0));
    }

    fn drop_caches(&self) {
        self.volume().pages.drop_clean(None);
    }

    async fn fsync(&self, ino: Ino) -> FsResult<()> {
        self.volume().syscall(0).await;
        let file = self.volume().nodes().file(ino).await?;
        self.volume().syncs().sync_file(&file, Synced::Everything).await
    }

    async fn fdatasync(&self, ino: Ino) -> FsResult<()> {
        self.volume().syscall(0).await;
        let file = self.volume().nodes().file(ino).await?;
        self.volume().syncs().sync_file(&file, Synced::Data).await
    }

    async fn sync(&self) -> FsResult<()> {
        self.volume().syscall(0).await;
        self.volume().sync_everything().await
    }

    fn counters(&self) -> FsCounters {
        let direct = self.volume().pages.direct_reads();
        let counters = self.volume().counters.get();
        FsCounters { direct_read_bytes: direct.bytes, direct_cached_bytes: direct.cached_bytes, ..counters }
    }

    fn reset_counters(&self) {
        self.volume().pages.reset_counters();
        self.volume().counters.take();
    }

    async fn unmount(&self) -> FsResult<()> {
        self.volume().unmount().await
    }
}

impl Volume {
    async fn change_attributes(&self, file: &Rc<File>, changes: AttributeChanges) -> FsResult<()> {
        if let Some(size) = changes.size {
            self.contents().set_size(file, size).await?;
        }
        file.change_raw(|raw| {
            if let Some(permissions) = changes.permissions {
                raw.i_mode.set(raw.i_mode.get() & 0xf000 | permissions & 0o7777);
            }
            raw.i_uid.set(changes.uid.unwrap_or(raw.i_uid.get()));
            raw.i_gid.set(changes.gid.unwrap_or(raw.i_gid.get()));
            put_times(raw, changes.accessed, changes.modified, None);
        });
        self.stamp_changed(file);
        Ok(())
    }

    async fn create_in(&self, directory: Ino, name: &[u8], node: NewNode, target: &[u8]) -> FsResult<Ino> {
        self.syscall(0).await;
        self.check_writable()?;
        check_name(name)?;
        let directory = self.directories().directory(directory).await?;
        let _held = directory.lock().write().await;
        directory.expect_named()?;
        as_change!(self, self.directories().create_node(&directory, name, node, target))
    }

    async fn link_locked(&self, file: &Rc<File>, directory: &Rc<File>, name: &[u8]) -> FsResult<()> {
        if file.links() == u32::MAX {
            return Err(FsError::TooManyLinks(file.ino()));
        }
        self.directories().add_name(directory, NewEntry { ino: file.number(), kind: file.kind(), name }).await?;
        file.change_raw(|raw| raw.i_links.set(raw.i_links.get() + 1));
        self.stamp_changed(file);
        self.stamp_modified(directory);
        Ok(())
    }

    /// Removes a name and one link of what it names.
    async fn remove_locked(
        &self,
        directory: &Rc<File>,
        (name, found): (&[u8], FoundName),
        file: &Rc<File>,
    ) -> FsResult<()> {
        self.directories().remove_found(directory, name, found).await?;
        let fewer = u32::from(file.is_directory());
        directory.change_raw(|raw| raw.i_links.set(raw.i_links.get().saturating_sub(fewer)));
        self.stamp_modified(directory);
        self.contents().drop_link(file).await
    }
}

/// Locks two directories alone, the lower inode number first; locks once if they are the same.
async fn lock_both<'a>(one: &'a File, other: &'a File) -> (RwGuard<'a>, Option<RwGuard<'a>>) {
    if one.number() == other.number() {
        return (one.lock().write().await, None);
    }
    let (first, second) = if one.number() < other.number() { (one, other) } else { (other, one) };
    let held = first.lock().write().await;
    (held, Some(second.lock().write().await))
}
