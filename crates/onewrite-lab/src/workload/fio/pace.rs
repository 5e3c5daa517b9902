//! Pace: when the next access may begin (`rate`), and whether enough accesses end (`rate_min`).

use onewrite_block::{Choices, Nanos};

use crate::error::LabError;
use crate::job::{Direction, Options, Pace};

const SECOND: u128 = 1_000_000_000;
/// Time at the beginning in which fio does not check the lower limits.
const SETTLING: Nanos = Nanos::from_secs(2);

/// The pace of one task.
pub(crate) struct Pacer {
    pace: Pace,
    /// Bytes of an access, if the limit is in accesses.
    unit: [u64; 3],
    issued_bytes: [u64; 3],
    /// When the next access may begin.
    due: [Nanos; 3],
    /// Bytes and accesses since the last check.
    done: [(u64, u64); 3],
    looked: Nanos,
}

impl Pacer {
    /// The pace of a job with `options`.
    pub(super) fn new(options: &Options) -> Pacer {
        let sizes = &options.block_sizes;
        let unit = [sizes.read.least(), sizes.write.least(), sizes.trim.least()];
        let (issued_bytes, due, done) = ([0; 3], [Nanos::ZERO; 3], [(0, 0); 3]);
        Pacer { pace: options.pace.clone(), unit, issued_bytes, due, done, looked: Nanos::ZERO }
    }

    /// Bytes a second that are allowed; zero is no limit.
    fn bytes_a_second(&self, direction: Direction) -> u64 {
        match *self.pace.bytes.of(direction) {
            0 => self.pace.accesses.of(direction).saturating_mul(self.unit[direction as usize]),
            bytes => bytes,
        }
    }

    /// When the next access in `direction` may begin.
    pub(super) const fn due(&self, direction: Direction) -> Nanos {
        self.due[direction as usize]
    }

    /// Counts an access of `bytes` that begins.
    pub(super) fn issue(&mut self, direction: Direction, bytes: u64, choices: &mut Choices) {
        let rate = self.bytes_a_second(direction);
        if rate == 0 {
            return;
        }
        let index = direction as usize;
        self.issued_bytes[index] += bytes;
        let even = |bytes: u64| (u128::from(bytes) * SECOND / u128::from(rate)).min(u128::from(u64::MAX / 4)) as u64;
        self.due[index] = match self.pace.poisson {
            false => Nanos(even(self.issued_bytes[index])),
            true => {
                let mean = even(self.unit[index]) as f64;
                let wait = -libm::log(1.0 - choices.fraction()) * mean;
                self.due[index] + Nanos(wait as u64)
            }
        };
    }

    /// Counts a pause of `span`; with `rate_ignore_thinktime` the job does not catch up on it.
    pub(crate) fn think(&mut self, span: Nanos) {
        if self.pace.ignores_thinking && !self.pace.poisson {
            for index in 0..3 {
                let direction = [Direction::Read, Direction::Write, Direction::Trim][index];
                let bytes = u128::from(self.bytes_a_second(direction)) * u128::from(span.0) / SECOND;
                self.issued_bytes[index] += bytes as u64;
            }
        }
    }

    /// Counts an access of `bytes` that has ended.
    pub(super) fn complete(&mut self, direction: Direction, bytes: u64) {
        let (total, count) = &mut self.done[direction as usize];
        *total += bytes;
        *count += 1;
    }

    /// Checks once in a cycle whether the job is fast enough.
    ///
    /// # Errors
    /// If it is not.
    pub(super) fn check(&mut self, now: Nanos) -> Result<(), LabError> {
        let span = now.saturating_sub(self.looked);
        if now < SETTLING || span < self.pace.cycle {
            // Accesses during the first seconds do not count.
            if now < SETTLING {
                self.looked = now;
                self.done = [(0, 0); 3];
            }
            return Ok(());
        }
        self.looked = now;
        let done = std::mem::take(&mut self.done);
        for direction in [Direction::Read, Direction::Write] {
            let (bytes, count) = done[direction as usize];
            let least = [
                ("rate_min", *self.pace.bytes_least.of(direction), bytes, "bytes"),
                ("rate_iops_min", *self.pace.accesses_least.of(direction), count, "accesses"),
            ];
            for (key, least, done, what) in least {
                let rate = u128::from(done) * SECOND / u128::from(span.0);
                // No access at all means that the job does not use this direction, or has not begun to.
                if done > 0 && rate < u128::from(least) {
                    return Err(LabError::Missed(format!(
                        "{key}={least} was not met: {rate} {what} a second at {} s",
                        now.as_secs_f64()
                    )));
                }
            }
        }
        Ok(())
    }
}
