//! Sensitivity: StageFS with staging areas of 32 to 512 MiB, and on 1 to 16 parallel units (`papers/002` §5.7).
//!
//! The paper has curves and words for them, no figures; the words are the terms here. "Steady" is a difference of at
//! most a tenth.

use onewrite_block::MIB;
use onewrite_fs::ext4::Mode;

use super::flash::OnFlash;
use crate::error::LabError;
use crate::paper::cell::Work;
use crate::paper::found::{Case, Found};
use crate::paper::verdict::{Even, Terms};
use crate::session::{F2fsStack, Stack};
use crate::sqlite::{Journal, Kind, SqliteJob};
use crate::workload::filebench::{Length, Personality};

/// What varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paper) enum Varied {
    /// Size of the staging area.
    Size,
    /// Number of parallel units.
    Units,
}

const SIZES: [u64; 5] = [32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB];
const UNITS: [u32; 5] = [1, 2, 4, 8, 16];

const VARMAIL: Work = personality(Personality::Varmail, 100_000);
const FILESERVER: Work = personality(Personality::Fileserver, 200_000);
/// Five times as many puts as the paper's, which fill the smallest area several times.
const RAND_SYNC: Work = puts(Kind::RandSync);
const RAND_ASYNC: Work = puts(Kind::RandAsync);

const fn personality(personality: Personality, operations: u64) -> Work {
    Work::Personality { personality, files: None, length: Length::Operations(operations), compressible_percent: 0 }
}

const fn puts(kind: Kind) -> Work {
    Work::Sqlite(SqliteJob { journal: Some(Journal::Wal), operations: Some(50_000), ..SqliteJob::new(kind) })
}

const STEADY: Terms = Terms::Near { paper: 1.0, share: 0.1 };
const GROWS: Terms = Terms::Above(Even::Ratio);
const FALLS: Terms = Terms::Below(Even::Ratio);

pub(in crate::paper) fn measure(varied: Varied) -> Result<Found, LabError> {
    match varied {
        Varied::Size => by_size(),
        Varied::Units => by_units(),
    }
}

fn by_size() -> Result<Found, LabError> {
    let speeds = |work| SIZES.map(|bytes| OnFlash::staged(bytes).speed(&work)).into_iter().collect();
    let [mail, sync, unsynced, files]: [Result<Vec<f64>, LabError>; 4] =
        [VARMAIL, RAND_SYNC, RAND_ASYNC, FILESERVER].map(speeds);
    let (mail, sync, unsynced, files) = (mail?, sync?, unsynced?, files?);
    let mut cases = vec![
        Case::own("rand-sync, 128 MiB over 32", sync[2] / sync[0], GROWS),
        Case::own("rand-sync, 512 MiB over 128", sync[4] / sync[2], STEADY),
        Case::own("rand-async, 512 MiB over 32", unsynced[4] / unsynced[0], STEADY),
        Case::own("fileserver, 512 MiB over 32", files[4] / files[0], FALLS),
    ];
    for step in 1..4 {
        let name = format!("varmail, {} MiB over 32", SIZES[step] / MIB);
        cases.push(Case::shown(name, mail[step] / mail[0]));
    }
    Ok(Found { figure: mail[4] / mail[0], cases })
}

fn by_units() -> Result<Found, LabError> {
    let stacks = [OnFlash::staged(F2fsStack::STAGE_BYTES), f2fs(), OnFlash::of(Stack::Ext4(Mode::Ordered))];
    let gain = |work: &Work| Ok::<f64, LabError>(speed(stacks[0], 16, work)? / speed(stacks[0], 1, work)?);
    let (mail, sync) = (gain(&VARMAIL)?, gain(&RAND_SYNC)?);
    let (files, unsynced) = (gain(&FILESERVER)?, gain(&RAND_ASYNC)?);
    let mut cases = vec![
        Case::counts("rand-sync", sync),
        Case::own("fileserver's gain by varmail's", files / mail, FALLS),
        Case::own("rand-async's gain by rand-sync's", unsynced / sync, FALLS),
    ];
    for work in [VARMAIL, RAND_SYNC] {
        for units in UNITS {
            let staged = speed(stacks[0], units, &work)?;
            let best = speed(stacks[1], units, &work)?.max(speed(stacks[2], units, &work)?);
            let name = format!("{} with {units}, over the better of F2FS and ext4", work.name());
            cases.push(Case::own(name, staged / best, GROWS));
        }
    }
    Ok(Found { figure: mail, cases })
}

fn f2fs() -> OnFlash {
    OnFlash::of(Stack::F2fs(F2fsStack::default()))
}

fn speed(place: OnFlash, units: u32, work: &Work) -> Result<f64, LabError> {
    OnFlash { units: Some(units), ..place }.speed(work)
}
