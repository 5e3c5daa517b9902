//! RAM disk: the simplest device that keeps the contract. Every crash state of a file system can be built on it.
//!
//! Content is a table of chunks of page handles. Snapshots share a chunk until one of them changes it: a fork of a disk
//! copies one pointer for each 256 KiB. Requests take no time.
//!
//! A volatile disk keeps the content that reads see, the durable content, and the list of writes between them:
//!
//! ```text
//!   current = durable + unflushed, applied in order        FLUSH: durable := current, unflushed := []
//!   cut:      current := durable + any subset of unflushed
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::choices::Choices;
use crate::counters::Counters;
use crate::device::{
    Completion, Device, DeviceError, Geometry, NextEvent, Outcome, PowerCut, PowerLoss, RecoveryReport, TrimRead,
};
use crate::page::Page;
use crate::request::{Operation, Remap, Request, Token};
use crate::units::{Lpn, Nanos};

const CHUNK_PAGES: usize = 64;

type Chunk = Arc<[Page; CHUNK_PAGES]>;

/// The content of a disk by page: sparse and cheap to clone.
#[derive(Clone, Debug)]
pub struct Image {
    chunks: Vec<Option<Chunk>>,
    pages: u64,
}

impl Image {
    /// `pages` pages of zeros.
    pub fn new(pages: u64) -> Image {
        Image { chunks: vec![None; pages.div_ceil(CHUNK_PAGES as u64) as usize], pages }
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The content of one page.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn page(&self, lpn: Lpn) -> &Page {
        assert!(lpn.0 < self.pages, "{lpn} of {} pages", self.pages);
        match &self.chunks[lpn.0 as usize / CHUNK_PAGES] {
            Some(chunk) => &chunk[lpn.0 as usize % CHUNK_PAGES],
            None => &Page::ZEROS,
        }
    }

    /// Replaces the content of one page.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn set(&mut self, lpn: Lpn, page: Page) {
        assert!(lpn.0 < self.pages, "{lpn} of {} pages", self.pages);
        let chunk = &mut self.chunks[lpn.0 as usize / CHUNK_PAGES];
        if chunk.is_none() && page.same_handle(&Page::ZEROS) {
            return;
        }
        let chunk = chunk.get_or_insert_with(|| Arc::new([const { Page::ZEROS }; CHUNK_PAGES]));
        Arc::make_mut(chunk)[lpn.0 as usize % CHUNK_PAGES] = page;
    }

    /// Makes `count` pages zeros.
    ///
    /// # Panics
    /// If there are no such pages.
    pub fn clear(&mut self, start: Lpn, count: u64) {
        let end = start.0 + count;
        assert!(end <= self.pages, "{start} and {count} pages on, of {}", self.pages);
        let mut at = start.0;
        while at < end {
            let (index, from) = (at as usize / CHUNK_PAGES, at as usize % CHUNK_PAGES);
            let part = from..CHUNK_PAGES.min(from + (end - at) as usize);
            at += part.len() as u64;
            clear_part(&mut self.chunks[index], part);
        }
    }

    /// Does what a device does with the content: writes, trims to zeros, or shares. Reads and FLUSHes change nothing.
    ///
    /// # Panics
    /// If the operation names a page that does not exist.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Write { start, pages, .. } => {
                (start.0..).map(Lpn).zip(pages).for_each(|(lpn, page)| self.set(lpn, page.clone()));
            }
            Operation::Trim { start, count } => {
                self.clear(*start, *count);
            }
            Operation::Share(pairs) => {
                // All sources are read before any target changes.
                let sources: Vec<Page> = pairs.iter().map(|pair| self.page(pair.source).clone()).collect();
                pairs.iter().zip(sources).for_each(|(pair, page)| self.set(pair.target, page));
            }
            Operation::Read { .. } | Operation::Flush => (),
        }
    }

    /// The pages that may hold anything but zeros, in ascending order.
    pub fn written(&self) -> impl Iterator<Item = (Lpn, &Page)> {
        self.chunks.iter().enumerate().flat_map(|(index, chunk)| {
            let start = (index * CHUNK_PAGES) as u64;
            chunk.iter().flat_map(move |chunk| (start..).map(Lpn).zip(chunk.iter()))
        })
    }
}

/// Makes a part of a chunk zeros; copies a shared chunk only if that changes it.
fn clear_part(chunk: &mut Option<Chunk>, part: Range<usize>) {
    let Some(pages) = chunk else { return };
    if part.len() == CHUNK_PAGES {
        *chunk = None;
    } else if pages[part.clone()].iter().any(|page| !page.same_handle(&Page::ZEROS)) {
        Arc::make_mut(pages)[part].fill(Page::ZEROS);
    }
}

/// See the module's head.
#[derive(Clone)]
pub struct RamDisk {
    geometry: Geometry,
    current: Image,
    /// Used only where a power cut may lose something.
    durable: Image,
    unflushed: Vec<(Lpn, Page)>,
    waiting: VecDeque<(Token, Request)>,
    now: Nanos,
    counters: Counters,
    cut_points: u64,
    armed: Option<u64>,
    is_dark: bool,
}

/// What a power cut may do to a page that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// It may lose the page until a FLUSH.
    Volatile,
    /// Nothing.
    Durable,
}

impl RamDisk {
    /// A disk of zeros that loses nothing that completed.
    pub fn new(pages: u64) -> RamDisk {
        RamDisk::with_geometry(Geometry { on_power_loss: PowerLoss::KeepsCompleted, ..ram_geometry(pages) })
    }

    /// A disk of zeros; a power cut may lose any subset of the unflushed writes.
    pub fn volatile(pages: u64) -> RamDisk {
        RamDisk::with_geometry(ram_geometry(pages))
    }

    /// A disk of zeros that claims `geometry`; it honours pages, FUA, TRIM, SHARE and power loss.
    pub(crate) fn with_geometry(geometry: Geometry) -> RamDisk {
        let image = Image::new(geometry.pages);
        RamDisk {
            geometry,
            current: image.clone(),
            durable: image,
            unflushed: Vec::new(),
            waiting: VecDeque::new(),
            now: Nanos::ZERO,
            counters: Counters::default(),
            cut_points: 0,
            armed: None,
            is_dark: false,
        }
    }

    /// A disk with the content of `image`, all of it durable, and the promises of `geometry`.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn with_image(image: Image, geometry: Geometry) -> RamDisk {
        assert_eq!(image.pages(), geometry.pages, "an image fills its disk");
        let mut disk = RamDisk::with_geometry(geometry);
        disk.current = image.clone();
        disk.durable = image;
        disk
    }

    /// What reads see now.
    pub fn image(&self) -> &Image {
        &self.current
    }

    /// Sets the content of a page, to prepare the disk. The page counts as durable.
    pub fn put(&mut self, lpn: Lpn, page: Page) {
        self.current.set(lpn, page.clone());
        self.durable.set(lpn, page);
    }

    fn is_volatile(&self) -> bool {
        self.geometry.on_power_loss == PowerLoss::AnySubset
    }

    fn carry_out(&mut self, operation: Operation) -> Outcome {
        match operation {
            Operation::Read { start, count } => {
                return Ok((0..u64::from(count)).map(|index| self.current.page(start.offset(index)).clone()).collect());
            }
            Operation::Write { start, pages, durable } => {
                (start.0..).map(Lpn).zip(pages).for_each(|(lpn, page)| {
                    self.write(lpn, page, if durable.is_fua() { Written::Durable } else { Written::Volatile })
                });
            }
            Operation::Flush => self.flush(),
            Operation::Trim { start, count } => {
                (start.0..start.0 + count).for_each(|lpn| self.write(Lpn(lpn), Page::ZEROS, Written::Volatile));
            }
            Operation::Share(pairs) => self.share(&pairs),
        }
        Ok(Vec::new())
    }

    fn write(&mut self, lpn: Lpn, page: Page, written: Written) {
        self.current.set(lpn, page.clone());
        if !self.is_volatile() {
            return;
        }
        if written == Written::Durable {
            self.unflushed.retain(|(other, _)| *other != lpn);
            self.durable.set(lpn, page);
        } else {
            self.unflushed.push((lpn, page));
        }
    }

    fn flush(&mut self) {
        for (lpn, page) in self.unflushed.drain(..) {
            self.durable.set(lpn, page);
        }
    }

    fn share(&mut self, pairs: &[Remap]) {
        let sources: Vec<Page> = pairs.iter().map(|pair| self.current.page(pair.source).clone()).collect();
        for (pair, page) in pairs.iter().zip(sources) {
            self.write(pair.source, page.clone(), Written::Durable);
            self.write(pair.target, page, Written::Durable);
        }
    }

    fn step(&mut self) {
        self.cut_points += 1;
        self.is_dark |= self.armed == Some(self.cut_points);
    }
}

fn ram_geometry(pages: u64) -> Geometry {
    let plain = Geometry::plain("ram", pages);
    Geometry { fua: true, trim_read: TrimRead::Zeros, share_pairs_max: 256, share_atomic: true, ..plain }
}

impl Device for RamDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        self.waiting.push_back((token, request));
    }

    fn next_event(&self) -> NextEvent {
        (!self.is_dark && !self.waiting.is_empty()).then_some(self.now).into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.now = to;
        while !self.is_dark {
            let Some((token, request)) = self.waiting.pop_front() else { return };
            self.step();
            if self.is_dark {
                return;
            }
            self.counters.count(&request);
            let outcome = self.geometry.admit(&request).and_then(|()| self.carry_out(request.operation));
            completed.push(Completion { token, outcome });
        }
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn is_dark(&self) -> bool {
        self.is_dark
    }

    fn as_power_cut(&mut self) -> Option<&mut dyn PowerCut> {
        Some(self)
    }
}

impl PowerCut for RamDisk {
    fn cut_points(&self) -> u64 {
        self.cut_points
    }

    fn arm(&mut self, point: u64) {
        self.armed = Some(point);
        self.is_dark |= self.cut_points >= point;
    }

    fn fork(&self) -> Box<dyn PowerCut> {
        Box::new(self.clone())
    }

    fn cut(&mut self, choices: &mut Choices) {
        self.is_dark = true;
        self.waiting.clear();
        if !self.is_volatile() {
            return;
        }
        self.current = self.durable.clone();
        for (lpn, page) in std::mem::take(&mut self.unflushed) {
            if choices.chance(1, 2) {
                self.current.set(lpn, page);
            }
        }
        self.durable = self.current.clone();
    }

    fn recover(&mut self, now: Nanos) -> Result<RecoveryReport, DeviceError> {
        self.now = now;
        self.is_dark = false;
        self.armed = None;
        self.waiting.clear();
        Ok(RecoveryReport::default())
    }

    fn check(&self) -> Result<(), String> {
        match self.unflushed.is_empty() || self.is_volatile() {
            true => Ok(()),
            false => Err(format!("{} writes wait for a flush on a disk that needs none", self.unflushed.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Cause;
    use crate::runtime::{DevicePort, Executor, Halt};

    fn page(byte: u8) -> Page {
        Page::from_slice(&[byte])
    }

    fn write(start: u64, byte: u8) -> Request {
        Request::write(Lpn(start), vec![page(byte)], Cause::Data)
    }

    /// Runs requests one after another on `disk`; returns the disk and the last result.
    fn run(disk: RamDisk, requests: Vec<Request>) -> (Box<dyn Device>, Result<Outcome, Halt>) {
        let executor = Executor::ideal();
        let port: DevicePort = executor.runtime().attach(Box::new(disk));
        let door = port.clone();
        let last = executor.block_on(async move {
            let mut last = Ok(Vec::new());
            for request in requests {
                last = door.request(request).await;
            }
            last
        });
        (port.unplug(), last)
    }

    #[test]
    fn clearing_a_range_sets_each_of_its_pages_to_zeros() {
        let all = 3 * CHUNK_PAGES as u64 + 5;
        let full = (0..all).map(Lpn).fold(Image::new(all), |mut image, lpn| {
            image.set(lpn, page(7));
            image
        });
        let chunk = CHUNK_PAGES as u64;
        for (start, count) in [(0, all), (0, 0), (1, 1), (chunk - 1, 2), (chunk, chunk), (5, 2 * chunk), (all - 7, 7)] {
            let (mut cleared, mut set) = (full.clone(), full.clone());
            cleared.clear(Lpn(start), count);
            (start..start + count).for_each(|lpn| set.set(Lpn(lpn), Page::ZEROS));
            let pages = |image: &Image| (0..all).map(|lpn| image.page(Lpn(lpn)).clone()).collect::<Vec<_>>();
            assert!(pages(&cleared) == pages(&set), "{count} pages from {start}");
            assert!(pages(&full).iter().all(|found| *found == page(7)), "a clone shares no change");
        }
    }

    #[test]
    fn an_image_does_what_a_device_does() {
        let mut image = Image::new(8);
        image.apply(&write(0, 1).operation);
        image.apply(&write(1, 2).operation);
        let swap = |target, source| Remap { target: Lpn(target), source: Lpn(source) };
        image.apply(&Operation::Share(vec![swap(0, 1), swap(1, 0), swap(5, 1)]));
        image.apply(&Operation::Trim { start: Lpn(1), count: 1 });
        image.apply(&Operation::Flush);
        let found: Vec<Page> = [0, 1, 5].map(|lpn| image.page(Lpn(lpn)).clone()).to_vec();
        assert_eq!(found, [page(2), Page::ZEROS, page(2)]);
    }

    #[test]
    fn a_read_gives_what_was_written() {
        let read = Request::read(Lpn(1), 2, Cause::Data);
        let (_, last) = run(RamDisk::new(4), vec![write(1, 7), read]);
        assert_eq!(last.unwrap().unwrap(), [page(7), Page::ZEROS]);
    }

    #[test]
    fn what_was_flushed_survives_a_cut_and_the_rest_may() {
        let mut survivors = [0; 2];
        for seed in 0..64 {
            let requests = vec![write(0, 1), Request::flush(Cause::Data), write(1, 2)];
            let (mut disk, _) = run(RamDisk::volatile(4), requests);
            let disk = disk.as_power_cut().unwrap();
            disk.cut(&mut Choices::new(seed));
            disk.recover(Nanos::ZERO).unwrap();
            let executor = Executor::ideal();
            let port = executor.runtime().attach(disk.fork());
            let read = async move { port.request(Request::read(Lpn(0), 2, Cause::Data)).await };
            let pages = executor.block_on(read).unwrap().unwrap();
            survivors[0] += u32::from(pages[0] == page(1));
            survivors[1] += u32::from(pages[1] == page(2));
        }
        assert_eq!(survivors[0], 64);
        assert!((16..48).contains(&survivors[1]), "{survivors:?}");
    }

    #[test]
    fn nothing_completes_after_the_armed_point() {
        let mut disk = RamDisk::new(4);
        disk.arm(2);
        let (mut disk, last) = run(disk, vec![write(0, 1), write(1, 2)]);
        assert_eq!(last, Err(Halt::PowerLost));
        assert_eq!(disk.as_power_cut().unwrap().cut_points(), 2);
    }

    #[test]
    fn a_fork_does_not_see_later_writes() {
        let mut disk = RamDisk::new(1024);
        disk.put(Lpn(1000), page(1));
        let snapshot = disk.clone();
        disk.put(Lpn(1000), page(2));
        assert_eq!(snapshot.image().page(Lpn(1000)), &page(1));
        assert_eq!(disk.image().page(Lpn(1000)), &page(2));
    }

    #[test]
    fn a_request_that_does_not_fit_is_refused_with_numbers() {
        let (_, last) = run(RamDisk::new(4), vec![write(4, 1)]);
        let error = last.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "write of 1 pages at page 4 reaches beyond the device's 4 pages");
    }
}
