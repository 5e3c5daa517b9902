//! Unpacked chunks: what recoveries of the same log unpacked before.
//!
//! A crash explorer recovers thousands of states that hold the same frames. A chunk is known by the log blocks that
//! hold it, compared in full, so what is remembered is what unpacking would give. Keeps about [`PAGES_MAX`] pages.

use std::cell::RefCell;

use onewrite_block::Page;
use onewrite_block::content_hash::mix;
use rustc_hash::FxHashMap;

use super::place::ChunkPlace;

/// Most pages kept, unpacked ones and those that hold them: 64 MiB; then all are forgotten.
const PAGES_MAX: usize = 16 * 1024;

/// See the module's head.
#[derive(Debug, Default)]
pub struct UnpackedChunks(RefCell<Known>);

#[derive(Debug, Default)]
struct Known {
    chunks: FxHashMap<u64, KnownChunk>,
    pages: usize,
}

#[derive(Debug)]
struct KnownChunk {
    place: ChunkPlace,
    stored: Vec<Page>,
    unpacked: Vec<Page>,
}

fn key(place: &ChunkPlace, stored: &[Page]) -> u64 {
    stored.iter().fold(place.key(), |sum, page| mix(sum, page.content_hash()))
}

impl UnpackedChunks {
    /// The blocks of the chunk at `place` that `stored` holds, if they are known.
    pub(super) fn get(&self, place: &ChunkPlace, stored: &[Page]) -> Option<Vec<Page>> {
        let known = self.0.borrow();
        let chunk = known.chunks.get(&key(place, stored))?;
        (chunk.place.is_packed_as(place) && chunk.stored == stored).then(|| chunk.unpacked.clone())
    }

    /// Remembers the blocks of a chunk.
    pub(super) fn insert(&self, place: ChunkPlace, stored: Vec<Page>, unpacked: Vec<Page>) {
        let mut known = self.0.borrow_mut();
        if known.pages > PAGES_MAX {
            *known = Known::default();
        }
        known.pages += stored.len() + unpacked.len();
        known.chunks.insert(key(&place, &stored), KnownChunk { place, stored, unpacked });
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::PAGE_SIZE;

    use super::super::format::frame::{Chunk, pack};
    use super::super::ring::LogBlock;
    use super::*;

    #[test]
    fn chunks_alike_in_the_same_log_block_are_told_apart() {
        let blocks = [1, 2].map(|byte| vec![Page::from_slice(&[byte; PAGE_SIZE])]);
        let [one, two] = [&blocks[0], &blocks[1]].map(|blocks| pack(blocks));
        assert_eq!((one.bytes.len(), one.is_raw), (two.bytes.len(), two.is_raw), "else the test shows nothing");
        let stored = vec![Page::from_slice(&[&one.bytes[..], &two.bytes].concat())];
        let place = |offset| {
            let chunk = Chunk { offset, stored: one.bytes.len(), is_raw: one.is_raw, blocks: 1 };
            ChunkPlace::new(LogBlock(7), &chunk, 0)
        };
        let (first, second) = (place(0), place(one.bytes.len()));
        let known = UnpackedChunks::default();
        known.insert(first, stored.clone(), blocks[0].clone());
        assert_eq!(known.get(&first, &stored), Some(blocks[0].clone()));
        assert_eq!(known.get(&second, &stored), None, "another chunk of the same log block");
        assert_eq!(second.unpack(&stored), Some(blocks[1].clone()));
        let mut changed = stored.clone();
        changed[0].write(4095, &[1]);
        assert_eq!(known.get(&first, &changed), None, "the log block holds something else");
    }
}
