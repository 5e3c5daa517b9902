//! Behaviour: pace, order of files, zones, errors and end of a job.

use onewrite_block::Nanos;

use super::direction::PerDirection;

const EIO: i32 = 5;
const EILSEQ: i32 = 84;

/// Upper and lower limits of the speed of a job (`rate`, `rate_iops`, `rate_min`, …). Zero is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// `rate`: bytes a second.
    pub bytes: PerDirection<u64>,
    /// `rate_iops`: accesses a second.
    pub accesses: PerDirection<u64>,
    /// `rate_min`: bytes a second below which the job fails.
    pub bytes_least: PerDirection<u64>,
    /// `rate_iops_min`: accesses a second below which the job fails.
    pub accesses_least: PerDirection<u64>,
    /// `rate_process=poisson`: arrivals at random times with this mean rate, not evenly.
    pub poisson: bool,
    /// `rate_cycle`: time span over which the lower limits are checked.
    pub cycle: Nanos,
    /// `rate_ignore_thinktime`: the job does not catch up on time lost in pauses.
    pub ignores_thinking: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        let none = PerDirection::all(0);
        Pace {
            bytes: none.clone(),
            accesses: none.clone(),
            bytes_least: none.clone(),
            accesses_least: none,
            poisson: false,
            cycle: Nanos::from_secs(1),
            ignores_thinking: false,
        }
    }
}

/// Pauses (`thinktime` and related keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// Length of a pause; zero is no pause.
    pub span: Nanos,
    /// `thinktime_blocks`: accesses before a pause.
    pub accesses: u64,
    /// `thinktime_iotime`: time of accesses before a pause, if it passes first; zero is no limit.
    pub busy: Nanos,
}

impl Default for Think {
    fn default() -> Think {
        Think { span: Nanos::ZERO, accesses: 1, busy: Nanos::ZERO }
    }
}

/// The latency that a job keeps to by adjusting its depth (`latency_target` and related keys).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyAim {
    /// `latency_target`; zero is none.
    pub target: Nanos,
    /// `latency_window`: time span after which a depth is judged.
    pub window: Nanos,
    /// `latency_percentile`: percent of the accesses that must keep to the target.
    pub percentile: f64,
    /// `latency_run`: whether the job continues after the depth is found.
    pub goes_on: bool,
}

impl Default for LatencyAim {
    fn default() -> LatencyAim {
        LatencyAim { target: Nanos::ZERO, window: Nanos::ZERO, percentile: 100.0, goes_on: false }
    }
}

/// When a job counts as steady and ends (`steadystate` and related keys).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steadiness {
    /// `steadystate`
    pub criterion: Option<Criterion>,
    /// `steadystate_duration`: seconds of the rolling window; zero is no check.
    pub seconds: u64,
    /// `steadystate_ramp_time`: time at the beginning that does not count.
    pub ramp: Nanos,
}

/// The measure that must fall below a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Whether it measures bytes; else accesses.
    pub counts_bytes: bool,
    /// Whether it is the slope of the regression line; else the largest distance from the mean.
    pub is_slope: bool,
    /// The limit.
    pub limit: f64,
    /// Whether the limit is in percent of the mean.
    pub is_percent: bool,
}

impl Criterion {
    /// The criterion as fio writes it: `iops_slope:0.300000%`.
    pub fn words(&self) -> String {
        let what = if self.counts_bytes { "bw" } else { "iops" };
        let (slope, percent) = (if self.is_slope { "_slope" } else { "" }, if self.is_percent { "%" } else { "" });
        format!("{what}{slope}:{:.6}{percent}", self.limit)
    }
}

/// Which file comes next (`file_service_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileService {
    /// The files take turns.
    RoundRobin,
    /// One file is finished before the next.
    Sequential,
    /// Any file.
    Random,
}

/// `zonemode=strided`: moves a number of bytes inside a zone, then goes on to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strided {
    /// Whether `zonemode=strided` is set.
    pub enabled: bool,
    /// `zonesize`: bytes moved before the next zone.
    pub size: u64,
    /// `zonerange`: bytes of a zone; zero is `zonesize`.
    pub range: u64,
    /// `zoneskip`: bytes between zones.
    pub skip: u64,
}

impl Strided {
    /// Bytes of a zone.
    pub const fn reach(&self) -> u64 {
        if self.range == 0 { self.size } else { self.range }
    }
}

/// Which other jobs end when a job with `exitall` ends (`exit_what`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitScope {
    /// Jobs of its reporting group.
    Group,
    /// Jobs that run now.
    Stonewall,
    /// All jobs, also those that have not begun.
    All,
}

/// `flow`: a share of the accesses of all jobs with the same `flow_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// `flow_id`
    pub id: u64,
    /// The weight; zero is no flow.
    pub weight: u64,
    /// `flow_sleep`: pause of a job that is ahead of the others.
    pub sleep: Nanos,
}

/// Errors that do not end a job (`continue_on_error`, `ignore_error`), for reads, writes and content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolerance {
    /// Reads that fail with EIO.
    pub reads: bool,
    /// Writes and syncs that fail with EIO.
    pub writes: bool,
    /// Wrong content.
    pub contents: bool,
    /// Error numbers after which a read may fail without ending the job.
    pub read_errors: Vec<i32>,
    /// Error numbers after which a write may fail without ending the job.
    pub write_errors: Vec<i32>,
}

impl Tolerance {
    /// Whether the job continues after a read or a write that failed with this error number.
    pub(crate) fn forgives(&self, is_read: bool, errno: i32) -> bool {
        let (general, listed) = match is_read {
            true => (self.reads, &self.read_errors),
            false => (self.writes, &self.write_errors),
        };
        let is_general = match errno {
            EILSEQ => is_read && self.contents,
            EIO => general,
            _ => false,
        };
        is_general || listed.contains(&errno)
    }
}

/// What the operations of an fio engine do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads, writes and trims.
    Accesses,
    /// `filecreate`: makes files.
    Create,
    /// `filestat`: reads attributes.
    Stat,
    /// `filedelete`: removes files.
    Delete,
    /// `falloc`: reserves blocks (write), reserves blocks and keeps the size (read), punches holes (trim).
    Allocate,
    /// `ftruncate`: sets the size to the place where a write would begin.
    Truncate,
}

impl Work {
    /// Whether it makes, examines or removes files and moves no bytes.
    pub(crate) const fn is_on_nodes(self) -> bool {
        matches!(self, Work::Create | Work::Stat | Work::Delete)
    }
}

/// What is verified, and when (`verify` and related keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checking {
    /// `do_verify`: whether the job reads back what it wrote.
    pub reads_back: bool,
    /// `verify_backlog`: writes before the check; zero checks at the end.
    pub backlog: u64,
    /// `verify_backlog_batch`: blocks of one check; zero is all.
    pub batch: u64,
}

impl Default for Checking {
    fn default() -> Checking {
        Checking { reads_back: true, backlog: 0, batch: 0 }
    }
}
