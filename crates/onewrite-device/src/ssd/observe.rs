//! Observing: records the operations of every die over time, and the latencies of requests.
//!
//! [`Ssd::record_operations`] starts the recording; [`Ssd::take_operations`] returns it. So garbage collection is
//! visible between the work of the host.

use onewrite_block::{Durable, Nanos, Operation};

use super::Ssd;
use super::die::{Activity, Stream};
use super::host::Active;
use super::operation::{DieOperation, LATENCY_NAMES, OperationKind, OperationLatency};

impl Ssd {
    /// Records every operation of every die, and the latency of every request, from now on.
    pub fn record_operations(&mut self) {
        self.recorded = Some(Vec::new());
        self.latencies = Some(Default::default());
    }

    /// The latencies recorded so far, by kind of request, without kinds that did not occur.
    pub fn latencies(&self) -> Vec<OperationLatency> {
        let all = LATENCY_NAMES.into_iter().zip(self.latencies.iter().flatten());
        let told = all.map(|(operation, latencies)| OperationLatency {
            operation,
            latency: latencies.summary(),
            buckets: latencies.buckets(),
        });
        told.filter(|one| one.latency.count > 0).collect()
    }

    /// Notes that a request has ended.
    pub(super) fn note_latency(&mut self, active: &Active) {
        let Some(latencies) = &mut self.latencies else { return };
        let kind = match active.request.operation {
            Operation::Read { .. } => 0,
            Operation::Write { durable: Durable::AfterFlush, .. } => 1,
            Operation::Write { durable: Durable::OnCompletion, .. } => 2,
            Operation::Flush => 3,
            Operation::Trim { .. } => 4,
            Operation::Share(_) => 5,
        };
        latencies[kind].record(Nanos(self.now - active.submitted));
    }

    /// Returns the recorded operations; recording continues.
    pub fn take_operations(&mut self) -> Vec<DieOperation> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes that a die starts an operation that ends at `end`.
    pub(super) fn note_operation(&mut self, die: usize, activity: Activity, end: u64) {
        let Some(kind) = self.kind_of(die, activity) else { return };
        let state = &self.dies[die];
        let is_program = matches!(activity, Activity::Program | Activity::MapProgram);
        let pages = match activity {
            Activity::Program => state.cargo.len() as u32,
            Activity::MapProgram => 1,
            Activity::ReadArray | Activity::ReadBus => state.reading.len() as u32 + state.sensing,
            _ => 0,
        };
        let operation = DieOperation {
            die: die as u32,
            channel: self.model.shape.channel_of(die) as u32,
            kind,
            start: Nanos(self.now),
            end: Nanos(end),
            channel_until: Nanos(if is_program { state.array_start } else { self.now }),
            pages,
        };
        if let Some(recorded) = &mut self.recorded {
            recorded.push(operation);
        }
    }

    fn kind_of(&self, die: usize, activity: Activity) -> Option<OperationKind> {
        let state = &self.dies[die];
        Some(match activity {
            Activity::Idle => return None,
            Activity::ReadArray | Activity::ReadBus if state.reading.is_empty() => OperationKind::MoveRead,
            Activity::ReadArray | Activity::ReadBus => OperationKind::HostRead,
            Activity::Program if state.stream == Stream::Moved => OperationKind::MoveProgram,
            Activity::Program => OperationKind::HostProgram,
            Activity::MapProgram => OperationKind::MapProgram,
            Activity::Erase | Activity::LogErase => OperationKind::Erase,
        })
    }
}
