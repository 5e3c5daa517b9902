//! `onewrite mount`
//!
//! ```text
//!   device opened, and locked ─► log replayed ─► mounted in the host's tree ─► success reported ─► serving
//!   umount, SIGTERM, SIGINT, SIGHUP ─► requests answered ─► file system unmounted ─► end
//! ```

mod daemon;
mod options;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context, bail};
use onewrite_block::{Choices, Device, DevicePort, Executor, HostProfile, Inbox, PAGE_SIZE};
use onewrite_fs::ext4::{Ext4, MountOptions};
use onewrite_host::fuse::{KernelMount, MountRequest, Server, serve};
use onewrite_host::{Letter, Stop};
use onewrite_lab::session::{DeviceChoice, FormatOptions, format, lazy_journal_bytes, open_disk, view_disk};

use crate::args::Mount;
use crate::open::{replayed, wall_time};
use crate::stop;
use options::Wanted;

/// Mounts, and serves until the mount ends: in another process, unless `--foreground` is given.
pub fn mount(args: &Mount) -> anyhow::Result<ExitCode> {
    let wanted = Wanted::parse(&args.options)?;
    if args.foreground {
        daemon::log_to(None, wanted.logs_refusals)?;
        return serve_until_the_end(args, &wanted, None);
    }
    if !daemon::is_daemon() {
        return daemon::start();
    }
    daemon::leave_terminal();
    let directory = args.directory.canonicalize().with_context(|| args.directory.display().to_string())?;
    let log = daemon::open_log(args.log.as_deref(), &directory)?;
    daemon::log_to(Some(&log), wanted.logs_refusals)?;
    serve_until_the_end(args, &wanted, Some(&log))
}

fn serve_until_the_end(args: &Mount, wanted: &Wanted, log: Option<&File>) -> anyhow::Result<ExitCode> {
    let choice = DeviceChoice::named(&args.source)
        .with_context(|| format!("{0}: no such image (`onewrite mkfs {0}` makes one), and no profile", args.source))?;
    let device = open(&choice, wanted)?;
    let executor = Executor::new(wall_time(), HostProfile::default());
    let runtime = executor.runtime();
    let port = runtime.attach(device);
    let source = match &choice {
        DeviceChoice::Disk(path) => path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string(),
        DeviceChoice::Emulated { .. } => choice.name(),
    };
    let _changing = stop::Changing::begin()?;
    let (mount_port, options, is_new) = (port.clone(), wanted.fs, choice.is_emulated());
    let mounted = executor.block_on(async move { prepare(mount_port, options, is_new).await })?;
    let fs = mounted.with_context(|| source.clone())?;
    tell_mounted(&fs, &source);
    let (core, inbox) = runtime.inbox::<Letter<Server<Ext4>>>();
    let mode = wanted.fs.mode.name().to_owned();
    let server = Rc::new(Server::new(fs, &runtime, (source.clone(), mode), move || port.device().counters()));
    let request = MountRequest {
        directory: args.directory.clone(),
        source: source.clone(),
        access: wanted.access,
        read_only: wanted.fs.read_only,
        flags: wanted.flags.clone(),
    };
    let (kernel, stop) = match KernelMount::new(&request, core.clone()) {
        Ok(kernel) => (kernel, Stop::new(core)),
        Err(error) => {
            drop(core);
            end(&executor, &server, inbox)?;
            return Err(error.into());
        }
    };
    let unmount = kernel.unmounter();
    stop::when_asked(move || {
        unmount();
        stop.stop();
    });
    if let Some(log) = log {
        daemon::detach(log)?;
    }
    // A loop device may use one of our files. Memory reclaim may then wait for this process, so this process must not
    // wait for memory reclaim. Only root may set this.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let ended = end(&executor, &server, inbox).with_context(|| source.clone());
    match &ended {
        Ok(()) => tracing::info!("{source}: unmounted"),
        Err(error) => tracing::error!("{error:#}"),
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// Serves requests until the mount ends, then unmounts the file system.
fn end(executor: &Executor, server: &Rc<Server<Ext4>>, inbox: Inbox<Letter<Server<Ext4>>>) -> anyhow::Result<()> {
    let server = Rc::clone(server);
    Ok(executor.block_on(async move { serve(server, inbox).await })??)
}

fn open(choice: &DeviceChoice, wanted: &Wanted) -> anyhow::Result<Box<dyn Device>> {
    match choice {
        DeviceChoice::Disk(path) if !path.exists() => {
            bail!("{}: no such image; `onewrite mkfs` makes one", path.display())
        }
        DeviceChoice::Disk(path) if wanted.size.is_some() => {
            bail!("-o size: {} has its size; leave it out", path.display())
        }
        DeviceChoice::Disk(path) if wanted.fs.read_only => Ok(view_disk(path)?),
        DeviceChoice::Disk(path) => Ok(open_disk(path)?),
        DeviceChoice::Emulated { .. } if wanted.fs.read_only => {
            bail!("-o ro: an emulated device is new and empty; leave it out")
        }
        DeviceChoice::Emulated { .. } => Ok(choice.open(wanted.size)?),
    }
}

/// Mounts the file system on `port`; first formats a new device.
async fn prepare(port: DevicePort, options: MountOptions, is_new: bool) -> anyhow::Result<Ext4> {
    options.check_device(port.geometry())?;
    if is_new {
        let bytes = port.geometry().pages * PAGE_SIZE as u64;
        let format_options = FormatOptions {
            journal_bytes: options.mode.is_lazy().then(|| lazy_journal_bytes(bytes)),
            is_zeroed: true,
            unix_time: (port.runtime().civil_now().0 / 1_000_000_000) as u32,
            label: String::new(),
        };
        format(&port, &format_options, &mut Choices::new(1).stream("mkfs", 0)).await?;
        port.device_mut().reset_counters();
    }
    Ok(Ext4::mount(port, options).await?)
}

fn tell_mounted(fs: &Ext4, source: &str) {
    let read_only = fs.options().read_only;
    if let Some(recovered) = fs.recovered() {
        tracing::info!("{source}: {}", replayed(&recovered, !read_only));
    }
    fs.warnings().iter().for_each(|warning| tracing::warn!("{source}: {warning}"));
    tracing::info!("{source}: mounted, mode {}", fs.options().mode);
}

/// Converts the arguments of the helper that mount(8) runs (`mount.fuse.onewrite IMAGE DIR [-sfnv] [-o OPTIONS]`) to
/// those of this program; `None` if the program was called by another name.
pub fn as_helper(arguments: &[std::ffi::OsString]) -> Option<Vec<std::ffi::OsString>> {
    let name = Path::new(arguments.first()?).file_name()?.to_str()?;
    if !matches!(name, "mount.fuse.onewrite" | "mount.onewrite") {
        return None;
    }
    // -s: tolerate options; -n: write no table; -v: verbose. None has an effect here.
    let dropped = ["-s", "-n", "-v", "-sn", "-ns"];
    let rest = arguments[1..].iter().filter(|argument| !dropped.iter().any(|one| argument.as_os_str() == *one));
    Some(["onewrite", "mount"].into_iter().map(Into::into).chain(rest.cloned()).collect())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_helper_of_mount_is_understood() {
        let called = |words: &str| as_helper(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        let words = called("/sbin/mount.fuse.onewrite a.img /mnt -n -o rw,data=ordered").unwrap();
        assert_eq!(words, ["onewrite", "mount", "a.img", "/mnt", "-o", "rw,data=ordered"]);
        assert_eq!(called("onewrite mount a.img /mnt"), None);
    }
}
