//! Timeline: finds the next event among a fixed set of sources.
//!
//! Its one idea: each source has at most one future event. So the queue is a winner tree over the sources, and nothing
//! is ever cancelled. Of two events at one moment the source with the lower number comes first, on every machine.

/// A moment that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// The next event of each source.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    moments: Vec<u64>,
    /// `winners[node]` is the source that wins below the node. The leaves are the second half.
    winners: Vec<u16>,
}

impl Timeline {
    /// `sources` sources, none with an event.
    pub(crate) fn new(sources: usize) -> Timeline {
        let leaves = sources.next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for source in 0..leaves {
            winners[leaves + source] = source as u16;
        }
        let mut timeline = Timeline { moments: vec![NEVER; leaves], winners };
        (1..leaves).rev().for_each(|node| timeline.play(node));
        timeline
    }

    #[inline]
    fn play(&mut self, node: usize) {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        let left_wins = self.moments[left as usize] <= self.moments[right as usize];
        self.winners[node] = if left_wins { left } else { right };
    }

    /// Sets the moment of a source's event; [`NEVER`] for none.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, moment: u64) {
        self.moments[source] = moment;
        let mut node = (self.moments.len() + source) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
    }

    /// The earliest event: its moment and its source.
    #[inline]
    pub(crate) fn next(&self) -> (u64, usize) {
        let source = self.winners[if self.moments.len() > 1 { 1 } else { 0 }] as usize;
        (self.moments[source], source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_ties_go_to_the_lower_number() {
        let mut timeline = Timeline::new(5);
        assert_eq!(timeline.next().0, NEVER);
        timeline.set(4, 10);
        timeline.set(3, 10);
        timeline.set(0, 11);
        assert_eq!(timeline.next(), (10, 3));
        timeline.set(3, NEVER);
        assert_eq!(timeline.next(), (10, 4));
        timeline.set(4, 12);
        assert_eq!(timeline.next(), (11, 0));
    }

    #[test]
    fn a_single_source_is_a_timeline_too() {
        let mut timeline = Timeline::new(1);
        timeline.set(0, 3);
        assert_eq!(timeline.next(), (3, 0));
    }
}
