//! Kernel: adds a mount to the host's tree and removes it.
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
use super::server::Server;
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
    /// Every change is synchronous.
    Sync,
    /// Every change of a directory is synchronous.
    DirSync,
}

/// A mount to make.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The directory that it covers.
    pub directory: PathBuf,
    /// Its source in the table of mounts.
    pub source: String,
    /// Who may use it.
    pub access: Access,
    /// Whether to refuse changes.
    pub read_only: bool,
    /// The other options.
    pub flags: Vec<MountFlag>,
}

/// Why the mount failed.
#[derive(Debug, Error)]
pub enum MountError {
    /// The directory cannot be a mount point.
    #[error("{path}: cannot be mounted on: {error}")]
    Directory {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// `/dev/fuse` cannot be opened.
    #[error("/dev/fuse: {0}; load FUSE (modprobe fuse), or give this user access to it")]
    NoFuse(io::Error),
    /// The kernel or the helper refused the mount.
    #[error("{path}: the mount was refused: {error}{cure}")]
    Refused {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
        /// The cure.
        cure: &'static str,
    },
}

/// A file system in the host's tree, with the thread that reads its requests.
pub struct KernelMount {
    place: Place,
    reader: JoinHandle<io::Result<()>>,
}

impl KernelMount {
    /// Mounts. From now on requests arrive at `core`; the last letter says that the mount has ended.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn new<F: FileSystem + 'static>(
        request: &MountRequest,
        core: InboxSender<Letter<Server<F>>>,
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
        let place = Place::of_topmost(directory);
        read_further_ahead(&place);
        Ok(KernelMount { place, reader })
    }

    /// Returns a function that detaches the mount from the tree, even while programs use it. Open files stay usable
    /// until they are closed. The function may run on another thread.
    pub fn unmounter(&self) -> impl Fn() + Send + 'static {
        let place = self.place.clone();
        move || detach(&place)
    }

    /// Waits for the thread that reads requests; it ends right after the mount.
    ///
    /// # Errors
    /// The error of reading from the kernel.
    pub fn join(self) -> io::Result<()> {
        self.reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads requests panicked")))
    }
}

/// A mount in the table of mounts.
#[derive(Clone, Debug)]
struct Place {
    directory: PathBuf,
    /// Its number in the table, and that of its device; `None` if the table does not name it.
    numbers: Option<(String, String)>,
}

impl Place {
    /// The topmost mount on `directory`. Unlike stat(2), the table of mounts asks the mount nothing.
    fn of_topmost(directory: PathBuf) -> Place {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let shown = directory.display().to_string().replace(' ', "\\040");
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = table.lines().map(fields).rfind(|fields| fields.get(4) == Some(&shown));
        let numbers = line.map(|fields| (fields[0].clone(), fields[2].clone()));
        Place { directory, numbers }
    }
}

/// Detaches our mount. Does nothing if the topmost mount there is not ours: somebody else may have mounted over it, or
/// it may be gone.
fn detach(place: &Place) {
    let directory = &place.directory;
    if place.numbers.is_none() || Place::of_topmost(directory.clone()).numbers != place.numbers {
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

/// Lets the kernel read further ahead than FUSE's 128 KiB. Only root may; a failure costs speed alone.
fn read_further_ahead(place: &Place) {
    let Some((_, device)) = &place.numbers else { return };
    let written = std::fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), READ_AHEAD_KIB);
    if let Err(error) = written {
        tracing::debug!("reading ahead stays at 128 KiB: {error}");
    }
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
        detach(&Place::of_topmost(directory.to_owned()));
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
        // The helper allows device nodes and set-user-ID programs only for root.
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
