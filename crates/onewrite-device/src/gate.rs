//! Gate: which commands a disk holds at once.
//!
//! SATA's native command queuing knows reads and writes. FLUSH and TRIM are commands of the old kind (ATA/ATAPI Command
//! Set; Linux's libata sends no other): such a command begins when all before it have ended, and those behind it begin
//! when it has ended. So nothing is served beside a FLUSH. NVMe queues every command.
//!
//! ```text
//!   submitted ─► line, if someone stands there or this one must be alone ─► inside ─► ended ─► the next of the line
//! ```
//!
//! Invariant: a command that must be alone is inside alone, and nobody overtakes the line.

use std::collections::VecDeque;

use onewrite_block::Operation;

/// Which commands a disk queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queuing {
    /// All, as NVMe does.
    All,
    /// Reads and writes, as SATA does.
    Transfers,
}

/// A command in the line.
#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    command: T,
    is_alone: bool,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Gate<T> {
    queuing: Queuing,
    line: VecDeque<Waiting<T>>,
    inside: u32,
    /// Whether the one inside must be alone.
    is_closed: bool,
}

impl<T> Gate<T> {
    /// A gate without commands.
    pub(crate) fn new(queuing: Queuing) -> Gate<T> {
        Gate { queuing, line: VecDeque::new(), inside: 0, is_closed: false }
    }

    /// Whether this operation runs alone.
    pub(crate) fn is_alone(&self, operation: &Operation) -> bool {
        let is_transfer = matches!(operation, Operation::Read { .. } | Operation::Write { .. });
        self.queuing == Queuing::Transfers && !is_transfer
    }

    /// Puts a command at the end of the line; [`Gate::next`] says when it begins.
    pub(crate) fn join(&mut self, command: T, is_alone: bool) {
        self.line.push_back(Waiting { command, is_alone });
    }

    /// The first of the line, if it may begin now; it is inside then.
    pub(crate) fn next(&mut self) -> Option<T> {
        let inside = self.inside;
        let first = self.line.front().filter(|first| inside == 0 || !first.is_alone)?;
        if self.is_closed {
            return None;
        }
        self.is_closed = first.is_alone;
        self.inside += 1;
        self.line.pop_front().map(|first| first.command)
    }

    /// A command has ended.
    pub(crate) fn leave(&mut self) {
        self.inside = self.inside.checked_sub(1).expect("one that ends was inside");
        self.is_closed = false;
    }

    /// Which commands are queued.
    pub(crate) fn queuing(&self) -> Queuing {
        self.queuing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(gate: &mut Gate<u32>) -> Vec<u32> {
        std::iter::from_fn(|| gate.next()).collect()
    }

    #[test]
    fn one_that_must_be_alone_waits_for_all_before_it_and_holds_all_behind_it() {
        let mut gate = Gate::new(Queuing::Transfers);
        for (command, is_alone) in [(1, false), (2, false), (3, true), (4, false), (5, true)] {
            gate.join(command, is_alone);
        }
        assert_eq!(begun(&mut gate), [1, 2]);
        gate.leave();
        assert_eq!(begun(&mut gate), []);
        gate.leave();
        assert_eq!(begun(&mut gate), [3]);
        gate.leave();
        assert_eq!(begun(&mut gate), [4]);
        gate.leave();
        assert_eq!(begun(&mut gate), [5]);
    }

    #[test]
    fn only_sata_keeps_a_flush_and_a_trim_alone() {
        let trim = Operation::Trim { start: onewrite_block::Lpn(0), count: 1 };
        for (queuing, is_alone) in [(Queuing::All, false), (Queuing::Transfers, true)] {
            let gate = Gate::<u32>::new(queuing);
            assert_eq!([&Operation::Flush, &trim].map(|one| gate.is_alone(one)), [is_alone; 2]);
        }
    }
}
