//! Staging: StageFS beside ext4 and F2FS, on an ordinary SSD (`papers/002` §5.3, the rows `stage-530-*`) and on the
//! open-channel SSD (§5.2, §5.4, §5.6 and §5.7, the other rows `stage-*`).
//!
//! ```text
//!   mod.rs          both devices: speed and bytes beside other file systems
//!   flash.rs        one run on the open-channel SSD
//!   garbage.rs      §5.5: little room
//!   remount.rs      §5.6: a power cut, and the mount behind it
//!   sensitivity.rs  §5.7: sizes of the staging area, numbers of parallel units
//! ```
//!
//! The paper has 64 GB of flash, 8 GB of memory and Linux 2.6.32; the runs here have as much memory and 16 GiB of
//! either device, 128 MiB of staging as the paper, and ext4 in `ordered`, over PFTL on the open-channel one. SQLite's
//! benchmark puts the paper's numbers of keys. Mail runs for 30 seconds of the paper's ten minutes; the other servers
//! for a number of operations, since with this memory they hardly ever wait for the flash. The same with 256 MiB of
//! page cache is shown beside them.
//!
//! "Mobibench" is called random *asynchronous* writes *to pre-allocated files* in the paper's table 2, and a workload
//! with frequent synchronizations in its §5.2. It has 1 read for 99 writes. Here each write of 4 KiB to a written file
//! is synced; the other readings are shown beside it: one fsync at the end, and a file that is only reserved.

mod flash;
pub(super) mod garbage;
pub(super) mod remount;
pub(super) mod sensitivity;

use onewrite_block::{GIB, MIB};
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;

use self::flash::{MEMORY, OnFlash};
use super::cell::Work;
use super::found::{Case, Found};
use super::variant::Variant;
use super::verdict::{Even, Terms};
use crate::error::LabError;
use crate::session::{self, Extras, F2fsStack, RunSpec, Stack};
use crate::sqlite::{SqliteJob, SyncCall};

const PROFILE: &str = "sata-530";
/// A page cache that takes little of what the servers write.
const LITTLE_MEMORY: u64 = 256 * MIB;
/// 1,000 ticks a second.
const SHORT_TICK_NS: u64 = 1_000_000;

/// A workload, and the ratios of StageFS's speed to that of ext4 and of F2FS in the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub(super) work: Work,
    pub(super) over_ext4: f64,
    pub(super) over_f2fs: f64,
}

/// The ratio to ext4 of the first workload; each ratio is a case.
pub(super) fn over_others(all: &[Staged]) -> Result<Found, LabError> {
    let mut cases = Vec::new();
    for Staged { work, over_ext4, over_f2fs } in all {
        let staged = F2fsStack { stage_bytes: F2fsStack::STAGE_BYTES, ..F2fsStack::default() };
        let speed = |stack| speed(work, stack);
        let (ours, plain) = (speed(Stack::F2fs(staged))?, speed(Stack::F2fs(F2fsStack::default()))?);
        let rivals = [("ext4", speed(Stack::Ext4(Mode::Ordered))?, *over_ext4), ("F2FS", plain, *over_f2fs)];
        for (rival, speed, paper) in rivals {
            let terms = Terms::Gain { paper, even: Even::Ratio };
            cases.push(Case::own(format!("{} over {rival}", work.name()), ours / speed, terms));
        }
    }
    Ok(Found { figure: cases[0].figure, cases })
}

/// StageFS by another file system on the open-channel SSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenChannel {
    pub(super) work: Work,
    pub(super) rival: Rival,
    pub(super) of: Of,
    /// Other workloads of which the row says the same.
    pub(super) also: &'static [Work],
    /// Workloads that are shown beside it.
    pub(super) beside: &'static [Work],
    /// Other conditions under which it is shown beside that.
    pub(super) under: Option<Condition>,
}

/// What may be otherwise than in the paper, or as in the paper and not by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// [`LITTLE_MEMORY`].
    LittleMemory,
    /// [`SHORT_TICK_NS`]: about each fsync then finds an inode whose times changed.
    ShortTicks,
    /// The same, and a SQLite that was built without `fdatasync`, so that these inodes are committed.
    ShortTicksAndFsync,
}

/// What StageFS is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// ext4 over PFTL.
    Ext4,
    /// F2FS on the flash itself.
    F2fs,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Operations a second.
    Speed,
    /// Bytes programmed for each operation: with the same work, write amplification.
    FlashBytes,
}

/// The ratio of StageFS to its rival.
pub(super) fn on_open_channel(row: &OpenChannel) -> Result<Found, LabError> {
    let ratio = |work: &Work| row.ratio(work, None);
    let mut cases = Vec::new();
    for work in row.also {
        cases.push(Case::counts(work.name(), ratio(work)?));
    }
    for work in row.beside {
        cases.push(Case::shown(work.name(), ratio(work)?));
    }
    if let Some(condition) = row.under {
        cases.push(Case::shown(condition.name(), row.ratio(&condition.work(row.work), Some(condition))?));
    }
    Ok(Found { figure: ratio(&row.work)?, cases })
}

impl OpenChannel {
    /// Speed beside that of ext4.
    pub(super) const fn plain(work: Work) -> OpenChannel {
        OpenChannel { work, rival: Rival::Ext4, of: Of::Speed, also: &[], beside: &[], under: None }
    }

    fn ratio(&self, work: &Work, condition: Option<Condition>) -> Result<f64, LabError> {
        let place = |place: OnFlash| condition.map_or(place, |condition| condition.place(place));
        let measure = |on| self.of.measure(place(on), work);
        Ok(measure(OnFlash::staged(F2fsStack::STAGE_BYTES))? / measure(self.rival.on_flash())?)
    }
}

impl Condition {
    fn name(self) -> String {
        match self {
            Condition::LittleMemory => format!("with {} MiB of page cache", LITTLE_MEMORY / MIB),
            Condition::ShortTicks => "with ticks of 1 ms".to_owned(),
            Condition::ShortTicksAndFsync => "with ticks of 1 ms and fsync".to_owned(),
        }
    }

    fn place(self, place: OnFlash) -> OnFlash {
        match self {
            Condition::LittleMemory => OnFlash { cache_bytes: LITTLE_MEMORY, ..place },
            Condition::ShortTicks | Condition::ShortTicksAndFsync => OnFlash { tick_ns: SHORT_TICK_NS, ..place },
        }
    }

    fn work(self, work: Work) -> Work {
        match (self, work) {
            (Condition::ShortTicksAndFsync, Work::Sqlite(job)) => {
                Work::Sqlite(SqliteJob { sync_call: SyncCall::Fsync, ..job })
            }
            _ => work,
        }
    }
}

impl Rival {
    fn on_flash(self) -> OnFlash {
        OnFlash::of(match self {
            Rival::Ext4 => Stack::Ext4(Mode::Ordered),
            Rival::F2fs => Stack::F2fs(F2fsStack::default()),
        })
    }
}

impl Of {
    fn measure(self, place: OnFlash, work: &Work) -> Result<f64, LabError> {
        let result = place.run(work)?;
        Ok(match self {
            Of::Speed => work.speed(&result),
            Of::FlashBytes => {
                let all = result.onewrite.total.onewrite.as_ref().map_or(0, |all| all.operations);
                result.onewrite.device.flash_program_bytes as f64 / all.max(1) as f64
            }
        })
    }
}

/// Operations a second.
fn speed(work: &Work, stack: Stack) -> Result<f64, LabError> {
    let spec = RunSpec { cache_bytes: MEMORY, ..RunSpec::new(work.job(Variant::PLAIN)?, stack, PROFILE) };
    let device = Profile::load(PROFILE)?.device(Some(16 * GIB))?;
    Ok(work.speed(&session::run(&spec, device, Extras::default())?))
}
