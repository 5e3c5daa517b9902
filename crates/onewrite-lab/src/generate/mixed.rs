//! Mixed applications: small databases, a browser's cache, photographs, and programs that are started.
//!
//! While reads lag behind, a turn only reads: a program starts (one turn in two; 32 to 255 pages in order, from a part
//! that is never written), an application shows a photograph, or it queries its database.
//! Else a turn writes:
//! - two times in three, a transaction in a database, as SQLite makes it with a rollback journal. It reads a few pages;
//!   writes the journal's header and the old pages in order; writes the new pages to their places; and writes the
//!   header again;
//! - else the browser loads a page: it writes files of 1 to 16 pages at random places of its cache, and reads others;
//! - one time in 500, a photograph of 1 to 3 MiB, written in order.
//!
//! Applications, pages of databases and programs are skewed: a few are used much. The dissertation names the
//! applications (Facebook, Maps, Camera, Browser, YouTube, Gallery) and says that most accesses are random.

use onewrite_block::Choices;
use onewrite_cache::PageRequest;

use super::tally::{Tally, Targets, skewed};

/// Applications, each with a database.
const APPLICATIONS: u64 = 24;
/// Pages of a rollback journal at most.
const JOURNAL_PAGES: u64 = 12;
/// Pages of programs for each page of the range.
const PROGRAMS: u64 = 2;

struct Phone {
    tally: Tally,
    choices: Choices,
    range: u64,
    /// First page of the browser's cache, and of the photographs.
    cache: u64,
    photographs: u64,
    next_photograph: u64,
}

pub(super) fn generate(targets: Targets, choices: Choices) -> Vec<PageRequest> {
    let range = targets.range;
    let (cache, photographs) = (range / 2, range * 4 / 5);
    let mut phone =
        Phone { tally: Tally::new(targets), choices, range, cache, photographs, next_photograph: photographs };
    while !phone.tally.is_complete() {
        phone.turn();
    }
    phone.tally.requests
}

impl Phone {
    fn turn(&mut self) {
        let is_reading = self.tally.wants_reads();
        match (is_reading, self.choices.below(1000)) {
            (true, 0..500) => self.start_program(),
            (true, 500..800) => self.look_at_photograph(),
            (true, _) => self.query(),
            (false, 0..640) => self.transaction(),
            (false, 640..998) => self.browse(),
            (false, _) => self.take_photograph(),
        }
    }

    /// First page and length of an application's part of the first half: its database, then its journal.
    fn database(&mut self) -> (u64, u64) {
        let each = self.cache / APPLICATIONS;
        (skewed(&mut self.choices, APPLICATIONS) * each, each)
    }

    fn transaction(&mut self) {
        let (start, pages) = self.database();
        let places = pages - JOURNAL_PAGES.min(pages / 4);
        let count = 1 + skewed(&mut self.choices, (pages - places).saturating_sub(2).max(1));
        let mut changed: Vec<u64> = (0..count).map(|_| start + skewed(&mut self.choices, places)).collect();
        changed.sort_unstable();
        changed.dedup();
        changed.iter().for_each(|page| self.tally.read(*page));
        let journal = start + places;
        (0..=changed.len() as u64).for_each(|page| self.tally.write(journal + page));
        changed.iter().for_each(|page| self.tally.write(*page));
        self.tally.write(journal);
    }

    fn query(&mut self) {
        let (start, pages) = self.database();
        for _ in 0..4 + self.choices.below(12) {
            let page = start + skewed(&mut self.choices, pages);
            self.tally.read(page);
        }
    }

    /// Writes and reads files of the browser's cache.
    fn browse(&mut self) {
        for is_write in [true, true, false] {
            let length = 1 + skewed(&mut self.choices, 16);
            let first = self.cache + self.choices.below(self.photographs - self.cache - length);
            for page in first..first + length {
                if is_write { self.tally.write(page) } else { self.tally.read(page) }
            }
        }
    }

    fn take_photograph(&mut self) {
        for _ in 0..256 + self.choices.below(512) {
            self.tally.write(self.next_photograph);
            self.next_photograph =
                if self.next_photograph + 1 == self.range { self.photographs } else { self.next_photograph + 1 };
        }
    }

    fn look_at_photograph(&mut self) {
        let length = (64 + self.choices.below(192)).min(self.range - self.photographs - 1);
        let first = self.photographs + self.choices.below(self.range - self.photographs - length);
        (first..first + length).for_each(|page| self.tally.read(page));
    }

    fn start_program(&mut self) {
        let length = 32 + self.choices.below(224);
        let first = self.range + skewed(&mut self.choices, PROGRAMS * self.range / 256) * 256;
        (first..first + length).for_each(|page| self.tally.read(page));
    }
}
