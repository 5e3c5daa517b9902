//! Device: the contract between the layers above and the storage below, and what a power cut may do.
//!
//! A device is a state machine. [`Device::submit`] only takes a request in. State changes when an event happens, in
//! [`Device::advance`]. So requests overlap, background work continues between them, and a cut can fall inside any of
//! them.
//!
//! ```text
//!   submit(token, request, now) ──► under way ──advance(to)──► Completion { token, result }
//!                                       │ cut
//!                                       ▼
//!                        dark ──recover()──► serving again: durable content whole,
//!                                            unflushed content as `Geometry::on_power_loss` allows
//! ```

use thiserror::Error;

use crate::bell::Bell;
use crate::choices::Choices;
use crate::counters::Counters;
use crate::page::Page;
use crate::request::{Operation, Request, Token};
use crate::units::{Lpn, Nanos};
use crate::zones::Zones;

/// What trimmed pages read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimRead {
    /// TRIM is refused.
    Unsupported,
    /// Zeros, from completion on. A power cut may undo the trim until it is durable.
    Zeros,
    /// The old content, zeros, or a mixture.
    Undefined,
}

/// The order in which a write buffer evicts pages to the medium by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// Least recently written first. Zero padding needs this (`papers/003` §3).
    LeastRecentlyWritten,
    /// Anything else.
    Unspecified,
}

/// A volatile or capacitor-backed buffer for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBuffer {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Which page leaves first.
    pub eviction_order: EvictionOrder,
    /// The first page may leave the buffer after this many bytes written (`papers/003` §3.1: 1.8 MB).
    pub eviction_begins_bytes: u64,
    /// The eviction spot: after this many bytes written, all earlier pages have left (`papers/003` §3.1: 2.3 MB).
    pub eviction_certain_bytes: u64,
}

/// What a power cut may do to writes, trims and shares that no FLUSH or FUA covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// Nothing: a completed write is durable (capacitor, or a medium without a buffer).
    KeepsCompleted,
    /// Any subset of them survives, in units of [`Geometry::atomic_write_pages`].
    AnySubset,
}

/// The properties and promises of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Name of the profile or path of the file.
    pub name: String,
    /// Logical pages of 4 KiB.
    pub pages: u64,
    /// Most pages in one read or write.
    pub transfer_pages_max: u32,
    /// Requests that may be under way at once.
    pub queue_depth: u32,
    /// Aligned writes of up to this many pages survive a power cut whole or not at all.
    pub atomic_write_pages: u32,
    /// Whether writes may carry FUA.
    pub fua: bool,
    /// Whether TRIM is accepted, and how trimmed pages read.
    pub trim_read: TrimRead,
    /// Most pairs in one SHARE; 0 where SHARE is refused.
    pub share_pairs_max: u32,
    /// Whether a SHARE of several pairs is all or nothing across power loss.
    pub share_atomic: bool,
    /// Why the device refuses SHARE, and the cure, if the device can say.
    pub share_refusal: Option<String>,
    /// The write buffer, if its behaviour is known.
    pub write_buffer: Option<WriteBuffer>,
    /// What a power cut may lose.
    pub on_power_loss: PowerLoss,
    /// Whether recovery can find evicted pages after a power cut although their map records were not yet durable.
    pub oob_hints: bool,
    /// Zones, if parts of it are written in order only.
    pub zones: Option<Zones>,
}

impl Geometry {
    /// A device of `pages` pages that refuses TRIM, SHARE and FUA. A power cut may lose any subset of unflushed pages.
    pub fn plain(name: impl Into<String>, pages: u64) -> Geometry {
        Geometry {
            name: name.into(),
            pages,
            transfer_pages_max: 256,
            queue_depth: 32,
            atomic_write_pages: 1,
            fua: false,
            trim_read: TrimRead::Unsupported,
            share_pairs_max: 0,
            share_atomic: false,
            share_refusal: None,
            write_buffer: None,
            on_power_loss: PowerLoss::AnySubset,
            oob_hints: false,
            zones: None,
        }
    }

    /// Checks `request` against these numbers. Every device does this before it takes a request in.
    ///
    /// # Errors
    /// The device error that names the page, the limit or the missing feature.
    pub fn admit(&self, request: &Request) -> Result<(), DeviceError> {
        match &request.operation {
            Operation::Read { start, count } => self.admit_transfer("read", *start, u64::from(*count)),
            Operation::Write { start, pages, durable } => {
                if durable.is_fua() && !self.fua {
                    return Err(DeviceError::Unsupported { device: self.name.clone(), operation: "FUA" });
                }
                self.admit_transfer("write", *start, pages.len() as u64)?;
                self.admit_zone(*start, pages.len() as u64)
            }
            Operation::Flush => Ok(()),
            Operation::Trim { start, count } => {
                if self.trim_read == TrimRead::Unsupported {
                    return Err(DeviceError::Unsupported { device: self.name.clone(), operation: "TRIM" });
                }
                self.admit_range("trim", *start, *count)?;
                match self.zones.as_ref().is_none_or(|zones| zones.has_whole_zones(*start, *count)) {
                    true => Ok(()),
                    false => Err(DeviceError::ZoneTrim { start: *start, count: *count }),
                }
            }
            Operation::Share(pairs) => self.admit_share(pairs),
        }
    }

    fn admit_transfer(&self, operation: &'static str, start: Lpn, count: u64) -> Result<(), DeviceError> {
        if count == 0 || count > u64::from(self.transfer_pages_max) {
            let pages_max = self.transfer_pages_max;
            return Err(DeviceError::TransferSize { operation, pages: count, pages_max });
        }
        self.admit_range(operation, start, count)
    }

    /// A write lies in one zone, or in conventional pages.
    fn admit_zone(&self, start: Lpn, count: u64) -> Result<(), DeviceError> {
        match self.zones.as_ref().map(|zones| zones.room_behind(start)) {
            Some(room) if room < count => Err(DeviceError::ZoneEnd { start, count, room }),
            _ => Ok(()),
        }
    }

    fn admit_range(&self, operation: &'static str, start: Lpn, count: u64) -> Result<(), DeviceError> {
        match start.0.checked_add(count) {
            Some(end) if end <= self.pages => Ok(()),
            _ => Err(DeviceError::OutOfRange { operation, start, count, pages: self.pages }),
        }
    }

    fn admit_share(&self, pairs: &[crate::request::Remap]) -> Result<(), DeviceError> {
        if self.share_pairs_max == 0 {
            return Err(DeviceError::Unsupported { device: self.name.clone(), operation: "SHARE" });
        }
        if pairs.is_empty() || pairs.len() > self.share_pairs_max as usize {
            return Err(DeviceError::SharePairs { pairs: pairs.len(), pairs_max: self.share_pairs_max });
        }
        for pair in pairs {
            self.admit_range("share", pair.target, 1)?;
            self.admit_range("share", pair.source, 1)?;
        }
        let mut targets: Vec<Lpn> = pairs.iter().map(|pair| pair.target).collect();
        targets.sort_unstable();
        if let Some(twice) = targets.windows(2).find(|two| two[0] == two[1]) {
            return Err(DeviceError::ShareTarget { target: twice[0] });
        }
        match pairs.iter().find(|pair| targets.binary_search(&pair.source).is_ok()) {
            Some(pair) => Err(DeviceError::ShareTarget { target: pair.source }),
            None => Ok(()),
        }
    }
}

/// Why a request failed. A failed write leaves its pages old, new, or torn (if the device allows tearing).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The request reaches beyond the device.
    #[error("{operation} of {count} pages at {start} reaches beyond the device's {pages} pages")]
    OutOfRange {
        /// The refused operation.
        operation: &'static str,
        /// First page.
        start: Lpn,
        /// Pages asked for.
        count: u64,
        /// Pages of the device.
        pages: u64,
    },
    /// The request is empty or larger than the device takes.
    #[error("{operation} of {pages} pages; this device takes 1 to {pages_max} in one request")]
    TransferSize {
        /// The refused operation.
        operation: &'static str,
        /// Pages asked for.
        pages: u64,
        /// Pages allowed.
        pages_max: u32,
    },
    /// The device lacks the operation.
    #[error("device {device} has no {operation}")]
    Unsupported {
        /// The device.
        device: String,
        /// The missing operation.
        operation: &'static str,
    },
    /// Too many or no pairs in one SHARE.
    #[error("SHARE of {pairs} pairs; this device takes 1 to {pairs_max}")]
    SharePairs {
        /// Pairs asked for.
        pairs: usize,
        /// Pairs allowed.
        pairs_max: u32,
    },
    /// A SHARE names a target twice, or as a source too.
    #[error("SHARE names target {target} twice, or as a source too; split it into two requests")]
    ShareTarget {
        /// The page.
        target: Lpn,
    },
    /// A SHARE's source holds nothing.
    #[error("SHARE from {source_page}, which was never written or is trimmed")]
    ShareSource {
        /// The page.
        source_page: Lpn,
    },
    /// A write reaches beyond its zone.
    #[error("write of {count} pages at {start} crosses the end of a zone {room} pages on; split it there")]
    ZoneEnd {
        /// First page.
        start: Lpn,
        /// Pages of the write.
        count: u64,
        /// Pages up to the end.
        room: u64,
    },
    /// A write does not begin at the write pointer of its zone.
    #[error("write at {page}, but the next page of its zone is {pointer}; write in order, or reset the zone")]
    ZonePointer {
        /// First page of the write.
        page: Lpn,
        /// The zone's write pointer.
        pointer: Lpn,
    },
    /// A write would open one zone too many.
    #[error("write at {page} opens a zone, and {open_max} are open; fill or reset one first")]
    ZonesOpen {
        /// First page of the write.
        page: Lpn,
        /// Zones that may be open at once.
        open_max: u32,
    },
    /// A TRIM covers a part of a zone.
    #[error("TRIM of {count} pages at {start} has a part of a zone; zones are reset as a whole")]
    ZoneTrim {
        /// First page.
        start: Lpn,
        /// Pages of the TRIM.
        count: u64,
    },
    /// The medium could not give a page back.
    #[error("medium error: {page} cannot be read")]
    ReadFailed {
        /// The page.
        page: Lpn,
    },
    /// The medium could not take a page.
    #[error("medium error: {page} cannot be written")]
    WriteFailed {
        /// The page.
        page: Lpn,
    },
    /// The device could not make its buffer durable; unflushed content may be lost.
    #[error("medium error: the flush failed; content written since the last flush may be lost")]
    FlushFailed,
    /// The device has run out of good blocks and takes no more writes.
    #[error("device {device} is worn out: {detail}; copy its content away")]
    WornOut {
        /// The device.
        device: String,
        /// What ran out.
        detail: String,
    },
    /// The host's operating system refused.
    #[error("{path}: {operation} failed: {message}")]
    Host {
        /// File or block device.
        path: String,
        /// The attempted operation.
        operation: &'static str,
        /// The system's words.
        message: String,
    },
    /// The power is cut; nothing will ever complete.
    #[error("the power is cut")]
    PowerLost,
}

/// The result of a request: the pages of a read; an empty list for any other operation.
pub type Outcome = Result<Vec<Page>, DeviceError>;

/// When a device's next event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextEvent {
    /// Never: no request and no background work is under way.
    Idle,
    /// At this moment, which may be now.
    At(Nanos),
    /// Something is under way and nobody knows when it ends. The device rings the bell that [`Device::attached`] gave
    /// it. In wall time only.
    Unknown,
}

impl NextEvent {
    /// The moment, if there is one and it is known.
    pub const fn moment(self) -> Option<Nanos> {
        match self {
            NextEvent::At(moment) => Some(moment),
            NextEvent::Idle | NextEvent::Unknown => None,
        }
    }

    /// How long to wait for this event or `other`. A known moment comes before an unknown one, which a bell announces.
    pub fn or_earlier(self, other: NextEvent) -> NextEvent {
        match (self, other) {
            (NextEvent::At(one), NextEvent::At(other)) => NextEvent::At(one.min(other)),
            (NextEvent::At(moment), _) | (_, NextEvent::At(moment)) => NextEvent::At(moment),
            (NextEvent::Idle, other) => other,
            (NextEvent::Unknown, _) => NextEvent::Unknown,
        }
    }
}

/// For devices that know all their moments.
impl From<Option<Nanos>> for NextEvent {
    fn from(moment: Option<Nanos>) -> NextEvent {
        moment.map_or(NextEvent::Idle, NextEvent::At)
    }
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The token of its submission.
    pub token: Token,
    /// Its result.
    pub outcome: Outcome,
}

/// The only way to storage; the module's head draws its states.
///
/// # Contract
/// 1. A read gives the newest write, trim or share that completed before the read was submitted. If one is under way on
///    the same page, the read gives old or new content, page by page.
/// 2. A FLUSH covers the writes that completed before its submission, and nothing else.
/// 3. After a power cut each page holds its last durable content or a newer one, as [`Geometry::on_power_loss`] says.
/// 4. In virtual time the same requests at the same times give the same completions at the same times.
pub trait Device {
    /// What the device is and promises; constant.
    fn geometry(&self) -> &Geometry;

    /// Takes a request in. A request that [`Geometry::admit`] refuses completes with that error.
    ///
    /// # Panics
    /// If more than [`Geometry::queue_depth`] requests are under way, or `now` is earlier than the last advance.
    fn submit(&mut self, token: Token, request: Request, now: Nanos);

    /// A run calls this before any request: the device now belongs to it. In wall time the run passes its bell. The
    /// device may then leave the end of a request open ([`NextEvent::Unknown`]); it rings when it has something for
    /// [`Device::advance`]. In virtual time there is no bell, and the device knows all its moments. A layer passes the
    /// call on.
    fn attached(&mut self, bell: Option<Bell>) {
        let _ = bell;
    }

    /// When the next event happens; [`NextEvent::Idle`] if no request and no background work is under way.
    fn next_event(&self) -> NextEvent;

    /// Lets every event up to and including `to` happen, and appends the completions in order. In wall time a run also
    /// calls it before each wait, whatever the next event is.
    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>);

    /// The counts since the device was made or since [`Device::reset_counters`].
    fn counters(&self) -> Counters;

    /// Resets the counters.
    fn reset_counters(&mut self);

    /// Whether the power is cut: no event happens until [`PowerCut::recover`].
    fn is_dark(&self) -> bool {
        false
    }

    /// The switch for its power, if the device is emulated.
    fn as_power_cut(&mut self) -> Option<&mut dyn PowerCut> {
        None
    }
}

/// A device whose power can be cut at any of its internal steps. Every emulated device is one.
pub trait PowerCut: Device {
    /// Internal state changes so far. Each program, erase, map record, buffer change and request boundary is one.
    fn cut_points(&self) -> u64;

    /// Cuts the power when [`PowerCut::cut_points`] reaches `point`. No event happens after that.
    fn arm(&mut self, point: u64);

    /// A device in the same state, with the same requests under way. Both share content until one of them changes it.
    fn fork(&self) -> Box<dyn PowerCut>;

    /// Cuts the power now. `choices` decides which unflushed content survives, within the promises.
    fn cut(&mut self, choices: &mut Choices);

    /// Powers up at `now` and recovers: reads the map log and the other state that it needs.
    ///
    /// The requests that were under way are lost without a completion. Recovery has cut points of its own: if
    /// [`PowerCut::arm`] cuts it, it returns [`DeviceError::PowerLost`].
    ///
    /// # Errors
    /// If the damage to the medium is more than a cut can do.
    fn recover(&mut self, now: Nanos) -> Result<RecoveryReport, DeviceError>;

    /// Verifies every invariant of the device's state, for tests.
    ///
    /// # Errors
    /// The first invariant that does not hold, with its numbers.
    fn check(&self) -> Result<(), String>;
}

/// What a device's power-off recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// How long it took.
    pub duration: Nanos,
    /// Pages of the map log that were read.
    pub map_pages_read: u64,
    /// Pages whose out-of-band area was read.
    pub oob_pages_read: u64,
    /// Pages found by their out-of-band area only.
    pub pages_recovered: u64,
}
