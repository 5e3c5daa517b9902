//! Zones of a device without translation: writes in order, open zones counted.
//!
//! A write that begins behind the write pointer of its zone waits for the writes before it; the host's driver does that,
//! so a file system may submit the writes of one zone from several tasks. One that begins before the pointer is refused.
//! If all places of the queue hold waiting writes, none can come any more, and they are refused, too.

use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::{DeviceError, Operation, Zones};

use super::FtlDevice;
use crate::ssd::host::RequestSlot;

/// Write pointers of the zones, and the writes that wait for them.
#[derive(Clone, Debug)]
pub(super) struct ZoneLine {
    zones: Zones,
    /// Pages written or on their way, of each zone.
    pointers: Vec<u64>,
    /// Zones that were written since power-up and are not full: a power cycle closes all.
    open: BTreeSet<u64>,
    /// Waiting writes, by first page.
    waiting: BTreeMap<u64, RequestSlot>,
}

impl ZoneLine {
    /// The line of zones that have these write pointers.
    pub(super) fn new(zones: Zones, pointers: Vec<u64>) -> ZoneLine {
        ZoneLine { zones, pointers, open: BTreeSet::new(), waiting: BTreeMap::new() }
    }

    /// Whether a zone is open or may be opened.
    fn may_open(&self, zone: u64) -> bool {
        self.open.contains(&zone) || self.open.len() < self.zones.open_max as usize
    }

    /// Moves the pointer of a zone over `count` pages.
    fn advance(&mut self, zone: u64, count: u64) {
        let pointer = &mut self.pointers[zone as usize];
        *pointer += count;
        match *pointer < self.zones.zone_pages {
            true => self.open.insert(zone),
            false => self.open.remove(&zone),
        };
    }

    /// Moves the pointer over a page that the buffer holds after a power cut; false if it is in flash.
    pub(super) fn pass(&mut self, page: onewrite_block::Lpn) -> bool {
        let Some((zone, offset)) = self.zones.place(page) else { return true };
        let pointer = &mut self.pointers[zone as usize];
        let is_next = offset == *pointer;
        *pointer += u64::from(is_next);
        is_next
    }
}

impl FtlDevice {
    /// Takes a write in when its zone is there; one to conventional pages at once.
    pub(super) fn receive_in_order(&mut self, slot: RequestSlot) {
        let Operation::Write { start, ref pages, .. } = self.host.request(slot).operation else {
            unreachable!("only writes are received")
        };
        let count = pages.len() as u64;
        let place = self.line.as_ref().and_then(|line| line.zones.place(start));
        let Some((zone, offset)) = place else { return self.receive(slot, count) };
        let line = self.line.as_mut().expect("a page in a zone");
        let (pointer, open_max) = (line.pointers[zone as usize], line.zones.open_max);
        if offset > pointer {
            line.waiting.insert(start.0, slot);
            return self.refuse_hopeless();
        }
        if offset < pointer {
            let pointer = line.zones.start(zone).offset(pointer);
            return self.refuse(slot, DeviceError::ZonePointer { page: start, pointer });
        }
        if !line.may_open(zone) {
            return self.refuse(slot, DeviceError::ZonesOpen { page: start, open_max });
        }
        line.advance(zone, count);
        let next = line.waiting.remove(&(start.0 + count));
        self.receive(slot, count);
        if let Some(next) = next {
            self.receive_in_order(next);
        }
    }

    /// A TRIM resets its zones.
    pub(super) fn reset_zones(&mut self, start: onewrite_block::Lpn, count: u64) {
        if let Some(line) = &mut self.line {
            for zone in line.zones.touched(start, count) {
                line.pointers[zone as usize] = 0;
                line.open.remove(&zone);
            }
        }
    }

    /// Refuses all waiting writes if nothing else can come.
    fn refuse_hopeless(&mut self) {
        let depth = self.model.geometry.queue_depth as usize;
        let Some(line) = self.line.as_mut().filter(|line| line.waiting.len() >= depth) else { return };
        let zones = line.zones;
        for (start, slot) in std::mem::take(&mut line.waiting) {
            let page = onewrite_block::Lpn(start);
            let (zone, _) = zones.place(page).expect("it waits for its zone");
            let pointer = self.line.as_ref().expect("there is a line").pointers[zone as usize];
            self.refuse(slot, DeviceError::ZonePointer { page, pointer: zones.start(zone).offset(pointer) });
        }
    }

    fn refuse(&mut self, slot: RequestSlot, error: DeviceError) {
        self.host.active(slot).error = Some(error);
        self.finish(slot);
    }
}
