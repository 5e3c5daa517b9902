//! A SHARE whose sources are overwritten while it is under way, on a device that collects garbage: after a cut all of
//! its targets are as before, or none is.

use onewrite_block::{
    Cause, Choices, Completion, DeviceError, Durable, Lpn, MIB, Nanos, Operation, PAGE_SIZE, Page, PowerCut, Remap,
    Request, Token,
};
use onewrite_device::Profile;

const DEVICE_BYTES: u64 = 16 * MIB;
/// Pages that are shared; the others are only overwritten, so that there is garbage and a long record of the map.
const PAGES: u64 = 1024;
/// Pairs of a SHARE.
const PAIRS: usize = 64;

/// A device with the next content that nobody has written yet.
struct Desk {
    device: Box<dyn PowerCut>,
    now: Nanos,
    choices: Choices,
    version: u64,
    token: u32,
    /// Requests under way.
    under_way: usize,
}

impl Desk {
    fn new(seed: u64) -> Desk {
        let device = Profile::load("nvme-share").unwrap().device(Some(DEVICE_BYTES)).unwrap();
        Desk { device, now: Nanos::ZERO, choices: Choices::new(seed), version: 0, token: 0, under_way: 0 }
    }

    fn submit(&mut self, operation: Operation) -> Token {
        self.token += 1;
        self.under_way += 1;
        self.device.submit(Token(self.token), Request::new(operation, Cause::Data), self.now);
        Token(self.token)
    }

    /// Submits a write of new content to one page.
    fn overwrite(&mut self, lpn: u64, durable: Durable) -> Token {
        self.version += 1;
        let pages = vec![Page::from_slice(&self.version.to_le_bytes())];
        self.submit(Operation::Write { start: Lpn(lpn), pages, durable })
    }

    /// Lets the next event happen; gives what ended with it.
    fn completions(&mut self) -> Vec<Completion> {
        self.now = self.device.next_event().moment().expect("a request goes on");
        let mut completed = Vec::new();
        self.device.advance(self.now, &mut completed);
        self.under_way -= completed.len();
        completed
    }

    /// Lets the next event happen; gives the requests that ended with it.
    fn step(&mut self) -> Vec<Token> {
        let completed = self.completions();
        completed.iter().for_each(|completion| assert!(completion.outcome.is_ok(), "{completion:?}"));
        completed.into_iter().map(|completion| completion.token).collect()
    }

    fn finish(&mut self, token: Token) {
        while !self.step().contains(&token) {}
    }

    /// Overwrites `count` random pages of `range`.
    fn churn(&mut self, range: std::ops::Range<u64>, count: u64) {
        for _ in 0..count {
            let lpn = range.start + self.choices.below(range.end - range.start);
            let written = self.overwrite(lpn, Durable::AfterFlush);
            self.finish(written);
        }
    }

    fn flush(&mut self) {
        let flushed = self.submit(Operation::Flush);
        self.finish(flushed);
    }

    /// The content of all pages after a cut now.
    fn after_a_cut(&mut self) -> Vec<Page> {
        let mut dark = self.device.fork();
        dark.cut(&mut self.choices);
        dark.recover(self.now).expect("it recovers");
        contents(&mut *dark, self.now + Nanos::from_secs(1))
    }

    /// Pairs of random pages that differ; sources have one target each, or two.
    fn pairs(&mut self, before: &[Page]) -> Vec<Remap> {
        let mut all: Vec<u64> = (0..PAGES).collect();
        let each = 1 + self.choices.index(2);
        let mut pairs = Vec::new();
        while pairs.len() < PAIRS {
            let mut taken = || all.swap_remove(self.choices.index(all.len()));
            let source = taken();
            let targets =
                std::iter::repeat_with(taken).filter(|target| before[*target as usize] != before[source as usize]);
            pairs.extend(targets.take(each).map(|target| Remap { target: Lpn(target), source: Lpn(source) }));
        }
        pairs
    }

    /// Overwrites the next of the sources in `left`, if the queue has room.
    fn overwrite_source(&mut self, left: &mut Vec<Lpn>) {
        if self.under_way < self.device.geometry().queue_depth as usize
            && let Some(source) = left.pop()
        {
            self.overwrite(source.0, Durable::OnCompletion);
        }
    }

    /// Shares while the sources are overwritten, and cuts at one event in four. Returns the cuts that found the targets
    /// as before, and those that found them changed.
    fn share(&mut self) -> [u64; 2] {
        let before = self.after_a_cut();
        let pairs = self.pairs(&before);
        let mut left: Vec<Lpn> = pairs.iter().map(|pair| pair.source).collect();
        left.dedup();
        let share = self.submit(Operation::Share(pairs.clone()));
        let mut found = [0; 2];
        while !self.step().contains(&share) {
            self.overwrite_source(&mut left);
            if self.choices.chance(1, 4) {
                let after = self.after_a_cut();
                let is_changed = |pair: &&Remap| before[pair.target.0 as usize] != after[pair.target.0 as usize];
                let changed = pairs.iter().filter(is_changed).count();
                assert!(changed == 0 || changed == PAIRS, "{changed} of {PAIRS} targets changed");
                found[usize::from(changed > 0)] += 1;
            }
        }
        while !left.is_empty() || self.under_way > 0 {
            self.overwrite_source(&mut left);
            self.step();
        }
        found
    }

    /// Shares, and trims the first source at once. Returns whether the SHARE was refused.
    fn share_and_trim(&mut self, before: &[Page]) -> bool {
        let pairs = self.pairs(before);
        let trimmed = pairs[0].source;
        let share = self.submit(Operation::Share(pairs.clone()));
        self.submit(Operation::Trim { start: trimmed, count: 1 });
        let mut outcome = Ok(Vec::new());
        while self.under_way > 0 {
            outcome = self.completions().into_iter().filter(|of| of.token == share).fold(outcome, |_, of| of.outcome);
        }
        let refused = match outcome {
            Ok(_) => false,
            Err(DeviceError::ShareSource { source_page }) => source_page == trimmed,
            Err(other) => panic!("{other}"),
        };
        self.flush();
        let after = self.after_a_cut();
        for Remap { target, source } in pairs {
            let from = if refused { target } else { source };
            assert!(after[target.0 as usize] == before[from.0 as usize], "{target}, refused: {refused}");
        }
        assert!(after[trimmed.0 as usize].is_zeros(), "{trimmed} was trimmed");
        let written = self.overwrite(trimmed.0, Durable::AfterFlush);
        self.finish(written);
        refused
    }
}

/// Reads all pages.
fn contents(device: &mut dyn PowerCut, mut now: Nanos) -> Vec<Page> {
    let mut all = Vec::new();
    for start in (0..PAGES).step_by(256) {
        let read = Operation::Read { start: Lpn(start), count: 256 };
        device.submit(Token(0), Request::new(read, Cause::Data), now);
        let mut completed = Vec::new();
        while completed.is_empty() {
            now = device.next_event().moment().expect("the read goes on");
            device.advance(now, &mut completed);
        }
        all.extend(completed.remove(0).outcome.expect("all pages can be read"));
    }
    all
}

#[test]
fn a_share_beside_writes_of_its_sources_is_whole_or_absent() {
    let (mut found, mut moved) = ([0; 2], 0);
    for seed in 0..4 {
        let mut desk = Desk::new(seed);
        let all = DEVICE_BYTES / PAGE_SIZE as u64;
        for lpn in 0..all {
            let written = desk.overwrite(lpn, Durable::AfterFlush);
            desk.finish(written);
        }
        for _ in 0..30 {
            desk.churn(0..PAGES, 150);
            desk.flush();
            desk.churn(PAGES..all, 2000);
            let of_round = desk.share();
            (found[0], found[1]) = (found[0] + of_round[0], found[1] + of_round[1]);
        }
        moved += desk.device.counters().moved_pages;
    }
    assert!(moved > 1000, "{moved} pages moved");
    assert!(found.iter().all(|cuts| *cuts > 100), "cuts fell on one side only: {found:?}");
}

#[test]
fn a_share_whose_source_is_trimmed_before_its_turn_is_refused_whole() {
    let (mut refused, rounds) = (0, 200);
    let mut desk = Desk::new(1);
    for lpn in 0..2 * PAGES {
        let written = desk.overwrite(lpn, Durable::AfterFlush);
        desk.finish(written);
    }
    for round in 0..rounds {
        desk.flush();
        let before = desk.after_a_cut();
        // The map log is busy with them, at another place in each round.
        desk.churn(PAGES..2 * PAGES, 100);
        desk.submit(Operation::Flush);
        (0..round % 20).for_each(|_| drop(desk.step()));
        refused += usize::from(desk.share_and_trim(&before));
    }
    assert!(0 < refused && refused < rounds, "{refused} of {rounds} refused");
}
