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
//! - `kept` is the content of the file in its draft, except inside [`msync`].
//! - Nobody sees a store before an msync has returned; a mapping that is dropped loses the others.

use std::ops::{Deref, DerefMut};

use onewrite_fs::FsError;

use super::draft::{Draft, DraftFile};
use super::error::VolumeError;

/// What is compared, and written if it differs, in bytes.
const PAGE: usize = 4096;
/// What is read at once.
const READ_BYTES: u64 = 1 << 20;

/// The content of a file of a [`Draft`] as memory. Its size stays; another size needs another mapping.
/// While it is there, the file's content is changed through it alone: it does not notice what
/// [`DraftFile::write_at`] changes, nor an abort of the draft.
pub struct Mapping {
    file: DraftFile,
    bytes: Vec<u8>,
    kept: Vec<u8>,
}

impl DraftFile {
    /// The content as memory, in which changes wait for [`Draft::msync`].
    ///
    /// # Errors
    /// As [`DraftFile::read_at`]; a file that does not fit into memory twice.
    pub fn map(&self) -> Result<Mapping, VolumeError> {
        let size = self.size()?;
        let refused =
            || FsError::Invalid(format!("{size} bytes do not fit into memory twice: change the file by write_at"));
        let (mut bytes, mut kept) = room_for(size).zip(room_for(size)).ok_or_else(refused)?;
        while (kept.len() as u64) < size {
            let part = self.read_at(kept.len() as u64, READ_BYTES.min(size - kept.len() as u64))?;
            if part.is_empty() {
                break; // Another thread has just truncated the file in the draft.
            }
            kept.extend_from_slice(&part);
        }
        bytes.extend_from_slice(&kept);
        Ok(Mapping { file: self.clone(), bytes, kept })
    }
}

impl Draft {
    /// Commits what was stored into the mappings since their last msync, and all other changes of the draft, as one
    /// step.
    ///
    /// # Errors
    /// As [`DraftFile::write_at`] and [`Draft::commit`]: nothing has become visible, the draft's other changes and the
    /// stores in the mappings stay. EINVAL for a mapping of another draft.
    pub fn msync(&self, mappings: &mut [&mut Mapping]) -> Result<(), VolumeError> {
        if !mappings.iter().all(|mapping| mapping.file.is_of(self)) {
            let text = "a mapping of another draft cannot be committed here: msync it with its own draft";
            return Err(FsError::Invalid(text.to_owned()).into());
        }
        msync(self, mappings)
    }
}

impl Mapping {
    /// Where the content begins: for programs in C, which store through it without a reference of Rust. Valid until the
    /// mapping is dropped; nothing may store there during [`Draft::msync`].
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Writes every page that differs into the draft; `put` gets their numbers.
    ///
    /// # Errors
    /// As [`DraftFile::write_at`]; the pages before are in the draft then.
    fn put(&self, put: &mut Vec<Vec<usize>>) -> Result<(), VolumeError> {
        let mut pages = Vec::new();
        let outcome = self.changed().try_for_each(|page| {
            self.write(page, &self.bytes)?;
            pages.push(page);
            Ok(())
        });
        put.push(pages);
        outcome
    }

    /// Gives the draft its content of these pages again. They are in the draft, so they need no more room; an error
    /// means that the draft has ended.
    fn take_back(&self, pages: &[usize]) {
        for page in pages {
            let _ = self.write(*page, &self.kept);
        }
    }

    /// The draft has these pages for good.
    fn keep(&mut self, pages: &[usize]) {
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

/// Memory for `size` bytes; none if twice as many are more than the machine has. Linux might promise them all the same.
fn room_for(size: u64) -> Option<Vec<u8>> {
    let machine = rustix::system::sysinfo();
    room_on(machine.totalram.saturating_mul(u64::from(machine.mem_unit)), size)
}

/// [`room_for`] on a machine with `memory` bytes.
fn room_on(memory: u64, size: u64) -> Option<Vec<u8>> {
    let mut room = Vec::new();
    let fits = size <= memory / 2 && room.try_reserve_exact(usize::try_from(size).ok()?).is_ok();
    fits.then_some(room)
}

/// What is done after an msync that failed.
enum Undo {
    /// The draft had no other changes: it is aborted.
    Abort,
    /// The pages are given back their content. The draft keeps the room for them until its next commit or abort.
    Rewrite,
}

/// Writes the stores of all mappings into `draft`, or of none, and commits it.
fn msync(draft: &Draft, mappings: &mut [&mut Mapping]) -> Result<(), VolumeError> {
    let undo = if draft.is_changed()? { Undo::Rewrite } else { Undo::Abort };
    let mut put = Vec::new();
    let all = mappings.iter().try_for_each(|mapping| mapping.put(&mut put));
    match all.and_then(|()| draft.commit()) {
        Ok(()) => mappings.iter_mut().zip(&put).for_each(|(mapping, pages)| mapping.keep(pages)),
        Err(error) => {
            match undo {
                // The error that counts is the first one.
                Undo::Abort => drop(draft.abort()),
                Undo::Rewrite => mappings.iter().zip(&put).for_each(|(mapping, pages)| mapping.take_back(pages)),
            }
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content is there twice.
    #[test]
    fn a_file_has_room_up_to_half_of_the_memory() {
        assert!(room_on(8192, 4096).is_some_and(|room| room.capacity() >= 4096));
        assert!(room_on(8192, 4097).is_none() && room_on(8191, 4096).is_none());
        assert!(room_on(u64::MAX, 1 << 62).is_none(), "more than an address space");
    }

    #[test]
    fn the_machine_itself_is_asked() {
        assert!(room_for(4096).is_some() && room_for(u64::MAX).is_none() && room_for(1 << 50).is_none());
    }
}
