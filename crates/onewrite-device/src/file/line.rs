//! Line: which requests run together, and which wait for others.
//!
//! Its one idea: requests that touch the same pages keep their order of arrival, unless all of them read. So a page
//! reads as if the requests ran one after another. The kernel does many at once in any order, and without this rule a
//! read could see half of a write.
//!
//! # Invariants
//! - No two requests under way conflict ([`Footprint::conflicts`]).
//! - A request waits only while it conflicts with one that came before it.
//! - One FLUSH or SHARE is under way at a time. The kernel reports each failed write-back to one `fdatasync` only, so a
//!   second one beside it would succeed. Waiting FLUSHes go together: one `fdatasync`, started after all of them came,
//!   covers each.

use std::collections::VecDeque;
use std::ops::Range;

use onewrite_block::{Lpn, Operation, Token};

/// The pages and durability that a request touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Footprint {
    Reads(Range<u64>),
    /// A write or trim of pages.
    Changes(Range<u64>),
    Flush,
    /// A SHARE: conflicts with any page, and makes content durable as a FLUSH does.
    Share,
}

impl Footprint {
    pub(super) fn of(operation: &Operation) -> Footprint {
        let pages = |start: &Lpn, count: u64| start.0..start.0 + count;
        match operation {
            Operation::Read { start, count } => Footprint::Reads(pages(start, u64::from(*count))),
            Operation::Write { start, pages: content, .. } => Footprint::Changes(pages(start, content.len() as u64)),
            Operation::Trim { start, count } => Footprint::Changes(pages(start, *count)),
            Operation::Flush => Footprint::Flush,
            Operation::Share(_) => Footprint::Share,
        }
    }

    fn conflicts(&self, other: &Footprint) -> bool {
        let overlap = |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
        match (self, other) {
            (Footprint::Share, _) | (_, Footprint::Share) | (Footprint::Flush, Footprint::Flush) => true,
            (Footprint::Flush, _) | (_, Footprint::Flush) => false,
            (Footprint::Reads(_), Footprint::Reads(_)) => false,
            (Footprint::Reads(one) | Footprint::Changes(one), Footprint::Reads(other) | Footprint::Changes(other)) => {
                overlap(one, other)
            }
        }
    }
}

/// The requests that complete together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) first: Token,
    /// The other FLUSHes that this one covers.
    pub(super) others: Vec<Token>,
}

#[derive(Debug)]
struct Entry<T> {
    tokens: Tokens,
    footprint: Footprint,
    load: T,
}

/// See the module's head. A `T` is the work of a request.
#[derive(Debug)]
pub(super) struct Line<T> {
    /// Indexed by number.
    under_way: Vec<Option<(Footprint, Tokens)>>,
    waiting: VecDeque<Entry<T>>,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line { under_way: Vec::new(), waiting: VecDeque::new() }
    }
}

impl<T> Line<T> {
    /// Takes a request in; [`Line::next`] gives it when it may begin.
    pub(super) fn join(&mut self, token: Token, footprint: Footprint, load: T) {
        let tokens = Tokens { first: token, others: Vec::new() };
        self.waiting.push_back(Entry { tokens, footprint, load });
    }

    /// The next request that may begin now, and its number. It is under way until [`Line::leave`].
    pub(super) fn next(&mut self) -> Option<(usize, T)> {
        let index = (0..self.waiting.len()).find(|&index| self.may_begin(index))?;
        let mut entry = self.waiting.remove(index).expect("just found");
        if entry.footprint == Footprint::Flush {
            self.gather_flushes(&mut entry);
        }
        let number = self.under_way.iter().position(Option::is_none).unwrap_or(self.under_way.len());
        if number == self.under_way.len() {
            self.under_way.push(None);
        }
        self.under_way[number] = Some((entry.footprint, entry.tokens));
        Some((number, entry.load))
    }

    /// Ends the request of this number; returns the tokens to complete.
    ///
    /// # Panics
    /// If it is not under way.
    pub(super) fn leave(&mut self, number: usize) -> Tokens {
        let (_, tokens) = self.under_way[number].take().expect("what ends is under way");
        tokens
    }

    /// Whether no request is under way and none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.under_way.iter().all(Option::is_none)
    }

    fn may_begin(&self, index: usize) -> bool {
        let footprint = &self.waiting[index].footprint;
        let before = self.waiting.iter().take(index).map(|entry| &entry.footprint);
        let under_way = self.under_way.iter().flatten().map(|(footprint, _)| footprint);
        !under_way.chain(before).any(|other| footprint.conflicts(other))
    }

    /// Adds the waiting FLUSHes before the next SHARE to `entry`.
    fn gather_flushes(&mut self, entry: &mut Entry<T>) {
        let end = self.waiting.iter().position(|other| other.footprint == Footprint::Share);
        let mut place = 0;
        let end = end.unwrap_or(self.waiting.len());
        self.waiting.retain_mut(|other| {
            let goes_along = place < end && other.footprint == Footprint::Flush;
            place += 1;
            if goes_along {
                entry.tokens.others.push(other.tokens.first);
            }
            !goes_along
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `r3-5` reads pages 3 and 4; `w` writes, `f` flushes, `s` shares.
    fn footprint(text: &str) -> Footprint {
        let range = || {
            let (start, end) = text[1..].split_once('-').unwrap();
            start.parse().unwrap()..end.parse().unwrap()
        };
        match &text[..1] {
            "r" => Footprint::Reads(range()),
            "w" => Footprint::Changes(range()),
            "f" => Footprint::Flush,
            _ => Footprint::Share,
        }
    }

    fn line(texts: &[&str]) -> Line<()> {
        let mut line = Line::default();
        texts.iter().zip(0..).for_each(|(text, token)| line.join(Token(token), footprint(text), ()));
        line
    }

    /// The requests that begin together in each round, by their index in `texts`.
    fn rounds(texts: &[&str]) -> Vec<Vec<Vec<u32>>> {
        let (mut line, mut rounds) = (line(texts), Vec::new());
        while !line.is_empty() {
            let begun: Vec<_> = std::iter::from_fn(|| line.next()).collect();
            rounds.push(begun.into_iter().map(|(number, ())| told(&mut line, number)).collect());
        }
        rounds
    }

    /// Ends a request; returns the tokens to complete.
    fn told(line: &mut Line<()>, number: usize) -> Vec<u32> {
        let Tokens { first, others } = line.leave(number);
        [first].into_iter().chain(others).map(|token| token.0).collect()
    }

    #[test]
    fn requests_on_different_pages_and_reads_go_together() {
        assert_eq!(rounds(&["w0-4", "w4-8", "r8-9", "r8-12", "f"]), [[[0], [1], [2], [3], [4]]]);
    }

    #[test]
    fn requests_on_the_same_page_keep_their_order() {
        assert_eq!(rounds(&["w0-4", "r3-5", "w4-5", "r9-10"]), [vec![vec![0], vec![3]], vec![vec![1]], vec![vec![2]]]);
    }

    #[test]
    fn flushes_that_wait_go_together_and_none_beside_another() {
        let mut line = line(&["f"]);
        let (first, ()) = line.next().unwrap();
        (1..3).for_each(|token| line.join(Token(token), Footprint::Flush, ()));
        assert!(line.next().is_none());
        assert_eq!(told(&mut line, first), [0]);
        let (second, ()) = line.next().unwrap();
        assert_eq!(told(&mut line, second), [1, 2]);
    }

    #[test]
    fn a_share_goes_alone_and_nobody_passes_it() {
        let expected = [vec![vec![0], vec![1]], vec![vec![2]], vec![vec![3, 5], vec![4]]];
        assert_eq!(rounds(&["w0-1", "f", "s", "f", "r7-8", "f"]), expected);
    }
}
