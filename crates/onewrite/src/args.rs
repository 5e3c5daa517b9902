//! Arguments: what can be said on the command line. Help, errors and completions come from these definitions.

mod paper;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use onewrite_fs::ext4::PolicyKind;
use onewrite_lab::generate::TraceKind;
use onewrite_lab::trace::{Action, Format};

pub use paper::Paper;

use crate::size;

/// Crash-consistent file systems on flash, and the laboratory in which they are proved.
#[derive(Debug, Parser)]
#[command(name = "onewrite", version, max_term_width = 110, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an ext4 file system in an image or on a disk.
    Mkfs(Mkfs),
    /// Replay the log of an image and check every structure; repairs nothing else. Exits 0 if clean, 4 on errors.
    Fsck(Fsck),
    /// List a directory of an image.
    Ls(Ls),
    /// Print a file of an image.
    Cat(Cat),
    /// Show the tree of an image.
    Tree(Tree),
    /// Copy files and trees into an image, out of one, or between two.
    Cp(Cp),
    /// Run a fio job file or a filebench personality, on an emulated device in virtual time or on a real disk.
    Run(Run),
    /// Run one job in several modes and set them side by side, as a table and as an HTML report.
    Compare(Compare),
    /// Cut the power at every moment of a workload and judge what is recovered. Exits 1 if a promise was broken.
    Crash(Crash),
    /// Run a trace through page cache policies: hits, evictions, and what the device makes of what is left.
    Cache(Cache),
    /// Summarise, convert, cut, make and draw block traces.
    #[command(subcommand)]
    Trace(Trace),
    /// List device profiles; show, measure and draw one.
    Device(Device),
    /// Find out what a device's write buffer does: buffer against flash reads, the eviction spot, FLUSH against eviction.
    Probe(Probe),
    /// Measure what this machine costs, or print a host profile.
    #[command(subcommand)]
    Host(Host),
    /// Set what the papers report beside what this program measures.
    Paper(Paper),
}

/// `onewrite mkfs`
#[derive(Debug, Args)]
pub struct Mkfs {
    /// Image file or block device.
    pub image: PathBuf,
    /// Size of a file that does not exist yet [default: 1GiB]; one that exists keeps its own.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub size: Option<u64>,
    /// Copy this directory's content into the new file system.
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Size of the journal [default: as mke2fs makes it].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub journal_size: Option<u64>,
    /// Name of the volume, at most 16 bytes.
    #[arg(long, default_value = "")]
    pub label: String,
    /// Draw the UUID from this seed and take a fixed date, so that the image is the same each time.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Format even what holds something.
    #[arg(long)]
    pub force: bool,
}

/// `onewrite fsck`
#[derive(Debug, Args)]
pub struct Fsck {
    /// Write nothing: replay the log in memory.
    #[arg(short = 'n')]
    pub no_changes: bool,
    /// Write what was replayed and found as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Image file or block device.
    pub image: PathBuf,
}

/// `onewrite ls`
#[derive(Debug, Args)]
pub struct Ls {
    /// With kinds, permissions, owners, sizes and dates.
    #[arg(short, long)]
    pub long: bool,
    /// IMAGE or IMAGE:/PATH.
    pub place: String,
}

/// `onewrite cat`
#[derive(Debug, Args)]
pub struct Cat {
    /// IMAGE:/PATH of a file.
    pub place: String,
}

/// `onewrite tree`
#[derive(Debug, Args)]
pub struct Tree {
    /// IMAGE or IMAGE:/PATH of a directory.
    pub place: String,
}

/// `onewrite cp`
#[derive(Debug, Args)]
pub struct Cp {
    /// What to copy, each PATH or IMAGE:/PATH, and where to: into a directory that exists, or under a new name.
    #[arg(required = true, num_args = 2..)]
    pub places: Vec<String>,
}

/// What stands between a job and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FsKind {
    /// ext4 with a journal.
    Ext4,
    /// No file system: the device itself.
    Raw,
}

/// What to run, and on what.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// A fio job file, or varmail, fileserver, webserver, webproxy or postmark.
    pub job: String,
    /// Emulated device by name (see `onewrite device`), or a real disk or image by path.
    #[arg(long, value_name = "PROFILE|FILE", default_value = "sata-850pro")]
    pub device: String,
    /// Host profile: `default`, `ideal` (nothing costs time) or a file written by `onewrite host measure`.
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub host: String,
    /// Size of an emulated device or a new image [default: 1GiB].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub size: Option<u64>,
    /// Size of the journal [default: as mke2fs makes it; in data+lazy and ldj 5 GB or an eighth of the device].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub journal_size: Option<u64>,
    /// Size of the page cache.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "64MiB")]
    pub cache_size: u64,
    /// Which page leaves the page cache: lru, clock, linux-2q, cflru, fab, lb-clock, sp-clock, ts-clock, ts-clock-scan,
    /// lru-wsr, bplru, arc, s3-fifo or sieve.
    #[arg(long, value_name = "NAME", value_parser = parsed::<PolicyKind>, default_value_t = PolicyKind::Lru)]
    pub cache_policy: PolicyKind,
    /// Allocate blocks when files are written to, not when pages are written out (matters in writeback, ordered, soj and zp).
    #[arg(long)]
    pub nodelalloc: bool,
    /// For zp and zp-data: bytes of padding that push everything earlier out of the device's write buffer, or the JSON that
    /// `onewrite probe` wrote [default: what the device states].
    #[arg(long, value_name = "SIZE|FILE")]
    pub eviction_spot: Option<String>,
    /// Seed of all chance; a job's randseed is mixed in.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Format a real disk that holds something.
    #[arg(long)]
    pub force: bool,
    /// Options of the personalities.
    #[command(flatten)]
    pub personality: PersonalityArgs,
}

/// Options of the personalities; a fio job says these things itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of varmail, fileserver, webserver, webproxy and postmark")]
pub struct PersonalityArgs {
    /// Files in the file set.
    #[arg(long)]
    pub files: Option<u32>,
    /// Threads (not of postmark).
    #[arg(long)]
    pub threads: Option<u32>,
    /// Mean size of a file.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub file_size: Option<u64>,
    /// Share of the content that compresses, 0 to 100.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub compressible: Option<u8>,
    /// How long to run, not for postmark [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = size::span, conflicts_with = "operations")]
    pub runtime: Option<Duration>,
    /// Run so many operations instead; of postmark: transactions [default: 500].
    #[arg(long, value_name = "COUNT")]
    pub operations: Option<u64>,
}

/// `onewrite run`
#[derive(Debug, Args)]
pub struct Run {
    /// What stands between the job and the device.
    #[arg(long, value_enum, default_value_t = FsKind::Ext4)]
    pub fs: FsKind,
    /// Journal mode: writeback, ordered, data, data+async, data+lazy, data+cmp, ldj; with SHARE soj, sdj or sdj+async; with
    /// zero padding zp or zp-data, which take +no-trim, then +reread or +hybrid [default: ordered].
    #[arg(long)]
    pub mode: Option<String>,
    /// Write the result as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write every request to the device to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write every page of a file that is read or written through the page cache to this file, as `onewrite cache` reads it:
    /// the before-cache trace (compressed if it ends in .zst or .gz).
    #[arg(long, value_name = "FILE")]
    pub page_trace: Option<PathBuf>,
    /// Save the content of the device after the run as an image that Linux mounts.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// What to run, and on what.
    #[command(flatten)]
    pub job: JobArgs,
}

/// `onewrite compare`
#[derive(Debug, Args)]
pub struct Compare {
    /// Journal modes, with commas between them.
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
    /// Power cuts to try in each mode, on a small run of the same job; 0 tries none.
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pub cuts: u64,
    /// What to run, and on what.
    #[command(flatten)]
    pub job: JobArgs,
}

/// `onewrite device`
#[derive(Debug, Args)]
pub struct Device {
    /// The profile; without it all are listed.
    pub profile: Option<String>,
    /// Size of the device that is measured.
    #[arg(long, value_parser = size::bytes, default_value = "1GiB", value_name = "SIZE")]
    pub size: u64,
    /// Write what was measured as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Draw dies and channels over a short run of random writes with garbage collection, as SVG, to this file.
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Seed of all chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Measure write amplification instead (`ftl-16g` only): share of each 4 MiB block that is written, in percent.
    #[arg(long, value_name = "PERCENT", requires = "range", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub block_utilization: Option<u32>,
    /// Range of addresses that is written for `--block-utilization`.
    #[arg(long, value_parser = size::bytes, value_name = "SIZE", requires = "block_utilization")]
    pub range: Option<u64>,
    /// What translates pages to flash for `--block-utilization`.
    #[arg(long, value_enum, default_value_t = Ftl::Page, requires = "block_utilization")]
    pub ftl: Ftl,
    /// Log blocks of FAST or BAST for `--block-utilization`, at most as many as the spare blocks allow [default: so many].
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
    /// Most bytes written at once in search of the eviction spot; the device must be twice as large.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "32MiB")]
    pub max: u64,
    /// Probe a real disk or file, whose content is lost.
    #[arg(long)]
    pub force: bool,
    /// Write what was found as JSON to this file, or to standard output (-); `--eviction-spot` takes it.
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
    /// `ace:1`, `ace:2`, `ace:3`, `random:OPERATIONS`, a fio job file, `varmail`, `fileserver`, `webserver`, `webproxy`,
    /// `postmark`, or `script:ACTIONS` (see docs/crash-model.md).
    pub workload: String,
    /// Journal mode: writeback, ordered, data, data+async, data+lazy, data+cmp, ldj; with SHARE soj, sdj or sdj+async; with
    /// zero padding zp or zp-data, which take +no-trim, then +reread or +hybrid.
    #[arg(long, default_value = "ordered")]
    pub mode: String,
    /// Profile (by name, or a file that ends in .toml) whose promises the disk keeps; a tenth of the cuts falls inside the
    /// emulated device itself, in zp and zp-data all. By default a disk with FUA that may lose any of what was not flushed.
    #[arg(long, value_name = "PROFILE")]
    pub device: Option<String>,
    /// For zp and zp-data: bytes of padding that push everything earlier out of the device's write buffer, or the JSON that
    /// `onewrite probe` wrote [default: what the device states].
    #[arg(long, value_name = "SIZE|FILE", requires = "device")]
    pub eviction_spot: Option<String>,
    /// Size of the image.
    #[arg(long, value_parser = size::bytes, default_value = "32MiB", value_name = "SIZE")]
    pub size: u64,
    /// Blocks of the log.
    #[arg(long, default_value_t = 1024, value_name = "BLOCKS")]
    pub journal_blocks: u32,
    /// Pages of the page cache.
    #[arg(long, default_value_t = 256, value_name = "PAGES")]
    pub cache_pages: usize,
    /// Which page leaves the page cache: lru, clock, linux-2q, cflru, fab, lb-clock, sp-clock, ts-clock, ts-clock-scan,
    /// lru-wsr, bplru, arc, s3-fifo or sieve.
    #[arg(long, value_name = "NAME", value_parser = parsed::<PolicyKind>, default_value_t = PolicyKind::Lru)]
    pub cache_policy: PolicyKind,
    /// Allocate blocks when files are written to, not when pages are written out (matters in writeback, ordered, soj and zp).
    #[arg(long)]
    pub nodelalloc: bool,
    /// Age at which a transaction commits by itself.
    #[arg(long, value_parser = size::span, default_value = "50ms", value_name = "TIME")]
    pub commit_interval: Duration,
    /// Age at which a committed block goes home by itself.
    #[arg(long, value_parser = size::span, default_value = "200ms", value_name = "TIME")]
    pub checkpoint_age: Duration,
    /// Distinct states to judge.
    #[arg(long, default_value_t = 10_000)]
    pub states: u64,
    /// Seed of all chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Let `e2fsck -fn` judge every so-many-th state, too; 0 for none.
    #[arg(long, default_value_t = 1_000, value_name = "COUNT")]
    pub e2fsck_every: u64,
    /// Let pages tear: some of the sectors of a page that survives are new, others old.
    #[arg(long)]
    pub torn_pages: bool,
    /// Let a SHARE that is cut be done in part, as it may be on an image on XFS or Btrfs.
    #[arg(long)]
    pub torn_shares: bool,
    /// Do not cut: let each request fail in turn, and space run out.
    #[arg(long)]
    pub faults: bool,
    /// Judge only this state of a script, as the command of a violation says.
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// Write the report as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// How a trace is read.
#[derive(Debug, Args)]
pub struct TraceInput {
    /// Format of the trace [default: found out]: own, run, msr, spc, blkparse, blktrace, fio, mqsim, oracle-general, alibaba,
    /// tencent or columns:MAP (see docs/cache.md). Files compressed with zstd or gzip are read as they are.
    #[arg(long, value_parser = parsed::<Format>)]
    pub format: Option<Format>,
    /// Only this volume (disk, file, storage unit) of a trace with several.
    #[arg(long, value_name = "NUMBER")]
    pub volume: Option<u32>,
    /// Action of blkparse and blktrace records that is taken: Q, D or C [default: Q].
    #[arg(long, value_parser = parsed::<Action>)]
    pub action: Option<Action>,
    /// Size of a page.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "4096")]
    pub page_size: u64,
}

/// Parses what has a `FromStr` whose error is text.
fn parsed<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// What translates pages to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ftl {
    /// A map of pages.
    Page,
    /// A map of blocks, and a log of blocks with a map of pages.
    Fast,
    /// A map of blocks, and log blocks of one block each: memory cards that keep a few blocks open.
    Bast,
    /// A map of pages that lies on flash, and a cache for it.
    Dftl,
}

/// `onewrite cache`
#[derive(Debug, Args)]
pub struct Cache {
    /// The trace.
    pub trace: PathBuf,
    /// Policies, with commas between them, or `all`: lru, clock, linux-2q, cflru, fab, lb-clock, sp-clock, ts-clock,
    /// ts-clock-scan, lru-wsr, bplru, arc, s3-fifo, sieve, belady.
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',', default_value = "all")]
    pub policies: Vec<String>,
    /// Sizes of the cache, with commas between them.
    #[arg(long = "size", value_name = "SIZES", value_delimiter = ',', value_parser = size::bytes, default_value = "4MiB")]
    pub sizes: Vec<u64>,
    /// How the trace is read.
    #[command(flatten)]
    pub input: TraceInput,
    /// Size of a flash block, for the policies that evict by block and for the histogram of utilizations.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "4MiB")]
    pub flash_block: u64,
    /// Write the after-cache trace to this file; with several policies or sizes to FILE-POLICY-SIZE.
    #[arg(long, value_name = "FILE")]
    pub after: Option<PathBuf>,
    /// Replay the after-cache traces on this emulated device: time, write amplification, erases.
    #[arg(long, value_name = "PROFILE")]
    pub device: Option<String>,
    /// What translates pages to flash in that device; with all but `page` time is an estimate.
    #[arg(long, value_enum, default_value_t = Ftl::Page, requires = "device")]
    pub ftl: Ftl,
    /// Size of that device [default: the least power of two from 1GiB on that holds the trace].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "device")]
    pub device_size: Option<u64>,
    /// Log blocks of `--ftl fast` and `bast`, at most as many as the spare blocks allow
    /// [default: the profile's, else so many].
    #[arg(long, value_name = "COUNT", requires = "device")]
    pub log_blocks: Option<u32>,
    /// Mapping cache of `--ftl dftl`, 8 bytes for each page that it knows [default: a 2048th of the device].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "device")]
    pub map_cache: Option<u64>,
    /// Begin with a blank device instead of one that was filled once.
    #[arg(long, requires = "device")]
    pub blank: bool,
    /// Age the device before the trace by so many bytes of writes, half of them sequential and half random.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "0", requires = "device")]
    pub age: u64,
    /// Cores to use [default: all]; the results are the same on any number.
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
    /// Write the results as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// `onewrite trace`
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Reads, writes and write range of traces, a line for each.
    Summarise {
        /// The traces.
        #[arg(required = true)]
        traces: Vec<PathBuf>,
        /// How they are read.
        #[command(flatten)]
        input: TraceInput,
        /// Write the summaries as a JSON array to this file, or to standard output (-).
        #[arg(long, value_name = "FILE|-")]
        json: Option<PathBuf>,
    },
    /// Write a trace in our own format; compressed if the new name ends in .zst or .gz.
    Convert {
        /// The trace.
        trace: PathBuf,
        /// The new file.
        output: PathBuf,
        /// How the trace is read.
        #[command(flatten)]
        input: TraceInput,
        /// What a line of the new file holds.
        #[arg(long, value_enum, default_value_t = Lines::Bytes)]
        to: Lines,
    },
    /// Take a part of a trace, as `convert` does.
    Cut {
        /// The trace.
        trace: PathBuf,
        /// The new file.
        output: PathBuf,
        /// How the trace is read.
        #[command(flatten)]
        input: TraceInput,
        /// Records to pass over.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        skip: u64,
        /// Records to take [default: all that follow].
        #[arg(long, value_name = "COUNT")]
        take: Option<u64>,
        /// What a line of the new file holds.
        #[arg(long, value_enum, default_value_t = Lines::Bytes)]
        to: Lines,
    },
    /// Make a workload of the dissertation's table 2-2, seeded: the same volumes and write range.
    Generate {
        /// video-streaming, mixed-applications, file-server or tpc-c.
        #[arg(value_parser = parsed::<TraceKind>)]
        name: TraceKind,
        /// The new file [default: NAME.csv]; compressed if it ends in .zst or .gz.
        output: Option<PathBuf>,
        /// Seed of all chance.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Share of the volumes and the range of the table, at most 1; too little of a workload is refused with the least.
        #[arg(long, default_value_t = 1.0, value_name = "SHARE")]
        scale: f64,
        /// dbench's load file, which file-server plays [default: where Debian's package dbench has it].
        #[arg(long, value_name = "FILE")]
        load_file: Option<PathBuf>,
        /// Clients of file-server [default: 48; fewer at a small scale].
        #[arg(long, value_name = "COUNT")]
        clients: Option<u32>,
    },
    /// Draw pages over the course of a trace, as SVG.
    Draw {
        /// The trace.
        trace: PathBuf,
        /// The picture.
        output: PathBuf,
        /// How the trace is read.
        #[command(flatten)]
        input: TraceInput,
        /// Draw writes only.
        #[arg(long)]
        writes: bool,
    },
}

/// Lines of our own trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lines {
    /// `r|w,offset,length`, in bytes.
    Bytes,
    /// `r|w,page`, a line for each page.
    Pages,
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
