//! Age: the past of a device, written before any measurement.
//!
//! The flash of a new device is blank: the first writes take free blocks and need no collection and no merge. A used
//! device has no blank blocks left: a write has its steady cost from the start. The past belongs to another user: every
//! page holds content (zeros, which take no memory), and no page was trimmed. After the past the device rests. Time and
//! counters start again; wear stays.

use onewrite_block::Choices;

use crate::address::Lpn;

/// Writes that the device got before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Age {
    /// Nothing.
    #[default]
    New,
    /// Every page once, in order.
    Filled,
    /// Every page once in order, then single pages at random over the whole device. It ends when write amplification is
    /// steady or two capacities are written.
    Steady,
}

/// Seed of the random pages.
const SEED: u64 = 1;
/// Random writes end after this many capacities at the latest.
const CAPACITIES_MAX: u64 = 2;
/// Write amplification is steady if two successive spans differ by less than this share.
const RESTS_WITHIN: f64 = 0.03;

impl Age {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Age::New => "none",
            Age::Filled => "filled",
            Age::Steady => "steady",
        }
    }
}

/// How write amplification is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    /// Pages of a span.
    pub(crate) pages: u64,
    /// First spans that do not count.
    pub(crate) ignored: u64,
}

impl Spans {
    /// For layers that collect when their spare blocks are used up; the ignored spans use them up.
    pub(crate) fn of_pages(logical_pages: u64) -> Spans {
        Spans { pages: (logical_pages / 8).max(1), ignored: 4 }
    }

    /// For layers with log blocks. They merge as soon as the log blocks are full.
    pub(crate) fn of_blocks(logical_pages: u64, log_pages: u64) -> Spans {
        Spans { pages: log_pages.clamp(1, (logical_pages / 8).max(1)), ignored: 2 }
    }
}

/// Writes pages at random until write amplification is steady. `write` writes a span of pages and returns the flash
/// pages programmed.
pub(crate) fn until_steady(logical_pages: u64, spans: Spans, mut write: impl FnMut(&[Lpn]) -> u64) {
    let mut choices = Choices::new(SEED).stream("age", 0);
    let mut before = f64::INFINITY;
    for span in 0..(CAPACITIES_MAX * logical_pages).div_ceil(spans.pages) {
        let pages: Vec<Lpn> = (0..spans.pages).map(|_| Lpn(choices.below(logical_pages) as u32)).collect();
        let programmed = write(&pages) as f64 / spans.pages as f64;
        if span >= spans.ignored && (programmed - before).abs() <= RESTS_WITHIN * before {
            return;
        }
        before = programmed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_writes_end_when_amplification_rests_or_after_two_capacities() {
        let mut spans = 0;
        until_steady(8000, Spans::of_pages(8000), |pages| {
            spans += 1;
            pages.len() as u64 * 2
        });
        assert_eq!(spans, 5, "the first is compared with none, four are not judged");
        let mut spans = 0;
        until_steady(8000, Spans::of_pages(8000), |pages| {
            spans += 1;
            pages.len() as u64 * spans
        });
        assert_eq!(spans, 16);
    }
}
