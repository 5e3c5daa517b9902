//! Git: clone and checkout of a real repository, recorded as files and replayed (`papers/001` §6.1 and §6.2): the rows
//! `ldj-git`, `ldj-ratio-git`, `ldj-writes-*git*` and `ldj-journal-size`.
//!
//! The paper cloned 20 GB of kernel source from a server beside it. Here a snapshot of this project is cloned by git
//! itself ([`recording`]) and replayed into one directory after another until a sixteenth of 20 GB is written, with
//! logs and memory of a sixteenth, too: 320 MiB of log for LDJ, 8 MiB for its rivals, all files in memory (the paper's
//! machine had 128 GB). Time ends with the `sync` behind the last clone. What git computes takes no time.

mod recording;
mod replay;

use onewrite_block::{Choices, Executor, GIB, HostProfile, MIB, PAGE_SIZE, Time};
use onewrite_device::Profile;
use onewrite_fs::FileSystem;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};

use super::entry::Versus;
use super::found::{Case, Found};
use super::verdict::{Even, Terms};
use crate::error::LabError;
use crate::session::{FormatOptions, plan_ext4};
use recording::Recording;

const DEVICE_BYTES: u64 = 16 * GIB;
/// A sixteenth of the paper's.
const CLONED_BYTES: u64 = 20 * GIB / 16;
const LDJ_LOG: u64 = 5 * GIB / 16;
const RIVALS_LOG: u64 = 128 * MIB / 16;
/// Sizes of the log in figure 8 of the paper, 128 MB to 5 GB, a sixteenth of each.
const LOGS: [u64; 5] = [8 * MIB, 32 * MIB, 80 * MIB, 160 * MIB, LDJ_LOG];

/// A run of all clones.
#[derive(Clone, Copy, Debug)]
struct Run {
    device: &'static str,
    mode: Mode,
    log_bytes: u64,
}

/// What it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    seconds: f64,
    written_bytes: u64,
    /// Compressed and raw bytes of the frames in the log.
    packed: (u64, u64),
}

impl Run {
    fn new(device: &'static str, mode: Mode) -> Run {
        let log_bytes = if mode == Mode::Ldj { LDJ_LOG } else { RIVALS_LOG };
        Run { device, mode, log_bytes }
    }

    fn cost(self) -> Result<Cost, LabError> {
        self.cost_of(Recording::this_project()?, CLONED_BYTES)
    }

    /// Replays the recording until `bytes` are written.
    fn cost_of(self, recording: &'static Recording, bytes: u64) -> Result<Cost, LabError> {
        let executor = Executor::seeded(Time::Virtual, HostProfile::default(), 1);
        let runtime = executor.runtime();
        let port = runtime.attach(Profile::load(self.device)?.device(Some(DEVICE_BYTES))?);
        executor.block_on(async move {
            let runtime = port.runtime().clone();
            let format = FormatOptions {
                journal_bytes: Some(self.log_bytes),
                is_zeroed: true,
                unix_time: (runtime.civil_now().0 / 1_000_000_000) as u32,
                ..FormatOptions::default()
            };
            plan_ext4(&port, &format, &mut Choices::new(1))?.write(&port).await?;
            port.device_mut().reset_counters();
            let cache_pages = (2 * CLONED_BYTES / PAGE_SIZE as u64) as usize;
            let options = MountOptions { cache_pages, delayed_allocation: false, ..MountOptions::new(self.mode) };
            let begin = runtime.now();
            let fs = Ext4::mount(port.clone(), options).await?;
            replay::clones(&fs, recording, bytes.div_ceil(recording.bytes())).await?;
            fs.sync().await?;
            let seconds = (runtime.now() - begin).as_secs_f64();
            fs.unmount().await?;
            let (counters, written_bytes) = (fs.counters(), port.device_mut().counters().host_write_bytes());
            Ok(Cost { seconds, written_bytes, packed: (counters.packed_bytes, counters.packed_raw_bytes) })
        })?
    }
}

/// Percent by which LDJ is faster than `ordered`; the best of the devices, on none of which it may be slower.
pub(super) fn speed_up(devices: &'static [&'static str]) -> Result<Found, LabError> {
    let one = |device: &&'static str| {
        let seconds = |mode| Run::new(device, mode).cost().map(|cost| cost.seconds);
        let percent = (seconds(Mode::Ordered)? / seconds(Mode::Ldj)? - 1.0) * 100.0;
        Ok(Case::own("clone", percent, Terms::NotBelow(Even::Percent)).on(device))
    };
    let cases = devices.iter().map(one).collect::<Result<Vec<Case>, LabError>>()?;
    Ok(Found::largest_of(cases))
}

/// Ratio of the bytes that two modes write to the device.
pub(super) fn bytes_over(device: &'static str, Versus { a, b }: Versus) -> Result<f64, LabError> {
    let bytes = |mode| Run::new(device, mode).cost().map(|cost| cost.written_bytes as f64);
    Ok(bytes(a)? / bytes(b)?)
}

/// Size of LDJ's compressed frames by that of their content.
pub(super) fn packed(device: &'static str) -> Result<f64, LabError> {
    let (packed, raw) = Run::new(device, Mode::Ldj).cost()?.packed;
    Ok(packed as f64 / raw as f64)
}

/// LDJ against `ordered` with the largest log; a larger log is not slower, and LDJ is ahead of `data` with each.
pub(super) fn by_log_size(device: &'static str) -> Result<Found, LabError> {
    let speed = |mode, log_bytes| Run { log_bytes, ..Run::new(device, mode) }.cost().map(|cost| 1.0 / cost.seconds);
    let speeds = |mode| LOGS.into_iter().map(|log| speed(mode, log)).collect::<Result<Vec<f64>, LabError>>();
    let (ldj, data, ordered) = (speeds(Mode::Ldj)?, speeds(Mode::Data)?, speed(Mode::Ordered, RIVALS_LOG)?);
    let size = |log: u64| format!("log of {} MiB", log / MIB);
    let ahead = |((log, ldj), data): ((u64, &f64), &f64)| {
        Case::own(format!("{}, LDJ over DJ", size(log)), ldj / data, Terms::Above(Even::Ratio))
    };
    let mut cases: Vec<Case> = LOGS.into_iter().zip(&ldj).zip(&data).map(ahead).collect();
    cases.extend(LOGS.into_iter().zip(&ldj).map(|(log, ldj)| Case::shown(size(log), ldj / ordered)));
    let growth = ldj.windows(2).map(|pair| pair[1] / pair[0]).fold(f64::INFINITY, f64::min);
    cases.push(Case::own("least growth from one log to the next", growth, Terms::NotBelow(Even::Ratio)));
    Ok(Found { figure: ldj[LOGS.len() - 1] / ordered, cases })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_replayed_alike_each_time_and_what_git_wrote_is_there() {
        let recording: &'static Recording = Box::leak(Box::new(Recording::example()));
        let run = Run { device: "nvme-960pro", mode: Mode::Ldj, log_bytes: 8 * MIB };
        let cost = run.cost_of(recording, 4 * MIB).unwrap();
        assert_eq!(cost, run.cost_of(recording, 4 * MIB).unwrap());
        assert!(cost.seconds > 0.0 && cost.written_bytes > 0 && cost.packed.0 < cost.packed.1, "{cost:?}");
        let data = Run { mode: Mode::Data, ..run }.cost_of(recording, 4 * MIB).unwrap();
        let ordered = Run { mode: Mode::Ordered, ..run }.cost_of(recording, 4 * MIB).unwrap();
        let over_ordered = data.written_bytes as f64 / ordered.written_bytes as f64;
        assert!((1.7..2.1).contains(&over_ordered), "everything goes through the log: {over_ordered}");
    }
}
