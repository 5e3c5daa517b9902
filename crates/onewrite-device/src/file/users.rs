//! Users: who uses a file or block device of the host, as the kernel lists it in `/proc` and `/sys`.
//!
//! This module only names users; `flock` and `O_EXCL` (`hold`) keep two users apart. A use that is invisible here, in
//! another namespace or never listed, counts as none.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::sys::file_behind;

/// Major and minor number.
pub(super) type Number = (u32, u32);

/// A reason not to open a file or device, and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Completes "IMAGE is …".
    pub by: String,
    /// What the user can do.
    pub cure: String,
}

/// A loop device, with the file behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// `/dev/loop3`.
    pub device: PathBuf,
    /// Its number.
    pub number: Number,
    /// The file behind it.
    pub backing: PathBuf,
}

pub(super) fn number(packed: u64) -> Number {
    (rustix::fs::major(packed), rustix::fs::minor(packed))
}

/// Whether the kernel refuses writes to a block device.
pub(super) fn is_write_protected(device: Number) -> bool {
    let path = format!("/sys/dev/block/{}:{}/ro", device.0, device.1);
    fs::read_to_string(path).is_ok_and(|flag| flag.trim() == "1")
}

/// The use of a block device that the kernel lists: a mount, swap, or a device built on it. For a disk, also the uses
/// of its partitions.
pub(super) fn of_device(device: Number) -> Option<Use> {
    mounted(device)
        .or_else(|| swap(|swap| swap.file_type().is_block_device() && number(swap.rdev()) == device))
        .or_else(|| {
            let about = PathBuf::from(format!("/sys/dev/block/{}:{}", device.0, device.1));
            held(&about).or_else(|| names_in(&about).iter().find_map(|part| of_part(&about.join(part), part)))
        })
}

/// The use of a file as swap.
pub(super) fn of_file(device: u64, inode: u64) -> Option<Use> {
    swap(|swap| swap.is_file() && (swap.dev(), swap.ino()) == (device, inode))
}

fn of_part(about: &Path, name: &str) -> Option<Use> {
    if !about.join("partition").exists() {
        return None;
    }
    let found = of_device(parse_number(fs::read_to_string(about.join("dev")).ok()?.trim())?)?;
    Some(Use { by: format!("in use by its partition {name}, which is {}", found.by), cure: found.cure })
}

fn mounted(device: Number) -> Option<Use> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let place = mounts.lines().filter_map(mount).find(|mount| mount.is_of(device))?.place;
    Some(Use { by: format!("mounted at {place}"), cure: format!("unmount it first (umount {place})") })
}

struct Mount {
    number: Number,
    source: String,
    place: String,
}

impl Mount {
    /// Btrfs and others mount under a device number of their own and name the device as the source.
    fn is_of(&self, device: Number) -> bool {
        let is_source =
            |metadata: fs::Metadata| metadata.file_type().is_block_device() && number(metadata.rdev()) == device;
        self.number == device || self.source.starts_with('/') && fs::metadata(&self.source).is_ok_and(is_source)
    }
}

/// A line of `/proc/self/mountinfo`; proc_pid_mountinfo(5).
fn mount(line: &str) -> Option<Mount> {
    let (mount, kind) = line.split_once(" - ")?;
    let fields: Vec<&str> = mount.split(' ').collect();
    let source = kind.split(' ').nth(1)?;
    Some(Mount { number: parse_number(fields.get(2)?)?, source: plain(source), place: plain(fields.get(4)?) })
}

/// Replaces octal numbers in text by blanks, tabs, line breaks and backslashes.
fn plain(escaped: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(escaped.to_owned(), |text, (code, letter)| text.replace(code, letter))
}

fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn swap(is_it: impl Fn(&fs::Metadata) -> bool) -> Option<Use> {
    let swaps = fs::read_to_string("/proc/swaps").ok()?;
    let paths = swaps.lines().skip(1).filter_map(|line| line.split([' ', '\t']).next()).map(plain);
    let path = paths.into_iter().find(|path| fs::metadata(path).is_ok_and(|metadata| is_it(&metadata)))?;
    Some(Use { by: "in use as swap".into(), cure: format!("take it out first (swapoff {path})") })
}

/// Device mapper, md and others that use it.
fn held(about: &Path) -> Option<Use> {
    let holders = names_in(&about.join("holders"));
    let by = format!("in use by {}", holders.first()?);
    Some(Use { by, cure: "take that apart first".into() })
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Every loop device with a file.
pub(super) fn loops() -> Vec<Loop> {
    names_in(Path::new("/sys/block")).iter().filter_map(|name| looped(name)).collect()
}

fn looped(name: &str) -> Option<Loop> {
    let about = Path::new("/sys/block").join(name);
    let backing = fs::read_to_string(about.join("loop/backing_file")).ok()?;
    let number = parse_number(fs::read_to_string(about.join("dev")).ok()?.trim())?;
    let backing = PathBuf::from(backing.strip_suffix('\n').unwrap_or(&backing));
    Some(Loop { device: Path::new("/dev").join(name), number, backing })
}

/// The loop devices on this file, under any of its names. A device whose file was deleted or belongs to another
/// namespace may not be found.
pub(super) fn loops_of(device: u64, inode: u64) -> Vec<Loop> {
    let by_path = |one: &Loop| fs::metadata(&one.backing).map(|backing| (backing.dev(), backing.ino())).ok();
    let is_it = |one: &Loop| file_behind(&one.device).or_else(|| by_path(one)) == Some((device, inode));
    loops().into_iter().filter(is_it).collect()
}

/// The loop devices on the regular file that is at `path` now; none for any other kind of file.
pub fn loops_on(path: &Path) -> Vec<PathBuf> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    let loops = found.map(|found| loops_of(found.dev(), found.ino())).unwrap_or_default();
    loops.into_iter().map(|one| one.device).collect()
}

/// A process that took a `flock`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Locker {
    process: u32,
    /// Name of its program; `None` once it has ended. Its lock lives on in whoever has the same open file.
    program: Option<String>,
}

impl Locker {
    fn new(process: u32) -> Locker {
        let program = fs::read_to_string(format!("/proc/{process}/comm")).ok();
        Locker { process, program: program.map(|name| name.trim_end().to_owned()) }
    }

    /// Whether the lock is likely to go within a moment.
    pub(super) fn goes_soon(&self) -> bool {
        self.program.as_ref().is_none_or(|name| name.contains("udev"))
    }
}

impl fmt::Display for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Some(name) => write!(f, "process {} ({name})", self.process),
            None => write!(f, "what process {} left behind", self.process),
        }
    }
}

/// Processes that took a `flock` on the file. On a stacked file system the lock list and the file may give different
/// device numbers; then the inode alone decides.
pub(super) fn lockers(device: u64, inode: u64) -> Vec<Locker> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let of_inode: Vec<Lock> = locks.lines().filter_map(lock).filter(|lock| lock.inode == inode).collect();
    let is_exact = |lock: &Lock| lock.number == number(device);
    let is_told = of_inode.iter().any(is_exact);
    let ours = of_inode.iter().filter(|lock| !is_told || is_exact(lock));
    let mut lockers: Vec<Locker> = ours.map(|lock| Locker::new(lock.process)).collect();
    lockers.dedup();
    lockers
}

struct Lock {
    process: u32,
    number: Number,
    inode: u64,
}

/// A line of `/proc/locks`, as `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5628005 0 EOF`; proc_locks(5).
fn lock(line: &str) -> Option<Lock> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if fields.get(1) != Some(&"FLOCK") {
        return None;
    }
    let mut place = fields.get(5)?.split(':');
    let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
    let number = (hex()?, hex()?);
    Some(Lock { process: fields[4].parse().ok()?, number, inode: place.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line = "36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = mount(line).unwrap();
        assert_eq!((mount.number, mount.place.as_str(), mount.source.as_str()), ((98, 0), "/mnt two", "/dev/root"));
        let lock = lock("2: FLOCK  ADVISORY  WRITE 22981 fe:00:4727471 0 EOF").unwrap();
        assert_eq!((lock.process, lock.number, lock.inode), (22981, (254, 0), 4_727_471));
        assert!(super::lock("1: POSIX  ADVISORY  READ 1 08:01:7 128 128").is_none());
    }
}
