//! Named: a proof by its name, as `onewrite crash` takes it.

use std::fmt;

use super::super::job::{Journal, known};
use crate::error::LabError;

/// What all names of proofs begin with.
const PREFIX: &str = "sqlite:";
const ATTACHED: &str = "attached";

/// SQLite's `synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Synchronous {
    /// Nothing is synced.
    Off,
    /// Less than what a commit needs to be durable.
    Normal,
    /// What a commit needs to be durable, but for the removal of a journal.
    Full,
    /// That, too.
    Extra,
}

impl Synchronous {
    /// All of them.
    pub const ALL: [Synchronous; 4] = [Synchronous::Off, Synchronous::Normal, Synchronous::Full, Synchronous::Extra];

    /// As SQLite writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Synchronous::Off => "off",
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
            Synchronous::Extra => "extra",
        }
    }
}

/// Databases whose states after power cuts are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteProof {
    /// SQLite's `journal_mode`.
    pub journal: Journal,
    /// SQLite's `synchronous`.
    pub synchronous: Synchronous,
    /// Whether each transaction changes a second database, too.
    pub attached: bool,
}

impl SqliteProof {
    /// How names of proofs look.
    pub const FORM: &str = "sqlite:JOURNAL_MODE[:SYNCHRONOUS][:attached]";

    /// The proof called `name`; `None` if the name is of another kind. Without a word for it, `synchronous` is `full`.
    ///
    /// # Errors
    /// A word that does not exist; the text lists those that do.
    pub fn named(name: &str) -> Option<Result<SqliteProof, LabError>> {
        let mut words: Vec<&str> = name.strip_prefix(PREFIX)?.split(':').collect();
        let attached = words.pop_if(|word| *word == ATTACHED).is_some();
        Some(match *words {
            [journal] => SqliteProof::of(name, journal, Synchronous::Full.name(), attached),
            [journal, synchronous] => SqliteProof::of(name, journal, synchronous, attached),
            _ => Err(LabError::Option(format!("{name}: a proof is named {}", SqliteProof::FORM))),
        })
    }

    fn of(name: &str, journal: &str, synchronous: &str, attached: bool) -> Result<SqliteProof, LabError> {
        Ok(SqliteProof {
            journal: known(name, journal, &Journal::ALL, Journal::name)?,
            synchronous: known(name, synchronous, &Synchronous::ALL, Synchronous::name)?,
            attached,
        })
    }
}

impl fmt::Display for SqliteProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}:{}", self.journal.name(), self.synchronous.name())?;
        if self.attached { write!(f, ":{ATTACHED}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_journal_mode_and_perhaps_more() {
        let wal = SqliteProof { journal: Journal::Wal, synchronous: Synchronous::Full, attached: false };
        let off = SqliteProof { journal: Journal::Off, synchronous: Synchronous::Off, attached: true };
        for (name, proof) in [("sqlite:wal", wal), ("sqlite:WAL:full", wal), ("sqlite:off:off:attached", off)] {
            assert_eq!(SqliteProof::named(name).unwrap().unwrap(), proof);
            assert_eq!(SqliteProof::named(&proof.to_string()).unwrap().unwrap(), proof);
        }
        assert!(SqliteProof::named("sqlite-gmail").is_none());
        let refused = |name| SqliteProof::named(name).unwrap().unwrap_err().to_string();
        assert!(refused("sqlite:").contains("truncate"), "{}", refused("sqlite:"));
        assert!(refused("sqlite:wal:most").contains("extra"), "{}", refused("sqlite:wal:most"));
        assert!(refused("sqlite:wal:full:two").contains(SqliteProof::FORM), "{}", refused("sqlite:wal:full:two"));
    }
}
