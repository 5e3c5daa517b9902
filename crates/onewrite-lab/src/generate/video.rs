//! Video streaming: clips are written in order as they arrive, around and around, with updates of metadata between.
//!
//! A clip of 1 to 12 MiB arrives in bursts of 16 to 64 KiB. Each burst begins in the last page of the one before, and
//! writes that page again. Every fourth burst also writes metadata: the file's inode and a bitmap, three pages of a
//! journal, and two pages of a database. The journal goes around in 4 MiB; the database has 8 MiB and skewed places.
//! When a clip reaches the end of the range, the next one begins at the start: 1,514 MB are written to 267 MB. The few
//! reads go to the database.

use onewrite_block::Choices;
use onewrite_cache::PageRequest;

use super::tally::{Tally, Targets, skewed};

/// Parts of the range as its fractions: inodes and bitmaps, the database, the journal. Clips take the rest.
const INODES: u64 = 128;
const DATABASE: u64 = 32;
const JOURNAL: u64 = 64;
/// Pages of a clip: the least, and the bound below which chance adds more.
const CLIP: (u64, u64) = (256, 2816);
/// Pages of a burst: the least, and the bound below which chance adds more.
const BURST: (u64, u64) = (4, 13);

pub(super) fn generate(targets: Targets, mut choices: Choices) -> Vec<PageRequest> {
    let mut tally = Tally::new(targets);
    let inodes = targets.range / INODES;
    let database = inodes..inodes + targets.range / DATABASE;
    let journal = database.end..database.end + targets.range / JOURNAL;
    let (mut place, mut logged) = (journal.end, 0);
    while !tally.is_complete() {
        let inode = choices.below(inodes);
        let mut left = CLIP.0 + choices.below(CLIP.1);
        for burst in 0.. {
            if left == 0 || tally.is_complete() {
                break;
            }
            let length = (BURST.0 + choices.below(BURST.1)).min(left);
            left -= length;
            for _ in 0..length {
                tally.write(place);
                place = if place + 1 == targets.range { journal.end } else { place + 1 };
            }
            tally.write(place);
            if burst % 4 == 3 {
                (0..3).for_each(|page| tally.write(journal.start + (logged + page) % (journal.end - journal.start)));
                logged += 3;
                tally.write(inode);
                tally.write(place * inodes / targets.range);
                for _ in 0..2 {
                    let page = database.start + skewed(&mut choices, database.end - database.start);
                    if tally.wants_reads() {
                        tally.read(page);
                    }
                    tally.write(page);
                }
            }
        }
    }
    tally.requests
}
