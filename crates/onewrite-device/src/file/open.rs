//! Open: opens a file or block device of the host as a disk, or refuses it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use onewrite_block::{Geometry, PAGE_SIZE, TrimRead};

use super::work::Alignment;
use super::{Access, FileDisk, Hold, reflink, users};
use crate::error::{Error, refuse};

/// The cure if a file cannot be opened for writing.
fn cure_of_writing(path: &Path, error: &io::Error) -> &'static str {
    let is_refused = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
    match is_refused && File::open(path).is_ok() {
        true => "it is read-only for you: get permission to write, or work on a copy",
        false => "name an existing image or block device that you may write",
    }
}

/// The cure if a file cannot be extended.
fn cure_of_extending(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "the file system below, or `ulimit -f`, takes no file of that size (ext4: 16TiB at most); \
             choose a smaller one"
        }
        _ => "free space or choose a smaller size",
    }
}

impl FileDisk {
    /// Opens an existing file or block device; no one else may change it meanwhile. Its size is the disk's size,
    /// without an incomplete last page.
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

    /// [`FileDisk::open`] with `O_DIRECT`: reads and writes bypass the host's page cache.
    ///
    /// # Errors
    /// As [`FileDisk::open`], or if the file system below has no `O_DIRECT`.
    pub fn open_direct(path: impl AsRef<Path>) -> Result<FileDisk, Error> {
        let path = path.as_ref();
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let (file, hold) = held(path, Access::Alone, |options| {
            options.write(true).custom_flags(flags).open(path).map_err(|error| {
                let cure = "name a file or block device that can do them, not one in memory";
                refuse(path, "open for direct transfers", &error, cure)
            })
        })?;
        Ok(FileDisk { alignment: Alignment::Direct, ..FileDisk::of(path, file, hold, Access::Alone)? })
    }

    /// Opens an existing file or block device for reading, beside other readers. It needs no write permission; every
    /// changing request fails. An incomplete last page is filled with zeros.
    ///
    /// # Errors
    /// If it cannot be opened for reading, is empty, or others change it ([`Error::Busy`]). A mounted disk changes, so
    /// it is refused, too.
    pub fn view(path: impl AsRef<Path>) -> Result<FileDisk, Error> {
        let path = path.as_ref();
        let (file, hold) = held(path, Access::Shared, |options| {
            options.open(path).map_err(|error| {
                refuse(path, "open", &error, "name an existing image or block device that you may read")
            })
        })?;
        FileDisk::of(path, file, hold, Access::Shared)
    }

    /// Opens a file; creates it or extends it to `bytes` if it is shorter. A block device keeps its size.
    ///
    /// # Errors
    /// If it cannot be created, is shorter than a page, or is in use by others. A file that this call created is
    /// removed.
    pub fn create(path: impl AsRef<Path>, bytes: u64) -> Result<FileDisk, Error> {
        let path = path.as_ref();
        let is_new = match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(refuse(path, "create", &error, "choose a directory you may write to")),
        };
        let made = FileDisk::make(path, bytes);
        if is_new && made.as_ref().is_err_and(|error| !matches!(error, Error::Busy { .. })) {
            // If the removal also fails, the caller still gets the first error.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// The same disk, called `path` in messages: its final name.
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
            return Err(refuse(
                path,
                "open",
                &error,
                "it is no image; `onewrite mkfs` makes one of a --size, and a \
                 profile's name ends in .toml",
            ));
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
        Ok(FileDisk::new(file, geometry, hold))
    }
}

/// # Errors
/// If `path` names something that holds no pages. To open a pipe would wait for another program.
fn expect_disk(path: &Path) -> Result<(), Error> {
    let Ok(kind) = std::fs::metadata(path).map(|metadata| metadata.file_type()) else { return Ok(()) };
    let what = match () {
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() => "a character device",
        () => return Ok(()),
    };
    let error = io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what} and no image"));
    Err(refuse(path, "open", &error, "name a file or block device"))
}

/// Opens `path` with `open` and holds it. In the end the open file is the one that the path names.
fn held(
    path: &Path,
    access: Access,
    open: impl Fn(&mut OpenOptions) -> Result<File, Error>,
) -> Result<(File, Hold), Error> {
    let open = || open(OpenOptions::new().read(true));
    expect_disk(path)?;
    let metadata = std::fs::metadata(path);
    if let Some(metadata) = metadata.ok().filter(|metadata| metadata.file_type().is_block_device()) {
        if access == Access::Alone && users::is_write_protected(users::number(metadata.rdev())) {
            // Linux opens it all the same, and fails what is written.
            let error = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the device is write-protected");
            return Err(refuse(path, "open", &error, "use it read-only, or allow writes with `blockdev --setrw`"));
        }
        let hold = Hold::device(path, access)?;
        return Ok((open()?, hold));
    }
    loop {
        let file = open()?;
        let hold = Hold::file(path, &file, access)?;
        // Another program may have replaced the file before the lock was taken.
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
