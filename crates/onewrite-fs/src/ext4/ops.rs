//! The operations: the file-system API on a mounted ext4.
//!
//! Lock order: the volume's rename lock (renames only), directories by inode number, the named inode. Every operation
//! is one step, with two exceptions. A write is one step for each [`WRITE_STEP_BYTES`](crate::WRITE_STEP_BYTES). The
//! truncation or deletion of a file with too many extents for one transaction is one step for each extent; meanwhile
//! the inode is on the orphan list.

use std::rc::Rc;

use onewrite_block::sync::RwGuard;

use super::dir::{ENTRY_CREDITS, Found, REMOVE_CREDITS, Search, Vacancy};
use super::format::Inode;
use super::format::time::TimeRoom;
use super::inodes::Node;
use super::mode::Scope;
use super::mount::Ext4;
use super::sync::Synced;
use super::truncate::DELETE_CREDITS;
use super::views::Directories;
use super::volume::Volume;
use crate::api::{
    Allocation, AttributeChanges, AttributeManner, Attributes, FileKind, FileSystem, FsCounters, FsError, FsResult,
    Ino, Manner, NewNode, Position, RenameManner,
};
use crate::content::Content;
use crate::drafts::expect_unclaimed;
use crate::ext4::format::InodeNo;
use crate::journal::Handle;
use crate::names::{check_link_target, check_name, display, refuse_dots};
use crate::pages::check_direct;

/// Names that one inode may have.
pub(super) const LINKS_MAX: u16 = 65_000;

impl Directories<'_> {
    pub(super) async fn directory(&self, ino: Ino) -> FsResult<Rc<Node>> {
        let node = self.node(ino).await?;
        node.expect_directory()?;
        Ok(node)
    }

    /// # Errors
    /// If the directory was removed while the caller waited for its lock.
    pub(super) fn expect_alive(&self, directory: &Node) -> FsResult<()> {
        match directory.inode().links {
            0 => Err(FsError::NotFound(directory.ino().to_string())),
            _ => Ok(()),
        }
    }

    /// Where the directory has room for a new name.
    ///
    /// # Errors
    /// [`FsError::Exists`]; device errors and damage.
    pub(super) async fn expect_absent(&self, directory: &Node, name: &[u8]) -> FsResult<Option<Vacancy>> {
        match self.search(directory, name).await? {
            Search::Found(_) => Err(FsError::Exists(display(name))),
            Search::Absent(vacancy) => Ok(vacancy),
        }
    }

    pub(super) async fn expect_entry(&self, directory: &Node, name: &[u8]) -> FsResult<Found> {
        self.find_entry(directory, name).await?.ok_or_else(|| FsError::NotFound(display(name)))
    }

    /// Stamps a directory after a change of its entries, adds `links` to its link count and saves it; does not save it
    /// if nothing of it changes, because the last change was within the same tick of the clock.
    pub(super) async fn touch_directory(&self, handle: &mut Handle, directory: &Node, links: i32) -> FsResult<()> {
        self.load_inode_block(directory.number()).await?;
        let stamp = self.timestamp();
        let is_stamped = directory.inode().mtime == stamp && directory.inode().ctime == stamp;
        if links != 0 || !is_stamped {
            directory.stamp_modified(stamp);
            let links = add_links(directory.inode().links, links);
            directory.inode_mut().links = links;
            self.save(handle, directory);
        }
        // A directory's names are its content: `fdatasync` has to make them durable, too.
        directory.note_content_change(handle.tid());
        Ok(())
    }

    pub(super) async fn touch(&self, handle: &mut Handle, node: &Node, links: i32) -> FsResult<()> {
        self.load_inode_block(node.number()).await?;
        {
            let mut inode = node.inode_mut();
            inode.ctime = self.timestamp();
            inode.links = (i32::from(inode.links) + links) as u16;
        }
        self.save(handle, node);
        Ok(())
    }

    /// Brings into memory what [`Directories::drop_link`] and changes of these directories' inodes need, so that a
    /// device that cannot read it refuses before anything has changed.
    pub(super) async fn load_to_drop(&self, node: &Node, directories: &[&Rc<Node>]) -> FsResult<()> {
        self.load_superblock().await?;
        for directory in directories {
            self.load_inode_block(directory.number()).await?;
        }
        self.load_inode_block(node.number()).await?;
        self.allocator().load_inode_bitmap(self.layout().group_of_inode(node.number())).await?;
        Ok(())
    }

    /// Decrements the link count of `node` (a directory's drops to zero); its name is already removed. Deletes the
    /// inode if it has no name left and nobody has it open.
    pub(super) async fn drop_link(&self, mut handle: Handle, node: &Rc<Node>) -> FsResult<()> {
        let is_directory = node.is_directory();
        let links = if is_directory { -i32::from(node.inode().links) } else { -1 };
        self.touch(&mut handle, node, links).await?;
        if node.inode().links > 0 {
            return Ok(());
        }
        match node.is_open() {
            true => self.allocator().add_orphan(&mut handle, node).await,
            false => self.contents().delete(handle, node).await,
        }
    }
}

impl Volume {
    /// Blocks of fixed metadata: superblocks, descriptors, bitmaps, inode tables, the log.
    pub(super) fn overhead_blocks(&self) -> u64 {
        let layout = self.layout();
        let base: u64 = (0..layout.group_count).map(|group| u64::from(layout.base_blocks(group))).sum();
        let tables = u64::from(layout.group_count) * (2 + u64::from(layout.inode_table_blocks()));
        base + tables + self.journal().log_blocks()
    }

    /// Commits after an operation ran out of space while freed blocks wait for their transaction. Returns whether a
    /// retry may help. `available` holds the free blocks after the previous wait of the same operation. If their number
    /// did not grow, only blocks that the operation itself took and gave back were waiting: a retry cannot help.
    pub(super) async fn wait_for_space(&self, available: &mut Option<u64>) -> FsResult<bool> {
        let waiting = self.groups().waiting_blocks();
        if waiting == 0 {
            return Ok(false);
        }
        onewrite_block::reached!("operation waits until freed blocks are committed");
        self.commit_now().await?;
        self.pages().progress().until(|| self.groups().waiting_blocks() < waiting).await;
        let now = self.groups().available_blocks();
        Ok(available.replace(now).is_none_or(|before| before < now))
    }
}

/// Link count of a directory after `more` subdirectories were added. Above [`LINKS_MAX`] the format stores 1 and stops
/// counting.
fn add_links(links: u16, more: i32) -> u16 {
    match i32::from(links) + more {
        _ if links == 1 && more != 0 => 1,
        sum if sum > i32::from(LINKS_MAX) => 1,
        sum => sum as u16,
    }
}

/// Runs an operation; if it lacks space, tries again as long as commits free some.
macro_rules! with_space {
    ($volume:expr, $operation:expr) => {{
        let mut available = None;
        loop {
            match $operation.await {
                Err(FsError::NoSpace { .. }) if $volume.wait_for_space(&mut available).await? => (),
                outcome => break outcome,
            }
        }
    }};
}

pub(super) use with_space;

impl FileSystem for Ext4 {
    async fn set_attributes(&self, ino: Ino, changes: AttributeChanges) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let node = volume.node(ino).await?;
        let _held = node.lock().write().await;
        node.expect_undeleted()?;
        if let Some(size) = changes.size {
            node.expect_file()?;
            expect_unclaimed(&*node)?;
            volume.contents().check_end(&node, size)?;
            volume.contents().set_size(&node, size).await?;
        }
        let mut handle = volume.journal().start(1).await?;
        volume.load_inode_block(node.number()).await?;
        apply(&mut node.inode_mut(), changes);
        node.inode_mut().ctime = volume.timestamp();
        volume.save(&mut handle, &node);
        Ok(())
    }

    async fn create(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        check_name(name)?;
        if node.kind == FileKind::Symlink {
            return Err(FsError::Invalid("a symbolic link is made by `symlink`".into()));
        }
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().write().await;
        volume.directories().expect_alive(&directory)?;
        with_space!(volume, volume.directories().create_node(&directory, name, node, b""))
    }

    async fn create_attributes(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Attributes> {
        let ino = self.create(directory, name, node).await?;
        Ok(self.volume().node(ino).await?.attributes())
    }

    async fn symlink(&self, directory: Ino, name: &[u8], target: &[u8]) -> FsResult<Ino> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        check_name(name)?;
        check_link_target(target)?;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().write().await;
        volume.directories().expect_alive(&directory)?;
        let node = NewNode { kind: FileKind::Symlink, permissions: 0o777, ..NewNode::FILE };
        with_space!(volume, volume.directories().create_node(&directory, name, node, target))
    }

    async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        check_name(name)?;
        let directory = volume.directories().directory(directory).await?;
        let node = volume.node(ino).await?;
        let _held = directory.lock().write().await;
        volume.directories().expect_alive(&directory)?;
        let vacancy = volume.directories().expect_absent(&directory, name).await?;
        if node.is_directory() {
            return Err(FsError::NotPermitted(format!("a second name for the directory {ino}")));
        }
        let _node_held = node.lock().write().await;
        volume.directories().expect_alive(&node)?;
        if node.inode().links >= LINKS_MAX {
            return Err(FsError::TooManyLinks(ino));
        }
        let add = async || {
            volume.directories().load_inode_block(directory.number()).await?;
            volume.directories().load_inode_block(node.number()).await?;
            let mut handle = volume.journal().start(ENTRY_CREDITS + 2).await?;
            let place = (name, vacancy);
            volume.directories().add_entry_at(&mut handle, &directory, place, (ino, node.kind())).await?;
            volume.directories().touch(&mut handle, &node, 1).await?;
            volume.directories().touch_directory(&mut handle, &directory, 0).await
        };
        with_space!(volume, add())
    }

    async fn unlink(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().write().await;
        let found = volume.directories().expect_entry(&directory, name).await?;
        let node = volume.node(found.ino).await?;
        if node.is_directory() {
            return Err(FsError::IsDirectory(display(name)));
        }
        let _node_held = node.lock().write().await;
        volume.directories().load_to_drop(&node, &[&directory]).await?;
        let mut handle = volume.journal().start(REMOVE_CREDITS + 2 + DELETE_CREDITS).await?;
        volume.directories().remove_entry_of(&mut handle, &directory, found).await?;
        volume.directories().touch_directory(&mut handle, &directory, 0).await?;
        volume.directories().drop_link(handle, &node).await
    }

    async fn remove_directory(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        refuse_dots(name, "removed")?;
        let directory = volume.directories().directory(directory).await?;
        let _held = directory.lock().write().await;
        let found = volume.directories().expect_entry(&directory, name).await?;
        let node = volume.directories().directory(found.ino).await.map_err(|error| match error {
            FsError::NotDirectory(_) => FsError::NotDirectory(display(name)),
            other => other,
        })?;
        let _node_held = node.lock().write().await;
        if !volume.directories().is_empty_directory(&node).await? {
            return Err(FsError::NotEmpty(display(name)));
        }
        volume.directories().load_to_drop(&node, &[&directory]).await?;
        let mut handle = volume.journal().start(REMOVE_CREDITS + 2 + DELETE_CREDITS).await?;
        volume.directories().remove_entry_of(&mut handle, &directory, found).await?;
        volume.directories().touch_directory(&mut handle, &directory, -1).await?;
        volume.directories().drop_link(handle, &node).await
    }

    async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), manner: RenameManner) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        refuse_dots(from.1, "renamed")?;
        refuse_dots(to.1, "renamed")?;
        let _renames = self.rename_lock().write().await;
        let (source, target) =
            (volume.directories().directory(from.0).await?, volume.directories().directory(to.0).await?);
        let _directories = lock_both(&source, &target).await;
        volume.directories().expect_alive(&target)?;
        let rename = async || volume.directories().rename_locked((&source, from.1), (&target, to.1), manner).await;
        with_space!(volume, rename())
    }

    async fn open(&self, ino: Ino) -> FsResult<()> {
        let node = self.volume().node(ino).await?;
        node.add_opener();
        Ok(())
    }

    async fn release(&self, ino: Ino) -> FsResult<()> {
        let volume = self.volume();
        match volume.inodes().get(InodeNo::from_ino(ino)) {
            Some(node) => volume.contents().release(&node).await,
            None => Ok(()),
        }
    }

    async fn write(&self, ino: Ino, position: Position, content: Content<'_>, manner: Manner) -> FsResult<u64> {
        let volume = self.volume();
        volume.syscall(content.length()).await;
        volume.check_writable()?;
        let node = volume.node(ino).await?;
        node.expect_file()?;
        if let (Position::At(offset), true) = (position, manner.direct && volume.scope() != Scope::Full) {
            check_direct(offset, content.length())?;
            let _held = node.lock().read().await;
            node.expect_undeleted()?;
            expect_unclaimed(&*node)?;
            if volume.contents().overwrite_direct(&node, offset, content).await? {
                return Ok(offset);
            }
        }
        let _held = node.lock().write().await;
        node.expect_undeleted()?;
        expect_unclaimed(&*node)?;
        let offset = match position {
            Position::At(offset) => offset,
            Position::End => node.size(),
        };
        if content.length() > 0 {
            with_space!(volume, volume.contents().write_file(&node, offset, content, manner))?;
        }
        Ok(offset)
    }

    async fn allocate(&self, ino: Ino, offset: u64, length: u64, allocation: Allocation) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        volume.check_writable()?;
        let node = volume.node(ino).await?;
        node.expect_file()?;
        if length == 0 {
            return Err(FsError::Invalid(format!("a range of no bytes at {offset}")));
        }
        volume.contents().check_end(&node, offset.saturating_add(length))?;
        let _held = node.lock().write().await;
        node.expect_undeleted()?;
        expect_unclaimed(&*node)?;
        with_space!(volume, volume.contents().allocate_file(&node, offset..offset + length, allocation))
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
        let node = volume.node(ino).await?;
        let _held = node.lock().write().await;
        node.expect_undeleted()?;
        with_space!(volume, volume.extended_attributes().set_attribute(&node, name, value, manner))
    }

    fn drop_cached(&self, ino: Ino) {
        self.volume().pages().drop_clean(Some(ino.0));
    }

    fn drop_caches(&self) {
        self.volume().pages().drop_clean(None);
    }

    async fn fsync(&self, ino: Ino) -> FsResult<()> {
        self.volume().syscall(0).await;
        let node = self.volume().node(ino).await?;
        self.volume().contents().sync_file(&node, Synced::Everything).await
    }

    async fn fdatasync(&self, ino: Ino) -> FsResult<()> {
        self.volume().syscall(0).await;
        let node = self.volume().node(ino).await?;
        self.volume().contents().sync_file(&node, Synced::Data).await
    }

    async fn sync(&self) -> FsResult<()> {
        let volume = self.volume();
        volume.syscall(0).await;
        if volume.scope() != Scope::Full {
            volume.contents().write_everything().await?;
        }
        volume.commit_now().await?;
        volume.journal().settle().await
    }

    fn counters(&self) -> FsCounters {
        let direct = self.volume().pages().direct_reads();
        let counters = self.volume().journal().counters();
        FsCounters { direct_read_bytes: direct.bytes, direct_cached_bytes: direct.cached_bytes, ..counters }
    }

    fn reset_counters(&self) {
        self.volume().pages().reset_counters();
        self.volume().journal().reset_counters();
    }

    async fn unmount(&self) -> FsResult<()> {
        self.volume().unmount().await
    }
}

fn apply(inode: &mut Inode, changes: AttributeChanges) {
    if let Some(permissions) = changes.permissions {
        inode.mode = inode.mode & 0xf000 | permissions & 0o7777;
    }
    inode.uid = changes.uid.unwrap_or(inode.uid);
    inode.gid = changes.gid.unwrap_or(inode.gid);
    let room = |end| TimeRoom::of(inode.extra_isize, end);
    let (atime_room, mtime_room) = (room(16), room(12));
    inode.atime = changes.accessed.map_or(inode.atime, |time| time.storable(atime_room));
    inode.mtime = changes.modified.map_or(inode.mtime, |time| time.storable(mtime_room));
}

/// Locks two directories exclusively, the lower inode number first; locks once if they are the same.
async fn lock_both<'a>(one: &'a Node, other: &'a Node) -> (RwGuard<'a>, Option<RwGuard<'a>>) {
    if one.number() == other.number() {
        return (one.lock().write().await, None);
    }
    let (first, second) = if one.number() < other.number() { (one, other) } else { (other, one) };
    let held = first.lock().write().await;
    (held, Some(second.lock().write().await))
}
