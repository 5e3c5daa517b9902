//! fio 3.33 judges the job parser: fio accepts what this parser accepts, and this parser refuses what fio refuses.

use std::process::{Command, Stdio};

use onewrite_lab::job::JobFile;
use onewrite_testing::skipped;

/// Settings that both accept.
const TAKEN: &[&str] = &[
    "rw=randrw\nrwmixread=70",
    "rw=randwrite:8",
    "rw=write:8k",
    "bs=4k,8k",
    "bs=,8k",
    "bs=8k,32k,",
    "bs=0x1000",
    "bs=4KiB",
    "bsrange=4k-1k",
    "bsrange=1k:4k,8k-64k",
    "bssplit=4k/60:8k/40",
    "bssplit=4k/60:8k",
    "direct=1 ; past the cache",
    "thread",
    "time_based=0",
    "runtime=2m\ntime_based",
    "fallocate=1",
    "sync=dsync",
    "verify=crc32c\nrw=write",
    "random_distribution=zipf:1.2",
    "random_distribution=pareto:0.2:0.5",
    "filesize=1m-2m",
    "numjobs=3\ngroup_reporting",
    "ioengine=libaio\niodepth=16",
    "thinktime=5ms",
    "randseed=0x10\nnorandommap",
    "stonewall # after the others",
    "io_size=4m\nend_fsync=1\nfsync=8",
    "buffer_compress_percentage=50",
    "overwrite=1\ninvalidate=0\ncreate_on_open=1",
    "latency_target=500000\nlatency_window=5s\nlatency_percentile=99.9\nlatency_run=1",
    "max_latency=1ms,2ms,3ms\npre_read=1",
    "ss=iops:10%\nss_dur=30s\nss_ramp=10s",
    "steadystate=bw_slope:64k\nsteadystate_duration=5\nsteadystate_ramp_time=0",
    "ss=iops:1.5\nss_dur=2",
];

/// Settings that both refuse.
const REFUSED: &[&str] = &[
    "nope=1",
    "RW=read",
    "rw",
    "rw=foo",
    "bs=0",
    "direct",
    "direct=2",
    "sync=2",
    "verify=crc32q",
    "random_distribution=zipf:1.0",
    "random_distribution=pareto:1.5",
    "bsrange=4k",
    "iodepth=0",
    "rwmixread=101",
    "buffer_compress_percentage=101",
    "size=(4*1024",
    "latency_percentile=101",
    "latency_percentile=abc",
    "latency_run=2",
    "latency_run",
    "pre_read",
    "ss=iops",
    "ss=lat:10%",
    "ss=iops:x",
];

fn fio_is_there() -> bool {
    let found =
        Command::new("fio").arg("--version").output().is_ok_and(|output| output.stdout.starts_with(b"fio-3.33"));
    if !found {
        skipped!("fio 3.33 is not installed, so it cannot judge the parser");
    }
    found
}

fn section(index: usize, settings: &str) -> String {
    format!("[job{index}]\nsize=1m\nfilename=/nowhere/x\n{settings}\n")
}

fn fio_takes(name: &str, text: &str) -> bool {
    let path = std::env::temp_dir().join(format!("onewrite-{name}-{}.fio", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let mut fio = Command::new("fio");
    let status = fio.arg("--parse-only").arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    std::fs::remove_file(path).unwrap();
    status.success()
}

fn we_take(text: &str) -> bool {
    JobFile::parse("job.fio", text).is_ok()
}

#[test]
fn settings_are_taken_as_fio_takes_them() {
    let sections = TAKEN.iter().enumerate().map(|(index, settings)| section(index, settings));
    let text: String = sections.inspect(|section| assert!(we_take(section), "{section}")).collect();
    assert!(we_take(&text));
    assert!(!fio_is_there() || fio_takes("taken", &text));
}

#[test]
fn settings_are_refused_as_fio_refuses_them() {
    let judge = fio_is_there();
    for settings in REFUSED {
        let text = section(0, settings);
        assert!(!we_take(&text), "{settings}");
        assert!(!judge || !fio_takes("refused", &text), "fio takes {settings}");
    }
}
