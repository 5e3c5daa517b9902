//! File disk: a file or block device of the host, with blocking calls.
//!
//! A request is carried out when it is submitted and completes at that moment: in wall time that is what happens, in
//! virtual time it is a disk that takes no time. FLUSH is `fdatasync`, TRIM punches a hole (on block devices: discards),
//! SHARE reflinks where the file system below can (`reflink`), and what a power cut may lose is what the host's own
//! storage may lose.
//!
//! Linux tells a failed write-back once and then takes the lost pages for clean, so that a later `fdatasync` succeeds. Hence
//! after a failed FLUSH or SHARE the disk takes nothing more that changes it: each such request fails as that one did.
//!
//! While it is open, others are kept out, and what others have in use is refused (`hold`).

mod hold;
mod reflink;
mod sys;
mod users;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use onewrite_block::{
    Completion, Counters, Device, DeviceError, Geometry, Lpn, Nanos, NextEvent, Operation, Outcome, PAGE_SIZE, Page,
    Request, Token, TrimRead,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::error::Error;

pub use hold::{Access, Hold};
pub use users::loops_on;

/// See the module's head.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    geometry: Geometry,
    done: Vec<Completion>,
    now: Nanos,
    counters: Counters,
    /// Past the host's page cache.
    is_direct: bool,
    /// The FLUSH or SHARE that failed.
    lost: Option<DeviceError>,
    _hold: Hold,
}

/// Alignment of memory that suits every direct transfer.
const DIRECT_ALIGNMENT: usize = 4096;

fn refuse(path: &Path, operation: &'static str, error: &io::Error, cure: &'static str) -> Error {
    Error::Host { path: path.display().to_string(), operation, kind: error.kind(), message: error.to_string(), cure }
}

/// What to do where a file cannot be opened to be written.
fn cure_of_writing(path: &Path, error: &io::Error) -> &'static str {
    let is_refused = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
    match is_refused && File::open(path).is_ok() {
        true => "it is read-only for you: get permission to write, or work on a copy",
        false => "name an existing image or block device that you may write",
    }
}

/// What helps where a file could not be made longer.
fn cure_of_extending(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "the file system below, or `ulimit -f`, takes no file of that size (ext4: 16TiB at most); choose a smaller one"
        }
        _ => "free space or choose a smaller size",
    }
}

impl FileDisk {
    /// Opens an existing file or block device, to be changed by nobody else; its size is the disk's, less an incomplete last
    /// page.
    ///
    /// # Errors
    /// If it cannot be opened for reading and writing, holds no page, or others have it in use ([`Error::Busy`]).
    pub fn open(path: impl AsRef<Path>) -> Result<FileDisk, Error> {
        let path = path.as_ref();
        let (file, hold) = held(path, Access::Alone, |options| {
            options.write(true).open(path).map_err(|error| refuse(path, "open", &error, cure_of_writing(path, &error)))
        })?;
        FileDisk::of(path, file, hold, Access::Alone)
    }

    /// [`FileDisk::open`] past the host's page cache (`O_DIRECT`), so that reads and writes reach the device.
    ///
    /// # Errors
    /// As there, or if the file system below cannot.
    pub fn open_direct(path: impl AsRef<Path>) -> Result<FileDisk, Error> {
        let path = path.as_ref();
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let (file, hold) = held(path, Access::Alone, |options| {
            options.write(true).custom_flags(flags).open(path).map_err(|error| {
                let cure = "name a file or block device that can do them, not one in memory";
                refuse(path, "open for direct transfers", &error, cure)
            })
        })?;
        Ok(FileDisk { is_direct: true, ..FileDisk::of(path, file, hold, Access::Alone)? })
    }

    /// Opens an existing file or block device to be read, beside others that read; takes no permission to write, and every
    /// request that changes something fails. An incomplete last page is read with zeros behind its end.
    ///
    /// # Errors
    /// If it cannot be opened for reading, is empty, or others change it ([`Error::Busy`]); a mounted disk changes
    /// underneath, so that it is refused, too.
    pub fn view(path: impl AsRef<Path>) -> Result<FileDisk, Error> {
        let path = path.as_ref();
        let (file, hold) = held(path, Access::Shared, |options| {
            options.open(path).map_err(|error| {
                refuse(path, "open", &error, "name an existing image or block device that you may read")
            })
        })?;
        FileDisk::of(path, file, hold, Access::Shared)
    }

    /// Opens a file, made or lengthened to `bytes` if it is not as long; a block device keeps its size.
    ///
    /// # Errors
    /// If it cannot be made or is shorter than a page, or others have it in use; a file that was not there before is not left
    /// behind.
    pub fn create(path: impl AsRef<Path>, bytes: u64) -> Result<FileDisk, Error> {
        let path = path.as_ref();
        let is_new = match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(refuse(path, "create", &error, "choose a directory you may write to")),
        };
        let made = FileDisk::make(path, bytes);
        if is_new && made.as_ref().is_err_and(|error| !matches!(error, Error::Busy { .. })) {
            // If it cannot be removed either, what went wrong before is the error to tell.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// The same disk, called `path` in messages: what it will be called once it is whole.
    pub fn called(mut self, path: &Path) -> FileDisk {
        self.geometry.name = path.display().to_string();
        self
    }

    fn make(path: &Path, bytes: u64) -> Result<FileDisk, Error> {
        let (file, hold) = held(path, Access::Alone, |options| {
            options
                .write(true)
                .open(path)
                .map_err(|error| refuse(path, "create", &error, "name a file or block device that you may write"))
        })?;
        let metadata = file.metadata().map_err(|error| refuse(path, "stat", &error, "check the path"))?;
        if metadata.is_file() && metadata.len() < bytes {
            file.set_len(bytes).map_err(|error| refuse(path, "extend", &error, cure_of_extending(&error)))?;
        }
        FileDisk::of(path, file, hold, Access::Alone)
    }

    fn of(path: &Path, file: File, hold: Hold, access: Access) -> Result<FileDisk, Error> {
        let bytes = length(&file).map_err(|error| refuse(path, "measure", &error, "name a file or block device"))?;
        let pages = match access {
            Access::Alone => bytes / PAGE_SIZE as u64,
            Access::Shared => bytes.div_ceil(PAGE_SIZE as u64),
        };
        if pages == 0 {
            let problem = format!("it holds {bytes} bytes, less than a page of {PAGE_SIZE}");
            let error = io::Error::new(io::ErrorKind::InvalidInput, problem);
            return Err(refuse(path, "open", &error, "it is no image; `onewrite mkfs` makes one of a --size"));
        }
        let name = path.display().to_string();
        let share_refusal = match access {
            Access::Alone => reflink::trial(path, &file).err(),
            Access::Shared => Some("it is open for reading only".to_owned()),
        };
        let geometry = Geometry {
            trim_read: TrimRead::Zeros,
            share_pairs_max: if share_refusal.is_none() { reflink::PAIRS_MAX } else { 0 },
            share_refusal,
            ..Geometry::plain(name, pages)
        };
        Ok(FileDisk {
            file,
            geometry,
            done: Vec::new(),
            now: Nanos::ZERO,
            counters: Counters::default(),
            is_direct: false,
            lost: None,
            _hold: hold,
        })
    }

    /// Room for a transfer, and where in it the transfer's bytes begin.
    fn room(&self, length: usize) -> (Vec<u8>, usize) {
        if !self.is_direct {
            return (vec![0; length], 0);
        }
        let bytes = vec![0_u8; length + DIRECT_ALIGNMENT];
        let start = bytes.as_ptr().align_offset(DIRECT_ALIGNMENT).min(DIRECT_ALIGNMENT);
        (bytes, start)
    }

    fn carry_out(&mut self, operation: Operation) -> Outcome {
        if let Operation::Read { start, count } = operation {
            return self.read(start, count);
        }
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let (name, makes_durable) = (operation.name(), matches!(operation, Operation::Flush | Operation::Share(_)));
        let done = match operation {
            Operation::Read { .. } => unreachable!("read above"),
            Operation::Write { start, pages, .. } => self.write(start, &pages),
            Operation::Flush => self.file.sync_data(),
            Operation::Trim { start, count } => self.trim(start, count),
            Operation::Share(pairs) => reflink::share(&self.file, &pairs),
        };
        let done = done.map(|()| Vec::new()).map_err(|error| self.failed(name, &error));
        if makes_durable {
            self.lost = done.as_ref().err().cloned();
        }
        done
    }

    fn failed(&self, operation: &'static str, error: &io::Error) -> DeviceError {
        DeviceError::Host { path: self.geometry.name.clone(), operation, message: error.to_string() }
    }

    fn read(&self, start: Lpn, count: u32) -> Outcome {
        let length = count as usize * PAGE_SIZE;
        let (mut bytes, begin) = self.room(length);
        let bytes = &mut bytes[begin..begin + length];
        let done = read_with_zeros_behind(&self.file, bytes, start.0 * PAGE_SIZE as u64);
        done.map_err(|error| self.failed("read", &error))?;
        let pages = bytes.chunks_exact(PAGE_SIZE);
        Ok(pages
            .map(|page| if page.iter().all(|&byte| byte == 0) { Page::ZEROS } else { Page::from_slice(page) })
            .collect())
    }

    fn write(&self, start: Lpn, pages: &[Page]) -> io::Result<()> {
        let offset = start.0 * PAGE_SIZE as u64;
        if let ([page], false) = (pages, self.is_direct) {
            return self.file.write_all_at(&page.bytes()[..], offset);
        }
        let length = pages.len() * PAGE_SIZE;
        let (mut bytes, begin) = self.room(length);
        let bytes = &mut bytes[begin..begin + length];
        let places = bytes.chunks_exact_mut(PAGE_SIZE).zip(pages);
        places.for_each(|(place, page)| place.copy_from_slice(&page.bytes()[..]));
        self.file.write_all_at(bytes, offset)
    }

    /// Punches a hole; where the file system cannot, writes zeros, since trimmed pages read as zeros.
    fn trim(&self, start: Lpn, count: u64) -> io::Result<()> {
        let (offset, length) = (start.0 * PAGE_SIZE as u64, count * PAGE_SIZE as u64);
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, length) {
            Err(Errno::OPNOTSUPP) => {
                (start.0..start.0 + count).try_for_each(|lpn| self.write(Lpn(lpn), &[Page::ZEROS]))
            }
            other => other.map_err(io::Error::from),
        }
    }
}

/// Fills `bytes` from `offset` on; what is missing of the last page at the end of the file is zeros.
fn read_with_zeros_behind(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) if bytes.len() - done < PAGE_SIZE => break,
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => done += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    bytes[done..].fill(0);
    Ok(())
}

/// Opens `path` with `open` and holds it: what is open in the end is what the path names.
fn held(
    path: &Path,
    access: Access,
    open: impl Fn(&mut OpenOptions) -> Result<File, Error>,
) -> Result<(File, Hold), Error> {
    let open = || open(OpenOptions::new().read(true));
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device()) {
        let hold = Hold::device(path, access)?;
        return Ok((open()?, hold));
    }
    loop {
        let file = open()?;
        let hold = Hold::file(path, &file, access)?;
        // Another program may have put a new file into its place before the lock was taken.
        match (file.metadata(), std::fs::metadata(path)) {
            (Ok(open), Ok(named)) if (open.dev(), open.ino()) != (named.dev(), named.ino()) => continue,
            _ => return Ok((file, hold)),
        }
    }
}

/// Bytes of a file or block device.
fn length(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() {
        return Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?);
    }
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(metadata.len())
}

impl Device for FileDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        self.now = now;
        let outcome = self.geometry.admit(&request).and_then(|()| {
            self.counters.count(&request);
            self.carry_out(request.operation)
        });
        self.done.push(Completion { token, outcome });
    }

    fn next_event(&self) -> NextEvent {
        (!self.done.is_empty()).then_some(self.now).into()
    }

    fn advance(&mut self, _to: Nanos, completed: &mut Vec<Completion>) {
        completed.append(&mut self.done);
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}
