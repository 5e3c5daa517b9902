//! The emulated SSD. `docs/device-model.md` describes the whole. Its parts are
//!
//! ```text
//!   host        requests, controller, link              durable:   nand (pages, OOB, erase counts)
//!   buffer      written, not yet in flash                          capacitor dump, if there is one
//!   write_flow  admission, eviction, FLUSH, FUA, TRIM   volatile:  everything else; `recover` makes it anew
//!   mapping     logical page ↔ flash page, SHARE
//!   mapping_flow  map log: batches, seals, segments
//!   blocks, collect     garbage collection
//!   schedule, die       what each die does next, and how long it takes
//! ```
//!
//! Its one idea: state changes only when an event happens, and every event is a cut point. So a power cut only decides
//! the effect of the dies' operations under way, and forgets everything except the flash.

pub(crate) mod backing;
pub(crate) mod blocks;
pub(crate) mod buffer;
mod check;
mod collect;
mod cow;
mod cut;
mod die;
mod dump;
mod events;
mod faults;
pub(crate) mod host;
mod log_page;
mod map_log;
pub(crate) mod mapping;
mod mapping_flow;
pub(crate) mod model;
mod nand;
mod observe;
mod oob;
mod operation;
mod past;
mod read_flow;
mod recover;
mod rules;
mod schedule;
pub(crate) mod shape;
mod share_flow;
mod stale;
mod stale_flow;
mod wear;
mod write_flow;

use std::rc::Rc;

use onewrite_block::{
    Completion, Counters, Device, DeviceError, Geometry, Nanos, NextEvent, PowerCut, RecoveryReport, Request, Token,
};
use rustc_hash::FxHashMap;

use crate::address::Lpn;
use crate::latency::Latencies;
use backing::Backing;
use blocks::Blocks;
use buffer::Buffer;
use cow::BitSet;
use die::{Activity, Die, Stream};
use dump::Dump;
use events::{NEVER, Timeline};
pub use faults::{MediumFaults, MediumOperation};
use host::{Host, RequestSlot, RequestStage};
use map_log::MapLog;
use mapping::Mapping;
use model::Model;
use nand::Flash;
use operation::LATENCY_NAMES;
pub use operation::{DieOperation, OperationKind, OperationLatency};
pub use rules::{Rules, Sound};
pub use shape::Shape;
use stale::Stale;
pub use wear::Wear;

/// An emulated SSD; see the module's head and [`Profile::device`](crate::Profile::device).
#[derive(Clone, Debug)]
pub struct Ssd {
    model: Rc<Model>,
    flash: Flash,
    dump: Option<Dump>,

    map: Mapping,
    blocks: Blocks,
    log: MapLog,
    buffer: Buffer,
    stale: Stale,
    /// Logical pages with a version under program. Until the program ends they cannot be trimmed or be targets of a
    /// SHARE.
    locked: BitSet,
    /// Requests that wait until this or a newer version of a logical page is in flash.
    waiting_for: FxHashMap<Lpn, Vec<(RequestSlot, u64)>>,
    /// Number of the next version written to flash.
    sequence: u64,

    host: Host,
    dies: Vec<Die>,
    channels: Vec<u64>,
    timeline: Timeline,
    /// The die that last got pages of the host.
    last_die: usize,
    /// Idle dies, one bit each.
    idle: u64,
    /// Dies that got work while another one was started, one bit each.
    kicked: u64,

    rules: Rc<dyn Rules>,
    faults: Option<MediumFaults>,
    is_worn_out: bool,
    file_error: Option<DeviceError>,
    recorded: Option<Vec<DieOperation>>,
    latencies: Option<[Latencies; LATENCY_NAMES.len()]>,

    now: u64,
    counters: Counters,
    cut_points: u64,
    armed: Option<u64>,
    is_dark: bool,
    is_cut: bool,
}

impl Ssd {
    /// A blank device.
    pub(crate) fn new(model: Model) -> Ssd {
        let flash = Flash::new(model.shape.blocks(), model.shape.pages_per_block);
        let mut ssd = Ssd::unformatted(model, flash);
        ssd.format();
        ssd
    }

    fn unformatted(model: Model, flash: Flash) -> Ssd {
        let shape = model.shape;
        Ssd {
            flash,
            dump: None,
            map: Mapping::new(shape.logical_pages, shape.page_numbers()),
            blocks: Blocks::new(shape.block_counts()),
            log: MapLog::new(shape.log_range(), shape.segments(), shape.pages_per_block),
            buffer: Buffer::new(model.eviction_begins, model.eviction_certain, model.eviction_order()),
            stale: Stale::default(),
            locked: BitSet::new(shape.logical_pages as usize),
            waiting_for: FxHashMap::default(),
            sequence: 1,
            host: Host::new(model.queuing),
            dies: (0..shape.dies).map(|_| Die::new()).collect(),
            channels: vec![0; shape.channels as usize],
            timeline: Timeline::new(shape.dies as usize),
            last_die: 0,
            idle: u64::MAX >> (64 - shape.dies),
            kicked: 0,
            rules: Rc::new(Sound),
            faults: None,
            is_worn_out: false,
            file_error: None,
            recorded: None,
            latencies: None,
            now: 0,
            counters: Counters::default(),
            cut_points: 0,
            armed: None,
            is_dark: false,
            is_cut: false,
            model: Rc::new(model),
        }
    }

    /// The device with its flash in `backing`. If the file is blank, formats it; else recovers as after a power cut.
    ///
    /// # Errors
    /// The error of the file, or why its content cannot be recovered.
    pub(crate) fn with_backing(model: Model, backing: Backing) -> Result<(Ssd, Option<RecoveryReport>), String> {
        let (pages_per_block, is_blank) = (model.shape.pages_per_block, backing.is_blank());
        let flash = Flash::backed(backing, pages_per_block).map_err(|error| error.to_string())?;
        let mut ssd = Ssd::unformatted(model, flash);
        if is_blank {
            ssd.format();
            return Ok((ssd, None));
        }
        ssd.is_cut = true;
        let report = ssd.recover(Nanos::ZERO).map_err(|error| error.to_string())?;
        Ok((ssd, Some(report)))
    }

    /// Restarts time and counters; nothing may be under way.
    pub(crate) fn begin_anew(&mut self) {
        assert!(self.next_moment().is_none() && self.host.under_way() == 0, "the device is at work");
        self.now = 0;
        self.channels.fill(0);
        let host = &mut self.host;
        (host.processor_free, host.inbound_free, host.outbound_free) = (0, 0, 0);
        self.counters = Counters::default();
    }

    /// The shape of its flash, for reports.
    pub fn shape(&self) -> Shape {
        self.model.shape
    }

    /// The same device with other rules; for tests that show the effect of a broken rule.
    pub fn with_rules(self, rules: Rc<dyn Rules>) -> Ssd {
        Ssd { rules, ..self }
    }

    /// The present internal work, for statistics of cuts.
    pub fn under_way(&self) -> UnderWay {
        let is_doing = |activity| self.dies.iter().any(|die| die.activity == activity);
        UnderWay {
            collection: self.dies.iter().any(|die| die.victim.is_some() && die.activity != Activity::Idle),
            map_log: is_doing(Activity::MapProgram) || is_doing(Activity::LogErase),
            share: self.log.has_share() && is_doing(Activity::MapProgram),
            erase: is_doing(Activity::Erase) || is_doing(Activity::LogErase),
            eviction: self.dies.iter().any(|die| die.activity == Activity::Program && die.stream == Stream::Host),
        }
    }

    /// Passes a cut point; true if the power fails there.
    fn passes_cut_point(&mut self) -> bool {
        self.cut_points += 1;
        self.is_dark |= self.armed == Some(self.cut_points);
        self.is_dark
    }

    fn next_moment(&self) -> Option<u64> {
        let die = self.timeline.next().0;
        let moment = self.host.next_moment().map_or(die, |host| host.min(die));
        (moment != NEVER && !self.is_dark).then_some(moment)
    }

    fn host_stage(&mut self, completed: &mut Vec<Completion>) {
        let (slot, stage) = self.host.next_stage();
        match stage {
            RequestStage::Decoded => self.decoded(slot),
            RequestStage::Arrived => self.arrived(slot),
            RequestStage::Done => {
                let active = self.host.remove(slot, (self.now, &self.model.timing));
                self.note_latency(&active);
                let outcome = active.error.map_or(Ok(active.pages), Err);
                completed.push(Completion { token: active.token, outcome });
            }
        }
    }

    /// Completes a request for the host now.
    fn finish(&mut self, slot: RequestSlot) {
        self.host.at(self.now, slot, RequestStage::Done);
    }
}

impl Device for Ssd {
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
        while let Some(moment) = self.next_moment() {
            if moment > to.0 {
                break;
            }
            self.now = self.now.max(moment);
            if self.passes_cut_point() {
                return;
            }
            let (die_moment, die) = self.timeline.next();
            if self.host.next_moment().is_some_and(|host| host <= die_moment) {
                self.host_stage(completed);
            } else {
                self.die_event(die);
            }
            if self.log.is_wanted {
                self.write_log();
            }
            self.start_kicked();
            self.notice_file_errors();
        }
        self.now = self.now.max(to.0);
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn is_dark(&self) -> bool {
        self.is_dark
    }

    fn as_power_cut(&mut self) -> Option<&mut dyn PowerCut> {
        Some(self)
    }
}

/// Internal work of a device; see [`Ssd::under_way`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Valid pages of a victim move.
    pub collection: bool,
    /// A page of the map log is under program, or a block of it under erase.
    pub map_log: bool,
    /// The map-log page of a SHARE is under program.
    pub share: bool,
    /// A block is under erase.
    pub erase: bool,
    /// Pages of the buffer are under program.
    pub eviction: bool,
}

/// Most pairs of one SHARE: as many as fit a sealed page of the map log.
pub(crate) fn share_pairs_max(shape: &Shape) -> u32 {
    log_page::records_max(shape.dies as usize * 4) as u32
}
