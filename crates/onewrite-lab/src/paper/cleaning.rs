//! Cleaning: F2FS whose cleaning shares (SSC) beside F2FS whose cleaning copies (SC). Dissertation §3.7, figure 3-10.
//!
//! The paper fills the file system to half. Then fio writes at random, over 40% of the capacity, with an fsync every 8
//! to 128 writes. Here a file of half the room is written once, and one of 40% of it is overwritten. Both are on 1 GiB
//! of `nvme-share`. Fsyncs of fewer than 16 pages write in place, as the paper says of its F2FS. An image that is half
//! full in all, the other way to read it, is shown beside it.

use onewrite_block::{GIB, MIB};
use onewrite_device::Profile;
use onewrite_fs::CleaningCounters;
use onewrite_fs::f2fs::{Clean, F2fsOptions};

use super::found::{Case, Found};
use super::spread::Spread;
use super::verdict::Terms;
use crate::error::LabError;
use crate::job::JobFile;
use crate::session::{self, Extras, F2fsStack, JobSpec, RunSpec, Stack};

const PROFILE: &str = "nvme-share";
/// Writes between two fsyncs, where the paper cleans.
const INTERVALS: [u32; 4] = [16, 32, 64, 128];
/// The interval at which it does not.
const IN_PLACE: u32 = 8;
/// Bytes that a new image of 1 GiB has room for: 222,720 blocks.
const ROOM: u64 = 870 * MIB;
/// Bytes written at random.
const WRITTEN: u64 = GIB;
/// Largest relative difference of what SSC and SC move: "about the same".
const ALIKE: f64 = 0.25;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// What is asked of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleaned {
    /// Speed of SSC by that of SC, at the interval where it is least.
    LeastGain,
    /// The same where it is most.
    MostGain,
    /// Pages of content that SSC copies.
    Copied,
    /// Segments of content that either cleans where fsyncs write in place.
    InPlace,
}

/// Percent of the room that is written once, and that is overwritten.
type Shares = (u64, u64);
/// The paper's cell, and the other way to read it.
const CELL: Shares = (50, 40);
const HALF_FULL: Shares = (10, 40);

pub(super) fn measure(what: Cleaned) -> Result<Found, LabError> {
    match what {
        // At every interval there is a gain; the best one is that of one interval alone.
        Cleaned::LeastGain => gains(f64::min, Case::counts),
        Cleaned::MostGain => gains(f64::max, Case::shown),
        Cleaned::Copied => copied(),
        Cleaned::InPlace => in_place(),
    }
}

/// One run: writes a second, and what cleaning did.
#[derive(Clone, Copy)]
struct Run {
    speed: f64,
    cleaning: CleaningCounters,
}

fn gains(choose: fn(f64, f64) -> f64, case: fn(String, f64) -> Case) -> Result<Found, LabError> {
    let mut cases = Vec::new();
    for interval in INTERVALS {
        let spread = gain(CELL, interval)?;
        cases.push(case(format!("fsync every {interval}"), spread.median).over(spread.range));
    }
    let figure = cases.iter().map(|case| case.figure).reduce(choose).expect("there are intervals");
    for interval in [16, 128] {
        let spread = gain(HALF_FULL, interval)?;
        let name = format!("half full in all, fsync every {interval}");
        cases.push(Case::shown(name, spread.median).over(spread.range));
    }
    Ok(Found { figure, cases })
}

fn gain(shares: Shares, interval: u32) -> Result<Spread, LabError> {
    let speeds = |clean| {
        let speed = |seed| run(shares, interval, clean, seed).map(|run| run.speed);
        SEEDS.map(speed).collect::<Result<Vec<f64>, LabError>>()
    };
    Ok(Spread::of(&speeds(Clean::Share)?, &speeds(Clean::Copy)?))
}

fn copied() -> Result<Found, LabError> {
    let (mut copied, mut cases) = (0, Vec::new());
    for interval in INTERVALS {
        let [shares, copies] = [Clean::Share, Clean::Copy].map(|clean| run(CELL, interval, clean, 1));
        let (shares, copies) = (shares?.cleaning, copies?.cleaning);
        copied += shares.copied_blocks;
        let alike = shares.shared_blocks as f64 / copies.copied_blocks as f64;
        let name = format!("pages that SSC moves by those that SC moves, fsync every {interval}");
        cases.push(Case::own(name, alike, Terms::Near { paper: 1.0, share: ALIKE }));
        cases.push(Case::shown(format!("pages that SC copies, fsync every {interval}"), copies.copied_blocks as f64));
    }
    Ok(Found { figure: copied as f64, cases })
}

fn in_place() -> Result<Found, LabError> {
    let (mut segments, mut cases) = (0, Vec::new());
    for clean in Clean::ALL {
        let CleaningCounters { copied_blocks, shared_blocks, segments: all, .. } =
            run(CELL, IN_PLACE, clean, 1)?.cleaning;
        // Nodes always get new blocks, and in quiet times their segments are emptied, too.
        segments += if copied_blocks + shared_blocks == 0 { 0 } else { all };
        cases.push(Case::shown(format!("all segments, those of nodes too, cleaned by {clean}"), all as f64));
        let at_the_limit = run(CELL, F2fsOptions::IN_PLACE_BELOW, clean, 1)?.cleaning.segments;
        cases.push(Case::shown(format!("the same with an fsync every 16, cleaned by {clean}"), at_the_limit as f64));
    }
    Ok(Found { figure: segments as f64, cases })
}

fn run((once, again): Shares, interval: u32, clean: Clean, seed: u64) -> Result<Run, LabError> {
    let (once, again) = (ROOM * once / 100, ROOM * again / 100);
    let text = format!(
        "[fill]\nrw=write\nbs=1m\nsize={once}\n[random]\nstonewall\nrw=randwrite\nnorandommap=1\nbs=4k\nsize={again}\n\
         io_size={WRITTEN}\nfsync={interval}\n"
    );
    let f2fs = F2fsStack { clean, in_place_below: F2fsOptions::IN_PLACE_BELOW, ..F2fsStack::default() };
    let job = JobSpec::Fio(JobFile::parse("cleaning", &text)?);
    let spec = RunSpec { seed, ..RunSpec::new(job, Stack::F2fs(f2fs), PROFILE) };
    let result = session::run(&spec, Profile::load(PROFILE)?.device(Some(GIB))?, Extras::default())?;
    let random = result.jobs.iter().find(|job| job.jobname == "random");
    let speed = random.map_or(0.0, |job| job.write.iops);
    let cleaning = result.onewrite.fs.as_ref().and_then(|fs| fs.cleaning).unwrap_or_default();
    Ok(Run { speed, cleaning })
}
