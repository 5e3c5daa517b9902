//! Application: what an application of SQLite does, and what it knows of its rows.

use onewrite_block::{Choices, Nanos};
use rusqlite::{Connection, Result};

use crate::driver::JobMeasure;
use crate::driver::Moment;

/// An application of SQLite: one connection, one transaction after the other.
pub(super) trait Application {
    /// Makes tables and the rows that are there before.
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<()>;

    /// Does its work, by [`Session::operation`].
    fn work(&mut self, session: &mut Session<'_>) -> Result<()>;

    /// Each table with the number of its rows.
    fn rows(&self) -> Vec<(&'static str, u64)>;
}

/// A connection, chance, and the measures.
pub(super) struct Session<'a> {
    pub(super) database: &'a Connection,
    pub(super) chance: Choices,
    pub(super) measure: JobMeasure,
    /// The clock of the run.
    pub(super) now: &'a dyn Fn() -> Nanos,
    /// When measuring began.
    pub(super) origin: Nanos,
}

impl Session<'_> {
    /// Does and measures an operation of the kind `kind`: one transaction or query.
    pub(super) fn operation<T>(
        &mut self,
        kind: &'static str,
        work: impl FnOnce(&Connection, &mut Choices) -> Result<T>,
    ) -> Result<T> {
        let begin = (self.now)();
        let done = work(self.database, &mut self.chance)?;
        self.measure.count(kind, Moment { origin: self.origin, begin, end: (self.now)() });
        Ok(done)
    }
}

/// Letters of random length between `least` and `most`.
pub(super) fn text(chance: &mut Choices, least: u64, most: u64) -> String {
    let length = least + chance.below(most - least + 1);
    (0..length).map(|_| char::from(b'a' + chance.below(26) as u8)).collect()
}

/// Random bytes, as those of a picture, of random length between `least` and `most`.
pub(super) fn picture(chance: &mut Choices, least: u64, most: u64) -> Vec<u8> {
    let length = least + chance.below(most - least + 1);
    (0..length).map(|_| chance.bits() as u8).collect()
}
