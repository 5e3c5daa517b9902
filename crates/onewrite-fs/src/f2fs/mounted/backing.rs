//! Backing: how the page layer finds the blocks of F2FS files, and where it writes their pages.
//!
//! A page is written to the next block of its log. Its old block is given back when the write has ended well; if it
//! failed, the old block is named again, and the next attempt goes elsewhere. In a small fsync with in-place updates a
//! page that has a block is written over it, and no node changes.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{Cause, Page};

use super::file::File;
use super::map::{Named, NodeSlot};
use super::volume::Volume;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::Summary;
use crate::f2fs::format::{DataAddress, FormatError, Nid, Place};
use crate::f2fs::space::Owner;
use crate::f2fs::stage::format::Mapped;
use crate::pages::{Backing, DirtyBytes, Lookup, Outcome, PAGE_BYTES, PagedFile, Run, Target};

/// The slots that name a run of dirty pages.
pub(in crate::f2fs) struct Found {
    slot: NodeSlot,
    first: u64,
    kind: LogKind,
    version: u8,
    /// The block of the first page, if the pages are written over their blocks.
    over: Option<BlockNo>,
    /// What the slots said before.
    before: RefCell<Vec<DataAddress>>,
    /// What the pages are for the staging area: digests of those with new bytes, and those that it held.
    digests: RefCell<Vec<Option<u32>>>,
    unstaged: RefCell<Vec<(u64, u32)>>,
}

impl Found {
    fn new(slot: NodeSlot, first: u64, kind: LogKind, version: u8) -> Found {
        let (before, digests, unstaged) = Default::default();
        Found { slot, first, kind, version, over: None, before, digests, unstaged }
    }
}

impl Volume {
    /// The log of a file's content.
    pub(super) fn log_of_content(file: &File) -> LogKind {
        if file.is_directory() { LogKind::HotData } else { LogKind::WarmData }
    }

    /// # Errors
    /// [`FsError::Damaged`] if an address of a file lies outside the main area.
    fn check_address(&self, file: &File, logical: u64, address: DataAddress) -> FsResult<()> {
        let place = Place::FileBlock { inode: file.number(), logical };
        match address {
            DataAddress::Block(block) if !self.layout.main.contains(block) => {
                Err(FormatError::field(place, "address", block.0, "outside the main area").into())
            }
            DataAddress::Compressed => Err(FsError::Unsupported(format!("{place} is compressed; read it with Linux"))),
            _ => Ok(()),
        }
    }

    /// Slots from `slot` on that say as much as it does: consecutive blocks, or nothing. At most `most`.
    fn alike(&self, slot: &NodeSlot, most: u64) -> u64 {
        let first = self.maps().address(slot);
        let goes_on = |count: &u64| match (first, self.maps().address(&slot.behind(*count))) {
            (DataAddress::Block(start), DataAddress::Block(block)) => block == start + *count,
            (DataAddress::Hole | DataAddress::Reserved, DataAddress::Hole | DataAddress::Reserved) => true,
            _ => false,
        };
        1 + (1..slot.left.min(most)).take_while(goes_on).count() as u64
    }
}

impl Backing for Volume {
    type File = File;
    type Found = Found;

    fn file(&self, number: u64) -> Option<Rc<File>> {
        self.file_in_memory(Nid(u32::try_from(number).ok()?))
    }

    fn allows_direct(&self) -> bool {
        // What recovery made dirty on a read-only mount is in the page cache alone.
        !self.options.read_only
    }

    async fn lookup(&self, file: &File, index: u64) -> FsResult<Lookup> {
        let slot = match self.maps().find(file, index).await? {
            Named::Nothing { count } => return Ok(Lookup::Nothing { count }),
            Named::By(slot) => slot,
        };
        let address = self.maps().address(&slot);
        self.check_address(file, index, address)?;
        let count = self.alike(&slot, u64::MAX);
        Ok(match address {
            DataAddress::Block(block) => Lookup::At { block, count: count.min(self.layout.main.end() - block) },
            _ => Lookup::Nothing { count },
        })
    }

    async fn target(&self, file: &File, pages: Range<u64>) -> FsResult<Target<Found>> {
        self.check_writable()?;
        // The checkpoint that closed it waits for what passed: nobody waits for it with pages under way.
        if self.gate.is_closed() {
            return Ok(Target::Later);
        }
        let named = self.maps().find(file, pages.start).await;
        if file.is_deleted() {
            // While its node was loaded; nobody needs what it held.
            return Ok(Target::Nowhere);
        }
        let Named::By(slot) = named? else { return Ok(Target::Nowhere) };
        if self.gate.is_closed() {
            return Ok(Target::Later);
        }
        // A hole: a truncation is dropping the page.
        if self.maps().address(&slot) == DataAddress::Hole {
            return Ok(Target::Nowhere);
        }
        let is_moving = self.cleaner().is_moving(file, pages.start);
        onewrite_block::reached!("moved page goes to the cold log", is_moving);
        let kind = if is_moving { LogKind::ColdData } else { Volume::log_of_content(file) };
        // Behind its end a file has no dirty pages, unless it is about to grow.
        let end = pages.end.min(file.size().div_ceil(PAGE_BYTES)).max(pages.start + 1);
        let most = slot.left.min(end - pages.start);
        if let DataAddress::Block(block) = self.maps().address(&slot)
            && file.is_in_place()
            && !is_moving
        {
            onewrite_block::reached!("page written over its block");
            self.check_address(file, pages.start, DataAddress::Block(block))?;
            let is_moving = |count: &u64| self.cleaner().is_moving(file, pages.start + count);
            let alike = self.alike(&slot, most);
            let count = (1..alike).find(is_moving).unwrap_or(alike);
            let found = Found { over: Some(block), ..Found::new(slot, pages.start, kind, 0) };
            return Ok(Target::Room { count, found });
        }
        let is_needed = file.is_directory() || self.is_staged(file, pages.start);
        let room = self.space.borrow_mut().room_for_content(kind, most, is_needed, self.staged_pages());
        if room == 0 {
            onewrite_block::reached!("log of content has no room");
            // The next checkpoint makes room; the page stays dirty until then.
            self.wanted.ask();
            return Ok(Target::NoRoom);
        }
        let ends = |count: &u64| {
            let address = self.maps().address(&slot.behind(*count));
            let is_over = file.is_in_place() && matches!(address, DataAddress::Block(_));
            let is_moved = self.cleaner().is_moving(file, pages.start + count);
            address == DataAddress::Hole || is_moved != is_moving || is_over && !is_moved
        };
        let count = (1..room).find(ends).unwrap_or(room);
        let version = self.numbers.borrow().known(slot.node).map_or(0, |entry| entry.version);
        let found = Found::new(slot, pages.start, kind, version);
        Ok(Target::Room { count, found })
    }

    async fn until_open(&self) {
        self.pages.progress().until(|| !self.gate.is_closed()).await;
    }

    fn assign(&self, file: &File, run: Range<u64>, found: &Found) -> BlockNo {
        if let Some(block) = found.over {
            self.gate.begin_run();
            return block + (run.start - found.first);
        }
        let mut first = None;
        self.cleaner().note_moved(file, run.clone());
        for index in run {
            let slot = found.slot.behind(index - found.first);
            let summary = Summary { nid: slot.node, slot: slot.index as u16 };
            let owner = Owner { summary, version: found.version };
            let block = self.space.borrow_mut().take(found.kind, owner).expect("the target counted the room");
            found.before.borrow_mut().push(self.maps().address(&slot));
            self.maps().set_address(file, &slot, DataAddress::Block(block));
            first.get_or_insert(block);
        }
        self.gate.begin_run();
        first.expect("a run has pages")
    }

    fn sending(&self, file: &File, run: Range<u64>, found: &Found, (pages, dirty): (&[Page], &[DirtyBytes])) {
        if !self.notes_moves() {
            return;
        }
        found.unstaged.replace(self.note_unstaged(file, run));
        let has_new = |at: usize| dirty.get(at).is_none_or(|bytes| !bytes.is_empty());
        let digests = pages.iter().enumerate().map(|(at, page)| has_new(at).then(|| page.digest()));
        found.digests.replace(digests.collect());
    }

    fn cause(&self, found: &Found) -> Cause {
        if found.kind == LogKind::ColdData { Cause::Cleaning } else { Cause::Data }
    }

    fn finished(&self, file: &File, run: &Run<Found>, outcome: Outcome) {
        if outcome != Outcome::Failed && run.found.kind == LogKind::ColdData {
            let count = run.pages.end - run.pages.start;
            self.count(|counters| counters.cleaning.copied_blocks += count);
        }
        self.gate.end_run();
        self.is_unflushed.set(true);
        if outcome == Outcome::Failed && !file.is_deleted() {
            self.note_staged(file, &run.found.unstaged.borrow());
        }
        let digest = |count: usize| run.found.digests.borrow().get(count).copied().flatten();
        for (count, before) in run.found.before.borrow().iter().enumerate() {
            let block = run.block + count as u64;
            let slot = run.found.slot.behind(run.pages.start + count as u64 - run.found.first);
            let is_named = self.pages.holds(super::volume::node_key(slot.node))
                && !file.is_deleted()
                && self.maps().address(&slot) == DataAddress::Block(block);
            if let (Outcome::Arrived, true, Some(digest)) = (outcome, is_named, digest(count)) {
                self.note_move(file, run.pages.start + count as u64, Mapped { block, digest });
            }
            // Whatever changes the map of these pages waits for them first, and a checkpoint waits for all runs.
            debug_assert!(is_named || outcome == Outcome::Failed, "another block is mapped where {block} arrived");
            let mut given_back = *before;
            if outcome == Outcome::Failed && is_named {
                self.maps().set_address(file, &slot, *before);
                onewrite_block::reached!("failed write gives its block back");
                given_back = DataAddress::Block(block);
            }
            if let DataAddress::Block(block) = given_back {
                self.space.borrow_mut().give_back(block);
            }
        }
        self.pages.progress().notify_all();
    }
}
