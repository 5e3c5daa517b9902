//! Arguments: the command line. Help, errors and completions come from these definitions.

mod image;
mod layer;
mod mount;
mod names;
mod paper;
mod traces;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use onewrite_fs::ext4::PolicyKind;
use onewrite_fs::f2fs::{Clean, FsyncMode};
use onewrite_lab::experiment::CrashFs;

pub use image::{Cat, Cp, Ls, Mkdir, Mv, Rm, Stat, Tree};
pub use layer::{AgeArg, Ftl, LayerArgs};
pub use mount::{Mount, Stats, Umount};
pub use names::{Names, page_cache_policies, way};
pub use paper::Paper;
pub use traces::{Cache, Lines, Trace, TraceInput};

use onewrite_lab::size;

/// The exit codes in the help; `failure` chooses among them.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the promise was broken (crash), what was read back differs or a job
     was slower than it must be (run), a row differs from its
     terms or fails (paper), or part of
     what was asked could not be done:
     copied (cp, mkfs --from), changed (rm, mv, mkdir), read (--rescue)
  2  usage or bad input: options, job files, traces, profiles,
     a damaged or unsupported image
  3  the machine: an I/O error, a full disk, no permission,
     an image or disk that is in use
fsck has the codes of fsck(8). Stopped by ^C, SIGTERM or SIGHUP, the program
ends by that signal (130, 143, 129 in a shell): images that it changes are
closed in order (after run, their log does that at the next mount), and no
half file stays.";

/// Crash-consistent file systems on flash, and the laboratory in which they are proved.
#[derive(Debug, Parser)]
#[command(name = "onewrite", version, max_term_width = 110, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// Print results, warnings and errors only: no progress, no remarks.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an ext4 or F2FS file system in an image or on a disk.
    Mkfs(Mkfs),
    /// Replay the log of an image, check every structure and, with -p or -y, repair it. Exits as fsck(8): 0 clean, 1
    /// repaired, 4 errors left, 8 could not be checked, 16 not understood. F2FS is only checked.
    Fsck(Fsck),
    /// List a directory of an image.
    Ls(Ls),
    /// Print a file of an image.
    Cat(Cat),
    /// Show the tree of an image.
    Tree(Tree),
    /// Show the properties of files of an image: kind, size, owner, permissions, times, extended attributes.
    Stat(Stat),
    /// Copy files and trees into an image, out of one, between two or within one. Exits 1 if something was left out.
    Cp(Cp),
    /// Move or rename files and directories within an image.
    Mv(Mv),
    /// Remove files of an image, and directories with -r.
    Rm(Rm),
    /// Make directories in an image.
    Mkdir(Mkdir),
    /// Mount an image, a disk or an emulated device in the host's tree (FUSE).
    Mount(Mount),
    /// End a mount, and wait until its image is clean and free for others.
    Umount(Umount),
    /// Show what a mount has done so far: requests with latencies, commits, bytes by cause, flushes.
    Stats(Stats),
    /// Run a fio job file or a filebench personality, on an emulated device in virtual time or on a real disk.
    Run(Run),
    /// Run one job in several modes of ext4 or on F2FS, and compare them in a table and an HTML report.
    Compare(Compare),
    /// Cut the power at every moment of a workload and check what is recovered. Exits 1 if a promise was broken.
    Crash(Crash),
    /// Run a trace through page cache policies: hits, evictions, and how a device handles the remaining requests.
    Cache(Cache),
    /// Summarise, convert, cut, make and draw block traces.
    #[command(subcommand)]
    Trace(Trace),
    /// List device profiles; show, measure and draw one.
    Device(Device),
    /// Measure what a device's write buffer does: buffer against flash reads, the eviction spot, FLUSH against
    /// eviction.
    Probe(Probe),
    /// Measure the costs of this machine, or print a host profile.
    #[command(subcommand)]
    Host(Host),
    /// Compare figures of the papers with measurements of this program.
    Paper(Paper),
    /// Print the names of modes and policies, for scripts.
    #[command(subcommand, hide = true)]
    Names(Names),
}

/// `onewrite mkfs`
#[derive(Debug, Args)]
pub struct Mkfs {
    /// Image file or block device.
    pub image: PathBuf,
    /// Size of a file that does not exist yet [default: 1GiB]; one that exists keeps its own.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub size: Option<u64>,
    /// What to make.
    #[arg(long, value_enum, default_value_t = NewFs::Ext4)]
    pub fs: NewFs,
    /// Copy this directory's content into the new file system.
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Size of the journal (ext4) [default: the size that mke2fs chooses].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub journal_size: Option<u64>,
    /// Bytes at the end of the image for a staging area (f2fs): fsyncs write records of what changed there (StageFS).
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub stage: Option<u64>,
    /// Name of the volume, at most 16 bytes; of F2FS, 511 letters.
    #[arg(long, default_value = "")]
    pub label: String,
    /// Take the UUID from this seed and a fixed date, so that the image is the same each time.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Format the file or disk even if it holds something.
    #[arg(long)]
    pub force: bool,
}

/// A file system to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewFs {
    /// ext4 with a journal.
    Ext4,
    /// F2FS.
    F2fs,
}

/// `onewrite fsck`
#[derive(Debug, Args)]
pub struct Fsck {
    /// Write nothing: replay the log in memory.
    #[arg(short = 'n', conflicts_with_all = ["safe", "all"])]
    pub no_changes: bool,
    /// Make only safe repairs (counts, bitmaps, orphans, link counts, checksums of sound content); if they are not
    /// enough, repair nothing.
    #[arg(short = 'p', conflicts_with = "all")]
    pub safe: bool,
    /// Repair everything: files without a name go to lost+found, content that cannot be kept is dropped. All or
    /// nothing.
    #[arg(short = 'y')]
    pub all: bool,
    /// Write the replay and the check results as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Image file or block device.
    pub image: PathBuf,
}

/// The layer between a job and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FsKind {
    /// ext4 with a journal.
    Ext4,
    /// F2FS.
    F2fs,
    /// No file system: the job uses the device itself.
    Raw,
}

/// The job, and the device and machine it runs on.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// A fio job file (- for standard input), or varmail, fileserver, webserver, webproxy or postmark; or
    /// sqlite-androbench, sqlite-facebook or sqlite-gmail, and behind it :JOURNAL_MODE and :fsync, or none of them; or
    /// innodb-sysbench or innodb-linkbench, and behind it :double or :single, :lazy-log and :rows, or none of them.
    pub job: String,
    /// Emulated device by name (see `onewrite device`), or a real disk or image by path.
    #[arg(long, value_name = "PROFILE|FILE", default_value = "sata-850pro")]
    pub device: String,
    /// Translation layer of the device.
    #[command(flatten)]
    pub layer: LayerArgs,
    /// Writes done to an emulated device before the run, by another tenant who trimmed nothing; `--precondition` is
    /// another name for it.
    #[arg(long, value_enum, default_value_t = AgeArg::None, alias = "precondition")]
    pub age: AgeArg,
    /// Host profile: `default`, `ideal` (nothing costs time) or a file written by `onewrite host measure`.
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub host: String,
    /// Size of an emulated device or a new image [default: 1GiB, or more if the job needs it].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub size: Option<u64>,
    /// Size of the journal [default: the size that mke2fs chooses; in data+lazy and ldj 5 GB or an eighth of the
    /// device].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub journal_size: Option<u64>,
    /// Size of the page cache.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "64MiB")]
    pub cache_size: u64,
    /// Replacement policy of the page cache; `names::cache_policy_help` lists them.
    #[arg(long, value_name = "NAME", value_parser = page_cache_policy, default_value_t = PolicyKind::Lru,
        help = names::cache_policy_help())]
    pub cache_policy: PolicyKind,
    /// Allocate blocks when files are written to, not when pages are written out (matters in writeback, ordered, soj
    /// and zp).
    #[arg(long)]
    pub nodelalloc: bool,
    /// Longest time for which a commit waits for other tasks that sync, so that they share it: at most half of what a
    /// commit takes (ext4) [default: commits wait for nobody, as the kernel's where each task syncs its own file].
    #[arg(long, value_parser = size::span, default_value = "0s", hide_default_value = true, value_name = "TIME")]
    pub max_batch_time: Duration,
    /// For zp and zp-data: bytes of padding that push all earlier writes out of the device's write buffer, or the JSON
    /// file of `onewrite probe` [default: the device's own value].
    #[arg(long, value_name = "SIZE|FILE")]
    pub eviction_spot: Option<String>,
    /// Before the jobs, make everything durable and drop clean pages from the page cache, as `echo 3 >
    /// /proc/sys/vm/drop_caches` does. Otherwise modes that buffer direct reads may read pages of the layout from
    /// memory.
    #[arg(long)]
    pub drop_caches: bool,
    /// Seed of all chance; a job's randseed is mixed in.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Format a real disk that holds something, and replace existing images.
    #[arg(long)]
    pub force: bool,
    /// Options of job files.
    #[command(flatten)]
    pub fio: FioArgs,
    /// Options of the personalities.
    #[command(flatten)]
    pub personality: PersonalityArgs,
}

/// Changes to a fio job file.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of fio job files")]
pub struct FioArgs {
    /// Run only this section of the job file (may be given more than once).
    #[arg(long, value_name = "NAME")]
    pub section: Vec<String>,
    /// Set a key of every job, after what the file says: `--set size=64m` (may be given more than once).
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Options of the personalities; a fio job file has keys for them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of varmail, fileserver, webserver, webproxy, postmark and databases")]
pub struct PersonalityArgs {
    /// Files in the file set.
    #[arg(long, value_name = "COUNT", value_parser = size::count::<u32>)]
    pub files: Option<u32>,
    /// Threads; of innodb-sysbench and innodb-linkbench, clients (not of postmark and SQLite).
    #[arg(long, value_name = "COUNT", value_parser = size::count::<u32>)]
    pub threads: Option<u32>,
    /// Mean size of a file.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub file_size: Option<u64>,
    /// Percent of the content that compresses, 0 to 100.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub compressible: Option<u8>,
    /// Time to run, not for postmark [default: 60s]; for a fio job file: `runtime` of every job.
    #[arg(long, value_name = "TIME", value_parser = size::span, conflicts_with = "operations")]
    pub runtime: Option<Duration>,
    /// Run this number of operations instead; for postmark: transactions [default: 500]; for SQLite: transactions and
    /// queries [default: 900 or 1000]; for InnoDB: transactions [default: 50000].
    #[arg(long, value_name = "COUNT", value_parser = size::count::<u64>)]
    pub operations: Option<u64>,
}

/// How a file system under a job or in the explorer keeps its promises; each option belongs to one file system.
#[derive(Clone, Debug, Args)]
pub struct FsModes {
    /// Journal mode; `names::mode_help` lists them. Of F2FS, which blocks its logs take.
    #[arg(long, help = names::mode_help() + " (ext4) [default: ordered]; adaptive, or lfs: whole segments only (f2fs) \
        [default: adaptive]")]
    pub mode: Option<String>,
    /// What an fsync promises about names (f2fs): posix, those of new files; strict, those of renamed ones, too
    /// [default: posix].
    #[arg(long, value_name = "MODE")]
    pub fsync_mode: Option<FsyncMode>,
    /// How cleaning gives content another address (f2fs): copy; or share, by the device's SHARE [default: copy].
    #[arg(long, value_name = "WAY")]
    pub clean: Option<Clean>,
    /// An fsync of fewer pages writes them over their blocks, and is not atomic (f2fs) [default: never].
    #[arg(long, value_name = "PAGES", value_parser = size::count::<u32>)]
    pub ipu: Option<u32>,
    /// Bytes at the end of the device for a staging area (f2fs): fsyncs write records of what changed there (StageFS).
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub stage: Option<u64>,
}

/// `onewrite run`
#[derive(Debug, Args)]
pub struct Run {
    /// Layer between the job and the device.
    #[arg(long, value_enum, default_value_t = FsKind::Ext4)]
    pub fs: FsKind,
    #[command(flatten)]
    pub modes: FsModes,
    /// Write the result as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write every request to the device to this file, as CSV; a line `counters-begin` marks where mkfs ends.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the before-cache trace to this file: every page of a file that is read or written through the page cache
    /// (for `onewrite cache`; compressed if the name ends in .zst, .gz or .xz).
    #[arg(long, value_name = "FILE")]
    pub page_trace: Option<PathBuf>,
    /// Save the content of the device after the run as an image that Linux can mount.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// The job, and the device and machine it runs on.
    #[command(flatten)]
    pub job: JobArgs,
}

/// `onewrite compare`
#[derive(Debug, Args)]
pub struct Compare {
    /// Journal modes of ext4, and f2fs, with +strict, +share, +lfs, +ipu, +stage (128 MiB) or +stage=SIZE behind it;
    /// commas between them.
    #[arg(long, value_delimiter = ',', default_value = "ordered,data,data+async")]
    pub modes: Vec<String>,
    /// Where to write the report.
    #[arg(long, value_name = "FILE", default_value = "onewrite-report.html")]
    pub html: PathBuf,
    /// Write all results as a JSON array to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Save the image of each mode as DIR/MODE.img.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    /// Power cuts to try in each mode, on a small run of the same job; 0 tries none. Jobs of databases get none.
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pub cuts: u64,
    /// The job, and the device and machine it runs on.
    #[command(flatten)]
    pub job: JobArgs,
}

/// `onewrite device`
#[derive(Debug, Args)]
pub struct Device {
    /// The profile, by name or a file that ends in .toml; without it, list all profiles.
    pub profile: Option<String>,
    /// Size of the measured device.
    #[arg(long, value_parser = size::bytes, default_value = "1GiB", value_name = "SIZE")]
    pub size: u64,
    /// Write the measurements as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Draw dies and channels over a short run of random writes with garbage collection, as SVG, to this file.
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Seed of all chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Measure write amplification instead (`ftl-16g` only): percent of each 4 MiB block that is written.
    #[arg(long, value_name = "PERCENT", requires = "range", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub block_utilization: Option<u32>,
    /// Range of addresses to write for `--block-utilization`.
    #[arg(long, value_parser = size::bytes, value_name = "SIZE", requires = "block_utilization")]
    pub range: Option<u64>,
    /// Translation layer for `--block-utilization`.
    #[arg(long, value_enum, default_value_t = Ftl::Page, requires = "block_utilization")]
    pub ftl: Ftl,
    /// Log blocks of FAST or BAST for `--block-utilization` [default: as many as the spare blocks allow].
    #[arg(long, value_name = "COUNT", requires = "block_utilization")]
    pub log_blocks: Option<u32>,
    /// Mapping cache of DFTL for `--block-utilization` [default: a 2048th of the device].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "block_utilization")]
    pub map_cache: Option<u64>,
}

/// `onewrite probe`
#[derive(Debug, Args)]
pub struct Probe {
    /// Emulated device by name (or a profile in a file that ends in .toml), or a real disk or file by path.
    #[arg(value_name = "PROFILE|FILE")]
    pub device: String,
    /// Size of an emulated device.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "128MiB")]
    pub size: u64,
    /// Most bytes written at once in the search for the eviction spot; the device must be twice as large.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "32MiB")]
    pub max: u64,
    /// Probe a real disk or file and lose its content.
    #[arg(long)]
    pub force: bool,
    /// Write the results as JSON to this file, or to standard output (-), for `--eviction-spot`.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Draw the reads and the latencies, as SVG, to this file.
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Seed of all chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `onewrite crash`
#[derive(Debug, Args)]
pub struct Crash {
    /// `ace:1`, `ace:2`, `ace:3`, `random:OPERATIONS`, `random-all:OPERATIONS`, `atomic:OPERATIONS` (with drafts of
    /// atomic files, in modes that log content and on F2FS), `shares:OPERATIONS` (with shared pages),
    /// `swarm:OPERATIONS` (each draws its kinds of operation, the seed its image and log, if not given),
    /// `lives:OPERATIONS` (each begins with what a power cut left of an earlier life), `guided:OPERATIONS` (each
    /// reaches a mark that none before it did), `scarce:ROUNDS` (few free segments of F2FS), `full-log:SYNCS` (a few
    /// free blocks of the log), a fio job file, `varmail`, `fileserver`, `webserver`, `webproxy`, `postmark`,
    /// `script:ACTIONS` (see docs/crash-model.md), or `sqlite:JOURNAL_MODE[:SYNCHRONOUS][:attached]` (databases that
    /// SQLite judges, see docs/sqlite.md).
    #[arg(required_unless_present = "run")]
    pub workload: Option<String>,
    /// Instead of a workload, run this shell line on a mount, with the mount as working directory, and judge what a
    /// power cut leaves by --check. See docs/application.md.
    #[arg(long, value_name = "COMMAND", requires = "check",
        conflicts_with_all = ["workload", "state", "faults", "jobs"])]
    pub run: Option<String>,
    /// Shell line that judges a recovered tree, its working directory: 0 accepts it. ONEWRITE_ACKED names a file with
    /// the tokens that --run had acknowledged, a line each.
    #[arg(long, value_name = "COMMAND", requires = "run")]
    pub check: Option<String>,
    /// Run the program on the kernel's ext4 instead, mounted with these options on a recorded loop device (root).
    /// Onewrite recovers the states.
    #[arg(long, value_name = "OPTIONS", requires = "run", conflicts_with = "mode")]
    pub kernel: Option<String>,
    /// Keep the image and the tree of a failure of --check, or of sqlite:…, in this new directory [default: one in the
    /// directory for temporary files].
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Options of job files.
    #[command(flatten)]
    pub fio: FioArgs,
    /// Runtime of every job of a job file.
    #[arg(long, value_name = "TIME", value_parser = size::span)]
    pub runtime: Option<Duration>,
    /// The file system under test.
    #[arg(long, value_enum, default_value_t = ExploredFs::Ext4)]
    pub fs: ExploredFs,
    #[command(flatten)]
    pub modes: FsModes,
    /// Profile (by name, or a file that ends in .toml) whose promises the disk keeps. A tenth of the cuts falls inside
    /// the emulated device itself; in zp and zp-data all do. Without it, the disk has FUA and may lose any write that
    /// was not flushed.
    #[arg(long, value_name = "PROFILE")]
    pub device: Option<String>,
    /// Translation layer of the device.
    #[command(flatten)]
    pub layer: LayerArgs,
    /// For zp and zp-data: bytes of padding that push all earlier writes out of the device's write buffer, or the JSON
    /// file of `onewrite probe` [default: the device's own value].
    #[arg(long, value_name = "SIZE|FILE", requires = "device")]
    pub eviction_spot: Option<String>,
    /// Size of the image [default: 32MiB; f2fs: 64MiB; swarm: up to five times that, by seed].
    #[arg(long, value_parser = size::bytes, value_name = "SIZE")]
    pub size: Option<u64>,
    /// Blocks of the log (ext4) [default: 1024; swarm: up to 3072, by seed].
    #[arg(long, value_name = "BLOCKS")]
    pub journal_blocks: Option<u32>,
    /// Pages of the page cache.
    #[arg(long, default_value_t = 256, value_name = "PAGES")]
    pub cache_pages: usize,
    /// Replacement policy of the page cache; `names::cache_policy_help` lists them.
    #[arg(long, value_name = "NAME", value_parser = page_cache_policy, default_value_t = PolicyKind::Lru,
        help = names::cache_policy_help())]
    pub cache_policy: PolicyKind,
    /// Allocate blocks when files are written to, not when pages are written out (matters in writeback, ordered, soj
    /// and zp).
    #[arg(long)]
    pub nodelalloc: bool,
    /// Age at which a transaction commits without an fsync; of F2FS: at which a checkpoint has a change.
    #[arg(long, value_parser = size::span, default_value = "50ms", value_name = "TIME")]
    pub commit_interval: Duration,
    /// Age at which a committed block is written home (ext4).
    #[arg(long, value_parser = size::span, default_value = "200ms", value_name = "TIME")]
    pub checkpoint_age: Duration,
    /// Begin to write pages out as soon as a tenth of the cache is dirty, as a mount does; else every five seconds.
    #[arg(long)]
    pub prompt_writeback: bool,
    /// Let one of N requests of the modelled disk take up to 10 ms; the others take 20 to 120 us.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub slow_one_in: Option<u64>,
    /// Begin with an image that this shell command makes in `$IMAGE`, a file of --size: `mkfs.f2fs -q -f $IMAGE`.
    #[arg(long, value_name = "COMMAND")]
    pub mkfs: Option<String>,
    /// Distinct states to judge.
    #[arg(long, value_name = "COUNT", value_parser = size::count::<u64>, default_value_t = 10_000)]
    pub states: u64,
    /// Seed of all chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Also check every COUNT-th state with `e2fsck -fn`, or `fsck.f2fs`; 0 checks none.
    #[arg(long, default_value_t = 1_000, value_name = "COUNT")]
    pub e2fsck_every: u64,
    /// Of a series without an end (random:60, say) judge one of N workloads at every place, the others at ten random
    /// places and their end, a few states each; 1: all at every place [default: 15, of scarce 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub thorough_every: Option<u64>,
    /// Cut the recovery, too, of one in N of the states in which it replays something; 0: of none [default: 50].
    #[arg(long, value_name = "N")]
    pub nested_every: Option<u64>,
    /// Let pages tear: a surviving page may have some new and some old sectors.
    #[arg(long)]
    pub torn_pages: bool,
    /// Let a SHARE tear: a power cut may leave some of its pairs done, as on an image on XFS or Btrfs.
    #[arg(long)]
    pub torn_shares: bool,
    /// Let each request fail in turn, with and without a cut behind it, and space run out; --states counts judgements.
    #[arg(long)]
    pub faults: bool,
    /// Workloads explored side by side, each on a core; the report is the same for any number [default: all cores].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Judgements that may be spent on making each violation smaller, in operations and in what the state lost or
    /// tore. It is printed at once, then as small as it became; 0 leaves it as it is.
    #[arg(long, value_name = "COUNT", default_value_t = 60_000)]
    pub minimise: u64,
    /// List every mark with how many states reached it, not only how many marks were seen; see docs/marks.md.
    #[arg(long, conflicts_with = "run")]
    pub marks: bool,
    /// Judge only this state of a script, as in the command that a violation prints.
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// Write the report as JSON to this file, or to standard output (-). In words it is told on standard error.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// A file system to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExploredFs {
    /// ext4 in a journal mode.
    Ext4,
    /// F2FS: its checkpoints, and the fsyncs that its recovery rolls forward.
    F2fs,
}

impl From<ExploredFs> for CrashFs {
    fn from(fs: ExploredFs) -> CrashFs {
        match fs {
            ExploredFs::Ext4 => CrashFs::Ext4,
            ExploredFs::F2fs => CrashFs::F2fs,
        }
    }
}

/// Parses a value by its `FromStr`, whose error is text.
fn parsed<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// Parses a policy for a page cache: any except those that need to know the future.
pub fn page_cache_policy(text: &str) -> Result<PolicyKind, String> {
    let mut known = page_cache_policies();
    known.clone().find(|kind| kind.name() == text).ok_or_else(|| {
        let first = known.next().map_or_else(String::new, |kind| kind.to_string());
        let names = known.fold(first, |names, kind| format!("{names}, {kind}"));
        format!("`{text}` is no policy of a page cache; there are {names}")
    })
}

/// `onewrite host`
#[derive(Debug, Subcommand)]
pub enum Host {
    /// Measure system calls, block requests, copies, checksums and compression on this machine; prints a host profile.
    Measure(HostMeasure),
    /// Print a host profile: `default`, `ideal` or a file.
    Show {
        /// Name or file.
        #[arg(default_value = "default")]
        host: String,
    },
}

/// `onewrite host measure`
#[derive(Debug, Args)]
pub struct HostMeasure {
    /// Directory on the disk to measure with; a scratch file of 16 MiB is made there and removed.
    #[arg(long, default_value = ".")]
    pub directory: PathBuf,
}
