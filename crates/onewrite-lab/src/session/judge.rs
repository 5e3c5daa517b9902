//! Judge: the log of an image replayed, and every structure checked.

use onewrite_block::{Cause, DevicePort, Lpn, Page, Request};
use onewrite_fs::FsResult;
use onewrite_fs::check::{CheckOptions, ReadBlocks, ReadError, Report, check};
use onewrite_fs::ext4::replay;
use onewrite_fs::journal::Recovered;

/// Reads blocks through a port.
struct Reader<'a>(&'a DevicePort);

impl ReadBlocks for Reader<'_> {
    async fn read_block(&self, block: u64) -> Result<Page, ReadError> {
        let read = self.0.submit(Request::read(Lpn(block), 1, Cause::Metadata)).await;
        let failed = |reason: String| ReadError { reason };
        read.map_err(|error| failed(error.to_string()))?.pop().ok_or_else(|| failed("nothing came back".to_owned()))
    }
}

/// What a check found.
pub struct Judgement {
    /// What replaying the log did, if it held anything.
    pub recovered: Option<Recovered>,
    /// What was found after that.
    pub report: Report,
}

/// Replays the log of the image on `port` and checks every structure.
///
/// # Errors
/// If the log cannot be replayed; damage elsewhere is in the report.
pub async fn judge(port: &DevicePort) -> FsResult<Judgement> {
    let recovered = replay(port).await?;
    let report = check(&Reader(port), &CheckOptions::default()).await;
    Ok(Judgement { recovered, report })
}
