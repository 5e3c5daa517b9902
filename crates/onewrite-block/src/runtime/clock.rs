//! Clock: the one place that knows whether time is virtual.

use std::cell::Cell;
use std::time::Instant;

use crate::units::Nanos;

/// Civil time at which every virtual run begins: 2017-06-01T00:00:00Z, the year of the dissertation.
const VIRTUAL_CIVIL_START: Nanos = Nanos::from_secs(1_496_275_200);

/// How time passes in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// It jumps to the next event; the same on every machine.
    Virtual,
    /// It is the machine's, for real disks.
    Wall {
        /// Nanoseconds since 1970 when the run begins.
        civil_start: Nanos,
    },
}

pub(super) enum Clock {
    Virtual { now: Cell<Nanos> },
    Wall { start: Instant, civil_start: Nanos },
}

impl Clock {
    pub(super) fn new(time: Time) -> Clock {
        match time {
            Time::Virtual => Clock::Virtual { now: Cell::new(Nanos::ZERO) },
            Time::Wall { civil_start } => Clock::Wall { start: wall_now(), civil_start },
        }
    }

    pub(super) fn now(&self) -> Nanos {
        match self {
            Clock::Virtual { now } => now.get(),
            Clock::Wall { start, .. } => Nanos(wall_now().duration_since(*start).as_nanos() as u64),
        }
    }

    pub(super) fn civil_now(&self) -> Nanos {
        match self {
            Clock::Virtual { now } => VIRTUAL_CIVIL_START + now.get(),
            Clock::Wall { civil_start, .. } => *civil_start + self.now(),
        }
    }

    pub(super) fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual { .. })
    }

    /// Virtual time only.
    pub(super) fn jump_to(&self, moment: Nanos) {
        match self {
            Clock::Virtual { now } => now.set(now.get().max(moment)),
            Clock::Wall { .. } => unreachable!("wall time goes by itself"),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where wall time comes in")]
fn wall_now() -> Instant {
    Instant::now()
}
