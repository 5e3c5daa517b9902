//! Results: the figures of a run, in fio's JSON shape, with Onewrite's own figures beside it.
//!
//! fio's fields keep fio's names, units and meaning. Time stamps and everything else that differs between two runs of
//! one seed are left out, so in virtual time the file is the same to the byte. `docs/results-json.md` names every
//! field.

mod disk;
mod goals;

use std::collections::BTreeMap;

use onewrite_block::{Cause, Counters, Nanos};
use onewrite_fs::{CleaningCounters, FsCounters};
use serde::ser::{Serialize, SerializeMap, Serializer};

pub use disk::DiskUtil;
pub use goals::{LatencyGoal, SteadyData, SteadyState};

use crate::driver::{JobMeasure, Latencies, Rates, Series};

/// The percentiles that fio prints.
pub(crate) const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// The result of one run.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RunResult {
    /// Version of this program.
    #[serde(rename = "onewrite version")]
    pub version: &'static str,
    /// One entry for each job, or for each group with `group_reporting`.
    pub jobs: Vec<JobResult>,
    /// Load of the device: one entry.
    pub disk_util: Vec<DiskUtil>,
    /// Figures that fio does not have.
    pub onewrite: Figures,
}

/// The result of one job.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct JobResult {
    /// Its name.
    pub jobname: String,
    /// Number of its group.
    pub groupid: usize,
    /// Zero: a run that fails gives no result.
    pub error: i32,
    /// Settings of its section of the job file.
    #[serde(rename = "job options")]
    pub options: Given,
    /// Reads.
    pub read: Transfers,
    /// Writes.
    pub write: Transfers,
    /// Trims.
    pub trim: Transfers,
    /// Fsyncs and fdatasyncs.
    pub sync: Syncs,
    /// Time from the first operation to the end of the last, in milliseconds.
    pub job_runtime: u64,
    /// Present if `latency_target` was given.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyGoal>,
    /// Present if `steadystate` was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steadystate: Option<SteadyState>,
    /// Operations of all kinds, if the workload has more than reads, writes and syncs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onewrite: Option<Operations>,
}

/// Settings of a job file, in order; a map in JSON. If a key is set twice, its last value counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given(pub Vec<(String, String)>);

impl Serialize for Given {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (place, (key, value)) in self.0.iter().enumerate() {
            if self.0[place + 1..].iter().all(|(later, _)| later != key) {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// Reads, writes or trims of a job.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Transfers {
    /// Bytes moved.
    pub io_bytes: u64,
    /// The same in KiB.
    pub io_kbytes: u64,
    /// Bytes a second.
    pub bw_bytes: u64,
    /// KiB a second.
    pub bw: u64,
    /// Operations a second.
    pub iops: f64,
    /// Milliseconds from the beginning of the first operation to the end of the last.
    pub runtime: u64,
    /// Operations.
    pub total_ios: u64,
    /// Always zero: a short read or write is an error.
    pub short_ios: u64,
    /// Always zero.
    pub drop_ios: u64,
    /// Lowest rate of a half second, in KiB a second.
    pub bw_min: u64,
    /// Highest.
    pub bw_max: u64,
    /// Mean over the whole half seconds of the job.
    pub bw_mean: f64,
    /// Standard deviation.
    pub bw_dev: f64,
    /// Number of half seconds.
    pub bw_samples: u64,
    /// Lowest rate of a half second, in operations a second.
    pub iops_min: u64,
    /// Highest.
    pub iops_max: u64,
    /// Mean over the whole half seconds of the job.
    pub iops_mean: f64,
    /// Standard deviation.
    pub iops_stddev: f64,
    /// Number of half seconds.
    pub iops_samples: u64,
    /// Submission latency; part of `clat_ns` here, so always zero.
    pub slat_ns: Moments,
    /// Completion latency.
    pub clat_ns: Distribution,
    /// Total latency.
    pub lat_ns: Moments,
}

/// Syncs of a job.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Syncs {
    /// Number of syncs.
    pub total_ios: u64,
    /// Latency of the syncs.
    pub lat_ns: Distribution,
}

/// Operations of all kinds of a job.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Operations {
    /// Number of operations, opens and closes included.
    pub operations: u64,
    /// Operations a second.
    pub operations_per_second: f64,
    /// Number and latency of each kind.
    pub by_kind: BTreeMap<&'static str, Syncs>,
}

/// Minimum, maximum, mean and standard deviation in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Moments {
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Number of values.
    #[serde(rename = "N")]
    pub count: u64,
}

/// [`Moments`] and percentiles.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Distribution {
    /// The moments.
    #[serde(flatten)]
    pub moments: Moments,
    /// The percentiles; empty if there is no value.
    #[serde(skip_serializing_if = "Percentiles::is_empty")]
    pub percentile: Percentiles,
}

/// Pairs of percent and nanoseconds, in the order of [`PERCENTILES`]; a map in JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Percentiles(pub Vec<(f64, u64)>);

impl Percentiles {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value at `percent`, if there is one.
    pub fn at(&self, percent: f64) -> Option<Nanos> {
        self.0.iter().find(|(at, _)| *at == percent).map(|(_, value)| Nanos(*value))
    }
}

impl Serialize for Percentiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (percent, value) in &self.0 {
            map.serialize_entry(&format!("{percent:.6}"), value)?;
        }
        map.end()
    }
}

/// Figures that fio does not have.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figures {
    /// Name of the job file or workload.
    pub job: String,
    /// The seed of all chance.
    pub seed: u64,
    /// Seconds on the virtual clock from the end of mkfs to the end of the unmount; none on a real disk.
    pub virtual_seconds: Option<f64>,
    /// Seconds on the machine's clock, on a real disk only.
    pub wall_seconds: Option<f64>,
    /// Operations a second over all jobs, the throughput of tables: reads, writes and trims, or operations of all kinds
    /// if the workload counts them. Jobs side by side share their time; groups behind each other add up theirs.
    pub operations_per_second: f64,
    /// All jobs added up, as if they were one.
    pub total: JobResult,
    /// The device.
    pub device: DeviceFigures,
    /// The file system; none on a raw device.
    pub fs: Option<FsFigures>,
    /// Settings of the run, defaults included.
    pub settings: Settings,
}

/// Counters of the device.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DeviceFigures {
    /// Profile, or path of a real disk.
    pub profile: String,
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes written by the host.
    pub host_write_bytes: u64,
    /// Bytes written by the host for each cause, in the order of [`Cause::ALL`].
    pub host_write_bytes_by_cause: ByCause,
    /// Bytes read from flash.
    pub flash_read_bytes: u64,
    /// Bytes programmed to flash.
    pub flash_program_bytes: u64,
    /// Flash bytes programmed for each byte that the host wrote; none without flash.
    pub waf: Option<f64>,
    /// Flash bytes programmed for each byte that the application wrote; this wears the device out. None without flash
    /// or without writes.
    pub flash_bytes_per_application_byte: Option<f64>,
    /// FLUSH commands.
    pub flushes: u64,
    /// Writes with FUA.
    pub fua_writes: u64,
    /// TRIM commands.
    pub trims: u64,
    /// SHARE commands.
    pub shares: u64,
    /// Pairs of pages in the SHARE commands.
    pub shared_pages: u64,
    /// Flash blocks erased.
    pub erases: u64,
    /// Pages moved by garbage collection, merges and wear levelling.
    pub moved_pages: u64,
    /// Switch merges of a hybrid translation layer: a log block becomes a data block as it is.
    pub switch_merges: u64,
    /// Partial merges: the missing pages are copied to a log block, which becomes a data block.
    pub partial_merges: u64,
    /// Full merges: a new data block is gathered from several blocks.
    pub full_merges: u64,
}

/// Bytes for each cause; in JSON a map with every cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByCause(pub [u64; Cause::ALL.len()]);

impl Serialize for ByCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (cause, bytes) in Cause::ALL.iter().zip(self.0) {
            map.serialize_entry(cause.name(), &bytes)?;
        }
        map.end()
    }
}

/// Counters of the file system.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FsFigures {
    /// Journal mode of ext4, or the name of F2FS with its options.
    pub mode: String,
    /// What survives a power cut besides synced data.
    pub promise: String,
    /// Transactions committed.
    pub commits: u64,
    /// Bytes written to the log.
    pub journal_bytes: u64,
    /// Checkpoint rounds.
    pub checkpoints: u64,
    /// Checkpoint rounds that somebody waited for.
    pub forced_checkpoints: u64,
    /// Bytes that checkpoints wrote home.
    pub checkpoint_bytes: u64,
    /// Bytes of those that SHARE moved home without writing.
    pub shared_bytes: u64,
    /// Bytes of committed blocks that were no longer in memory and were read from the log.
    pub read_back_bytes: u64,
    /// Bytes of blocks that went to the log compressed, before compression.
    pub packed_raw_bytes: u64,
    /// Bytes of the same blocks in the log, after compression.
    pub packed_bytes: u64,
    /// Time that commits spent on compression.
    pub packing_seconds: f64,
    /// Bytes of files read with O_DIRECT.
    pub direct_read_bytes: u64,
    /// Bytes of those that came from memory.
    pub direct_cached_bytes: u64,
    /// Cleaning of segments; only of F2FS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaning: Option<CleaningCounters>,
    /// Notes to read before comparing the figures with others.
    pub notes: Vec<String>,
}

impl FsFigures {
    /// The figures of a file system in `mode`.
    pub fn new(mode: &str, promise: &str, counters: FsCounters) -> FsFigures {
        FsFigures {
            mode: mode.to_owned(),
            promise: promise.to_owned(),
            commits: counters.commits,
            journal_bytes: counters.journal_bytes,
            checkpoints: counters.checkpoints,
            forced_checkpoints: counters.forced_checkpoints,
            checkpoint_bytes: counters.checkpoint_bytes,
            shared_bytes: counters.shared_bytes,
            read_back_bytes: counters.read_back_bytes,
            packed_raw_bytes: counters.packed_raw_bytes,
            packed_bytes: counters.packed_bytes,
            packing_seconds: Nanos(counters.packing_ns).as_secs_f64(),
            direct_read_bytes: counters.direct_read_bytes,
            direct_cached_bytes: counters.direct_cached_bytes,
            cleaning: None,
            notes: cached_reads(mode, &counters).into_iter().collect(),
        }
    }

    /// The same, with what cleaning did.
    pub fn with_cleaning(self, cleaning: CleaningCounters) -> FsFigures {
        FsFigures { cleaning: Some(cleaning), ..self }
    }

    /// The same, with another note, if there is one.
    pub(crate) fn with_note(mut self, note: Option<String>) -> FsFigures {
        self.notes.extend(note);
        self
    }

    /// Share of the direct reads that came from memory; `None` if there were none.
    pub(crate) fn cached_share(&self) -> Option<f64> {
        (self.direct_read_bytes > 0).then(|| self.direct_cached_bytes as f64 / self.direct_read_bytes as f64)
    }
}

/// The note on O_DIRECT reads that came from memory.
fn cached_reads(mode: &str, counters: &FsCounters) -> Option<String> {
    let FsCounters { direct_read_bytes: all, direct_cached_bytes: cached, .. } = *counters;
    (cached > 0).then(|| {
        let percent = 100.0 * cached as f64 / all as f64;
        format!(
            "{mode} served {percent:.1} % of its O_DIRECT reads from memory: with content in the log they are \
             buffered, in Linux's data=journal as here. Its reads are not those of the device; --drop-caches empties \
             the page cache before the jobs."
        )
    })
}

/// Settings of a run; they determine the command that repeats it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Settings {
    /// `ext4`, `f2fs` or `raw`.
    pub fs: String,
    /// Journal mode of ext4, or the name of F2FS with its options; none on a raw device.
    pub mode: Option<String>,
    /// Profile name or path.
    pub device: String,
    /// Its translation layer and its age.
    pub setup: DeviceSetup,
    /// Name of the host profile.
    pub host: String,
    /// Bytes of the device.
    pub size_bytes: u64,
    /// Bytes of the journal; none on F2FS and on a raw device.
    pub journal_bytes: Option<u64>,
    /// Bytes of the page cache; none on a raw device.
    pub cache_bytes: Option<u64>,
    /// Replacement policy of the page cache; none on a raw device.
    pub cache_policy: Option<String>,
    /// Whether blocks were allocated only at writeback; none on a raw device.
    pub delayed_allocation: Option<bool>,
    /// Longest time in nanoseconds for which a commit waited for others that sync; absent if it waited for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_ns: Option<u64>,
    /// Whether the page cache was emptied before the jobs.
    pub drop_caches: bool,
}

/// Properties of a device besides its profile that decide its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DeviceSetup {
    /// Translation layer: `page`, `fast`, `bast`, `dftl`; none without flash or if unknown.
    pub ftl: Option<String>,
    /// Age: writes done before the run: `none`, `filled`, `steady`; none if unknown.
    pub age: Option<String>,
}

impl DeviceSetup {
    /// Text for tables; none if nothing is known. It names a new device, because that writes faster than an aged one.
    pub fn words(&self) -> Option<String> {
        let ftl = self.ftl.as_deref().filter(|ftl| *ftl != "page").map(|ftl| format!("FTL {ftl}"));
        let age = self.age.as_deref().map(|age| match age {
            "none" => "new, not aged".to_owned(),
            "filled" => "filled once before".to_owned(),
            _ => "aged by random writes".to_owned(),
        });
        let words: Vec<String> = ftl.into_iter().chain(age).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl DeviceFigures {
    /// The figures of the device called `profile`; the application wrote `application_bytes`.
    pub fn new(profile: &str, counters: &Counters, application_bytes: u64) -> DeviceFigures {
        let waf = counters.write_amplification();
        let each = counters.flash_program_bytes as f64 / application_bytes.max(1) as f64;
        DeviceFigures {
            profile: profile.to_owned(),
            host_read_bytes: counters.host_read_bytes,
            host_write_bytes: counters.host_write_bytes(),
            host_write_bytes_by_cause: ByCause(counters.host_write_bytes_by_cause),
            flash_read_bytes: counters.flash_read_bytes,
            flash_program_bytes: counters.flash_program_bytes,
            waf,
            flash_bytes_per_application_byte: (waf.is_some() && application_bytes > 0).then_some(each),
            flushes: counters.flushes,
            fua_writes: counters.fua_writes,
            trims: counters.trims,
            shares: counters.shares,
            shared_pages: counters.shared_pages,
            erases: counters.erases,
            moved_pages: counters.moved_pages,
            switch_merges: counters.switch_merges,
            partial_merges: counters.partial_merges,
            full_merges: counters.full_merges,
        }
    }
}

impl From<&JobMeasure> for JobResult {
    fn from(measure: &JobMeasure) -> JobResult {
        let (latency, steadystate) = goals::goals(&measure.findings);
        JobResult {
            jobname: measure.plan.name.clone(),
            groupid: measure.plan.group,
            error: 0,
            options: Given(measure.plan.options.clone()),
            read: Transfers::new(&measure.read, measure.read.duration()),
            write: Transfers::new(&measure.write, measure.write_duration()),
            trim: Transfers::new(&measure.trim, measure.trim.duration()),
            sync: Syncs::new(&measure.sync),
            job_runtime: milliseconds(measure.duration()),
            latency,
            steadystate,
            onewrite: measure.plan.operations_count.then(|| Operations::new(measure)),
        }
    }
}

impl Transfers {
    fn new(series: &Series, duration: Nanos) -> Transfers {
        let bytes_per_second = per_second(series.bytes, duration) as u64;
        let Rates { least: iops_min, most: iops_max, mean: iops_mean, deviation: iops_stddev, count: iops_samples } =
            series.samples.operations();
        let Rates { least: bw_min, most: bw_max, mean: bw_mean, deviation: bw_dev, count: bw_samples } =
            series.samples.kibibytes();
        Transfers {
            io_bytes: series.bytes,
            io_kbytes: series.bytes / 1024,
            bw_bytes: bytes_per_second,
            bw: bytes_per_second / 1024,
            iops: per_second(series.count(), duration),
            runtime: milliseconds(duration),
            total_ios: series.count(),
            short_ios: 0,
            drop_ios: 0,
            bw_min,
            bw_max,
            bw_mean,
            bw_dev,
            bw_samples,
            iops_min,
            iops_max,
            iops_mean,
            iops_stddev,
            iops_samples,
            slat_ns: Moments::default(),
            clat_ns: Distribution::new(&series.latencies),
            lat_ns: Moments::new(&series.latencies),
        }
    }
}

impl Syncs {
    fn new(series: &Series) -> Syncs {
        Syncs { total_ios: series.count(), lat_ns: Distribution::new(&series.latencies) }
    }
}

impl Operations {
    fn new(measure: &JobMeasure) -> Operations {
        let operations = measure.operation_count();
        Operations {
            operations,
            operations_per_second: per_second(operations, measure.duration()),
            by_kind: measure.operations.iter().map(|(kind, series)| (*kind, Syncs::new(series))).collect(),
        }
    }
}

impl Moments {
    fn new(latencies: &Latencies) -> Moments {
        Moments {
            min: latencies.least().0,
            max: latencies.most().0,
            mean: latencies.mean_ns(),
            stddev: latencies.deviation_ns(),
            count: latencies.count(),
        }
    }
}

impl Distribution {
    /// The distribution of `latencies`.
    pub(crate) fn new(latencies: &Latencies) -> Distribution {
        let pairs = PERCENTILES.map(|percent| (percent, latencies.percentile(percent).0));
        let percentile = if latencies.count() == 0 { Vec::new() } else { pairs.to_vec() };
        Distribution { moments: Moments::new(latencies), percentile: Percentiles(percentile) }
    }
}

fn per_second(count: u64, duration: Nanos) -> f64 {
    if duration == Nanos::ZERO { 0.0 } else { count as f64 / duration.as_secs_f64() }
}

const fn milliseconds(span: Nanos) -> u64 {
    span.0.div_ceil(1_000_000)
}

impl RunResult {
    /// Combines the measures and the counters of a run; `figures` gets [`Figures::total`] and
    /// [`Figures::operations_per_second`].
    pub fn new(
        measures: &[JobMeasure],
        disk_util: DiskUtil,
        figures: impl FnOnce(JobResult, f64) -> Figures,
    ) -> RunResult {
        RunResult {
            version: env!("CARGO_PKG_VERSION"),
            jobs: measures.iter().map(JobResult::from).collect(),
            disk_util: vec![disk_util],
            onewrite: figures(JobResult::from(&JobMeasure::total(measures)), JobMeasure::throughput(measures)),
        }
    }

    /// The result as JSON, with a line break at the end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("maps have string keys") + "\n"
    }

    /// Bytes written to the device for each byte that the workload wrote; `None` without writes.
    pub(crate) fn written_per_byte(&self) -> Option<f64> {
        let asked = self.onewrite.total.write.io_bytes;
        (asked > 0).then(|| self.onewrite.device.host_write_bytes as f64 / asked as f64)
    }

    /// FLUSH commands for each fsync and fdatasync; `None` without syncs.
    pub(crate) fn flushes_per_sync(&self) -> Option<f64> {
        let syncs = self.onewrite.total.sync.total_ios;
        (syncs > 0).then(|| self.onewrite.device.flushes as f64 / syncs as f64)
    }
}
