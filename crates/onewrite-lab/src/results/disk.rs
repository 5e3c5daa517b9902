//! Disk: the load of a device.

use onewrite_block::Nanos;
use onewrite_block::layer::Usage;

/// Load of a device, in the shape of fio's `disk_util`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DiskUtil {
    /// Profile, or path of a real disk.
    pub name: String,
    /// Reads.
    pub read_ios: u64,
    /// Writes.
    pub write_ios: u64,
    /// Always zero: requests are not merged.
    pub read_merges: u64,
    /// Always zero.
    pub write_merges: u64,
    /// Sum of the times of all reads, in milliseconds.
    pub read_ticks: u64,
    /// Sum of the times of all writes, in milliseconds.
    pub write_ticks: u64,
    /// Sum of the times of all requests, flushes included, in milliseconds.
    pub in_queue: u64,
    /// Percent of the time with at least one request under way.
    pub util: f64,
}

impl DiskUtil {
    /// Load of the device called `name` over `span`.
    pub fn new(name: &str, usage: &Usage, span: Nanos) -> DiskUtil {
        let ticks = |time: Nanos| time.0 / 1_000_000;
        let share = if span == Nanos::ZERO { 0.0 } else { usage.busy_time.0 as f64 / span.0 as f64 };
        DiskUtil {
            name: name.to_owned(),
            read_ios: usage.read_ios,
            write_ios: usage.write_ios,
            read_merges: 0,
            write_merges: 0,
            read_ticks: ticks(usage.read_time),
            write_ticks: ticks(usage.write_time),
            in_queue: ticks(usage.queue_time),
            util: 100.0 * share.min(1.0),
        }
    }
}
