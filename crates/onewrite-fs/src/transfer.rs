//! Transfers: sends runs of consecutive pages to the device; the steps of a write.

use onewrite_block::{Cause, DeviceError, DevicePort, InFlight, Lpn, Page, Request};

use crate::api::WRITE_STEP_BYTES;
use crate::pages::PAGE_BYTES;

/// Whether writes are durable when they complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the next FLUSH.
    Volatile,
    /// At once.
    Fua,
}

/// Sends writes of consecutive pages, in as few requests as the device's zones and its maximum transfer size allow.
pub(crate) async fn send_run(
    port: &DevicePort,
    start: Lpn,
    pages: impl Iterator<Item = Page>,
    durability: Durability,
    cause: Cause,
) -> Vec<InFlight> {
    let (transfer_max, zones) = (u64::from(port.geometry().transfer_pages_max), port.geometry().zones);
    let mut under_way = Vec::new();
    let mut pages = pages.peekable();
    let mut lpn = start;
    while pages.peek().is_some() {
        let most = zones.map_or(transfer_max, |zones| zones.room_behind(lpn).min(transfer_max));
        let part: Vec<Page> = pages.by_ref().take(most as usize).collect();
        let next = lpn.offset(part.len() as u64);
        let request = match durability {
            Durability::Volatile => Request::write(lpn, part, cause),
            Durability::Fua => Request::write_fua(lpn, part, cause),
        };
        under_way.push(port.send(request).await);
        lpn = next;
    }
    under_way
}

/// Waits for all requests; gives the first error.
///
/// # Errors
/// Device errors.
pub(crate) async fn wait_all(under_way: Vec<InFlight>) -> Result<(), DeviceError> {
    let mut outcome = Ok(());
    for request in under_way {
        let one = request.await;
        outcome = outcome.and(one.map(drop));
    }
    outcome
}

/// End of the step that begins at byte `start`, in a write that ends at byte `end`. If the rest fits one step, the step
/// takes it all; otherwise the step ends at a page boundary. Crash tests use this function to know the same steps.
pub fn step_end(start: u64, end: u64) -> u64 {
    match end - start <= WRITE_STEP_BYTES {
        true => end,
        false => start + WRITE_STEP_BYTES - start % PAGE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_a_step_is_one_wherever_it_begins() {
        for start in [0, 1, 100, 4095, 4096, 70_001] {
            assert_eq!(step_end(start, start + WRITE_STEP_BYTES), start + WRITE_STEP_BYTES);
            let next = step_end(start, start + 2 * WRITE_STEP_BYTES);
            assert!(next.is_multiple_of(PAGE_BYTES) && next - start <= WRITE_STEP_BYTES, "{start}: {next}");
        }
    }
}
