//! Arguments of `onewrite cache` and `onewrite trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use onewrite_lab::generate::TraceKind;
use onewrite_lab::trace::{Action, Format};

use super::names::policy_help;
use super::{Ftl, parsed};
use onewrite_lab::size::{self, SizeOrShare};

/// How to read a trace.
#[derive(Clone, Debug, Args)]
pub struct TraceInput {
    /// Format of the trace [default: detected]: own, run, msr, spc, blkparse, blktrace, fio, mqsim, oracle-general,
    /// alibaba, tencent or columns:MAP (see docs/cache.md). Files compressed with zstd, gzip or xz are decompressed
    /// while reading.
    #[arg(long, value_parser = parsed::<Format>)]
    pub format: Option<Format>,
    /// Read only this volume (disk, file, storage unit) of a trace with several.
    #[arg(long, value_name = "NUMBER")]
    pub volume: Option<u32>,
    /// Put the volumes of a trace directly one after the other, each as long as its last page requires; otherwise 64
    /// TiB apart.
    #[arg(long, conflicts_with = "volume")]
    pub pack: bool,
    /// Action whose blkparse and blktrace records are read: Q, D or C [default: Q].
    #[arg(long, value_parser = parsed::<Action>)]
    pub action: Option<Action>,
    /// Size of a page.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "4096")]
    pub page_size: u64,
}

/// `onewrite cache`
#[derive(Clone, Debug, Args)]
pub struct Cache {
    /// The trace (- for standard input).
    pub trace: PathBuf,
    /// Policies; `names::policy_help` lists them.
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',', default_value = "all", help = policy_help())]
    pub policies: Vec<String>,
    /// Sizes of the cache, with commas between them; `10%` is a percentage of the different pages of the trace.
    #[arg(long = "size", value_name = "SIZES", value_delimiter = ',', value_parser = size::bytes_or_share,
        default_value = "4MiB")]
    pub sizes: Vec<SizeOrShare>,
    /// How to read the trace.
    #[command(flatten)]
    pub input: TraceInput,
    /// Size of a flash block, for the policies that evict by block and for the histogram of utilizations.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "4MiB")]
    pub flash_block: u64,
    /// Draw the misses of each policy over the sizes to this file: an HTML page if it ends in .html, else SVG.
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Write the after-cache trace to this file; with several policies or sizes, to FILE-POLICY-SIZE.
    #[arg(long, value_name = "FILE")]
    pub after: Option<PathBuf>,
    /// Give each volume of the trace its own cache and device.
    #[arg(long, conflicts_with_all = ["volume", "pack"])]
    pub each: bool,
    /// Replay the after-cache traces on this emulated device: time, write amplification, erases.
    #[arg(long, value_name = "PROFILE")]
    pub device: Option<String>,
    /// Submit the requests that the cache lets through at the times of the trace, and report the response times of the
    /// device; otherwise submit them as fast as the device takes them.
    #[arg(long, requires = "device")]
    pub timed: bool,
    /// Translation layer of that device; with any but `page`, time is an estimate.
    #[arg(long, value_enum, default_value_t = Ftl::Page, requires = "device")]
    pub ftl: Ftl,
    /// Size of that device [default: the least power of two from 1GiB on that holds the trace].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "device")]
    pub device_size: Option<u64>,
    /// Log blocks of `--ftl fast` and `bast`; refused if the spare blocks do not allow so many [default: the profile's,
    /// else as many as the spare blocks allow].
    #[arg(long, value_name = "COUNT", requires = "device")]
    pub log_blocks: Option<u32>,
    /// Mapping cache of `--ftl dftl`, 8 bytes for each page in it [default: a 2048th of the device].
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, requires = "device")]
    pub map_cache: Option<u64>,
    /// Begin with a blank device instead of one that was filled once.
    #[arg(long, requires = "device")]
    pub blank: bool,
    /// Age the device before the trace with this amount of writes, half of them sequential and half random.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, default_value = "0", requires = "device")]
    pub age: u64,
    /// Cores to use [default: all]; the results are the same for any number.
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
    /// Write the results as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// `onewrite trace`
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Print requests, duration, reads, writes and write range of traces, one line for each.
    Summarise {
        /// The traces (- for standard input).
        #[arg(required = true)]
        traces: Vec<PathBuf>,
        /// How to read them.
        #[command(flatten)]
        input: TraceInput,
        /// Print one line for each volume of a trace.
        #[arg(long, conflicts_with_all = ["volume", "pack"])]
        each: bool,
        /// Write the summaries as a JSON array to this file, or to standard output (-).
        #[arg(long, value_name = "FILE|-")]
        json: Option<PathBuf>,
    },
    /// Write a trace in our own format, with times if it has any; compressed if the new name ends in .zst, .gz or .xz.
    Convert {
        /// The trace (- for standard input).
        trace: PathBuf,
        /// The new file.
        output: PathBuf,
        /// How to read the trace.
        #[command(flatten)]
        input: TraceInput,
        /// Content of a line of the new file.
        #[arg(long, value_enum, default_value_t = Lines::Bytes)]
        to: Lines,
        /// Leave the times out.
        #[arg(long)]
        no_times: bool,
    },
    /// Write a part of a trace, in the same way as `convert`.
    Cut {
        /// The trace (- for standard input).
        trace: PathBuf,
        /// The new file.
        output: PathBuf,
        /// How to read the trace.
        #[command(flatten)]
        input: TraceInput,
        /// Records to skip.
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        skip: u64,
        /// Records to write [default: all that follow].
        #[arg(long, value_name = "COUNT")]
        take: Option<u64>,
        /// Content of a line of the new file.
        #[arg(long, value_enum, default_value_t = Lines::Bytes)]
        to: Lines,
        /// Leave the times out.
        #[arg(long)]
        no_times: bool,
    },
    /// Make a workload of the dissertation's table 2-2 from a seed: the same volumes and write range.
    Generate {
        /// video-streaming, mixed-applications, file-server or tpc-c.
        #[arg(value_parser = parsed::<TraceKind>)]
        name: TraceKind,
        /// The new file [default: NAME.csv]; compressed if it ends in .zst, .gz or .xz.
        output: Option<PathBuf>,
        /// Seed of all chance.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Scale of the volumes and the range of the table, at most 1; a scale that is too small is refused, and the
        /// error gives the least.
        #[arg(long, default_value_t = 1.0, value_name = "SHARE")]
        scale: f64,
        /// dbench's load file for file-server [default: the one of Debian's package dbench].
        #[arg(long, value_name = "FILE")]
        load_file: Option<PathBuf>,
        /// Clients of file-server [default: 48; fewer at a small scale].
        #[arg(long, value_name = "COUNT")]
        clients: Option<u32>,
    },
    /// Draw the pages of a trace, request by request, as SVG.
    Draw {
        /// The trace (- for standard input).
        trace: PathBuf,
        /// The SVG file.
        output: PathBuf,
        /// How to read the trace.
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
    /// `r|w,page`, one line for each page.
    Pages,
}
