//! What devices count: bytes and commands of the host, and their cost inside the device.

use serde::{Deserialize, Serialize};

use crate::request::{Cause, Operation, Request};
use crate::units::PAGE_SIZE;

/// Counts since a device was made or its counters were reset. Flash figures are zero for devices without flash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes written by the host, by cause, in the order of [`Cause::ALL`].
    pub host_write_bytes_by_cause: [u64; Cause::ALL.len()],
    /// FLUSH commands.
    pub flushes: u64,
    /// Writes with FUA.
    pub fua_writes: u64,
    /// TRIM commands.
    pub trims: u64,
    /// Pages named by TRIM commands.
    pub trimmed_pages: u64,
    /// SHARE commands.
    pub shares: u64,
    /// Pairs in SHARE commands.
    pub shared_pages: u64,
    /// Bytes read from flash, for the host and for internal work.
    pub flash_read_bytes: u64,
    /// Bytes programmed to flash: host content, moved pages, map.
    pub flash_program_bytes: u64,
    /// Bytes of the map programmed to flash; part of `flash_program_bytes`.
    pub map_program_bytes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages moved by garbage collection, merges and wear levelling.
    pub moved_pages: u64,
    /// Log blocks of a hybrid translation layer that became data blocks without any copy.
    #[serde(default)]
    pub switch_merges: u64,
    /// Log blocks that became data blocks after the missing pages were copied into them.
    #[serde(default)]
    pub partial_merges: u64,
    /// Data blocks that were gathered from several blocks.
    #[serde(default)]
    pub full_merges: u64,
}

impl Counters {
    /// Counts `request` as one asked by the host.
    pub fn count(&mut self, request: &Request) {
        match &request.operation {
            Operation::Read { count, .. } => self.host_read_bytes += u64::from(*count) * PAGE_SIZE as u64,
            Operation::Write { pages, durable, .. } => {
                self.host_write_bytes_by_cause[request.cause as usize] += (pages.len() * PAGE_SIZE) as u64;
                self.fua_writes += u64::from(durable.is_fua());
            }
            Operation::Flush => self.flushes += 1,
            Operation::Trim { count, .. } => {
                self.trims += 1;
                self.trimmed_pages += count;
            }
            Operation::Share(pairs) => {
                self.shares += 1;
                self.shared_pages += pairs.len() as u64;
            }
        }
    }

    /// Bytes written by the host, all causes together.
    pub fn host_write_bytes(&self) -> u64 {
        self.host_write_bytes_by_cause.iter().sum()
    }

    /// Bytes written by the host for `cause`.
    pub fn host_write_bytes_of(&self, cause: Cause) -> u64 {
        self.host_write_bytes_by_cause[cause as usize]
    }

    /// Flash bytes programmed for each byte the host wrote; `None` if there is no flash or nothing was written.
    pub fn write_amplification(&self) -> Option<f64> {
        let host = self.host_write_bytes();
        (host > 0 && self.flash_program_bytes > 0).then(|| self.flash_program_bytes as f64 / host as f64)
    }
}
