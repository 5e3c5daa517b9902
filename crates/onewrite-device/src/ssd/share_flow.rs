//! SHARE: several logical pages read from one flash page.
//!
//! ```text
//!   decoded ─► sources in the buffer hurry to flash ─► no target is being programmed ─► in the next batch of the map
//!   log, all pairs on one sealed page ─► page durable ─► done
//! ```
//!
//! The pairs take effect in memory when their page is made, and are durable with it. Between these moments no shared
//! page is moved, and no page whose last owner is a target: the out-of-band area of a copy names one owner, and from it
//! recovery could restore half a SHARE.

use onewrite_block::{DeviceError, Operation, Remap};

use super::Ssd;
use super::host::RequestSlot;
use super::mapping::{NOTHING, Record};
use crate::address::{Lpn, MapEntry};

impl Ssd {
    /// The controller has understood a SHARE.
    pub(super) fn share(&mut self, slot: RequestSlot) {
        let pairs = self.pairs(slot);
        if let Some(error) = pairs.iter().find_map(|pair| self.refuse_source(Lpn::of(pair.source))) {
            self.host.active(slot).error = Some(error);
            return self.finish(slot);
        }
        for pair in &pairs {
            let source = Lpn::of(pair.source);
            let Some(id) = self.buffer.find(source) else { continue };
            let version = self.buffer.entry(id).version;
            onewrite_block::reached!("SHARE of a page in the write buffer");
            self.buffer.hurry(source);
            self.waiting_for.entry(source).or_default().push((slot, version));
            self.host.active(slot).pending += 1;
        }
        if self.host.active(slot).pending == 0 {
            self.log.shares.push(slot);
            self.log.is_wanted = true;
            self.write_log();
        }
        self.start_dies();
    }

    fn pairs(&mut self, slot: RequestSlot) -> Vec<Remap> {
        match &self.host.active(slot).request.operation {
            Operation::Share(pairs) => pairs.clone(),
            other => unreachable!("a {} has no pairs", other.name()),
        }
    }

    fn refuse_source(&self, source: Lpn) -> Option<DeviceError> {
        let holds_nothing = DeviceError::ShareSource { source_page: source.wide() };
        if let Some(id) = self.buffer.find(source) {
            let is_trimmed = self.buffer.entry(id).content.is_none();
            return is_trimmed.then_some(holds_nothing);
        }
        let entry = self.map.get(source);
        match entry.page() {
            Some(_) => None,
            None if entry == NOTHING => Some(holds_nothing),
            None => Some(Ssd::unreadable(source)),
        }
    }

    /// Takes the waiting SHAREs without a target under program; the others wait on.
    pub(super) fn take_ready_shares(&mut self) -> Vec<(RequestSlot, Vec<Remap>)> {
        let mut ready = Vec::new();
        for slot in std::mem::take(&mut self.log.shares) {
            let pairs = self.pairs(slot);
            if pairs.iter().any(|pair| self.locked.contains(Lpn::of(pair.target).index())) {
                onewrite_block::reached!("SHARE waits until its target is programmed");
                self.log.shares.push(slot);
            } else {
                ready.push((slot, pairs));
            }
        }
        ready
    }

    /// Applies the pairs of a SHARE in memory and returns their records.
    ///
    /// # Errors
    /// If a source was trimmed after the SHARE came in. Nothing has changed then.
    pub(super) fn apply_share(&mut self, pairs: &[Remap]) -> Result<Vec<Record>, DeviceError> {
        let record = |pair: &Remap| Record { lpn: Lpn::of(pair.target), entry: self.map.get(Lpn::of(pair.source)) };
        let records: Vec<Record> = pairs.iter().map(record).collect();
        if let Some(index) = records.iter().position(|record| record.entry.page().is_none()) {
            onewrite_block::reached!("source of a SHARE trimmed meanwhile");
            return Err(DeviceError::ShareSource { source_page: pairs[index].source });
        }
        records.iter().for_each(|record| self.point_target(record.lpn, record.entry));
        Ok(records)
    }

    fn point_target(&mut self, target: Lpn, entry: MapEntry) {
        if let Some(id) = self.buffer.find(target) {
            onewrite_block::reached!("SHARE over a page in the write buffer");
            self.buffer.drop_waiting(id);
            self.satisfy(target, u64::MAX);
        }
        if let Some(stale) = self.map.point(target, entry) {
            self.went_stale(stale);
        }
    }
}
