//! Cores: the modelled processors of the host. Work goes to the core that is free first; nothing interrupts it.

use crate::units::Nanos;

pub(super) struct Cores {
    busy_until: Vec<Nanos>,
}

impl Cores {
    pub(super) fn new(count: usize) -> Cores {
        Cores { busy_until: vec![Nanos::ZERO; count.max(1)] }
    }

    /// Books `cost` on the core that is free first; returns when the work will be done.
    pub(super) fn occupy(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        let core = self.busy_until.iter_mut().min().expect("there is at least one core");
        *core = now.max(*core) + cost;
        *core
    }
}
