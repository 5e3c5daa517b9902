//! Turns: which file comes next, and whether the next access reads or writes.

use onewrite_block::Choices;

use crate::job::{Access, Direction, FileService, Options};

/// Chooses the next file (`file_service_type`).
pub(super) struct Turns {
    /// The current file, and the accesses that it has left.
    file: usize,
    accesses: u64,
    /// Whether each file has nothing left in this pass.
    exhausted: Vec<bool>,
}

impl Turns {
    /// The turns of `count` files.
    pub(super) fn new(count: usize) -> Turns {
        Turns { file: 0, accesses: 0, exhausted: vec![false; count] }
    }

    /// The next file; `None` if none has anything left. `has_begun` says that the job has had an access.
    pub(super) fn next(&mut self, options: &Options, has_begun: bool, choices: &mut Choices) -> Option<usize> {
        let count = self.exhausted.len();
        if self.accesses > 0 && !self.exhausted[self.file] {
            self.accesses -= 1;
            return Some(self.file);
        }
        let first = match options.service {
            FileService::Random => choices.below(count as u64) as usize,
            FileService::RoundRobin if has_begun || self.exhausted[self.file] => (self.file + 1) % count,
            FileService::RoundRobin | FileService::Sequential => self.file,
        };
        let file = (0..count).map(|step| (first + step) % count).find(|&file| !self.exhausted[file])?;
        self.file = file;
        self.accesses = options.service_accesses.saturating_sub(1);
        Some(file)
    }

    /// Notes that a file has nothing left in this pass.
    pub(crate) fn exhaust(&mut self, file: usize) {
        self.exhausted[file] = true;
        self.accesses = 0;
    }

    /// Begins another pass. Returns which files had nothing left.
    pub(crate) fn begin_pass(&mut self) -> Vec<bool> {
        self.accesses = 0;
        let none = vec![false; self.exhausted.len()];
        std::mem::replace(&mut self.exhausted, none)
    }
}

/// Chooses between reads and writes (`get_rw_ddir`): one direction goes on until its share is reached.
pub(super) struct Mix {
    direction: Direction,
    until: u64,
}

impl Mix {
    /// A mix that has not begun.
    pub(super) const fn new() -> Mix {
        Mix { direction: Direction::Read, until: 0 }
    }

    /// The next direction, after `counts` accesses of each.
    pub(super) fn next(&mut self, options: &Options, counts: &[u64; 3], choices: &mut Choices) -> Direction {
        match options.direction {
            Access::Only(direction) => direction,
            Access::TrimWrite => Direction::Trim,
            Access::Mixed => self.mixed(u64::from(options.read_percent), counts, choices),
        }
    }

    fn mixed(&mut self, share: u64, counts: &[u64; 3], choices: &mut Choices) -> Direction {
        if counts[self.direction as usize] >= self.until {
            let is_read = choices.below(100) < share;
            let direction = if is_read { Direction::Read } else { Direction::Write };
            if direction != self.direction {
                let other = if self.direction == Direction::Read { 100 - share } else { share };
                self.until = counts[self.direction as usize] * other / 100;
            }
            self.direction = direction;
        }
        self.direction
    }
}
