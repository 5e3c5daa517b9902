//! Host side: requests under way, the controller's processor and the link to the host.
//!
//! ```text
//!   submitted ──gate, command──► decoded ──► read: flash or buffer ──link──► done
//!                                  ──► write: link ──► arrived ──► in the buffer ──► done (FUA: durable first)
//!                                  ──► flush, trim, share ──► done
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use onewrite_block::{DeviceError, Operation, Page, Request, Token};

use super::model::Timing;
use crate::gate::{Gate, Queuing};

/// Names a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestSlot(u32);

impl RequestSlot {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The next stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestStage {
    /// The controller has understood it.
    Decoded,
    /// The content of the write is in the controller.
    Arrived,
    /// The host gets the completion.
    Done,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    pub(crate) token: Token,
    pub(crate) submitted: u64,
    pub(crate) request: Request,
    /// Pages that a read returns.
    pub(crate) pages: Vec<Page>,
    /// Pages that it waits for: reads, or pages that must become durable.
    pub(crate) pending: u32,
    /// Pages already in the buffer.
    pub(crate) admitted: u32,
    pub(crate) error: Option<DeviceError>,
}

/// A future stage. The earliest goes first; of equal moments, the one set first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    moment: u64,
    number: u64,
    slot: RequestSlot,
    stage: RequestStage,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    gate: Gate<RequestSlot>,
    slots: Vec<Option<Active>>,
    unused: Vec<RequestSlot>,
    under_way: u32,
    stages: BinaryHeap<Reverse<Due>>,
    stages_set: u64,
    /// The controller takes no command before this moment.
    pub(crate) processor_free: u64,
    /// The link carries nothing to the controller before this moment.
    pub(crate) inbound_free: u64,
    /// The link carries nothing to the host before this moment.
    pub(crate) outbound_free: u64,
    /// Writes with their content in the controller but not all in the buffer, in order of arrival.
    pub(crate) arriving: VecDeque<RequestSlot>,
    /// FLUSH requests, each with the newest ticket that it covers.
    pub(crate) flushes: VecDeque<(RequestSlot, u64)>,
}

impl Host {
    /// A host side without requests.
    pub(crate) fn new(queuing: Queuing) -> Host {
        Host {
            gate: Gate::new(queuing),
            slots: Vec::new(),
            unused: Vec::new(),
            under_way: 0,
            stages: BinaryHeap::new(),
            stages_set: 0,
            processor_free: 0,
            inbound_free: 0,
            outbound_free: 0,
            arriving: VecDeque::new(),
            flushes: VecDeque::new(),
        }
    }

    /// Takes a request in; the controller begins with it when the gate lets it.
    pub(crate) fn submit(&mut self, token: Token, request: Request, (now, timing): (u64, &Timing)) {
        let is_alone = self.gate.is_alone(&request.operation);
        let slot = self.insert(token, request, now);
        self.gate.join(slot, is_alone);
        self.begin_next(now, timing);
    }

    /// Lets the controller begin with the requests that may begin now.
    fn begin_next(&mut self, now: u64, timing: &Timing) {
        while let Some(slot) = self.gate.next() {
            let start = self.processor_free.max(now);
            let is_write = matches!(self.request(slot).operation, Operation::Write { .. });
            self.processor_free = start + if is_write { timing.write_interval } else { timing.command_interval };
            self.at(start + timing.command, slot, RequestStage::Decoded);
        }
    }

    /// Takes a request in and returns its slot.
    fn insert(&mut self, token: Token, request: Request, now: u64) -> RequestSlot {
        self.under_way += 1;
        let active =
            Some(Active { token, submitted: now, request, pages: Vec::new(), pending: 0, admitted: 0, error: None });
        match self.unused.pop() {
            Some(slot) => {
                self.slots[slot.index()] = active;
                slot
            }
            None => {
                self.slots.push(active);
                RequestSlot(self.slots.len() as u32 - 1)
            }
        }
    }

    /// Number of requests under way.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// A request under way.
    pub(crate) fn active(&mut self, slot: RequestSlot) -> &mut Active {
        self.slots[slot.index()].as_mut().expect("a slot is used while its request is under way")
    }

    /// The request in a slot.
    pub(crate) fn request(&self, slot: RequestSlot) -> &Request {
        &self.slots[slot.index()].as_ref().expect("a slot is used while its request is under way").request
    }

    /// Ends a request; those that waited for that begin.
    pub(crate) fn remove(&mut self, slot: RequestSlot, (now, timing): (u64, &Timing)) -> Active {
        self.under_way -= 1;
        self.unused.push(slot);
        self.gate.leave();
        self.begin_next(now, timing);
        self.slots[slot.index()].take().expect("a request ends once")
    }

    /// Schedules `stage` for a request at `moment`.
    pub(crate) fn at(&mut self, moment: u64, slot: RequestSlot, stage: RequestStage) {
        self.stages_set += 1;
        self.stages.push(Reverse(Due { moment, number: self.stages_set, slot, stage }));
    }

    /// The moment of the next stage.
    #[inline]
    pub(crate) fn next_moment(&self) -> Option<u64> {
        self.stages.peek().map(|Reverse(due)| due.moment)
    }

    /// Removes and returns the next stage.
    pub(crate) fn next_stage(&mut self) -> (RequestSlot, RequestStage) {
        let Reverse(due) = self.stages.pop().expect("a stage was seen");
        (due.slot, due.stage)
    }

    /// Forgets every request, as a power cut does.
    pub(crate) fn clear(&mut self) {
        *self = Host::new(self.gate.queuing());
    }
}
