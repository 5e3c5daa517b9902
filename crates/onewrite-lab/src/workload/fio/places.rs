//! Places: where in a file the next access goes and how long it is, as fio 3.33 chooses them (its `io_u.c`).

use onewrite_block::Choices;

use crate::job::{BlockSizes, Direction, Distribution, Options, SplitPart};
use crate::workload::{BlockMap, FileId, Pareto, Zipf};

/// The part of a file that a job works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpan {
    /// The file.
    pub file: FileId,
    /// Bytes from the beginning that the job uses.
    pub size: u64,
    /// Bytes of the file.
    pub whole: u64,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

enum Chooser {
    Uniform,
    Zipf(Zipf),
    Pareto(Pareto),
}

/// Chooses the places of one job in one file.
pub struct Places {
    /// The file.
    pub span: FileSpan,
    /// Where the last access of each direction ended.
    ends: [u64; 3],
    map: Option<BlockMap>,
    map_unit: u64,
    chooser: Chooser,
    until_random: u64,
}

impl Places {
    /// Places of a job with `options` in `span`.
    pub fn new(options: &Options, span: FileSpan, choices: &mut Choices) -> Places {
        let unit = options.block_size_least();
        let blocks = span.size.div_ceil(unit);
        let chooser = match options.distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Zipf { theta, center } => Chooser::Zipf(Zipf::new(blocks, theta, center, choices)),
            Distribution::Pareto { h, center } => Chooser::Pareto(Pareto::new(blocks, h, center, choices)),
        };
        let mapped = options.random && options.random_map && matches!(chooser, Chooser::Uniform);
        let map = mapped.then(|| BlockMap::new(blocks));
        Places { span, ends: [0; 3], map, map_unit: unit, chooser, until_random: 1 }
    }

    /// Forgets what was visited, for another pass.
    pub fn reset(&mut self) {
        self.ends = [0; 3];
        if self.map.is_some() {
            self.map = Some(BlockMap::new(self.span.size.div_ceil(self.map_unit)));
        }
    }

    /// The next access; `None` when this pass has nothing left.
    pub fn next(&mut self, options: &Options, direction: Direction, choices: &mut Choices) -> Option<Place> {
        let (offset, is_visit) = self.offset(options, direction, choices)?;
        if offset >= self.span.size {
            return None;
        }
        let mut length = self.length(options.block_sizes.of(direction), offset, choices)?;
        if offset + length > self.span.whole {
            return None;
        }
        if let Some(map) = self.map.as_mut().filter(|_| is_visit) {
            let run = map.insert_run(offset / self.map_unit, length.div_ceil(self.map_unit));
            length = length.min(run * self.map_unit);
        }
        self.ends[direction as usize] = offset + length;
        Some(Place { offset, length })
    }

    /// The offset, and whether it counts as a visit of the map.
    fn offset(&mut self, options: &Options, direction: Direction, choices: &mut Choices) -> Option<(u64, bool)> {
        if !options.random {
            return Some((self.sequential(options, direction)?, false));
        }
        self.until_random -= 1;
        if self.until_random == 0 {
            self.until_random = options.random_every;
            return Some((self.random(options, direction, choices)?, true));
        }
        let offset = self.sequential(options, direction).or_else(|| self.random(options, direction, choices));
        Some((offset?, false))
    }

    fn random(&mut self, options: &Options, direction: Direction, choices: &mut Choices) -> Option<u64> {
        let align = options.block_sizes.of(direction).least();
        let block = match &self.chooser {
            Chooser::Zipf(zipf) => zipf.draw(choices),
            Chooser::Pareto(pareto) => pareto.draw(choices),
            Chooser::Uniform => {
                let blocks = self.span.size / align;
                if blocks == 0 {
                    return None;
                }
                return self.unvisited(choices.below(blocks) * align);
            }
        };
        Some(block * align)
    }

    /// The first unvisited place at or after `offset`.
    fn unvisited(&self, offset: u64) -> Option<u64> {
        match &self.map {
            None => Some(offset),
            Some(map) => map.next_free(offset / self.map_unit).map(|block| block * self.map_unit),
        }
    }

    fn sequential(&mut self, options: &Options, direction: Direction) -> Option<u64> {
        let end = &mut self.ends[direction as usize];
        if *end >= self.span.size && options.time_based {
            *end = 0;
        }
        if *end >= self.span.whole {
            return None;
        }
        match options.sequential_skip {
            0 => Some(*end),
            _ if *end == 0 => Some(0),
            skip => Some(wrapped(*end, skip, self.span)),
        }
    }

    fn length(&self, sizes: &BlockSizes, offset: u64, choices: &mut Choices) -> Option<u64> {
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
                _ => least + choices.below(most),
            };
            let length = (drawn - drawn % least).min(most);
            if fits(length) {
                return Some(length);
            }
        }
    }
}

/// `end + skip`, from the other end again where it leaves the file.
fn wrapped(end: u64, skip: i64, span: FileSpan) -> u64 {
    match end.checked_add_signed(skip) {
        Some(offset) if offset < span.whole => offset,
        _ if skip > 0 => 0,
        _ => span.size.min(span.whole).saturating_add_signed(skip),
    }
}

/// The part whose share the draw falls into; the rarest come first, as fio sorts them.
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

    fn places(settings: &str, size: u64) -> Vec<Place> {
        let text = format!("[a]\nsize={size}\n{settings}\n");
        let options = JobFile::parse("t", &text).unwrap().jobs.remove(0).options;
        let mut choices = Choices::new(1);
        let mut places = Places::new(&options, FileSpan { file: FILE, size, whole: size }, &mut choices);
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
