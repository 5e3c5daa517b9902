//! Area: where the staging area lies, and what a mount finds in it.

use onewrite_block::{Cause, DevicePort, Lpn, Page, Request, crc32c};

use super::format::{self, End, Head, Label};
use crate::api::{FsError, FsResult};
use crate::f2fs::format::Layout;
use crate::f2fs::format::checkpoint::{StageMark, StagePlace};
use crate::transfer::{Durability, send_run, wait_all};

/// Fewest pages of an area: 256 KiB.
pub(in crate::f2fs) const PAGES_MIN: u64 = 64;
/// Pages before the log: the label, and two ends.
pub(in crate::f2fs) const LOG_START: u64 = 3;
/// Pages read at once, if the device takes as many.
const READ_PAGES: u64 = 64;

/// See the module's head.
#[derive(Clone)]
pub(in crate::f2fs) struct Area {
    port: DevicePort,
    /// The page of the label.
    start: Lpn,
    /// Pages of the log.
    pub(in crate::f2fs) pages: u64,
    /// Start value of the checksums.
    pub(in crate::f2fs) seed: u32,
    /// Whether it lies on a device of its own.
    pub(in crate::f2fs) is_apart: bool,
    /// What tells it from other areas of the image.
    id: u32,
}

/// A transaction as it lies in the area.
#[derive(Clone, Debug)]
pub(in crate::f2fs) struct Found {
    pub(in crate::f2fs) number: u32,
    /// The last transaction that was durable when this one was written.
    pub(in crate::f2fs) durable: u32,
    /// Its records.
    pub(in crate::f2fs) stream: Vec<u8>,
}

/// The complete transactions of an area, in order.
#[derive(Clone, Debug, Default)]
pub(in crate::f2fs) struct Scanned {
    /// Version of the checkpoint that they continue.
    pub(in crate::f2fs) version: u64,
    pub(in crate::f2fs) found: Vec<Found>,
    /// The head with the newest version, and then the newest durable transaction, of the pages behind them.
    behind: Option<Head>,
}

impl Scanned {
    /// Asserts that nothing is missing which an fsync made durable behind checkpoint `version`, as far as the area
    /// shows it.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if a later page says so of a transaction that is not there; [`FsError::Unsupported`] if the
    /// area continues a newer checkpoint.
    pub(in crate::f2fs) fn expect_whole(&self, version: u64) -> FsResult<()> {
        let newest = self.newest();
        if newest > version {
            return Err(FsError::Unsupported(format!(
                "this staging area: it continues checkpoint {newest}, and the image has {version}: it is an older \
                 copy; give the newest one, or mount with `-o discard_stage` to give up what fsyncs staged"
            )));
        }
        let missing = self.missing(version);
        match self.behind.filter(|head| head.version == version && head.durable >= missing) {
            Some(Head { durable, .. }) => Err(FsError::Damaged {
                place: format!("transaction {missing} of the staging area"),
                problem: format!(
                    "it is not there, though those up to {durable} were durable; mount with `-o discard_stage` to go \
                     on without it and those behind it"
                ),
            }),
            None => Ok(()),
        }
    }

    /// The newest checkpoint that a page of the area continues.
    pub(in crate::f2fs) fn newest(&self) -> u64 {
        self.version.max(self.behind.map_or(0, |head| head.version))
    }

    /// Number of the first transaction of checkpoint `version` that was not found. 0 has no changes.
    fn missing(&self, version: u64) -> u32 {
        self.found.last().filter(|_| self.version == version).map_or(1, |found| found.number + 1)
    }
}

impl Area {
    /// The area behind the image, or on the device `staging`; `None` if there is none. If `may_begin`, an empty device
    /// becomes one, and so does what is left of one behind the image.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if its label is damaged, or it was cut short; [`FsError::Unsupported`] if the device
    /// `staging` holds anything else, another image's area, too; device errors.
    pub(in crate::f2fs) async fn find(
        image: &DevicePort,
        staging: Option<&DevicePort>,
        layout: &Layout,
        may_begin: bool,
    ) -> FsResult<Option<Area>> {
        let (port, start) = match staging {
            Some(port) => (port, Lpn(0)),
            None => (image, Lpn(layout.block_count)),
        };
        let room = port.geometry().pages.saturating_sub(start.0);
        if staging.is_none() && room < PAGES_MIN {
            return Ok(None);
        }
        let seed = layout.inode_seed;
        let area = |pages: u64, id: u32| Area {
            port: port.clone(),
            start,
            pages: pages - LOG_START,
            seed,
            is_apart: staging.is_some(),
            id,
        };
        let begin = async || -> FsResult<Option<Area>> {
            // Areas of one image are not made at one time. 0 is the one behind it.
            let id = match staging {
                Some(_) => crc32c(seed, &port.runtime().civil_now().0.to_le_bytes()).max(1),
                None => 0,
            };
            let label = vec![format::label(room, id, seed)];
            port.request(Request::write(start, label, Cause::Metadata)).await?;
            Ok(Some(area(room, id)))
        };
        let page = port.request(Request::read(start, 1, Cause::Metadata)).await?.remove(0);
        match format::decode_label(&page, seed) {
            Label::Area { pages, id } if (PAGES_MIN..=room).contains(&pages) => Ok(Some(area(pages, id))),
            Label::None if staging.is_none() => Ok(None),
            Label::None if page.is_zeros() && !may_begin => Ok(None),
            Label::None if page.is_zeros() && room >= PAGES_MIN => begin().await,
            // Nothing is lost with it: no checkpoint is continued, or it is given up.
            Label::Area { .. } if may_begin && room >= PAGES_MIN => begin().await,
            Label::Foreign if may_begin && staging.is_none() => begin().await,
            Label::Area { pages, .. } => Err(FsError::Damaged {
                place: "label of the staging area".into(),
                problem: format!(
                    "it has {pages} pages; its device has room for {room}; mount with `-o discard_stage` to go on with \
                     what is left of it"
                ),
            }),
            Label::None if page.is_zeros() => Err(FsError::Unsupported(format!(
                "a staging area of {room} pages; the smallest has {PAGES_MIN} (256 KiB)"
            ))),
            Label::None => Err(FsError::Unsupported(
                "the staging device holds something else; give an empty one (its first page all zeros)".into(),
            )),
            Label::Foreign if staging.is_some() => Err(FsError::Unsupported(
                "the staging area belongs to another image, or its label is damaged; give this image's own".into(),
            )),
            Label::Foreign => Err(FsError::Damaged {
                place: "label of the staging area behind the image".into(),
                problem: "its checksum is wrong; mount with `-o discard_stage` to go on with what is left of it".into(),
            }),
        }
    }

    /// The area behind the image, if it has a sound label.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs) async fn behind(image: &DevicePort, layout: &Layout) -> FsResult<Option<Area>> {
        match Area::find(image, None, layout, false).await {
            Err(FsError::Damaged { .. } | FsError::Unsupported(_)) => Ok(None),
            found => found,
        }
    }

    /// What a checkpoint says of it that it continues.
    pub(in crate::f2fs) fn mark(&self) -> StageMark {
        let place = if self.is_apart { StagePlace::Apart } else { StagePlace::Behind };
        StageMark { place, area_id: self.id }
    }

    /// Reads all complete transactions, up to the first that is missing, torn, or of another checkpoint. If the area
    /// continues checkpoint `version`, looks at the pages behind them, too, for what belongs to it or to a newer one.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs) async fn scan(&self, version: u64, is_continued: bool) -> FsResult<Scanned> {
        let mut reading = Reading::default();
        let mut at = 0;
        while at < self.pages && (is_continued || !reading.has_ended) {
            let part = self.read_part(at).await?;
            let count = part.len() as u64;
            for page in part {
                if reading.has_ended && (!is_continued || format::version_of(&page) < version) {
                    continue;
                }
                reading.add(format::decode_page(&page, self.seed));
            }
            at += count;
        }
        Ok(reading.scanned)
    }

    /// Erases what continues a newer checkpoint than `version`, and makes that durable: what other times of the image
    /// left must not look like what follows the next checkpoint, which has a number that they had.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs) async fn erase_newer(&self, version: u64) -> FsResult<()> {
        let mut at = 0;
        while at < self.pages {
            let part = self.read_part(at).await?;
            let count = part.len() as u64;
            for (index, _) in (at..).zip(part).filter(|(_, page)| format::version_of(page) > version) {
                let zeros = vec![Page::ZEROS];
                self.port.request(Request::write(self.page(index), zeros, Cause::Journal)).await?;
            }
            at += count;
        }
        self.flush().await
    }

    /// Pages of the log from `first` on, as many as one request takes.
    async fn read_part(&self, first: u64) -> FsResult<Vec<Page>> {
        let most = READ_PAGES.min(self.port.geometry().transfer_pages_max.into());
        let request = Request::read(self.page(first), most.min(self.pages - first) as u32, Cause::Journal);
        Ok(self.port.request(request).await?)
    }

    /// Page `index` of the log.
    fn page(&self, index: u64) -> Lpn {
        self.start.offset(LOG_START + index)
    }

    /// What the area says about checkpoints that hold what it held.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs) async fn ends(&self) -> FsResult<Vec<End>> {
        let pages = self.port.request(Request::read(self.start.offset(1), 2, Cause::Journal)).await?;
        Ok(pages.iter().filter_map(|page| End::decode(page, self.seed)).collect())
    }

    /// Writes an end, over that of the last checkpoint but one.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs) async fn write_end(&self, end: End) -> FsResult<()> {
        let at = self.start.offset(1 + end.version % 2);
        self.port.request(Request::write(at, vec![end.page(self.seed)], Cause::Journal)).await?;
        Ok(())
    }

    /// Most pages that one request writes.
    fn transfer_max(&self) -> usize {
        self.port.geometry().transfer_pages_max as usize
    }

    /// Whether one durable request can write so many pages.
    pub(in crate::f2fs) fn takes_durably(&self, pages: usize) -> bool {
        self.port.geometry().fua && pages <= self.transfer_max()
    }

    /// Writes pages of the log and waits.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs) async fn write(&self, index: u64, pages: Vec<Page>, durability: Durability) -> FsResult<()> {
        let sent = send_run(&self.port, self.page(index), pages.into_iter(), durability, Cause::Journal).await;
        Ok(wait_all(sent).await?)
    }

    /// Makes what was written durable, on a device of its own.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs) async fn flush(&self) -> FsResult<()> {
        self.port.request(Request::flush(Cause::Journal)).await?;
        Ok(())
    }
}

impl StagePlace {
    /// That such an area continues a checkpoint and was not found.
    pub(in crate::f2fs) const fn missing(self) -> &'static str {
        match self {
            StagePlace::Behind => {
                "fsyncs behind the last checkpoint are in a staging area behind the image, which was not looked for \
                 (leave `-o stage` out) or is not there (a copy that was cut short)"
            }
            StagePlace::Apart => "fsyncs behind the last checkpoint are in a staging area of its own (`-o stage=FILE`)",
        }
    }
}

/// What is wrong with an area, for those who tell it beside others.
pub(in crate::f2fs) fn problem_of(error: &FsError) -> String {
    match error {
        FsError::Damaged { place, problem } => format!("{place}: {problem}"),
        other => other.to_string(),
    }
}

/// A scan of the pages of an area, one after another.
#[derive(Default)]
struct Reading {
    scanned: Scanned,
    stream: Vec<u8>,
    last: Option<Head>,
    /// Whether the transactions have ended.
    has_ended: bool,
}

impl Reading {
    fn add(&mut self, page: Option<(Head, Vec<u8>)>) {
        let Some((head, payload)) = page else { return self.has_ended = true };
        match self.last {
            _ if self.has_ended => (),
            None if head.index == 0 && head.transaction <= 1 => self.scanned.version = head.version,
            Some(last) if is_next(&last, &head) => (),
            _ => self.has_ended = true,
        }
        if self.has_ended {
            let age = |head: &Head| (head.version, head.durable);
            self.scanned.behind = self.scanned.behind.into_iter().chain([head]).max_by_key(age);
            return;
        }
        self.stream.extend(payload);
        if head.is_last {
            let stream = std::mem::take(&mut self.stream);
            self.scanned.found.push(Found { number: head.transaction, durable: head.durable, stream });
        }
        self.last = Some(head);
    }
}

/// Whether a page with head `head` follows one with head `before`.
fn is_next(before: &Head, head: &Head) -> bool {
    let (transaction, index) = match before.is_last {
        true => (before.transaction.wrapping_add(1), 0),
        false => (before.transaction, before.index.wrapping_add(1)),
    };
    before.version == head.version && (transaction, index) == (head.transaction, head.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_a_transaction_of_more_than_65536_pages_begin_anew() {
        let head = |index| Head { version: 1, transaction: 9, durable: 8, index, is_last: false };
        assert!(is_next(&head(u16::MAX), &head(0)) && !is_next(&head(u16::MAX), &head(1)));
    }

    #[test]
    fn behind_the_log_the_newest_checkpoint_counts_not_the_most_transactions() {
        let head = |version, durable| Head { version, transaction: 9, durable, index: 0, is_last: true };
        let mut reading = Reading::default();
        [None, Some(head(5, 9)), Some(head(7, 1)), Some(head(6, 3))]
            .into_iter()
            .for_each(|head| reading.add(head.map(|head| (head, Vec::new()))));
        assert_eq!(reading.scanned.newest(), 7);
    }
}
