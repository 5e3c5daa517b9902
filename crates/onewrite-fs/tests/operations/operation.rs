//! Operations, and the seeded stream of them.

use onewrite_block::Choices;
use onewrite_fs::{Allocation, AttributeManner, FileKind, RenameManner, SeekTarget, Timestamp};

/// Result of an operation that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Times(Timestamp, Timestamp),
}

/// The answer, or Linux's error number.
pub type Outcome = Result<Answer, i32>;

/// Error of an operation that the kernel refuses before it calls the file system: content of a file that is not
/// regular, permissions of a link, a handle that is not open.
pub const NOT_ASKED: i32 = -1;

/// Most open handles of a task.
pub const SLOTS: usize = 4;

/// A file, by name or by an open handle.
#[derive(Clone, Debug)]
pub enum Target {
    Path(String),
    Slot(usize),
}

/// How a handle is opened: `O_CREAT`, `O_EXCL`, `O_TRUNC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenManner {
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Make(String, FileKind, u16),
    Symlink(String, usize),
    Link(String, String),
    Unlink(String),
    RemoveDirectory(String),
    Rename(String, String, RenameManner),
    /// Makes files in a directory: path, first number, count.
    Fill(String, u32, u32),
    /// Removes the files of a `Fill`.
    Clear(String, u32, u32),
    List(String),
    ReadLink(String),
    Open(String, usize, OpenManner),
    Close(usize),
    Permissions(String, u16),
    Owner(String, u32, u32),
    Times(String, Timestamp, Timestamp),
    Write(Target, u64, Vec<u8>),
    Append(Target, Vec<u8>),
    Read(Target, u64, u64),
    Truncate(Target, u64),
    Allocate(Target, u64, u64, Allocation),
    Seek(Target, u64, SeekTarget),
    SetAttribute(Target, String, Vec<u8>, AttributeManner),
    RemoveAttribute(Target, String),
    GetAttribute(Target, String),
    /// True for `fdatasync`.
    Sync(Target, bool),
}

impl Operation {
    /// The paths that the operation names.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Operation::Link(one, other) | Operation::Rename(one, other, _) => vec![one, other],
            Operation::Make(path, ..)
            | Operation::Symlink(path, _)
            | Operation::Unlink(path)
            | Operation::RemoveDirectory(path)
            | Operation::Fill(path, ..)
            | Operation::Clear(path, ..)
            | Operation::List(path)
            | Operation::ReadLink(path)
            | Operation::Open(path, ..)
            | Operation::Permissions(path, _)
            | Operation::Owner(path, ..)
            | Operation::Times(path, ..) => vec![path],
            Operation::Close(_) => Vec::new(),
            _ => match self.target() {
                Some(Target::Path(path)) => vec![path],
                _ => Vec::new(),
            },
        }
    }

    /// The file whose content or attributes the operation uses.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Operation::Write(target, ..)
            | Operation::Append(target, _)
            | Operation::Read(target, ..)
            | Operation::Truncate(target, _)
            | Operation::Allocate(target, ..)
            | Operation::Seek(target, ..)
            | Operation::SetAttribute(target, ..)
            | Operation::RemoveAttribute(target, _)
            | Operation::GetAttribute(target, _)
            | Operation::Sync(target, _) => Some(target),
            _ => None,
        }
    }
}

/// The name of file `number` of [`Operation::Fill`].
pub fn filled_name(number: u32) -> String {
    format!("a-file-among-many-others-{number:05}")
}

/// The target of a symbolic link; it does not exist.
pub fn link_target(length: usize) -> String {
    "-".repeat(length)
}

/// `length` bytes without a zero; some begin like a block of a log.
fn content(choices: &mut Choices, length: usize) -> Vec<u8> {
    let (first, stride) = (choices.bits(), choices.below(7));
    let byte = |at: usize| (first.wrapping_add(at as u64 * stride) % 255) as u8 + 1;
    let mut bytes: Vec<u8> = (0..length).map(byte).collect();
    if choices.chance(1, 8) && length >= 4 {
        bytes[..4].copy_from_slice(&[0xc0, 0x3b, 0x39, 0x98]);
    }
    bytes
}

/// A stream of operations. Each path begins with one of `areas`.
pub struct Stream {
    choices: Choices,
    areas: Vec<&'static str>,
    /// Whether operations collapse and insert ranges of a file.
    pub shifts: bool,
}

impl Stream {
    pub fn new(choices: Choices, areas: &[&'static str]) -> Stream {
        Stream { choices, areas: areas.to_vec(), shifts: true }
    }

    /// A path of one to three names, out of few.
    fn path(&mut self) -> String {
        let choices = &mut self.choices;
        let area = self.areas[choices.index(self.areas.len())];
        let long = if choices.chance(1, 60) { "n".repeat(255 + choices.index(2)) } else { "a-longer-name".into() };
        let depth = choices.index(3).min(choices.index(3));
        let mut path = area.to_owned();
        for level in 0..=depth {
            let last = if level == depth { &long } else { "f" };
            path.push_str(["a", "b", "c", "d", "e", last][choices.index(6)]);
            if level < depth {
                path.push('/');
            }
        }
        path
    }

    fn target(&mut self) -> Target {
        match self.choices.chance(1, 4) {
            true => Target::Slot(self.choices.index(SLOTS)),
            false => Target::Path(self.path()),
        }
    }

    /// An offset: mostly near the start, sometimes far, sometimes at a page boundary.
    fn offset(&mut self) -> u64 {
        let offset = match self.choices.index(12) {
            0 => self.choices.below(3_000_000),
            1..=4 => self.choices.below(20_000),
            _ => self.choices.below(300_000),
        };
        if self.choices.chance(1, 4) { offset - offset % 4096 } else { offset }
    }

    pub fn next(&mut self) -> Operation {
        match self.choices.index(100) {
            0..=34 => self.next_of_names(),
            35..=44 => self.next_of_handles(),
            45..=54 => self.next_of_attributes(),
            _ => self.next_of_content(),
        }
    }

    fn next_of_names(&mut self) -> Operation {
        let (one, permissions) = (self.path(), self.choices.below(0o1000) as u16);
        match self.choices.index(18) {
            0..=2 => Operation::Make(one, FileKind::Regular, permissions),
            3 => {
                let kinds = [FileKind::Fifo, FileKind::Socket, FileKind::CharacterDevice, FileKind::BlockDevice];
                Operation::Make(one, kinds[self.choices.index(4)], permissions)
            }
            4..=6 => Operation::Make(one, FileKind::Directory, permissions),
            7 => Operation::Symlink(one, 1 + self.choices.index(200)),
            8 | 9 => Operation::Link(one, self.path()),
            10 => Operation::Unlink(one),
            11 => Operation::RemoveDirectory(one),
            12 | 13 => Operation::Rename(one, self.path(), RenameManner::Replace),
            14 => Operation::Rename(one, self.path(), RenameManner::NoReplace),
            15 => Operation::Rename(one, self.path(), RenameManner::Exchange),
            16 if self.choices.chance(1, 3) => self.next_of_many(one),
            16 => Operation::List(one),
            _ => Operation::ReadLink(one),
        }
    }

    fn next_of_many(&mut self, directory: String) -> Operation {
        let (first, count) = (self.choices.below(4) as u32 * 100, 1 + self.choices.below(150) as u32);
        match self.choices.chance(1, 2) {
            true => Operation::Fill(directory, first, count),
            false => Operation::Clear(directory, first, count),
        }
    }

    fn next_of_handles(&mut self) -> Operation {
        let slot = self.choices.index(SLOTS);
        if self.choices.chance(1, 4) {
            return Operation::Close(slot);
        }
        let create = self.choices.chance(1, 2);
        let exclusive = create && self.choices.chance(1, 4);
        Operation::Open(self.path(), slot, OpenManner { create, exclusive, truncate: self.choices.chance(1, 6) })
    }

    fn next_of_attributes(&mut self) -> Operation {
        let one = self.target();
        let name = ["user.one", "user.two", "trusted.three", "trusted.four"][self.choices.index(4)].to_owned();
        match self.choices.index(9) {
            0..=2 => {
                let length = self.choices.index(900);
                let manners = [AttributeManner::Either, AttributeManner::Create, AttributeManner::Replace];
                let manner = manners[self.choices.index(3)];
                Operation::SetAttribute(one, name, content(&mut self.choices, length), manner)
            }
            3 => Operation::RemoveAttribute(one, name),
            4 => Operation::GetAttribute(one, name),
            5 => Operation::Permissions(self.path(), self.choices.below(0o1000) as u16),
            6 => Operation::Owner(self.path(), self.choices.below(70_000) as u32, self.choices.below(70_000) as u32),
            _ => Operation::Times(self.path(), self.time(), self.time()),
        }
    }

    /// A time from 1901 to 2446, the range of an inode.
    fn time(&mut self) -> Timestamp {
        let seconds = self.choices.below((1 << 34) - 1) as i64 - (1 << 31);
        Timestamp { seconds, nanoseconds: self.choices.below(1_000_000_000) as u32 }
    }

    fn next_of_content(&mut self) -> Operation {
        let (one, offset) = (self.target(), self.offset());
        match self.choices.index(20) {
            0..=6 => {
                let length_max = [600, 20_000, 150_000][self.choices.index(3)];
                let length = 1 + self.choices.index(length_max);
                Operation::Write(one, offset, content(&mut self.choices, length))
            }
            7 | 8 => {
                let length = 1 + self.choices.index(20_000);
                Operation::Append(one, content(&mut self.choices, length))
            }
            9 | 10 => Operation::Read(one, offset, self.choices.below(100_000)),
            11 | 12 => Operation::Truncate(one, offset),
            13 if self.choices.chance(1, 10) => Operation::Truncate(one, 1 << (44 + self.choices.below(18))),
            13 | 14 => self.next_of_ranges(one, offset),
            15 | 16 if self.shifts => self.next_of_ranges(one, offset),
            17 => Operation::Seek(one, offset, [SeekTarget::Data, SeekTarget::Hole][self.choices.index(2)]),
            18 => Operation::Sync(one, self.choices.chance(1, 2)),
            _ => Operation::Write(one, offset, vec![7; 1 + self.choices.index(4096)]),
        }
    }

    fn next_of_ranges(&mut self, one: Target, offset: u64) -> Operation {
        let allocation = match self.choices.index(if self.shifts { 8 } else { 4 }) {
            0 => Allocation::Extend,
            1 => Allocation::KeepSize,
            2 => Allocation::PunchHole,
            3 => Allocation::ZeroRange,
            4 | 5 => Allocation::CollapseRange,
            _ => Allocation::InsertRange,
        };
        let length = match self.choices.index(20) {
            0 => 0,
            1 => 1 << 60,
            2 => self.choices.below(2_000_000),
            _ => 1 + self.choices.below(100_000),
        };
        let is_shift = matches!(allocation, Allocation::CollapseRange | Allocation::InsertRange);
        if is_shift && self.choices.chance(9, 10) {
            let whole = |bytes: u64| bytes - bytes % 4096;
            return Operation::Allocate(one, whole(offset % 100_000), whole(length).max(4096), allocation);
        }
        Operation::Allocate(one, offset, length, allocation)
    }
}
