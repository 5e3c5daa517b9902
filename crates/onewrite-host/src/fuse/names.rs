//! Names: lookups, and the requests that make, remove and move them.

use fuser::{Errno, INodeNo, RenameFlags};
use onewrite_fs::{
    AttributeChanges, AttributeManner, Attributes, DeviceNumber, FileKind, FsError, Ino, NewNode, RenameManner,
};

use super::acl::{ACCESS, Acl, DEFAULT};
use super::convert::{Answer, Caller};
use super::files::TRUNCATE;
use super::handles::Opened;
use super::server::{Mountable, Server};

/// Set-group-ID, a permission bit: new inodes in such a directory get its group.
const SET_GROUP: u16 = 0o2000;

/// The inode that a program wants to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) kind: FileKind,
    /// The 12 permission bits before the umask.
    pub(super) permissions: u16,
    pub(super) umask: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The device that a device node names.
    pub(super) device: DeviceNumber,
}

impl<F: Mountable> Server<F> {
    /// Looks up a name; `None` if it does not exist. The kernel may cache that too.
    pub(super) async fn lookup(&self, directory: Ino, name: &[u8]) -> Answer<Option<Attributes>> {
        let found = match name {
            b"." => self.fs.attributes_by_number(directory).await,
            _ => self.fs.lookup_attributes(directory, name).await,
        };
        match found {
            Ok(found) => {
                let found = self.tell(found);
                self.note_name(found.ino, name);
                Ok(Some(found))
            }
            Err(FsError::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the wished inode, with owner, group and access control lists as on Linux.
    ///
    /// If the directory has a default list, the new inode begins with fewer permissions than it will have. So a power
    /// cut between its creation and its list gives nobody extra access.
    pub(super) async fn make(&self, directory: Ino, name: &[u8], wish: Wish) -> Answer<Attributes> {
        let parent = self.fs.attributes(directory).await?;
        let is_directory = wish.kind == FileKind::Directory;
        let inherits_group = parent.permissions & SET_GROUP != 0;
        let gid = if inherits_group { parent.gid } else { wish.gid };
        let set_group = if inherits_group && is_directory { SET_GROUP } else { 0 };
        let default = self.acl(directory, DEFAULT).await;
        let asked = wish.permissions | set_group;
        let permissions = match &default {
            Some(_) => asked & !0o077,
            None => asked & !wish.umask,
        };
        let node = NewNode { kind: wish.kind, permissions, uid: wish.uid, gid, device: wish.device };
        let made = self.fs.create_attributes(directory, name, node).await?;
        let Some(default) = default else { return Ok(self.tell_new(made, name)) };
        if is_directory {
            self.set_acl(made.ino, DEFAULT, &default).await?;
        }
        let access = default.inherited(asked);
        if !access.is_minimal() {
            self.set_acl(made.ino, ACCESS, &access).await?;
        }
        let permissions = Some(asked & 0o7000 | access.permissions());
        self.fs.set_attributes(made.ino, AttributeChanges { permissions, ..AttributeChanges::default() }).await?;
        Ok(self.tell_new(self.fs.attributes(made.ino).await?, name))
    }

    fn tell_new(&self, made: Attributes, name: &[u8]) -> Attributes {
        let made = self.tell(made);
        self.note_name(made.ino, name);
        made
    }

    /// Makes a file and opens it with `flags`. It is empty already: to truncate it would take its set-ID bits.
    pub(super) async fn make_open(
        &self,
        directory: INodeNo,
        name: &[u8],
        (wish, flags): (Wish, i32),
    ) -> Answer<(Attributes, Opened)> {
        let uid = wish.uid;
        let made = self.make(self.numbers.inside(directory), name, wish).await?;
        let opened = self.open(made.ino, flags & !TRUNCATE, uid).await?;
        Ok((made, opened))
    }

    async fn set_acl(&self, ino: Ino, name: &[u8], acl: &Acl) -> Answer<()> {
        Ok(self.fs.set_extended_attribute(ino, name, Some(&acl.value()), AttributeManner::Either).await?)
    }

    pub(super) async fn symlink(
        &self,
        directory: Ino,
        name: &[u8],
        target: &[u8],
        owner: Caller,
    ) -> Answer<Attributes> {
        let ino = self.fs.symlink(directory, name, target).await?;
        let parent = self.fs.attributes(directory).await?;
        let gid = if parent.permissions & SET_GROUP != 0 { parent.gid } else { owner.gid };
        if (owner.uid, gid) != (0, 0) {
            let changes = AttributeChanges { uid: Some(owner.uid), gid: Some(gid), ..AttributeChanges::default() };
            self.fs.set_attributes(ino, changes).await?;
        }
        Ok(self.tell(self.fs.attributes(ino).await?))
    }

    pub(super) async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> Answer<Attributes> {
        self.fs.link(ino, directory, name).await?;
        Ok(self.tell_new(self.fs.attributes(ino).await?, name))
    }

    pub(super) async fn unlink(&self, directory: Ino, name: &[u8]) -> Answer<()> {
        let victim = self.keep_victim(directory, name).await?;
        let done = self.fs.unlink(directory, name).await;
        self.judge_victim(victim).await?;
        Ok(done?)
    }

    pub(super) async fn remove_directory(&self, directory: Ino, name: &[u8]) -> Answer<()> {
        let victim = self.keep_victim(directory, name).await?;
        let done = self.fs.remove_directory(directory, name).await;
        self.judge_victim(victim).await?;
        Ok(done?)
    }

    pub(super) async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Answer<()> {
        let manner = match flags {
            RenameFlags::RENAME_NOREPLACE => RenameManner::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameManner::Exchange,
            flags if flags.is_empty() => RenameManner::Replace,
            _ => return Err(Errno::EINVAL.into()),
        };
        let victim = match manner {
            RenameManner::Replace => match self.keep_victim(to.0, to.1).await {
                Err(FsError::NotFound(_)) => None,
                other => other?,
            },
            _ => None,
        };
        let done = self.fs.rename(from, to, manner).await;
        self.judge_victim(victim).await?;
        done?;
        self.note_new_name(to.0, to.1).await?;
        if manner == RenameManner::Exchange {
            self.note_new_name(from.0, from.1).await?;
        }
        Ok(())
    }

    pub(super) async fn forget(&self, ino: Ino, lookups: u64) {
        if self.known.forgot(ino, lookups)
            && let Err(error) = self.fs.release(ino).await
        {
            tracing::error!("{ino}, which has no name left, could not be removed: {error}");
        }
    }
}
