//! Chooser: chooses the block of a random access, if not all blocks are equally likely.

use onewrite_block::Choices;

use crate::job::{Amount, Direction, Distribution, Options, PerDirection, ZoneShare};
use crate::workload::{Normal, Pareto, Zipf};

/// A part of the file with a share of the accesses.
#[derive(Clone, Copy, Debug)]
struct Zone {
    /// Shares of this part and the parts before it together, in percent.
    until: u64,
    /// First byte.
    begin: u64,
    /// First byte after it.
    end: u64,
}

/// The distribution of the accesses of one job in one file.
pub(crate) enum Chooser {
    /// All blocks alike.
    Uniform,
    /// Zipf's law.
    Zipf(Zipf),
    /// Pareto's law.
    Pareto(Pareto),
    /// The normal distribution.
    Normal(Normal),
    /// Parts with shares, for each direction.
    Zoned(Box<PerDirection<Zones>>),
}

/// The parts of a file.
pub(crate) struct Zones {
    parts: Vec<Zone>,
    bytes: u64,
}

impl Chooser {
    /// The distribution of a job with `options` over `bytes` bytes.
    pub(super) fn new(options: &Options, bytes: u64, choices: &mut Choices) -> Chooser {
        let blocks = bytes.div_ceil(options.block_size_least()).max(1);
        match &options.distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Zipf { theta, center } => Chooser::Zipf(Zipf::new(blocks, *theta, *center, choices)),
            Distribution::Pareto { h, center } => Chooser::Pareto(Pareto::new(blocks, *h, *center, choices)),
            Distribution::Normal { deviation, center } => {
                Chooser::Normal(Normal::new(blocks, *deviation / 100.0, center.unwrap_or(0.5)))
            }
            Distribution::Zoned(shares) => Chooser::Zoned(Box::new(PerDirection {
                read: zones(&shares.read, bytes),
                write: zones(&shares.write, bytes),
                trim: zones(&shares.trim, bytes),
            })),
        }
    }

    /// Draws one of `blocks` blocks for an access in `direction`; `None` if all are alike.
    pub(super) fn draw(&self, direction: Direction, blocks: u64, choices: &mut Choices) -> Option<u64> {
        match self {
            Chooser::Uniform => None,
            Chooser::Zipf(zipf) => Some(zipf.draw(choices)),
            Chooser::Pareto(pareto) => Some(pareto.draw(choices)),
            Chooser::Normal(normal) => Some(normal.draw(choices)),
            Chooser::Zoned(zones) => Some(zones.of(direction).draw(blocks, choices)),
        }
    }
}

/// The place of each part in a file of `bytes` bytes; parts beyond its end are shortened.
fn zones(shares: &[ZoneShare], bytes: u64) -> Zones {
    let (mut until, mut begin) = (0, 0);
    let parts = shares.iter().map(|share| {
        until += u64::from(share.accesses);
        let extent = match share.extent {
            Amount::Bytes(extent) => extent,
            percent @ Amount::Percent(_) => percent.of(bytes),
        };
        let zone = Zone { until, begin, end: begin.saturating_add(extent).min(bytes) };
        begin = zone.end;
        zone
    });
    Zones { parts: parts.collect(), bytes }
}

impl Zones {
    fn draw(&self, blocks: u64, choices: &mut Choices) -> u64 {
        let drawn = choices.below(100);
        let zone = self.parts.iter().find(|zone| drawn < zone.until).or(self.parts.last()).expect("one part at least");
        let block = |byte: u64| (u128::from(byte) * u128::from(blocks) / u128::from(self.bytes.max(1))) as u64;
        let (begin, end) = (block(zone.begin), block(zone.end));
        // A part smaller than a block means the block in which it lies.
        (begin + choices.below((end - begin).max(1))).min(blocks - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobFile;

    fn shares(distribution: &str, bytes: u64) -> Vec<usize> {
        let text = format!("[a]\nrw=randwrite\nsize={bytes}\nrandom_distribution={distribution}\n");
        let options = JobFile::parse("t", &text).unwrap().jobs.remove(0).options;
        let mut choices = Choices::new(1);
        let chooser = Chooser::new(&options, bytes, &mut choices);
        let blocks = bytes / 4096;
        let mut tenths = vec![0; 10];
        for _ in 0..10_000 {
            let block = chooser.draw(Direction::Write, blocks, &mut choices).unwrap();
            tenths[(block * 10 / blocks) as usize] += 1;
        }
        tenths
    }

    #[test]
    fn zones_get_their_share() {
        let tenths = shares("zoned:60/10:30/20:8/30:2/40", 40_960_000);
        let sums = [tenths[0], tenths[1] + tenths[2], tenths[3..6].iter().sum(), tenths[6..].iter().sum()];
        let near = |found: usize, expected: usize| found.abs_diff(expected) < 200;
        assert!(near(sums[0], 6000) && near(sums[1], 3000) && near(sums[2], 800) && near(sums[3], 200), "{sums:?}");
    }

    #[test]
    fn zones_may_be_given_in_bytes() {
        let tenths = shares("zoned_abs:90/4096k:10/100m", 40 << 20);
        assert!(tenths[0].abs_diff(9000) < 200, "{tenths:?}");
    }

    #[test]
    fn the_normal_distribution_lies_around_its_centre() {
        let tenths = shares("normal:10", 40_960_000);
        assert!(tenths[4] + tenths[5] > 6300 && tenths[0] + tenths[9] < 20, "{tenths:?}");
        let tenths = shares("normal:5:0.25", 40_960_000);
        assert!(tenths[2] > 6300, "{tenths:?}");
    }
}
