//! SHARE: several logical pages read from one flash page.
//!
//! ```text
//!   decoded ─► sources in the buffer hurry to flash ─► no target is being programmed ─► in the next batch of the map
//!   log, all pairs on one sealed page ─► page durable ─► done
//! ```
//!
//! The pairs take effect in memory when their page is made and are durable with it. Between the two no shared page is
//! moved: a copy names one owner in its out-of-band area, and recovery could find half a SHARE by it.

use onewrite_block::{DeviceError, Lpn, Operation, Remap};

use super::Ssd;
use super::log_page::Record;
use super::mapping::{LOST, NONE, is_mapped};

impl Ssd {
    /// The controller has understood a SHARE.
    pub(super) fn share(&mut self, slot: u32) {
        let pairs = self.pairs(slot);
        if let Some(error) = pairs.iter().find_map(|pair| self.refuse_source(pair.source)) {
            self.host.active(slot).error = Some(error);
            return self.finish(slot);
        }
        for pair in &pairs {
            let source = pair.source.0 as u32;
            let Some(index) = self.buffer.find(source) else { continue };
            let version = self.buffer.entry(index).version;
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

    fn pairs(&mut self, slot: u32) -> Vec<Remap> {
        match &self.host.active(slot).request.operation {
            Operation::Share(pairs) => pairs.clone(),
            other => unreachable!("a {} has no pairs", other.name()),
        }
    }

    fn refuse_source(&self, source: Lpn) -> Option<DeviceError> {
        let lpn = source.0 as u32;
        if let Some(index) = self.buffer.find(lpn) {
            let is_trimmed = self.buffer.entry(index).content.is_none();
            return is_trimmed.then_some(DeviceError::ShareSource { source_page: source });
        }
        match self.map.get(lpn) {
            NONE => Some(DeviceError::ShareSource { source_page: source }),
            LOST => Some(DeviceError::ReadFailed { page: source }),
            _ => None,
        }
    }

    /// Takes the waiting SHAREs whose targets are not being programmed; the others go on waiting.
    pub(super) fn take_ready_shares(&mut self) -> Vec<(u32, Vec<Remap>)> {
        let mut ready = Vec::new();
        for slot in std::mem::take(&mut self.log.shares) {
            let pairs = self.pairs(slot);
            if pairs.iter().any(|pair| self.locked.contains(pair.target.0 as u32)) {
                self.log.shares.push(slot);
            } else {
                ready.push((slot, pairs));
            }
        }
        ready
    }

    /// Lets the pairs of a SHARE take effect in memory and gives their records.
    ///
    /// # Errors
    /// If a source was trimmed since the SHARE was taken in; nothing has changed then.
    pub(super) fn apply_share(&mut self, pairs: &[Remap]) -> Result<Vec<Record>, DeviceError> {
        let entries: Vec<u32> = pairs.iter().map(|pair| self.map.get(pair.source.0 as u32)).collect();
        if let Some(index) = entries.iter().position(|&entry| !is_mapped(entry)) {
            return Err(DeviceError::ShareSource { source_page: pairs[index].source });
        }
        let records = pairs.iter().map(|pair| pair.target.0 as u32).zip(entries);
        Ok(records.inspect(|&(target, ppn)| self.point_target(target, ppn)).collect())
    }

    fn point_target(&mut self, target: u32, ppn: u32) {
        if let Some(index) = self.buffer.find(target) {
            self.buffer.drop_waiting(index);
            self.satisfy(target, u64::MAX);
        }
        if let Some(stale) = self.map.point(target, ppn) {
            self.went_stale(stale);
        }
    }
}
