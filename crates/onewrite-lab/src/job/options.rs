//! Options: what one job does, in types. Built by the keys of a job file; read by the workload.

use onewrite_block::Nanos;

/// One value for each kind of access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims.
    pub trim: T,
}

impl<T: Clone> PerDirection<T> {
    /// The same value for all.
    pub fn all(value: T) -> PerDirection<T> {
        PerDirection { read: value.clone(), write: value.clone(), trim: value }
    }
}

impl<T> PerDirection<T> {
    /// The value for `direction`.
    pub const fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
            Direction::Trim => &self.trim,
        }
    }
}

/// What one access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Trims.
    Trim,
}

/// What the accesses of a job do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only this.
    Only(Direction),
    /// Reads and writes, mixed by [`Options::read_percent`].
    Mixed,
}

/// How system calls are made; here only depth and manner of it remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `sync`, `psync`, `pvsync`: one operation at a time, whatever the depth says.
    Blocking,
    /// `libaio`: `iodepth` at a time; an fsync holds up what comes after it.
    Libaio,
    /// `io_uring`: `iodepth` at a time, fsync among them.
    IoUring,
}

/// Bytes, or a share in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes.
    Bytes(u64),
    /// This share of the whole.
    Percent(u8),
}

impl Amount {
    /// In bytes, where `whole` is what a percentage refers to.
    pub const fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => (whole as u128 * percent as u128 / 100) as u64,
        }
    }
}

/// One size of a `bssplit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitPart {
    /// The size.
    pub bytes: u64,
    /// Its share of the accesses.
    pub percent: u8,
}

/// How large accesses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// All the same (`bs`).
    Fixed(u64),
    /// Multiples of `least` between the two (`bsrange`).
    Range {
        /// Smallest, and unit.
        least: u64,
        /// Largest.
        most: u64,
    },
    /// These, by their shares (`bssplit`).
    Split(Vec<SplitPart>),
}

impl BlockSizes {
    /// The smallest possible.
    pub fn least(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { least, .. } => *least,
            BlockSizes::Split(parts) => parts.iter().map(|part| part.bytes).min().unwrap_or(0),
        }
    }

    /// The largest possible.
    pub fn most(&self) -> u64 {
        match self {
            BlockSizes::Fixed(size) => *size,
            BlockSizes::Range { most, .. } => *most,
            BlockSizes::Split(parts) => parts.iter().map(|part| part.bytes).max().unwrap_or(0),
        }
    }
}

/// Where random accesses go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Everywhere alike.
    Uniform,
    /// Zipf: the n-th most popular block is hit in proportion to n^-`theta`.
    Zipf {
        /// The exponent, above 0 and not 1.
        theta: f64,
        /// Place of the most popular block, 0 to 1; anywhere if `None`.
        center: Option<f64>,
    },
    /// Pareto: power law with `h`, between 0 and 1.
    Pareto {
        /// The share: 0.2 sends 80 % of the accesses to 20 % of the blocks.
        h: f64,
        /// Place of the most popular block, 0 to 1; anywhere if `None`.
        center: Option<f64>,
    },
}

/// Whether each write is durable by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// No.
    None,
    /// With its attributes (`O_SYNC`).
    Sync,
    /// With what is needed to read it (`O_DSYNC`).
    Dsync,
}

/// How a file is laid out before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Not at all.
    None,
    /// Blocks reserved, size extended (`native`, `posix`).
    Extend,
    /// Blocks reserved, size left.
    KeepSize,
    /// Size extended, nothing reserved.
    Truncate,
}

/// Everything that a job file can say of one job; see the keys for fio's names and `docs/jobs.md` for their meaning.
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
    /// `rw=randwrite:N`: a new random place every N accesses, one after the other in between.
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
    /// `fsync`: after so many writes; 0 is never.
    pub fsync_every: u64,
    /// `fdatasync`: after so many writes; 0 is never.
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
    /// `norandommap` not set: each block once before any twice.
    pub random_map: bool,
    /// `random_distribution`
    pub distribution: Distribution,
    /// `buffer_compress_percentage`
    pub compressible_percent: u8,
    /// `thinktime`: a pause after each access.
    pub think_time: Nanos,
    /// `verify=crc32c`
    pub verify: bool,
    /// `directory`; clones take them in turn.
    pub directories: Vec<String>,
    /// `filename`; empty where files are named after the job.
    pub file_names: Vec<String>,
    /// `overwrite`
    pub overwrite: bool,
    /// `fallocate`
    pub fallocate: Fallocate,
    /// `invalidate`
    pub invalidate: bool,
    /// `create_on_open`
    pub create_on_open: bool,
    /// `stonewall`
    pub stonewall: bool,
    /// `group_reporting`
    pub group_reporting: bool,
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
            think_time: Nanos::ZERO,
            verify: false,
            directories: Vec::new(),
            file_names: Vec::new(),
            overwrite: false,
            fallocate: Fallocate::Extend,
            invalidate: true,
            create_on_open: false,
            stonewall: false,
            group_reporting: false,
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
        matches!(self.direction, Access::Mixed | Access::Only(Direction::Write))
    }

    /// Whether the job trims.
    pub fn trims(&self) -> bool {
        self.direction == Access::Only(Direction::Trim)
    }

    /// Operations under way at once.
    pub fn concurrency(&self) -> u32 {
        if self.engine == Engine::Blocking { 1 } else { self.depth }
    }

    /// Smallest access over all directions.
    pub fn block_size_least(&self) -> u64 {
        let sizes = &self.block_sizes;
        sizes.read.least().min(sizes.write.least()).min(sizes.trim.least())
    }
}
