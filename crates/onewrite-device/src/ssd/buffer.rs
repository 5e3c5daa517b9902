//! Write buffer: pages that the host has written and that are not in flash yet, in the order of their last write.
//!
//! ```text
//!   written ──► waiting ──issue──► issued ──programmed──► gone
//!                  ▲  ▲ written again │ written or trimmed again while issued
//!                  └──┴───────────────┘ (a trimmed page becomes a tombstone: it reads as zeros)
//! ```
//!
//! Every page written gets a *ticket*, one higher than the last. Invariants:
//! 1. Both lists ascend by ticket, so the oldest live ticket is at the head of one of them. FLUSH waits for it. A write
//!    enters only if that ticket is near enough. Each page leaves at its own distance between `begins` and `certain`.
//!    So the sizes of `papers/003` §3.1 hold by construction: a page may leave after `begins` more pages and has left
//!    after `certain`.
//! 2. At most one version of a page is issued; a newer one waits. So versions reach the flash in order.
//! 3. While a FLUSH covers a waiting page, a new write of the page does not move it back. Its newer content serves the
//!    FLUSH.
//!
//! With [`EvictionOrder::Unspecified`] any waiting page may leave next if more than `begins` wait; writes enter while
//! fewer than `certain` wait. Then no number of further pages makes it certain that a page has left.

use onewrite_block::{EvictionOrder, Page};
use rustc_hash::FxHashMap;

use crate::address::Lpn;

/// Names an entry of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryId(u32);

impl EntryId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Marks the end of a list.
const NIL: EntryId = EntryId(u32::MAX);

/// When a page leaves the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// In its turn.
    InTurn,
    /// Before its turn: a request waits for it (FUA, source of a SHARE).
    Urgent,
}

/// A page in the buffer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The logical page.
    pub(crate) lpn: Lpn,
    /// Its newest content; `None` for a tombstone.
    pub(crate) content: Option<Page>,
    /// Its position in the order.
    pub(crate) ticket: u64,
    /// The ticket of its newest content.
    pub(crate) version: u64,
    /// The version on its way to flash; 0 if none.
    pub(crate) issued: u64,
    /// Whether it must reach flash before its turn (FUA, source of a SHARE).
    pub(crate) is_urgent: bool,
    before: EntryId,
    after: EntryId,
}

/// The list of an entry.
#[derive(Clone, Copy, Debug)]
enum Side {
    Waiting,
    Issued,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: EntryId,
    last: EntryId,
    length: u32,
}

const EMPTY: List = List { first: NIL, last: NIL, length: 0 };

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    entries: Vec<Entry>,
    unused: Vec<EntryId>,
    by_lpn: FxHashMap<Lpn, EntryId>,
    waiting: List,
    issued: List,
    next_ticket: u64,
    /// Highest ticket that a FLUSH under way covers.
    pub(crate) flush_target: u64,
    urgent_count: u32,
    begins: u64,
    certain: u64,
    order: EvictionOrder,
}

impl Buffer {
    /// An empty buffer. Pages may leave after `begins` further pages and have left after `certain`.
    pub(crate) fn new(begins: u64, certain: u64, order: EvictionOrder) -> Buffer {
        Buffer {
            entries: Vec::new(),
            unused: Vec::new(),
            by_lpn: FxHashMap::default(),
            waiting: EMPTY,
            issued: EMPTY,
            next_ticket: 1,
            flush_target: 0,
            urgent_count: 0,
            begins,
            certain,
            order,
        }
    }

    /// The entry of a logical page.
    #[inline]
    pub(crate) fn find(&self, lpn: Lpn) -> Option<EntryId> {
        if self.by_lpn.is_empty() { None } else { self.by_lpn.get(&lpn).copied() }
    }

    /// An entry.
    pub(crate) fn entry(&self, id: EntryId) -> &Entry {
        &self.entries[id.index()]
    }

    /// The ticket of the newest write.
    pub(crate) fn newest_ticket(&self) -> u64 {
        self.next_ticket - 1
    }

    /// The oldest ticket of a page that is not durable yet.
    pub(crate) fn oldest_ticket(&self) -> Option<u64> {
        let ticket = |list: &List| (list.first != NIL).then(|| self.entries[list.first.index()].ticket);
        ticket(&self.waiting).into_iter().chain(ticket(&self.issued)).min()
    }

    /// Whether one more page may enter.
    pub(crate) fn has_room(&self) -> bool {
        match self.order {
            EvictionOrder::LeastRecentlyWritten => {
                self.oldest_ticket().is_none_or(|oldest| oldest + self.certain > self.next_ticket + 1)
            }
            EvictionOrder::Unspecified => u64::from(self.length()) + 1 < self.certain,
        }
    }

    /// Pages in the buffer.
    pub(crate) fn length(&self) -> u32 {
        self.waiting.length + self.issued.length
    }

    /// Whether the first waiting page should leave. With `slack`, it waits for that many more pages, to fill a whole
    /// program.
    fn first_is_due(&self, slack: u64) -> bool {
        self.waiting.first != NIL && self.is_in_turn(self.entries[self.waiting.first.index()].ticket, slack)
    }

    fn is_in_turn(&self, ticket: u64, slack: u64) -> bool {
        let is_due = match self.order {
            EvictionOrder::LeastRecentlyWritten => {
                ticket + self.begins + self.patience(ticket) + slack < self.next_ticket
            }
            EvictionOrder::Unspecified => u64::from(self.waiting.length) > self.begins + slack,
        };
        is_due || ticket <= self.flush_target
    }

    /// The extra wait of a page beyond `begins`: pseudo-random, up to three quarters of the way to `certain`. The rest
    /// is for its program.
    fn patience(&self, ticket: u64) -> u64 {
        let span = (self.certain - self.begins) * 3 / 4;
        (scattered(ticket) * span) >> 32
    }

    /// Whether pages should leave now: `group` of them together, or fewer if a request waits for them.
    pub(crate) fn is_due_in_groups(&self, group: u64) -> bool {
        self.urgent_count > 0 || self.first_is_due(group - 1) || (self.first_is_due(0) && !self.has_room())
    }

    /// Adds a write (`Some`) or a tombstone (`None`); returns its ticket.
    pub(crate) fn put(&mut self, lpn: Lpn, content: Option<Page>, urgency: Urgency) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        match self.find(lpn) {
            Some(id) => self.renew(id, content, ticket),
            None => self.insert(lpn, content, ticket),
        }
        if urgency == Urgency::Urgent {
            self.hurry(lpn);
        }
        ticket
    }

    fn renew(&mut self, id: EntryId, content: Option<Page>, ticket: u64) {
        let flush_target = self.flush_target;
        let entry = &mut self.entries[id.index()];
        onewrite_block::reached!("page written again while it is programmed", entry.issued > 0);
        entry.content = content;
        entry.version = ticket;
        if entry.issued == 0 && entry.ticket > flush_target {
            self.remove_from(id, Side::Waiting);
            self.entries[id.index()].ticket = ticket;
            self.append_to(id, Side::Waiting);
        }
    }

    fn insert(&mut self, lpn: Lpn, content: Option<Page>, ticket: u64) {
        let entry =
            Entry { lpn, content, ticket, version: ticket, issued: 0, is_urgent: false, before: NIL, after: NIL };
        let id = match self.unused.pop() {
            Some(id) => {
                self.entries[id.index()] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                EntryId(self.entries.len() as u32 - 1)
            }
        };
        self.by_lpn.insert(lpn, id);
        self.append_to(id, Side::Waiting);
    }

    /// Makes a page leave before its turn, if it is in the buffer.
    pub(crate) fn hurry(&mut self, lpn: Lpn) {
        if let Some(id) = self.find(lpn) {
            let entry = &mut self.entries[id.index()];
            self.urgent_count += u32::from(!entry.is_urgent && entry.issued == 0);
            entry.is_urgent = true;
        }
    }

    /// The next page that is due and for which `is_ready` holds.
    pub(crate) fn next_due(&self, is_ready: impl Fn(&Entry) -> bool) -> Option<EntryId> {
        let mut urgent_left = self.urgent_count;
        let mut id = self.waiting.first;
        let mut candidate = None;
        while id != NIL {
            let entry = &self.entries[id.index()];
            let is_in_turn = self.is_in_turn(entry.ticket, 0);
            if !is_in_turn && urgent_left == 0 {
                break;
            }
            if entry.is_urgent {
                urgent_left -= 1;
                if is_ready(entry) {
                    return Some(id);
                }
            } else if is_in_turn && candidate.is_none() && is_ready(entry) {
                candidate = Some(id);
            }
            if candidate.is_some() && urgent_left == 0 {
                break;
            }
            id = entry.after;
        }
        let first = candidate?;
        match self.order {
            EvictionOrder::LeastRecentlyWritten => Some(first),
            EvictionOrder::Unspecified => Some(self.any_instead_of(first, is_ready)),
        }
    }

    /// A pseudo-random waiting page for which `is_ready` holds; `first` if a FLUSH waits for it or the choice is not
    /// ready.
    fn any_instead_of(&self, first: EntryId, is_ready: impl Fn(&Entry) -> bool) -> EntryId {
        if self.entries[first.index()].ticket <= self.flush_target {
            return first;
        }
        let chance = scattered(scattered(self.next_ticket) ^ u64::from(self.waiting.length) << 32);
        let steps = (chance * u64::from(self.waiting.length)) >> 32;
        let id = (0..steps).fold(self.waiting.first, |id, _| self.entries[id.index()].after);
        if is_ready(&self.entries[id.index()]) { id } else { first }
    }

    /// Marks the newest content of a waiting page as on its way.
    pub(crate) fn issue(&mut self, id: EntryId) {
        self.remove_from(id, Side::Waiting);
        let entry = &mut self.entries[id.index()];
        entry.issued = entry.version;
        self.urgent_count -= u32::from(entry.is_urgent);
        self.append_to(id, Side::Issued);
    }

    /// The version on its way is in flash. The page leaves unless it has newer content; a tombstone leaves too.
    pub(crate) fn programmed(&mut self, id: EntryId) -> Programmed {
        self.remove_from(id, Side::Issued);
        let entry = &mut self.entries[id.index()];
        let version = std::mem::take(&mut entry.issued);
        let is_newest = entry.version == version;
        let is_trimmed = entry.content.is_none();
        if is_newest || is_trimmed {
            self.forget(id);
        } else {
            self.wait_again(id);
        }
        Programmed { version, is_trimmed }
    }

    /// The version on its way could not be programmed. The page waits again.
    pub(crate) fn program_failed(&mut self, id: EntryId) {
        self.remove_from(id, Side::Issued);
        self.entries[id.index()].issued = 0;
        self.wait_again(id);
    }

    fn wait_again(&mut self, id: EntryId) {
        self.urgent_count += u32::from(self.entries[id.index()].is_urgent);
        self.append_to(id, Side::Waiting);
    }

    /// Drops a waiting page.
    pub(crate) fn drop_waiting(&mut self, id: EntryId) {
        self.remove_from(id, Side::Waiting);
        self.urgent_count -= u32::from(self.entries[id.index()].is_urgent);
        self.forget(id);
    }

    fn forget(&mut self, id: EntryId) {
        let entry = &mut self.entries[id.index()];
        entry.content = None;
        let lpn = entry.lpn;
        self.by_lpn.remove(&lpn);
        self.unused.push(id);
    }

    /// All pages: the waiting ones first, each list in its order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let walk = |first: EntryId| {
            std::iter::successors((first != NIL).then_some(first), |&id| {
                let after = self.entries[id.index()].after;
                (after != NIL).then_some(after)
            })
        };
        walk(self.waiting.first).chain(walk(self.issued.first)).map(|id| &self.entries[id.index()])
    }

    fn list(&mut self, side: Side) -> &mut List {
        match side {
            Side::Waiting => &mut self.waiting,
            Side::Issued => &mut self.issued,
        }
    }

    /// Inserts an entry after all entries with a lower ticket. Searches from the end, where it almost always belongs.
    fn append_to(&mut self, id: EntryId, side: Side) {
        let ticket = self.entries[id.index()].ticket;
        let mut before = self.list(side).last;
        while before != NIL && self.entries[before.index()].ticket > ticket {
            before = self.entries[before.index()].before;
        }
        let after = match before {
            NIL => std::mem::replace(&mut self.list(side).first, id),
            other => std::mem::replace(&mut self.entries[other.index()].after, id),
        };
        match after {
            NIL => self.list(side).last = id,
            other => self.entries[other.index()].before = id,
        }
        let entry = &mut self.entries[id.index()];
        (entry.before, entry.after) = (before, after);
        self.list(side).length += 1;
    }

    fn remove_from(&mut self, id: EntryId, side: Side) {
        let Entry { before, after, .. } = self.entries[id.index()];
        match before {
            NIL => self.list(side).first = after,
            other => self.entries[other.index()].after = after,
        }
        match after {
            NIL => self.list(side).last = before,
            other => self.entries[other.index()].before = before,
        }
        self.list(side).length -= 1;
    }

    /// Verifies order, lengths and the table.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = self.entries().count();
        if count != self.by_lpn.len() || count != self.length() as usize {
            return Err(format!("{count} pages in the buffer's lists, {} in its table", self.by_lpn.len()));
        }
        let urgent = self.entries().filter(|entry| entry.is_urgent && entry.issued == 0).count();
        if urgent != self.urgent_count as usize {
            return Err(format!("{urgent} urgent pages, {} counted", self.urgent_count));
        }
        let oldest = self.entries().map(|entry| entry.ticket).min();
        if oldest != self.oldest_ticket() {
            return Err(format!("the buffer's oldest ticket is {oldest:?}, not {:?}", self.oldest_ticket()));
        }
        Ok(())
    }
}

/// 32 pseudo-random bits that depend only on `number`.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// A version that has reached the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Programmed {
    /// Its ticket.
    pub(crate) version: u64,
    /// Whether the page was trimmed meanwhile. Then the flash page must be unmapped.
    pub(crate) is_trimmed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pages: u32) -> Buffer {
        let mut buffer = Buffer::new(4, 8, EvictionOrder::LeastRecentlyWritten);
        (0..pages).for_each(|lpn| {
            buffer.put(Lpn(lpn), Some(Page::ZEROS), Urgency::InTurn);
        });
        buffer
    }

    #[test]
    fn pages_begin_to_leave_and_have_left_at_the_stated_sizes() {
        assert!(!filled(4).is_due_in_groups(1));
        assert!(filled(8).is_due_in_groups(1));
        assert!(filled(6).has_room());
        assert!(!filled(7).has_room(), "the eighth page comes in when the first has left");
    }

    #[test]
    fn in_no_order_the_oldest_page_may_outlast_any_number_of_others() {
        let mut buffer = Buffer::new(4, 8, EvictionOrder::Unspecified);
        let mut outlasted = 0;
        for lpn in 0..1000 {
            buffer.put(Lpn(lpn), Some(Page::ZEROS), Urgency::InTurn);
            while let Some(id) = buffer.next_due(|_| true) {
                let oldest = buffer.entries().map(|entry| entry.lpn.0).min();
                outlasted += u32::from(oldest.is_some_and(|oldest| oldest + 16 < lpn));
                buffer.issue(id);
                buffer.programmed(id);
            }
            buffer.check().unwrap();
        }
        assert!(outlasted > 10, "{outlasted}");
    }

    #[test]
    fn a_page_written_again_while_issued_stays_and_waits_its_turn() {
        let mut buffer = filled(8);
        let id = buffer.next_due(|_| true).unwrap();
        buffer.issue(id);
        buffer.put(Lpn(0), None, Urgency::InTurn);
        buffer.check().unwrap();
        assert_eq!(buffer.programmed(id), Programmed { version: 1, is_trimmed: true });
        assert_eq!(buffer.find(Lpn(0)), None);
        buffer.check().unwrap();
    }

    #[test]
    fn a_page_that_a_flush_covers_keeps_its_place_when_written_again() {
        let mut buffer = filled(3);
        buffer.flush_target = buffer.newest_ticket();
        buffer.put(Lpn(0), Some(Page::ZEROS), Urgency::InTurn);
        assert_eq!(buffer.oldest_ticket(), Some(1));
        assert_eq!(buffer.entry(buffer.next_due(|_| true).unwrap()).lpn, Lpn(0));
    }
}
