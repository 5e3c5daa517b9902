//! Places: offset and length of the next access in a file, as fio 3.33 chooses them (its `io_u.c`).
//!
//! # Invariants
//! - Offsets here are relative to the first byte that the job uses; only a [`FileRange`] is relative to the file.
//! - No access begins after the bytes that the job uses, and none ends after the end of the file.

use onewrite_block::Choices;

use super::chooser::Chooser;
use crate::job::{BlockSizes, Direction, Distribution, Options, SplitPart};
use crate::workload::{BlockMap, FileId};

/// The part of a file that a job works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSpan {
    /// The file.
    pub file: FileId,
    /// First byte that the job uses.
    pub offset: u64,
    /// Bytes from `offset` on that the job uses.
    pub size: u64,
    /// Bytes of the file.
    pub whole: u64,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Where an access begins, and how that was chosen.
#[derive(Clone, Copy)]
struct Start {
    offset: u64,
    /// Whether the map counts it as a visit.
    is_visit: bool,
    is_random: bool,
}

/// Chooses the places of one job in one file.
pub(super) struct Places {
    /// The file.
    pub span: FileSpan,
    /// First byte of the job's current zone; without zones, of the span.
    base: u64,
    /// Bytes moved in this zone.
    zone_bytes: u64,
    /// Ends of the last accesses in each direction, from the beginning of the file.
    ends: [u64; 3],
    /// Beginnings of the last accesses in each direction, from the base.
    last: [u64; 3],
    map: Option<BlockMap>,
    map_unit: u64,
    chooser: Chooser,
    until_random: u64,
    /// A pass has begun, and this file has not given a place in it yet.
    may_start_over: bool,
}

impl Places {
    /// Places of a job with `options` in `span`.
    pub(super) fn new(options: &Options, span: FileSpan, choices: &mut Choices) -> Places {
        let unit = options.block_size_least();
        let chooser = Chooser::new(options, span.size, choices);
        let is_mapped = options.random
            && options.random_map
            && options.align.is_none()
            && !options.strided.enabled
            && options.distribution == Distribution::Uniform;
        let map = is_mapped.then(|| BlockMap::new(span.size / unit));
        let (base, ends) = (span.offset, [span.offset; 3]);
        let (last, may_start_over) = ([0; 3], false);
        Places { span, base, zone_bytes: 0, ends, last, map, map_unit: unit, chooser, until_random: 1, may_start_over }
    }

    /// Begins another pass. It continues where the last one ended, and starts over if nothing is left there.
    pub(crate) fn begin_pass(&mut self, is_exhausted: bool) {
        let is_full = self.map.as_ref().is_some_and(|map| map.next_free(0).is_none());
        self.may_start_over = true;
        if is_exhausted || is_full {
            self.start_over();
        }
    }

    /// Forgets all visits.
    fn start_over(&mut self) {
        self.may_start_over = false;
        self.base = self.span.offset;
        self.zone_bytes = 0;
        self.ends = [self.base; 3];
        if self.map.is_some() {
            self.map = Some(BlockMap::new(self.span.size / self.map_unit));
        }
    }

    /// The next access; `None` if this pass has nothing left.
    pub(super) fn next(&mut self, options: &Options, direction: Direction, choices: &mut Choices) -> Option<FileRange> {
        let place = self.choose(options, direction, choices);
        if place.is_none() && self.may_start_over {
            self.start_over();
            return self.choose(options, direction, choices);
        }
        self.may_start_over = false;
        place
    }

    fn choose(&mut self, options: &Options, direction: Direction, choices: &mut Choices) -> Option<FileRange> {
        if options.strided.enabled {
            self.enter_zone(options, direction);
        }
        let start = self.start(options, direction, choices)?;
        let offset = start.offset;
        if offset >= self.span.size || self.base + offset >= self.span.whole {
            return None;
        }
        let sizes = options.sizes(direction, start.is_random);
        let mut length = self.length(sizes, offset, options.unaligned, choices)?;
        if self.base + offset + length > self.span.whole {
            return None;
        }
        if let Some(map) = self.map.as_mut().filter(|_| start.is_visit) {
            let run = map.insert_run(offset / self.map_unit, length.div_ceil(self.map_unit));
            length = length.min(run * self.map_unit);
        }
        self.ends[direction as usize] = self.base + offset + length;
        self.last[direction as usize] = offset;
        self.zone_bytes += length;
        Some(FileRange { offset: self.base + offset, length })
    }

    /// `zonemode=strided`: enters the next zone when enough bytes were moved in this one. Until then accesses go around
    /// in it.
    fn enter_zone(&mut self, options: &Options, direction: Direction) {
        let zone = &options.strided;
        let end = &mut self.ends[direction as usize];
        if self.zone_bytes >= zone.size {
            self.zone_bytes = 0;
            self.base += zone.reach() + zone.skip;
            if self.base >= self.span.whole {
                self.base = self.span.offset;
            }
            *end = self.base;
        }
        if *end >= self.base + zone.reach() {
            *end = self.base;
        }
    }

    /// Where the next access begins.
    fn start(&mut self, options: &Options, direction: Direction, choices: &mut Choices) -> Option<Start> {
        let sequential = |offset| Start { offset, is_visit: false, is_random: false };
        if !options.random {
            return self.sequential(options, direction).map(sequential);
        }
        self.until_random -= 1;
        if self.until_random == 0 {
            self.until_random = options.random_every;
            let percent = u64::from(*options.random_percent.of(direction));
            if percent < 100 && choices.below(100) >= percent {
                return self.sequential(options, direction).map(sequential);
            }
            let offset = self.random(options, direction, choices)?;
            return Some(Start { offset, is_visit: true, is_random: true });
        }
        if options.identical {
            return Some(sequential(self.last[direction as usize]));
        }
        let offset = self.sequential(options, direction).or_else(|| self.random(options, direction, choices));
        offset.map(sequential)
    }

    fn random(&mut self, options: &Options, direction: Direction, choices: &mut Choices) -> Option<u64> {
        let align = match &options.align {
            Some(align) if *align.of(direction) > 0 => *align.of(direction),
            _ => options.block_sizes.of(direction).least(),
        };
        let reach = if options.strided.enabled { self.span.size.min(options.strided.reach()) } else { self.span.size };
        let blocks = reach / align;
        if blocks == 0 {
            return None;
        }
        match self.chooser.draw(direction, blocks, choices) {
            None => self.unvisited(choices.below(blocks) * align),
            Some(block) => Some(block * align),
        }
    }

    /// The first unvisited place at or after `offset`.
    fn unvisited(&self, offset: u64) -> Option<u64> {
        match &self.map {
            None => Some(offset),
            Some(map) => map.next_free(offset / self.map_unit).map(|block| block * self.map_unit),
        }
    }

    fn sequential(&mut self, options: &Options, direction: Direction) -> Option<u64> {
        let (span, skip) = (self.span, options.sequential_skip);
        let last = if span.whole > span.size { span.size } else { span.whole };
        let end = &mut self.ends[direction as usize];
        if *end >= span.offset + span.size && options.time_based {
            *end = self.base;
        }
        if *end >= span.whole {
            return None;
        }
        // Backwards, the first access is at the end.
        if *end == self.base && self.base > 0 && skip < 0 {
            *end = last;
        }
        let offset = end.saturating_sub(self.base);
        if offset == 0 || skip == 0 {
            return Some(offset);
        }
        match offset.checked_add_signed(skip) {
            Some(offset) if offset < span.whole => Some(offset),
            _ if skip > 0 => Some(self.base),
            // Starts again from the other end.
            _ => last.checked_add_signed(skip),
        }
    }

    fn length(&self, sizes: &BlockSizes, offset: u64, unaligned: bool, choices: &mut Choices) -> Option<u64> {
        let (least, most) = (sizes.least(), sizes.most());
        if least == most {
            return Some(least);
        }
        let fits = |length: u64| offset + length <= self.span.size;
        if !fits(least) {
            return None;
        }
        loop {
            let drawn = match sizes {
                BlockSizes::Split(parts) => split_size(parts, choices, fits),
                _ if unaligned => least + choices.below(most - least + 1),
                _ => least + choices.below(most),
            };
            let length = if unaligned { drawn } else { (drawn - drawn % least).min(most) };
            if fits(length) {
                return Some(length);
            }
        }
    }
}

/// The size whose share contains the draw. As in fio, sizes are sorted by share, smallest first.
fn split_size(parts: &[SplitPart], choices: &mut Choices, fits: impl Fn(u64) -> bool) -> u64 {
    let mut parts: Vec<SplitPart> = parts.iter().copied().filter(|part| part.percent > 0).collect();
    parts.sort_by_key(|part| part.percent);
    let drawn = choices.below(100);
    let mut sum = 0;
    for part in &parts {
        sum += u64::from(part.percent);
        if drawn < sum && fits(part.bytes) {
            return part.bytes;
        }
    }
    parts.last().expect("the shares add up to 100").bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::job::JobFile;

    const FILE: FileId = FileId(0);

    fn places(settings: &str, size: u64) -> Vec<FileRange> {
        let text = format!("[a]\nsize={size}\n{settings}\n");
        let options = JobFile::parse("t", &text).unwrap().jobs.remove(0).options;
        let mut choices = Choices::new(1);
        let mut places = Places::new(&options, FileSpan { file: FILE, offset: 0, size, whole: size }, &mut choices);
        std::iter::from_fn(|| places.next(&options, Direction::Write, &mut choices)).take(10_000).collect()
    }

    #[test]
    fn sequential_places_follow_one_another() {
        let offsets: Vec<u64> = places("rw=write\nbs=4k", 16384).iter().map(|place| place.offset).collect();
        assert_eq!(offsets, [0, 4096, 8192, 12288]);
    }

    #[test]
    fn the_random_map_visits_each_block_once() {
        let mut offsets: Vec<u64> = places("rw=randwrite\nbs=4k", 1 << 20).iter().map(|place| place.offset).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..256).map(|block| block * 4096).collect::<Vec<_>>());
    }

    #[test]
    fn the_random_map_holds_with_sizes_that_vary() {
        let places = places("rw=randwrite\nbssplit=4k/50:16k/50", 1 << 20);
        assert_eq!(places.iter().map(|place| place.length).sum::<u64>(), 1 << 20);
    }

    #[test]
    fn without_the_map_places_repeat_for_ever() {
        let places = places("rw=randwrite\nnorandommap", 65536);
        assert_eq!(places.len(), 10_000);
    }

    #[test]
    fn a_random_place_every_eight_accesses() {
        let places = places("rw=randwrite:8\nnorandommap", 64 << 20);
        let jumps = places.windows(2).filter(|two| two[1].offset != two[0].offset + 4096).count();
        assert!((1240..=1250).contains(&jumps), "{jumps}");
    }

    #[test]
    fn a_split_draws_sizes_by_their_shares() {
        let mut counts = BTreeMap::new();
        let places = places("rw=randwrite\nnorandommap\nbssplit=4k/60:8k/30:64k/10", 1 << 30);
        places.iter().for_each(|place| *counts.entry(place.length).or_insert(0) += 1);
        let counts: Vec<i32> = counts.into_values().collect();
        assert!((counts[0] - 6000).abs() < 200 && (counts[1] - 3000).abs() < 200, "{counts:?}");
    }

    #[test]
    fn skips_go_forward_and_backward() {
        let offsets = |settings| places(settings, 32768).iter().take(3).map(|place| place.offset).collect::<Vec<_>>();
        assert_eq!(offsets("rw=write:8k\nbs=4k"), [0, 12288, 24576]);
        assert_eq!(offsets("rw=write:-8k\nbs=4k"), [0, 24576, 20480]);
    }
}
