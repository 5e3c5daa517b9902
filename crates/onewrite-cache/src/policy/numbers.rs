//! Numbers: finds the record of a number. The records store the numbers.
//!
//! Open addressing with linear probing, at most half full, without tombstones: a removal shifts the following entries
//! back. Four bytes an entry. The caller passes a function from a record to its number.
//!
//! Invariant: every record is between its home entry and the next empty one.

use super::links::NONE;

/// Multiplier of the hash: 2⁶⁴ divided by the golden ratio (Knuth, The Art of Computer Programming 3, §6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Entries of the smallest table, as a power of two.
const LEAST_BITS: u32 = 4;

/// A number's hash of `bits` bits, at least one.
#[inline]
pub(super) fn hash(number: u64, bits: u32) -> usize {
    (number.wrapping_mul(GOLDEN) >> (64 - bits)) as usize
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    entries: Vec<u32>,
    length: usize,
}

impl Numbers {
    fn home(&self, number: u64) -> usize {
        hash(number, self.entries.len().trailing_zeros())
    }

    fn after(&self, entry: usize) -> usize {
        (entry + 1) & (self.entries.len() - 1)
    }

    /// The record of a number, if it is in.
    #[inline]
    pub(super) fn find(&self, number: u64, number_of: impl Fn(u32) -> u64) -> Option<u32> {
        if self.entries.is_empty() {
            return None;
        }
        let mut entry = self.home(number);
        loop {
            match self.entries[entry] {
                NONE => return None,
                record if number_of(record) == number => return Some(record),
                _ => entry = self.after(entry),
            }
        }
    }

    /// Adds a record whose number is not in the table.
    pub(super) fn insert(&mut self, record: u32, number_of: impl Fn(u32) -> u64) {
        self.length += 1;
        if 2 * self.length > self.entries.len() {
            let larger = (2 * self.entries.len()).max(1 << LEAST_BITS);
            let old = std::mem::replace(&mut self.entries, vec![NONE; larger]);
            old.into_iter().filter(|record| *record != NONE).for_each(|record| self.put(record, &number_of));
        }
        self.put(record, &number_of);
    }

    fn put(&mut self, record: u32, number_of: &impl Fn(u32) -> u64) {
        let mut entry = self.home(number_of(record));
        while self.entries[entry] != NONE {
            entry = self.after(entry);
        }
        self.entries[entry] = record;
    }

    /// Removes a record and moves the following entries that a search would miss otherwise.
    pub(super) fn remove(&mut self, record: u32, number_of: impl Fn(u32) -> u64) {
        self.length -= 1;
        let mask = self.entries.len() - 1;
        let mut hole = self.home(number_of(record));
        while self.entries[hole] != record {
            hole = self.after(hole);
        }
        let mut entry = hole;
        loop {
            entry = self.after(entry);
            let found = self.entries[entry];
            if found == NONE {
                break;
            }
            let from_home = entry.wrapping_sub(self.home(number_of(found))) & mask;
            if from_home >= (entry.wrapping_sub(hole) & mask) {
                self.entries[hole] = found;
                hole = entry;
            }
        }
        self.entries[hole] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onewrite_block::Choices;

    use super::*;

    #[test]
    fn it_equals_a_map() {
        let mut choices = Choices::new(1);
        let (mut numbers, mut model) = (Numbers::default(), BTreeMap::<u64, u32>::new());
        let mut number_of: Vec<u64> = Vec::new();
        for _ in 0..20_000 {
            let number = choices.below(300) << (choices.below(3) * 20);
            assert_eq!(numbers.find(number, |record| number_of[record as usize]), model.get(&number).copied());
            match model.remove(&number) {
                Some(record) => numbers.remove(record, |record| number_of[record as usize]),
                None => {
                    let record = number_of.len() as u32;
                    number_of.push(number);
                    model.insert(number, record);
                    numbers.insert(record, |record| number_of[record as usize]);
                }
            }
        }
    }
}
