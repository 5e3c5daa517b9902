//! Drafts: the functions by which C programs change several files as one step.
//!
//! What each function demands of its caller stands at the head of [`door`](crate::door). `ow_draft_end`,
//! `ow_draft_file_close` and `ow_mapping_end` give back what came from here.
#![expect(non_camel_case_types, reason = "names of C")]
#![expect(unsafe_code, reason = "a C program gives pointers")]
#![expect(clippy::missing_safety_doc, reason = "the head of door says it for all functions")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use onewrite_fs::NewNode;
use onewrite_host::{Draft, DraftFile, Mapping};
use rustix::io::Errno;

use crate::door::{changeable, null, ow_fs, path, ssize_t};
use crate::failure::{Failure, guarded, status};
use crate::file::{TRANSFER_BYTES_MAX, position};

/// Changes of several files that become visible and durable together, or never; docs/atomic-files.md. Any thread may
/// use it, many at once.
pub struct ow_draft {
    draft: Draft,
}

/// A file as its draft has it. Any thread may use it, many at once. Calls fail with ENOENT after the draft's end.
pub struct ow_draft_file(DraftFile);

// Threads of the C program share both.
const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<ow_draft>();
const _: () = is_shared::<ow_draft_file>();

/// Begins an empty draft. Nobody else sees what it changes before ow_draft_commit. Needs a mode that logs content:
/// EOPNOTSUPP in others. Returns NULL with errno after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_begin(fs: *const ow_fs) -> *mut ow_draft {
    // SAFETY: a pointer of the caller.
    let fs = unsafe { fs.as_ref() };
    guarded(ptr::null_mut(), || {
        let draft = changeable(fs.ok_or_else(null)?)?.atomic()?;
        Ok(Box::into_raw(Box::new(ow_draft { draft })))
    })
}

/// Makes all changes of the draft visible and durable, as one step. It is empty then and keeps its files. Returns 0, or
/// -1 with errno: EEXIST or ENOENT if a name was taken or lost meanwhile, the draft is as it was then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_commit(draft: *const ow_draft) -> c_int {
    // SAFETY: a pointer of the caller.
    let draft = unsafe { draft.as_ref() };
    status(|| Ok(draft.ok_or_else(null)?.draft.commit()?))
}

/// Commits `count` drafts of one image as one step. EINVAL: a draft named twice or of another image. Returns 0, or -1
/// with errno: nothing has changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_drafts_commit(fs: *const ow_fs, drafts: *const *const ow_draft, count: usize) -> c_int {
    // SAFETY: a pointer of the caller.
    let fs = unsafe { fs.as_ref() };
    status(|| {
        let volume = changeable(fs.ok_or_else(null)?)?;
        let drafts: &[*const ow_draft] = match (drafts.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            // SAFETY: the caller has `count` pointers there.
            (false, _) => unsafe { std::slice::from_raw_parts(drafts, count) },
        };
        // SAFETY: pointers of the caller.
        let named = drafts.iter().map(|draft| unsafe { draft.as_ref() });
        let drafts = named.map(|draft| Ok(&draft.ok_or_else(null)?.draft)).collect::<Result<Vec<_>, Failure>>()?;
        Ok(volume.commit_together(&drafts)?)
    })
}

/// Drops the changes of the draft since its last commit. It keeps its files. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_abort(draft: *const ow_draft) -> c_int {
    // SAFETY: a pointer of the caller.
    let draft = unsafe { draft.as_ref() };
    status(|| Ok(draft.ok_or_else(null)?.draft.abort()?))
}

/// Ends a draft: what it did not commit is dropped, and its files are free for others. NULL is no error. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_end(draft: *mut ow_draft) -> c_int {
    status(|| {
        if !draft.is_null() {
            // SAFETY: it came from `ow_draft_begin`, and the caller gives it back.
            drop(unsafe { Box::from_raw(draft) });
        }
        Ok(())
    })
}

/// Gives the draft the right to change a regular file, until its end. EBUSY if another draft has it. Returns NULL with
/// errno after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_claim(draft: *const ow_draft, path: *const c_char) -> *mut ow_draft_file {
    // SAFETY: a pointer and a string of the caller.
    let (draft, path) = unsafe { (draft.as_ref(), crate::door::path(path)) };
    guarded(ptr::null_mut(), || {
        let file = draft.ok_or_else(null)?.draft.claim(path?)?;
        Ok(Box::into_raw(Box::new(ow_draft_file(file))))
    })
}

/// Makes a file that gets its name with the commit. Returns NULL with errno after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_create(draft: *const ow_draft, path: *const c_char, mode: u32) -> *mut ow_draft_file {
    // SAFETY: a pointer and a string of the caller.
    let (draft, path) = unsafe { (draft.as_ref(), crate::door::path(path)) };
    guarded(ptr::null_mut(), || {
        let node = NewNode { permissions: (mode & 0o7777) as u16, ..NewNode::FILE };
        let file = draft.ok_or_else(null)?.draft.create_as(path?, node)?;
        Ok(Box::into_raw(Box::new(ow_draft_file(file))))
    })
}

/// Removes a name of a file with the commit. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_unlink(draft: *const ow_draft, path: *const c_char) -> c_int {
    // SAFETY: a pointer and a string of the caller.
    let (draft, path) = unsafe { (draft.as_ref(), crate::door::path(path)) };
    status(|| Ok(draft.ok_or_else(null)?.draft.remove(path?)?))
}

/// Moves a name of a file with the commit, and replaces what has the new one. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_rename(draft: *const ow_draft, from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: a pointer and strings of the caller.
    let (draft, from, to) = unsafe { (draft.as_ref(), path(from), path(to)) };
    status(|| Ok(draft.ok_or_else(null)?.draft.rename(from?, to?)?))
}

/// Content of a file of a draft as memory, in which changes wait for ow_draft_msync.
pub struct ow_mapping(Mapping);

/// Maps the whole file as its draft has it; `*bytes` and `*size` are set to the memory. The program stores there with
/// any thread, but not during ow_draft_msync, and changes the file's content in no other way. Costs twice the file's
/// size. Returns NULL with errno after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_mapping_begin(
    file: *const ow_draft_file,
    bytes: *mut *mut c_void,
    size: *mut usize,
) -> *mut ow_mapping {
    // SAFETY: pointers of the caller.
    let (file, bytes, size) = unsafe { (file.as_ref(), bytes.as_mut(), size.as_mut()) };
    guarded(ptr::null_mut(), || {
        let (bytes, size) = bytes.zip(size).ok_or_else(null)?;
        let mut mapping = file.ok_or_else(null)?.0.map()?;
        (*bytes, *size) = (mapping.as_mut_ptr().cast(), mapping.len());
        Ok(Box::into_raw(Box::new(ow_mapping(mapping))))
    })
}

/// Makes what was stored into `count` mappings of the draft, and all its other changes, visible and durable as one
/// step. Returns 0, or -1 with errno, also ENOSPC and EFBIG: nothing is visible then, and the stores stay in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_msync(
    draft: *const ow_draft,
    mappings: *const *mut ow_mapping,
    count: usize,
) -> c_int {
    // SAFETY: a pointer of the caller.
    let draft = unsafe { draft.as_ref() };
    status(|| {
        let named: &[*mut ow_mapping] = match (mappings.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            // SAFETY: the caller has `count` pointers there.
            (false, _) => unsafe { std::slice::from_raw_parts(mappings, count) },
        };
        if named.iter().enumerate().any(|(place, mapping)| named[..place].contains(mapping)) {
            return Err(Failure::new(Errno::INVAL, "a mapping is named twice"));
        }
        // SAFETY: pointers of the caller, each to another mapping, which no other call uses.
        let given = named.iter().map(|mapping| unsafe { mapping.as_mut() }.map(|mapping| &mut mapping.0));
        let mut mappings = given.map(|mapping| mapping.ok_or_else(null)).collect::<Result<Vec<_>, Failure>>()?;
        Ok(draft.ok_or_else(null)?.draft.msync(&mut mappings)?)
    })
}

/// Ends a mapping and its memory: what was stored since the last ow_draft_msync is lost. NULL is no error. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_mapping_end(mapping: *mut ow_mapping) -> c_int {
    status(|| {
        if !mapping.is_null() {
            // SAFETY: it came from `ow_mapping_begin`, and the caller gives it back.
            drop(unsafe { Box::from_raw(mapping) });
        }
        Ok(())
    })
}

/// As ow_pread, of the file as the draft has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_pread(
    file: *const ow_draft_file,
    buffer: *mut c_void,
    count: usize,
    offset: i64,
) -> ssize_t {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    guarded(-1, || {
        let file = file.filter(|_| !buffer.is_null() || count == 0).ok_or_else(null)?;
        let bytes = file.0.read_at(position(offset)?, count.min(TRANSFER_BYTES_MAX) as u64)?;
        debug_assert!(bytes.len() <= count, "a read gave more than was asked for");
        // SAFETY: the caller's buffer has `count` bytes, of which a read gives no more than that.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>(), bytes.len()) }
        Ok(bytes.len() as ssize_t)
    })
}

/// Writes all `count` bytes of `buffer` at `offset` into the draft, or nothing; behind the end if `offset` is -1.
/// ENOSPC, EFBIG: the commit would not fit. Returns `count`, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_pwrite(
    file: *const ow_draft_file,
    buffer: *const c_void,
    count: usize,
    offset: i64,
) -> ssize_t {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    guarded(-1, || {
        let file = file.ok_or_else(null)?;
        if count > TRANSFER_BYTES_MAX {
            return Err(Failure::new(Errno::FBIG, "one call takes at most 2147479552 bytes"));
        }
        let bytes: &[u8] = match (buffer.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            // SAFETY: the caller's buffer has `count` bytes.
            (false, _) => unsafe { std::slice::from_raw_parts(buffer.cast(), count) },
        };
        match offset {
            -1 => file.0.append(bytes).map(drop)?,
            _ => file.0.write_at(position(offset)?, bytes)?,
        }
        Ok(count as ssize_t)
    })
}

/// Truncates the file in the draft to `size` bytes, or extends it with zeros. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_ftruncate(file: *const ow_draft_file, size: i64) -> c_int {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    status(|| Ok(file.ok_or_else(null)?.0.set_size(position(size)?)?))
}

/// Makes `length` bytes at `offset` read as zeros, in the draft; the size stays. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_punch(file: *const ow_draft_file, offset: i64, length: i64) -> c_int {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    status(|| Ok(file.ok_or_else(null)?.0.punch(position(offset)?, position(length)?)?))
}

/// Size of the file as the draft has it. Returns it, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_size(file: *const ow_draft_file) -> i64 {
    // SAFETY: a pointer of the caller.
    let file = unsafe { file.as_ref() };
    guarded(-1, || Ok(file.ok_or_else(null)?.0.size()? as i64))
}

/// Gives back a file of a draft, which keeps it and its changes. NULL is no error. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ow_draft_file_close(file: *mut ow_draft_file) -> c_int {
    status(|| {
        if !file.is_null() {
            // SAFETY: it came from `ow_draft_claim` or `ow_draft_create`, and the caller gives it back.
            drop(unsafe { Box::from_raw(file) });
        }
        Ok(())
    })
}
