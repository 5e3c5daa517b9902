//! Zones: runs of pages that are written in order and erased as a whole.
//!
//! An open-channel SSD and a zoned device have no map below the host. Flash then says how pages may be written: each
//! zone is a run of flash blocks, its pages are programmed in ascending order, and it is erased before it is written
//! again. The pages before and behind the zones are *conventional*: a small map keeps them, so they take writes in any
//! order.
//!
//! ```text
//!   conventional │ zone 0 │ zone 1 │ … │ conventional
//!                  ▲ reset ─► write pointer moves up with each write ─► full ─► reset (a TRIM of the zone)
//! ```
//!
//! A reset is a TRIM of whole zones, durable when it completes. Zone append is not here: F2FS names the addresses of
//! blocks inside other blocks before it writes them (decision 089).

use std::ops::Range;

use crate::units::Lpn;

/// The zones of a device; see the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// First page of the first zone.
    pub first: Lpn,
    /// Number of zones.
    pub count: u64,
    /// Pages of a zone.
    pub zone_pages: u64,
    /// Most zones that are neither blank nor full at once.
    pub open_max: u32,
}

impl Zones {
    /// Number of the page behind the last zone.
    pub const fn end(&self) -> u64 {
        self.first.0 + self.count * self.zone_pages
    }

    /// The zone of a page, and the page's place in it; `None` for a conventional page.
    pub fn place(&self, page: Lpn) -> Option<(u64, u64)> {
        (self.first.0..self.end()).contains(&page.0).then(|| {
            let offset = page.0 - self.first.0;
            (offset / self.zone_pages, offset % self.zone_pages)
        })
    }

    /// First page of a zone.
    pub fn start(&self, zone: u64) -> Lpn {
        self.first.offset(zone * self.zone_pages)
    }

    /// Pages from `page` on that one write may reach: to the end of its zone, or of the conventional pages.
    pub fn room_behind(&self, page: Lpn) -> u64 {
        match self.place(page) {
            Some((_, offset)) => self.zone_pages - offset,
            None if page < self.first => self.first.0 - page.0,
            None => u64::MAX,
        }
    }

    /// The zones that a run of pages touches, by number; empty for conventional pages.
    pub fn touched(&self, start: Lpn, count: u64) -> Range<u64> {
        let within = |page: u64| page.clamp(self.first.0, self.end()) - self.first.0;
        let (first, end) = (within(start.0), within(start.0.saturating_add(count)));
        if first == end { 0..0 } else { first / self.zone_pages..end.div_ceil(self.zone_pages) }
    }

    /// Whether a run of pages has no zone in part.
    pub fn has_whole_zones(&self, start: Lpn, count: u64) -> bool {
        let is_edge = |page: u64| {
            page <= self.first.0 || page >= self.end() || (page - self.first.0).is_multiple_of(self.zone_pages)
        };
        is_edge(start.0) && is_edge(start.0.saturating_add(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: Zones = Zones { first: Lpn(100), count: 4, zone_pages: 20, open_max: 3 };

    #[test]
    fn a_page_is_conventional_or_has_its_place_in_a_zone() {
        assert_eq!(ZONES.end(), 180);
        let places = [99, 100, 119, 120, 179, 180].map(|page| ZONES.place(Lpn(page)));
        assert_eq!(places, [None, Some((0, 0)), Some((0, 19)), Some((1, 0)), Some((3, 19)), None]);
        assert_eq!(ZONES.start(3), Lpn(160));
    }

    #[test]
    fn one_write_reaches_to_the_end_of_its_zone() {
        assert_eq!([90, 100, 119].map(|page| ZONES.room_behind(Lpn(page))), [10, 20, 1]);
        assert_eq!(ZONES.room_behind(Lpn(180)), u64::MAX);
    }

    #[test]
    fn a_run_has_whole_zones_if_both_ends_are_edges() {
        assert!(ZONES.has_whole_zones(Lpn(0), 500) && ZONES.has_whole_zones(Lpn(120), 40));
        assert!(ZONES.has_whole_zones(Lpn(3), 7), "conventional pages only");
        assert!(!ZONES.has_whole_zones(Lpn(120), 41) && !ZONES.has_whole_zones(Lpn(119), 1));
        assert_eq!((ZONES.touched(Lpn(0), 500), ZONES.touched(Lpn(119), 2)), (0..4, 0..2));
        assert_eq!((ZONES.touched(Lpn(3), 7), ZONES.touched(Lpn(180), 7)), (0..0, 0..0));
    }
}
