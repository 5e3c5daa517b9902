//! Reads the log of an image independently of recovery, to find the traps that a state contains.

use onewrite_block::{Image, Page, PageBytes};
use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::extent::Node;
use onewrite_fs::ext4::format::{Inode, Layout, Place, RawGroupDescriptor, RawSuperblock};
use onewrite_fs::journal::format::{self, Checksums, JournalSuperblock, Kind, Sequence, Style};

/// Known traps of recovery, counted over one or many logs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traps {
    pub transactions: u64,
    /// Logs with checksums of version 3 in their tags.
    pub version_three: u64,
    /// Logs with a start but no transaction there.
    pub empty_with_start: u64,
    /// Logs with a last transaction that has blocks but no commit block.
    pub uncommitted_tails: u64,
    pub revoke_blocks: u64,
    pub escaped_blocks: u64,
    /// Blocks logged more than once: the last copy must win.
    pub blocks_again: u64,
    /// Logs that wrap around.
    pub wrapped: u64,
}

impl Traps {
    pub fn add(&mut self, other: Traps) {
        self.transactions += other.transactions;
        self.version_three += other.version_three;
        self.empty_with_start += other.empty_with_start;
        self.uncommitted_tails += other.uncommitted_tails;
        self.revoke_blocks += other.revoke_blocks;
        self.escaped_blocks += other.escaped_blocks;
        self.blocks_again += other.blocks_again;
        self.wrapped += other.wrapped;
    }
}

fn bytes(image: &Image, block: BlockNo) -> PageBytes {
    image.page(block.page()).bytes().into_owned()
}

/// The blocks of the log, in order.
fn log_blocks(image: &Image) -> Vec<BlockNo> {
    let first = bytes(image, BlockNo::FIRST);
    let layout = Layout::decode(RawSuperblock::in_first_block(&first).expect("superblock")).expect("layout");
    let position = layout.position_of_inode(layout.journal_inode);
    let (block, offset) = layout.position_of_descriptor(position.group);
    let descriptor =
        RawGroupDescriptor::read(&bytes(image, block)[offset..], position.group, &layout).expect("descriptor");
    let table = bytes(image, descriptor.inode_table() + u64::from(position.table_block));
    let inode = Inode::decode_unverified(&table[position.offset..], layout.journal_inode, &layout).expect("inode");
    let root = Node::parse(&inode.block, Place::Inode(layout.journal_inode)).expect("a small log has a flat map");
    root.extents().flat_map(|extent| extent.blocks().blocks()).collect()
}

struct Walk<'a> {
    image: &'a Image,
    log: &'a [BlockNo],
    style: Style,
    at: usize,
    first: usize,
    found: Traps,
}

impl Walk<'_> {
    fn block(&self) -> PageBytes {
        bytes(self.image, self.log[self.at])
    }

    fn advance(&mut self) {
        self.at += 1;
        if self.at == self.log.len() {
            self.at = self.first;
            self.found.wrapped = 1;
        }
    }

    /// Counts the traps of one transaction; false if it is incomplete.
    fn transaction(&mut self, sequence: Sequence, seen: &mut std::collections::BTreeSet<BlockNo>) -> bool {
        let (mut own, mut escaped, mut revokes, mut begun) = (Vec::new(), 0, 0, false);
        loop {
            let block = self.block();
            match format::header(&block) {
                Some((Kind::Descriptor, found)) if found == sequence => {
                    begun = true;
                    for tag in self.style.tags(&block) {
                        self.advance();
                        escaped += u64::from(tag.is_escaped);
                        own.push(tag.home_block);
                    }
                }
                Some((Kind::Revoke, found)) if found == sequence => (begun, revokes) = (true, revokes + 1),
                Some((Kind::Commit, found)) if found == sequence => break self.advance(),
                _ => {
                    self.found.uncommitted_tails += u64::from(begun);
                    return false;
                }
            }
            self.advance();
        }
        self.found.transactions += 1;
        self.found.escaped_blocks += escaped;
        self.found.revoke_blocks += revokes;
        self.found.blocks_again += own.into_iter().filter(|block| !seen.insert(*block)).count() as u64;
        true
    }
}

/// The traps in the log of `image`.
pub fn traps(image: &Image) -> Traps {
    let log = log_blocks(image);
    let superblock = JournalSuperblock::decode(&bytes(image, log[0])).expect("log superblock");
    if superblock.start == 0 {
        return Traps::default();
    }
    let style = superblock.style();
    let version_three = u64::from(style.checksums == Checksums::V3);
    let found = Traps { version_three, ..Traps::default() };
    let (at, first) = (superblock.start as usize, superblock.first as usize);
    let mut walk = Walk { image, log: &log, style, at, first, found };
    let (mut sequence, mut seen) = (superblock.sequence, Default::default());
    while walk.transaction(sequence, &mut seen) {
        sequence = sequence.next();
    }
    let mut found = walk.found;
    found.empty_with_start = u64::from(found.transactions == 0 && found.uncommitted_tails == 0);
    found
}

/// Makes the empty log of `image` start at its block `start`, and keeps the sequence number that it expects next.
pub fn set_start(image: &mut Image, start: u32) {
    let place = log_blocks(image)[0];
    let mut block = bytes(image, place);
    let mut superblock = JournalSuperblock::decode(&block).expect("log superblock");
    assert_eq!(superblock.start, 0, "the log is empty");
    superblock.start = start;
    superblock.encode_into(&mut block);
    image.set(place.page(), Page::new(block));
}
