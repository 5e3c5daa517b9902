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
//! The paper has 512 MB of staging on an Intel 530 and Linux 2.6.32; the runs here have 128 MiB on 16 GiB of
//! either device, and ext4 in `ordered`, over PFTL on the open-channel one. SQLite's benchmark puts 5,000 keys.
//!
//! "Mobibench" is called random *asynchronous* writes in the paper's table 2, and a workload with frequent
//! synchronizations in its §5.2. It has 1 read for 99 writes. Here each write of 4 KiB is synced; the other reading,
//! one fsync at the end, is shown beside it.

mod flash;
pub(super) mod garbage;
pub(super) mod remount;
pub(super) mod sensitivity;

use onewrite_block::{GIB, MIB};
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;

use self::flash::OnFlash;
use super::cell::Work;
use super::found::{Case, Found};
use super::variant::Variant;
use super::verdict::{Even, Terms};
use crate::error::LabError;
use crate::session::{self, Extras, F2fsStack, RunSpec, Stack};

const PROFILE: &str = "sata-530";

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
pub(super) fn on_open_channel(OpenChannel { work, rival, of, also, beside }: &OpenChannel) -> Result<Found, LabError> {
    let ratio = |work: &Work| -> Result<f64, LabError> {
        Ok(of.measure(OnFlash::staged(F2fsStack::STAGE_BYTES), work)? / of.measure(rival.on_flash(), work)?)
    };
    let mut cases = Vec::new();
    for work in *also {
        cases.push(Case::counts(work.name(), ratio(work)?));
    }
    for work in *beside {
        cases.push(Case::shown(work.name(), ratio(work)?));
    }
    Ok(Found { figure: ratio(work)?, cases })
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
    let spec = RunSpec { cache_bytes: 256 * MIB, ..RunSpec::new(work.job(Variant::PLAIN)?, stack, PROFILE) };
    let device = Profile::load(PROFILE)?.device(Some(16 * GIB))?;
    Ok(work.speed(&session::run(&spec, device, Extras::default())?))
}
