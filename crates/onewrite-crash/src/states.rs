//! States: what a power cut may leave on a disk, derived from the recorded requests.
//!
//! The walker visits the recording event by event. It keeps the durable content and the units that may or may not
//! survive:
//!
//! ```text
//!   submitted write ─► its units join `pending`          (a unit: pages that survive together)
//!   completed FLUSH ─► units completed before its submission become durable, in the order of their completion
//!   completed FUA   ─► its own units become durable
//!   state = durable + any subset of pending, applied in order
//! ```
//!
//! The content hash of a state comes first, from the terms of the pages that differ. The image is built only if it is
//! needed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Cause, Durable, Geometry, Image, Lpn, Operation, PAGE_SIZE, Page, PowerLoss, Request, Token};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::hash::{page_hash, term};

/// Bytes of a sector; a device never tears a sector.
pub(crate) const SECTOR: usize = 512;

/// Hashes of a page that changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageHashes {
    pub(crate) old: u64,
    pub(crate) new: u64,
}

/// Hash of an image, relative to the image at the beginning of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Hash of all pages.
    pub(crate) all: u64,
    /// Hash of the pages outside the log.
    pub(crate) home: u64,
}

impl Sum {
    /// The hash of the image at the beginning of a walk; `base` distinguishes images of different runs.
    pub(crate) fn of_base(base: u64) -> Sum {
        Sum { all: base, home: base }
    }

    /// Updates the hash for a change of page `lpn`. `log` has the pages of the log.
    pub(crate) fn replace(&mut self, lpn: Lpn, page: PageHashes, log: &FxHashSet<Lpn>) {
        let change = term(lpn, page.new).wrapping_sub(term(lpn, page.old));
        self.all = self.all.wrapping_add(change);
        if !log.contains(&lpn) {
            self.home = self.home.wrapping_add(change);
        }
    }
}

/// Progress of the request of a unit. After it has ended, another request may use its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    UnderWay,
    Completed,
    /// Part of it may have happened; nothing makes it durable.
    Failed,
}

/// Pages that survive together or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pages: Vec<(Lpn, Page, u64)>,
    token: Token,
    pub(crate) cause: Cause,
    /// The FLUSHes under way that were submitted after the unit completed.
    covered_by: Vec<Token>,
    progress: Progress,
    durable_on_completion: bool,
    is_share: bool,
}

/// For each page of the first `units` pending units: its pending contents, oldest first, each with its hash.
#[derive(Default)]
struct Index {
    pages: FxHashMap<Lpn, Vec<(Page, u64)>>,
    units: usize,
}

/// Which pending units survive, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Indexes of the surviving units in `pending`, in order.
    pub(crate) kept: Vec<usize>,
    /// A surviving unit that is torn, and a bit mask of its sectors with new content.
    pub(crate) torn: Option<(usize, u8)>,
}

/// See the module's head.
pub(crate) struct Walker<'a> {
    durable: Image,
    hashes: FxHashMap<Lpn, u64>,
    sum: Sum,
    pub(crate) pending: Vec<Unit>,
    /// How many units of `pending` are under way.
    under_way: usize,
    /// An index of `pending`; [`Walker::newer`] brings it up to date. Without FLUSHes there are very many units.
    index: RefCell<Index>,
    /// FLUSHes under way.
    flushes: Vec<Token>,
    log: &'a FxHashSet<Lpn>,
    atomic_pages: u64,
    keeps_completed: bool,
    share_atomic: bool,
    last_log_page: u64,
    /// Whether the log has wrapped around its end.
    pub(crate) has_wrapped: bool,
}

/// The pages of the log: all pages ever written for one of `causes`.
pub(crate) fn log_pages(events: &[RecordedEvent], causes: &[Cause]) -> FxHashSet<Lpn> {
    let mut log = FxHashSet::default();
    for event in events {
        if let RecordedEvent::Submitted(_, request) = event
            && causes.contains(&request.cause)
            && let Operation::Write { start, pages, .. } = &request.operation
        {
            log.extend((start.0..start.0 + pages.len() as u64).map(Lpn));
        }
    }
    log
}

impl<'a> Walker<'a> {
    /// A walk that begins with `image`, whose hash is `sum`, on a device with the promises of `geometry`.
    pub(crate) fn new(image: Image, sum: Sum, log: &'a FxHashSet<Lpn>, geometry: &Geometry) -> Walker<'a> {
        Walker {
            durable: image,
            hashes: FxHashMap::default(),
            sum,
            pending: Vec::new(),
            under_way: 0,
            index: RefCell::default(),
            flushes: Vec::new(),
            log,
            atomic_pages: u64::from(geometry.atomic_write_pages.max(1)),
            keeps_completed: geometry.on_power_loss == PowerLoss::KeepsCompleted,
            share_atomic: geometry.share_atomic,
            last_log_page: 0,
            has_wrapped: false,
        }
    }

    /// Visits one event; returns how many units joined the end of `pending`.
    pub(crate) fn pass(&mut self, event: &RecordedEvent) -> usize {
        let before = self.pending.len();
        match event {
            RecordedEvent::Submitted(token, request) => self.submit(*token, request),
            RecordedEvent::Completed(token) => self.complete(*token),
            RecordedEvent::Failed(token) => self.fail(*token),
            RecordedEvent::Mark(_) => (),
        }
        self.pending.len().saturating_sub(before)
    }

    fn submit(&mut self, token: Token, request: &Request) {
        match &request.operation {
            Operation::Read { .. } => (),
            Operation::Write { start, pages, durable } => {
                self.note_log(request.cause, start.0);
                let pages: Vec<_> = (start.0..).map(Lpn).zip(pages.iter().cloned()).collect();
                self.join(token, request.cause, &pages, *durable);
            }
            Operation::Trim { start, count } => {
                let pages: Vec<_> = (start.0..start.0 + count).map(|lpn| (Lpn(lpn), Page::ZEROS)).collect();
                self.join(token, request.cause, &pages, Durable::AfterFlush);
            }
            Operation::Share(pairs) => {
                let pages: Vec<_> = pairs.iter().map(|pair| (pair.target, self.newest(pair.source))).collect();
                let together = if self.share_atomic { pages.len() } else { 1 };
                for part in pages.chunks(together) {
                    self.push(token, request.cause, part, Durable::OnCompletion);
                    self.pending.last_mut().expect("just pushed").is_share = true;
                }
            }
            Operation::Flush => {
                self.flushes.push(token);
                let completed = self.pending.iter_mut().filter(|unit| unit.progress == Progress::Completed);
                completed.for_each(|unit| unit.covered_by.push(token));
            }
        }
    }

    fn note_log(&mut self, cause: Cause, start: u64) {
        if cause == Cause::Journal {
            self.has_wrapped |= start < self.last_log_page;
            self.last_log_page = start;
        }
    }

    /// Adds pages as units of the device's atomic size.
    fn join(&mut self, token: Token, cause: Cause, pages: &[(Lpn, Page)], durable: Durable) {
        let atomic = self.atomic_pages;
        for part in pages.chunk_by(|one, next| one.0.0 / atomic == next.0.0 / atomic) {
            self.push(token, cause, part, durable);
        }
    }

    fn push(&mut self, token: Token, cause: Cause, pages: &[(Lpn, Page)], durable: Durable) {
        let durable_on_completion = durable == Durable::OnCompletion || self.keeps_completed;
        let pages = pages.iter().map(|(lpn, page)| (*lpn, page.clone(), page_hash(page))).collect();
        self.under_way += 1;
        self.pending.push(Unit {
            pages,
            token,
            cause,
            covered_by: Vec::new(),
            progress: Progress::UnderWay,
            durable_on_completion,
            is_share: false,
        });
    }

    fn newest(&self, lpn: Lpn) -> Page {
        let newer = self.pending.iter().rev().flat_map(|unit| &unit.pages).find(|(other, ..)| *other == lpn);
        newer.map_or_else(|| self.durable.page(lpn).clone(), |(_, page, _)| page.clone())
    }

    fn complete(&mut self, token: Token) {
        let flushes = self.flushes.len();
        self.flushes.retain(|flush| *flush != token);
        if self.flushes.len() == flushes && !self.end_units_of(token, Progress::Completed) {
            return;
        }
        self.index.take();
        let mut kept: FxHashSet<Lpn> = FxHashSet::default();
        for unit in std::mem::take(&mut self.pending) {
            let is_written = unit.progress == Progress::Completed && unit.durable_on_completion;
            if is_written || unit.covered_by.contains(&token) {
                self.make_durable(&unit);
                if unit.pages.iter().any(|(lpn, ..)| kept.contains(lpn)) {
                    self.supersede(&unit);
                }
            } else {
                kept.extend(unit.pages.iter().map(|(lpn, ..)| *lpn));
                self.pending.push(unit);
            }
        }
        self.under_way = self.pending.iter().filter(|unit| unit.progress == Progress::UnderWay).count();
    }

    /// Ends the units of a request under way; returns whether one of them is durable on completion.
    ///
    /// Looks at no more units than it must: without FLUSHes there are very many.
    fn end_units_of(&mut self, token: Token, end: Progress) -> bool {
        let under_way = self.pending.iter_mut().rev().filter(|unit| unit.progress == Progress::UnderWay);
        let (mut ended, mut durable) = (0, false);
        for unit in under_way.take(self.under_way).filter(|unit| unit.token == token) {
            (unit.progress, ended) = (end, ended + 1);
            durable |= unit.durable_on_completion;
        }
        self.under_way -= ended;
        durable
    }

    /// Notes that a request failed. A part of it may have happened; a failed FLUSH covers nothing.
    fn fail(&mut self, token: Token) {
        self.end_units_of(token, Progress::Failed);
        self.flushes.retain(|flush| *flush != token);
        self.pending.iter_mut().for_each(|unit| unit.covered_by.retain(|flush| *flush != token));
    }

    /// Drops older pending content of the pages of `unit`: it can no longer survive.
    fn supersede(&mut self, unit: &Unit) {
        let is_older = |lpn: &Lpn| unit.pages.iter().any(|(other, ..)| other == lpn);
        self.pending.iter_mut().for_each(|older| older.pages.retain(|(lpn, ..)| !is_older(lpn)));
        self.pending.retain(|older| !older.pages.is_empty());
    }

    fn make_durable(&mut self, unit: &Unit) {
        for (lpn, page, hash) in &unit.pages {
            let page_hashes = PageHashes { old: self.hash_of(*lpn), new: *hash };
            self.sum.replace(*lpn, page_hashes, self.log);
            self.hashes.insert(*lpn, *hash);
            self.durable.set(*lpn, page.clone());
        }
    }

    fn hash_of(&self, lpn: Lpn) -> u64 {
        self.hashes.get(&lpn).copied().unwrap_or_else(|| page_hash(self.durable.page(lpn)))
    }

    /// The newest surviving content of each page.
    fn final_pages(&self, choice: &Choice) -> BTreeMap<Lpn, (Page, u64)> {
        let mut pages: BTreeMap<Lpn, (Page, u64)> = BTreeMap::new();
        for index in &choice.kept {
            for (lpn, page, hash) in &self.pending[*index].pages {
                let torn = choice.torn.filter(|(unit, _)| unit == index);
                let content = match torn {
                    None => (page.clone(), *hash),
                    Some((_, sectors)) => {
                        let old = pages.get(lpn).map_or_else(|| self.durable.page(*lpn), |(page, _)| page);
                        let page = merged(old, page, sectors);
                        let hash = page_hash(&page);
                        (page, hash)
                    }
                };
                pages.insert(*lpn, content);
            }
        }
        pages
    }

    /// The hash of a state.
    pub(crate) fn sum_of(&self, choice: &Choice) -> Sum {
        self.sum_with(&self.final_pages(choice))
    }

    /// The image of a state.
    pub(crate) fn image_of(&self, choice: &Choice) -> Image {
        self.image_with(self.final_pages(choice))
    }

    /// The pages of the log.
    pub(crate) fn log(&self) -> &'a FxHashSet<Lpn> {
        self.log
    }

    /// The hash of the content `found` on a page after a cut; `None` if it is the last durable content.
    ///
    /// # Errors
    /// `()` if the content is neither the last durable nor a newer one.
    pub(crate) fn newer(&self, lpn: Lpn, found: &Page) -> Result<Option<u64>, ()> {
        if self.durable.page(lpn).same_handle(found) {
            return Ok(None);
        }
        self.bring_index_up_to_date();
        let index = self.index.borrow();
        let pending = index.pages.get(&lpn).map_or(&[][..], Vec::as_slice);
        if let Some((_, hash)) = pending.iter().find(|(page, _)| page.same_handle(found)) {
            return Ok(Some(*hash));
        }
        let found = page_hash(found);
        match self.hash_of(lpn) == found {
            true => Ok(None),
            false => pending.iter().any(|(_, hash)| *hash == found).then_some(Some(found)).ok_or(()),
        }
    }

    fn bring_index_up_to_date(&self) {
        let mut index = self.index.borrow_mut();
        for (lpn, page, hash) in self.pending[index.units..].iter().flat_map(|unit| &unit.pages) {
            let versions = index.pages.entry(*lpn).or_default();
            if versions.last().is_none_or(|(_, last)| last != hash) {
                versions.push((page.clone(), *hash));
            }
        }
        index.units = self.pending.len();
    }

    /// Whether a SHARE is under way.
    pub(crate) fn has_share_under_way(&self) -> bool {
        self.pending.iter().any(|unit| unit.is_share)
    }

    /// A page that proves that a SHARE under way was torn; `found` has the pages that differ from the durable content
    /// after a cut. Skips ambiguous pages: another request may have given them the same content.
    pub(crate) fn halved_share(&self, found: &BTreeMap<Lpn, (Page, u64)>) -> Option<Lpn> {
        self.pending.iter().enumerate().filter(|(_, unit)| unit.is_share).find_map(|(index, unit)| {
            let mut happened = unit.pages.iter().filter_map(|(lpn, _, hash)| {
                let others = self.pending.iter().enumerate().filter(|(other, _)| *other != index);
                let mut others = others.flat_map(|(_, unit)| &unit.pages).filter(|(other, ..)| other == lpn);
                let is_plain = self.hash_of(*lpn) != *hash && !others.any(|(.., other)| other == hash);
                let is_newest =
                    !self.pending[index + 1..].iter().any(|unit| unit.pages.iter().any(|page| page.0 == *lpn));
                let has_it = found.get(lpn).is_some_and(|(_, found)| found == hash);
                (is_plain && is_newest).then_some((*lpn, has_it))
            });
            let (_, first) = happened.next()?;
            happened.find(|(_, other)| *other != first).map(|(lpn, _)| lpn)
        })
    }

    /// The hash of the durable image with `pages` replaced.
    pub(crate) fn sum_with(&self, pages: &BTreeMap<Lpn, (Page, u64)>) -> Sum {
        let mut sum = self.sum;
        for (lpn, (_, hash)) in pages {
            sum.replace(*lpn, PageHashes { old: self.hash_of(*lpn), new: *hash }, self.log);
        }
        sum
    }

    /// The durable image with `pages` replaced.
    pub(crate) fn image_with(&self, pages: BTreeMap<Lpn, (Page, u64)>) -> Image {
        let mut image = self.durable.clone();
        pages.into_iter().for_each(|(lpn, (page, _))| image.set(lpn, page));
        image
    }

    /// Whether a pending unit may tear: one of the page `whole` may not.
    pub(crate) fn may_tear(&self, unit: usize, whole: Option<Lpn>) -> bool {
        whole.is_none_or(|whole| self.pending[unit].pages.iter().all(|(lpn, ..)| *lpn != whole))
    }

    /// Whether a state keeps some, but not all, of the pairs of a SHARE under way.
    pub(crate) fn tears_share(&self, choice: &Choice) -> bool {
        let is_kept = |index| choice.kept.binary_search(&index).is_ok();
        let mut pairs = (1..).zip(self.pending.windows(2));
        pairs.any(|(next, units)| {
            units[0].is_share && units[0].token == units[1].token && is_kept(next - 1) != is_kept(next)
        })
    }

    /// The pending writes that a state loses or tears, a line for each request.
    pub(crate) fn lost(&self, choice: &Choice) -> Vec<String> {
        let lost = |(index, unit): (usize, &Unit)| {
            let blocks: Vec<String> = unit.pages.iter().map(|(lpn, ..)| lpn.0.to_string()).collect();
            let fate = match choice.torn {
                Some((torn, sectors)) if torn == index => format!("torn (new sectors {sectors:08b})"),
                _ if choice.kept.binary_search(&index).is_ok() => return None,
                _ => "lost".to_owned(),
            };
            Some(format!("{} block {}: {fate}", unit.cause.name(), blocks.join(", ")))
        };
        self.pending.iter().enumerate().filter_map(lost).collect()
    }

    /// Whether a state keeps some, but not all, of the pending log blocks.
    pub(crate) fn tears_commit(&self, choice: &Choice) -> bool {
        let in_log = |index: &&usize| self.pending[**index].cause == Cause::Journal;
        let kept = choice.kept.iter().filter(in_log).count();
        kept > 0 && kept < self.pending.iter().filter(|unit| unit.cause == Cause::Journal).count()
    }
}

/// The old page with some sectors of the new one.
fn merged(old: &Page, new: &Page, sectors: u8) -> Page {
    let mut page = old.clone();
    for sector in (0..PAGE_SIZE / SECTOR).filter(|sector| sectors & (1 << sector) != 0) {
        let at = sector * SECTOR;
        page.write(at, &new.bytes()[at..at + SECTOR]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token(1);
    const FLUSH: Token = Token(2);

    fn geometry(on_power_loss: PowerLoss) -> Geometry {
        Geometry { on_power_loss, ..Geometry::plain("test", 8) }
    }

    /// Whether page 0 certainly keeps its content after a TRIM that failed and then `events`.
    fn is_kept_after_failed_trim(on_power_loss: PowerLoss, events: &[RecordedEvent]) -> bool {
        let mut image = Image::new(8);
        image.set(Lpn(0), Page::from_slice(b"before"));
        let log = FxHashSet::default();
        let mut walker = Walker::new(image, Sum::of_base(0), &log, &geometry(on_power_loss));
        walker.pass(&RecordedEvent::Submitted(TOKEN, Request::trim(Lpn(0), 1, Cause::Data)));
        walker.pass(&RecordedEvent::Failed(TOKEN));
        for event in events {
            walker.pass(event);
        }
        walker.newer(Lpn(0), &Page::from_slice(b"before")) == Ok(None)
    }

    #[test]
    fn a_request_that_failed_does_not_become_durable_with_a_later_one_of_its_token() {
        let flush = || RecordedEvent::Submitted(FLUSH, Request::flush(Cause::Data));
        // Another request on another part of the disk reuses the token; a walk along one part sees only its completion.
        let events = [RecordedEvent::Completed(TOKEN), flush(), RecordedEvent::Completed(FLUSH)];
        assert!(is_kept_after_failed_trim(PowerLoss::AnySubset, &events));
        assert!(is_kept_after_failed_trim(PowerLoss::KeepsCompleted, &events));
    }
}
