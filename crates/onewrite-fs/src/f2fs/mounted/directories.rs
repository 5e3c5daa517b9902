//! Directories: names in blocks, found by their hash on one of the levels.
//!
//! A cursor is 214 times the block plus the slot behind the last returned name, as in the view.

use std::rc::Rc;

use onewrite_block::Page;

use super::file::File;
use super::name_index::{Holders, Known, NameIndex};
use super::views::Directories;
use crate::api::{DirectoryEntry, FileKind, FsError, FsResult, Ino};
use crate::f2fs::format::dentry::{self, BLOCK_SLOTS, Entry, NAME_MAX, NewEntry, Shape};
use crate::f2fs::format::hash::name_hash;
use crate::f2fs::format::inode::{DEPTH_MAX, inline};
use crate::f2fs::format::{FormatError, Nid, Place};
use crate::names::display;
use crate::pages::{PAGE_BYTES, PagedFile, page_key};

const SLOTS: u64 = BLOCK_SLOTS as u64;
/// Levels from which on a directory has an index of names: a look-up reads few blocks of a smaller one.
const INDEXED_FROM: u32 = 2;

/// A name that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundName {
    pub(super) nid: Nid,
    pub(super) kind: FileKind,
    /// Its block.
    logical: u64,
    slot: usize,
    slot_end: usize,
}

impl FoundName {
    pub(super) fn ino(&self) -> Ino {
        self.nid.into()
    }
}

/// Where a search that missed a name first saw room for one of its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vacancy {
    level: u32,
    logical: u64,
}

/// A name for which blocks are searched.
struct Wanted<'a> {
    name: &'a [u8],
    /// Free slots beside each other that are searched, too; 0 if some were seen.
    slots: usize,
}

impl Wanted<'_> {
    /// What the index says of a block and of the `holders` of the name's hash; `None` if the block has to be read.
    fn known_in(&self, index: &NameIndex, logical: u64, holders: Option<Holders>) -> Option<Looked> {
        if index.may_hold(logical, holders) {
            return None;
        }
        match index.known(logical) {
            Known::Hole => Some(Looked::Room),
            _ if self.slots > 0 && index.may_have_room(logical, self.slots) => None,
            _ => Some(Looked::Nothing),
        }
    }
}

/// What a search sees in a block.
enum Looked {
    Found(FoundName),
    /// Not the name, but room for it.
    Room,
    Nothing,
}

/// What a search gives.
enum Searched {
    Found(FoundName),
    Absent(Vacancy),
}

impl Directories<'_> {
    pub(super) async fn directory(&self, ino: Ino) -> FsResult<Rc<File>> {
        let directory = self.nodes().file(ino).await?;
        directory.expect_directory()?;
        Ok(directory)
    }

    /// A block of a directory; `None` for a hole. It stays in memory at least until the next wait.
    async fn names_block(&self, directory: &Rc<File>, logical: u64) -> FsResult<Option<Page>> {
        if !self.pages.holds(page_key(&**directory, logical)) && !self.contents().is_named(directory, logical).await? {
            return Ok(None);
        }
        Ok(Some(self.pages.file_page(self.volume(), directory, logical, logical + 1).await?))
    }

    /// Finds a name. The caller holds the directory's lock.
    pub(super) async fn find_name(&self, directory: &Rc<File>, name: &[u8]) -> FsResult<Option<FoundName>> {
        Ok(match self.search(directory, name).await? {
            Searched::Found(found) => Some(found),
            Searched::Absent(_) => None,
        })
    }

    async fn search(&self, directory: &Rc<File>, name: &[u8]) -> FsResult<Searched> {
        if name.len() > NAME_MAX {
            return Err(FsError::NameTooLong(name.len()));
        }
        let place = Place::Inode(directory.number());
        if directory.has_inline(inline::DENTRY) {
            let bytes = self.contents().inline_bytes(directory).await?;
            let found = found_in(&bytes, Shape::inline(bytes.len()), place, 0, name);
            return Ok(found.map_or(Searched::Absent(Vacancy::default()), Searched::Found));
        }
        let (hash, blocks) = (name_hash(name), directory.size().div_ceil(PAGE_BYTES));
        let (depth, start) = (directory.raw().i_current_depth.get().min(DEPTH_MAX), directory.raw().i_dir_level);
        let mut vacancy = None;
        let mut holders = directory.names().holders(hash);
        for level in 0..depth {
            let bucket = dentry::bucket(level, start, hash);
            if bucket.start >= blocks {
                vacancy.get_or_insert(Vacancy { level, logical: bucket.start });
                break;
            }
            for logical in bucket {
                let slots = if vacancy.is_none() { dentry::slots_of(name) } else { 0 };
                let wanted = Wanted { name, slots };
                let known = wanted.known_in(&directory.names(), logical, holders);
                let looked = match known {
                    Some(looked) => looked,
                    None => {
                        let looked = self.look_in(directory, logical, &wanted).await?;
                        holders = directory.names().holders(hash);
                        looked
                    }
                };
                match looked {
                    Looked::Found(found) => return Ok(Searched::Found(found)),
                    Looked::Room => _ = vacancy.get_or_insert(Vacancy { level, logical }),
                    Looked::Nothing => (),
                }
            }
        }
        Ok(Searched::Absent(vacancy.unwrap_or(Vacancy { level: depth, logical: 0 })))
    }

    /// Looks into a block for a name, and for room.
    async fn look_in(&self, directory: &Rc<File>, logical: u64, wanted: &Wanted<'_>) -> FsResult<Looked> {
        let Some(page) = self.names_block(directory, logical).await? else {
            if is_indexed(directory) {
                directory.names().note_hole(logical);
            }
            return Ok(Looked::Room);
        };
        let bytes = page.bytes();
        self.learn_names(directory, logical, &bytes[..]);
        let place = Place::Inode(directory.number());
        if let Some(found) = found_in(&bytes[..], Shape::BLOCK, place, logical, wanted.name) {
            return Ok(Looked::Found(found));
        }
        if wanted.slots == 0 {
            return Ok(Looked::Nothing);
        }
        if dentry::room(&bytes[..], Shape::BLOCK, wanted.slots).is_some() {
            return Ok(Looked::Room);
        }
        directory.names().note_room(logical, wanted.slots - 1);
        Ok(Looked::Nothing)
    }

    /// Lets the index know the names of a block. A small directory has no index.
    fn learn_names(&self, directory: &File, logical: u64, bytes: &[u8]) {
        if !is_indexed(directory) {
            return directory.names().forget();
        }
        if !matches!(directory.names().known(logical), Known::Names { .. }) {
            let names = dentry::entries(bytes, Shape::BLOCK, Place::Inode(directory.number()), 0);
            let Ok(names) = names.collect::<Result<Vec<Entry<'_>>, _>>() else { return };
            let slots: usize = names.iter().map(|entry| entry.slot_end - entry.slot).sum();
            // In a damaged block a change of one name may change another, which nobody tells the index.
            if slots == dentry::used_slots(bytes, Shape::BLOCK) {
                directory.names().learn(logical, names.iter().map(Entry::expected_hash));
                self.files.note_indexed(BLOCK_SLOTS);
            }
        }
    }

    pub(super) async fn expect_name(&self, directory: &Rc<File>, name: &[u8]) -> FsResult<FoundName> {
        self.find_name(directory, name).await?.ok_or_else(|| FsError::NotFound(display(name)))
    }

    /// Where the name may go, for [`Directories::add_name_to`].
    ///
    /// # Errors
    /// [`FsError::Exists`] if it is there.
    pub(super) async fn expect_absent(&self, directory: &Rc<File>, name: &[u8]) -> FsResult<Vacancy> {
        match self.search(directory, name).await? {
            Searched::Found(_) => Err(FsError::Exists(display(name))),
            Searched::Absent(vacancy) => Ok(vacancy),
        }
    }

    /// Some names from `cursor` on; none at the end. The caller holds the directory's lock.
    pub(super) async fn names_from(&self, directory: &Rc<File>, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        let place = Place::Inode(directory.number());
        if directory.has_inline(inline::DENTRY) {
            let bytes = self.contents().inline_bytes(directory).await?;
            return listed(dentry::entries(&bytes, Shape::inline(bytes.len()), place, cursor.min(SLOTS) as usize), 0);
        }
        let blocks = directory.size().div_ceil(PAGE_BYTES);
        let (mut logical, mut from) = (cursor / SLOTS, (cursor % SLOTS) as usize);
        while logical < blocks {
            if let Some(page) = self.names_block(directory, logical).await? {
                let level = directory.raw().i_dir_level;
                let bytes = page.bytes();
                let entries = dentry::entries(&bytes[..], Shape::BLOCK, place, from);
                let names = listed(entries.map(|entry| entry?.in_its_bucket(place, level, logical)), logical * SLOTS)?;
                if !names.is_empty() {
                    return Ok(names);
                }
            }
            (logical, from) = (logical + self.hole_from(directory, logical).await?.max(1), 0);
        }
        Ok(Vec::new())
    }

    /// Blocks from `logical` on that no node names.
    async fn hole_from(&self, directory: &Rc<File>, logical: u64) -> FsResult<u64> {
        Ok(match self.maps().find(directory, logical).await? {
            super::map::Named::Nothing { count } => count,
            super::map::Named::By(_) => 0,
        })
    }

    pub(super) async fn is_empty_directory(&self, directory: &Rc<File>) -> FsResult<bool> {
        let mut cursor = 0;
        loop {
            let names = self.names_from(directory, cursor).await?;
            let Some(last) = names.last() else { return Ok(true) };
            if names.iter().any(|entry| entry.name != b"." && entry.name != b"..") {
                return Ok(false);
            }
            cursor = last.next;
        }
    }

    /// Adds a name that is not there. The caller holds the directory's lock alone, and `changes`.
    pub(super) async fn add_name(&self, directory: &Rc<File>, new: NewEntry<'_>) -> FsResult<()> {
        self.add_name_to(directory, new, Vacancy::default()).await
    }

    /// As [`Directories::add_name`], from where a search for the name saw room on: the caller has held the lock since.
    pub(super) async fn add_name_to(&self, directory: &Rc<File>, new: NewEntry<'_>, vacancy: Vacancy) -> FsResult<()> {
        self.contents().move_out_names(directory).await?;
        self.add_moved_out(directory, new, vacancy).await
    }

    /// As [`Directories::add_name_to`], to a directory whose names lie in blocks.
    pub(super) async fn add_moved_out(
        &self,
        directory: &Rc<File>,
        new: NewEntry<'_>,
        vacancy: Vacancy,
    ) -> FsResult<()> {
        let (hash, slots) = (name_hash(new.name), dentry::slots_of(new.name));
        let start = directory.raw().i_dir_level;
        for level in vacancy.level..DEPTH_MAX {
            if level >= directory.raw().i_current_depth.get() {
                onewrite_block::reached!("directory of F2FS gets a level", level > 0);
                directory.change_raw(|raw| raw.i_current_depth.set(level + 1));
                self.nodes().note_unsaved(directory);
            }
            for logical in dentry::bucket(level, start, hash).filter(|logical| *logical >= vacancy.logical) {
                let Some(page) = self.names_block(directory, logical).await? else {
                    Box::pin(self.make_names_block(directory, logical)).await?;
                    self.insert_name(directory, (logical, 0), new, hash);
                    return Ok(());
                };
                let room = dentry::room(&page.bytes()[..], Shape::BLOCK, slots);
                drop(page);
                if let Some(slot) = room {
                    self.insert_name(directory, (logical, slot), new, hash);
                    return Ok(());
                }
            }
        }
        Err(FsError::NoSpace { what: "levels of a directory", needed: 1, free: 0 })
    }

    /// Puts a name of this hash into a block that is in memory.
    fn insert_name(&self, directory: &Rc<File>, (logical, slot): (u64, usize), new: NewEntry<'_>, hash: u32) {
        self.change_names(directory, logical, |bytes| dentry::insert(bytes, Shape::BLOCK, slot, new));
        directory.names().add(logical, hash);
        self.files.note_indexed(1);
    }

    /// Makes an empty block of names, in memory at least until the next wait.
    async fn make_names_block(&self, directory: &Rc<File>, logical: u64) -> FsResult<()> {
        self.pages.make_room(self.volume()).await?;
        let (_, outcome) = self.contents().reserve_pages(directory, logical..logical + 1).await;
        outcome?;
        self.pages.insert(page_key(&**directory, logical), Page::ZEROS);
        self.learn_names(directory, logical, &[0; PAGE_BYTES as usize]);
        let end = (logical + 1) * PAGE_BYTES;
        if end > directory.size() {
            directory.change_raw(|raw| raw.i_size.set(end));
            self.nodes().note_unsaved(directory);
        }
        Ok(())
    }

    /// Changes a block of names that is in memory.
    fn change_names(&self, directory: &Rc<File>, logical: u64, change: impl FnOnce(&mut [u8])) {
        self.pages.change_compared(&**directory, logical, change);
        self.note_names(directory);
    }

    /// Removes a name. The caller holds the directory's lock alone, and `changes`.
    pub(super) async fn remove_name(&self, directory: &Rc<File>, name: &[u8]) -> FsResult<()> {
        let found = self.expect_name(directory, name).await?;
        self.remove_found(directory, name, found).await
    }

    /// As [`Directories::remove_name`], for a name that was found: the caller has held the lock since.
    pub(super) async fn remove_found(&self, directory: &Rc<File>, name: &[u8], found: FoundName) -> FsResult<()> {
        if directory.has_inline(inline::DENTRY) && self.stage.is_none() {
            return self.remove_inline(directory, found, name).await;
        }
        self.contents().move_out_names(directory).await?;
        let found = match self.is_still_at(directory, &found, name).await? {
            true => found,
            false => Box::pin(self.find_anew(directory, name)).await?,
        };
        let mut is_empty = false;
        self.change_names(directory, found.logical, |bytes| {
            dentry::remove(bytes, found.slot..found.slot_end);
            is_empty = dentry::is_empty(bytes, Shape::BLOCK);
        });
        let hash = name_hash(name);
        directory.names().remove(found.logical, hash);
        self.names_gone.borrow_mut().insert((directory.number(), hash));
        onewrite_block::reached!("block of names emptied", is_empty);
        if is_empty {
            let freed = Box::pin(self.contents().free_pages(directory, found.logical..found.logical + 1)).await;
            // If that fails, the block comes back as it was written last.
            freed.inspect_err(|_| directory.names().forget())?;
            directory.names().note_hole(found.logical);
        }
        Ok(())
    }

    /// Whether a name lies where it was found; its block is in memory then at least until the next wait.
    async fn is_still_at(&self, directory: &Rc<File>, found: &FoundName, name: &[u8]) -> FsResult<bool> {
        let page = self.names_block(directory, found.logical).await?;
        Ok(page.is_some_and(|page| dentry::is_at(&page.bytes()[..], Shape::BLOCK, found.slot, name)))
    }

    /// Finds a name that moved out of the inode, or before an attempt that failed, and brings its block into memory.
    async fn find_anew(&self, directory: &Rc<File>, name: &[u8]) -> FsResult<FoundName> {
        let found = self.expect_name(directory, name).await?;
        self.expect_block(directory, found.logical).await.map(|_| found)
    }

    /// Removes a name that lies in the inode; the others stay there, so that it takes no block of a full disk.
    async fn remove_inline(&self, directory: &Rc<File>, found: FoundName, name: &[u8]) -> FsResult<()> {
        onewrite_block::reached!("inline name removed");
        self.nodes().load_node(directory.number(), directory.number(), 0).await?;
        let room = directory.shape().inline_range();
        self.nodes().change_node(directory.number(), directory.number(), |bytes| {
            dentry::remove(&mut bytes[room], found.slot..found.slot_end);
        });
        self.names_gone.borrow_mut().insert((directory.number(), name_hash(name)));
        Ok(())
    }

    /// Lets a name refer to another inode. The caller holds the directory's lock alone, and `changes`.
    pub(super) async fn retarget_name(&self, directory: &Rc<File>, new: NewEntry<'_>) -> FsResult<()> {
        self.contents().move_out_names(directory).await?;
        let found = self.expect_name(directory, new.name).await?;
        drop(self.expect_block(directory, found.logical).await?);
        self.change_names(directory, found.logical, |bytes| dentry::set_target(bytes, Shape::BLOCK, found.slot, new));
        self.names_gone.borrow_mut().insert((directory.number(), name_hash(new.name)));
        Ok(())
    }

    async fn expect_block(&self, directory: &Rc<File>, logical: u64) -> FsResult<Page> {
        let place = Place::FileBlock { inode: directory.number(), logical };
        let missing = || FormatError::field(place, "address", 0_u32, "a name was just found here");
        Ok(self.names_block(directory, logical).await?.ok_or_else(missing)?)
    }
}

/// Whether a directory has an index of names.
fn is_indexed(directory: &File) -> bool {
    directory.raw().i_current_depth.get() >= INDEXED_FROM
}

fn found_in(bytes: &[u8], shape: Shape, place: Place, logical: u64, name: &[u8]) -> Option<FoundName> {
    let Entry { ino, kind, slot, slot_end, .. } = dentry::find(bytes, shape, place, name)?;
    Some(FoundName { nid: ino, kind: kind.unwrap_or(FileKind::Regular), logical, slot, slot_end })
}

fn listed<'a>(
    entries: impl Iterator<Item = Result<Entry<'a>, FormatError>>,
    start: u64,
) -> FsResult<Vec<DirectoryEntry>> {
    let names: Result<Vec<_>, FormatError> = entries.map(|entry| Ok(entry?.listed(start))).collect();
    Ok(names?)
}
