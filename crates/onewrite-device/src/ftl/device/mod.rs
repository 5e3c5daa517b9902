//! FTL device: a translation layer of this folder as a device with content, time and a power switch.
//!
//! ```text
//!   request ──link──► write buffer ──due──► Ftl ──orders──► changes of the flash ──happen──► page leaves the buffer
//!                       ▲ reads                └──► Clock: when                  └─ the power may go at any of them
//! ```
//!
//! Its one idea: the layer decides at once and its flash takes time. The layer gets a page when the page leaves the
//! buffer, never at submission. The clock then gives the end of each of its flash operations, including merges and map
//! traffic. The flash's history (`flash/history`) lets the changes happen one by one at these moments. Each is an event
//! and a cut point. A power cut undoes the changes that have not happened, and the layer recovers from the flash as it
//! then is.
//!
//! The event-driven SSD gives the rest: host side (`ssd/host`), write buffer (`ssd/buffer`), promises. A page reads the
//! content of the version that the layer names ([`content`]).
//!
//! Invariants:
//! 1. A page given to the layer leaves the buffer only when all changes ordered for it have happened.
//! 2. A FLUSH, a FUA write and a TRIM end only then. So the device may promise everything that is durable in the layer.
//! 3. The layer has at most [`FtlDevice::window`] pages that are not in flash yet. So a read waits only for these pages
//!    and the merges that they cause.
//!
//! With zones ([`Open`](super::Open)) pages leave the buffer at once and in order; without a capacitor a write ends
//! when its pages are in flash.
//!
//! SHARE is refused: FAST and BAST have one place for a page, and no layer keeps several owners of a page.

mod content;
mod cut;
mod dump;
mod flow;
mod past;
mod zone_line;
mod zones;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use onewrite_block::{
    Completion, Counters, Device, Geometry, Nanos, NextEvent, Operation, PAGE_SIZE, PowerCut, Request, Token,
};
use rustc_hash::FxHashMap;

use super::clock::Clock;
use super::flash::{Area, Change, Erased, PowerLost};
use super::layer::Ftl;
use super::rules::FtlRules;
use crate::address::{FlashBlock, Lpn, each};
use crate::ssd::buffer::{Buffer, EntryId};
use crate::ssd::host::{Host, RequestSlot, RequestStage};
use crate::ssd::model::Model;
use crate::ssd::{MediumFaults, UnderWay};
use content::Contents;
use dump::Dump;
use zone_line::ZoneLine;

/// A waiter for changes of the flash.
#[derive(Clone, Copy, Debug)]
enum Waits {
    /// An entry of the buffer.
    Eviction(EntryId),
    /// A TRIM, and the newest ticket of pages that it may have dropped from the buffer.
    Trim { slot: RequestSlot, newest: u64 },
}

/// A page or a TRIM given to the layer.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// It is in flash after this many changes have happened.
    changes: u64,
    waits: Waits,
}

/// See the module's head and [`Profile::device`](crate::Profile::device).
#[derive(Clone, Debug)]
pub struct FtlDevice {
    model: Rc<Model>,
    ftl: Box<dyn Ftl>,
    contents: Contents,
    dump: Option<Dump>,

    buffer: Buffer,
    given: VecDeque<Given>,
    /// FUA writes that wait until this or a newer version of a logical page is in flash.
    waiting_for: FxHashMap<Lpn, Vec<(RequestSlot, u64)>>,
    host: Host,
    /// Write pointers of the zones, if it has zones.
    line: Option<ZoneLine>,
    /// Newest version with a completed program. A later program of an older version is a copy.
    newest: u64,

    now: u64,
    counters: Counters,
    cut_points: u64,
    armed: Option<u64>,
    is_dark: bool,
    is_cut: bool,
}

impl FtlDevice {
    /// A blank device of `ftl` on flash and behind a host side of this model.
    pub(crate) fn new(mut ftl: Box<dyn Ftl>, model: Model) -> FtlDevice {
        ftl.flash_mut().set_clock(Clock::new(model.timing.clone(), &model.shape, model.read_turn()));
        ftl.flash_mut().keep_history();
        FtlDevice {
            line: model.geometry.zones.map(|zones| ZoneLine::new(zones, ftl.zone_pointers())),
            ftl,
            contents: Contents::default(),
            dump: None,
            buffer: Buffer::new(model.eviction_begins, model.eviction_certain, model.eviction_order()),
            given: VecDeque::new(),
            waiting_for: FxHashMap::default(),
            host: Host::new(model.queuing),
            newest: 0,
            now: 0,
            counters: Counters::default(),
            cut_points: 0,
            armed: None,
            is_dark: false,
            is_cut: false,
            model: Rc::new(model),
        }
    }

    /// The same device with other rules; for tests that show the effect of a broken rule.
    pub fn with_rules(mut self, rules: Arc<dyn FtlRules>) -> FtlDevice {
        self.ftl.set_rules(rules);
        self
    }

    /// Makes programs and erases of zones fail from now on. False if this layer's flash has none: it does not fail.
    pub fn set_faults(&mut self, faults: MediumFaults) -> bool {
        self.ftl.set_faults(faults)
    }

    /// Blocks that failed and are never used again.
    pub fn bad_blocks(&self) -> usize {
        let flash = self.ftl.flash();
        each(FlashBlock(0)..FlashBlock(flash.blocks())).filter(|block| flash.is_bad(*block)).count()
    }

    /// Number of versions with kept content: at most one for each flash page.
    pub fn kept_contents(&self) -> usize {
        self.contents.len()
    }

    /// The flash operation under way, for statistics of cuts.
    pub fn under_way(&self) -> UnderWay {
        let mut under_way = UnderWay::default();
        match self.ftl.flash().under_way() {
            None => (),
            Some(Change::Erase(_) | Change::Retire(_)) => under_way.erase = true,
            Some(Change::Program(programmed)) => match self.version(programmed.area, programmed.version) {
                None => under_way.map_log = true,
                Some(version) if version <= self.newest => under_way.collection = true,
                Some(_) => under_way.eviction = true,
            },
        }
        under_way
    }

    /// The version of a page of the host; `None` for any other page.
    fn version(&self, area: Area, stamp: u64) -> Option<u64> {
        matches!(area, Area::Logged(_) | Area::InPlace(_)).then(|| self.ftl.version_of(stamp))
    }

    /// The versions of all flash pages.
    fn versions(&self) -> impl Iterator<Item = u64> + '_ {
        let flash = self.ftl.flash();
        flash.pages().filter_map(move |page| self.version(flash.area(page), flash.version(page)))
    }

    /// Most pages that the layer has before the first is in flash: two programs for each die.
    fn window(&self) -> usize {
        2 * (self.model.shape.dies * self.model.shape.planes) as usize
    }

    /// Lets the layer work from now on, or from `time` on if that is later.
    fn work_from(&mut self, time: u64) -> u64 {
        let (now, begin) = (self.now, self.now.max(time));
        let clock = self.ftl.flash_mut().clock_mut().expect("a device has a clock");
        clock.pass(now);
        clock.begin(begin);
        self.ftl.flash().ordered()
    }

    /// The same for a read of the host.
    fn read_from_now(&mut self) -> u64 {
        let now = self.now;
        self.ftl.flash_mut().clock_mut().expect("a device has a clock").begin_read(now);
        self.ftl.flash().ordered()
    }

    /// Counts the programs ordered after the first `ordered` changes as copies of their versions.
    fn gain_since(&mut self, ordered: u64) {
        let (ftl, contents) = (&self.ftl, &mut self.contents);
        for change in ftl.flash().ordered_since(ordered) {
            let Change::Program(programmed) = change else { continue };
            if matches!(programmed.area, Area::Logged(_) | Area::InPlace(_)) {
                contents.gain(ftl.version_of(programmed.version));
            }
        }
    }

    /// The time at which the present work of the layer ends.
    fn work_ends(&mut self) -> u64 {
        self.ftl.flash_mut().clock_mut().expect("a device has a clock").end()
    }

    /// Passes a cut point; true if the power fails there.
    fn passes_cut_point(&mut self) -> bool {
        self.cut_points += 1;
        self.is_dark |= self.armed == Some(self.cut_points);
        self.is_dark
    }

    fn next_moment(&self) -> Option<u64> {
        let (flash, host) = (self.ftl.flash().next_moment(), self.host.next_moment());
        let refusal = self.line.as_ref().and_then(ZoneLine::next_refusal);
        let moment = [flash, host, refusal].into_iter().flatten().min();
        moment.filter(|_| !self.is_dark)
    }

    fn host_stage(&mut self, completed: &mut Vec<Completion>) {
        let (slot, stage) = self.host.next_stage();
        match stage {
            RequestStage::Decoded => self.decoded(slot),
            RequestStage::Arrived => {
                self.host.arriving.push_back(slot);
                self.admit_arrived();
            }
            RequestStage::Done => {
                let active = self.host.remove(slot, (self.now, &self.model.timing));
                let outcome = active.error.map_or(Ok(active.pages), Err);
                completed.push(Completion { token: active.token, outcome });
            }
        }
    }

    /// Completes a request for the host now.
    fn finish(&mut self, slot: RequestSlot) {
        self.host.at(self.now, slot, RequestStage::Done);
    }

    fn decoded(&mut self, slot: RequestSlot) {
        let request = self.host.request(slot);
        if let Err(error) = self.model.geometry.admit(request) {
            self.host.active(slot).error = Some(error);
            return self.finish(slot);
        }
        self.counters.count(request);
        match request.operation {
            Operation::Read { start, count } => self.read(slot, Lpn::of(start).run(count)),
            Operation::Write { .. } => self.receive_in_order(slot),
            Operation::Flush => self.flush(slot),
            Operation::Trim { start, count } => {
                if let Some(line) = &mut self.line {
                    line.reset(start, count);
                }
                self.trim(slot, Lpn::of(start).run(count as u32));
            }
            Operation::Share(_) => unreachable!("refused by the geometry"),
        }
    }

    /// A change of the flash has happened.
    fn flash_event(&mut self) {
        match self.ftl.flash_mut().happen() {
            Change::Program(programmed) => {
                self.counters.flash_program_bytes += PAGE_SIZE as u64;
                match self.version(programmed.area, programmed.version) {
                    None if programmed.area == Area::Torn => (),
                    None => self.counters.map_program_bytes += PAGE_SIZE as u64,
                    Some(version) if version <= self.newest => self.counters.moved_pages += 1,
                    Some(version) => self.newest = version,
                }
            }
            Change::Erase(erased) => {
                self.counters.erases += 1;
                self.lose_contents(&erased);
            }
            Change::Retire(erased) => {
                self.counters.flash_program_bytes += PAGE_SIZE as u64;
                self.lose_contents(&erased);
            }
        }
        self.end_happened();
    }

    fn lose_contents(&mut self, erased: &Erased) {
        let hosts = |(area, _): &(Area, u64)| matches!(area, Area::Logged(_) | Area::InPlace(_));
        for (_, stamp) in erased.pages().filter(hosts) {
            self.contents.lose(self.ftl.version_of(stamp));
        }
    }
}

impl Device for FtlDevice {
    fn geometry(&self) -> &Geometry {
        &self.model.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        assert!(now.0 >= self.now, "submitted at {now}, after {}", Nanos(self.now));
        let depth = self.model.geometry.queue_depth;
        assert!(self.host.under_way() < depth, "more than {depth} requests under way");
        self.now = now.0;
        self.host.submit(token, request, (self.now, &self.model.timing));
    }

    fn next_event(&self) -> NextEvent {
        self.next_moment().map(|moment| Nanos(moment.max(self.now))).into()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= to.0) {
            self.now = self.now.max(moment);
            if self.passes_cut_point() {
                return;
            }
            let is_now = |event: Option<u64>| event.is_some_and(|event| event <= moment);
            if is_now(self.host.next_moment()) {
                self.host_stage(completed);
            } else if is_now(self.ftl.flash().next_moment()) {
                self.flash_event();
            } else {
                self.refuse_late();
            }
            self.evict();
        }
        self.now = self.now.max(to.0);
    }

    fn counters(&self) -> Counters {
        let layer = self.ftl.counters();
        Counters {
            flash_read_bytes: layer.flash.reads * PAGE_SIZE as u64,
            switch_merges: layer.switch_merges,
            partial_merges: layer.partial_merges,
            full_merges: layer.full_merges,
            ..self.counters.clone()
        }
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.ftl.reset_counters();
    }

    fn is_dark(&self) -> bool {
        self.is_dark
    }

    fn as_power_cut(&mut self) -> Option<&mut dyn PowerCut> {
        Some(self)
    }
}

/// In service the power fails at the device's cut points, never inside the layer.
const IN_SERVICE: &str = "the flash runs ahead and loses no power of itself";

/// The result of the layer's work in service.
fn served<T>(work: Result<T, PowerLost>) -> T {
    work.expect(IN_SERVICE)
}
