//! Rename: the only operation that changes two directories, two inodes and, for a moved directory, a third name (`..`).

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::dir::{ENTRY_CREDITS, Found, REMOVE_CREDITS};
use super::inodes::Node;
use super::truncate::DELETE_CREDITS;
use super::views::Directories;
use crate::api::{FsError, FsResult, Ino, RenameManner};
use crate::names::{check_name, display};

const RENAME_CREDITS: usize = ENTRY_CREDITS + 3 * REMOVE_CREDITS + 6 + DELETE_CREDITS;

type Name<'a> = (&'a Rc<Node>, &'a [u8]);

impl Directories<'_> {
    /// Renames with both directories locked; see `FileSystem::rename`.
    pub(super) async fn rename_locked(&self, from: Name<'_>, to: Name<'_>, manner: RenameManner) -> FsResult<()> {
        let missing = || FsError::NotFound(display(from.1));
        let found = self.find_entry(from.0, from.1).await?.ok_or_else(missing)?;
        check_name(to.1)?;
        let node = self.node(found.ino).await?;
        let replaced = self.find_entry(to.0, to.1).await?;
        match (replaced, manner) {
            (None, RenameManner::Exchange) => {
                return Err(FsError::NotFound(display(to.1)));
            }
            (Some(_), RenameManner::NoReplace) => {
                return Err(FsError::Exists(display(to.1)));
            }
            _ => (),
        }
        if node.is_directory() {
            self.expect_outside(&node, to.0).await?;
        }
        match (replaced, manner) {
            (None, _) => self.move_name(from, to, (&node, found)).await,
            (Some(other), _) if other.ino == found.ino => Ok(()),
            (Some(other), RenameManner::Exchange) => self.exchange(from, to, (&node, found), other).await,
            (Some(other), _) => {
                self.contents().write_before_replacing(&node).await;
                self.replace(from, to, (&node, found), other).await
            }
        }
    }

    /// # Errors
    /// [`FsError::Invalid`] if `directory` is `node` or lies below it.
    async fn expect_outside(&self, node: &Node, directory: &Rc<Node>) -> FsResult<()> {
        let (mut above, mut seen) = (Rc::clone(directory), FxHashSet::default());
        loop {
            if !seen.insert(above.number()) {
                let place = format!("`..` of directory {}", above.ino());
                return Err(FsError::Damaged { place, problem: "leads back to it, not to the root".into() });
            }
            if above.number() == node.number() {
                return Err(FsError::Invalid(format!("{} cannot be moved into itself", node.ino())));
            }
            if above.number() == super::format::ROOT_INODE {
                return Ok(());
            }
            above = self.parent_of(&above).await?;
        }
    }

    async fn parent_of(&self, directory: &Node) -> FsResult<Rc<Node>> {
        let missing = || FsError::Damaged { place: directory.ino().to_string(), problem: "has no `..`".into() };
        let found = self.find_entry(directory, b"..").await?.ok_or_else(missing)?;
        let parent = self.node(found.ino).await?;
        parent.expect_directory()?;
        Ok(parent)
    }

    async fn move_name(&self, from: Name<'_>, to: Name<'_>, (node, found): (&Rc<Node>, Found)) -> FsResult<()> {
        let _held = node.lock().write().await;
        self.load_to_move(node, &[from.0, to.0]).await?;
        let mut handle = self.journal().start(RENAME_CREDITS).await?;
        self.add_entry(&mut handle, to.0, to.1, (node.ino(), node.kind())).await?;
        // Adding may have split the block that held the old name.
        let found = if from.0.number() == to.0.number() {
            self.find_entry(from.0, from.1).await?.unwrap_or(found)
        } else {
            found
        };
        self.remove_entry_of(&mut handle, from.0, found).await?;
        let moved = i32::from(node.is_directory() && from.0.number() != to.0.number());
        onewrite_block::reached!("directory moves to another parent", moved == 1);
        self.finish(&mut handle, node, (from.0, -moved), (to.0, moved)).await
    }

    async fn replace(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        (node, found): (&Rc<Node>, Found),
        replaced: Found,
    ) -> FsResult<()> {
        let victim = self.node(replaced.ino).await?;
        let name = || display(to.1);
        if victim.is_directory() {
            onewrite_block::reached!("rename replaces a directory");
            // The victim may contain the moved inode, at any depth.
            self.expect_outside(&victim, from.0).await.map_err(|error| match error {
                FsError::Invalid(_) => FsError::NotEmpty(name()),
                other => other,
            })?;
        }
        match (node.is_directory(), victim.is_directory()) {
            (true, false) => return Err(FsError::NotDirectory(name())),
            (false, true) => return Err(FsError::IsDirectory(name())),
            (true, true) if !self.is_empty_directory(&victim).await? => return Err(FsError::NotEmpty(name())),
            _ => (),
        }
        let (first, second) = if node.number() < victim.number() { (node, &victim) } else { (&victim, node) };
        let _held = (first.lock().write().await, second.lock().write().await);
        self.load_to_move(node, &[]).await?;
        self.load_to_drop(&victim, &[from.0, to.0]).await?;
        let mut handle = self.journal().start(RENAME_CREDITS).await?;
        self.replace_entry(&mut handle, to.0, replaced, (node.ino(), node.kind())).await?;
        self.remove_entry_of(&mut handle, from.0, found).await?;
        // The `..` of a victim directory disappears; the `..` of a moved directory moves with it.
        let gone = i32::from(victim.is_directory());
        let moved = i32::from(node.is_directory() && from.0.number() != to.0.number());
        let (source_links, target_links) = match from.0.number() == to.0.number() {
            true => (0, -gone),
            false => (-moved, moved - gone),
        };
        self.finish(&mut handle, node, (from.0, source_links), (to.0, target_links)).await?;
        onewrite_block::reached!("rename replaces an open file", victim.is_open());
        onewrite_block::reached!("rename takes the last name of a file", victim.inode().links == 1);
        self.drop_link(handle, &victim).await
    }

    async fn exchange(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        (node, found): (&Rc<Node>, Found),
        other_found: Found,
    ) -> FsResult<()> {
        let other = self.node(other_found.ino).await?;
        if other.is_directory() {
            self.expect_outside(&other, from.0).await?;
        }
        let (first, second) = if node.number() < other.number() { (node, &other) } else { (&other, node) };
        let _held = (first.lock().write().await, second.lock().write().await);
        self.load_to_move(node, &[]).await?;
        self.load_to_move(&other, &[from.0, to.0]).await?;
        let mut handle = self.journal().start(RENAME_CREDITS).await?;
        self.replace_entry(&mut handle, to.0, other_found, (node.ino(), node.kind())).await?;
        self.replace_entry(&mut handle, from.0, found, (other.ino(), other.kind())).await?;
        let crosses = from.0.number() != to.0.number();
        let (one, two) = (i32::from(node.is_directory() && crosses), i32::from(other.is_directory() && crosses));
        self.finish(&mut handle, node, (from.0, two - one), (to.0, one - two)).await?;
        if two == 1 {
            onewrite_block::reached!("exchange moves a directory");
            self.set_parent(&mut handle, &other, from.0.ino()).await?;
        }
        self.touch(&mut handle, &other, 0).await
    }

    /// Brings into memory what stamping these inodes and giving a moved directory its new `..` need, so that a device
    /// that cannot read it refuses before anything has changed.
    async fn load_to_move(&self, node: &Node, directories: &[&Rc<Node>]) -> FsResult<()> {
        for directory in directories {
            self.load_inode_block(directory.number()).await?;
        }
        if node.is_directory() {
            self.find_entry(node, b"..").await?;
        }
        self.load_inode_block(node.number()).await
    }

    /// Stamps the inodes that a rename changed; gives a moved directory its new `..`.
    async fn finish(
        &self,
        handle: &mut crate::journal::Handle,
        node: &Node,
        source: (&Node, i32),
        target: (&Node, i32),
    ) -> FsResult<()> {
        let crosses = source.0.number() != target.0.number();
        if crosses && node.is_directory() {
            self.set_parent(handle, node, target.0.ino()).await?;
        }
        self.touch(handle, node, 0).await?;
        self.touch_directory(handle, target.0, target.1).await?;
        if crosses { self.touch_directory(handle, source.0, source.1).await } else { Ok(()) }
    }

    async fn set_parent(&self, handle: &mut crate::journal::Handle, node: &Node, parent: Ino) -> FsResult<()> {
        let missing = || FsError::Damaged { place: node.ino().to_string(), problem: "has no `..`".into() };
        let found = self.find_entry(node, b"..").await?.ok_or_else(missing)?;
        self.replace_entry(handle, node, found, (parent, crate::api::FileKind::Directory)).await
    }
}
