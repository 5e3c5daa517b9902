//! Utilization: the part of a flash block that one run of writes covers (dissertation figure 2-5).
//!
//! The writes of an after-cache trace form *runs*: successive writes to one flash block at ascending pages. The
//! utilization of a run is its length divided by the pages of a block. Reads in between do not end a run.

use super::PageRequest;

/// A histogram of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utilization {
    block_pages: u64,
    last_page: Option<u64>,
    run_pages: u64,
    runs: [u64; Utilization::BINS],
    pages: [u64; Utilization::BINS],
}

impl Utilization {
    /// Bins of ten percent each: more than 0 to 10, more than 10 to 20, … percent.
    pub const BINS: usize = 10;

    /// For flash blocks of `block_pages` pages, at least one.
    pub fn new(block_pages: u32) -> Utilization {
        let none = [0; Utilization::BINS];
        Utilization { block_pages: u64::from(block_pages), last_page: None, run_pages: 0, runs: none, pages: none }
    }

    /// Takes the next request of the after-cache trace.
    pub fn push(&mut self, request: PageRequest) {
        if !request.is_write() {
            return;
        }
        let (page, block) = (request.page(), request.page() / self.block_pages);
        if !self.last_page.is_some_and(|last| last < page && last / self.block_pages == block) {
            self.end_run();
        }
        self.run_pages += 1;
        self.last_page = Some(page);
    }

    fn end_run(&mut self) {
        if self.run_pages > 0 {
            let bin = (self.run_pages * Utilization::BINS as u64).div_ceil(self.block_pages) as usize - 1;
            self.runs[bin] += 1;
            self.pages[bin] += self.run_pages;
        }
        self.run_pages = 0;
    }

    /// Ends the last run. Returns the runs of each bin, and the pages written in them.
    pub fn finish(mut self) -> ([u64; Utilization::BINS], [u64; Utilization::BINS]) {
        self.end_run();
        (self.runs, self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_its_block_or_where_pages_descend() {
        let mut histogram = Utilization::new(10);
        let writes = [0, 1, 5, /* descends */ 3, 4, /* next block */ 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
        for page in writes {
            histogram.push(PageRequest::write(page));
            histogram.push(PageRequest::read(99));
        }
        let (runs, pages) = histogram.finish();
        assert_eq!(runs, [0, 1, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(pages, [0, 2, 3, 0, 0, 0, 0, 0, 0, 10]);
    }

    #[test]
    fn small_blocks_fall_into_the_last_bins() {
        let mut histogram = Utilization::new(1);
        [4, 5].into_iter().for_each(|page| histogram.push(PageRequest::write(page)));
        assert_eq!(histogram.finish().0[9], 2);
    }
}
