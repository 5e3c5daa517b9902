//! Free segments: a bit for each segment, and their number.

use crate::f2fs::format::SegmentNo;

const WORD: usize = u64::BITS as usize;

/// See the module's head.
pub(super) struct FreeSegments {
    words: Vec<u64>,
    count: usize,
}

impl FreeSegments {
    /// None of `segments` segments is free.
    pub(super) fn new(segments: usize) -> FreeSegments {
        FreeSegments { words: vec![0; segments.div_ceil(WORD)], count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn contains(&self, segment: SegmentNo) -> bool {
        let index = segment.0 as usize;
        self.words[index / WORD] & 1 << (index % WORD) != 0
    }

    /// Makes a segment free; false if it was.
    pub(super) fn give(&mut self, segment: SegmentNo) -> bool {
        let was_free = self.contains(segment);
        self.words[segment.0 as usize / WORD] |= 1 << (segment.0 as usize % WORD);
        self.count += usize::from(!was_free);
        !was_free
    }

    /// Takes a segment; false if it was not free.
    pub(super) fn take(&mut self, segment: SegmentNo) -> bool {
        let was_free = self.contains(segment);
        self.words[segment.0 as usize / WORD] &= !(1 << (segment.0 as usize % WORD));
        self.count -= usize::from(was_free);
        was_free
    }

    /// The first free segment behind `from`, or else the first of all.
    pub(super) fn next(&self, from: SegmentNo) -> Option<SegmentNo> {
        let start = from.0 as usize + 1;
        self.first_from(start).or_else(|| self.first_from(0))
    }

    fn first_from(&self, start: usize) -> Option<SegmentNo> {
        let first = start / WORD;
        let masked = |word: usize| match word == first {
            true => self.words[word] & u64::MAX << (start % WORD),
            false => self.words[word],
        };
        let word = (first..self.words.len()).find(|word| masked(*word) != 0)?;
        Some(SegmentNo((word * WORD + masked(word).trailing_zeros() as usize) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_free_segment_lies_behind_or_is_the_first() {
        let mut free = FreeSegments::new(200);
        assert_eq!(free.next(SegmentNo(5)), None);
        assert!(free.give(SegmentNo(3)) && free.give(SegmentNo(130)) && !free.give(SegmentNo(3)));
        assert_eq!(free.next(SegmentNo(3)), Some(SegmentNo(130)));
        assert_eq!(free.next(SegmentNo(2)), Some(SegmentNo(3)));
        assert_eq!(free.next(SegmentNo(199)), Some(SegmentNo(3)));
        assert!(free.take(SegmentNo(3)) && !free.take(SegmentNo(3)));
        assert_eq!((free.next(SegmentNo(130)), free.count()), (Some(SegmentNo(130)), 1));
    }
}
