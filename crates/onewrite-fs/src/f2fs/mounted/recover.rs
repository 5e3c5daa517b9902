//! Roll-forward: what fsyncs made durable behind the last checkpoint.
//!
//! An fsync writes nodes into the log of warm nodes and marks the last. Each node names the block that its log takes
//! next, so a chain begins where the checkpoint's log stood. A node belongs to it if its footer has the version of this
//! checkpoint. The nodes of an inode count up to its last mark; what follows belongs to a checkpoint that was not
//! finished.
//!
//! A disk whose writes of a page are not atomic may tear nodes that are on their way at a power cut. There, an inode
//! whose checksum is wrong ends the chain, since no fsync behind it can have returned; elsewhere it is damage. Other
//! nodes have no checksum.
//!
//! Linux begins a chain behind the checkpoint of an unmount, too; we make a checkpoint first.
//!
//! Nothing that the chain names is overwritten before the checkpoint that ends the recovery: the logs pass its blocks
//! by. So a recovery that is interrupted begins anew. They also pass by the block in which the chain ends: a node there
//! would continue it, and behind it may lie nodes of an fsync that did not return.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onewrite_block::{Page, PageBytes};

use super::file::File;
use super::map::Named;
use super::views::Recovery;
use super::volume::Volume;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::dentry::NewEntry;
use crate::f2fs::format::inode::{self, ADDRESSES, NODE_NUMBERS, NUMBERS, inline};
use crate::f2fs::format::node::{self, FOOTER_OFFSET, Footer, NodeRole, POINTERS, XATTR_OFFSET};
use crate::f2fs::format::path::{first_block, is_direct};
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::Summary;
use crate::f2fs::format::xattr;
use crate::f2fs::format::{DataAddress, FormatError, Inode, Nid, Place};
use crate::f2fs::space::{Owner, Reserve};
use crate::names::check_name;
use crate::pages::{PAGE_BYTES, PagedFile};

/// What a mount rolled forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files.
    pub files: u64,
    /// Nodes.
    pub nodes: u64,
    /// Transactions of a staging area.
    pub transactions: u64,
}

/// A node of the chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    block: BlockNo,
    footer: Footer,
}

/// The nodes that recovery follows.
struct Chain {
    links: Vec<Link>,
    /// The block that the last node names, in which there is no node of the chain.
    end: BlockNo,
}

/// The newest nodes of a file, by position in its tree, and whether its name is new.
#[derive(Default)]
struct Synced {
    nodes: BTreeMap<u32, BlockNo>,
    has_new_name: bool,
}

/// A block of a file, and its address.
type Addressed = (u64, DataAddress);

impl Recovery<'_> {
    /// Rolls forward, in memory. The caller makes a checkpoint then.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if the chain contradicts the checkpoint; [`FsError::NoSpace`]; device errors.
    pub(super) async fn recover(&self) -> FsResult<Option<Recovered>> {
        let chain = self.read_chain().await?;
        let synced = synced_files(&chain.links);
        onewrite_block::reached!("chain of nodes without a whole fsync", !chain.links.is_empty() && synced.is_empty());
        if synced.is_empty() {
            if !self.options.read_only && self.may_go_on(&chain) {
                self.bar_blocks(&chain, &synced).await?;
                self.pass_barred().await?;
            }
            return Ok(None);
        }
        let _changes = self.changes.read().await;
        onewrite_block::reached!("files rolled forward");
        onewrite_block::reached!(
            "chain of nodes ends in half an fsync",
            chain.links.last().is_some_and(|link| !link.footer.is_fsynced)
        );
        self.bar_chain(&chain, &synced).await?;
        let mut recovered = Recovered::default();
        for (owner, file) in &synced {
            if self.recover_file(*owner, file).await? {
                recovered.files += 1;
                recovered.nodes += file.nodes.len() as u64;
            }
        }
        Ok(Some(recovered))
    }

    async fn read_chain(&self) -> FsResult<Chain> {
        let (mut block, version) = {
            let checkpoint = self.checkpoint.borrow();
            let log = checkpoint.log(LogKind::WarmNode);
            (self.layout.segment_start(log.segment) + u64::from(log.next), checkpoint.footer_version())
        };
        let may_tear = self.port.geometry().atomic_write_pages == 0;
        // A chain that leads back into itself is damage, and ends there.
        let (mut links, mut seen) = (Vec::new(), BTreeSet::new());
        while self.layout.main.contains(block) && seen.insert(block) {
            let page = self.read_block(block).await?;
            let footer = node::footer(&page.bytes()[..]);
            if footer.version != version {
                break;
            }
            let is_torn = || footer.offset == 0 && !inode::is_whole(&page.bytes()[..], footer.ino, &self.layout);
            if may_tear && is_torn() {
                onewrite_block::reached!("torn inode ends the chain");
                break;
            }
            links.push(Link { block, footer });
            block = footer.next;
        }
        Ok(Chain { links, end: block })
    }

    /// Whether nodes that no recovery may read could lie behind the end of the chain. Behind an unmount there are none.
    fn may_go_on(&self, chain: &Chain) -> bool {
        !chain.links.is_empty() || !self.checkpoint.borrow().has(flags::UMOUNT)
    }

    /// Keeps the logs away from everything that the chain names, and new inodes' numbers from other nodes. A node that
    /// a later one replaces is a link, too: without it, the next recovery would not find those behind it.
    async fn bar_chain(&self, chain: &Chain, synced: &BTreeMap<Nid, Synced>) -> FsResult<()> {
        self.bar_blocks(chain, synced).await?;
        synced.keys().for_each(|owner| self.numbers.borrow_mut().hold(*owner));
        self.open_room().await
    }

    async fn bar_blocks(&self, chain: &Chain, synced: &BTreeMap<Nid, Synced>) -> FsResult<()> {
        let blocks = chain.links.iter().map(|link| link.block);
        blocks.chain([chain.end]).for_each(|block| self.space.borrow_mut().bar_block(block));
        for file in synced.values() {
            for (offset, block) in &file.nodes {
                let page = self.read_block(*block).await?;
                let mut space = self.space.borrow_mut();
                for address in self.addresses_in(*offset, &page) {
                    space.bar_block(address);
                }
            }
        }
        Ok(())
    }

    /// What the node at `offset` in the tree of its file says about blocks of content.
    fn addresses_in(&self, offset: u32, page: &Page) -> Vec<BlockNo> {
        let bytes = page.bytes();
        let shape = || Inode::decode_unverified(&bytes[..], node::footer(&bytes[..]).ino, &self.layout);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let words: Vec<u32> = match (offset, shape().map(|inode| inode.shape())) {
            (0, Ok(shape)) => (0..shape.address_count()).map(|slot| word(shape.address_at(slot))).collect(),
            (offset, _) if offset == 0 || is_direct(offset) => {
                (0..POINTERS).map(|index| node::pointer(&bytes[..], index)).collect()
            }
            _ => Vec::new(),
        };
        words.into_iter().map(|word| BlockNo(word.into())).collect()
    }

    /// Keeps everything that the chain and the staging area name, before free zones are reset and logs enter them.
    ///
    /// # Errors
    /// As [`Recovery::recover`] and [`Recovery::recover_stage`].
    pub(super) async fn bar_named(&self) -> FsResult<()> {
        let chain = self.read_chain().await?;
        if self.may_go_on(&chain) {
            self.bar_blocks(&chain, &synced_files(&chain.links)).await?;
        }
        if let Some(merged) = self.read_staged().await? {
            self.bar_staged(&merged);
        }
        Ok(())
    }

    /// Lets the logs pass what was barred and take the reserve.
    pub(super) async fn open_room(&self) -> FsResult<()> {
        self.pass_barred().await?;
        let space = self.space.borrow();
        let needed = [LogKind::HotData, LogKind::HotNode, LogKind::WarmNode, LogKind::ColdNode];
        let free = needed.into_iter().filter(|kind| space.next_block(*kind).is_some()).count();
        match free == needed.len() {
            true => Ok(()),
            false => Err(FsError::NoSpace {
                what: "segments to roll forward what fsyncs wrote",
                needed: needed.len() as u64,
                free: free as u64,
            }),
        }
    }

    async fn pass_barred(&self) -> FsResult<()> {
        self.space.borrow_mut().pass_barred();
        self.space.borrow_mut().open_reserve(Reserve::ForAll);
        self.cleaner().prepare_threads().await
    }

    /// Rolls one file forward. False if nothing says what it is.
    async fn recover_file(&self, owner: Nid, synced: &Synced) -> FsResult<bool> {
        let inode = match synced.nodes.get(&0) {
            Some(block) => Some(self.read_block(*block).await?),
            None => None,
        };
        let is_known = self.nodes().nat_entry(owner).await?.address != DataAddress::Hole;
        let mut attributes = Vec::new();
        if is_known {
            attributes = self.extended_attributes().attribute_list(&*self.nodes().file(owner.into()).await?).await?;
        }
        onewrite_block::reached!("new file rolled forward", !is_known && inode.is_some());
        onewrite_block::reached!("nodes of an unknown file passed over", !is_known && inode.is_none());
        let file = match (is_known, &inode) {
            (false, None) => return Ok(false),
            (false, Some(page)) => {
                let inode = Inode::decode(&page.bytes()[..], owner, &self.layout)?;
                self.make_recovered(&inode, *page.bytes()).await?
            }
            (true, None) => self.nodes().file(owner.into()).await?,
            (true, Some(page)) => {
                let inode = Inode::decode(&page.bytes()[..], owner, &self.layout)?;
                self.renew_inode(&inode, &page.bytes()).await?
            }
        };
        self.recover_content(&file, synced, inode.as_ref()).await?;
        if let Some(block) = synced.nodes.get(&XATTR_OFFSET) {
            let page = self.read_block(*block).await?;
            self.extended_attributes().put_rest(&file, &page.bytes()[..FOOTER_OFFSET]).await?;
        }
        self.mend_attributes(&file, &attributes).await?;
        if synced.has_new_name {
            self.recover_name(&file).await?;
        }
        Ok(true)
    }

    /// Gives the file the attributes `before` if what the chain has of them does not end: Linux writes an inode and its
    /// node of attributes in any order, and a power cut may come between the two.
    async fn mend_attributes(&self, file: &Rc<File>, before: &[u8]) -> FsResult<()> {
        let list = self.extended_attributes().attribute_list(file).await?;
        match xattr::attributes(&list, Place::Inode(file.number())) {
            Ok(_) => Ok(()),
            Err(_) => self.extended_attributes().put_list(file, before).await,
        }
    }

    /// Makes an inode that the checkpoint does not know, without content so far.
    pub(super) async fn make_recovered(&self, inode: &Inode, mut bytes: PageBytes) -> FsResult<Rc<File>> {
        let owner = inode.number;
        if !is_inline(inode) {
            bytes[inode.shape().content_range().start..inode.shape().xattr_range().start].fill(0);
        }
        bytes[NUMBERS..NUMBERS + 4 * NODE_NUMBERS].fill(0);
        let version = self.nodes().nat_entry(owner).await?.version;
        self.pages.make_room(self.volume()).await?;
        {
            let mut space = self.space.borrow_mut();
            space.reserve(1)?;
            space.add_node(NodeRole::Inode);
        }
        self.numbers.borrow_mut().take(owner, version, owner);
        self.nodes().put_new_node(owner, owner, 0, Page::new(bytes));
        let file = self.nodes().file(owner.into()).await?;
        file.change_raw(|raw| {
            raw.i_blocks.set(1);
            raw.i_xattr_nid.set(0);
        });
        self.nodes().note_unsaved(&file);
        Ok(file)
    }

    /// Gives an inode that the checkpoint knows the fields and attributes of a newer one, with its block.
    pub(super) async fn renew_inode(&self, newer: &Inode, block: &PageBytes) -> FsResult<Rc<File>> {
        let owner = newer.number;
        let old = self.nodes().file(owner.into()).await?;
        if old.kind() != newer.kind {
            return Err(FormatError::field(
                Place::Inode(owner),
                "i_mode",
                newer.raw.i_mode.get(),
                "it was another kind",
            )
            .into());
        }
        let pages_end = newer.raw.i_size.get().div_ceil(PAGE_BYTES);
        match (old.is_inline(), is_inline(newer)) {
            (false, true) => self.contents().free_pages(&old, 0..u64::MAX).await?,
            (false, false) if newer.raw.i_size.get() < old.size() => {
                self.contents().free_pages(&old, pages_end..u64::MAX).await?;
            }
            // Its blocks say all that it holds.
            (true, false) => self.contents().drop_inline_content(&old).await?,
            _ => (),
        }
        let (blocks, attributes) = (old.raw().i_blocks.get(), old.raw().i_xattr_nid.get());
        if old.shape() != newer.shape() {
            let rule = "the room for addresses differs from the checkpoint's";
            return Err(FormatError::field(Place::Inode(owner), "i_inline", newer.raw.i_inline, rule).into());
        }
        self.nodes().save_inode(&old).await?;
        self.files.remove(owner);
        self.nodes().load_node(owner, owner, 0).await?;
        let copied = match is_inline(newer) {
            true => newer.shape().content_range(),
            false => newer.shape().xattr_range(),
        };
        self.nodes().change_node(owner, owner, |bytes: &mut PageBytes| {
            bytes[..ADDRESSES].copy_from_slice(&block[..ADDRESSES]);
            bytes[copied.clone()].copy_from_slice(&block[copied]);
        });
        let file = self.nodes().file(owner.into()).await?;
        file.change_raw(|raw| {
            raw.i_blocks.set(blocks);
            raw.i_xattr_nid.set(attributes);
        });
        self.nodes().note_unsaved(&file);
        Ok(file)
    }

    /// Gives the file the addresses that its nodes in the chain say. First gives back what they no longer say, so that
    /// blocks may have moved within the file.
    async fn recover_content(&self, file: &Rc<File>, synced: &Synced, inode: Option<&Page>) -> FsResult<()> {
        // Of a directory, names that a search met before may be others now.
        file.names().forget();
        let mut changes = Vec::new();
        for (offset, block) in synced.nodes.iter().filter(|(offset, _)| is_direct(**offset)) {
            let page = match (offset, inode) {
                (0, Some(page)) => page.clone(),
                _ => self.read_block(*block).await?,
            };
            if *offset == 0 && file.is_inline() {
                continue;
            }
            let shape = file.shape();
            let (first, count) = match offset {
                0 => (0, shape.address_count()),
                _ => (first_block(*offset, shape.address_count() as u64), POINTERS),
            };
            for slot in 0..count {
                let at = if *offset == 0 { shape.address_at(slot) } else { slot * 4 };
                let word = page.bytes()[at..at + 4].try_into().expect("four bytes");
                changes.push((first + slot as u64, DataAddress::from_disk(u32::from_le_bytes(word))));
            }
        }
        let changes = self.unlike(file, changes).await?;
        for (logical, _) in &changes {
            onewrite_block::reached!("address of the checkpoint replaced");
            self.contents().free_pages(file, *logical..logical + 1).await?;
        }
        for (logical, address) in changes {
            if address != DataAddress::Hole {
                self.recover_address(file, logical, address).await?;
            }
        }
        Ok(())
    }

    /// Those of the addresses, in ascending order of blocks of the file, that it does not have already.
    async fn unlike(&self, file: &File, addresses: Vec<Addressed>) -> FsResult<Vec<Addressed>> {
        let mut unlike = Vec::new();
        let mut rest = &addresses[..];
        while let Some((first, _)) = rest.first() {
            let (count, slot) = match self.maps().find(file, *first).await? {
                Named::By(slot) => (slot.left, Some(slot)),
                Named::Nothing { count } => (count, None),
            };
            let (here, behind) = rest.split_at(rest.partition_point(|(logical, _)| logical - first < count));
            let has = |logical: u64| {
                slot.map_or(DataAddress::Hole, |slot| self.maps().address(&slot.behind(logical - first)))
            };
            unlike.extend(here.iter().copied().filter(|(logical, address)| has(*logical) != *address));
            rest = behind;
        }
        Ok(unlike)
    }

    pub(super) async fn address_of(&self, file: &File, logical: u64) -> FsResult<DataAddress> {
        Ok(match self.maps().find(file, logical).await? {
            Named::By(slot) => self.maps().address(&slot),
            Named::Nothing { .. } => DataAddress::Hole,
        })
    }

    pub(super) async fn recover_address(&self, file: &Rc<File>, logical: u64, address: DataAddress) -> FsResult<()> {
        let (_, outcome) = self.contents().reserve_pages(file, logical..logical + 1).await;
        outcome?;
        let DataAddress::Block(block) = address else { return Ok(()) };
        let slot = self.maps().find_or_make(file, logical).await?;
        let summary = Summary { nid: slot.node, slot: slot.index as u16 };
        let version = self.nodes().nat_entry(slot.node).await?.version;
        self.recover_owner(block, Owner { summary, version }).await?;
        let slot = self.maps().find_or_make(file, logical).await?;
        if !self.space.borrow_mut().claim(block, Volume::log_of_content(file)) {
            let place = Place::FileBlock { inode: file.number(), logical };
            let rule = "an fsync named it, and something else has it";
            return Err(FormatError::field(place, "address", block.0, rule).into());
        }
        self.maps().set_address(file, &slot, address);
        Ok(())
    }

    /// Says in the summary of a block's segment who owns it.
    async fn recover_owner(&self, block: BlockNo, owner: Owner) -> FsResult<()> {
        let Some((segment, _)) = self.layout.position(block) else { return Ok(()) };
        let place = self.layout.ssa + u64::from(segment.0);
        let known = self.space.borrow().full_summary(place);
        let page = match known {
            Some(page) => page,
            None if self.space.borrow().is_unused(segment) => Page::ZEROS,
            None => self.meta_block(place).await?,
        };
        self.space.borrow_mut().put_owner(block, owner, page);
        Ok(())
    }

    /// Gives a file the name that its inode keeps of itself.
    async fn recover_name(&self, file: &Rc<File>) -> FsResult<()> {
        let (parent, name) = {
            let raw = file.raw();
            let length = (raw.i_namelen.get() as usize).min(raw.i_name.len());
            (Nid(raw.i_pino.get()), raw.i_name[..length].to_vec())
        };
        check_name(&name)?;
        let directory = self.directories().directory(parent.into()).await?;
        let new = NewEntry { ino: file.number(), kind: file.kind(), name: &name };
        match self.directories().find_name(&directory, &name).await? {
            Some(found) if found.nid == file.number() => return Ok(()),
            // Linux's log: the name was taken over since the checkpoint.
            Some(found) => {
                onewrite_block::reached!("name of a rolled file was taken");
                let loser = self.nodes().file(found.ino()).await?;
                self.directories().retarget_name(&directory, new).await?;
                self.contents().drop_link(&loser).await?;
            }
            None => self.directories().add_name(&directory, new).await?,
        }
        self.stamp_modified(&directory);
        Ok(())
    }
}

/// The newest nodes of each file up to its last mark.
fn synced_files(chain: &[Link]) -> BTreeMap<Nid, Synced> {
    let mut last = BTreeMap::new();
    for (index, link) in chain.iter().enumerate().filter(|(_, link)| link.footer.is_fsynced) {
        last.insert(link.footer.ino, index);
    }
    let mut synced: BTreeMap<Nid, Synced> = BTreeMap::new();
    for (index, Link { block, footer }) in chain.iter().enumerate() {
        if last.get(&footer.ino).is_some_and(|last| index <= *last) {
            let file = synced.entry(footer.ino).or_default();
            file.nodes.insert(footer.offset, *block);
            file.has_new_name |= footer.has_new_name;
        }
    }
    synced
}

fn is_inline(inode: &Inode) -> bool {
    inode.raw.i_inline & (inline::DATA | inline::DENTRY) != 0
}
