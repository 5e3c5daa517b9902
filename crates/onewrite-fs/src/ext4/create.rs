//! Creation: one transaction makes a new inode, its first content and its name. On a full disk it undoes all of it.

use std::rc::Rc;

use super::dir::ENTRY_CREDITS;
use super::format::directory::block::{self, Dots};
use super::format::extent::NodeMut;
use super::format::features::RoCompat;
use super::format::inode::flags;
use super::format::{Extent, Inode};
use super::ialloc::INODE_CREDITS;
use super::inodes::{Node, encode_device_number};
use super::map::MAP_CREDITS;
use super::ops::LINKS_MAX;
use super::orphans::ORPHAN_CREDITS;
use super::views::Directories;
use crate::api::{FileKind, FsError, FsResult, Ino, NewNode};
use crate::block::BlockNo;
use crate::journal::Handle;
use crate::pages::PAGE_BYTES;

/// Longest target of a symbolic link that fits in the inode, in bytes.
const FAST_LINK_MAX: usize = 59;
const CREATE_CREDITS: usize = INODE_CREDITS + ENTRY_CREDITS + MAP_CREDITS + 4;

impl Directories<'_> {
    fn new_inode(&self, node: NewNode) -> Inode {
        let stamp = self.timestamp();
        let mut block = [0; 60];
        let mut inode_flags = 0;
        match node.kind {
            FileKind::Regular | FileKind::Directory => {
                NodeMut::init(&mut block, 0);
                inode_flags = flags::EXTENTS;
            }
            FileKind::CharacterDevice | FileKind::BlockDevice => block = encode_device_number(node.device),
            FileKind::Symlink | FileKind::Fifo | FileKind::Socket => (),
        }
        Inode {
            uid: node.uid,
            gid: node.gid,
            links: if node.kind == FileKind::Directory { 2 } else { 1 },
            flags: inode_flags,
            block,
            ..Inode::new(node.kind.mode_bits() | node.permissions & 0o7777, stamp, self.layout())
        }
    }

    /// Creates an inode and its name. `target` is the target of a symbolic link, empty for other kinds.
    pub(super) async fn create_node(
        &self,
        directory: &Node,
        name: &[u8],
        node: NewNode,
        target: &[u8],
    ) -> FsResult<Ino> {
        let vacancy = self.expect_absent(directory, name).await?;
        let is_full = node.kind == FileKind::Directory && directory.inode().links >= LINKS_MAX;
        if is_full && !self.layout().features.ro_compat.contains(RoCompat::DIR_NLINK) {
            return Err(FsError::TooManyLinks(directory.ino()));
        }
        self.load_inode_block(directory.number()).await?;
        let mut handle = self.journal().start(CREATE_CREDITS).await?;
        let inode = self.new_inode(node);
        let child = self.allocator().allocate_inode(&mut handle, directory.number(), inode).await?;
        let outcome = match self.fill(&mut handle, directory, &child, target).await {
            Ok(()) => {
                let place = (name, vacancy);
                self.add_entry_at(&mut handle, directory, place, (child.ino(), child.kind())).await
            }
            failed => failed,
        };
        if let Err(error) = outcome {
            self.undo_create(&mut handle, &child).await?;
            return Err(error);
        }
        self.touch_directory(&mut handle, directory, i32::from(child.is_directory())).await?;
        child.note_data_change(handle.tid());
        Ok(child.ino())
    }

    /// Creates a regular file without a name. It is on the orphan list, and opened once.
    pub(super) async fn create_unnamed(&self, directory: &Node, node: NewNode) -> FsResult<Rc<Node>> {
        let mut handle = self.journal().start(INODE_CREDITS + ORPHAN_CREDITS + INODE_CREDITS).await?;
        let inode = Inode { links: 0, ..self.new_inode(node) };
        let child = self.allocator().allocate_inode(&mut handle, directory.number(), inode).await?;
        child.add_opener();
        if let Err(error) = self.allocator().add_orphan(&mut handle, &child).await {
            self.allocator().free_inode(&mut handle, &child).await?;
            return Err(error);
        }
        child.note_data_change(handle.tid());
        Ok(child)
    }

    /// Gives a new inode its first content, if its kind has any.
    async fn fill(&self, handle: &mut Handle, directory: &Node, child: &Rc<Node>, target: &[u8]) -> FsResult<()> {
        match child.kind() {
            FileKind::Directory => self.make_first_block(handle, directory, child).await?,
            FileKind::Symlink => self.put_target(handle, child, target).await?,
            _ => (),
        }
        Ok(())
    }

    async fn make_first_block(&self, handle: &mut Handle, directory: &Node, child: &Node) -> FsResult<()> {
        let home = self.first_block(handle, child).await?;
        let seed = self.node_seed(child);
        self.create_block(handle, home, |bytes| {
            let dots = Dots { own: child.number(), parent: directory.number() };
            block::init_first(&mut bytes[..], dots, self.layout());
            block::set_checksum(&mut bytes[..], seed, self.layout());
        });
        child.inode_mut().size = PAGE_BYTES;
        self.load_inode_block(child.number()).await?;
        self.save(handle, child);
        Ok(())
    }

    /// Allocates block 0 of a new inode.
    async fn first_block(&self, handle: &mut Handle, child: &Node) -> FsResult<BlockNo> {
        self.make_room().await?;
        let goal = self.layout().first_block_of_group(self.layout().group_of_inode(child.number()));
        let home = self.allocator().allocate_blocks(handle, goal, 1).await?.start;
        child.add_blocks(1);
        let extent = Extent { logical: 0, physical: home, length: 1, unwritten: false };
        self.extents().insert_extent(handle, child, extent).await?;
        Ok(home)
    }

    async fn put_target(&self, handle: &mut Handle, child: &Node, target: &[u8]) -> FsResult<()> {
        if target.len() > FAST_LINK_MAX {
            {
                let mut inode = child.inode_mut();
                inode.flags |= flags::EXTENTS;
                NodeMut::init(&mut inode.block, 0);
            }
            let home = self.first_block(handle, child).await?;
            self.create_block(handle, home, |bytes| bytes[..target.len()].copy_from_slice(target));
        } else {
            child.inode_mut().block[..target.len()].copy_from_slice(target);
        }
        child.inode_mut().size = target.len() as u64;
        self.load_inode_block(child.number()).await?;
        self.save(handle, child);
        Ok(())
    }

    /// Frees the inode and its block after a failed creation.
    async fn undo_create(&self, handle: &mut Handle, child: &Rc<Node>) -> FsResult<()> {
        if child.inode().has(flags::EXTENTS)
            && let Some(taken) = self.extents().take_extent(handle, child, 0..1).await?
        {
            self.allocator().free_blocks(handle, taken.physical.alone()).await?;
        }
        child.inode_mut().sectors = 0;
        self.allocator().free_inode(handle, child).await
    }
}
