//! Behaviour: how a job goes about its accesses: pace, order of files, zones, errors, and when it ends.

use onewrite_block::Nanos;

use super::options::PerDirection;

const EIO: i32 = 5;
const EILSEQ: i32 = 84;

/// How fast a job may go, and how slow (`rate`, `rate_iops`, `rate_min`, …). Zero is no bound.
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
    /// `rate_process=poisson`: arrivals by chance with this mean, not evenly.
    pub poisson: bool,
    /// `rate_cycle`: over what span the least is judged.
    pub cycle: Nanos,
    /// `rate_ignore_thinktime`: lost time is not made up for.
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

/// Pauses (`thinktime` and what belongs to it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// How long; zero is never.
    pub span: Nanos,
    /// `thinktime_blocks`: after so many accesses.
    pub accesses: u64,
    /// `thinktime_iotime`: after accesses went on for so long, if that comes first; zero is never.
    pub busy: Nanos,
}

impl Default for Think {
    fn default() -> Think {
        Think { span: Nanos::ZERO, accesses: 1, busy: Nanos::ZERO }
    }
}

/// The latency that a job keeps by its depth (`latency_target` and what belongs to it).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyAim {
    /// `latency_target`; zero is none.
    pub target: Nanos,
    /// `latency_window`: over what span a depth is judged.
    pub window: Nanos,
    /// `latency_percentile`: share of the accesses in percent that must not take longer.
    pub percentile: f64,
    /// `latency_run`: the job goes on when the depth is found.
    pub goes_on: bool,
}

impl Default for LatencyAim {
    fn default() -> LatencyAim {
        LatencyAim { target: Nanos::ZERO, window: Nanos::ZERO, percentile: 100.0, goes_on: false }
    }
}

/// When a job is steady, and ends (`steadystate` and what belongs to it).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steadiness {
    /// `steadystate`
    pub criterion: Option<Criterion>,
    /// `steadystate_duration`: seconds of the rolling window; zero is never.
    pub seconds: u64,
    /// `steadystate_ramp_time`: time that is not looked at.
    pub ramp: Nanos,
}

/// What is looked at, and what it must be below.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Whether bytes are counted, or accesses.
    pub counts_bytes: bool,
    /// Whether it is the slope of the regression line, or the largest distance from the mean.
    pub is_slope: bool,
    /// What it must be below.
    pub limit: f64,
    /// Whether the limit is in percent of the mean.
    pub is_percent: bool,
}

impl Criterion {
    /// As fio writes it: `iops_slope:0.300000%`.
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

/// `zonemode=strided`: so many bytes inside a zone, then on to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strided {
    /// `zonemode` says so.
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

/// Which jobs end with one that has `exitall` (`exit_what`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitScope {
    /// Those of its reporting group.
    Group,
    /// Those that run now.
    Stonewall,
    /// All, those that have not begun among them.
    All,
}

/// `flow`: a share of the accesses of all jobs with the same `flow_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// `flow_id`
    pub id: u64,
    /// The weight; zero is none.
    pub weight: u64,
    /// `flow_sleep`: the pause of a job that is ahead.
    pub sleep: Nanos,
}

/// Errors that do not end a job (`continue_on_error`, `ignore_error`), for reads, writes and content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tolerance {
    /// Reads that fail with EIO.
    pub reads: bool,
    /// Writes and syncs that fail with EIO.
    pub writes: bool,
    /// Content that is wrong.
    pub contents: bool,
    /// Error numbers that reads may fail with.
    pub read_errors: Vec<i32>,
    /// Error numbers that writes may fail with.
    pub write_errors: Vec<i32>,
}

impl Tolerance {
    /// Whether a job goes on after a read, or a write, that failed with this error number.
    pub fn forgives(&self, is_read: bool, errno: i32) -> bool {
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

/// What an engine of fio does in place of reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads, writes and trims.
    Accesses,
    /// `filecreate`: makes files.
    Create,
    /// `filestat`: asks for attributes.
    Stat,
    /// `filedelete`: removes files.
    Delete,
    /// `falloc`: reserves (write), reserves and keeps the size (read), punches holes (trim).
    Allocate,
    /// `ftruncate`: sets the size to where a write would begin.
    Truncate,
}

impl Work {
    /// Whether it makes, asks for or removes files, and moves no bytes.
    pub const fn is_on_nodes(self) -> bool {
        matches!(self, Work::Create | Work::Stat | Work::Delete)
    }
}

/// Which accesses are checked when (`verify` and what belongs to it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checking {
    /// `do_verify`: what was written is read back.
    pub reads_back: bool,
    /// `verify_backlog`: after so many writes; zero is at the end.
    pub backlog: u64,
    /// `verify_backlog_batch`: so many blocks then; zero is all.
    pub batch: u64,
}

impl Default for Checking {
    fn default() -> Checking {
        Checking { reads_back: true, backlog: 0, batch: 0 }
    }
}
