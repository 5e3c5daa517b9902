//! Conversion: content and names that lie in the inode move out of it before they change.

use std::rc::Rc;

use onewrite_block::Page;

use super::directories::Vacancy;
use super::file::File;
use super::views::Contents;
use crate::api::FsResult;
use crate::f2fs::format::dentry::{self, BLOCK_SLOTS, NewEntry, Shape};
use crate::f2fs::format::inode::{RawInode, inline};
use crate::pages::{PAGE_BYTES, PagedFile, page_key};

impl Contents<'_> {
    /// Moves content out of the inode into the first page. The caller holds the file's lock alone, and `changes`.
    pub(super) async fn move_out_content(&self, file: &Rc<File>) -> FsResult<()> {
        match file.is_inline_data() {
            true => Box::pin(self.move_inline_content(file)).await,
            false => Ok(()),
        }
    }

    async fn move_inline_content(&self, file: &Rc<File>) -> FsResult<()> {
        let content = self.inline_bytes(file).await?;
        let size = (file.size() as usize).min(content.len());
        onewrite_block::reached!("inline content moves out");
        let before = file.raw().clone();
        self.empty_inline(file, inline::DATA | inline::DATA_EXIST).await?;
        if size == 0 {
            return Ok(());
        }
        match self.put_first_page(file, Page::from_slice(&content[..size])).await {
            Ok(()) => Ok(()),
            Err(error) => self.move_back(file, &before, &content).await.and(Err(error)),
        }
    }

    /// Empties content in the inode; the file names blocks from now on.
    pub(super) async fn drop_inline_content(&self, file: &File) -> FsResult<()> {
        self.empty_inline(file, inline::DATA | inline::DATA_EXIST).await
    }

    /// Moves names out of the inode into the directory's first block. The caller holds the directory's lock alone, and
    /// `changes`.
    pub(super) async fn move_out_names(&self, directory: &Rc<File>) -> FsResult<()> {
        match directory.has_inline(inline::DENTRY) {
            true => Box::pin(self.move_inline_names(directory)).await,
            false => Ok(()),
        }
    }

    async fn move_inline_names(&self, directory: &Rc<File>) -> FsResult<()> {
        let before = directory.raw().clone();
        let content = self.inline_bytes(directory).await?;
        match self.move_names(directory).await {
            Ok(()) => Ok(()),
            Err(error) => self.move_back(directory, &before, &content).await.and(Err(error)),
        }
    }

    async fn move_names(&self, directory: &Rc<File>) -> FsResult<()> {
        let names = self.directories().names_from(directory, 0).await?;
        let found = |slot: usize| dentry::slots_of(&names[slot].name);
        let ends: Vec<usize> = names.iter().map(|name| name.next as usize).collect();
        onewrite_block::reached!("inline names move out");
        self.empty_inline(directory, inline::DENTRY).await?;
        directory.change_raw(|raw| {
            raw.i_size.set(PAGE_BYTES);
            raw.i_current_depth.set(1);
        });
        if directory.raw().i_dir_level != 0 {
            for name in &names {
                let new =
                    NewEntry { ino: crate::f2fs::format::Nid::from_ino(name.ino), kind: name.kind, name: &name.name };
                self.directories().add_moved_out(directory, new, Vacancy::default()).await?;
            }
            return Ok(());
        }
        // The names keep their slots, so that a listing goes on behind the one it saw last.
        let mut bytes = [0; PAGE_BYTES as usize];
        for (index, name) in names.iter().enumerate() {
            let slot = ends[index] - found(index);
            debug_assert!(ends[index] <= BLOCK_SLOTS, "an inode has fewer slots than a block");
            let new = NewEntry { ino: crate::f2fs::format::Nid::from_ino(name.ino), kind: name.kind, name: &name.name };
            dentry::insert(&mut bytes, Shape::BLOCK, slot, new);
        }
        self.put_first_page(directory, Page::new(bytes)).await
    }

    /// Undoes a move that failed, mostly on a full disk: the inode holds `content` again, and the fields of `before`.
    ///
    /// # Errors
    /// Device errors, after which nothing changes any more.
    async fn move_back(&self, file: &Rc<File>, before: &RawInode, content: &[u8]) -> FsResult<()> {
        onewrite_block::reached!("inline content moves back", file.raw().i_inline != before.i_inline);
        let moved_back = async {
            if file.raw().i_inline != before.i_inline {
                self.free_pages(file, 0..u64::MAX).await?;
                file.names().forget();
            }
            self.nodes().load_node(file.number(), file.number(), 0).await
        };
        moved_back.await.inspect_err(|error| self.fail(error))?;
        let room = file.shape().inline_range();
        self.nodes().change_node(file.number(), file.number(), |bytes| bytes[room].copy_from_slice(content));
        file.change_raw(|raw| *raw = before.clone());
        self.nodes().note_unsaved(file);
        self.nodes().save_loaded(file);
        Ok(())
    }

    /// Content or names in the inode, with the unused rest.
    pub(super) async fn inline_bytes(&self, file: &File) -> FsResult<Vec<u8>> {
        self.nodes().load_node(file.number(), file.number(), 0).await?;
        let range = file.shape().inline_range();
        self.nodes().read_node(file.number(), |bytes| FsResult::Ok(bytes[range].to_vec()))
    }

    /// Clears marks of inline content, and its room: the inode names blocks from now on, none so far.
    async fn empty_inline(&self, file: &File, marks: u8) -> FsResult<()> {
        self.nodes().load_node(file.number(), file.number(), 0).await?;
        let (room, xattrs) = (file.shape().content_range(), file.shape().xattr_range());
        self.nodes().change_node(file.number(), file.number(), |bytes| bytes[room.start..xattrs.start].fill(0));
        file.change_raw(|raw| raw.i_inline &= !marks);
        self.nodes().note_unsaved(file);
        // Mark and content are parts of one node: whoever writes it has both.
        self.nodes().save_loaded(file);
        Ok(())
    }

    async fn put_first_page(&self, file: &Rc<File>, page: Page) -> FsResult<()> {
        let (_, outcome) = self.reserve_pages(file, 0..1).await;
        outcome?;
        self.pages.make_room(self.volume()).await?;
        self.pages.insert(page_key(&**file, 0), page);
        self.pages.change_dirty(&**file, 0, 0..PAGE_BYTES as usize, |_| ());
        // The inode without its content becomes durable with the page that has it.
        self.note_names(file);
        Ok(())
    }
}
