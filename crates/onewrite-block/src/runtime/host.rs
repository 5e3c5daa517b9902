//! Host profile: the costs of the machine above the device, so that computation is not free in virtual time.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::jobs::JobCost;
use crate::choices::Choices;
use crate::units::Nanos;

/// The processors of a host and its costs. `onewrite host measure` makes one; a TOML file keeps it.
///
/// Source of the default: Linux 6.18 on the machine of FACTS (2 cores), rounded. `onewrite host measure` prints the
/// same keys for any other machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProfile {
    /// Processors that tasks share.
    pub cores: usize,
    /// Time for which a task keeps its core while others wait for one, ns.
    #[serde(default = "slice_ns")]
    pub slice_ns: u64,
    /// How much longer than its cost a piece of work takes, ns, at the percentiles 50, 90, 99, 99.9 and 99.99:
    /// interrupts, the scheduler, cold caches. Between two percentiles it grows evenly.
    #[serde(default = "delays_ns")]
    pub delays_ns: [u64; 5],
    /// Switching to a task that was woken, ns.
    #[serde(default = "switch_ns")]
    pub switch_ns: u64,
    /// As `delays_ns`, of a switch: the time until the scheduler runs the task on a core that is free.
    #[serde(default = "switch_delays_ns")]
    pub switch_delays_ns: [u64; 5],
    /// Waking another task, ns of the one that wakes it.
    #[serde(default = "wake_ns")]
    pub wake_ns: u64,
    /// Granularity of the times of files, ns: the tick with which the kernel stamps them. What changes a file twice
    /// within one changes its inode once.
    #[serde(default = "tick_ns")]
    pub tick_ns: u64,
    /// Entering and leaving one system call, with its work in the file-system switch, ns.
    pub syscall_ns: u64,
    /// Submitting one block request and taking its completion, ns.
    pub submit_ns: u64,
    /// Copying between a user's buffer and the page cache, ns for each 4 KiB page.
    pub copy_page_ns: u64,
    /// Checksum, MB (10⁶ bytes) a second on one core.
    pub checksum_mb_per_s: u64,
    /// Compression (LZ4), MB of input a second on one core, of content that compresses to nothing, to half, not at
    /// all. Between these the time grows evenly with the compressed size.
    pub compress_mb_per_s: [u64; 3],
    /// Decompression (LZ4), MB of output a second on one core, of the same content.
    pub decompress_mb_per_s: [u64; 3],
}

/// An estimate of Linux's base slice on four cores; range 0.7 to 3 ms. Only compression works so long without a wait.
const fn slice_ns() -> u64 {
    2_250_000
}

/// Measured as `onewrite host measure` does (Linux 6.18, 2 cores), and so are the switch and the wake.
const fn delays_ns() -> [u64; 5] {
    [6, 10, 30, 60, 25_000]
}

const fn wake_ns() -> u64 {
    1_300
}

/// 250 ticks a second, as Debian's kernels have.
const fn tick_ns() -> u64 {
    4_000_000
}

const fn switch_ns() -> u64 {
    500
}

const fn switch_delays_ns() -> [u64; 5] {
    [30, 140, 300, 13_000, 28_000]
}

/// Parts of a million at which [`HostProfile::delays_ns`] has its values.
const DELAYED_PPM: [u64; 6] = [0, 500_000, 900_000, 990_000, 999_000, 999_900];

impl Default for HostProfile {
    fn default() -> HostProfile {
        HostProfile {
            cores: 4,
            slice_ns: slice_ns(),
            delays_ns: delays_ns(),
            switch_ns: switch_ns(),
            switch_delays_ns: switch_delays_ns(),
            wake_ns: wake_ns(),
            tick_ns: tick_ns(),
            syscall_ns: 700,
            submit_ns: 2_000,
            copy_page_ns: 400,
            checksum_mb_per_s: 10_000,
            compress_mb_per_s: [13_000, 400, 11_000],
            decompress_mb_per_s: [40_000, 1_800, 16_000],
        }
    }
}

/// Why a host profile was not accepted.
#[derive(Debug, Error)]
pub enum HostError {
    /// It is not TOML, or a key is missing, unknown or of the wrong type.
    #[error("host profile: {0}")]
    Syntax(#[from] Box<toml::de::Error>),
    /// A number that must not be zero.
    #[error("host profile: `{key}` must be at least 1")]
    Zero {
        /// The key.
        key: &'static str,
    },
    /// A number that no host has.
    #[error("host profile: `{key}` must be at most {most}")]
    TooLarge {
        /// The key.
        key: &'static str,
        /// The most that is taken.
        most: u64,
    },
}

/// Most cores of a host.
const CORES_MAX: u64 = 65_536;
/// Most nanoseconds of a cost, a delay, a slice or a tick.
const COST_MAX: u64 = 1_000_000_000;

impl HostProfile {
    /// A host with one core on which nothing costs time. Its ticks are the default's.
    pub const fn ideal() -> HostProfile {
        HostProfile {
            cores: 1,
            slice_ns: 1_000_000_000,
            delays_ns: [0; 5],
            switch_ns: 0,
            switch_delays_ns: [0; 5],
            wake_ns: 0,
            tick_ns: tick_ns(),
            syscall_ns: 0,
            submit_ns: 0,
            copy_page_ns: 0,
            checksum_mb_per_s: u64::MAX,
            compress_mb_per_s: [u64::MAX; 3],
            decompress_mb_per_s: [u64::MAX; 3],
        }
    }

    /// Reads a profile from TOML with the keys of this struct.
    ///
    /// # Errors
    /// [`HostError`] that names the key.
    pub fn from_toml(text: &str) -> Result<HostProfile, HostError> {
        let profile: HostProfile = toml::from_str(text).map_err(Box::new)?;
        let rates = [
            ("cores", profile.cores as u64),
            ("slice_ns", profile.slice_ns),
            ("tick_ns", profile.tick_ns),
            ("checksum_mb_per_s", profile.checksum_mb_per_s),
            ("compress_mb_per_s", least(profile.compress_mb_per_s)),
            ("decompress_mb_per_s", least(profile.decompress_mb_per_s)),
        ];
        let zero = rates.into_iter().find(|(_, value)| *value == 0).map(|(key, _)| HostError::Zero { key });
        zero.or_else(|| profile.too_large()).map_or(Ok(profile), Err)
    }

    fn too_large(&self) -> Option<HostError> {
        let costs = [
            ("slice_ns", self.slice_ns),
            ("delays_ns", most(self.delays_ns)),
            ("switch_ns", self.switch_ns),
            ("switch_delays_ns", most(self.switch_delays_ns)),
            ("wake_ns", self.wake_ns),
            ("tick_ns", self.tick_ns),
            ("syscall_ns", self.syscall_ns),
            ("submit_ns", self.submit_ns),
            ("copy_page_ns", self.copy_page_ns),
        ];
        let mut bounds = costs.map(|(key, value)| (key, value, COST_MAX)).to_vec();
        bounds.push(("cores", self.cores as u64, CORES_MAX));
        let wrong = bounds.into_iter().find(|(_, value, most)| value > most);
        wrong.map(|(key, _, most)| HostError::TooLarge { key, most })
    }

    /// How long one core is occupied by a job.
    pub fn cost(&self, cost: JobCost) -> Nanos {
        match cost {
            JobCost::Checksum { bytes } => Nanos(at_rate(bytes, self.checksum_mb_per_s)),
            JobCost::Compress { bytes, packed_bytes } => by_content(self.compress_mb_per_s, bytes, packed_bytes),
            JobCost::Decompress { bytes, packed_bytes } => by_content(self.decompress_mb_per_s, bytes, packed_bytes),
        }
    }

    /// Draws how much longer than its cost a piece of work takes.
    pub(super) fn delay(&self, choices: &mut Choices) -> Nanos {
        draw(&self.delays_ns, choices)
    }

    /// Draws the time of a switch.
    pub(super) fn switch(&self, choices: &mut Choices) -> Nanos {
        Nanos(self.switch_ns) + draw(&self.switch_delays_ns, choices)
    }

    /// Cost of a system call that moves `bytes` to or from the page cache.
    pub fn syscall(&self, bytes: u64) -> Nanos {
        Nanos(self.syscall_ns + self.copy_page_ns * bytes.div_ceil(crate::PAGE_SIZE as u64))
    }

    /// Cost of one block request.
    pub const fn submit(&self) -> Nanos {
        Nanos(self.submit_ns)
    }
}

fn least(rates: [u64; 3]) -> u64 {
    rates.into_iter().min().unwrap_or(0)
}

fn most(delays: [u64; 5]) -> u64 {
    delays.into_iter().max().unwrap_or(0)
}

/// Nanoseconds for `bytes` at `mb_per_s`.
fn at_rate(bytes: u64, mb_per_s: u64) -> u64 {
    (u128::from(bytes) * 1000 / u128::from(mb_per_s)) as u64
}

/// Time for `bytes` that have `packed_bytes` when compressed, at the rates of nothing, half and all that is left.
fn by_content(rates: [u64; 3], bytes: u64, packed_bytes: u64) -> Nanos {
    let [nothing, half, all] = rates.map(|rate| at_rate(bytes, rate));
    let twice = (2 * packed_bytes).min(2 * bytes);
    let (low, high, beyond) = if twice <= bytes { (nothing, half, twice) } else { (half, all, twice - bytes) };
    let between = |low: u64, high: u64| (u128::from(high - low) * u128::from(beyond) / u128::from(bytes.max(1))) as u64;
    Nanos(if low <= high { low + between(low, high) } else { low - between(high, low) })
}

/// A value of the distribution that has `values` at [`DELAYED_PPM`], zero first. Draws nothing if all are zero.
fn draw(values: &[u64; 5], choices: &mut Choices) -> Nanos {
    if *values == [0; 5] {
        return Nanos::ZERO;
    }
    let drawn = choices.below(1_000_000);
    let reached = DELAYED_PPM.iter().rposition(|&ppm| ppm <= drawn).expect("the first is zero");
    let low = if reached == 0 { 0 } else { values[reached - 1] };
    let Some((&high, &end)) = values.get(reached).zip(DELAYED_PPM.get(reached + 1)) else { return Nanos(low) };
    let begin = DELAYED_PPM[reached];
    Nanos(low + high.saturating_sub(low) * (drawn - begin) / (end - begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_survives_toml() {
        let text = toml::to_string(&HostProfile::default()).unwrap();
        assert_eq!(HostProfile::from_toml(&text).unwrap(), HostProfile::default());
    }

    #[test]
    fn an_unknown_key_is_named() {
        let text = toml::to_string(&HostProfile::default()).unwrap() + "warp = 9\n";
        assert!(HostProfile::from_toml(&text).unwrap_err().to_string().contains("warp"));
    }

    #[test]
    fn compression_takes_the_time_of_its_content() {
        let host = HostProfile { compress_mb_per_s: [4000, 400, 800], ..HostProfile::default() };
        let micros = |packed_bytes| host.cost(JobCost::Compress { bytes: 4_000_000, packed_bytes }).0 / 1000;
        let times = [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_100_000].map(micros);
        assert_eq!(times, [1_000, 5_500, 10_000, 7_500, 5_000, 5_000]);
        assert_eq!(host.cost(JobCost::Compress { bytes: 0, packed_bytes: 0 }), Nanos::ZERO);
    }

    #[test]
    fn a_rate_of_zero_is_named() {
        let text = toml::to_string(&HostProfile { compress_mb_per_s: [1, 0, 1], ..HostProfile::default() }).unwrap();
        assert!(HostProfile::from_toml(&text).unwrap_err().to_string().contains("`compress_mb_per_s`"));
    }

    #[test]
    fn a_cost_or_number_of_cores_that_no_host_has_is_named() {
        let refused = |host: HostProfile| {
            let text = toml::to_string(&host).unwrap();
            HostProfile::from_toml(&text).unwrap_err().to_string()
        };
        let slow = HostProfile { delays_ns: [0, 0, 0, 0, 1 << 40], ..HostProfile::default() };
        assert_eq!(refused(slow), "host profile: `delays_ns` must be at most 1000000000");
        let wide = HostProfile { cores: 1 << 40, ..HostProfile::default() };
        assert_eq!(refused(wide), "host profile: `cores` must be at most 65536");
    }
}
