//! Image: saves the content of a device as a sparse file that Linux can mount.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use onewrite_block::{Cause, DevicePort, Lpn, PAGE_SIZE, Page, Request};
use onewrite_fs::FsError;

use crate::error::LabError;
use crate::partial::Partial;

/// Copies every page of the device behind `port` into the file at `path`; pages of zeros become holes. A failure leaves
/// no file.
///
/// # Errors
/// If the device cannot be read or the file cannot be written.
pub(crate) async fn save_image(port: &DevicePort, path: &Path) -> Result<(), LabError> {
    let failed =
        |error: std::io::Error| LabError::WriteFile { path: path.display().to_string(), message: error.to_string() };
    let (mut file, partial) = Partial::create(path).map_err(failed)?;
    let geometry = port.geometry();
    file.set_len(geometry.pages * PAGE_SIZE as u64).map_err(failed)?;
    let step = u64::from(geometry.transfer_pages_max);
    for start in (0..geometry.pages).step_by(step as usize) {
        let count = step.min(geometry.pages - start);
        let request = Request::read(Lpn(start), count as u32, Cause::Data);
        let pages = port.submit(request).await.map_err(FsError::from)?;
        write(&mut file, start, &pages).map_err(failed)?;
    }
    drop(file);
    partial.keep().map_err(failed)
}

fn write(file: &mut File, start: u64, pages: &[Page]) -> std::io::Result<()> {
    for (index, page) in (start..).zip(pages).filter(|(_, page)| !page.is_zeros()) {
        file.seek(SeekFrom::Start(index * PAGE_SIZE as u64))?;
        file.write_all(&page.bytes()[..])?;
    }
    Ok(())
}
