//! Storage: what the VFS asks of whatever keeps the files. All calls block. [`Volume`](onewrite_host::Volume) is one
//! ([`crate::volume`]); whoever runs the file system in another way writes a second. Time and chance are the host's
//! unless the storage has a [`Machine`] of its own.

use std::fmt;
use std::time::Duration;

pub use crate::names::normal;

/// Why a call failed: a number of Linux and a text with the place and the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// As errno.
    pub number: i32,
    /// What the number leaves open.
    pub text: String,
}

impl Failure {
    /// ENOENT.
    pub const NO_ENTRY: i32 = 2;
    /// EBUSY.
    pub const BUSY: i32 = 16;
    /// ENOTDIR.
    pub const NOT_A_DIRECTORY: i32 = 20;
    /// EISDIR.
    pub const IS_A_DIRECTORY: i32 = 21;
    /// EINVAL.
    pub const INVALID: i32 = 22;
    /// EFBIG: the commit could not carry the changes.
    pub const TOO_MANY_CHANGES: i32 = 27;
    /// ENOSPC.
    pub const NO_SPACE: i32 = 28;
    /// EROFS.
    pub const READ_ONLY: i32 = 30;

    /// A failure with this number and text.
    pub fn new(number: i32, text: impl Into<String>) -> Failure {
        Failure { number, text: text.into() }
    }

    /// The same, with a text that names the file or image.
    pub(crate) fn at(self, place: &[u8]) -> Failure {
        let place = String::from_utf8_lossy(place);
        match self.text.contains(&*place) {
            true => self,
            false => Failure { text: format!("{place}: {}", self.text), ..self },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// The result of a call of the storage.
pub type Result<T> = std::result::Result<T, Failure>;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It has to be there.
    Existing,
    /// It is made if it is not there.
    OrNew,
    /// It must not be there, and is made.
    New,
}

/// How a name is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It stays removed after a power cut.
    Durable,
    /// A power cut may bring it back.
    Volatile,
}

/// What a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// Content, and what reading it takes.
    Data,
    /// Times and the like, too.
    Everything,
}

/// Which file this is, whatever its names: storage and number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Tells apart what a storage keeps files on.
    pub volume: u64,
    /// Differs between files that live at the same time.
    pub file: u64,
}

/// What a power cut leaves, and whether changes can wait in drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// What was synced; a write changes no byte beside its own. No drafts.
    Synced,
    /// What was synced, as above, and what drafts committed.
    Drafts,
    /// What was synced, and of all other writes to all files a prefix, each write whole. Drafts.
    Prefix,
}

impl Promise {
    /// That of a file system that has drafts or not, and keeps the order of other writes or not.
    pub const fn of(has_drafts: bool, keeps_order: bool) -> Promise {
        match (has_drafts, keeps_order) {
            (false, _) => Promise::Synced,
            (true, false) => Promise::Drafts,
            (true, true) => Promise::Prefix,
        }
    }
}

/// Time and chance of a storage that does not live in the host's.
///
/// SQLite takes the seed of its chance from the host all the same: [`crate::Seeded`].
pub trait Machine {
    /// Fills `bytes` by chance.
    fn draw(&self, bytes: &mut [u8]);

    /// Time since the beginning of 1970.
    fn civil_now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, span: Duration);
}

/// Files of one or several volumes, by their paths.
pub trait Storage: 'static {
    /// An open file.
    type File: StoredFile<Draft = Self::Draft>;
    /// Changes of a file that wait.
    type Draft: StoredDraft;

    /// The machine that the storage lives on; `None` for the host.
    fn machine(&self) -> Option<&dyn Machine> {
        None
    }

    /// The one name of what `name` means; the journals' names are made from it.
    ///
    /// # Errors
    /// A name that this storage cannot have.
    fn full_path(&self, name: &[u8]) -> Result<Vec<u8>>;

    /// Opens a file. `parameter` answers what the URI says.
    ///
    /// # Errors
    /// ENOENT, EISDIR and others.
    fn open(&self, path: &[u8], opening: Opening, parameter: &dyn Fn(&str) -> Option<String>) -> Result<Self::File>;

    /// Removes a name.
    ///
    /// # Errors
    /// ENOENT if there is none.
    fn remove(&self, path: &[u8], removal: Removal) -> Result<()>;

    /// The size of the file at `path`; `None` if there is none.
    ///
    /// # Errors
    /// A damaged image.
    fn size_at(&self, path: &[u8]) -> Result<Option<u64>>;

    /// Makes the changes of all drafts visible and durable, all of them or none. The drafts are empty then.
    ///
    /// # Errors
    /// Nothing has changed then.
    fn commit(&self, drafts: &[&Self::Draft]) -> Result<()>;
}

/// An open file; its methods see and change what was committed.
pub trait StoredFile {
    /// Changes of the file that wait.
    type Draft: StoredDraft;

    /// Which file this is.
    fn identity(&self) -> Identity;

    /// What its volume promises.
    fn promise(&self) -> Promise;

    /// Up to `length` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// A device that fails.
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>>;

    /// Writes all of `bytes`, or nothing.
    ///
    /// # Errors
    /// ENOSPC; EBUSY while a draft has the file.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Truncates or extends the file.
    ///
    /// # Errors
    /// As [`StoredFile::write`].
    fn set_size(&self, size: u64) -> Result<()>;

    /// The size in bytes.
    ///
    /// # Errors
    /// A damaged image.
    fn size(&self) -> Result<u64>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// A device that fails.
    fn sync(&self, what: Synced) -> Result<()>;

    /// Takes the right to change the file's content until the draft is dropped.
    ///
    /// # Errors
    /// EBUSY if another draft has it.
    fn draft(&self) -> Result<Self::Draft>;
}

/// Changes of one file that nobody else sees before [`Storage::commit`]. Dropped, they are gone.
pub trait StoredDraft {
    /// As [`StoredFile::read`], with the changes.
    ///
    /// # Errors
    /// A device that fails.
    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>>;

    /// Writes all of `bytes`, or nothing; reserves what the commit needs.
    ///
    /// # Errors
    /// ENOSPC; EFBIG if the commit could not carry it.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Truncates or extends the file.
    ///
    /// # Errors
    /// As [`StoredDraft::write`].
    fn set_size(&self, size: u64) -> Result<()>;

    /// The size with the changes.
    ///
    /// # Errors
    /// A damaged image.
    fn size(&self) -> Result<u64>;

    /// Drops the changes since the last commit.
    ///
    /// # Errors
    /// A device that fails.
    fn abort(&self) -> Result<()>;
}
