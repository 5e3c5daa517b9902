//! Layers: devices around a device; each is one `match` on what passes.
//!
//! [`Traced`] reports each request when it ends. [`Recorded`] keeps all requests so that crash states can be built from
//! them. [`Faulty`] makes chosen requests fail. [`Gauged`] counts how busy the device was. [`Overlay`]
//! keeps writes in memory. They stack in any order. The
//! device inside keeps the power switch.

mod fault;
mod overlay;
mod record;
mod trace;
mod usage;

pub use fault::{Fault, FaultPlan, Faulty};
pub use overlay::Overlay;
pub use record::{Recorded, RecordedEvent, Recording};
pub use trace::{TraceEvent, Traced};
pub use usage::{Gauged, Usage};

/// Passes everything that a layer does not handle on to the device inside.
macro_rules! pass_on {
    () => {
        pass_on!(except reset_counters);

        fn reset_counters(&mut self) {
            self.inner.reset_counters();
        }
    };
    (except reset_counters) => {
        fn geometry(&self) -> &crate::device::Geometry {
            self.inner.geometry()
        }

        fn attached(&mut self, bell: Option<crate::bell::Bell>) {
            self.inner.attached(bell);
        }

        fn counters(&self) -> crate::counters::Counters {
            self.inner.counters()
        }

        fn is_dark(&self) -> bool {
            self.inner.is_dark()
        }

        fn as_power_cut(&mut self) -> Option<&mut dyn crate::device::PowerCut> {
            self.inner.as_power_cut()
        }
    };
}
use pass_on;
