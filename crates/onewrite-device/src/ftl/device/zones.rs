//! Zones of a device without translation: writes in order, open zones counted.
//!
//! A write that begins behind the write pointer of its zone waits for the writes before it; the host's driver does
//! that, so a file system may submit the writes of one zone from several tasks. One that begins before the pointer is
//! refused, and so is one whose place another write took while it waited. If all places of the queue hold waiting
//! writes, none can come any more, and they are refused, too. So is a write that has waited for a second: nobody writes
//! what it waits for.

use onewrite_block::{DeviceError, Lpn, Operation};

use super::FtlDevice;
use super::zone_line::Admission;
use crate::ssd::host::RequestSlot;

impl FtlDevice {
    /// Takes a write in when its zone is there; at once if the device has none, or its pages are conventional.
    pub(super) fn receive_in_order(&mut self, slot: RequestSlot) {
        let Operation::Write { start, ref pages, .. } = self.host.request(slot).operation else {
            unreachable!("only writes are received")
        };
        let count = pages.len() as u64;
        let bad = self.ftl.worn_out().filter(|_| self.model.geometry.zones.is_some_and(|it| it.place(start).is_some()));
        if let Some(bad) = bad {
            return self.refuse_for_wear(slot, bad);
        }
        let Some(line) = &mut self.line else { return self.receive(slot, count) };
        match line.admit(start, count) {
            Admission::Refused(error) => self.refuse(slot, error),
            Admission::Early if line.wait(start, slot, self.now) >= self.model.geometry.queue_depth as usize => {
                let hopeless = line.give_up(Lpn(0)..Lpn(u64::MAX));
                hopeless.into_iter().for_each(|(slot, error)| self.refuse(slot, error));
            }
            Admission::Early => (),
            Admission::Next => {
                let (next, late) = (line.waits_at(start.offset(count)), line.give_up(start..start.offset(count)));
                self.receive(slot, count);
                late.into_iter().for_each(|(slot, error)| self.refuse(slot, error));
                if let Some(next) = next {
                    self.receive_in_order(next);
                }
            }
        }
    }

    /// Refuses a write, and those that wait for it: bad blocks have used up the spare ones.
    fn refuse_for_wear(&mut self, slot: RequestSlot, bad: u32) {
        let (device, detail) = (self.model.geometry.name.clone(), format!("{bad} blocks are bad"));
        let error = DeviceError::WornOut { device, detail };
        let line = self.line.as_mut().expect("it has zones");
        let waiting = line.give_up(Lpn(0)..Lpn(u64::MAX)).into_iter().map(|(slot, _)| slot);
        for slot in waiting.chain([slot]).collect::<Vec<_>>() {
            onewrite_block::reached!("zone write refused for wear");
            self.refuse(slot, error.clone());
        }
    }

    /// Refuses the writes that have waited too long for their turn.
    pub(super) fn refuse_late(&mut self) {
        let late = self.line.as_mut().map(|line| line.give_up_late(self.now)).unwrap_or_default();
        for (slot, error) in late {
            onewrite_block::reached!("zone write waits in vain");
            self.refuse(slot, error);
        }
    }

    fn refuse(&mut self, slot: RequestSlot, error: DeviceError) {
        self.host.active(slot).error = Some(error);
        self.finish(slot);
    }
}
