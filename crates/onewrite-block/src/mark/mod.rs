//! Mark: rare situations, named where the code meets them, so that a search can tell which of them it met.
//!
//! ```
//! use onewrite_block::reached;
//! # let free = 0;
//! reached!("log full to its last block", free == 0);
//! ```
//!
//! Its one idea: a mark is a name in one table ([`ALL`]), known to the compiler. Where nobody listens, a mark costs a
//! load and a branch that is never taken, and its condition is not looked at. A [`Listener`] makes the marks that its
//! thread reaches come together in a set of bits. Nothing of this changes what a run does. See docs/marks.md and
//! decision 090.
//!
//! # Invariants
//! - A name stands at one place of the sources. An unknown name does not compile.
//! - The set is that of a thread, but no answer of a run depends on it: a core that other threads carry on (decision
//!   088) writes to their sets, and nobody listens there. An explorer keeps each run on its own thread.

mod names;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use names::{ALL, Room};

/// Notes that this place was reached, with the condition if there is one. The condition has no effects.
#[macro_export]
macro_rules! reached {
    ($name:literal) => {
        if $crate::mark::is_heard() {
            const NUMBER: usize = $crate::mark::number($name);
            $crate::mark::note(NUMBER);
        }
    };
    ($name:literal, $when:expr) => {
        if $crate::mark::is_heard() && $when {
            const NUMBER: usize = $crate::mark::number($name);
            $crate::mark::note(NUMBER);
        }
    };
}

const WORDS: usize = ALL.len().div_ceil(64);

/// A set of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks([u64; WORDS]);

impl Marks {
    /// No mark.
    pub const NONE: Marks = Marks([0; WORDS]);

    const fn with(mut self, number: usize) -> Marks {
        self.0[number / 64] |= 1 << (number % 64);
        self
    }

    /// Whether the mark of this number is in the set.
    pub const fn contains(&self, number: usize) -> bool {
        self.0[number / 64] & 1 << (number % 64) != 0
    }

    /// The marks of both sets.
    pub fn and(self, other: Marks) -> Marks {
        Marks(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Numbers of the marks, in the order of [`ALL`].
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..ALL.len()).filter(|number| self.contains(*number))
    }
}

impl FromIterator<Marks> for Marks {
    fn from_iter<I: IntoIterator<Item = Marks>>(sets: I) -> Marks {
        sets.into_iter().fold(Marks::NONE, Marks::and)
    }
}

/// Listeners of all threads.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static REACHED: Cell<Marks> = const { Cell::new(Marks::NONE) };
}

/// While it lives, marks that its thread reaches are noted.
#[derive(Debug)]
pub struct Listener(PhantomData<*const ()>);

impl Listener {
    /// Listens from now on.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Listener {
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        Listener(PhantomData)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether anybody listens, on any thread.
#[inline]
pub fn is_heard() -> bool {
    LISTENERS.load(Ordering::Relaxed) != 0
}

/// Adds the mark of this number to the set of this thread. For [`reached!`](crate::reached).
#[cold]
pub fn note(number: usize) {
    REACHED.set(REACHED.get().with(number));
}

/// The marks that this thread reached since they were last taken.
pub fn take() -> Marks {
    if is_heard() { REACHED.take() } else { Marks::NONE }
}

/// The same, left where they are.
pub fn so_far() -> Marks {
    REACHED.get()
}

/// Does `work` and returns the marks that it reached, apart from those of before.
pub fn during<T>(work: impl FnOnce() -> T) -> (T, Marks) {
    let before = take();
    let outcome = work();
    (outcome, REACHED.replace(before))
}

/// The place of `name` in [`ALL`]; does not compile if it has none.
pub const fn number(name: &str) -> usize {
    let mut number = 0;
    while number < ALL.len() {
        if is_same(ALL[number].1.as_bytes(), name.as_bytes()) {
            return number;
        }
        number += 1;
    }
    panic!("this mark is not in the table; add it to onewrite-block/src/mark/names.rs")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Listeners are counted for all threads: one test listens at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_mark_is_heard_only_while_somebody_listens() {
        let _alone = ALONE.lock().expect("no test panics");
        let mut looked = 0;
        let mut reach = |holds: bool| {
            reached!("log full to its last block", {
                looked += 1;
                holds
            });
        };
        reach(true);
        let listener = Listener::new();
        assert_eq!(take(), Marks::NONE);
        reach(false);
        assert_eq!(so_far(), Marks::NONE);
        reach(true);
        let full = number("log full to its last block");
        assert_eq!(so_far().numbers().collect::<Vec<_>>(), [full]);
        drop(listener);
        assert_eq!(looked, 2, "the condition is looked at only while somebody listens");
    }

    #[test]
    fn work_is_told_apart_from_what_was_before() {
        let _alone = ALONE.lock().expect("no test panics");
        let mut sets = [Marks::NONE.with(1), Marks::NONE.with(ALL.len() - 1)];
        REACHED.set(sets[0]);
        let listener = Listener::new();
        let ((), during) = during(|| note(ALL.len() - 1));
        assert_eq!([take(), during], sets);
        sets.reverse();
        assert_eq!(sets.into_iter().collect::<Marks>().numbers().collect::<Vec<_>>(), [1, ALL.len() - 1]);
        drop(listener);
    }
}
