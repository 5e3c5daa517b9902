//! Effects of single keys on the accesses of a job. Each test fails if the key is ignored.

use std::path::PathBuf;
use std::process::Command;

use onewrite_block::Nanos;
use onewrite_lab::LabError;
use onewrite_lab::driver::{JobMeasure, RunOptions, Span};
use onewrite_testing::skipped;

use crate::memory::{Access, MemoryFs};
use crate::support::{planned, run_job, run_on};

fn measured(text: &str) -> Vec<JobMeasure> {
    run_job(text).0.unwrap()
}

/// Beginning and end of a job's writes.
fn span(job: &JobMeasure) -> Span {
    job.write.span.unwrap()
}

fn writes(fs: &MemoryFs) -> Vec<Access> {
    fs.accesses().into_iter().filter(|access| access.writes).collect()
}

/// Result on a file system that fails every fourth access.
fn failing(settings: &str) -> Result<u64, LabError> {
    let text = format!("[a]\nrw=write\nsize=64k\n{settings}\n");
    let (result, _) = run_on(planned(&text), RunOptions::default(), |fs| fs.fails_every.set(4));
    result.map(|jobs| jobs[0].write.count())
}

#[test]
fn startdelay_moves_the_beginning_and_counts_for_no_time_of_the_job() {
    let jobs = measured("[global]\nrw=write\nsize=64k\n[a]\n[b]\nstartdelay=3ms\nruntime=1ms\n");
    assert_eq!(span(&jobs[1]).begin - span(&jobs[0]).begin, Nanos::from_millis(3));
    assert_eq!(jobs[1].write.count(), 16, "its runtime begins with it");
    let between = measured("[global]\nrw=write\nsize=64k\n[a]\n[b]\nstartdelay=1ms-9ms\n");
    let delay = span(&between[1]).begin - span(&between[0]).begin;
    assert!(delay >= Nanos::from_millis(1) && delay <= Nanos::from_millis(9), "{delay}");
}

#[test]
fn wait_for_begins_when_the_other_has_ended() {
    let jobs = measured("[global]\nrw=write\nsize=64k\n[a]\n[b]\nwait_for=a\n");
    assert!(span(&jobs[1]).begin >= span(&jobs[0]).end);
}

#[test]
fn flow_shares_the_accesses_by_weight() {
    let text = "[global]\nrw=randread\nsize=1m\ntime_based\nruntime=60ms\nflow_id=7\n\
                [a]\nflow=3\n[b]\nflow=2\n[c]\nflow=1\n";
    let counts: Vec<f64> = measured(text).iter().map(|job| job.read.count() as f64).collect();
    let of = |job: usize| counts[job] / counts[2];
    assert!((of(0) - 3.0).abs() < 0.1 && (of(1) - 2.0).abs() < 0.1, "{counts:?}");
}

#[test]
fn exitall_ends_those_that_exit_what_names() {
    // `a` ends first; `b` is in its group, `c` runs beside it in another group, `d` comes after them.
    let counts = |what: &str| {
        let text =
            format!("[global]\nrw=write\nsize=256k\n[a]\nsize=16k\n{what}\n[b]\n[c]\nnew_group\n[d]\nstonewall\n");
        measured(&text).iter().map(|job| job.write.count() == 64).collect::<Vec<_>>()
    };
    assert_eq!(counts(""), [false, true, true, true]);
    assert_eq!(counts("exitall"), [false, false, true, true], "its group");
    assert_eq!(counts("exitall\nexit_what=stonewall"), [false, false, false, true]);
    assert_eq!(counts("exitall\nexit_what=all"), [false, false, false, false]);
}

#[test]
fn rate_spreads_the_accesses_over_time() {
    let (jobs, fs) = run_job("[a]\nrw=write\nsize=400k\nrate=4096k\n");
    assert_eq!(jobs.unwrap()[0].write.count(), 100);
    let times: Vec<Nanos> = writes(&fs).iter().map(|access| access.at - writes(&fs)[0].at).collect();
    assert!(times.iter().zip(0..).all(|(time, access)| *time == Nanos(access * 1_000_000_000 / 1024)), "{times:?}");
    let by_count = measured("[a]\nrw=write\nsize=400k\nrate_iops=1000\n")[0].write.duration();
    assert_eq!(by_count, Nanos::from_micros(99_010));
}

#[test]
fn poisson_arrivals_have_the_rate_as_their_mean_and_vary() {
    let gaps = |process: &str| {
        let text = format!("[a]\nrw=write\nsize=8m\nrate_iops=1000\nrate_process={process}\n");
        let times: Vec<f64> = writes(&run_job(&text).1).iter().map(|access| access.at.as_secs_f64()).collect();
        times.windows(2).map(|two| two[1] - two[0]).collect::<Vec<f64>>()
    };
    let mean = |gaps: &[f64]| gaps.iter().sum::<f64>() / gaps.len() as f64;
    let spread = |gaps: &[f64]| {
        let mean = mean(gaps);
        (gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64).sqrt() / mean
    };
    let (even, random) = (gaps("linear"), gaps("poisson"));
    assert!((mean(&random) - 0.001).abs() < 0.0001, "{}", mean(&random));
    // The deviation of an exponential distribution equals its mean.
    assert!(spread(&even) < 0.01 && (spread(&random) - 1.0).abs() < 0.1, "{} {}", spread(&even), spread(&random));
}

#[test]
fn a_job_below_its_least_rate_fails_the_run() {
    // 256 accesses of 4 KiB a second.
    let outcome = |least: &str| {
        let text = format!("[a]\nrw=write\nsize=1m\ntime_based\nruntime=5\nrate=1m\n{least}\n");
        run_job(&text).0.map(|jobs| jobs[0].write.count())
    };
    for kept in ["", "rate_min=1000k", "rate_iops_min=250", "rate_min=2m,0"] {
        assert!((1279..=1281).contains(&outcome(kept).unwrap()), "{kept}");
    }
    for missed in ["rate_min=1100k", "rate_iops_min=260", "rate_min=0,1100k", "rate_min=1100k\nrate_cycle=500"] {
        let key = missed.split('=').next().unwrap();
        let failed = outcome(missed).unwrap_err();
        let is_told = matches!(&failed, LabError::Missed(told) if told.starts_with(&format!("a: {key}=")));
        assert!(is_told, "{missed}: {failed}");
    }
}

#[test]
fn fill_device_writes_until_no_room_is_left() {
    let outcome = |settings: &str| {
        let text = format!("[a]\nrw=write\nfallocate=none\n{settings}\n");
        run_on(planned(&text), RunOptions::default(), |fs| fs.room.set(1 << 20)).0.map(|jobs| jobs[0].write.bytes)
    };
    assert_eq!(outcome("fill_device=1").unwrap(), 1 << 20);
    assert_eq!(outcome("size=512k").unwrap(), 512 << 10);
    assert!(outcome("size=2m").is_err());
}

#[test]
fn an_error_ends_the_run_unless_it_is_to_be_borne() {
    assert!(failing("").is_err() && failing("continue_on_error=read").is_err());
    assert!(failing("continue_on_error=verify").is_err() && failing("ignore_error=ENOSPC,ENOSPC").is_err());
    for borne in ["continue_on_error=write", "continue_on_error=io", "continue_on_error=all", "ignore_error=,EIO"] {
        assert_eq!(failing(borne).unwrap(), 12, "{borne}: four of sixteen fail");
    }
    assert!(failing("ignore_error=EIO").is_err(), "that is for reads");
}

#[test]
fn wrong_content_is_borne_if_continue_on_error_says_so() {
    let outcome = |settings: &str| {
        let text = format!("[a]\nrw=write\nsize=64k\nverify=crc32c\n{settings}\n");
        run_on(planned(&text), RunOptions::default(), |fs| fs.spoils_writes.set(true))
            .0
            .map(|jobs| jobs[0].write.count())
    };
    assert_eq!(outcome("continue_on_error=verify").unwrap(), 16);
    assert!(outcome("continue_on_error=io").is_err());
}

#[test]
fn thinktime_pauses_after_so_many_accesses_or_so_long() {
    let duration = |settings: &str| measured(&format!("[a]\nrw=write\nsize=64k\n{settings}\n"))[0].write.duration();
    let micros = |count| Nanos::from_micros(count);
    assert_eq!(duration(""), micros(160));
    assert_eq!(duration("thinktime=1ms"), micros(160 + 15_000));
    assert_eq!(duration("thinktime=1ms\nthinktime_blocks=4"), micros(160 + 3000));
    // A pause every 50 µs.
    assert_eq!(duration("thinktime=1ms\nthinktime_blocks=100\nthinktime_iotime=50us"), micros(160 + 2000));
}

#[test]
fn time_thought_is_made_up_for_unless_told_otherwise() {
    let text = "[a]\nrw=write\nsize=400k\nrate_iops=1000\nthinktime=50ms\nthinktime_blocks=50\n";
    let duration = |settings: &str| measured(&format!("{text}{settings}"))[0].write.duration();
    // After the pause the second fifty follow one another.
    assert_eq!(duration(""), Nanos::from_micros(99_010 + 500));
    let later = duration("rate_ignore_thinktime=1\n");
    assert!(later >= Nanos::from_millis(148) && later <= Nanos::from_millis(151), "{later}");
}

#[test]
fn passes_and_accesses_are_counted() {
    let count = |settings: &str| measured(&format!("[a]\nrw=write\nsize=64k\n{settings}\n"))[0].write.count();
    assert_eq!((count("loops=3"), count("number_ios=10"), count("number_ios=10\nloops=2")), (48, 10, 20));
}

#[test]
fn each_clone_begins_an_increment_further() {
    let text = "[a]\nrw=write\nsize=64k\nnumjobs=3\nfilename=f\nfallocate=none\noffset=8k\noffset_increment=1m\n";
    let (jobs, fs) = run_job(text);
    assert_eq!(jobs.unwrap().iter().map(|job| job.write.bytes).collect::<Vec<_>>(), [65536; 3]);
    let least = |from: u64| writes(&fs).iter().map(|access| access.offset).filter(|offset| *offset >= from).min();
    assert_eq!([0, 1 << 20, 2 << 20].map(least), [8192, 8192 + (1 << 20), 8192 + (2 << 20)].map(Some));
    assert_eq!(fs.files()[0].1, 8192 + (2 << 20) + 65536);
}

/// Jobs that use the same places in fio, in the same order.
const PLACED: &[&str] = &[
    "size=64k\nzonemode=strided\nzonesize=8k\nzoneskip=8k",
    "size=256k\nzonemode=strided\nzonesize=8k\nzonerange=16k\nzoneskip=8k",
    "size=256k\nzonemode=strided\nzonesize=16k\nzonerange=8k\nzoneskip=24k",
    "size=256k\nzonemode=strided\nzonesize=12k\nzoneskip=4k\nio_size=512k",
    "size=256k\nzonemode=strided\nzonesize=12k\nzoneskip=4k\nloops=2",
    "size=256k\nzonemode=strided\nzonesize=12k\nzoneskip=4k\nverify=md5\nloops=2",
    "size=32k\nfilesize=64k\nloops=3",
    "size=64k\nio_size=48k\nloops=2",
    "size=64k\nio_size=96k\nloops=2",
    "size=64k\nnumber_ios=5\nloops=2",
    "rw=write:4k\nsize=64k\nloops=2",
    "size=100k\nbs=8k\nloops=2",
    "size=96k\nnrfiles=2\nloops=2",
    "size=64k\noffset=16k",
    "size=64k\nloops=2",
    "size=64k\nnumber_ios=5",
    "size=64k\nnrfiles=2\nfile_service_type=sequential",
];

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("onewrite-fio-{name}-{}", std::process::id()))
}

/// Offset and length of each write that fio makes.
fn places_of_fio(text: &str) -> Option<Vec<(u64, u64)>> {
    let directory = temporary("places");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("job.fio"), text.to_owned() + "write_iolog=log\n").unwrap();
    let ran = Command::new("fio").arg("job.fio").current_dir(&directory).output();
    let log = ran.ok().and_then(|_| std::fs::read_to_string(directory.join("log")).ok());
    std::fs::remove_dir_all(directory).unwrap();
    let write = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, _, "write", offset, length] => Some((offset.parse().ok()?, length.parse().ok()?)),
        _ => None,
    };
    Some(log?.lines().filter_map(write).collect())
}

#[test]
fn fio_writes_the_same_places() {
    let mut wrong = Vec::new();
    for settings in PLACED {
        let text = format!("[a]\nioengine=psync\nrw=write\n{settings}\n");
        let Some(expected) = places_of_fio(&text) else {
            skipped!("fio is not installed, so it cannot judge the places");
            return;
        };
        let ours: Vec<(u64, u64)> =
            writes(&run_job(&text).1).iter().map(|access| (access.offset, access.length)).collect();
        if ours != expected {
            wrong.push(format!("{settings:?}:\n ours {ours:?}\n fio  {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn strided_zones_are_left_for_the_next() {
    let text = "[a]\nrw=write\nsize=64k\nzonemode=strided\nzonesize=8k\nzoneskip=8k\nnumber_ios=4\n";
    let offsets: Vec<u64> = writes(&run_job(text).1).iter().map(|access| access.offset).collect();
    assert_eq!(offsets, [0, 4096, 16384, 20480]);
}

/// Accesses of a replay with `settings`: microseconds from the first access, whether it writes, its offset.
fn replayed(settings: &str) -> Vec<(u64, bool, u64)> {
    let path = temporary("iolog");
    let log = "fio version 3 iolog\n0 f add\n0 f open\n0 f write 0 4096\n2000 f write 8192 4096\n2500 f sync 0 0\n\
               10000 f read 0 4096\n10000 f close\n";
    std::fs::write(&path, log).unwrap();
    let (jobs, fs) = run_job(&format!("[a]\nread_iolog={}\n{settings}\n", path.display()));
    std::fs::remove_file(path).unwrap();
    jobs.unwrap();
    // Accesses before the replay fill the file.
    let begin = fs.accesses().iter().position(|access| access.length == 4096).unwrap();
    let accesses = &fs.accesses()[begin..];
    let since = |access: &Access| (access.at - accesses[0].at).0 / 1000;
    accesses.iter().map(|access| (since(access), access.writes, access.offset)).collect()
}

#[test]
fn a_recorded_run_keeps_its_times() {
    assert_eq!(replayed(""), [(0, true, 0), (2000, true, 8192), (10_000, false, 0)]);
    assert_eq!(replayed("replay_time_scale=200"), [(0, true, 0), (1000, true, 8192), (5000, false, 0)]);
}

#[test]
fn a_recorded_run_goes_as_fast_as_it_can_without_stalls() {
    // 10 µs each; the sync takes 100 µs.
    assert_eq!(replayed("replay_no_stall=1"), [(0, true, 0), (10, true, 8192), (120, false, 0)]);
    let without_syncs = replayed("replay_no_stall=1\nreplay_skip=sync");
    assert_eq!(without_syncs, [(0, true, 0), (10, true, 8192), (20, false, 0)]);
}

#[test]
fn a_recorded_run_may_begin_later_and_be_ended_by_others() {
    let path = temporary("iolog-long");
    let writes: String = (0..50).map(|event| format!("{} f write {} 4096\n", event * 1000, event * 4096)).collect();
    std::fs::write(&path, format!("fio version 3 iolog\n0 f add\n0 f open\n{writes}")).unwrap();
    let replay = format!("read_iolog={}\n", path.display());
    let jobs = measured(&format!("[a]\nrw=write\nsize=64k\n[b]\nstartdelay=5ms\n{replay}"));
    let begun = measured(&format!("[a]\nrw=write\nsize=64k\nthinktime=1ms\nexitall\n[b]\n{replay}"));
    std::fs::remove_file(path).unwrap();
    assert_eq!(span(&jobs[1]).begin - span(&jobs[0]).begin, Nanos::from_millis(5));
    assert_eq!(jobs[1].write.count(), 50);
    assert!((15..=18).contains(&begun[1].write.count()), "{}", begun[1].write.count());
}
