//! Tables that a fork shares with its origin, piece by piece, until one of them changes the piece.
//!
//! Its one idea: a table is a vector of reference-counted pieces. A fork copies the handles. A write copies one piece
//! if another table shares it. A piece without writes takes no memory.

use std::rc::Rc;

const PIECE_LENGTH: usize = 1024;

type Piece<T> = Rc<[T; PIECE_LENGTH]>;

/// A table with one value in all entries that were not written.
#[derive(Clone, Debug)]
pub(crate) struct CowTable<T> {
    pieces: Vec<Option<Piece<T>>>,
    length: usize,
    blank: T,
}

impl<T: Copy> CowTable<T> {
    /// `length` entries of `blank`.
    pub(crate) fn new(length: usize, blank: T) -> CowTable<T> {
        CowTable { pieces: vec![None; length.div_ceil(PIECE_LENGTH)], length, blank }
    }

    /// Number of entries.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// One entry.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> T {
        match &self.pieces[index / PIECE_LENGTH] {
            Some(piece) => piece[index % PIECE_LENGTH],
            None => self.blank,
        }
    }

    /// Changes one entry.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: T) {
        match self.pieces[index / PIECE_LENGTH].as_mut().and_then(Rc::get_mut) {
            Some(piece) => piece[index % PIECE_LENGTH] = value,
            None => self.own(index / PIECE_LENGTH)[index % PIECE_LENGTH] = value,
        }
    }

    /// A piece that no other table shares, to change.
    #[cold]
    fn own(&mut self, piece: usize) -> &mut [T; PIECE_LENGTH] {
        let blank = self.blank;
        Rc::make_mut(self.pieces[piece].get_or_insert_with(|| Rc::new([blank; PIECE_LENGTH])))
    }

    /// The first index and the entries of each written piece. The last piece may be longer than the table.
    pub(crate) fn written(&self) -> impl Iterator<Item = (usize, &[T; PIECE_LENGTH])> {
        let indexed = self.pieces.iter().enumerate();
        indexed.filter_map(|(index, piece)| Some((index * PIECE_LENGTH, &**piece.as_ref()?)))
    }
}

/// A set of small numbers, one bit each.
#[derive(Clone, Debug)]
pub(crate) struct BitSet {
    words: Vec<u64>,
}

impl BitSet {
    /// An empty set of numbers below `bound`.
    pub(crate) fn new(bound: usize) -> BitSet {
        BitSet { words: vec![0; bound.div_ceil(64)] }
    }

    /// Whether `number` is in the set.
    #[inline]
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    /// Adds `number`; false if it was there.
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) -> bool {
        let word = &mut self.words[number / 64];
        let was_out = *word >> (number % 64) & 1 == 0;
        *word |= 1 << (number % 64);
        was_out
    }

    /// Removes `number`.
    #[inline]
    pub(crate) fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_does_not_see_later_changes() {
        let mut table = CowTable::new(3000, 7);
        table.set(2999, 1);
        let fork = table.clone();
        table.set(2999, 2);
        assert_eq!((fork.get(2999), table.get(2999), table.get(0)), (1, 2, 7));
        assert_eq!(table.written().count(), 1);
    }
}
