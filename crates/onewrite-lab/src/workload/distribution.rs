//! Distributions: Zipf and Pareto as in fio 3.33 (its `lib/zipf.c`), gamma as in filebench.
//!
//! Floating-point results may differ between platforms. So this file uses only operations that IEEE 754 rounds exactly,
//! and the crate `libm`. That computes `pow`, `exp`, `log` and `tan` in plain Rust, with the same bits everywhere.

use onewrite_block::Choices;

/// Largest number of terms of the zeta sum, as in fio.
const ZETA_TERMS_MAX: u64 = 10_000_000;

/// Spreads popular ranks over the range, like fio's `__hash_u64`.
const fn spread(rank: u64) -> u64 {
    rank.wrapping_mul(0x61c8_8646_80b5_83eb)
}

fn first_place(center: Option<f64>, count: u64, choices: &mut Choices) -> u64 {
    match center {
        Some(center) => (count as f64 * center) as u64,
        None => choices.bits(),
    }
}

/// Zipf's law over a range: rank n is drawn in proportion to n^-theta (Gray et al., SIGMOD 1994).
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    offset: u64,
    alpha: f64,
    eta: f64,
    zeta: f64,
    second: f64,
}

impl Zipf {
    /// A law over `count` places. The most popular place is at fraction `center`, or anywhere.
    ///
    /// Computes one power for each place, up to ten million.
    pub fn new(count: u64, theta: f64, center: Option<f64>, choices: &mut Choices) -> Zipf {
        let zeta: f64 = (1..=count.min(ZETA_TERMS_MAX)).map(|rank| libm::pow(1.0 / rank as f64, theta)).sum();
        let second = 1.0 + libm::pow(0.5, theta);
        let eta = (1.0 - libm::pow(2.0 / count as f64, 1.0 - theta)) / (1.0 - second / zeta);
        Zipf { count, offset: first_place(center, count, choices), alpha: 1.0 / (1.0 - theta), eta, zeta, second }
    }

    /// Draws a place below `count`.
    pub fn draw(&self, choices: &mut Choices) -> u64 {
        spread(self.rank(choices.fraction())).wrapping_add(self.offset) % self.count
    }

    fn rank(&self, uniform: f64) -> u64 {
        let z = uniform * self.zeta;
        if z < 1.0 {
            return 0;
        }
        if z < self.second {
            return 1;
        }
        (self.count as f64 * libm::pow(self.eta * uniform - self.eta + 1.0, self.alpha)) as u64
    }
}

/// Pareto's power law over a range.
#[derive(Clone, Debug)]
pub struct Pareto {
    count: u64,
    offset: u64,
    power: f64,
}

impl Pareto {
    /// A law over `count` places: a share `h` of them gets the share `1 - h` of the draws.
    pub fn new(count: u64, h: f64, center: Option<f64>, choices: &mut Choices) -> Pareto {
        Pareto { count, offset: first_place(center, count, choices), power: libm::log(h) / libm::log(1.0 - h) }
    }

    /// Draws a place below `count`.
    pub fn draw(&self, choices: &mut Choices) -> u64 {
        spread(self.rank(choices.fraction())).wrapping_add(self.offset) % self.count
    }

    fn rank(&self, uniform: f64) -> u64 {
        ((self.count - 1) as f64 * libm::pow(uniform, self.power)) as u64
    }
}

/// The normal distribution over a range, as the sum of twelve uniform draws (Irwin-Hall). It needs no logarithm.
#[derive(Clone, Copy, Debug)]
pub struct Normal {
    count: u64,
    deviation: f64,
    center: f64,
}

impl Normal {
    /// A law over `count` places; `center` and the standard deviation `deviation` are fractions of `count`.
    pub fn new(count: u64, deviation: f64, center: f64) -> Normal {
        Normal { count, deviation, center }
    }

    /// Draws a place below `count`; a place outside the range wraps around.
    pub fn draw(&self, choices: &mut Choices) -> u64 {
        let sum: f64 = (0..12).map(|_| choices.fraction()).sum();
        let place = self.center + self.deviation * (sum - 6.0);
        let place = place - place.floor();
        ((place * self.count as f64) as u64).min(self.count - 1)
    }
}

/// Gamma distribution with a shape above one. Source: Knuth, volume 2, 3.4.1, algorithm A, as in filebench's
/// `gamma_dist.c`.
#[derive(Clone, Copy, Debug)]
pub struct Gamma {
    shape: f64,
    scale: f64,
}

impl Gamma {
    /// A distribution with this `mean`.
    ///
    /// # Panics
    /// If `shape` is not above one.
    pub fn new(mean: f64, shape: f64) -> Gamma {
        assert!(shape > 1.0, "algorithm A needs a shape above one");
        Gamma { shape, scale: mean / shape }
    }

    /// Draws a value, rounded down.
    pub fn draw(&self, choices: &mut Choices) -> u64 {
        let width = (2.0 * self.shape - 1.0).sqrt();
        loop {
            let y = libm::tan(std::f64::consts::PI * choices.fraction());
            let x = width * y + self.shape - 1.0;
            if x > 0.0 && self.accepts(x, y, width, choices.fraction()) {
                return (self.scale * x) as u64;
            }
        }
    }

    fn accepts(&self, x: f64, y: f64, width: f64, uniform: f64) -> bool {
        let exponent = (self.shape - 1.0) * libm::log(x / (self.shape - 1.0)) - width * y;
        uniform <= (1.0 + y * y) * libm::exp(exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_ranks_fall_off_by_the_exponent() {
        let mut choices = Choices::new(1);
        let zipf = Zipf::new(10_000, 1.2, None, &mut choices);
        let mut counts = [0.0; 3];
        for _ in 0..200_000 {
            let rank = zipf.rank(choices.fraction()).min(2);
            counts[rank as usize] += 1.0;
        }
        let ratio: f64 = counts[0] / counts[1];
        assert!((ratio - 2_f64.powf(1.2)).abs() < 0.1, "{ratio}");
    }

    #[test]
    fn pareto_with_a_fifth_gives_four_fifths_to_it() {
        let mut choices = Choices::new(2);
        let pareto = Pareto::new(10_000, 0.2, None, &mut choices);
        let popular = (0..100_000).filter(|_| pareto.rank(choices.fraction()) < 2000).count();
        assert!((79_000..81_000).contains(&popular), "{popular} of 100000");
    }

    #[test]
    fn draws_stay_in_the_range() {
        let mut choices = Choices::new(5);
        let (zipf, pareto) = (Zipf::new(3, 0.5, None, &mut choices), Pareto::new(3, 0.3, Some(1.0), &mut choices));
        assert!((0..1000).all(|_| zipf.draw(&mut choices) < 3 && pareto.draw(&mut choices) < 3));
    }

    #[test]
    fn gamma_has_its_mean_and_variance() {
        let (mut choices, gamma) = (Choices::new(3), Gamma::new(16384.0, 1.5));
        let draws: Vec<f64> = (0..100_000).map(|_| gamma.draw(&mut choices) as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / draws.len() as f64;
        assert!((mean / 16384.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance / (16384.0 * 16384.0 / 1.5) - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn draws_are_the_same_everywhere() {
        let mut choices = Choices::new(4);
        let (zipf, gamma) = (Zipf::new(1000, 0.9, Some(0.5), &mut choices), Gamma::new(1e6, 1.5));
        let drawn: Vec<u64> = (0..3).flat_map(|_| [zipf.draw(&mut choices), gamma.draw(&mut choices)]).collect();
        assert_eq!(drawn, [392, 1_283_737, 762, 210_937, 762, 1_024_409]);
    }
}
