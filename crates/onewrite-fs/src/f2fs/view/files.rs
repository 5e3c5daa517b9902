//! Content of a view's files: from the tree of nodes to pages.

use onewrite_block::{PAGE_SIZE, Page};

use super::F2fsView;
use crate::api::{FileKind, FsError, FsResult, Ino, SeekTarget};
use crate::block::BlockNo;
use crate::content::Data;
use crate::f2fs::format::node::{self, POINTERS};
use crate::f2fs::format::{DataAddress, FormatError, Inode, Nid, NodePath, Place};

const PAGE: u64 = PAGE_SIZE as u64;

/// Adjacent blocks of a file that lie together, or read as zeros together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first block; `None` for zeros.
    pub(super) start: Option<BlockNo>,
    /// Number of blocks, at least 1.
    pub(super) count: u64,
}

impl Run {
    pub(super) fn is_data(&self) -> bool {
        self.start.is_some()
    }

    fn zeros(count: u64) -> Run {
        Run { start: None, count }
    }
}

impl F2fsView {
    /// Reads an inode that a directory entry may name.
    pub(super) async fn inode(&self, ino: Ino) -> FsResult<Inode> {
        let inode = self.tables.inode(Nid::from_ino(ino)).await?;
        match inode.raw.i_links.get() {
            0 => Err(FsError::NotFound(format!("{ino} (it waits for removal)"))),
            _ => Ok(inode),
        }
    }

    /// Where block `logical` of a file lies, and the blocks behind it that lie beside it.
    pub(super) async fn map(&self, inode: &Inode, logical: u64) -> FsResult<Run> {
        let in_inode = inode.address_count() as u64;
        let Some(path) = NodePath::of(logical, in_inode) else {
            let rule = "no map can name this block";
            return Err(FormatError::field(Place::Inode(inode.number), "block", logical, rule).into());
        };
        let mut above: Option<Page> = None;
        for (depth, step) in path.steps().iter().enumerate() {
            let nid = match &above {
                None => inode.node(step.slot),
                Some(page) => Nid(node::pointer(&page.bytes()[..], step.slot)),
            };
            if nid.is_none() {
                return Ok(Run::zeros(path.rest_below(depth)));
            }
            above = Some(self.tables.node(nid, inode.number, step.offset).await?);
        }
        let run = match above {
            None => run_of(path.slot..inode.address_count(), |slot| inode.address(slot)),
            Some(page) => {
                let bytes = page.bytes();
                run_of(path.slot..POINTERS, |slot| DataAddress::from_disk(node::pointer(&bytes[..], slot)))
            }
        };
        let place = Place::FileBlock { inode: inode.number, logical };
        let run = run.ok_or_else(|| FsError::Unsupported(format!("{place} is compressed; read it with Linux")))?;
        match run.start {
            Some(start) if !self.tables.layout.main.contains(start) => {
                Err(FormatError::field(place, "address", start.0, "outside the main area").into())
            }
            Some(start) => Ok(Run { count: run.count.min(self.tables.layout.main.end() - start), ..run }),
            None => Ok(run),
        }
    }

    /// A metadata block of a file: directory or link. `None` for a hole.
    pub(super) async fn file_block(&self, inode: &Inode, logical: u64) -> FsResult<Option<Page>> {
        match self.map(inode, logical).await?.start {
            Some(block) => Ok(Some(self.tables.blocks.block(block).await?)),
            None => Ok(None),
        }
    }

    /// Up to `length` bytes from `offset`.
    pub(super) async fn content(&self, inode: &Inode, offset: u64, length: u64) -> FsResult<Data> {
        let end = inode.raw.i_size.get().min(offset.saturating_add(length));
        if offset >= end {
            return Ok(Data::default());
        }
        let (first, pages_end) = (offset / PAGE, end.div_ceil(PAGE));
        let mut pages: Vec<Page> = Vec::new();
        if inode.is_inline_data() {
            pages.push(inline_page(inode));
        }
        while first + (pages.len() as u64) < pages_end {
            let logical = first + pages.len() as u64;
            let Run { start, count } = self.map(inode, logical).await?;
            let count = count.min(pages_end - logical);
            match start {
                Some(start) => pages.extend(self.tables.blocks.run(start.run(count)).await?),
                None => pages.resize(pages.len() + count as usize, Page::ZEROS),
            }
        }
        Ok(Data { pages, skip: (offset % PAGE) as usize, length: (end - offset) as usize })
    }

    /// The content of a symbolic link.
    pub(super) async fn link_target(&self, inode: &Inode) -> FsResult<Vec<u8>> {
        let place = Place::Inode(inode.number);
        if inode.kind != FileKind::Symlink {
            return Err(FsError::Invalid(format!("{place} is no symbolic link")));
        }
        let size = inode.raw.i_size.get();
        if size > PAGE {
            return Err(FormatError::field(place, "i_size", size, "a link is at most a block long").into());
        }
        if !inode.is_inline_data() && size > 0 && !self.map(inode, 0).await?.is_data() {
            return Err(FormatError::field(place, "address", 0_u32, "the link's target is a hole").into());
        }
        Ok(self.content(inode, 0, size).await?.to_vec())
    }

    /// Offset of the next data or hole at or after `offset`.
    pub(super) async fn seek_in(&self, inode: &Inode, offset: u64, target: SeekTarget) -> FsResult<u64> {
        let size = inode.raw.i_size.get();
        let mut at = offset;
        while at < size {
            let run = match inode.is_inline_data() {
                true => Run { start: Some(BlockNo::FIRST), count: 1 },
                false => self.map(inode, at / PAGE).await?,
            };
            if run.is_data() == (target == SeekTarget::Data) {
                return Ok(at);
            }
            at = (at / PAGE).saturating_add(run.count).saturating_mul(PAGE);
        }
        match target {
            SeekTarget::Hole if offset < size => Ok(size),
            _ => Err(FsError::BeyondEnd(format!("inode {} from byte {offset} on", inode.number))),
        }
    }
}

/// Content inside the inode, as the file's first page.
fn inline_page(inode: &Inode) -> Page {
    let bytes = inode.inline_bytes();
    let size = (inode.raw.i_size.get() as usize).min(bytes.len());
    Page::from_slice(&bytes[..size])
}

/// The run that begins with the first of `slots`; `None` if that is compressed.
fn run_of(mut slots: std::ops::Range<usize>, address: impl Fn(usize) -> DataAddress) -> Option<Run> {
    let start = match address(slots.next().expect("a slot")) {
        DataAddress::Compressed => return None,
        DataAddress::Block(block) => Some(block),
        DataAddress::Hole | DataAddress::Reserved => None,
    };
    let mut count = 1;
    for slot in slots {
        let goes_on = match (start, address(slot)) {
            (Some(start), DataAddress::Block(block)) => block == start + count,
            (None, DataAddress::Hole | DataAddress::Reserved) => true,
            _ => false,
        };
        if !goes_on {
            break;
        }
        count += 1;
    }
    Some(Run { start, count })
}
