//! Room: computes how large a device must be for a job, and the advice when it is too small.

use onewrite_block::{Choices, KIB, MIB};
use onewrite_fs::FsError;

use super::device::DEFAULT_BYTES;
use super::spec::{JobSpec, RunSpec};
use super::stack::Stack;
use crate::error::LabError;
use crate::workload::{Workload, fio};
use crate::{innodb, sqlite};

/// Bytes of metadata of a file system of 1 GiB, without its journal.
const STRUCTURE_BYTES: u64 = 32 * MIB;
/// Bytes of the journal that mke2fs makes on 1 GiB.
const JOURNAL_BYTES: u64 = 32 * MIB;
/// Bytes that an F2FS of 1 GiB keeps for its cleaning, rounded up.
const CLEANING_BYTES: u64 = 128 * MIB;
/// New devices are a multiple of this size.
const STEP: u64 = 64 * MIB;
/// Bytes of a device for each inode, as mke2fs chooses from 512 MiB on.
const BYTES_PER_INODE: u64 = 16 * KIB;
/// Inodes that a new file system uses for itself.
const OWN_INODES: u64 = 11;

impl RunSpec {
    /// Bytes of a new device for this run: at least 1 GiB, and at least what the job needs. A quarter is added for
    /// metadata, journal and files whose blocks are freed late. The device also has the inodes that the job needs.
    ///
    /// # Errors
    /// If the job cannot be planned.
    pub fn bytes_wanted(&self) -> Result<u64, LabError> {
        let Needed { bytes: needed, inodes } = self.job.needed(self.stack, self.seed)?;
        if self.stack == Stack::Raw {
            return Ok(needed.max(DEFAULT_BYTES).next_multiple_of(STEP));
        }
        let Beside { journal, for_inodes } = self.beside(inodes);
        let is_small = needed.saturating_add(journal).saturating_add(STRUCTURE_BYTES) <= DEFAULT_BYTES;
        if is_small && for_inodes <= DEFAULT_BYTES {
            return Ok(DEFAULT_BYTES);
        }
        let with_margin = needed.saturating_add(needed / 4).saturating_add(journal);
        with_margin.max(for_inodes).saturating_add(STEP).checked_next_multiple_of(STEP).ok_or_else(too_large)
    }

    /// As [`RunSpec::bytes_wanted`], for a device whose zones F2FS writes. Half is added for the whole sections that it
    /// keeps for cleaning and for its logs.
    ///
    /// # Errors
    /// As there.
    pub fn bytes_wanted_in_zones(&self) -> Result<u64, LabError> {
        let (needed, wanted) = (self.job.bytes_needed(self.stack, self.seed)?, self.bytes_wanted()?);
        let is_small = needed <= DEFAULT_BYTES / 2 && wanted == DEFAULT_BYTES;
        let larger = wanted.saturating_add(wanted / 2).checked_next_multiple_of(STEP);
        if is_small { Ok(wanted) } else { larger.ok_or_else(too_large) }
    }

    /// What the file system needs beside content for `inodes` inodes.
    fn beside(&self, inodes: u64) -> Beside {
        let Stack::Ext4(mode) = self.stack else {
            // Each inode takes a block, and cleaning some segments.
            let stage_bytes = if let Stack::F2fs(f2fs) = self.stack { f2fs.stage_bytes } else { 0 };
            let journal = CLEANING_BYTES.saturating_add(stage_bytes).saturating_add(inodes.saturating_mul(4 * KIB));
            return Beside { journal, for_inodes: 0 };
        };
        let usual = if mode.is_lazy() { DEFAULT_BYTES / 8 } else { JOURNAL_BYTES };
        let for_inodes = inodes.saturating_add(OWN_INODES).saturating_mul(BYTES_PER_INODE);
        // A log that is asked for lies among tables of inodes that grow with the device.
        let journal = self.journal_bytes.map_or(usual, |asked| asked.saturating_add(asked / 32));
        Beside { journal, for_inodes }
    }

    /// Adds to an out-of-space `error` what the job needs; `has` is the size of the device in bytes. Leaves other
    /// errors alone.
    pub(super) fn with_need(&self, error: LabError, has: u64) -> LabError {
        let is_full = matches!(
            &error,
            LabError::Fs(FsError::NoSpace { .. }) | LabError::Operation { source: FsError::NoSpace { .. }, .. }
        );
        match self.bytes_wanted() {
            Ok(wanted) if is_full => {
                // Files may grow beyond their first size.
                let wanted = if wanted > has { wanted } else { has.saturating_mul(2) }.div_ceil(MIB);
                LabError::NoRoom { cause: Box::new(error), has, wanted: format!("--size {wanted}M") }
            }
            _ => error,
        }
    }
}

fn too_large() -> LabError {
    LabError::Option("the job's files are too large".to_owned())
}

impl JobSpec {
    /// Bytes of all files of the job, or the end of the last byte that it uses on a raw device.
    ///
    /// # Errors
    /// If the job cannot be planned.
    pub fn bytes_needed(&self, stack: Stack, seed: u64) -> Result<u64, LabError> {
        Ok(self.needed(stack, seed)?.bytes)
    }

    fn needed(&self, stack: Stack, seed: u64) -> Result<Needed, LabError> {
        match (self, stack) {
            (JobSpec::Fio(file), Stack::Raw) => Ok(Needed { bytes: fio::bytes_reached(file), inodes: 0 }),
            (JobSpec::Sqlite(_), _) => Ok(Needed { bytes: sqlite::BYTES, inodes: 4 }),
            (JobSpec::Innodb(_), _) => Ok(Needed { bytes: innodb::BYTES, inodes: innodb::INODES }),
            (_, Stack::Raw) => Ok(Needed { bytes: 0, inodes: 0 }),
            _ => {
                let Workload { files, directories, .. } = self.plan(fio::Target::Files, &Choices::new(seed))?;
                let bytes = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
                Ok(Needed { bytes, inodes: (files.len() + directories.len()) as u64 })
            }
        }
    }
}

/// What a file system needs beside the content of files.
struct Beside {
    /// Bytes of a journal, or of what takes its place.
    journal: u64,
    /// Bytes of the smallest device that has the inodes.
    for_inodes: u64,
}

/// What the files of a job need.
struct Needed {
    /// Bytes of content.
    bytes: u64,
    /// Files and directories.
    inodes: u64,
}
