//! Door: the functions that C programs call. Like `drafts`, it has unsafe code: it believes the caller's pointers.
//!
//! What each function demands of its caller, beside what its comment says:
//! - A string is NULL or ends with a zero byte. A buffer has the length that stands beside it.
//! - A `struct ow_…` pointer is NULL or came from here and was not given back. Giving it back (`ow_close`,
//!   `ow_file_close`, `ow_closedir`) ends it: no other call may use it then or at the same time.
//! - A `struct ow_dir` is used by one thread at a time; all else by any number.
#![expect(non_camel_case_types, reason = "names of C")]
#![expect(unsafe_code, reason = "a C program gives pointers")]
#![expect(clippy::missing_safety_doc, reason = "the head says it for all functions; the comments go into the header")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use onewrite_fs::{NewNode, RenameManner};
use onewrite_host::{SharedRange, Volume, make_image};
use rustix::io::Errno;

use crate::directory::OpenDirectory;
use crate::failure::{Failure, guarded, last_text, status};
use crate::file::{OpenFile, is_change};
use crate::options;
use crate::types::{ow_dirent, ow_stat};

/// A signed count, or -1; the name of C.
pub type ssize_t = isize;

/// An open image. Any thread may use it, many at once.
pub struct ow_fs {
    volume: Volume,
    is_read_only: bool,
}

/// An open file. Any thread may use it, many at once.
pub struct ow_file(OpenFile);

/// A range of ow_share. All numbers are bytes and multiples of 4096.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ow_share_range {
    /// The file whose content is taken.
    pub source: *const ow_file,
    /// First byte there.
    pub source_offset: u64,
    /// The file that changes, open for writing.
    pub target: *const ow_file,
    /// First byte there. The file grows if the range ends beyond its end.
    pub target_offset: u64,
    /// Length, not 0.
    pub length: u64,
}

/// An open directory. One thread at a time may use it.
pub struct ow_dir(OpenDirectory);

// Threads of the C program share volumes and files.
const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<ow_fs>();
const _: () = is_shared::<ow_file>();

/// The bytes of a string.
///
/// # Safety
/// `text` is NULL or ends with a zero byte, and outlives the result.
unsafe fn string<'a>(text: *const c_char) -> Result<&'a [u8], Failure> {
    match text.is_null() {
        true => Err(null()),
        // SAFETY: it is not NULL, so it ends with a zero byte.
        false => Ok(unsafe { CStr::from_ptr(text) }.to_bytes()),
    }
}

/// A path, which is never empty.
///
/// # Safety
/// As [`string`].
pub(crate) unsafe fn path<'a>(text: *const c_char) -> Result<&'a [u8], Failure> {
    // SAFETY: as the caller says.
    match unsafe { string(text) }? {
        [] => Err(Failure::new(Errno::NOENT, "an empty path names nothing")),
        path => Ok(path),
    }
}

pub(crate) fn null() -> Failure {
    Failure::new(Errno::FAULT, "a pointer is NULL")
}

/// The volume behind a pointer, for a change: EROFS if it is read-only.
pub(crate) fn changeable(fs: &ow_fs) -> Result<&Volume, Failure> {
    match fs.is_read_only {
        true => Err(Failure::new(Errno::ROFS, "the image was opened with `ro`")),
        false => Ok(&fs.volume),
    }
}

/// Makes an image of `size` bytes at `path`, which must not exist, with an empty file system in it. At least 8 MiB.
/// Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_mkfs(path: *const c_char, size: u64) -> c_int {
    // SAFETY: a string of the caller.
    let path = unsafe { self::path(path) };
    status(|| Ok(make_image(OsStr::from_bytes(path?), size)?))
}

/// Opens the image or disk at `path`, with nobody beside; what a crash left in its log is replayed.
///
/// `options` are items between commas, as of `onewrite mount -o`: data=MODE, ro, rw, cache=SIZE, commit=SECONDS. NULL
/// or "" are the defaults: data=ordered,rw,cache=64M,commit=5. Returns NULL with errno after a failure: EBUSY if the
/// image is in use, EINVAL for an option that is wrong or an image that holds no file system.
///
/// The image has a thread of its own in this process. In a child of fork(2) each call fails with EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_open(path: *const c_char, options: *const c_char) -> *mut ow_fs {
    // SAFETY: strings of the caller.
    let (path, text) = unsafe { (self::path(path), string(options)) };
    guarded(ptr::null_mut(), || {
        let options = options::parse(text.unwrap_or_default())?;
        let volume = Volume::open(OsStr::from_bytes(path?), options)?;
        Ok(Box::into_raw(Box::new(ow_fs { volume, is_read_only: options.read_only })))
    })
}

/// Makes everything durable, leaves the image clean and ends `fs`, also after a failure. Files and directories that
/// are still open must be closed all the same; other calls on such files fail with EBADF. NULL is no error.
/// Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_close(fs: *mut ow_fs) -> c_int {
    status(|| {
        if !fs.is_null() {
            // SAFETY: it came from `ow_open`, and the caller gives it back.
            unsafe { Box::from_raw(fs) }.volume.close()?;
        }
        Ok(())
    })
}

/// Makes everything durable. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_sync(fs: *const ow_fs) -> c_int {
    // SAFETY: a pointer of the caller.
    let fs = unsafe { fs.as_ref() };
    status(|| Ok(fs.ok_or_else(null)?.volume.sync()?))
}

/// Why the last call of this thread that failed did so, in words with place and cure; "" if none did. Valid until the
/// next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn ow_last_error() -> *const c_char {
    last_text()
}

/// Acknowledges `token` to `onewrite crash --run`, which started this program: what is durable now has to be there
/// after each later power cut. The token is noted when this returns. It needs no image. Returns 0, or -1 with errno:
/// ENOENT if nothing listens (ONEWRITE_ACK is not set, or the run is over), EINVAL if the token is empty or has a
/// line's end in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_acked(token: *const c_char) -> c_int {
    // SAFETY: a string of the caller.
    let token = unsafe { string(token) };
    status(|| Ok(onewrite_host::acked(token?)?))
}

/// Opens a file, as open(2). Paths begin at the root of the image. Flags: O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL,
/// O_TRUNC, O_APPEND, O_DIRECTORY, O_CLOEXEC; others are EINVAL. A new file gets the permissions `mode` as they are
/// and belongs to root; permissions are kept, not checked. A directory opens for reading, so that ow_fsync can have it.
/// Returns NULL with errno after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_file_open(fs: *const ow_fs, path: *const c_char, flags: c_int, mode: u32) -> *mut ow_file {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    guarded(ptr::null_mut(), || {
        let (fs, path) = (fs.ok_or_else(null)?, path?);
        let volume = if is_change(flags) { changeable(fs)? } else { &fs.volume };
        let file = OpenFile::open(volume, path, flags, mode)?;
        Ok(Box::into_raw(Box::new(ow_file(file))))
    })
}

/// Closes a file; its content goes if it has no name any more. Does not make it durable. NULL is no error. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_file_close(file: *mut ow_file) -> c_int {
    status(|| {
        if !file.is_null() {
            // SAFETY: it came from `ow_file_open`, and the caller gives it back.
            drop(unsafe { Box::from_raw(file) });
        }
        Ok(())
    })
}

/// Reads up to `count` bytes from `offset` into `buffer`, as pread(2). Returns their number, 0 at the end of the file,
/// or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_pread(file: *const ow_file, buffer: *mut c_void, count: usize, offset: i64) -> ssize_t {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    guarded(-1, || {
        let file = file.filter(|_| !buffer.is_null() || count == 0).ok_or_else(null)?;
        let read = file.0.read(offset, count, |done, bytes| {
            debug_assert!(done + bytes.len() <= count, "a read gave more than was asked for");
            // SAFETY: the caller's buffer has `count` bytes, of which a read gives no more than that.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>().add(done), bytes.len()) }
        })?;
        Ok(read as ssize_t)
    })
}

/// Writes `count` bytes of `buffer` at `offset`, as pwrite(2); with O_APPEND behind the end, whatever the offset.
/// Up to 64 KiB are one step in modes that keep content in the log. Returns how many were written, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_pwrite(file: *const ow_file, buffer: *const c_void, count: usize, offset: i64) -> ssize_t {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    guarded(-1, || {
        let file = file.ok_or_else(null)?;
        let bytes = match (buffer.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            // SAFETY: the caller's buffer has `count` bytes. No object has more than `isize::MAX`.
            (false, _) => unsafe { std::slice::from_raw_parts(buffer.cast(), count.min(isize::MAX as usize)) },
        };
        Ok(file.0.write(offset, bytes)? as ssize_t)
    })
}

/// Makes content, attributes and name of a file durable; of a directory, its names. Returns 0, or -1 with errno: what
/// was written since the last sync may be lost then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_fsync(file: *const ow_file) -> c_int {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    status(|| file.ok_or_else(null)?.0.sync())
}

/// As ow_fsync, without attributes that reading the content does not need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_fdatasync(file: *const ow_file) -> c_int {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    status(|| file.ok_or_else(null)?.0.sync_data())
}

/// Truncates a file to `size` bytes, or extends it with zeros. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_ftruncate(file: *const ow_file, size: i64) -> c_int {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    status(|| file.ok_or_else(null)?.0.set_size(size))
}

/// Tells what is known of an open file. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_fstat(file: *const ow_file, stat: *mut ow_stat) -> c_int {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    // SAFETY: a place of the caller.
    status(|| unsafe { put(stat, || Ok(file.ok_or_else(null)?.0.metadata()?.into())) })
}

/// Tells what is known of what lies at `path`; symbolic links are followed. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_stat(fs: *const ow_fs, path: *const c_char, stat: *mut ow_stat) -> c_int {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    // SAFETY: a place of the caller.
    status(|| unsafe { put(stat, || Ok(fs.ok_or_else(null)?.volume.metadata_followed(path?)?.into())) })
}

/// As ow_stat, but of a symbolic link itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_lstat(fs: *const ow_fs, path: *const c_char, stat: *mut ow_stat) -> c_int {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    // SAFETY: a place of the caller.
    status(|| unsafe { put(stat, || Ok(fs.ok_or_else(null)?.volume.metadata(path?)?.into())) })
}

/// Stores what `tell` tells at `place`.
///
/// # Safety
/// `place` is NULL or has room.
unsafe fn put(place: *mut ow_stat, tell: impl FnOnce() -> Result<ow_stat, Failure>) -> Result<(), Failure> {
    let told = tell()?;
    if place.is_null() {
        return Err(null());
    }
    // SAFETY: as the caller says.
    unsafe { place.write(told) };
    Ok(())
}

/// Makes a directory with the permissions `mode` as they are. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_mkdir(fs: *const ow_fs, path: *const c_char, mode: u32) -> c_int {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    let node = NewNode { permissions: (mode & 0o7777) as u16, ..NewNode::DIRECTORY };
    status(|| Ok(changeable(fs.ok_or_else(null)?)?.make(path?, node)?))
}

/// Removes an empty directory. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_rmdir(fs: *const ow_fs, path: *const c_char) -> c_int {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    status(|| Ok(changeable(fs.ok_or_else(null)?)?.remove_directory(path?)?))
}

/// Removes a name of anything but a directory. The content goes when no name and no open file is left. Returns 0, or
/// -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_unlink(fs: *const ow_fs, path: *const c_char) -> c_int {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    status(|| Ok(changeable(fs.ok_or_else(null)?)?.remove(path?)?))
}

/// Moves a name, and replaces what has the new one, as rename(2). One step: after a power cut the old or the new state
/// is there. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_rename(fs: *const ow_fs, from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: a pointer and strings of the caller.
    let (fs, from, to) = unsafe { (fs.as_ref(), path(from), path(to)) };
    status(|| Ok(changeable(fs.ok_or_else(null)?)?.rename(from?, to?, RenameManner::Replace)?))
}

/// Gives what lies at `path` a second name `link`; a symbolic link is not followed. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_link(fs: *const ow_fs, path: *const c_char, link: *const c_char) -> c_int {
    // SAFETY: a pointer and strings of the caller.
    let (fs, path, link) = unsafe { (fs.as_ref(), self::path(path), self::path(link)) };
    status(|| Ok(changeable(fs.ok_or_else(null)?)?.link(path?, link?)?))
}

/// Makes a symbolic link at `path` that leads to `target`. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_symlink(fs: *const ow_fs, target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: a pointer and strings of the caller.
    let (fs, target, path) = unsafe { (fs.as_ref(), self::path(target), self::path(path)) };
    status(|| Ok(changeable(fs.ok_or_else(null)?)?.symlink(path?, target?)?))
}

/// Stores where a symbolic link leads in `buffer`, without a zero byte behind it and truncated to `size` bytes, as
/// readlink(2). Returns the number of bytes stored, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_readlink(
    fs: *const ow_fs,
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> ssize_t {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    guarded(-1, || {
        let fs = fs.filter(|_| !buffer.is_null()).ok_or_else(null)?;
        let target = fs.volume.read_link(path?)?;
        let length = target.len().min(size);
        // SAFETY: the caller's buffer has `size` bytes.
        unsafe { ptr::copy_nonoverlapping(target.as_ptr(), buffer.cast(), length) };
        Ok(length as ssize_t)
    })
}

/// Opens a directory: the names that it has now, without "." and "..". Returns NULL with errno after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_opendir(fs: *const ow_fs, path: *const c_char) -> *mut ow_dir {
    // SAFETY: a pointer and a string of the caller.
    let (fs, path) = unsafe { (fs.as_ref(), self::path(path)) };
    guarded(ptr::null_mut(), || {
        let directory = OpenDirectory::open(&fs.ok_or_else(null)?.volume, path?)?;
        Ok(Box::into_raw(Box::new(ow_dir(directory))))
    })
}

/// The next name, valid until the next call for this directory. Returns NULL at the end, errno as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_readdir(directory: *mut ow_dir) -> *const ow_dirent {
    // SAFETY: a pointer of the caller, which no other call uses.
    let directory = unsafe { directory.as_mut() };
    guarded(ptr::null(), || Ok(directory.ok_or_else(null)?.0.next().map_or(ptr::null(), ptr::from_ref)))
}

/// Closes a directory. NULL is no error. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_closedir(directory: *mut ow_dir) -> c_int {
    status(|| {
        if !directory.is_null() {
            // SAFETY: it came from `ow_opendir`, and the caller gives it back.
            drop(unsafe { Box::from_raw(directory) });
        }
        Ok(())
    })
}

/// Makes the targets of `count` ranges read as their sources do, as one step that is durable when the call returns:
/// after a power cut all of them do, or none. Without a SHARE command of the device a mode that logs content is needed
/// (EOPNOTSUPP). EINVAL: ranges that are not of whole pages or overlap, a source with holes or beyond its end, a call
/// that replaces pages and extends a target. EBADF: a file that is not open for it. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_share(fs: *const ow_fs, ranges: *const ow_share_range, count: usize) -> c_int {
    // SAFETY: a pointer of the caller.
    let fs = unsafe { fs.as_ref() };
    status(|| {
        let volume = changeable(fs.ok_or_else(null)?)?;
        let ranges: &[ow_share_range] = match (ranges.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            // SAFETY: the caller has `count` ranges there.
            (false, _) => unsafe { std::slice::from_raw_parts(ranges, count) },
        };
        let range = |range: &ow_share_range| {
            // SAFETY: pointers of the caller.
            let (source, target) = unsafe { (range.source.as_ref(), range.target.as_ref()) };
            Ok(SharedRange {
                source: source.ok_or_else(null)?.0.source()?,
                source_offset: range.source_offset,
                target: target.ok_or_else(null)?.0.target()?,
                target_offset: range.target_offset,
                length: range.length,
            })
        };
        let ranges: Vec<SharedRange<'_>> = ranges.iter().map(range).collect::<Result<_, Failure>>()?;
        Ok(volume.share(&ranges)?)
    })
}
