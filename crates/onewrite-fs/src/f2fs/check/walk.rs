//! The walk over an inode's nodes and content.

use onewrite_block::Page;

use super::{Checker, Known, Named};
use crate::api::{FileKind, FsError, FsResult};
use crate::block::BlockNo;
use crate::f2fs::format::node::{self, POINTERS, XATTR_OFFSET};
use crate::f2fs::format::summary::{Summary, SummaryKind};
use crate::f2fs::format::xattr;
use crate::f2fs::format::{DataAddress, Inode, Nid, NodePath, Place};

/// A node below an inode that is still to be looked at.
struct Below {
    nid: Nid,
    /// Its position in the file's tree.
    offset: u32,
    /// Levels of nodes below it: 0 for a direct node.
    levels: u32,
    /// First block of content that it leads to.
    logical: u64,
}

/// The walk over one inode.
struct Walk<'a> {
    inode: &'a Inode,
    /// Blocks found: nodes, content, and reserved ones.
    blocks: u64,
    /// Block behind the last one of content.
    end: u64,
}

impl Checker {
    /// Looks at an inode that was named, and at everything below it if that is its first name.
    pub(super) async fn check_inode(&mut self, named: Named) -> FsResult<()> {
        let Named { nid, parent, kind } = named;
        if let Some(known) = self.inodes.get_mut(&nid) {
            known.found += 1;
            let known = *known;
            self.check_kind(named, known.kind);
            if known.kind == FileKind::Directory {
                self.report.add(Place::Inode(nid), format!("a directory with two names, one in inode {parent}"));
            }
            return Ok(());
        }
        let Some(page) = self.node(nid, nid, 0).await? else { return Ok(()) };
        let inode = match Inode::decode(&page.bytes()[..], nid, &self.tables.layout) {
            Ok(inode) => inode,
            Err(error) => {
                self.report.add_error(Place::Inode(nid), &error);
                let Ok(inode) = Inode::decode_unverified(&page.bytes()[..], nid, &self.tables.layout) else {
                    return Ok(());
                };
                inode
            }
        };
        self.check_own_name(&inode);
        let own = u32::from(parent.is_some()) + u32::from(inode.kind == FileKind::Directory);
        self.inodes.insert(nid, Known { kind: inode.kind, links: inode.raw.i_links.get(), found: own });
        if kind.is_some() {
            self.check_kind(named, inode.kind);
        }
        self.check_content(&inode, parent).await
    }

    /// The name that an inode keeps of itself, for roll-forward, has at least the length that it says. Behind it Linux
    /// leaves the end of a longer one that the file had before.
    fn check_own_name(&mut self, inode: &Inode) {
        let raw = &inode.raw;
        let length = raw.i_name.iter().position(|byte| *byte == 0).unwrap_or(raw.i_name.len());
        let said = raw.i_namelen.get();
        if said as usize > length {
            self.report.add(Place::Inode(inode.number), format!("i_namelen is {said}, its name has {length} bytes"));
        }
    }

    fn check_kind(&mut self, named: Named, kind: FileKind) {
        if named.kind.is_some_and(|said| said != kind) {
            let Named { nid, parent, .. } = named;
            let problem = format!("it is {kind:?}, a name in inode {parent} says otherwise");
            self.report.add(Place::Inode(nid), problem);
        }
    }

    /// Reads and claims a node; `None`, with a finding, if it cannot be trusted.
    async fn node(&mut self, nid: Nid, owner: Nid, offset: u32) -> FsResult<Option<Page>> {
        let page = match self.tables.node(nid, owner, offset).await {
            Ok(page) => page,
            Err(FsError::Damaged { place, problem }) => {
                self.report.add(Place::Node(nid), format!("{place}: {problem}"));
                return Ok(None);
            }
            Err(FsError::NotFound(problem)) => {
                self.report.add(Place::Inode(owner), format!("it names {problem}"));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Some(DataAddress::Block(block)) = self.nat.get(&nid).map(|entry| entry.address) else { return Ok(None) };
        if !self.claim(block, Place::Node(nid)) {
            return Ok(None);
        }
        self.check_summary(block, SummaryKind::Node, Summary { nid, slot: 0 }).await?;
        self.nodes.insert(nid);
        Ok(Some(page))
    }

    /// Claims a block. False, with a finding, if it lies outside the main area or something else owns it.
    fn claim(&mut self, block: BlockNo, place: Place) -> bool {
        let Some((segment, index)) = self.tables.layout.position(block) else {
            self.report.add(place, format!("block {block} lies outside the main area"));
            return false;
        };
        let is_free = self.claims.claim(segment, index);
        if !is_free {
            self.report.add(place, format!("block {block} belongs to something else too"));
        }
        is_free
    }

    async fn check_content(&mut self, inode: &Inode, parent: Nid) -> FsResult<()> {
        let mut walk = Walk { inode, blocks: 1, end: 0 };
        self.check_attributes(&mut walk).await?;
        match inode.kind {
            FileKind::Directory if inode.is_inline_dentry() => {
                let bytes = inode.inline_bytes();
                self.check_names(inode, parent, None, bytes);
            }
            FileKind::Regular | FileKind::Symlink if inode.is_inline_data() => (),
            FileKind::Regular | FileKind::Symlink | FileKind::Directory => self.check_map(&mut walk, parent).await?,
            _ => (),
        }
        let raw = &inode.raw;
        let place = Place::Inode(inode.number);
        if raw.i_blocks.get() != walk.blocks {
            self.report.add(place, format!("says {} blocks, {} were found", raw.i_blocks.get(), walk.blocks));
        }
        if inode.kind == FileKind::Directory && raw.i_size.get().div_ceil(4096) < walk.end {
            self.report.add(place, format!("a directory of {} bytes with names behind them", raw.i_size.get()));
        }
        Ok(())
    }

    /// The node of extended attributes, and the list.
    async fn check_attributes(&mut self, walk: &mut Walk<'_>) -> FsResult<()> {
        let inode = walk.inode;
        let mut list = inode.inline_xattr().to_vec();
        if inode.xattr_node().is_some()
            && let Some(page) = self.node(inode.xattr_node(), inode.number, XATTR_OFFSET).await?
        {
            walk.blocks += 1;
            list.extend_from_slice(&page.bytes()[..node::FOOTER_OFFSET]);
        }
        if let Err(error) = xattr::attributes(&list, Place::Inode(inode.number)) {
            self.report.add_error(Place::Inode(inode.number), &error);
        }
        Ok(())
    }

    async fn check_map(&mut self, walk: &mut Walk<'_>, parent: Nid) -> FsResult<()> {
        let inode = walk.inode;
        for index in (0..inode.address_count()).filter(|index| inode.address(*index) != DataAddress::Hole) {
            let owner = Summary { nid: inode.number, slot: index as u16 };
            self.check_address(walk, inode.address(index), index as u64, (owner, parent)).await?;
        }
        let mut pending = Vec::new();
        let mut logical = inode.address_count() as u64;
        for (slot, levels) in [0, 0, 1, 1, 2].into_iter().enumerate() {
            let path = NodePath::of(logical, inode.address_count() as u64).expect("the format has five");
            let offset = path.steps()[0].offset;
            pending.push(Below { nid: inode.node(slot), offset, levels, logical });
            logical += (POINTERS as u64).pow(levels + 1);
        }
        while let Some(below) = pending.pop() {
            if below.nid.is_none() {
                continue;
            }
            let Some(page) = self.node(below.nid, inode.number, below.offset).await? else { continue };
            walk.blocks += 1;
            let bytes = page.bytes();
            for slot in 0..POINTERS {
                let value = node::pointer(&bytes[..], slot);
                if value == 0 {
                    continue;
                }
                let logical = below.logical + slot as u64 * (POINTERS as u64).pow(below.levels);
                if below.levels == 0 {
                    let owner = Summary { nid: below.nid, slot: slot as u16 };
                    self.check_address(walk, DataAddress::from_disk(value), logical, (owner, parent)).await?;
                } else {
                    let path = NodePath::of(logical, inode.address_count() as u64).expect("it lies below a node");
                    let depth = path.steps().len() - below.levels as usize;
                    let offset = path.steps()[depth].offset;
                    pending.push(Below { nid: Nid(value), offset, levels: below.levels - 1, logical });
                }
            }
        }
        Ok(())
    }

    async fn check_address(
        &mut self,
        walk: &mut Walk<'_>,
        address: DataAddress,
        logical: u64,
        (owner, parent): (Summary, Nid),
    ) -> FsResult<()> {
        let inode = walk.inode;
        let place = Place::FileBlock { inode: inode.number, logical };
        let block = match address {
            DataAddress::Hole => return Ok(()),
            DataAddress::Reserved => {
                walk.blocks += 1;
                self.reserved += 1;
                return Ok(());
            }
            DataAddress::Compressed => {
                self.report.add(place, "the start of a compressed cluster in a file that is not compressed");
                return Ok(());
            }
            DataAddress::Block(block) => block,
        };
        walk.blocks += 1;
        if !self.claim(block, place) {
            return Ok(());
        }
        walk.end = walk.end.max(logical + 1);
        self.check_summary(block, SummaryKind::Data, owner).await?;
        if inode.kind == FileKind::Directory {
            let page = self.tables.blocks.block(block).await?;
            self.check_names(inode, parent, Some(logical), &page.bytes()[..]);
        }
        Ok(())
    }
}
