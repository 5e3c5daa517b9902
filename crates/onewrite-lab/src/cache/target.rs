//! Target: what an after-cache trace is replayed on.

use onewrite_block::Nanos;
use onewrite_cache::Access;

use super::figures::DeviceFigures;
use crate::error::LabError;

/// A device that takes requests.
pub(super) trait Target {
    /// Pages of the device.
    fn pages(&self) -> u64;

    /// Most pages in a request.
    fn transfer_pages_max(&self) -> u64;

    /// Submits a request; waits first if the queue is full.
    fn submit(&mut self, access: Access, start: u64, count: u64) -> Result<(), LabError>;

    /// Waits until the device is at rest; then starts time and counters.
    fn begin(&mut self) -> Result<(), LabError>;

    /// Lets time pass until `since` after the beginning; later requests are due then.
    fn wait_until(&mut self, since: Nanos) -> Result<(), LabError>;

    /// Flushes and waits until the device is at rest.
    fn finish(self: Box<Self>) -> Result<DeviceFigures, LabError>;
}
