//! Power: the effect of a cut, recovery, and the check of a device in service.
//!
//! A cut undoes the changes of the flash that have not happened. Chance decides whether the change under way is
//! missing, torn or whole. A capacitor saves the buffer. The layer recovers itself from out-of-band areas. Each of its
//! flash operations is a cut point, and the clock times it: rows sensed for their areas, copies, erases.

use onewrite_block::{Choices, DeviceError, Nanos, PAGE_SIZE, PowerCut, RecoveryReport};

use super::dump::Dump;
use super::zone_line::ZoneLine;
use super::{FtlDevice, Waits};
use crate::ftl::counters::{FlashCounters, FtlCounters};
use crate::ftl::flash::PowerLost;
use crate::ssd::buffer::{Buffer, Urgency};

impl FtlDevice {
    fn cut_power(&mut self, choices: &mut Choices) {
        (self.is_dark, self.is_cut) = (true, true);
        if self.model.has_capacitor && self.dump.is_none() {
            self.dump = Some(self.save());
        }
        let is_finished = self.model.has_capacitor && self.line.is_some();
        self.ftl.flash_mut().lose_power(choices, is_finished);
        self.reset_volatile();
    }

    fn save(&self) -> Dump {
        let mut entries: Vec<_> = self.buffer.entries().collect();
        entries.sort_by_key(|entry| entry.ticket);
        let pages = entries.iter().filter_map(|entry| Some((entry.lpn, entry.content.clone()?))).collect();
        let trims = self.given.iter().filter_map(|given| match given.waits {
            Waits::Trim { slot, .. } => Some(self.trimmed_by(slot)),
            Waits::Eviction(_) => None,
        });
        Dump { pages, trims: trims.collect() }
    }

    fn reset_volatile(&mut self) {
        let model = &self.model;
        self.buffer = Buffer::new(model.eviction_begins, model.eviction_certain, model.eviction_order());
        self.given.clear();
        self.waiting_for.clear();
        self.host.clear();
        self.line = None;
    }

    /// Lets the layer recover. The power may fail at any of its flash operations.
    fn rebuild(&mut self) -> Result<(), PowerLost> {
        self.ftl.flash_mut().drop_history();
        self.ftl.flash_mut().clock_mut().expect("a device has a clock").stop();
        self.work_from(self.now);
        let before = self.ftl.counters();
        let left = self.armed.map_or(u64::MAX, |point| point - self.cut_points) - 1;
        self.ftl.flash_mut().cut_after(left, self.cut_points);
        let trims = self.dump.iter().flat_map(|dump| &dump.trims);
        let recovered =
            self.ftl.recover().and_then(|()| trims.into_iter().try_for_each(|range| self.ftl.trim(range.clone())));
        self.ftl.flash_mut().cut_after(u64::MAX - 1, 0);
        self.count_recovery(before);
        if recovered.is_err() {
            self.cut_points = self.armed.expect("the power goes where it was ordered");
        }
        recovered
    }

    /// Adds the work of recovery to the counters, and its operations to the cut points.
    fn count_recovery(&mut self, before: FtlCounters) {
        let after = self.ftl.counters();
        let done = |of: fn(&FlashCounters) -> u64| of(&after.flash) - of(&before.flash);
        let (programs, erases) = (done(|flash| flash.programs), done(|flash| flash.erases));
        self.counters.flash_program_bytes += programs * PAGE_SIZE as u64;
        self.counters.map_program_bytes += (after.map_programs - before.map_programs) * PAGE_SIZE as u64;
        self.counters.erases += erases;
        self.counters.moved_pages += after.moved_pages - before.moved_pages;
        self.cut_points += programs + erases + done(|flash| flash.reads);
    }

    fn power_up(&mut self, now: Nanos) -> Result<RecoveryReport, DeviceError> {
        self.now = self.now.max(now.0);
        self.is_dark = false;
        self.armed = self.armed.filter(|point| *point > self.cut_points);
        let (areas, map_reads) = (self.ftl.flash().area_reads(), self.ftl.counters().map_reads);
        if self.rebuild().is_err() {
            self.is_dark = true;
            return Err(DeviceError::PowerLost);
        }
        let versions: Vec<u64> = self.versions().collect();
        self.newest = versions.iter().copied().max().unwrap_or(0);
        self.contents.recount(versions.into_iter());
        let end = self.ftl.flash_mut().clock_mut().expect("a device has a clock").rest().max(self.now);
        self.ftl.flash_mut().keep_history();
        self.host.processor_free = end;
        self.is_cut = false;
        let pointers = self.ftl.zone_pointers();
        self.line = self.model.geometry.zones.map(|zones| ZoneLine::new(zones, pointers));
        for (lpn, page) in self.dump.take().map(|dump| dump.pages).unwrap_or_default() {
            let urgency = if self.line.is_some() { Urgency::Urgent } else { Urgency::InTurn };
            // What was programmed when the power went need not be written again.
            let is_wanted = self.line.as_mut().is_none_or(|line| line.pass(lpn.wide()));
            if is_wanted {
                self.buffer.put(lpn, Some(page), urgency);
            }
        }
        Ok(RecoveryReport {
            duration: Nanos(end - self.now),
            map_pages_read: self.ftl.counters().map_reads - map_reads,
            oob_pages_read: self.ftl.flash().area_reads() - areas,
            pages_recovered: self.ftl.mapped_pages(),
        })
    }
}

impl PowerCut for FtlDevice {
    fn cut_points(&self) -> u64 {
        self.cut_points
    }

    fn arm(&mut self, point: u64) {
        self.armed = Some(point);
        self.is_dark |= self.cut_points >= point;
    }

    fn fork(&self) -> Box<dyn PowerCut> {
        Box::new(self.clone())
    }

    fn cut(&mut self, choices: &mut Choices) {
        self.cut_power(choices);
    }

    fn recover(&mut self, now: Nanos) -> Result<RecoveryReport, DeviceError> {
        if !self.is_cut {
            self.cut_power(&mut Choices::new(self.cut_points));
        }
        self.power_up(now)
    }

    fn check(&self) -> Result<(), String> {
        if self.is_cut {
            return Ok(());
        }
        self.ftl.check()?;
        self.buffer.check()?;
        if self.ftl.flash().next_moment().is_none() {
            self.contents.check(self.versions())?;
        }
        match self.given.len() > self.window() + self.model.geometry.queue_depth as usize {
            true => Err(format!("the layer was given {} pages, {} are allowed", self.given.len(), self.window())),
            false => Ok(()),
        }
    }
}
