//! Finishes at mount what was interrupted when the image was last in use.

use std::rc::Rc;

use crate::api::{FsError, FsResult};
use crate::ext4::format::InodeNo;
use crate::ext4::inodes::Node;
use crate::ext4::truncate::DELETE_CREDITS;
use crate::ext4::views::Contents;
use crate::pages::PAGE_BYTES;

impl Contents<'_> {
    /// Finishes the deletions and truncations that were interrupted when the image was last in use.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if the list of orphans is wrong; device errors.
    pub(in crate::ext4) async fn finish_orphans(&self) -> FsResult<()> {
        let nodes = self.read_orphans().await?;
        onewrite_block::reached!("mount finds several orphans", nodes.len() > 1);
        self.orphans().set(nodes.iter().map(|node| node.number()));
        for node in &nodes {
            let handle = self.journal().start(DELETE_CREDITS).await?;
            if node.inode().links == 0 {
                onewrite_block::reached!("mount deletes an orphan");
                self.delete(handle, node).await?;
            } else {
                drop(handle);
                onewrite_block::reached!("truncation resumed by the mount");
                self.truncate_behind_end(node).await?;
            }
        }
        Ok(())
    }

    /// The inodes of the orphan list, its head first.
    async fn read_orphans(&self) -> FsResult<Vec<Rc<Node>>> {
        let mut nodes = Vec::new();
        let mut next = InodeNo(self.superblock().last_orphan.get());
        while next.is_some() {
            if nodes.len() as u32 >= self.layout().inode_count {
                let problem = "the orphan list runs in a circle".into();
                return Err(FsError::Damaged { place: format!("inode {next}"), problem });
            }
            let node = match self.node_or_orphan(next.into()).await {
                Err(FsError::NotFound(_)) => {
                    let place = format!("orphan list, inode {next}");
                    return Err(FsError::Damaged { place, problem: "there is no such inode".into() });
                }
                outcome => outcome?,
            };
            next = node.inode().next_orphan();
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// Finishes an interrupted truncation: frees the blocks behind the end of the file.
    async fn truncate_behind_end(&self, node: &Rc<Node>) -> FsResult<()> {
        let _held = node.lock().write().await;
        let first = node.size().div_ceil(PAGE_BYTES);
        self.free_behind(node, first).await
    }
}
