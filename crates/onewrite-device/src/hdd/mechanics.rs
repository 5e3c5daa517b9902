//! Mechanics: the positions of arm and platter, and the time until a page passes under the head.
//!
//! Pages lie along tracks, and tracks along a spiral from the outer edge inwards. The model has one head: a head switch
//! between the tracks of one cylinder takes about as long as a track-to-track seek. A seek takes `track_seek` plus a
//! part of `full_seek` that grows with the square root of the distance (Ruemmler and Wilkes, IEEE Computer 1994). The
//! platter never stops: the time gives the angle.

use std::ops::Range;

use onewrite_block::Lpn;

/// The moving parts of a disk, in nanoseconds and pages.
#[derive(Clone, Debug)]
pub(crate) struct Mechanics {
    /// One turn of the platter.
    pub(crate) turn: u64,
    /// A seek to the next track.
    pub(crate) track_seek: u64,
    /// A seek over all tracks.
    pub(crate) full_seek: u64,
    /// Pages on a track.
    pub(crate) track_pages: u64,
    /// Pages of the disk.
    pub(crate) pages: u64,
    /// Share of the full stroke that this disk covers: a small disk is the outer edge of a large one.
    pub(crate) stroke: f64,
}

impl Mechanics {
    /// Time for one page to pass under the head.
    pub(crate) fn page_time(&self) -> u64 {
        self.turn / self.track_pages
    }

    fn track(&self, page: Lpn) -> u64 {
        page.0 / self.track_pages
    }

    /// Time of a seek between the tracks of two pages.
    fn seek(&self, from: Lpn, to: Lpn) -> u64 {
        let distance = self.track(from).abs_diff(self.track(to));
        if distance == 0 {
            return 0;
        }
        let tracks = self.pages.div_ceil(self.track_pages).max(1);
        let share = self.stroke * (distance - 1) as f64 / tracks as f64;
        self.track_seek + ((self.full_seek - self.track_seek) as f64 * share.min(1.0).sqrt()) as u64
    }

    /// The moment when `page` comes under the head, which is at `head` now.
    pub(crate) fn arrival(&self, now: u64, head: Lpn, page: Lpn) -> u64 {
        let settled = now + self.seek(head, page);
        // The skew lets a track start where a track-to-track seek from the end of the previous track ends.
        let skew = self.track(page) * (self.track_seek + self.page_time());
        let wanted = ((page.0 % self.track_pages) * self.page_time() + skew) % self.turn;
        settled + (wanted + self.turn - settled % self.turn) % self.turn
    }

    /// Time for pages to pass under the head, with track changes.
    pub(crate) fn transfer(&self, pages: &Range<Lpn>) -> u64 {
        let changes = self.track(Lpn(pages.end.0 - 1)) - self.track(pages.start);
        (pages.end.0 - pages.start.0) * self.page_time() + changes * (self.track_seek + self.page_time())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Mechanics {
        Mechanics {
            turn: 8_333_333,
            track_seek: 1_000_000,
            full_seek: 18_000_000,
            track_pages: 400,
            pages: 1 << 20,
            stroke: 1.0,
        }
    }

    #[test]
    fn the_next_page_comes_at_once_and_the_last_one_after_a_turn() {
        let disk = disk();
        let first = disk.arrival(0, Lpn(0), Lpn(5));
        let end = first + disk.transfer(&(Lpn(5)..Lpn(6)));
        assert!(disk.arrival(end, Lpn(5), Lpn(6)) - end < disk.page_time());
        let again = disk.arrival(end, Lpn(5), Lpn(5)) - end;
        assert!(again > disk.turn * 9 / 10 && again < disk.turn, "{again}");
    }

    #[test]
    fn a_track_change_loses_no_turn() {
        let disk = disk();
        let end = disk.arrival(0, Lpn(0), Lpn(399)) + disk.transfer(&(Lpn(399)..Lpn(400)));
        let wait = disk.arrival(end, Lpn(399), Lpn(400)) - end;
        assert!(wait < disk.turn / 4, "{wait}");
    }
}
