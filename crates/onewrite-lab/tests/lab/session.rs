//! Whole runs: formats ext4 or F2FS on a RAM disk, runs jobs, unmounts, and checks the image.

use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;

use onewrite_block::{
    Cause, Completion, Counters, Device, Geometry, HostProfile, Lpn, MIB, Nanos, NextEvent, Operation, PowerCut,
    RamDisk, Request, Time, Token,
};
use onewrite_device::Profile;
use onewrite_fs::ext4::{Mode, PolicyKind};
use onewrite_fs::f2fs::{Clean, FsyncMode};
use onewrite_lab::LabError;
use onewrite_lab::driver::{LaidOut, Phase, Watcher};
use onewrite_lab::innodb::InnodbJob;
use onewrite_lab::job::JobFile;
use onewrite_lab::results::{DeviceSetup, RunResult};
use onewrite_lab::session::{self, DeviceChoice, Extras, F2fsStack, JobSpec, RunSpec, Stack};
use onewrite_lab::sqlite::SqliteJob;
use onewrite_lab::workload::filebench::{Length, Parameters, Personality};
use onewrite_testing::skipped;

fn spec(job: JobSpec, stack: Stack) -> RunSpec {
    RunSpec {
        job,
        stack,
        device: "ram".into(),
        setup: DeviceSetup::default(),
        time: Time::Virtual,
        host_name: "default".into(),
        host: HostProfile::default(),
        journal_bytes: None,
        cache_bytes: 16 * MIB,
        cache_policy: PolicyKind::Lru,
        delayed_allocation: true,
        max_batch_time: Nanos::ZERO,
        eviction_spot: None,
        drop_caches: false,
        seed: 1,
    }
}

fn varmail(operations: u64) -> JobSpec {
    let length = Length::Operations(operations);
    JobSpec::Personality(Personality::Varmail, Parameters { files: 200, length, ..Personality::Varmail.parameters() })
}

fn fio(text: &str) -> JobSpec {
    JobSpec::Fio(JobFile::parse("test.fio", text).unwrap())
}

fn run(spec: &RunSpec, extras: Extras) -> Result<RunResult, LabError> {
    session::run(spec, Box::new(RamDisk::volatile(64 * MIB / 4096)), extras)
}

#[test]
fn varmail_runs_in_every_mode_and_leaves_a_clean_image() {
    for mode in Mode::ALL {
        let image = std::env::temp_dir().join(format!("onewrite-session-{}-{mode}.img", std::process::id()));
        let result =
            run(&spec(varmail(3000), Stack::Ext4(mode)), Extras { image: Some(image.clone()), ..Extras::default() });
        let result = result.unwrap();
        assert!(
            result.onewrite.fs.as_ref().unwrap().commits > 0 && result.onewrite.operations_per_second > 0.0,
            "{mode}"
        );
        match Command::new("e2fsck").args(["-fn"]).arg(&image).output() {
            Ok(judged) => assert!(judged.status.success(), "{mode}: {}", String::from_utf8_lossy(&judged.stdout)),
            Err(_) => skipped!("e2fsck is not installed, so it cannot judge the image"),
        }
        std::fs::remove_file(image).unwrap();
    }
}

#[test]
fn one_seed_gives_one_result() {
    let json = |seed| {
        run(&RunSpec { seed, ..spec(varmail(2000), Stack::Ext4(Mode::Data)) }, Extras::default()).unwrap().to_json()
    };
    assert_eq!(json(3), json(3));
    assert_ne!(json(3), json(4));
}

#[test]
fn a_job_verifies_its_own_content() {
    let job = "[a]\nrw=randwrite\nbsrange=1k-16k\nsize=4m\nnrfiles=4\nfsync=16\nverify=crc32c\nnumjobs=2\n";
    for mode in Mode::ALL {
        let result = run(&spec(fio(job), Stack::Ext4(mode)), Extras::default()).unwrap();
        assert_eq!(result.onewrite.total.read.io_bytes, result.onewrite.total.write.io_bytes, "{mode}");
    }
}

#[test]
fn a_raw_run_writes_what_the_job_asks_for() {
    let result =
        run(&spec(fio("[a]\nrw=randwrite\nsize=8m\nbs=16k\nfsync=32\n"), Stack::Raw), Extras::default()).unwrap();
    let device = result.onewrite.device;
    assert_eq!((device.host_write_bytes, device.flushes), (8 * MIB, 15));
    assert_eq!(result.onewrite.fs, None);
}

#[test]
fn a_full_image_is_an_error_that_names_the_job() {
    let error = run(
        &spec(fio("[greedy]\nrw=write\nsize=100m\nfallocate=none\n"), Stack::Ext4(Mode::Ordered)),
        Extras::default(),
    );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("no space"), "{text}");
}

/// F2FS in a mode of fsync.
fn f2fs(fsync_mode: FsyncMode) -> Stack {
    Stack::F2fs(F2fsStack { fsync_mode, ..F2fsStack::default() })
}

#[test]
fn f2fs_runs_jobs_the_same_each_time_and_leaves_a_clean_image() {
    for fsync_mode in FsyncMode::ALL {
        let image = std::env::temp_dir().join(format!("onewrite-session-{}-{fsync_mode}.img", std::process::id()));
        let json = |seed, image| {
            let spec = RunSpec { seed, ..spec(varmail(3000), f2fs(fsync_mode)) };
            let result = run(&spec, Extras { image, ..Extras::default() }).unwrap();
            let settings = &result.onewrite.settings;
            assert_eq!((settings.fs.as_str(), settings.journal_bytes), ("f2fs", None));
            assert_eq!(settings.mode.as_deref(), Some(spec.stack.to_string().as_str()));
            assert!(
                result.onewrite.fs.as_ref().unwrap().checkpoints > 0 && result.onewrite.operations_per_second > 0.0
            );
            result.to_json()
        };
        assert_eq!(json(3, None), json(3, Some(image.clone())));
        assert_ne!(json(3, None), json(4, None));
        match Command::new("fsck.f2fs").arg("--dry-run").arg(&image).output() {
            Ok(judged) => {
                let said = String::from_utf8_lossy(&judged.stdout).into_owned();
                let is_clean = said.contains("[Ok..]") && !said.contains("[Fail]") && !said.contains("[ASSERT]");
                assert!(judged.status.success() && is_clean, "{fsync_mode}: {said}");
            }
            Err(_) => skipped!("fsck.f2fs is not installed, so it cannot judge the image"),
        }
        std::fs::remove_file(image).unwrap();
    }
}

/// An F2FS of 64 MiB has some 14 MiB for content, so random overwrites leave no segment empty by themselves.
const OVERWRITES: &str = "[a]\nrw=randwrite\nbs=4k\nsize=11m\nio_size=60m\nfsync=64\nverify=crc32c\n";

#[test]
fn cleaning_by_share_copies_no_content() {
    let figures = |clean| {
        let stack = Stack::F2fs(F2fsStack { clean, ..F2fsStack::default() });
        let device = Profile::named("nvme-share").unwrap().device(Some(64 * MIB)).unwrap();
        let result = session::run(&spec(fio(OVERWRITES), stack), device, Extras::default()).unwrap();
        (result.onewrite.fs.unwrap().cleaning.unwrap(), result.onewrite.device)
    };
    let (by_copy, copying) = figures(Clean::Copy);
    let (by_share, sharing) = figures(Clean::Share);
    assert!(by_share.segments > 10 && by_share.shared_blocks > 1000 && by_copy.copied_blocks > 1000, "{by_share:?}");
    assert_eq!((by_share.copied_blocks, by_copy.shared_blocks, copying.shared_pages), (0, 0, 0));
    assert_eq!(sharing.shared_pages, by_share.shared_blocks);
    assert!(sharing.host_write_bytes < copying.host_write_bytes, "{sharing:?} {copying:?}");
}

#[test]
fn cleaning_by_share_needs_a_device_that_shares() {
    let stack = Stack::F2fs(F2fsStack { clean: Clean::Share, ..F2fsStack::default() });
    let device = Profile::named("sata-850pro").unwrap().device(Some(64 * MIB)).unwrap();
    let refusal = session::run(&spec(fio(OVERWRITES), stack), device, Extras::default()).unwrap_err().to_string();
    assert!(refusal.contains("clean=share on") && refusal.contains("nvme-share"), "{refusal}");
}

#[test]
fn power_cuts_while_segments_are_cleaned_take_nothing_that_was_synced() {
    for clean in Clean::ALL {
        let stack = Stack::F2fs(F2fsStack { clean, ..F2fsStack::default() });
        let disk = || Ok(Profile::named("nvme-share").unwrap().device(Some(64 * MIB)).unwrap() as Box<dyn Device>);
        let job = fio("[a]\nrw=randwrite\nbs=16k\nsize=11m\nio_size=31m\nfsync=64\n");
        let verdict = session::try_cuts(&spec(job, stack), disk, 24, |_| Ok(())).unwrap();
        assert_eq!((verdict.cuts, verdict.losses), (24, 0), "{clean}: {:?}", verdict.first_loss);
    }
}

#[test]
fn f2fs_cleans_under_a_job_that_overwrites_and_its_content_is_right() {
    let result = run(&spec(fio(OVERWRITES), f2fs(FsyncMode::Posix)), Extras::default()).unwrap();
    let cleaning = result.onewrite.fs.as_ref().unwrap().cleaning.unwrap();
    let by_cause = result.onewrite.device.host_write_bytes_by_cause;
    let of = |cause| by_cause.0[Cause::ALL.iter().position(|other| *other == cause).unwrap()];
    assert!(cleaning.segments > 10 && cleaning.copied_blocks > 1000, "{cleaning:?}");
    assert_eq!(of(Cause::Cleaning), cleaning.copied_blocks * 4096);
    assert!(of(Cause::Data) > 50 * MIB && of(Cause::Journal) > 0 && of(Cause::Checkpoint) > 0, "{by_cause:?}");
}

#[test]
fn an_engine_of_innodbs_shape_on_f2fs_is_refused_by_name() {
    let job = JobSpec::Innodb(InnodbJob::named("innodb-linkbench").unwrap().unwrap());
    let error = run(&spec(job, f2fs(FsyncMode::Posix)), Extras::default()).unwrap_err().to_string();
    assert!(error.contains("innodb-linkbench") && error.contains("F2FS"), "{error}");
}

#[test]
fn staging_halves_the_flushes_of_a_database_and_more_than_halves_its_bytes() {
    let job = SqliteJob { operations: Some(400), ..SqliteJob::named("sqlite-rand-sync:wal").unwrap().unwrap() };
    let disk = || Box::new(RamDisk::volatile(80 * MIB / 4096));
    let usage = |stage_bytes| {
        let stack = Stack::F2fs(F2fsStack { stage_bytes, ..F2fsStack::default() });
        // The run itself has the database and the image judged.
        let result = session::run(&spec(JobSpec::Sqlite(job), stack), disk(), Extras::default()).unwrap();
        (result.onewrite.device.flushes, result.onewrite.device.host_write_bytes)
    };
    let ((flushes, bytes), (plain_flushes, plain_bytes)) = (usage(16 * MIB), usage(0));
    // One FUA write for most puts; without an area, a FLUSH for the content and a FUA write for the node.
    assert!(flushes * 2 < plain_flushes, "{flushes} flushes, {plain_flushes} without");
    assert!(bytes * 10 < plain_bytes * 6, "{bytes} bytes, {plain_bytes} without");
}

#[test]
fn power_cuts_take_nothing_that_was_staged() {
    let stack = Stack::F2fs(F2fsStack { stage_bytes: MIB, ..F2fsStack::default() });
    let disk = || Ok(Box::new(RamDisk::volatile(65 * MIB / 4096)) as Box<dyn Device>);
    let verdict = session::try_cuts(&spec(varmail(3000), stack), disk, 24, |_| Ok(())).unwrap();
    assert_eq!((verdict.cuts, verdict.losses), (24, 0), "{:?}", verdict.first_loss);
}

#[test]
fn power_cuts_take_nothing_that_was_synced_on_f2fs() {
    for fsync_mode in FsyncMode::ALL {
        let disk = || Ok(Box::new(RamDisk::volatile(64 * MIB / 4096)) as Box<dyn Device>);
        let verdict = session::try_cuts(&spec(varmail(3000), f2fs(fsync_mode)), disk, 24, |_| Ok(())).unwrap();
        assert_eq!((verdict.cuts, verdict.losses), (24, 0), "{fsync_mode}: {:?}", verdict.first_loss);
    }
}

#[test]
fn a_disk_that_lies_about_flushes_is_caught_under_f2fs() {
    let disk = || Ok(Box::new(Liar(RamDisk::volatile(64 * MIB / 4096))) as Box<dyn Device>);
    let verdict = session::try_cuts(&spec(varmail(3000), f2fs(FsyncMode::Posix)), disk, 24, |_| Ok(())).unwrap();
    assert!(verdict.losses > 0);
}

/// A disk that reports a FLUSH as done but does not do it.
struct Liar(RamDisk);

impl Device for Liar {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        let is_flush = request.operation == Operation::Flush;
        self.0.submit(token, if is_flush { Request::read(Lpn(0), 1, request.cause) } else { request }, now);
    }

    fn next_event(&self) -> NextEvent {
        self.0.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        self.0.advance(to, completed);
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn reset_counters(&mut self) {
        self.0.reset_counters();
    }

    fn is_dark(&self) -> bool {
        self.0.is_dark()
    }

    fn as_power_cut(&mut self) -> Option<&mut dyn PowerCut> {
        Some(&mut self.0)
    }
}

#[test]
fn power_cuts_take_nothing_that_was_synced() {
    for mode in Mode::ALL {
        let disk = || Ok(Box::new(RamDisk::volatile(64 * MIB / 4096)) as Box<dyn Device>);
        let verdict = session::try_cuts(&spec(varmail(3000), Stack::Ext4(mode)), disk, 8, |_| Ok(())).unwrap();
        assert_eq!((verdict.cuts, verdict.losses), (8, 0), "{mode}: {:?}", verdict.first_loss);
    }
}

#[test]
fn a_disk_that_lies_about_flushes_is_caught() {
    let disk = || Ok(Box::new(Liar(RamDisk::volatile(64 * MIB / 4096))) as Box<dyn Device>);
    let verdict = session::try_cuts(&spec(varmail(3000), Stack::Ext4(Mode::Ordered)), disk, 8, |_| Ok(())).unwrap();
    assert!(verdict.losses > 0);
    assert!(verdict.first_loss.unwrap().contains("seed 1, cut point"));
}

#[test]
fn a_trace_sees_every_request() {
    let seen = Rc::new(RefCell::new(0));
    let counter = Rc::clone(&seen);
    let trace = Box::new(move |event: onewrite_block::layer::TraceEvent| {
        *counter.borrow_mut() += u64::from(event.operation == "flush");
    });
    let spec = spec(fio("[a]\nrw=write\nsize=1m\nfsync=16\n"), Stack::Raw);
    let result = run(&spec, Extras { trace: Some(trace), ..Extras::default() }).unwrap();
    assert_eq!(*seen.borrow(), result.onewrite.device.flushes);
}

/// A file that is laid out, then read directly.
const DIRECT: &str = "[a]\nrw=randread\nsize=8m\ndirect=1\ninvalidate=0\n";

#[test]
fn direct_reads_from_memory_are_counted_and_dropped_caches_make_them_real() {
    let figures = |mode, drop_caches| {
        let spec = RunSpec { drop_caches, ..spec(fio(DIRECT), Stack::Ext4(mode)) };
        let result = run(&spec, Extras::default()).unwrap();
        (result.onewrite.fs.clone().unwrap(), result.onewrite.device.host_read_bytes)
    };
    let (ordered, _) = figures(Mode::Ordered, false);
    assert_eq!((ordered.direct_read_bytes, ordered.direct_cached_bytes, ordered.notes.len()), (8 * MIB, 0, 0));
    let (data, _) = figures(Mode::Data, false);
    assert!(data.direct_cached_bytes > 7 * MIB && data.notes[0].contains("from memory"), "{data:?}");
    let (dropped, read) = figures(Mode::Data, true);
    assert!(dropped.direct_cached_bytes < MIB && read >= 7 * MIB, "{dropped:?}, {read} read");
}

#[test]
fn the_disk_is_counted_as_the_kernel_would() {
    let job = spec(fio("[a]\nrw=randrw\nsize=4m\ndirect=1\n"), Stack::Raw);
    let device = Profile::named("sata-850pro").unwrap().device(Some(64 * MIB)).unwrap();
    let result = session::run(&job, device, Extras::default()).unwrap();
    let disk = &result.disk_util[0];
    let total = &result.onewrite.total;
    assert_eq!((disk.read_ios, disk.write_ios), (total.read.total_ios, total.write.total_ios));
    assert!(disk.util > 0.0 && disk.util <= 100.0 && disk.in_queue >= disk.read_ticks + disk.write_ticks, "{disk:?}");
}

/// The JSON that fio prints for a job on this machine.
fn json_of_fio(text: &str) -> Option<serde_json::Value> {
    let directory = std::env::temp_dir().join(format!("onewrite-fio-shape-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("job.fio"), text).unwrap();
    let output = Command::new("fio").args(["--output-format=json", "job.fio"]).current_dir(&directory).output();
    std::fs::remove_dir_all(directory).unwrap();
    serde_json::from_slice(&output.ok()?.stdout).ok()
}

/// Collects every key of `ours` that `theirs` lacks, and every key whose values have different types.
fn foreign(ours: &serde_json::Value, theirs: &serde_json::Value, at: &str, found: &mut Vec<String>) {
    let Some(object) = ours.as_object() else {
        let is_same = ours.is_number() == theirs.is_number() && ours.is_string() == theirs.is_string();
        return if !is_same {
            found.push(format!("{at}: {ours}, not {theirs}"))
        };
    };
    for (key, value) in object {
        match theirs.get(key) {
            Some(other) => foreign(value, other, &format!("{at}/{key}"), found),
            None => found.push(format!("{at}/{key}")),
        }
    }
}

#[test]
fn json_has_the_keys_of_a_real_fio() {
    let text = "[global]\nsize=1m\n[a]\nrw=randrw\nbs=8k\nfsync=4\nioengine=psync\ntime_based\nruntime=2\n";
    let ours = run(&spec(fio(text), Stack::Ext4(Mode::Ordered)), Extras::default()).unwrap().to_json();
    let ours: serde_json::Value = serde_json::from_str(&ours).unwrap();
    let Some(theirs) = json_of_fio(text) else {
        skipped!("fio is not installed, so it cannot judge the shape of the results");
        return;
    };
    let (mine, other) = (&ours["jobs"][0], &theirs["jobs"][0]);
    assert_eq!(mine["job options"], other["job options"]);
    let mut found = Vec::new();
    foreign(mine, other, "jobs", &mut found);
    assert_eq!(found, Vec::<String>::new());
    for key in ["iops_mean", "iops_min", "iops_max", "iops_stddev", "bw_mean", "bw_dev", "bw_min", "bw_max"] {
        assert!(mine["write"][key].is_number() && other["write"][key].is_number(), "{key}");
    }
    assert!(mine["write"]["iops_samples"].as_u64() >= Some(3), "{mine}");
    let (mean, overall) = (mine["write"]["iops_mean"].as_f64().unwrap(), mine["write"]["iops"].as_f64().unwrap());
    assert!((mean / overall - 1.0).abs() < 0.05, "{mean} in half seconds, {overall} in all");
    match theirs["disk_util"].as_array().map(Vec::as_slice) {
        Some([disk, ..]) => {
            foreign(&ours["disk_util"][0], disk, "disk_util", &mut found);
            assert_eq!(found, Vec::<String>::new());
        }
        _ => skipped!("fio knows no disk under the temporary directory, so it cannot judge disk_util"),
    }
}

#[test]
fn what_is_read_before_a_job_is_in_memory_when_it_begins() {
    let read_bytes = |settings: &str| {
        let text = format!("[a]\nrw=randread\nsize=4m\n{settings}\n");
        let result = run(&spec(fio(&text), Stack::Ext4(Mode::Ordered)), Extras::default()).unwrap();
        assert_eq!(result.jobs[0].read.total_ios, 1024, "what is read before is not counted");
        result.onewrite.device.host_read_bytes
    };
    let (cold, warm) = (read_bytes(""), read_bytes("pre_read=1"));
    assert!(cold >= warm + (4 << 20), "{cold} bytes without, {warm} with");
}

#[test]
fn a_watcher_is_told_every_phase_and_how_much_is_laid_out() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&seen);
    let watcher: Watcher = Rc::new(move |progress| {
        sink.borrow_mut().push(progress.phase);
        Ok(())
    });
    let job = fio("[r]\nrw=read\nsize=16m\nnrfiles=2\n");
    run(&spec(job, Stack::Ext4(Mode::Ordered)), Extras { watcher: Some(watcher), ..Extras::default() }).unwrap();
    let phases = seen.take();
    assert_eq!((phases.first(), phases.last()), (Some(&Phase::Formatting), Some(&Phase::Unmounting)));
    let laid: Vec<LaidOut> =
        phases.iter().filter_map(|phase| if let Phase::LayingOut(laid) = phase { Some(*laid) } else { None }).collect();
    let whole = LaidOut { files: 2, files_total: 2, bytes: 16 << 20, bytes_total: 16 << 20 };
    assert_eq!((laid[0], laid.last()), (LaidOut { files: 0, bytes: 0, ..whole }, Some(&whole)));
    assert!(laid.len() >= 4 && laid.is_sorted_by_key(|laid| laid.bytes), "{laid:?}");
    assert!(phases.contains(&Phase::Jobs));
}

/// An open-channel SSD of 256 MiB as `stack` uses it.
fn open_channel(profile: &str, stack: Stack) -> DeviceChoice {
    DeviceChoice::named(profile).unwrap().under(stack)
}

#[test]
fn power_cuts_take_nothing_that_was_synced_on_zones() {
    for (profile, stage_bytes) in [("ocssd-huawei", 0), ("ocssd-huawei", MIB), ("zns", 0)] {
        let stack = Stack::F2fs(F2fsStack { stage_bytes, ..F2fsStack::default() });
        let choice = open_channel(profile, stack);
        let verdict =
            session::try_cuts(&spec(varmail(3000), stack), || choice.open(Some(256 * MIB)), 24, |_| Ok(())).unwrap();
        assert_eq!((verdict.cuts, verdict.losses), (24, 0), "{profile}: {:?}", verdict.first_loss);
    }
}

#[test]
fn ext4_has_a_translation_layer_of_the_host_below_it_on_an_open_channel_device() {
    let ordered = Stack::Ext4(Mode::Ordered);
    let choice = open_channel("ocssd-huawei", ordered);
    assert_eq!(choice.setup().ftl.as_deref(), Some("dftl"));
    let result = session::run(&spec(varmail(500), ordered), choice.open(Some(256 * MIB)).unwrap(), Extras::default());
    assert!(result.unwrap().onewrite.total.job_runtime > 0);
    let bare = open_channel("ocssd-huawei", f2fs(FsyncMode::Posix)).open(Some(256 * MIB)).unwrap();
    let error = session::run(&spec(varmail(500), ordered), bare, Extras::default()).unwrap_err().to_string();
    assert!(error.contains("zones") && error.contains("--ftl dftl"), "{error}");
}
