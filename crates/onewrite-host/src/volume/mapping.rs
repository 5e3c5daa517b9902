//! Mapping: content of an atomic file as memory; what a program stores there becomes durable together
//! (failure-atomic `msync`, Park et al., EuroSys 2013).
//!
//! ```no_run
//! # fn main() -> Result<(), onewrite_host::VolumeError> {
//! # use onewrite_fs::ext4::{Mode, MountOptions};
//! # use onewrite_host::Volume;
//! let volume = Volume::open("disk.img", MountOptions::new(Mode::DataAsync))?;
//! let draft = volume.atomic()?;
//! let (mut index, mut table) = (draft.claim("/index")?.map()?, draft.claim("/table")?.map()?);
//! table[4096..4100].copy_from_slice(b"cell");
//! index[0] += 1;
//! draft.msync(&mut [&mut index, &mut table]) // both survive a power cut now; before, neither did
//! # }
//! ```
//!
//! A mapping is ordinary memory of the process, filled when it is made, and beside it a copy of what the draft has.
//! `msync` compares the two page by page and writes the pages that differ into the draft; so nothing traps, any code
//! may store into it, and it costs twice the memory of the file and a comparison of all of it.
//!
//! # Invariants
//! - `kept` is the content of the file in its draft, except inside [`Mapping::put`].
//! - Nobody sees a store before an msync has returned; a mapping that is dropped loses the others.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use onewrite_fs::{DraftId, FsError};

use super::core::Core;
use super::draft::DraftFile;
use super::error::VolumeError;

/// What is compared, and written if it differs, in bytes.
const PAGE: usize = 4096;
/// What is read at once.
const READ_BYTES: u64 = 1 << 20;

/// The content of a file of a [`Draft`](super::Draft) as memory. Its size stays; another size needs another mapping.
/// While it is there, the file's content is changed through it alone: it does not notice what
/// [`DraftFile::write_at`] changes, nor an abort of the draft.
pub struct Mapping {
    file: DraftFile,
    bytes: Vec<u8>,
    kept: Vec<u8>,
}

impl Mapping {
    /// Maps the file as its draft has it.
    pub(super) fn of(file: &DraftFile) -> Result<Mapping, VolumeError> {
        let size = file.size()?;
        let refused =
            || FsError::Invalid(format!("{size} bytes do not fit into memory twice: change the file by write_at"));
        let (mut bytes, mut kept) = room_for(size).zip(room_for(size)).ok_or_else(refused)?;
        while (kept.len() as u64) < size {
            let part = file.read_at(kept.len() as u64, READ_BYTES.min(size - kept.len() as u64))?;
            kept.extend_from_slice(&part);
        }
        bytes.extend_from_slice(&kept);
        Ok(Mapping { file: file.clone(), bytes, kept })
    }

    /// Where the content begins: for programs in C, which store through it without a reference of Rust. Valid until the
    /// mapping is dropped; nothing may store there during [`Draft::msync`](super::Draft::msync).
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Whether it is one of this draft.
    pub(super) fn is_of(&self, core: &Arc<Core>, draft: DraftId) -> bool {
        self.file.is_of(core, draft)
    }

    /// Writes every page that differs into the draft. Returns these pages' numbers.
    ///
    /// # Errors
    /// As [`DraftFile::write_at`]; the draft has the file as before then, and the stores stay in memory.
    pub(super) fn put(&self) -> Result<Vec<usize>, VolumeError> {
        let mut put = Vec::new();
        for page in self.changed() {
            if let Err(error) = self.write(page, &self.bytes) {
                self.take_back(&put);
                return Err(error);
            }
            put.push(page);
        }
        Ok(put)
    }

    /// Gives the draft its content of these pages again. They are in the draft, so they need no more room; an error
    /// means that the draft has ended.
    pub(super) fn take_back(&self, pages: &[usize]) {
        for page in pages {
            let _ = self.write(*page, &self.kept);
        }
    }

    /// The draft has these pages for good.
    pub(super) fn keep(&mut self, pages: &[usize]) {
        for page in pages {
            let range = self.range(*page);
            self.kept[range.clone()].copy_from_slice(&self.bytes[range]);
        }
    }

    fn changed(&self) -> impl Iterator<Item = usize> {
        let pages = self.bytes.chunks(PAGE).zip(self.kept.chunks(PAGE)).enumerate();
        pages.filter(|(_, (stored, kept))| stored != kept).map(|(page, _)| page)
    }

    fn range(&self, page: usize) -> std::ops::Range<usize> {
        page * PAGE..self.bytes.len().min((page + 1) * PAGE)
    }

    fn write(&self, page: usize, from: &[u8]) -> Result<(), VolumeError> {
        self.file.write_at((page * PAGE) as u64, &from[self.range(page)])
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Memory for `size` bytes; none if twice as many are more than the machine has, which Linux might promise all the same.
fn room_for(size: u64) -> Option<Vec<u8>> {
    let machine = rustix::system::sysinfo();
    let bytes = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
    let mut room = Vec::new();
    let fits = size <= bytes / 2 && room.try_reserve_exact(usize::try_from(size).ok()?).is_ok();
    fits.then_some(room)
}

/// Writes the stores of all mappings into their draft, or of none, and commits it.
pub(super) fn msync(
    mappings: &mut [&mut Mapping],
    commit: impl FnOnce() -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let mut put = Vec::new();
    let mut result = Ok(());
    for mapping in mappings.iter() {
        match mapping.put() {
            Ok(pages) => put.push(pages),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    match result.and_then(|()| commit()) {
        Ok(()) => mappings.iter_mut().zip(&put).for_each(|(mapping, pages)| mapping.keep(pages)),
        Err(error) => {
            mappings.iter().zip(&put).for_each(|(mapping, pages)| mapping.take_back(pages));
            return Err(error);
        }
    }
    Ok(())
}
