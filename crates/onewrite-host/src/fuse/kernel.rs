//! Kernel: how a mount appears in the host's tree, and how it goes.
//!
//! Root mounts by mount(2), so that the mount is of type `fuse.onewrite`. Others need the helper `fusermount3`, which
//! the library runs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session, SessionACL};
use onewrite_block::InboxSender;
use onewrite_fs::FileSystem;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{getegid, geteuid};
use thiserror::Error;

use super::door::Door;
use super::server::Letter;

/// Who may use a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Who mounted it.
    #[default]
    Owner,
    /// All users, as permissions say.
    Everybody,
}

/// What mount(8) calls options that do not depend on the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountFlag {
    /// Device nodes work.
    Dev,
    /// Set-user-ID and set-group-ID bits work.
    Suid,
    /// No program can be run.
    NoExec,
    /// Every change is synchronous.
    Sync,
    /// Every change of a directory is synchronous.
    DirSync,
}

/// A mount to be made.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The directory that it covers.
    pub directory: PathBuf,
    /// What the table of mounts calls its source.
    pub source: String,
    /// Who may use it.
    pub access: Access,
    /// Refuse changes.
    pub read_only: bool,
    /// The other options.
    pub flags: Vec<MountFlag>,
}

/// Why there is no mount.
#[derive(Debug, Error)]
pub enum MountError {
    /// The directory does not serve.
    #[error("{path}: cannot be mounted on: {error}")]
    Directory {
        /// The directory.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// `/dev/fuse` does not open.
    #[error("/dev/fuse: {0}; load FUSE (modprobe fuse), or give this user access to it")]
    NoFuse(io::Error),
    /// The kernel or the helper refuses.
    #[error("{path}: the mount was refused: {error}{cure}")]
    Refused {
        /// The directory.
        path: String,
        /// What the system says.
        error: io::Error,
        /// What to do.
        cure: &'static str,
    },
}

/// A file system in the host's tree, with the thread that reads its requests.
pub struct KernelMount {
    directory: PathBuf,
    reader: JoinHandle<io::Result<()>>,
}

impl KernelMount {
    /// Mounts; from now on requests arrive at `core`, and at last the word that the mount has ended.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn new<F: FileSystem + 'static>(
        request: &MountRequest,
        core: InboxSender<Letter<F>>,
    ) -> Result<KernelMount, MountError> {
        let path = request.directory.display().to_string();
        let failed = |error| MountError::Directory { path: path.clone(), error };
        let directory = request.directory.canonicalize().map_err(failed)?;
        if !directory.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let door = Door { core };
        let session = match geteuid().is_root() {
            true => by_root(door, request, &directory)?,
            false => by_helper(door, request, &directory)?,
        };
        #[expect(clippy::disallowed_methods, reason = "requests of other programs are read beside the core")]
        let reader = std::thread::Builder::new().name("fuse".into()).spawn(move || session.run());
        let reader = reader.map_err(|error| MountError::Refused { path, error, cure: "" })?;
        Ok(KernelMount { directory, reader })
    }

    /// Takes the mount out of the tree, even while programs use it; what they have open lives on until they close it.
    /// From another thread: [`KernelMount::unmounter`].
    pub fn unmounter(&self) -> impl Fn() + Send + 'static {
        let directory = self.directory.clone();
        move || detach(&directory)
    }

    /// Waits for the end of the thread that reads requests: at once after the mount's end.
    ///
    /// # Errors
    /// What reading from the kernel met.
    pub fn join(self) -> io::Result<()> {
        self.reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads requests panicked")))
    }
}

/// What is mounted there by somebody else meanwhile is safe: `/proc/self/mountinfo` has to say that it is ours.
fn detach(directory: &Path) {
    if !is_ours(directory) {
        return;
    }
    let detached = match unmount(directory, UnmountFlags::DETACH) {
        Err(Errno::PERM) => {
            let helper = std::process::Command::new("fusermount3").args(["-u", "-z", "--"]).arg(directory).status();
            helper.map(drop)
        }
        other => other.map_err(io::Error::from),
    };
    if let Err(error) = detached {
        tracing::error!("{}: not unmounted: {error}", directory.display());
    }
}

fn is_ours(directory: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let place = directory.display().to_string().replace(' ', "\\040");
    let last = table.lines().rfind(|line| line.split(' ').nth(4) == Some(&place));
    last.is_some_and(|line| line.contains(" fuse.onewrite ") || line.contains(" fuse "))
}

fn by_root<F: FileSystem + 'static>(
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
    mount(&*request.source, directory, "fuse.onewrite", kernel_flags(request), Some(data.as_c_str()))
        .map_err(|error| refused(error.into()))?;
    session(door, device, request).map_err(|error| {
        detach(directory);
        refused(error)
    })
}

fn session<F: FileSystem + 'static>(
    door: Door<F>,
    device: File,
    request: &MountRequest,
) -> io::Result<Session<Door<F>>> {
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
    flags.set(MountFlags::DIRSYNC, has(MountFlag::DirSync));
    flags
}

fn by_helper<F: FileSystem + 'static>(
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
        // The helper gives nobody but root device nodes and set-user-ID programs.
        MountFlag::Dev | MountFlag::Suid => None,
        MountFlag::NoExec => Some(MountOption::NoExec),
        MountFlag::Sync => Some(MountOption::Sync),
        MountFlag::DirSync => Some(MountOption::DirSync),
    }));
    Session::new(door, directory, &config).map_err(|error| {
        let cure = match error.kind() {
            io::ErrorKind::NotFound => "; install the package `fuse3`, or mount as root",
            _ => "",
        };
        MountError::Refused { path: directory.display().to_string(), error, cure }
    })
}
