//! Locks: SQLite's five levels for the openers of one file (its `os.h`). One process has the image, so a table is all.
//!
//! # Invariants
//! - At most one opener has more than SHARED.
//! - Beside EXCLUSIVE nobody has a lock; beside PENDING nobody gets one.

/// Who opened a file. Numbers are never given twice.
pub(crate) type Opener = u64;

/// What an opener may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing.
    #[default]
    None,
    /// Read.
    Shared,
    /// Read, and change the cache; others read.
    Reserved,
    /// As reserved; nobody new may read.
    Pending,
    /// Write.
    Exclusive,
}

/// Others have locks that are in the way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// The locks of one file.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Vec<(Opener, Level)>,
}

impl Locks {
    /// What `opener` has.
    pub(crate) fn level(&self, opener: Opener) -> Level {
        self.held.iter().find(|(who, _)| *who == opener).map_or(Level::None, |(_, level)| *level)
    }

    /// Raises the lock of `opener` to `level`. Whoever waits for readers to end keeps PENDING meanwhile.
    pub(crate) fn raise(&mut self, opener: Opener, level: Level) -> Result<(), Busy> {
        if self.level(opener) >= level {
            return Ok(());
        }
        let others = self.most_of_others(opener);
        match level {
            Level::None => (),
            Level::Shared if others >= Level::Pending => return Err(Busy),
            Level::Shared => self.set(opener, level),
            _ if others >= Level::Reserved => return Err(Busy),
            Level::Exclusive if others >= Level::Shared => {
                self.set(opener, Level::Pending);
                return Err(Busy);
            }
            _ => self.set(opener, level),
        }
        Ok(())
    }

    /// Lowers the lock of `opener` to `level`.
    pub(crate) fn lower(&mut self, opener: Opener, level: Level) {
        if self.level(opener) > level {
            self.set(opener, level);
        }
    }

    /// Whether anybody may be about to write.
    pub(crate) fn is_reserved(&self) -> bool {
        self.held.iter().any(|(_, level)| *level >= Level::Reserved)
    }

    fn most_of_others(&self, opener: Opener) -> Level {
        self.held.iter().filter(|(who, _)| *who != opener).map(|(_, level)| *level).max().unwrap_or_default()
    }

    fn set(&mut self, opener: Opener, level: Level) {
        self.held.retain(|(who, _)| *who != opener);
        if level > Level::None {
            self.held.push((opener, level));
        }
        self.check();
    }

    fn check(&self) {
        let at_least = |level| self.held.iter().filter(|(_, held)| *held >= level).count();
        assert!(at_least(Level::Reserved) <= 1, "two openers may write: {self:?}");
        assert!(at_least(Level::Exclusive) == 0 || self.held.len() == 1, "somebody beside a writer: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_go_on_beside_a_reservation_and_none_come_while_it_waits() {
        let mut locks = Locks::default();
        assert_eq!((locks.raise(1, Level::Shared), locks.raise(2, Level::Shared)), (Ok(()), Ok(())));
        assert_eq!(locks.raise(1, Level::Reserved), Ok(()));
        assert_eq!((locks.raise(2, Level::Reserved), locks.raise(3, Level::Shared)), (Err(Busy), Ok(())));
        assert_eq!((locks.raise(1, Level::Exclusive), locks.level(1)), (Err(Busy), Level::Pending));
        assert_eq!(locks.raise(4, Level::Shared), Err(Busy));
        locks.lower(2, Level::None);
        locks.lower(3, Level::None);
        assert_eq!((locks.raise(1, Level::Exclusive), locks.is_reserved()), (Ok(()), true));
        assert_eq!(locks.raise(2, Level::Shared), Err(Busy));
        locks.lower(1, Level::Shared);
        assert_eq!((locks.raise(2, Level::Shared), locks.is_reserved()), (Ok(()), false));
    }

    #[test]
    fn two_that_recover_at_once_do_not_both_write() {
        let mut locks = Locks::default();
        locks.raise(1, Level::Shared).unwrap();
        locks.raise(2, Level::Shared).unwrap();
        assert_eq!(locks.raise(1, Level::Exclusive), Err(Busy));
        assert_eq!(locks.raise(2, Level::Exclusive), Err(Busy));
        assert_eq!((locks.level(1), locks.level(2)), (Level::Pending, Level::Shared));
    }
}
