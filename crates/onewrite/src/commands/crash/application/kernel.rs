//! The program on the kernel's ext4: a loop device over a recorded file.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use onewrite_crash::{Application, ExploreOptions, Ext4Subject, Recorder};
use onewrite_host::fuse::RecordedFile;

use super::program::{acknowledged, run_program, tool};
use super::room::Room;
use crate::stop;

/// Runs a shell line on the kernel's ext4, mounted with `mount_options`; returns the recording.
pub fn record(
    subject: &Ext4Subject,
    options: &ExploreOptions,
    line: &str,
    mount_options: &str,
    room: &Room,
) -> anyhow::Result<Application> {
    let _changing = stop::Changing::begin()?;
    let base = Recorder::image(subject, options)?;
    let (disk, directory) = (room.at("disk"), room.at("mnt"));
    fs::create_dir(&disk)?;
    fs::create_dir(&directory)?;
    let file = RecordedFile::new(&disk, base.clone()).context("--kernel: a FUSE mount for the recorded disk")?;
    let mark = file.marker();
    let ran = {
        let device = LoopDevice::attach(file.path().as_os_str())?;
        let _mounted = KernelMount::new(&device.0, mount_options, directory.clone())?;
        run_program(line, &directory, &room.at("spoken"), mark)
    };
    let events = file.finish().context("--kernel: the recorded disk")?;
    Ok(Application::recorded(base, events, acknowledged(ran?)?))
}

/// A loop device, detached when dropped.
struct LoopDevice(String);

impl LoopDevice {
    fn attach(file: &OsStr) -> anyhow::Result<LoopDevice> {
        let attached = tool("losetup", &["--direct-io=on".as_ref(), "-f".as_ref(), "--show".as_ref(), file])?;
        let device = LoopDevice(attached.trim().to_owned());
        let name = device.0.trim_start_matches("/dev/");
        let direct = fs::read_to_string(format!("/sys/block/{name}/loop/dio"));
        match direct.is_ok_and(|direct| direct.trim() == "1") {
            true => Ok(device),
            false => bail!("{}: the loop device uses the page cache, so the order of writes is not known", device.0),
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = tool("losetup", &["-d".as_ref(), self.0.as_ref()]);
        detached.unwrap_or_else(|error| {
            errln!("onewrite: {error:#}");
            String::new()
        });
    }
}

/// A mount of the kernel's ext4, ended when dropped.
struct KernelMount(PathBuf);

impl KernelMount {
    fn new(device: &str, options: &str, directory: PathBuf) -> anyhow::Result<KernelMount> {
        let words: [&OsStr; 6] =
            ["-t".as_ref(), "ext4".as_ref(), "-o".as_ref(), options.as_ref(), device.as_ref(), directory.as_ref()];
        tool("mount", &words).with_context(|| format!("--kernel {options}"))?;
        Ok(KernelMount(directory))
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        if let Err(error) = tool("umount", &[self.0.as_ref()]) {
            errln!("onewrite: {error:#}");
        }
    }
}
