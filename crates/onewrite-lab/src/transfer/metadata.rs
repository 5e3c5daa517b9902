//! Metadata: sets owner, permissions, extended attributes and times of a copy on the host.
//!
//! An image may come from a stranger. Without [`Keep::All`] it gives nobody any rights here: no owner, no set-user-ID,
//! set-group-ID or sticky bit, no capabilities, no access control list. Of extended attributes only `user.` ones are
//! copied.

use std::fs::{File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use onewrite_fs::{Attributes, FileKind, Timestamp};
use rustix::fs::{AtFlags, Gid, Timespec, Timestamps, Uid, XattrFlags, chownat, futimens, utimensat};
use rustix::io::Errno;

use super::directories::handle;

/// Which attributes a copy on the host takes from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Content, `user.` attributes and times. Permissions are limited by the umask, without set-user-ID and the like.
    /// The owner is the user who copies. Like cp(1), but with times and attributes.
    #[default]
    Content,
    /// Owner, all permission bits, access control lists and all extended attributes, like `cp -p`, as far as the user
    /// who copies is allowed to.
    All,
}

/// Extended attributes: names and values.
pub(super) type ExtendedAttributes = Vec<(Vec<u8>, Vec<u8>)>;

/// A new entry on the host.
pub(super) enum Copied<'a> {
    /// An open file or directory.
    Open(&'a File),
    /// Anything else, by directory and name; it is not opened.
    Named(&'a File, &'a [u8]),
}

const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Copied<'_> {
    /// Sets the attributes of the copy. Returns those that could not be set.
    pub(super) fn set_metadata(
        &self,
        keep: Keep,
        attributes: &Attributes,
        extended: &ExtendedAttributes,
    ) -> Vec<String> {
        let mut lost = Vec::new();
        if keep == Keep::All {
            let mut permissions = attributes.permissions;
            if let Err(error) = self.set_owner(attributes) {
                // The user who copies does not get rights that belonged to the source's owner.
                permissions &= 0o1777;
                let (uid, gid) = (attributes.uid, attributes.gid);
                lost.push(format!("owner {uid}:{gid} not kept: {error}; only root may give files away"));
            }
            if attributes.kind != FileKind::Symlink {
                self.forget_lists(extended);
                if let Err(error) = self.set_permissions(permissions) {
                    lost.push(format!("permissions {permissions:o} not kept: {error}"));
                }
            }
        }
        for (name, value) in extended {
            match self.set_attribute(keep, name, value) {
                Ok(()) => (),
                Err(problem) => {
                    let name = String::from_utf8_lossy(name);
                    lost.push(format!("extended attribute `{name}` not kept: {problem}"));
                }
            }
        }
        if let Err(error) = self.set_times(attributes) {
            lost.push(format!("times not kept: {error}"));
        }
        lost
    }

    fn set_owner(&self, attributes: &Attributes) -> Result<(), Errno> {
        let (uid, gid) = (Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)));
        match self {
            Copied::Open(file) => rustix::fs::fchown(file, uid, gid),
            Copied::Named(directory, name) => chownat(directory, *name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Removes access control lists that the copy inherited from its directory.
    fn forget_lists(&self, extended: &ExtendedAttributes) {
        for list in LISTS.iter().filter(|list| !extended.iter().any(|(name, _)| name == list.as_bytes())) {
            // There is no list, or the file system has none at all.
            let _ = self.with_path(|path| rustix::fs::removexattr(path, *list));
        }
    }

    pub(super) fn set_permissions(&self, permissions: u16) -> std::io::Result<()> {
        let mode = Permissions::from_mode(u32::from(permissions));
        match self {
            Copied::Open(file) => file.set_permissions(mode),
            Copied::Named(..) => self.with_path(|path| Ok(std::fs::set_permissions(path, mode)))?,
        }
    }

    fn set_attribute(&self, keep: Keep, name: &[u8], value: &[u8]) -> Result<(), String> {
        let needs_root = name.starts_with(b"trusted.") || name.starts_with(b"security.");
        let is_everybodys = name.starts_with(b"user.");
        match keep {
            Keep::Content if !is_everybodys => return Ok(()),
            Keep::All if needs_root && !is_root() => return Err("only root may set it".into()),
            _ => (),
        }
        let set = self.with_path(|path| rustix::fs::setxattr(path, name, value, XattrFlags::empty()));
        set.map_err(|error| error.to_string())
    }

    fn set_times(&self, attributes: &Attributes) -> Result<(), Errno> {
        let times =
            Timestamps { last_access: timespec(attributes.accessed), last_modification: timespec(attributes.modified) };
        match self {
            Copied::Open(file) => futimens(file, &times),
            Copied::Named(directory, name) => utimensat(directory, *name, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Calls `work` with a path that leads to the copy by its descriptor, so no name is looked up again and no link
    /// followed.
    fn with_path<T>(&self, work: impl FnOnce(&str) -> Result<T, Errno>) -> Result<T, Errno> {
        let found;
        let file = match self {
            Copied::Open(file) => *file,
            Copied::Named(directory, name) => {
                let opened = handle(directory, name);
                found = opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                &found
            }
        };
        work(&format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
}

/// Removes owner rights that a new directory needed only while it was filled.
pub(super) fn take_back(directory: &File, wanted: u16) -> std::io::Result<()> {
    let surplus = 0o700 & !u32::from(wanted);
    if surplus == 0 {
        return Ok(());
    }
    let mode = directory.metadata()?.mode() & 0o7777;
    directory.set_permissions(Permissions::from_mode(mode & !surplus))
}

fn timespec(stamp: Timestamp) -> Timespec {
    Timespec { tv_sec: stamp.seconds, tv_nsec: stamp.nanoseconds.min(999_999_999).into() }
}
