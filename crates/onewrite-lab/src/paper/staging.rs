//! Staging: StageFS beside ext4 and F2FS, on an ordinary SSD (`papers/002` §5.3, the rows `stage-530-*`) and on the
//! open-channel SSD (§5.2, the other rows `stage-*`).
//!
//! The paper has 512 MB of staging on an Intel 530 and Linux 2.6.32; the runs here have 128 MiB on 16 GiB of
//! either device, and ext4 in `ordered`, over PFTL on the open-channel one. SQLite's benchmark puts 5,000 keys.

use onewrite_block::{GIB, MIB};
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;

use super::cell::{Cell, Work};
use super::found::{Case, Found};
use super::variant::Variant;
use super::verdict::{Even, Terms};
use crate::error::LabError;
use crate::session::{self, DeviceChoice, Extras, F2fsStack, RunSpec, Stack};

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

/// The device without a translation layer.
const OPEN: &str = "ocssd-huawei";

/// StageFS by another file system on the open-channel SSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenChannel {
    pub(super) work: Work,
    pub(super) rival: Rival,
    pub(super) of: Of,
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
pub(super) fn on_open_channel(OpenChannel { work, rival, of }: &OpenChannel) -> Result<f64, LabError> {
    let staged = F2fsStack { stage_bytes: F2fsStack::STAGE_BYTES, ..F2fsStack::default() };
    let rival = match rival {
        Rival::Ext4 => Stack::Ext4(Mode::Ordered),
        Rival::F2fs => Stack::F2fs(F2fsStack::default()),
    };
    let measure = |stack: Stack| -> Result<f64, LabError> {
        let cell = Cell::new(OPEN, Mode::Ordered, *work);
        let spec = RunSpec { cache_bytes: 256 * MIB, ..RunSpec::new(work.job(Variant::PLAIN)?, stack, OPEN) };
        let device = DeviceChoice::named(OPEN)?.under(stack).open(Some(16 * GIB))?;
        let result = session::run(&spec, device, Extras::default())?;
        let all = result.onewrite.total.onewrite.as_ref().map_or(0, |all| all.operations);
        let operations = all.max(1) as f64;
        Ok(match of {
            Of::Speed => cell.speed(&result),
            Of::FlashBytes => result.onewrite.device.flash_program_bytes as f64 / operations,
        })
    };
    Ok(measure(Stack::F2fs(staged))? / measure(rival)?)
}

/// Operations a second.
fn speed(work: &Work, stack: Stack) -> Result<f64, LabError> {
    let cell = Cell::new(PROFILE, Mode::Ordered, *work);
    let spec = RunSpec { cache_bytes: 256 * MIB, ..RunSpec::new(work.job(Variant::PLAIN)?, stack, PROFILE) };
    let device = Profile::load(PROFILE)?.device(Some(16 * GIB))?;
    Ok(cell.speed(&session::run(&spec, device, Extras::default())?))
}
