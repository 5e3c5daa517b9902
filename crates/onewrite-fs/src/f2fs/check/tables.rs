//! Superblocks, NAT, SIT and the list of orphans.

use super::Checker;
use crate::api::FsResult;
use crate::block::BlockNo;
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::layout::{META_INODE, ROOT_INODE};
use crate::f2fs::format::orphan;
use crate::f2fs::format::sit::{self, LogKind};
use crate::f2fs::format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET};
use crate::f2fs::format::{DataAddress, Layout, Nid, Place, SegmentNo, nat};

impl Checker {
    /// Notes if the second superblock is damaged or differs. Whoever opens an image notes it of the first.
    pub(super) async fn check_copies(&mut self) -> FsResult<()> {
        if self.tables.warnings.iter().any(|warning| warning.place == Place::Superblock(0)) {
            return Ok(());
        }
        let first = self.tables.blocks.block(BlockNo(0)).await?;
        let second = self.tables.blocks.block(BlockNo(1)).await?;
        let decoded = RawSuperblock::in_block(&second.bytes()[..], 1).and_then(|raw| Layout::decode(&raw, 1));
        match decoded {
            Err(error) => self.report.note(Place::Superblock(1), error),
            Ok(_) if first.bytes()[SUPERBLOCK_OFFSET..] != second.bytes()[SUPERBLOCK_OFFSET..] => {
                self.report.note(Place::Superblock(1), "differs from the first copy");
            }
            Ok(_) => (),
        }
        Ok(())
    }

    /// Reads the entries in use.
    pub(super) async fn read_nat(&mut self) -> FsResult<()> {
        let layout = &self.tables.layout;
        for index in 0..layout.nat_blocks {
            let page = self.tables.blocks.block(self.tables.nat_block(index)).await?;
            if page.is_zeros() {
                continue;
            }
            let bytes = page.bytes();
            let first = index * nat::ENTRIES_PER_BLOCK as u64;
            for at in 0..nat::ENTRIES_PER_BLOCK {
                let Ok(number) = u32::try_from(first + at as u64) else { break };
                let (nid, entry) = (Nid(number), nat::entry(&bytes[..], at));
                if nid > META_INODE && entry.address != DataAddress::Hole {
                    self.nat.insert(nid, entry);
                }
            }
        }
        for (nid, entry) in self.tables.nat_journal.clone() {
            if !self.tables.layout.contains_node(nid) {
                self.report.add(Place::Nat(nid), "the journal names a number that does not exist");
            } else if entry.address == DataAddress::Hole {
                self.nat.remove(&nid);
            } else {
                self.nat.insert(nid, entry);
            }
        }
        Ok(())
    }

    /// Reads all entries; counts, bitmaps and logs agree within each.
    pub(super) async fn read_sit(&mut self) -> FsResult<()> {
        for segment in (0..self.tables.layout.main_segments).map(SegmentNo) {
            let entry = self.tables.sit_entry(segment).await?;
            let place = Place::Sit(segment);
            if u32::from(entry.valid_blocks()) != entry.mapped_blocks() {
                let (counted, mapped) = (entry.valid_blocks(), entry.mapped_blocks());
                self.report.add(place, format!("counts {counted} blocks in use, its bitmap {mapped}"));
            }
            if usize::from(entry.log()) >= LogKind::ALL.len() {
                self.report.add(place, format!("belongs to log {}; there are six", entry.log()));
            }
            self.sit.push(entry);
        }
        for segment in self.tables.sit_journal.keys() {
            if segment.0 >= self.tables.layout.main_segments {
                self.report.add(Place::Sit(*segment), "the journal names a segment that does not exist");
            }
        }
        for kind in LogKind::ALL {
            self.check_log(kind);
        }
        Ok(())
    }

    /// The block that a log takes next is free.
    fn check_log(&mut self, kind: LogKind) {
        let log = self.tables.checkpoint.log(kind);
        let entry = &self.sit[log.segment.0 as usize];
        let next = usize::from(log.next);
        let is_taken = match log.is_threaded {
            true => next < sit::MAP_SIZE * 8 && entry.is_valid(next),
            false => (next..sit::MAP_SIZE * 8).any(|index| entry.is_valid(index)),
        };
        if is_taken {
            let problem = format!("log {kind:?} stands at block {next} of segment {}, which is in use", log.segment);
            self.report.add(Place::Current, problem);
        }
    }

    /// Reads the inodes that wait for removal.
    pub(super) async fn read_orphans(&mut self) -> FsResult<()> {
        let checkpoint = &self.tables.checkpoint;
        if !checkpoint.has(flags::ORPHANS) {
            return Ok(());
        }
        let first = self.tables.layout.pack(checkpoint.pack) + u64::from(1 + self.tables.layout.payload_blocks);
        for block in crate::block::BlockRange::between(first, self.tables.summaries_start()).blocks() {
            let page = self.tables.blocks.block(block).await?;
            match orphan::inodes(&page.bytes()[..], Place::Block(block)) {
                Ok(found) => self.orphans.extend(found),
                Err(error) => self.report.add_error(Place::Block(block), &error),
            }
        }
        self.orphans.sort_unstable();
        if self.orphans.first().is_some_and(|nid| *nid < ROOT_INODE) {
            self.report.add(Place::Current, "the list of orphans names a number that no file has");
        }
        self.orphans.dedup();
        self.report.orphans = self.orphans.len() as u64;
        Ok(())
    }
}
