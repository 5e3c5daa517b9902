//! Home: how checkpoint and recovery bring blocks to their home blocks.

use onewrite_block::{Cause, DeviceError, DevicePort, Page, Remap, Request};

use crate::block::BlockNo;
use crate::transfer::{Durability, send_run, wait_all};

/// Writes `blocks` home and waits. They are in ascending order; neighbours go in one request.
///
/// # Errors
/// Device errors.
pub(super) async fn copy_home(port: &DevicePort, blocks: &[(BlockNo, Page)], cause: Cause) -> Result<(), DeviceError> {
    let mut under_way = Vec::new();
    for run in blocks.chunk_by(|one, next| one.0 + 1 == next.0) {
        let pages = run.iter().map(|(_, page)| page.clone());
        under_way.extend(send_run(port, run[0].0.page(), pages, Durability::Volatile, cause).await);
    }
    wait_all(under_way).await
}

/// Remaps home blocks to log blocks (SHARE) and waits. Writes no data; each request is durable when it completes.
///
/// # Errors
/// Device errors.
pub(super) async fn share_home(port: &DevicePort, pairs: &[Remap], cause: Cause) -> Result<(), DeviceError> {
    let mut under_way = Vec::new();
    for part in pairs.chunks(port.geometry().share_pairs_max.max(1) as usize) {
        under_way.push(port.send(Request::share(part.to_vec(), cause)).await);
    }
    wait_all(under_way).await
}
