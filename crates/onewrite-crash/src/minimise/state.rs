//! State: makes the state of a violation smaller: fewer cuts, fewer torn units, fewer lost ones.
//!
//! A cut inside a recovery is left out where the state that it follows breaks the promise, too. Then each cut, the last
//! one first, gets its torn unit whole, or sector by sector, and its lost units one by one.

use super::Search;
use crate::crash::replay;
use crate::error::CrashError;
use crate::plan::CrashPlan;
use crate::state_id::{Cut, StateId};
use crate::subject::Subject;

/// What came of a smaller state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// It breaks the promise, and is the best from now on.
    Breaks,
    Keeps,
    /// There is no such state, or nothing left to spend.
    Missing,
}

impl<S: Subject + Clone> Search<'_, S> {
    pub(super) fn shrink_state(&mut self) -> Result<(), CrashError> {
        self.leave_cuts_out()?;
        for number in (0..self.cuts()?.len()).rev() {
            self.mend(number)?;
            self.put_units_back(number)?;
        }
        Ok(())
    }

    /// Leaves out cuts inside recovery: all but the first, then all but the first two.
    fn leave_cuts_out(&mut self) -> Result<(), CrashError> {
        let is_inside = !matches!(self.best.state.parse()?, StateId::Door(_));
        let cuts = self.cuts()?;
        for count in usize::from(!is_inside)..cuts.len() {
            if self.try_cuts(cuts[..count].to_vec())? == Tried::Breaks {
                break;
            }
        }
        Ok(())
    }

    /// Makes a torn unit whole; if that heals the state, makes as many of its sectors new as possible.
    fn mend(&mut self, number: usize) -> Result<(), CrashError> {
        let cuts = self.cuts()?;
        let Some((unit, _)) = cuts[number].choice.torn else { return Ok(()) };
        if self.try_changed(number, |cut| cut.choice.torn = None)? == Tried::Breaks {
            return Ok(());
        }
        for sector in 0..u8::BITS {
            let new = 1 << sector;
            let is_old = self.cuts()?[number].choice.torn.is_some_and(|(_, sectors)| (sectors | new) < u8::MAX);
            if is_old {
                let more = |cut: &mut Cut| cut.choice.torn = cut.choice.torn.map(|(_, sectors)| (unit, sectors | new));
                self.try_changed(number, more)?;
            }
        }
        Ok(())
    }

    /// Puts lost units back, one by one, until there is none with the next number.
    fn put_units_back(&mut self, number: usize) -> Result<(), CrashError> {
        for unit in 0.. {
            let kept = self.cuts()?.swap_remove(number).choice.kept;
            let Err(place) = kept.binary_search(&unit) else { continue };
            if self.try_changed(number, |cut| cut.choice.kept.insert(place, unit))? == Tried::Missing {
                break;
            }
        }
        Ok(())
    }

    /// The cuts at the door of a disk that lead to the best state.
    fn cuts(&self) -> Result<Vec<Cut>, CrashError> {
        Ok(match self.best.state.parse()? {
            StateId::Mounted => Vec::new(),
            StateId::Door(cuts) | StateId::Device { then: cuts, .. } | StateId::Fault { then: cuts, .. } => cuts,
        })
    }

    fn try_changed(&mut self, number: usize, change: impl FnOnce(&mut Cut)) -> Result<Tried, CrashError> {
        let mut cuts = self.cuts()?;
        let before = cuts.clone();
        change(&mut cuts[number]);
        if cuts == before { Ok(Tried::Keeps) } else { self.try_cuts(cuts) }
    }

    /// Keeps the state with these cuts if it breaks the same promise.
    fn try_cuts(&mut self, cuts: Vec<Cut>) -> Result<Tried, CrashError> {
        if self.left == 0 {
            self.is_bounded = true;
            return Ok(Tried::Missing);
        }
        self.watch_left();
        let state = match self.best.state.parse()? {
            StateId::Device { cut, .. } => StateId::Device { cut, then: cuts },
            StateId::Fault { fault, .. } => StateId::Fault { fault, then: cuts },
            StateId::Door(_) => StateId::Door(cuts),
            StateId::Mounted => StateId::Mounted,
        };
        let plan = CrashPlan { device: self.device, ..CrashPlan::new(&self.options) };
        let found = match replay(self.subject.clone(), &self.workload(), &state.to_string(), plan) {
            Ok(report) => self.spend(report),
            Err(CrashError::State { .. }) => return Ok(Tried::Missing),
            Err(error) => return Err(error),
        };
        let Some(found) = found else { return Ok(Tried::Keeps) };
        self.best = found;
        Ok(Tried::Breaks)
    }
}
