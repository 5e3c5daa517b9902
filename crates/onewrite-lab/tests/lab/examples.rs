//! The example jobs of Debian's package `fio-examples`: each runs, or is refused for a reason listed here.

use std::path::{Path, PathBuf};

use onewrite_block::{Choices, GIB, HostProfile, Nanos};
use onewrite_fs::ext4::Mode;
use onewrite_lab::job::{Amount, JobFile, Reading, Variables};
use onewrite_lab::session::{DeviceChoice, Extras, JobSpec, RunSpec, Stack, run};
use onewrite_lab::workload::Ended;
use onewrite_lab::workload::fio::{self, Target};
use onewrite_testing::skipped;

const EXAMPLES: &str = "/usr/share/doc/fio/examples";

/// Examples whose engine reaches something other than a file system or a disk of this machine.
const ENGINES: &[(&str, &str)] = &[
    ("cpp_null", "cpp_null"),
    ("cpuio", "cpuio"),
    ("dev-dax", "dev-dax"),
    ("dfs", "dfs"),
    ("e4defrag", "e4defrag"),
    ("e4defrag2", "e4defrag"),
    ("exec", "exec"),
    ("gfapi", "gfapi"),
    ("gpudirect-rdmaio-client", "rdma"),
    ("gpudirect-rdmaio-server", "rdma"),
    ("http-s3", "http"),
    ("http-s3-crypto", "http"),
    ("http-s3-storage-class", "http"),
    ("http-swift", "http"),
    ("http-webdav", "http"),
    ("ime", "ime_psync"),
    ("libcufile-cufile", "libcufile"),
    ("libcufile-posix", "libcufile"),
    ("libhdfs", "libhdfs"),
    ("libiscsi", "libiscsi"),
    ("libpmem", "libpmem"),
    ("librpma_apm-client", "librpma_apm_client"),
    ("librpma_apm-server", "librpma_apm_server"),
    ("librpma_gpspm-client", "librpma_gpspm_client"),
    ("librpma_gpspm-server", "librpma_gpspm_server"),
    ("libzbc-rand-write", "libzbc"),
    ("libzbc-seq-read", "libzbc"),
    ("mtd", "mtd"),
    ("nbd", "nbd"),
    ("netio", "net"),
    ("netio_multicast", "net"),
    ("nfs", "nfs"),
    ("null", "null"),
    ("pmemblk", "pmemblk"),
    ("rados", "rados"),
    ("rbd", "rbd"),
    ("rdmaio-client", "rdma"),
    ("rdmaio-server", "rdma"),
    ("sg_verify", "sg"),
    ("sg_verify-fail", "sg"),
    ("sg_write_same_ndob", "sg"),
    ("uring-cmd-ng", "io_uring_cmd"),
    ("uring-cmd-zoned", "io_uring_cmd"),
    ("zipf", "null"),
];

/// Examples that need a feature that no device here has, or that is not supported.
const FEATURES: &[(&str, &str)] = &[
    ("enospc-pressure", "trim needs a raw device"),
    ("xnvme-zoned", "`zbd` needs a device of zones"),
    ("zbd-rand-write", "`zbd` needs a device of zones"),
    ("zbd-seq-read", "`zbd` needs a device of zones"),
];

fn examples() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(EXAMPLES) else {
        skipped!("{EXAMPLES} is not there (Debian package fio-examples), so its jobs cannot be tried");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "fio"));
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn read(path: &Path, settings: &[&str]) -> Result<JobFile, String> {
    let values = [("FIO_RW", "randread"), ("FIO_IODEPTH", "4"), ("FIO_BS", "4k")];
    let environment = |wanted: &str| {
        let found = values.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    let variables = Variables { cores: 4, memory_mib: 64, environment: &environment };
    Reading { variables, settings, sections: Vec::new() }.load(path).map_err(|error| error.to_string())
}

/// Whether a job runs on the device itself: its files are devices, or all of them should exist already.
fn is_raw(file: &JobFile) -> bool {
    let on_device = |name: &String| name.starts_with("/dev/") && name != "/dev/null" && name != "/dev/zero";
    file.jobs.iter().any(|job| job.options.file_names.iter().any(on_device) || !job.options.may_create)
}

fn planned(file: &JobFile) -> Result<u64, String> {
    // Clones that lie 124 GiB apart need a large device. They keep no map of blocks, which would grow with the device.
    let spreads = file.jobs.iter().any(|job| job.options.offset_increment != Amount::Bytes(0));
    let bytes = if spreads { 8192 * GIB } else { 16 * GIB };
    let target = if is_raw(file) { Target::Device { bytes } } else { Target::Files };
    let workload = fio::plan(file, target, &Choices::new(1)).map_err(|error| error.to_string())?;
    let mut steps = 0;
    for mut task in workload.groups.into_iter().flatten() {
        for turn in 0..100 {
            let step = task.stream.next(Nanos::from_millis(turn)).map_err(|error| error.to_string())?;
            let Some(step) = step else { break };
            task.stream.completed(&step.operation, Ended { now: Nanos::from_millis(turn), ..Ended::default() });
            steps += 1;
        }
    }
    Ok(steps)
}

fn expected(name: &str) -> Option<String> {
    let engine = ENGINES.iter().find(|(example, _)| *example == name);
    let feature = FEATURES.iter().find(|(example, _)| *example == name);
    let engine = engine.map(|(_, engine)| format!("fio's engine `{engine}` has no meaning here"));
    engine.or(feature.map(|(_, words)| (*words).to_owned()))
}

#[test]
fn every_example_of_fio_becomes_operations_or_is_refused_for_a_listed_reason() {
    let paths = examples();
    let mut refused = 0;
    for path in &paths {
        let name = name(path);
        let outcome = match read(path, &[]).and_then(|file| planned(&file)) {
            // This job takes the size of an existing file, and here there is none.
            Err(told) if told.contains("size= is missing") => read(path, &["size=64m"]).and_then(|file| planned(&file)),
            outcome => outcome,
        };
        match (outcome, expected(&name)) {
            (Ok(steps), None) => assert!(steps > 0, "{name}: no operation"),
            (Err(told), Some(words)) => {
                assert!(told.contains(&words), "{name}: {told}");
                refused += 1;
            }
            (Ok(_), Some(words)) => panic!("{name} is not refused any more: {words}"),
            (Err(told), None) => panic!("{name}: {told}"),
        }
    }
    assert!(paths.is_empty() || (paths.len(), refused) == (86, ENGINES.len() + FEATURES.len()), "{}", paths.len());
}

#[test]
fn every_example_that_is_not_refused_runs() {
    let small = ["size=4m", "filesize=4m", "nrfiles=2", "number_ios=16", "loops=1", "runtime=1", "ramp_time=0"];
    for path in examples().iter().filter(|path| expected(&name(path)).is_none()) {
        // Its parts lie 124 GiB apart.
        let close: &[&str] = if name(path) == "cross-stripe-verify" { &["offset_increment=4m"] } else { &[] };
        let file = read(path, &[&small, close].concat()).unwrap_or_else(|told| panic!("{}: {told}", path.display()));
        let stack = if is_raw(&file) { Stack::Raw } else { Stack::Ext4(Mode::Ordered) };
        let device = DeviceChoice::named("ideal").unwrap();
        let spec = RunSpec { host: HostProfile::default(), ..RunSpec::new(JobSpec::Fio(file), stack, "ideal") };
        let device = device.open(Some(GIB)).unwrap();
        let result =
            run(&spec, device, Extras::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!result.jobs.is_empty(), "{}", path.display());
    }
}
