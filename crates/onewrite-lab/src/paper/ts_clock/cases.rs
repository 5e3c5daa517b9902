//! Cases: what a row says of TS-CLOCK beside its figure, computed from the same grids.

use onewrite_cache::PolicyKind;

use super::figures::Grid;
use super::rows::Cards;
use crate::paper::claim::{Also, Claim, ClaimTold, Counted};
use crate::paper::found::Case;
use crate::paper::verdict::{Even, Terms};

impl Claim {
    /// The policies whose cells the figure and the cases need.
    pub(super) fn all_rivals(&self) -> &'static [PolicyKind] {
        match self.also {
            Also::AheadButWriteMore(policies) => policies,
            Also::EachDevice | Also::EveryCombination => self.rivals,
        }
    }

    /// The figure with cards as FAST.
    pub(super) fn speed_up(&self, grids: &[Grid]) -> Option<f64> {
        self.figure(grids, Cards::Fast, "ts-clock").map(|figure| figure.speed_up)
    }

    /// The cases for which `grids` have data.
    pub(super) fn cases(&self, grids: &[Grid]) -> Vec<Case> {
        match self.also {
            Also::EachDevice => self.by_device(grids),
            Also::EveryCombination => grids.iter().flat_map(|grid| self.combinations(grid)).collect(),
            Also::AheadButWriteMore(policies) => self.ahead_but_write_more(policies, grids),
        }
    }

    /// On each device TS-CLOCK is ahead; a best case is ahead of each rival. Nothing where the figure says it all.
    fn by_device(&self, grids: &[Grid]) -> Vec<Case> {
        let rivals: Vec<&'static [PolicyKind]> = match self.told {
            ClaimTold::Best => self.rivals.iter().map(std::slice::from_ref).collect(),
            ClaimTold::Mean | ClaimTold::Quotient => vec![self.rivals],
        };
        if self.devices.len() * rivals.len() == 1 {
            return Vec::new();
        }
        let mut cases = Vec::new();
        for device in self.devices {
            let of_device: Vec<Grid> = grids.iter().filter(|grid| grid.device == *device).cloned().collect();
            for rivals in &rivals {
                let name = if let [rival] = rivals { format!("over {rival}") } else { String::new() };
                let named = if self.devices.len() > 1 { device } else { "" };
                let case = |figure| Case::own(name, figure, Terms::Above(Even::Percent)).on(named);
                cases.extend(Claim { rivals, ..*self }.speed_up(&of_device).map(case));
            }
        }
        cases
    }

    /// Each workload and cache size of a grid.
    fn combinations(&self, grid: &Grid) -> Vec<Case> {
        let Some(device) = self.devices.iter().find(|device| grid.device == **device) else { return Vec::new() };
        let mut sizes: Vec<u64> = grid.cells.iter().map(|cell| cell.size_bytes).collect();
        sizes.dedup();
        let case = |size: u64| {
            let cells = grid.cells.iter().filter(|cell| cell.size_bytes == size).cloned().collect();
            let figure = self.speed_up(&[Grid { cells, ..grid.clone() }])?;
            let name = format!("{} {} MiB", grid.workload, size >> 20);
            Some(Case::own(name, figure, Terms::Above(Even::Percent)).on(device))
        };
        sizes.into_iter().filter_map(case).collect()
    }

    /// Time and bytes of each policy by those of TS-CLOCK, on each device.
    fn ahead_but_write_more(&self, policies: &'static [PolicyKind], grids: &[Grid]) -> Vec<Case> {
        let asked = [
            ("time", Counted::Seconds, Terms::Below(Even::Ratio)),
            ("bytes", Counted::Writes, Terms::Above(Even::Ratio)),
        ];
        let mut cases = Vec::new();
        for device in self.devices {
            let of_device: Vec<Grid> = grids.iter().filter(|grid| grid.device == *device).cloned().collect();
            for rival in policies {
                for (what, counted, terms) in asked {
                    let claim = Claim { rivals: std::slice::from_ref(rival), counted, ..*self };
                    let case = |figure| Case::own(format!("{rival} {what}"), figure, terms).on(device);
                    cases.extend(claim.speed_up(&of_device).map(case));
                }
            }
        }
        cases
    }
}
