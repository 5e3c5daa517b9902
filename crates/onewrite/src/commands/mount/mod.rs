//! `onewrite mount`
//!
//! ```text
//!   device opened, and locked ─► log replayed ─► mounted in the host's tree ─► success reported ─► serving
//!   umount, SIGTERM, SIGINT, SIGHUP ─► requests answered ─► file system unmounted ─► end
//! ```

mod daemon;
mod helper;
mod options;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail};
use onewrite_block::{Choices, Device, Executor, HostProfile, Inbox, PAGE_SIZE};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{AnyFs, AtomicFiles, Devices, F2fsChoices, FileSystem};
use onewrite_host::fuse::{
    Ended, Ending, KernelMount, MountFlag, MountPoint, MountRequest, Names, Server, end_mount, is_mounted, serve,
};
use onewrite_host::{Letter, Stop};
use onewrite_lab::LabError;
use onewrite_lab::experiment::wall_time;
use onewrite_lab::session::{DeviceChoice, FormatOptions, Stack, format, lazy_journal_bytes, open_disk, view_disk};
use rustix::process::{getegid, geteuid};

use crate::args::{Mount, Umount};
use crate::open::{Changes, recovered};
use crate::stop;
pub use helper::{Called, called_as};
use options::Wanted;

/// Longest wait for an image whose last mount is ending.
const ENDING_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Mounts, and serves until the mount ends: in another process, unless `--foreground` is given.
pub fn mount(args: &Mount) -> anyhow::Result<ExitCode> {
    let wanted = Wanted::parse(&args.options)?;
    if !args.foreground && !daemon::is_daemon() {
        return daemon::start();
    }
    if wanted.may_be_missing && is_missing_image(&args.source) {
        errln!("onewrite: {}: no such image, so nothing is mounted (-o nofail)", args.source);
        return Ok(ExitCode::SUCCESS);
    }
    let choice = choice(&args.source)?;
    let point = MountPoint::new(&args.directory)?;
    let log = match args.foreground {
        true => None,
        false => {
            daemon::leave_terminal();
            Some(daemon::open_log(args.log.as_deref(), &point.directory)?)
        }
    };
    daemon::log_to(log.as_ref(), wanted.logs_refusals)?;
    point.remarks.iter().for_each(|remark| tracing::warn!("{remark}"));
    if log.is_some() {
        point.remarks.iter().for_each(|remark| errln!("onewrite: {remark}"));
    }
    serve_until_the_end(&choice, point, &wanted, log.as_ref())
}

/// Ends a mount and waits for its end.
pub fn umount(args: &Umount) -> anyhow::Result<()> {
    let ending = if args.lazy { Ending::Lazy } else { Ending::Clean };
    if end_mount(&args.directory, ending)? == Ended::Dead {
        let directory = args.directory.display();
        note!("{directory}: its process had died (the mount's log says more); what was synced is in the image");
    }
    Ok(())
}

fn choice(source: &str) -> anyhow::Result<DeviceChoice> {
    if is_missing_image(source) {
        bail!("{source}: no such image; `onewrite mkfs` makes one");
    }
    DeviceChoice::named(source)
        .with_context(|| format!("{source}: no such image (`onewrite mkfs {source}` makes one), and no profile"))
}

/// Whether `source` is the path of a file that does not exist; a word without a dot may be a profile.
fn is_missing_image(source: &str) -> bool {
    let path = Path::new(source);
    let looks_like_image = source.contains('/') || path.extension().is_some_and(|extension| extension != "toml");
    looks_like_image && !path.exists()
}

fn serve_until_the_end(
    choice: &DeviceChoice,
    point: MountPoint,
    wanted: &Wanted,
    log: Option<&File>,
) -> anyhow::Result<ExitCode> {
    let source = match choice {
        DeviceChoice::Disk(path) => path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string(),
        DeviceChoice::Emulated { .. } => choice.name(),
    };
    let device = open_when_free(choice, wanted, &source)?;
    let executor = Executor::new(wall_time(), HostProfile::default());
    let runtime = executor.runtime();
    let port = runtime.attach(device);
    let staging = wanted.stage.as_deref().map(|path| open_staging(path, wanted, &source)).transpose()?;
    let devices = Devices { image: port.clone(), log: None, staging: staging.map(|device| runtime.attach(device)) };
    let _changing = stop::Changing::begin()?;
    let (options, is_new) = ((wanted.fs, wanted.f2fs), choice.is_emulated());
    let needs_drafts = !wanted.atomic_names.is_empty() && !wanted.fs.read_only;
    let mounted = executor.block_on(async move {
        let fs = prepare(devices, options, is_new).await?;
        if needs_drafts && let Err(error) = check_drafts(&fs) {
            fs.unmount().await?;
            return Err(error);
        }
        Ok(fs)
    })?;
    let fs = mounted.with_context(|| match &wanted.stage {
        Some(stage) => format!("{source} with -o stage={}", stage.display()),
        None => source.clone(),
    })?;
    tell_recovered(&fs, wanted, &source, log);
    let mode = fs.mode_name();
    let (core, inbox) = runtime.inbox::<Letter<Server<AnyFs>>>();
    let names = Names { source: source.clone(), mode: mode.to_owned() };
    let server = Server::new(fs, &runtime, names, move || port.device().counters());
    let server = server.with_synchronous_writes(wanted.flags.contains(&MountFlag::Sync));
    let server = Rc::new(server.with_atomic_names(wanted.atomic_names.clone()));
    let request = MountRequest {
        point,
        source: source.clone(),
        access: wanted.access,
        read_only: wanted.fs.read_only,
        flags: wanted.flags.clone(),
    };
    // A loop device may use one of our files. Memory reclaim may then wait for this process, so this process must not
    // wait for memory reclaim. Only root may set this. Threads that begin later
    // inherit it.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let (kernel, stop) = match KernelMount::new(&request, core.clone()) {
        Ok(kernel) => (kernel, Stop::new(core)),
        Err(error) => {
            drop(core);
            end(&executor, &server, inbox)?;
            return Err(error.into());
        }
    };
    tracing::info!("{source}: mounted, mode {mode}");
    let unmount = kernel.unmounter();
    stop::when_asked(move || {
        unmount();
        stop.stop();
    });
    if let Some(log) = log {
        daemon::detach(log)?;
    }
    let ended = end(&executor, &server, inbox).with_context(|| source.clone());
    match &ended {
        Ok(()) => tracing::info!("{source}: unmounted"),
        Err(error) => tracing::error!("{error:#}"),
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// Serves requests until the mount ends, then unmounts the file system.
fn end(executor: &Executor, server: &Rc<Server<AnyFs>>, inbox: Inbox<Letter<Server<AnyFs>>>) -> anyhow::Result<()> {
    Ok(serve(executor, Rc::clone(server), inbox)??)
}

/// Opens the device. Waits for its last mount if that is ending: `umount` returns before the process has ended.
fn open_when_free(choice: &DeviceChoice, wanted: &Wanted, source: &str) -> anyhow::Result<Box<dyn Device>> {
    let mut waited = Duration::ZERO;
    loop {
        match open(choice, wanted) {
            Err(error) if waited < ENDING_MAX && is_busy(&error) && !is_mounted(source) => (),
            opened => return opened,
        }
        stop::check()?;
        pause(PAUSE);
        waited += PAUSE;
    }
}

#[expect(clippy::disallowed_methods, reason = "waits for another process")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

fn is_busy(error: &anyhow::Error) -> bool {
    let busy = |error: &onewrite_device::Error| matches!(error, onewrite_device::Error::Busy { .. });
    error.chain().any(|cause| {
        let lab = match cause.downcast_ref() {
            Some(LabError::DeviceSetup(error)) => Some(error),
            _ => None,
        };
        cause.downcast_ref().or(lab).is_some_and(busy)
    })
}

fn open(choice: &DeviceChoice, wanted: &Wanted) -> anyhow::Result<Box<dyn Device>> {
    match choice {
        DeviceChoice::Disk(path) if wanted.size.is_some() => {
            bail!("-o size: {} has its size; leave it out", path.display())
        }
        DeviceChoice::Disk(path) if wanted.fs.read_only => Ok(view_disk(path)?),
        DeviceChoice::Disk(path) => Ok(open_disk(path)?),
        DeviceChoice::Emulated { .. } if wanted.fs.read_only => {
            bail!("-o ro: an emulated device is new and empty; leave it out")
        }
        // A new device is formatted with ext4.
        DeviceChoice::Emulated { .. } => Ok(choice.under(Stack::Ext4(Mode::Ordered)).open(wanted.size)?),
    }
}

/// Opens the file or device of a staging area.
fn open_staging(path: &Path, wanted: &Wanted, image: &str) -> anyhow::Result<Box<dyn Device>> {
    if path.canonicalize().is_ok_and(|path| path == Path::new(image)) {
        bail!("-o stage={}: it is the image itself; name another file or device", path.display());
    }
    if !path.exists() {
        bail!("-o stage={0}: no such file; `truncate -s 32M {0}` makes one", path.display());
    }
    let opened = if wanted.fs.read_only { view_disk(path) } else { open_disk(path) };
    opened.with_context(|| format!("-o stage={}", path.display()))
}

/// # Errors
/// If no file can be atomic; names what can be done.
fn check_drafts(fs: &AnyFs) -> anyhow::Result<()> {
    if fs.has_drafts() {
        return Ok(());
    }
    fs.begin_draft().map(drop).context("-o atomic=…")
}

/// Mounts the file system on the device with the image; first formats a new device.
async fn prepare(
    devices: Devices,
    (options, f2fs): (MountOptions, F2fsChoices),
    is_new: bool,
) -> anyhow::Result<AnyFs> {
    let port = devices.image.clone();
    options.check_device(port.geometry())?;
    if is_new {
        let bytes = port.geometry().pages * PAGE_SIZE as u64;
        let format_options = FormatOptions {
            journal_bytes: options.mode.is_lazy().then(|| lazy_journal_bytes(bytes)),
            stage_bytes: 0,
            is_zeroed: true,
            unix_time: (port.runtime().civil_now().0 / 1_000_000_000) as u32,
            root_owner: (geteuid().as_raw(), getegid().as_raw()),
            label: String::new(),
        };
        format(&port, &format_options, &mut Choices::new(1).stream("mkfs", 0)).await?;
        port.device_mut().reset_counters();
    }
    Ok(AnyFs::mount_with(devices, options, f2fs).await?)
}

/// Tells what recovery did, and warns: in the log, and on the terminal of a mount that leaves it.
fn tell_recovered(fs: &AnyFs, wanted: &Wanted, source: &str, log: Option<&File>) {
    if let Some(recovery) = fs.recovery() {
        let changes = if wanted.fs.read_only { Changes::InMemory } else { Changes::Kept };
        tracing::info!("{source}: {}", recovered(&recovery, changes));
    }
    let of_papers = "mode ldj-paper, as its papers have it, can recover what was never committed; data=ldj does not";
    let is_of_papers = fs.mode_name() == Mode::LdjPaper.name();
    let is_moot = matches!(fs, AnyFs::F2fs(_)) && !wanted.fs.delayed_allocation;
    let moot = "nodelalloc changes nothing on F2FS, which gives content an address when it is written";
    let further = [(is_of_papers, of_papers), (is_moot, moot)];
    let further = further.into_iter().filter(|(holds, _)| *holds).map(|(_, what)| what.to_owned());
    for warning in fs.warnings().into_iter().chain(further) {
        tracing::warn!("{source}: {warning}");
        if log.is_some() {
            errln!("onewrite: {source}: {warning}");
        }
    }
}
