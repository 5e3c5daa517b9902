//! Ours: the same jobs in virtual time, on a device with the FLUSH of the slow disk.

use std::rc::Rc;
use std::time::Duration;

use onewrite_block::{Choices, Counters, Device, DevicePort, Executor, HostProfile, MIB, Nanos, Runtime, Time};
use onewrite_device::Profile;
use onewrite_fs::ext4::{self, Ext4, MountOptions};
use onewrite_fs::{AttributeChanges, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};
use onewrite_lab::job::JobFile;
use onewrite_lab::session::{Extras, FormatOptions, JobSpec, RunSpec, Stack, plan_ext4, run as run_session};

use super::jobs::{Figures, Job, MAILS, Mail, Mode, fio_job};
use super::slow_disk::DISK_BYTES;

impl Mode {
    fn ours(self) -> ext4::Mode {
        self.name().trim_end_matches(", nodelalloc").parse().expect("a mode of ours")
    }

    fn delays(self) -> bool {
        self != Mode::Nodelalloc
    }
}

/// The slow disk as a profile.
fn profile(flush: Duration) -> Profile {
    let text = include_str!("slow-disk.toml").replace("flush_us = 0", &format!("flush_us = {}", flush.as_micros()));
    Profile::parse("slow-disk", &text).expect("a profile")
}

/// Runs one job with `tasks` tasks for `span` of virtual time.
pub fn run(flush: Duration, mode: Mode, job: Job, tasks: u64, span: Duration) -> Figures {
    let device = profile(flush).device(Some(DISK_BYTES as u64)).expect("a device");
    match job {
        Job::Append => append_job(device, mode, tasks, span),
        Job::Mail | Job::Chmod => mail_job(device, mode, job, tasks, span),
    }
}

/// The two cores that the slow disk was measured on. A direct write of 4 KiB to its loop device took 9.5 us, and eight
/// threads wrote 138,000 of them a second: all of it is work of the host.
fn host() -> HostProfile {
    HostProfile { cores: 2, submit_ns: 9_000, ..HostProfile::default() }
}

/// The job file of fio, by our own reader of such files.
fn append_job(device: Box<dyn Device>, mode: Mode, tasks: u64, span: Duration) -> Figures {
    let job = JobSpec::Fio(JobFile::parse("append", &fio_job(tasks, span)).expect("a job file"));
    let stack = Stack::Ext4(mode.ours());
    let spec = RunSpec {
        journal_bytes: Some(128 * MIB),
        host: host(),
        delayed_allocation: mode.delays(),
        ..RunSpec::new(job, stack, "slow-disk")
    };
    let result = run_session(&spec, device, Extras::default()).expect("a run");
    let fs = result.onewrite.fs.expect("a file system");
    Figures {
        syncs: result.jobs[0].sync.total_ios,
        commits: fs.commits,
        bytes: result.onewrite.device.host_write_bytes,
        flushes: result.onewrite.device.flushes,
        span,
        note: String::new(),
    }
}

/// The other jobs, which are no jobs of fio.
fn mail_job(device: Box<dyn Device>, mode: Mode, job: Job, tasks: u64, span: Duration) -> Figures {
    let executor = Executor::new(Time::Virtual, host());
    let port = executor.runtime().attach(device);
    let outcome = executor.block_on(async move {
        let fs = Rc::new(made(&port, mode, tasks).await?);
        port.device_mut().reset_counters();
        let commits = fs.counters().commits;
        let syncs = all_tasks(&fs, port.runtime(), job, tasks, span).await?;
        let commits = fs.counters().commits - commits;
        fs.unmount().await?;
        let Counters { flushes, .. } = port.device().counters();
        let bytes = port.device().counters().host_write_bytes();
        FsResult::Ok(Figures { syncs, commits, bytes, flushes, span, note: String::new() })
    });
    outcome.expect("nothing halts").expect("no error")
}

/// A mounted file system with the mails of all tasks.
async fn made(port: &DevicePort, mode: Mode, tasks: u64) -> FsResult<Ext4> {
    let options = FormatOptions { journal_bytes: Some(128 * MIB), is_zeroed: true, ..FormatOptions::default() };
    let plan = plan_ext4(port, &options, &mut Choices::new(1)).expect("a plan");
    plan.write(port).await.expect("a file system");
    let options = MountOptions { delayed_allocation: mode.delays(), ..MountOptions::new(mode.ours()) };
    let fs = Ext4::mount(port.clone(), options).await?;
    for task in 0..tasks {
        for mail in 0..MAILS {
            append(&fs, &Mail::name(task, mail), 16 << 10).await?;
        }
    }
    fs.sync().await?;
    Ok(fs)
}

/// Syncs of all tasks.
async fn all_tasks(fs: &Rc<Ext4>, runtime: &Runtime, job: Job, tasks: u64, span: Duration) -> FsResult<u64> {
    let end = runtime.now() + Nanos(span.as_nanos() as u64);
    let mut started = Vec::new();
    for task in 0..tasks {
        let (fs, clock) = (Rc::clone(fs), runtime.clone());
        started.push(runtime.start(async move {
            match job {
                Job::Chmod => chmod_task(&fs, &clock, task, end).await,
                _ => mail_task(&fs, &clock, task, end).await,
            }
        }));
    }
    let mut syncs = 0;
    for task in started {
        syncs += task.await?;
    }
    Ok(syncs)
}

/// Syncs of one task.
async fn chmod_task(fs: &Ext4, runtime: &Runtime, task: u64, end: Nanos) -> FsResult<u64> {
    let ino = fs.lookup(fs.root(), Mail::name(task, 0).as_bytes()).await?;
    let mut syncs = 0;
    while runtime.now() < end {
        let permissions = Some(0o600 + (syncs % 2) as u16);
        fs.set_attributes(ino, AttributeChanges { permissions, ..Default::default() }).await?;
        fs.fsync(ino).await?;
        syncs += 1;
    }
    Ok(syncs)
}

/// Syncs of one task.
async fn mail_task(fs: &Ext4, runtime: &Runtime, task: u64, end: Nanos) -> FsResult<u64> {
    let mut syncs = 0;
    for round in Mail::rounds(task).take_while(|_| runtime.now() < end) {
        let _ = fs.unlink(fs.root(), Mail::name(task, round.replaced).as_bytes()).await;
        fs.fsync(append(fs, &Mail::name(task, round.replaced), round.new_bytes).await?).await?;
        read(fs, &Mail::name(task, round.answered)).await?;
        fs.fsync(append(fs, &Mail::name(task, round.answered), round.more_bytes).await?).await?;
        read(fs, &Mail::name(task, round.read)).await?;
        syncs += 2;
    }
    Ok(syncs)
}

async fn read(fs: &Ext4, name: &str) -> FsResult<()> {
    if let Ok(ino) = fs.lookup(fs.root(), name.as_bytes()).await {
        let size = fs.attributes(ino).await?.size;
        fs.read(ino, 0, size, Manner::default()).await?;
    }
    Ok(())
}

async fn append(fs: &Ext4, name: &str, bytes: u64) -> FsResult<Ino> {
    let ino = match fs.lookup(fs.root(), name.as_bytes()).await {
        Ok(ino) => ino,
        Err(_) => fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?,
    };
    let bytes = vec![1; bytes as usize];
    fs.write(ino, Position::End, Content::Bytes(&bytes), Manner::default()).await?;
    Ok(ino)
}
