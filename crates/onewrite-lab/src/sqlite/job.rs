//! Job: an application of SQLite with its journal mode, by name.

use std::fmt;

use super::db_bench;
use crate::error::LabError;

/// What all names of these jobs begin with.
const PREFIX: &str = "sqlite-";

/// Bytes of a database, its journal and its log, amply.
pub(crate) const BYTES: u64 = 64 << 20;

/// An application of SQLite, as a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteJob {
    /// Which one.
    pub kind: Kind,
    /// SQLite's `journal_mode`; `None` for `OFF` where the mode has atomic files, else [`Kind::journal`].
    pub journal: Option<Journal>,
    /// How files are made durable.
    pub sync_call: SyncCall,
    /// Transactions and queries; `None` for the application's number.
    pub operations: Option<u32>,
}

/// How SQLite makes a file durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncCall {
    /// By `fdatasync`, as SQLite's own VFS does on today's Linux whatever it is asked for: sizes become durable, times
    /// do not.
    Fdatasync,
    /// By `fsync`, as SQLite does that was built without `HAVE_FDATASYNC`.
    Fsync,
}

/// What stands behind the job's colon for [`SyncCall::Fsync`].
const FSYNC: &str = "fsync";

/// The applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The SQLite part of AndroBench.
    Androbench,
    /// A feed of posts with pictures.
    Facebook,
    /// Mail with labels.
    Gmail,
    /// LevelDB's benchmark: keys in order, each put synced.
    SeqSync,
    /// The same with random keys.
    RandSync,
    /// Keys in order, nothing synced.
    SeqAsync,
    /// Random keys, nothing synced.
    RandAsync,
    /// Random keys among 20 times as many, 1,000 in each transaction.
    RandSync1k,
    /// Random keys among 5 times as many, 10,000 in each transaction.
    RandSync10k,
}

impl Kind {
    /// Applications of a phone.
    pub const APPLICATIONS: [Kind; 3] = [Kind::Androbench, Kind::Facebook, Kind::Gmail];

    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Androbench,
        Kind::Facebook,
        Kind::Gmail,
        Kind::SeqSync,
        Kind::RandSync,
        Kind::SeqAsync,
        Kind::RandAsync,
        Kind::RandSync1k,
        Kind::RandSync10k,
    ];

    /// Name of the job without a journal mode.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Androbench => "sqlite-androbench",
            Kind::Facebook => "sqlite-facebook",
            Kind::Gmail => "sqlite-gmail",
            Kind::SeqSync => "sqlite-seq-sync",
            Kind::RandSync => "sqlite-rand-sync",
            Kind::SeqAsync => "sqlite-seq-async",
            Kind::RandAsync => "sqlite-rand-async",
            Kind::RandSync1k => "sqlite-rand-sync1k",
            Kind::RandSync10k => "sqlite-rand-sync10k",
        }
    }

    /// The journal mode that it takes by itself.
    pub const fn journal(self) -> Journal {
        match self {
            Kind::Androbench | Kind::Facebook | Kind::Gmail => Journal::Delete,
            Kind::SeqSync
            | Kind::RandSync
            | Kind::SeqAsync
            | Kind::RandAsync
            | Kind::RandSync1k
            | Kind::RandSync10k => Journal::Wal,
        }
    }

    /// What its database sets before its first table.
    pub(super) const fn pragmas(self) -> &'static str {
        match self.journal() {
            Journal::Wal => db_bench::PRAGMAS,
            _ => "",
        }
    }
}

/// SQLite's `journal_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// A rollback journal that each transaction removes.
    Delete,
    /// One that is truncated.
    Truncate,
    /// One whose head is zeroed.
    Persist,
    /// One in memory: safe with atomic files only.
    Memory,
    /// A write-ahead log.
    Wal,
    /// None: safe with atomic files only.
    Off,
}

impl Journal {
    /// All of them.
    pub const ALL: [Journal; 6] =
        [Journal::Delete, Journal::Truncate, Journal::Persist, Journal::Memory, Journal::Wal, Journal::Off];

    /// As SQLite writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Journal::Delete => "delete",
            Journal::Truncate => "truncate",
            Journal::Persist => "persist",
            Journal::Memory => "memory",
            Journal::Wal => "wal",
            Journal::Off => "off",
        }
    }
}

impl fmt::Display for SqliteJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        let call = (self.sync_call == SyncCall::Fsync).then_some(FSYNC);
        self.journal.map(Journal::name).into_iter().chain(call).try_for_each(|word| write!(f, ":{word}"))
    }
}

impl SqliteJob {
    /// The application in its own journal mode, synced by `fdatasync`.
    pub const fn new(kind: Kind) -> SqliteJob {
        SqliteJob { kind, journal: None, sync_call: SyncCall::Fdatasync, operations: None }
    }

    /// The job called `name`: an application, behind a colon a journal mode, behind another `fsync`. `None` if the name
    /// is of another kind.
    ///
    /// # Errors
    /// An application or a journal mode that does not exist; the text lists those that do.
    pub fn named(name: &str) -> Option<Result<SqliteJob, LabError>> {
        name.starts_with(PREFIX).then(|| {
            let (asked, sync_call) = match name.rsplit_once(':') {
                Some((asked, word)) if word.eq_ignore_ascii_case(FSYNC) => (asked, SyncCall::Fsync),
                _ => (name, SyncCall::Fdatasync),
            };
            let (kind, journal) = asked.split_once(':').map_or((asked, None), |(kind, journal)| (kind, Some(journal)));
            let kind = known(name, kind, &Kind::ALL, Kind::name)?;
            let journal = journal.map(|journal| known(name, journal, &Journal::ALL, Journal::name)).transpose()?;
            Ok(SqliteJob { journal, sync_call, ..SqliteJob::new(kind) })
        })
    }
}

/// The one of `all` called `part`, in capitals or not, as SQLite takes its modes.
pub(super) fn known<T: Copy>(name: &str, part: &str, all: &[T], name_of: fn(T) -> &'static str) -> Result<T, LabError> {
    all.iter().copied().find(|one| name_of(*one).eq_ignore_ascii_case(part)).ok_or_else(|| {
        let names: Vec<_> = all.iter().copied().map(name_of).collect();
        LabError::Option(format!("{name}: `{part}` is none of {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_application_and_a_journal_mode() {
        let job = SqliteJob::named("sqlite-gmail:wal").unwrap().unwrap();
        assert_eq!(
            (job.kind, job.journal, job.to_string()),
            (Kind::Gmail, Some(Journal::Wal), "sqlite-gmail:wal".into())
        );
        assert_eq!(SqliteJob::named("sqlite-gmail:WAL").unwrap().unwrap(), job);
        assert_eq!(SqliteJob::named("sqlite-androbench").unwrap().unwrap(), SqliteJob::new(Kind::Androbench));
        for name in ["sqlite-gmail:fsync", "sqlite-gmail:off:fsync"] {
            let job = SqliteJob::named(name).unwrap().unwrap();
            assert_eq!((job.sync_call, job.to_string().as_str()), (SyncCall::Fsync, name));
        }
        assert!(SqliteJob::named("varmail").is_none());
        let refused = |name| SqliteJob::named(name).unwrap().unwrap_err().to_string();
        assert!(refused("sqlite-chess").contains("sqlite-facebook"), "{}", refused("sqlite-chess"));
        assert!(refused("sqlite-gmail:fsync:off").contains("none of delete"), "{}", refused("sqlite-gmail:fsync:off"));
        assert!(refused("sqlite-gmail:undo").contains("truncate"), "{}", refused("sqlite-gmail:undo"));
    }
}
