//! Marks: which of them were reached shortly before a cut, and how often that was so.
//!
//! A mark is reached in memory, long before it shows on the disk: what an operation changes reaches the disk with a
//! later commit. So *at a cut* means behind the last FLUSH but one that had completed (a commit sends one in its
//! middle), and at most [`EVENTS_MAX`] events before the cut, for some modes send no FLUSH.

use std::collections::VecDeque;
use std::fmt;

use onewrite_block::layer::RecordedEvent;
use onewrite_block::mark::{ALL, Marks, Room};
use onewrite_block::{Operation, Token};
use serde::{Serialize, Serializer};

/// Most events between a mark and a cut at which it counts.
const EVENTS_MAX: usize = 100;

/// The marks reached shortly before a position in a walk.
#[derive(Default)]
pub(crate) struct Recently {
    /// The marks of each event, the last one at the end.
    events: VecDeque<Marks>,
    /// How many of them lie behind the last FLUSH that completed.
    since_flush: usize,
    /// FLUSHes under way.
    flushes: Vec<Token>,
}

impl Recently {
    /// Visits an event, before which `reached` were reached; returns the marks at a cut behind it.
    pub(crate) fn pass(&mut self, event: &RecordedEvent, reached: Marks) -> Marks {
        self.events.push_back(reached);
        self.since_flush += 1;
        if self.completes_flush(event) {
            self.events.drain(..self.events.len() - self.since_flush);
            self.since_flush = 0;
        }
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
            self.since_flush = self.since_flush.min(EVENTS_MAX);
        }
        self.events.iter().copied().collect()
    }

    fn completes_flush(&mut self, event: &RecordedEvent) -> bool {
        match event {
            RecordedEvent::Submitted(token, request) if request.operation == Operation::Flush => {
                self.flushes.push(*token);
                false
            }
            RecordedEvent::Completed(token) | RecordedEvent::Failed(token) => {
                let before = self.flushes.len();
                self.flushes.retain(|flush| flush != token);
                self.flushes.len() < before
            }
            RecordedEvent::Submitted(..) | RecordedEvent::Mark(_) => false,
        }
    }
}

/// The marks of event number `event` of a recording; none if it was not recorded with marks.
pub(crate) fn marks_of(marks: &[Marks], event: usize) -> Marks {
    marks.get(event).copied().unwrap_or(Marks::NONE)
}

/// In how many states a mark was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCount {
    /// Distinct states shortly before whose cut it was reached; of runs with faults: runs.
    pub at_cut: u64,
    /// Distinct states whose recovery reached it: that of the device, of the log, or the mount.
    pub in_recovery: u64,
}

impl MarkCount {
    /// Whether any state reached it.
    pub fn is_seen(&self) -> bool {
        self.at_cut > 0 || self.in_recovery > 0
    }
}

/// The counts of all marks, in the order of [`ALL`].
#[derive(Clone, PartialEq, Eq)]
pub struct MarkCounts(Vec<MarkCount>);

impl Default for MarkCounts {
    fn default() -> MarkCounts {
        MarkCounts(vec![MarkCount::default(); ALL.len()])
    }
}

impl MarkCounts {
    /// Counts a state.
    pub(crate) fn count(&mut self, at_cut: Marks, in_recovery: Marks) {
        at_cut.numbers().for_each(|number| self.0[number].at_cut += 1);
        in_recovery.numbers().for_each(|number| self.0[number].in_recovery += 1);
    }

    /// All marks with their rooms and counts.
    pub fn iter(&self) -> impl Iterator<Item = (Room, &'static str, MarkCount)> {
        ALL.iter().zip(&self.0).map(|((room, name), count)| (*room, *name, *count))
    }

    /// The counts of one mark; `None` if there is no such mark.
    pub fn get(&self, name: &str) -> Option<MarkCount> {
        self.iter().find(|(_, other, _)| *other == name).map(|(.., count)| count)
    }

    /// Number of marks that any state reached.
    pub fn seen(&self) -> usize {
        self.0.iter().filter(|count| count.is_seen()).count()
    }
}

impl fmt::Debug for MarkCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} seen", self.seen(), self.0.len())
    }
}

/// A mark in the report.
#[derive(Serialize)]
struct Named {
    room: &'static str,
    name: &'static str,
    at_cut: u64,
    in_recovery: u64,
}

impl Serialize for MarkCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(room, name, MarkCount { at_cut, in_recovery })| Named {
            room: room.name(),
            name,
            at_cut,
            in_recovery,
        }))
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::mark::{Listener, during, note};
    use onewrite_block::{Cause, Lpn, Page, Request};

    use super::*;

    fn mark(number: usize) -> Marks {
        let _listener = Listener::new();
        during(|| note(number)).1
    }

    fn numbers(marks: Marks) -> Vec<usize> {
        marks.numbers().collect()
    }

    #[test]
    fn a_mark_counts_until_the_second_flush_behind_it_completes() {
        let flush = |token| RecordedEvent::Submitted(Token(token), Request::flush(Cause::Journal));
        let write =
            |token| RecordedEvent::Submitted(Token(token), Request::write(Lpn(1), vec![Page::ZEROS], Cause::Data));
        let mut recently = Recently::default();
        assert_eq!(numbers(recently.pass(&write(1), mark(3))), [3]);
        assert_eq!(numbers(recently.pass(&flush(2), Marks::NONE)), [3]);
        assert_eq!(numbers(recently.pass(&RecordedEvent::Completed(Token(2)), mark(4))), [3, 4]);
        assert_eq!(numbers(recently.pass(&RecordedEvent::Completed(Token(1)), mark(5))), [3, 4, 5]);
        recently.pass(&flush(2), Marks::NONE);
        assert_eq!(numbers(recently.pass(&RecordedEvent::Completed(Token(2)), Marks::NONE)), [5]);
    }

    #[test]
    fn without_a_flush_a_mark_counts_for_a_hundred_events() {
        let mut recently = Recently::default();
        recently.pass(&RecordedEvent::Mark(0), mark(7));
        for event in 1..EVENTS_MAX as u64 {
            assert_eq!(numbers(recently.pass(&RecordedEvent::Mark(event), Marks::NONE)), [7]);
        }
        assert!(numbers(recently.pass(&RecordedEvent::Mark(0), Marks::NONE)).is_empty());
    }
}
