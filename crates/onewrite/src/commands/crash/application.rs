//! `onewrite crash --run … --check …`: a foreign program on a recorded mount, judged by its own check.
//!
//! ```text
//!   --run on a mount ─► recording, tokens that it acknowledged ─► states ─► trees ─► --check on each ─► failure, kept
//! ```

mod kernel;
mod program;
mod room;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use onewrite_block::{Device, Executor, HostProfile, Lpn};
use onewrite_crash::{
    Application, ApplicationFailure, ApplicationReport, CrashError, ExploreOptions, Ext4Subject, Purpose, Recorder,
    RecoveredTree, Subject, explore_application,
};
use onewrite_fs::ext4::Ext4;
use onewrite_host::Letter;
use onewrite_host::fuse::{Access, KernelMount, MountPoint, MountRequest, Names, Server, serve};
use onewrite_lab::experiment::wall_time;

use self::program::{Ran, acknowledged, run_program};
pub use self::room::Room;
use crate::args::Crash;
use crate::output::write_json;
use crate::progress::Bar;
use crate::stop;

/// What to run and how to judge it.
pub struct Wanted<'a> {
    pub run: &'a str,
    pub check: &'a str,
    pub args: &'a Crash,
}

/// Runs the program, explores, and tells what was found.
pub fn application(subject: &Ext4Subject, options: &ExploreOptions, wanted: &Wanted<'_>) -> anyhow::Result<ExitCode> {
    let room = Room::new()?;
    let kept = kept_at(wanted.args)?;
    let application = match &wanted.args.kernel {
        Some(mount_options) => kernel::record(subject, options, wanted.run, mount_options, &room)?,
        None => record(subject, options, (wanted.run, &room))?,
    };
    note!(
        "the program made {} requests to the disk and acknowledged {} tokens",
        application.requests(),
        application.tokens().len()
    );
    if application.tokens().is_empty() {
        note!("without an acknowledgement nothing has to be there: --check judges only whether what is there is sound");
    }
    // The first signal lets the check under way end, so that its directory is removed.
    let _changing = stop::Changing::begin()?;
    let bar = Bar::new("crash", "states");
    let mut check = |tree: &RecoveredTree, acked: &[String]| {
        let outside = |reason: String| CrashError::Tool { tool: "--check", reason };
        stop::check().map_err(|error| outside(error.to_string()))?;
        judge(subject, wanted.check, &room, (tree, acked)).map_err(|error| outside(format!("{error:#}")))
    };
    let watch = |states: u64, checks: u64| {
        bar.stage((&format!("crash: {checks} checks"), "states"), states, options.states_max)
    };
    let report = explore_application(*subject, &application, options, &mut check, &watch)?;
    let seconds = bar.end();
    tell(&report, seconds);
    if let Some(path) = &wanted.args.json {
        write_json(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    let Some(failure) = &report.failure else { return Ok(ExitCode::SUCCESS) };
    keep_failure(subject.directories(), failure, &kept).with_context(|| kept.display().to_string())?;
    tell_failure(failure, &kept);
    let (kept, check) = (kept.display(), quoted(wanted.check));
    errln!("check again: cd {kept}/tree && ONEWRITE_ACKED={kept}/acked sh -c {check}");
    errln!("violations: Application 1");
    Ok(ExitCode::FAILURE)
}

/// The directory for what a failure leaves.
pub fn kept_at(args: &Crash) -> anyhow::Result<PathBuf> {
    match &args.keep {
        Some(keep) if keep.exists() => bail!("--keep {}: it exists; name a new directory", keep.display()),
        // A printed command goes into a directory first.
        Some(keep) => Ok(std::path::absolute(keep)?),
        None => Ok(std::env::temp_dir().join(format!("onewrite-crash-{}", std::process::id()))),
    }
}

/// Runs the program on a mount of a new image; returns the recording.
fn record(subject: &Ext4Subject, options: &ExploreOptions, (line, room): (&str, &Room)) -> anyhow::Result<Application> {
    let (recorder, device) = Recorder::new(subject, options)?;
    let directory = room.at("mnt");
    fs::create_dir(&directory)?;
    let point = MountPoint::new(&directory)?;
    let ran = run_on(subject, options, (line, point, room.at("spoken")), (device, &recorder))?;
    Ok(recorder.finish(acknowledged(ran)?))
}

fn run_on(
    subject: &Ext4Subject,
    options: &ExploreOptions,
    (line, point, spoken): (&str, MountPoint, PathBuf),
    (device, recorder): (Box<dyn Device>, &Recorder),
) -> Ran {
    let _changing = stop::Changing::begin()?;
    let executor = Executor::new(wall_time(), HostProfile::default());
    let runtime = executor.runtime();
    let port = runtime.attach(device);
    let (owned, mount_port, mounting) = (*subject, port.clone(), options.mounting(Purpose::Run));
    let fs = executor.block_on(async move { owned.mount(mount_port, mounting).await })??;
    let (core, inbox) = runtime.inbox::<Letter<Server<Ext4>>>();
    let names = Names { source: "recorded disk".to_owned(), mode: subject.mode.name().to_owned() };
    let server = Server::new(fs, &runtime, names, move || port.device().counters()).with_marker(recorder.marker());
    let request = MountRequest {
        point: point.clone(),
        source: "onewrite-crash".into(),
        access: Access::Owner,
        read_only: false,
        flags: Vec::new(),
    };
    let kernel = KernelMount::new(&request, core.clone())?;
    let unmount = kernel.unmounter();
    let acknowledge = move |number| drop(core.send(Letter::mark(number)));
    let ran: Arc<Mutex<Option<Ran>>> = Arc::default();
    let (line, result) = (line.to_owned(), Arc::clone(&ran));
    #[expect(clippy::disallowed_methods, reason = "the program runs beside the core that serves it")]
    let beside = std::thread::spawn(move || {
        let outcome = run_program(&line, &point.directory, &spoken, acknowledge);
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        unmount();
    });
    let server = Rc::new(server);
    serve(&executor, server, inbox)??;
    drop(beside.join());
    stop::check()?;
    let outcome = ran.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.unwrap_or_else(|| bail!("--run: the mount ended before the program"))
}

/// Lays a tree out and runs the check on it.
fn judge(
    subject: &Ext4Subject,
    line: &str,
    room: &Room,
    (tree, acked): (&RecoveredTree, &[String]),
) -> anyhow::Result<Result<(), String>> {
    let (directory, list) = (room.at("tree"), room.at("acked"));
    fs::create_dir(&directory)?;
    tree.lay_out(&directory, subject.directories())?;
    fs::write(&list, lines(acked))?;
    let mut check = Command::new("sh");
    check.args(["-c", line]).env("ONEWRITE_DIR", &directory).env("ONEWRITE_ACKED", &list).current_dir(&directory);
    let output = check.stdin(Stdio::null()).output().context("sh, for --check")?;
    fs::remove_dir_all(&directory)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim_end().to_owned();
    match output.status.code() {
        Some(0) => Ok(Ok(())),
        // What a shell returns for a command that it cannot run.
        Some(126 | 127) => bail!("it did not judge, but ended with {}: {said}", output.status),
        _ => Ok(Err(format!("{}\n{said}", output.status))),
    }
}

fn lines(tokens: &[String]) -> String {
    tokens.iter().map(|token| format!("{token}\n")).collect()
}

/// Tells how much was judged.
pub fn tell(report: &ApplicationReport, seconds: f64) {
    let ApplicationReport { states, possible, checks, .. } = report;
    note!("{states} distinct states of {possible} drawn, {checks} checks of distinct trees, in {seconds:.1} s");
    if report.failure.is_none() {
        errln!("violations: none");
    }
}

/// Tells what was refused, and where it is kept.
pub fn tell_failure(failure: &ApplicationFailure, kept: &Path) {
    let kept = kept.display();
    errln!("\nBROKEN Application: the check did not accept what a power cut at {} leaves", failure.state);
    failure.complaint.lines().for_each(|line| errln!("  {line}"));
    let last = failure.acknowledged.last().map_or("nothing".to_owned(), |token| format!("up to {token}"));
    errln!("acknowledged: {last}; writes under way that did not survive: {}", failure.lost.len());
    failure.lost.iter().take(20).for_each(|line| errln!("  {line}"));
    errln!("kept: {kept}/image (before recovery), {kept}/tree (recovered), {kept}/acked");
}

fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', "'\\''"))
}

/// Writes what a failure left to a new directory.
pub fn keep_failure(directories: &[&str], failure: &ApplicationFailure, kept: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(kept)?;
    fs::write(kept.join("acked"), lines(&failure.acknowledged))?;
    fs::create_dir(kept.join("tree"))?;
    if let Some(tree) = &failure.tree {
        tree.lay_out(&kept.join("tree"), directories)?;
    }
    let mut image = io::BufWriter::new(fs::File::create_new(kept.join("image"))?);
    (0..failure.image.pages())
        .try_for_each(|lpn| io::Write::write_all(&mut image, &failure.image.page(Lpn(lpn)).bytes()[..]))?;
    io::Write::flush(&mut image)
}
