//! Depth: searches the largest queue depth at which a job keeps to its latency (`latency_target`).
//!
//! ```text
//!                       kept: twice as deep, or half way to what was missed
//!                     ┌──────────┐
//!   depth 1 ──► ( window ) ──────┘
//!                 ▲   │ missed: half way to what was kept
//!                 └───┘
//!   the depth stays ──► all is forgotten ──► a last window, which is the result ──► end, or on (`latency_run`)
//! ```
//!
//! # Invariants
//! - 1 <= `depth` <= `most`. Every depth up to `kept` kept to the latency when it was last tried; `missed` did not.
//! - An access counts only in the window in which it began. So accesses from an earlier depth judge nothing.

use onewrite_block::Nanos;

use crate::job::LatencyAim;
use crate::workload::DepthFound;

/// Windows that a depth is kept before a job that goes on tries a larger one again.
const PATIENCE: u32 = 16;

/// What an access leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The search goes on, perhaps at another depth.
    GoesOn,
    /// The depth is found; measures so far belong to other depths.
    BeginsLast,
    /// The depth kept to the latency for a last window.
    IsDone,
    /// Depth one misses the latency, although every access must keep to it.
    IsImpossible,
}

/// The search of one task.
pub(crate) struct DepthSearch {
    aim: LatencyAim,
    most: u32,
    depth: u32,
    /// Largest depth that kept to the latency; zero before the first.
    kept: u32,
    missed: Option<u32>,
    /// Whether the depth has been found.
    is_last: bool,
    /// Windows in a row that kept to the latency at this depth.
    held: u32,
    window: Window,
}

#[derive(Default)]
struct Window {
    began: Nanos,
    accesses: u64,
    late: u64,
}

impl DepthSearch {
    /// A search between 1 and `most`; its first window begins at `began`.
    pub(super) fn new(aim: LatencyAim, most: u32, began: Nanos) -> DepthSearch {
        assert!(most > 0, "a task has a worker");
        let window = Window { began, ..Window::default() };
        DepthSearch { aim, most, depth: 1, kept: 0, missed: None, is_last: false, held: 0, window }
    }

    /// The current depth.
    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Counts an access that took `latency` and ended at `now`.
    pub(super) fn ended(&mut self, now: Nanos, latency: Nanos) -> Verdict {
        if now.saturating_sub(latency) < self.window.began {
            return Verdict::GoesOn;
        }
        let is_late = latency > self.aim.target;
        self.window.accesses += 1;
        self.window.late += u64::from(is_late);
        let is_spoilt = is_late && self.aim.percentile >= 100.0;
        if !is_spoilt && now - self.window.began < self.aim.window {
            return Verdict::GoesOn;
        }
        let is_kept = self.window.is_kept(self.aim.percentile);
        self.window = Window { began: now, ..Window::default() };
        if is_kept { self.keep() } else { self.miss() }
    }

    fn keep(&mut self) -> Verdict {
        let before = self.depth;
        self.kept = before;
        self.held += 1;
        if self.aim.goes_on && self.held >= PATIENCE {
            (self.missed, self.held) = (None, 0);
        }
        self.depth = match self.missed {
            Some(missed) => before + (missed - before) / 2,
            None => before.saturating_mul(2).min(self.most),
        };
        if self.depth != before {
            (self.is_last, self.held) = (false, 0);
            return Verdict::GoesOn;
        }
        match (self.aim.goes_on, std::mem::replace(&mut self.is_last, true)) {
            (true, _) => Verdict::GoesOn,
            (false, false) => Verdict::BeginsLast,
            (false, true) => Verdict::IsDone,
        }
    }

    fn miss(&mut self) -> Verdict {
        (self.is_last, self.held) = (false, 0);
        if self.depth == 1 {
            self.kept = 0;
            return if self.aim.percentile >= 100.0 { Verdict::IsImpossible } else { Verdict::GoesOn };
        }
        self.missed = Some(self.depth);
        // A depth that is no longer kept says nothing about the depths below it.
        self.kept = self.kept.min(self.depth - 1);
        self.depth = ((self.depth + self.kept) / 2).max(1);
        Verdict::GoesOn
    }

    /// The result so far.
    pub(super) fn found(&self) -> DepthFound {
        let LatencyAim { target, window, percentile, .. } = self.aim;
        DepthFound { depth: self.depth, is_kept: self.kept >= self.depth, target, percentile, window }
    }
}

impl Window {
    fn is_kept(&self, percentile: f64) -> bool {
        let kept = (self.accesses - self.late) as f64;
        kept * 100.0 >= percentile * self.accesses as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of ten accesses; an access takes a millisecond for each access under way.
    fn search(target_ms: u64, percentile: f64, most: u32, goes_on: bool) -> DepthSearch {
        let (target, window) = (Nanos::from_millis(target_ms), Nanos::from_millis(100));
        DepthSearch::new(LatencyAim { target, window, percentile, goes_on }, most, Nanos::ZERO)
    }

    /// The depths in the order in which they are tried, and how the search ends; `of_depth` gives the latency in
    /// milliseconds.
    fn depths(search: &mut DepthSearch, accesses: u64, of_depth: impl Fn(u32, u64) -> u64) -> (Vec<u32>, Verdict) {
        let mut depths = vec![search.depth()];
        for access in 1..=accesses {
            let now = Nanos::from_millis(access * 10);
            // Each access begins after the one before has ended, so none comes from an earlier window.
            let latency = Nanos::from_millis(of_depth(search.depth(), access)).min(Nanos::from_millis(10));
            let verdict = search.ended(now, latency);
            depths.push(search.depth());
            if !matches!(verdict, Verdict::GoesOn | Verdict::BeginsLast) {
                depths.dedup();
                return (depths, verdict);
            }
        }
        depths.dedup();
        (depths, Verdict::GoesOn)
    }

    #[test]
    fn the_depth_is_doubled_and_then_halved_into() {
        let mut search = search(5, 100.0, 64, false);
        assert_eq!(depths(&mut search, 1000, |depth, _| u64::from(depth)), (vec![1, 2, 4, 8, 6, 5], Verdict::IsDone));
        assert_eq!((search.found().depth, search.found().is_kept), (5, true));
    }

    #[test]
    fn the_largest_depth_is_found_if_it_is_fast_enough() {
        let mut search = search(9, 100.0, 6, false);
        assert_eq!(depths(&mut search, 1000, |depth, _| u64::from(depth)), (vec![1, 2, 4, 6], Verdict::IsDone));
    }

    #[test]
    fn a_share_of_the_accesses_may_be_late() {
        // One access in ten is late at any depth.
        let late = |_, access: u64| if access.is_multiple_of(10) { 9 } else { 1 };
        assert_eq!(depths(&mut search(5, 90.0, 4, false), 1000, late).1, Verdict::IsDone);
        assert_eq!(depths(&mut search(5, 100.0, 4, false), 1000, late).1, Verdict::IsImpossible);
        let mut strict = search(5, 95.0, 4, false);
        assert_eq!(depths(&mut strict, 1000, late), (vec![1], Verdict::GoesOn), "fio goes on at one, too");
        assert!(!strict.found().is_kept);
    }

    #[test]
    fn the_last_window_is_told_once() {
        let mut search = search(5, 100.0, 1, false);
        let verdicts = (1..=20).map(|access| search.ended(Nanos::from_millis(access * 10), Nanos::from_millis(1)));
        let verdicts: Vec<Verdict> = verdicts.filter(|verdict| *verdict != Verdict::GoesOn).collect();
        assert_eq!(verdicts, [Verdict::BeginsLast, Verdict::IsDone]);
    }

    #[test]
    fn a_run_that_goes_on_follows_a_device_that_changes() {
        let mut search = search(5, 100.0, 8, true);
        // After two seconds everything is twice as slow; after six it is fast again.
        let slow = |depth: u32, access| if (200..600).contains(&access) { depth * 2 } else { depth }.into();
        let (depths, verdict) = depths(&mut search, 2000, slow);
        assert_eq!(verdict, Verdict::GoesOn);
        assert_eq!(depths[..6], [1, 2, 4, 8, 6, 5]);
        assert!(depths[6..].contains(&2) && search.found().depth == 5, "{depths:?}");
    }

    #[test]
    fn what_began_before_a_window_judges_nothing() {
        let mut search = search(5, 100.0, 8, false);
        for access in 1..=10 {
            search.ended(Nanos::from_millis(access * 10), Nanos::from_millis(1));
        }
        assert_eq!(search.depth(), 2);
        assert_eq!(search.ended(Nanos::from_millis(101), Nanos::from_millis(50)), Verdict::GoesOn);
        assert_eq!(search.depth(), 2);
    }
}
