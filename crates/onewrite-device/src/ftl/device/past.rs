//! Past: gives a device a past in no time and without content, by its layer alone.

use onewrite_block::Counters;

use super::FtlDevice;
use crate::address::{Lpn, each};
use crate::age::{Age, Spans, until_steady};
use crate::ftl::flash::PowerLost;

impl FtlDevice {
    /// The device with this past; it must be new.
    pub fn aged(mut self, age: Age) -> FtlDevice {
        self.grow_old(age);
        self
    }

    /// Gives a new device a past. Its time and its counters start after it.
    ///
    /// # Panics
    /// If the device was in use.
    fn grow_old(&mut self, age: Age) {
        assert!(self.now == 0 && self.host.under_way() == 0, "only a new device is given a past");
        let clock = self.ftl.flash_mut().take_clock();
        self.ftl.flash_mut().drop_history();
        self.live(age).expect("no cut is ordered");
        if let Some(clock) = clock {
            self.ftl.flash_mut().set_clock(clock);
        }
        self.ftl.flash_mut().keep_history();
        self.newest = self.versions().max().unwrap_or(0);
        self.ftl.reset_counters();
        self.counters = Counters::default();
    }

    fn live(&mut self, age: Age) -> Result<(), PowerLost> {
        let pages = self.ftl.logical_pages();
        if age == Age::New {
            return Ok(());
        }
        each(Lpn(0).run(pages)).try_for_each(|lpn| self.ftl.write(lpn).map(drop))?;
        if age == Age::Steady {
            let mut outcome = Ok(());
            until_steady(u64::from(pages), self.spans(), |random| {
                let before = self.ftl.counters().flash.programs;
                outcome = outcome.and_then(|()| random.iter().try_for_each(|lpn| self.ftl.write(*lpn).map(drop)));
                self.ftl.counters().flash.programs - before
            });
            return outcome;
        }
        Ok(())
    }

    fn spans(&self) -> Spans {
        let pages = u64::from(self.ftl.logical_pages());
        match self.ftl.log_pages() {
            None => Spans::of_pages(pages),
            Some(log_pages) => Spans::of_blocks(pages, u64::from(log_pages)),
        }
    }
}
