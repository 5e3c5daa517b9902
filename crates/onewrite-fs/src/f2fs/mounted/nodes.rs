//! Nodes in memory: loaded when they are needed, changed in place, written to new addresses.

use onewrite_block::{Cause, Page, PageBytes};

use super::node_batch::{NodeBatch, OwnedNode};
use super::views::Nodes;
use super::volume::node_key;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::f2fs::format::inode::{self, CHECKSUM, checksum};
use crate::f2fs::format::nat::NatEntry;
use crate::f2fs::format::node::{self, Footer, NodeRole, XATTR_OFFSET};
use crate::f2fs::format::path;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::Summary;
use crate::f2fs::format::{DataAddress, FormatError, Nid, Place};
use crate::f2fs::space::Owner;
use crate::f2fs::tables::{NamedNode, expect_owner};
use crate::transfer::{Durability, send_run, wait_all};

/// The transaction that pins changed nodes.
const PIN: u64 = 1;

/// How nodes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodesFor {
    /// For a checkpoint.
    Checkpoint,
    /// For an fsync: the last node gets the mark.
    Fsync {
        /// Whether recovery has to make the inode's name.
        has_new_name: bool,
    },
}

impl Nodes<'_> {
    /// Brings node `nid` into memory, which belongs to inode `owner` at position `offset` of its tree. It stays there
    /// at least until the next wait.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the number is free; [`FsError::Damaged`] if NAT or footer disagree; device errors.
    pub(super) async fn load_node(&self, nid: Nid, owner: Nid, offset: u32) -> FsResult<()> {
        let node = NamedNode { nid, owner, offset };
        match self.expect_loaded(&node) {
            Some(outcome) => Ok(outcome?),
            None => Box::pin(self.load_missing(&node)).await,
        }
    }

    async fn load_missing(&self, node: &NamedNode) -> FsResult<()> {
        let (nid, key) = (node.nid, node_key(node.nid));
        loop {
            if let Some(outcome) = self.expect_loaded(node) {
                return Ok(outcome?);
            }
            if !self.layout.contains_node(nid) {
                return Err(FormatError::field(Place::Node(nid), "nid", nid.0, "there is no such number").into());
            }
            let entry = self.nat_entry(nid).await?;
            if self.pages.holds(key) {
                continue;
            }
            let DataAddress::Block(block) = entry.address else {
                return Err(FsError::NotFound(format!("node {nid} (its number is free)")));
            };
            if !self.layout.main.contains(block) {
                return Err(FormatError::field(Place::Nat(nid), "block_addr", block.0, "outside the main area").into());
            }
            self.pages.make_room(self.volume()).await?;
            let Some(_loading) = self.pages.begin_load(key).await else { continue };
            if self.nat_entry(nid).await?.address != entry.address {
                onewrite_block::reached!("node moved while it was loaded");
                continue;
            }
            let page = self.read_block(block).await?;
            if self.nat_entry(nid).await?.address != entry.address {
                // Dropped meanwhile: what was read must not come back under a number that is free.
                continue;
            }
            if node.offset == 0 {
                inode::Head::decode(&page.bytes()[..], nid, &self.layout)?;
            }
            if !self.pages.holds(key) {
                self.pages.insert(key, page);
            }
        }
    }

    /// Whether the node is what its name says; `None` if it or its entry is not in memory.
    fn expect_loaded(&self, node: &NamedNode) -> Option<Result<(), FormatError>> {
        let page = self.pages.peek(node_key(node.nid))?;
        let entry = self.numbers.borrow().known(node.nid)?;
        Some(expect_owner(&node::footer_of(&page), &entry, node))
    }

    /// Reads a node that is in memory.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn read_node<T, E: Into<FsError>>(
        &self,
        nid: Nid,
        read: impl FnOnce(&PageBytes) -> Result<T, E>,
    ) -> FsResult<T> {
        let page = self.pages.peek(node_key(nid)).expect("the node was just loaded");
        read(&page.bytes()).map_err(Into::into)
    }

    /// The word of a node in memory at byte `at`.
    ///
    /// # Panics
    /// If it is not in memory.
    pub(super) fn word_in(&self, nid: Nid, at: usize) -> u32 {
        u32::from_le_bytes(self.pages.peek(node_key(nid)).expect("the node was just loaded").read_at(at))
    }

    /// Changes a node of inode `owner` that is in memory.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn change_node<R>(&self, nid: Nid, owner: Nid, change: impl FnOnce(&mut PageBytes) -> R) -> R {
        if nid == owner {
            self.note_inode_change(nid);
        }
        let changed = self.pages.change(node_key(nid), change).expect("the node was just loaded");
        self.note_dirty_node(nid, owner);
        changed
    }

    fn note_dirty_node(&self, nid: Nid, owner: Nid) {
        if self.dirty_nodes.borrow_mut().insert(OwnedNode { owner, nid }) {
            self.pages.pin(node_key(nid), PIN);
        }
    }

    /// Puts a new node of inode `owner` into memory.
    pub(super) fn put_new_node(&self, nid: Nid, owner: Nid, offset: u32, mut page: Page) {
        if nid == owner {
            self.note_inode_change(nid);
        }
        node::put_footer(page.bytes_mut(), &Footer::new(nid, owner, offset));
        self.pages.insert(node_key(nid), page);
        self.note_dirty_node(nid, owner);
    }

    /// Drops a node that is gone from memory.
    pub(super) fn drop_node(&self, nid: Nid, owner: Nid) {
        self.dirty_nodes.borrow_mut().remove(&OwnedNode { owner, nid });
        self.pages.unpin(std::iter::once(node_key(nid)), PIN);
        self.pages.discard(super::volume::NODE_FILE, nid.0.into()..u64::from(nid.0) + 1);
        let entry = self.numbers.borrow().known(nid);
        if let Some(NatEntry { address: DataAddress::Block(block), .. }) = entry {
            self.space.borrow_mut().give_back(block);
        }
        self.numbers.borrow_mut().give(nid);
        let mut space = self.space.borrow_mut();
        space.unreserve(1);
        space.drop_node(NodeRole::of(nid, owner));
    }

    /// Changed nodes of an inode, in the order in which an fsync writes them: first those that name nodes, which are no
    /// part of the chain, the inode last.
    pub(super) fn dirty_nodes_of(&self, owner: Nid) -> Vec<Nid> {
        let dirty = self.dirty_nodes.borrow();
        let node = |nid| OwnedNode { owner, nid };
        let mut nodes: Vec<Nid> = dirty.range(node(Nid::NONE)..=node(Nid(u32::MAX))).map(|node| node.nid).collect();
        nodes.sort_by_key(|nid| (self.is_in_chain(*nid), *nid == owner));
        nodes
    }

    /// Whether a changed node goes to the log that recovery follows.
    pub(super) fn is_in_chain(&self, nid: Nid) -> bool {
        is_followed(self.footer_of(nid).offset)
    }

    fn footer_of(&self, nid: Nid) -> Footer {
        let page = self.pages.peek(node_key(nid)).expect("a changed node is pinned");
        node::footer_of(&page)
    }

    /// All changed nodes.
    pub(super) fn all_dirty_nodes(&self) -> Vec<OwnedNode> {
        self.dirty_nodes.borrow().iter().copied().collect()
    }

    /// Gives changed nodes of inode `owner` their new addresses and adds them to `batch`. Does not wait.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if their log has nothing left, or recovery would not find them there.
    pub(super) fn place_nodes(
        &self,
        batch: &mut NodeBatch,
        owner: Nid,
        nids: &[Nid],
        reason: NodesFor,
    ) -> FsResult<()> {
        let version = self.checkpoint.borrow().footer_version();
        for (place, nid) in nids.iter().enumerate() {
            let mut footer = self.footer_of(*nid);
            let kind = self.log_of(owner, footer.offset);
            let entry = self.numbers.borrow().known(*nid).expect("a changed node has an entry in memory");
            let summary = Owner { summary: Summary { nid: *nid, slot: 0 }, version: entry.version };
            let is_chained = reason != NodesFor::Checkpoint && kind == LogKind::WarmNode;
            let block = {
                let mut space = self.space.borrow_mut();
                // The log went on elsewhere than the last node says: only a checkpoint tells where.
                if is_chained && space.next_block(kind) != self.chain_end.get() {
                    onewrite_block::reached!("chain of nodes would break");
                    return Err(FsError::NoSpace { what: "blocks for nodes of the chain", needed: 1, free: 0 });
                }
                let Some(block) = space.take(kind, summary) else {
                    onewrite_block::reached!("no block for a node");
                    return Err(FsError::NoSpace { what: "blocks for nodes", needed: 1, free: 0 });
                };
                if let DataAddress::Block(old) = entry.address {
                    space.give_back(old);
                }
                let next = space.next_block(kind);
                footer.next = next.unwrap_or(BlockNo::FIRST);
                if is_chained {
                    self.chain_end.set(next);
                }
                block
            };
            let is_last = place + 1 == nids.len();
            debug_assert!(
                reason == NodesFor::Checkpoint || !is_last || is_chained,
                "the mark of an fsync on node {nid}"
            );
            (footer.version, footer.is_cold) = (version, kind != LogKind::HotNode);
            (footer.is_fsynced, footer.has_new_name) = match reason {
                NodesFor::Fsync { has_new_name } if is_last => (true, has_new_name && *nid == owner),
                _ => (false, false),
            };
            // What is written stays in memory as it is: a copy is made only if the node changes again. After an fsync
            // it soon does.
            let page = self.pages.change_pinned(node_key(*nid), |page| {
                node::put_footer(page.bytes_mut(), &footer);
                self.seal_inode(page.bytes_mut(), *nid, owner);
                if reason == NodesFor::Checkpoint {
                    page.thin();
                }
            });
            self.numbers.borrow_mut().set(*nid, NatEntry { address: DataAddress::Block(block), ..entry });
            let node = OwnedNode { owner, nid: *nid };
            self.dirty_nodes.borrow_mut().remove(&node);
            batch.add(node, block, page);
        }
        Ok(())
    }

    /// Makes the checksum of an inode right, if the image has such.
    fn seal_inode(&self, bytes: &mut PageBytes, nid: Nid, owner: Nid) {
        if nid == owner && inode::has_checksum(&bytes[..], &self.layout) {
            let sum = checksum(&bytes[..], nid, &self.layout);
            bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// The log of a node at position `offset` of the tree of inode `owner`.
    fn log_of(&self, owner: Nid, offset: u32) -> LogKind {
        let is_directory = self.files.get(owner).is_some_and(|file| file.is_directory());
        match (is_followed(offset), is_directory) {
            (true, true) => LogKind::HotNode,
            (true, false) => LogKind::WarmNode,
            (false, _) => LogKind::ColdNode,
        }
    }

    /// Writes a batch and waits. Its nodes may leave memory then, unless they changed again: if so, they are dirty, or
    /// the next batch has them, and the device does not.
    ///
    /// # Errors
    /// Device errors; nothing changes any more then.
    pub(super) async fn write_nodes(&self, mut batch: NodeBatch, durability: Durability, cause: Cause) -> FsResult<()> {
        let mut under_way = Vec::new();
        for (start, pages) in batch.take_runs() {
            self.count(|counters| counters.journal_bytes += pages.len() as u64 * 4096);
            under_way.extend(send_run(&self.port, start.page(), pages.into_iter(), durability, cause).await);
        }
        let sent = wait_all(under_way).await;
        self.unpin_written(batch.nodes());
        self.pages.progress().notify_all();
        let outcome = sent.map_err(FsError::from);
        outcome.inspect_err(|error| self.fail(error))
    }

    fn unpin_written(&self, nodes: &[(OwnedNode, BlockNo)]) {
        let (dirty, numbers) = (self.dirty_nodes.borrow(), self.numbers.borrow());
        let is_here = |nid, block| numbers.known(nid).is_some_and(|entry| entry.address == DataAddress::Block(block));
        let clean = nodes.iter().filter(|(node, block)| !dirty.contains(node) && is_here(node.nid, *block));
        self.pages.unpin(clean.map(|(node, _)| node_key(node.nid)), PIN);
    }
}

/// Whether recovery follows the node at `offset` in the tree of its inode: the inode itself, nodes that have addresses
/// of content, and that of attributes.
fn is_followed(offset: u32) -> bool {
    offset == XATTR_OFFSET || path::is_direct(offset)
}
