//! Creation: an inode, its first content and its name. On a full disk it undoes all of it.

use std::rc::Rc;

use onewrite_block::Page;

use super::file::File;
use super::views::Directories;
use crate::api::{FileKind, FsError, FsResult, Ino, NewNode};
use crate::f2fs::format::Nid;
use crate::f2fs::format::dentry::NewEntry;
use crate::f2fs::format::inode::{Head, inline};
use crate::f2fs::format::new_inode::NewInode;
use crate::f2fs::format::node::NodeRole;
use crate::pages::{PAGE_BYTES, page_key};

impl Directories<'_> {
    /// Makes an inode and its name. `target` is that of a symbolic link, empty for other kinds. The caller holds the
    /// directory's lock alone, and `changes`.
    pub(super) async fn create_node(
        &self,
        directory: &Rc<File>,
        name: &[u8],
        node: NewNode,
        target: &[u8],
    ) -> FsResult<Ino> {
        let vacancy = self.expect_absent(directory, name).await?;
        if node.kind == FileKind::Directory && directory.links() == u32::MAX {
            return Err(FsError::TooManyLinks(directory.ino()));
        }
        let child = self.make_inode(directory.number(), name, node).await?;
        let named = async {
            if child.kind() != FileKind::Regular {
                Box::pin(self.fill(directory, &child, target)).await?;
            }
            let new = NewEntry { ino: child.number(), kind: child.kind(), name };
            self.add_name_to(directory, new, vacancy).await
        };
        if let Err(error) = named.await {
            Box::pin(self.contents().delete(&child)).await?;
            return Err(error);
        }
        let more = u32::from(child.is_directory());
        directory.change_raw(|raw| raw.i_links.set(raw.i_links.get() + more));
        self.stamp_modified(directory);
        Ok(child.ino())
    }

    /// Makes an inode without content.
    pub(super) async fn make_inode(&self, parent: Nid, name: &[u8], node: NewNode) -> FsResult<Rc<File>> {
        self.space.borrow_mut().reserve(1)?;
        let taken = async {
            self.pages.make_room(self.volume()).await?;
            self.nodes().take_number(None).await
        };
        let nid = taken.await.inspect_err(|_| self.space.borrow_mut().unreserve(1))?;
        self.space.borrow_mut().add_node(NodeRole::Inode);
        let generation = self.next_generation.get();
        self.next_generation.set(generation.wrapping_add(1));
        let new = NewInode { node, parent, name, generation, now: self.timestamp() };
        self.nodes().put_new_node(nid, nid, 0, new.block(&self.layout));
        let inode = self.nodes().read_node(nid, |bytes| Head::decode_unverified(&bytes[..], nid, &self.layout))?;
        let file = Rc::new(File::new(&self.runtime, &inode));
        file.note_blank();
        self.files.insert(Rc::clone(&file));
        Ok(file)
    }

    /// Gives a new inode its first content: a directory its two names, a link its target.
    async fn fill(&self, directory: &Rc<File>, child: &Rc<File>, target: &[u8]) -> FsResult<()> {
        match child.kind() {
            FileKind::Directory => {
                let kind = FileKind::Directory;
                self.add_name(child, NewEntry { ino: child.number(), kind, name: b"." }).await?;
                self.add_name(child, NewEntry { ino: directory.number(), kind, name: b".." }).await
            }
            FileKind::Symlink => self.put_target(child, target).await,
            _ => Ok(()),
        }
    }

    async fn put_target(&self, link: &Rc<File>, target: &[u8]) -> FsResult<()> {
        link.change_raw(|raw| raw.i_size.set(target.len() as u64));
        self.nodes().note_unsaved(link);
        let room = link.shape().inline_range();
        if target.len() > room.len() {
            let (_, outcome) = self.contents().reserve_pages(link, 0..1).await;
            outcome?;
            self.pages.make_room(self.volume()).await?;
            self.pages.insert(page_key(&**link, 0), Page::from_slice(target));
            self.pages.change_dirty(&**link, 0, 0..PAGE_BYTES as usize, |_| ());
            self.note_names(link);
            return Ok(());
        }
        self.nodes().load_node(link.number(), link.number(), 0).await?;
        self.nodes().change_node(link.number(), link.number(), |bytes| {
            bytes[room.start..room.start + target.len()].copy_from_slice(target);
        });
        link.change_raw(|raw| raw.i_inline |= inline::DATA | inline::DATA_EXIST);
        Ok(())
    }
}
