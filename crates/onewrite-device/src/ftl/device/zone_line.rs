//! Zone line: the write pointers of zones, and the writes that wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use onewrite_block::{DeviceError, Lpn, Zones};

use crate::ssd::host::RequestSlot;

/// Nanoseconds that a write waits for those before it.
const WAIT_MAX: u64 = 1_000_000_000;

/// What becomes of a write.
pub(super) enum Admission {
    /// It goes on; the pointer of its zone lies behind it now.
    Next,
    /// It comes before others of its zone.
    Early,
    /// It breaks a rule.
    Refused(DeviceError),
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct ZoneLine {
    zones: Zones,
    /// Pages written or on their way, of each zone.
    pointers: Vec<u64>,
    /// Zones that were written since power-up and are not full: a power cycle closes all.
    open: BTreeSet<u64>,
    /// Waiting writes, by first page.
    waiting: BTreeMap<Lpn, Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    slot: RequestSlot,
    /// When it is refused.
    until: u64,
}

impl ZoneLine {
    /// The line of zones that have these write pointers.
    pub(super) fn new(zones: Zones, pointers: Vec<u64>) -> ZoneLine {
        ZoneLine { zones, pointers, open: BTreeSet::new(), waiting: BTreeMap::new() }
    }

    /// Takes a write of `count` pages; conventional pages have no order.
    pub(super) fn admit(&mut self, start: Lpn, count: u64) -> Admission {
        let Some((zone, offset)) = self.zones.place(start) else { return Admission::Next };
        let pointer = self.pointers[zone as usize];
        if offset > pointer && !self.waiting.contains_key(&start) {
            onewrite_block::reached!("zone write waits for its turn");
            return Admission::Early;
        }
        if offset != pointer {
            let pointer = self.zones.start(zone).offset(pointer);
            onewrite_block::reached!("zone write away from its pointer");
            return Admission::Refused(DeviceError::ZonePointer { page: start, pointer });
        }
        if !self.open.contains(&zone) && self.open.len() >= self.zones.open_max as usize {
            onewrite_block::reached!("too many open zones");
            return Admission::Refused(DeviceError::ZonesOpen { page: start, open_max: self.zones.open_max });
        }
        self.advance(zone, count);
        Admission::Next
    }

    /// Moves the pointer of a zone over `count` pages.
    fn advance(&mut self, zone: u64, count: u64) {
        let pointer = &mut self.pointers[zone as usize];
        *pointer += count;
        onewrite_block::reached!("zone written to its end", *pointer == self.zones.zone_pages);
        match *pointer < self.zones.zone_pages {
            true => self.open.insert(zone),
            false => self.open.remove(&zone),
        };
    }

    /// Lets an early write wait from `now` on; returns the number of those that do.
    pub(super) fn wait(&mut self, start: Lpn, slot: RequestSlot, now: u64) -> usize {
        self.waiting.insert(start, Waiting { slot, until: now + WAIT_MAX });
        self.waiting.len()
    }

    /// When the first waiting write is refused.
    pub(super) fn next_refusal(&self) -> Option<u64> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    /// The write that waits for those before `start`.
    pub(super) fn waits_at(&mut self, start: Lpn) -> Option<RequestSlot> {
        self.waiting.remove(&start).map(|waiting| waiting.slot)
    }

    /// Gives up the writes that have waited too long, each with its refusal.
    pub(super) fn give_up_late(&mut self, now: u64) -> Vec<(RequestSlot, DeviceError)> {
        let late = |(start, waiting): (&Lpn, &Waiting)| (waiting.until <= now).then_some(*start);
        let late: Vec<Lpn> = self.waiting.iter().filter_map(late).collect();
        late.into_iter().flat_map(|start| self.give_up(start..start.offset(1))).collect()
    }

    /// Gives up the waiting writes into `pages`, each with its refusal.
    pub(super) fn give_up(&mut self, pages: Range<Lpn>) -> Vec<(RequestSlot, DeviceError)> {
        let refused = |(page, Waiting { slot, .. }): (Lpn, Waiting)| {
            let (zone, _) = self.zones.place(page).expect("it waits for its zone");
            let pointer = self.zones.start(zone).offset(self.pointers[zone as usize]);
            (slot, DeviceError::ZonePointer { page, pointer })
        };
        let starts: Vec<Lpn> = self.waiting.range(pages).map(|(start, _)| *start).collect();
        let waiting = starts.into_iter().filter_map(|start| self.waiting.remove_entry(&start));
        waiting.collect::<Vec<_>>().into_iter().map(refused).collect()
    }

    /// The zones of a TRIM are blank.
    pub(super) fn reset(&mut self, start: Lpn, count: u64) {
        for zone in self.zones.touched(start, count) {
            onewrite_block::reached!("open zone reset", self.open.contains(&zone));
            onewrite_block::reached!("zone reset");
            self.pointers[zone as usize] = 0;
            self.open.remove(&zone);
        }
    }

    /// Moves the pointer over a page that the buffer holds after a power cut; false if it is in flash.
    pub(super) fn pass(&mut self, page: Lpn) -> bool {
        let Some((zone, offset)) = self.zones.place(page) else { return true };
        let pointer = &mut self.pointers[zone as usize];
        let is_next = offset == *pointer;
        *pointer += u64::from(is_next);
        is_next
    }
}
