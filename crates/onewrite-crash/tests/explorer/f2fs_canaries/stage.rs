//! Canaries of the staging area: records that are left out of its transactions, patches that do not arrive, and a
//! checkpoint that is not ordered behind them. A recovery that trusts torn pages is a mutant
//! (`stage-page-trusted-without-checksum`).

use std::ops::Range;

use onewrite_block::{Cause, MIB, Nanos, Operation, PAGE_SIZE, Page, PageBytes, Request, crc32c};
use onewrite_crash::{Alter, Altered, ExploreOptions, F2fsSubject, Promise};
use onewrite_fs::f2fs::FsyncMode;

use super::twisted::{Fate, Twist, twisted};
use super::{Layer, SEEDS, first_broken_by};

const SUBJECT: F2fsSubject = F2fsSubject::new(FsyncMode::Posix).with_stage(MIB);
const IMAGE_PAGES: u64 = 64 * MIB / PAGE_SIZE as u64;
const AREA_PAGES: u64 = MIB / PAGE_SIZE as u64;
/// The label of the area and its two ends come before its log.
const ENDS: Range<u64> = IMAGE_PAGES + 1..IMAGE_PAGES + 3;
const LOG: Range<u64> = IMAGE_PAGES + 3..IMAGE_PAGES + AREA_PAGES;
/// Bytes of a page's head, and of a record's.
const HEAD: usize = 32;
const RECORD_HEAD: usize = 16;
/// Kinds of records.
const INODE: u8 = 2;
const HOLE: u8 = 5;
const GONE: u8 = 8;

/// Files of a checkpoint that are changed in parts and as wholes, truncated and removed, each change synced. Three
/// transactions have several pages.
const STAGING: &str = "create /a; write /a 0 30000 1; create /b; write /b 0 9000 2; sync >> \
                       write /a 100 3000 3; write /a 4200 3000 4; fsync /a; write /a 8192 8192 5; fsync /a; \
                       write /a 16400 3000 9; write /a 20500 3000 10; fsync /a; \
                       write /a 200 3000 11; write /a 4300 3000 12; write /b 300 2000 13; fsync /a; \
                       truncate /a 5000; truncate /a 30000; fsync /a; write /b 50 60 6; fsync /b; unlink /b; \
                       create /n; append /n 300 7; fsync /n; sync; append /n 300 8; fsync /n";

fn options(seed: u64) -> ExploreOptions {
    ExploreOptions { commit_interval: Nanos::from_secs(5), ..super::options(seed) }.with_size(65 * MIB)
}

/// Asserts that a variant breaks one of `promises` from each seed.
#[track_caller]
fn assert_caught<A: Alter<F2fsSubject> + Copy + Send + Sync>(change: A, promises: &[Promise]) {
    for seed in SEEDS {
        let broken = first_broken_by(STAGING, Altered { sound: SUBJECT, change }, &options(seed));
        assert!(broken.is_some_and(|broken| promises.contains(&broken)), "seed {seed}: {broken:?}");
    }
}

#[test]
fn the_sound_staging_area_passes_the_same_states() {
    for seed in SEEDS {
        assert_eq!(first_broken_by(STAGING, SUBJECT, &options(seed)), None, "seed {seed}");
    }
}

/// Makes records of one kind say nothing.
struct Silences(u8);

impl Twist for Silences {
    fn fate(&mut self, request: &mut Request) -> Fate {
        if let Operation::Write { start, pages, .. } = &mut request.operation
            && LOG.contains(&start.0)
        {
            let mut stream: Vec<u8> = pages.iter().flat_map(|page| page.bytes()[HEAD..].to_vec()).collect();
            silence(&mut stream, self.0);
            for (page, payload) in pages.iter_mut().zip(stream.chunks(PAGE_SIZE - HEAD)) {
                put_payload(page, payload);
            }
        }
        Fate::Passes
    }
}

/// What a record of `kind` says becomes a change of no byte.
fn silence(stream: &mut [u8], kind: u8) {
    let mut at = 0;
    while at + RECORD_HEAD <= stream.len() {
        let length = usize::from(u16::from_le_bytes([stream[at + 2], stream[at + 3]]));
        if stream[at] == kind {
            match kind {
                HOLE => stream.copy_within(at + 8..at + 16, at + RECORD_HEAD),
                GONE => stream[at] = INODE,
                _ => unreachable!("no canary silences records of kind {kind}"),
            }
        }
        at += RECORD_HEAD + length;
    }
}

/// Puts the records of a page, and a checksum that fits them.
fn put_payload(page: &mut Page, payload: &[u8]) {
    let old: PageBytes = *page.bytes();
    let bytes = page.bytes_mut();
    bytes[HEAD..].copy_from_slice(payload);
    // The start value of the checksum is the image's; both sums without it differ as both sums with it do.
    let sum = |bytes: &PageBytes| crc32c(crc32c(0, &bytes[..4]), &bytes[8..]);
    let fits = u32::from_le_bytes(old[4..8].try_into().expect("four bytes")) ^ sum(&old) ^ sum(bytes);
    bytes[4..8].copy_from_slice(&fits.to_le_bytes());
}

#[test]
fn holes_that_are_not_logged() {
    assert_caught(Layer(|disk| twisted(disk, Silences(HOLE))), &[Promise::Content, Promise::Durability]);
}

#[test]
fn removals_that_are_not_logged() {
    assert_caught(Layer(|disk| twisted(disk, Silences(GONE))), &[Promise::Structure, Promise::Recovery]);
}

/// Loses the content that a checkpoint writes for staged pages, as if they had left memory before.
struct LosesPatches;

impl Twist for LosesPatches {
    fn fate(&mut self, request: &mut Request) -> Fate {
        match (&request.operation, request.cause) {
            (Operation::Write { start, .. }, Cause::Data) if start.0 < IMAGE_PAGES => Fate::IsLost,
            _ => Fate::Passes,
        }
    }
}

#[test]
fn staged_pages_that_nobody_patches() {
    assert_caught(Layer(|disk| twisted(disk, LosesPatches)), &[Promise::Content, Promise::Durability]);
}

/// Leaves out the FLUSH behind an end of the log, before the head of the checkpoint that the end names.
#[derive(Default)]
struct NoFlushAfterEnd {
    is_behind_end: bool,
}

impl Twist for NoFlushAfterEnd {
    fn fate(&mut self, request: &mut Request) -> Fate {
        match &request.operation {
            Operation::Write { start, .. } => self.is_behind_end = ENDS.contains(&start.0),
            Operation::Flush if self.is_behind_end => return Fate::IsLost,
            _ => (),
        }
        Fate::Passes
    }
}

#[test]
fn a_checkpoint_that_is_not_ordered_behind_its_patches() {
    let change = Layer(|disk| twisted(disk, NoFlushAfterEnd::default()));
    assert_caught(change, &[Promise::Recovery, Promise::Structure, Promise::Content, Promise::Durability]);
}
