//! Entry: what the table of rows says of one row. Experiments are data here; [`measure`](super::measure) runs them.

use onewrite_fs::ext4::Mode;

use super::cell::Work;
use super::claim::Claim;
use super::cleaning::Cleaned;
use super::found::Case;
use super::staging::garbage::Garbage;
use super::staging::sensitivity::Varied;
use super::staging::{OpenChannel, Staged};
use super::verdict::{Even, Terms};
use crate::innodb::Doublewrite;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Name of the row in `scoreboard.toml`.
    pub(super) id: &'static str,
    /// What is measured, and the cells in which; none if the row cannot be run.
    pub(super) experiment: Option<Experiment>,
    /// Which side is larger in the paper.
    pub(super) winner: Winner,
    /// How long it takes.
    pub(super) duration: Duration,
    /// Whether the paper's figure was given to the experiment, so that its result says nothing.
    pub(super) is_input: bool,
}

/// What is measured, and the cells in which. Modes are `a` and `b` of a ratio a/b; devices are profiles.
#[derive(Clone, Copy, Debug)]
pub(super) enum Experiment {
    /// Blocks written for two data blocks and their metadata.
    Blocks(Mode),
    /// Flash pages programmed for each page of the host; the largest of the layers.
    Amplification(Amplified),
    /// A claim about TS-CLOCK, in percent or as a quotient.
    TsClock(Claim),
    /// Ratio of writes a second with fio; the best of the intervals.
    PaddedWrites(Versus),
    /// Ratio of operations a second in varmail.
    PaddedVarmail(Versus),
    /// Log blocks of a transaction in varmail.
    PaddedBlocks(Mode),
    /// Time of padding by the time of a FLUSH; the largest.
    EvictionOverFlush(&'static str),
    /// FLUSHes of an fsync; the most of all modes.
    PaddedFlushes(&'static [Mode]),
    /// Ratio of speeds in random writes.
    Writes(Sweep),
    /// Mean of that ratio and of the one of another workload.
    WritesAnd(Sweep, Work),
    /// Speed of a mode by that of the better of its rivals; the mean of the workloads.
    OverBest(Rivals),
    /// Speed of LDJ by that of its rival; the best of devices and workloads.
    Ldj(Rivalry),
    /// The same, and the ratio of the bytes that both write, of which the row says this.
    LdjAndBytes(Rivalry, f64),
    /// Time that LDJ takes to recover by that of its rival; the worst of devices and workloads.
    LdjRecovery(Rivalry),
    /// Ratio of bytes written to the device.
    LdjBytes(Versus, Work),
    /// Size of LDJ's compressed frames by that of their content.
    LdjPacked(Work),
    /// Ratio of the FLUSHes for as many commits.
    LdjFlushes(Versus),
    /// Transactions that recovery takes for whole though they are not.
    FalseRecovery,
    /// Size of LDJ's compressed frames by that of their content, in photographs.
    Photographs,
    /// Ratio of a cost of two sides; the mean of the workloads.
    Databases(Cost, Side, Side),
    /// A cost of sysbench on InnoDB's shape on two sides.
    Innodb(Cost, InnodbSide, InnodbSide),
    /// The same for OLTP as the LDJ and zero-padding papers ran it; the best of the devices.
    Oltp(Cost, Versus, &'static [&'static str]),
    /// Size of LDJ's compressed frames by that of their content in OLTP.
    OltpPacked,
    /// Percent by which LDJ clones a repository faster than `ordered`; the best of the devices.
    Git(&'static [&'static str]),
    /// Ratio of the bytes that two modes write for clones.
    GitBytes(Versus),
    /// Size of LDJ's compressed frames by that of their content in clones.
    GitPacked,
    /// Clones with logs of growing size: LDJ by `ordered`.
    GitLogs(&'static str),
    /// Cleaning of F2FS by SHARE beside cleaning by copies.
    Cleaned(Cleaned),
    /// Speed of StageFS by that of ext4 and of F2FS.
    Staged(&'static [Staged]),
    /// StageFS by another file system on the open-channel SSD.
    OpenChannel(OpenChannel),
    /// StageFS by F2FS there, with little room.
    Garbage(Garbage),
    /// Milliseconds of StageFS's mount there, behind a power cut.
    Remount,
    /// StageFS there with the most of something by StageFS with the least.
    Varied(Varied),
    /// A figure of a device.
    Device(&'static str, DeviceFigure),
}

impl Experiment {
    /// The profiles on which it runs.
    pub(super) fn devices(&self) -> Vec<&'static str> {
        match self {
            Experiment::Blocks(_) | Experiment::FalseRecovery | Experiment::Photographs => vec!["ram"],
            Experiment::Amplification(_) => vec!["ftl-16g"],
            Experiment::TsClock(claim) => claim.devices.to_vec(),
            Experiment::PaddedWrites(_)
            | Experiment::PaddedVarmail(_)
            | Experiment::PaddedBlocks(_)
            | Experiment::PaddedFlushes(_)
            | Experiment::LdjBytes(..)
            | Experiment::LdjPacked(_)
            | Experiment::OltpPacked
            | Experiment::GitBytes(_)
            | Experiment::GitPacked
            | Experiment::LdjFlushes(_) => vec!["sata-850pro"],
            Experiment::Writes(_)
            | Experiment::WritesAnd(..)
            | Experiment::OverBest(_)
            | Experiment::Databases(..)
            | Experiment::Innodb(..)
            | Experiment::Cleaned(_) => vec!["nvme-share"],
            Experiment::Ldj(rivalry) | Experiment::LdjRecovery(rivalry) => rivalry.devices.to_vec(),
            Experiment::LdjAndBytes(rivalry, _) => rivalry.devices.to_vec(),
            Experiment::Oltp(.., devices) | Experiment::Git(devices) => devices.to_vec(),
            Experiment::Staged(_) => vec!["sata-530"],
            Experiment::OpenChannel(_) | Experiment::Garbage(_) | Experiment::Remount | Experiment::Varied(_) => {
                vec!["ocssd-huawei"]
            }
            Experiment::EvictionOverFlush(device) | Experiment::Device(device, _) | Experiment::GitLogs(device) => {
                vec![device]
            }
        }
    }
}

/// Two modes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versus {
    pub(super) a: Mode,
    pub(super) b: Mode,
}

/// Writes to a part of a device of 16 GB, without time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amplified {
    pub(super) layers: &'static [AmplifiedLayer],
    /// Percent of each logical block that is written at once.
    pub(super) block_percent: u32,
    /// Bytes of the part.
    pub(super) range_bytes: u64,
}

/// A translation layer that is compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum AmplifiedLayer {
    Page,
    Fast,
}

/// Two modes in random writes, once for each interval of fsyncs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    pub(super) modes: Versus,
    /// Threads; each has its own file.
    pub(super) threads: u32,
    /// Bytes of the log.
    pub(super) log_bytes: u64,
    pub(super) told: Told,
}

/// How several ratios become one figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Best,
    /// The geometric mean.
    Mean,
}

/// A mode and its rivals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivals {
    pub(super) mode: Mode,
    pub(super) rivals: [Mode; 2],
    pub(super) works: &'static [Work],
}

/// What is compared in runs of databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Transactions and queries a second.
    Speed,
    /// Bytes written to the device.
    Bytes,
    /// FLUSH commands.
    Flushes,
}

/// A mode, and the workloads that run in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) mode: Mode,
    /// As many as the other side has, in the same order.
    pub(super) works: &'static [Work],
}

/// A mode, and how InnoDB writes pages in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InnodbSide {
    pub(super) mode: Mode,
    pub(super) doublewrite: Doublewrite,
}

/// LDJ and a rival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivalry {
    pub(super) rival: Mode,
    pub(super) devices: &'static [&'static str],
    pub(super) works: &'static [Work],
    pub(super) each: Each,
}

/// What a row says of each case of a sweep, beside its figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Each {
    /// Nothing.
    Shown,
    /// The same as of the figure.
    AsRow,
    /// That `a` wins there, whatever the row says of the best case.
    Wins,
    /// That `a` is not behind there.
    NotBehind,
}

impl Each {
    /// A case of a ratio of two sides.
    pub(super) fn case(self, name: impl Into<String>, ratio: f64) -> Case {
        match self {
            Each::Shown => Case::shown(name, ratio),
            Each::AsRow => Case::counts(name, ratio),
            Each::Wins => Case::own(name, ratio, Terms::Above(Even::Ratio)),
            Each::NotBehind => Case::own(name, ratio, Terms::NotBelow(Even::Ratio)),
        }
    }
}

/// A figure of a device.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeviceFigure {
    /// A 4 KiB read from the write buffer, in ms.
    BufferRead,
    /// A 4 KiB read from flash, in ms.
    FlashRead,
    /// MB written when eviction begins.
    EvictionBegins,
    /// MB written when eviction is certain.
    EvictionCertain,
    /// How many times as fast writes are without fsyncs as with them.
    SyncDrop,
    /// Thousands of random 4 KiB writes a second.
    RandomWrites,
    /// Thousands of random 4 KiB reads a second.
    RandomReads,
}

/// Which side of a row is larger in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Winner {
    /// `a`, if the paper's figure is above one, else `b`.
    ByFigure,
    /// `a`, although the paper gives no number.
    A,
}

/// How long an experiment takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duration {
    /// Seconds.
    Short,
    /// Up to two minutes, at full scale.
    Minutes,
    /// The same, with memory cards, that are measured as FAST here.
    MinutesOnCards,
    /// Minutes, because of 50,000 files; `onewrite paper results` leaves such rows out.
    MinutesOfFiles,
}
