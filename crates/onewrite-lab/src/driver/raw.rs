//! Raw: carries out operations on a device, without a file system. Offsets and lengths are whole pages.

use std::cell::RefCell;

use onewrite_block::{Cause, DeviceError, DevicePort, Lpn, Outcome, PAGE_SIZE, Page, Request};
use onewrite_fs::{Position, pattern_page};

use super::contents::{Contents, Filling};
use super::files::whole_pages;
use super::layout::LayoutWatch;
use super::target::{Failure, Target};
use crate::error::LabError;
use crate::job::SyncMode;
use crate::workload::{Operation, ReadBefore, Workload, WriteManner};

const PAGE: u64 = PAGE_SIZE as u64;

/// A device as a target.
pub struct Raw {
    port: DevicePort,
    contents: RefCell<Option<Contents>>,
}

impl Raw {
    /// Makes a target of the device behind `port`.
    pub fn new(port: DevicePort) -> Raw {
        Raw { port, contents: RefCell::new(None) }
    }

    async fn system_call(&self) {
        let runtime = self.port.runtime();
        runtime.cpu(runtime.host().syscall(0)).await;
    }

    /// The pages that the range touches, in pieces that fit one request.
    fn parts(&self, offset: u64, length: u64) -> impl Iterator<Item = (Lpn, u64)> + use<> {
        let most = u64::from(self.port.geometry().transfer_pages_max);
        let (begin, bytes) = whole_pages(offset, length);
        let (start, end) = (begin / PAGE, (begin + bytes) / PAGE);
        (start..end).step_by(most as usize).map(move |first| (Lpn(first), most.min(end - first)))
    }

    async fn read(&self, offset: u64, length: u64) -> Result<u64, Failure> {
        let mut under_way = Vec::new();
        for (start, count) in self.parts(offset, length) {
            under_way.push(self.port.send(Request::read(start, count as u32, Cause::Data)).await);
        }
        let mut pages = Vec::new();
        for part in under_way {
            pages.extend(part.await?);
        }
        self.check(whole_pages(offset, length).0, &pages)?;
        Ok(length)
    }

    fn check(&self, offset: u64, pages: &[Page]) -> Result<(), Failure> {
        let contents = self.contents.borrow();
        let Some(contents) = &*contents else { return Ok(()) };
        let bytes: Vec<u8> = pages.iter().flat_map(|page| page.bytes().to_vec()).collect();
        contents.check(offset, &bytes).map_err(|(offset, problem)| Failure::Content {
            file: self.port.geometry().name.clone(),
            offset,
            problem,
        })
    }

    async fn write(&self, offset: u64, length: u64, filling: Filling, manner: WriteManner) -> Result<u64, DeviceError> {
        // Parts of pages: reads the pages, changes them and writes them again, as a disk with 512-byte sectors does
        // inside.
        if whole_pages(offset, length) != (offset, length) {
            for (start, count) in self.parts(offset, length) {
                self.port.request(Request::read(start, count as u32, Cause::Data)).await?;
            }
        }
        let is_sync = manner.sync != SyncMode::None;
        let fua = is_sync && self.port.geometry().fua;
        let mut under_way = Vec::new();
        for (start, count) in self.parts(offset, length) {
            let pages = (start.0..start.0 + count)
                .map(|index| pattern_page(filling.seed, filling.compressible_percent, index))
                .collect();
            let request = if fua { Request::write_fua } else { Request::write };
            under_way.push(self.port.send(request(start, pages, Cause::Data)).await);
        }
        for part in under_way {
            part.await?;
        }
        if let Some(contents) = &mut *self.contents.borrow_mut() {
            contents.write(offset, length, filling);
        }
        if is_sync && !fua {
            self.flush().await?;
        }
        Ok(length)
    }

    async fn flush(&self) -> Outcome {
        self.port.request(Request::flush(Cause::Data)).await
    }

    async fn trim(&self, offset: u64, length: u64) -> Result<u64, DeviceError> {
        // Only whole pages can be trimmed.
        let (start, end) = (offset.div_ceil(PAGE), (offset + length) / PAGE);
        if start < end {
            self.port.request(Request::trim(Lpn(start), end - start, Cause::Data)).await?;
        }
        Ok(length)
    }
}

impl Target for Raw {
    type Descriptors = ();

    async fn lay_out(&self, workload: &Workload, _: &LayoutWatch<'_>) -> Result<(), LabError> {
        if workload.files.len() != 1 {
            return Err(LabError::Option("a personality needs a file system; take --fs ext4".to_owned()));
        }
        self.contents.replace(workload.files[0].verified.then(Contents::default));
        Ok(())
    }

    async fn drop_caches(&self) -> Result<(), LabError> {
        Ok(())
    }

    /// Has no cache to fill, but reads the parts: the device is then as worn and busy as after reading before a run.
    async fn read_before(&self, parts: &[ReadBefore]) -> Result<(), LabError> {
        for ReadBefore { range, .. } in parts {
            for (start, count) in self.parts(range.start, range.end - range.start) {
                let read = self.port.request(Request::read(start, count as u32, Cause::Data)).await;
                read.map_err(|source| LabError::Raw {
                    job: "pre_read".to_owned(),
                    operation: "read".to_owned(),
                    source,
                })?;
            }
        }
        Ok(())
    }

    async fn carry_out(&self, _: &RefCell<()>, operation: &Operation) -> Result<u64, Failure> {
        self.system_call().await;
        match *operation {
            Operation::Open { .. } | Operation::Close { .. } | Operation::Invalidate { .. } => Ok(0),
            Operation::Read { offset, length, .. } => self.read(offset, length).await,
            Operation::Write { position: Position::At(offset), length, seed, compressible_percent, manner, .. } => {
                Ok(self.write(offset, length, Filling { seed, compressible_percent }, manner).await?)
            }
            Operation::Trim { offset, length, .. } => Ok(self.trim(offset, length).await?),
            Operation::Fsync { .. } | Operation::Fdatasync { .. } => Ok(self.flush().await.map(|_| 0)?),
            ref other => {
                Err(DeviceError::Unsupported { device: self.port.geometry().name.clone(), operation: other.name() }
                    .into())
            }
        }
    }
}
