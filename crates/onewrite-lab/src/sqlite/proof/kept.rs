//! Kept: what SQLite's documentation and the file system's promise leave of committed transactions after a power cut.
//!
//! Sources: SQLite's pages on `PRAGMA synchronous`, `PRAGMA journal_mode` and `lang_attach`.

use onewrite_crash::{Keeps, Promises, SyncedNames, Verdict};
use onewrite_sqlite::storage::Promise;

use super::super::job::Journal;
use super::judge::Found;
use super::named::{SqliteProof, Synchronous};
use crate::error::LabError;

/// What has to be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// Every transaction that had returned.
    #[default]
    All,
    /// All but the last: its journal may come back, for nobody made its removal durable.
    AllButLast,
    /// The first transactions, however many.
    Some,
    /// The databases may be damaged.
    Nothing,
}

impl Kept {
    /// What is promised on a file system that promises `files`, and `storage` to the VFS.
    ///
    /// # Errors
    /// If databases would not be changed together, which is what `attached` is about.
    pub(super) fn of(proof: SqliteProof, files: Promises, storage: Promise) -> Result<Kept, LabError> {
        let (has_drafts, keeps_order) = (storage != Promise::Synced, storage == Promise::Prefix);
        let needs_drafts = matches!(proof.journal, Journal::Memory | Journal::Off);
        if proof.attached && !(needs_drafts && has_drafts) {
            return Err(LabError::Option(format!(
                "{proof}: databases change together with journal_mode memory or off, in a mode that logs content; take \
                 sqlite:memory:full:attached and --mode data"
            )));
        }
        Ok(match (proof.journal, proof.synchronous) {
            (Journal::Memory | Journal::Off, _) if !has_drafts => Kept::Nothing,
            (Journal::Memory | Journal::Off, Synchronous::Full | Synchronous::Extra) => Kept::All,
            (Journal::Memory | Journal::Off, _) => Kept::Some,
            (Journal::Wal, Synchronous::Off) if !keeps_order => Kept::Nothing,
            (Journal::Wal, Synchronous::Off | Synchronous::Normal) => Kept::Some,
            // The journal of the transaction that changed to WAL may come back, and undoes all.
            (Journal::Wal, Synchronous::Full) if !removes_in_order(files) => Kept::Some,
            (Journal::Wal, _) => Kept::All,
            (_, Synchronous::Off | Synchronous::Normal) if !keeps_order => Kept::Nothing,
            (_, Synchronous::Off | Synchronous::Normal) => Kept::Some,
            (Journal::Delete, Synchronous::Full) => Kept::AllButLast,
            _ => Kept::All,
        })
    }

    /// In words.
    pub const fn told(self) -> &'static str {
        match self {
            Kept::All => "every transaction that had returned is there",
            Kept::AllButLast => "every transaction that had returned is there, but perhaps the last",
            Kept::Some => "the first transactions are there, however many",
            Kept::Nothing => "the databases may be damaged",
        }
    }

    /// Judges what was found after `returned` transactions had returned. One more may be there.
    pub(super) fn judge(self, found: &Found, returned: u32) -> Verdict {
        let least = match self {
            Kept::All => returned,
            Kept::AllButLast => returned.saturating_sub(1),
            Kept::Some => 0,
            Kept::Nothing => return Ok(()),
        };
        match found {
            Found::Damaged(what) => Err(what.clone()),
            Found::Whole(count) if (least..=returned + 1).contains(count) => Ok(()),
            Found::Whole(count) => Err(format!("{count} transactions are there, and {returned} had returned")),
        }
    }
}

/// Whether a name whose removal was not synced is gone when a later fsync of another file is durable. A log of the
/// whole file system sees to that, and the log of F2FS's fsyncs does not.
const fn removes_in_order(files: Promises) -> bool {
    !matches!(files.keeps, Keeps::Checkpoint(SyncedNames::New | SyncedNames::All))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: Promises = Promises { keeps: Keeps::Data, delays: true, overwrites: false, pads: false };

    #[test]
    fn one_more_or_less_than_promised_is_refused() {
        let right =
            |kept: Kept| (0..6).filter(|count| kept.judge(&Found::Whole(*count), 3).is_ok()).collect::<Vec<_>>();
        assert_eq!(right(Kept::All), [3, 4]);
        assert_eq!(right(Kept::AllButLast), [2, 3, 4]);
        assert_eq!(right(Kept::Some), [0, 1, 2, 3, 4]);
        assert_eq!(right(Kept::Nothing), [0, 1, 2, 3, 4, 5]);
        let damaged = Found::Damaged("page 3".into());
        assert_eq!(Kept::Some.judge(&damaged, 3), Err("page 3".into()));
        assert!(Kept::Nothing.judge(&damaged, 3).is_ok());
    }

    #[test]
    fn databases_that_do_not_change_together_are_refused() {
        let proof = |name| SqliteProof::named(name).unwrap().unwrap();
        assert_eq!(Kept::of(proof("sqlite:off:full:attached"), EXT4, Promise::Prefix).unwrap(), Kept::All);
        let refused = Kept::of(proof("sqlite:wal:full:attached"), EXT4, Promise::Prefix).unwrap_err().to_string();
        assert!(refused.contains("--mode data"), "{refused}");
        assert!(Kept::of(proof("sqlite:off:full:attached"), EXT4, Promise::Synced).is_err());
    }

    #[test]
    fn on_f2fs_only_extra_makes_removals_durable() {
        let f2fs = Promises { keeps: Keeps::Checkpoint(SyncedNames::All), ..EXT4 };
        let kept = |name, files| Kept::of(SqliteProof::named(name).unwrap().unwrap(), files, Promise::Synced).unwrap();
        assert_eq!((kept("sqlite:wal", EXT4), kept("sqlite:wal", f2fs)), (Kept::All, Kept::Some));
        assert_eq!(kept("sqlite:wal:extra", f2fs), Kept::All);
    }
}
