//! Backups of the superblock: searches where groups may begin, and accepts a backup only if it says that it belongs
//! there.
//!
//! An image with neither a superblock nor a backup holds no file system, so there is nothing to mount or repair.

use std::fmt::{self, Display};

use onewrite_block::{Cause, DevicePort, Lpn, PAGE_SIZE, Page, Request};

use super::format::superblock::SUPERBLOCK_MAGIC;
use super::format::{Layout, Place, RawSuperblock, SUPERBLOCK_OFFSET};
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::check::read::{ReadBlocks, ReadError};
use crate::f2fs;

/// Groups may begin at multiples of this.
const GROUP_STEP: u64 = 256;
/// Blocks from the start to search for a backup, besides the usual places.
const SEARCH_END: u64 = 65_536;
/// Groups that begin with a backup in most images.
const USUAL_GROUPS: [u64; 6] = [1, 3, 5, 7, 9, 25];
/// Logarithms of the block sizes 1 to 64 KiB, 4 KiB first; 0 is 1 KiB.
const LOG_BLOCK_SIZES: [u32; 7] = [2, 0, 1, 3, 4, 5, 6];
/// Bytes of the magic number in the first block.
const MAGIC: std::ops::Range<usize> = SUPERBLOCK_OFFSET + 0x38..SUPERBLOCK_OFFSET + 0x3a;
/// `log_block_size` of 4 KiB blocks: log2(4096 / 1024).
pub(crate) const LOG_OF_4_KIB: u32 = 2;

/// Where a backup lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackupPlace {
    /// Block number, in blocks of the size below.
    pub block: BlockNo,
    /// Block size in bytes: 1024 << this.
    pub log_block_size: u32,
}

impl Display for BackupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.log_block_size {
            LOG_OF_4_KIB => write!(f, "e2fsck -b {}", self.block),
            log => write!(f, "e2fsck -b {} -B {}", self.block, 1024_u32 << log),
        }
    }
}

/// Places where a backup may lie in an image with this block size.
pub(crate) fn places(log_block_size: u32) -> impl Iterator<Item = BackupPlace> {
    let first = u64::from(log_block_size == 0);
    let usual = USUAL_GROUPS.into_iter().map(move |group| group * (8192 << log_block_size));
    let steps = (1..=SEARCH_END / GROUP_STEP).map(|step| step * GROUP_STEP);
    usual.chain(steps).map(move |block| BackupPlace { block: BlockNo(block + first), log_block_size })
}

/// The backup at `place`, if its checksum and numbers are valid and it says that it belongs there.
pub(crate) async fn backup_at<R: ReadBlocks>(image: &R, place: BackupPlace) -> Option<RawSuperblock> {
    let byte = place.block.0 * (1024 << place.log_block_size);
    let page = image.read_block(BlockNo(byte / PAGE_SIZE as u64)).await.ok()?;
    let bytes = page.bytes();
    let told = Place::Block(place.block);
    let raw = RawSuperblock::from_prefix(&bytes[(byte % PAGE_SIZE as u64) as usize..], told).ok()?;
    let group = u64::from(raw.block_group_nr.get());
    let own = u64::from(raw.first_data_block.get()) + group * u64::from(raw.blocks_per_group.get());
    let is_here = group != 0 && own == place.block.0 && raw.log_block_size.get() == place.log_block_size;
    let is_sound = is_here && raw.verify_checksum(told).is_ok() && Layout::decode_to_read(raw).is_ok();
    is_sound.then(|| raw.clone())
}

/// The first valid backup, searched for with every block size.
pub(crate) async fn find<R: ReadBlocks>(image: &R) -> Option<BackupPlace> {
    for place in LOG_BLOCK_SIZES.into_iter().flat_map(places) {
        if backup_at(image, place).await.is_some() {
            return Some(place);
        }
    }
    None
}

/// # Errors
/// [`FsError::Unsupported`] if it is an F2FS image; [`FsError::NoFileSystem`] if the first block lacks ext4's magic
/// number and the image has no backup; device errors.
pub(crate) async fn expect_file_system(port: &DevicePort) -> FsResult<()> {
    let first = port.request(Request::read(Lpn(0), 1, Cause::Metadata)).await?;
    let is_marked = first[0].bytes()[MAGIC] == SUPERBLOCK_MAGIC.to_le_bytes();
    if !is_marked && f2fs::marked_copies(port).await? != [false; 2] {
        return Err(FsError::Unsupported("F2FS where only ext4 will do".into()));
    }
    match is_marked || find(&Reader(port)).await.is_some() {
        true => Ok(()),
        false => Err(FsError::NoFileSystem),
    }
}

struct Reader<'a>(&'a DevicePort);

impl ReadBlocks for Reader<'_> {
    async fn read_block(&self, block: BlockNo) -> Result<Page, ReadError> {
        if block.0 >= self.0.geometry().pages {
            return Err(ReadError { reason: "beyond the end".to_owned() });
        }
        let read = self.0.submit(Request::read(block.page(), 1, Cause::Metadata)).await;
        let mut pages = read.map_err(|error| ReadError { reason: error.to_string() })?;
        pages.pop().ok_or_else(|| ReadError { reason: "nothing came back".to_owned() })
    }
}
