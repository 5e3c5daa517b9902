//! Twists: what the canaries' devices do wrong, by what they see of F2FS in a request: its cause, and the footers and
//! addresses in its pages.

use std::collections::BTreeMap;
use std::ops::Range;

use onewrite_block::{Cause, Lpn, Operation, Page, Request};
use onewrite_fs::f2fs::format::Nid;
use onewrite_fs::f2fs::format::inode::ADDRESSES;
use onewrite_fs::f2fs::format::node::{self, FOOTER_OFFSET, POINTERS};

use super::twisted::{Fate, Twist};

/// The flag in a footer that says that an fsync ends here.
const FSYNC_MARK: u32 = 2;
/// First blocks of the two packs of a checkpoint.
pub const PACKS: [u64; 2] = [512, 1024];
/// Byte of the flags in a footer.
const FLAGS: usize = FOOTER_OFFSET + 8;

/// Leaves FLUSHes out whose last write before had this cause.
pub struct NoFlushAfter {
    cause: Cause,
    last: Option<Cause>,
}

impl NoFlushAfter {
    pub const fn new(cause: Cause) -> NoFlushAfter {
        NoFlushAfter { cause, last: None }
    }
}

impl Twist for NoFlushAfter {
    fn fate(&mut self, request: &mut Request) -> Fate {
        match request.operation {
            Operation::Write { .. } => self.last = Some(request.cause),
            Operation::Flush if self.last.take() == Some(self.cause) => return Fate::IsLost,
            _ => (),
        }
        Fate::Passes
    }
}

/// Takes the mark of an fsync from all nodes.
pub struct NoMark;

impl Twist for NoMark {
    fn fate(&mut self, request: &mut Request) -> Fate {
        if let (Cause::Journal, Operation::Write { pages, .. }) = (request.cause, &mut request.operation) {
            for page in pages {
                let bytes = page.bytes_mut();
                let flags = u32::from_le_bytes(bytes[FLAGS..FLAGS + 4].try_into().expect("four bytes"));
                bytes[FLAGS..FLAGS + 4].copy_from_slice(&(flags & !FSYNC_MARK).to_le_bytes());
            }
        }
        Fate::Passes
    }
}

/// Gives all nodes of an fsync its mark.
pub struct MarksAll;

impl Twist for MarksAll {
    fn fate(&mut self, request: &mut Request) -> Fate {
        if let (Cause::Journal, Operation::Write { pages, .. }) = (request.cause, &mut request.operation) {
            for page in pages {
                let bytes = page.bytes_mut();
                let flags = u32::from_le_bytes(bytes[FLAGS..FLAGS + 4].try_into().expect("four bytes"));
                bytes[FLAGS..FLAGS + 4].copy_from_slice(&(flags | FSYNC_MARK).to_le_bytes());
            }
        }
        Fate::Passes
    }
}

/// Overwrites blocks as soon as an fsync's nodes name others in their place: before the checkpoint that frees them.
#[derive(Default)]
pub struct ReusesEarly {
    /// The addresses that each node had last, by its number.
    known: BTreeMap<Nid, Vec<u32>>,
}

impl Twist for ReusesEarly {
    fn fate(&mut self, request: &mut Request) -> Fate {
        let Operation::Write { pages, .. } = &request.operation else { return Fate::Passes };
        if !matches!(request.cause, Cause::Journal | Cause::Checkpoint) {
            return Fate::Passes;
        }
        let mut own = Vec::new();
        for page in pages {
            let footer = node::footer(&page.bytes()[..]);
            let addresses: Vec<u32> =
                (ADDRESSES / 4..POINTERS).map(|index| node::pointer(&page.bytes()[..], index)).collect();
            let before = self.known.insert(footer.nid, addresses.clone()).unwrap_or_default();
            if request.cause == Cause::Journal {
                let gone = before.into_iter().zip(addresses).filter(|(old, new)| old != new && is_main(*old));
                own.extend(gone.map(|(old, _)| {
                    let junk = Page::from_slice(&[0x5a; 4096]);
                    Request::write(Lpn(old.into()), vec![junk], Cause::Data)
                }));
            }
        }
        Fate::IsFollowedBy(own)
    }
}

/// Whether an address is that of a block of the main area, in an image of 64 MiB.
fn is_main(address: u32) -> bool {
    (4096..16_384).contains(&address)
}

/// Empties the journal of NAT entries, with which compact summaries begin, in each pack without orphans.
pub struct ForgetsNatJournal;

impl Twist for ForgetsNatJournal {
    fn fate(&mut self, request: &mut Request) -> Fate {
        if let (Cause::Checkpoint, Operation::Write { start, pages, .. }) = (request.cause, &mut request.operation) {
            let summaries = (start.0..).zip(pages).filter(|(lpn, _)| PACKS.map(|pack| pack + 1).contains(lpn));
            summaries.for_each(|(_, page)| page.bytes_mut()[..2].fill(0));
        }
        Fate::Passes
    }
}

/// Summaries of full segments, in an image of 64 MiB.
const SUMMARIES: Range<u64> = 3584..4096;

/// Overwrites each summary with zeros behind the FLUSH that comes before the end of its checkpoint.
#[derive(Default)]
pub struct SpoilsSummaries(Vec<Request>);

impl Twist for SpoilsSummaries {
    fn fate(&mut self, request: &mut Request) -> Fate {
        match &request.operation {
            Operation::Write { start, pages, .. } if SUMMARIES.contains(&start.0) => {
                let zeros = vec![Page::ZEROS; pages.len()];
                self.0.push(Request::write(*start, zeros, request.cause));
                Fate::Passes
            }
            Operation::Flush => Fate::IsFollowedBy(std::mem::take(&mut self.0)),
            _ => Fate::Passes,
        }
    }
}

/// Loses the inodes of regular files that checkpoints write; the names stay.
pub struct LosesInodes;

impl Twist for LosesInodes {
    fn fate(&mut self, request: &mut Request) -> Fate {
        let (Cause::Checkpoint, Operation::Write { start, pages, .. }) = (request.cause, &request.operation) else {
            return Fate::Passes;
        };
        let is_file = |page: &Page| {
            let footer = node::footer(&page.bytes()[..]);
            let mode = u16::from_le_bytes(page.bytes()[..2].try_into().expect("two bytes"));
            footer.nid == footer.ino && footer.nid.0 > 3 && mode & 0xf000 == 0x8000
        };
        match is_main(start.0 as u32) && pages.iter().all(is_file) {
            true => Fate::IsLost,
            false => Fate::Passes,
        }
    }
}
