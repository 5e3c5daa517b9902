//! Garbage: StageFS beside F2FS where there is little room (`papers/002` §5.5), at an eighth of the paper's 8 GB: the
//! device, its flash blocks, its memory, the staging area and the files are all an eighth.
//!
//! The paper counts what its FTL moves and erases, under both file systems. Here both lie on the flash itself, and what
//! is counted is F2FS's own cleaning. "Records" are slots of 100 bytes in one file, overwritten at random; as rows of
//! SQLite, 40 million of them would not fit 8 GB.

use onewrite_block::{GIB, MIB};

use super::flash::OnFlash;
use crate::error::LabError;
use crate::paper::cell::Work;
use crate::paper::found::{Case, Found};
use crate::paper::verdict::{PLAIN, Terms};
use crate::results::RunResult;
use crate::session::{F2fsStack, Stack};
use crate::workload::filebench::{Length, Personality};

/// What is compared of StageFS and F2FS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paper) enum Garbage {
    /// Blocks moved, with a sync each 1,000 records.
    Moved,
    /// Blocks moved for each erased flash block, by the file server.
    OfFiles,
    /// The same with a sync each 10,000 records, and about as many erased blocks.
    OfRecords,
    /// Speed of all four workloads.
    Speed,
}

/// All is so many times smaller than in the paper.
const PART: u32 = 8;

const RECORDS_1K: Work = Work::Fio {
    name: "rand-sync1k",
    text: "rw=randwrite\nbs=100\nsize=500000000\nio_size=25000000\nfsync=1000\nnorandommap=1\noverwrite=1\n",
};
const RECORDS_10K: Work = Work::Fio {
    name: "rand-sync10k",
    text: "rw=randwrite\nbs=100\nsize=250000000\nio_size=50000000\nfsync=10000\nnorandommap=1\noverwrite=1\n",
};
/// Three times the files.
const FILES: Work = personality(Personality::Fileserver, 3_750, 120_000);
/// Ten times the files.
const MAIL: Work = personality(Personality::Varmail, 1_250, 150_000);

const fn personality(personality: Personality, files: u32, operations: u64) -> Work {
    let length = Length::Operations(operations);
    Work::Personality { personality, files: Some(files), length, compressible_percent: 0 }
}

/// Runs StageFS and F2FS, and compares them.
pub(in crate::paper) fn measure(what: Garbage) -> Result<Found, LabError> {
    let alone = |work, of| Ok(Found { figure: ratio(work, of)?, cases: Vec::new() });
    match what {
        Garbage::Moved => alone(&RECORDS_1K, moved),
        Garbage::OfFiles => alone(&FILES, moved_for_each_erase),
        Garbage::OfRecords => {
            let near = Terms::Near { paper: 1.008, share: PLAIN };
            let erased = Case::own("erased blocks", ratio(&RECORDS_10K, erases)?, near);
            Ok(Found { figure: ratio(&RECORDS_10K, moved_for_each_erase)?, cases: vec![erased] })
        }
        Garbage::Speed => {
            let one = |work: &Work| Ok(Case::counts(work.name(), ratio(work, Work::speed)?));
            let works = [FILES, MAIL, RECORDS_1K, RECORDS_10K];
            let cases = works.iter().map(one).collect::<Result<Vec<Case>, LabError>>()?;
            Ok(Found::largest_of(cases))
        }
    }
}

/// StageFS by F2FS.
fn ratio(work: &Work, of: fn(&Work, &RunResult) -> f64) -> Result<f64, LabError> {
    Ok(of(work, &run(work, STAGED)?) / of(work, &run(work, 0)?))
}

/// Of 512 MB.
const STAGED: u64 = 512 * MIB / PART as u64;

fn run(work: &Work, stage_bytes: u64) -> Result<RunResult, LabError> {
    let stack = Stack::F2fs(F2fsStack { stage_bytes, ..F2fsStack::default() });
    let (bytes, cache_bytes) = (8 * GIB / u64::from(PART), 8 * GIB / u64::from(PART));
    OnFlash { bytes, cache_bytes, part: PART, ..OnFlash::of(stack) }.run(work)
}

/// Blocks that cleaning moved; one where it moved none, so that a ratio remains.
fn moved(_: &Work, result: &RunResult) -> f64 {
    let cleaning = result.onewrite.fs.as_ref().and_then(|fs| fs.cleaning);
    cleaning.map_or(0, |cleaning| cleaning.copied_blocks + cleaning.moved_nodes).max(1) as f64
}

fn moved_for_each_erase(work: &Work, result: &RunResult) -> f64 {
    moved(work, result) / erases(work, result)
}

fn erases(_: &Work, result: &RunResult) -> f64 {
    result.onewrite.device.erases.max(1) as f64
}
