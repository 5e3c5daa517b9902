//! Action: one operation of a workload, and its text form, which identifies the workload of a failure.
//!
//! A workload is plain data: a minimiser can leave parts out, and a command line can carry it. Example: `create /a;
//! write /a 0 100 7; fsync /a | mkdir /b`. `;` separates the actions of a task, `|` separates tasks. `>>` ends a part
//! that runs before the first crash state. The first such part is the setup; the second, if there is one, is the
//! warm-up.

mod forms;

use std::fmt;
use std::str::FromStr;

use onewrite_block::Nanos;
use onewrite_fs::{Allocation, Content};

use crate::error::CrashError;

/// The first byte of seeds whose pages are nearly empty.
const SPARSE_SEEDS: u64 = 0x7e;
/// Longest pause, in milliseconds: a run of many days would not end.
const PAUSE_MAX: u64 = 86_400_000;

/// A seed whose pages hold 40 bytes and zeros. A compressed log holds many times its size of them.
pub(crate) const fn sparse_seed(number: u64) -> u64 {
    SPARSE_SEEDS << 56 | number
}

/// The content that a write of this seed and length puts into a file. The seed also decides how far it compresses.
pub(crate) const fn content(seed: u64, length: u64) -> Content<'static> {
    let compressible_percent = if seed >> 56 == SPARSE_SEEDS { 99 } else { (seed % 4) as u8 * 30 };
    Content::Pattern { seed, compressible_percent, length }
}

/// One operation. Paths begin with a slash; a file may also be `#3`, the descriptor 3 of the task (see `Open`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Makes an empty file.
    Create(String),
    /// Writes `length` bytes of the pattern of `seed` at `offset`.
    Write {
        /// The file.
        file: String,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Selects the content.
        seed: u64,
        /// Bypasses the page cache, where the mode allows it; offset and length are then multiples of 4 KiB.
        direct: bool,
    },
    /// Reads a whole file into the page cache.
    Read(String),
    /// Reads a whole file past the page cache, where the mode allows it.
    ReadDirect(String),
    /// Writes `length` bytes of the pattern of `seed` at the end.
    Append {
        /// The file.
        file: String,
        /// Bytes.
        length: u64,
        /// Selects the content.
        seed: u64,
    },
    /// Shortens or extends a file.
    Truncate {
        /// The file.
        file: String,
        /// The new size, in bytes.
        size: u64,
    },
    /// Changes the blocks of a range; [`Blocks`] lists the ways.
    Allocate {
        /// The file.
        file: String,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// What to do.
        how: Blocks,
    },
    /// Changes permissions, owner and group, or the time of the last read.
    SetAttributes {
        /// The file.
        file: String,
        /// What changes.
        change: AttributeChange,
    },
    /// Sets an extended attribute, new or existing.
    SetExtended {
        /// The file.
        file: String,
        /// Its full name.
        name: String,
        /// Bytes of the value.
        length: u64,
        /// Selects the value.
        seed: u64,
    },
    /// Removes an extended attribute.
    RemoveExtended {
        /// The file.
        file: String,
        /// Its full name.
        name: String,
    },
    /// Removes a name.
    Unlink(String),
    /// Makes a directory.
    MakeDirectory(String),
    /// Removes an empty directory.
    RemoveDirectory(String),
    /// Moves a name, replacing the target if there is one.
    Rename(String, String),
    /// Swaps two names.
    Exchange(String, String),
    /// Gives the file of the first path the second as a further name.
    Link(String, String),
    /// Makes a symbolic link; the content comes first.
    Symlink(String, String),
    /// Opens a file as a descriptor of the task. The file exists until the descriptor is closed, even if it loses its
    /// name.
    Open(String, u32),
    /// Closes a descriptor.
    Close(u32),
    /// Makes a file or directory durable.
    Fsync(String),
    /// Makes a file's content durable.
    Fdatasync(String),
    /// Makes everything durable.
    Sync,
    /// Makes a change in a draft of the task: create, write, append, truncate, punch, unlink or rename. Begins the
    /// draft if there is none of this number, and claims the file.
    Draft(u32, Box<Action>),
    /// Commits drafts, as one step.
    Commit(Vec<u32>),
    /// Drops all changes of drafts; they keep their files.
    Abort(Vec<u32>),
    /// Ends a draft; its changes are dropped.
    EndDraft(u32),
    /// Pages of files take the content of other pages, as one step.
    Share {
        /// The ranges.
        parts: Vec<SharePart>,
        /// Whether it may become durable later, with the next sync of the targets.
        lazily: bool,
    },
    /// Waits for this many milliseconds of virtual time; commits and checkpoints that are due by age happen.
    Pause(u64),
    /// Only in a setup: the power fails, at a moment behind the last sync that this number draws, and what follows is
    /// another life of the file system.
    Cut(u64),
}

/// A range of an [`Action::Share`]; offsets and length are multiples of 4 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharePart {
    /// The file whose content is taken.
    pub source: String,
    /// First byte there.
    pub source_offset: u64,
    /// The file that changes.
    pub target: String,
    /// First byte there.
    pub target_offset: u64,
    /// Bytes.
    pub length: u64,
}

impl fmt::Display for SharePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharePart { source, source_offset, target, target_offset, length } = self;
        write!(f, " {source} {source_offset} {target} {target_offset} {length}")
    }
}

/// What an [`Action::SetAttributes`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeChange {
    /// The lower 12 bits of the mode.
    Permissions(u16),
    /// Owner and group.
    Owner {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
    /// The time of the last read, in seconds since 1970.
    Accessed(u32),
}

/// The value of an extended attribute of this seed and length.
pub(crate) fn extended_value(seed: u64, length: u64) -> Vec<u8> {
    (0..length).map(|at| (seed.wrapping_mul(131).wrapping_add(at * 7) >> (at % 8)) as u8).collect()
}

/// What an [`Action::Allocate`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blocks {
    /// The range becomes a hole. If it covers the file's last byte, the rest of that page becomes a hole too.
    Punch,
    /// The range becomes zeros and keeps or gets blocks. The file grows to the end of the range if it is shorter.
    Zero,
    /// The range gets blocks where it has none. The file grows to the end of the range if it is shorter.
    Extend,
    /// Removes whole pages before the end of the file; the content behind them moves to lower offsets.
    Collapse,
    /// Inserts a hole of whole pages before the end of the file; the content behind it moves to higher offsets.
    Insert,
}

impl Blocks {
    const ALL: [Blocks; 5] = [Blocks::Punch, Blocks::Zero, Blocks::Extend, Blocks::Collapse, Blocks::Insert];

    const fn name(self) -> &'static str {
        match self {
            Blocks::Punch => "punch",
            Blocks::Zero => "zero",
            Blocks::Extend => "extend",
            Blocks::Collapse => "collapse",
            Blocks::Insert => "insert",
        }
    }

    fn named(name: &str) -> Option<Blocks> {
        Blocks::ALL.into_iter().find(|how| how.name() == name)
    }

    /// The file system's own value for it.
    pub(crate) const fn allocation(self) -> Allocation {
        match self {
            Blocks::Punch => Allocation::PunchHole,
            Blocks::Zero => Allocation::ZeroRange,
            Blocks::Extend => Allocation::Extend,
            Blocks::Collapse => Allocation::CollapseRange,
            Blocks::Insert => Allocation::InsertRange,
        }
    }
}

impl Action {
    /// Whether a draft can make this change.
    pub(crate) fn fits_a_draft(&self) -> bool {
        match self {
            Action::Write { direct, .. } => !direct,
            Action::Allocate { how, .. } => *how == Blocks::Punch,
            Action::Create(_) | Action::Append { .. } | Action::Truncate { .. } => true,
            Action::Unlink(_) | Action::Rename(..) => true,
            _ => false,
        }
    }

    /// The waiting time of a `Pause`; `None` for every other action.
    pub fn pause(&self) -> Option<Nanos> {
        match self {
            Action::Pause(millis) => Some(Nanos::from_millis(*millis)),
            _ => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Create(path) => write!(f, "create {path}"),
            Action::Write { file, offset, length, seed, direct } => {
                write!(f, "write {file} {offset} {length} {seed}{}", if *direct { " direct" } else { "" })
            }
            Action::Read(file) => write!(f, "read {file}"),
            Action::ReadDirect(file) => write!(f, "read {file} direct"),
            Action::Append { file, length, seed } => write!(f, "append {file} {length} {seed}"),
            Action::Truncate { file, size } => write!(f, "truncate {file} {size}"),
            Action::Allocate { file, offset, length, how } => {
                write!(f, "{} {file} {offset} {length}", how.name())
            }
            Action::SetAttributes { file, change } => match change {
                AttributeChange::Permissions(bits) => write!(f, "chmod {file} {bits:o}"),
                AttributeChange::Owner { uid, gid } => write!(f, "chown {file} {uid} {gid}"),
                AttributeChange::Accessed(seconds) => write!(f, "utimes {file} {seconds}"),
            },
            Action::SetExtended { file, name, length, seed } => write!(f, "setxattr {file} {name} {length} {seed}"),
            Action::RemoveExtended { file, name } => write!(f, "removexattr {file} {name}"),
            Action::Unlink(path) => write!(f, "unlink {path}"),
            Action::MakeDirectory(path) => write!(f, "mkdir {path}"),
            Action::RemoveDirectory(path) => write!(f, "rmdir {path}"),
            Action::Rename(from, to) => write!(f, "rename {from} {to}"),
            Action::Exchange(from, to) => write!(f, "exchange {from} {to}"),
            Action::Link(from, to) => write!(f, "link {from} {to}"),
            Action::Symlink(target, path) => write!(f, "symlink {target} {path}"),
            Action::Open(path, slot) => write!(f, "open {path} {slot}"),
            Action::Close(slot) => write!(f, "close {slot}"),
            Action::Fsync(file) => write!(f, "fsync {file}"),
            Action::Fdatasync(file) => write!(f, "fdatasync {file}"),
            Action::Sync => write!(f, "sync"),
            Action::Draft(slot, change) => write!(f, "draft {slot} {change}"),
            Action::Commit(slots) => write!(f, "commit {}", spaced(slots)),
            Action::Abort(slots) => write!(f, "abort {}", spaced(slots)),
            Action::EndDraft(slot) => write!(f, "end {slot}"),
            Action::Share { parts, lazily } => {
                let parts: String = parts.iter().map(SharePart::to_string).collect();
                write!(f, "share{parts}{}", if *lazily { " lazily" } else { "" })
            }
            Action::Pause(millis) => write!(f, "pause {millis}"),
            Action::Cut(number) => write!(f, "cut {number}"),
        }
    }
}

/// Numbers of drafts, as words.
fn spaced(slots: &[u32]) -> String {
    slots.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

impl FromStr for Action {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<Action, CrashError> {
        let refuse = |reason: &str| CrashError::Action { text: text.into(), reason: reason.into() };
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().map_err(|_| refuse("a number is needed"));
        let word = |at: usize| words[at].to_owned();
        let slots = || (1..words.len()).map(|at| number(at).map(|slot| slot as u32)).collect::<Result<Vec<_>, _>>();
        Ok(match (words.first().copied().unwrap_or(""), words.len()) {
            ("create", 2) => Action::Create(word(1)),
            ("write", 5 | 6) => {
                let direct = match words.get(5) {
                    None => false,
                    Some(&"direct") => true,
                    Some(_) => return Err(refuse("only `direct` may follow a write")),
                };
                Action::Write { file: word(1), offset: number(2)?, length: number(3)?, seed: number(4)?, direct }
            }
            ("read", 2) => Action::Read(word(1)),
            ("read", 3) if words[2] == "direct" => Action::ReadDirect(word(1)),
            ("chmod", 3) => {
                let bits = u16::from_str_radix(words[2], 8).ok().filter(|bits| *bits < 0o10000);
                let bits = bits.ok_or_else(|| refuse("permissions are octal, 7777 at most"))?;
                Action::SetAttributes { file: word(1), change: AttributeChange::Permissions(bits) }
            }
            ("chown", 4) => {
                let change = AttributeChange::Owner { uid: number(2)? as u32, gid: number(3)? as u32 };
                Action::SetAttributes { file: word(1), change }
            }
            ("utimes", 3) => {
                let change = AttributeChange::Accessed(number(2)? as u32);
                Action::SetAttributes { file: word(1), change }
            }
            ("setxattr", 5) => {
                Action::SetExtended { file: word(1), name: word(2), length: number(3)?, seed: number(4)? }
            }
            ("removexattr", 3) => Action::RemoveExtended { file: word(1), name: word(2) },
            ("append", 4) => Action::Append { file: word(1), length: number(2)?, seed: number(3)? },
            ("truncate", 3) => Action::Truncate { file: word(1), size: number(2)? },
            (name, 4) if Blocks::named(name).is_some() => {
                let how = Blocks::named(name).expect("just asked");
                Action::Allocate { file: word(1), offset: number(2)?, length: number(3)?, how }
            }
            ("unlink", 2) => Action::Unlink(word(1)),
            ("mkdir", 2) => Action::MakeDirectory(word(1)),
            ("rmdir", 2) => Action::RemoveDirectory(word(1)),
            ("rename", 3) => Action::Rename(word(1), word(2)),
            ("exchange", 3) => Action::Exchange(word(1), word(2)),
            ("link", 3) => Action::Link(word(1), word(2)),
            ("symlink", 3) => Action::Symlink(word(1), word(2)),
            ("open", 3) => Action::Open(word(1), number(2)? as u32),
            ("close", 2) => Action::Close(number(1)? as u32),
            ("fsync", 2) => Action::Fsync(word(1)),
            ("fdatasync", 2) => Action::Fdatasync(word(1)),
            ("sync", 1) => Action::Sync,
            ("draft", 4..) => {
                let change: Action = words[2..].join(" ").parse()?;
                match change.fits_a_draft() {
                    true => Action::Draft(number(1)? as u32, Box::new(change)),
                    false => return Err(refuse("a draft can create, write, append, truncate, punch, unlink, rename")),
                }
            }
            ("commit", 2..) => Action::Commit(slots()?),
            ("abort", 2..) => Action::Abort(slots()?),
            ("end", 2) => Action::EndDraft(number(1)? as u32),
            ("share", count @ 6..) if count % 5 <= 2 && (count % 5 == 1 || words[count - 1] == "lazily") => {
                let part = |at| {
                    let (source, source_offset) = (word(at), number(at + 1)?);
                    let (target, target_offset, length) = (word(at + 2), number(at + 3)?, number(at + 4)?);
                    Ok(SharePart { source, source_offset, target, target_offset, length })
                };
                let parts = (0..(count - 1) / 5).map(|at| part(1 + 5 * at)).collect::<Result<_, _>>()?;
                Action::Share { parts, lazily: count % 5 == 2 }
            }
            ("pause", 2) if number(1)? <= PAUSE_MAX => Action::Pause(number(1)?),
            ("pause", 2) => return Err(refuse("a pause takes a day at most, 86400000")),
            ("cut", 2) => Action::Cut(number(1)?),
            (name, _) => return Err(refuse(&forms::wrong(name))),
        })
    }
}

/// A setup, a warm-up, then tasks side by side. No power cut falls into the setup or the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    /// One task runs it first, then unmounts cleanly, or a cut ends it.
    pub setup: Vec<Action>,
    /// One task runs it after the mount, before the tasks begin: to fill the log, for example.
    pub warm_up: Vec<Action>,
    /// The actions of each task.
    pub tasks: Vec<Vec<Action>>,
}

impl Workload {
    /// One task without a setup.
    pub fn of(actions: Vec<Action>) -> Workload {
        Workload { tasks: vec![actions], ..Workload::default() }
    }

    /// Actions of all tasks; for tests of how far a workload was shortened.
    pub fn action_count(&self) -> usize {
        self.tasks.iter().map(Vec::len).sum()
    }
}

fn joined(actions: &[Action]) -> String {
    actions.iter().map(Action::to_string).collect::<Vec<_>>().join("; ")
}

fn parsed(text: &str) -> Result<Vec<Action>, CrashError> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(Action::from_str).collect()
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.setup.is_empty() || !self.warm_up.is_empty() {
            write!(f, "{} >> ", joined(&self.setup))?;
        }
        if !self.warm_up.is_empty() {
            write!(f, "{} >> ", joined(&self.warm_up))?;
        }
        let tasks: Vec<String> = self.tasks.iter().map(|task| joined(task)).collect();
        write!(f, "{}", tasks.join(" | "))
    }
}

impl FromStr for Workload {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<Workload, CrashError> {
        let (before, tasks) = text.rsplit_once(">>").unwrap_or(("", text));
        let (setup, warm_up) = before.split_once(">>").unwrap_or((before, ""));
        let tasks = tasks.split('|').map(parsed).collect::<Result<Vec<_>, _>>()?;
        let workload = Workload { setup: parsed(setup)?, warm_up: parsed(warm_up)?, tasks };
        let mut explored = workload.warm_up.iter().chain(workload.tasks.iter().flatten());
        match explored.find(|action| matches!(action, Action::Cut(_))) {
            Some(cut) => {
                let reason = "a cut is for the setup, before the first `>>`; behind it the explorer cuts everywhere";
                Err(CrashError::Action { text: cut.to_string(), reason: reason.into() })
            }
            None => Ok(workload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_comes_back_from_its_text() {
        let text = "mkdir /d >> create /w; sync >> write /a 0 100 7; write /a 4096 4096 8 direct; append #1 5 6; \
                    read /a; truncate /a 3; open /a 1; close 1; fsync /a | link /a /b; rename /b /d/c; \
                    exchange /a /d/c; symlink x /s; rmdir /d; unlink /a; fdatasync /a; sync; punch /a 100 5000; \
                    zero /a 0 9; extend /a 4096 1; pause 5; collapse /a 4096 4096; insert /a 0 8192; chmod /a 640; \
                    chown /a 3 4; utimes /a 86400; setxattr /a user.x 300 5; removexattr /a user.x; read /a direct; \
                    draft 0 write /a 0 100 7; draft 1 create /n; draft 0 punch #1 0 9; commit 0 1; abort 1; end 0; \
                    share /a 0 /b 4096 8192; share /a 0 #1 0 4096 /b 0 /c 8192 4096 lazily";
        let workload: Workload = text.parse().unwrap();
        assert_eq!((workload.setup.len(), workload.tasks.len(), workload.action_count()), (1, 2, 36));
        assert_eq!(workload.warm_up.len(), 2);
        assert_eq!(workload.to_string().parse(), Ok(workload));
        let workload: Workload = " >> create /w >> sync".parse().unwrap();
        assert_eq!((workload.setup.len(), workload.warm_up.len()), (0, 1));
        assert_eq!(workload.to_string().parse(), Ok(workload));
    }

    #[test]
    fn what_is_no_action_is_refused_with_its_text() {
        let error = "create /a; frob /b".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("frob /b"), "{error}");
        assert!("create /a; sync; cut 7 >> create /b".parse::<Workload>().is_ok());
        for text in [
            "create /b; cut 7",
            "create /a >> cut 7 >> create /b",
            "cut",
            "share /a 0 /b 0",
            "share /a 0 /b 0 4096 /c",
            "share /a 0 /b 0 x",
            "pause 86400001",
        ] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }
}
