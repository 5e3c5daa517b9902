//! Opening a view: the superblock or one of its backups, then the log.

use onewrite_block::{Cause, DevicePort, Lpn, PAGE_SIZE, Page, Request};

use super::blocks::Blocks;
use super::files::File;
use super::run::Run;
use super::{ImageView, ViewOptions};
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::ext4::format::features::{Compat, Incompat};
use crate::ext4::format::superblock::SUPERBLOCK_MAGIC;
use crate::ext4::format::{Layout, Place, RawSuperblock, SUPERBLOCK_OFFSET};
use crate::ext4::lost::expect_file_system;
use crate::journal::format::JournalSuperblock;
use crate::journal::{LogMap, LogView};

/// Most bytes of the log's copies in memory. A view reads the other copies again on each use.
const LOG_BYTES_MAX: usize = 64 << 20;
/// Groups that begin with a copy of the superblock by convention.
const BACKUP_GROUPS: [u64; 7] = [1, 3, 5, 7, 9, 25, 27];
/// Pages from the start to search if no copy lies at a conventional place: 256 MiB.
const SEARCHED_PAGES: u64 = 65_536;
/// Multiple-mount protection: the magic number of its block, and the sequence number while nobody has the image
/// mounted.
const MMP_MAGIC: u32 = 0x004d_4d50;
const MMP_CLEAN: u32 = 0xff4d_4d50;

/// A superblock and what it says.
type Found = (RawSuperblock, Layout);

impl ImageView {
    /// Opens the image on `port` for reading. Writes nothing, whatever the state of the image.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] for unsupported incompatible features, for a log on another device, and for a log with
    /// fast commits. [`FsError::Damaged`] for a damaged superblock or log, unless `options` ask for a rescue. Device
    /// errors.
    pub async fn open(port: &DevicePort, options: ViewOptions) -> FsResult<ImageView> {
        let (found, damage) =
            match superblock_at(port, SUPERBLOCK_OFFSET as u64, Place::Superblock, Verify::of(&options)).await {
                Ok(found) => (found, None),
                Err(error @ FsError::Unsupported(_)) => return Err(error),
                Err(error) if !options.is_rescue => {
                    expect_file_system(port).await?;
                    return Err(error);
                }
                Err(error) => match backup(port).await {
                    Some(found) => (found, Some(error)),
                    None => {
                        expect_file_system(port).await?;
                        return Err(error);
                    }
                },
            };
        let mut view = ImageView::new(port, found, options);
        if let Some(damage) = damage {
            view.lose(format!("{damage}; a backup is used"));
        }
        view.expect_whole()?;
        match view.open_log().await {
            Err(
                error @ (FsError::Damaged { .. } | FsError::Device(_) | FsError::Unsupported(_) | FsError::NotFound(_)),
            ) if view.options.is_rescue => {
                view.lose(format!("the newest changes, in the log: {error}"));
            }
            other => other?,
        }
        view.look_at_protection().await;
        if view.options.is_rescue {
            view.make_up_root().await;
        }
        Ok(view)
    }

    fn new(port: &DevicePort, (superblock, layout): Found, options: ViewOptions) -> ImageView {
        let blocks = Blocks::new(port, layout.block_size, layout.block_count, options.cache_pages);
        ImageView {
            blocks,
            superblock,
            layout,
            options,
            recovered: None,
            warnings: Vec::new(),
            losses: Default::default(),
            made_up_root: None,
        }
    }

    fn expect_whole(&self) -> FsResult<()> {
        let on_device = self.blocks.port().geometry().pages as u128 * PAGE_SIZE as u128;
        let (blocks, size) = (self.layout.block_count, self.layout.block_size);
        if u128::from(blocks) * u128::from(size) <= on_device {
            return Ok(());
        }
        let problem = format!("it has {blocks} blocks of {size} bytes, the device only {on_device} bytes");
        let error = FsError::Damaged { place: "superblock".into(), problem };
        match self.is_lost(&error, || "the end of the image".into()) {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Reads the log, so that its newer copies replace blocks of the image.
    async fn open_log(&mut self) -> FsResult<()> {
        let features = self.layout.features;
        if !features.compat.contains(Compat::HAS_JOURNAL) {
            return Ok(());
        }
        if self.layout.journal_inode.is_none() {
            let what = "a log on another device that waits for replay; mount image and log once with Linux".into();
            let must_replay = features.incompat.contains(Incompat::RECOVER);
            return if must_replay { Err(FsError::Unsupported(what)) } else { Ok(()) };
        }
        let file = match self.any_file(self.layout.journal_inode).await {
            Err(FsError::NotFound(_)) => return Err(log_damage("is empty")),
            found => found?,
        };
        let first = match self.map(&file, 0).await? {
            Run::Data { block, .. } => block,
            Run::Zeros { .. } => return Err(log_damage("has holes")),
        };
        let block = self.blocks.block(first).await?;
        let page = Page::from_slice(&block[..block.len().min(PAGE_SIZE)]);
        let decoded = JournalSuperblock::decode_sized(&page.bytes(), self.blocks.block_size());
        let place = format!("journal superblock at block {first}");
        let superblock = decoded.map_err(|problem| FsError::Damaged { place, problem })?;
        if superblock.start == 0 {
            return Ok(());
        }
        if self.blocks.block_size() > PAGE_SIZE {
            let what = format!("replay of a log of blocks of {} bytes; mount it once with Linux", block.len());
            return Err(FsError::Unsupported(what));
        }
        let map = self.log_map(&file).await?;
        if u64::from(superblock.length) > map.length() {
            return Err(log_damage(&format!("has {} blocks, its superblock says {}", map.length(), superblock.length)));
        }
        let log = LogView::open(self.blocks.port(), map, superblock, LOG_BYTES_MAX).await?;
        self.recovered = Some((log.recovered(), log.newer_blocks()));
        self.blocks.lay_over(log);
        self.decode_again().await
    }

    async fn log_map(&self, file: &File) -> FsResult<LogMap> {
        let (mut ranges, mut logical) = (Vec::new(), 0);
        let blocks = file.size / self.block_size();
        while logical < blocks {
            let Run::Data { block, count } = self.map(file, logical).await? else {
                return Err(log_damage("has holes"));
            };
            let count = count.min(blocks - logical);
            if !block.run(count).ends_by(self.layout.end()) || ranges.len() as u64 > self.layout.block_count {
                return Err(log_damage("reaches beyond the image"));
            }
            ranges.push(block.run(count));
            logical += count;
        }
        Ok(LogMap::new(ranges))
    }

    /// The log may hold a newer superblock.
    async fn decode_again(&mut self) -> FsResult<()> {
        let size = self.blocks.block_size();
        let block = self.blocks.block(BlockNo((SUPERBLOCK_OFFSET / size) as u64)).await?;
        let found = decode(&block[SUPERBLOCK_OFFSET % size..], Place::Superblock, Verify::of(&self.options))?;
        if found.1.block_size != self.layout.block_size || found.1.block_count > self.layout.block_count {
            let problem = "the log makes the image larger than it was, or its blocks others".into();
            return Err(FsError::Damaged { place: "superblock".into(), problem });
        }
        (self.superblock, self.layout) = found;
        Ok(())
    }

    /// Warns if another host may have the image mounted.
    async fn look_at_protection(&mut self) {
        if !self.layout.features.incompat.contains(Incompat::MMP) {
            return;
        }
        let Ok(block) = self.blocks.block(BlockNo(self.superblock.mmp_block.get())).await else { return };
        let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        if word(0) == MMP_MAGIC && word(4) != MMP_CLEAN {
            let node = String::from_utf8_lossy(&block[16..80]).trim_end_matches('\0').escape_debug().to_string();
            let warning = "multiple-mount protection says that it may be mounted";
            self.warnings.push(format!("{warning} (by `{node}`); what is read may be old and new at once"));
        }
    }
}

fn log_damage(problem: &str) -> FsError {
    FsError::Damaged { place: "journal's inode".into(), problem: problem.into() }
}

/// What to verify in a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verify {
    /// Its checksum and its numbers.
    Checksum,
    /// Only its numbers.
    Numbers,
}

impl Verify {
    /// A rescue reads what it can.
    fn of(options: &ViewOptions) -> Verify {
        if options.is_rescue { Verify::Numbers } else { Verify::Checksum }
    }
}

fn decode(bytes: &[u8], place: Place, verify: Verify) -> FsResult<Found> {
    let raw = RawSuperblock::from_prefix(bytes, place)?;
    let layout = Layout::decode_to_read(raw)?;
    if verify == Verify::Checksum {
        raw.verify_checksum(place)?;
    }
    Ok((raw.clone(), layout))
}

/// Reads the superblock at byte `byte` of the device, a multiple of 1024.
async fn superblock_at(port: &DevicePort, byte: u64, place: Place, verify: Verify) -> FsResult<Found> {
    let page = port.request(Request::read(Lpn(byte / PAGE_SIZE as u64), 1, Cause::Metadata)).await?;
    let bytes = page[0].bytes();
    decode(&bytes[(byte % PAGE_SIZE as u64) as usize..], place, verify)
}

/// Finds a sound copy of the superblock: at the conventional places for each block size, else in the first pages.
async fn backup(port: &DevicePort) -> Option<Found> {
    let pages = port.geometry().pages;
    for log_block_size in 0..=6 {
        let size = 1024_u64 << log_block_size;
        let first = if size == 1024 { 1 } else { 0 };
        for group in BACKUP_GROUPS {
            let byte = (group * 8 * size + first) * size;
            if byte / PAGE_SIZE as u64 >= pages {
                break;
            }
            if let Ok(found) = superblock_at(port, byte, Place::Block(BlockNo(group)), Verify::Checksum).await {
                return Some(found);
            }
        }
    }
    for page in 0..pages.min(SEARCHED_PAGES) {
        let Ok(read) = port.request(Request::read(Lpn(page), 1, Cause::Metadata)).await else { continue };
        let bytes = read[0].bytes();
        let candidates =
            bytes.chunks(SUPERBLOCK_OFFSET).filter(|part| part[0x38..0x3a] == SUPERBLOCK_MAGIC.to_le_bytes());
        for candidate in candidates {
            if let Ok(found) = decode(candidate, Place::Block(BlockNo(page)), Verify::Checksum) {
                return Some(found);
            }
        }
    }
    None
}
