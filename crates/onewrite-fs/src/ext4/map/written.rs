//! Turns unwritten extents into written ones.
//!
//! The first step splits the extents at both ends of the range, which may need tree blocks. The second step changes the
//! entries in place, which needs no space. So a full disk leaves every block as it was. A range that is one extent
//! needs the second step alone.

use std::ops::Range;

use super::{Extent, Extents, FoundExtent, FsResult, Handle, Node, join};

impl Extents<'_> {
    /// Marks the unwritten blocks in `range` as written. The caller saves the inode.
    ///
    /// # Errors
    /// As [`Extents::insert_extent`]; then no block is marked.
    pub(in crate::ext4) async fn mark_written(
        &self,
        handle: &mut Handle,
        node: &Node,
        range: Range<u64>,
    ) -> FsResult<()> {
        let is_whole = |found: &FoundExtent| {
            u64::from(found.extent.logical) == range.start && found.extent.logical_end() == range.end
        };
        if let Some(found) = self.last_extent_in(node, range.clone()).await?.filter(is_whole) {
            return self.set_written(handle, node, found);
        }
        onewrite_block::reached!("part of an unwritten extent converted");
        for border in [range.start, range.end] {
            if let Ok(border) = u32::try_from(border) {
                self.split_extent(handle, node, border).await?;
            }
        }
        let mut end = range.end;
        while let Some(found) = self.last_extent_in(node, range.start..end).await? {
            self.set_written(handle, node, found)?;
            end = u64::from(found.extent.logical);
        }
        Ok(())
    }

    /// Marks one extent as written and joins it to adjacent extents in its node. Does not wait.
    fn set_written(&self, handle: &mut Handle, node: &Node, FoundExtent { extent, leaf }: FoundExtent) -> FsResult<()> {
        let position = leaf.position - 1;
        let (before, behind) = self.with_tree(node, leaf, |tree| {
            let at = |position: usize| (position < tree.len()).then(|| tree.extent(position));
            (at(position.wrapping_sub(1)), at(leaf.position))
        })?;
        let written = Extent { unwritten: false, ..extent };
        let with_behind = behind.and_then(|behind| join(written, behind));
        let whole = with_behind.unwrap_or(written);
        let with_before = before.and_then(|before| join(before, whole));
        onewrite_block::reached!(
            "converted extent joins both neighbours",
            with_behind.is_some() && with_before.is_some()
        );
        self.change_tree(handle, node, leaf, |tree| {
            if with_behind.is_some() {
                tree.remove(leaf.position);
            }
            match with_before {
                Some(joined) => {
                    tree.remove(position);
                    tree.set_extent(position - 1, joined);
                }
                None => tree.set_extent(position, whole),
            }
        })
    }
}
