//! Kernel: adds a mount to the host's tree and removes it.
//!
//! Root mounts by mount(2), so that the mount is of type `fuse.onewrite`. Others need the helper `fusermount3`, which
//! the library runs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session, SessionACL};
use onewrite_block::InboxSender;
use rustix::mount::{MountFlags, UnmountFlags, mount};
use rustix::process::{getegid, geteuid};

use super::door::Door;
use super::error::MountError;
use super::point::{MountPoint, take_off};
use super::server::{Mountable, Server};
use super::table::{Entry, KIND};
use crate::letters::Letter;

/// How far the kernel reads ahead: the largest read request.
const READ_AHEAD_KIB: &str = "1024";

/// Who may use a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The user who mounted it.
    #[default]
    Owner,
    /// All users, within the files' permissions.
    Everybody,
}

/// The options of mount(8) that do not depend on the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountFlag {
    /// Device nodes work.
    Dev,
    /// Set-user-ID and set-group-ID bits work.
    Suid,
    /// Programs cannot be run.
    NoExec,
    /// Every write to a file is synchronous. FUSE passes nothing on for directories.
    Sync,
}

/// A mount to make.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// Where it goes.
    pub point: MountPoint,
    /// Its source in the table of mounts.
    pub source: String,
    /// Who may use it.
    pub access: Access,
    /// Whether to refuse changes.
    pub read_only: bool,
    /// The other options.
    pub flags: Vec<MountFlag>,
}

/// A file system in the host's tree, with the thread that reads its requests.
pub struct KernelMount {
    mount: Option<Entry>,
    reader: JoinHandle<io::Result<()>>,
}

impl KernelMount {
    /// Mounts. From now on requests arrive at `core`; the last letter says that the mount has ended.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn new<F: Mountable>(
        request: &MountRequest,
        core: InboxSender<Letter<Server<F>>>,
    ) -> Result<KernelMount, MountError> {
        let path = request.point.directory.display().to_string();
        let directory = request.point.directory.clone();
        let notifier = Arc::<OnceLock<_>>::default();
        let door = Door { core, notifier: Arc::clone(&notifier) };
        let session = match geteuid().is_root() {
            true => by_root(door, request, &directory)?,
            false => by_helper(door, request, &directory)?,
        };
        let _ = notifier.set(session.notifier());
        #[expect(clippy::disallowed_methods, reason = "requests of other programs are read beside the core")]
        let reader = std::thread::Builder::new().name("fuse".into()).spawn(move || session.run());
        let reader = reader.map_err(|error| MountError::Refused { path, error, cure: "" })?;
        let mount = Entry::topmost(&directory);
        read_further_ahead(mount.as_ref());
        Ok(KernelMount { mount, reader })
    }

    /// Returns a function that detaches the mount from the tree, even while programs use it. Open files stay usable
    /// until they are closed. The function may run on another thread.
    pub fn unmounter(&self) -> impl Fn() + Send + 'static {
        let mount = self.mount.clone();
        move || detach(mount.as_ref())
    }

    /// Waits for the thread that reads requests; it ends right after the mount.
    ///
    /// # Errors
    /// The error of reading from the kernel.
    pub fn join(self) -> io::Result<()> {
        self.reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads requests panicked")))
    }
}

/// Detaches our mount. Does nothing if the topmost mount there is not ours: somebody else may have mounted over it, or
/// it may be gone.
fn detach(mount: Option<&Entry>) {
    let Some(mount) = mount else { return };
    if Entry::topmost(&mount.directory).as_ref() != Some(mount) {
        return;
    }
    if let Err(error) = take_off(&mount.directory, UnmountFlags::DETACH) {
        tracing::error!("{}: not unmounted: {error}", mount.directory.display());
    }
}

/// Lets the kernel read further ahead than FUSE's 128 KiB. Only root may; a failure costs speed alone.
fn read_further_ahead(mount: Option<&Entry>) {
    let Some(mount) = mount else { return };
    let written = std::fs::write(format!("/sys/class/bdi/{}/read_ahead_kb", mount.device), READ_AHEAD_KIB);
    if let Err(error) = written {
        tracing::debug!("reading ahead stays at 128 KiB: {error}");
    }
}

fn by_root<F: Mountable>(
    door: Door<F>,
    request: &MountRequest,
    directory: &Path,
) -> Result<Session<Door<F>>, MountError> {
    let path = directory.display().to_string();
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(MountError::NoFuse)?;
    let mode = directory.metadata().map_err(|error| MountError::Directory { path: path.clone(), error })?.mode();
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        mode & 0o170_000,
        geteuid().as_raw(),
        getegid().as_raw()
    );
    if request.access == Access::Everybody {
        data.push_str(",allow_other");
    }
    let data = std::ffi::CString::new(data).expect("numbers and words");
    let refused = |error: io::Error| MountError::Refused { path: path.clone(), error, cure: "" };
    mount(&*request.source, directory, KIND, kernel_flags(request), Some(data.as_c_str()))
        .map_err(|error| refused(error.into()))?;
    session(door, device, request).map_err(|error| {
        detach(Entry::topmost(directory).as_ref());
        refused(error)
    })
}

fn session<F: Mountable>(door: Door<F>, device: File, request: &MountRequest) -> io::Result<Session<Door<F>>> {
    Session::from_fd(door, OwnedFd::from(device), acl(request.access), Config::default())
}

const fn acl(access: Access) -> SessionACL {
    match access {
        Access::Owner => SessionACL::Owner,
        Access::Everybody => SessionACL::All,
    }
}

fn kernel_flags(request: &MountRequest) -> MountFlags {
    let has = |flag| request.flags.contains(&flag);
    let mut flags = MountFlags::NOATIME;
    flags.set(MountFlags::RDONLY, request.read_only);
    flags.set(MountFlags::NODEV, !has(MountFlag::Dev));
    flags.set(MountFlags::NOSUID, !has(MountFlag::Suid));
    flags.set(MountFlags::NOEXEC, has(MountFlag::NoExec));
    flags.set(MountFlags::SYNCHRONOUS, has(MountFlag::Sync));
    flags
}

fn by_helper<F: Mountable>(
    door: Door<F>,
    request: &MountRequest,
    directory: &Path,
) -> Result<Session<Door<F>>, MountError> {
    let mut config = Config::default();
    config.acl = acl(request.access);
    config.mount_options = vec![
        MountOption::FSName(request.source.clone()),
        MountOption::Subtype("onewrite".into()),
        MountOption::DefaultPermissions,
        if request.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.mount_options.extend(request.flags.iter().filter_map(|flag| match flag {
        // The helper allows device nodes and set-user-ID programs only for root.
        MountFlag::Dev | MountFlag::Suid => None,
        MountFlag::NoExec => Some(MountOption::NoExec),
        MountFlag::Sync => Some(MountOption::Sync),
    }));
    Session::new(door, directory, &config).map_err(|error| {
        let may_use =
            rustix::fs::access("/dev/fuse", rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK).is_ok();
        let cure = match request.access {
            _ if !may_use => "; this user may not use /dev/fuse: as root, chmod 666 /dev/fuse",
            Access::Everybody => "; allow_other needs the line user_allow_other in /etc/fuse.conf",
            Access::Owner => "; the directory must be this user's own",
        };
        MountError::Refused { path: directory.display().to_string(), error, cure }
    })
}
