//! Host profile: the costs of the machine above the device, so that computation is not free in virtual time.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::jobs::JobCost;
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
    /// Entering and leaving one system call, with its work in the file-system switch, ns.
    pub syscall_ns: u64,
    /// Submitting one block request and taking its completion, ns.
    pub submit_ns: u64,
    /// Copying between a user's buffer and the page cache, ns for each 4 KiB page.
    pub copy_page_ns: u64,
    /// Checksum, MB (10⁶ bytes) a second on one core.
    pub checksum_mb_per_s: u64,
    /// Compression (LZ4), MB of input a second on one core.
    pub compress_mb_per_s: u64,
    /// Decompression (LZ4), MB of output a second on one core.
    pub decompress_mb_per_s: u64,
}

impl Default for HostProfile {
    fn default() -> HostProfile {
        HostProfile {
            cores: 4,
            syscall_ns: 700,
            submit_ns: 2_000,
            copy_page_ns: 400,
            checksum_mb_per_s: 10_000,
            compress_mb_per_s: 400,
            decompress_mb_per_s: 1_800,
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
}

impl HostProfile {
    /// A host with one core on which nothing costs time.
    pub const fn ideal() -> HostProfile {
        HostProfile {
            cores: 1,
            syscall_ns: 0,
            submit_ns: 0,
            copy_page_ns: 0,
            checksum_mb_per_s: u64::MAX,
            compress_mb_per_s: u64::MAX,
            decompress_mb_per_s: u64::MAX,
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
            ("checksum_mb_per_s", profile.checksum_mb_per_s),
            ("compress_mb_per_s", profile.compress_mb_per_s),
            ("decompress_mb_per_s", profile.decompress_mb_per_s),
        ];
        match rates.into_iter().find(|(_, value)| *value == 0) {
            Some((key, _)) => Err(HostError::Zero { key }),
            None => Ok(profile),
        }
    }

    /// How long one core is occupied by a job.
    pub fn cost(&self, cost: JobCost) -> Nanos {
        let (bytes, mb_per_s) = match cost {
            JobCost::Checksum { bytes } => (bytes, self.checksum_mb_per_s),
            JobCost::Compress { bytes } => (bytes, self.compress_mb_per_s),
            JobCost::Decompress { bytes } => (bytes, self.decompress_mb_per_s),
        };
        Nanos((u128::from(bytes) * 1000 / u128::from(mb_per_s)) as u64)
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
    fn compression_is_not_free() {
        assert_eq!(HostProfile::default().cost(JobCost::Compress { bytes: 4_000_000 }), Nanos::from_millis(10));
    }
}
