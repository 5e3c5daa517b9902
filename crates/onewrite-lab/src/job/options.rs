//! Options: everything about one job, in types. The keys of a job file build them; the workload reads them.

use std::sync::Arc;

use onewrite_block::Nanos;

use super::behaviour::{
    Checking, ExitScope, FileService, Flow, LatencyAim, Pace, Steadiness, Strided, Think, Tolerance, Work,
};
use super::direction::{Direction, PerDirection};
use super::iolog::Iolog;
use super::size::{Amount, SplitPart};

/// What the accesses of a job do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only this.
    Only(Direction),
    /// Reads and writes, mixed by [`Options::read_percent`].
    Mixed,
    /// Each block trimmed, then written.
    TrimWrite,
}

/// How system calls are made; here an engine only decides depth and order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `sync`, `psync`, `pvsync`, `mmap` and the like: one operation at a time; the depth has no effect.
    Blocking,
    /// `libaio`, `posixaio`: `iodepth` operations at a time; an fsync holds up the operations after it.
    Libaio,
    /// `io_uring`: `iodepth` operations at a time, fsyncs included.
    IoUring,
}

/// Sizes of accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// All the same (`bs`).
    Fixed(u64),
    /// Multiples of `least`, from `least` to `most` (`bsrange`).
    Range {
        /// Smallest size, and unit.
        least: u64,
        /// Largest size.
        most: u64,
    },
    /// Given sizes with their shares (`bssplit`).
    Split(Vec<SplitPart>),
}

impl BlockSizes {
    /// The smallest possible size.
    pub fn least(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { least, .. } => *least,
            BlockSizes::Split(parts) => parts.iter().map(|part| part.bytes).min().unwrap_or(0),
        }
    }

    /// The largest possible size.
    pub fn most(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { most, .. } => *most,
            BlockSizes::Split(parts) => parts.iter().map(|part| part.bytes).max().unwrap_or(0),
        }
    }
}

/// A part of a file that gets a share of the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneShare {
    /// Share of the accesses in percent.
    pub accesses: u8,
    /// How much of the file: bytes, or percent.
    pub extent: Amount,
}

/// Which places random accesses go to.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// All places alike.
    Uniform,
    /// Zipf: the n-th most popular block is hit in proportion to n^-`theta`.
    Zipf {
        /// The exponent, above 0 and not 1.
        theta: f64,
        /// SourceLine of the most popular block, 0 to 1; anywhere if `None`.
        center: Option<f64>,
    },
    /// Pareto: power law with `h`, between 0 and 1.
    Pareto {
        /// Skew: 0.2 sends 80 % of the accesses to 20 % of the blocks.
        h: f64,
        /// SourceLine of the most popular block, 0 to 1; anywhere if `None`.
        center: Option<f64>,
    },
    /// Normal distribution around a place.
    Normal {
        /// Standard deviation in percent of the file.
        deviation: f64,
        /// SourceLine of the mean, 0 to 1; the middle if `None`.
        center: Option<f64>,
    },
    /// Parts of the file, one after the other, with shares of the accesses; for reads, writes and trims.
    Zoned(Arc<PerDirection<Vec<ZoneShare>>>),
}

/// Whether each write is durable by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// No.
    None,
    /// Data and attributes (`O_SYNC`).
    Sync,
    /// Data and what is needed to read it (`O_DSYNC`).
    Dsync,
}

/// How a file is laid out before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Not at all.
    None,
    /// Blocks reserved, size extended (`native`, `posix`).
    Extend,
    /// Blocks reserved, size unchanged.
    KeepSize,
    /// Size extended, nothing reserved.
    Truncate,
}

/// All options of one job. The keys have fio's names; `docs/jobs.md` has the meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `name`
    pub name: Option<String>,
    /// `ioengine`
    pub engine: Engine,
    /// `rw`: what accesses do.
    pub direction: Access,
    /// `rw`: random or sequential.
    pub random: bool,
    /// `rw=randwrite:N`: a new random place every N accesses; the accesses between are sequential.
    pub random_every: u64,
    /// `rw=write:N`: bytes skipped after each sequential access; may be negative.
    pub sequential_skip: i64,
    /// `rwmixread`
    pub read_percent: u8,
    /// `bs`, `bsrange`, `bssplit`
    pub block_sizes: PerDirection<BlockSizes>,
    /// `size`
    pub size: Option<Amount>,
    /// `io_size`
    pub io_size: Option<Amount>,
    /// `filesize`: smallest and largest.
    pub file_size: Option<(u64, u64)>,
    /// `nrfiles`
    pub file_count: u32,
    /// `numjobs`
    pub clones: u32,
    /// `iodepth`
    pub depth: u32,
    /// `direct`
    pub direct: bool,
    /// `sync`
    pub sync: SyncMode,
    /// `fsync`: number of writes before each; 0 is never.
    pub fsync_every: u64,
    /// `fdatasync`: number of writes before each; 0 is never.
    pub fdatasync_every: u64,
    /// `end_fsync`
    pub end_fsync: bool,
    /// `runtime`
    pub runtime: Option<Nanos>,
    /// `time_based`
    pub time_based: bool,
    /// `ramp_time`
    pub ramp_time: Nanos,
    /// `randseed`
    pub seed: Option<u64>,
    /// Whether `norandommap` is not set: no block comes twice before every block has come once.
    pub random_map: bool,
    /// `random_distribution`
    pub distribution: Distribution,
    /// `buffer_compress_percentage`
    pub compressible_percent: u8,
    /// `thinktime` and related keys.
    pub think: Think,
    /// `verify=crc32c`
    pub verify: bool,
    /// `directory`; clones take them in turn.
    pub directories: Vec<String>,
    /// `filename`; empty if files are named after the job.
    pub file_names: Vec<String>,
    /// `overwrite`
    pub overwrite: bool,
    /// `fallocate`
    pub fallocate: Fallocate,
    /// `invalidate`
    pub invalidate: bool,
    /// `pre_read`: files are read before the job begins.
    pub pre_read: bool,
    /// `create_on_open`
    pub create_on_open: bool,
    /// `stonewall`
    pub stonewall: bool,
    /// `group_reporting`
    pub group_reporting: bool,
    /// `new_group`: the job begins a new group in reports.
    pub new_group: bool,
    /// `loops`: number of passes.
    pub loops: u64,
    /// `number_ios`: accesses after which a pass ends; 0 is never.
    pub accesses_max: u64,
    /// `offset`: first byte used of each file.
    pub offset: Amount,
    /// `offset_increment`: distance between the offsets of two clones.
    pub offset_increment: Amount,
    /// `offset_align`: multiple to which a percentage of `offset` is rounded up; 0 is the smallest block.
    pub offset_align: u64,
    /// `bs_unaligned`: sizes of a range may be any number of bytes.
    pub unaligned: bool,
    /// `blockalign`: random places are multiples of it.
    pub align: Option<PerDirection<u64>>,
    /// `bs_is_seq_rand`: read sizes apply to sequential accesses, write sizes to random ones.
    pub sizes_by_order: bool,
    /// `percentage_random`: percent of the accesses of a random job that go to random places.
    pub random_percent: PerDirection<u8>,
    /// `rw_sequencer=identical`: the modifier of `rw` repeats a place.
    pub identical: bool,
    /// `file_service_type`
    pub service: FileService,
    /// `file_service_type=…:N`: accesses before the next file; 0 if each file is finished first.
    pub service_accesses: u64,
    /// `zonemode=strided`
    pub strided: Strided,
    /// `rate` and related keys.
    pub pace: Pace,
    /// `latency_target` and related keys.
    pub latency: LatencyAim,
    /// `max_latency`: longest time of an access; zero is no limit.
    pub latency_most: PerDirection<Nanos>,
    /// `steadystate` and related keys.
    pub steadiness: Steadiness,
    /// `startdelay`: least and most.
    pub start_delay: (Nanos, Nanos),
    /// `wait_for`: a job that must have ended.
    pub wait_for: Option<String>,
    /// `exitall`
    pub ends_others: bool,
    /// `exit_what`
    pub exit_scope: ExitScope,
    /// `flow`
    pub flow: Flow,
    /// `continue_on_error`, `ignore_error`
    pub tolerance: Tolerance,
    /// `ioengine`: what its operations do.
    pub work: Work,
    /// `do_verify`, `verify_backlog`
    pub checking: Checking,
    /// `unlink`: the job removes its files at the end.
    pub unlink: bool,
    /// `fsync_on_close`
    pub fsync_on_close: bool,
    /// `create_only`: the job only lays out its files.
    pub create_only: bool,
    /// `allow_file_create`
    pub may_create: bool,
    /// `fill_device`: the job writes until no room is left.
    pub fill_device: bool,
    /// `filename_format`
    pub file_name_format: Option<String>,
    /// `read_iolog`: files, `:` between them; clones take them in turn.
    pub iolog_paths: Vec<String>,
    /// The parsed files of `read_iolog`.
    pub iologs: Arc<Vec<Iolog>>,
    /// `replay_no_stall`: the recorded times are ignored.
    pub replay_unpaced: bool,
    /// `replay_redirect`: one file in place of all recorded ones.
    pub replay_redirect: Option<String>,
    /// `replay_time_scale`: pace in percent of the recorded one.
    pub replay_time_percent: u64,
    /// `replay_scale`: offsets are divided by it.
    pub replay_divisor: u64,
    /// `replay_align`: offsets are rounded down to a multiple of it; 0 is no rounding.
    pub replay_align: u64,
    /// `replay_skip`: whether reads, writes, trims and syncs are left out.
    pub replay_skips: [bool; 4],
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: None,
            engine: Engine::Blocking,
            direction: Access::Only(Direction::Read),
            random: false,
            random_every: 1,
            sequential_skip: 0,
            read_percent: 50,
            block_sizes: PerDirection::all(BlockSizes::Fixed(4096)),
            size: None,
            io_size: None,
            file_size: None,
            file_count: 1,
            clones: 1,
            depth: 1,
            direct: false,
            sync: SyncMode::None,
            fsync_every: 0,
            fdatasync_every: 0,
            end_fsync: false,
            runtime: None,
            time_based: false,
            ramp_time: Nanos::ZERO,
            seed: None,
            random_map: true,
            distribution: Distribution::Uniform,
            compressible_percent: 0,
            think: Think::default(),
            verify: false,
            directories: Vec::new(),
            file_names: Vec::new(),
            overwrite: false,
            fallocate: Fallocate::Extend,
            invalidate: true,
            pre_read: false,
            create_on_open: false,
            stonewall: false,
            group_reporting: false,
            new_group: false,
            loops: 1,
            accesses_max: 0,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            unaligned: false,
            align: None,
            sizes_by_order: false,
            random_percent: PerDirection::all(100),
            identical: false,
            service: FileService::RoundRobin,
            service_accesses: 1,
            strided: Strided::default(),
            pace: Pace::default(),
            latency: LatencyAim::default(),
            latency_most: PerDirection::all(Nanos::ZERO),
            steadiness: Steadiness::default(),
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            wait_for: None,
            ends_others: false,
            exit_scope: ExitScope::Group,
            flow: Flow::default(),
            tolerance: Tolerance::default(),
            work: Work::Accesses,
            checking: Checking::default(),
            unlink: false,
            fsync_on_close: false,
            create_only: false,
            may_create: true,
            fill_device: false,
            file_name_format: None,
            iolog_paths: Vec::new(),
            iologs: Arc::default(),
            replay_unpaced: false,
            replay_redirect: None,
            replay_time_percent: 100,
            replay_divisor: 1,
            replay_align: 0,
            replay_skips: [false; 4],
        }
    }
}

impl Options {
    /// Whether the job reads.
    pub fn reads(&self) -> bool {
        matches!(self.direction, Access::Mixed | Access::Only(Direction::Read))
    }

    /// Whether the job writes.
    pub fn writes(&self) -> bool {
        matches!(self.direction, Access::Mixed | Access::TrimWrite | Access::Only(Direction::Write))
    }

    /// Whether the job trims.
    pub fn trims(&self) -> bool {
        matches!(self.direction, Access::TrimWrite | Access::Only(Direction::Trim))
    }

    /// Most operations under way at once.
    pub(crate) fn concurrency(&self) -> u32 {
        if self.engine == Engine::Blocking { 1 } else { self.depth }
    }

    /// Sizes of accesses in `direction`, at random or at sequential places.
    pub fn sizes(&self, direction: Direction, is_random: bool) -> &BlockSizes {
        match (self.sizes_by_order, is_random) {
            (false, _) => self.block_sizes.of(direction),
            (true, false) => &self.block_sizes.read,
            (true, true) => &self.block_sizes.write,
        }
    }

    /// Size of the largest access over all directions.
    pub(crate) fn block_size_most(&self) -> u64 {
        let sizes = &self.block_sizes;
        sizes.read.most().max(sizes.write.most()).max(sizes.trim.most())
    }

    /// Size of the smallest access over all directions.
    pub(crate) fn block_size_least(&self) -> u64 {
        let sizes = &self.block_sizes;
        sizes.read.least().min(sizes.write.least()).min(sizes.trim.least())
    }
}
