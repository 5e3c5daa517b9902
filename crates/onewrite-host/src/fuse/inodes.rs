//! Inodes: requests about attributes, extended attributes and the whole file system.

use fuser::{Errno, TimeOrNow};
use onewrite_fs::{AttributeChanges, AttributeManner, Attributes, FileKind, FsError, Ino, Space, Timestamp};

use super::acl::{ACCESS, Acl, DEFAULT};
use super::convert::{Answer, Caller, timestamp};
use super::handles::{self, Open};
use super::marks::MARK;
use super::server::{Mountable, Server};
use super::{STATS_ATTRIBUTE, SYNC_ATTRIBUTE};

/// `XATTR_CREATE` and `XATTR_REPLACE` of setxattr(2).
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// The attribute with the capabilities that a program file gives to its process.
const CAPABILITY: &[u8] = b"security.capability";

/// Attributes that a program sets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
    /// The open file through which they are set; 0 if there is none.
    pub(super) handle: u64,
    /// User id of the program that sets them.
    pub(super) caller: u32,
}

/// Whether who writes to a file may keep its set-ID bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    KeepsSetId,
    DropsSetId,
}

impl<F: Mountable> Server<F> {
    pub(super) async fn set_attributes(&self, ino: Ino, change: Change) -> Answer<Attributes> {
        self.known.forget_plain(ino);
        let now = self.civil_now();
        let time = |wanted: TimeOrNow| match wanted {
            TimeOrNow::SpecificTime(time) => timestamp(time),
            TimeOrNow::Now => now,
        };
        let mut permissions = change.mode.map(|mode| (mode & 0o7777) as u16);
        let is_chown = change.uid.is_some() || change.gid.is_some();
        if permissions.is_none() && (is_chown || (change.size.is_some() && change.caller != 0)) {
            permissions = self.without_set_id(ino).await?;
        }
        if is_chown || change.size.is_some() {
            self.drop_capability(ino).await?;
        }
        if let Some(permissions) = permissions.filter(|_| change.mode.is_some()) {
            self.carry_over(ino, permissions).await?;
        }
        let mut changes = AttributeChanges {
            permissions,
            uid: change.uid,
            gid: change.gid,
            size: change.size,
            accessed: change.accessed.map(time),
            modified: change.modified.map(time),
        };
        if let Some(size) = change.size {
            let open = Open { ino, handle: change.handle };
            let is_cut = (1..self.fs.attributes(ino).await?.size).contains(&size) && self.handles.has_committed(open);
            let kind = if is_cut { handles::Change::Cut } else { handles::Change::Other };
            if let Some(draft) = self.draft_to_change(open, kind).await? {
                self.fs.draft_set_size(draft, ino, size).await?;
                changes.size = None;
            }
        }
        if changes != AttributeChanges::default() {
            self.fs.set_attributes(ino, changes).await?;
        }
        Ok(self.fs.attributes(ino).await?)
    }

    fn civil_now(&self) -> Timestamp {
        Timestamp::from_nanos(self.civil_nanos())
    }

    /// The permission bits of what is no directory without set-user-ID and set-group-ID; `None` if neither is set.
    /// Set-group-ID without group execution is not a privilege.
    async fn without_set_id(&self, ino: Ino) -> Answer<Option<u16>> {
        let found = self.fs.attributes(ino).await?;
        let before = found.permissions;
        let group = if before & 0o010 != 0 { 0o2000 } else { 0 };
        let after = before & !(0o4000 | group);
        Ok((found.kind != FileKind::Directory && after != before).then_some(after))
    }

    /// Removes file capabilities, as a change of content or owner must; returns false if there were none.
    async fn drop_capability(&self, ino: Ino) -> Answer<bool> {
        match self.fs.set_extended_attribute(ino, CAPABILITY, None, AttributeManner::Either).await {
            Ok(()) => Ok(true),
            Err(FsError::NoData(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Before a write: removes the file's capabilities, and its set-ID bits if the writer may not keep them. The kernel
    /// leaves this to the file system (`FUSE_HANDLE_KILLPRIV_V2`).
    pub(super) async fn drop_privileges(&self, ino: Ino, writer: Writer) -> Answer<()> {
        if self.known.is_plain(ino) {
            return Ok(());
        }
        let without = self.without_set_id(ino).await?;
        let removes = writer == Writer::DropsSetId;
        if removes && without.is_some() {
            let changes = AttributeChanges { permissions: without, ..AttributeChanges::default() };
            self.fs.set_attributes(ino, changes).await?;
        }
        self.drop_capability(ino).await?;
        if removes || without.is_none() {
            self.known.note_plain(ino);
        }
        Ok(())
    }

    /// Changes the access control list, if there is one, after a `chmod`.
    async fn carry_over(&self, ino: Ino, permissions: u16) -> Answer<()> {
        let Some(acl) = self.acl(ino, ACCESS).await else { return Ok(()) };
        let value = acl.with_permissions(permissions).value();
        Ok(self.fs.set_extended_attribute(ino, ACCESS, Some(&value), AttributeManner::Replace).await?)
    }

    pub(super) async fn extended_attribute(&self, ino: Ino, name: &[u8], caller: u32) -> Answer<Vec<u8>> {
        if name == STATS_ATTRIBUTE.as_bytes() && ino == self.fs.root() {
            return match caller == 0 || caller == self.owner {
                true => serde_json::to_vec(&self.stats()).map_err(|_| Errno::EIO.into()),
                false => Err(Errno::EACCES.into()),
            };
        }
        if name == SYNC_ATTRIBUTE.as_bytes() && ino == self.fs.root() {
            return match caller == 0 || caller == self.owner {
                true => Ok(self.fs.sync().await.map(|()| Vec::new())?),
                false => Err(Errno::EACCES.into()),
            };
        }
        Ok(self.fs.extended_attribute(ino, name).await?)
    }

    /// All names, each with a zero byte behind it.
    pub(super) async fn extended_attributes(&self, ino: Ino) -> Answer<Vec<u8>> {
        let names = self.fs.extended_attributes(ino).await?;
        Ok(names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect())
    }

    pub(super) async fn set_extended_attribute(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: i32,
        caller: Caller,
    ) -> Answer<()> {
        let manner = match flags {
            0 => AttributeManner::Either,
            CREATE => AttributeManner::Create,
            REPLACE => AttributeManner::Replace,
            _ => return Err(Errno::EINVAL.into()),
        };
        if name == MARK {
            self.check_drafts(ino)?;
        }
        if name == CAPABILITY {
            self.known.forget_plain(ino);
        }
        if name == ACCESS {
            return self.set_access(ino, value, caller).await;
        }
        if name == DEFAULT && Acl::parse(value).is_none() {
            return Err(Errno::EINVAL.into());
        }
        Ok(self.fs.set_extended_attribute(ino, name, Some(value), manner).await?)
    }

    /// Sets the access list of an inode: always as permission bits, and as a list only if permission bits alone cannot
    /// express it.
    async fn set_access(&self, ino: Ino, value: &[u8], caller: Caller) -> Answer<()> {
        let acl = Acl::parse(value).ok_or(Errno::EINVAL)?;
        match acl.is_minimal() {
            true => self.remove_access(ino).await?,
            false => self.fs.set_extended_attribute(ino, ACCESS, Some(value), AttributeManner::Either).await?,
        }
        let found = self.fs.attributes(ino).await?;
        let keeps_group = caller.uid == 0 || caller.gid == found.gid;
        let upper = found.permissions & if keeps_group { 0o7000 } else { 0o5000 };
        let permissions = Some(upper | acl.permissions());
        Ok(self.fs.set_attributes(ino, AttributeChanges { permissions, ..AttributeChanges::default() }).await?)
    }

    async fn remove_access(&self, ino: Ino) -> Answer<()> {
        match self.fs.set_extended_attribute(ino, ACCESS, None, AttributeManner::Either).await {
            Ok(()) | Err(FsError::NoData(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn remove_extended_attribute(&self, ino: Ino, name: &[u8]) -> Answer<()> {
        Ok(self.fs.set_extended_attribute(ino, name, None, AttributeManner::Replace).await?)
    }

    pub(super) async fn space(&self) -> Answer<Space> {
        Ok(self.fs.space().await?)
    }
}
