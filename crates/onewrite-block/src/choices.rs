//! Choices: the only source of chance. One seed gives one run.
//!
//! Each user of chance takes its own named stream of the run's seed. So a new user never changes what the others draw.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers: xoshiro256++ (Blackman and Vigna 2019), whose output its definition fixes.
#[derive(Clone, Debug)]
pub struct Choices {
    seed: u64,
    generator: Xoshiro256PlusPlus,
}

impl Choices {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Choices {
        Choices { seed, generator: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// An independent stream. Only this stream's seed, `name` and `index` fix it; earlier draws do not matter.
    pub fn stream(&self, name: &str, index: u64) -> Choices {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in self.seed.to_le_bytes().into_iter().chain(name.bytes()).chain(index.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Choices::new(hash)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number below `bound`; each is equally likely (to within `bound` / 2⁶⁴).
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing to choose from");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// An index below `length`.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True `numerator` times in `denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A fraction in [0, 1) with 53 random bits.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_does_not_depend_on_what_was_drawn() {
        let mut a = Choices::new(1);
        let before = a.stream("tasks", 3).bits();
        a.bits();
        assert_eq!(a.stream("tasks", 3).bits(), before);
        assert_ne!(a.stream("tasks", 4).bits(), before);
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // SplitMix64 seeding of xoshiro256++ with seed 0, as the reference implementation gives it.
        assert_eq!(Choices::new(0).bits(), 0x53175d61490b23df);
    }

    #[test]
    fn below_stays_below() {
        let mut choices = Choices::new(9);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[choices.index(7)] += 1);
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }
}
