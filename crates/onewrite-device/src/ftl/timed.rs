//! Host side of a translation layer: estimates the time that a trace takes.
//!
//! As many requests are under way as the queue holds; the next one enters when one ends. A command costs its latency
//! and an interval; each page costs its time on the link. A read ends when its pages are there. A write ends when two
//! things hold: its pages have crossed the link, and the earlier pages that wait for their program fit the profile's
//! buffer. The buffer hides only time: every page written is programmed, and no page is read from it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use onewrite_block::{Geometry, Nanos};

use super::clock::Clock;
use super::flash::PowerLost;
use super::layer::Ftl;
use crate::address::{Lpn, each};
use crate::ssd::model::Model;

/// See the module's head.
#[derive(Debug)]
pub struct TimedFtl {
    ftl: Box<dyn Ftl>,
    model: Model,
    /// End times of requests under way, ns.
    under_way: BinaryHeap<Reverse<u64>>,
    /// Times at which the pages in the buffer are programmed, ns.
    buffered: VecDeque<u64>,
    buffer_pages: usize,
    command_free: u64,
    link_free: u64,
    begin: u64,
    end: u64,
}

impl TimedFtl {
    /// `ftl` on flash and behind a host side of this model.
    pub(crate) fn new(mut ftl: Box<dyn Ftl>, model: Model) -> TimedFtl {
        ftl.flash_mut().set_clock(Clock::new(model.timing.clone(), &model.shape, model.read_turn()));
        TimedFtl {
            ftl,
            under_way: BinaryHeap::new(),
            buffered: VecDeque::new(),
            buffer_pages: model.eviction_certain.max(1) as usize,
            model,
            command_free: 0,
            link_free: 0,
            begin: 0,
            end: 0,
        }
    }

    /// An independent copy that starts at once.
    pub fn fork(&self) -> TimedFtl {
        TimedFtl {
            ftl: self.ftl.fork(),
            model: self.model.clone(),
            under_way: self.under_way.clone(),
            buffered: self.buffered.clone(),
            ..*self
        }
    }

    /// The translation layer.
    pub fn ftl(&self) -> &dyn Ftl {
        &*self.ftl
    }

    /// What the host sees of it.
    pub fn geometry(&self) -> &Geometry {
        &self.model.geometry
    }

    /// Waits until all work has ended; time and counters start there.
    pub fn begin(&mut self) {
        self.finish();
        self.begin = self.end;
        self.ftl.reset_counters();
    }

    /// Waits until all work has ended; returns the time since [`TimedFtl::begin`].
    pub fn finish(&mut self) -> Nanos {
        let last = self.under_way.drain().map(|Reverse(done)| done).max().unwrap_or(0);
        self.buffered.clear();
        let rest = self.clock().rest();
        self.end = self.end.max(last).max(rest);
        (self.command_free, self.link_free) = (self.end, self.end);
        Nanos(self.end - self.begin)
    }

    fn clock(&mut self) -> &mut Clock {
        self.ftl.flash_mut().clock_mut().expect("the clock is set")
    }

    /// Starts a request when the queue has room; returns the time at which the controller understands it.
    fn admit(&mut self) -> u64 {
        let mut time = self.command_free;
        if self.under_way.len() >= self.model.geometry.queue_depth.max(1) as usize {
            let Reverse(done) = self.under_way.pop().expect("a full queue");
            time = time.max(done);
        }
        self.command_free = time + self.model.timing.command_interval;
        self.clock().pass(time);
        time + self.model.timing.command
    }

    fn over_link(&mut self, from: u64) -> u64 {
        self.link_free = self.link_free.max(from) + self.model.timing.link_page;
        self.link_free
    }

    /// Reads pages.
    ///
    /// # Errors
    /// If the power fails.
    pub fn read(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost> {
        let begin = self.admit();
        self.clock().begin_read(begin);
        let mut done = begin;
        for lpn in each(pages) {
            self.ftl.read(lpn)?;
            let read = self.clock().end();
            done = self.over_link(read);
        }
        self.under_way.push(Reverse(done));
        Ok(())
    }

    /// Writes pages.
    ///
    /// # Errors
    /// If the power fails.
    pub fn write(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost> {
        let mut done = self.admit();
        for lpn in each(pages) {
            let arrived = self.over_link(done);
            self.clock().begin(arrived);
            self.ftl.write(lpn)?;
            let programmed = self.clock().end();
            self.buffered.push_back(programmed);
            done = done.max(arrived).max(self.room());
        }
        self.under_way.push(Reverse(done));
        Ok(())
    }

    /// The time at which the buffer had room for the last page.
    fn room(&mut self) -> u64 {
        if self.buffered.len() <= self.buffer_pages { 0 } else { self.buffered.pop_front().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;

    use crate::address::Lpn;
    use crate::{Layer, Profile};

    #[test]
    fn writes_without_reads_keep_no_operation_that_has_ended() {
        let profile = Profile::named("ssd-tlc-120g").expect("a built-in profile");
        let mut device = profile.layer(Layer::Dftl { cache_bytes: None }, Some(64 * MIB)).expect("a layer");
        let most = device.buffer_pages + device.model.geometry.queue_depth as usize;
        for page in 0..100_000 {
            device.write(Lpn(page % 16_384)..Lpn(page % 16_384 + 1)).expect("power");
        }
        let kept = device.clock().kept();
        assert!((1..=most).contains(&kept), "{kept} of at most {most}");
    }
}
