//! Stored log: reads runs of log blocks for the live journal and for recovery.
//!
//! Each log block comes as a page. If log blocks are smaller than pages, this module reads the pages that hold them and
//! copies each log block to the beginning of a page of its own ([`Piece`]).

use onewrite_block::{Cause, DeviceError, DevicePort, InFlight, Lpn, PAGE_SIZE, Page, Request};

use super::format::JournalSuperblock;
use super::log_map::LogMap;
use super::place::LogPlace;
use super::ring::{LogBlock, Ring};

/// A log as it lies on the device.
pub(super) struct StoredLog<'a> {
    pub(super) port: &'a DevicePort,
    map: &'a LogMap,
    ring: Ring,
    /// First log block of the oldest frame.
    tail: LogBlock,
    block_size: usize,
    /// Cause of its reads.
    cause: Cause,
}

/// Reads of log blocks under way, in the order of the log.
#[derive(Default)]
pub(super) struct LogReads(Vec<PieceRead>);

/// One read under way.
pub(super) struct PieceRead {
    piece: Piece,
    in_flight: InFlight,
}

/// One read of consecutive log blocks that are consecutive on the device.
#[derive(Clone, Copy)]
struct Piece {
    /// Log blocks.
    count: u32,
    /// First page that holds them.
    start: Lpn,
    pages: u32,
    /// Bytes of the first page before the first log block.
    skip: usize,
}

/// Sort key for reading places in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadOrder {
    /// Log block, or the distance of a frame from the tail.
    log_block: u32,
    /// Byte in the frame; 0 outside frames.
    byte: u32,
}

impl<'a> StoredLog<'a> {
    /// The log on `port`; its blocks have 4 KiB.
    pub(super) fn new(port: &'a DevicePort, map: &'a LogMap, ring: Ring, cause: Cause) -> StoredLog<'a> {
        StoredLog { port, map, ring, tail: ring.first(), block_size: PAGE_SIZE, cause }
    }

    /// The log that `superblock` describes, for its recovery.
    pub(super) fn to_recover(port: &'a DevicePort, map: &'a LogMap, superblock: &JournalSuperblock) -> StoredLog<'a> {
        let length = superblock.length.min(u32::try_from(map.length()).unwrap_or(u32::MAX));
        let ring = Ring::new(LogBlock(superblock.first), LogBlock(length));
        let (tail, block_size) = (LogBlock(superblock.start).max(ring.first()), superblock.block_size as usize);
        StoredLog { tail, block_size, ..StoredLog::new(port, map, ring, Cause::Recovery) }
    }

    /// The blocks that can hold transactions.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// The log block `count` places behind `block` in the ring.
    pub(super) fn after(&self, block: LogBlock, count: u32) -> LogBlock {
        self.ring.after(block, count)
    }

    /// Where reading meets a place: log blocks by number, chunks by the age of their frame and by offset.
    ///
    /// # Panics
    /// If the place is [`LogPlace::Nowhere`].
    pub(super) fn position(&self, place: LogPlace) -> ReadOrder {
        match place {
            LogPlace::Exact(block) | LogPlace::Escaped(block) => ReadOrder { log_block: block.0, byte: 0 },
            LogPlace::Chunk(chunk) => {
                ReadOrder { log_block: self.ring.distance(self.tail, chunk.frame), byte: chunk.offset }
            }
            LogPlace::Nowhere => unreachable!("such content does not leave memory"),
        }
    }

    /// The device page of a log block. Only for logs whose blocks are pages.
    pub(super) fn page_of(&self, block: LogBlock) -> Lpn {
        self.map.block_of(block).page()
    }

    /// Reads `count` log blocks from `block` on, wrapping at the end of the ring.
    ///
    /// # Errors
    /// Device errors.
    pub(super) async fn read(&self, block: LogBlock, count: u32) -> Result<Vec<Page>, DeviceError> {
        let mut reads = LogReads::default();
        self.send(block, count, &mut reads).await;
        self.receive(reads).await
    }

    /// Sends reads of `count` log blocks from `block` on, wrapping at the end of the ring, and adds them to `reads`.
    pub(super) async fn send(&self, mut block: LogBlock, count: u32, reads: &mut LogReads) {
        let mut left = count;
        while left > 0 {
            let read = self.send_first(block, left).await;
            (block, left) = (self.after(block, read.log_blocks()), left - read.log_blocks());
            reads.0.push(read);
        }
    }

    /// Sends the longest possible read from `block` on, of at most `count_max` blocks.
    pub(super) async fn send_first(&self, block: LogBlock, count_max: u32) -> PieceRead {
        let piece = self.piece(block, count_max);
        PieceRead { piece, in_flight: self.port.send(Request::read(piece.start, piece.pages, self.cause)).await }
    }

    /// Waits for all reads and gives the log blocks in order.
    ///
    /// # Errors
    /// Device errors.
    pub(super) async fn receive(&self, reads: LogReads) -> Result<Vec<Page>, DeviceError> {
        let mut pages = Vec::new();
        for read in reads.0 {
            pages.extend(self.receive_one(read).await?);
        }
        Ok(pages)
    }

    /// [`StoredLog::receive`] of one read.
    ///
    /// # Errors
    /// Device errors.
    pub(super) async fn receive_one(&self, read: PieceRead) -> Result<Vec<Page>, DeviceError> {
        Ok(self.log_blocks_in(read.piece, read.in_flight.await?))
    }

    /// The longest possible read from `block` on, of at most `count_max` blocks.
    fn piece(&self, block: LogBlock, count_max: u32) -> Piece {
        let count = count_max.min(self.ring.until_end(block)).min(self.port.geometry().transfer_pages_max);
        let run = self.map.runs(block.run(count))[0];
        let (size, page) = (self.block_size as u64, PAGE_SIZE as u64);
        let (start, end) = (run.start.0 * size, run.end().0 * size);
        let first = start / page;
        let pages = (end.div_ceil(page) - first) as u32;
        Piece { count: run.count as u32, start: Lpn(first), pages, skip: (start % page) as usize }
    }

    /// Takes the log blocks of a piece from the pages that hold them.
    fn log_blocks_in(&self, piece: Piece, pages: Vec<Page>) -> Vec<Page> {
        if self.block_size == PAGE_SIZE {
            return pages;
        }
        let block = |index: u32| {
            let at = piece.skip + index as usize * self.block_size;
            let (page, start) = (&pages[at / PAGE_SIZE], at % PAGE_SIZE);
            Page::from_slice(&page.bytes()[start..start + self.block_size])
        };
        (0..piece.count).map(block).collect()
    }
}

impl PieceRead {
    /// Number of log blocks that it reads.
    pub(super) fn log_blocks(&self) -> u32 {
        self.piece.count
    }
}
