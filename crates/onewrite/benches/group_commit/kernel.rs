//! Kernel: the jobs on the kernel's ext4, on a loop device with a slow FLUSH.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::jobs::{Figures, Job, MAILS, Mail, Mode, fio_job};
use super::slow_disk::{SlowDisk, output, path_text};

/// An ext4 on a disk, mounted by the kernel until dropped.
struct Mounted<'a> {
    disk: &'a SlowDisk,
    root: PathBuf,
}

/// Makes the file system of all jobs.
pub fn make(disk: &SlowDisk) {
    let extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
    output("mkfs.ext4", &["-q", "-F", "-b", "4096", "-J", "size=128", "-E", extended, disk.device()]);
}

/// Runs one job with `tasks` threads for `span`.
pub fn run(disk: &SlowDisk, mode: Mode, job: Job, tasks: u64, span: Duration) -> Figures {
    make(disk);
    let mount = Mounted::new(disk, mode.options());
    if job != Job::Append {
        fill(&mount.root, tasks);
    }
    let before = (disk.usage(), mount.log().commits);
    let syncs = match job {
        Job::Append => append(&mount.root, disk.scratch(), tasks, span),
        Job::Mail | Job::Chmod => mail(&mount.root, job, tasks, span),
    };
    let log = mount.log();
    drop(mount);
    let after = disk.usage();
    Figures {
        syncs,
        commits: log.commits - before.1,
        bytes: after.bytes - before.0.bytes,
        flushes: after.flushes - before.0.flushes,
        span,
        note: log.averages,
    }
}

/// What the kernel says about a log.
struct LogInfo {
    commits: u64,
    averages: String,
}

impl Mounted<'_> {
    fn new<'a>(disk: &'a SlowDisk, options: &str) -> Mounted<'a> {
        let root = disk.scratch().join("mount");
        std::fs::create_dir_all(&root).expect("mount point");
        output("mount", &["-t", "ext4", "-o", options, disk.device(), path_text(&root)]);
        Mounted { disk, root }
    }

    fn log(&self) -> LogInfo {
        let name = self.disk.device().trim_start_matches("/dev/");
        let info = std::fs::read_to_string(format!("/proc/fs/jbd2/{name}-8/info")).expect("jbd2's info");
        let commits = info.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let averages = info.lines().skip(2).map(str::trim).collect::<Vec<_>>().join("; ");
        LogInfo { commits, averages }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.root).output();
    }
}

fn append(root: &Path, scratch: &Path, tasks: u64, span: Duration) -> u64 {
    let job = scratch.join("append.fio");
    std::fs::write(&job, fio_job(tasks, span)).expect("job file");
    let directory = format!("--directory={}", path_text(root));
    let text = output("fio", &["--output-format=json", &directory, path_text(&job)]);
    let begin = text.find('{').expect("JSON of fio");
    let result: serde_json::Value = serde_json::from_str(&text[begin..]).expect("JSON of fio");
    result["jobs"][0]["sync"]["total_ios"].as_u64().expect("syncs counted by fio")
}

fn fill(root: &Path, tasks: u64) {
    for task in 0..tasks {
        for mail in 0..MAILS {
            std::fs::write(root.join(Mail::name(task, mail)), vec![mail as u8; 16 << 10]).expect("mail");
        }
    }
    rustix::fs::syncfs(File::open(root).expect("root")).expect("sync");
}

#[expect(clippy::disallowed_methods, reason = "the kernel serves many threads, in its own time")]
fn mail(root: &Path, job: Job, tasks: u64, span: Duration) -> u64 {
    let end = Instant::now() + span;
    let task = move |task| match job {
        Job::Chmod => chmod_task(root, task, end),
        _ => mail_task(root, task, end),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks).map(|number| scope.spawn(move || task(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a task")).sum()
    })
}

/// Syncs of one task.
#[expect(clippy::disallowed_methods, reason = "the kernel's clock is the wall's")]
fn chmod_task(root: &Path, task: u64, end: Instant) -> u64 {
    let file = File::options().write(true).open(root.join(Mail::name(task, 0))).expect("mail");
    let mut syncs = 0;
    while Instant::now() < end {
        file.set_permissions(Permissions::from_mode(0o600 + (syncs % 2) as u32)).expect("chmod");
        file.sync_all().expect("fsync");
        syncs += 1;
    }
    syncs
}

/// Syncs of one task.
#[expect(clippy::disallowed_methods, reason = "the kernel's clock is the wall's")]
fn mail_task(root: &Path, task: u64, end: Instant) -> u64 {
    let path = |mail| root.join(Mail::name(task, mail));
    let append = |mail, bytes: u64| {
        let mut file = File::options().create(true).append(true).open(path(mail)).expect("mail");
        file.write_all(&vec![mail as u8; bytes as usize]).expect("write");
        file.sync_all().expect("fsync");
    };
    let mut syncs = 0;
    for round in Mail::rounds(task).take_while(|_| Instant::now() < end) {
        let _ = std::fs::remove_file(path(round.replaced));
        append(round.replaced, round.new_bytes);
        let _ = std::fs::read(path(round.answered));
        append(round.answered, round.more_bytes);
        let _ = std::fs::read(path(round.read));
        syncs += 2;
    }
    syncs
}
