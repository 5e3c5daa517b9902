//! Map: from a block of a file to the slot of a node that names it.

use onewrite_block::Page;

use super::file::File;
use super::views::Maps;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::inode::NUMBERS;
use crate::f2fs::format::node::{self, FOOTER_OFFSET, NodeRole, POINTERS};
use crate::f2fs::format::path::{NodePath, blocks_max};
use crate::f2fs::format::{DataAddress, Nid};
use crate::pages::PAGE_BYTES;

/// The place in a node that names a block of a file. The node is in memory at least until the next wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSlot {
    /// The node.
    pub(super) node: Nid,
    /// The slot, counted as summaries count it.
    pub(super) index: usize,
    /// Byte of the node.
    at: usize,
    /// Slots of the node from this one on.
    pub(super) left: u64,
}

impl NodeSlot {
    /// The slot `count` places behind, in the same node.
    pub(super) fn behind(self, count: u64) -> NodeSlot {
        debug_assert!(count < self.left, "slot {} of a node", self.index as u64 + count);
        let (index, at) = (self.index + count as usize, self.at + 4 * count as usize);
        NodeSlot { index, at, left: self.left - count, ..self }
    }
}

/// What names a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A slot, which may say that there is nothing.
    By(NodeSlot),
    /// No node, for this and the blocks behind it.
    Nothing {
        /// Blocks, at least 1.
        count: u64,
    },
}

/// Bytes of the largest file.
pub(super) fn size_max(file: &File) -> u64 {
    blocks_max(file.shape().address_count() as u64) * PAGE_BYTES
}

impl Maps<'_> {
    /// The way to block `logical`.
    ///
    /// # Errors
    /// [`FsError::TooLarge`] if no map can name it.
    pub(super) fn path(&self, file: &File, logical: u64) -> FsResult<NodePath> {
        NodePath::of(logical, file.shape().address_count() as u64).ok_or_else(|| FsError::TooLarge {
            ino: file.ino(),
            size: logical.saturating_add(1).saturating_mul(PAGE_BYTES),
            size_max: size_max(file),
        })
    }

    /// What names block `logical` of a file.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn find(&self, file: &File, logical: u64) -> FsResult<Named> {
        let path = self.path(file, logical)?;
        let owner = file.number();
        self.nodes().load_node(owner, owner, 0).await?;
        let mut above = owner;
        for (depth, step) in path.steps().iter().enumerate() {
            let nid = self.number_in(above, owner, step.slot);
            if nid.is_none() {
                return Ok(Named::Nothing { count: path.rest_below(depth) });
            }
            self.nodes().load_node(nid, owner, step.offset).await?;
            above = nid;
        }
        Ok(Named::By(self.slot(file, &path, above)))
    }

    /// As [`Maps::find`], and makes the nodes that are missing.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]; device errors and damage.
    pub(super) async fn find_or_make(&self, file: &File, logical: u64) -> FsResult<NodeSlot> {
        let path = self.path(file, logical)?;
        let owner = file.number();
        self.nodes().load_node(owner, owner, 0).await?;
        let mut above = owner;
        for step in path.steps() {
            let mut nid = self.number_in(above, owner, step.slot);
            if nid.is_none() {
                nid = Box::pin(self.make_node(file, above, step.slot, step.offset)).await?;
            }
            self.nodes().load_node(nid, owner, step.offset).await?;
            above = nid;
        }
        Ok(self.slot(file, &path, above))
    }

    fn slot(&self, file: &File, path: &NodePath, node: Nid) -> NodeSlot {
        let (at, slots) = match path.steps().is_empty() {
            true => (file.shape().address_at(path.slot), file.shape().address_count()),
            false => (path.slot * 4, POINTERS),
        };
        NodeSlot { node, index: path.slot, at, left: (slots - path.slot) as u64 }
    }

    /// What the inode of a file, which is in memory, says of blocks.
    pub(super) fn addresses_in_inode(&self, file: &File) -> Vec<DataAddress> {
        let (shape, node) = (file.shape(), file.number());
        let first = NodeSlot { node, index: 0, at: shape.address_at(0), left: shape.address_count() as u64 };
        self.addresses(&first, first.left).into_iter().map(|(_, address)| address).collect()
    }

    /// Whether the inode names further nodes of its map. The inode is in memory then at least until the next wait.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn has_nodes(&self, file: &File) -> FsResult<bool> {
        self.nodes().load_node(file.number(), file.number(), 0).await?;
        let names_some =
            |bytes: &onewrite_block::PageBytes| bytes[NUMBERS..FOOTER_OFFSET].iter().any(|byte| *byte != 0);
        self.nodes().read_node(file.number(), |bytes| FsResult::Ok(names_some(bytes)))
    }

    /// Number `slot` of a node that is in memory.
    fn number_in(&self, node: Nid, owner: Nid, slot: usize) -> Nid {
        Nid(self.nodes().word_in(node, 4 * number_at(NodeRole::of(node, owner), slot)))
    }

    /// Makes an empty node below `above`, whose number `slot` names it then.
    async fn make_node(&self, file: &File, above: Nid, slot: usize, offset: u32) -> FsResult<Nid> {
        let owner = file.number();
        self.draft_commits().reserve_node(file)?;
        let taken = async {
            self.pages.make_room(self.volume()).await?;
            let nid = self.nodes().take_number(Some(owner)).await?;
            // The numbers above were read before the waits; the file's lock keeps them as they are.
            match self.pages.holds(super::volume::node_key(above)) {
                true => Ok(nid),
                false => self.reload(above, owner).await.map(|()| nid),
            }
        };
        let nid = taken.await.inspect_err(|_| self.draft_commits().unreserve_node(file))?;
        self.draft_commits().note_made(file, offset);
        onewrite_block::reached!("node of addresses made");
        onewrite_block::reached!("indirect node made", !crate::f2fs::format::path::is_direct(offset));
        self.space.borrow_mut().add_node(NodeRole::Other);
        if above == owner {
            file.note_node();
        }
        self.nodes().put_new_node(nid, owner, offset, Page::ZEROS);
        self.nodes().change_node(above, owner, |bytes| {
            node::put_pointer(bytes, number_at(NodeRole::of(above, owner), slot), nid.0)
        });
        self.add_blocks(file, 1);
        Ok(nid)
    }

    /// Brings a node back into memory whose position is the one of its footer.
    async fn reload(&self, nid: Nid, owner: Nid) -> FsResult<()> {
        onewrite_block::reached!("node left memory while a number was taken");
        let entry = self.nodes().nat_entry(nid).await?;
        let DataAddress::Block(block) = entry.address else {
            return Err(FsError::NotFound(format!("node {nid} (its number is free)")));
        };
        let offset = node::footer(&self.read_block(block).await?.bytes()[..]).offset;
        self.nodes().load_node(nid, owner, offset).await
    }

    /// What a slot of a node in memory says.
    pub(super) fn address(&self, slot: &NodeSlot) -> DataAddress {
        DataAddress::from_disk(self.nodes().word_in(slot.node, slot.at))
    }

    /// Those of `count` slots from `first` on, in a node in memory, that say something, and what.
    pub(super) fn addresses(&self, first: &NodeSlot, count: u64) -> Vec<(NodeSlot, DataAddress)> {
        debug_assert!(count <= first.left, "{count} slots of a node");
        let read = |bytes: &onewrite_block::PageBytes| {
            let words = bytes[first.at..].chunks_exact(4).take(count as usize);
            let said = (0..).zip(words).filter(|(_, word)| *word != [0; 4]);
            let addresses = said.map(|(behind, word)| {
                let address = u32::from_le_bytes(word.try_into().expect("four bytes"));
                (first.behind(behind), DataAddress::from_disk(address))
            });
            FsResult::Ok(addresses.collect())
        };
        self.nodes().read_node(first.node, read).expect("reading cannot fail")
    }

    /// Changes what a slot of a node in memory says.
    pub(super) fn set_address(&self, file: &File, slot: &NodeSlot, address: DataAddress) {
        if slot.node == file.number() {
            file.note_address(slot.index, address);
        }
        self.nodes().change_node(slot.node, file.number(), |bytes| {
            bytes[slot.at..slot.at + 4].copy_from_slice(&address.to_disk().to_le_bytes());
        });
    }

    /// Counts `count` blocks more for a file.
    pub(super) fn add_blocks(&self, file: &File, count: u64) {
        file.change_raw(|raw| raw.i_blocks.set(raw.i_blocks.get() + count));
        self.nodes().note_unsaved(file);
    }

    /// Counts `count` blocks less for a file.
    pub(super) fn drop_blocks(&self, file: &File, count: u64) {
        file.change_raw(|raw| raw.i_blocks.set(raw.i_blocks.get().saturating_sub(count)));
        self.nodes().note_unsaved(file);
    }
}

/// Index of number `slot` among the words of a node. In an inode the numbers end where the footer begins.
pub(super) fn number_at(role: NodeRole, slot: usize) -> usize {
    match role {
        NodeRole::Inode => FOOTER_OFFSET / 4 - crate::f2fs::format::inode::NODE_NUMBERS + slot,
        NodeRole::Other => slot,
    }
}
